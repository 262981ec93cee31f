#include "data/shard.h"

#include "data/base/file.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

enum {
    LEVEL      = 3,                     // level 6 is 6 % smaller and half as fast
    CHECKSUM   = 1 << 2,                // in the frame header's descriptor, its byte 4
    ENTRY      = 8,                     // of the seek table
    HEAD       = 8, FOOT = 9,           // around its entries
    MAX_FRAMES = 0x8000000,             // the seekable format's own limit
    MAX_RAW    = SHARD_FRAME * 4,       // a frame's ids, four bytes each
    MOST_FILES = 900,                   // of a shard: below the usual limit of open files
    MAX_PACKED = ZSTD_COMPRESSBOUND(MAX_RAW),
};

static const uint32_t skippable = 0x184D2A5E, seekable = 0x8F92EAB1;

static void put32(unsigned char *p, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(x >> 8 * i);
}

static uint32_t get32(const unsigned char *p)
{
    return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

/* ---- writing ---- */

struct shard_writer {
    struct file    file;
    ZSTD_CCtx     *zstd;
    int            token_bytes;
    int            failed;              // the first failure's code
    char          *path;                // of the first file
    uint64_t       n;                   // tokens appended
    uint32_t       fill;                // of them in raw
    int            files;               // finished before this one
    uint32_t       limit;               // frames of a file; 0: any number
    uint32_t       frames, cap;         // of this one: entries in the table, allocated
    unsigned char *table;               // (cap, ENTRY)
    uint64_t       length;              // of its frames, in bytes
    unsigned char  raw[MAX_RAW], packed[MAX_PACKED];
};

static void writer_free(struct shard_writer *w)
{
    ZSTD_freeCCtx(w->zstd);
    free(w->path);
    free(w->table);
    free(w);
}

/* A writer without a file; NULL: out of memory. */
static struct shard_writer *new_writer(const char *path, int token_bytes)
{
    struct shard_writer *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;
    w->file.fd = -1;
    w->token_bytes = token_bytes;
    w->path = strdup(path);
    w->zstd = ZSTD_createCCtx();
    if (!w->zstd || !w->path) {
        writer_free(w);
        return NULL;
    }
    ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_checksumFlag, 1);
    return w;
}

enum fail shard_create(struct shard_writer **out, const char *path, int token_bytes,
                       struct why *why)
{
    struct shard_writer *w = new_writer(path, token_bytes);

    *out = NULL;
    if (!w)
        return fail(why, FAIL_MEMORY, "%s: out of memory", path);
    enum fail err = file_begin(&w->file, path, why);

    if (err) {
        writer_free(w);
        return err;
    }
    *out = w;
    return 0;
}

static enum fail table_room(struct shard_writer *w, struct why *why)
{
    if (w->frames < w->cap)
        return 0;

    uint32_t       cap = w->cap ? 2 * w->cap : 64;
    unsigned char *table;

    if (w->frames >= MAX_FRAMES)
        return fail(why, FAIL_WRITE, "%s: too many tokens for one shard", w->file.path);
    table = realloc(w->table, (size_t)cap * ENTRY);
    if (!table)
        return fail(why, FAIL_MEMORY, "%s: out of memory for its seek table",
                    w->file.path);
    w->table = table;
    w->cap = cap;
    return 0;
}

static enum fail put_table(struct shard_writer *w, struct why *why)
{
    size_t        len = (size_t)w->frames * ENTRY;
    unsigned char head[HEAD], foot[FOOT] = {0};
    enum fail     err;

    put32(head, skippable);
    put32(head + 4, (uint32_t)len + FOOT);
    put32(foot, w->frames);
    put32(foot + 5, seekable);
    if ((err = file_put(&w->file, head, HEAD, why)) ||
        (err = file_put(&w->file, w->table, len, why)))
        return err;
    return file_put(&w->file, foot, FOOT, why);
}

