/* The gated delta rule against its recurrence, forward and backward, step by
 * step in double. */
#include "model/cores/delta.h"
#include "tests/support/layer.h"
#include "tests/support/rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a problem and its solution -------------------------------------------------- */

struct problem {
    struct delta c;
    size_t       n_k, n_v, n_g;     // elements of q and k, of v and o, of the gates
    real        *q, *k, *v, *log_a, *beta, *d_o;
    real        *o, *dq, *dk, *dv, *dlog_a, *dbeta;
};

static void reset(void) { rig_seed(11); }

/* Each row of e to length 1. */
static void unit(real *a, size_t n, int e)
{
    for (size_t i = 0; i < n; i += e) {
        double sum = 0;

        for (int j = 0; j < e; j++)
            sum += (double)a[i + j] * (double)a[i + j];
        for (int j = 0; j < e; j++)
            a[i + j] /= (real)sqrt(sum);
    }
}

/* Random rows; keys and queries of length 1. */
static struct problem draw(int B, int T, int H, int dk, int dv)
{
    size_t         n = (size_t)B * T * H;
    struct problem p = {{.B = B, .T = T, .H = H, .dk = dk, .dv = dv}, n * dk, n * dv, n};
    size_t         width = dk > dv ? dk : dv;

    p.c.ld = H * width, p.c.ld_o = (size_t)H * dv;
    p.c.scale = 1 / (real)sqrt(dk);
    p.q = rig_normals(n * width), p.k = rig_normals(n * width);
    p.v = rig_normals(n * width);
    p.d_o = rig_normals(p.n_v);
    p.log_a = rig_normals(n), p.beta = rig_normals(n);
    for (size_t i = 0; i < (size_t)B * T; i++) {
        unit(p.q + i * p.c.ld, (size_t)H * dk, dk);
        unit(p.k + i * p.c.ld, (size_t)H * dk, dk);
    }
    for (size_t i = 0; i < n; i++) {
        p.log_a[i] = -(real)0.1 * (real)fabs(p.log_a[i]);
        p.beta[i] = 1 / (1 + (real)exp(-p.beta[i]));
    }
    p.c.q = p.q, p.c.k = p.k, p.c.v = p.v, p.c.log_a = p.log_a, p.c.beta = p.beta;
    p.o = rig_reals(p.n_v), p.dlog_a = rig_reals(n), p.dbeta = rig_reals(n);
    p.dq = rig_reals(n * width), p.dk = rig_reals(n * width), p.dv = rig_reals(n * width);
    return p;
}

static void discard(struct problem *p)
{
    free(p->q), free(p->k), free(p->v), free(p->log_a), free(p->beta), free(p->d_o);
    free(p->o), free(p->dq), free(p->dk), free(p->dv), free(p->dlog_a), free(p->dbeta);
}

static void run(struct problem *p)
{
    struct delta_grad g = {p->dq, p->dk, p->dv, p->dlog_a, p->dbeta};
    real *kept = rig_reals(delta_kept(&p->c));
    real *scratch = rig_reals(delta_scratch(&p->c, false));
    real *back = rig_reals(delta_scratch(&p->c, true));

    delta_forward(&p->c, p->o, kept, scratch);
    delta_backward(&p->c, &g, p->d_o, kept, back);
    free(kept), free(scratch), free(back);
}

/* Outputs of extend in pieces of `piece` tokens, of one sequence; state is
 * left as it ends. */
static void run_in_pieces(const struct problem *p, int piece, real *state, real *o)
{
    void *states[] = {state};

    for (int t = 0; t < p->c.T; t += piece) {
        struct delta c = p->c;
        real        *scratch;

        c.T = c.T - t < piece ? c.T - t : piece;
        c.q += t * c.ld, c.k += t * c.ld, c.v += t * c.ld;
        c.log_a += (size_t)t * c.H, c.beta += (size_t)t * c.H;
        scratch = rig_reals(delta_scratch(&c, false));
        delta_extend(&c, states, 0, o + t * c.ld_o, scratch);
        free(scratch);
    }
}

/* ---- the truth ------------------------------------------------------------------- */

struct truth {
    double *o, *dq, *dk, *dv, *dlog_a, *dbeta;      // strides as in the problem
};

enum { WIDEST = 32 };

/* One token of one head in double. */
struct token {
    double q[WIDEST], k[WIDEST], v[WIDEST], d_o[WIDEST], u[WIDEST], a, beta;
};

