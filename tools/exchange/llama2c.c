/* llama2.c's files: a header, then float32 tensors in a fixed order.
 *
 *     version 0   7 int32: dim, hidden, layers, heads, kv_heads, vocab (negative: the
 *                 head is its own), seq_len; embed; of all layers in turn norm1, wq, wk,
 *                 wv, wo, norm2, wg, wd, wu; norm; cos and sin (seq_len, e / 2); head
 *     version 1   "ak42", version, the 7 (vocab positive), a byte: tied; 256 bytes in
 *                 all; norm1, norm2, norm, embed, wq, wk, wv, wo, wg, wd, wu; head
 *
 * Pairs of a rotation lie side by side, and a document begins after token 1, where weft
 * has its EOS.
 */
#include "data/base/file.h"
#include "data/base/json.h"
#include "data/base/memory.h"
#include "tools/exchange/exchange.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_0 = 28, HEADER_1 = 256, JSON_MAX = 1 << 20 };
static const char MAGIC[4] = "24ka";

/* The tensors in order. LAYERS: of every layer; TABLES: the two of rotation. */
static const char *const order_0[] = {
    "embed", "L.norm1", "L.mixer.wq", "L.mixer.wk", "L.mixer.wv", "L.mixer.wo", "L.norm2",
    "L.mlp.wg", "L.mlp.wd", "L.mlp.wu", "norm", "TABLES", "head", NULL,
};
static const char *const order_1[] = {
    "L.norm1", "L.norm2", "norm", "embed", "L.mixer.wq", "L.mixer.wk", "L.mixer.wv",
    "L.mixer.wo", "L.mlp.wg", "L.mlp.wd", "L.mlp.wu", "head", NULL,
};

/* What a file is before its numbers are believed. */
struct header {
    int32_t dim, hidden, layers, heads, kv_heads, vocab, seq_len;
    bool    tied;
    int     version;
    size_t  at;                         // where the numbers begin
};

static const struct model_param *param(const struct model *m, const char *name, int layer)
{
    char full[64];

    if (layer >= 0)
        snprintf(full, sizeof full, "blocks.%d.%s", layer, name + 2);
    for (int i = 0; i < m->n_param; i++)
        if (!strcmp(m->param[i].name, layer < 0 ? name : full))
            return &m->param[i];
    return NULL;
}

/* Row r of the file is which of the parameter's: tokens have their places, heads their
 * pairs. */
static int row_of(const struct model *m, const struct vocab *v, const char *name, int r)
{
    bool q = !strcmp(name, "L.mixer.wq"), k = !strcmp(name, "L.mixer.wk");
    int  e = m->cfg.width / m->cfg.heads, j = r % e;

    if (q || k)
        return r - j + (j % 2 ? e / 2 : 0) + j / 2;
    return !strcmp(name, "embed") || !strcmp(name, "head") ? vocab_llama2c_id(v, r) : r;
}

/* ---- export ------------------------------------------------------------------------ */

static enum fail put_param(struct file *f, const struct outgoing *x, const char *name,
                           int layer, float *row, struct why *why)
{
    const struct model_param *p = param(&x->model, name, layer);
    int                       cols = p->is.cols ? p->is.cols : p->is.rows;
    int                       n = p->is.cols ? p->is.rows : 1;
    enum fail                 err = FAIL_NONE;

    for (int r = 0; r < n && !err; r++) {
        int         from = p->is.cols ? row_of(&x->model, &x->vocab, name, r) : 0;
        const real *w = x->model.w + p->at + (size_t)from * cols;

        for (int j = 0; j < cols; j++)
            row[j] = (float)w[j];
        err = file_put(f, row, (size_t)cols * sizeof *row, why);
    }
    return err;
}

/* cos and sin of position t and pair j: angle t / 10000^(2j/e). */
static enum fail put_tables(struct file *f, const struct config *c, struct why *why)
{
    int       e = c->width / c->heads;
    enum fail err = FAIL_NONE;

    for (long i = 0; i < 2L * c->context * (e / 2) && !err; i++) {
        long   t = i / (e / 2) % c->context, j = i % (e / 2);
        double angle = (double)t * pow(1e4, -2.0 * (double)j / e);
        float  x = (float)(i < (long)c->context * (e / 2) ? cos(angle) : sin(angle));

        err = file_put(f, &x, sizeof x, why);
    }
    return err;
}

