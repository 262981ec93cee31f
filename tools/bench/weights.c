#include "tools/bench/bench.h"

#include "data/base/format.h"
#include "data/base/json.h"
#include "data/base/rng.h"
#include "data/base/version.h"
#include "train/presets.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const types[] = {"f32", "bf16", "q8_0"};
enum { TYPES = sizeof types / sizeof *types, TURNS = 3 };

/* One type of weights, and the best of its turns. */
struct weighed {
    struct model    packed;             // shares all but what model_pack makes
    double          bytes;              // of weights that a token reads
    struct decoding best;
};

static enum fail open_model(struct model *m, const struct shape *s, struct why *why)
{
    struct config c;
    enum fail     err = shape_config(&c, s, why);

    if (err || (err = model_open(m, &c, why)))
        return err;
    model_init(m, 1);
    return FAIL_NONE;
}

static enum fail pack_types(struct weighed *w, const struct model *m, struct why *why)
{
    enum fail err = FAIL_NONE;

    for (int i = 0; i < TYPES && !err; i++) {
        w[i].packed = *m;
        err = model_pack(&w[i].packed, types[i], why);
        w[i].bytes = weights_read(&w[i].packed);
    }
    return err;
}

static void take_turn(struct readers *r, const int32_t *tokens, struct weighed *w)
{
    struct decoding now;

    r->one.model = r->together.model = &w->packed;
    now = bench_decode(r, tokens);
    w->best.prefill = fmax(w->best.prefill, now.prefill);
    w->best.one = fmax(w->best.one, now.one);
    w->best.together = fmax(w->best.together, now.together);
}

static void print_rows(const struct weighed *w, double read_gbs)
{
    printf("reading %.1f GB/s; tokens a second, best of %d turns\n\n"
           "%-8s %10s %10s %10s %10s %8s %10s\n", read_gbs, TURNS, "weights",
           "a token", "prefill", "decoding", "of read", "to f32", "8 at once");
    for (int i = 0; i < TYPES; i++) {
        char bytes[16];

        format_bytes(bytes, sizeof bytes, w[i].bytes);
        printf("%-8s %10s %10.0f %10.1f %10.2f %8.2f %10.0f\n", types[i], bytes,
               w[i].best.prefill, w[i].best.one,
               w[i].best.one * w[i].bytes / 1e9 / read_gbs,
               w[i].best.one / w[0].best.one, w[i].best.together);
    }
    printf("\n");
}

static void print_lines(const struct shape *s, const struct weighed *w, double read_gbs)
{
    for (int i = 0; i < TYPES; i++) {
        json_t *j = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:I}", "arch",
                              s->arch, "weights", types[i], "layers", s->layers, "width",
                              s->width, "heads", s->heads, "vocab", s->vocab, "context",
                              s->context, "threads", omp_get_max_threads(),
                              "weight_bytes", (json_int_t)w[i].bytes);

        json_object_set_new(j, "read_gbs", json_from_double(read_gbs));
        json_object_set_new(j, "prefill_tok_s", json_from_double(w[i].best.prefill));
        json_object_set_new(j, "decode_tok_s", json_from_double(w[i].best.one));
        json_object_set_new(j, "decode_together_tok_s",
                            json_from_double(w[i].best.together));
        json_object_set_new(j, "build", json_string(version_line));
        json_line(stdout, j, JSON_REAL_PRECISION(6));
    }
}

enum fail bench_weights(const struct shape *s, bool json, struct why *why)
{
    struct model   m = {0};
    struct readers r = {0};
    struct weighed w[TYPES] = {0};
    struct rng     draw = rng_open(1, RNG_TEST, 0);
    int32_t        tokens[BENCH_PREFILL];
    enum fail      err = open_model(&m, s, why);
    double         gbs;

    if (!err && !(err = pack_types(w, &m, why)))
        err = readers_open(&r, &m, why);

    for (int i = 0; i < BENCH_PREFILL; i++)
        tokens[i] = (int32_t)rng_below(&draw, s->vocab);
    for (int i = 0; i < TURNS * TYPES && !err; i++)
        take_turn(&r, tokens, &w[i % TYPES]);
    readers_close(&r);
    for (int i = 0; i < TYPES; i++)
        model_unpack(&w[i].packed);
    model_close(&m);
    if (err)
        return err;
    gbs = read_bandwidth();
    if (json)
        print_lines(s, w, gbs);
    else
        print_rows(w, gbs);
    fflush(stdout);
    return FAIL_NONE;
}
