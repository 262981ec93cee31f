#include "data/base/json.h"

#include "data/base/file.h"
#include "data/base/utf8.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_bool ran_out;

/* What jansson gets when there is no more: where it is refused, its reader may crash. */
static _Alignas(16) char reserve[1 << 16];
static atomic_size_t     reserved;

static void *watched(size_t n)
{
    void  *p = malloc(n);
    size_t at;

    if (p || !n)
        return p;
    ran_out = true;
    n = (n + 15) / 16 * 16;
    at = n <= sizeof reserve ? atomic_fetch_add(&reserved, n) : sizeof reserve;
    return at + n <= sizeof reserve ? reserve + at : NULL;
}

static bool is_reserve(const void *p)
{
    const char *at = p;

    return at >= reserve && at < reserve + sizeof reserve;
}

static void release(void *p)
{
    if (!is_reserve(p))
        free(p);
}

void json_watch(void)
{
    json_set_alloc_funcs(watched, release);
}

bool json_ran_out(void)
{
    return atomic_exchange(&ran_out, false);
}

char *json_to_text(const json_t *j, size_t flags)
{
    char *text = j ? json_dumps(j, flags) : NULL;

    return is_reserve(text) ? NULL : text;
}

enum fail json_read(json_t **j, const char *path, size_t max, const char *advice,
                    struct why *why)
{
    json_error_t bad;
    char        *text;
    size_t       len;
    enum fail    err = file_read(path, max, &text, &len, why);

    *j = NULL;
    if (err)
        return err;
    *j = json_loadb(text, len, JSON_REJECT_DUPLICATES, &bad);
    free(text);
    if (json_ran_out() || (!*j && json_error_code(&bad) == json_error_out_of_memory)) {
        json_decref(*j);        // it may lack something
        *j = NULL;
        return fail(why, FAIL_MEMORY, "%s: out of memory", path);
    }
    if (*j)
        return 0;
    return fail(why, FAIL_INPUT, "%s:%d: damaged: not JSON (%.200s); %s", path, bad.line,
                bad.text, advice);
}

enum fail json_write(const char *path, json_t *j, size_t flags, struct why *why)
{
    char     *text = json_to_text(j, flags);
    size_t    len = text ? strlen(text) : 0;
    enum fail err;

    json_decref(j);
    if (json_ran_out() || !text) {
        free(text);
        return fail(why, FAIL_MEMORY, "%s: out of memory", path);
    }
    text[len] = '\n'; // in the place of the NUL
    err = file_write(path, text, len + 1, why);
    free(text);
    return err;
}

void json_line(FILE *to, json_t *j, size_t flags)
{
    json_dumpf(j, to, flags);
    fputc('\n', to);
    json_decref(j);
}

json_t *json_from_bytes(const char *bytes, size_t len)
{
    char   *text = malloc(3 * len + 1);
    size_t  n = 0;
    json_t *j;

    for (size_t i = 0, width; text && i < len; i += width ? width : 1) {
        width = (size_t)utf8_length(bytes + i, len - i);
        memcpy(text + n, width ? bytes + i : "\ufffd", width ? width : 3);
        n += width ? width : 3;
    }
    j = text ? json_stringn(text, n) : NULL;
    free(text);
    return j;
}

json_t *json_from_double(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

double json_to_double(const json_t *j)
{
    return json_is_number(j) ? json_number_value(j) : NAN;
}
