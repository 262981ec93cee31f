/* The core with scalar weights against its recurrence in double, and what must hold for
 * retention, mlstm and ssd alone. */
#include "tests/support/layer.h"
#include "tests/support/rig.h"

#include "model/cores/scalar.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* ---- problems ---------------------------------------------------------------------- */

enum gate { NO_GATE, FIXED, GENTLE, STRONG, WILD, VAST };

/* One way through the core. */
static const struct mode {
    const char     *name;
    enum scalar_den den;
    double          den_eps;
    enum gate       f, i;
    bool            shared;
} modes[] = {
    {"sum without weights",            SCALAR_PLAIN, 0,    NO_GATE, NO_GATE, false},
    {"one decay",                      SCALAR_PLAIN, 0,    FIXED,   NO_GATE, false},
    {"gentle decay, shared keys",      SCALAR_PLAIN, 0,    GENTLE,  NO_GATE, true},
    {"strong decay",                   SCALAR_PLAIN, 0,    STRONG,  NO_GATE, false},
    {"wild decay",                     SCALAR_PLAIN, 0,    WILD,    NO_GATE, true},
    {"divided by the sum",             SCALAR_SUM,   1e-2, NO_GATE, NO_GATE, false},
    {"divided by the sum, with decay", SCALAR_SUM,   1e-2, GENTLE,  NO_GATE, true},
    {"divided by the sum, stabilised", SCALAR_SUM,   1e-2, NO_GATE, WILD,    false},
    {"sums beyond float",              SCALAR_SUM,   0,    NO_GATE, VAST,    false},
    {"maximum without gates",          SCALAR_MAX,   0,    NO_GATE, NO_GATE, false},
    {"gentle gates",                   SCALAR_MAX,   0,    GENTLE,  GENTLE,  false},
    {"wild gates",                     SCALAR_MAX,   0,    WILD,    WILD,    false},
    {"gates beyond float",             SCALAR_MAX,   0,    GENTLE,  VAST,    false},
    {"strong decay, silent input",     SCALAR_MAX,   0,    STRONG,  STRONG,  true},
};

enum { N_MODES = sizeof modes / sizeof *modes, N_INPUTS = 5 };
enum { Q, K, V, F, I };

static const char *const inputs[] = {"q", "k", "v", "log_f", "log_i"};

/* Inputs in double, dense, and the same values as the core takes them: rows with NaN
 * between them. Of a shared q, k or a fixed decay only the first is used. */
struct problem {
    const struct mode *mode;
    struct scalar      c;
    int                w[N_INPUTS];         // channels of a head
    double            *d[N_INPUTS];         // (B, T, H, w)
    real              *r[N_INPUTS];
    size_t             n[N_INPUTS], ld[N_INPUTS];
};

static size_t rows(const struct problem *p) { return (size_t)p->c.B * p->c.T; }

static double draw_gate(struct rng *r, enum gate g, bool decay)
{
    switch (g) {
    case FIXED:  return -0.05;
    case GENTLE: return decay ? -0.1 * rng_uniform(r) : rng_normal(r);
    case STRONG: return -10 * rng_uniform(r);
    case VAST:   return 100 - 200 * rng_uniform(r);
    default:     return decay ? -15 * (rng_uniform(r) < 0.3) : 15 - 30 * rng_uniform(r);
    }
}

/* Positive keys, and queries of one sign in a head: sums in a denominator do not cancel,
 * so that the problem is well conditioned in float. */
static double draw(struct rng *r, const struct mode *m, int input, size_t head)
{
    double z = rng_normal(r);

    if (input == F || input == I)
        return draw_gate(r, input == F ? m->f : m->i, input == F);
    if (input == V || !m->den)
        return z;
    return input == Q && head % 2 && m->den == SCALAR_MAX ? -fabs(z) : fabs(z);
}

