#include "infer/stream.h"

#include "data/base/utf8.h"
#include "infer/wrap.h"

#include <stdlib.h>
#include <string.h>

struct stream {
    FILE       *out;
    bool        terminal, stopped, mid_line;
    const char *const *stop;
    int         n_stop;
    const char *skip;           // what is to be left out
    size_t      n_skipped;      // of it, so far
    struct wrap wrap;           // of a terminal
    char        part[4];        // (n_part) the beginning of a character
    size_t      n_part;
    size_t      n_held;
    char        held[];         // (n_held) may begin a stop string; there is memory for
                                // the longest
};

struct stream *stream_open(FILE *out, bool terminal, const char *const *stop, int n)
{
    size_t longest = 0;

    for (int i = 0; i < n; i++)
        if (strlen(stop[i]) > longest)
            longest = strlen(stop[i]);
    struct stream *s = calloc(1, sizeof *s + longest + 1);

    if (!s)
        return NULL;
    s->out = out;
    s->terminal = terminal;
    s->wrap.out = out;
    s->stop = stop;
    s->n_stop = n;
    s->skip = "";
    return s;
}

void stream_wrap(struct stream *s, int columns)
{
    s->wrap.columns = columns;
}

void stream_skip(struct stream *s, const char *prefix)
{
    s->skip = prefix;
    s->n_skipped = 0;
}

size_t stream_skipped(const struct stream *s)
{
    return s->n_skipped;
}

void stream_close(struct stream *s)
{
    free(s);
}

bool stream_at_line_start(const struct stream *s)
{
    return !s->mid_line;
}

/* ---- characters ---- */

/* The length of the character that n <= 4 bytes begin with (1 .. 4); 0: they are a whole
 * character's beginning; -1: no character begins so. A beginning is one that can be
 * completed: by bytes 80 (after ed and f4 the next must be low) or a0 (after e0 and f0
 * it must be high). */
static int char_length(const char *bytes, size_t n)
{
    int len = utf8_length(bytes, n);

    for (int fill = 0x80; fill <= 0xa0 && len == 0; fill += 0x20) {
        char whole[4];

        memset(whole, fill, sizeof whole);
        memcpy(whole, bytes, n);
        if (utf8_length(whole, sizeof whole))
            return 0;
    }
    return len ? len : -1;
}

/* A control character that a terminal might obey: its code, else -1. */
static int control(const char *bytes, int len)
{
    unsigned code = utf8_code(bytes, len);

    return utf8_is_control(code) && code != '\n' && code != '\t' ? (int)code : -1;
}

/* Write one character of len bytes, or, when len is -1, one byte that belongs to none. */
static void put_char(struct stream *s, const char *bytes, int len)
{
    char seen[8];

    s->mid_line = bytes[0] != '\n';
    if (!s->terminal)
        fwrite(bytes, 1, len < 0 ? 1 : (size_t)len, s->out);
    else if (len < 0)
        wrap_put(&s->wrap, "\xef\xbf\xbd", 3);
    else if (control(bytes, len) >= 0) {
        snprintf(seen, sizeof seen, "\\x%02x", (unsigned)control(bytes, len));
        wrap_put(&s->wrap, seen, strlen(seen));
    } else
        wrap_put(&s->wrap, bytes, (size_t)len);
}

static void drop_part(struct stream *s, size_t n)
{
    s->n_part -= n;
    memmove(s->part, s->part + n, s->n_part);
}

static void put_byte(struct stream *s, char byte)
{
    int len;

    s->part[s->n_part++] = byte;
    while (s->n_part && (len = char_length(s->part, s->n_part)) != 0) {
        put_char(s, s->part, len);
        drop_part(s, len < 0 ? 1 : (size_t)len);
    }
}

void stream_echo(struct stream *s, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        put_byte(s, bytes[i]);
    fflush(s->out);
}

/* ---- stop strings ---- */

/* Pass on all but the last `keep` bytes held. */
static void release(struct stream *s, size_t keep)
{
    size_t n = s->n_held - keep;

    for (size_t i = 0; i < n; i++)
        put_byte(s, s->held[i]);
    memmove(s->held, s->held + n, keep);
    s->n_held = keep;
}

/* The longest end of held that begins the stop string, which may be all of it. */
static size_t overlap(const struct stream *s, const char *stop)
{
    size_t n = strlen(stop);

    if (n > s->n_held)
        n = s->n_held;
    while (n && memcmp(s->held + s->n_held - n, stop, n))
        n--;
    return n;
}

/* held always keeps the longest end that begins any stop string, so each
 * is found whole. */
static void take_byte(struct stream *s, char byte)
{
    size_t keep = 0;

    s->held[s->n_held++] = byte;
    for (int i = 0; i < s->n_stop; i++) {
        size_t n = overlap(s, s->stop[i]);

        if (s->stop[i][n] == 0) {       // all of it
            release(s, n);
            s->n_held = 0;
            s->stopped = true;
            return;
        }
        keep = n > keep ? n : keep;
    }
    release(s, keep);
}

/* Nothing more is left out; unless all of the prefix came, what was is text that only
 * begins like it. */
static void end_skip(struct stream *s)
{
    const char *begun = s->skip;
    size_t      n = s->n_skipped;

    if (!begun[n])
        return;
    stream_skip(s, "");
    for (size_t i = 0; i < n && !s->stopped; i++)
        take_byte(s, begun[i]);
}

bool stream_push(struct stream *s, const char *bytes, size_t len)
{
    size_t i = 0;

    for (; i < len && bytes[i] && bytes[i] == s->skip[s->n_skipped]; i++)
        s->n_skipped++;
    if (i < len)
        end_skip(s);
    for (; i < len && !s->stopped; i++)
        take_byte(s, bytes[i]);
    fflush(s->out);
    return s->stopped;
}

void stream_end(struct stream *s)
{
    end_skip(s);
    release(s, 0);
    while (s->n_part) {
        put_char(s, s->part, -1);
        drop_part(s, 1);
    }
    wrap_end(&s->wrap);
    s->stopped = false;
    fflush(s->out);
}
