#include "infer/asked.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

bool refuse(struct refusal *why, int status, const char *param, const char *format, ...)
{
    va_list args;

    *why = (struct refusal){.status = status, .param = param};
    va_start(args, format);
    vsnprintf(why->message, sizeof why->message, format, args);
    va_end(args);
    one_line(why->message);
    return false;
}

/* ---- JSON ---- */

/* Arrays and objects in one another, strings left out. */
static int depth_of(const char *text, size_t len)
{
    int  depth = 0, most = 0;
    bool quoted = false;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '[' || c == '{'))
            most = ++depth > most ? depth : most;
        else if (!quoted && (c == ']' || c == '}'))
            depth--;
    }
    return most;
}

json_t *asked_json(const char *body, size_t len, struct refusal *why)
{
    json_error_t bad;
    json_t      *j;

    if (depth_of(body, len) > ASKED_DEPTH) {
        refuse(why, 400, NULL, "the JSON is more than %d levels deep", ASKED_DEPTH);
        return NULL;
    }
    j = json_loadb(body, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &bad);
    if (!j)
        refuse(why, 400, NULL, "not JSON: line %d, %s", bad.line, bad.text);
    else if (!json_is_object(j)) {
        refuse(why, 400, NULL, "the body must be a JSON object");
        json_decref(j);
        j = NULL;
    }
    return j;
}

/* ---- fields ---- */

bool asked_string(const json_t *body, const char *key, const char **text, size_t *len,
                struct refusal *why)
{
    const json_t *j = json_object_get(body, key);

    *text = NULL;
    *len = 0;
    if (!j || json_is_null(j))
        return true;
    if (!json_is_string(j))
        return refuse(why, 400, key, "%s must be a string", key);
    *text = json_string_value(j);
    *len = json_string_length(j);
    return true;
}

/* A number field between two bounds; left as it is where there is none. */
bool asked_real(const json_t *body, const char *key, double min, double max,
                      double *x, struct refusal *why)
{
    const json_t *j = json_object_get(body, key);
    double        v = json_to_double(j);

    if (!j || json_is_null(j))
        return true;
    if (!(v >= min && v <= max))
        return refuse(why, 400, key, "%s must be a number from %g to %g", key, min, max);
    *x = v;
    return true;
}

bool asked_whole(const json_t *body, const char *key, long min, long max, long *x,
                       struct refusal *why)
{
    const json_t *j = json_object_get(body, key);
    double        v = json_to_double(j);

    if (!j || json_is_null(j))
        return true;
    if (!(v >= (double)min && v <= (double)max && v == floor(v)))
        return refuse(why, 400, key, "%s must be a whole number from %ld to %ld", key,
                      min, max);
    *x = (long)v;
    return true;
}

bool asked_switch(const json_t *body, const char *key, bool *on,
                        struct refusal *why)
{
    const json_t *j = json_object_get(body, key);

    if (!j || json_is_null(j))
        return true;
    if (!json_is_boolean(j))
        return refuse(why, 400, key, "%s must be true or false", key);
    *on = json_is_true(j);
    return true;
}

/* ---- texts ---- */

static bool add_stop(struct asked *a, const json_t *j, struct refusal *why)
{
    const char *text = json_string_value(j);

    if (!text || !*text || strlen(text) != json_string_length(j) || strlen(text) > 1024)
        return refuse(why, 400, "stop",
                      "stop must be a string of 1 to 1024 bytes, or a list of them");
    if (a->n_stop == ASKED_STOPS)
        return refuse(why, 400, "stop", "at most %d stop strings", ASKED_STOPS);
    a->stop[a->n_stop++] = text;
    return true;
}

bool asked_stops(struct asked *a, const json_t *body, struct refusal *why)
{
    const json_t *j = json_object_get(body, "stop");
    size_t        i;
    json_t       *each;

    if (!j || json_is_null(j))
        return true;
    if (!json_is_array(j))
        return add_stop(a, j, why);
    json_array_foreach(j, i, each)
        if (!add_stop(a, each, why))
            return false;
    return true;
}

/* {"50256": -100}: from -100, which means never, to 100. */
static bool take_bias(struct asked *a, const json_t *body, int vocab, struct refusal *why)
{
    json_t     *j = json_object_get(body, "logit_bias"), *value;
    const char *key;

    if (!j || json_is_null(j))
        return true;
    if (!json_is_object(j) || json_object_size(j) > 1024)
        return refuse(why, 400, "logit_bias",
                      "logit_bias must be an object of at most 1024 token ids");
    a->bias = calloc(json_object_size(j) + 1, sizeof *a->bias);
    if (!a->bias)
        return refuse(why, 503, NULL, "not enough memory");
    a->sampler.bias = a->bias;
    json_object_foreach(j, key, value) {
        char  *end;
        long   id = strtol(key, &end, 10);
        double add = json_to_double(value);

        if (end == key || *end || id < 0 || id >= vocab || !(fabs(add) <= 100))
            return refuse(why, 400, "logit_bias", "logit_bias: a token id below %d, and "
                          "a number from -100 to 100", vocab);
        a->bias[a->sampler.n_bias++] =
            (struct logit_bias){(int32_t)id, add <= -100 ? -INFINITY : add};
    }
    return true;
}

static bool take_seed(struct asked *a, const json_t *body,
                      struct refusal *why)
{
    const json_t *j = json_object_get(body, "seed");

    if (j && !json_is_null(j) && !json_is_integer(j))
        return refuse(why, 400, "seed", "seed must be a whole number");
    if (json_is_integer(j))
        a->sampler.seed = (uint64_t)json_integer_value(j);
    else if (getrandom(&a->sampler.seed, sizeof a->sampler.seed, GRND_NONBLOCK) < 0)
        a->sampler.seed = (uint64_t)(uintptr_t)a;
    return true;
}

bool asked_sampler(struct asked *a, const json_t *body, int vocab, struct refusal *why)
{
    struct sampler_options *o = &a->sampler;
    long                    top_k = o->top_k, last_n = o->repeat_last_n;

    if (!asked_real(body, "temperature", 0, 100, &o->temp, why) ||
        !asked_real(body, "top_p", 0, 1, &o->top_p, why) ||
        !asked_real(body, "min_p", 0, 1, &o->min_p, why) ||
        !asked_whole(body, "top_k", -1, 1000000000, &top_k, why) ||
        !asked_real(body, "repeat_penalty", 0.01, 100, &o->repeat_penalty, why) ||
        !asked_whole(body, "repeat_last_n", 0, 1 << 16, &last_n, why) ||
        !asked_real(body, "presence_penalty", -2, 2, &o->presence_penalty, why) ||
        !asked_real(body, "frequency_penalty", -2, 2, &o->frequency_penalty, why))
        return false;
    o->top_k = top_k < 0 ? 0 : (int)top_k;
    o->repeat_last_n = (int)last_n;
    return take_bias(a, body, vocab, why) && take_seed(a, body, why);
}

void asked_close(struct asked *a)
{
    free(a->bias);
    *a = (struct asked){0};
}
