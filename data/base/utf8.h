/* One character of UTF-8. */
#ifndef WEFT_UTF8_H
#define WEFT_UTF8_H

#include <stddef.h>

/* Bytes of the character at text, of which n > 0 bytes are left: 1 .. 4, or 0 when there
 * is none (a stray or missing continuation, an overlong form, a surrogate, above
 * U+10FFFF). */
static inline int utf8_length(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    int                  len = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

    if (len == 1)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4 || n < (size_t)len)
        return 0;
    for (int i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return len;
}

/* The code of the character of len bytes at text (1 .. 4, as utf8_length found). */
static inline unsigned utf8_code(const char *text, int len)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned             code = len == 1 ? s[0] : s[0] & (0xffu >> (len + 1));

    for (int i = 1; i < len; i++)
        code = code << 6 | (s[i] & 0x3f);
    return code;
}

/* Might a terminal obey it: C0, DEL, C1, what turns the direction of writing, and what
 * breaks lines (newline and tab too)? */
static inline int utf8_is_control(unsigned c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e ||
           c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

#endif
