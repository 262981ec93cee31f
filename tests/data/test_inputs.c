/* data/text.h: where text comes from: compressed files, directories, stdin. */
#include "data/base/file.h"
#include "tests/support/docs.h"
#include "tests/support/rig.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zstd.h>

/* ---- zstd -------------------------------------------------------------------------- */

/* "a", a marker line and "b" over three frames, the second of them empty. */
static size_t three_frames(char *to, size_t cap)
{
    size_t n = docs_pack(to, cap, "a\n<|endof", 9);

    n += docs_pack(to + n, cap - n, "", 0);
    return n + docs_pack(to + n, cap - n, "text|>\nb\n", 9);
}

START_TEST(compressed_files_read_as_what_they_hold)
{
    const char *dir = rig_tmp();
    char        packed[512];
    size_t      n = three_frames(packed, sizeof packed);

    docs_put(docs_path(dir, "a.txt.zst"), packed, n);
    docs_assert(docs_path(dir, "a.txt.zst"), NULL, TEXT("[a\n][b\n]"));
    docs_put(docs_path(dir, "a.zst"), packed, n);
    docs_assert(docs_path(dir, "a.zst"), NULL, TEXT("[a\n][b\n]"));
    n = docs_pack(packed, sizeof packed, "{\"text\": \"a\"}\n{\"text\": \"b\"}\n", 28);
    docs_put(docs_path(dir, "a.jsonl.zst"), packed, n);
    docs_assert(docs_path(dir, "a.jsonl.zst"), NULL, TEXT("[a][b]"));
}
END_TEST

START_TEST(large_compressed_text_comes_back_whole)
{
    enum { N = 3 * TEXT_PIECE + 5 };
    struct rng  r = rng_open(3, RNG_TEST, 0);
    const char *path = docs_path(rig_tmp(), "a.txt.zst");
    size_t      cap = ZSTD_compressBound(N), half = N / 2, n;
    char       *bytes = malloc(N), *packed = malloc(2 * cap);
    struct docs d;

    docs_babble(&r, bytes, N, 1000);
    n = docs_pack(packed, cap, bytes, half);
    n += docs_pack(packed + n, cap, bytes + half, N - half);
    docs_put(path, packed, n);
    ck_assert_msg(docs_read(&d, path, NULL) == 0, "%s", docs_why.line);
    ck_assert_int_eq(d.n, 1);
    ck_assert_uint_eq(d.len, N);
    ck_assert(!memcmp(d.bytes, bytes, N));
    free(d.bytes);
    free(packed);
    free(bytes);
}
END_TEST

START_TEST(a_truncated_zst_is_refused_wherever_it_ends)
{
    const char *path = docs_path(rig_tmp(), "a.txt.zst");
    char        packed[512], first[512];
    size_t      n = three_frames(packed, sizeof packed);
    size_t      one = docs_pack(first, sizeof first, "a\n<|endof", 9);
    size_t      two = one + docs_pack(first, sizeof first, "", 0);

    for (size_t cut = 1; cut < n; cut++) {
        docs_put(path, packed, cut);
        if (cut != one && cut != two)
            docs_refused(path, NULL, "truncated");
    }
}
END_TEST

START_TEST(a_corrupt_zst_is_refused)
{
    const char *path = docs_path(rig_tmp(), "a.txt.zst");
    char        packed[512];
    size_t      n = docs_pack(packed, sizeof packed, "some text that is checked", 25);

    packed[n - 6] ^= 1;
    docs_put(path, packed, n);
    docs_refused(path, NULL, "corrupt");
    packed[n - 6] ^= 1;
    memcpy(packed + n, "garbage!", 8);
    docs_put(path, packed, n + 8);
    docs_refused(path, NULL, "corrupt");
    docs_put_text(path, "not compressed at all");
    docs_refused(path, NULL, "not a zstd file");
}
END_TEST

START_TEST(a_zst_that_asks_for_too_much_memory_is_refused)
{
    const char *path = docs_path(rig_tmp(), "a.txt.zst");

    // magic, no flags, a window of 2^28 bytes, one last raw block of one byte
    docs_put(path, "\x28\xb5\x2f\xfd\x00\x90\x09\x00\x00x", 10);
    docs_refused(path, NULL, "more than 128 MiB");
    docs_put(path, "\x28\xb5\x2f\xfd\x00\x88\x09\x00\x00x", 10);
    docs_assert(path, NULL, TEXT("[x]"));
}
END_TEST