static void load(struct token *s, const struct problem *p, size_t row, int h)
{
    size_t at_k = row * p->c.ld + (size_t)h * p->c.dk;
    size_t at_v = row * p->c.ld + (size_t)h * p->c.dv;

    for (int i = 0; i < p->c.dk; i++)
        s->q[i] = p->q[at_k + i], s->k[i] = p->k[at_k + i];
    for (int j = 0; j < p->c.dv; j++) {
        s->v[j] = p->v[at_v + j];
        s->d_o[j] = p->d_o[row * p->c.ld_o + (size_t)h * p->c.dv + j];
    }
    s->a = exp((double)p->log_a[row * p->c.H + h]);
    s->beta = p->beta[row * p->c.H + h];
}

/* What is stored under the token's key, in column j of the decayed state. */
static double found(const struct token *s, const double *S, int j, int dk, int dv)
{
    double sum = 0;

    for (int i = 0; i < dk; i++)
        sum += s->a * S[i * dv + j] * s->k[i];
    return sum;
}

/* S[0] is the state before the token, S[1] the one after it, each dk dv. */
static void step(struct token *s, double *S, double *o, int dk, int dv, double scale)
{
    double *after = S + dk * dv;

    for (int j = 0; j < dv; j++) {
        s->u[j] = s->beta * (s->v[j] - found(s, S, j, dk, dv));
        o[j] = 0;
        for (int i = 0; i < dk; i++) {
            after[i * dv + j] = s->a * S[i * dv + j] + s->k[i] * s->u[j];
            o[j] += scale * after[i * dv + j] * s->q[i];
        }
    }
}

/* R: the gradient of the state after the token, then of the one before it. */
static void step_back(const struct token *s, const double *S, double *R,
                      const struct truth *w, size_t row_k, size_t row_v,
                      size_t gate, int dk, int dv, double scale)
{
    const double *after = S + dk * dv;
    double        du[WIDEST], dg = 0, dbeta = 0;

    for (int i = 0; i < dk; i++) {
        w->dq[row_k + i] = w->dk[row_k + i] = 0;
        for (int j = 0; j < dv; j++) {
            R[i * dv + j] += scale * s->q[i] * s->d_o[j];
            w->dq[row_k + i] += scale * after[i * dv + j] * s->d_o[j];
        }
    }
    for (int j = 0; j < dv; j++) {
        du[j] = 0;
        for (int i = 0; i < dk; i++)
            du[j] += R[i * dv + j] * s->k[i];
        w->dv[row_v + j] = s->beta * du[j];
        dbeta += du[j] * (s->v[j] - found(s, S, j, dk, dv));
    }
    for (int i = 0; i < dk; i++)
        for (int j = 0; j < dv; j++) {
            double *r = R + i * dv + j, P = s->a * S[i * dv + j];

            w->dk[row_k + i] += *r * s->u[j] - s->beta * P * du[j];
            *r -= s->beta * s->k[i] * du[j];
            dg += *r * P;
            *r *= s->a;
        }
    w->dlog_a[gate] = dg;
    w->dbeta[gate] = dbeta;
}

static void solve_head(const struct problem *p, struct truth *w, int b, int h)
{
    const int     T = p->c.T, dk = p->c.dk, dv = p->c.dv, n = dk * dv;
    struct token *s = malloc(T * sizeof *s);
    double       *S = calloc((size_t)(T + 1) * n, sizeof *S), R[WIDEST * WIDEST] = {0};
    const double  scale = (double)p->c.scale;

    for (int t = 0; t < T; t++) {
        size_t row = (size_t)b * T + t;

        load(&s[t], p, row, h);
        step(&s[t], S + (size_t)t * n, w->o + row * p->c.ld_o + (size_t)h * dv, dk, dv,
             scale);
    }
    for (int t = T - 1; t >= 0; t--) {
        size_t row = (size_t)b * T + t;

        step_back(&s[t], S + (size_t)t * n, R, w, row * p->c.ld + (size_t)h * dk,
                  row * p->c.ld + (size_t)h * dv, row * p->c.H + h, dk, dv, scale);
    }
    free(s), free(S);
}

/* Rows of `width` are compared; what lies between them is the caller's. */
static void assert_rows(const char *what, const real *a, const double *b, size_t rows,
                        size_t width, size_t ld)
{
    double most = 0, off = 0;

    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < width; j++) {
            double d = fabs((double)a[i * ld + j] - b[i * ld + j]);

            most = fmax(most, fabs(b[i * ld + j]));
            off = d <= off ? off : d;               // a NaN stays
        }
    if (!(off <= rig_tolerance() * most))
        ck_abort_msg("%s: off by %g of %g", what, off, most);
}

