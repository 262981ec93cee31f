#include "tools/exchange/forms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct form forms[FORMS] = {
    [FORM_LLAMA]       = {"llama", "LlamaForCausalLM", "transformers", DIALECT_HF},
    [FORM_MISTRAL]     = {"mistral", "MistralForCausalLM", "transformers", DIALECT_HF},
    [FORM_MINISTRAL]   = {"ministral", "MinistralForCausalLM", "transformers 5",
                          DIALECT_HF},
    [FORM_QWEN3]       = {"qwen3", "Qwen3ForCausalLM", "transformers 4.51", DIALECT_HF},
    [FORM_GRANITE_SWA] = {"granite_swa", "GraniteSWAForCausalLM", "transformers 5",
                          DIALECT_HF},
    [FORM_GLA]         = {"gla", "GLAForCausalLM", "flash-linear-attention", DIALECT_FLA},
    [FORM_DELTANET]    = {"gated_deltanet", "GatedDeltaNetForCausalLM",
                          "flash-linear-attention", DIALECT_FLA},
    [FORM_RETNET]      = {"retnet", "RetNetForCausalLM", "flash-linear-attention",
                          DIALECT_FLA},
    [FORM_BAMBA]       = {"bamba", "BambaForCausalLM", "transformers", DIALECT_BAMBA},
};

/* ---- a layer ----------------------------------------------------------------------- */

static double opt_value(const struct opt *opts, const double *value, const char *name)
{
    for (int i = 0; opts && opts[i].name; i++)
        if (!strcmp(opts[i].name, name))
            return value[i];
    return 0;
}

double layer_opt(const struct mixer_cfg *c, const char *name)
{
    return opt_value(c->mixer->opts, c->opt, name);
}

bool layer_is(const struct mixer_cfg *c, const char *mixer)
{
    return !strcmp(c->mixer->name, mixer);
}

double layer_base(const struct mixer_cfg *c)
{
    if (c->position == &position_none)
        return 0;
    return c->position == &position_rope
               ? opt_value(c->position->opts, c->position_opt, "base") : -1;
}

int stack_window(const struct model *m)
{
    int window = 0;

    for (int i = 0; i < m->cfg.layers && !window; i++)
        window = (int)layer_opt(&m->layer[i], "window");
    return window;
}

double stack_base(const struct model *m)
{
    double base = 0;

    for (int i = 0; i < m->cfg.layers && base <= 0; i++)
        base = layer_base(&m->layer[i]);
    return base > 0 ? base : 1e4;
}

/* ---- a stack of softmax ------------------------------------------------------------ */

/* What the attention layers of a stack have. */
struct traits {
    bool full, window, norm, plain, sink, turned, unturned;
    const char *bad;                // why no form can have them; NULL: nothing
};

static void add_layer(struct traits *t, const struct model *m, const struct mixer_cfg *c)
{
    int    window = (int)layer_opt(c, "window");
    double base = layer_base(c);

    t->full |= !window, t->window |= window > 0;
    t->norm |= layer_opt(c, "qk_norm") > 0, t->plain |= !(layer_opt(c, "qk_norm") > 0);
    t->sink |= layer_opt(c, "sink") > 0;
    t->turned |= base > 0, t->unturned |= base == 0;
    if (c->H != m->cfg.heads || c->Hk != m->cfg.kv_heads)
        t->bad = "its softmax layers have heads of their own; others have one number of "
                 "heads for all";
    if (window && window != stack_window(m))
        t->bad = "its layers have windows of two sizes; others have one";
    if (base < 0)
        t->bad = "selective rotation (srope) is known to no other program";
    if (base > 0 && base != stack_base(m))
        t->bad = "its layers rotate with two bases; others have one";
}

/* Of all layers that are softmax. */
static struct traits traits_of(const struct model *m)
{
    struct traits t = {0};

