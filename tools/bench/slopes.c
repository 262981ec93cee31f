/* Cost against length, for every mixer or one: microseconds per token of a training step
 * whose number of tokens stays the same while sequences grow, and of decoding at several
 * positions. A linear cost is a flat row. */
#include "tools/bench/bench.h"

#include "data/base/clock.h"
#include "data/base/format.h"
#include "infer/session.h"

#include <stdio.h>

static const int lengths[] = {512, 1024, 2048, 4096, 8192, 16384};
static const int places[] = {512, 4096, 16384};

enum {
    LENGTHS = sizeof lengths / sizeof *lengths,
    PLACES = sizeof places / sizeof *places,
    TOKENS = 16384,             // of a step
};

static struct shape shape_of(const char *arch, int T)
{
    return (struct shape){NULL, arch, 2, 128, 4, 512, T, TOKENS / T, 4};
}

/* Microseconds per token of the best of a few steps. */
static enum fail step_cost(const char *arch, int T, double *us, struct why *why)
{
    struct shape s = shape_of(arch, T);
    struct rig   r;
    enum fail    err = rig_open(&r, &s, why);

    for (int i = 0; !err && i < 1 + s.steps; i++) {
        double t = rig_step(&r, NULL) * 1e6 / TOKENS;

        *us = i <= 1 || t < *us ? t : *us;
    }
    rig_close(&r);
    return err;
}

/* Microseconds per token after each of the positions. */
static void decode_costs(struct session *d, const int32_t *tokens, double *us)
{
    enum { AT_ONCE = 32, ROUNDS = 3 };
    long at = 0;

    for (int i = 0; i < PLACES; i++) {
        session_prompt(d, tokens, places[i] - at);
        for (int k = 0; k < ROUNDS; k++) {
            double start = wall_seconds(), t;

            for (int j = 0; j < AT_ONCE; j++)
                session_extend(d, tokens + j);
            t = (wall_seconds() - start) * 1e6 / AT_ONCE;
            us[i] = k == 0 || t < us[i] ? t : us[i];
        }
        at = places[i] + ROUNDS * AT_ONCE;
    }
}

static enum fail decode_cost(const char *arch, double *us, double *state, struct why *why)
{
    struct shape   s = shape_of(arch, TOKENS);
    struct rig     r;
    struct session d = {0};
    enum fail      err = rig_open(&r, &s, why);

    if (!err && !(err = session_open(&d, &r.model, 1, why))) {
        for (long i = 0; i < r.n_tokens; i++)
            r.tokens[i] = (int32_t)(i * 7919 % s.vocab);
        decode_costs(&d, r.tokens, us);
        *state = (double)model_state_bytes(&r.model);
    }
    session_close(&d);
    rig_close(&r);
    return err;
}

static enum fail print_arch(const char *arch, struct why *why)
{
    double us, least = 0, most = 0, decode[PLACES], bytes = 0;
    char   state[16];
    enum fail err;

    printf("%-20s", arch);
    for (int i = 0; i < LENGTHS; i++) {
        if ((err = step_cost(arch, lengths[i], &us, why)))
            return err;
        least = i == 0 || us < least ? us : least;
        most = us > most ? us : most;
        printf(" %6.1f", us);
        fflush(stdout);
    }
    if ((err = decode_cost(arch, decode, &bytes, why)))
        return err;
    printf(" %6.2f  ", most / least);
    for (int i = 0; i < PLACES; i++)
        printf(" %6.0f", decode[i]);
    format_bytes(state, sizeof state, bytes);
    printf(" %9s\n", state);
    fflush(stdout);
    return FAIL_NONE;
}

enum fail bench_slopes(const char *arch, struct why *why)
{
    enum fail err = FAIL_NONE;

    printf("2 layers, width 128, 4 heads, vocabulary 512; %d tokens a step\n\n"
           "%-20s %41s %6s   %20s\n%-20s", TOKENS, "",
           "microseconds a token trained, at T =", "most /",
           "decoded, at position", "arch");
    for (int i = 0; i < LENGTHS; i++)
        printf(" %6d", lengths[i]);
    printf(" %6s  ", "least");
    for (int i = 0; i < PLACES; i++)
        printf(" %6d", places[i]);
    printf(" %9s\n", "state");
    if (arch)
        return print_arch(arch, why);
    for (int i = 0; i < n_mixers && !err; i++)
        err = print_arch(mixers[i]->name, why);
    return err;
}
