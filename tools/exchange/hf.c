/* A Hugging Face directory: config.json, model.safetensors (or shards with an index),
 * generation_config.json and the tokenizer.
 *
 * config.json also has weft's own settings under "weft", so that import finds the
 * original; transformers passes over them. The tokenizer is written as tokenizer.json; a
 * tokenizer.model lies beside it only for bpe, because converters take one without
 * looking whether it is unigram. weft's own is weft.tokenizer.model.
 */
#include "data/base/file.h"
#include "data/base/json.h"
#include "infer/sampler.h"
#include "tools/exchange/exchange.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_MAX = 16 << 20, SHARDS = 256, LAYERS = 1024 };
enum { FLAGS = JSON_INDENT(2) | JSON_REAL_PRECISION(17) };

static const char *const dtype_name[] = {"float32", "float16", "bfloat16"};

/* ---- export: config.json ----------------------------------------------------------- */

static void set(json_t *j, const char *key, json_t *value)
{
    json_object_set_new(j, key, value);
}

/* What all of them have. */
static json_t *common_config(const struct outgoing *x, enum form_kind kind)
{
    const struct config *c = &x->model.cfg;
    json_t              *j = json_object();

    set(j, "architectures", json_pack("[s]", forms[kind].class));
    set(j, "model_type", json_string(forms[kind].type));
    set(j, "vocab_size", json_integer(c->vocab));
    set(j, "hidden_size", json_integer(c->width));
    set(j, "intermediate_size", json_integer(c->mlp));
    set(j, "num_hidden_layers", json_integer(c->layers));
    set(j, "max_position_embeddings", json_integer(c->context));
    set(j, "tie_word_embeddings", json_boolean(c->tied));
    set(j, "bos_token_id", json_integer(x->vocab.eos));
    set(j, "eos_token_id", json_integer(x->vocab.eos));
    set(j, "pad_token_id", json_null());
    set(j, "torch_dtype", json_string(dtype_name[x->type]));
    set(j, "dtype", json_string(dtype_name[x->type]));
    set(j, "weft", settings_json(c));
    return j;
}

static json_t *layer_types(const struct model *m)
{
    json_t *list = json_array();

    for (int i = 0; i < m->cfg.layers; i++)
        json_array_append_new(list, json_string(layer_opt(&m->layer[i], "window") > 0
                                                    ? "sliding_attention"
                                                    : "full_attention"));
    return list;
}

/* Bases of rotation by layer; 0: none. */
static json_t *layer_bases(const struct model *m)
{
    json_t *list = json_array();

    for (int i = 0; i < m->cfg.layers; i++)
        json_array_append_new(list, json_real(layer_base(&m->layer[i])));
    return list;
}

static void attention_config(json_t *j, const struct model *m, enum form_kind kind)
{
    const struct config *c = &m->cfg;
    double               base = stack_base(m);
    int                  window = stack_window(m), e = c->width / c->heads;

    set(j, "num_attention_heads", json_integer(c->heads));
    set(j, "num_key_value_heads", json_integer(c->kv_heads));
    set(j, "hidden_act", json_string("silu"));
    set(j, "rms_norm_eps", json_real(c->eps));
    set(j, "rope_theta", json_real(base));
    set(j, "rope_parameters", json_pack("{s:s, s:f}", "rope_type", "default",
                                        "rope_theta", base));
    set(j, "attention_bias", json_false());
    set(j, "mlp_bias", json_false());
    set(j, "attention_dropout", json_real(0));
    if (kind != FORM_GRANITE_SWA)
        set(j, "head_dim", json_integer(e));
    if (kind != FORM_LLAMA)
        set(j, "sliding_window", window ? json_integer(window) : json_null());
    if (kind == FORM_MINISTRAL || kind == FORM_QWEN3 || kind == FORM_GRANITE_SWA)
        set(j, "layer_types", layer_types(m));
    if (kind == FORM_QWEN3)
        set(j, "use_sliding_window", json_boolean(window > 0));
    if (kind == FORM_GRANITE_SWA) {
        set(j, "layer_rope_theta", layer_bases(m));
        set(j, "attention_multiplier", json_real(1 / sqrt(e)));
        set(j, "embedding_multiplier", json_real(1));
        set(j, "residual_multiplier", json_real(1));
        set(j, "logits_scaling", json_real(1));
    }
}

