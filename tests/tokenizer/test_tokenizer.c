#include "tests/support/rig.h"
#include "tokenizer/child.h"
#include "tokenizer/tokenizer.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static const char *const kinds[] = {"unigram", "bpe", "bytes"};

/* ---- a text and tokenizers made of it ---------------------------------------------- */

enum { TEXT = 60000, VOCAB = 700 };

/* About n bytes of sentences over a few thousand made-up words, common ones first. */
static char *make_text(size_t n)
{
    static const char *const part[] = {"ba",  "do", "fen", "gri", "lu",
                                       "mor", "na", "ste", "wi",  "é"};
    struct rng r = rng_open(1, RNG_TEST, 0);
    char      *s = malloc(n + 64), *end = s;

    while (end < s + n) {
        double   u = rng_uniform(&r);
        unsigned word = (unsigned)(3000 * u * u * u);

        for (unsigned w = word + 1; w; w /= 10)
            end = stpcpy(end, part[w % 10]);
        end = stpcpy(end, word % 17 == 3 ? ".\n" : word % 11 == 5 ? ",  " : " ");
    }
    *end = 0;
    return s;
}

struct feed {
    const char *text;
    size_t      len, piece;
};

static const char *feed_next(void *user, size_t *len)
{
    struct feed *f = user;
    const char  *s = f->text;

    if (!f->len)
        return NULL;
    *len = f->len < f->piece ? f->len : f->piece;
    f->text += *len;
    f->len -= *len;
    return s;
}

static enum fail train(const char *kind, int vocab, const char *text, size_t len,
                       void **model, size_t *model_len, int *fits, struct why *why)
{
    struct feed f = {text, len, 1 << 20};

    return tokenizer_train(kind, vocab, feed_next, &f, -1, model, model_len, fits, why);
}

static void *model_of(const char *kind, size_t *len)
{
    char      *text = make_text(TEXT);
    void      *model;
    int        fits;
    struct why why;

    ck_assert_msg(!train(kind, VOCAB, text, strlen(text), &model, len, &fits, &why), "%s",
                  why.line);
    free(text);
    return model;
}

static struct tokenizer *open_kind(const char *kind)
{
    struct tokenizer *t;
    size_t            len;
    void             *model = model_of(kind, &len);
    struct why        why;

    ck_assert_int_eq(tokenizer_load(&t, model, len, &why), 0);
    free(model);
    return t;
}

static uint32_t *encode(const struct tokenizer *t, const char *text, size_t len,
                        size_t *n)
{
    uint32_t *ids = malloc((len + 1) * sizeof *ids);
    long      count = tokenizer_encode(t, text, len, ids, len + 1);

    ck_assert_int_ge(count, 0);
    ck_assert_uint_le(count, len);
    *n = (size_t)count;
    return ids;
}

static bool comes_back(const struct tokenizer *t, const char *text, size_t len)
{
    size_t    n;
    uint32_t *ids = encode(t, text, len, &n);
    char     *back = malloc(len + 1);
    bool      same = tokenizer_decode(t, ids, n, back, len) == len;

    same = same && !memcmp(back, text, len);
    free(ids);
    free(back);
    return same;
}

/* ---- round trips ------------------------------------------------------------------- */

#define T(s) {s, sizeof(s) - 1}

static const struct {
    const char *bytes;
    size_t      len;
} texts[] = {
    T(""), T(" "), T("\n"), T("\n\n\n"), T("a"), T("bado  fen\n\n  gri   lu \n"),
    T(" leading"), T("trailing "), T("          "), T("\tbado\t\tfen"),
    T("bado\r\nfen\r\n"),
    T("\xf0\x9f\x98\x80 \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80"),
    T("\xe2\x96\x81"), T("bado\xe2\x96\x81 fen\xe2\x96\x81\xe2\x96\x81"),
    T("\xe2\x96\x85 \xe2\x81\x87"),
    T("\0"), T("bado\0fen\0\0 gri"), T("\xff\xfe bado \x80\xc0\xaf"), T("\xe2\x96"),
    T("do\xc3"),
    T("\xed\xa0\x80\xf4\x90\x80\x80\xf8"), T("\xef\xbf\xbd\xef\xbb\xbf\xef\xbf\xbf"),
    T("<s>bado</s><unk> <0x0A><pad>"), T("<s>"), T("<0x41>"), T("<|endoftext|>"),
    T("e\xcc\x81 \xc3\xa9 \xef\xac\x81 \xe3\x8e\x8f \xc2\xa0\xe3\x80\x80"),
    T("\xe2\x80\xa8 \xc2\x85 \x0b\x0c \x7f"),
};

