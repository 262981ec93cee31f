/* What must hold for rectified linear attention alone. */
#include "model/mixer_instruments.h"
#include "tests/support/encoding.h"
#include "tests/support/layer.h"
#include "tests/support/rig.h"


#include <math.h>
#include <stdlib.h>
#include <string.h>

static void open_layer(struct layer *l, const char *entry, int B, int T)
{
    struct mixer_cfg c = layer_cfg(entry, 24, 2, T);

    layer_open(l, entry, &c, B, T, 11);
}

static real *weights(const struct layer *l, const char *name, size_t *n)
{
    int i = layer_param(l, name);

    *n = param_size(&l->param[i]);
    return l->wp[i];
}

static void scale_weights(struct layer *l, const char *name, double by)
{
    size_t n;
    real  *w = weights(l, name, &n);

    for (size_t i = 0; i < n; i++)
        w[i] *= (real)by;
}

/* All sequences through extend, `step` tokens at a time. */
static void stream(struct layer *l, int step)
{
    int all[LAYER_BATCH];

    for (int b = 0; b < l->B; b++)
        all[b] = b;
    layer_restart(l);
    for (int t = 0; t < l->T; t += step)
        layer_extend(l, all, l->B, l->T - t < step ? l->T - t : step);
}

/* ---- the definition, in double ----------------------------------------------------- */

struct naive {
    int     H, Hk, e, C, T;
    double *q, *k, *v;          // (T, H, e), (T, Hk, e)
};

static struct naive naive_open(const struct layer *l, int b)
{
    const struct mixer_cfg *c = &l->cfg;
    struct naive            n = {c->H, c->Hk, c->C / c->H, c->C, l->T,
                                 layer_project(l, "wq", b), layer_project(l, "wk", b),
                                 layer_project(l, "wv", b)};

    encoding_turn(l, b, n.q, n.H);
    encoding_turn(l, b, n.k, n.Hk);
    return n;
}

static void naive_close(struct naive *n)
{
    free(n->q), free(n->k), free(n->v);
}

static double logit(const struct naive *n, int h, int t, int u)
{
    int    kv = h / (n->H / n->Hk);
    double s = 0;

    for (int j = 0; j < n->e; j++)
        s += n->q[(t * n->H + h) * n->e + j] * n->k[(u * n->Hk + kv) * n->e + j];
    return s / sqrt(n->e);
}

/* z (C) of token t, which sees the last `window` tokens. */
static void naive_z(const struct naive *n, int t, int window, double *z)
{
    memset(z, 0, n->C * sizeof *z);
    for (int h = 0; h < n->H; h++)
        for (int u = t < window ? 0 : t - window + 1; u <= t; u++) {
            const double *v = n->v + (u * n->Hk + h / (n->H / n->Hk)) * n->e;
            double        a = fmax(logit(n, h, t, u), 0);

            for (int j = 0; j < n->e; j++)
                z[h * n->e + j] += a * v[j];
        }
}

/* y (T, C) of sequence b by the formula. */
static void naive_y(const struct layer *l, int b, int window, double *y)
{
    struct naive n = naive_open(l, b);
    const real  *wo = l->wp[layer_param(l, "wo")], *norm = l->wp[layer_param(l, "norm")];
    const real  *gate = l->wp[layer_param(l, "gate")];
    double      *z = malloc(n.C * sizeof *z);

    memset(y, 0, (size_t)n.T * n.C * sizeof *y);
    for (int t = 0; t < n.T; t++) {
        double square = 0;

        naive_z(&n, t, window, z);
        for (int j = 0; j < n.C; j++)
            square += z[j] * z[j] / n.C;
        for (int j = 0; j < n.C; j++) {
            double g = norm[j] * z[j] / sqrt(square + 1e-6) / (1 + exp(-gate[j] * z[j]));

            for (int i = 0; i < n.C; i++)
                y[t * n.C + i] += (double)wo[i * n.C + j] * g;
        }
    }
    free(z);
    naive_close(&n);
}

