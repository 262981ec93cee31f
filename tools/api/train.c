/* weft_train: a new run. */
#include "data/base/clock.h"
#include "data/dataset.h"
#include "tools/api/api.h"
#include "train/presets.h"
#include "train/setup.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SET = 128 };

/* What the options say. */
struct wish {
    const char *out, *size, *arch;
    double      seconds, tokens;
    const char *set[2 * MOST_SET];      // key, value
    char        value[MOST_SET][64];
    int         n_set;
    bool        steps;
};

struct teller {
    const struct setup *setup;
    int (*on_step)(void *user, const weft_step_info *step);
    void *user;
};

static void tell_step(void *user, const struct log_line *line)
{
    struct teller *t = user;
    weft_step_info i = {
        .step = line->tally->step,
        .steps = setup_steps(t->setup),
        .tokens = (double)line->tally->tokens,
        .loss = line->step->loss,
        .lr = line->step->lr,
        .val_loss = line->val_loss,
        .val_bpb = line->val_bpb,
        .tokens_per_second = line->tok_s,
    };

    if (t->on_step && t->on_step(t->user, &i))
        interrupted = 1;
}

/* ---- options ---- */

static int take_setting(struct wish *w, const char *key, const json_t *value)
{
    if (w->n_set == MOST_SET)
        return api_fail(FAIL_USAGE, "options: more than %d settings", MOST_SET);
    char *text = w->value[w->n_set];

    if (json_is_string(value))
        w->set[2 * w->n_set + 1] = json_string_value(value);
    else if (json_is_integer(value))        // it may have more digits than a double
        snprintf(text, sizeof w->value[0], "%" JSON_INTEGER_FORMAT,
                 json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, sizeof w->value[0], "%.17g", json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(text, sizeof w->value[0], "%d", json_is_true(value));
    else
        return api_fail(FAIL_USAGE, "options: %s must be a number or a string", key);
    if (!json_is_string(value))
        w->set[2 * w->n_set + 1] = text;
    w->set[2 * w->n_set++] = key;
    w->steps |= !strcmp(key, "steps");
    return 0;
}

static int read_wish(struct wish *w, json_t *j)
{
    static const char *const falls[] = {"schedule", "lr_end", NULL};
    struct refusal why = {0};
    const char    *key;
    json_t        *value;
    size_t         len;
    int            err = 0;

    if (!asked_string(j, "out", &w->out, &len, &why) ||
        !asked_string(j, "size", &w->size, &len, &why) ||
        !asked_string(j, "arch", &w->arch, &len, &why) ||
        !asked_real(j, "for", 0, 1e9, &w->seconds, &why) ||
        !asked_real(j, "tokens", 0, 1e18, &w->tokens, &why))
        return api_fail(FAIL_USAGE, "options: %s", why.message);
    json_object_foreach(j, key, value)
        if (!err && strcmp(key, "input") && strcmp(key, "out") && strcmp(key, "size") &&
            strcmp(key, "arch") && strcmp(key, "for") && strcmp(key, "tokens"))
            err = take_setting(w, key, value);
    if (!err && !w->out)
        err = api_fail(FAIL_USAGE, "options: out is missing: the directory of the run");
    if (!err && w->steps + (w->seconds > 0) + (w->tokens > 0) != 1)
        err = api_fail(FAIL_USAGE, "options: give one of steps, for and tokens");
    for (const char *const *k = falls; !err && w->seconds > 0 && *k; k++)
        if (json_object_get(j, *k))
            err = api_fail(FAIL_USAGE, "options: %s goes with steps or tokens; with for "
                           "the clock decides when the learning rate falls", *k);
    return err;
}

/* ---- the run ---- */

static enum fail add_input(struct run *r, const json_t *path, struct why *why)
{
    return json_is_string(path)
               ? run_add_input(r, json_string_value(path), why)
               : fail(why, FAIL_USAGE,
                      "options: input must be a path, or a list of them");
}

static enum fail add_inputs(struct run *r, const json_t *input, struct why *why)
{
    size_t    i;
    json_t   *path;
    enum fail err = json_array_size(input) ? 0 : add_input(r, input, why);

    json_array_foreach(input, i, path)
        if (!err)
            err = add_input(r, path, why);
    if (!err && atomic_load(&api_computed) && !dataset_is(r->input[0]))
        err = fail(why, FAIL_USAGE,
                   "%s: text is tokenized by a child process, and this one has computed "
                   "already; train first, or give a dataset (weft data build)",
                   r->input[0]);
    return err;
}

static enum fail settle(struct run *r, const struct wish *w, struct why *why)
{
    struct sources from = {.size = w->size, .arch = w->arch,
                           .set = (const char **)w->set, .n_set = w->n_set};
    enum fail      err = presets_apply(&r->cfg, &from, why);

    if (!err)
        err = config_resolve(&r->cfg, why);
    if (!err)
        err = config_check_start(&r->cfg, why);
    if (err)
        return err;
    r->budget = w->tokens > 0    ? BUDGET_TOKENS
                : w->seconds > 0 ? BUDGET_FOR
                                 : BUDGET_STEPS;
    r->amount = w->tokens > 0 ? w->tokens : w->seconds;
    if (w->steps && r->cfg.steps == 0)
        return fail(why, FAIL_USAGE, "options: steps must be at least 1");
    if (!w->steps)
        r->cfg.steps = 0;
    if (r->cfg.threads == 0)
        r->cfg.threads = omp_get_max_threads();
    omp_set_num_threads(r->cfg.threads);
    if ((size_t)snprintf(r->dir, sizeof r->dir, "%s", w->out) >= sizeof r->dir)
        err = fail(why, FAIL_USAGE, "%.80s...: the path is too long", w->out);
    return err;
}

static enum fail run_it(struct setup *s, const struct wish *w, const json_t *input,
                        struct why *why)
{
    double    nats, bits;
    enum fail err = settle(&s->run, w, why);

    if (!err)
        err = add_inputs(&s->run, input, why);
    if (!err)
        err = run_create(&s->run, why);
    if (err)
        return err;
    err = setup_open(s, why);
    atomic_store(&api_computed, true);
    if (err && err != FAIL_INTERRUPTED)
        run_discard(&s->run);
    if (!err && !setup_finished(s))
        err = setup_train(s, &nats, &bits, why);
    return err;
}

WEFT_EXPORT int weft_train(const char *options,
                           int (*on_step)(void *user, const weft_step_info *step),
                           void *user)
{
    struct setup  s = {.run.lock = -1, .saved = -1};
    struct teller t = {&s, on_step, user};
    struct wish  *w = calloc(1, sizeof *w);
    json_t       *j = api_options(options);
    struct why    why = {"stopped"};
    int           err = !j ? FAIL_USAGE : w ? read_wish(w, j) : FAIL_MEMORY;

    api_take_threads();
    int threads = omp_get_max_threads();

    s.watch = (struct watch){.step = tell_step, .user = &t};
    if (!err) {
        interrupted = 0;
        err = run_it(&s, w, json_object_get(j, "input"), &why);
        interrupted = 0;
        if (err)
            api_fail(err, "%s", err == FAIL_INTERRUPTED ? "stopped" : why.line);
        setup_close(&s);
        omp_set_num_threads(threads);       // the run's own end with it
    }
    free(w);
    json_decref(j);
    return err;
}
