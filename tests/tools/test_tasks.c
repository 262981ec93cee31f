/* The laboratory's generators against what is known of groups, trees and texts, and
 * the share of answers that can be guessed. */
#include "tests/support/rig.h"

#include "data/base/file.h"
#include "data/stories/stories.h"
#include "model/files/checkpoint.h"
#include "tools/lab/groups/groups.h"
#include "tools/lab/text/corpus.h"
#include "tools/lab/text/streams.h"
#include "tools/lab/text/subject.h"
#include "tools/lab/text/trees.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- groups ----------------------------------------------------------------------- */

/* How many elements have order 1, 2, 3 and 5, and the order of the largest commuting
 * quotient: textbook knowledge. */
static const struct {
    const char *name;
    int         order, of1, of2, of3, of5;
    int         abelian;
} groups[] = {
    {"parity", 2, 1, 1, 0, 0, 2},
    {"z3", 3, 1, 0, 2, 0, 3},
    {"s3", 6, 1, 3, 2, 0, 2},
    {"a5", 60, 1, 15, 20, 24, 1},
};

enum { N_GROUPS = sizeof groups / sizeof *groups };

static int order_of(const struct group *g, int a)
{
    int n = 1;

    for (int p = a; p; p = g->product[p][a])
        if (++n > g->order)
            ck_abort_msg("%s: no power of %d is neutral", g->name, a);
    return n;
}

START_TEST(groups_have_elements_of_the_known_orders)
{
    struct group g;
    int          count[GROUP_MAX + 1] = {0};

    ck_assert(group_make(&g, groups[_i].name));
    ck_assert_int_eq(g.order, groups[_i].order);
    for (int a = 0; a < g.order; a++)
        count[order_of(&g, a)]++;
    ck_assert_int_eq(count[1], groups[_i].of1);
    ck_assert_int_eq(count[2], groups[_i].of2);
    ck_assert_int_eq(count[3], groups[_i].of3);
    ck_assert_int_eq(count[5], groups[_i].of5);
    ck_assert_int_eq(g.abelian, groups[_i].abelian);
}
END_TEST

START_TEST(group_products_are_associative)
{
    struct group g;

    ck_assert(group_make(&g, groups[_i].name));
    for (int a = 0; a < g.order; a++)
        for (int b = 0; b < g.order; b++)
            for (int c = 0; c < g.order; c++)
                if (g.product[g.product[a][b]][c] != g.product[a][g.product[b][c]])
                    ck_abort_msg("%s: %d %d %d", g.name, a, b, c);
}
END_TEST

/* The product of t tokens, taken from the right. */
static int product_of(const struct group *g, const int32_t *token, int t)
{
    int p = 0;

    while (t--)
        p = g->product[token[t]][p];
    return p;
}

START_TEST(targets_of_words_are_running_products)
{
    enum { T = 200 };
    struct rng   r = rng_open(3, RNG_TEST, _i);
    struct group g;
    int32_t      tokens[T], targets[T];

    ck_assert(group_make(&g, groups[_i].name));
    group_fill(&g, &r, T, tokens, targets);
    ck_assert(tokens[0] == g.order && targets[0] == -1);
    for (int t = 1; t < T; t++) {
        if (tokens[t] < 0 || tokens[t] >= g.order)
            ck_abort_msg("%s: token %d", g.name, tokens[t]);
        if (targets[t] != product_of(&g, tokens + 1, t))
            ck_abort_msg("%s: wrong after %d elements", g.name, t);
    }
}
END_TEST

START_TEST(unknown_groups_are_refused)
{
    struct group g;

    ck_assert(!group_make(&g, "z4"));
}
END_TEST

/* ---- trees ------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Value of op over v, by sorting. */
static int reduce(int op, int *v, int n)
{
    int sum = 0;

    qsort(v, n, sizeof *v, by_value);
    for (int i = 0; i < n; i++)
        sum += v[i];
    return op == TREE_MIN   ? v[0]
           : op == TREE_MAX ? v[n - 1]
           : op == TREE_SM  ? sum % 10
                            : (v[(n - 1) / 2] + v[n / 2]) / 2;
}

