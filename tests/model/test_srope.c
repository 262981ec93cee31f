/* What must hold for Selective RoPE alone. */
#include "tests/support/layer.h"
#include "tests/support/rig.h"

#include "model/kernels/vmath.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void open_layer(struct layer *l, const char *entry, int B, int T)
{
    struct mixer_cfg c = layer_cfg(entry, 24, 2, T);

    layer_open(l, entry, &c, B, T, 11);
}

static void fill(struct layer *l, const char *name, double value)
{
    int i = layer_param(l, name);

    for (size_t j = 0; j < param_size(&l->param[i]); j++)
        l->wp[i][j] = (real)value;
}

/* Give b the x, dy and parameters of a, where it has them in the same size. */
static void copy_layer(struct layer *b, const struct layer *a)
{
    for (int i = 0; i < a->n_param; i++) {
        int    j = layer_param(b, a->param[i].name);
        size_t n = param_size(&a->param[i]);

        if (j >= 0 && param_size(&b->param[j]) == n)
            memcpy(b->wp[j], a->wp[i], n * sizeof(real));
    }
    memcpy(b->x, a->x, a->n_x * sizeof(real));
    memcpy(b->dy, a->dy, a->n_x * sizeof(real));
}

/* The same outputs, gradients of x and of every parameter that both have in the same
 * size, and streamed outputs. */
static void assert_equals(struct layer *selective, struct layer *plain)
{
    layer_forward(selective);
    layer_backward(selective);
    layer_forward(plain);
    layer_backward(plain);
    layer_assert_near(selective, "y", selective->y, plain->y, plain->n_x);
    layer_assert_near(selective, "dx", selective->dx, plain->dx, plain->n_x);
    for (int i = 0; i < plain->n_param; i++) {
        size_t n = param_size(&plain->param[i]);

        if (param_size(&selective->param[i]) == n)
            layer_assert_near(selective, plain->param[i].name, selective->dwp[i],
                              plain->dwp[i], n);
    }
    layer_restart(selective);
    for (int t = 0; t < selective->T; t += 10)
        layer_extend(selective, (int[]){0, 1}, 2, 10);
    layer_assert_near(selective, "y streamed", selective->y, plain->y, plain->n_x);
}

/* ---- what it becomes at special settings ------------------------------------------- */

/* RoPE's position t is angle t + 1 here, which no product of a q and a k can tell. */
START_TEST(unit_increments_are_rope)
{
    static const char *const entries[] = {
        "softmax+srope(base=100,gate=0,bias=1)",
        "softmax+srope(base=100,rank=3,act=none,gate=0,bias=1)",
    };
    struct layer selective, rope;

    open_layer(&selective, entries[_i], 2, 70);
    open_layer(&rope, "softmax+rope(base=100)", 2, 70);
    copy_layer(&rope, &selective);
    fill(&selective, "sr_conv", 0);
    fill(&selective, "sr_bias", 0);
    assert_equals(&selective, &rope);
    layer_close(&selective);
    layer_close(&rope);
}
END_TEST

START_TEST(a_gate_half_open_halves_the_increments)
{
    struct layer selective, rope;

    open_layer(&selective, "softmax(kv_heads=1)+srope(base=100,bias=1)", 2, 70);
    open_layer(&rope, "softmax(kv_heads=1)+rope(base=100)", 2, 70);
    copy_layer(&rope, &selective);
    fill(&selective, "sr_conv", 0);
    fill(&selective, "sr_bias", log(2));
    fill(&selective, "sr_wg", 0);
    fill(&selective, "sr_bg", 0);
    layer_forward(&selective);
    layer_forward(&rope);
    layer_assert_near(&selective, "y", selective.y, rope.y, rope.n_x);
    layer_close(&selective);
    layer_close(&rope);
}
END_TEST

