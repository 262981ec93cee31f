/* Session and score. */
#include "data/base/clock.h"
#include "infer/cache.h"
#include "infer/score.h"
#include "infer/session.h"
#include "tests/support/rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- session ---- */

enum { CONTEXT = 24, VOCAB = 61 };

/* What the layers of the small models are: every mixer as it comes, and these. */
static const char *const stacks[] = {
    "softmax(window=5)", "softmax(window=1/3)/softmax", "softmax(window=5)/mlstm",
    "gla(conv=4)+rope/softmax(window=7)+srope(rank=4)", "deltanet+srope/s6",
    "softmax(window=5)+srope/rela/linear/luna/normattn+srope/inline/retention/mlstm+rope/"
    "ssd/deltanet+srope/gla(conv=4)+srope(bias=1)/metala/qlstm/rglru/mingru/s6/softmax",
};
enum { N_STACKS = sizeof stacks / sizeof *stacks };

static const char *stack_name(int i)
{
    return i < N_STACKS ? stacks[i] : mixers[i - N_STACKS]->name;
}

/* Weights larger than a new model's, so that the logits are far from equal. */
static void small_model(struct model *m, const char *stack)
{
    struct config c;
    struct why    why = {"?"};

    config_defaults(&c);
    c.layers = 2, c.width = 32, c.heads = 4, c.kv_heads = 2;
    for (const char *p = strchr(stack, '/'); p && (p = strchr(p + 1, '/'));)
        c.layers++;                     // one for each entry, at least
    c.context = CONTEXT, c.vocab = VOCAB;
    snprintf(c.mixers, sizeof c.mixers, "%s", stack);
    ck_assert_msg(config_resolve(&c, &why) == 0, "%s", why.line);
    ck_assert_msg(model_open(m, &c, &why) == 0, "%s", why.line);
    model_init(m, 3);
    for (int i = 0; i < m->n_param; i++)
        for (size_t j = 0; m->param[i].is.cols && j < param_size(&m->param[i].is); j++)
            m->w[m->param[i].at + j] *= i ? 3 : 20;
}

static void random_tokens(int32_t *tokens, long n)
{
    struct rng r = rng_open(4, RNG_TEST, 0);

    for (long i = 0; i < n; i++)
        tokens[i] = (int32_t)rng_below(&r, VOCAB);
}

static void start(struct session *s, const struct model *m, int S)
{
    struct why why = {"?"};

    ck_assert_msg(session_open(s, m, S, &why) == 0, "%s", why.line);
}

/* -log softmax(logits)[id] */
static double nats_of(const real *logits, int id)
{
    double max = -INFINITY, sum = 0;

    for (int i = 0; i < VOCAB; i++)
        max = fmax(max, (double)logits[i]);
    for (int i = 0; i < VOCAB; i++)
        sum += exp((double)logits[i] - max);
    return max + log(sum) - (double)logits[id];
}

enum { LONG = 2 * SESSION_CHUNK + 77 };

/* Is a prompt of n tokens one to look at? */
static bool of_interest(long n)
{
    static const long lengths[] = {1, 2, CONTEXT - 1, CONTEXT, CONTEXT + 1, SESSION_CHUNK,
                                   SESSION_CHUNK + 1, LONG};

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        if (lengths[i] == n)
            return true;
    return false;
}

START_TEST(a_prompt_in_one_piece_is_its_tokens_one_by_one)
{
    int32_t *tokens = malloc(LONG * sizeof *tokens);
    struct model   m;
    struct session whole, single;

    small_model(&m, stack_name(_i));
    random_tokens(tokens, LONG);
    start(&whole, &m, 1);
    start(&single, &m, 1);
    for (long n = 0; n < LONG; n++) {
        session_extend(&single, tokens + n);
        if (!of_interest(n + 1))
            continue;
        session_reset(&whole);
        session_prompt(&whole, tokens, n + 1);
        ck_assert_int_eq(whole.pos[0], single.pos[0]);
        double error = rig_error_real(whole.logits, single.logits, VOCAB);

        ck_assert_msg(error <= rig_tolerance(), "%s: %g after %ld tokens",
                      stack_name(_i), error, n + 1);
    }
    session_close(&whole);
    session_close(&single);
    model_close(&m);
    free(tokens);
}
END_TEST

