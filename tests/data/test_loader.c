/* Token shards, and the batches that the loader draws from them. */
#include "data/base/file.h"
#include "data/loader.h"
#include "tests/support/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 512 };

static const char *in(const char *dir, const char *name)
{
    static char path[PATH];

    return path_join(path, sizeof path, dir, name);
}

/* Unlike file_write, without waiting for the disk. */
static void put(const char *path, const char *bytes, size_t len)
{
    FILE *f = fopen(path, "wb");

    ck_assert(f && fwrite(bytes, 1, len, f) == len && !fclose(f));
}

/* Any id of `width` bytes, from its place. */
static uint32_t id_at(uint64_t i, int width)
{
    uint32_t x = (uint32_t)(i * 2654435761u);

    return width == 2 ? x >> 16 : x;
}

/* A shard of n ids: id_at(), or 0, 1, 2, ... with every one repeated `each` times. */
static const char *write_shard(const char *dir, uint64_t n, int width, uint32_t each)
{
    const char          *path = in(dir, "a.tok.zst");
    struct shard_writer *w;
    struct why           why;
    uint32_t             ids[1000];
    uint64_t             written;

    ck_assert_int_eq(shard_create(&w, path, width, &why), 0);
    for (uint64_t i = 0; i < n;) {
        uint64_t k = n - i < 1000 ? n - i : 1000;

        for (uint64_t j = 0; j < k; j++)
            ids[j] = each ? (uint32_t)((i + j) / each) : id_at(i + j, width);
        ck_assert_int_eq(shard_append(w, ids, k, &why), 0);
        i += k;
    }
    ck_assert_int_eq(shard_finish(w, &written, &why), 0);
    ck_assert_uint_eq(written, n);
    return path;
}

static void open_ok(struct shard *s, const char *path, int width)
{
    struct why why;

    ck_assert_msg(shard_open(s, path, width, &why) == 0, "%s", why.line);
}

/* ---- shards ---- */

static const uint64_t sizes[] = {0, 1, SHARD_FRAME - 1, SHARD_FRAME, SHARD_FRAME + 1,
                                 3 * SHARD_FRAME + 7};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

START_TEST(a_shard_gives_back_its_ids)
{
    static uint32_t ids[SHARD_FRAME];

    int          width = _i < N_SIZES ? 2 : 4;
    uint64_t     n = sizes[_i % N_SIZES], seen = 0;
    struct shard s;
    struct why   why;
    uint32_t     got;

    open_ok(&s, write_shard(rig_tmp(), n, width, 0), width);
    ck_assert_uint_eq(s.n, n);
    for (uint64_t f = 0; f < s.frames; f++, seen += got) {
        ck_assert_msg(shard_frame(&s, f, ids, &got, &why) == 0, "%s", why.line);
        for (uint32_t i = 0; i < got; i++)
            ck_assert_uint_eq(ids[i], id_at(seen + i, width));
    }
    ck_assert_uint_eq(seen, n);
    shard_close(&s);
}
END_TEST

START_TEST(zstd_gives_the_bare_ids)
{
    const uint64_t n = SHARD_FRAME + 100;
    char           command[PATH + 64];
    uint16_t       id;
    FILE          *f;

    if (system("command -v zstd >/dev/null"))
        return;
    snprintf(command, sizeof command, "zstd -dcq '%s'", write_shard(rig_tmp(), n, 2, 0));
    f = popen(command, "r");
    for (uint64_t i = 0; i < n; i++) {
        ck_assert_uint_eq(fread(&id, 2, 1, f), 1);
        ck_assert_uint_eq(id, id_at(i, 2));
    }
    ck_assert_int_eq(fgetc(f), EOF);
    ck_assert_int_eq(pclose(f), 0);
}
END_TEST

START_TEST(an_id_that_does_not_fit_is_refused)
{
    struct shard_writer *w;
    struct why           why;
    uint64_t             n;

    ck_assert_int_eq(shard_create(&w, in(rig_tmp(), "a"), 2, &why), 0);
    ck_assert_int_eq(shard_append(w, &(uint32_t){65535}, 1, &why), 0);
    ck_assert_int_eq(shard_append(w, &(uint32_t){65536}, 1, &why), FAIL_INPUT);
    ck_assert_int_eq(shard_finish(w, &n, &why), FAIL_INPUT);
}
END_TEST