/* The core's copy of input i. */
static void fill_rows(struct problem *p, int i)
{
    size_t wide = (size_t)p->c.H * p->w[i];

    for (size_t t = 0; t < rows(p); t++)
        for (size_t j = 0; j < wide; j++)
            p->r[i][t * p->ld[i] + j] = (real)p->d[i][t * wide + j];
}

static void open_input(struct problem *p, int i, struct rng *r)
{
    size_t wide = (size_t)p->c.H * p->w[i];

    p->n[i] = rows(p) * wide;
    p->ld[i] = wide + 3;
    p->d[i] = malloc(p->n[i] * sizeof *p->d[i]);
    p->r[i] = rig_reals(rows(p) * p->ld[i]);
    for (size_t j = 0; j < p->n[i]; j++)
        p->d[i][j] = (real)draw(r, p->mode, i, j / p->w[i] % p->c.H);
    fill_rows(p, i);
}

static void open_problem(struct problem *p, const struct mode *m, int B, int T, int dk,
                         int dv)
{
    struct rng r = rng_open(5, RNG_TEST, (uint64_t)(m - modes));

    *p = (struct problem){.mode = m, .w = {dk, dk, dv, 1, 1}};
    p->c = (struct scalar){
        .B = B, .T = T, .H = 2, .dk = dk, .dv = dv, .shared = m->shared, .den = m->den,
        .scale = (real)0.7, .den_eps = (real)m->den_eps, .ld_o = 2 * (size_t)dv + 1,
    };
    for (int i = 0; i < N_INPUTS; i++)
        open_input(p, i, &r);
    p->c.q = p->r[Q], p->c.k = p->r[K], p->c.v = p->r[V];
    p->c.ld_q = p->ld[Q], p->c.ld_k = p->ld[K], p->c.ld_v = p->ld[V];
    p->c.log_f = m->f ? p->r[F] : NULL;
    p->c.log_i = m->i ? p->r[I] : NULL;
    p->c.ld_f = m->f == FIXED ? 0 : p->ld[F];
    p->c.ld_i = p->ld[I];
}

static void close_problem(struct problem *p)
{
    for (int i = 0; i < N_INPUTS; i++) {
        free(p->d[i]);
        free(p->r[i]);
    }
}

/* ---- the recurrence, in double ----------------------------------------------------- */

struct memory {
    double *S, *n;              // (dk, dv), (dk)
};

static double gate_of(const struct problem *p, int i, size_t row, int h)
{
    bool on = i == F ? p->mode->f : p->mode->i;
    bool fixed = i == F && p->mode->f == FIXED;

    return on ? p->d[i][(fixed ? 0 : row) * p->c.H + h] : 0;
}

static void recur(const struct problem *p, struct memory *m, size_t row, int h, double *o)
{
    int           dk = p->c.dk, dv = p->c.dv;
    size_t        at = (row * p->c.H + (p->c.shared ? 0 : h)) * dk;
    const double *q = p->d[Q] + at, *k = p->d[K] + at;
    const double *v = p->d[V] + (row * p->c.H + h) * dv;
    double        f = exp(gate_of(p, F, row, h)), i = exp(gate_of(p, I, row, h));
    double        l = 0, D = 1;

    memset(o, 0, dv * sizeof *o);
    for (int a = 0; a < dk; a++) {
        m->n[a] = f * m->n[a] + i * k[a];
        l += (double)p->c.scale * q[a] * m->n[a];
        for (int j = 0; j < dv; j++) {
            m->S[a * dv + j] = f * m->S[a * dv + j] + i * k[a] * v[j];
            o[j] += (double)p->c.scale * q[a] * m->S[a * dv + j];
        }
    }
    if (p->c.den)
        D = p->c.den == SCALAR_SUM ? l + (double)p->c.den_eps : fmax(fabs(l), 1);
    for (int j = 0; j < dv; j++)
        o[j] /= D;
}

