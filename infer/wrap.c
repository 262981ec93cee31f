#include "infer/wrap.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { TAB = 8 };

struct range {
    uint32_t first, last;
};

/* Marks that combine and what has no width; and what has two columns, roughly East Asian
 * Wide and Fullwidth of Unicode, and pictographs. */
static const struct range narrow[] = {
    {0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},
    {0x64b, 0x65f},   {0x93c, 0x93c},   {0x941, 0x948},   {0xe31, 0xe31},
    {0xe34, 0xe3a},   {0xe47, 0xe4e},   {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},
    {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
    {0xfeff, 0xfeff}, {0xe0100, 0xe01ef},
};
static const struct range wide[] = {
    {0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},   {0xac00, 0xd7a3},
    {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},
    {0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
};

static bool within(uint32_t c, const struct range *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c >= r[i].first && c <= r[i].last)
            return true;
    return false;
}

/* The code point of one character. */
static uint32_t code_of(const char *bytes, size_t len)
{
    static const unsigned char mask[] = {0x7f, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t                   c = (unsigned char)bytes[0] & mask[len];

    for (size_t i = 1; i < len; i++)
        c = c << 6 | ((unsigned char)bytes[i] & 0x3f);
    return c;
}

int wrap_width(const char *bytes, size_t len)
{
    uint32_t c;

    if ((unsigned char)bytes[0] < 0x80 || len > 4)  // ASCII, and what stands for another
        return (int)len;
    c = code_of(bytes, len);
    if (within(c, narrow, sizeof narrow / sizeof *narrow))
        return 0;
    return 1 + within(c, wide, sizeof wide / sizeof *wide);
}

static void break_line(struct wrap *w)
{
    fputc('\n', w->out);
    w->column = w->gap = 0;
}

/* The spaces and the word after them, on this line or the next. */
static void put_word(struct wrap *w)
{
    if (w->column && w->column + w->gap + w->width > w->columns)
        break_line(w);
    fprintf(w->out, "%*s", w->gap, "");
    fwrite(w->word, 1, w->len, w->out);
    w->column += w->gap + w->width;
    w->gap = w->width = 0;
    w->len = 0;
}

void wrap_end(struct wrap *w)
{
    if (w->len || w->gap)
        put_word(w);
}

static void put_newline(struct wrap *w)
{
    w->gap = w->len ? w->gap : 0;
    wrap_end(w);
    break_line(w);
}

static void put_tab(struct wrap *w)
{
    wrap_end(w);
    fputc('\t', w->out);
    w->column = (w->column / TAB + 1) * TAB;
}

void wrap_put(struct wrap *w, const char *bytes, size_t len)
{
    int width = wrap_width(bytes, len);

    if (!w->columns)
        fwrite(bytes, 1, len, w->out);
    else if (*bytes == '\n')
        put_newline(w);
    else if (*bytes == '\t')
        put_tab(w);
    else if (*bytes == ' ') {
        if (w->len)
            put_word(w);
        w->gap++;
    } else {
        if (w->len && (width == 2 || w->width + width > w->columns ||
                       w->len + len > sizeof w->word))
            put_word(w);
        memcpy(w->word + w->len, bytes, len);
        w->len += len;
        w->width += width;
    }
}
