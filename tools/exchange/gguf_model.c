/* A model as GGUF: llama.cpp's architectures llama, qwen3 and granite_swa.
 *
 * weft's own settings and tokenizer ride along in the keys weft.settings (JSON) and
 * weft.tokenizer (the bytes of tokenizer.model), so that import finds the original.
 */
#include "data/base/file.h"
#include "data/base/json.h"
#include "infer/sampler.h"
#include "tools/exchange/exchange.h"
#include "tools/exchange/gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- export ------------------------------------------------------------------------ */

/* "llama." and the rest. */
static const char *key_of(char buf[96], const char *arch, const char *rest)
{
    snprintf(buf, 96, "%s.%s", arch, rest);
    return buf;
}

static void put_number(struct gguf_out *g, const char *arch, const char *key, int v)
{
    char name[96];

    gguf_put_u32(g, key_of(name, arch, key), (uint32_t)v);
}

static void put_real(struct gguf_out *g, const char *arch, const char *key, double v)
{
    char name[96];

    gguf_put_f32(g, key_of(name, arch, key), (float)v);
}

static void put_pattern(struct gguf_out *g, const char *key, const struct model *m,
                        bool (*has)(const struct mixer_cfg *c))
{
    char name[96];

    gguf_put_array(g, key_of(name, "granite_swa", key), GGUF_BOOL, m->cfg.layers);
    for (int i = 0; i < m->cfg.layers; i++)
        gguf_element(g, &(uint8_t){has(&m->layer[i])}, 1);
}

static bool has_window(const struct mixer_cfg *c) { return layer_opt(c, "window") > 0; }
static bool has_rope(const struct mixer_cfg *c) { return layer_base(c) > 0; }

/* What llama.cpp's granite_swa has beyond llama. */
static void put_granite(struct gguf_out *g, const struct model *m)
{
    const struct config *c = &m->cfg;
    const char          *arch = "granite_swa";
    int                  window = stack_window(m);

    put_number(g, arch, "attention.sliding_window", window ? window : c->context);
    put_pattern(g, "attention.sliding_window_pattern", m, has_window);
    put_pattern(g, "attention.rope_pattern", m, has_rope);
    put_real(g, arch, "attention.scale", 1 / sqrt((double)c->width / c->heads));
    put_real(g, arch, "logit_scale", 1);
    put_real(g, arch, "residual_scale", 1);
    put_real(g, arch, "embedding_scale", 1);
}

static void put_model(struct gguf_out *g, const struct outgoing *x, enum form_kind kind)
{
    static const uint32_t file_type[] = {0, 1, 32, 7};      // by enum packed

    const struct config *c = &x->model.cfg;
    const char          *arch = forms[kind].type;
    int                  e = c->width / c->heads;

    gguf_put_string(g, "general.architecture", arch);
    gguf_put_string(g, "general.name", x->name);
    gguf_put_u32(g, "general.alignment", 32);
    gguf_put_u32(g, "general.file_type", file_type[x->type]);
    gguf_put_u32(g, "general.quantization_version", 2);
    put_number(g, arch, "vocab_size", c->vocab);
    put_number(g, arch, "context_length", c->context);
    put_number(g, arch, "embedding_length", c->width);
    put_number(g, arch, "block_count", c->layers);
    put_number(g, arch, "feed_forward_length", c->mlp);
    put_number(g, arch, "attention.head_count", c->heads);
    put_number(g, arch, "attention.head_count_kv", c->kv_heads);
    put_number(g, arch, "attention.key_length", e);
    put_number(g, arch, "attention.value_length", e);
    put_real(g, arch, "attention.layer_norm_rms_epsilon", c->eps);
    put_number(g, arch, "rope.dimension_count", e);
    put_real(g, arch, "rope.freq_base", stack_base(&x->model));
    if (kind == FORM_GRANITE_SWA)
        put_granite(g, &x->model);
}