static void assert_solved(const struct problem *p)
{
    const struct delta *c = &p->c;
    size_t       rows = (size_t)c->B * c->T, n = rows * c->ld, nk = (size_t)c->H * c->dk;
    size_t       nv = (size_t)c->H * c->dv;
    struct truth w = {calloc(p->n_v, sizeof(double)), calloc(n, sizeof(double)),
                      calloc(n, sizeof(double)),      calloc(n, sizeof(double)),
                      calloc(p->n_g, sizeof(double)), calloc(p->n_g, sizeof(double))};

    for (int b = 0; b < c->B; b++)
        for (int h = 0; h < c->H; h++)
            solve_head(p, &w, b, h);
    assert_rows("o", p->o, w.o, rows, nv, c->ld_o);
    assert_rows("dq", p->dq, w.dq, rows, nk, c->ld);
    assert_rows("dk", p->dk, w.dk, rows, nk, c->ld);
    assert_rows("dv", p->dv, w.dv, rows, nv, c->ld);
    assert_rows("dlog_a", p->dlog_a, w.dlog_a, rows, c->H, c->H);
    assert_rows("dbeta", p->dbeta, w.dbeta, rows, c->H, c->H);
    free(w.o), free(w.dq), free(w.dk), free(w.dv), free(w.dlog_a), free(w.dbeta);
}

/* ---- the chunk form -------------------------------------------------------------- */

/* B, T, H, dk, dv: one token, parts of a block, whole and ragged blocks and chunks,
 * more heads than lanes. */
static const int shapes[][5] = {
    {1, 1, 1, 4, 4},   {2, 2, 1, 1, 3},     {1, 15, 2, 8, 5},   {1, 16, 1, 5, 8},
    {2, 17, 3, 8, 8},  {1, 31, 1, 12, 7},   {1, 32, 2, 8, 16},  {2, 33, 2, 7, 12},
    {1, 64, 1, 16, 8}, {2, 150, 2, 16, 16}, {1, 97, 1, 32, 32}, {33, 5, 2, 4, 4},
};

enum { N_SHAPES = sizeof shapes / sizeof *shapes };

START_TEST(chunks_give_what_the_recurrence_gives)
{
    const int     *s = shapes[_i];
    struct problem p = draw(s[0], s[1], s[2], s[3], s[4]);

    run(&p);
    assert_solved(&p);
    discard(&p);
}
END_TEST

START_TEST(beta_from_zero_to_two_has_its_gradient)
{
    const int     *s = shapes[_i];
    struct problem p = draw(s[0], s[1], s[2], s[3], s[4]);

    for (size_t i = 0; i < p.n_g; i++)
        p.beta[i] = i % 3 == 0 ? 0 : 2 * p.beta[i];
    run(&p);
    assert_solved(&p);
    discard(&p);
}
END_TEST

/* Every kind of gate after every other, over many chunks. */
static void set_extreme_gates(struct problem *p)
{
    static const real log_a[] = {0, -1e-6, -60, -0.5, -1000, 0, -1e-3, -5};
    static const real beta[] = {1, 1e-6, 0.5, 0, 2};

    for (size_t i = 0; i < p->n_g; i++) {
        p->log_a[i] = rng_below(&rig_stream, 4) ? -(real)1e-3
                                                : log_a[rng_below(&rig_stream, 8)];
        p->beta[i] = beta[rng_below(&rig_stream, 5)];
    }
}

START_TEST(extreme_gates_over_many_chunks_lose_nothing)
{
    struct problem p = draw(1, 8192, 1, 8, 8);
    real *o = rig_reals(p.n_v), *state = calloc(delta_state(&p.c), sizeof *state);

    set_extreme_gates(&p);
    run(&p);
    assert_solved(&p);
    run_in_pieces(&p, 1, state, o);
    ck_assert_double_lt(rig_error_real(o, p.o, p.n_v), rig_tolerance());
    free(o), free(state);
    discard(&p);
}
END_TEST

START_TEST(no_decay_over_many_chunks_loses_nothing)
{
    struct problem p = draw(1, 2048, 1, 8, 8);

    memset(p.log_a, 0, p.n_g * sizeof *p.log_a);
    run(&p);
    assert_solved(&p);
    discard(&p);
}
END_TEST

static const int pieces[] = {2, 3, 15, 16, 17, 31, 32, 33, 100, 200};

enum { N_PIECES = sizeof pieces / sizeof *pieces };

START_TEST(the_length_of_a_chunk_changes_nothing)
{
    struct problem p = draw(1, 200, 2, 8, 8);
    size_t         n = delta_state(&p.c);
    real *o = rig_reals(p.n_v), *other = rig_reals(p.n_v);
    real *state = calloc(n, sizeof *state), *left = calloc(n, sizeof *left);

    run_in_pieces(&p, 1, state, o);
    run_in_pieces(&p, pieces[_i], left, other);
    ck_assert_double_lt(rig_error_real(other, o, p.n_v), rig_tolerance());
    ck_assert_double_lt(rig_error_real(left, state, n), rig_tolerance());
    free(o), free(other), free(state), free(left);
    discard(&p);
}
END_TEST

/* ---- what the memory promises ---------------------------------------------------- */