static enum fail put_section(struct file *f, const struct outgoing *x, const char *name,
                             float *row, struct why *why)
{
    enum fail err = FAIL_NONE;

    if (!strcmp(name, "TABLES"))
        return put_tables(f, &x->model.cfg, why);
    if (!strcmp(name, "head") && x->model.cfg.tied)
        return FAIL_NONE;
    if (strncmp(name, "L.", 2))
        return put_param(f, x, name, -1, row, why);
    for (int i = 0; i < x->model.cfg.layers && !err; i++)
        err = put_param(f, x, name, i, row, why);
    return err;
}

static enum fail write_model(const struct outgoing *x, const char *path, struct why *why)
{
    const struct config *c = &x->model.cfg;
    const int32_t head[7] = {c->width, c->mlp, c->layers, c->heads, c->kv_heads,
                             c->tied ? c->vocab : -c->vocab, c->context};
    size_t        widest = (size_t)(c->mlp > c->width ? c->mlp : c->width);
    float        *row = malloc(widest * sizeof *row);
    struct file   f;
    enum fail     err = row ? file_begin(&f, path, why)
                            : fail(why, FAIL_MEMORY, "%s: out of memory", path);

    if (err) {
        free(row);
        return err;
    }
    err = file_put(&f, head, sizeof head, why);
    for (int i = 0; order_0[i] && !err; i++)
        err = put_section(&f, x, order_0[i], row, why);
    free(row);
    if (!err)
        return file_commit(&f, why);
    file_abort(&f);
    return err;
}

static enum fail write_tokens(const struct outgoing *x, const char *path, struct why *why)
{
    struct token *t = calloc((size_t)x->vocab.n, sizeof *t);
    char         *bytes = NULL;
    size_t        len;
    FILE         *to = memory_stream(&bytes, &len);
    uint32_t      longest = 0;
    enum fail     err = FAIL_MEMORY;

    for (int i = 0; t && i < x->vocab.n; i++) {
        vocab_llama2c(&x->vocab, i, &t[i]);
        longest = t[i].len > longest ? (uint32_t)t[i].len : longest;
    }
    if (to)
        fwrite(&longest, 4, 1, to);
    for (int i = 0; t && to && i < x->vocab.n; i++) {
        fwrite(&t[i].score, 4, 1, to);
        fwrite(&(uint32_t){(uint32_t)t[i].len}, 4, 1, to);
        fwrite(t[i].text, 1, t[i].len, to);
    }
    if (to && !fclose(to) && t)
        err = file_write(path, bytes, len, why);
    else
        err = fail(why, err, "%s: out of memory", path);
    free(bytes);
    free(t);
    return err;
}

enum fail llama2c_export(struct outgoing *x, const char *dir, struct why *why)
{
    char        path[PATH_MAX];
    size_t      len;
    const void *model = tokenizer_model(x->tokenizer, &len);
    bool        blank;
    enum fail   err = form_for_llama2c(&x->model, why);

    if (!err)
        err = prefix_is_blank(&x->model.cfg, &blank, why);
    if (!err && x->type != PACKED_F32)
        err = fail(why, FAIL_USAGE, "--type %s: llama2.c's run.c reads f32 only",
                   packed_name(x->type));
    if (err)
        return err;
    snprintf(x->form, sizeof x->form, "llama2.c version 0");
    if (x->vocab.kind == VOCAB_UNIGRAM)
        note(x, "run.c cuts prompts by merging pairs, which is not how a unigram "
                "tokenizer cuts: train with tokenizer=bpe where that matters");
    if (!blank)
        note(x, "run.c puts a space before every prompt");
    err = write_model(x, path_join(path, sizeof path, dir, "model.bin"), why);
    if (!err)
        err = write_tokens(x, path_join(path, sizeof path, dir, "tokenizer.bin"), why);
    if (!err)
        err = file_write(path_join(path, sizeof path, dir, "tokenizer.model"), model, len,
                         why);
    if (!err)
        err = json_write(path_join(path, sizeof path, dir, "weft.json"),
                         settings_json(&x->model.cfg),
                         JSON_INDENT(2) | JSON_REAL_PRECISION(17), why);
    return err;
}

/* ---- import ------------------------------------------------------------------------ */