/* Every mixer that lets an encoding rotate its q and k. */
static const char *const rotated[] = {
    "softmax", "softmax(window=9)", "softmax(heads=4,kv_heads=2,qk_norm=1)", "rela",
    "linear", "linear(feature=taylor)", "linear(feature=id,normalise=0)", "retention",
    "gla", "gla(conv=4)", "mlstm", "deltanet", "normattn", "luna", "inline",
    "inline(feature=elu1)",
};

enum { N_ROTATED = sizeof rotated / sizeof *rotated };

static void open_with(struct layer *l, const char *mixer, const char *position)
{
    char entry[128];

    snprintf(entry, sizeof entry, "%s+%s", mixer, position);
    open_layer(l, entry, 2, 70);
}

/* The first channel of every chunk of x: 1 in the first token, 0 later. */
static void mark_first_token(struct layer *l)
{
    int g = l->cfg.C / l->param[layer_param(l, "sr_s")].rows;

    for (size_t i = 0; i < l->n_x; i += g)
        l->x[i] = i / l->cfg.C % l->T == 0;
}

/* Increments 1 but for the first token, whose gate is shut: angle t at position t. */
START_TEST(increments_of_one_after_the_first_token_are_rope_in_every_mixer)
{
    struct layer selective, rope;
    int          wg;

    open_with(&selective, rotated[_i], "srope(base=100,bias=1)");
    open_with(&rope, rotated[_i], "rope(base=100)");
    mark_first_token(&selective);
    copy_layer(&rope, &selective);
    fill(&selective, "sr_conv", 0);
    fill(&selective, "sr_bias", 0);
    fill(&selective, "sr_wg", 0);
    fill(&selective, "sr_bg", 40);
    wg = layer_param(&selective, "sr_wg");
    for (int h = 0; h < selective.param[wg].rows; h++)
        selective.wp[wg][(size_t)h * selective.cfg.C] = -4000;
    assert_equals(&selective, &rope);
    layer_close(&selective);
    layer_close(&rope);
}
END_TEST

/* gla without an encoding has a decay for each channel: give those of a pair the same. */
static void untie(struct layer *none, const struct layer *tied, const char *name)
{
    int from = layer_param(tied, name), to = layer_param(none, name);

    if (from < 0 || param_size(&none->param[to]) == param_size(&tied->param[from]))
        return;
    int    heads = tied->cfg.H;
    size_t half = param_size(&tied->param[from]) / heads;

    for (int i = 0; i < 2 * heads; i++)
        memcpy(none->wp[to] + i * half, tied->wp[from] + i / 2 * half,
               half * sizeof(real));
}

START_TEST(zero_increments_are_no_encoding)
{
    static const char *const settings[] = {
        "srope", "srope(rank=3)", "srope(act=none,gate=0)", "srope(act=turn)",
    };
    struct layer selective, none;

    open_with(&selective, rotated[_i % N_ROTATED], settings[_i / N_ROTATED]);
    open_with(&none, rotated[_i % N_ROTATED], "none");
    copy_layer(&none, &selective);
    untie(&none, &selective, "wa2");
    untie(&none, &selective, "ba");
    fill(&selective, "sr_conv", 0);
    assert_equals(&selective, &none);
    layer_close(&selective);
    layer_close(&none);
}
END_TEST

/* act = half of nothing is a quarter turn, in every token. */
START_TEST(half_way_between_no_turn_and_half_a_turn_is_a_quarter)
{
    struct layer half, biased;

    open_layer(&half, "softmax+srope(base=100,act=half,gate=0)", 2, 70);
    open_layer(&biased, "softmax+srope(base=100,act=none,gate=0,bias=1)", 2, 70);
    copy_layer(&biased, &half);
    fill(&half, "sr_conv", 0);
    fill(&biased, "sr_conv", 0);
    fill(&biased, "sr_bias", log(acos(-1) / 2));
    layer_forward(&half);
    layer_forward(&biased);
    layer_assert_near(&half, "y", half.y, biased.y, biased.n_x);
    layer_close(&half);
    layer_close(&biased);
}
END_TEST