/* fla's `attn`: the softmax layers among the others. */
static json_t *hybrid_config(const struct model *m)
{
    json_t *layers = json_array();
    int     window = stack_window(m);

    for (int i = 0; i < m->cfg.layers; i++)
        if (layer_is(&m->layer[i], "softmax"))
            json_array_append_new(layers, json_integer(i));
    if (!json_array_size(layers)) {
        json_decref(layers);
        return json_null();
    }
    return json_pack("{s:o, s:i, s:i, s:b, s:o, s:f}", "layers", layers, "num_heads",
                     m->cfg.heads, "num_kv_heads", m->cfg.kv_heads, "qkv_bias", 0,
                     "window_size", window ? json_integer(window) : json_null(),
                     "rope_theta", stack_base(m));
}

static const struct mixer_cfg *other_layer(const struct model *m)
{
    int i = 0;

    while (layer_is(&m->layer[i], "softmax"))
        i++;
    return &m->layer[i];
}

static void fla_config(json_t *j, const struct model *m, enum form_kind kind)
{
    const struct mixer_cfg *o = other_layer(m);
    int                     e = o->C / o->H, dk = (int)layer_opt(o, "dk"),
                            dv = (int)layer_opt(o, "dv");

    set(j, "num_heads", json_integer(o->H));
    set(j, "attn_mode", json_string("chunk"));
    set(j, "hidden_act", json_string("swish"));
    set(j, "hidden_ratio", json_null());
    set(j, "norm_eps", json_real(m->cfg.eps));
    set(j, "attn", hybrid_config(m));
    if (kind == FORM_GLA) {
        set(j, "expand_k", json_real((double)(dk ? dk : e / 2) * o->H / o->C));
        set(j, "expand_v", json_real((double)(dv ? dv : e) * o->H / o->C));
        set(j, "use_short_conv", json_boolean(layer_opt(o, "conv") > 0));
        set(j, "conv_size", json_integer(4));
        set(j, "use_output_gate", json_true());
    } else {
        set(j, "expand_v", json_real(layer_opt(o, "expand_v")));
    }
    if (kind == FORM_RETNET) {
        set(j, "expand_k", json_real(1));
        set(j, "use_short_conv", json_false());
        set(j, "use_output_gate", json_true());
    }
    if (kind == FORM_DELTANET) {
        set(j, "head_dim", json_integer(e));
        set(j, "use_gate", json_true());
        set(j, "use_short_conv", json_true());
        set(j, "conv_size", json_integer(4));
        set(j, "allow_neg_eigval", json_boolean(layer_opt(o, "neg_eig") > 0));
    }
}

static void bamba_config(json_t *j, const struct model *m)
{
    const struct mixer_cfg *o = other_layer(m);
    int                     expand = (int)layer_opt(o, "expand");

    attention_config(j, m, FORM_LLAMA);
    set(j, "attn_layer_indices", json_array());
    set(j, "mamba_n_heads", json_integer(o->H));
    set(j, "mamba_d_head", json_integer((json_int_t)expand * o->C / o->H));
    set(j, "mamba_n_groups", json_integer(1));
    set(j, "mamba_d_state", json_integer((json_int_t)layer_opt(o, "state")));
    set(j, "mamba_d_conv", json_integer(4));
    set(j, "mamba_expand", json_integer(expand));
    set(j, "mamba_conv_bias", json_true());
    set(j, "mamba_proj_bias", json_false());
}