/* Evaluate with a stack of values and operators; compare at every closing bracket. */
static void check_values(const struct tree *t)
{
    int stack[TREE_LONGEST], n = 0;

    for (int i = 0; i < t->n; i++) {
        int args = 0, token = t->token[i];

        if (token == TREE_END) {
            while (stack[n - 1 - args] < TREE_MIN)
                args++;
            int value = reduce(stack[n - 1 - args], stack + n - args, args);

            if (t->value[i] != value || args < 2)
                ck_abort_msg("token %d: value %d, not %d", i, t->value[i], value);
            n -= args + 1;
            token = value;
        } else if (t->value[i] != -1) {
            ck_abort_msg("token %d has a value", i);
        }
        stack[n++] = token;
    }
    ck_assert_int_eq(n, 1);
}

static const struct tree_form published = {10, 10, 500, 2000}, small = {6, 5, 24, 96};

START_TEST(trees_have_the_values_that_a_stack_computes)
{
    const struct tree_form *f = _i ? &published : &small;
    struct rng              r = rng_open(5, RNG_TEST, _i);
    struct tree             t;

    for (int i = 0; i < 200; i++) {
        tree_draw(f, &r, &t);
        ck_assert(t.n > f->min && t.n < f->max);
        check_values(&t);
    }
}
END_TEST

/* Shares measured elsewhere on the published generator: kept, majority, root operator. */
START_TEST(what_can_be_guessed_agrees_with_the_published_task)
{
    enum { N = 4000 };
    static const struct {
        struct tree_form form;
        double           kept, majority, root, digits;
    } known[] = {
        {{10, 10, 500, 2000}, 0.0825, 0.168, 0.359, 0.455},
        {{6, 5, 24, 96}, 0, 0.118, 0.245, 0.404},
    };
    struct tree_baselines b = tree_guess(&known[_i].form, 1, N);
    double                limit = 4 * sqrt(0.24 / N);

    if (known[_i].kept > 0)
        ck_assert_double_eq_tol(b.kept, known[_i].kept, 0.006);
    ck_assert_double_eq_tol(b.majority, known[_i].majority, limit);
    ck_assert_double_eq_tol(b.root, known[_i].root, limit);
    ck_assert_double_ge(b.digits, known[_i].digits - limit);
}
END_TEST

/* A tree without subtrees is its only subtree; of others each has an operator of its own,
 * which tells about as much of it as the root's does of the root. */
START_TEST(every_subtree_is_guessed_by_its_own_operator)
{
    static const struct tree_form flat = {2, 3, 3, 8}, deep = {3, 3, 6, 32};
    struct tree_baselines         b = tree_guess(&flat, 1, 4000);

    ck_assert_double_eq(b.every, b.root);
    b = tree_guess(&deep, 1, 4000);
    ck_assert_double_gt(b.every, b.majority + 0.04);
    ck_assert_double_lt(b.every, b.digits);
}
END_TEST

/* ---- streams ---------------------------------------------------------------------- */

/* Where "K123." stands in the text, or -1; twice is an error. */
static int find_needle(const int32_t *tokens, int T, int key)
{
    int at = -1;

    for (int t = 0; t + NEEDLE_BYTES <= T; t++)
        if (tokens[t] == key && tokens[t + 1] >= '0' && tokens[t + 1] <= '9' &&
            tokens[t + 4] == '.') {
            ck_assert_int_eq(at, -1);
            at = t;
        }
    return at;
}

static int count_asked(const int32_t *targets, int T)
{
    int n = 0;

    for (int t = 0; t < T; t++)
        n += targets[t] >= 0;
    return n;
}

START_TEST(questions_ask_for_the_digits_of_their_needle)
{
    enum { T = 256 };
    struct needle n = {4, 3, -1};
    struct rng    r = rng_open(6, RNG_TEST, 0);
    int32_t       tokens[T], targets[T];

    for (int i = 0; i < 50; i++) {
        needle_fill(&n, &r, T, tokens, targets);
        ck_assert_int_eq(count_asked(targets, T), n.questions * NEEDLE_DIGITS);
        for (int q = 0; q < n.questions; q++) {
            int at = T - (n.questions - q) * NEEDLE_QUESTION;
            int from = find_needle(tokens, T, tokens[at]);

            for (int d = 0; d < NEEDLE_DIGITS; d++) {
                ck_assert_int_eq(targets[at + d], tokens[from + 1 + d]);
                ck_assert_int_eq(targets[at + d], tokens[at + 1 + d]);
            }
        }
    }
}
END_TEST

START_TEST(the_first_needle_lies_at_its_depth)
{
    enum { T = 50 * NEEDLE_BYTES + NEEDLE_QUESTION };
    struct rng r = rng_open(7, RNG_TEST, 0);
    int32_t    tokens[T], targets[T];

    for (int i = 0; i <= 10; i++) {
        struct needle n = {5, 1, i / 10.0};

        needle_fill(&n, &r, T, tokens, targets);
        int at = find_needle(tokens, T, tokens[T - NEEDLE_QUESTION]);
        ck_assert_int_eq(at / NEEDLE_BYTES, (int)lround(49 * i / 10.0));
    }
}
END_TEST