/* With increments of 1: as the published code has them, sqrt((1 - cos)/(1 + cos)) of
 * angles from 0 to 0.9999 pi, scaled to the largest. */
START_TEST(temperatures_of_rfa_are_the_published_ones)
{
    struct layer l;
    struct angles a;

    open_layer(&l, "softmax+srope(temps=rfa,max=0.25,gate=0,bias=1)", 2, 70);
    fill(&l, "sr_conv", 0);
    fill(&l, "sr_bias", 0);
    layer_forward(&l);
    a = l.mixer.ctx.angles;
    ck_assert_int_gt(a.dk, 4);
    for (int j = 0, n = a.dk / 2; j < n; j++) {
        double at = cos(0.9999 * M_PI * j / (n - 1)), end = cos(0.9999 * M_PI);
        double f = 0.25 * sqrt((1 - at) / (1 + at)) / sqrt((1 - end) / (1 + end));

        for (int t = 0; t < l.T; t++)
            ck_assert_double_eq_tol((double)a.cos[t * a.t + j], cos((t + 1) * f), 1e-5);
    }
    layer_close(&l);
}
END_TEST

/* Taps 1 and -1 of the last two tokens; only they are not learned. */
START_TEST(skip_conv_is_the_convolution_that_takes_differences)
{
    static const char *const entries[][2] = {
        {"softmax+srope(skip_conv=1,bias=1)", "softmax+srope(bias=1)"},
        {"gla+srope(rank=3,act=none,skip_conv=1)", "gla+srope(rank=3,act=none)"},
    };
    struct layer skips, convolved;
    int          conv;

    open_layer(&skips, entries[_i][0], 2, 70);
    open_layer(&convolved, entries[_i][1], 2, 70);
    ck_assert_int_lt(layer_param(&skips, "sr_conv"), 0);
    copy_layer(&convolved, &skips);
    fill(&convolved, "sr_conv", 0);
    conv = layer_param(&convolved, "sr_conv");
    for (int p = 0; p < convolved.param[conv].rows; p++) {
        convolved.wp[conv][4 * p + 2] = -1;
        convolved.wp[conv][4 * p + 3] = 1;
    }
    layer_forward(&skips);
    layer_backward(&skips);
    layer_forward(&convolved);
    layer_backward(&convolved);
    layer_assert_near(&skips, "y", skips.y, convolved.y, convolved.n_x);
    layer_assert_near(&skips, "dx", skips.dx, convolved.dx, convolved.n_x);
    for (int i = 0; i < skips.n_param; i++) {
        int j = layer_param(&convolved, skips.param[i].name);

        layer_assert_near(&skips, skips.param[i].name, skips.dwp[i], convolved.dwp[j],
                          param_size(&skips.param[i]));
    }
    layer_close(&skips);
    layer_close(&convolved);
}
END_TEST

/* ---- tokens that turn -------------------------------------------------------------- */

enum { BIG = 1 << 20 };        // |x| at which 1e-6 under the root is nothing

/* Increments by hand: z_p = turn_p where the first channel of a chunk is BIG and all
 * others of it are 0, and z_p = 0 where the first channel is 0. No act, gate, bias. */
static void set_turns(const struct mixer_cfg *c, real *const *w, const struct param *p,
                      int first, const double *turn)
{
    for (int i = 0; i < p[first].rows; i++) {
        memset(w[first] + (size_t)i * p[first].cols, 0, p[first].cols * sizeof(real));
        w[first][(size_t)i * p[first].cols] = 3;
        memset(w[first + 2] + i * 4, 0, 4 * sizeof(real));
        w[first + 2][i * 4 + 3] = (real)turn[i];
    }
    for (int h = 0; h < c->Hk; h++)
        w[first + 1][h] = 1;
}

/* An angle that one token adds moves all later ones alike; only what lies before it can
 * tell. */