static void put_vocab(struct gguf_out *g, const struct vocab *v)
{
    struct token t;
    int32_t      type;

    gguf_put_array(g, "tokenizer.ggml.tokens", GGUF_STRING, v->n);
    for (int i = 0; i < v->n; i++) {
        vocab_gguf(v, i, &t);
        gguf_element_string(g, t.text, t.len);
    }
    gguf_put_array(g, "tokenizer.ggml.token_type", GGUF_I32, v->n);
    for (int i = 0; i < v->n; i++) {
        vocab_gguf(v, i, &t);
        type = t.type;
        gguf_element(g, &type, 4);
    }
    gguf_put_array(g, "tokenizer.ggml.scores", GGUF_F32, v->n);
    for (int i = 0; i < v->n; i++) {
        vocab_gguf(v, i, &t);
        gguf_element(g, &t.score, 4);
    }
    if (v->kind == VOCAB_BYTES)
        gguf_put_array(g, "tokenizer.ggml.merges", GGUF_STRING, 0);
}

static void put_tokenizer(struct gguf_out *g, const struct vocab *v, bool blank)
{
    static const char *const model[] = {[VOCAB_UNIGRAM] = "t5", [VOCAB_BPE] = "llama",
                                        [VOCAB_BYTES] = "gpt2"};

    gguf_put_string(g, "tokenizer.ggml.model", model[v->kind]);
    gguf_put_string(g, "tokenizer.ggml.pre", "default");
    put_vocab(g, v);
    gguf_put_u32(g, "tokenizer.ggml.bos_token_id", (uint32_t)v->eos);
    gguf_put_u32(g, "tokenizer.ggml.eos_token_id", (uint32_t)v->eos);
    if (v->kind != VOCAB_BYTES)
        gguf_put_u32(g, "tokenizer.ggml.unknown_token_id", 0);
    gguf_put_bool(g, "tokenizer.ggml.add_bos_token", true);
    gguf_put_bool(g, "tokenizer.ggml.add_eos_token", false);
    gguf_put_bool(g, "tokenizer.ggml.add_space_prefix", blank);
    gguf_put_bool(g, "tokenizer.ggml.remove_extra_whitespaces", false);
}

static enum fail put_own(struct gguf_out *g, const struct outgoing *x, struct why *why)
{
    json_t     *j = settings_json(&x->model.cfg);
    char       *text = json_to_text(j, JSON_COMPACT | JSON_REAL_PRECISION(17));
    size_t      len;
    const void *model = tokenizer_model(x->tokenizer, &len);

    json_decref(j);
    if (!text)
        return fail(why, FAIL_MEMORY, "out of memory for the settings");
    gguf_put_string(g, "weft.settings", text);
    gguf_put_array(g, "weft.tokenizer", GGUF_U8, len);
    gguf_element(g, model, len);
    free(text);
    return FAIL_NONE;
}

/* For ollama. */
static enum fail write_modelfile(const char *dir, struct why *why)
{
    struct sampler_options o;
    char                   path[PATH_MAX], text[256];

    sampler_defaults(&o);
    snprintf(text, sizeof text,
             "FROM ./model.gguf\nTEMPLATE \"{{ .Prompt }}\"\nPARAMETER temperature %g\n",
             o.temp);
    return file_write(path_join(path, sizeof path, dir, "Modelfile"), text, strlen(text),
                      why);
}

static void tell(struct outgoing *x, enum form_kind kind)
{
    snprintf(x->form, sizeof x->form, "GGUF %s, %s", forms[kind].type,
             packed_name(x->type));
    if (x->vocab.kind == VOCAB_UNIGRAM)
        note(x, "llama.cpp's unigram tokenizer (t5) has no bytes: characters beyond "
                "ASCII that are no piece become <unk> there");
    if (x->vocab.kind != VOCAB_BYTES)
        note(x, "U+2581 in a text is read as a space there");
}

enum fail gguf_export(struct outgoing *x, const char *dir, struct why *why)
{
    enum form_kind    kind;
    struct foreigners f = {0};
    struct spelling   s;
    struct gguf_out   g;
    char              path[PATH_MAX];
    bool              blank = false;
    enum fail         err = form_for_gguf(&x->model, &kind, why);

    if (!err)
        err = prefix_is_blank(&x->model.cfg, &blank, why);
    if (err)
        return err;
    s = form_gguf_spelling(kind, x->type);
    tell(x, kind);
    err = foreign_make(&f, &x->model, &s, why);
    if (!err && !gguf_begin(&g))
        err = fail(why, FAIL_MEMORY, "out of memory for the file's header");
    if (!err) {
        put_model(&g, x, kind);
        put_tokenizer(&g, &x->vocab, blank);
        err = put_own(&g, x, why);
        if (!err)
            err = gguf_write(&g, path_join(path, sizeof path, dir, "model.gguf"), &f,
                             why);
    }
    foreign_free(&f);
    return err ? err : write_modelfile(dir, why);
}

