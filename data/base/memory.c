#include "data/base/memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

struct memory {
    char  **bytes;              // a NUL follows them
    size_t *len, cap;
    bool    failed;             // once, and from there on
};

static ssize_t memory_write(void *cookie, const char *from, size_t n)
{
    struct memory *m = cookie;
    size_t         need = *m->len + n + 1;

    if (need > m->cap && !m->failed) {
        size_t cap = need < 2 * m->cap ? 2 * m->cap : need;
        char  *more = realloc(*m->bytes, cap);

        m->failed = !more;
        if (more) {
            *m->bytes = more;
            m->cap = cap;
        }
    }
    if (m->failed)
        return 0;
    memcpy(*m->bytes + *m->len, from, n);
    *m->len += n;
    (*m->bytes)[*m->len] = 0;
    return (ssize_t)n;
}

/* For ftell; nothing is written in another place than the end. */
static int memory_seek(void *cookie, off64_t *at, int whence)
{
    if (*at != 0 || whence != SEEK_CUR)
        return -1;
    *at = (off64_t)*((struct memory *)cookie)->len;
    return 0;
}

/* What fclose tells. */
static int memory_close(void *cookie)
{
    bool failed = ((struct memory *)cookie)->failed;

    free(cookie);
    return failed ? EOF : 0;
}

FILE *memory_stream(char **bytes, size_t *len)
{
    struct memory *m = malloc(sizeof *m);
    FILE          *f = NULL;

    *len = 0;
    *bytes = m ? calloc(1, 1) : NULL;
    if (*bytes) {
        *m = (struct memory){bytes, len, 1, false};
        f = fopencookie(m, "w", (cookie_io_functions_t){
            .write = memory_write, .seek = memory_seek, .close = memory_close});
    }
    if (!f) {
        free(m);
        free(*bytes);
        *bytes = NULL;
    }
    return f;
}
