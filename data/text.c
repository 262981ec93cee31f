#include "data/text.h"

#include "data/base/utf8.h"
#include "data/inputs.h"
#include "data/jsonl.h"
#include "data/source.h"

#include <stdlib.h>
#include <string.h>

#define MARK "<|endoftext|>"

/* LOOKAHEAD bytes behind a piece tell whether a marker line follows it: the marker, \r
 * and \n at most. So a piece that is not the last of its document always has something
 * after it. */
enum { MARK_LEN = sizeof MARK - 1, LOOKAHEAD = 16, BUFFER = TEXT_PIECE + LOOKAHEAD };

struct text {
    struct inputs in;
    size_t        at;               // index of the current input
    bool          open;             // src is in use
    struct source src;
    char         *field;
    bool          named;            // by the caller
    bool          jsonl;            // the current input
    char         *buf;              // read, not handed out: buf[start .. end)
    size_t        cap, start, end;
    uint64_t      offset;           // bytes of src before buf[0]
    bool          eof;              // src has no more than that
    bool          line_start;       // buf[start] begins a line
    long          line;             // .jsonl: lines read
    const char   *doc;              // .jsonl: what remains of the current document
    size_t        doc_len;
    bool          any;              // there was a document
    uint64_t      consumed;         // bytes of the inputs before this one
};

/* ---- UTF-8 ------------------------------------------------------------------------- */

/* How many bytes from s on are ASCII, counted in blocks of 32. */
static size_t ascii_blocks(const char *s, size_t n)
{
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        uint64_t w[4];

        memcpy(w, s + i, sizeof w);
        if ((w[0] | w[1] | w[2] | w[3]) & 0x8080808080808080u)
            break;
    }
    return i;
}

size_t text_invalid(const char *bytes, size_t len)
{
    size_t bad = 0;

    for (size_t i = 0; i < len;) {
        i += ascii_blocks(bytes + i, len - i);
        for (size_t end = i + 32 < len ? i + 32 : len; i < end;) {
            int n = utf8_length(bytes + i, len - i);

            bad += n == 0;
            i += n ? (size_t)n : 1;
        }
    }
    return bad;
}

/* Length of the next piece of a document that goes on for n bytes at least. */
static size_t cut(const char *s, size_t n)
{
    const char *newline;

    if (n <= TEXT_PIECE)
        return n;
    newline = memrchr(s, '\n', TEXT_PIECE);
    if (newline)
        return (size_t)(newline - s) + 1;
    for (int back = 1; back < 4; back++)
        if (utf8_length(s + TEXT_PIECE - back, n - TEXT_PIECE + (size_t)back) > back)
            return (size_t)(TEXT_PIECE - back);
    return TEXT_PIECE;
}

/* ---- reading ----------------------------------------------------------------------- */

/* Move what is left to the front and read until the buffer is full or the input ends. */
static enum fail fill(struct text *t, struct why *why)
{
    memmove(t->buf, t->buf + t->start, t->end - t->start);
    t->offset += t->start;
    t->end -= t->start;
    t->start = 0;
    while (!t->eof && t->end < t->cap) {
        size_t got;
        enum fail err = source_read(&t->src, t->buf + t->end, t->cap - t->end, &got, why);

        if (err)
            return err;
        t->eof = got == 0;
        t->end += got;
    }
    return 0;
}

static enum fail grow(struct text *t, struct why *why)
{
    const char *path = t->src.path;
    char       *buf;

    if (t->cap >= TEXT_LINE)
        return fail(why, FAIL_INPUT,
                    "%s:%ld: a line of more than %d MiB; split its text over several",
                    path, t->line + 1, TEXT_LINE >> 20);
    buf = realloc(t->buf, 2 * t->cap);
    if (!buf)
        return fail(why, FAIL_MEMORY, "%s: no memory for a line", path);
    t->buf = buf;
    t->cap *= 2;
    return 0;
}

/* The end of the line that buf[start + from] is in, from start: its newline, or the end
 * of the input. As much is read. */
static enum fail line_end(struct text *t, size_t from, size_t *end, struct why *why)
{
    for (;;) {
        char  *s = t->buf + t->start;
        size_t n = t->end - t->start;
        char  *newline = memchr(s + from, '\n', n - from);
        enum fail err;

        *end = newline ? (size_t)(newline - s) : n;
        if (newline || t->eof)
            return 0;
        from = n;
        if (n == t->cap && (err = grow(t, why)))
            return err;
        if ((err = fill(t, why)))
            return err;
    }
}

