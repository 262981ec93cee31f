/* data/text.h: documents out of plain text and .jsonl, in pieces; UTF-8. */
#include "tests/support/docs.h"
#include "tests/support/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- plain text -------------------------------------------------------------------- */

static const struct {
    const char *text;
    size_t      len;
    const char *want;
    size_t      want_len;
} plain[] = {
    {TEXT("a"),                                     TEXT("[a]")},
    {TEXT("one\ntwo\n"),                            TEXT("[one\ntwo\n]")},
    {TEXT("a\n" MARK "\nb\n"),                      TEXT("[a\n][b\n]")},
    {TEXT("a\n" MARK "\nb\n" MARK "\n"),            TEXT("[a\n][b\n]")},
    {TEXT("a\n" MARK "\nb\n" MARK),                 TEXT("[a\n][b\n]")},
    {TEXT("a\n" MARK),                              TEXT("[a\n]")},
    {TEXT(MARK "\na"),                              TEXT("[a]")},
    {TEXT(MARK "\n" MARK "\na\n" MARK "\n" MARK "\n"), TEXT("[a\n]")},
    {TEXT("a\n\n" MARK "\n\nb"),                    TEXT("[a\n\n][\nb]")},
    {TEXT("a\r\n" MARK "\r\nb\r\n"),                TEXT("[a\r\n][b\r\n]")},
    {TEXT("a" MARK "\nb"),                          TEXT("[a" MARK "\nb]")},
    {TEXT(" " MARK "\nb"),                          TEXT("[ " MARK "\nb]")},
    {TEXT(MARK " \nb"),                             TEXT("[" MARK " \nb]")},
    {TEXT(MARK MARK "\nb"),                         TEXT("[" MARK MARK "\nb]")},
    {TEXT("<|endoftext|\n" MARK "\nb"),             TEXT("[<|endoftext|\n][b]")},
    {TEXT("\n"),                                    TEXT("[\n]")},
    {TEXT("a\0b\n" MARK "\n\0"),                    TEXT("[a\0b\n][\0]")},
    {TEXT("\xff\xfe\n"),                            TEXT("[\xff\xfe\n]")},
    {TEXT("\xef\xbb\xbf" "a"),                      TEXT("[a]")},
    {TEXT("\xef\xbb\xbf" MARK "\na"),               TEXT("[a]")},
    {TEXT("\xef\xbb\xbf\xef\xbb\xbf"),              TEXT("[\xef\xbb\xbf]")},
    {TEXT("\xef\xbb"),                              TEXT("[\xef\xbb]")},
};

START_TEST(plain_text_is_parted_at_marker_lines_only)
{
    static const char *const names[] = {"a.txt", "a", "a.md", "jsonl"};
    const char              *dir = rig_tmp();

    for (int i = 0; i < COUNT(names); i++) {
        docs_put(docs_path(dir, names[i]), plain[_i].text, plain[_i].len);
        docs_assert(docs_path(dir, names[i]), NULL, plain[_i].want, plain[_i].want_len);
    }
}
END_TEST

static const struct {
    const char *text, *says;
} textless[] = {
    {"",                         "empty"},
    {MARK,                       "no text in it"},
    {MARK "\n",                  "no text in it"},
    {MARK "\r\n" MARK "\n",      "no text in it"},
    {"\xef\xbb\xbf",             "no text in it"},
};

START_TEST(a_file_without_text_is_refused)
{
    const char *path = docs_path(rig_tmp(), "a.txt");

    docs_put_text(path, textless[_i].text);
    docs_refused(path, NULL, textless[_i].says);
}
END_TEST

/* `before` bytes of one document, the marker line, `end`: whatever the buffer cuts. */
static void check_mark_behind(const char *path, size_t before, const char *mark,
                              const char *end)
{
    char       *bytes = malloc(before + 64), *p = bytes + before;
    struct docs d;

    memset(bytes, 'x', before);
    p[-1] = '\n';
    p += sprintf(p, "%s%s", mark, end);
    docs_put(path, bytes, (size_t)(p - bytes));
    ck_assert_msg(docs_read(&d, path, NULL) == 0, "%s", docs_why.line);
    ck_assert_msg(d.n == 1 + (*end != 0), "%zu bytes, then %s: %d documents",
                  before, mark, d.n);
    ck_assert_uint_eq(d.end[0], before);
    ck_assert(!memcmp(d.bytes, bytes, before));
    ck_assert(!memcmp(d.bytes + before, end, strlen(end)));
    free(d.bytes);
    free(bytes);
}