/* ---- import ------------------------------------------------------------------------ */

/* A GGUF while it is read: where in messages, and its architecture. */
struct source {
    const struct gguf *g;
    const char        *where;
    char               arch[32];
    enum form_kind     kind;
};

static const struct gguf_key *find(const struct source *s, const char *rest)
{
    char name[96];

    return gguf_find(s->g, key_of(name, s->arch, rest));
}

/* Has a key with a value for each layer another one than v? */
static bool varies(const struct gguf_key *k, double v)
{
    for (uint64_t i = 1; k && i < k->n; i++)
        if (gguf_number(k, i, v) != v)
            return true;
    return false;
}

/* A whole number from 1 to max, the same for all layers; 0: it is none. */
static int whole(const struct source *s, const char *rest, double max, int otherwise)
{
    const struct gguf_key *k = find(s, rest);
    double                 v = gguf_number(k, 0, otherwise);

    return v >= 1 && v <= max && v == floor(v) && !varies(k, v) ? (int)v : 0;
}

static enum fail take_arch(struct source *s, struct why *why)
{
    static const enum form_kind can[] = {FORM_LLAMA, FORM_QWEN3, FORM_GRANITE_SWA};

    const unsigned char *at = NULL;
    size_t               len;
    const char *text = gguf_string(gguf_find(s->g, "general.architecture"), &at, &len);

    snprintf(s->arch, sizeof s->arch, "%.*s", (int)(len < 31 ? len : 31),
             text ? text : "");
    for (size_t i = 0; i < sizeof can / sizeof *can; i++)
        if (!strcmp(forms[can[i]].type, s->arch)) {
            s->kind = can[i];
            return FAIL_NONE;
        }
    return fail(why, FAIL_INPUT, "%s: architecture '%s'; weft reads llama, qwen3 and "
                "granite_swa", s->where, s->arch);
}

/* Are scores multiplied by another number than 1 / sqrt(e)? llama.cpp takes 0 as that. */
static bool scores_scaled(const struct source *s, int e)
{
    double scale = gguf_number(find(s, "attention.scale"), 0, 0);

    return scale != 0 && !(fabs(scale * sqrt((double)e) - 1) < 1e-5);
}

/* NULL, or what this architecture's file asks for that weft has not. */
static const char *unsupported(const struct source *s, const struct config *c)
{
    int e = c->heads ? c->width / c->heads : 0;

    if (whole(s, "attention.key_length", 65536, e) != e ||
        whole(s, "attention.value_length", 65536, e) != e ||
        whole(s, "rope.dimension_count", 65536, e) != e)
        return "its heads are not as wide as width / heads, or rotate only in part";
    if (gguf_number(find(s, "expert_count"), 0, 0) > 0)
        return "it has experts";
    if (find(s, "rope.scaling.type") || find(s, "rope.scaling.factor") ||
        find(s, "rope.scale_linear"))
        return "its rotation is scaled";
    if (scores_scaled(s, e))
        return "its scores have a scale of their own";
    if (s->kind == FORM_GRANITE_SWA &&
        (gguf_number(find(s, "logit_scale"), 0, 1) != 1 ||
         gguf_number(find(s, "residual_scale"), 0, 1) != 1 ||
         gguf_number(find(s, "embedding_scale"), 0, 1) != 1))
        return "its streams are scaled";
    return NULL;
}

/* Has the pattern a number for each layer? Of llama and qwen3 it may be missing. */
static bool by_layer(const struct source *s, const struct gguf_key *pattern, int layers)
{
    if (!pattern)
        return s->kind != FORM_GRANITE_SWA;
    return pattern->array && pattern->n == (uint64_t)layers &&
           !isnan(gguf_number(pattern, 0, NAN));
}

/* Which layers have a window, and which rotate. */
static enum fail take_layers(const struct source *s, struct config *c, double base,
                             struct why *why)
{
    struct attention_layer layer[1024] = {0};
    const struct gguf_key *swa = find(s, "attention.sliding_window_pattern"),
                          *rope = find(s, "attention.rope_pattern");
    int                    window = whole(s, "attention.sliding_window", 1 << 20, 0);

