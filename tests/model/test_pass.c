/* The memory of a pass: laid out once, for any shape it holds, within its end. */
#include "model/kernels/gemm.h"
#include "model/pass.h"
#include "tests/support/rig.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { B = 3, T = 20, VOCAB = 61 };

static const char *const stacks[] = {
    "softmax", "gla+srope", "deltanet", "softmax(window=5)+srope/mlstm/luna/s6",
};
enum { N_STACKS = sizeof stacks / sizeof *stacks };

static void small_model(struct model *m, const char *stack)
{
    struct config c;
    struct why    why = {"?"};

    config_defaults(&c);
    c.layers = 4, c.width = 32, c.heads = 4, c.context = T, c.vocab = VOCAB;
    snprintf(c.mixers, sizeof c.mixers, "%s", stack);
    ck_assert_msg(!config_resolve(&c, &why) && !model_open(m, &c, &why), "%s", why.line);
    model_init(m, 3);
}

static void open_pass(struct pass *p, const struct model *m, enum pass_mode mode)
{
    struct why why = {"?"};

    ck_assert_msg(!pass_open(p, m, B, T, mode, &why), "%s", why.line);
}

static void random_tokens(int32_t *tokens, int n)
{
    struct rng r = rng_open(4, RNG_TEST, 0);

    for (int i = 0; i < n; i++)
        tokens[i] = (int32_t)rng_below(&r, VOCAB);
}

static void assert_bits(const char *what, const real *a, const real *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof *a))
            ck_abort_msg("%s: element %zu is %.9g, not %.9g", what, i, (double)a[i],
                         (double)b[i]);
}

/* ---- its end ----------------------------------------------------------------------- */

/* What f(user) wrote to stderr before SIGABRT ended it. */
static const char *last_words(void (*f)(void *user), void *user)
{
    static char text[256];
    int   pipes[2], status;
    pid_t child;

    ck_assert_int_eq(pipe(pipes), 0);
    child = fork();
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        f(user);
        _exit(0);
    }
    close(pipes[1]);
    text[0] = 0;
    for (ssize_t n, at = 0; (n = read(pipes[0], text + at, sizeof text - 1 - at)) > 0;)
        text[at += n] = 0;
    close(pipes[0]);
    waitpid(child, &status, 0);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %d: %s",
                  status, text);
    return text;
}

static void take_too_much(void *unused)
{
    static _Alignas(64) char memory[256];
    struct arena a = arena_over(memory, sizeof memory);

    (void)unused;
    arena_bytes(&a, "row", 100);
    arena_bytes(&a, "qkv", 129);
}

START_TEST(a_buffer_that_does_not_fit_ends_the_program_with_its_name)
{
    ck_assert_str_eq(last_words(take_too_much, NULL),
                     "arena: 'qkv' needs 192 bytes, 128 are left\n");
}
END_TEST

static void lay_out_short(void *user)
{
    const struct mixer_cfg *c = user;
    static _Alignas(64) char memory[1 << 16];
    struct mixer_layer       l = {.ctx = {.cfg = c, .B = 1, .T = 8}};
    struct arena             kept, scratch = arena_over(NULL, 0);
    struct sizes             sizes;

    mixer_sizes(c, 1, 8, &sizes);
    ck_assert_uint_le(sizes.kept, sizeof memory);
    kept = arena_over(memory, sizes.kept - 64);
    mixer_layout(&l, PASS_TRAIN, &kept, &scratch);
}

START_TEST(a_mixers_buffer_has_its_name)
{
    struct mixer_cfg c = {.C = 32, .H = 4, .Hk = 4, .layers = 1, .context = 8};
    struct why       why = {"?"};

    ck_assert_msg(!mixer_parse(&c, "softmax", &why), "%s", why.line);
    ck_assert_str_eq(last_words(lay_out_short, &c),
                     sizeof(real) == 4 ? "arena: 'lse' needs 128 bytes, 64 are left\n"
                                       : "arena: 'lse' needs 256 bytes, 192 are left\n");
}
END_TEST