START_TEST(streaming_predicts_what_the_parallel_pass_predicts)
{
    int32_t tokens[CONTEXT + 1];
    real    nats[CONTEXT];
    double  spread = 0;
    struct model   m;
    struct pass    p;
    struct session s;
    struct why     why;

    small_model(&m, stack_name(_i));
    random_tokens(tokens, CONTEXT + 1);
    ck_assert_int_eq(pass_open(&p, &m, 1, CONTEXT, PASS_SCORE, &why), 0);
    model_score(&m, &p, 1, CONTEXT, tokens, tokens + 1, 0, nats);
    start(&s, &m, 1);
    for (int t = 0; t < CONTEXT; t++) {
        session_extend(&s, tokens + t);
        double want = nats_of(s.logits, tokens[t + 1]);

        spread = fmax(spread, fabs(want - log(VOCAB)));
        ck_assert_msg(fabs((double)nats[t] - want) < 1e-4 * fmax(1, want),
                      "%s: position %d has %.6f nats in parallel, %.6f streaming",
                      stack_name(_i), t, (double)nats[t], want);
    }
    ck_assert_msg(spread > 0.5, "%s: the model predicts nothing", stack_name(_i));
    session_close(&s);
    pass_close(&p);
    model_close(&m);
}
END_TEST

/* Prompt and then `more` tokens of three sequences, in one session and in one each. */
static void compare_sequences(const struct model *m, int more, const char *name)
{
    enum { S = 3, PROMPT = 7 };
    int32_t tokens[PROMPT + S * 2 * CONTEXT];
    struct session all, one;

    random_tokens(tokens, PROMPT + S * more);
    start(&all, m, S);
    start(&one, m, 1);
    session_prompt(&all, tokens, PROMPT);
    for (int t = 0; t < more; t++)
        session_extend(&all, tokens + PROMPT + t * S);
    for (int i = 0; i < S; i++) {
        session_reset(&one);
        session_prompt(&one, tokens, PROMPT);
        for (int t = 0; t < more; t++)
            session_extend(&one, tokens + PROMPT + t * S + i);
        double error = rig_error_real(all.logits + i * VOCAB, one.logits, VOCAB);

        ck_assert_msg(error <= rig_tolerance(),
                      "%s: sequence %d is off by %g after %d tokens", name, i,
                      error, more);
    }
    session_close(&all);
    session_close(&one);
}

START_TEST(sequences_of_a_session_do_not_disturb_each_other)
{
    struct model m;

    small_model(&m, stack_name(_i));
    compare_sequences(&m, 0, stack_name(_i));
    compare_sequences(&m, 3, stack_name(_i));
    compare_sequences(&m, 2 * CONTEXT, stack_name(_i));
    model_close(&m);
}
END_TEST

/* ---- slots ---- */

enum { TEXTS = 24, TEXT_MOST = 40 };

/* A text that is decoded: its first tokens are fed, the rest stepped. */
struct text_of {
    int32_t tokens[TEXT_MOST];
    int     n, fed;
    real    logits[VOCAB];          // of the last
};

static struct text_of text_of(int i)
{
    struct rng     r = rng_open(5, RNG_TEST, (uint64_t)i);
    struct text_of t = {.n = 2 + (int)rng_below(&r, TEXT_MOST - 2)};

    t.fed = 1 + (int)rng_below(&r, (uint64_t)t.n);
    for (int j = 0; j < t.n; j++)
        t.tokens[j] = (int32_t)rng_below(&r, VOCAB);
    return t;
}

static void decode_alone(struct session *s, struct text_of *t)
{
    int slot = 0;

    session_clear(s, slot);
    session_feed(s, slot, t->tokens, t->fed, t->logits);
    for (int i = t->fed; i < t->n; i++)
        session_step(s, &slot, t->tokens + i, 1, t->logits);
}

/* All texts through a session of 16 slots: they come when a slot is free, and who is in
 * a step, and in what order, is a matter of chance. */