    if (!by_layer(s, swa, c->layers) || !by_layer(s, rope, c->layers))
        return fail(why, FAIL_INPUT, "%s: sliding_window_pattern or rope_pattern has not "
                    "one value for each of the %d layers", s->where, c->layers);
    for (int i = 0; i < c->layers; i++) {
        bool slides = gguf_number(swa, (uint64_t)i, 0) > 0;

        if (slides && !window)
            return fail(why, FAIL_INPUT, "%s: it has windows, but attention."
                        "sliding_window is no size for them", s->where);
        layer[i] = (struct attention_layer){
            .window = slides ? window : 0, .qk_norm = s->kind == FORM_QWEN3,
            .sink = s->kind == FORM_GRANITE_SWA,
            .base = gguf_number(rope, (uint64_t)i, 1) > 0 ? base : 0};
    }
    return form_mixers(c, layer, c->layers, s->where, why);
}

/* The settings as its own keys tell them. */
static enum fail take_keys(const struct source *s, struct config *c, struct why *why)
{
    double      base = gguf_number(find(s, "rope.freq_base"), 0, 1e4);
    const char *bad;

    config_defaults(c);
    c->width = whole(s, "embedding_length", 65536, 0);
    c->layers = whole(s, "block_count", 1024, 0);
    c->heads = whole(s, "attention.head_count", 4096, 0);
    c->kv_heads = whole(s, "attention.head_count_kv", 4096, c->heads);
    c->mlp = whole(s, "feed_forward_length", 1 << 20, 0);
    c->context = whole(s, "context_length", 1 << 20, 2048);
    c->eps = gguf_number(find(s, "attention.layer_norm_rms_epsilon"), 0, 1e-5);
    if (!c->width || !c->layers || !c->heads || !c->kv_heads || !c->mlp || !c->context ||
        !(c->eps >= 1e-12 && c->eps <= 1) || !(base >= 1 && base <= 1e12))
        return fail(why, FAIL_INPUT, "%s: a size among its keys is missing or out of "
                    "range", s->where);
    bad = unsupported(s, c);
    if (bad)
        return fail(why, FAIL_INPUT, "%s: %s, which weft has not", s->where, bad);
    return take_layers(s, c, base, why);
}

/* A float32 as the decimal a person would have written: 1e-05, not 9.99999975e-06. */
static double plain(double x)
{
    char text[32];

    for (int digits = 1; digits < 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if ((float)strtod(text, NULL) == (float)x)
            return strtod(text, NULL);
    }
    return x;
}

static bool has_tensor(const struct gguf *g, const char *name)
{
    for (int i = 0; i < g->tensors.n; i++)
        if (!strcmp(g->tensors.tensor[i].name, name))
            return true;
    return false;
}

static enum fail take_settings(const struct source *s, struct config *c, bool *own,
                               struct why *why)
{
    const unsigned char *at = NULL;
    size_t               len;
    const char *text = gguf_string(gguf_find(s->g, "weft.settings"), &at, &len);
    json_t     *j = text ? json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    enum fail   err;

    *own = text != NULL;
    if (text) {
        err = settings_take(c, j, s->where, why);
        json_decref(j);
        return err;
    }
    err = take_keys(s, c, why);
    if (err)
        return err;
    c->eps = plain(c->eps);
    c->tied = !has_tensor(s->g, "output.weight");
    c->vocab = (int)fmin(gguf_find(s->g, "tokenizer.ggml.tokens")
                             ? (double)gguf_find(s->g, "tokenizer.ggml.tokens")->n
                             : fmax(gguf_number(find(s, "vocab_size"), 0, 0), 0),
                         1 << 24);
    return FAIL_NONE;
}

/* SentencePiece's pieces out of tokenizer.ggml.*. */
static enum fail take_pieces(struct incoming *in, const struct source *s, int n,
                             struct why *why)
{
    const struct gguf_key *tokens = gguf_find(s->g, "tokenizer.ggml.tokens"),
                          *scores = gguf_find(s->g, "tokenizer.ggml.scores"),
                          *types = gguf_find(s->g, "tokenizer.ggml.token_type");
    const unsigned char   *at = NULL;
    struct token          *t = calloc((size_t)n + 1, sizeof *t);
    void                  *model = NULL;
    size_t                 len;
    enum fail err = t ? FAIL_NONE : fail(why, FAIL_MEMORY, "out of memory for %d tokens",
                                         n);

