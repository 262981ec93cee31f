/* safetensors files: a round trip, files of others, and a table of broken ones. */
#include "data/base/file.h"
#include "data/base/json.h"
#include "model/files/safetensors.h"
#include "tests/support/rig.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const char *new_path(char *buf, size_t cap)
{
    return path_join(buf, cap, rig_tmp(), "x.safetensors");
}

/* A file of this header and len bytes of data, each its own index. claim: the header's
 * length as written; -1: the true one. */
static void put(const char *path, const char *header, long long claim, size_t len)
{
    uint64_t n = claim < 0 ? strlen(header) : (uint64_t)claim;
    FILE    *f = fopen(path, "wb");

    ck_assert(f && fwrite(&n, 8, 1, f) == 1);
    fputs(header, f);
    for (size_t i = 0; i < len; i++)
        fputc((int)i, f);
    ck_assert(!fclose(f));
}

START_TEST(what_was_written_is_read)
{
    static const float   a[6] = {1, -2, 3.5f, -0.0f, 1e-30f, 7};
    static const double  b[2] = {0.1, 1e300};
    static const int64_t i[1] = {INT64_MIN};
    static const uint16_t h[3] = {0x3c00, 0x7bff, 0x8001};
    const char *const    meta[] = {"format", "weft", "say", "\"x\" \n"};
    const struct tensor  t[] = {
        {"blocks.0.mixer.wq", DTYPE_F32, 2, {2, 3}, 6, a},
        {"none", DTYPE_F32, 1, {0}, 0, a},
        {"b", DTYPE_F64, 1, {2}, 2, b},
        {"scalar", DTYPE_I64, 0, {0}, 1, i},
        {"half", DTYPE_F16, 1, {3}, 3, h},
        {"brain", DTYPE_BF16, 2, {1, 3}, 3, h},
    };
    static const size_t  width[] = {4, 4, 8, 8, 2, 2};
    char               path[512];
    struct safetensors s;
    struct why         why;

    new_path(path, sizeof path);
    ck_assert_msg(!safetensors_write(path, t, 6, meta, 2, &why), "%s", why.line);
    ck_assert_msg(!safetensors_open(&s, path, &why), "%s", why.line);
    ck_assert_int_eq(s.n, 6);
    for (int k = 0; k < 6; k++) {
        size_t bytes = t[k].n * width[k];

        ck_assert_ptr_eq(safetensors_find(&s, t[k].name), &s.tensor[k]);
        ck_assert_int_eq(s.tensor[k].dtype, t[k].dtype);
        ck_assert_int_eq(s.tensor[k].dims, t[k].dims);
        ck_assert(!memcmp(s.tensor[k].shape, t[k].shape, sizeof t[k].shape));
        ck_assert_uint_eq(s.tensor[k].n, t[k].n);
        ck_assert(!memcmp(s.tensor[k].data, t[k].data, bytes));
    }
    ck_assert_ptr_null(safetensors_find(&s, "wq"));
    ck_assert_str_eq(safetensors_meta(&s, "say"), "\"x\" \n");
    ck_assert_ptr_null(safetensors_meta(&s, "x"));
    ck_assert_uint_eq((size_t)((char *)s.tensor[0].data - s.bytes) % 8, 0);
    safetensors_close(&s);
    safetensors_close(&s);
}
END_TEST

static long until;              // allocations of jansson that succeed

static void *scarce(size_t n)
{
    return until-- > 0 ? malloc(n) : NULL;
}

static void *scarce_once(size_t n)
{
    return until-- != 0 ? malloc(n) : NULL;
}

/* jansson leaves out what it has no memory for. */
START_TEST(a_file_is_whole_or_not_written_when_memory_is_short)
{
    static const float  a[6] = {1, -2, 3.5f, 4, 5, 7};
    const char *const   meta[] = {"format", "weft"};
    const struct tensor t[] = {{"wq", DTYPE_F32, 2, {2, 3}, 6, a},
                               {"wk", DTYPE_F32, 1, {4}, 4, a}};
    void             *(*const ways[])(size_t) = {scarce, scarce_once};
    char               path[512];
    struct safetensors s;
    struct why         why;
    enum fail          err = FAIL_MEMORY;

    new_path(path, sizeof path);
    for (int w = 0; w < 2; w++)
        for (long n = 0; n == 0 || err; n++) {
            until = n;
            json_set_alloc_funcs(ways[w], free);
            err = safetensors_write(path, t, 2, meta, 1, &why);
            json_set_alloc_funcs(malloc, free);
            ck_assert_msg(!err || err == FAIL_MEMORY, "%s", why.line);
            ck_assert_msg(err || !safetensors_open(&s, path, &why), "%s", why.line);
            ck_assert(err || (s.n == 2 && s.n_meta == 1));
            if (!err)
                safetensors_close(&s);
            ck_assert_int_lt(n, 1000);
        }
}
END_TEST