START_TEST(an_arena_is_full_to_its_last_line)
{
    static _Alignas(64) char memory[256];
    struct arena a = arena_over(memory, sizeof memory);

    ck_assert_ptr_eq(arena_bytes(&a, "row", 100), memory);
    ck_assert_ptr_eq(arena_bytes(&a, "qkv", 128), memory + 128);
    ck_assert_uint_eq(a.used, sizeof memory);
}
END_TEST

static void score_too_much(void *user)
{
    static int32_t tokens[B * T + B];
    static real    nats[B * T + B];
    struct model   m;
    struct pass    p;

    (void)user;
    small_model(&m, "softmax");
    open_pass(&p, &m, PASS_SCORE);
    model_score(&m, &p, B, T + 1, tokens, tokens, 0, nats);
}

START_TEST(a_shape_that_a_pass_has_no_memory_for_ends_the_program)
{
    ck_assert_ptr_nonnull(strstr(last_words(score_too_much, NULL), "arena: '"));
}
END_TEST

/* ---- its shapes -------------------------------------------------------------------- */

START_TEST(a_pass_scores_every_shape_it_holds_as_one_of_that_shape)
{
    static const int shapes[][2] = {{B, T}, {1, 7}, {2, T}, {B, 1}, {B, T}};
    int32_t      tokens[B * T + 1];
    real         got[B * T], want[B * T];
    struct model m;
    struct pass  p, own;
    struct why   why;

    small_model(&m, stacks[_i]);
    random_tokens(tokens, B * T + 1);
    open_pass(&p, &m, PASS_SCORE);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int b = shapes[i][0], t = shapes[i][1];

        model_score(&m, &p, b, t, tokens, tokens + 1, 0, got);
        ck_assert(!pass_open(&own, &m, b, t, PASS_SCORE, &why));
        model_score(&m, &own, b, t, tokens, tokens + 1, 0, want);
        assert_bits(stacks[_i], got, want, (size_t)b * t);
        pass_close(&own);
    }
    pass_close(&p);
    model_close(&m);
}
END_TEST

/* The logits of all tokens at once would take too much: they come in slices. */
START_TEST(scores_with_the_likeliest_beside_are_the_scores)
{
    enum { LONG = 600, WIDE = 1 << 14 };
    int32_t       tokens[LONG + 1], targets[LONG], best[LONG];
    real          got[LONG], want[LONG];
    struct likely top[LONG];
    struct config c;
    struct model  m;
    struct pass   p;
    struct why    why = {"?"};

    config_defaults(&c);
    c.layers = 1, c.width = 16, c.heads = 1, c.context = LONG, c.vocab = WIDE;
    snprintf(c.mixers, sizeof c.mixers, "softmax");
    ck_assert_msg(!config_resolve(&c, &why) && !model_open(&m, &c, &why), "%s", why.line);
    model_init(&m, 3);
    random_tokens(tokens, LONG + 1);
    ck_assert_msg(!pass_open(&p, &m, 1, LONG, PASS_SCORE, &why), "%s", why.line);
    model_score(&m, &p, 1, LONG, tokens, tokens + 1, 0, want);
    rig_poison(p.n, (size_t)LONG * c.width * sizeof *p.n);
    model_score_top(&m, &p, LONG, tokens, tokens + 1, got, top, 1);
    for (int i = 0; i < LONG; i++) {
        ck_assert_msg(fabs((double)got[i] - (double)want[i]) < 1e-4, "%d: %g, not %g", i,
                      (double)got[i], (double)want[i]);
        targets[i] = i % 7 ? tokens[i + 1] : -1;
    }
    rig_poison(p.n, (size_t)LONG * c.width * sizeof *p.n);
    model_predict(&m, &p, 1, LONG, tokens, targets, best);
    for (int i = 0; i < LONG; i++)
        ck_assert_int_eq(best[i], i % 7 ? top[i].id : -1);
    pass_close(&p);
    model_close(&m);
}
END_TEST

/* As what reports memory says beforehand. */
START_TEST(a_pass_takes_the_memory_that_was_said)
{
    static const enum pass_mode modes[] = {PASS_EXTEND, PASS_SCORE, PASS_TRAIN,
                                           PASS_RECOMPUTE};
    struct model m;
    struct pass  p;

    small_model(&m, stacks[_i]);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        open_pass(&p, &m, modes[i]);
        ck_assert_uint_eq(pass_bytes(&m, B, T, modes[i]), p.acts_bytes + p.dw_bytes);
        ck_assert_uint_eq(p.dw_bytes, i < 2 ? 0 : m.n * sizeof(real));
        pass_close(&p);
    }
    model_close(&m);
}
END_TEST