/* Where that fails its temporary file stays, for a record may name it. */
static enum fail finish_file(struct shard_writer *w, struct why *why)
{
    enum fail err = put_table(w, why);

    if (!err)
        err = file_sync(&w->file, why);
    if (!err)
        err = file_commit(&w->file, why);
    else
        close(w->file.fd);
    w->file.fd = -1;
    w->files += !err;
    w->frames = 0;
    w->length = 0;
    return err;
}

static enum fail next_file(struct shard_writer *w, struct why *why)
{
    char      path[PATH_MAX];
    enum fail err = finish_file(w, why);

    if (err)
        return err;
    if (w->files >= MOST_FILES)
        return fail(why, FAIL_USAGE, "%s: more than %d files, which are all open while "
                    "they are read; give a larger --shard", w->path, MOST_FILES);
    err = file_begin(&w->file, shard_name(path, sizeof path, w->path, w->files), why);
    if (err)
        w->file.fd = -1;
    return err;
}

static enum fail put_frame(struct shard_writer *w, struct why *why)
{
    uint32_t raw = w->fill * (uint32_t)w->token_bytes;
    size_t   len = ZSTD_compress2(w->zstd, w->packed, sizeof w->packed, w->raw, raw);
    enum fail err;

    if (ZSTD_isError(len))
        return fail(why,
                    ZSTD_getErrorCode(len) == ZSTD_error_memory_allocation ? FAIL_MEMORY
                                                                           : FAIL_WRITE,
                    "%s: %s", w->file.path, ZSTD_getErrorName(len));
    if (w->limit && w->frames == w->limit && (err = next_file(w, why)))
        return err;
    if ((err = table_room(w, why)) || (err = file_put(&w->file, w->packed, len, why)))
        return err;
    w->length += len;
    put32(w->table + (size_t)w->frames * ENTRY, (uint32_t)len);
    put32(w->table + (size_t)w->frames * ENTRY + 4, raw);
    w->frames++;
    w->fill = 0;
    return 0;
}

static enum fail append(struct shard_writer *w, const uint32_t *ids, uint64_t n,
                        struct why *why)
{
    int       width = w->token_bytes;
    enum fail err;

    for (uint64_t i = 0; i < n; i++) {
        unsigned char *p = w->raw + w->fill * (size_t)width;

        if (width == 2 && ids[i] > UINT16_MAX)
            return fail(why, FAIL_INPUT, "%s: id %u does not fit 16 bits", w->file.path,
                        ids[i]);
        for (int k = 0; k < width; k++)
            p[k] = (unsigned char)(ids[i] >> 8 * k);
        w->n++;
        if (++w->fill == SHARD_FRAME && (err = put_frame(w, why)))
            return err;
    }
    return 0;
}

enum fail shard_append(struct shard_writer *w, const uint32_t *ids, uint64_t n,
                       struct why *why)
{
    if (!w->failed)
        w->failed = append(w, ids, n, why);
    return w->failed;
}

void shard_drop(struct shard_writer *w)
{
    if (w && w->file.fd >= 0)
        close(w->file.fd);
    if (w)
        writer_free(w);
}

enum fail shard_finish(struct shard_writer *w, uint64_t *n, struct why *why)
{
    enum fail err = w->failed;

    *n = w->n;
    if (!err && w->fill)
        err = put_frame(w, why);
    if (!err)
        err = finish_file(w, why);
    else if (w->file.fd >= 0)
        close(w->file.fd);
    writer_free(w);
    return err;
}

int shard_finished(const struct shard_writer *w)
{
    return w->files;
}

void shard_limit(struct shard_writer *w, uint64_t tokens)
{
    uint64_t frames = (tokens + SHARD_FRAME - 1) / SHARD_FRAME;

    w->limit = frames < MAX_FRAMES ? (uint32_t)frames : MAX_FRAMES;
}