START_TEST(an_id_outside_the_vocabulary_is_refused)
{
    static uint32_t ids[SHARD_FRAME];
    struct shard    s;
    struct why      why;
    uint32_t        n;

    open_ok(&s, write_shard(rig_tmp(), 100, 2, 1), 2);
    s.vocab = 100;
    ck_assert_int_eq(shard_frame(&s, 0, ids, &n, &why), 0);
    s.vocab = 99;
    ck_assert_int_eq(shard_frame(&s, 0, ids, &n, &why), FAIL_INPUT);
    shard_close(&s);
}
END_TEST

/* Open these bytes as a shard and read every frame: 0 when that works and gives n ids as
 * they were written, else the error. Wrong ids fail the test. */
static int read_bytes(const char *dir, const char *bytes, size_t len, struct why *why)
{
    static uint32_t ids[SHARD_FRAME];
    struct shard    s;
    uint64_t        seen = 0;
    int             code;

    put(in(dir, "b.tok.zst"), bytes, len);
    if ((code = shard_open(&s, in(dir, "b.tok.zst"), 2, why)))
        return code;
    for (uint64_t f = 0; f < s.frames && !code; f++) {
        uint32_t n;

        code = shard_frame(&s, f, ids, &n, why);
        for (uint32_t i = 0; !code && i < n; i++, seen++)
            ck_assert_uint_eq(ids[i], id_at(seen, 2));
    }
    shard_close(&s);
    return code;
}

/* Bytes counted from the start of a shard of SHARD_FRAME + 5 ids, or (negative) from its
 * end, which is:  head 4+4 | entry 4+4 | entry 4+4 | count 4, flags 1, magic 4. */
static const struct { long at; unsigned char byte; const char *says; } broken[] = {
    {0, 'X', "frame 0"},            // a frame's magic
    {4, 0x00, "frame 0"},           // no checksum, other sizes
    {5, 0xff, "frame 0"},           // the content size in its header
    {5000, 'X', "frame 0"},         // its content
    {-1, 0, "no seek table"},
    {-4, 0, "no seek table"},
    {-5, 0x80, "damaged"},          // flags: with checksums
    {-6, 0xff, "damaged"},          // a count beyond the file
    {-9, 1, "damaged"},             // one frame too few
    {-9, 3, "damaged"},
    {-10, 1, "impossible length"},  // a frame larger than there are
    {-13, 9, "impossible length"},  // an odd number of bytes
    {-13, 0, "impossible length"},  // an empty frame
    {-13, 8, "frame 1"},            // one id less than the frame holds
    {-14, 0xff, "impossible size"},
    {-17, 0, "impossible size"},
    {-17, 9, "fill the file"},
    {-20, 9, "impossible length"},  // a frame that is not full, not the last
    {-22, 1, "impossible size"},
    {-29, 1, "damaged"},            // the skippable frame's size
    {-33, 0x5f, "damaged"},         // and its magic
};

START_TEST(a_broken_shard_is_refused)
{
    const char *dir = rig_tmp();
    char       *bytes;
    size_t      len, at;
    struct why  why;
    int         code;

    ck_assert(!file_read(write_shard(dir, SHARD_FRAME + 5, 2, 0), 1 << 20, &bytes,
                         &len, &why));
    at = (size_t)(broken[_i].at < 0 ? (long)len + broken[_i].at : broken[_i].at);
    ck_assert_int_ne(bytes[at], (char)broken[_i].byte);
    bytes[at] = (char)broken[_i].byte;
    code = read_bytes(dir, bytes, len, &why);
    ck_assert_msg(code == FAIL_INPUT, "byte %ld: accepted", broken[_i].at);
    ck_assert_msg(strstr(why.line, broken[_i].says) != NULL, "%s", why.line);
    ck_assert_msg(strstr(why.line, "b.tok.zst") != NULL, "%s", why.line);
    free(bytes);
}
END_TEST