/* o (B, T, H, dv) by the definition in scalar.h, without chunks or stabiliser. */
static double *defined(const struct problem *p)
{
    size_t        n = (size_t)p->c.dk * p->c.dv;
    double       *o = malloc(p->n[V] * sizeof *o);
    struct memory m = {malloc(n * sizeof(double)), malloc(p->c.dk * sizeof(double))};

    for (int b = 0; b < p->c.B; b++)
        for (int h = 0; h < p->c.H; h++) {
            memset(m.S, 0, n * sizeof *m.S);
            memset(m.n, 0, p->c.dk * sizeof *m.n);
            for (int t = 0; t < p->c.T; t++) {
                size_t row = (size_t)b * p->c.T + t;

                recur(p, &m, row, h, o + (row * p->c.H + h) * p->c.dv);
            }
        }
    free(m.S);
    free(m.n);
    return o;
}

/* Rows of o or dv, dense. */
static real *dense(const struct problem *p, const real *a, size_t ld, size_t wide)
{
    real *to = malloc(rows(p) * wide * sizeof *to);

    for (size_t t = 0; t < rows(p); t++)
        memcpy(to + t * wide, a + t * ld, wide * sizeof *to);
    return to;
}

static void assert_output(const struct problem *p, const real *o, const double *want,
                          const char *how)
{
    real  *got = dense(p, o, p->c.ld_o, (size_t)p->c.H * p->c.dv);
    double error = rig_error(got, want, p->n[V]);

    ck_assert_msg(error <= rig_tolerance(), "%s, %s: error %.3g", p->mode->name, how,
                  error);
    free(got);
}

/* ---- the core ---------------------------------------------------------------------- */

static void check_forward(const struct problem *p)
{
    real   *o = rig_reals(rows(p) * p->c.ld_o), *kept = rig_reals(scalar_kept(&p->c));
    double *want = defined(p);

    scalar_forward(&p->c, o, kept);
    assert_output(p, o, want, "in chunks");
    free(want);
    free(kept);
    free(o);
}

/* All tokens through extend, `step` at a time. scale: NULL, or that of an empty state. */
static real *streamed(const struct problem *p, int step, const real *scale)
{
    size_t n = scalar_state(&p->c), head = n / p->c.H;
    real  *o = rig_reals(rows(p) * p->c.ld_o), *state = calloc(n + 7, sizeof *state);
    void  *states[] = {state};

    ck_assert_int_eq(p->c.B, 1);
    for (int h = 1; scale && h <= p->c.H; h++)
        state[7 + h * head - 2] = *scale, state[7 + h * head - 1] = 1;
    for (int t = 0; t < p->c.T; t += step) {
        struct scalar c = p->c;

        c.T = p->c.T - t < step ? p->c.T - t : step;
        c.q += t * c.ld_q, c.k += t * c.ld_k, c.v += t * c.ld_v;
        c.log_f = c.log_f ? c.log_f + t * c.ld_f : NULL;
        c.log_i = c.log_i ? c.log_i + t * c.ld_i : NULL;
        scalar_extend(&c, states, 7, o + t * c.ld_o);
    }
    free(state);
    return o;
}

START_TEST(chunks_compute_the_recurrence)
{
    static const int lengths[] = {1, SCALAR_CHUNK - 1, SCALAR_CHUNK, SCALAR_CHUNK + 1,
                                  301};

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct problem p;

        open_problem(&p, &modes[_i], 2, lengths[i], 5, 7);
        check_forward(&p);
        close_problem(&p);
    }
}
END_TEST

START_TEST(wide_values_are_cut_into_columns)
{
    struct problem p;

    open_problem(&p, &modes[_i], 1, 100, 3, 300);
    check_forward(&p);
    close_problem(&p);
}
END_TEST

START_TEST(streaming_in_any_split_computes_the_recurrence)
{
    static const int steps[] = {1, 7, SCALAR_CHUNK, SCALAR_CHUNK + 1, 150};
    struct problem   p;

    open_problem(&p, &modes[_i], 1, 150, 5, 7);
    double *want = defined(&p);

    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        real *o = streamed(&p, steps[i], NULL);

        assert_output(&p, o, want, "streamed");
        free(o);
    }
    free(want);
    close_problem(&p);
}
END_TEST

