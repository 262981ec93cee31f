#include "data/jsonl.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH = 256 };

struct scan {
    char       *p, *end;
    const char *field;
    const char *text;           // NULL until the field is found
    size_t      n;
    char        names[96];      // of other fields, for the line that says it is missing
    const char *wrong;          // NULL: nothing; the error is at p
};

static bool wrong(struct scan *s, const char *what)
{
    s->wrong = what;
    return false;
}

static bool at(const struct scan *s, char c)
{
    return s->p < s->end && *s->p == c;
}

static bool take(struct scan *s, char c)
{
    bool yes = at(s, c);

    s->p += yes;
    return yes;
}

static void space(struct scan *s)
{
    while (at(s, ' ') || at(s, '\t') || at(s, '\r') || at(s, '\n'))
        s->p++;
}

/* ---- strings ----------------------------------------------------------------------- */

static bool hex4(struct scan *s, uint32_t *code)
{
    static const char values[] = "0123456789abcdef0123456789ABCDEF";

    *code = 0;
    for (int i = 0; i < 4; i++, s->p++) {
        const char *d = s->p < s->end && *s->p ? strchr(values, *s->p) : NULL;

        if (!d)
            return wrong(s, "\\u without four hexadecimal digits");
        *code = *code << 4 | ((d - values) & 15);
    }
    return true;
}

/* \uXXXX, or two of them for a character above U+FFFF; p is behind the first u. */
static bool code_point(struct scan *s, uint32_t *code)
{
    uint32_t low;

    if (!hex4(s, code))
        return false;
    if (*code < 0xd800 || *code > 0xdfff)
        return true;
    if (*code > 0xdbff || !take(s, '\\') || !take(s, 'u'))
        return wrong(s, "half of a surrogate pair");
    if (!hex4(s, &low))
        return false;
    if (low < 0xdc00 || low > 0xdfff)
        return wrong(s, "half of a surrogate pair");
    *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static char *put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
        return out;
    }
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;

    *out++ = (char)(0xff80 >> more | c >> 6 * more);
    while (more--)
        *out++ = (char)(0x80 | (c >> 6 * more & 63));
    return out;
}

/* An escape is never shorter than what it stands for, so out stays behind p. */
static bool escape(struct scan *s, char **out)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char       *name;
    uint32_t          code;

    s->p++;
    if (take(s, 'u')) {
        if (!code_point(s, &code))
            return false;
        *out = put_utf8(*out, code);
        return true;
    }
    name = s->p < s->end && *s->p ? strchr(names, *s->p) : NULL;
    if (!name)
        return wrong(s, "an unknown escape in a string");
    *(*out)++ = values[name - names];
    s->p++;
    return true;
}

static bool plain(char c)
{
    return (unsigned char)c >= 0x20 && c != '"' && c != '\\';
}

/* A string, decoded in place; p is at its opening quote. */
static bool string(struct scan *s, const char **text, size_t *n)
{
    char *out = ++s->p, *start = out;

    for (;;) {
        char *from = s->p;

        while (s->p < s->end && plain(*s->p))
            s->p++;
        if (out != from)
            memmove(out, from, (size_t)(s->p - from));
        out += s->p - from;
        if (take(s, '"'))
            break;
        if (s->p == s->end)
            return wrong(s, "a string without its closing quote");
        if (*s->p != '\\')
            return wrong(s, "a control character in a string");
        if (!escape(s, &out))
            return false;
    }
    *text = start;
    *n = (size_t)(out - start);
    return true;
}

/* ---- other values ------------------------------------------------------------------ */

static bool digits(struct scan *s)
{
    char *from = s->p;

    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return s->p > from;
}

static bool number(struct scan *s)
{
    take(s, '-');
    bool ok = take(s, '0') || digits(s);

    if (ok && take(s, '.'))
        ok = digits(s);
    if (ok && (take(s, 'e') || take(s, 'E'))) {
        if (!take(s, '+'))
            take(s, '-');
        ok = digits(s);
    }
    return ok || wrong(s, "not a value");
}

static bool word(struct scan *s, const char *w)
{
    size_t n = strlen(w);

    if ((size_t)(s->end - s->p) < n || memcmp(s->p, w, n))
        return wrong(s, "not a value");
    s->p += n;
    return true;
}

static bool value(struct scan *s, int depth);

static bool array(struct scan *s, int depth)
{
    s->p++;
    space(s);
    if (take(s, ']'))
        return true;
    do {
        if (!value(s, depth))
            return false;
    } while (take(s, ','));
    return take(s, ']') || wrong(s, "expected , or ]");
}

/* Remember a field's name for an error line; only what is safe to print. */
static void note(struct scan *s, const char *name, size_t n)
{
    size_t used = strlen(s->names);

    for (size_t i = 0; i < n; i++)
        if (name[i] < 0x20 || name[i] > 0x7e)
            return;
    if (used + n + 3 < sizeof s->names)
        sprintf(s->names + used, "%s%.*s", used ? ", " : "", (int)n, name);
}

/* The value behind a name of the outermost object. */
static bool member(struct scan *s, const char *name, size_t n)
{
    if (n != strlen(s->field) || memcmp(name, s->field, n)) {
        note(s, name, n);
        return value(s, 1);
    }
    if (s->text)
        return wrong(s, "the field to read is there twice");
    space(s);
    if (!at(s, '"'))
        return wrong(s, "the field to read is not a string");
    if (!string(s, &s->text, &s->n))
        return false;
    space(s);
    return true;
}

static bool object(struct scan *s, int depth)
{
    const char *name;
    size_t      n;

    s->p++;
    space(s);
    if (take(s, '}'))
        return true;
    do {
        space(s);
        if (!at(s, '"'))
            return wrong(s, "expected a name in quotes");
        if (!string(s, &name, &n))
            return false;
        space(s);
        if (!take(s, ':'))
            return wrong(s, "expected :");
        if (!(depth == 1 ? member(s, name, n) : value(s, depth)))
            return false;
    } while (take(s, ','));
    return take(s, '}') || wrong(s, "expected , or }");
}

/* Any value with the space around it. */
static bool value(struct scan *s, int depth)
{
    const char *text;
    size_t      n;
    bool        ok;

    if (depth > DEPTH)
        return wrong(s, "nested too deeply");
    space(s);
    switch (s->p < s->end ? *s->p : 0) {
    case '"': ok = string(s, &text, &n); break;
    case '{': ok = object(s, depth + 1); break;
    case '[': ok = array(s, depth + 1);  break;
    case 't': ok = word(s, "true");      break;
    case 'f': ok = word(s, "false");     break;
    case 'n': ok = word(s, "null");      break;
    default:  ok = number(s);
    }
    if (ok)
        space(s);
    return ok;
}

bool jsonl_field(char *line, size_t len, const char *field, const char **text, size_t *n,
                 char *problem, size_t cap)
{
    struct scan s = {.p = line, .end = line + len, .field = field};

    space(&s);
    if (!at(&s, '{'))
        wrong(&s, "expected an object {...}");
    else if (value(&s, 0) && s.p < s.end)
        wrong(&s, "more after the object's end");
    if (s.wrong)
        snprintf(problem, cap, "column %zu: %s; mend or remove this line",
                 (size_t)(s.p - line) + 1, s.wrong);
    else if (!s.text)
        snprintf(problem, cap,
                 "no field \"%.40s\" (there is: %s); name another with --field", field,
                 s.names[0] ? s.names : "none");
    *text = s.text;
    *n = s.n;
    return !s.wrong && s.text;
}