static void decode_together(struct session *s, struct text_of *t, real *logits)
{
    struct rng r = rng_open(6, RNG_TEST, 0);
    int        at[TEXTS] = {0}, in[SESSION_ROWS], left = TEXTS, next = 0;

    for (int i = 0; i < s->S; i++)
        in[i] = -1;
    while (left) {
        int     slots[SESSION_ROWS], k = 0, first = (int)rng_below(&r, (uint64_t)s->S);
        int32_t tokens[SESSION_ROWS];

        for (int i = 0; i < s->S; i++) {
            int slot = (first + i) % s->S;

            if (in[slot] < 0 && next < TEXTS && rng_below(&r, 2)) {
                in[slot] = next;
                session_clear(s, slot);
                session_feed(s, slot, t[next].tokens, t[next].fed, t[next].logits);
                at[next] = t[next].fed;
                next++;
            }
            if (in[slot] >= 0 && at[in[slot]] == t[in[slot]].n)
                in[slot] = -1, left--;
            if (in[slot] >= 0 && rng_below(&r, 4)) {
                slots[k] = slot;
                tokens[k++] = t[in[slot]].tokens[at[in[slot]]++];
            }
        }
        if (k)
            session_step(s, slots, tokens, k, logits);
        for (int i = 0; i < k; i++)
            memcpy(t[in[slots[i]]].logits, logits + i * VOCAB, VOCAB * sizeof *logits);
    }
}

START_TEST(a_sequence_has_the_same_bits_alone_and_in_company)
{
    struct model   m;
    struct session s;
    struct text_of alone, *t = malloc(TEXTS * sizeof *t);
    real          *logits = malloc(SESSION_ROWS * VOCAB * sizeof *logits);

    small_model(&m, stack_name(_i));
    start(&s, &m, SESSION_ROWS);
    for (int i = 0; i < TEXTS; i++)
        t[i] = text_of(i);
    decode_together(&s, t, logits);
    for (int i = 0; i < TEXTS; i++) {
        alone = text_of(i);
        decode_alone(&s, &alone);
        ck_assert_msg(!memcmp(alone.logits, t[i].logits, sizeof alone.logits),
                      "%s: text %d of %d tokens", stack_name(_i), i, alone.n);
    }
    session_close(&s);
    model_close(&m);
    free(logits);
    free(t);
}
END_TEST

START_TEST(a_prompt_has_the_same_bits_in_any_pieces_that_end_at_chunks)
{
    int32_t *tokens = malloc(LONG * sizeof *tokens);
    real     whole[VOCAB], pieces[VOCAB];
    long     pos, at = 0;
    struct model   m;
    struct session s;

    small_model(&m, stack_name(_i));
    random_tokens(tokens, LONG);
    start(&s, &m, 3);
    session_feed(&s, 0, tokens, LONG, whole);
    session_feed(&s, 2, tokens, 5, NULL);
    ck_assert_int_eq(session_chunk(&s, 2, LONG), SESSION_CHUNK - 5);
    ck_assert_int_eq(session_chunk(&s, 2, 3), 3);
    while (at < SESSION_CHUNK)
        at += session_chunk(&s, 1, LONG - at), session_feed(&s, 1, tokens, at, NULL);
    void *state = malloc(s.state_bytes);

    session_get(&s, 1, state, &pos);
    ck_assert_int_eq(pos, SESSION_CHUNK);
    session_set(&s, 2, state, pos);
    session_copy(&s, 1, 2);
    session_feed(&s, 1, tokens + at, LONG - at, pieces);
    ck_assert_msg(!memcmp(whole, pieces, sizeof whole), "%s", stack_name(_i));
    free(state);
    free(tokens);
    session_close(&s);
    model_close(&m);
}
END_TEST

/* ---- the prompt cache ---- */

