/* Errors, threads, models, tokens. */
#include "tools/api/api.h"

#include "data/base/version.h"
#include "model/files/checkpoint.h"

#include <omp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

atomic_bool api_computed;

static atomic_int threads;              // 0: nobody has asked for a number

static _Thread_local struct why last;

int api_fail(int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(last.line, sizeof last.line, format, args);
    va_end(args);
    return err;
}

WEFT_EXPORT const char *weft_version(void)
{
    return version_line;
}

WEFT_EXPORT const char *weft_error(void)
{
    return last.line;
}

WEFT_EXPORT void weft_set_threads(int n)
{
    if (n > 0)
        atomic_store(&threads, n);
}

void api_take_threads(void)
{
    int n = atomic_load(&threads);

    if (n)
        omp_set_num_threads(n);
}

void api_begin(void)
{
    atomic_store(&api_computed, true);
    api_take_threads();
}

/* ---- options ---- */

json_t *api_options(const char *options)
{
    struct refusal why = {0};
    json_t        *j =
        options ? asked_json(options, strlen(options), &why) : json_object();

    if (!j)
        api_fail(FAIL_USAGE, "options: %s", options ? why.message : "not enough memory");
    return j;
}

bool api_sampling(struct asked *a, const json_t *options, const weft_model *m)
{
    struct refusal why = {0};

    *a = (struct asked){0};
    sampler_defaults(&a->sampler);
    if (asked_sampler(a, options, m->model.cfg.vocab, &why) &&
        asked_stops(a, options, &why))
        return true;
    api_fail(FAIL_USAGE, "options: %s", why.message);
    return false;
}

/* ---- models ---- */

WEFT_EXPORT weft_model *weft_model_open(const char *path)
{
    weft_model *m = calloc(1, sizeof *m);
    struct why  why;

    if (!m) {
        api_fail(FAIL_MEMORY, "no memory for a model");
        return NULL;
    }
    if (!checkpoint_load(path, &m->model, &m->tokenizer, m->dir, sizeof m->dir, &why))
        return m;
    api_fail(FAIL_INPUT, "%s", why.line);
    free(m);
    return NULL;
}

WEFT_EXPORT void weft_model_close(weft_model *m)
{
    if (!m)
        return;
    tokenizer_free(m->tokenizer);
    model_close(&m->model);
    free(m);
}

WEFT_EXPORT long weft_model_info(const weft_model *m, char *json, size_t cap)
{
    const struct config *c = &m->model.cfg;
    json_t *j = json_pack("{s:o, s:s, s:i, s:i, s:I, s:i, s:i, s:i, s:s, s:I}",
                          "checkpoint", json_from_bytes(m->dir, strlen(m->dir)), "mixers",
                          c->mixers, "layers", c->layers, "width", c->width, "parameters",
                          (json_int_t)model_count(&m->model), "vocab", c->vocab,
                          "context", c->context, "eos", tokenizer_eos(m->tokenizer),
                          "tokenizer", tokenizer_kind(m->tokenizer), "state_bytes",
                          (json_int_t)model_state_bytes(&m->model));
    char   *text = json_to_text(j, 0);
    long    len = text ? (long)strlen(text) : -1;

    if (text && cap)
        snprintf(json, cap, "%s", text);
    else if (!text)
        api_fail(FAIL_MEMORY, "no memory to describe a model");
    free(text);
    json_decref(j);
    return len;
}

/* ---- tokens ---- */

WEFT_EXPORT long weft_tokenize(const weft_model *m, const char *text, size_t len,
                               int32_t *ids, size_t cap)
{
    long n = tokenizer_encode(m->tokenizer, text, len, (uint32_t *)ids, cap);

    if (n < 0)
        api_fail(FAIL_MEMORY, "no memory to tokenize %zu bytes", len);
    return n;
}

WEFT_EXPORT long weft_detokenize(const weft_model *m, const int32_t *ids, size_t n,
                                 char *text, size_t cap)
{
    return (long)tokenizer_decode(m->tokenizer, (const uint32_t *)ids, n, text, cap);
}