START_TEST(no_flipped_bit_gives_wrong_ids)
{
    const char *dir = rig_tmp();
    char       *bytes;
    size_t      len, accepted = 0;
    struct why  why;

    ck_assert(!file_read(write_shard(dir, 40, 2, 0), 1 << 20, &bytes, &len, &why));
    ck_assert_int_eq(read_bytes(dir, bytes, len, &why), 0);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        accepted += !read_bytes(dir, bytes, len, &why);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    ck_assert_uint_le(accepted, 1);         // zstd's frame header has one unused bit
    for (size_t n = 0; n < len; n++)
        ck_assert_msg(read_bytes(dir, bytes, n, &why) == FAIL_INPUT,
                      "%zu of %zu bytes", n, len);
    free(bytes);
}
END_TEST

/* ---- the loader ---- */

static struct loader *loader_ok(const struct shard *s, uint64_t seed, int B, int T)
{
    struct loader *l;
    struct why     why;

    ck_assert_msg(loader_open(&l, s, seed, B, T, &why) == 0, "%s", why.line);
    return l;
}

static void batch_ok(struct loader *l, uint64_t k, const int32_t **tokens,
                     const int32_t **targets)
{
    struct why why;

    ck_assert_msg(loader_batch(l, k, tokens, targets, &why) == 0, "%s", why.line);
}

START_TEST(each_epoch_visits_every_window_once)
{
    enum { N = 5003, T = 16, B = 3, EPOCHS = 5 };

    struct shard   s;
    const int32_t *tokens, *targets;
    int            offset[EPOCHS], first[EPOCHS], same = 0;

    open_ok(&s, write_shard(rig_tmp(), N, 4, 1), 4);
    struct loader *l = loader_ok(&s, 7, B, T);
    uint64_t       windows = loader_windows(l);

    ck_assert_uint_eq(windows, (N - T) / T);
    for (uint64_t e = 0; e < EPOCHS; e++) {
        char seen[N / T + 1] = {0};

        for (uint64_t i = e * windows; i < (e + 1) * windows; i++) {
            batch_ok(l, i / B, &tokens, &targets);
            const int32_t *x = tokens + i % B * T, *y = targets + i % B * T;

            if (i == e * windows)
                offset[e] = x[0] % T, first[e] = x[0];
            for (int t = 0; t < T; t++)
                ck_assert(x[t] == x[0] + t && y[t] == x[t] + 1);
            ck_assert_int_eq(x[0] % T, offset[e]);
            ck_assert_int_eq(seen[x[0] / T]++, 0);
        }
        same += e && offset[e] == offset[0];
        same += e && first[e] / T == first[0] / T;
    }
    ck_assert_int_le(same, 2);              // epochs are drawn anew
    loader_close(l);
    shard_close(&s);
}
END_TEST

/* A mix of three: of 1000 tokens at 2.5, of 5 (no window) at 1, of 3995 at 1. */
static const struct stretch mix[] = {{"a", 1000, 2.5}, {"b", 5, 1}, {"c", 3995, 1}};

START_TEST(an_epoch_of_a_mix_draws_every_part_by_its_weight)
{
    enum { N = 5000, T = 10, B = 7, A = 99, C = 398 };

    struct shard   s;
    const int32_t *tokens, *targets;
    struct loader *l, *other;
    int            times[2][N] = {{0}};

    open_ok(&s, write_shard(rig_tmp(), N, 4, 1), 4);
    s.mix = mix, s.n_mix = 3;
    l = loader_ok(&s, 7, B, T), other = loader_ok(&s, 7, B, T);
    ck_assert_uint_eq(loader_windows(l), 248 + 1 + C);
    for (uint64_t i = 0; i < 2 * loader_windows(l); i++) {
        uint64_t       epoch = i / loader_windows(l), j = 2 * loader_windows(l) - 1 - i;
        const int32_t *x, *again;

        batch_ok(l, i / B, &tokens, &targets);
        x = tokens + i % B * T;
        for (int t = 0; t < T; t++)
            ck_assert(x[t] == x[0] + t && targets[i % B * T + t] == x[t] + 1);
        times[epoch][x[0]]++;
        if (i % 97 == 0) {                  // whatever was asked before
            batch_ok(other, j / B, &again, &targets);
            batch_ok(other, i / B, &again, &targets);
            ck_assert(!memcmp(again + i % B * T, x, T * sizeof *x));
        }
    }
    for (int e = 0; e < 2; e++) {
        int begin[3] = {0}, most = 0;

        for (int at = 0; at < N; at++) {
            begin[at < 1000 ? 0 : at < 1005 ? 1 : 2] += times[e][at];
            most = at < 1000 && times[e][at] > most ? times[e][at] : most;
            ck_assert(!times[e][at] || at + T < 1000 || at >= 1000);    // inside its part
            ck_assert(at < 1000 || times[e][at] <= 1);
        }
        ck_assert_int_eq(begin[0], 248);
        ck_assert_int_eq(begin[1], 1);
        ck_assert_int_eq(begin[2], C);
        ck_assert_int_le(most, 3);
    }
    ck_assert(memcmp(times[0], times[1], sizeof times[0]));
    loader_close(l), loader_close(other);
    shard_close(&s);
}
END_TEST