static const char *const invariant[] = {
    "softmax+srope(base=100,act=none,gate=0)",
    "softmax(kv_heads=1,window=5)+srope(base=100,act=none,gate=0)",
    "linear(feature=id,normalise=0)+srope(base=100,act=none,gate=0)",
    "linear(feature=taylor)+srope(base=100,act=none,gate=0)",
    "retention+srope(base=100,act=none,gate=0)",
    "gla+srope(base=100,act=none,gate=0)",
    "rela(kv_heads=1)+srope(base=100,act=none,gate=0)",
    "mlstm+srope(base=100,act=none,gate=0)",
    "deltanet+srope(base=100,act=none,gate=0)",
    "normattn+srope(base=100,act=none,gate=0)",
    "inline+srope(base=100,act=none,gate=0)",
};

enum { N_INVARIANT = sizeof invariant / sizeof *invariant };

/* Outputs of a layer in which token `at` alone turns, by `turn` radians. */
static real *turned(const char *entry, int at, double turn)
{
    struct layer l;
    double       turns[64];
    int          first;
    real        *y;

    open_layer(&l, entry, 1, 70);
    first = layer_param(&l, "sr_w");
    ck_assert_int_le(l.param[first].rows, 64);
    for (int i = 0; i < 64; i++)
        turns[i] = turn;
    for (int t = 0; t < l.T; t++)
        for (int g = 0; g < l.cfg.C; g += l.param[first].cols)
            l.x[(size_t)t * l.cfg.C + g] = t == at;
    set_turns(&l.cfg, l.wp, l.param, first, turns);
    layer_forward(&l);
    y = layer_copy(l.y, l.n_x);
    layer_close(&l);
    return y;
}

START_TEST(a_constant_added_to_all_angles_changes_nothing)
{
    const char  *entry = invariant[_i];
    size_t       n = 70 * 24;
    real        *still = turned(entry, 0, 0), *at_start = turned(entry, 0, 2.5);
    real        *fixed = turned(entry, 35, 0), *midway = turned(entry, 35, 2.5);
    double       limit = sizeof(real) == sizeof(double) ? 1e-12 : 2e-5;
    double       same = rig_error_real(at_start, still, n);

    ck_assert_msg(same <= limit, "%s: error %.3g", entry, same);
    ck_assert_msg(rig_error_real(midway, fixed, n) > 1e-3, "%s: does not turn", entry);
    free(still), free(at_start), free(fixed), free(midway);
}
END_TEST

/* ---- mixers with corners ----------------------------------------------------------- */

/* Their finite differences need steps too small for float, so they are not in the table
 * of variants. */
static const char *const cornered[] = {
    "luna(m=2,channels=2,hidden=2)+srope",
};

enum { N_CORNERED = sizeof cornered / sizeof *cornered };

static double loss_along(struct layer *l, int p, const real *u, double h)
{
    size_t n = param_size(&l->param[p]);
    real  *was = layer_copy(l->wp[p], n);

    for (size_t j = 0; j < n; j++)
        l->wp[p][j] += (real)h * u[j];
    layer_forward(l);
    memcpy(l->wp[p], was, n * sizeof *was);
    free(was);
    return layer_loss(l);
}

/* The slope along a random direction of parameter p. */
static void check_slope(struct layer *l, int p, struct rng *r)
{
    size_t n = param_size(&l->param[p]);
    real  *u = malloc(n * sizeof *u);
    double got = 0, want, norm = 0;

    rig_normal(r, u, n);
    for (size_t j = 0; j < n; j++) {
        got += (double)l->dwp[p][j] * (double)u[j];
        norm += (double)l->dwp[p][j] * (double)l->dwp[p][j];
    }
    want = (loss_along(l, p, u, 1e-6) - loss_along(l, p, u, -1e-6)) / 2e-6;
    ck_assert_msg(fabs(got - want) <= 2e-6 * sqrt(norm),
                  "%s: %s: slope %.9g by the gradient, %.9g by differences", l->entry,
                  l->param[p].name, got, want);
    free(u);
}

