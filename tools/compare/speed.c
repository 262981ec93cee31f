/* Runs side by side take each other's time, and those on other machines are not
 * comparable: the speeds of such a comparison are measured when all of it is done, on
 * this machine, one architecture after the other. */
#include "tools/compare/compare.h"

#include "data/base/claim.h"
#include "data/base/clock.h"
#include "data/base/file.h"
#include "data/base/json.h"
#include "data/base/version.h"

#include <limits.h>
#include <math.h>

enum { SPEED_MAX = 1 << 16 };

static const double round_seconds = 0.2;        // of each of PACES, at least

/* ---- speed.json ---- */

static char *speed_path(const struct comparison *c, const struct arch *a, char *buf,
                        size_t cap)
{
    char dir[PATH_MAX];

    path_join(dir, sizeof dir, c->out, a->slug);
    return path_join(buf, cap, dir, "speed.json");
}

static enum fail pace_write(const struct comparison *c, const struct arch *a,
                            struct why *why)
{
    char    path[PATH_MAX];
    json_t *j = json_object();

    json_object_set_new(j, "train", json_from_double(a->pace.train));
    json_object_set_new(j, "train_low", json_from_double(a->pace.train_low));
    json_object_set_new(j, "decode", json_from_double(a->pace.decode));
    json_object_set_new(j, "decode_low", json_from_double(a->pace.decode_low));
    json_object_set_new(j, "threads", json_integer(a->cfg.threads));
    json_object_set_new(j, "build", json_string(version_line));
    return json_write(speed_path(c, a, path, sizeof path), j,
                      JSON_INDENT(1) | JSON_REAL_PRECISION(15), why);
}

static void pace_read(const struct comparison *c, struct arch *a)
{
    char       path[PATH_MAX];
    struct why ignored;
    json_t    *j;

    if (json_read(&j, speed_path(c, a, path, sizeof path), SPEED_MAX, "", &ignored))
        return;
    a->pace = (struct pace){json_to_double(json_object_get(j, "train")),
                            json_to_double(json_object_get(j, "train_low")),
                            json_to_double(json_object_get(j, "decode")),
                            json_to_double(json_object_get(j, "decode_low"))};
    json_decref(j);
}

/* ---- measuring ---- */

/* The first step also touches the memory. */
static enum fail time_steps(struct trainer *t, struct pace *p, struct why *why)
{
    struct step s;
    double      tokens = (double)trainer_step_tokens(&t->cfg);
    enum fail   err = trainer_step(t, &s, why);

    p->train = p->train_low = NAN;
    for (int i = 0; !err && i < PACES && !interrupted; i++) {
        double seconds = 0, n = 0;

        while (!err && seconds < round_seconds && !interrupted) {
            err = trainer_step(t, &s, why);
            seconds += s.seconds;
            n++;
        }
        p->train = fmax(p->train, n * tokens / seconds);
        p->train_low = fmin(p->train_low, n * tokens / seconds);
    }
    return err;
}

/* Go on with a finished trial for a moment; nothing of that is kept. */
static enum fail time_trial(struct trial t, struct pace *p, struct why *why)
{
    struct setup s = {.run.lock = -1, .saved = -1};
    enum fail    err = run_open(&s.run, t.dir, why);

    if (!err)
        err = config_resolve(&s.run.cfg, why);
    if (!err)
        err = setup_open(&s, why);
    if (!err)
        err = judge_decode(&s, &t, why);
    if (!err)
        err = time_steps(&s.trainer, p, why);
    p->decode = t.decode;
    p->decode_low = t.decode_low;
    setup_close(&s);
    return err || !interrupted ? err : FAIL_INTERRUPTED;
}

/* The first shared trial that has a result, or NULL. */
static const struct trial *shared_trial(const struct comparison *c, const struct arch *a)
{
    for (int k = 0; k < c->seeds; k++)
        if (a->trial[k].shared && a->trial[k].done && !*a->trial[k].failed)
            return &a->trial[k];
    return NULL;
}

static enum fail measure(struct comparison *c, struct arch *a, struct why *why)
{
    struct pace p;
    enum fail   err;

    live_show(&c->live, "%s alone: its speed", a->name);
    err = time_trial(*shared_trial(c, a), &p, why);
    if (err == FAIL_INTERRUPTED)
        return err;
    if (err) {
        live_say(&c->live, "%s: its speed is not known: %s", a->name, why->line);
        return FAIL_NONE;
    }
    a->pace = p;
    return pace_write(c, a, why);
}

/* Is nothing left to measure for a? */
static bool is_known(const struct comparison *c, struct arch *a)
{
    if (shared_trial(c, a) && !(a->pace.train > 0))
        pace_read(c, a);
    return !shared_trial(c, a) || a->pace.train > 0;
}

enum fail speed_measure(struct comparison *c, struct why *why)
{
    char          path[PATH_MAX];
    struct claim *mine = NULL;
    enum fail     err = FAIL_NONE;
    bool          all = true;

    for (int i = 0; i < c->n; i++)
        all &= is_known(c, &c->arch[i]);
    if (!all && c->joined)
        err = claim_wait(path_join(path, sizeof path, c->out, "speed"), &mine, why);
    for (int i = 0; !err && i < c->n; i++)
        if (!is_known(c, &c->arch[i]))
            err = measure(c, &c->arch[i], why);
    live_clear(&c->live);
    claim_finish(mine);
    return err;
}

/* ---- using it ---- */

static void apply(const struct comparison *c, struct trial *t)
{
    const struct pace *p = &c->arch[t->arch].pace;
    double             scale = t->tokens / p->train / t->seconds;

    if (!t->shared)
        return;
    t->decode = p->train > 0 ? p->decode : NAN;
    t->decode_low = p->train > 0 ? p->decode_low : NAN;
    if (c->budget == BUDGET_FOR || !isfinite(scale))
        return;
    t->seconds *= scale;
    for (int i = 0; i < t->curve.n; i++)
        t->curve.seconds[i] *= scale;
}

void speed_apply(struct comparison *c)
{
    for (int i = 0; i < c->n; i++) {
        struct arch *a = &c->arch[i];

        for (int k = a->low; c->sweep && k <= a->high; k++)
            apply(c, &a->sweep[k]);
        for (int k = 0; k < c->seeds; k++)
            apply(c, &a->trial[k]);
    }
}

double speed_of(const struct comparison *c, const struct trial *t)
{
    const struct pace *p = &c->arch[t->arch].pace;

    if (!t->shared)
        return t->tokens / t->seconds;
    return p->train > 0 ? p->train : NAN;
}