enum fail llama2c_tokens(struct token **token, int n, const unsigned char *bytes,
                         size_t len, struct why *why)
{
    const bool    fits = n >= 0 && len >= 4 && (len - 4) / 8 >= (size_t)n;
    struct token *t = fits ? calloc((size_t)n + 1, sizeof *t) : NULL;
    size_t        at = 4;
    int           i = 0;

    *token = t;
    if (!t && fits)
        return fail(why, FAIL_MEMORY, "out of memory for %d tokens", n);
    for (; fits && i < n && at <= len && len - at >= 8; i++) {
        uint32_t size;

        memcpy(&t[i].score, bytes + at, 4);
        memcpy(&size, bytes + at + 4, 4);
        at += 8;
        if (size > len - at || size > MODEL_PIECE_BYTES / 3)
            break;
        for (uint32_t j = 0; j < size; j++, at++)
            t[i].len += (size_t)snprintf(t[i].text + t[i].len,
                                         sizeof t[i].text - t[i].len,
                                         bytes[at] == ' ' ? "\xe2\x96\x81" : "%c",
                                         bytes[at]);
        t[i].type = i == 0 ? PIECE_UNKNOWN : i < MODEL_BYTE0 ? PIECE_CONTROL
                    : i < MODEL_NORMAL0 ? PIECE_BYTE : PIECE_NORMAL;
    }
    if (fits && i == n && at == len) {
        strcpy(t[0].text, "<unk>"), t[0].len = 5;
        if (n > 2)
            strcpy(t[1].text, "<s>"), t[1].len = 3, strcpy(t[2].text, "</s>"),
                t[2].len = 4;
        return FAIL_NONE;
    }
    free(t);
    *token = NULL;
    return fail(why, FAIL_INPUT, "neither a tokenizer of weft or SentencePiece nor "
                "llama2.c's tokenizer.bin of %d tokens", n);
}

/* NULL, or what is wrong with the numbers of the header. */
static const char *check_header(const struct header *h)
{
    if (h->dim < 1 || h->dim > 65536 || h->hidden < 1 || h->hidden > 1 << 20 ||
        h->layers < 1 || h->layers > 1024 || h->heads < 1 || h->heads > 4096 ||
        h->kv_heads < 1 || h->vocab < 1 || h->vocab > 1 << 24 || h->seq_len < 1 ||
        h->seq_len > 1 << 20)
        return "not a llama2.c file: a size in its header is out of range";
    if (h->dim % h->heads || h->heads % h->kv_heads || h->dim / h->heads % 2)
        return "its heads do not divide its width";
    return NULL;
}

/* Bytes that the header means. */
static uint64_t size_of(const struct header *h)
{
    uint64_t w = (uint64_t)h->dim, e = w / (uint64_t)h->heads,
             kv = e * (uint64_t)h->kv_heads, layers = (uint64_t)h->layers;
    uint64_t n = (uint64_t)h->vocab * w * (h->tied ? 1 : 2) + w +
                 layers * (2 * w + 2 * w * w + 2 * kv * w + 3 * w * (uint64_t)h->hidden);

    if (h->version == 0)
        n += 2 * (uint64_t)h->seq_len * (e / 2);
    return h->at + 4 * n;
}

/* From a file's bytes; nothing else is read. */
static enum fail parse_header(struct header *h, const unsigned char *bytes, size_t len,
                              const char *where, struct why *why)
{
    const char *bad;

    *h = (struct header){.at = HEADER_0};
    if (len >= HEADER_1 && !memcmp(bytes, MAGIC, 4)) {
        memcpy(&h->version, bytes + 4, 4);
        if (h->version != 1)
            return fail(why, FAIL_INPUT, "%s: version %d of llama2.c's files; 0 and 1 "
                        "(float32) are read", where, h->version);
        memcpy(&h->dim, bytes + 8, 28);
        h->tied = bytes[36] != 0;
        h->at = HEADER_1;
    } else if (len >= HEADER_0) {
        memcpy(&h->dim, bytes, 28);
        h->tied = h->vocab > 0;
        h->vocab = h->vocab > 0 ? h->vocab : h->vocab > INT32_MIN ? -h->vocab : 0;
    }
    bad = check_header(h);
    if (bad)
        return fail(why, FAIL_INPUT, "%s: %s", where, bad);
    if (size_of(h) != len)
        return fail(why, FAIL_INPUT, "%s: %zu bytes where its header means %llu", where,
                    len, (unsigned long long)size_of(h));
    return FAIL_NONE;
}

static enum fail take_param(const struct incoming *in, const struct vocab *v,
                            const char *name, int layer, const unsigned char **at,
                            const char *where, struct why *why)
{
    const struct model_param *p = param(&in->model, name, layer);
    int                       cols = p->is.cols ? p->is.cols : p->is.rows;
    int                       n = p->is.cols ? p->is.rows : 1;

    for (int r = 0; r < n; r++) {
        int   to = p->is.cols ? row_of(&in->model, v, name, r) : 0;
        real *w = in->model.w + p->at + (size_t)to * cols;

        for (int j = 0; j < cols; j++, *at += 4) {
            float value;

            memcpy(&value, *at, 4);
            if (!isfinite(value))
                return fail(why, FAIL_INPUT, "%s: %s has numbers that are not finite",
                            where, p->name);
            w[j] = value;
        }
    }
    return FAIL_NONE;
}