START_TEST(eight_thousand_tokens_stay_exact)
{
    int            threads = omp_get_max_threads();
    struct problem p;
    double        *want;
    real          *o;

    open_problem(&p, &modes[_i], 1, 8192, 4, 4);
    want = defined(&p);
    check_forward(&p);
    omp_set_num_threads(1);
    o = streamed(&p, 1, NULL);
    omp_set_num_threads(threads);
    assert_output(&p, o, want, "decoded");
    free(o);
    free(want);
    close_problem(&p);
}
END_TEST

/* ---- gradients of the core --------------------------------------------------------- */

/* sum(o d_o) by the definition, with input i moved by h u. */
static double loss_along(struct problem *p, int i, const double *u, double h,
                         const real *d_o)
{
    size_t  wide = (size_t)p->c.H * p->c.dv;
    double *o, sum = 0;

    for (size_t j = 0; j < p->n[i]; j++)
        p->d[i][j] += h * u[j];
    o = defined(p);
    for (size_t j = 0; j < p->n[i]; j++)
        p->d[i][j] -= h * u[j];
    for (size_t j = 0; j < p->n[V]; j++)
        sum += o[j] * (double)d_o[j / wide * p->c.ld_o + j % wide];
    free(o);
    return sum;
}

struct slopes {
    real  *d[N_INPUTS];
    size_t ld[N_INPUTS];
};

static struct slopes backward(const struct problem *p, const real *d_o)
{
    size_t n = rows(p) * p->c.ld_o;
    real  *o = rig_reals(n), *du = layer_copy(d_o, n);
    real  *kept = rig_reals(scalar_kept(&p->c)),
          *scratch = rig_reals(scalar_scratch(&p->c));
    struct slopes s;

    for (int i = 0; i < N_INPUTS; i++) {
        s.ld[i] = (size_t)p->c.H * p->w[i] + 2;
        s.d[i] = rig_reals(rows(p) * s.ld[i]);
    }
    scalar_forward(&p->c, o, kept);
    scalar_backward(&p->c, &(struct scalar_grad){
        .dq = s.d[Q], .dk = s.d[K], .dv = s.d[V], .dlog_f = s.d[F], .dlog_i = s.d[I],
        .ld_dq = s.ld[Q], .ld_dk = s.ld[K], .ld_dv = s.ld[V],
        .ld_df = s.ld[F], .ld_di = s.ld[I],
    }, o, du, kept, scratch);
    free(o), free(kept), free(du), free(scratch);
    return s;
}

/* The slope of input i along u, and the norm of its gradient. */
static double slope(const struct problem *p, const struct slopes *s, int i,
                    const double *u, double *norm)
{
    int    wide = p->c.H * p->w[i];
    double sum = 0;

    *norm = 0;
    for (size_t j = 0; j < p->n[i]; j++) {
        double d = (double)s->d[i][j / wide * s->ld[i] + j % wide];

        sum += d * u[j];
        *norm += d * d;
    }
    *norm = sqrt(*norm);
    return sum;
}

/* A direction in which what is shared moves together. */
static double *direction(const struct problem *p, int i, struct rng *r)
{
    double *u = malloc(p->n[i] * sizeof *u);
    size_t  wide = (size_t)p->c.H * p->w[i];

    for (size_t j = 0; j < p->n[i]; j++) {
        size_t first = j / wide * wide + j % p->w[i];

        u[j] = rng_normal(r);
        if (p->c.shared && (i == Q || i == K))
            u[j] = u[first];
        if (i == F && p->mode->f == FIXED)
            u[j] = u[j % wide];
    }
    return u;
}

