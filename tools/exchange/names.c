#include "tools/exchange/names.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum change {
    AS_IS,
    TURN_Q, TURN_K,         // rows of query or key heads, where pairs are interleaved
    KERNEL,                 // (n, taps) is (n, 1, taps) there
};

#define HF     "model.layers.%d."
#define FLA    "model.layers.%d."
#define BLK    "blk.%d."

/* mixer NULL: whatever the layer's mixer is. A name that is NULL: it cannot go there. */
static const struct row {
    const char *mixer, *weft, *name[DIALECTS];
    enum change change;
} rows[] = {
    {NULL, "embed", {"model.embed_tokens.weight", "model.embeddings.weight",
                     "model.embed_tokens.weight", "token_embd.weight"}, AS_IS},
    {NULL, "norm", {"model.norm.weight", "model.norm.weight",
                    "model.final_layernorm.weight", "output_norm.weight"}, AS_IS},
    {NULL, "head", {"lm_head.weight", "lm_head.weight", "lm_head.weight",
                    "output.weight"}, AS_IS},
    {NULL, "norm1", {HF "input_layernorm.weight", FLA "attn_norm.weight",
                     HF "input_layernorm.weight", BLK "attn_norm.weight"}, AS_IS},
    {NULL, "norm2", {HF "post_attention_layernorm.weight", FLA "mlp_norm.weight",
                     HF "pre_ff_layernorm.weight", BLK "ffn_norm.weight"}, AS_IS},
    {NULL, "mlp.wg", {HF "mlp.gate_proj.weight", FLA "mlp.gate_proj.weight",
                      HF "feed_forward.gate_proj.weight", BLK "ffn_gate.weight"}, AS_IS},
    {NULL, "mlp.wu", {HF "mlp.up_proj.weight", FLA "mlp.up_proj.weight",
                      HF "feed_forward.up_proj.weight", BLK "ffn_up.weight"}, AS_IS},
    {NULL, "mlp.wd", {HF "mlp.down_proj.weight", FLA "mlp.down_proj.weight",
                      HF "feed_forward.down_proj.weight", BLK "ffn_down.weight"}, AS_IS},

    {"softmax", "mixer.wq", {HF "self_attn.q_proj.weight", FLA "attn.q_proj.weight",
                             HF "self_attn.q_proj.weight", BLK "attn_q.weight"}, TURN_Q},
    {"softmax", "mixer.wk", {HF "self_attn.k_proj.weight", FLA "attn.k_proj.weight",
                             HF "self_attn.k_proj.weight", BLK "attn_k.weight"}, TURN_K},
    {"softmax", "mixer.wv", {HF "self_attn.v_proj.weight", FLA "attn.v_proj.weight",
                             HF "self_attn.v_proj.weight", BLK "attn_v.weight"}, AS_IS},
    {"softmax", "mixer.wo", {HF "self_attn.o_proj.weight", FLA "attn.o_proj.weight",
                             HF "self_attn.o_proj.weight", BLK "attn_output.weight"},
     AS_IS},
    {"softmax", "mixer.qn", {HF "self_attn.q_norm.weight", NULL, NULL,
                             BLK "attn_q_norm.weight"}, AS_IS},
    {"softmax", "mixer.kn", {HF "self_attn.k_norm.weight", NULL, NULL,
                             BLK "attn_k_norm.weight"}, AS_IS},
    {"softmax", "mixer.sink", {HF "self_attn.sinks", NULL, NULL,
                               BLK "attn_sinks.weight"}, AS_IS},

    {"gla", "mixer.wq", {NULL, FLA "attn.q_proj.weight"}, AS_IS},
    {"gla", "mixer.wk", {NULL, FLA "attn.k_proj.weight"}, AS_IS},
    {"gla", "mixer.wv", {NULL, FLA "attn.v_proj.weight"}, AS_IS},
    {"gla", "mixer.wg", {NULL, FLA "attn.g_proj.weight"}, AS_IS},
    {"gla", "mixer.wo", {NULL, FLA "attn.o_proj.weight"}, AS_IS},
    {"gla", "mixer.wa1", {NULL, FLA "attn.gk_proj.0.weight"}, AS_IS},
    {"gla", "mixer.wa2", {NULL, FLA "attn.gk_proj.1.weight"}, AS_IS},
    {"gla", "mixer.ba", {NULL, FLA "attn.gk_proj.1.bias"}, AS_IS},
    {"gla", "mixer.norm", {NULL, FLA "attn.g_norm_swish_gate.weight"}, AS_IS},
    {"gla", "mixer.cq", {NULL, FLA "attn.q_conv1d.weight"}, KERNEL},
    {"gla", "mixer.ck", {NULL, FLA "attn.k_conv1d.weight"}, KERNEL},
    {"gla", "mixer.cv", {NULL, FLA "attn.v_conv1d.weight"}, KERNEL},

    {"retention", "mixer.wq", {NULL, FLA "attn.q_proj.weight"}, AS_IS},
    {"retention", "mixer.wk", {NULL, FLA "attn.k_proj.weight"}, AS_IS},
    {"retention", "mixer.wv", {NULL, FLA "attn.v_proj.weight"}, AS_IS},
    {"retention", "mixer.wg", {NULL, FLA "attn.g_proj.weight"}, AS_IS},
    {"retention", "mixer.norm", {NULL, FLA "attn.g_norm_swish_gate.weight"}, AS_IS},
    {"retention", "mixer.wo", {NULL, FLA "attn.o_proj.weight"}, AS_IS},

    {"deltanet", "mixer.wq", {NULL, FLA "attn.q_proj.weight"}, AS_IS},
    {"deltanet", "mixer.wk", {NULL, FLA "attn.k_proj.weight"}, AS_IS},
    {"deltanet", "mixer.wv", {NULL, FLA "attn.v_proj.weight"}, AS_IS},
    {"deltanet", "mixer.wg", {NULL, FLA "attn.g_proj.weight"}, AS_IS},
    {"deltanet", "mixer.wb", {NULL, FLA "attn.b_proj.weight"}, AS_IS},
    {"deltanet", "mixer.wa", {NULL, FLA "attn.a_proj.weight"}, AS_IS},
    {"deltanet", "mixer.cq", {NULL, FLA "attn.q_conv1d.weight"}, KERNEL},
    {"deltanet", "mixer.ck", {NULL, FLA "attn.k_conv1d.weight"}, KERNEL},
    {"deltanet", "mixer.cv", {NULL, FLA "attn.v_conv1d.weight"}, KERNEL},
    {"deltanet", "mixer.dtb", {NULL, FLA "attn.dt_bias"}, AS_IS},
    {"deltanet", "mixer.alog", {NULL, FLA "attn.A_log"}, AS_IS},
    {"deltanet", "mixer.norm", {NULL, FLA "attn.o_norm.weight"}, AS_IS},
    {"deltanet", "mixer.wo", {NULL, FLA "attn.o_proj.weight"}, AS_IS},

    {"ssd", "mixer.win", {NULL, NULL, HF "mamba.in_proj.weight"}, AS_IS},
    {"ssd", "mixer.conv", {NULL, NULL, HF "mamba.conv1d.weight"}, KERNEL},
    {"ssd", "mixer.convb", {NULL, NULL, HF "mamba.conv1d.bias"}, AS_IS},
    {"ssd", "mixer.dtb", {NULL, NULL, HF "mamba.dt_bias"}, AS_IS},
    {"ssd", "mixer.alog", {NULL, NULL, HF "mamba.A_log"}, AS_IS},
    {"ssd", "mixer.dskip", {NULL, NULL, HF "mamba.D"}, AS_IS},
    {"ssd", "mixer.norm", {NULL, NULL, HF "mamba.norm.weight"}, AS_IS},
    {"ssd", "mixer.wo", {NULL, NULL, HF "mamba.out_proj.weight"}, AS_IS},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

void foreign_free(struct foreigners *f)
{
    free(f->tensor);
    free(f->memory);
    *f = (struct foreigners){0};
}

/* The rows of a matrix of `heads` heads: row j of a head's first half goes to 2j, of its
 * second to 2j + 1; or back. w (height, cols) in place; tmp as large as a head. */
static void interleave(float *w, int height, int cols, int heads, bool back, float *tmp)
{
    const int    e = height / heads, half = e / 2;
    const size_t row = (size_t)cols;

    for (int h = 0; h < heads; h++) {
        float *head = w + (size_t)h * e * row;

        memcpy(tmp, head, (size_t)e * row * sizeof *tmp);
        for (int j = 0; j < 2 * half; j++) {
            int other = j < half ? 2 * j : 2 * (j - half) + 1;

            memcpy(head + (back ? j : other) * row, tmp + (back ? other : j) * row,
                   row * sizeof *tmp);
        }
    }
}

/* ---- a parameter's other name ------------------------------------------------------ */

/* The layer of "blocks.3.mixer.wq", whose rest is left in *name; -1 and all of it when it
 * belongs to no layer. */
static int layer_of(const char **name)
{
    int layer, n = 0;

    if (sscanf(*name, "blocks.%d.%n", &layer, &n) != 1 || !n)
        return -1;
    *name += n;
    return layer;
}

static const struct row *row_of(const struct model *m, int layer, const char *name)
{
    const char *mixer = layer < 0 ? "" : m->layer[layer].mixer->name;

    for (int i = 0; i < N_ROWS; i++)
        if (!strcmp(rows[i].weft, name) &&
            (!rows[i].mixer || !strcmp(rows[i].mixer, mixer)))
            return &rows[i];
    return NULL;
}

/* A tensor without data, and what changes on the way. */
struct plan {
    struct foreign is;
    enum change    change;
    int            layer;
};

/* The names are formats of one layer number, from the table above. */
static void format_name(char *buf, const char *format, int layer)
{
    const char *at = strstr(format, "%d");

    if (at)
        snprintf(buf, TENSOR_NAME, "%.*s%d%s", (int)(at - format), format, layer, at + 2);
    else
        snprintf(buf, TENSOR_NAME, "%s", format);
}

/* false: it has no name there. */
static bool plan_param(struct plan *p, const struct model *m, const struct spelling *s,
                       const struct model_param *q)
{
    const char       *name = q->name;
    int               layer = layer_of(&name);
    const struct row *row = row_of(m, layer, name);
    bool              vector = q->is.cols == 0;

    if (!row || !row->name[s->dialect])
        return false;
    *p = (struct plan){.change = row->change, .layer = layer};
    p->is = (struct foreign){.dims = vector ? 1 : 2, .shape = {q->is.rows, q->is.cols},
                             .n = param_size(&q->is)};
    p->is.type = vector && !s->vectors ? PACKED_F32 : s->type;
    if (p->is.type == PACKED_Q8_0 && q->is.cols % Q8_BLOCK)
        p->is.type = PACKED_F16;
    if (row->change == KERNEL) {
        p->is.dims = 3;
        p->is.shape[1] = 1, p->is.shape[2] = q->is.cols;
    }
    format_name(p->is.name, row->name[s->dialect], layer);
    return true;
}

/* Turn the rows of queries and keys, there or back. tmp as large as the matrix. */
static void change(float *w, const struct model *m, const struct spelling *s,
                   const struct plan *p, bool back, float *tmp)
{
    if (!s->interleaved || (p->change != TURN_Q && p->change != TURN_K))
        return;
    interleave(w, (int)p->is.shape[0], (int)p->is.shape[1],
               p->change == TURN_Q ? m->layer[p->layer].H : m->layer[p->layer].Hk, back,
               tmp);
}

/* ---- export ------------------------------------------------------------------------ */

static size_t largest(const struct model *m)
{
    size_t n = 1;

    for (int i = 0; i < m->n_param; i++)
        n = param_size(&m->param[i].is) > n ? param_size(&m->param[i].is) : n;
    return n;
}

static bool has_sink(const struct model *m, int layer)
{
    char name[64];

    snprintf(name, sizeof name, "blocks.%d.mixer.sink", layer);
    for (int i = m->first[layer]; i < m->first[layer + 1]; i++)
        if (!strcmp(m->param[i].name, name))
            return true;
    return false;
}

static void plan_sink(struct plan *p, const struct model *m, const struct spelling *s,
                      int layer)
{
    struct model_param none = {.is = {.rows = m->layer[layer].H}};

    snprintf(none.name, sizeof none.name, "blocks.%d.mixer.sink", layer);
    (void)plan_param(p, m, s, &none);
}

/* Room for every tensor and its data, at most float32. */
static enum fail make_room(struct foreigners *f, const struct model *m, struct why *why)
{
    size_t sinks = 0;

    for (int i = 0; i < m->cfg.layers; i++)
        sinks += (size_t)m->layer[i].H;
    *f = (struct foreigners){0};
    f->tensor = calloc((size_t)m->n_param + m->cfg.layers, sizeof *f->tensor);
    f->memory = malloc((m->n + sinks) * sizeof(float));
    return f->tensor && f->memory
               ? FAIL_NONE
               : fail(why, FAIL_MEMORY, "not enough memory for a copy of the weights");
}

static bool all_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* Pack n numbers behind what f holds; the check is of what comes back. */
static enum fail put(struct foreigners *f, size_t *at, const struct plan *p, float *w,
                     struct why *why)
{
    struct foreign *t = &f->tensor[f->n++];

    *t = p->is;
    t->data = (char *)f->memory + *at;
    packed_write(t->type, (char *)f->memory + *at, w, t->n);
    packed_read(t->type, w, t->data, t->n);
    *at += packed_bytes(t->type, t->n);
    return all_finite(w, t->n)
               ? FAIL_NONE
               : fail(why, FAIL_USAGE, "%s has numbers too large for %s; take bf16 or "
                      "f32", t->name, packed_name(t->type));
}

static enum fail put_param(struct foreigners *f, size_t *at, const struct model *m,
                           const struct spelling *s, int i, float *w, struct why *why)
{
    const struct model_param *q = &m->param[i];
    struct plan               p;
    size_t                    n = param_size(&q->is);

    if (!plan_param(&p, m, s, q))
        return fail(why, FAIL_USAGE, "%s has no counterpart there", q->name);
    for (size_t j = 0; j < n; j++)
        w[j] = (float)m->w[q->at + j];
    change(w, m, s, &p, false, w + n);
    return put(f, at, &p, w, why);
}

static enum fail put_sinks(struct foreigners *f, size_t *at, const struct model *m,
                           const struct spelling *s, float *w, struct why *why)
{
    enum fail err = FAIL_NONE;

    for (int i = 0; i < m->cfg.layers && !err; i++) {
        struct plan p;

        if (has_sink(m, i))
            continue;
        plan_sink(&p, m, s, i);
        for (size_t j = 0; j < p.is.n; j++)
            w[j] = NO_SINK;
        err = put(f, at, &p, w, why);
    }
    return err;
}

enum fail foreign_make(struct foreigners *f, const struct model *m,
                       const struct spelling *s, struct why *why)
{
    float    *w = malloc((2 * largest(m) + m->cfg.heads) * sizeof *w);
    size_t    at = 0;
    enum fail err = make_room(f, m, why);

    if (!err && !w)
        err = fail(why, FAIL_MEMORY, "not enough memory for a copy of the weights");
    for (int i = 0; i < m->n_param && !err; i++)
        err = put_param(f, &at, m, s, i, w, why);
    if (!err && s->sinks)
        err = put_sinks(f, &at, m, s, w, why);
    free(w);
    if (err)
        foreign_free(f);
    return err;
}

/* ---- import ------------------------------------------------------------------------ */

static struct foreign *find(const struct foreigners *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->tensor[i].name, name))
            return &f->tensor[i];
    return NULL;
}