/* Set jsonl: whether the first line that is not blank is an object with the field. */
static enum fail sniff(struct text *t, struct why *why)
{
    char       *s = t->buf + t->start, *line, problem[256];
    size_t      at = 0, n = t->end - t->start, end;
    const char *text;
    enum fail   err;

    t->jsonl = t->named;
    while (at < n && memchr(" \t\r\n", s[at], 4))
        at++;
    if (t->named || at == n || s[at] != '{')
        return 0;
    if ((err = line_end(t, at, &end, why)))
        return err;
    line = malloc(end - at);
    if (!line)
        return fail(why, FAIL_MEMORY, "%s: no memory for its first line", t->src.path);
    memcpy(line, t->buf + t->start + at, end - at);
    t->jsonl = jsonl_field(line, end - at, t->field, &text, &n, problem, sizeof problem);
    free(line);
    return 0;
}

static enum fail open_input(struct text *t, struct why *why)
{
    const struct input *f = &t->in.file[t->at];
    enum fail           err = source_open(&t->src, f->path, f->zst, why);

    if (err)
        return err;
    t->open = true;
    t->start = t->end = 0;
    t->offset = 0;
    t->eof = false;
    t->line_start = true;
    t->line = 0;
    err = fill(t, why);
    if (!err && t->end >= 3 && !memcmp(t->buf, "\xef\xbb\xbf", 3))
        t->start = 3;
    t->jsonl = f->jsonl;
    if (!err && inputs_stdin(f->path))
        err = sniff(t, why);
    return err;
}

static void close_input(struct text *t)
{
    t->consumed += t->src.read;
    source_close(&t->src);
    t->open = false;
    t->at++;
}

/* ---- plain text -------------------------------------------------------------------- */

/* Bytes before the first marker line in the buffer, and in *mark the length of that line.
 * When there is none, or its end cannot be seen yet: all bytes, and 0. */
static size_t find_mark(const struct text *t, size_t *mark)
{
    const char *s = t->buf + t->start, *end = t->buf + t->end;

    for (const char *p = s; (p = memmem(p, (size_t)(end - p), MARK, MARK_LEN));
         p += MARK_LEN) {
        const char *rest = p + MARK_LEN;

        if (p == s ? !t->line_start : p[-1] != '\n')
            continue;
        if (rest + 1 < end && rest[0] == '\r' && rest[1] == '\n')
            *mark = MARK_LEN + 2;
        else if (rest < end ? rest[0] == '\n' : t->eof)
            *mark = MARK_LEN + (rest < end);
        else
            continue;
        return (size_t)(p - s);
    }
    *mark = 0;
    return (size_t)(end - s);
}

/* Bytes of text up to the document's end, or as many as the buffer holds; *mark as in
 * find_mark. 0 at the end of the input. */
static enum fail look_ahead(struct text *t, size_t *n, size_t *mark, struct why *why)
{
    for (;;) {
        *n = find_mark(t, mark);
        if (!*mark && !t->eof) {
            enum fail err = fill(t, why);

            if (err)
                return err;
            *n = find_mark(t, mark);
        }
        if (*n || !*mark)
            return 0;
        t->start += *mark;          // a document without a byte
        t->line_start = true;
    }
}

/* piece->bytes is NULL at the end of the input. */
static enum fail next_plain(struct text *t, struct text_piece *piece, struct why *why)
{
    size_t n, mark;
    enum fail err = look_ahead(t, &n, &mark, why);

    if (err || !n)
        return err;
    piece->bytes = t->buf + t->start;
    piece->len = cut(piece->bytes, n);
    piece->last = piece->len == n;
    t->start += piece->len + (piece->last ? mark : 0);
    t->line_start = piece->last || piece->bytes[piece->len - 1] == '\n';
    return 0;
}

/* ---- .jsonl ------------------------------------------------------------------------ */

/* The next line without its newline; *line is NULL at the end of the input. */
static enum fail next_line(struct text *t, char **line, size_t *len, struct why *why)
{
    enum fail err = line_end(t, 0, len, why);
    size_t n = t->end - t->start;

    if (err)
        return err;
    *line = n ? t->buf + t->start : NULL;
    t->start += *len + (*len < n);
    t->line++;
    return 0;
}

static bool is_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r')
            return false;
    return true;
}

/* The next document that is not empty into t->doc; NULL at the end of the input. */
static enum fail next_document(struct text *t, struct why *why)
{
    char   problem[256], *line;
    size_t len;

