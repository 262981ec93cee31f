/* Tokenizers in the forms of others, read by a second reader: tokenizer.json as Hugging
 * Face's tokenizers library would, tokenizer.bin as llama2.c has it. */
#include "data/stories/stories.h"
#include "tests/support/rig.h"
#include "tools/exchange/exchange.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRAIN_STORIES = 200, READ_STORIES = 120, VOCAB = 500 };

static const char BLANK[] = "\xe2\x96\x81";

/* ---- texts ------------------------------------------------------------------------- */

struct feed {
    uint64_t seed;
    int      n, at;
    char     text[STORY_MAX];
};

static const char *next_story(void *user, size_t *len)
{
    struct feed *f = user;
    struct rng   r = rng_open(f->seed, RNG_STORY, (uint64_t)f->at);
    double       bits;

    if (f->at++ == f->n)
        return NULL;
    *len = story_write(&r, f->text, sizeof f->text, &bits);
    return f->text;
}

/* The last is a known loss in unigram: the name of a byte as text is that byte. */
static const char *const odd[] = {
    "", " ", "  two  blanks  ", "tab\tand\nnewline\n\n", "caf\xc3\xa9 na\xc3\xafve",
    "\xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\xa6\x8a!", "0123456789 <0x> <41>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaa", "\x01\x7f\"quoted\" \\ back", "The fox, the fox.",
    "0123456789 <0x0A> <0x41>",
};
enum { ODD = sizeof odd / sizeof *odd };

static struct tokenizer *train(const char *kind)
{
    struct feed       f = {.seed = 5, .n = TRAIN_STORIES};
    struct tokenizer *t;
    struct why        why;
    void             *model;
    size_t            len;
    int               fits;

    ck_assert_msg(!tokenizer_train(kind, VOCAB, next_story, &f, -1, &model, &len, &fits,
                                   &why), "%s", why.line);
    ck_assert(!tokenizer_load(&t, model, len, &why));
    free(model);
    return t;
}

/* ---- the second reader ------------------------------------------------------------- */

struct reader {
    json_t *j, *ids, *ranks;            // ids by text; of bpe ranks by "left right"
    double *score;                      // of unigram, by id
    double  unknown;
    bool    unigram, letters;
};

static const json_t *in(const json_t *j, const char *a, const char *b)
{
    return json_object_get(json_object_get(j, a), b);
}

static void reader_open(struct reader *r, json_t *j)
{
    const json_t *vocab = in(j, "model", "vocab");
    size_t        i;
    json_t       *v;

    *r = (struct reader){.j = j, .ids = json_object(), .ranks = json_object()};
    r->unigram = json_is_array(vocab);
    r->letters = !strcmp(json_string_value(in(j, "pre_tokenizer", "type")), "ByteLevel");
    if (!r->unigram)
        json_object_update(r->ids, (json_t *)vocab);
    r->score = calloc(json_array_size(vocab) + 1, sizeof *r->score);
    json_array_foreach((json_t *)vocab, i, v) {
        json_object_set_new(r->ids, json_string_value(json_array_get(v, 0)),
                            json_integer((json_int_t)i));
        r->score[i] = json_number_value(json_array_get(v, 1));
        r->unknown = fmin(r->unknown, r->score[i] - 10);
    }
    json_array_foreach((json_t *)in(j, "model", "merges"), i, v) {
        char pair[600];

        snprintf(pair, sizeof pair, "%s %s", json_string_value(json_array_get(v, 0)),
                 json_string_value(json_array_get(v, 1)));
        json_object_set_new(r->ranks, pair, json_integer((json_int_t)i));
    }
}

static void reader_close(struct reader *r)
{
    json_decref(r->j), json_decref(r->ids), json_decref(r->ranks);
    free(r->score);
}

static int id_of(const struct reader *r, const char *text, size_t len)
{
    const json_t *v = json_object_getn(r->ids, text, len);

    return v ? (int)json_integer_value(v) : -1;
}