/* How many questions there are; each must ask for what was stated within [near, far]
 * before. */
static int check_facts(const struct facts *f, int T, const int32_t *tokens,
                       const int32_t *targets)
{
    int asked = 0;

    for (int t = 0; t < T; t++) {
        int from = t - 1, key = tokens[t] - f->keys * f->values;

        if (targets[t] < 0)
            continue;
        while (from >= 0 && tokens[from] != key * f->values + targets[t])
            from--;
        if (from < 0 || t - from < f->near || t - from > f->far)
            ck_abort_msg("token %d asks for what stands at %d", t, from);
        asked++;
    }
    return asked;
}

START_TEST(facts_are_asked_for_at_their_distance)
{
    enum { T = 128 };
    static const struct facts forms[] = {
        {16, 16, 8, 8, 1, 127}, {16, 16, 8, 8, 40, 40}, {16, 16, 8, 8, 127, 127},
    };
    static const int least[] = {12, 12, 1};
    struct rng       r = rng_open(8, RNG_TEST, 0);
    int32_t          tokens[T], targets[T];

    for (int i = 0; i < 50; i++) {
        facts_fill(&forms[_i], &r, T, tokens, targets);
        ck_assert_int_ge(check_facts(&forms[_i], T, tokens, targets), least[_i]);
        for (int t = 0; t < T; t++)
            if (tokens[t] < 0 || tokens[t] >= facts_vocab(&forms[_i]))
                ck_abort_msg("token %d is %d", t, tokens[t]);
    }
}
END_TEST

/* ---- text -------------------------------------------------------------------------- */

/* Bits and bytes of the stories from id[at] on. */
static double bits_from(const struct corpus *c, long at, double *bytes)
{
    char               story[STORY_MAX];
    struct story_fault fault;
    double             sum = 0, bits;
    size_t             len = 0;

    *bytes = 0;
    for (; at < c->n; at++) {
        if (c->id[at] != CORPUS_EOS) {
            story[len++] = (char)c->id[at];
            continue;
        }
        ck_assert_msg(story_check(story, len, &bits, &fault), "%s", fault.what);
        sum += bits, *bytes += (double)len;
        len = 0;
    }
    ck_assert_int_eq(len, 0);
    return sum;
}

START_TEST(the_floor_of_the_text_held_out_is_its_entropy)
{
    struct corpus c;
    struct why    why;
    double        bits, bytes;

    ck_assert(!corpus_open(&c, 20000, 5000, 3, &why));
    ck_assert(c.held >= 20000 && c.n >= c.held + 5000);
    ck_assert_int_eq(c.id[c.held - 1], CORPUS_EOS);
    bits = bits_from(&c, c.held, &bytes);
    ck_assert_double_eq_tol(c.floor, bits / bytes, 1e-9);
    corpus_close(&c);
}
END_TEST

/* A model whose weights are zero finds all 257 tokens equally likely. */
START_TEST(every_window_of_the_text_held_out_is_scored_once)
{
    enum { T = 32 };
    struct config c;
    struct model  m;
    struct corpus text;
    struct why    why;
    double        nats[T], bytes[T], tokens = 0;

    config_defaults(&c);
    c.layers = 1, c.width = 16, c.heads = 2, c.vocab = CORPUS_VOCAB, c.context = T;
    ck_assert(!config_resolve(&c, &why) && !model_open(&m, &c, &why));
    ck_assert(!corpus_open(&text, 20000, 5000, 3, &why));
    memset(m.w, 0, m.n * sizeof *m.w);
    ck_assert(!corpus_score(&text, &m, T, nats, bytes, &why));
    for (int t = 0; t < T; t++)
        tokens += nats[t] / log(CORPUS_VOCAB);
    ck_assert_double_eq_tol(tokens, (double)((text.n - text.held) / T * T), 1e-2);
    ck_assert(corpus_bits(nats, bytes, 0, 8) >= log2(CORPUS_VOCAB) - 1e-4);
    ck_assert(corpus_bits(nats, bytes, 0, T) < 1.01 * log2(CORPUS_VOCAB));
    corpus_close(&text);
    model_close(&m);
}
END_TEST

