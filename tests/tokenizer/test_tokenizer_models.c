/* Models that are none, and some that are. */
#include "tests/support/rig.h"
#include "tokenizer/model_form.h"
#include "tokenizer/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static void check_round_trip(const struct tokenizer *t, const char *text, size_t len)
{
    uint32_t ids[64];
    char     back[64];
    long     n = tokenizer_encode(t, text, len, ids, COUNT(ids));

    ck_assert(n >= 0 && (size_t)n <= len && len <= sizeof back);
    ck_assert_uint_eq(tokenizer_decode(t, ids, (size_t)n, back, sizeof back), len);
    ck_assert_mem_eq(back, text, len);
}

struct bytes {
    const char *at;
    size_t      len;
};

#define B(s) {s, sizeof(s) - 1}

/* The smallest sound model with two normal pieces, but for what is given. */
static const struct recipe {
    const char  *what;
    int          missing;               // byte pieces left out at the end
    int          control;               // type of ids 1 and 2
    struct bytes text;                  // the second normal piece
    float        score;
    int          type;
    struct bytes trainer, normalizer, tail;
} sound[] = {
    {"unigram", .text = B("ab")},
    {"bpe", .trainer = B("\x18\x02\x98\x02\x01")},
    {"a piece across a space", .text = B("a\xe2\x96\x81" "a")},
    {"a piece of one space", .text = B("\xe2\x96\x81")},
    {"a space in a piece", .text = B("a a")},
}, unsound[] = {
    {"a byte piece missing", .missing = 1},
    {"bos of a normal type", .control = 1},
    {"an empty piece", .text = B("")},
    {"a piece twice", .text = B("a")},
    {"a piece named like a byte", .text = B("<0x41>")},
    {"a piece that is not UTF-8", .text = B("a\xff")},
    {"a piece that is a surrogate", .text = B("\xed\xa0\x80")},
    {"a score of NaN", .score = NAN},
    {"a score of infinity", .score = -INFINITY},
    {"a second unknown piece", .type = 2},
    {"a user-defined piece", .type = 4},
    {"a type that is none", .type = 99},
    {"model type word", .trainer = B("\x18\x03\x98\x02\x01")},
    {"no byte fallback", .trainer = B("\x18\x01")},
    {"no trainer's spec", .trainer = B("")},
    {"no normalizer's spec", .normalizer = B("")},
    {"a character map", .normalizer = B("\x12\x04\xff\xff\xff\xff\x18\x00\x20\x00")},
    {"a dummy prefix", .normalizer = B("\x18\x01\x20\x00")},
    {"spaces removed", .normalizer = B("\x18\x00\x20\x01")},
    {"spaces not escaped", .normalizer = B("\x18\x00\x20\x00\x28\x00")},
    {"a spec cut short", .trainer = B("\x18\x01\x98\x02\x01\x0a\x09x")},
    {"a group", .trainer = B("\x18\x01\x98\x02\x01\x0b\x0c")},
    {"field number 0", .tail = B("\x02\x00")},
    {"an unknown field", .tail = B("\x32\x00")},
    {"a denormalizer", .tail = B("\x2a\x06\x12\x04\xff\xff\xff\xff")},
    {"a length past the end", .tail = B("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")},
    {"an endless varint", .tail = B("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")},
};

static const struct bytes text = B("ab");
static const struct bytes trainer = B("\x18\x01\x98\x02\x01");
static const struct bytes normalizer = B("\x0a\x08identity\x12\x00\x18\x00\x20\x00");

static char *put_message(char *s, int number, struct bytes b)
{
    *s++ = (char)(number << 3 | 2);
    *s++ = (char)b.len;
    if (b.len)
        memcpy(s, b.at, b.len);
    return s + b.len;
}

static char *put_piece(char *s, struct bytes name, float score, int type)
{
    char piece[64], *p = put_message(piece, 1, name);

    *p++ = 2 << 3 | 5;
    memcpy(p, &score, 4);
    p += 4;
    *p++ = 3 << 3;
    *p++ = (char)type;
    return put_message(s, 1, (struct bytes){piece, (size_t)(p - piece)});
}

