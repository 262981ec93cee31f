#include "tools/compare/compare.h"

#include "data/base/split.h"
#include "train/adamw.h"
#include "train/presets.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEP = 8 }; // MLP widths are multiples of it

static const double near_enough = 0.02;

/* ---- names ---- */

/* Letters and digits of a name, parted by single hyphens: a directory's name. */
static void make_slug(char *slug, size_t cap, const char *name)
{
    size_t n = 0;

    for (; *name && n + 4 < cap; name++)
        if (isalnum((unsigned char)*name) || *name == '.')
            slug[n++] = *name;
        else if (n > 0 && slug[n - 1] != '-')
            slug[n++] = '-';
    while (n > 1 && slug[n - 1] == '-')
        n--;
    slug[n] = 0;
}

static bool is_taken(const struct comparison *c, const char *slug)
{
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->arch[i].slug, slug))
            return true;
    return false;
}

/* Put a number behind the slug, with which `same` others begin: from same + 1 on the
 * first that makes it a directory of its own. */
static void number_slug(const struct comparison *c, char *slug, unsigned same)
{
    char *end = slug + strlen(slug);

    do
        snprintf(end, 4, "-%u", ++same % 100);
    while (is_taken(c, slug));
}

static enum fail add_entry(struct comparison *c, const char *name, size_t len,
                           struct why *why)
{
    struct arch *a = &c->arch[c->n];
    unsigned     same = 0;

    if (len == 0)
        return fail(why, FAIL_USAGE,
                    "--arch: an empty name; give architectures parted by "
                    "commas, as in softmax,gla,mlstm");
    if (c->n == MOST_ARCHS || len >= sizeof a->name)
        return fail(why, FAIL_USAGE,
                    "--arch: at most %d architectures of at most %zu letters", MOST_ARCHS,
                    sizeof a->name - 1);
    snprintf(a->name, sizeof a->name, "%.*s", (int)len, name);
    make_slug(a->slug, sizeof a->slug, a->name);
    for (int i = 0; i < c->n; i++) {
        if (!strcmp(c->arch[i].name, a->name))
            return fail(why, FAIL_USAGE, "--arch: %s is there twice", a->name);
        same += !strncmp(c->arch[i].slug, a->slug, strlen(a->slug));
    }
    if (same)
        number_slug(c, a->slug, same);
    c->n++;
    return 0;
}

enum fail entries_split(struct comparison *c, const char *list, struct why *why)
{
    const char *at = list;
    size_t      n = split_length(at, ',');
    enum fail   err = add_entry(c, at, n, why);

    while (!err && at[n]) {
        at += n + 1;
        n = split_length(at, ',');
        err = add_entry(c, at, n, why);
    }
    if (!err && c->n < 2)
        err = fail(why, FAIL_USAGE,
                   "--arch %s: give two architectures or more, parted by "
                   "commas, as in softmax,gla,mlstm",
                   list);
    return err;
}

enum fail entries_settle(struct comparison *c, const struct sources *from,
                         struct why *why)
{
    for (int i = 0; i < c->n; i++) {
        struct sources s = *from;
        struct config  resolved;
        enum fail      err;

        s.arch = c->arch[i].name;
        err = presets_apply(&c->arch[i].cfg, &s, why);
        if (c->arch[i].cfg.weight_decay < 0)        // the same for all, however fast
            c->arch[i].cfg.weight_decay = adamw_decay(1);
        resolved = c->arch[i].cfg;
        if (!err)
            err = config_resolve(&resolved, why);
        if (!err)
            err = config_check_start(&resolved, why);
        if (err)
            return err;
    }
    return 0;
}

/* ---- sizes ---- */

/* What is to be equal, of a model with these settings. */
static enum fail measure(const struct comparison *c, const struct config *cfg,
                         double *size, struct arch *a, struct why *why)
{
    struct config resolved = *cfg;
    struct model  m;
    enum fail     err = config_resolve(&resolved, why);

    if (!err)
        err = model_open(&m, &resolved, why);
    if (err)
        return err;
    a->cfg = resolved;
    a->params = (double)model_count(&m);
    a->flops = 3 * model_flops(&m, resolved.context, 0) / resolved.context;
    a->state = (double)model_state_bytes(&m);
    *size = c->match == MATCH_FLOPS ? a->flops : a->params;
    a->failed[0] = 0;
    if (plan_check_memory(&m, &resolved, why))
        snprintf(a->failed, sizeof a->failed, "out of memory: %.200s", why->line);
    model_close(&m);
    return 0;
}