START_TEST(what_goes_on_from_a_snapshot_has_the_bits_of_what_is_fed_anew)
{
    int32_t *tokens = malloc(LONG * sizeof *tokens);
    real     anew[VOCAB], logits[VOCAB];
    struct model   m;
    struct session s;
    struct cache   c;

    small_model(&m, stack_name(_i));
    random_tokens(tokens, LONG);
    start(&s, &m, 2);
    cache_open(&c, &s, 1 << 24);
    ck_assert_int_eq(cache_get(&c, &s, 0, tokens, LONG, logits), 0);
    for (long at = 0, n; at < LONG; at += n) {
        n = session_chunk(&s, 0, LONG - at);
        session_feed(&s, 0, tokens + at, n, anew);
        cache_put(&c, &s, 0, tokens, at + n, at + n == LONG ? anew : NULL);
    }
    ck_assert_int_eq(cache_get(&c, &s, 1, tokens, LONG, logits), LONG);
    ck_assert(!memcmp(logits, anew, sizeof anew));
    tokens[LONG - 1] ^= 1;                      // all but the last chunk is known
    session_clear(&s, 0);
    session_feed(&s, 0, tokens, LONG, anew);
    session_clear(&s, 1);
    long known = cache_get(&c, &s, 1, tokens, LONG, logits);

    ck_assert_int_eq(known, LONG / SESSION_CHUNK * SESSION_CHUNK);
    session_feed(&s, 1, tokens + known, LONG - known, logits);
    ck_assert_msg(!memcmp(logits, anew, sizeof anew), "%s", stack_name(_i));
    ck_assert_int_eq(c.hits, 2);
    ck_assert_int_eq(c.misses, 1);
    cache_close(&c);
    session_close(&s);
    model_close(&m);
    free(tokens);
}
END_TEST

START_TEST(a_cache_keeps_to_its_memory_and_drops_what_is_oldest)
{
    int32_t tokens[64];
    real    logits[VOCAB] = {0};
    struct model   m;
    struct session s;
    struct cache   c;

    small_model(&m, "mlstm");
    random_tokens(tokens, 64);
    start(&s, &m, 1);
    cache_open(&c, &s, 3 * (s.state_bytes + VOCAB * sizeof(real) + 512));
    for (long n = 1; n <= 64; n++) {
        cache_put(&c, &s, 0, tokens, n, logits);
        ck_assert(c.held <= c.most);
        ck_assert_int_eq(cache_get(&c, &s, 0, tokens, 1, logits), 1);   // stays in use
    }
    ck_assert_int_eq(c.entries, 3);
    ck_assert_int_eq(cache_get(&c, &s, 0, tokens, 64, logits), 64);
    ck_assert_int_eq(cache_get(&c, &s, 0, tokens, 60, logits), 0);
    cache_close(&c);
    cache_open(&c, &s, 0);                      // nothing is kept
    cache_put(&c, &s, 0, tokens, 5, logits);
    ck_assert_int_eq(c.entries, 0);
    cache_close(&c);
    session_close(&s);
    model_close(&m);
}
END_TEST

/* Four sequences that may hold a million tokens each: 512 MiB; three are read. */
START_TEST(a_state_takes_memory_for_the_tokens_read)
{
    static const int32_t tokens[] = {1, 2, 3, 4};
    struct config  c;
    struct model   m;
    struct session s;
    struct why     why;
    size_t         held;

    config_defaults(&c);
    c.layers = 1, c.width = 16, c.heads = 1, c.vocab = VOCAB, c.context = 1 << 20;
    ck_assert(!config_resolve(&c, &why) && !model_open(&m, &c, &why));
    model_init(&m, 1);
    held = memory_held();
    start(&s, &m, 4);
    session_prompt(&s, tokens, 3);
    session_extend(&s, tokens);
    session_clear(&s, 2);
    session_copy(&s, 2, 1);
    ck_assert_uint_gt(s.state_bytes, 100 << 20);
    ck_assert_msg(memory_held() < held + (64 << 20), "%zu", memory_held() - held);
    ck_assert(!memcmp(s.state[1], s.state[2], s.state_bytes));
    session_close(&s);
    model_close(&m);
}
END_TEST

START_TEST(a_zeroed_session_closes)
{
    struct session s = {0};

    session_close(&s);
}
END_TEST

/* ---- score ---- */

/* Tokens handed over in uneven portions. */
struct portions {
    const int32_t *tokens;
    long           n, at, calls;
    long           fails_at;        // -1: never
};

static enum fail next_portion(void *user, uint32_t *ids, long n, long *got,
                              struct why *why)
{
    struct portions *p = user;
    long take = 1 + 5 * (p->calls++ % 4);

    if (p->fails_at >= 0 && p->at >= p->fails_at)
        return fail(why, FAIL_MEMORY, "no more");
    take = take < n ? take : n;
    take = take < p->n - p->at ? take : p->n - p->at;
    for (long i = 0; i < take; i++)
        ids[i] = (uint32_t)p->tokens[p->at++];
    *got = take;
    return 0;
}