static size_t cook(const struct recipe *r, char *model)
{
    char *s = model;

    s = put_piece(s, (struct bytes)B("<unk>"), 0, 2);
    s = put_piece(s, (struct bytes)B("<s>"), 0, r->control ? r->control : 3);
    s = put_piece(s, (struct bytes)B("</s>"), 0, r->control ? r->control : 3);
    for (int c = 0; c < 256 - r->missing; c++) {
        char name[8];

        snprintf(name, sizeof name, "<0x%02X>", (unsigned char)c);
        s = put_piece(s, (struct bytes){name, 6}, 0, 6);
    }
    s = put_piece(s, (struct bytes)B("a"), -2, 1);
    s = put_piece(s, r->text.at ? r->text : text, r->score, r->type ? r->type : 1);
    s = put_message(s, 2, r->trainer.at ? r->trainer : trainer);
    s = put_message(s, 3, r->normalizer.at ? r->normalizer : normalizer);
    memcpy(s, r->tail.at ? r->tail.at : "", r->tail.len);
    return (size_t)(s - model) + r->tail.len;
}

START_TEST(a_sound_model_loads)
{
    struct tokenizer *t;
    char              model[8192];
    struct why        why;

    ck_assert_msg(!tokenizer_load(&t, model, cook(&sound[_i], model), &why), "%s",
                  sound[_i].what);
    check_round_trip(t, "abba a  a ba\n", 13);
    tokenizer_free(t);
}
END_TEST

START_TEST(an_unsound_model_does_not)
{
    struct tokenizer *t;
    struct model_form form;
    char              model[8192];
    size_t            len = cook(&unsound[_i], model);
    struct why        why;

    ck_assert_msg(model_parse(&form, model, len) == FAIL_INPUT, "%s", unsound[_i].what);
    ck_assert_msg(tokenizer_load(&t, model, len, &why) == FAIL_INPUT, "%s",
                  unsound[_i].what);
    ck_assert_ptr_null(t);
}
END_TEST

START_TEST(what_is_no_model_does_not_load)
{
    static const struct bytes none[] = {
        B(""), B("\n"), B("weft-byte"), B("weft-bytes\n"), B("weft-bytes\0"),
        B("{\"a\": 1}"), B("\x0a"),
    };
    struct tokenizer *t;
    struct why        why;

    for (int i = 0; i < COUNT(none); i++) {
        ck_assert_int_eq(tokenizer_load(&t, none[i].at, none[i].len, &why), FAIL_INPUT);
        ck_assert_str_eq(why.line, "not a tokenizer of weft, or a damaged one");
        ck_assert_ptr_null(t);
    }
}
END_TEST

static const char *next_line(void *user, size_t *len)
{
    static const char s[] = "bado fen lu gri lunaste bado lugri fen  fenlu wi naste";
    int              *left = user;

    *len = sizeof s - 1;
    return (*left)-- > 0 ? s : NULL;
}

/* Flipped bits and cut ends: refused, or a tokenizer that still loses nothing. */
START_TEST(a_damaged_model_is_refused_or_harmless)
{
    static const char line[] = "bado fen\n  gri <s> \xe2\x96\x81 \xff lunaste";
    struct rng        r = rng_open(5, RNG_TEST, (uint64_t)_i);
    int               lines = 1, fits;
    struct why        why;
    size_t            len;
    void             *model;

    ck_assert_int_eq(tokenizer_train(_i ? "bpe" : "unigram", 280, next_line, &lines, -1,
                                     &model, &len, &fits, &why),
                     0);
    char *damaged = malloc(len);

    for (int k = 0; k < 3000; k++) {
        struct tokenizer *t;
        size_t            kept = k % 3 ? len : rng_below(&r, len);

        memcpy(damaged, model, len);
        for (uint64_t flips = k % 3 ? 1 + rng_below(&r, 3) : 0; flips; flips--)
            damaged[rng_below(&r, len)] ^= (char)(1 << rng_below(&r, 8));
        if (!tokenizer_load(&t, damaged, kept, &why))
            check_round_trip(t, line, sizeof line);
        tokenizer_free(t);
    }
    free(damaged);
    free(model);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("tokenizer models");
    TCase *c = tcase_create("models");

    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, a_sound_model_loads, 0, COUNT(sound));
    tcase_add_loop_test(c, an_unsound_model_does_not, 0, COUNT(unsound));
    tcase_add_test(c, what_is_no_model_does_not_load);
    tcase_add_loop_test(c, a_damaged_model_is_refused_or_harmless, 0, 2);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return rig_run(suite(), 1);
}