/* The tensor of a plan, unpacked into w. */
static enum fail take(struct foreigners *f, const struct plan *p, float *w,
                      const char *where, struct why *why)
{
    struct foreign *t = find(f, p->is.name);

    if (!t)
        return fail(why, FAIL_INPUT, "%s: the tensor %s is missing", where, p->is.name);
    if (t->dims != p->is.dims ||
        memcmp(t->shape, p->is.shape, (size_t)t->dims * sizeof *t->shape))
        return fail(why, FAIL_INPUT, "%s: the tensor %s is not of the shape that the "
                    "settings mean", where, t->name);
    if (t->used)
        return fail(why, FAIL_INPUT, "%s: the tensor %s is there twice", where, t->name);
    t->used = true;
    packed_read(t->type, w, t->data, t->n);
    return all_finite(w, t->n)
               ? FAIL_NONE
               : fail(why, FAIL_INPUT, "%s: the tensor %s has numbers that are not "
                      "finite", where, t->name);
}

static enum fail take_param(const struct model *m, struct foreigners *f,
                            const struct spelling *s, int i, float *w, const char *where,
                            struct why *why)
{
    const struct model_param *q = &m->param[i];
    struct plan               p;
    size_t                    n = param_size(&q->is);
    enum fail                 err;

    if (!plan_param(&p, m, s, q))
        return fail(why, FAIL_INPUT, "%s: %s has no counterpart there", where, q->name);
    err = take(f, &p, w, where, why);
    if (err)
        return err;
    change(w, m, s, &p, true, w + n);
    for (size_t j = 0; j < n; j++)
        m->w[q->at + j] = w[j];
    return FAIL_NONE;
}