/* Key and query of token t: row t mod e of an orthonormal matrix, a reflection. */
static void set_orthonormal(struct problem *p)
{
    const int e = p->c.dk;
    real     *m = rig_normals(e);

    unit(m, e, e);
    for (int t = 0; t < p->c.T; t++)
        for (int j = 0; j < e; j++) {
            size_t at = t * p->c.ld + j;

            p->k[at] = p->q[at] = (t % e == j) - 2 * m[t % e] * m[j];
        }
    free(m);
}

static void set_gates(struct problem *p, real log_a, real beta)
{
    for (size_t i = 0; i < p->n_g; i++)
        p->log_a[i] = log_a, p->beta[i] = beta;
}

/* E values are stored, then overwritten twice; then all are read with beta = 0. */
START_TEST(orthonormal_keys_store_exactly_and_overwriting_replaces)
{
    enum { E = 12, T = 4 * E };
    struct problem p = draw(1, T, 1, E, E);
    double         want[T * E];

    p.c.scale = 1;
    set_orthonormal(&p);
    set_gates(&p, 0, 1);
    for (int t = T - E; t < T; t++)
        p.beta[t] = 0;
    run(&p);
    for (int t = 0; t < T; t++)
        for (int j = 0; j < E; j++)
            want[t * E + j] = p.v[(t < T - E ? t : t - E) * E + j];
    rig_assert_error("what was stored", p.o, want, T * E);
    discard(&p);
}
END_TEST

START_TEST(without_beta_the_state_only_decays)
{
    struct problem p = draw(1, 70, 1, 8, 8), w = draw(1, 40, 1, 8, 8);
    size_t         n = delta_state(&p.c);
    real          *state = calloc(n, sizeof *state), *before;
    double         want[64];

    set_gates(&p, -(real)0.02, 0);
    run(&p);
    for (size_t i = 0; i < p.n_v; i++)
        if (p.o[i] != 0)
            ck_abort_msg("an empty memory answers %g", (double)p.o[i]);
    run_in_pieces(&w, 40, state, w.o);
    before = layer_copy(state, n);
    run_in_pieces(&p, 70, state, p.o);
    for (size_t i = 0; i < n; i++)
        want[i] = exp(70 * (double)-(real)0.02) * (double)before[i];
    rig_assert_error("the state", state, want, n);
    free(state), free(before);
    discard(&p), discard(&w);
}
END_TEST

START_TEST(strong_decay_leaves_only_the_last_token)
{
    struct problem p = draw(1, 80, 1, 8, 8);
    double         want[80 * 8];

    p.c.scale = 1;
    set_gates(&p, -1000, 1);
    memcpy(p.q, p.k, p.n_k * sizeof *p.q);
    run(&p);
    for (int i = 0; i < 80 * 8; i++)
        want[i] = p.v[i];
    rig_assert_error("o", p.o, want, 80 * 8);
    for (int i = 0; i < 80; i++)
        if (p.dlog_a[i] != 0)
            ck_abort_msg("a gate that is shut pulls %g", (double)p.dlog_a[i]);
    discard(&p);
}
END_TEST

/* ---- the mixer ------------------------------------------------------------------- */

START_TEST(tokens_of_zeros_are_neither_read_nor_pulled_to_infinity)
{
    struct mixer_cfg c = layer_cfg("deltanet", 24, 2, 64);
    struct layer     l;

    layer_open(&l, "deltanet", &c, 1, 40, 7);
    memset(l.x, 0, l.n_x * sizeof *l.x);
    layer_forward(&l);
    layer_backward(&l);
    for (size_t i = 0; i < l.n_x; i++)
        if (l.y[i] != 0)
            ck_abort_msg("y is %g", (double)l.y[i]);
    layer_assert_results(&l);
    layer_close(&l);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("delta");
    TCase *tc = tcase_create("delta");

    tcase_add_checked_fixture(tc, reset, NULL);
    tcase_add_loop_test(tc, chunks_give_what_the_recurrence_gives, 0, N_SHAPES);
    tcase_add_loop_test(tc, beta_from_zero_to_two_has_its_gradient, 0, N_SHAPES);
    tcase_add_test(tc, extreme_gates_over_many_chunks_lose_nothing);
    tcase_add_test(tc, no_decay_over_many_chunks_loses_nothing);
    tcase_add_loop_test(tc, the_length_of_a_chunk_changes_nothing, 0, N_PIECES);
    tcase_add_test(tc, orthonormal_keys_store_exactly_and_overwriting_replaces);
    tcase_add_test(tc, without_beta_the_state_only_decays);
    tcase_add_test(tc, strong_decay_leaves_only_the_last_token);
    tcase_add_test(tc, tokens_of_zeros_are_neither_read_nor_pulled_to_infinity);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