static enum fail take_section(const struct incoming *in, const struct vocab *v,
                              const char *name, const unsigned char **at,
                              const char *where, struct why *why)
{
    const struct config *c = &in->model.cfg;
    enum fail            err = FAIL_NONE;

    if (!strcmp(name, "TABLES"))
        *at += (size_t)8 * c->context * (c->width / c->heads / 2);
    else if (!strcmp(name, "head") && c->tied)
        ;
    else if (strncmp(name, "L.", 2))
        err = take_param(in, v, name, -1, at, where, why);
    else
        for (int i = 0; i < c->layers && !err; i++)
            err = take_param(in, v, name, i, at, where, why);
    return err;
}

static enum fail take_weights(const struct incoming *in, const struct header *h,
                              const unsigned char *at, const char *where, struct why *why)
{
    const char *const *order = h->version ? order_1 : order_0;
    struct vocab       v;
    enum fail          err = vocab_open(&v, in->tokenizer, why);

    for (int i = 0; order[i] && !err; i++)
        err = take_section(in, &v, order[i], &at, where, why);
    vocab_close(&v);
    return err;
}

/* The settings that weft wrote beside the file, where they are those of the header. */
static enum fail take_settings(struct config *c, const struct header *h, const char *dir,
                               struct why *why)
{
    char      path[PATH_MAX];
    json_t   *j;
    enum fail err;

    config_defaults(c);
    c->width = h->dim, c->mlp = h->hidden, c->layers = h->layers, c->heads = h->heads;
    c->kv_heads = h->kv_heads, c->vocab = h->vocab, c->context = h->seq_len;
    c->tied = h->tied;
    if (!file_beside(path, sizeof path, dir, "weft.json"))
        return FAIL_NONE;
    err = json_read(&j, path, JSON_MAX, "remove it to import without", why);
    if (!err)
        err = settings_take(c, j, path, why);
    json_decref(j);
    if (!err && (c->width != h->dim || c->mlp != h->hidden || c->layers != h->layers ||
                 c->heads != h->heads || c->kv_heads != h->kv_heads ||
                 c->vocab != h->vocab || c->context != h->seq_len || c->tied != h->tied))
        err = fail(why, FAIL_INPUT, "%s: not the settings of the file beside it; remove "
                   "it to import without", path);
    return err;
}

static enum fail take_tokenizer(struct incoming *in, struct config *c, const char *dir,
                                const char *tokenizer, struct why *why)
{
    char      path[PATH_MAX];
    bool      blank;
    enum fail err;

    if (!tokenizer && (file_beside(path, sizeof path, dir, "tokenizer.model") ||
                       file_beside(path, sizeof path, dir, "tokenizer.bin")))
        tokenizer = path;
    if (!tokenizer)
        return fail(why, FAIL_INPUT, "%s: no tokenizer.bin beside the model; give its "
                    "file with --tokenizer", dir);
    err = tokenizer_take(&in->tokenizer, tokenizer, c->vocab, &blank, why);
    if (!err && blank)
        strcpy(c->prefix, " ");
    return err;
}

enum fail llama2c_import(struct incoming *in, const char *path, const char *tokenizer,
                         struct why *why)
{
    const char   *slash = strrchr(path, '/');
    char          dir[PATH_MAX];
    struct mapped f;
    struct header h;
    struct config c;
    enum fail     err = map_open(&f, path, why);

    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) : 1,
             slash ? path : ".");
    snprintf(in->from, sizeof in->from, "llama2.c");
    if (!err)
        err = parse_header(&h, f.bytes, f.len, path, why);
    if (!err)
        err = take_settings(&c, &h, dir, why);
    if (!err)
        err = take_tokenizer(in, &c, dir, tokenizer, why);
    if (!err)
        err = incoming_open(in, &c, (double)f.len / 4, path, why);
    if (!err && form_for_llama2c(&in->model, why))
        err = fail(why, FAIL_INPUT, "%s: its settings are not those of such a file",
                   path);
    if (!err)
        err = take_weights(in, &h, f.bytes + h.at, path, why);
    map_close(&f);
    return err;
}