/* The loss is the mean over the targets that there are, and its gradient has no part of
 * the others. */
START_TEST(targets_that_are_ignored_count_for_nothing)
{
    int32_t      tokens[B * T + 1], targets[B * T];
    real         nats[B * T];
    double       sum = 0;
    struct model m;
    struct pass  p;

    small_model(&m, stacks[_i]);
    random_tokens(tokens, B * T + 1);
    open_pass(&p, &m, PASS_TRAIN);
    for (int i = 0; i < B * T; i++)
        targets[i] = -1;
    ck_assert_double_eq(model_step(&m, &p, tokens, targets, 0, 1), 0);
    for (size_t i = 0; i < m.n; i++)
        if (p.dw[i] != 0)
            ck_abort_msg("%s: gradient %zu of nothing is %g", stacks[_i], i,
                         (double)p.dw[i]);
    model_score(&m, &p, B, T, tokens, tokens + 1, 0, nats);
    for (int i = 0; i < 3; i++) {
        targets[7 * i] = tokens[7 * i + 1];
        sum += nats[7 * i];
    }
    ck_assert_double_eq_tol(model_step(&m, &p, tokens, targets, 0, 1), sum / 3, 1e-5);
    pass_close(&p);
    model_close(&m);
}
END_TEST

START_TEST(scoring_between_two_steps_changes_neither)
{
    int32_t      tokens[B * T + 1];
    real         nats[B * T];
    struct model m;
    struct pass  p, alone;

    small_model(&m, stacks[_i]);
    random_tokens(tokens, B * T + 1);
    open_pass(&p, &m, PASS_TRAIN);
    open_pass(&alone, &m, PASS_TRAIN);
    for (int i = 0; i < 2; i++) {
        model_step(&m, &p, tokens, tokens + 1, 0, 1);
        model_score(&m, &p, 1, 7, tokens, tokens + 1, 0, nats);
        model_step(&m, &alone, tokens, tokens + 1, 0, 1);
    }
    assert_bits(stacks[_i], p.dw, alone.dw, m.n);
    pass_close(&p);
    pass_close(&alone);
    model_close(&m);
}
END_TEST

/* Gradients as they were when a pass said that they are ready. */
struct told {
    const struct pass *p;
    real              *dw;
    size_t             from;
    int                times;
};

static void hear(void *user, size_t from)
{
    struct told *t = user;

    ck_assert_uint_lt(from, t->from);
    memcpy(t->dw + from, t->p->dw + from, (t->from - from) * sizeof *t->dw);
    t->from = from;
    t->times++;
}

START_TEST(gradients_are_told_ready_when_nothing_more_is_added)
{
    int32_t      tokens[B * T + 1];
    struct model m;
    struct pass  p;
    struct told  t;

    small_model(&m, stacks[_i]);
    random_tokens(tokens, B * T + 1);
    open_pass(&p, &m, _i % 2 ? PASS_RECOMPUTE : PASS_TRAIN);
    t = (struct told){&p, rig_reals(m.n), m.n, 0};
    p.ready = hear;
    p.ready_user = &t;
    model_step(&m, &p, tokens, tokens + 1, 0, 1);
    ck_assert_int_eq(t.times, m.cfg.layers + 1);
    ck_assert_uint_eq(t.from, m.param[m.first[0]].at);
    assert_bits(stacks[_i], t.dw + t.from, p.dw + t.from, m.n - t.from);
    free(t.dw);
    pass_close(&p);
    model_close(&m);
}
END_TEST