    for (t->doc_len = 0; !t->doc_len;) {
        enum fail err = next_line(t, &line, &len, why);

        t->doc = NULL;
        if (err || !line)
            return err;
        if (is_blank(line, len))
            continue;
        if (!jsonl_field(line, len, t->field, &t->doc, &t->doc_len, problem,
                         sizeof problem))
            return fail(why, FAIL_INPUT, "%s:%ld: %s", t->src.path, t->line, problem);
    }
    return 0;
}

/* As next_plain. */
static enum fail next_json(struct text *t, struct text_piece *piece, struct why *why)
{
    if (!t->doc_len) {
        enum fail err = next_document(t, why);

        if (err || !t->doc)
            return err;
    }
    piece->bytes = t->doc;
    piece->len = cut(t->doc, t->doc_len);
    piece->last = piece->len == t->doc_len;
    t->doc += piece->len;
    t->doc_len -= piece->len;
    return 0;
}

/* ---- the stream -------------------------------------------------------------------- */

enum fail text_open(struct text **t, const char *const *paths, int n, const char *field,
                    struct why *why)
{
    struct inputs in;
    enum fail     err = inputs_list(&in, paths, n, why);

    *t = NULL;
    if (err)
        return err;
    struct text *x = calloc(1, sizeof *x);

    if (x) {
        *x = (struct text){.in = in, .cap = BUFFER};
        x->buf = malloc(x->cap);
        x->field = strdup(field ? field : "text");
        x->named = field != NULL;
    }
    if (!x || !x->buf || !x->field) {
        if (!x)
            inputs_free(&in);
        text_close(x);
        return fail(why, FAIL_MEMORY, "no memory to read text with");
    }
    *t = x;
    return 0;
}

enum fail text_next(struct text *t, struct text_piece *piece, struct why *why)
{
    const char *first = t->in.file[0].path;

    *piece = (struct text_piece){0};
    while (t->at < t->in.n) {
        enum fail err = t->open ? 0 : open_input(t, why);

        if (!err)
            err = t->jsonl ? next_json(t, piece, why) : next_plain(t, piece, why);
        if (err || piece->bytes) {
            t->any |= !err;
            return err;
        }
        close_input(t);
    }
    if (!t->any)
        return fail(why, FAIL_INPUT, "%s%s: no text in it; give a file with text in it",
                    inputs_stdin(first) ? "stdin" : first,
                    t->in.n > 1 ? " and the other inputs" : "");
    return 0;
}

void text_close(struct text *t)
{
    if (!t)
        return;
    if (t->open)
        source_close(&t->src);
    inputs_free(&t->in);
    free(t->buf);
    free(t->field);
    free(t);
}

/* ---- places ------------------------------------------------------------------------ */

bool text_tell(const struct text *t, struct text_place *at)
{
    if (!t->open || t->doc_len || inputs_stdin(t->in.file[t->at].path))
        return false;
    *at = (struct text_place){
        .input = t->at, .offset = t->offset + t->start, .line = t->line,
        .line_start = t->line_start, .any = t->any,
    };
    return true;
}

static enum fail shorter(const struct text *t, struct why *why)
{
    size_t at = t->at < t->in.n ? t->at : t->in.n - 1;

    return fail(why, FAIL_INPUT, "%s: shorter than it was; try again",
                t->in.file[at].path);
}

enum fail text_seek(struct text *t, const struct text_place *at, struct why *why)
{
    enum fail err;

    for (; t->at < at->input && t->at < t->in.n; t->at++)
        t->consumed += t->in.file[t->at].size;
    if (t->at == t->in.n)
        return shorter(t, why);
    err = open_input(t, why);
    if (!err && t->offset + t->end < at->offset &&
        at->offset <= t->in.file[t->at].size && source_seek(&t->src, at->offset)) {
        t->start = t->end = 0;
        t->offset = at->offset;
        t->eof = false;
        err = fill(t, why);
    }
    while (!err && t->offset + t->end < at->offset && !t->eof) {
        t->start = t->end;
        err = fill(t, why);
    }
    if (err)
        return err;
    if (t->offset + t->end < at->offset)
        return shorter(t, why);
    t->start = (size_t)(at->offset - t->offset);
    t->line = (long)at->line;
    t->line_start = at->line_start;
    t->any = at->any;
    return 0;
}

uint64_t text_consumed(const struct text *t)
{
    return t->consumed + (t->open ? t->src.read : 0);
}

uint64_t text_total(const struct text *t)
{
    uint64_t total = 0;

    for (size_t i = 0; i < t->in.n; i++) {
        if (!strcmp(t->in.file[i].path, "-"))
            return 0;
        total += t->in.file[i].size;
    }
    return total;
}