/* Where the first windows of two epochs begin, of a text and of a mix: the same in every
 * build, or a run that is resumed would read another text. */
static const struct {
    int     n_mix;
    int32_t first[2][5];
} drawn[] = {
    {0, {{174, 1764, 1194, 1494, 1264}, {681, 3631, 2311, 3411, 2321}}},
    {3, {{290, 260, 770, 1577, 100}, {24, 2385, 632, 1625, 2045}}},
};

START_TEST(the_windows_of_a_seed_are_the_same_in_every_build)
{
    enum { N = 5000, T = 10, B = 1 };

    struct shard   s;
    const int32_t *tokens, *targets;
    struct loader *l;

    open_ok(&s, write_shard(rig_tmp(), N, 4, 1), 4);
    s.mix = mix, s.n_mix = drawn[_i].n_mix;
    l = loader_ok(&s, 7, B, T);
    for (uint64_t i = 0; i < 10; i++) {
        batch_ok(l, i / 5 * loader_windows(l) + i % 5, &tokens, &targets);
        ck_assert_int_eq(tokens[0], drawn[_i].first[i / 5][i % 5]);
    }
    loader_close(l);
    shard_close(&s);
}
END_TEST

/* N ids 0, 1, 2, ... in files of two frames. */
static void open_files(struct shard *s, uint64_t n)
{
    const char          *path = in(rig_tmp(), "many.tok.zst");
    struct shard_writer *w;
    struct why           why;
    uint64_t             written;
    char                 name[512];

    ck_assert_int_eq(shard_create(&w, path, 4, &why), 0);
    shard_limit(w, SHARD_FRAME + 1);
    for (uint32_t id = 0; id < n; id++)
        ck_assert_int_eq(shard_append(w, &id, 1, &why), 0);
    ck_assert_int_eq(shard_finish(w, &written, &why), 0);
    ck_assert_uint_eq(written, n);
    open_ok(s, path, 4);
    for (int i = 1; s->n < n; i++)
        ck_assert_msg(!shard_join(s, shard_name(name, sizeof name, path, i), &why), "%s",
                      why.line);
}

START_TEST(several_files_are_read_as_one)
{
    enum { N = 7 * SHARD_FRAME, T = 100, B = 4 };

    struct shard   one, many;
    const int32_t *tokens, *targets, *as;
    struct loader *l, *other;
    int            first[4] = {0};
    struct why     why;

    open_files(&many, N);
    ck_assert_int_eq(many.files, 4);
    open_ok(&one, write_shard(rig_tmp(), N, 4, 1), 4);
    l = loader_ok(&many, 7, B, T), other = loader_ok(&one, 7, B, T);
    for (uint64_t k = 0; k < loader_windows(l) / B / 4; k++) {
        batch_ok(other, k, &as, &targets);
        batch_ok(l, k, &tokens, &targets);
        ck_assert(!memcmp(tokens, as, B * T * sizeof *as));
        for (int b = 0; b < B; b++)
            first[tokens[b * T] / (2 * SHARD_FRAME)]++;
    }
    for (int i = 0; i < 4; i++)         // 82, 82, 82 and 41 of 287, within four sigmas
        ck_assert_int_lt(abs(first[i] - (i < 3 ? 82 : 41)), 32);
    ck_assert_int_eq(shard_join(&one, one.path, &why), FAIL_NONE);      // of full frames
    ck_assert_uint_eq(one.n, 2 * N);
    loader_close(l), loader_close(other);
    shard_close(&one);
    open_ok(&one, write_shard(rig_tmp(), 5, 4, 1), 4);
    ck_assert_int_eq(shard_join(&one, one.path, &why), FAIL_INPUT);
    ck_assert_ptr_nonnull(strstr(why.line, "middle of a frame"));
    shard_close(&one), shard_close(&many);
}
END_TEST