START_TEST(an_empty_set_is_a_file_too)
{
    char               path[512];
    struct safetensors s;
    struct why         why;

    new_path(path, sizeof path);
    ck_assert(!safetensors_write(path, NULL, 0, NULL, 0, &why));
    ck_assert_msg(!safetensors_open(&s, path, &why), "%s", why.line);
    ck_assert_int_eq(s.n, 0);
    safetensors_close(&s);
}
END_TEST

#define T(name, type, shape, from, to)                                           \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape                      \
    ",\"data_offsets\":[" from "," to "]}"

/* An empty one may lie where another begins, listed before it or after. */
static const char *const listed[] = {
    "{" T("b", "F32", "[1]", "4", "8") "," T("e", "F32", "[3,0]", "4", "4") ","
    T("a", "F32", "[1,1]", "0", "4") "}",
    "{" T("e", "F32", "[3,0]", "4", "4") "," T("b", "F32", "[1]", "4", "8") ","
    T("a", "F32", "[1,1]", "0", "4") "}",
};

START_TEST(tensors_may_lie_in_another_order_than_listed)
{
    char               path[512];
    struct safetensors s;
    struct why         why;

    new_path(path, sizeof path);
    put(path, listed[_i], -1, 8);
    ck_assert_msg(!safetensors_open(&s, path, &why), "%s", why.line);
    ck_assert_int_eq(*(const char *)safetensors_find(&s, "b")->data, 4);
    ck_assert_int_eq(*(const char *)safetensors_find(&s, "a")->data, 0);
    safetensors_close(&s);
}
END_TEST

#define X16 "xxxxxxxxxxxxxxxx"

/* Header, the length it claims (-1: the true one), bytes of data after it,
 * words of the error. */
static const struct {
    const char *header; long long claim; size_t len; const char *words;
} broken[] = {
    {"{}", 3, 0, "longer than the file"},
    {"{}", INT64_MAX, 0, "longer than the file"},
    {"{}", 1, 0, "damaged header"},
    {"{} x", -1, 0, "damaged header"},
    {"[]", -1, 0, "not an object"},
    {"{\"a\":1}", -1, 0, "not exactly"},
    {"{" T("a", "F32", "[1]", "0", "4") "," T("a", "F32", "[1]", "4", "8") "}", -1, 8,
     "duplicate"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", -1, 4,
     "not exactly"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"offsets\":[0,4]}}", -1, 4,
     "data_offsets"},
    {"{" T("a", "I16", "[1]", "0", "2") "}", -1, 2, "dtype"},
    {"{\"a\":{\"dtype\":32,\"shape\":[1],\"data_offsets\":[0,4]}}", -1, 4, "dtype"},
    {"{" T("a", "F32", "[-1]", "0", "4") "}", -1, 4, "not a size"},
    {"{" T("a", "F32", "[1.0]", "0", "4") "}", -1, 4, "not a size"},
    {"{" T("a", "F32", "1", "0", "4") "}", -1, 4, "shape"},
    {"{" T("a", "F32", "[1,1,1,1,1]", "0", "4") "}", -1, 4, "at most 4"},
    {"{" T("a", "F32", "[4294967296,4294967296]", "0", "0") "}", -1, 0, "overflows"},
    {"{" T("a", "F32", "[4611686018427387905]", "0", "4") "}", -1, 4, "does not fit"},
    {"{" T("a", "F32", "[99999999999999999999]", "0", "4") "}", -1, 4, "damaged header"},
    {"{" T("a", "F32", "[2]", "0", "4") "}", -1, 4, "does not fit"},
    {"{" T("a", "F64", "[1]", "0", "4") "}", -1, 4, "does not fit"},
    {"{" T("a", "F32", "[1]", "4", "0") "}", -1, 4, "outside the file"},
    {"{" T("a", "F32", "[1]", "-4", "0") "}", -1, 4, "outside the file"},
    {"{" T("a", "F32", "[2]", "0", "8") "}", -1, 7, "outside the file"},
    {"{" T("a", "F32", "[1]", "\"0\"", "4") "}", -1, 4, "not two numbers"},
    {"{" T("a", "F32", "[1]", "0,4", "4") "}", -1, 4, "not two numbers"},
    {"{" T("a", "F32", "[1]", "4", "8") "}", -1, 8, "gap before tensor a"},
    {"{" T("a", "F32", "[1]", "0", "4") "," T("b", "F32", "[1]", "8", "12") "}", -1, 12,
     "gap before tensor b"},
    {"{" T("a", "F32", "[2]", "0", "8") "," T("b", "F32", "[2]", "4", "12") "}", -1, 12,
     "overlap before tensor b"},
    {"{" T("a", "F32", "[1]", "0", "4") "," T("b", "F32", "[1]", "0", "4") "}", -1, 4,
     "overlap"},
    {"{" T("a", "F32", "[1]", "0", "4") "}", -1, 5, "1 bytes after the last tensor"},
    {"{}", -1, 1, "1 bytes after"},
    {"{" T("a\\u001b", "F32", "[1]", "0", "4") "}", -1, 4, "control characters"},
    {"{" T(X16 X16 X16 X16 X16 X16 X16 X16, "F32", "[1]", "0", "4") "}", -1, 4,
     "too long"},
    {"{\"__metadata__\":{\"a\":1}}", -1, 0, "more than text"},
    {"{\"__metadata__\":[]}", -1, 0, "not an object"},
};