START_TEST(gradients_reach_the_angles_through_corners)
{
    struct rng   r = rng_open(13, RNG_TEST, 0);
    struct layer l;

    open_layer(&l, cornered[_i], 2, 70);
    layer_forward(&l);
    layer_backward(&l);
    for (int p = layer_param(&l, "sr_w"); p < l.n_param; p++)
        check_slope(&l, p, &r);
    layer_close(&l);
}
END_TEST

/* ---- the angles alone -------------------------------------------------------------- */

/* The encoding of softmax heads 8 wide, with parameters set by set_turns. */
struct encoding {
    struct mixer_cfg cfg;
    struct layout    layout;
    struct param     param[MIXER_PARAMS];
    real            *w[MIXER_PARAMS];
    struct ctx       ctx;
    void            *kept, *scratch;
};

static void encoding_open(struct encoding *e, const char *position,
                          enum pass_mode mode, int T, const double *turn)
{
    struct arena kept = arena_over(NULL, 0), scratch = kept;
    struct param all[MIXER_PARAMS];
    char         entry[128];
    int          n, first;

    snprintf(entry, sizeof entry, "softmax+%s", position);
    e->cfg = layer_cfg(entry, 8, 1, 16);
    first = mixer_own_params(&e->cfg);
    n = mixer_params(&e->cfg, all) - first;
    memcpy(e->param, all + first, n * sizeof *e->param);
    for (int i = 0; i < n; i++)
        e->w[i] = rig_reals(param_size(&e->param[i]));
    set_turns(&e->cfg, e->w, e->param, 0, turn);
    e->ctx = (struct ctx){.cfg = &e->cfg, .B = 1, .T = T};
    layer_encoding(&e->layout, &e->ctx, e->w, NULL, mode, &kept, &scratch);
    e->kept = aligned_alloc(64, kept.used);
    e->scratch = aligned_alloc(64, scratch.used);
    kept = arena_over(e->kept, kept.used);
    scratch = arena_over(e->scratch, scratch.used);
    layer_encoding(&e->layout, &e->ctx, e->w, NULL, mode, &kept, &scratch);
}

static void encoding_close(struct encoding *e)
{
    for (int i = 0; e->param[i].name; i++)
        free(e->w[i]);
    free(e->kept);
    free(e->scratch);
}

/* T tokens of width 8: one that turns where bit[t], else another. */
static real *tokens(const char *bit, int T)
{
    real *x = calloc((size_t)T * 8, sizeof *x);

    for (int t = 0; t < T; t++)
        x[(size_t)t * 8 + (bit[t] ? 0 : 1)] = BIG;
    return x;
}

static char *bits(int T)
{
    struct rng r = rng_open(9, RNG_TEST, 0);
    char      *bit = malloc(T);

    for (int t = 0; t < T; t++)
        bit[t] = rng_below(&r, 2) == 1;
    return bit;
}

/* Half a turn for every 1: cos is the parity of the ones so far. A real holds pi only to
 * its own precision; what it misses adds up with the ones, and nothing else does. */
START_TEST(half_turns_compute_parity_at_any_length)
{
    enum { T = 100000 };
    static const double pi = 3.14159265358979323846;
    struct encoding     e = {0};
    char               *bit = bits(T);
    real               *x = tokens(bit, T);
    int                 ones = 0;

    encoding_open(&e, "srope(base=1,act=none,gate=0)", PASS_SCORE, T,
                  (double[]){pi, pi, pi, pi});
    e.cfg.position->forward(&e.ctx, x);
    for (int t = 0; t < T; t++) {
        ones += bit[t];
        double missed = ones * fabs((double)(real)pi - pi);
        double want = ones % 2 ? -1 : 1, limit = missed * missed / 2 + 2e-7;
        double got = (double)e.ctx.angles.cos[t * e.ctx.angles.t];

        if (!(fabs(got - want) <= limit))
            ck_abort_msg("token %d: cos is %.9g after %d ones", t, got, ones);
    }
    encoding_close(&e);
    free(bit);
    free(x);
}
END_TEST