START_TEST(a_marker_is_seen_wherever_the_buffer_ends)
{
    const char *path = docs_path(rig_tmp(), "a.txt");

    for (size_t before = TEXT_PIECE - 18; before <= TEXT_PIECE + 18; before++) {
        check_mark_behind(path, before, MARK "\n", "tail");
        check_mark_behind(path, before, MARK "\r\n", "tail");
        check_mark_behind(path, before, MARK, "");
    }
    check_mark_behind(path, 2 * TEXT_PIECE, MARK "\n", "tail");
}
END_TEST

START_TEST(a_marker_inside_a_line_stays_text_wherever_the_buffer_ends)
{
    const char *path = docs_path(rig_tmp(), "a.txt");
    char       *bytes = malloc(TEXT_PIECE + 64);
    struct docs d;

    for (size_t before = TEXT_PIECE - 2; before <= TEXT_PIECE + 2; before++) {
        memset(bytes, 'x', before);
        strcpy(bytes + before, MARK "\ntail");
        docs_put_text(path, bytes);
        ck_assert_msg(docs_read(&d, path, NULL) == 0, "%s", docs_why.line);
        ck_assert_int_eq(d.n, 1);
        ck_assert_uint_eq(d.len, strlen(bytes));
        free(d.bytes);
    }
    free(bytes);
}
END_TEST

/* Lines of about 2^(3 _i) characters, so some buffers hold a newline and some do not. */
START_TEST(pieces_join_to_the_document_and_never_cut_a_character)
{
    enum { MAX = 3 * TEXT_PIECE };
    struct rng  r = rng_open(7, RNG_TEST, (uint64_t)_i);
    const char *path = docs_path(rig_tmp(), "a.txt");
    size_t      n = MAX - rng_below(&r, TEXT_PIECE);
    char       *bytes = malloc(n);
    struct docs d;

    docs_babble(&r, bytes, n, UINT64_C(1) << 3 * _i);
    bytes[0] = 'a';
    docs_put(path, bytes, n);
    ck_assert_msg(docs_read(&d, path, NULL) == 0, "%s", docs_why.line);
    ck_assert_int_eq(d.n, 1);
    ck_assert_int_ge(d.pieces, 3);
    ck_assert_uint_eq(d.len, n);
    ck_assert(!memcmp(d.bytes, bytes, n));
    ck_assert_uint_eq(d.invalid, text_invalid(bytes, n));
    free(d.bytes);
    free(bytes);
}
END_TEST

