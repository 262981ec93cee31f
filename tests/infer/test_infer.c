/* Sampler and stream. */
#include "data/text.h"
#include "infer/sampler.h"
#include "infer/stream.h"
#include "tests/support/rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sampler ---- */

enum { IDS = 4, DRAWS = 20000 };

static struct sampler_options plain(void)
{
    return (struct sampler_options){.temp = 1, .top_p = 1, .repeat_penalty = 1,
                                    .repeat_last_n = 4, .seed = 5};
}

static const struct logit_bias
    twice_the_first[] = {{0, 0.6931471805599453}},
    mixed[] = {{1, 0.5}, {0, -INFINITY}, {1, 0.19314718055994531}};

/* Probabilities 1/2, 1/4, 1/8, 1/8 (logits are their logarithms plus shift), and what
 * must come out. recent: the ids 0 .. recent - 1 were seen. */
static const struct {
    const char *name;
    struct sampler_options o;
    double shift;
    int    recent, banned;
    double want[IDS];
} choices[] = {
    {"as they are", {.temp = 1, .top_p = 1, .repeat_penalty = 1}, 0, 0, -1,
     {0.5, 0.25, 0.125, 0.125}},
    {"temperature 1/2 squares", {.temp = 0.5, .top_p = 1, .repeat_penalty = 1}, 0, 0, -1,
     {8 / 11., 2 / 11., 0.5 / 11, 0.5 / 11}},
    {"top-k", {.temp = 1, .top_k = 2, .top_p = 1, .repeat_penalty = 1}, 0, 0, -1,
     {2 / 3., 1 / 3., 0, 0}},
    {"top-k prefers the lower id",
     {.temp = 1, .top_k = 3, .top_p = 1, .repeat_penalty = 1}, 0, 0, -1,
     {4 / 7., 2 / 7., 1 / 7., 0}},
    {"top-p", {.temp = 1, .top_p = 0.6, .repeat_penalty = 1}, 0, 0, -1,
     {2 / 3., 1 / 3., 0, 0}},
    {"top-p keeps at least one", {.temp = 1, .top_p = 0, .repeat_penalty = 1}, 0, 0, -1,
     {1, 0, 0, 0}},
    {"top-p of what top-k left",
     {.temp = 1, .top_k = 2, .top_p = 0.6, .repeat_penalty = 1}, 0, 0, -1, {1, 0, 0, 0}},
    {"top-p before temperature", {.temp = 2, .top_p = 0.7, .repeat_penalty = 1}, 0, 0, -1,
     {0.585786, 0.414214, 0, 0}},
    {"min-p", {.temp = 1, .top_p = 1, .min_p = 0.4, .repeat_penalty = 1}, 0, 0, -1,
     {2 / 3., 1 / 3., 0, 0}},
    {"min-p before temperature",
     {.temp = 0.5, .top_p = 1, .min_p = 0.4, .repeat_penalty = 1}, 0, 0, -1,
     {0.8, 0.2, 0, 0}},
    {"min-p and top-p",
     {.temp = 1, .top_p = 0.8, .min_p = 0.3, .repeat_penalty = 1}, 0, 0, -1,
     {2 / 3., 1 / 3., 0, 0}},
    {"a penalty multiplies negative logits",
     {.temp = 1, .top_p = 1, .repeat_penalty = 2, .repeat_last_n = 4}, 0, 1, -1,
     {1 / 3., 1 / 3., 1 / 6., 1 / 6.}},
    {"a penalty divides positive logits",
     {.temp = 1, .top_p = 1, .repeat_penalty = 2, .repeat_last_n = 4}, 3, 1, -1,
     {0.239838, 0.380081, 0.1900405, 0.1900405}},
    {"a penalty before top-k",
     {.temp = 1, .top_k = 1, .top_p = 1, .repeat_penalty = 4, .repeat_last_n = 4},
     0, 1, -1, {0, 1, 0, 0}},
    {"banned", {.temp = 1, .top_p = 1, .repeat_penalty = 1}, 0, 0, 0,
     {0, 0.5, 0.25, 0.25}},
    {"presence and frequency leave a prompt alone",
     {.temp = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 4,
      .presence_penalty = 2, .frequency_penalty = 2}, 0, 2, -1,
     {0.5, 0.25, 0.125, 0.125}},
    {"a bias of log 2 doubles",
     {.temp = 1, .top_p = 1, .repeat_penalty = 1, .bias = twice_the_first, .n_bias = 1},
     0, 0, -1, {2 / 3., 1 / 6., 1 / 12., 1 / 12.}},
    {"biases before penalties",     // e^(log 1/2 + log 2) has logit 0, which stays
     {.temp = 1, .top_p = 1, .repeat_penalty = 2, .repeat_last_n = 4,
      .bias = twice_the_first, .n_bias = 1}, 0, 1, -1,
     {2 / 3., 1 / 6., 1 / 12., 1 / 12.}},
    {"biases of one token add up, and -infinity wins",
     {.temp = 1, .top_p = 1, .repeat_penalty = 1, .bias = mixed, .n_bias = 3},
     0, 0, -1, {0, 2 / 3., 1 / 6., 1 / 6.}},
};