static void check_slope(struct problem *p, const struct slopes *s, int i, const real *d_o,
                        struct rng *r)
{
    double  h = 1e-5, limit = sizeof(real) == sizeof(double) ? 1e-7 : 1e-4;
    double *u = direction(p, i, r), norm, got = slope(p, s, i, u, &norm);
    double  want = (loss_along(p, i, u, h, d_o) - loss_along(p, i, u, -h, d_o)) / (2 * h);

    ck_assert_msg(fabs(got - want) <= limit * norm,
                  "%s: slope along %s is %.9g, differences %.9g", p->mode->name,
                  inputs[i], got, want);
    free(u);
}

START_TEST(gradients_of_the_core_match_finite_differences)
{
    struct rng     r = rng_open(6, RNG_TEST, (uint64_t)_i);
    struct problem p;
    struct slopes  s;

    open_problem(&p, &modes[_i], 2, 150, 5, 7);
    real *d_o = rig_reals(rows(&p) * p.c.ld_o);

    rig_normal(&r, d_o, rows(&p) * p.c.ld_o);
    s = backward(&p, d_o);
    for (int i = 0; i < N_INPUTS; i++) {
        if (i == F ? p.mode->f : i == I ? p.mode->i : true)
            check_slope(&p, &s, i, d_o, &r);
        free(s.d[i]);
    }
    free(d_o);
    close_problem(&p);
}
END_TEST

/* ---- mlstm ------------------------------------------------------------------------- */

/* The mode with this denominator and these gates. */
static const struct mode *mode_of(enum scalar_den den, enum gate f, enum gate i)
{
    for (int m = 0; m < N_MODES; m++)
        if (modes[m].den == den && modes[m].f == f && modes[m].i == i)
            return &modes[m];
    ck_abort_msg("no such mode");
    return NULL;
}

static void set_gate(struct problem *p, int i, double value, double shift)
{
    for (size_t j = 0; j < p->n[i]; j++)
        p->d[i][j] = (real)(value + shift * p->d[i][j]);
    fill_rows(p, i);
}

START_TEST(open_gates_are_linear_attention_over_its_denominator)
{
    struct problem gated, plain;
    double        *want;
    real          *o;

    open_problem(&gated, mode_of(SCALAR_MAX, GENTLE, GENTLE), 1, 100, 5, 7);
    open_problem(&plain, mode_of(SCALAR_MAX, NO_GATE, NO_GATE), 1, 100, 5, 7);
    for (int i = Q; i <= V; i++) {
        memcpy(plain.d[i], gated.d[i], plain.n[i] * sizeof(double));
        fill_rows(&plain, i);
    }
    set_gate(&gated, F, -log1p(exp(-40)), 0);
    set_gate(&gated, I, 0, 0);
    want = defined(&plain);
    o = streamed(&gated, 40, NULL);
    assert_output(&gated, o, want, "f = 40, i = 0");
    free(o);
    free(want);
    close_problem(&gated);
    close_problem(&plain);
}
END_TEST

/* h = v a / max(|a|, e^-i), a = scale q . k */
START_TEST(a_closed_forget_gate_leaves_the_current_token)
{
    struct problem p;
    double        *want;
    real          *o;

    open_problem(&p, mode_of(SCALAR_MAX, WILD, WILD), 1, 100, 5, 7);
    set_gate(&p, F, -40, 0);
    want = malloc(p.n[V] * sizeof *want);
    for (size_t row = 0; row < rows(&p) * p.c.H; row++) {
        double a = 0;

        for (int j = 0; j < 5; j++)
            a += (double)p.c.scale * p.d[Q][row * 5 + j] * p.d[K][row * 5 + j];
        a /= fmax(fabs(a), exp(-p.d[I][row]));
        for (int j = 0; j < 7; j++)
            want[row * 7 + j] = p.d[V][row * 7 + j] * a;
    }
    o = streamed(&p, 100, NULL);
    assert_output(&p, o, want, "f = -40");
    free(o);
    free(want);
    close_problem(&p);
}
END_TEST

