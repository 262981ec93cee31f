#include "data/base/record.h"

#include "data/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

enum { BUFFER = 1 << 16 };

struct record {
    bool          saving;
    enum fail     err;
    struct why    why;
    struct file   to;
    ZSTD_CCtx    *pack;
    int           fd;
    ZSTD_DCtx    *unpack;
    ZSTD_inBuffer in;               // of packed
    size_t        pending;          // 0: the frame is over
    char          path[PATH_MAX], packed[BUFFER];
};

static void release(struct record *r)
{
    ZSTD_freeCCtx(r->pack);
    ZSTD_freeDCtx(r->unpack);
    if (r->fd >= 0)
        close(r->fd);
    free(r);
}

enum fail record_open(struct record **out, const char *path, bool saving, struct why *why)
{
    struct record *r = calloc(1, sizeof *r);
    enum fail      err;

    *out = NULL;
    if (!r)
        return fail(why, FAIL_MEMORY, "%s: out of memory", path);
    r->saving = saving;
    r->fd = -1;
    r->pending = 1;
    r->in.src = r->packed;
    snprintf(r->path, sizeof r->path, "%s", path);
    r->pack = saving ? ZSTD_createCCtx() : NULL;
    r->unpack = saving ? NULL : ZSTD_createDCtx();
    if (!r->pack && !r->unpack)
        err = fail(why, FAIL_MEMORY, "%s: out of memory", path);
    else
        err = saving ? file_begin(&r->to, path, why) : file_open(path, &r->fd, NULL, why);
    if (err) {
        release(r);
        return err;
    }
    if (saving) {
        ZSTD_CCtx_setParameter(r->pack, ZSTD_c_compressionLevel, 1);
        ZSTD_CCtx_setParameter(r->pack, ZSTD_c_checksumFlag, 1);
    }
    *out = r;
    return 0;
}

bool record_saves(const struct record *r)
{
    return r->saving;
}

bool record_failed(const struct record *r)
{
    return r->err != 0;
}

void record_refuse(struct record *r)
{
    if (!r->err)
        r->err = fail(&r->why, FAIL_INPUT, "%s: damaged, or another program's", r->path);
}

void record_fail(struct record *r, enum fail err, const struct why *why)
{
    if (r->err)
        return;
    r->err = err;
    r->why = *why;
}

/* ---- writing ---- */

static void write_bytes(struct record *r, const void *p, size_t n, ZSTD_EndDirective mode)
{
    ZSTD_inBuffer in = {p, n, 0};
    size_t        left = 1;

    while (!r->err && (mode == ZSTD_e_end ? left > 0 : in.pos < in.size)) {
        ZSTD_outBuffer out = {r->packed, sizeof r->packed, 0};

        left = ZSTD_compressStream2(r->pack, &out, &in, mode);
        if (ZSTD_isError(left))
            r->err = fail(&r->why,
                          ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation
                              ? FAIL_MEMORY
                              : FAIL_WRITE,
                          "%s: %s", r->path, ZSTD_getErrorName(left));
        else
            r->err = file_put(&r->to, r->packed, out.pos, &r->why);
    }
}

/* ---- reading ---- */

/* More of the file into packed; 0 at its end. */
static size_t refill(struct record *r)
{
    ssize_t n = read(r->fd, r->packed, sizeof r->packed);

    r->in.pos = 0;
    r->in.size = n > 0 ? (size_t)n : 0;
    return r->in.size;
}

/* Frames of zstd before 0.8 may be decoded for ever without a step: refused. */
static void unpack(struct record *r, ZSTD_outBuffer *out)
{
    const size_t read = r->in.pos, written = out->pos;

    r->pending = ZSTD_decompressStream(r->unpack, out, &r->in);
    if (ZSTD_isError(r->pending) ||
        (r->pending && r->in.pos == read && out->pos == written))
        record_refuse(r);
}

static void read_bytes(struct record *r, void *p, size_t n)
{
    ZSTD_outBuffer out = {p, n, 0};

    while (!r->err && out.pos < n) {
        if (r->in.pos == r->in.size && !refill(r)) {
            record_refuse(r);
            break;
        }
        unpack(r, &out);
        if (!r->err && !r->pending && out.pos < n)
            record_refuse(r);
    }
    if (r->err)
        memset(p, 0, n);
}

/* The frame ends here, and its checksum is right. */
static void read_end(struct record *r)
{
    char           none;
    ZSTD_outBuffer out = {&none, 0, 0};

    while (!r->err && r->pending) {
        if (r->in.pos == r->in.size && !refill(r))
            record_refuse(r);
        else
            unpack(r, &out);
    }
}

/* ---- both ---- */

void record_bytes(struct record *r, void *p, size_t n)
{
    if (r->saving)
        write_bytes(r, p, n, ZSTD_e_continue);
    else
        read_bytes(r, p, n);
}

enum fail record_close(struct record *r, struct why *why)
{
    enum fail err;

    if (r->saving)
        write_bytes(r, NULL, 0, ZSTD_e_end);
    else
        read_end(r);
    err = r->err;
    if (err)
        *why = r->why;
    if (r->saving && !err)
        err = file_commit(&r->to, why);
    else if (r->saving)
        file_abort(&r->to);
    release(r);
    return err;
}