START_TEST(a_character_across_the_end_of_a_piece_goes_to_the_next)
{
    static const char *const chars[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\xa6\x8a"};
    const char              *path = docs_path(rig_tmp(), "a.txt"), *c = chars[_i];
    size_t                   len = strlen(c), n = TEXT_PIECE + 100;
    char                    *bytes = malloc(n);

    for (size_t before = 1; before < len; before++) {
        struct text      *t;
        struct text_piece p;

        memset(bytes, 'x', n);
        memcpy(bytes + TEXT_PIECE - before, c, len);
        docs_put(path, bytes, n);
        ck_assert_int_eq(text_open(&t, &path, 1, NULL, &docs_why), 0);
        ck_assert_int_eq(text_next(t, &p, &docs_why), 0);
        ck_assert_uint_eq(p.len, TEXT_PIECE - before);
        ck_assert_int_eq(text_next(t, &p, &docs_why), 0);
        ck_assert(!memcmp(p.bytes, c, len));
        text_close(t);
    }
    free(bytes);
}
END_TEST

/* ---- .jsonl ------------------------------------------------------------------------ */

static const struct {
    const char *text;
    size_t      len;
    const char *want;
    size_t      want_len;
} jsonl[] = {
    {TEXT("{\"text\":\"a\"}"),                               TEXT("[a]")},
    {TEXT("{\"text\": \"a\"}\n{\"text\": \"b\"}\n"),         TEXT("[a][b]")},
    {TEXT("\n \t\r\n{\"text\": \"a\"}\r\n\n{\"text\": \"b\"}\n\n"), TEXT("[a][b]")},
    {TEXT("\xef\xbb\xbf{\"text\": \"a\"}"),                  TEXT("[a]")},
    {TEXT("{\"text\": \"\"}\n{\"text\": \"b\"}"),            TEXT("[b]")},
    {TEXT("{\"text\": \"" MARK "\"}"),                       TEXT("[" MARK "]")},
    {TEXT("{\"text\": \"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}"),     TEXT("[\"\\/\b\f\n\r\t]")},
    {TEXT("{\"text\": \"x\\u0041\\u00e9\\u20AC\\ud83e\\uDD8Ay\"}"),
     TEXT("[xA\xc3\xa9\xe2\x82\xac\xf0\x9f\xa6\x8ay]")},
    {TEXT("{\"text\": \"\\uffff\\udbff\\udfff\\u007f\\u0080\\u07ff\\u0800\"}"),
     TEXT("[\xef\xbf\xbf\xf4\x8f\xbf\xbf\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80]")},
    {TEXT("{\"text\": \"a\\u0000b\"}"),                      TEXT("[a\0b]")},
    {TEXT("{\"text\": \"\xff\xc3\xa9\"}"),                   TEXT("[\xff\xc3\xa9]")},
    {TEXT("{\"t\\u0065xt\": \"a\"}"),                        TEXT("[a]")},
    {TEXT(" { \"id\" : 1 , \"text\" : \"a\" , \"x\" : null } "), TEXT("[a]")},
    {TEXT("{\"n\": [0, -1, 1.5, -0.5e+10, 1E-2, 12e3], \"text\": \"a\"}"), TEXT("[a]")},
    {TEXT("{\"n\": [], \"m\": {}, \"o\": [true,false,null], \"text\": \"a\"}"),
     TEXT("[a]")},
    {TEXT("{\"m\": {\"text\": 5, \"m\": [{\"text\": \"no\"}]}, \"text\": \"a\"}"),
     TEXT("[a]")},
};

START_TEST(each_line_of_jsonl_is_one_document)
{
    const char *path = docs_path(rig_tmp(), "a.jsonl");

    docs_put(path, jsonl[_i].text, jsonl[_i].len);
    docs_assert(path, NULL, jsonl[_i].want, jsonl[_i].want_len);
}
END_TEST

START_TEST(another_field_can_be_read)
{
    const char *path = docs_path(rig_tmp(), "a.jsonl");

    docs_put_text(path, "{\"text\": 1, \"body\": \"b\", \"bod\": 2, \"bodyx\": 3}");
    docs_assert(path, "body", "[b]", 3);
    docs_refused(path, "title",
                 ":1: no field \"title\" (there is: text, body, bod, bodyx)");
    docs_refused(path, "text", ":1: column 10: the field to read is not a string");
}
END_TEST

/* The second line of each file is broken. */
static const struct {
    const char *line, *says;
} bad_json[] = {
    {"x",                                  ":2: column 1: expected an object"},
    {"[\"text\"]",                         ":2: column 1: expected an object"},
    {"\"text\"",                           ":2: column 1: expected an object"},
    {"{",                                  ":2: column 2: expected a name"},
    {"{\"text\"",                          "expected :"},
    {"{\"text\": \"a\"",                   "expected , or }"},
    {"{\"text\": \"a",                     "without its closing quote"},
    {"{\"text\": \"a\\",                   "unknown escape"},
    {"{\"text\": \"a\\\"}",                "without its closing quote"},
    {"{\"text\": \"a\"} x",                "more after the object's end"},
    {"{\"text\": \"a\"}{\"text\": \"a\"}", "more after the object's end"},
    {"{\"text\": \"a\",}",                 "expected a name"},
    {"{\"text\": \"a\" \"b\": 1}",         "expected , or }"},
    {"{text: \"a\"}",                      "expected a name"},
    {"{'text': 'a'}",                      "expected a name"},
    {"{\"text\": \"a\tb\"}",               "a control character"},
    {"{\"text\": \"\\x41\"}",              "unknown escape"},
    {"{\"text\": \"\\u12\"}",              "four hexadecimal digits"},
    {"{\"text\": \"\\u12g4\"}",            "four hexadecimal digits"},
    {"{\"text\": \"\\ud83e\"}",            "half of a surrogate pair"},
    {"{\"text\": \"\\ud83e\\u0041\"}",     "half of a surrogate pair"},
    {"{\"text\": \"\\udd8a\"}",            "half of a surrogate pair"},
    {"{\"text\": null}",                   "not a string"},
    {"{\"text\": [\"a\"]}",                "not a string"},
    {"{\"text\": }",                       "not a string"},
    {"{\"text\": \"a\", \"text\": \"b\"}", "there twice"},
    {"{}",                                 "no field \"text\" (there is: none)"},
    {"{\"id\": 1, \"body\": \"b\"}",       "(there is: id, body); name another"},
    {"{\"\\u001b[2J\": 1}",                "(there is: none)"},
    {"{\"x\": 01, \"text\": \"a\"}",       "expected , or }"},
    {"{\"x\": 1., \"text\": \"a\"}",       "not a value"},
    {"{\"x\": .5, \"text\": \"a\"}",       "not a value"},
    {"{\"x\": 1e, \"text\": \"a\"}",       "not a value"},
    {"{\"x\": -, \"text\": \"a\"}",        "not a value"},
    {"{\"x\": +1, \"text\": \"a\"}",       "not a value"},
    {"{\"x\": NaN, \"text\": \"a\"}",      "not a value"},
    {"{\"x\": tru, \"text\": \"a\"}",      "not a value"},
    {"{\"x\": nulll, \"text\": \"a\"}",    "expected , or }"},
    {"{\"x\": [1,], \"text\": \"a\"}",     "not a value"},
    {"{\"x\": [1 2], \"text\": \"a\"}",    "expected , or ]"},
    {"{\"x\": [1}, \"text\": \"a\"}",      "expected , or ]"},
    {"{\"x\": {\"y\"}, \"text\": \"a\"}",  "expected :"},
};

START_TEST(a_broken_line_is_named_with_its_number)
{
    const char *path = docs_path(rig_tmp(), "a.jsonl");
    char        text[256];

    snprintf(text, sizeof text, "{\"text\": \"good\"}\n%s\n{\"text\": \"good\"}\n",
             bad_json[_i].line);
    docs_put_text(path, text);
    docs_refused(path, NULL, bad_json[_i].says);
    ck_assert_ptr_nonnull(strstr(docs_why.line, ".jsonl:2: "));
}
END_TEST

START_TEST(a_deeply_nested_line_is_refused)
{
    enum { DEEP = 100000 };
    const char *path = docs_path(rig_tmp(), "a.jsonl");
    char       *text = malloc(DEEP + 8);

    memset(text, '[', DEEP);
    memcpy(text, "{\"x\":", 5);
    docs_put(path, text, DEEP);
    docs_refused(path, NULL, "nested too deeply");
    free(text);
}
END_TEST

/* A line of n bytes of text. */
static void put_long_line(const char *path, size_t n)
{
    FILE *f = fopen(path, "wb");
    char *xs = malloc(n);

    ck_assert(f && xs);
    memset(xs, 'x', n);
    fprintf(f, "{\"text\": \"first\"}\n{\"text\": \"");
    ck_assert_uint_eq(fwrite(xs, 1, n, f), n);
    fprintf(f, "\\u00e9\"}\n{\"text\": \"third\"}\n");
    ck_assert_int_eq(fclose(f), 0);
    free(xs);
}

START_TEST(a_long_line_comes_in_pieces)
{
    const char *path = docs_path(rig_tmp(), "a.jsonl");
    size_t      n = 5 * TEXT_PIECE + 17;
    struct docs d;

    put_long_line(path, n);
    ck_assert_msg(docs_read(&d, path, NULL) == 0, "%s", docs_why.line);
    ck_assert_int_eq(d.n, 3);
    ck_assert_int_eq(d.pieces, 8);
    ck_assert_uint_eq(d.len, 5 + n + 2 + 5);
    ck_assert(!memcmp(d.bytes + 5 + n, "\xc3\xa9third", 7));
    free(d.bytes);
}
END_TEST

START_TEST(a_line_too_long_is_refused)
{
    const char *path = docs_path(rig_tmp(), "a.jsonl");

    put_long_line(path, TEXT_LINE + 4096);
    docs_refused(path, NULL, ":2: a line of more than 64 MiB");
}
END_TEST

/* ---- UTF-8 ------------------------------------------------------------------------- */

static const struct {
    const char *text;
    size_t      invalid;
} utf8[] = {
    {"plain", 0},
    {"\xc3\xa9\xe2\x82\xac\xf0\x9f\xa6\x8a", 0},
    {"\xf4\x8f\xbf\xbf", 0},
    {"\xf4\x90\x80\x80", 4},                // above U+10FFFF
    {"\xf5\x80\x80\x80", 4},
    {"\xed\xa0\x80", 3},                    // a surrogate
    {"\xed\xbf\xbf", 3},
    {"\xed\x9f\xbf\xee\x80\x80", 0},
    {"\xc0\xaf", 2},                        // overlong
    {"\xc1\xbf", 2},
    {"\xe0\x9f\xbf", 3},
    {"\xf0\x8f\xbf\xbf", 4},
    {"\xe0\xa0\x80\xf0\x90\x80\x80\xc2\x80", 0},
    {"\x80\xbf", 2},
    {"\xc3", 1},
    {"\xe2\x82", 2},
    {"\xf0\x9f\xa6", 3},
    {"\xf0\x9f\xa6" "a", 3},
    {"\xe2\x82\xe2\x82\xac", 2},
    {"\xc3\xc3\xa9", 1},
    {"\xfe\xff", 2},
};

/* At every distance from the start and to the end, so that the fast path meets it too. */
START_TEST(bytes_that_are_not_utf8_are_counted)
{
    size_t n = strlen(utf8[_i].text);
    char   buf[200];

    for (size_t before = 0; before < 70; before++)
        for (size_t after = 0; after < 70; after++) {
            memset(buf, 'x', sizeof buf);
            memcpy(buf + before, utf8[_i].text, n);
            ck_assert_uint_eq(text_invalid(buf, before + n + after), utf8[_i].invalid);
        }
}
END_TEST

START_TEST(every_character_is_valid_and_every_surrogate_is_not)
{
    for (uint32_t c = 0x80; c < 0x110000; c++) {
        char   s[4];
        size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        size_t bad = c >= 0xd800 && c < 0xe000 ? 3 : 0;

        s[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) + (c >> (6 * (n - 1))));
        for (size_t i = 1; i < n; i++)
            s[i] = (char)(0x80 + (c >> (6 * (n - 1 - i))) % 64);
        if (text_invalid(s, n) != bad || text_invalid(s, n - 1) != n - 1)
            ck_abort_msg("U+%04X, or U+%04X cut short", c, c);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("text");
    TCase *tc = tcase_create("text");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, plain_text_is_parted_at_marker_lines_only, 0, COUNT(plain));
    tcase_add_loop_test(tc, a_file_without_text_is_refused, 0, COUNT(textless));
    tcase_add_test(tc, a_marker_is_seen_wherever_the_buffer_ends);
    tcase_add_test(tc, a_marker_inside_a_line_stays_text_wherever_the_buffer_ends);
    tcase_add_loop_test(tc, pieces_join_to_the_document_and_never_cut_a_character, 1, 10);
    tcase_add_loop_test(tc, a_character_across_the_end_of_a_piece_goes_to_the_next, 0, 3);
    tcase_add_loop_test(tc, each_line_of_jsonl_is_one_document, 0, COUNT(jsonl));
    tcase_add_test(tc, another_field_can_be_read);
    tcase_add_loop_test(tc, a_broken_line_is_named_with_its_number, 0, COUNT(bad_json));
    tcase_add_test(tc, a_deeply_nested_line_is_refused);
    tcase_add_test(tc, a_long_line_comes_in_pieces);
    tcase_add_test(tc, a_line_too_long_is_refused);
    tcase_add_loop_test(tc, bytes_that_are_not_utf8_are_counted, 0, COUNT(utf8));
    tcase_add_test(tc, every_character_is_valid_and_every_surrogate_is_not);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 1);
}