START_TEST(the_scale_a_state_starts_with_changes_nothing)
{
    static const real start[] = {-5, 5, 30};
    struct problem p;

    open_problem(&p, mode_of(SCALAR_MAX, GENTLE, GENTLE), 1, 100, 5, 7);
    double *want = defined(&p);

    for (int i = 0; i < 3; i++)
        for (int step = 1; step <= 50; step += 49) {
            real *o = streamed(&p, step, &start[i]);

            assert_output(&p, o, want, "from another scale");
            free(o);
        }
    free(want);
    close_problem(&p);
}
END_TEST

/* Large inputs: |l| > 1 in every row before and after. */
START_TEST(a_shift_of_every_input_gate_cancels_where_the_sum_divides)
{
    struct problem p;

    open_problem(&p, mode_of(SCALAR_MAX, GENTLE, GENTLE), 1, 100, 5, 7);
    set_gate(&p, I, 6, 1);
    double *before = defined(&p);

    set_gate(&p, I, 5, 1);
    real *o = streamed(&p, 100, NULL);

    assert_output(&p, o, before, "shifted");
    free(o);
    free(before);
    close_problem(&p);
}
END_TEST

/* ---- layers ------------------------------------------------------------------------ */

static void open_layer(struct layer *l, const char *entry, int B, int T)
{
    struct mixer_cfg c = layer_cfg(entry, 24, 2, T);

    layer_open(l, entry, &c, B, T, 11);
}

static real *weight(const struct layer *l, const char *name)
{
    int i = layer_param(l, name);

    ck_assert_msg(i >= 0, "%s has no parameter %s", l->entry, name);
    return l->wp[i];
}

static void fill(real *w, size_t n, double value)
{
    for (size_t i = 0; i < n; i++)
        w[i] = (real)value;
}

/* w x for `n` rows of w from row `first`, of token t of the only sequence. */
static void project(const struct layer *l, const char *name, int first, int n, int t,
                    double *to)
{
    const real *w = weight(l, name) + (size_t)first * l->cfg.C;
    const real *x = l->x + (size_t)t * l->cfg.C;

    for (int i = 0; i < n; i++) {
        to[i] = 0;
        for (int j = 0; j < l->cfg.C; j++)
            to[i] += (double)w[i * l->cfg.C + j] * (double)x[j];
    }
}

/* Head h of retention at token t: sum_s a^(t-s) (q_t . k_s) v_s / sqrt(e),
 * normed, gated. */
static void retain(const struct layer *l, int h, int t, double *z)
{
    enum { E = 12 };
    double q[E], k[E], v[E], g[E], square = 0, decay = 1 - pow(2, -5 - h);

    project(l, "wq", h * E, E, t, q);
    project(l, "wg", h * E, E, t, g);
    memset(z, 0, E * sizeof *z);
    for (int s = 0; s <= t; s++) {
        double a = 0;

        project(l, "wk", h * E, E, s, k);
        project(l, "wv", h * E, E, s, v);
        for (int j = 0; j < E; j++)
            a += q[j] * k[j] / sqrt(E);
        for (int j = 0; j < E; j++)
            z[j] += pow(decay, t - s) * a * v[j];
    }
    for (int j = 0; j < E; j++)
        square += z[j] * z[j] / E;
    for (int j = 0; j < E; j++)
        z[j] *= (double)weight(l, "norm")[j] / sqrt(square + 1e-5) * g[j] /
                (1 + exp(-g[j]));
}

START_TEST(retention_weighs_tokens_by_powers_of_its_decay)
{
    enum { T = 70, C = 24 };
    struct layer l;
    double      *y = calloc((size_t)T * C, sizeof *y), z[C];
    const real  *wo;

    open_layer(&l, "retention+none", 1, T);
    wo = weight(&l, "wo");
    for (int t = 0; t < T; t++) {
        retain(&l, 0, t, z);
        retain(&l, 1, t, z + C / 2);
        for (int i = 0; i < C * C; i++)
            y[t * C + i / C] += (double)wo[i] * z[i % C];
    }
    layer_forward(&l);
    rig_assert_error("retention", l.y, y, l.n_x);
    free(y);
    layer_close(&l);
}
END_TEST