/* `frames` times 8 MiB of zeros. */
static void put_bomb(const char *path, int frames)
{
    enum { N = 8 << 20 };
    char  *zeros = calloc(1, N), *packed = malloc(1 << 16);
    size_t n = docs_pack(packed, 1 << 16, zeros, N);
    FILE  *f = fopen(path, "wb");

    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < frames; i++)
        ck_assert_uint_eq(fwrite(packed, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
    free(packed);
    free(zeros);
}

static long peak_kib(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

START_TEST(a_zstd_bomb_costs_time_but_no_memory)
{
    const char       *path = docs_path(rig_tmp(), "a.txt.zst");
    struct text      *t;
    struct text_piece p;
    uint64_t          total = 0;

    put_bomb(path, 32);
    long before = peak_kib();

    ck_assert_int_eq(text_open(&t, &path, 1, NULL, &docs_why), 0);
    while (!text_next(t, &p, &docs_why) && p.bytes)
        total += p.len;
    text_close(t);
    ck_assert_uint_eq(total, UINT64_C(256) << 20);
    ck_assert_int_lt(peak_kib() - before, 32 << 10);
}
END_TEST

START_TEST(a_zstd_bomb_in_one_json_line_is_refused)
{
    const char *path = docs_path(rig_tmp(), "a.jsonl.zst");

    put_bomb(path, 16);
    docs_refused(path, NULL, ":1: a line of more than 64 MiB");
}
END_TEST

/* ---- directories, special files, stdin --------------------------------------------- */

START_TEST(a_directory_is_read_in_byte_order_of_its_paths)
{
    const char *dir = rig_tmp();
    char        packed[64];

    ck_assert_int_eq(dir_make(docs_path(dir, "b/deep/er"), &docs_why), 0);
    ck_assert_int_eq(dir_make(docs_path(dir, ".git"), &docs_why), 0);
    docs_put_text(docs_path(dir, "b/deep/er/z.TXT"), "5");
    docs_put_text(docs_path(dir, "b/1.jsonl"), "{\"text\": \"4\"}");
    docs_put_text(docs_path(dir, "b.txt"), "3");
    docs_put(docs_path(dir, "B.txt.zst"), packed,
             docs_pack(packed, sizeof packed, "1", 1));
    docs_put_text(docs_path(dir, "b-.txt"), "2");
    docs_put_text(docs_path(dir, "c.md"), "no");
    docs_put_text(docs_path(dir, "txt"), "no");
    docs_put_text(docs_path(dir, ".hidden.txt"), "no");
    docs_put_text(docs_path(dir, ".git/a.txt"), "no");
    docs_put_text(docs_path(dir, "empty.txt"), "");
    ck_assert_int_eq(mkfifo(docs_path(dir, "other-pipe"), 0666), 0);
    docs_assert(dir, NULL, TEXT("[1][2][3][4][5]"));
}
END_TEST

START_TEST(links_to_directories_are_followed)
{
    const char *dir = rig_tmp(), *other = rig_tmp();

    docs_put_text(docs_path(other, "a.txt"), "a");
    ck_assert_int_eq(symlink(other, docs_path(dir, "link")), 0);
    docs_assert(dir, NULL, TEXT("[a]"));
    docs_assert(docs_path(dir, "link"), NULL, TEXT("[a]"));
}
END_TEST

enum special { LOOP, TWICE, SELF, PIPE, SOCKET, DANGLING, HOLLOW, OTHERS, EMPTIES };

static const struct {
    enum special what;
    const char  *name, *says;
} special[] = {
    {LOOP,     "d/up",    "leads into a directory that is read already"},
    {TWICE,    "d",       "leads into a directory that is read already"},
    {SELF,     "d/s.txt", "Too many levels of symbolic links"},
    {PIPE,     "d/p.txt", "a pipe, not a file"},
    {SOCKET,   "d/s.txt", "a socket, not a file"},
    {DANGLING, "d/l.txt", "no such file"},
    {HOLLOW,   "",        "no .txt or .jsonl file"},
    {OTHERS,   "",        "no .txt or .jsonl file"},
    {EMPTIES,  "",        "no .txt or .jsonl file"},
};

/* A socket's path must be short, so it goes through the directory's descriptor. */
static void make_socket(const char *dir, const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int                fd = socket(AF_UNIX, SOCK_STREAM, 0), at = open(dir, O_RDONLY);

    snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/%s", at, name);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    close(at);
    close(fd);
}

static void make_twice(const char *dir)
{
    ck_assert_int_eq(symlink("e", docs_path(dir, "d/f")), 0);
    ck_assert_int_eq(mkdir(docs_path(dir, "d/e"), 0777), 0);
}

static void make_special(const char *dir, enum special what, const char *path)
{
    switch (what) {
    case LOOP:     ck_assert_int_eq(symlink("../../x", path), 0);            break;
    case TWICE:    make_twice(dir);                                          break;
    case SELF:     ck_assert_int_eq(symlink("s.txt", path), 0);              break;
    case PIPE:     ck_assert_int_eq(mkfifo(path, 0666), 0);                  break;
    case SOCKET:   make_socket(dir, "d/s.txt");                             break;
    case DANGLING: ck_assert_int_eq(symlink("nowhere", path), 0);            break;
    case HOLLOW:                                                             break;
    case OTHERS:   docs_put_text(docs_path(dir, "d/a.md"), "text");          break;
    case EMPTIES:  docs_put_text(docs_path(dir, "d/a.txt"), "");             break;
    }
}

START_TEST(an_unsuitable_thing_in_a_directory_is_refused_without_waiting)
{
    const char *root = rig_tmp();
    char        dir[PATH_MAX], path[PATH_MAX];

    path_join(dir, sizeof dir, root, "x");
    ck_assert_int_eq(dir_make(docs_path(dir, "d"), &docs_why), 0);
    path_join(path, sizeof path, dir, special[_i].name);
    make_special(dir, special[_i].what, path);

    struct docs d;
    int         rc = docs_read(&d, dir, NULL);

    ck_assert_int_eq(rc, FAIL_INPUT);
    ck_assert_msg(strstr(docs_why.line, special[_i].says) != NULL, "%s", docs_why.line);
    ck_assert_msg(strstr(docs_why.line, special[_i].what < HOLLOW ? path : dir) != NULL,
                  "%s", docs_why.line);
    if (special[_i].what == PIPE || special[_i].what == SOCKET)
        docs_refused(path, NULL, special[_i].says);
}
END_TEST

START_TEST(missing_inputs_and_devices_are_refused)
{
    struct text *t;

    docs_refused("/nowhere/a.txt", NULL, "no such file; check the path");
    docs_refused("", NULL, "no such file");
    docs_refused("/dev/null", NULL, "a device, not a file");
    ck_assert_int_eq(text_open(&t, NULL, 0, NULL, &docs_why), FAIL_INPUT);
    ck_assert_ptr_nonnull(strstr(docs_why.line, "no input"));
}
END_TEST

START_TEST(a_file_given_twice_is_refused)
{
    const char   *dir = rig_tmp();
    char          a[PATH_MAX], again[PATH_MAX];
    const char   *paths[] = {a, again};
    struct text  *t;

    docs_put_text(path_join(a, sizeof a, dir, "a.txt"), "text");
    ck_assert(!symlink(a, path_join(again, sizeof again, dir, "b.txt")));
    ck_assert_int_eq(text_open(&t, paths, 2, NULL, &docs_why), FAIL_USAGE);
    ck_assert_ptr_nonnull(strstr(docs_why.line, "given twice"));
}
END_TEST

START_TEST(several_inputs_are_one_stream)
{
    const char       *dir = rig_tmp();
    char              a[PATH_MAX], b[PATH_MAX];
    const char       *paths[] = {b, a};
    struct text      *t;
    struct text_piece p;

    docs_put_text(path_join(b, sizeof b, dir, "b"), MARK);
    docs_put_text(path_join(a, sizeof a, dir, "a.txt"), "text");
    ck_assert_int_eq(text_open(&t, paths, 2, NULL, &docs_why), 0);
    ck_assert_uint_eq(text_total(t), 13 + 4);
    ck_assert_uint_eq(text_consumed(t), 0);
    ck_assert_int_eq(text_next(t, &p, &docs_why), 0);
    ck_assert(p.len == 4 && p.last && !memcmp(p.bytes, "text", 4));
    ck_assert_int_eq(text_next(t, &p, &docs_why), 0);
    ck_assert_ptr_null(p.bytes);
    ck_assert_uint_eq(text_consumed(t), 13 + 4);
    text_close(t);
}
END_TEST

/* Put these bytes on stdin; the descriptor that was there before. */
static int swap_stdin(const char *bytes, size_t len)
{
    int saved = dup(STDIN_FILENO), ends[2];

    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], bytes, len), (int)len);
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    return saved;
}