START_TEST(whatever_a_text_holds_comes_back)
{
    struct tokenizer *t = open_kind(kinds[_i]);

    for (int i = 0; i < COUNT(texts); i++)
        ck_assert_msg(comes_back(t, texts[i].bytes, texts[i].len), "text %d", i);
    tokenizer_free(t);
}
END_TEST

START_TEST(random_bytes_come_back)
{
    struct tokenizer *t = open_kind(kinds[_i]);
    struct rng        r = rng_open(2, RNG_TEST, 0);
    char              s[300];

    for (int k = 0; k < 2000; k++) {
        size_t len = rng_below(&r, sizeof s), letters = 1 + rng_below(&r, 256);

        for (size_t i = 0; i < len; i++)
            s[i] = (char)(rng_below(&r, letters) + (letters < 100 ? ' ' : 0));
        ck_assert_msg(comes_back(t, s, len), "text %d", k);
    }
    tokenizer_free(t);
}
END_TEST

static size_t put_utf8(char *s, uint32_t c)
{
    int len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

    for (int i = len - 1; i > 0; i--, c >>= 6)
        s[i] = (char)(0x80 | (c & 0x3f));
    s[0] = (char)(len == 1 ? c : (0xf00u >> len & 0xff) | c);
    return (size_t)len;
}

START_TEST(random_characters_come_back)
{
    static const uint32_t limit[] = {0x80, 0x800, 0x3000, 0x10000, 0x110000};
    struct tokenizer *t = open_kind(kinds[_i]);
    struct rng        r = rng_open(3, RNG_TEST, 0);
    char              s[400];

    for (int k = 0; k < 2000; k++) {
        size_t len = 0, chars = rng_below(&r, 100);

        while (chars--)
            len += put_utf8(s + len, (uint32_t)rng_below(&r, limit[rng_below(&r, 5)]));
        ck_assert_msg(comes_back(t, s, len), "text %d", k);
    }
    tokenizer_free(t);
}
END_TEST

START_TEST(one_enormous_line_comes_back)
{
    struct tokenizer *t = open_kind(kinds[_i]);
    size_t            len = 300000;
    char             *s = malloc(len);

    memset(s, 'a', len);
    ck_assert(comes_back(t, s, len));
    memset(s, ' ', len);
    ck_assert(comes_back(t, s, len));
    for (size_t i = 0; i + 3 <= len; i += 3)
        memcpy(s + i, "\xe4\xb8\x80", 3);
    ck_assert(comes_back(t, s, len));
    free(s);
    tokenizer_free(t);
}
END_TEST

/* ---- encoding ---------------------------------------------------------------------- */

START_TEST(line_by_line_encodes_like_the_whole)
{
    struct tokenizer *t = open_kind(kinds[_i]);
    char             *text = make_text(TEXT);
    size_t            len = strlen(text), n, at = 0;
    uint32_t         *whole = encode(t, text, len, &n), *ids = malloc(len * sizeof *ids);

    for (char *s = text, *end; *s; s = end) {
        end = strchrnul(s, '\n');
        end += *end == '\n';
        at += (size_t)tokenizer_encode(t, s, (size_t)(end - s), ids + at, len - at);
    }
    ck_assert_uint_eq(at, n);
    ck_assert_mem_eq(ids, whole, n * sizeof *ids);
    free(whole);
    free(ids);
    free(text);
    tokenizer_free(t);
}
END_TEST

START_TEST(trained_pieces_shorten_text)
{
    struct tokenizer *t = open_kind(kinds[_i]);
    char             *text = make_text(TEXT);
    size_t            n;

    free(encode(t, text, strlen(text), &n));
    ck_assert_uint_lt(n, strlen(text) / 2);
    free(text);
    tokenizer_free(t);
}
END_TEST