static const char *const entries[] = {
    "rela",
    "rela+none",
    "rela(heads=6,kv_heads=2)",
    "rela(heads=4,kv_heads=1)+none",
    "rela(heads=4,kv_heads=2)+srope(base=10,bias=1)",
};

enum { N_ENTRIES = sizeof entries / sizeof *entries };

START_TEST(blocks_compute_the_formula)
{
    struct layer l;

    open_layer(&l, entries[_i], 1, 600);
    double *y = malloc(l.n_x * sizeof *y);

    layer_forward(&l);
    naive_y(&l, 0, l.T, y);
    rig_assert_error(l.entry, l.y, y, l.n_x);
    free(y);
    layer_close(&l);
}
END_TEST

/* A model with room for 16 tokens streams on with the oldest dropped. */
START_TEST(a_full_state_drops_its_oldest_tokens)
{
    static const int steps[] = {1, 5, 23, 60};
    struct mixer_cfg c = layer_cfg("rela", 24, 2, 16);
    struct layer     l;

    layer_open(&l, "rela", &c, 1, 60, 11);
    double *y = malloc(l.n_x * sizeof *y);

    naive_y(&l, 0, 16, y);
    for (int i = 0; i < 4; i++) {
        stream(&l, steps[i]);
        rig_assert_error("y past the context", l.y, y, l.n_x);
    }
    free(y);
    layer_close(&l);
}
END_TEST

/* ---- zeros ------------------------------------------------------------------------- */

/* Queries and keys read the first half of the channels only, values the second. */
static void part_channels(struct layer *l)
{
    static const char *const name[] = {"wq", "wk", "wv"};
    size_t                   n, C = (size_t)l->cfg.C;

    for (int i = 0; i < 3; i++) {
        real *w = weights(l, name[i], &n);

        for (size_t j = 0; j < n; j++)
            if ((j % C < C / 2) == (i == 2))
                w[j] = 0;
    }
}

/* Whether any head of the last token has a positive weight for token u. */
static bool attended(const struct naive *n, int u)
{
    for (int h = 0; h < n->H; h++)
        if (logit(n, h, n->T - 1, u) > 0)
            return true;
    return false;
}

START_TEST(tokens_with_negative_logits_give_and_get_exactly_nothing)
{
    struct rng   r = rng_open(8, RNG_TEST, 0);
    struct layer l;
    int          ignored = 0;

    open_layer(&l, "rela", 1, 300);
    part_channels(&l);
    size_t       C = (size_t)l.cfg.C, last = (l.T - 1) * C;
    struct naive n = naive_open(&l, 0);
    real         y[24];

    memset(l.dy, 0, last * sizeof(real));
    layer_forward(&l);
    layer_backward(&l);
    memcpy(y, l.y + last, sizeof y);
    for (int u = 0; u < l.T; u++) {
        real *half = l.dx + u * C + C / 2;
        bool  seen = attended(&n, u);

        ck_assert_msg((half[0] != 0) == seen, "dx of token %d is %g", u, (double)half[0]);
        if (!seen) {
            rig_normal(&r, l.x + u * C + C / 2, C / 2);
            ignored++;
        }
    }
    ck_assert_int_gt(ignored, 20);
    layer_forward(&l);
    layer_assert_bits(&l, "y after unseen values changed", l.y + last, y, C);
    naive_close(&n);
    layer_close(&l);
}
END_TEST

/* Every token the same and Wk = -Wq: all logits are -|q|². */
static void blind(struct layer *l)
{
    size_t n, C = (size_t)l->cfg.C;
    real  *wq = weights(l, "wq", &n), *wk = weights(l, "wk", &n);

    for (size_t i = 0; i < n; i++)
        wk[i] = -wq[i];
    for (size_t i = C; i < l->n_x; i++)
        l->x[i] = l->x[i % C];
}

static void assert_zero(const char *what, const real *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != 0)
            ck_abort_msg("%s: element %zu is %g", what, i, (double)a[i]);
}