static size_t char_len(const char *s)
{
    unsigned char c = (unsigned char)*s;

    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

static size_t put_bytes(const struct reader *r, const char *s, size_t len, int *out)
{
    for (size_t i = 0; i < len; i++) {
        char name[8];

        snprintf(name, sizeof name, "<0x%02X>", (unsigned char)s[i]);
        out[i] = id_of(r, name, 6);
    }
    return len;
}

/* The best path, as Unigram's: an unknown character costs `unknown`. */
static size_t unigram(const struct reader *r, const char *s, size_t len, int *out)
{
    double *best = malloc((len + 1) * sizeof *best);
    size_t *from = calloc(len + 1, sizeof *from), n = 0, *path = malloc((len + 1) * 8);
    int    *how = malloc((len + 1) * sizeof *how);
    size_t  steps = 0;

    for (size_t i = 0; i <= len; i++)
        best[i] = i ? -INFINITY : 0;
    for (size_t i = 0; i < len; i += char_len(s + i)) {
        for (size_t e = i, k = 0; e < len && k < 64; k++) {
            int id;

            e += char_len(s + e);
            id = id_of(r, s + i, e - i);
            if (id >= 0 && best[i] + r->score[id] > best[e])
                best[e] = best[i] + r->score[id], from[e] = i, how[e] = id;
        }
        if (best[i] + r->unknown > best[i + char_len(s + i)]) {
            size_t e = i + char_len(s + i);

            best[e] = best[i] + r->unknown, from[e] = i, how[e] = -1;
        }
    }
    for (size_t e = len; e > 0; e = from[e])
        path[steps++] = e;
    while (steps-- > 0) {
        size_t e = path[steps];

        if (how[e] < 0)
            n += put_bytes(r, s + from[e], e - from[e], out + n);
        else
            out[n++] = how[e];
    }
    free(best), free(from), free(path), free(how);
    return n;
}

struct symbol {
    const char *at;
    size_t      len;
    long        rank;                   // of merging it with the next; -1: not
};

static void rank_pair(const struct reader *r, struct symbol *s, int i, int n)
{
    char          pair[600];
    const json_t *v = NULL;

    if (i < 0)
        return;
    if (i + 1 < n && s[i].len + s[i + 1].len < 500) {
        snprintf(pair, sizeof pair, "%.*s %.*s", (int)s[i].len, s[i].at,
                 (int)s[i + 1].len, s[i + 1].at);
        v = json_object_get(r->ranks, pair);
    }
    s[i].rank = v ? (long)json_integer_value(v) : -1;
}

/* Merge the pair of the lowest rank, the leftmost of equals, until there is none. */
static int merge(const struct reader *r, struct symbol *s, int n)
{
    for (int i = 0; i < n; i++)
        rank_pair(r, s, i, n);
    for (;;) {
        int best = -1;

        for (int i = 0; i < n; i++)
            if (s[i].rank >= 0 && (best < 0 || s[i].rank < s[best].rank))
                best = i;
        if (best < 0)
            return n;
        s[best].len += s[best + 1].len;
        memmove(s + best + 1, s + best + 2, (size_t)(n - best - 2) * sizeof *s);
        n--;
        rank_pair(r, s, best - 1, n);
        rank_pair(r, s, best, n);
    }
}

static size_t bpe(const struct reader *r, const char *s, size_t len, int *out)
{
    struct symbol *sym = malloc((len + 1) * sizeof *sym);
    int            count = 0;
    size_t         n = 0;

    for (size_t i = 0; i < len; i += char_len(s + i))
        sym[count++] = (struct symbol){s + i, char_len(s + i), -1};
    count = merge(r, sym, count);
    for (int i = 0; i < count; i++) {
        int id = id_of(r, sym[i].at, sym[i].len);

        if (id >= 0)
            out[n++] = id;
        else
            n += put_bytes(r, sym[i].at, sym[i].len, out + n);
    }
    free(sym);
    return n;
}

/* Blanks as U+2581, or bytes as GPT-2's letters. */
static char *prepare(const struct reader *r, const char *s, size_t len, size_t *n)
{
    char *text = malloc(3 * len + 1);

    *n = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        int           code = c, k = 0;

        if (!r->letters && c == ' ') {
            memcpy(text + *n, BLANK, 3), *n += 3;
            continue;
        }
        for (int b = 0; r->letters && b <= c; b++) {
            bool plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;

            code = plain ? b : 256 + k++;
        }
        if (r->letters && code >= 0x80) {
            text[(*n)++] = (char)(0xc0 | code >> 6);
            text[(*n)++] = (char)(0x80 | (code & 63));
        } else {
            text[(*n)++] = (char)c;
        }
    }
    return text;
}

static void assert_ids(const struct reader *r, const struct tokenizer *t, const char *s,
                       size_t len)
{
    uint32_t *want = malloc((len + 1) * sizeof *want);
    int      *got = malloc((4 * len + 4) * sizeof *got);
    size_t    n, count;
    char     *text = prepare(r, s, len, &n);
    long      expect = tokenizer_encode(t, s, len, want, len);

    count = r->unigram ? unigram(r, text, n, got) : bpe(r, text, n, got);
    for (long i = 0; i < expect && i < (long)count; i++)
        if (got[i] != (int)want[i])
            ck_abort_msg("id %ld is %d, weft has %u: %.60s", i, got[i], want[i], s);
    ck_assert_int_eq((long)count, expect);
    free(want), free(got), free(text);
}

/* ---- the tests --------------------------------------------------------------------- */

static const char *const kinds[] = {"unigram", "bpe", "bytes"};