/* want: the documents, or what a refusal says. */
static const struct {
    const char *bytes, *field, *want;
    bool        packed, refused;
} dashes[] = {
    {"a\n" MARK "\nb", NULL, "[a\n][b]", false, false},
    {"a\n" MARK "\nb", NULL, "[a\n][b]", true, false},
    {"(\xb5/", NULL, "[(\xb5/]", false, false},
    {"{\"text\": \"a\"}\n{\"text\": \"b\"}\n", NULL, "[a][b]", false, false},
    {"{\"text\": \"a\"}\n{\"text\": \"b\"}\n", NULL, "[a][b]", true, false},
    {"\xef\xbb\xbf\n {\"text\": \"a\"}", NULL, "[a]", false, false},
    {"{\"body\": \"a\"}\n", NULL, "[{\"body\": \"a\"}\n]", false, false},
    {"{\"body\": \"a\"}\n", "body", "[a]", false, false},
    {"\n {x}\ny", NULL, "[\n {x}\ny]", false, false},
    {"", NULL, "stdin: no text in it", false, true},
    {"", NULL, "stdin: no text in it", true, true},
    {"a\n", "body", "stdin:1: column 1: expected an object", false, true},
    {"{\"text\": \"a\"}\nb\n", NULL, "stdin:2: column 1: expected an object",
     false, true},
};