START_TEST(choices_follow_the_hand_computed_distribution)
{
    const real p[IDS] = {0.5, 0.25, 0.125, 0.125};
    real       logits[IDS];
    int        seen[IDS] = {0};

    for (int i = 0; i < IDS; i++)
        logits[i] = (real)(log((double)p[i]) + choices[_i].shift);
    for (uint64_t stream = 0; stream < DRAWS; stream++) {
        struct sampler *s = sampler_open(&choices[_i].o, IDS, stream);

        for (int id = 0; id < choices[_i].recent; id++)
            sampler_accept(s, id);
        sampler_ban(s, choices[_i].banned);
        seen[sampler_pick(s, logits)]++;
        sampler_close(s);
    }
    for (int i = 0; i < IDS; i++) {
        double want = choices[_i].want[i], got = (double)seen[i] / DRAWS;

        ck_assert_msg(fabs(got - want) <= 4 * sqrt(want * (1 - want) / DRAWS),
                      "%s: id %d comes %.4f of the time, not %.4f", choices[_i].name, i,
                      got, want);
    }
}
END_TEST

START_TEST(one_sampler_draws_independently_each_time)
{
    enum { PAIRS = IDS * IDS };
    struct sampler_options o = plain();
    struct sampler *s = sampler_open(&o, IDS, 0);
    real logits[IDS] = {0};
    int  seen[PAIRS] = {0}, last = 0;

    for (int i = 0; i < DRAWS; i++) {
        int id = sampler_pick(s, logits);

        seen[last * IDS + id]++;
        last = id;
    }
    for (int i = 0; i < PAIRS; i++)
        ck_assert_int_le(abs(seen[i] - DRAWS / PAIRS), 150);
    sampler_close(s);
}
END_TEST

START_TEST(top_k_keeps_exactly_the_k_best_of_a_large_vocabulary)
{
    enum { V = 1000, K = 50 };
    struct sampler_options o = plain();
    struct rng r = rng_open(1, RNG_TEST, 0);
    real logits[V];
    int  rank, seen[V] = {0};

    o.top_k = K, o.temp = 100;
    rig_normal(&r, logits, V);
    for (int i = 0; i < V; i++)
        logits[i] = (real)rint(3 * (double)logits[i]);      // many are equal
    struct sampler *s = sampler_open(&o, V, 0);

    for (int i = 0; i < DRAWS; i++)
        seen[sampler_pick(s, logits)]++;
    for (int i = 0; i < V; i++) {
        rank = 0;
        for (int j = 0; j < V; j++)
            rank += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
        ck_assert_msg((seen[i] > 0) == (rank < K),
                      "id %d has rank %d, drawn %d times", i, rank, seen[i]);
    }
    sampler_close(s);
}
END_TEST

START_TEST(temperature_zero_takes_the_best_and_the_lower_of_equals)
{
    struct sampler_options o = plain();
    const real logits[IDS] = {1, 3, 3, 2};

    o.temp = 0;
    struct sampler *s = sampler_open(&o, IDS, 0);

    ck_assert_int_eq(sampler_pick(s, logits), 1);
    sampler_ban(s, 1);
    ck_assert_int_eq(sampler_pick(s, logits), 2);
    sampler_close(s);
}
END_TEST

START_TEST(only_the_last_n_tokens_are_penalised)
{
    struct sampler_options o = plain();
    const real logits[IDS] = {1, 2, 3, 0};

    o.temp = 0, o.repeat_penalty = 100, o.repeat_last_n = 2;
    struct sampler *s = sampler_open(&o, IDS, 0);

    for (int i = 0; i < 5; i++)     // 2, then 1, then 0 is all that is left; then 2 again
        ck_assert_int_eq(sampler_pick(s, logits), 2 - i % 3);
    sampler_close(s);
}
END_TEST