START_TEST(a_second_reader_of_tokenizer_json_gives_the_same_ids)
{
    struct tokenizer *t = train(kinds[_i]);
    struct feed       f = {.seed = 9, .n = READ_STORIES};
    struct reader     r;
    struct vocab      v;
    struct why        why;
    const char       *text;
    size_t            len;

    ck_assert(!vocab_open(&v, t, &why));
    reader_open(&r, vocab_json(&v, false));
    while ((text = next_story(&f, &len)))
        assert_ids(&r, t, text, len);
    for (int i = 0; i < ODD - r.unigram; i++)
        assert_ids(&r, t, odd[i], strlen(odd[i]));
    reader_close(&r);
    vocab_close(&v);
    tokenizer_free(t);
}
END_TEST

/* tokenizer.bin of a vocabulary; malloc'ed. */
static char *tokenizer_bin(const struct vocab *v, size_t *len)
{
    char *bytes;
    FILE *to = open_memstream(&bytes, len);

    fwrite(&(uint32_t){64}, 4, 1, to);
    for (int i = 0; i < v->n; i++) {
        struct token t;

        vocab_llama2c(v, i, &t);
        fwrite(&t.score, 4, 1, to);
        fwrite(&(uint32_t){(uint32_t)t.len}, 4, 1, to);
        fwrite(t.text, 1, t.len, to);
    }
    fclose(to);
    return bytes;
}

START_TEST(tokenizer_bin_comes_back_as_the_same_bpe)
{
    struct tokenizer *t = train("bpe"), *back;
    struct feed       f = {.seed = 9, .n = 20};
    struct vocab      v;
    struct why        why;
    struct token     *token;
    const char       *text;
    void             *model;
    size_t            len, size;

    ck_assert(!vocab_open(&v, t, &why));
    char *bytes = tokenizer_bin(&v, &len);

    ck_assert_msg(!llama2c_tokens(&token, v.n, (unsigned char *)bytes, len, &why), "%s",
                  why.line);
    ck_assert_msg(!vocab_make(token, v.n, true, &model, &size, &why), "%s", why.line);
    ck_assert(!tokenizer_load(&back, model, size, &why));
    while ((text = next_story(&f, &len))) {
        uint32_t a[STORY_MAX], b[STORY_MAX];
        long     n = tokenizer_encode(t, text, len, a, STORY_MAX);

        ck_assert_int_eq(tokenizer_encode(back, text, len, b, STORY_MAX), n);
        ck_assert(!memcmp(a, b, (size_t)n * sizeof *a));
    }
    free(bytes), free(token), free(model);
    vocab_close(&v);
    tokenizer_free(t), tokenizer_free(back);
}
END_TEST

START_TEST(a_tokenizer_bin_that_lies_is_refused)
{
    struct tokenizer *t = train("bpe");
    struct vocab      v;
    struct why        why;
    struct token     *token;
    size_t            len;

    ck_assert(!vocab_open(&v, t, &why));
    char *bytes = tokenizer_bin(&v, &len);

    for (size_t n = 0; n < len; n += 3) {
        unsigned char *cut = malloc(n + 1);

        memcpy(cut, bytes, n);
        cut = realloc(cut, n ? n : 1);
        ck_assert_int_eq(llama2c_tokens(&token, v.n, cut, n, &why), FAIL_INPUT);
        free(cut);
    }
    memset(bytes + 8, 0xff, 4);                     // a length of 2^32 - 1
    ck_assert_int_eq(llama2c_tokens(&token, v.n, (unsigned char *)bytes, len, &why),
                     FAIL_INPUT);
    free(bytes);
    vocab_close(&v);
    tokenizer_free(t);
}
END_TEST

/* A SentencePiece model with add_dummy_prefix becomes weft's, and says so. */
START_TEST(a_model_with_a_dummy_prefix_is_taken_and_told)
{
    struct tokenizer *t = train("bpe"), *u;
    struct why        why;
    size_t            len, size;
    const char       *model = tokenizer_model(t, &len);
    char             *dummy = malloc(len + 4);
    void             *made;
    bool              blank;

    memcpy(dummy, model, len);
    memcpy(dummy + len, "\x1a\x02\x18\x01", 4);     // normalizer_spec { 3: 1 }
    ck_assert_int_eq(tokenizer_load(&u, dummy, len + 4, &why), FAIL_INPUT);
    ck_assert_int_eq(vocab_convert(dummy, len + 4, &made, &size, &blank, &why), 0);
    ck_assert(blank);
    ck_assert(!tokenizer_load(&u, made, size, &why));
    ck_assert_int_eq(tokenizer_vocab(u), tokenizer_vocab(t));
    free(dummy), free(made);
    tokenizer_free(t), tokenizer_free(u);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("vocab");
    TCase *tc = tcase_create("vocab");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, a_second_reader_of_tokenizer_json_gives_the_same_ids, 0, 3);
    tcase_add_test(tc, tokenizer_bin_comes_back_as_the_same_bpe);
    tcase_add_test(tc, a_tokenizer_bin_that_lies_is_refused);
    tcase_add_test(tc, a_model_with_a_dummy_prefix_is_taken_and_told);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 1);
}