START_TEST(a_dash_reads_stdin_as_what_it_holds)
{
    char        packed[512];
    const char *bytes = dashes[_i].bytes, *want = dashes[_i].want;
    size_t      len = strlen(bytes);

    if (dashes[_i].packed) {
        len = docs_pack(packed, sizeof packed, bytes, len);
        bytes = packed;
    }
    int saved = swap_stdin(bytes, len);

    if (dashes[_i].refused)
        docs_refused("-", dashes[_i].field, want);
    else
        docs_assert("-", dashes[_i].field, want, strlen(want));
    dup2(saved, STDIN_FILENO);
    close(saved);
}
END_TEST

START_TEST(a_large_first_line_on_stdin_is_seen_whole)
{
    enum { N = 3 * TEXT_PIECE };
    const char *path = docs_path(rig_tmp(), "-");
    char       *bytes = malloc(N + 16);
    struct docs d;

    for (int json = 0; json < 2; json++) {
        memset(bytes, 'x', N);
        memcpy(bytes, "{\"text\": \"", 10);
        strcpy(bytes + N, json ? "\"}\n" : "\" \n");
        docs_put(path, bytes, strlen(bytes));
        ck_assert_msg(docs_read(&d, path, NULL) == 0, "%s", docs_why.line);
        ck_assert_int_eq(d.n, 1);
        ck_assert_uint_eq(d.len, json ? N - 10 : N + 3);
        free(d.bytes);
    }
    free(bytes);
}
END_TEST

/* ---- places ------------------------------------------------------------------------ */

/* What is left of a stream: its bytes, a '|' after each document, and the line of what
 * fails; malloc'ed. */
static char *rest_of(struct text *t, size_t *len)
{
    struct text_piece p;
    char             *bytes;
    FILE             *all = open_memstream(&bytes, len);
    enum fail         err;

    while (!(err = text_next(t, &p, &docs_why)) && p.bytes) {
        fwrite(p.bytes, 1, p.len, all);
        if (p.last)
            fputc('|', all);
    }
    if (err)
        fputs(docs_why.line, all);
    ck_assert_int_eq(fclose(all), 0);
    return bytes;
}

/* A stream that is opened anew at that place goes on with the same bytes. */
static void assert_goes_on(const char *const *paths, const struct text_place *at,
                           const char *want, size_t len)
{
    struct text *t;
    size_t       n;
    char        *rest;

    docs_why.line[0] = 0;
    ck_assert_int_eq(text_open(&t, paths, 2, NULL, &docs_why), 0);
    ck_assert_msg(text_seek(t, at, &docs_why) == 0, "%s", docs_why.line);
    rest = rest_of(t, &n);
    ck_assert_msg(n == len && !memcmp(rest, want, n), "from %llu: %zu bytes, not %zu",
                  (unsigned long long)at->offset, n, len);
    ck_assert(docs_why.line[0] || text_consumed(t) == text_total(t));
    text_close(t);
    free(rest);
}

/* A text whose first piece ends inside a line, before what would be a marker at a line's
 * start; the same compressed; and lines of .jsonl, two of them longer than a piece, and
 * the last is broken. */