/* What score_each was told. */
struct told {
    double nats;
    long   tokens, windows, last;
    const int32_t *ids;
};

static void tell(void *user, const uint32_t *ids, const real *nats, long n)
{
    struct told *t = user;

    for (long i = 0; i < n; i++) {
        ck_assert_int_eq(ids[i], t->ids[t->tokens++]);
        t->nats += (double)nats[i];
    }
    t->windows++;
    t->last = n;
}

enum { EOS = 2, TEXT = 5 * CONTEXT + 7 };

/* The nats of all windows, each by a session of its own. */
static double direct_sum(const struct model *m, const int32_t *tokens, long n)
{
    struct session s;
    double sum = 0;
    int32_t eos = EOS;

    start(&s, m, 1);
    for (long i = 0; i < n; i++) {
        if (i % CONTEXT == 0)
            session_reset(&s);
        session_extend(&s, i ? &tokens[i - 1] : &eos);
        sum += nats_of(s.logits, tokens[i]);
    }
    session_close(&s);
    return sum;
}

START_TEST(scores_add_up_for_any_batch)
{
    int32_t tokens[TEXT];
    struct model m;
    struct pass  p;
    struct why   why;

    small_model(&m, "softmax");
    random_tokens(tokens, TEXT);
    double want = direct_sum(&m, tokens, TEXT);

    for (int B = 1; B <= 8; B++) {
        struct portions from = {.tokens = tokens, .n = TEXT, .fails_at = -1};
        struct told     told = {.ids = tokens};
        struct score    s;
        double          buckets = 0;
        uint64_t        counted = 0;

        ck_assert_int_eq(pass_open(&p, &m, B, CONTEXT, PASS_SCORE, &why), 0);
        ck_assert_int_eq(score_run(&m, &p, B, EOS, next_portion, &from, 0, tell,
                                   &told, &s, &why), 0);
        for (int i = 0; i < SCORE_BUCKETS; i++)
            buckets += s.bucket_nats[i], counted += s.bucket_tokens[i];
        ck_assert_uint_eq(s.tokens, TEXT);
        ck_assert_uint_eq(counted, TEXT);
        ck_assert_int_eq(told.tokens, TEXT);
        ck_assert_int_eq(told.windows, 6);
        ck_assert_int_eq(told.last, 7);
        ck_assert_double_eq_tol(s.nats, want, 1e-4 * want);
        ck_assert_double_eq_tol(told.nats, s.nats, 1e-9 * want);
        ck_assert_double_eq_tol(buckets, s.nats, 1e-9 * want);
        ck_assert_uint_eq(s.bucket_tokens[0], 6);   // position 0 of every window
        ck_assert_uint_eq(s.bucket_tokens[1], 12);  // 1 and 2
        ck_assert_uint_eq(s.bucket_tokens[2], 24);  // 3 .. 6
        ck_assert_uint_eq(s.bucket_tokens[3], 40);  // 7 .. 14, not in the last window
        pass_close(&p);
    }
    model_close(&m);
}
END_TEST

START_TEST(scoring_stops_at_max_tokens_and_at_what_fails)
{
    int32_t tokens[TEXT];
    struct portions from = {.tokens = tokens, .n = TEXT, .fails_at = -1};
    struct score s;
    struct model m;
    struct pass  p;
    struct why   why;

    small_model(&m, "softmax");
    random_tokens(tokens, TEXT);
    ck_assert_int_eq(pass_open(&p, &m, 2, CONTEXT, PASS_SCORE, &why), 0);
    ck_assert_int_eq(score_run(&m, &p, 2, EOS, next_portion, &from, 60, NULL, NULL, &s,
                               &why), 0);
    ck_assert_uint_eq(s.tokens, 60);
    ck_assert_int_eq(from.at, 60);

    from.fails_at = 70;
    ck_assert_int_eq(
        score_run(&m, &p, 2, EOS, next_portion, &from, 0, NULL, NULL, &s, &why),
        FAIL_MEMORY);
    ck_assert_str_eq(why.line, "no more");

    from = (struct portions){.tokens = tokens, .n = TEXT, .fails_at = -1};
    tokens[50] = VOCAB;
    ck_assert_int_eq(score_run(&m, &p, 2, EOS, next_portion, &from, 0, NULL, NULL,
                               &s, &why),
                     FAIL_INPUT);
    ck_assert_ptr_nonnull(strstr(why.line, "token 61"));

    from = (struct portions){.tokens = tokens, .n = 0, .fails_at = -1};
    ck_assert_int_eq(score_run(&m, &p, 2, EOS, next_portion, &from, 0, NULL, NULL, &s,
                               &why), 0);
    ck_assert_uint_eq(s.tokens, 0);
    pass_close(&p);
    model_close(&m);
}
END_TEST