/* cos and sin of pair j after n turns, against the exact angle. */
static void check_angle(const struct encoding *e, size_t row, int j, double turn, long n)
{
    const struct angles *a = &e->ctx.angles;
    long double freq = powl(10000, -j / 4.0L), theta = n * (long double)(real)turn * freq;
    double      limit = sizeof(real) == sizeof(double) ? 1e-10 : 2e-7;
    double      error = fmax(fabs((double)a->cos[row * a->t + j] - (double)cosl(theta)),
                             fabs((double)a->sin[row * a->t + j] - (double)sinl(theta)));

    if (!(error <= limit))
        ck_abort_msg("pair %d after %ld turns: error %.3g", j, n, error);
}

START_TEST(angles_stay_exact_over_long_streams)
{
    enum { T = 50000 };
    static const double turn[] = {2.9, -1.3, 17.3, 900.1};
    struct encoding     e = {0};
    char               *bit = bits(T);
    real               *x = tokens(bit, T);
    void               *state;
    long                ones = 0;

    encoding_open(&e, "srope(base=10000,act=none,gate=0)", PASS_EXTEND, 1, turn);
    state = calloc(1, e.layout.state);
    for (long t = 0; t < T; t++) {
        e.ctx.pos = &t;
        e.cfg.position->extend(&e.ctx, &state, x + t * 8);
        ones += bit[t];
        for (int j = 0; j < 4; j++)
            check_angle(&e, 0, j, turn[j], ones);
    }
    free(state);
    encoding_close(&e);
    free(bit);
    free(x);
}
END_TEST

START_TEST(sine_and_cosine_are_good_to_the_last_digits)
{
    double limit = sizeof(real) == sizeof(double) ? 1e-15 : 2e-7;
    real   s, c;

    for (double x = -1000; x <= 1000; x += 0.00317) {
        vsincos(x, &s, &c);
        if (!(fabs((double)s - sin(x)) <= limit && fabs((double)c - cos(x)) <= limit))
            ck_abort_msg("at %.17g: %.9g, %.9g", x, (double)s, (double)c);
    }
    vsincos(0, &s, &c);
    ck_assert(s == 0 && c == 1);
    vsincos(NAN, &s, &c);
    ck_assert(isnan(s) && isnan(c));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("srope");
    TCase *tc = tcase_create("srope");

    tcase_add_loop_test(tc, unit_increments_are_rope, 0, 2);
    tcase_add_test(tc, a_gate_half_open_halves_the_increments);
    tcase_add_loop_test(
        tc, increments_of_one_after_the_first_token_are_rope_in_every_mixer, 0,
        N_ROTATED);
    tcase_add_loop_test(tc, zero_increments_are_no_encoding, 0, 4 * N_ROTATED);
    tcase_add_test(tc, half_way_between_no_turn_and_half_a_turn_is_a_quarter);
    tcase_add_test(tc, temperatures_of_rfa_are_the_published_ones);
    tcase_add_loop_test(tc, skip_conv_is_the_convolution_that_takes_differences, 0, 2);
    tcase_add_loop_test(tc, a_constant_added_to_all_angles_changes_nothing, 0,
                        N_INVARIANT);
    if (sizeof(real) == sizeof(double))
        tcase_add_loop_test(tc, gradients_reach_the_angles_through_corners, 0,
                            N_CORNERED);
    tcase_add_test(tc, half_turns_compute_parity_at_any_length);
    tcase_add_test(tc, angles_stay_exact_over_long_streams);
    tcase_add_test(tc, sine_and_cosine_are_good_to_the_last_digits);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