/* The sinks of layers that have none must say so. */
static enum fail take_sinks(const struct model *m, struct foreigners *f,
                            const struct spelling *s, float *w, const char *where,
                            struct why *why)
{
    enum fail err = FAIL_NONE;

    for (int i = 0; i < m->cfg.layers && !err; i++) {
        struct plan p;

        if (has_sink(m, i))
            continue;
        plan_sink(&p, m, s, i);
        err = take(f, &p, w, where, why);
        for (size_t j = 0; j < p.is.n && !err; j++)
            if (w[j] > NO_SINK / 2)
                err = fail(why, FAIL_INPUT, "%s: %s is a sink where the settings have "
                           "none", where, p.is.name);
    }
    return err;
}

/* Frequencies of the rotation, which older files carry: transformers makes them anew. */
static void pass_over_frequencies(struct foreigners *f, const struct spelling *s)
{
    static const char end[] = ".self_attn.rotary_emb.inv_freq";
    const size_t      m = sizeof end - 1;

    for (int i = 0; i < f->n && s->dialect == DIALECT_HF; i++) {
        size_t n = strlen(f->tensor[i].name);

        f->tensor[i].used |= n > m && !strcmp(f->tensor[i].name + n - m, end);
    }
}

/* A head that is written although it is the embedding. */
static void pass_over_head(const struct model *m, struct foreigners *f,
                           const struct spelling *s)
{
    struct foreign *embed = find(f, rows[0].name[s->dialect]),
                   *head = find(f, rows[2].name[s->dialect]);

    if (m->cfg.tied && embed && head && embed->n == head->n &&
        embed->type == head->type &&
        !memcmp(embed->data, head->data, packed_bytes(head->type, head->n)))
        head->used = true;
}

static enum fail all_used(const struct foreigners *f, const char *where, struct why *why)
{
    for (int i = 0; i < f->n; i++)
        if (!f->tensor[i].used)
            return fail(why, FAIL_INPUT, "%s: the tensor %s belongs to no part of the "
                        "model; weft has no such architecture", where, f->tensor[i].name);
    return FAIL_NONE;
}

enum fail foreign_take(const struct model *m, struct foreigners *f,
                       const struct spelling *s, const char *where, struct why *why)
{
    float    *w = malloc((2 * largest(m) + m->cfg.heads) * sizeof *w);
    enum fail err = w ? FAIL_NONE : fail(why, FAIL_MEMORY, "%s: out of memory", where);

    for (int i = 0; i < m->n_param && !err; i++)
        err = take_param(m, f, s, i, w, where, why);
    if (!err && s->sinks)
        err = take_sinks(m, f, s, w, where, why);
    pass_over_head(m, f, s);
    pass_over_frequencies(f, s);
    free(w);
    return err ? err : all_used(f, where, why);
}
