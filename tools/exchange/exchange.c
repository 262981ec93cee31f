#include "tools/exchange/exchange.h"

#include "data/base/file.h"
#include "data/base/json.h"
#include "model/files/checkpoint.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TOKENIZER_MAX = 64 << 20 };

void note(struct outgoing *x, const char *format, ...)
{
    va_list args;

    if (x->n_notes == sizeof x->notes / sizeof *x->notes)
        return;
    va_start(args, format);
    vsnprintf(x->notes[x->n_notes++], sizeof x->notes[0], format, args);
    va_end(args);
}

enum fail prefix_is_blank(const struct config *c, bool *blank, struct why *why)
{
    *blank = !strcmp(c->prefix, " ");
    return *blank || !*c->prefix
               ? FAIL_NONE
               : fail(why, FAIL_USAGE, "prefix = \"%s\": other programs can put a space "
                      "before a text, or nothing", c->prefix);
}

bool file_beside(char *buf, size_t cap, const char *dir, const char *name)
{
    return path_exists(path_join(buf, cap, dir, name)) && !path_is_dir(buf);
}

/* ---- files ------------------------------------------------------------------------- */

enum fail map_open(struct mapped *f, const char *path, struct why *why)
{
    uint64_t  size;
    int       fd;
    void     *map;
    enum fail err = file_open(path, &fd, &size, why);

    *f = (struct mapped){0};
    if (err)
        return err;
    map = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (map == MAP_FAILED)
        return fail(why, FAIL_INPUT, "%s: %s", path,
                    size ? strerror(errno) : "the file is empty");
    *f = (struct mapped){map, size};
    return FAIL_NONE;
}

void map_close(struct mapped *f)
{
    if (f->bytes)
        munmap((void *)f->bytes, f->len);
    *f = (struct mapped){0};
}

/* ---- tokenizers -------------------------------------------------------------------- */

/* From tokenizer.bin's bytes. */
static enum fail take_tokens(struct tokenizer **t, const unsigned char *bytes, size_t len,
                             int vocab, struct why *why)
{
    struct token *token;
    void         *model = NULL;
    size_t        size;
    enum fail     err = llama2c_tokens(&token, vocab, bytes, len, why);

    if (!err)
        err = vocab_make(token, vocab, true, &model, &size, why);
    if (!err)
        err = tokenizer_load(t, model, size, why);
    free(token);
    free(model);
    return err;
}

static enum fail take_model(struct tokenizer **t, const char *bytes, size_t len,
                            bool *blank, struct why *why)
{
    void     *model;
    size_t    size;
    enum fail err = vocab_convert(bytes, len, &model, &size, blank, why);

    if (!err)
        err = tokenizer_load(t, model, size, why);
    free(model);
    return err;
}

enum fail tokenizer_take(struct tokenizer **t, const char *path, int vocab, bool *blank,
                         struct why *why)
{
    char      *bytes;
    size_t     len;
    struct why inner;
    enum fail  err = file_read(path, TOKENIZER_MAX, &bytes, &len, why);

    *t = NULL;
    *blank = false;
    if (err)
        return err;
    err = tokenizer_load(t, bytes, len, &inner);
    if (err == FAIL_INPUT)
        err = take_model(t, bytes, len, blank, &inner);
    if (err == FAIL_INPUT &&
        !(err = take_tokens(t, (unsigned char *)bytes, len, vocab, &inner)))
        *blank = true;
    free(bytes);
    if (err)
        return fail(why, err, "%.300s: %.600s", path, inner.line);
    return tokenizer_expect(t, vocab, path, why);
}

/* ---- settings ---------------------------------------------------------------------- */

json_t *settings_json(const struct config *c)
{
    return config_to_json(c, KEY_MODEL);
}

enum fail settings_take(struct config *c, const json_t *j, const char *where,
                        struct why *why)
{
    config_defaults(c);
    return config_from_json(c, j, KEY_MODEL, where, why);
}

/* Weights that any model of these settings has at least. */
static double at_least(const struct config *c)
{
    double w = c->width;

    return w * c->vocab + c->layers * (2 * w * w + 3 * w * c->mlp);
}

enum fail incoming_open(struct incoming *in, struct config *c, double numbers,
                        const char *where, struct why *why)
{
    struct why inner;

    if (config_resolve(c, &inner))
        return fail(why, FAIL_INPUT, "%.200s: %.700s", where, inner.line);
    if (c->vocab < 1)
        return fail(why, FAIL_INPUT, "%s: it has no vocabulary", where);
    if (numbers < at_least(c))
        return fail(why, FAIL_INPUT, "%s: %.0f numbers, too few for layers = %d, width = "
                    "%d, vocab = %d", where, numbers, c->layers, c->width, c->vocab);
    return model_open(&in->model, c, why);
}

void incoming_begins(struct incoming *in, double first)
{
    int eos = tokenizer_eos(in->tokenizer);

    if (first >= 0 && first != eos)
        snprintf(in->note, sizeof in->note, "texts begin with token %.0f there, with %d "
                 "in weft: their first words come out worse", first, eos);
}

void incoming_close(struct incoming *in)
{
    model_close(&in->model);
    tokenizer_free(in->tokenizer);
    *in = (struct incoming){0};
}