/* Memory of a pass is zero when it opens; no result may come from that. */
START_TEST(nothing_is_read_that_the_pass_did_not_write)
{
    int32_t      tokens[B * T + 1];
    struct model m;
    struct pass  p, poisoned;
    size_t       used;

    small_model(&m, stacks[_i]);
    random_tokens(tokens, B * T + 1);
    open_pass(&p, &m, PASS_TRAIN);
    open_pass(&poisoned, &m, PASS_TRAIN);
    used = (size_t)((char *)poisoned.block - (char *)poisoned.acts);
    rig_poison(poisoned.acts, used);
    model_step(&m, &p, tokens, tokens + 1, 0, 1);
    model_step(&m, &poisoned, tokens, tokens + 1, 0, 1);
    assert_bits(stacks[_i], poisoned.dw, p.dw, m.n);
    pass_close(&p);
    pass_close(&poisoned);
    model_close(&m);
}
END_TEST

/* ---- products by another ----------------------------------------------------------- */

/* Loss and gradients of one step of m. */
static double one_step(const struct model *m, const struct gemm *by, double *dw)
{
    struct pass p;
    int32_t     tokens[B * T + 1];
    double      loss;

    gemm_use(by);
    open_pass(&p, m, PASS_TRAIN);
    random_tokens(tokens, B * T + 1);
    loss = model_step(m, &p, tokens, tokens + 1, 0, 1);
    for (size_t i = 0; i < m->n; i++)
        dw[i] = p.dw[i];
    pass_close(&p);
    gemm_use(&gemm_own);
    return loss;
}

START_TEST(every_mixer_has_the_same_gradients_by_openblas)
{
    const struct gemm *openblas;
    struct model       m;
    struct why         why;
    double            *own, *its, norm = 0, apart = 0;

    ck_assert_msg(!gemm_openblas(&openblas, &why), "%s", why.line);
    small_model(&m, mixers[_i]->name);
    own = malloc(m.n * sizeof *own);
    its = malloc(m.n * sizeof *its);
    ck_assert_double_eq_tol(one_step(&m, &gemm_own, own), one_step(&m, openblas, its),
                            rig_tolerance());
    for (size_t i = 0; i < m.n; i++) {
        norm += own[i] * own[i];
        apart += (its[i] - own[i]) * (its[i] - own[i]);
    }
    ck_assert_msg(norm > 0 && sqrt(apart / norm) < rig_tolerance(), "%s: %g",
                  mixers[_i]->name, sqrt(apart / norm));
    free(own), free(its);
    model_close(&m);
}
END_TEST

/* Rounding to eight bits moves a gradient by some 2^-8 of its length; mixers that divide
 * by sums, by more. */
START_TEST(every_mixer_has_nearly_the_same_gradients_in_bf16)
{
    struct model m;
    double      *own, *its, norm = 0, apart = 0;

    small_model(&m, mixers[_i]->name);
    own = malloc(m.n * sizeof *own);
    its = malloc(m.n * sizeof *its);
    ck_assert_double_eq_tol(one_step(&m, &gemm_own, own), one_step(&m, &gemm_bf16, its),
                            0.05);
    for (size_t i = 0; i < m.n; i++) {
        norm += own[i] * own[i];
        apart += (its[i] - own[i]) * (its[i] - own[i]);
    }
    ck_assert_msg(apart > 0 && sqrt(apart / norm) < 0.1, "%s: %g", mixers[_i]->name,
                  sqrt(apart / norm));
    free(own), free(its);
    model_close(&m);
}
END_TEST

/* ---- fewer bits -------------------------------------------------------------------- */

/* Besides every mixer with one head, whose matrices have rows of a multiple of 32. */
static const char *const more_matrices[] = {
    "linear(heads=1,feature=hedgehog)", "s6(state=32)", "softmax(heads=1)+srope",
};
enum { N_MORE = sizeof more_matrices / sizeof *more_matrices };

static void score_some(const struct model *m, real *nats)
{
    struct pass p;
    int32_t     tokens[B * T + 1];

    open_pass(&p, m, PASS_SCORE);
    random_tokens(tokens, B * T + 1);
    model_score(m, &p, B, T, tokens, tokens + 1, 0, nats);
    pass_close(&p);
}

/* With other bits in the place of any of them, nats are others. One that fails here is
 * read by something else than product_forward: it is to be declared direct. */