START_TEST(rows_without_a_positive_logit_give_exactly_zero)
{
    struct layer l;
    struct zeros z = {0};

    open_layer(&l, "rela+none", 2, 70);
    blind(&l);
    layer_forward(&l);
    layer_backward(&l);
    assert_zero("y", l.y, l.n_x);
    assert_zero("dx", l.dx, l.n_x);
    assert_zero("dw", l.dw, l.n_w);
    mixer_zeros(&l.mixer, &z);
    ck_assert(z.pairs > 0 && z.zeros == z.pairs && z.nulls == z.rows);
    stream(&l, 1);
    assert_zero("y token by token", l.y, l.n_x);
    stream(&l, 9);
    assert_zero("y streamed by 9", l.y, l.n_x);
    layer_close(&l);
}
END_TEST

static struct zeros naive_zeros(const struct layer *l)
{
    struct zeros z = {0};

    for (int b = 0; b < l->B; b++) {
        struct naive n = naive_open(l, b);

        for (int h = 0; h < n.H; h++)
            for (int t = 0; t < n.T; t++, z.rows++) {
                double before = z.zeros;

                for (int u = 0; u <= t; u++, z.pairs++)
                    z.zeros += logit(&n, h, t, u) <= 0;
                z.nulls += z.zeros - before == t + 1;
            }
        naive_close(&n);
    }
    return z;
}

START_TEST(zeros_are_what_one_counts)
{
    static const int lengths[] = {1, 7, 65, 300};
    struct layer     l;

    for (int i = 0; i < 4; i++) {
        struct zeros z = {0}, want;

        open_layer(&l, entries[_i], 3, lengths[i]);
        layer_forward(&l);
        mixer_zeros(&l.mixer, &z);
        want = naive_zeros(&l);
        ck_assert_msg(!memcmp(&z, &want, sizeof z),
                      "%s, T = %d: %g of %g are 0, %g of %g rows; counted %g of %g, "
                      "%g of %g", l.entry, l.T, z.zeros, z.pairs, z.nulls, z.rows,
                      want.zeros, want.pairs, want.nulls, want.rows);
        layer_close(&l);
    }
}
END_TEST

/* ---- scale and broken numbers ------------------------------------------------------ */

/* Values of 1e5 make the norm's epsilon vanish beside z². */
START_TEST(without_gate_and_epsilon_the_size_of_queries_does_not_matter)
{
    struct layer l;

    open_layer(&l, "rela", 2, 150);
    scale_weights(&l, "gate", 0);
    scale_weights(&l, "wv", 1e5);
    layer_forward(&l);
    real *y = layer_copy(l.y, l.n_x);

    scale_weights(&l, "wq", 5);
    layer_forward(&l);
    layer_assert_near(&l, "y of queries times 5", l.y, y, l.n_x);
    free(y);
    layer_close(&l);
}
END_TEST

/* Of a query alone: values stay finite, and only the logits can carry the NaN on. */
START_TEST(a_nan_is_not_rectified_away)
{
    static const int steps[] = {1, 4, 20};
    struct layer     l;
    size_t           n;

    open_layer(&l, "rela", 1, 20);
    weights(&l, "wq", &n)[0] = NAN;
    layer_forward(&l);
    for (int i = 0; i < 4; i++) {
        for (size_t j = 0; j < l.n_x; j++)
            ck_assert_msg(isnan(l.y[j]), "element %zu of y is %g", j, (double)l.y[j]);
        if (i < 3)
            stream(&l, steps[i]);
    }
    layer_close(&l);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("rela");
    TCase *tc = tcase_create("rela");

    tcase_add_loop_test(tc, blocks_compute_the_formula, 0, N_ENTRIES);
    tcase_add_test(tc, a_full_state_drops_its_oldest_tokens);
    tcase_add_test(tc, tokens_with_negative_logits_give_and_get_exactly_nothing);
    tcase_add_test(tc, rows_without_a_positive_logit_give_exactly_zero);
    tcase_add_loop_test(tc, zeros_are_what_one_counts, 0, N_ENTRIES);
    tcase_add_test(tc, without_gate_and_epsilon_the_size_of_queries_does_not_matter);
    tcase_add_test(tc, a_nan_is_not_rectified_away);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