START_TEST(mlstm_is_finite_with_its_gates_at_their_limits)
{
    static const double limits[] = {-1000, 1000};
    struct layer l;

    open_layer(&l, "mlstm", 2, 300);
    fill(weight(&l, "wi"), (size_t)2 * 24, 0);
    fill(weight(&l, "wf"), (size_t)2 * 24, 0);
    for (int i = 0; i < 4; i++) {
        fill(weight(&l, "bi"), 2, limits[i % 2]);
        fill(weight(&l, "bf"), 2, limits[i / 2]);
        layer_zero(&l);
        layer_forward(&l);
        layer_backward(&l);
        layer_assert_results(&l);
    }
    layer_close(&l);
}
END_TEST

/* Rows [z, x, B, C, t] of win; the convolution has [x, B, C]. */
static void silence_c(struct layer *l, int di, int N)
{
    fill(weight(l, "win") + (size_t)(2 * di + N) * l->cfg.C, (size_t)N * l->cfg.C, 0);
    fill(weight(l, "convb") + di + N, N, 0);
}

START_TEST(ssd_without_c_has_only_its_skip)
{
    struct layer l;
    real        *before;

    open_layer(&l, "ssd(state=8)", 2, 100);
    silence_c(&l, 48, 8);
    layer_forward(&l);
    before = layer_copy(l.y, l.n_x);
    fill(weight(&l, "dtb"), 2, 1.5);
    fill(weight(&l, "alog"), 2, -2);
    layer_forward(&l);
    layer_assert_bits(&l, "y after other gates", l.y, before, l.n_x);
    fill(weight(&l, "dskip"), 2, 0);
    layer_forward(&l);
    fill(before, l.n_x, 0);
    layer_assert_bits(&l, "y without skip", l.y, before, l.n_x);
    free(before);
    layer_close(&l);
}
END_TEST

/* Decays of 1e-3 to 1e-87 per token, in one layer. */
START_TEST(ssd_is_finite_under_extreme_decay)
{
    struct layer l;

    open_layer(&l, "ssd(state=8)", 1, 500);
    fill(weight(&l, "alog"), 1, 5);
    fill(weight(&l, "alog") + 1, 1, -9);
    layer_forward(&l);
    layer_backward(&l);
    layer_assert_results(&l);
    layer_close(&l);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("scalar");
    TCase *core = tcase_create("core"), *mlstm = tcase_create("mlstm");
    TCase *layers = tcase_create("layers");

    tcase_add_loop_test(core, chunks_compute_the_recurrence, 0, N_MODES);
    tcase_add_loop_test(core, wide_values_are_cut_into_columns, 0, N_MODES);
    tcase_add_loop_test(core, streaming_in_any_split_computes_the_recurrence, 0, N_MODES);
    tcase_add_loop_test(core, eight_thousand_tokens_stay_exact, 0, N_MODES);
    tcase_add_loop_test(core, gradients_of_the_core_match_finite_differences, 0, N_MODES);
    suite_add_tcase(s, core);
    tcase_add_test(mlstm, open_gates_are_linear_attention_over_its_denominator);
    tcase_add_test(mlstm, a_closed_forget_gate_leaves_the_current_token);
    tcase_add_test(mlstm, the_scale_a_state_starts_with_changes_nothing);
    tcase_add_test(mlstm, a_shift_of_every_input_gate_cancels_where_the_sum_divides);
    suite_add_tcase(s, mlstm);
    tcase_add_test(layers, retention_weighs_tokens_by_powers_of_its_decay);
    tcase_add_test(layers, mlstm_is_finite_with_its_gates_at_their_limits);
    tcase_add_test(layers, ssd_without_c_has_only_its_skip);
    tcase_add_test(layers, ssd_is_finite_under_extreme_decay);
    suite_add_tcase(s, layers);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
