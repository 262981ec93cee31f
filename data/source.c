#include "data/source.h"

#include "data/base/file.h"
#include "data/inputs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd_errors.h>

enum { WINDOW_LOG = 27 };       // 128 MiB: what zstd itself accepts without --long

static enum fail no_memory(const struct source *s, struct why *why)
{
    return fail(why, FAIL_MEMORY, "%s: no memory to read it", s->path);
}

static enum fail open_zstd(struct source *s, struct why *why)
{
    s->zstd = ZSTD_createDCtx();
    if (!s->zstd)
        return no_memory(s, why);
    ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, WINDOW_LOG);
    return 0;
}

static enum fail read_plain(struct source *s, char *buf, size_t cap, size_t *got,
                            struct why *why)
{
    ssize_t n;

    do
        n = read(s->fd, buf, cap);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return fail(why, FAIL_INPUT, "%s: cannot read: %s", s->path, strerror(errno));
    *got = (size_t)n;
    s->read += *got;
    return 0;
}

/* The beginning of stdin into `in`, and whether zstd made it. */
static enum fail open_stdin(struct source *s, struct why *why)
{
    size_t got = 1;

    while (s->in.size < 4 && got) {
        enum fail err = read_plain(s, s->packed + s->in.size,
                                   ZSTD_DStreamInSize() - s->in.size, &got, why);

        if (err)
            return err;
        s->in.size += got;
    }
    return s->in.size < 4 || memcmp(s->packed, "\x28\xb5\x2f\xfd", 4)
               ? 0
               : open_zstd(s, why);
}

enum fail source_open(struct source *s, const char *path, bool zst, struct why *why)
{
    enum fail err = 0;

    *s = (struct source){.path = inputs_stdin(path) ? "stdin" : path, .fd = STDIN_FILENO};
    if (strcmp(path, "-"))
        err = file_open(path, &s->fd, NULL, why);
    if (err)
        return err;
    s->packed = malloc(ZSTD_DStreamInSize());
    s->in.src = s->packed;
    if (!s->packed)
        err = no_memory(s, why);
    else if (inputs_stdin(path))
        err = open_stdin(s, why);
    else if (zst)
        err = open_zstd(s, why);
    if (err)
        source_close(s);
    return err;
}

void source_close(struct source *s)
{
    ZSTD_freeDCtx(s->zstd);
    free(s->packed);
    if (s->fd > STDIN_FILENO)
        close(s->fd);
    s->zstd = NULL;
    s->packed = NULL;
    s->fd = -1;
}

bool source_seek(struct source *s, uint64_t at)
{
    if (s->zstd || s->in.size > 0 || lseek(s->fd, (off_t)at, SEEK_SET) != (off_t)at)
        return false;
    s->read = at;
    return true;
}

static enum fail fail_zstd(const struct source *s, size_t err, struct why *why)
{
    if (ZSTD_getErrorCode(err) == ZSTD_error_frameParameter_windowTooLarge)
        return fail(why, FAIL_INPUT,
                    "%s: needs more than 128 MiB to decompress; compress it again "
                    "without --long", s->path);
    if (ZSTD_getErrorCode(err) == ZSTD_error_memory_allocation)
        return no_memory(s, why);
    return fail(why, FAIL_INPUT,
                "%s: corrupt, or not a zstd file (%s); check it with: zstd -t", s->path,
                ZSTD_getErrorName(err));
}

/* The file ends between two frames, or it is truncated. Output that did not fit before is
 * still handed out after the file's last byte was read. */
static enum fail read_zstd(struct source *s, char *buf, size_t cap, size_t *got,
                           struct why *why)
{
    ZSTD_outBuffer out = {buf, cap, 0};
    size_t         at;

    while (out.pos == 0) {
        if (s->in.pos == s->in.size) {
            enum fail err = read_plain(s, s->packed, ZSTD_DStreamInSize(), &s->in.size,
                                       why);

            if (err)
                return err;
            s->in.pos = 0;
            if (s->in.size == 0 && s->pending == 0)
                break;
        }
        at = s->in.pos;
        s->pending = ZSTD_decompressStream(s->zstd, &out, &s->in);
        if (ZSTD_isError(s->pending))
            return fail_zstd(s, s->pending, why);
        if (s->in.size && s->pending && s->in.pos == at && out.pos == 0)
            return fail(why, FAIL_INPUT,
                        "%s: corrupt: a zstd frame comes to no end; check it with: "
                        "zstd -t", s->path);
        if (s->in.size == 0 && out.pos == 0)
            return fail(why, FAIL_INPUT,
                        "%s: truncated: the file ends inside a zstd frame; copy it again",
                        s->path);
    }
    *got = out.pos;
    return 0;
}

enum fail source_read(struct source *s, char *buf, size_t cap, size_t *got,
                      struct why *why)
{
    size_t left = s->in.size - s->in.pos;

    if (s->zstd)
        return read_zstd(s, buf, cap, got, why);
    if (!left)
        return read_plain(s, buf, cap, got, why);
    *got = left < cap ? left : cap;
    memcpy(buf, s->packed + s->in.pos, *got);
    s->in.pos += *got;
    return 0;
}