START_TEST(a_broken_file_is_refused)
{
    char               path[512];
    struct safetensors s;
    struct why         why;

    new_path(path, sizeof path);
    put(path, broken[_i].header, broken[_i].claim, broken[_i].len);
    ck_assert_int_eq(safetensors_open(&s, path, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, broken[_i].words) != NULL, "%s", why.line);
    ck_assert_msg(strstr(why.line, path) != NULL, "%s", why.line);
    ck_assert_ptr_null(s.bytes);
}
END_TEST

START_TEST(a_file_cut_short_anywhere_is_refused)
{
    const float         a[3] = {1, 2, 3};
    const struct tensor t = {"a", DTYPE_F32, 1, {3}, 3, a};
    char                path[512], *bytes;
    struct safetensors  s;
    struct why          why;
    size_t              len;

    new_path(path, sizeof path);
    ck_assert(!safetensors_write(path, &t, 1, NULL, 0, &why));
    ck_assert(!file_read(path, 1 << 20, &bytes, &len, &why));
    for (size_t n = 0; n < len; n++) {
        ck_assert(!file_write(path, bytes, n, &why));
        ck_assert_msg(safetensors_open(&s, path, &why) == FAIL_INPUT,
                      "%zu of %zu", n, len);
    }
    free(bytes);
}
END_TEST

START_TEST(a_header_larger_than_the_limit_is_not_parsed)
{
    size_t             len = SAFETENSORS_HEADER + 1;
    char               path[512], *header = malloc(len + 1);
    struct safetensors s;
    struct why         why;

    memset(header, ' ', len);
    memcpy(header, "{}", 2);
    header[len] = '\0';
    new_path(path, sizeof path);
    put(path, header, -1, 0);
    ck_assert_int_eq(safetensors_open(&s, path, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, "at most") != NULL, "%s", why.line);
    free(header);
}
END_TEST

START_TEST(what_is_no_file_is_refused)
{
    struct safetensors s;
    struct why         why;

    ck_assert_int_eq(safetensors_open(&s, rig_tmp(), &why), FAIL_INPUT);
    ck_assert_int_eq(safetensors_open(&s, "no/such/file", &why), FAIL_INPUT);
    ck_assert_int_eq(safetensors_open(&s, "/dev/null", &why), FAIL_INPUT);
}
END_TEST

START_TEST(a_full_disk_is_noticed)
{
    static float        a[1 << 16];
    const struct tensor t = {"a", DTYPE_F32, 1, {1 << 16}, 1 << 16, a};
    struct rlimit       old, tight;
    char                path[PATH_MAX];
    struct why          why;

    path_join(path, sizeof path, rig_tmp(), "x");
    ck_assert(!getrlimit(RLIMIT_FSIZE, &old));
    tight = (struct rlimit){1 << 16, old.rlim_max}; // as a full disk: EFBIG
    signal(SIGXFSZ, SIG_IGN);
    ck_assert(!setrlimit(RLIMIT_FSIZE, &tight));
    enum fail large = safetensors_write(path, &t, 1, NULL, 0, &why);

    tight.rlim_cur = 4;
    ck_assert(!setrlimit(RLIMIT_FSIZE, &tight));
    enum fail none = safetensors_write(path, NULL, 0, NULL, 0, &why);

    ck_assert(!setrlimit(RLIMIT_FSIZE, &old));
    ck_assert_int_eq(large, FAIL_WRITE);
    ck_assert_int_eq(none, FAIL_WRITE);
    ck_assert(!path_exists(path));
    ck_assert_int_eq(safetensors_write("no/such/dir/x", &t, 1, NULL, 0, &why),
                     FAIL_WRITE);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("safetensors");
    TCase *c = tcase_create("files");

    tcase_add_test(c, what_was_written_is_read);
    tcase_add_test(c, a_file_is_whole_or_not_written_when_memory_is_short);
    tcase_add_test(c, an_empty_set_is_a_file_too);
    tcase_add_loop_test(c, tensors_may_lie_in_another_order_than_listed, 0, 2);
    tcase_add_loop_test(c, a_broken_file_is_refused, 0, sizeof broken / sizeof *broken);
    tcase_add_test(c, a_file_cut_short_anywhere_is_refused);
    tcase_add_test(c, a_header_larger_than_the_limit_is_not_parsed);
    tcase_add_test(c, what_is_no_file_is_refused);
    tcase_add_test(c, a_full_disk_is_noticed);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return rig_run(suite(), 1);
}