START_TEST(every_matrix_in_fewer_bits_is_read_in_them)
{
    char         entry[64];
    real         nats[B * T], others[B * T];
    struct why   why = {"?"};
    struct model m;

    snprintf(entry, sizeof entry, _i < n_mixers ? "%s(heads=1)" : "%s",
             _i < n_mixers ? mixers[_i]->name : more_matrices[_i - n_mixers]);
    small_model(&m, entry);
    ck_assert_msg(!model_pack(&m, "bf16", &why), "%s", why.line);
    ck_assert_int_gt(m.packed.n, 0);
    score_some(&m, nats);
    for (int i = 0; i < m.packed.n; i++) {
        const struct packed_matrix *x = &m.packed.matrix[i];
        size_t bytes = packed_bytes(m.packed.type, (size_t)x->rows * x->cols);
        void  *data = (void *)x->data, *was = malloc(bytes);

        memcpy(was, data, bytes);
        memset(data, 0x3f, bytes);              // 0.75 in bf16
        score_some(&m, others);
        ck_assert_msg(memcmp(nats, others, sizeof nats), "%s: matrix %d, %d x %d", entry,
                      i, x->rows, x->cols);
        memcpy(data, was, bytes);
        free(was);
    }
    model_close(&m);
}
END_TEST

/* Every matrix that a product reads, rounded as those in fewer bits are. */
static void round_weights(struct model *m, const struct packed_weights *like)
{
    for (int i = 0; i < like->n; i++) {
        const struct packed_matrix *x = &like->matrix[i];
        size_t n = (size_t)x->rows * x->cols, at = (size_t)(x->w - m->w);
        float *f = malloc(n * sizeof *f);
        void  *packed = malloc(packed_bytes(like->type, n));

        for (size_t j = 0; j < n; j++)
            f[j] = (float)m->w[at + j];
        packed_write(like->type, packed, f, n);
        packed_read(like->type, f, packed, n);
        for (size_t j = 0; at && j < n; j++)        // the embedding is not multiplied
            m->w[at + j] = f[j];
        free(f), free(packed);
    }
}

/* With what meets them left whole; then, where it is rounded, too, within the error of
 * bf16 of that. */
START_TEST(weights_in_fewer_bits_are_the_weights_rounded)
{
    const char   *type = _i / N_STACKS ? "q8_0" : "bf16";
    real          plain[B * T], nats[B * T], again[B * T], rough[B * T];
    double        want[B * T];
    struct config c;
    struct model  m;
    struct why    why = {"?"};

    small_model(&m, stacks[_i % N_STACKS]);
    c = m.cfg;
    model_close(&m);
    c.tied = 0;
    ck_assert_msg(!model_open(&m, &c, &why), "%s", why.line);
    model_init(&m, 3);
    score_some(&m, plain);
    ck_assert_msg(!model_pack(&m, type, &why), "%s", why.line);
    score_some(&m, rough);
    m.packed.round_rows = false;
    score_some(&m, nats);
    for (int i = 0; i < B * T; i++)
        ck_assert_msg(fabs((double)(rough[i] - nats[i])) <
                          (gemm_rounds(m.packed.type) ? 0.02 : 1e-12),
                      "%s: %g nats, %g with whole rows", type, (double)rough[i],
                      (double)nats[i]);
    ck_assert(memcmp(nats, plain, sizeof nats) && product_reads_packed());
    model_unpack(&m);
    ck_assert(!product_reads_packed() && m.packed.n == 0);
    score_some(&m, again);
    assert_bits(type, again, plain, B * T);
    ck_assert_msg(!model_pack(&m, type, &why), "%s", why.line);
    round_weights(&m, &m.packed);
    ck_assert_msg(!model_pack(&m, "f32", &why), "%s", why.line);
    score_some(&m, again);
    ck_assert(!product_reads_packed());
    for (int i = 0; i < B * T; i++)
        want[i] = again[i];
    rig_assert_error(type, nats, want, B * T);
    ck_assert_int_eq(model_pack(&m, "q4_0", &why), FAIL_USAGE);
    model_close(&m);
}
END_TEST

/* ---- attention transfer ------------------------------------------------------------ */