static void put_form(const char *path, int form)
{
    enum { N = TEXT_PIECE };
    char  *bytes, *packed;
    size_t n;
    FILE  *f = open_memstream(&bytes, &n);

    if (form < 2) {
        fprintf(f, "%0*d" MARK "\ntail\n" MARK "\n", N, 0);
        for (int i = 0; i < N / 4; i++)
            fprintf(f, "%d\n", i);
    } else {
        fprintf(f, "{\"text\": \"first\"}\n{\"text\": \"%0*d\"}\n\n{\"text\": \"%0*d\"}\n"
                "{\"text\": \"last\"}\n{\"text\": 5}\n", 2 * N, 0, N + 9, 0);
    }
    ck_assert_int_eq(fclose(f), 0);
    packed = malloc(n);
    if (form == 1)
        docs_put(path, packed, docs_pack(packed, n, bytes, n));
    else
        docs_put(path, bytes, n);
    free(bytes), free(packed);
}

START_TEST(a_stream_goes_on_from_any_place_between_two_pieces)
{
    static const char *const names[] = {"b.txt", "b.txt.zst", "b.jsonl"};
    const char       *dir = rig_tmp();
    char              a[PATH_MAX], b[PATH_MAX], *all;
    const char       *paths[] = {a, b};
    struct text      *t;
    struct text_piece p;
    struct text_place at;
    size_t            len, from = 0;
    int               told = 0;

    docs_put_text(path_join(a, sizeof a, dir, "a.txt"), "one\n" MARK "\ntwo\n");
    put_form(path_join(b, sizeof b, dir, names[_i]), _i);
    ck_assert_int_eq(text_open(&t, paths, 2, NULL, &docs_why), 0);
    ck_assert(!text_tell(t, &at));                  // nothing is open yet
    all = rest_of(t, &len);
    text_close(t);
    ck_assert_int_eq(text_open(&t, paths, 2, NULL, &docs_why), 0);
    while (!text_next(t, &p, &docs_why) && p.bytes) {
        from += p.len + p.last;
        ck_assert(text_tell(t, &at) == (_i < 2 || p.last));
        if (_i < 2 || p.last)
            assert_goes_on(paths, &at, all + from, len - from), told++;
    }
    text_close(t);
    ck_assert_int_ge(told, 5);
    free(all);
}
END_TEST

START_TEST(a_place_that_is_gone_is_refused)
{
    const char       *dir = rig_tmp(), *paths[] = {docs_path(dir, "a.txt"), NULL};
    struct text      *t;
    struct text_place far = {.offset = 9}, none = {.input = 1};

    docs_put_text(paths[0], "four");
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(text_open(&t, paths, 1, NULL, &docs_why), 0);
        ck_assert_int_eq(text_seek(t, i ? &far : &none, &docs_why), FAIL_INPUT);
        ck_assert_ptr_nonnull(strstr(docs_why.line, "a.txt: shorter than it was"));
        text_close(t);
    }
    paths[0] = docs_path(dir, "-");                 // stdin, as it is kept
    docs_put_text(paths[0], "four");
    struct text_piece p;

    ck_assert_int_eq(text_open(&t, paths, 1, NULL, &docs_why), 0);
    ck_assert(!text_next(t, &p, &docs_why) && !text_tell(t, &far));
    text_close(t);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("inputs");
    TCase *tc = tcase_create("inputs");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, compressed_files_read_as_what_they_hold);
    tcase_add_test(tc, large_compressed_text_comes_back_whole);
    tcase_add_test(tc, a_truncated_zst_is_refused_wherever_it_ends);
    tcase_add_test(tc, a_corrupt_zst_is_refused);
    tcase_add_test(tc, a_zst_that_asks_for_too_much_memory_is_refused);
    tcase_add_test(tc, a_zstd_bomb_costs_time_but_no_memory);
    tcase_add_test(tc, a_zstd_bomb_in_one_json_line_is_refused);
    tcase_add_test(tc, a_directory_is_read_in_byte_order_of_its_paths);
    tcase_add_test(tc, links_to_directories_are_followed);
    tcase_add_loop_test(tc, an_unsuitable_thing_in_a_directory_is_refused_without_waiting,
                        0, COUNT(special));
    tcase_add_test(tc, missing_inputs_and_devices_are_refused);
    tcase_add_test(tc, a_file_given_twice_is_refused);
    tcase_add_test(tc, several_inputs_are_one_stream);
    tcase_add_loop_test(tc, a_dash_reads_stdin_as_what_it_holds, 0, COUNT(dashes));
    tcase_add_test(tc, a_large_first_line_on_stdin_is_seen_whole);
    tcase_add_loop_test(tc, a_stream_goes_on_from_any_place_between_two_pieces, 0, 3);
    tcase_add_test(tc, a_place_that_is_gone_is_refused);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 1);
}