/* What is picked from logits 6 5 4 3 at temperature 0, under presence p and frequency f,
 * whatever the window of the repeat penalty. */
static const struct { double p, f; int want[8]; } counted[] = {
    {0, 0, {0, 0, 0, 0, 0, 0, 0, 0}},
    {1.5, 0, {0, 1, 0, 0, 0, 0, 0, 0}},         // 4.5 against 5, then against 4
    {0, 0.75, {0, 0, 1, 0, 1, 2, 0, 1}},        // 6 5 4 less 0.75 for each time before
    {1, 1, {0, 1, 0, 2, 0, 1, 3, 0}},
    {-1, 0, {0, 0, 0, 0, 0, 0, 0, 0}},
};

START_TEST(presence_counts_once_and_frequency_each_time)
{
    const real logits[IDS] = {6, 5, 4, 3};

    for (int window = 0; window < 3; window++) {
        struct sampler_options o = plain();

        o.temp = 0, o.repeat_last_n = window;
        o.presence_penalty = counted[_i].p, o.frequency_penalty = counted[_i].f;
        struct sampler *s = sampler_open(&o, IDS, 0);

        for (int i = 0; i < 8; i++)
            ck_assert_int_eq(sampler_pick(s, logits), counted[_i].want[i]);
        sampler_close(s);
    }
}
END_TEST

START_TEST(the_same_seed_and_stream_give_the_same_choices)
{
    enum { V = 300, N = 200 };
    struct sampler_options o;
    struct rng r = rng_open(2, RNG_TEST, 0);
    real    logits[V];
    int32_t got[4][N];
    int     equal[4] = {0};

    sampler_defaults(&o);
    rig_normal(&r, logits, V);
    for (int k = 0; k < 4; k++) {
        o.seed = k == 2 ? 8 : 7;
        struct sampler *s = sampler_open(&o, V, k == 3);

        for (int i = 0; i < N; i++) {
            got[k][i] = sampler_pick(s, logits);
            equal[k] += got[k][i] == got[0][i];
        }
        sampler_close(s);
    }
    ck_assert_int_eq(equal[1], N);
    ck_assert_int_lt(equal[2], N / 2);
    ck_assert_int_lt(equal[3], N / 2);
}
END_TEST

/* Logits that no model should give, and the only choice they leave. */
static const struct { double logits[IDS]; int want; } bad_logits[] = {
    {{NAN, NAN, NAN, NAN}, 0},
    {{-INFINITY, -INFINITY, -INFINITY, -INFINITY}, 0},
    {{NAN, NAN, 1, -INFINITY}, 2},
    {{-INFINITY, 5, NAN, NAN}, 1},
    {{0, 0, 0, INFINITY}, 3},
    {{-1e30, -1e30, NAN, 1e30}, 3},
};

START_TEST(bad_logits_are_never_chosen)
{
    for (int temp = 0; temp < 2; temp++)
        for (int k = 0; k <= IDS; k++) {
            struct sampler_options o;
            real logits[IDS];

            sampler_defaults(&o);
            o.temp = temp, o.top_k = k;
            for (int i = 0; i < IDS; i++)
                logits[i] = (real)bad_logits[_i].logits[i];
            struct sampler *s = sampler_open(&o, IDS, 0);

            for (int i = 0; i < 20; i++)
                ck_assert_int_eq(sampler_pick(s, logits), bad_logits[_i].want);
            sampler_close(s);
        }
}
END_TEST

/* ---- stream ---- */

/* A stream into memory. */
struct sink {
    char          *text;
    size_t         len;
    FILE          *file;
    struct stream *stream;
};

static void sink_open(struct sink *k, bool terminal, const char *const *stop, int n)
{
    k->text = NULL, k->len = 0;
    k->file = open_memstream(&k->text, &k->len);
    k->stream = stream_open(k->file, terminal, stop, n);
}

static void sink_close(struct sink *k)
{
    stream_close(k->stream);
    fclose(k->file);
    free(k->text);
}

START_TEST(characters_are_never_split)
{
    static const char text[] = "a\xc3\xa9z\xe2\x82\xac\xf0\x9f\x98\x80!";
    struct sink k;

    sink_open(&k, _i, NULL, 0);
    for (size_t i = 0; i < sizeof text - 1; i++) {
        ck_assert(!stream_push(k.stream, text + i, 1));
        ck_assert_uint_eq(text_invalid(k.text, k.len), 0);
        ck_assert_uint_le(k.len, i + 1);
        ck_assert_uint_ge(k.len + 3, i + 1);
    }
    stream_end(k.stream);
    ck_assert_str_eq(k.text, text);
    sink_close(&k);
}
END_TEST