char *shard_name(char *buf, size_t cap, const char *path, int i)
{
    static const char end[] = ".tok.zst";
    size_t            n = strlen(path), len = sizeof end - 1;

    if (n > len && !strcmp(path + n - len, end))
        n -= len;
    if (i)
        snprintf(buf, cap, "%.*s-%d%s", (int)n, path, i, path + n);
    else
        snprintf(buf, cap, "%s", path);
    return buf;
}

/* ---- saving a writer ---- */

/* What both ways have in common. */
static void walk(struct record *r, struct shard_writer *w, char *tmp, size_t cap)
{
    record_bytes(r, &w->n, sizeof w->n);
    record_bytes(r, &w->fill, sizeof w->fill);
    record_bytes(r, &w->files, sizeof w->files);
    record_bytes(r, &w->limit, sizeof w->limit);
    record_bytes(r, &w->frames, sizeof w->frames);
    record_bytes(r, &w->length, sizeof w->length);
    record_bytes(r, tmp, cap);
    if (w->fill >= SHARD_FRAME || w->frames > MAX_FRAMES || w->files < 0)
        record_refuse(r);
}

static void no_memory(struct record *r, const char *path)
{
    struct why why;

    record_fail(r, fail(&why, FAIL_MEMORY, "%s: out of memory", path), &why);
}

static void walk_tokens(struct record *r, struct shard_writer *w)
{
    if (!record_saves(r)) {
        w->cap = w->frames;
        w->table = malloc((size_t)w->cap * ENTRY + 1);
        if (!w->table) {
            no_memory(r, w->file.path);
            return;
        }
    }
    record_bytes(r, w->table, (size_t)w->frames * ENTRY);
    record_bytes(r, w->raw, (size_t)w->fill * (size_t)w->token_bytes);
}

static void save_writer(struct record *r, struct shard_writer *w)
{
    const char *slash = strrchr(w->file.tmp, '/');
    char        tmp[NAME_MAX + 1] = "";
    struct why  why;
    enum fail   err = w->failed ? 0 : file_sync(&w->file, &why);

    if (w->failed)
        record_refuse(r);
    else if (err)
        record_fail(r, err, &why);
    record_bytes(r, &w->token_bytes, sizeof w->token_bytes);
    snprintf(tmp, sizeof tmp, "%.*s", NAME_MAX, slash ? slash + 1 : w->file.tmp);
    walk(r, w, tmp, sizeof tmp);
    walk_tokens(r, w);
}

struct shard_writer *shard_record(struct record *r, struct shard_writer *w,
                                  const char *path)
{
    char       tmp[NAME_MAX + 1], name[PATH_MAX];
    int        width = 0;
    struct why why;

    if (record_saves(r)) {
        save_writer(r, w);
        return w;
    }
    record_bytes(r, &width, sizeof width);
    if (width != 2 && width != 4) {
        record_refuse(r);
        return NULL;
    }
    if (!(w = new_writer(path, width))) {
        no_memory(r, path);
        return NULL;
    }
    walk(r, w, tmp, sizeof tmp);
    tmp[NAME_MAX] = 0;
    if (!record_failed(r))
        walk_tokens(r, w);
    if (!record_failed(r) &&
        file_resume(&w->file, shard_name(name, sizeof name, path, w->files), tmp,
                    w->length, &why))
        record_refuse(r);
    if (!record_failed(r))
        return w;
    shard_drop(w);
    return NULL;
}

/* ---- reading ---- */

static enum fail broken(const struct shard_file *f, struct why *why, const char *what)
{
    return fail(why, FAIL_INPUT, "%s: %s; rebuild it with: weft data build",
                f->path, what);
}

/* All of len bytes at an offset: 1, or 0 when the file ends before or cannot be read. */
static int read_at(const struct shard_file *f, void *buf, size_t len, uint64_t at)
{
    for (size_t got = 0; got < len;) {
        ssize_t r = pread(f->fd, (char *)buf + got, len - got, (off_t)(at + got));

        if (r == 0 || (r < 0 && errno != EINTR))
            return 0;
        if (r > 0)
            got += (size_t)r;
    }
    return 1;
}