    for (int i = 0; i < n && !err; i++) {
        const char *text = gguf_string(tokens, &at, &len);

        if (!text || len > MODEL_PIECE_BYTES)
            err = fail(why, FAIL_INPUT, "%s: a token is no text, or too long", s->where);
        else
            memcpy(t[i].text, text, len);
        t[i].len = len;
        t[i].score = (float)gguf_number(scores, (uint64_t)i, 0);
        t[i].type = (int)fmax(0, fmin(9, gguf_number(types, (uint64_t)i, 1)));
    }
    if (!err)
        err = vocab_make(t, n, true, &model, &len, why);
    if (!err)
        err = tokenizer_load(&in->tokenizer, model, len, why);
    free(model);
    free(t);
    return err;
}

static enum fail take_tokenizer(struct incoming *in, const struct source *s,
                                struct config *c, const char *file, struct why *why)
{
    const struct gguf_key *own = gguf_find(s->g, "weft.tokenizer"),
                          *tokens = gguf_find(s->g, "tokenizer.ggml.tokens");
    const unsigned char   *at = NULL;
    size_t                 len;
    const char *model = gguf_string(gguf_find(s->g, "tokenizer.ggml.model"), &at, &len);
    bool        blank = false;
    enum fail   err;

    if (file) {
        err = tokenizer_take(&in->tokenizer, file, c->vocab, &blank, why);
    } else if (own && own->type == GGUF_U8) {
        err = tokenizer_load(&in->tokenizer, own->at, (size_t)own->n, why);
    } else if (model && len == 5 && !memcmp(model, "llama", 5) && tokens &&
               tokens->n == (uint64_t)c->vocab) {
        err = take_pieces(in, s, c->vocab, why);
        blank = gguf_number(gguf_find(s->g, "tokenizer.ggml.add_space_prefix"), 0, 1) > 0;
    } else {
        err = fail(why, FAIL_INPUT, "%s: its tokenizer is of kind '%.*s', which weft "
                   "cannot read; give a SentencePiece model with --tokenizer", s->where,
                   (int)(len < 20 ? len : 20), model ? model : "none");
    }
    if (!err && blank)
        strcpy(c->prefix, " ");
    return err;
}

/* The token that texts begin with; -1: there is none. */
static double first_token(const struct gguf *g)
{
    bool added = gguf_number(gguf_find(g, "tokenizer.ggml.add_bos_token"), 0, 1) > 0;

    return added ? gguf_number(gguf_find(g, "tokenizer.ggml.bos_token_id"), 0, -1) : -1;
}

static double numbers(const struct gguf *g)
{
    double n = 0;

    for (int i = 0; i < g->tensors.n; i++)
        n += (double)g->tensors.tensor[i].n;
    return n;
}

/* From the bytes of a file. */
static enum fail take_model(struct incoming *in, struct gguf *g, const char *where,
                            const char *tokenizer, struct why *why)
{
    struct source   s = {.g = g, .where = where};
    struct spelling spelling;
    struct config   c;
    bool            own;
    enum fail       err = take_arch(&s, why);

    if (!err)
        err = take_settings(&s, &c, &own, why);
    if (!err)
        err = take_tokenizer(in, &s, &c, tokenizer, why);
    if (!err)
        err = tokenizer_expect(&in->tokenizer, c.vocab, where, why);
    if (!err)
        err = incoming_open(in, &c, numbers(g), where, why);
    if (err)
        return err;
    incoming_begins(in, first_token(g));
    spelling = form_gguf_spelling(s.kind, PACKED_F32);
    snprintf(in->from, sizeof in->from, "GGUF %s", s.arch);
    return foreign_take(&in->model, &g->tensors, &spelling, where, why);
}

enum fail gguf_import(struct incoming *in, const char *path, const char *tokenizer,
                      struct why *why)
{
    struct mapped f;
    struct gguf   g = {0};
    enum fail     err = map_open(&f, path, why);

    if (!err)
        err = gguf_parse(&g, f.bytes, f.len, path, why);
    if (!err)
        err = take_model(in, &g, path, tokenizer, why);
    gguf_close(&g);
    map_close(&f);
    return err;
}