START_TEST(a_batch_does_not_depend_on_what_was_asked_before)
{
    enum { N = 3 * SHARD_FRAME, T = 100, B = 4, BATCHES = 300, SIZE = B * T };

    static int32_t want[BATCHES][2 * SIZE];
    struct rng     r = rng_open(1, RNG_TEST, 0);
    struct shard   s;
    const int32_t *tokens, *targets;

    open_ok(&s, write_shard(rig_tmp(), N, 2, 0), 2);
    struct loader *a = loader_ok(&s, 3, B, T), *b = loader_ok(&s, 3, B, T);

    for (uint64_t k = 0; k < BATCHES; k++) {
        batch_ok(a, k, &tokens, &targets);
        memcpy(want[k], tokens, SIZE * sizeof *tokens);
        memcpy(want[k] + SIZE, targets, SIZE * sizeof *targets);
    }
    for (int i = 0; i < 1000; i++) {
        uint64_t k = rng_below(&r, BATCHES);

        batch_ok(b, k, &tokens, &targets);
        ck_assert(!memcmp(tokens, want[k], SIZE * sizeof *tokens));
        ck_assert(!memcmp(targets, want[k] + SIZE, SIZE * sizeof *targets));
    }
    loader_close(a);
    loader_close(b);
    shard_close(&s);
}
END_TEST

START_TEST(seeds_draw_different_batches)
{
    enum { N = 5000, T = 16, B = 8 };

    struct shard   s;
    const int32_t *tokens[2], *targets;

    open_ok(&s, write_shard(rig_tmp(), N, 2, 0), 2);
    struct loader *a = loader_ok(&s, 3, B, T), *b = loader_ok(&s, 4, B, T);

    batch_ok(a, 0, &tokens[0], &targets);
    batch_ok(b, 0, &tokens[1], &targets);
    ck_assert(memcmp(tokens[0], tokens[1], B * T * sizeof(int32_t)) != 0);
    loader_close(a);
    loader_close(b);
    shard_close(&s);
}
END_TEST

START_TEST(the_shortest_text_is_one_window)
{
    enum { T = 64, B = 2 };

    const char    *dir = rig_tmp();
    const int32_t *tokens, *targets;
    struct shard   s;
    struct loader *l;
    struct why     why;

    open_ok(&s, write_shard(dir, T, 2, 1), 2);
    ck_assert_int_eq(loader_open(&l, &s, 1, B, T, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, "64 tokens") && strstr(why.line, "needs 65"), "%s",
                  why.line);
    shard_close(&s);
    for (uint64_t n = T + 1; n < 3 * T; n += 9) {
        open_ok(&s, write_shard(dir, n, 2, 1), 2);
        l = loader_ok(&s, 1, B, T);
        ck_assert_uint_eq(loader_windows(l), 1);
        for (uint64_t k = 0; k < 20; k++) {
            batch_ok(l, k, &tokens, &targets);
            for (int i = 0; i < B * T; i++)
                ck_assert(tokens[i] == tokens[i / T * T] + i % T &&
                          targets[i] == tokens[i] + 1);
            ck_assert_uint_lt((uint64_t)targets[B * T - 1], n);
        }
        loader_close(l);
        shard_close(&s);
    }
}
END_TEST