/* A text comes back from its tokens, after an end, with the prefix of each document. */
START_TEST(a_text_is_cut_as_the_model_reads_it)
{
    static const char text[] = "One thing.\nAnother.\n<|endoftext|>\nThe end.";
    static const char want[] = "~One thing.\nAnother.\n~The end.";
    struct tokenizer *t;
    struct corpus     c;
    struct why        why;
    char              path[512], back[128];
    size_t            n;

    path_join(path, sizeof path, rig_tmp(), "text.txt");
    ck_assert(!file_write(path, text, strlen(text), &why));
    ck_assert(!tokenizer_load(&t, "weft-bytes", 10, &why));
    ck_assert(!corpus_open_for(&c, t, "~", path, 1000, 8, 1, &why));
    ck_assert_int_eq(c.n, (long)strlen(want) + 3);
    ck_assert(c.id[0] == CORPUS_EOS && c.id[c.n - 1] == CORPUS_EOS);
    ck_assert_int_eq(c.n - c.held, c.n / 8);
    n = tokenizer_decode(t, (const uint32_t *)c.id, (size_t)c.n, back, sizeof back);
    ck_assert_msg(n == strlen(want) && !memcmp(back, want, n), "%.*s", (int)n, back);
    corpus_close(&c);
    tokenizer_free(t);
}
END_TEST

/* The nats of the text held out, by the run and by its model with a key head for each
 * query head. */
START_TEST(a_run_computes_the_same_with_its_key_heads_parted)
{
    enum { T = 16 };
    struct config  c;
    struct model   m;
    struct tokenizer *t;
    struct subject s;
    struct corpus  text;
    struct why     why;
    char           dir[512], list[256];
    double         nats[T], parted[T], bytes[T];

    config_defaults(&c);
    c.layers = 2, c.width = 32, c.heads = 4, c.kv_heads = 2, c.vocab = CORPUS_VOCAB;
    c.context = T;
    strcpy(c.mixers, "softmax+rope(base=500)/gla");
    ck_assert(!config_resolve(&c, &why) && !model_open(&m, &c, &why));
    model_init(&m, 5);
    ck_assert(!tokenizer_load(&t, "weft-bytes", 10, &why));
    path_join(dir, sizeof dir, rig_tmp(), "run");
    ck_assert(!dir_make(dir, &why) && !checkpoint_write(dir, &m, t, &why));
    ck_assert(!manifest_write(dir, &why));
    ck_assert_msg(!subject_open(&s, dir, &why), "%s", why.line);
    ck_assert_int_eq(s.model.cfg.kv_heads, 4);
    ck_assert(!corpus_open(&text, 2000, 500, 3, &why));
    ck_assert(!corpus_score(&text, &m, T, nats, bytes, &why));
    ck_assert(!corpus_score(&text, &s.model, T, parted, bytes, &why));
    for (int i = 0; i < T; i++)
        ck_assert_double_eq_tol(parted[i], nats[i], 1e-4 * nats[i]);
    ck_assert(!subject_mixers(&s, "luna", list, sizeof list, &why));
    ck_assert_str_eq(list, "luna+rope(base=500)/gla");
    corpus_close(&text);
    subject_close(&s);
    tokenizer_free(t);
    model_close(&m);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("tasks");
    TCase *tc = tcase_create("tasks");

    tcase_add_loop_test(tc, groups_have_elements_of_the_known_orders, 0, N_GROUPS);
    tcase_add_loop_test(tc, group_products_are_associative, 0, N_GROUPS);
    tcase_add_loop_test(tc, targets_of_words_are_running_products, 0, N_GROUPS);
    tcase_add_test(tc, unknown_groups_are_refused);
    tcase_add_loop_test(tc, trees_have_the_values_that_a_stack_computes, 0, 2);
    tcase_add_loop_test(tc, what_can_be_guessed_agrees_with_the_published_task, 0, 2);
    tcase_add_test(tc, every_subtree_is_guessed_by_its_own_operator);
    tcase_add_test(tc, questions_ask_for_the_digits_of_their_needle);
    tcase_add_test(tc, the_first_needle_lies_at_its_depth);
    tcase_add_loop_test(tc, facts_are_asked_for_at_their_distance, 0, 3);
    tcase_add_test(tc, the_floor_of_the_text_held_out_is_its_entropy);
    tcase_add_test(tc, a_text_is_cut_as_the_model_reads_it);
    tcase_add_test(tc, a_run_computes_the_same_with_its_key_heads_parted);
    tcase_add_test(tc, every_window_of_the_text_held_out_is_scored_once);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