/* What is pushed, in two parts, and what a pipe and a terminal get. */
static const struct { const char *first, *second, *pipe, *terminal; } bytes[] = {
    {"plain\n\ttext", "", "plain\n\ttext", "plain\n\ttext"},
    {"\x1b[31mred", "\x1b]0;t\a", "\x1b[31mred\x1b]0;t\a", "\\x1b[31mred\\x1b]0;t\\x07"},
    {"a\x7f\b\r", "b", "a\x7f\b\rb", "a\\x7f\\x08\\x0db"},
    {"\xc2", "\x9b" "2J", "\xc2\x9b" "2J", "\\x9b2J"},              // C1: CSI
    {"\xc2\xa0", "", "\xc2\xa0", "\xc2\xa0"},                       // not C1
    {"\x9b", "2J", "\x9b" "2J", "\xef\xbf\xbd" "2J"},               // bare CSI byte
    {"\xff", "x", "\xffx", "\xef\xbf\xbdx"},
    {"\xe2\x82", "x", "\xe2\x82x", "\xef\xbf\xbd\xef\xbf\xbdx"},    // broken off
    {"\xe2", "\x82", "\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},       // at the end
    {"\xed\xa0\x80", "", "\xed\xa0\x80",
     "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},                       // surrogate
    {"\xc0\x8a", "", "\xc0\x8a", "\xef\xbf\xbd\xef\xbf\xbd"},       // overlong newline
    {"\xf4\x90\x80\x80", "", "\xf4\x90\x80\x80",
     "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},           // above U+10FFFF
    {"\xc3\xc3", "\xa9", "\xc3\xc3\xa9", "\xef\xbf\xbd\xc3\xa9"},
};

START_TEST(a_pipe_gets_the_bytes_and_a_terminal_harmless_ones)
{
    for (int terminal = 0; terminal < 2; terminal++) {
        struct sink k;

        sink_open(&k, terminal, NULL, 0);
        stream_push(k.stream, bytes[_i].first, strlen(bytes[_i].first));
        stream_push(k.stream, bytes[_i].second, strlen(bytes[_i].second));
        stream_end(k.stream);
        ck_assert_str_eq(k.text, terminal ? bytes[_i].terminal : bytes[_i].pipe);
        sink_close(&k);
    }
}
END_TEST

/* Stop strings, tokens parted by '|', the text written, and whether it stopped. */
static const struct { const char *stop[3], *tokens, *want; bool stopped; } stops[] = {
    {{"END"}, "one END two", "one ", true},
    {{"END"}, "one E|N|D two", "one ", true},
    {{"END"}, "one E|N|G", "one ENG", false},
    {{"END"}, "one E|N", "one EN", false},
    {{"END"}, "EEN|D", "E", true},
    {{"abac"}, "ab|ab|ac|x", "ab", true},
    {{"aab"}, "aa|aa|b", "aa", true},
    {{"b"}, "a|b|c", "a", true},
    {{"xyz", "y"}, "ax|y|z", "ax", true},
    {{"xyz", "q"}, "ax|y|z", "a", true},
    {{"xyz", "zz", "\n\n"}, "axy|\n|\n|b", "axy", true},
    {{"\xe2\x82\xac"}, "5\xe2|\x82|\xac!", "5", true},
    {{"\xe2\x82\xac"}, "5\xe2|\x82|\x99!", "5\xe2\x82\x99!", false},
    {{"longer than all the text"}, "longer|", "longer", false},
    {{NULL}, "no|ne", "none", false},
};

static bool push_tokens(struct stream *s, const char *tokens)
{
    bool stopped = false;

    while (*tokens) {
        size_t len = strcspn(tokens, "|");

        stopped = stream_push(s, tokens, len);
        tokens += len + (tokens[len] == '|');
    }
    return stopped;
}

START_TEST(a_stop_string_ends_the_text_wherever_tokens_part)
{
    struct sink k;
    int n = 0;

    while (n < 3 && stops[_i].stop[n])
        n++;
    sink_open(&k, false, stops[_i].stop, n);
    ck_assert_int_eq(push_tokens(k.stream, stops[_i].tokens), stops[_i].stopped);
    stream_end(k.stream);
    ck_assert_str_eq(k.text, stops[_i].want);
    sink_close(&k);
}
END_TEST

/* A prefix, a stop string, tokens parted by '|', the text written, and bytes left out. */
static const struct {
    const char *prefix, *stop, *tokens, *want;
    size_t      skipped;
} skips[] = {
    {"Title: ", "#", "Title: |Time", "Time", 7},
    {"Title: ", "#", "Ti|tle:| Time", "Time", 7},
    {"Title: ", "#", "Title: Title: x", "Title: x", 7},
    {"Title: ", "#", "Ti|me flies", "Time flies", 0},
    {"Title: ", "#", "Time| flies", "Time flies", 0},
    {"Title: ", "#", "Ti|t", "Tit", 0},             // and there it ends
    {"Title: ", "im", "Ti|me flies", "T", 0},
    {"Title: ", "itl", "Title: |Time", "Time", 7},
    {"aab", "#", "a|a|a|b", "aaab", 0},
    {"", "#", "Ti|me", "Time", 0},
};

START_TEST(a_prefix_is_left_out_where_all_of_it_comes)
{
    struct sink k;

    sink_open(&k, false, &skips[_i].stop, 1);
    stream_skip(k.stream, skips[_i].prefix);
    push_tokens(k.stream, skips[_i].tokens);
    stream_end(k.stream);
    ck_assert_str_eq(k.text, skips[_i].want);
    ck_assert_uint_eq(stream_skipped(k.stream), skips[_i].skipped);
    stream_push(k.stream, "Tit", 3);                // only where a text begins
    stream_end(k.stream);
    ck_assert_str_eq(k.text + strlen(skips[_i].want), "Tit");
    sink_close(&k);
}
END_TEST

#define ZHONG "\xe4\xb8\xad"      // two columns

/* Text for a terminal of ten columns, and what it gets. */
static const struct { const char *text, *want; } wrapped[] = {
    {"one two three four", "one two\nthree four"},
    {"0123456789 1", "0123456789\n1"},             // an exact fit drops the space
    {"0123456789\n1", "0123456789\n1"},
    {"a  b\n\n  c", "a  b\n\n  c"},
    {"abcdefghijklmno p", "abcdefghij\nklmno p"},   // a word wider than the line
    {"ab abcdefghijklm", "ab\nabcdefghij\nklm"},
    {"one two   ", "one two   "},
    {"\xc3\xa9\xc3\xa9\xc3\xa9 \xc3\xa9\xc3\xa9\xc3\xa9 \xc3\xa9 x",
     "\xc3\xa9\xc3\xa9\xc3\xa9 \xc3\xa9\xc3\xa9\xc3\xa9 \xc3\xa9\nx"},
    {"e\xcc\x81" "e\xcc\x81 abcdef z", "e\xcc\x81" "e\xcc\x81 abcdef\nz"},
    {ZHONG ZHONG ZHONG ZHONG ZHONG ZHONG, ZHONG ZHONG ZHONG ZHONG ZHONG "\n" ZHONG},
    {"ab\tcd ef", "ab\tcd\nef"},
    {"1234567 \x1b", "1234567\n\\x1b"},            // four columns
};

START_TEST(a_terminal_breaks_lines_at_words_wherever_tokens_part)
{
    for (size_t step = 1; step < 7; step++) {
        const char *text = wrapped[_i].text;
        size_t      len = strlen(text);
        struct sink k;

        sink_open(&k, true, NULL, 0);
        stream_wrap(k.stream, 10);
        for (size_t at = 0; at < len; at += step)
            stream_push(k.stream, text + at, len - at < step ? len - at : step);
        stream_end(k.stream);
        ck_assert_str_eq(k.text, wrapped[_i].want);
        sink_close(&k);
        sink_open(&k, false, NULL, 0);              // a file gets it as it is
        stream_wrap(k.stream, 10);
        stream_push(k.stream, text, len);
        stream_end(k.stream);
        ck_assert_str_eq(k.text, text);
        sink_close(&k);
    }
}
END_TEST

START_TEST(a_word_is_held_no_longer_than_it_lasts)
{
    struct sink k;

    sink_open(&k, true, NULL, 0);
    stream_wrap(k.stream, 10);
    stream_echo(k.stream, "Once up", 7);
    ck_assert_str_eq(k.text, "Once");
    stream_push(k.stream, "on a", 4);
    ck_assert_str_eq(k.text, "Once upon");
    stream_push(k.stream, "\n", 1);
    ck_assert_str_eq(k.text, "Once upon\na\n");
    stream_end(k.stream);
    sink_close(&k);
}
END_TEST

START_TEST(a_copy_of_a_sampler_brings_its_choices_back)
{
    enum { V = 50, N = 40 };
    struct sampler_options o;
    struct rng r = rng_open(3, RNG_TEST, 0);
    real    logits[V];
    int32_t first[N];
    int     equal = 0;

    sampler_defaults(&o);
    o.frequency_penalty = 1, o.repeat_penalty = 2, o.seed = 4;
    rig_normal(&r, logits, V);
    struct sampler *s = sampler_open(&o, V, 2);

    for (int i = 0; i < 10; i++)
        sampler_pick(s, logits);
    struct sampler *was = sampler_copy(s);

    for (int i = 0; i < N; i++)
        first[i] = sampler_pick(s, logits);
    sampler_restore(s, was);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(sampler_pick(s, logits), first[i]);
    sampler_seed(s, 5);
    sampler_restore(s, was);                        // what was set since stays
    for (int i = 0; i < N; i++)
        equal += sampler_pick(s, logits) == first[i];
    ck_assert_int_lt(equal, N);
    sampler_close(s), sampler_close(was);
}
END_TEST

START_TEST(what_may_begin_a_stop_string_is_held_back_and_nothing_else)
{
    const char *stop[] = {"\n\nUser:"};
    struct sink k;

    sink_open(&k, false, stop, 1);
    stream_push(k.stream, "Yes.\n", 5);
    ck_assert_str_eq(k.text, "Yes.");
    stream_push(k.stream, "No.\n\nUs", 7);
    ck_assert_str_eq(k.text, "Yes.\nNo.");
    stream_push(k.stream, "ed", 2);
    ck_assert_str_eq(k.text, "Yes.\nNo.\n\nUsed");
    sink_close(&k);
}
END_TEST

START_TEST(the_prompt_may_hold_a_stop_string_and_half_a_character)
{
    const char *stop[] = {"x"};
    struct sink k;

    sink_open(&k, true, stop, 1);
    stream_echo(k.stream, "x\xc3", 2);
    ck_assert(!stream_push(k.stream, "\xa9", 1));
    ck_assert(!stream_at_line_start(k.stream));
    ck_assert(!stream_push(k.stream, "\n", 1));
    ck_assert(stream_at_line_start(k.stream));
    ck_assert_str_eq(k.text, "x\xc3\xa9\n");
    sink_close(&k);
}
END_TEST

#define ROWS(table) (int)(sizeof table / sizeof *table)

static Suite *suite(void)
{
    Suite *s = suite_create("infer");
    TCase *tc = tcase_create("sampler");

    tcase_add_loop_test(tc, choices_follow_the_hand_computed_distribution, 0,
                        ROWS(choices));
    tcase_add_test(tc, one_sampler_draws_independently_each_time);
    tcase_add_test(tc, top_k_keeps_exactly_the_k_best_of_a_large_vocabulary);
    tcase_add_test(tc, temperature_zero_takes_the_best_and_the_lower_of_equals);
    tcase_add_test(tc, only_the_last_n_tokens_are_penalised);
    tcase_add_loop_test(tc, presence_counts_once_and_frequency_each_time, 0,
                        ROWS(counted));
    tcase_add_test(tc, the_same_seed_and_stream_give_the_same_choices);
    tcase_add_loop_test(tc, bad_logits_are_never_chosen, 0, ROWS(bad_logits));
    suite_add_tcase(s, tc);

    tc = tcase_create("stream");
    tcase_add_loop_test(tc, characters_are_never_split, 0, 2);
    tcase_add_loop_test(tc, a_pipe_gets_the_bytes_and_a_terminal_harmless_ones, 0,
                        ROWS(bytes));
    tcase_add_loop_test(tc, a_stop_string_ends_the_text_wherever_tokens_part, 0,
                        ROWS(stops));
    tcase_add_loop_test(tc, a_prefix_is_left_out_where_all_of_it_comes, 0, ROWS(skips));
    tcase_add_loop_test(tc, a_terminal_breaks_lines_at_words_wherever_tokens_part, 0,
                        ROWS(wrapped));
    tcase_add_test(tc, a_word_is_held_no_longer_than_it_lasts);
    tcase_add_test(tc, a_copy_of_a_sampler_brings_its_choices_back);
    tcase_add_test(tc, what_may_begin_a_stop_string_is_held_back_and_nothing_else);
    tcase_add_test(tc, the_prompt_may_hold_a_stop_string_and_half_a_character);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