    for (int i = 0; i < m->cfg.layers; i++)
        if (layer_is(&m->layer[i], "softmax"))
            add_layer(&t, m, &m->layer[i]);
    if (!t.bad && t.norm && t.plain)
        t.bad = "only some of its layers have qk_norm";
    if (!t.bad && t.norm && t.sink)
        t.bad = "qk_norm and sinks together are known to no other program";
    if (!t.bad && t.norm && t.unturned)
        t.bad = "qk_norm with layers that do not rotate is known to no other program";
    return t;
}

static bool only(const struct model *m, const char *mixer)
{
    for (int i = 0; i < m->cfg.layers; i++)
        if (!layer_is(&m->layer[i], mixer))
            return false;
    return true;
}

static enum fail refuse(struct why *why, const struct model *m, const char *reason)
{
    return fail(why, FAIL_USAGE, "mixers = %.200s: %s", m->cfg.mixers, reason);
}

static enum form_kind softmax_form(const struct traits *t)
{
    if (t->norm)
        return FORM_QWEN3;
    if (t->sink || t->unturned)
        return FORM_GRANITE_SWA;
    return !t->window ? FORM_LLAMA : t->full ? FORM_MINISTRAL : FORM_MISTRAL;
}

/* ---- the others -------------------------------------------------------------------- */

/* The first layer that is not softmax; its like are the same. */
static const struct mixer_cfg *other_layer(const struct model *m)
{
    for (int i = 0; i < m->cfg.layers; i++)
        if (!layer_is(&m->layer[i], "softmax"))
            return &m->layer[i];
    return NULL;
}

static bool others_alike(const struct model *m, const struct mixer_cfg *o)
{
    for (int i = 0; i < m->cfg.layers; i++) {
        const struct mixer_cfg *c = &m->layer[i];

        if (!layer_is(c, "softmax") &&
            (c->mixer != o->mixer || c->position != o->position || c->H != o->H ||
             memcmp(c->opt, o->opt, sizeof c->opt) ||
             memcmp(c->position_opt, o->position_opt, sizeof c->position_opt)))
            return false;
    }
    return true;
}

/* NULL, or why fla's class of this mixer computes something else. */
static const char *fla_differs(const struct mixer_cfg *o)
{
    if (layer_is(o, "gla") && (int)layer_opt(o, "rank") != 16)
        return "fla's GLA has decays of rank 16";
    if (layer_is(o, "retention") && layer_base(o) != 1e4)
        return "fla's RetNet rotates with base 10000";
    if (!layer_is(o, "retention") && o->position != &position_none)
        return "fla's class has no rotation in these layers";
    return NULL;
}

static enum fail fla_form(const struct model *m, const struct mixer_cfg *o,
                          const struct traits *t, enum form_kind *kind, struct why *why)
{
    const char *differs = fla_differs(o);

    if (differs)
        return refuse(why, m, differs);
    if (t->norm || t->sink || t->unturned || (t->full && t->window))
        return refuse(why, m, "fla's attention beside it is plain, rotates, and has one "
                      "window or none");
    *kind = layer_is(o, "gla") ? FORM_GLA
            : layer_is(o, "deltanet") ? FORM_DELTANET : FORM_RETNET;
    return FAIL_NONE;
}

enum fail form_for_hf(const struct model *m, enum form_kind *kind, struct why *why)
{
    struct traits           t = traits_of(m);
    const struct mixer_cfg *o = other_layer(m);

    if (t.bad)
        return refuse(why, m, t.bad);
    if (!o) {
        *kind = softmax_form(&t);
        return FAIL_NONE;
    }
    if (!others_alike(m, o))
        return refuse(why, m, "no class of others mixes these layers");
    if (layer_is(o, "gla") || layer_is(o, "deltanet") || layer_is(o, "retention"))
        return fla_form(m, o, &t, kind, why);
    if (layer_is(o, "ssd") && only(m, "ssd")) {
        *kind = FORM_BAMBA;
        return FAIL_NONE;
    }
    return fail(why, FAIL_USAGE,
                "mixers = %.200s: no class of transformers or fla computes %s as weft "
                "does; softmax, gla, deltanet, retention and ssd can go there",
                m->cfg.mixers, o->mixer->name);
}