START_TEST(windows_may_be_longer_than_a_frame)
{
    enum { T = 2 * SHARD_FRAME + 5, N = 3 * T };

    const int32_t *tokens, *targets;
    struct shard   s;

    open_ok(&s, write_shard(rig_tmp(), N, 4, 1), 4);
    struct loader *l = loader_ok(&s, 1, 1, T);

    batch_ok(l, 5, &tokens, &targets);
    for (int t = 0; t < T; t++)
        ck_assert(tokens[t] == tokens[0] + t && targets[t] == tokens[t] + 1);
    loader_close(l);
    shard_close(&s);
}
END_TEST

START_TEST(a_shard_larger_than_the_cache_is_read_right)
{
    enum { T = 256, B = 8, FRAMES = LOADER_CACHE / SHARD_FRAME / 4 + 77, EACH = 64 };

    const int32_t *tokens, *targets;
    struct shard   s;

    open_ok(&s, write_shard(rig_tmp(), (uint64_t)FRAMES * SHARD_FRAME, 4, EACH), 4);
    struct loader *l = loader_ok(&s, 1, B, T);

    for (uint64_t k = 0; k < 500; k++) {
        batch_ok(l, k, &tokens, &targets);
        for (int i = 0; i < B * T; i++)
            ck_assert(i % T < EACH || tokens[i] == tokens[i - EACH] + 1);
    }
    loader_close(l);
    shard_close(&s);
}
END_TEST

START_TEST(a_broken_frame_fails_the_batch_that_needs_it)
{
    enum { N = 8 * SHARD_FRAME, T = 512, B = 1 };

    const char    *dir = rig_tmp();
    const int32_t *tokens, *targets;
    char          *bytes;
    size_t         len;
    struct shard   s;
    struct why     why;
    int            failed = 0;

    ck_assert(!file_read(write_shard(dir, N, 4, 1), 1 << 20, &bytes, &len, &why));
    open_ok(&s, in(dir, "a.tok.zst"), 4);
    bytes[(s.offset[3] + s.offset[4]) / 2] ^= 1;
    shard_close(&s);
    put(in(dir, "b.tok.zst"), bytes, len);
    open_ok(&s, in(dir, "b.tok.zst"), 4);
    struct loader *l = loader_ok(&s, 1, B, T);

    for (uint64_t k = 0; k < loader_windows(l); k++) {
        if (loader_batch(l, k, &tokens, &targets, &why)) {
            ck_assert_msg(strstr(why.line, "frame 3") != NULL, "%s", why.line);
            ck_assert_int_eq(loader_batch(l, k, &tokens, &targets, &why), FAIL_INPUT);
            failed++;
        } else {
            ck_assert_int_eq(targets[T - 1], tokens[0] + T);
        }
    }
    ck_assert_int_ge(failed, SHARD_FRAME / T - 1);
    ck_assert_int_le(failed, SHARD_FRAME / T + 1);
    loader_close(l);
    shard_close(&s);
    free(bytes);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("loader");
    TCase *tc = tcase_create("loader");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, a_shard_gives_back_its_ids, 0, 2 * N_SIZES);
    tcase_add_test(tc, zstd_gives_the_bare_ids);
    tcase_add_test(tc, an_id_that_does_not_fit_is_refused);
    tcase_add_test(tc, an_id_outside_the_vocabulary_is_refused);
    tcase_add_loop_test(tc, a_broken_shard_is_refused, 0,
                        (int)(sizeof broken / sizeof *broken));
    tcase_add_test(tc, no_flipped_bit_gives_wrong_ids);
    tcase_add_test(tc, each_epoch_visits_every_window_once);
    tcase_add_test(tc, an_epoch_of_a_mix_draws_every_part_by_its_weight);
    tcase_add_loop_test(tc, the_windows_of_a_seed_are_the_same_in_every_build, 0, 2);
    tcase_add_test(tc, a_batch_does_not_depend_on_what_was_asked_before);
    tcase_add_test(tc, several_files_are_read_as_one);
    tcase_add_test(tc, seeds_draw_different_batches);
    tcase_add_test(tc, the_shortest_text_is_one_window);
    tcase_add_test(tc, windows_may_be_longer_than_a_frame);
    tcase_add_test(tc, a_shard_larger_than_the_cache_is_read_right);
    tcase_add_test(tc, a_broken_frame_fails_the_batch_that_needs_it);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