static enum fail write_config(const struct outgoing *x, enum form_kind kind,
                              const char *dir, struct why *why)
{
    char    path[PATH_MAX];
    json_t *j = common_config(x, kind);

    if (kind == FORM_BAMBA)
        bamba_config(j, &x->model);
    else if (kind >= FORM_GLA)
        fla_config(j, &x->model, kind);
    else
        attention_config(j, &x->model, kind);
    return json_write(path_join(path, sizeof path, dir, "config.json"), j, FLAGS, why);
}

/* ---- export: the rest -------------------------------------------------------------- */

static enum fail write_generation(const struct outgoing *x, const char *dir,
                                  struct why *why)
{
    struct sampler_options o;
    char                   path[PATH_MAX];

    sampler_defaults(&o);
    return json_write(
        path_join(path, sizeof path, dir, "generation_config.json"),
        json_pack("{s:b, s:f, s:i, s:f, s:f, s:i, s:i}", "do_sample", 1, "temperature",
                  o.temp, "top_k", o.top_k, "top_p", o.top_p, "min_p", o.min_p,
                  "bos_token_id", x->vocab.eos, "eos_token_id", x->vocab.eos),
        FLAGS, why);
}

static enum fail write_weights(const struct outgoing *x, enum form_kind kind,
                               const char *dir, struct why *why)
{
    static const enum dtype dtype[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    static const char *const meta[] = {"format", "pt"};

    struct spelling   s = form_hf_spelling(kind, x->type);
    struct foreigners f;
    struct tensor    *t = NULL;
    char              path[PATH_MAX];
    enum fail         err = foreign_make(&f, &x->model, &s, why);

    if (err)
        return err;
    t = calloc((size_t)f.n, sizeof *t);
    for (int i = 0; t && i < f.n; i++) {
        const struct foreign *q = &f.tensor[i];

        t[i] = (struct tensor){.dtype = dtype[q->type], .dims = q->dims, .n = q->n,
                               .data = q->data};
        memcpy(t[i].name, q->name, sizeof t[i].name);
        memcpy(t[i].shape, q->shape, sizeof t[i].shape);
    }
    err = t ? safetensors_write(path_join(path, sizeof path, dir, "model.safetensors"), t,
                                f.n, meta, 1, why)
            : fail(why, FAIL_MEMORY, "out of memory for the tensors' names");
    free(t);
    foreign_free(&f);
    return err;
}

static enum fail write_tokenizer(const struct outgoing *x, bool blank, const char *dir,
                                 struct why *why)
{
    char        path[PATH_MAX];
    size_t      len;
    const void *model = tokenizer_model(x->tokenizer, &len);
    json_t     *j = json_pack(
        "{s:s, s:s, s:s, s:b, s:b, s:b, s:i}", "tokenizer_class",
        "PreTrainedTokenizerFast", "bos_token", "</s>", "eos_token", "</s>",
        "add_prefix_space", blank, "legacy", 0, "clean_up_tokenization_spaces", 0,
        "model_max_length", x->model.cfg.context);
    enum fail err;

    if (x->vocab.kind != VOCAB_BYTES)
        set(j, "unk_token", json_string("<unk>"));
    err = json_write(path_join(path, sizeof path, dir, "tokenizer_config.json"), j, FLAGS,
                     why);
    if (!err)
        err = json_write(path_join(path, sizeof path, dir, "tokenizer.json"),
                         vocab_json(&x->vocab, blank), FLAGS, why);
    if (!err)
        err = file_write(path_join(path, sizeof path, dir, "weft.tokenizer.model"), model,
                         len, why);
    if (!err && x->vocab.kind == VOCAB_BPE)
        err = file_write(path_join(path, sizeof path, dir, "tokenizer.model"), model, len,
                         why);
    return err;
}

static void tell(struct outgoing *x, enum form_kind kind)
{
    snprintf(x->form, sizeof x->form, "%s, %s", forms[kind].class,
             packed_name(x->type));
    if (kind >= FORM_GLA)
        note(x, "the class %s needs %s", forms[kind].class, forms[kind].needs);
    if (x->vocab.kind != VOCAB_BYTES)
        note(x, "U+2581 in a text is read as a space there, the text </s> as the end of "
                "a document%s", x->vocab.kind == VOCAB_UNIGRAM
                ? ", and the text <0x0A> as that byte" : "");
}

enum fail hf_export(struct outgoing *x, const char *dir, struct why *why)
{
    enum form_kind kind;
    bool           blank = false;
    enum fail      err = form_for_hf(&x->model, &kind, why);

    if (!err && x->type == PACKED_Q8_0)
        err = fail(why, FAIL_USAGE, "--type q8_0 is llama.cpp's: take f32, f16 or bf16, "
                   "or --to gguf");
    if (!err)
        err = prefix_is_blank(&x->model.cfg, &blank, why);
    if (err)
        return err;
    tell(x, kind);
    err = write_config(x, kind, dir, why);
    if (!err)
        err = write_generation(x, dir, why);
    if (!err)
        err = write_tokenizer(x, blank, dir, why);
    return err ? err : write_weights(x, kind, dir, why);
}

/* ---- import: config.json ----------------------------------------------------------- */

struct source {
    const json_t  *j;
    const char    *where;
    enum form_kind kind;
};

static const json_t *get(const struct source *s, const char *key)
{
    const json_t *v = json_object_get(s->j, key);

    return json_is_null(v) ? NULL : v;
}

/* A whole number from 1 to max; 0: it is none. */
static int whole(const struct source *s, const char *key, int max, int otherwise)
{
    const json_t *v = get(s, key);
    json_int_t    n = v ? json_integer_value(v) : otherwise;

    return n >= 1 && n <= max ? (int)n : 0;
}

static enum fail take_type(struct source *s, struct why *why)
{
    const char *type = json_string_value(get(s, "model_type"));
    bool        own = get(s, "weft") != NULL;

    for (int i = 0; i < FORMS; i++)
        if (type && !strcmp(forms[i].type, type) && (own || i <= FORM_QWEN3)) {
            s->kind = (enum form_kind)i;
            return FAIL_NONE;
        }
    return fail(why, FAIL_INPUT, "%s: model_type '%.40s'; weft reads llama, mistral, "
                "ministral and qwen3, and what it exported itself", s->where,
                type ? type : "none");
}

/* NULL, or what the model has that weft has not. */
static const char *unsupported(const struct source *s, const struct config *c)
{
    const char   *act = json_string_value(get(s, "hidden_act"));
    const json_t *rope = get(s, "rope_parameters");
    const char   *kind = json_string_value(json_object_get(rope, "rope_type"));

    if (act && strcmp(act, "silu"))
        return "another activation than silu";
    if (json_is_true(get(s, "attention_bias")) || json_is_true(get(s, "mlp_bias")))
        return "biases";
    if (get(s, "rope_scaling") || (kind && strcmp(kind, "default")))
        return "scaled rotation";
    if (whole(s, "head_dim", 65536, c->width / c->heads) != c->width / c->heads)
        return "heads of another width than width / heads";
    return NULL;
}

static bool slides(const struct source *s, int layer, bool otherwise)
{
    const char *type = json_string_value(
        json_array_get(get(s, "layer_types"), (size_t)layer));

    return type ? !strcmp(type, "sliding_attention") : otherwise;
}

static enum fail take_layers(const struct source *s, struct config *c, double base,
                             struct why *why)
{
    struct attention_layer layer[LAYERS];
    bool all = s->kind == FORM_MISTRAL || s->kind == FORM_MINISTRAL;
    int  window = whole(s, "sliding_window", 1 << 20, 0);

    if (s->kind == FORM_LLAMA ||
        (s->kind == FORM_QWEN3 && !json_is_true(get(s, "use_sliding_window"))))
        window = 0;
    if (s->kind == FORM_QWEN3 && window && !get(s, "layer_types"))
        return fail(why, FAIL_INPUT, "%s: it has windows but no layer_types that say "
                    "where", s->where);
    for (int i = 0; i < c->layers; i++)
        layer[i] = (struct attention_layer){
            .window = slides(s, i, all) ? window : 0,
            .qk_norm = s->kind == FORM_QWEN3, .base = base};
    return form_mixers(c, layer, c->layers, s->where, why);
}

/* As transformers' own keys tell it. */
static enum fail take_keys(const struct source *s, struct config *c, struct why *why)
{
    const json_t *rope = json_object_get(get(s, "rope_parameters"), "rope_theta"),
                 *base = rope ? rope : get(s, "rope_theta"),
                 *eps = get(s, "rms_norm_eps");
    double        theta = base ? json_number_value(base) : 1e4;
    const char   *bad;

    config_defaults(c);
    c->width = whole(s, "hidden_size", 65536, 0);
    c->layers = whole(s, "num_hidden_layers", LAYERS, 0);
    c->heads = whole(s, "num_attention_heads", 4096, 0);
    c->kv_heads = whole(s, "num_key_value_heads", 4096, c->heads);
    c->mlp = whole(s, "intermediate_size", 1 << 20, 0);
    c->context = whole(s, "max_position_embeddings", 1 << 20, 2048);
    c->vocab = whole(s, "vocab_size", 1 << 24, 0);
    c->tied = json_is_true(get(s, "tie_word_embeddings"));
    c->eps = eps ? json_number_value(eps) : 1e-6;
    if (!c->width || !c->layers || !c->heads || !c->kv_heads || !c->mlp || !c->context ||
        !c->vocab || !(c->eps >= 1e-12 && c->eps <= 1) || !(theta >= 1 && theta <= 1e12))
        return fail(why, FAIL_INPUT, "%s: a size is missing or out of range", s->where);
    bad = unsupported(s, c);
    if (bad)
        return fail(why, FAIL_INPUT, "%s: it has %s, which weft has not", s->where, bad);
    return take_layers(s, c, theta, why);
}

static enum fail take_settings(struct source *s, struct config *c, struct why *why)
{
    enum fail err = take_type(s, why);

    if (err)
        return err;
    return get(s, "weft") ? settings_take(c, get(s, "weft"), s->where, why)
                          : take_keys(s, c, why);
}

/* ---- import: weights --------------------------------------------------------------- */

struct shards {
    struct safetensors file[SHARDS];
    int                n;
    struct foreigners  all;
};

static enum fail add_shard(struct shards *s, const char *path, struct why *why)
{
    struct safetensors *f = &s->file[s->n];
    struct foreign     *more;
    enum fail           err = safetensors_open(f, path, why);

    if (err)
        return err;
    s->n++;
    more = realloc(s->all.tensor, (size_t)(s->all.n + f->n + 1) * sizeof *more);
    if (!more)
        return fail(why, FAIL_MEMORY, "%s: out of memory", path);
    s->all.tensor = more;
    for (int i = 0; i < f->n; i++) {
        const struct tensor *t = &f->tensor[i];
        struct foreign      *to = &s->all.tensor[s->all.n++];

        *to = (struct foreign){.dims = t->dims, .n = t->n, .data = t->data};
        memcpy(to->name, t->name, sizeof to->name);
        memcpy(to->shape, t->shape, sizeof to->shape);
        if (t->dtype != DTYPE_F32 && t->dtype != DTYPE_F16 && t->dtype != DTYPE_BF16)
            return fail(why, FAIL_INPUT, "%s: the tensor %s is none of F32, F16 and BF16",
                        path, t->name);
        to->type = t->dtype == DTYPE_F32 ? PACKED_F32
                   : t->dtype == DTYPE_F16 ? PACKED_F16 : PACKED_BF16;
    }
    return FAIL_NONE;
}

/* Has a shard of that name been opened? Names must be plain: no way out of dir. */
static bool is_new(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return false;
    return true;
}

static enum fail open_index(struct shards *s, const char *dir, const char *index,
                            struct why *why)
{
    const char *names[SHARDS], *key;
    char        path[PATH_MAX];
    json_t     *j, *file;
    enum fail   err = json_read(&j, index, JSON_MAX, "fetch it again", why);

    if (!err && !json_is_object(json_object_get(j, "weight_map")))
        err = fail(why, FAIL_INPUT, "%s: it has no weight_map", index);
    if (!err)
        json_object_foreach(json_object_get(j, "weight_map"), key, file) {
            const char *name = json_string_value(file);

            if (err || (name && !is_new(names, s->n, name)))
                continue;
            if (!name || strchr(name, '/') || s->n == SHARDS) {
                err = fail(why, FAIL_INPUT, "%s: not at most %d files of its directory",
                           index, SHARDS);
                continue;
            }
            names[s->n] = name;
            err = add_shard(s, path_join(path, sizeof path, dir, name), why);
        }
    json_decref(j);
    return err;
}

static enum fail open_shards(struct shards *s, const char *dir, struct why *why)
{
    char path[PATH_MAX];

    if (file_beside(path, sizeof path, dir, "model.safetensors"))
        return add_shard(s, path, why);
    if (file_beside(path, sizeof path, dir, "model.safetensors.index.json"))
        return open_index(s, dir, path, why);
    return fail(why, FAIL_INPUT, "%s: neither model.safetensors nor its index; weights "
                "in other files cannot be read", dir);
}

static void close_shards(struct shards *s)
{
    for (int i = 0; i < s->n; i++)
        safetensors_close(&s->file[i]);
    foreign_free(&s->all);
}

/* ---- import ------------------------------------------------------------------------ */

static enum fail take_tokenizer(struct incoming *in, struct config *c, const char *dir,
                                const char *file, struct why *why)
{
    char      path[PATH_MAX];
    bool      blank;
    enum fail err;

    if (!file && (file_beside(path, sizeof path, dir, "weft.tokenizer.model") ||
                  file_beside(path, sizeof path, dir, "tokenizer.model")))
        file = path;
    if (!file)
        return fail(why, FAIL_INPUT, "%s: no tokenizer.model; a tokenizer.json of others "
                    "cannot be read: give a SentencePiece model with --tokenizer", dir);
    err = tokenizer_take(&in->tokenizer, file, c->vocab, &blank, why);
    if (!err && blank)
        strcpy(c->prefix, " ");
    return err;
}

static double numbers(const struct foreigners *f)
{
    double n = 0;

    for (int i = 0; i < f->n; i++)
        n += (double)f->tensor[i].n;
    return n;
}

static enum fail take_all(struct incoming *in, struct source *s, struct shards *shards,
                          const char *dir, const char *tokenizer, struct why *why)
{
    struct spelling spelling;
    struct config   c;
    const json_t   *bos;
    enum fail       err = take_settings(s, &c, why);

    if (!err)
        err = take_tokenizer(in, &c, dir, tokenizer, why);
    if (!err)
        err = open_shards(shards, dir, why);
    if (!err)
        err = incoming_open(in, &c, numbers(&shards->all), s->where, why);
    if (err)
        return err;
    bos = get(s, "bos_token_id");
    incoming_begins(in, json_is_number(bos) ? json_number_value(bos) : -1);
    spelling = form_hf_spelling(s->kind, PACKED_F32);
    snprintf(in->from, sizeof in->from, "%s", forms[s->kind].class);
    return foreign_take(&in->model, &shards->all, &spelling, dir, why);
}

enum fail hf_import(struct incoming *in, const char *dir, const char *tokenizer,
                    struct why *why)
{
    struct shards *shards = calloc(1, sizeof *shards);
    char           path[PATH_MAX];
    json_t        *j = NULL;
    struct source  s = {.where = path};
    enum fail      err = json_read(&j, path_join(path, sizeof path, dir, "config.json"),
                                   JSON_MAX, "fetch it again", why);

    s.j = j;
    if (!err && !shards)
        err = fail(why, FAIL_MEMORY, "%s: out of memory", dir);
    if (!err)
        err = take_all(in, &s, shards, dir, tokenizer, why);
    if (shards)
        close_shards(shards);
    free(shards);
    json_decref(j);
    return err;
}