START_TEST(a_cursor_reads_a_shard_from_end_to_end)
{
    enum { N = 2 * SHARD_FRAME + 1234 };
    static struct shard_cursor c;
    static uint32_t ids[N], got[N];
    char path[300];
    struct shard_writer *w;
    struct shard s;
    struct why   why = {"?"};
    uint64_t     n;
    long                       at = 0, more = 1;

    for (uint32_t i = 0; i < N; i++)
        ids[i] = i * 7919 % 50000;
    snprintf(path, sizeof path, "%s/val.tok.zst", rig_tmp());
    ck_assert_msg(shard_create(&w, path, 2, &why) == 0, "%s", why.line);
    ck_assert_msg(shard_append(w, ids, N, &why) == 0, "%s", why.line);
    ck_assert_msg(shard_finish(w, &n, &why) == 0, "%s", why.line);
    ck_assert_msg(shard_open(&s, path, 2, &why) == 0, "%s", why.line);
    c = (struct shard_cursor){.shard = &s};
    for (; more; at += more)
        ck_assert_int_eq(
            shard_cursor_next(&c, got + at, N - at < 5000 ? N - at : 5000, &more, &why),
            0);
    ck_assert_int_eq(at, N);
    ck_assert_mem_eq(got, ids, sizeof ids);
    shard_close(&s);
}
END_TEST

START_TEST(the_spread_of_a_ratio_is_the_textbook_one)
{
    struct spread even = {0}, exact = {0}, one = {0};

    spread_add(&even, 1, 1);            // mean 2, deviation sqrt 2, of two
    spread_add(&even, 3, 1);
    ck_assert_double_eq_tol(spread_error(&even), 1, 1e-12);
    for (int i = 1; i < 6; i++)
        spread_add(&exact, 2.5 * i, i); // the ratio is the same in all
    ck_assert_double_eq_tol(spread_error(&exact), 0, 1e-6);
    spread_add(&one, 1, 1);
    ck_assert(isnan(spread_error(&one)));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("session");
    TCase *tc = tcase_create("session");

    tcase_add_loop_test(tc, a_prompt_in_one_piece_is_its_tokens_one_by_one, 0,
                        N_STACKS + n_mixers);
    tcase_add_loop_test(tc, streaming_predicts_what_the_parallel_pass_predicts, 0,
                        N_STACKS + n_mixers);
    tcase_add_loop_test(tc, sequences_of_a_session_do_not_disturb_each_other, 0,
                        N_STACKS + n_mixers);
    tcase_add_loop_test(tc, a_sequence_has_the_same_bits_alone_and_in_company, 0,
                        N_STACKS + n_mixers);
    tcase_add_loop_test(tc, a_prompt_has_the_same_bits_in_any_pieces_that_end_at_chunks,
                        0, N_STACKS + n_mixers);
    tcase_add_loop_test(tc, what_goes_on_from_a_snapshot_has_the_bits_of_what_is_fed_anew,
                        0, N_STACKS + n_mixers);
    tcase_add_test(tc, a_cache_keeps_to_its_memory_and_drops_what_is_oldest);
    tcase_add_test(tc, a_state_takes_memory_for_the_tokens_read);
    tcase_add_test(tc, a_zeroed_session_closes);
    suite_add_tcase(s, tc);

    tc = tcase_create("score");
    tcase_add_test(tc, scores_add_up_for_any_batch);
    tcase_add_test(tc, scoring_stops_at_max_tokens_and_at_what_fails);
    tcase_add_test(tc, a_cursor_reads_a_shard_from_end_to_end);
    tcase_add_test(tc, the_spread_of_a_ratio_is_the_textbook_one);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