START_TEST(a_small_buffer_gets_the_first_ids_and_the_true_count)
{
    struct tokenizer *t = open_kind(kinds[_i]);
    const char        s[] = "bado fen\ngri\x01 \xff lu";
    size_t            n;
    uint32_t         *ids = encode(t, s, sizeof s - 1, &n), few[4] = {7, 7, 7, 7};

    ck_assert_int_eq(tokenizer_encode(t, s, sizeof s - 1, NULL, 0), (long)n);
    ck_assert_int_eq(tokenizer_encode(t, s, sizeof s - 1, few, 3), (long)n);
    ck_assert_mem_eq(few, ids, 3 * sizeof *ids);
    ck_assert_uint_eq(few[3], 7);
    free(ids);
    tokenizer_free(t);
}
END_TEST

START_TEST(decoding_stops_at_the_buffers_end)
{
    struct tokenizer *t = open_kind(kinds[_i]);
    const char        s[] = "bado fen gri";
    char              few[6] = "......";
    size_t            n;
    uint32_t         *ids = encode(t, s, sizeof s - 1, &n);

    ck_assert_uint_eq(tokenizer_decode(t, ids, n, NULL, 0), sizeof s - 1);
    ck_assert_uint_eq(tokenizer_decode(t, ids, n, few, 5), sizeof s - 1);
    ck_assert_mem_eq(few, "bado .", 6);
    free(ids);
    tokenizer_free(t);
}
END_TEST

START_TEST(ids_lie_where_the_header_says)
{
    struct tokenizer *t = open_kind(kinds[_i]);
    bool              bytes = !strcmp(kinds[_i], "bytes");
    uint32_t          byte0 = bytes ? 0 : 3;
    size_t            len;

    ck_assert_str_eq(tokenizer_kind(t), kinds[_i]);
    ck_assert_int_eq(tokenizer_eos(t), bytes ? 256 : 2);
    ck_assert_int_le(tokenizer_vocab(t), bytes ? 257 : VOCAB);
    ck_assert_int_ge(tokenizer_vocab(t), bytes ? 257 : VOCAB * 9 / 10);
    for (uint32_t c = 0; c < 256; c++) {
        const char *piece = tokenizer_piece(t, byte0 + c, &len);

        ck_assert(len == 1 && (unsigned char)*piece == c);
    }
    for (uint32_t id = bytes ? 256 : 0; id < (bytes ? 258 : 3); id++) {
        tokenizer_piece(t, id, &len);
        ck_assert_uint_eq(len, 0);
    }
    tokenizer_piece(t, (uint32_t)tokenizer_vocab(t), &len);
    ck_assert_uint_eq(len, 0);
    tokenizer_free(t);
}
END_TEST

START_TEST(no_piece_holds_a_newline)
{
    struct tokenizer *t = open_kind(kinds[_i]);
    int               with = 0;

    for (int id = 0; id < tokenizer_vocab(t); id++) {
        size_t      len;
        const char *piece = tokenizer_piece(t, (uint32_t)id, &len);

        with += memchr(piece, '\n', len) != NULL;
    }
    ck_assert_int_eq(with, 1);
    tokenizer_free(t);
}
END_TEST

/* Two tokenizers in turn on one thread, among other threads doing the same. */
struct encoder {
    const struct tokenizer *t[2];
    const char             *text;
    uint32_t               *expected[2];
    size_t                  n[2];
    bool                    same;
};

static void *encode_in_turn(void *user)
{
    struct encoder *e = user;
    size_t          len = strlen(e->text);
    uint32_t       *ids = malloc(len * sizeof *ids);

    e->same = true;
    for (int k = 0; k < 10; k++) {
        long n = tokenizer_encode(e->t[k % 2], e->text, len, ids, len);

        e->same = e->same && (size_t)n == e->n[k % 2] &&
                  !memcmp(ids, e->expected[k % 2], (size_t)n * sizeof *ids);
    }
    free(ids);
    return NULL;
}