/* How many tokens frame i holds. */
static uint32_t frame_tokens(const struct shard *s, uint64_t i)
{
    return i + 1 < s->frames ? SHARD_FRAME : (uint32_t)(s->n - i * SHARD_FRAME);
}

/* Turn the table's sizes of n frames into offsets. Frames must be full but the last, and
 * end where the table starts: at `end`. */
static enum fail take_entries(struct shard *s, const struct shard_file *f,
                              const unsigned char *table, uint64_t n, uint64_t end,
                              struct why *why)
{
    uint32_t full = SHARD_FRAME * (uint32_t)s->token_bytes;
    uint64_t *offset = s->offset + f->frame;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t packed = get32(table + i * ENTRY), raw = get32(table + i * ENTRY + 4);
        int      last = i + 1 == n;

        if (raw > full || raw % (uint32_t)s->token_bytes || (last ? !raw : raw < full))
            return broken(f, why, "the seek table gives a frame an impossible length");
        if (!packed || packed > MAX_PACKED)
            return broken(f, why, "the seek table gives a frame an impossible size");
        offset[i + 1] = offset[i] + packed;
        s->n += raw / (uint32_t)s->token_bytes;
    }
    if (offset[n] - offset[0] != end)
        return broken(f, why, "the frames and the seek table do not fill the file");
    s->frames += n;
    return 0;
}

/* The table of the file at the end of s, which has `size` bytes. */
static enum fail read_table(struct shard *s, const struct shard_file *f, uint64_t size,
                            struct why *why)
{
    unsigned char head[HEAD], foot[FOOT];

    if (size < HEAD + FOOT || !read_at(f, foot, FOOT, size - FOOT)
        || get32(foot + 5) != seekable)
        return broken(f, why,
                      "no seek table at its end: cut short, or not a token shard");

    uint64_t n = get32(foot), len = n * ENTRY, whole = len + HEAD + FOOT;

    if (foot[4] || n > MAX_FRAMES || whole > size)
        return broken(f, why, "the seek table is damaged");
    if (!read_at(f, head, HEAD, size - whole) || get32(head) != skippable
        || get32(head + 4) != len + FOOT)
        return broken(f, why, "the seek table is damaged");

    unsigned char *table = malloc(len + 1);
    uint64_t      *offset = realloc(s->offset, (s->frames + n + 1) * sizeof *offset);
    enum fail      err;

    if (offset) {
        offset[0] = 0;
        s->offset = offset;
    }
    if (!table || !offset)
        err = fail(why, FAIL_MEMORY, "%s: out of memory for its seek table", f->path);
    else if (!read_at(f, table, len, size - whole + HEAD))
        err = broken(f, why, "the seek table cannot be read");
    else
        err = take_entries(s, f, table, n, size - whole, why);
    free(table);
    return err;
}

enum fail shard_join(struct shard *s, const char *path, struct why *why)
{
    struct shard_file *file = realloc(s->file, ((size_t)s->files + 1) * sizeof *file), *f;
    uint64_t           size;
    enum fail          err;

    if (!file)
        return fail(why, FAIL_MEMORY, "%s: out of memory", path);
    s->file = file;
    f = &file[s->files++];
    *f = (struct shard_file){.path = strdup(path), .fd = -1, .frame = s->frames};
    s->path = file[0].path;
    if (!f->path)
        return fail(why, FAIL_MEMORY, "%s: out of memory", path);
    if (s->n % SHARD_FRAME)
        return broken(f, why, "the file before it ends in the middle of a frame");
    err = file_open(path, &f->fd, &size, why);
    return err ? err : read_table(s, f, size, why);
}

enum fail shard_open(struct shard *s, const char *path, int token_bytes, struct why *why)
{
    enum fail err;

    *s = (struct shard){.token_bytes = token_bytes};
    err = shard_join(s, path, why);
    if (err)
        shard_close(s);
    return err;
}