/* Model b with its mixers' parameters moved by h u: the loss of its imitation of a. */
static double imitation(const struct model *a, struct model *b, const real *u, double h)
{
    struct pass p, q;
    int32_t     tokens[B * T];
    double      loss;

    for (size_t i = 0; i < b->n; i++)
        b->w[i] += (real)h * u[i];
    open_pass(&p, b, PASS_TRAIN);
    open_pass(&q, a, PASS_TRAIN);
    random_tokens(tokens, B * T);
    loss = model_imitate(b, &p, a, &q, tokens, 0, 1);
    for (size_t i = 0; i < b->n; i++)
        b->w[i] -= (real)h * u[i];
    pass_close(&p);
    pass_close(&q);
    return loss;
}

/* Along the gradient itself the loss rises by its squared norm; what is not a mixer's has
 * none. */
START_TEST(imitation_has_the_gradient_of_its_loss_in_mixers_alone)
{
    const bool   fine = sizeof(real) == sizeof(double);
    struct model a, b;
    struct pass  p, q;
    int32_t      tokens[B * T];
    double       norm = 0, h, rise;
    real        *u;

    small_model(&a, "softmax");
    small_model(&b, stacks[_i]);
    open_pass(&p, &b, _i % 2 ? PASS_RECOMPUTE : PASS_TRAIN);
    open_pass(&q, &a, PASS_TRAIN);
    random_tokens(tokens, B * T);
    memset(p.dw, 0, b.n * sizeof *p.dw);
    model_imitate(&b, &p, &a, &q, tokens, 0, 1);
    u = malloc(b.n * sizeof *u);
    memcpy(u, p.dw, b.n * sizeof *u);
    for (int i = 0; i < b.n_param; i++)
        for (size_t j = 0; j < param_size(&b.param[i].is); j++) {
            double d = (double)u[b.param[i].at + j];

            norm += d * d;
            ck_assert_msg(d == 0 || model_of_mixer(&b, i), "%s", b.param[i].name);
        }
    if (_i == 0) {                              // the same mixers answer alike
        ck_assert_double_eq(norm, 0);
    } else {
        h = (fine ? 1e-7 : 1e-2) / sqrt(norm);
        rise = imitation(&a, &b, u, h) - imitation(&a, &b, u, -h);
        ck_assert_double_gt(norm, 1e-6);
        ck_assert_double_eq_tol(rise / (2 * h), norm, (fine ? 1e-6 : 2e-2) * norm);
    }
    free(u);
    pass_close(&p);
    pass_close(&q);
    model_close(&a);
    model_close(&b);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("pass");
    TCase *t = tcase_create("pass");

    // before anything runs in parallel: libgomp does not survive a fork
    tcase_add_test(t, a_buffer_that_does_not_fit_ends_the_program_with_its_name);
    tcase_add_test(t, a_mixers_buffer_has_its_name);
    tcase_add_test(t, a_shape_that_a_pass_has_no_memory_for_ends_the_program);
    tcase_add_test(t, an_arena_is_full_to_its_last_line);
    tcase_add_loop_test(t, a_pass_scores_every_shape_it_holds_as_one_of_that_shape, 0,
                        N_STACKS);
    tcase_add_test(t, scores_with_the_likeliest_beside_are_the_scores);
    tcase_add_loop_test(t, a_pass_takes_the_memory_that_was_said, 0, N_STACKS);
    tcase_add_loop_test(t, targets_that_are_ignored_count_for_nothing, 0, N_STACKS);
    tcase_add_loop_test(t, scoring_between_two_steps_changes_neither, 0, N_STACKS);
    tcase_add_loop_test(t, gradients_are_told_ready_when_nothing_more_is_added, 0,
                        N_STACKS);
    tcase_add_loop_test(t, nothing_is_read_that_the_pass_did_not_write, 0, N_STACKS);
    tcase_add_loop_test(t, every_mixer_has_the_same_gradients_by_openblas, 0, n_mixers);
    tcase_add_loop_test(t, every_mixer_has_nearly_the_same_gradients_in_bf16, 0,
                        n_mixers);
    tcase_add_loop_test(t, every_matrix_in_fewer_bits_is_read_in_them, 0,
                        n_mixers + N_MORE);
    tcase_add_loop_test(t, weights_in_fewer_bits_are_the_weights_rounded, 0,
                        2 * N_STACKS);
    tcase_add_loop_test(t, imitation_has_the_gradient_of_its_loss_in_mixers_alone, 0,
                        N_STACKS);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