START_TEST(threads_and_tokenizers_do_not_disturb_each_other)
{
    struct tokenizer *t[2] = {open_kind("unigram"), open_kind("bpe")};
    struct encoder    e[4] = {{{t[0], t[1]}, make_text(TEXT), {0}, {0}, false}};
    pthread_t         thread[4];

    for (int k = 0; k < 2; k++)
        e[0].expected[k] = encode(t[k], e[0].text, strlen(e[0].text), &e[0].n[k]);
    for (int i = 0; i < 4; i++) {
        e[i] = e[0];
        ck_assert_int_eq(pthread_create(&thread[i], NULL, encode_in_turn, &e[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        ck_assert(e[i].same);
    }
    for (int k = 0; k < 2; k++) {
        free(e[0].expected[k]);
        tokenizer_free(t[k]);
    }
    free((char *)e[0].text);
}
END_TEST

/* ---- training ---------------------------------------------------------------------- */

START_TEST(the_same_text_trains_the_same_model)
{
    size_t len[2];
    void  *model[2] = {model_of(kinds[_i], &len[0]), model_of(kinds[_i], &len[1])};

    ck_assert_uint_eq(len[0], len[1]);
    ck_assert_mem_eq(model[0], model[1], len[0]);
    free(model[0]);
    free(model[1]);
}
END_TEST

START_TEST(the_fingerprint_is_the_models)
{
    struct tokenizer *t = open_kind(kinds[_i]), *again;
    size_t            len;
    const void       *model = tokenizer_model(t, &len);
    struct why        why;

    ck_assert_int_eq(tokenizer_load(&again, model, len, &why), 0);
    ck_assert_uint_eq(tokenizer_fingerprint(t), tokenizer_fingerprint(again));
    if (!strcmp(kinds[_i], "bytes"))
        ck_assert_uint_eq(tokenizer_fingerprint(t), 0xc3574ab44415cb1a);
    else
        ck_assert_uint_ne(tokenizer_fingerprint(t), 0xc3574ab44415cb1a);
    tokenizer_free(again);
    tokenizer_free(t);
}
END_TEST

START_TEST(a_vocabulary_too_large_names_one_that_fits)
{
    char      *text = make_text(2000), word[32];
    void      *model;
    size_t     len;
    int        fits, none;
    struct why why;

    ck_assert_int_eq(
        train(kinds[_i], 30000, text, strlen(text), &model, &len, &fits, &why),
        FAIL_USAGE);
    ck_assert_ptr_null(model);
    ck_assert_int_ge(fits, TOKENIZER_VOCAB_MIN);
    snprintf(word, sizeof word, "vocab=%d fits", fits);
    ck_assert_msg(strstr(why.line, word) != NULL, "%s", why.line);
    ck_assert_int_eq(
        train(kinds[_i], fits, text, strlen(text), &model, &len, &none, &why), 0);
    ck_assert_int_eq(none, 0);
    free(model);
    free(text);
}
END_TEST

/* What training answers. */
static const struct {
    const char *what, *text;
    size_t      len;
    int         vocab;
    enum fail   err;
    const char *says;
} inputs[] = {
    {"nothing", "", 0, 300, FAIL_INPUT, "no text"},
    {"newlines", "\n\n", 2, 300, FAIL_INPUT, "no text"},
    {"tabs", "\t\t\t", 3, 300, FAIL_INPUT, "no text"},
    {"no UTF-8", "\xff\xfe\x80", 3, 300, FAIL_INPUT, "no text"},
    {"NUL", "\0\0", 2, 300, FAIL_INPUT, "no text"},
    {"reserved characters", "\xe2\x96\x81\xe2\x96\x85", 6, 300, FAIL_INPUT, "no text"},
    {"one letter", "a", 1, 300, FAIL_USAGE, "vocab=264 fits"},
    {"one letter, the least vocabulary", "a", 1, TOKENIZER_VOCAB_MIN, 0, ""},
    {"spaces, the least vocabulary", "    ", 4, TOKENIZER_VOCAB_MIN, 0, ""},
    {"letters among broken bytes",
     "a\xff"
     "b\0c\xe2\x96\x81 d",
     10, TOKENIZER_VOCAB_MIN, 0, ""},
    {"a vocabulary below the bytes", "a", 1, 200, FAIL_USAGE, "out of range"},
    {"a negative vocabulary", "a", 1, -1, FAIL_USAGE, "out of range"},
    {"a vocabulary beyond all", "a", 1, 1 << 30, FAIL_USAGE, "out of range"},
};

START_TEST(training_says_what_is_wrong_with_its_input)
{
    void  *model;
    size_t len;
    int    fits;

    for (int k = 0; k < 2; k++) {
        struct why why = {""};

        ck_assert_msg(train(kinds[k], inputs[_i].vocab, inputs[_i].text, inputs[_i].len,
                            &model, &len, &fits, &why) == inputs[_i].err &&
                          strstr(why.line, inputs[_i].says) != NULL,
                      "%s: %s", inputs[_i].what, why.line);
        ck_assert_int_eq(model == NULL, inputs[_i].err != 0);
        free(model);
    }
}
END_TEST

START_TEST(an_unknown_kind_is_refused)
{
    void      *model;
    size_t     len;
    int        fits;
    struct why why;

    ck_assert_int_eq(train("words", VOCAB, "a", 1, &model, &len, &fits, &why),
                     FAIL_USAGE);
    ck_assert_str_eq(why.line,
                     "tokenizer=words: there is none; take unigram, bpe or bytes");
    ck_assert_ptr_null(model);
}
END_TEST

START_TEST(more_characters_than_the_vocabulary_has_room_for_train)
{
    struct rng r = rng_open(4, RNG_TEST, 0);
    char       text[30000];
    size_t     n = 0, len;
    void      *model;
    int        fits;
    struct why why;

    while (n < sizeof text - 4)
        n += put_utf8(text + n, 0x4e00 + (uint32_t)(3000 * pow(rng_uniform(&r), 3)));
    ck_assert_int_eq(train(kinds[_i], 400, text, n, &model, &len, &fits, &why), 0);
    free(model);
}
END_TEST

START_TEST(spaces_unknown_to_the_training_text_cost_one_id_each)
{
    const char        text[] = "banabanababababanana", with[] = "ban  ban";
    struct tokenizer *t;
    uint32_t          ids[8];
    size_t            len;
    void             *model;
    int               fits;
    struct why        why;

    ck_assert_int_eq(
        train(kinds[_i], 264, text, sizeof text - 1, &model, &len, &fits, &why), 0);
    ck_assert_int_eq(tokenizer_load(&t, model, len, &why), 0);

    long word = tokenizer_encode(t, "ban", 3, ids, 8);

    ck_assert_int_lt(word, 3);
    ck_assert_int_eq(tokenizer_encode(t, with, 8, ids, 8), 2 * word + 2);
    ck_assert(comes_back(t, with, 8));
    tokenizer_free(t);
    free(model);
}
END_TEST

START_TEST(text_in_long_lines_and_small_pieces_trains)
{
    char      *text = make_text(TEXT);
    size_t     len, n = strlen(text);
    void      *model;
    int        fits;
    struct why why;

    for (size_t i = 0; i < n; i++)
        if (text[i] == '\n')
            text[i] = ' ';
    for (size_t piece = 1 << 9; piece <= 1 << 20; piece <<= 11) {
        struct feed f = {text, n, piece};

        ck_assert_msg(!tokenizer_train(kinds[_i], VOCAB, feed_next, &f, -1, &model, &len,
                                       &fits, &why),
                      "%s", why.line);
        ck_assert_uint_eq(f.len, 0);
        free(model);
    }
    free(text);
}
END_TEST

/* ---- the child --------------------------------------------------------------------- */

static enum fail give_a_megabyte(void *user, int out)
{
    static char block[1 << 20];

    (void)user;
    memset(block, 'x', sizeof block);
    return child_write(out, block, sizeof block) ? FAIL_INPUT : 0;
}

static enum fail complain(void *user, int out)
{
    (void)user;
    (void)out;
    printf("not to be seen\n");
    fprintf(stderr, "the moon is full\nand so on\n");
    return FAIL_INPUT;
}

static enum fail die(void *user, int out)
{
    (void)out;
    raise(*(int *)user);
    return 0;
}

static enum fail starve(void *user, int out)
{
    (void)user;
    (void)out;
    return FAIL_MEMORY;
}

/* As libstdc++ ends a program whose second thread found no memory. */
static enum fail starve_in_a_thread(void *user, int out)
{
    fprintf(stderr, "terminate called after throwing an instance of 'std::bad_alloc'\n");
    (void)user;
    (void)out;
    abort();
}

static enum fail is_open(void *user, int out)
{
    (void)out;
    return fcntl(*(int *)user, F_GETFD) >= 0 ? FAIL_INPUT : 0;
}

START_TEST(a_child_hands_back_what_it_writes)
{
    char      *bytes;
    size_t     len;
    struct why why;

    ck_assert_int_eq(child_run(give_a_megabyte, NULL, -1, &bytes, &len, &why), 0);
    ck_assert_uint_eq(len, 1 << 20);
    ck_assert(bytes[0] == 'x' && bytes[len - 1] == 'x');
    free(bytes);
}
END_TEST

START_TEST(a_child_that_fails_leaves_its_words)
{
    char      *bytes;
    size_t     len;
    struct why why;

    ck_assert_int_eq(child_run(complain, NULL, -1, &bytes, &len, &why), FAIL_INPUT);
    ck_assert_str_eq(why.line, "the moon is full");
    ck_assert_int_eq(child_run(die, &(int){SIGKILL}, -1, &bytes, &len, &why), FAIL_INPUT);
    ck_assert_ptr_nonnull(strstr(why.line, "signal 9"));
    ck_assert_int_eq(child_run(die, &(int){SIGINT}, -1, &bytes, &len, &why),
                     FAIL_INTERRUPTED);
    ck_assert_int_eq(child_run(starve, NULL, -1, &bytes, &len, &why), FAIL_MEMORY);
    ck_assert_int_eq(child_run(starve_in_a_thread, NULL, -1, &bytes, &len, &why),
                     FAIL_MEMORY);
    ck_assert_ptr_null(bytes);
}
END_TEST

START_TEST(a_child_does_not_keep_the_closed_descriptor)
{
    int        fd = dup(STDERR_FILENO);
    char      *bytes;
    size_t     len;
    struct why why;

    ck_assert_int_eq(child_run(is_open, &fd, -1, &bytes, &len, &why), FAIL_INPUT);
    ck_assert_int_eq(child_run(is_open, &fd, fd, &bytes, &len, &why), 0);
    free(bytes);
    close(fd);
}
END_TEST

/* ---- the suite --------------------------------------------------------------------- */

static TCase *add_case(Suite *s, const char *name)
{
    TCase *c = tcase_create(name);

    tcase_set_timeout(c, 120);
    suite_add_tcase(s, c);
    return c;
}

static Suite *suite(void)
{
    Suite *s = suite_create("tokenizer");
    TCase *c = add_case(s, "round trips");

    tcase_add_loop_test(c, whatever_a_text_holds_comes_back, 0, 3);
    tcase_add_loop_test(c, random_bytes_come_back, 0, 3);
    tcase_add_loop_test(c, random_characters_come_back, 0, 3);
    tcase_add_loop_test(c, one_enormous_line_comes_back, 0, 3);

    c = add_case(s, "encoding");
    tcase_add_loop_test(c, line_by_line_encodes_like_the_whole, 0, 3);
    tcase_add_loop_test(c, trained_pieces_shorten_text, 0, 2);
    tcase_add_loop_test(c, a_small_buffer_gets_the_first_ids_and_the_true_count, 0, 3);
    tcase_add_loop_test(c, decoding_stops_at_the_buffers_end, 0, 3);
    tcase_add_loop_test(c, ids_lie_where_the_header_says, 0, 3);
    tcase_add_loop_test(c, no_piece_holds_a_newline, 0, 3);
    tcase_add_test(c, threads_and_tokenizers_do_not_disturb_each_other);

    c = add_case(s, "training");
    tcase_add_loop_test(c, the_same_text_trains_the_same_model, 0, 3);
    tcase_add_loop_test(c, the_fingerprint_is_the_models, 0, 3);
    tcase_add_loop_test(c, a_vocabulary_too_large_names_one_that_fits, 0, 2);
    tcase_add_loop_test(c, training_says_what_is_wrong_with_its_input, 0, COUNT(inputs));
    tcase_add_test(c, an_unknown_kind_is_refused);
    tcase_add_loop_test(c, more_characters_than_the_vocabulary_has_room_for_train, 0, 2);
    tcase_add_loop_test(c, spaces_unknown_to_the_training_text_cost_one_id_each, 0, 2);
    tcase_add_loop_test(c, text_in_long_lines_and_small_pieces_trains, 0, 2);

    c = add_case(s, "child");
    tcase_add_test(c, a_child_hands_back_what_it_writes);
    tcase_add_test(c, a_child_that_fails_leaves_its_words);
    tcase_add_test(c, a_child_does_not_keep_the_closed_descriptor);

    return s;
}

int main(void)
{
    return rig_run(suite(), 1);
}