void shard_close(struct shard *s)
{
    for (int i = 0; i < s->files; i++) {
        if (s->file[i].fd >= 0)
            close(s->file[i].fd);
        free(s->file[i].path);
    }
    free(s->file);
    free(s->offset);
    *s = (struct shard){0};
}

/* The file that frame i is in. */
static const struct shard_file *file_of(const struct shard *s, uint64_t i)
{
    int lo = 0, hi = s->files - 1;

    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;

        if (s->file[mid].frame <= i)
            lo = mid;
        else
            hi = mid - 1;
    }
    return &s->file[lo];
}

/* What one thread needs to decompress; it lives as long as the thread. */
struct unpacker {
    ZSTD_DCtx    *zstd;
    unsigned char packed[MAX_PACKED], raw[MAX_RAW];
};

static pthread_key_t  unpacker_key;
static pthread_once_t unpacker_once = PTHREAD_ONCE_INIT;

static void unpacker_free(void *p)
{
    ZSTD_freeDCtx(((struct unpacker *)p)->zstd);
    free(p);
}

static void unpacker_start(void)
{
    if (pthread_key_create(&unpacker_key, unpacker_free))
        abort();                        // 1024 keys taken: not by this program
}

static struct unpacker *unpacker_get(void)
{
    pthread_once(&unpacker_once, unpacker_start);

    struct unpacker *u = pthread_getspecific(unpacker_key);

    if (u)
        return u;
    u = malloc(sizeof *u);
    if (!u)
        return NULL;
    u->zstd = ZSTD_createDCtx();
    if (!u->zstd || pthread_setspecific(unpacker_key, u)) {
        unpacker_free(u);
        return NULL;
    }
    return u;
}

/* Widen n little-endian ids of `width` bytes; returns the largest. */
static uint32_t widen(uint32_t *ids, const unsigned char *raw, uint32_t n, int width)
{
    uint32_t max = 0;

    if (width == 2)
        for (uint32_t i = 0; i < n; i++)
            ids[i] = raw[2 * i] | (uint32_t)raw[2 * i + 1] << 8;
    else
        for (uint32_t i = 0; i < n; i++)
            ids[i] = get32(raw + 4 * (size_t)i);
    for (uint32_t i = 0; i < n; i++)
        max = ids[i] > max ? ids[i] : max;
    return max;
}

/* The frame's own header must agree with the table before zstd unpacks it. */
static const char *unpack(struct unpacker *u, size_t packed, size_t raw)
{
    if (ZSTD_findFrameCompressedSize(u->packed, packed) != packed)
        return "is damaged";
    if (ZSTD_getFrameContentSize(u->packed, packed) != raw || !(u->packed[4] & CHECKSUM))
        return "is not the one in the seek table";
    if (ZSTD_decompressDCtx(u->zstd, u->raw, raw, u->packed, packed) != raw)
        return "is damaged";
    return NULL;
}

enum fail shard_frame(const struct shard *s, uint64_t i, uint32_t *ids, uint32_t *n,
                      struct why *why)
{
    const struct shard_file *f = file_of(s, i);
    struct unpacker         *u = unpacker_get();
    size_t                   packed = s->offset[i + 1] - s->offset[i];
    const char              *wrong;

    *n = frame_tokens(s, i);
    if (!u)
        return fail(why, FAIL_MEMORY, "%s: out of memory", f->path);
    if (!read_at(f, u->packed, packed, s->offset[i] - s->offset[f->frame]))
        wrong = "cannot be read";
    else
        wrong = unpack(u, packed, *n * (size_t)s->token_bytes);
    if (!wrong && widen(ids, u->raw, *n, s->token_bytes) >= s->vocab && s->vocab)
        wrong = "holds ids outside the vocabulary";
    if (wrong)
        return fail(why, FAIL_INPUT,
                    "%s: frame %llu %s; rebuild it with: weft data build", f->path,
                    (unsigned long long)(i - f->frame), wrong);
    return 0;
}