/* The MLP width for this size of all: it enters linearly. Below STEP: there is none. */
static int solve_width(double with, double without, int mlp, double want)
{
    double each = (with - without) / (mlp - STEP);

    return STEP * (int)floor((want - without) / each / STEP + 1 + 0.5);
}

/* Bring a (its settings as asked for) to the size `want` by the MLP's width, then, where
 * the mixer alone is too large, by narrower models. */
static enum fail fit(const struct comparison *c, struct arch *a, double want,
                     struct why *why)
{
    struct config asked = a->cfg;
    int           heads = asked.heads;
    enum fail     err = 0;

    for (int width = asked.width; !err && width >= asked.width / 2; width -= 2 * heads) {
        struct config cfg = asked;
        double        with, without, got = 0;
        int           mlp;

        cfg.width = width;
        cfg.mlp = STEP;
        err = measure(c, &cfg, &without, a, why);
        cfg.mlp = 8 * STEP;
        if (!err)
            err = measure(c, &cfg, &with, a, why);
        if (err)
            break;
        mlp = solve_width(with, without, cfg.mlp, want);
        if (mlp < width / 2)
            continue;
        cfg.mlp = mlp;
        err = measure(c, &cfg, &got, a, why);
        if (!err && fabs(got / want - 1) <= near_enough)
            return 0;
    }
    return err ? err
               : fail(why, FAIL_USAGE,
                      "%s cannot be brought within 2 %% of %s's %s; "
                      "give it other settings, or --match none",
                      a->name, c->arch[0].name,
                      c->match == MATCH_FLOPS ? "FLOPs a token" : "parameters");
}

/* A window of training text, and something to validate on. */
static enum fail check_text(const struct comparison *c, const struct config *cfg,
                            struct why *why)
{
    const struct dataset *d = &c->data;

    if (d->train.tokens <= (uint64_t)cfg->context)
        return fail(why, FAIL_INPUT,
                    "%s: %llu tokens to train on are fewer than one window of "
                    "context=%d; give more text",
                    c->input, (unsigned long long)d->train.tokens, cfg->context);
    if (d->val.tokens < 2 || d->val.bytes == 0)
        return fail(why, FAIL_INPUT,
                    "%s: there is no text to validate on; give more text, or "
                    "a larger val_fraction",
                    c->input);
    return 0;
}

enum fail entries_match(struct comparison *c, struct why *why)
{
    double want = 0, got;
    enum fail err = 0;

    for (int i = 0; !err && i < c->n; i++) {
        struct arch *a = &c->arch[i];

        a->cfg.vocab = c->data.vocab;
        snprintf(a->cfg.tokenizer, sizeof a->cfg.tokenizer, "%s",
                 tokenizer_kind(c->data.tokenizer));
        if (i == 0 || c->match == MATCH_NONE)
            err = measure(c, &a->cfg, &got, a, why);
        else
            err = fit(c, a, want, why);
        if (i == 0)
            want = got;
        if (!err)
            err = check_text(c, &a->cfg, why);
    }
    return err;
}

enum fail entries_check_budget(const struct comparison *c, struct why *why)
{
    for (int i = 0; i < c->n; i++) {
        const struct arch *a = &c->arch[i];
        double             tokens = (double)trainer_step_tokens(&a->cfg);
        double             least = c->budget == BUDGET_FLOPS ? a->flops * tokens : tokens;
        const char        *flag = c->budget == BUDGET_FLOPS ? "flops" : "tokens";

        if (c->sweep)
            least *= 4;
        if (c->budget != BUDGET_FOR && c->amount < least)
            return fail(why, FAIL_USAGE,
                        "--%s %g is too small for one step of %s%s; it takes %.12g",
                        flag, c->amount, a->name,
                        c->sweep ? " in the sweep, which gets a quarter" : "", least);
    }
    return 0;
}