enum fail form_for_gguf(const struct model *m, enum form_kind *kind, struct why *why)
{
    struct traits t = traits_of(m);

    if (!only(m, "softmax"))
        return refuse(why, m, "llama.cpp is given stacks of softmax only; --to hf knows "
                      "some of the others");
    if (t.bad)
        return refuse(why, m, t.bad);
    if (t.norm && t.window)
        return refuse(why, m, "llama.cpp's qwen3 has no windows; --to hf has them");
    *kind = softmax_form(&t);
    if (*kind == FORM_MISTRAL || *kind == FORM_MINISTRAL)
        *kind = FORM_GRANITE_SWA;
    return FAIL_NONE;
}

enum fail form_for_llama2c(const struct model *m, struct why *why)
{
    struct traits t = traits_of(m);

    if (t.bad)
        return refuse(why, m, t.bad);
    if (!only(m, "softmax") || t.window || t.norm || t.sink || t.unturned)
        return refuse(why, m, "llama2.c has full softmax attention with rotation only; "
                      "--to gguf or hf have more");
    if (stack_base(m) != 1e4)
        return refuse(why, m, "llama2.c rotates with base 10000; take --to gguf");
    if ((float)m->cfg.eps != 1e-5f)
        return fail(why, FAIL_USAGE, "eps = %g: llama2.c has 1e-5; take --to gguf",
                    m->cfg.eps);
    return FAIL_NONE;
}

struct spelling form_hf_spelling(enum form_kind kind, enum packed type)
{
    return (struct spelling){.dialect = forms[kind].dialect, .type = type,
                             .sinks = kind == FORM_GRANITE_SWA, .vectors = true};
}

struct spelling form_gguf_spelling(enum form_kind kind, enum packed type)
{
    return (struct spelling){.dialect = DIALECT_GGUF, .type = type,
                             .interleaved = kind != FORM_QWEN3,
                             .sinks = kind == FORM_GRANITE_SWA};
}

/* ---- back to weft ------------------------------------------------------------------ */

static bool same_layer(const struct attention_layer *a, const struct attention_layer *b)
{
    return a->window == b->window && a->qk_norm == b->qk_norm && a->sink == b->sink &&
           a->base == b->base;
}

/* How many layers until the list repeats. */
static int period(const struct attention_layer *layer, int n)
{
    for (int p = 1; p < n; p++) {
        int i = p;

        while (i < n && same_layer(&layer[i], &layer[i % p]))
            i++;
        if (i == n)
            return p;
    }
    return n;
}

/* "softmax(window=128,sink=1)+rope(base=500000)" */
static int print_layer(char *buf, size_t cap, const struct attention_layer *l)
{
    char opts[96] = "", base[48] = "";
    int  n = 0;

    if (l->window)
        n += snprintf(opts + n, sizeof opts - n, ",window=%d", l->window);
    if (l->qk_norm)
        n += snprintf(opts + n, sizeof opts - n, ",qk_norm=1");
    if (l->sink)
        n += snprintf(opts + n, sizeof opts - n, ",sink=1");
    if (n) {
        opts[0] = '(';
        snprintf(opts + n, sizeof opts - n, ")");
    }
    if (l->base == 0)
        snprintf(base, sizeof base, "+none");
    else if (l->base != 1e4)
        snprintf(base, sizeof base, "+rope(base=%.10g)", l->base);
    return snprintf(buf, cap, "softmax%s%s", opts, base);
}

enum fail form_mixers(struct config *c, const struct attention_layer *layer, int n,
                      const char *where, struct why *why)
{
    int  p = period(layer, n);
    int  at = 0;

    for (int i = 0; i < p && at < (int)sizeof c->mixers; i++) {
        if (i)
            at += snprintf(c->mixers + at, sizeof c->mixers - at, "/");
        if (at < (int)sizeof c->mixers)
            at += print_layer(c->mixers + at, sizeof c->mixers - at, &layer[i]);
    }
    return at < (int)sizeof c->mixers
               ? FAIL_NONE
               : fail(why, FAIL_INPUT, "%s: its %d layers follow no short pattern", where,
                      n);
}
