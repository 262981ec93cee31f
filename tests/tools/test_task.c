/* The laboratory's parts: its generators, its trainer, its record of finished cells. */
#include "data/base/clock.h"
#include "data/base/file.h"
#include "tests/support/rig.h"
#include "tools/lab/recall/recall.h"
#include "tools/lab/recall/strings.h"
#include "tools/lab/text/plain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A directory of this name, the same one for the same name. */
static char *place(char *dir, size_t cap, const char *name)
{
    static const char *tmp;

    tmp = tmp ? tmp : rig_tmp();
    return path_join(dir, cap, tmp, name);
}

/* ---- recall ---- */

enum { V = 64, T = 64, MOST = 16 };

static void draw_recall(int K, uint64_t i, int32_t *tokens, int32_t *targets)
{
    struct recall o = {.vocab = V, .pairs = {K}, .n = 1};
    struct rng    r = rng_open(3, RNG_TEST, i);

    recall_fill(&o, &r, T, tokens, targets);
}

/* Where the context shows this key, or -1. */
static int pair_of(const int32_t *tokens, int K, int32_t key)
{
    for (int j = 0; j < K; j++)
        if (tokens[2 * j] == key)
            return j;
    return -1;
}

static void check_context(const int32_t *tokens, const int32_t *targets, int K)
{
    int seen[V] = {0};

    for (int j = 0; j < 2 * K; j++) {
        int32_t token = tokens[j];

        ck_assert_int_eq(targets[j], -1);
        ck_assert_int_eq(seen[token]++, 0);
        ck_assert(j % 2 ? token >= V / 2 && token < V : token >= 1 && token < V / 2);
    }
}

static void check_queries(const int32_t *tokens, const int32_t *targets, int K)
{
    int asked = 0, seen[MOST] = {0};

    for (int t = 2 * K; t < T; t++) {
        int j = pair_of(tokens, K, tokens[t]);

        if (tokens[t] == 0) {
            ck_assert_int_eq(targets[t], -1);
            continue;
        }
        ck_assert_int_eq(t % 2, 0);
        ck_assert_int_ge(j, 0);
        ck_assert_int_eq(seen[j]++, 0);
        ck_assert_int_eq(targets[t], tokens[2 * j + 1]);
        asked++;
    }
    ck_assert_int_eq(asked, K);
}

START_TEST(recall_is_laid_out_as_published)
{
    int32_t tokens[T], targets[T];
    int     K = 1 << _i;

    for (uint64_t i = 0; i < 50; i++) {
        draw_recall(K, i, tokens, targets);
        check_context(tokens, targets, K);
        check_queries(tokens, targets, K);
    }
}
END_TEST

/* The slot where the context's pair j is asked for. */
static int slot_of(const int32_t *tokens, int K, int j)
{
    for (int t = 2 * K; t < T; t += 2)
        if (tokens[t] == tokens[2 * j])
            return (t - 2 * K) / 2;
    return -1;
}

/* Pair 0 is asked for in slot i with chance p_i, i^(a - 1) normalised; pair 1 in slot j
 * with sum_i p_i p_j / (1 - p_i) over the others. */
START_TEST(the_slots_of_the_queries_follow_the_published_law)
{
    enum { K = 4, SLOTS = (T - 2 * K) / 2, DRAWS = 20000 };
    double  p[SLOTS], second[SLOTS] = {0}, sum = 0;
    long    count[2][SLOTS] = {{0}};
    int32_t tokens[T], targets[T];

    for (int i = 0; i < SLOTS; i++)
        sum += p[i] = pow(i + 1, 0.01 - 1);
    for (int i = 0; i < SLOTS; i++)
        p[i] /= sum;
    for (int i = 0; i < SLOTS; i++)
        for (int j = 0; j < SLOTS; j++)
            second[j] += i == j ? 0 : p[i] * p[j] / (1 - p[i]);
    for (uint64_t n = 0; n < DRAWS; n++) {
        draw_recall(K, n, tokens, targets);
        count[0][slot_of(tokens, K, 0)]++;
        count[1][slot_of(tokens, K, 1)]++;
    }
    for (int i = 0; i < SLOTS; i++) {
        double want[2] = {DRAWS * p[i], DRAWS * second[i]};

        for (int j = 0; j < 2; j++)
            ck_assert_msg(fabs(count[j][i] - want[j]) < 4.5 * sqrt(want[j]),
                          "pair %d in slot %d: %ld times, not %.0f", j, i, count[j][i],
                          want[j]);
    }
}
END_TEST

START_TEST(a_string_is_followed_by_its_copy_and_the_copy_is_wanted)
{
    struct strings o = {26, 5, 5};
    struct rng     r = rng_open(1, RNG_TEST, 0);
    enum { L = 5, ONE = 2 * L + 3, ALL = 2 * ONE + 4 };
    int32_t tokens[ALL], targets[ALL];

    strings_fill(&o, &r, ALL, tokens, targets);
    for (int s = 0; s < 2; s++) {
        const int32_t *t = tokens + s * ONE, *want = targets + s * ONE;

        ck_assert(t[0] == STRING_BEGIN && t[L + 1] == STRING_TURN &&
                  t[ONE - 1] == STRING_END);
        ck_assert_mem_eq(t + 1, t + L + 2, L * sizeof *t);
        ck_assert_mem_eq(t + 1, want + L + 1, L * sizeof *t);
        for (int i = 0; i < ONE; i++)
            ck_assert(i > L && i <= 2 * L ? want[i] >= STRING_LETTERS : want[i] == -1);
    }
    for (int i = 2 * ONE; i < ALL; i++)
        ck_assert(tokens[i] == STRING_PAD && targets[i] == -1);
}
END_TEST

/* ---- models ---- */

enum { SMALL_V = 9, SMALL_T = 12, SMALL_B = 3, N = SMALL_B * SMALL_T };

struct small {
    struct model model;
    struct pass  pass;
    int32_t      tokens[N], targets[N];
};

/* Two blocks without an MLP; every third position is asked. */
static void small_open(struct small *s)
{
    struct config c;
    struct why    why;
    struct rng    r = rng_open(5, RNG_TEST, 0);

    config_defaults(&c);
    c.layers = 2, c.width = 16, c.heads = 2, c.vocab = SMALL_V, c.context = SMALL_T;
    ck_assert_int_eq(config_resolve(&c, &why), 0);
    c.mlp = 0;
    ck_assert_int_eq(model_open(&s->model, &c, &why), 0);
    model_init(&s->model, 2);
    ck_assert(!pass_open(&s->pass, &s->model, SMALL_B, SMALL_T, PASS_TRAIN, &why));
    memset(s->pass.dw, 0, s->pass.dw_bytes);
    for (int i = 0; i < N; i++) {
        s->tokens[i] = (int32_t)rng_below(&r, SMALL_V);
        s->targets[i] = i % 3 ? -1 : (int32_t)rng_below(&r, SMALL_V);
    }
}

static void small_close(struct small *s)
{
    pass_close(&s->pass);
    model_close(&s->model);
}

/* The mean loss with the weights moved by h along u. */
static double loss_along(struct small *s, const real *u, double h)
{
    size_t n = s->model.n;
    real  *w = malloc(n * sizeof *w);
    double loss;

    memcpy(w, s->model.w, n * sizeof *w);
    for (size_t i = 0; i < n; i++)
        s->model.w[i] += (real)h * u[i];
    loss = model_step(&s->model, &s->pass, s->tokens, s->targets, 0, 1);
    memcpy(s->model.w, w, n * sizeof *w);
    free(w);
    return loss;
}

START_TEST(a_model_without_mlp_has_the_gradient_of_its_loss)
{
    struct small s;
    double       norm = 0, slope;
    const double h = 2e-3;

    small_open(&s);
    model_step(&s.model, &s.pass, s.tokens, s.targets, 0, 1);
    real *u = calloc(s.model.n, sizeof *u);

    for (size_t i = 0; i < s.model.n; i++)
        norm += (double)s.pass.dw[i] * s.pass.dw[i];
    norm = sqrt(norm);
    for (size_t i = 0; i < s.model.n; i++)
        u[i] = s.pass.dw[i] / (real)norm;
    slope = (loss_along(&s, u, h) - loss_along(&s, u, -h)) / (2 * h);
    ck_assert_msg(fabs(slope - norm) < 2e-3 * norm, "slope %.6g, gradient %.6g", slope,
                  norm);
    free(u);
    small_close(&s);
}
END_TEST

START_TEST(the_predicted_token_is_the_one_with_the_fewest_nats)
{
    struct small s;
    int32_t      best[N], all[N];
    real         nats[N], least[N];

    small_open(&s);
    model_predict(&s.model, &s.pass, SMALL_B, SMALL_T, s.tokens, s.targets, best);
    for (int i = 0; i < N; i++)
        least[i] = INFINITY;
    for (int32_t v = 0; v < SMALL_V; v++) {
        for (int i = 0; i < N; i++)
            all[i] = v;
        model_score(&s.model, &s.pass, SMALL_B, SMALL_T, s.tokens, all, 0, nats);
        for (int i = 0; i < N; i++)
            least[i] = nats[i] < least[i] ? nats[i] : least[i];
    }
    for (int i = 0; i < N; i++)
        all[i] = best[i] < 0 ? 0 : best[i];
    model_score(&s.model, &s.pass, SMALL_B, SMALL_T, s.tokens, all, 0, nats);
    for (int i = 0; i < N; i++)
        ck_assert(s.targets[i] < 0 ? best[i] == -1 : nats[i] <= least[i] + (real)1e-5);
    small_close(&s);
}
END_TEST

/* ---- training ---- */

/* Wanted at every second position: the token two before it. */
static void fill_lag(const void *user, struct rng *r, int n, int32_t *tokens,
                     int32_t *targets)
{
    (void)user;
    for (int t = 0; t < n; t++) {
        tokens[t] = (int32_t)rng_below(r, 8);
        targets[t] = t >= 2 && t % 2 ? tokens[t - 2] : -1;
    }
}

static double lag_accuracy[2];

static enum fail train_lag(struct lab *l, struct why *why)
{
    struct task t = {
        .mixers = "s6(expand=1,state=1)",
        .layers = 1,
        .width = 32,
        .heads = 1,
        .vocab = 8,
        .batch = 32,
        .length = 16,
        .lr = 1e-2,
        .clip = 1,
        .seed = 1,
        .fill = fill_lag,
    };
    int code = FAIL_NONE;

    for (int i = 0; !code && i < 2; i++) {
        struct task_count c = {0};
        struct model      m;

        t.steps = i ? 150 : 1;
        code = task_train(&t, &m, l, "lag", 1, why);
        if (!code)
            code = task_test(&t, &m, 24, 64, task_count_each, &c, why);
        ck_assert_int_eq(c.asked, 64 * 11);
        lag_accuracy[i] = task_accuracy(&c);
        model_close(&m);
    }
    return code;
}

static const real *weights_of(const struct model *m, const char *name)
{
    for (int i = 0; i < m->n_param; i++)
        if (!strcmp(m->param[i].name, name))
            return m->wp[i];
    return NULL;
}

/* Attention to linear attention by nothing but transfer. */
static enum fail transfer_lag(struct lab *l, struct why *why)
{
    struct model from, m;
    struct task  t = {.mixers = "softmax", .layers = 1, .width = 16, .heads = 2,
                      .mlp = 16, .vocab = 8, .batch = 8, .length = 24, .steps = 1,
                      .lr = 1e-2, .clip = 1, .seed = 1, .fill = fill_lag};
    enum fail    err = task_train(&t, &from, l, "from", 1, why);

    if (err)
        return err;
    t.mixers = "linear+rope", t.start = &from, t.steps = t.transfer = 30;
    err = task_train(&t, &m, l, "to", 1, why);
    for (int i = 0; !err && i < m.n_param; i++) {
        size_t      bytes = param_size(&m.param[i].is) * sizeof(real);
        const real *was = weights_of(&from, m.param[i].name);
        bool        same = was && !memcmp(m.wp[i], was, bytes);

        ck_assert_msg(same != model_of_mixer(&m, i), "%s", m.param[i].name);
    }
    model_close(&from);
    model_close(&m);
    return err;
}

static int run_in(const char *name, enum form                               form,
                  enum fail (*run)(struct lab *, struct why *), struct why *why)
{
    struct experiment e = {.name = "try", .claim = "claim", .paper = "paper",
                           .columns = "a,b", .seeds = 1, .run = run};
    char              dir[512];
    struct lab_ask    ask = {.form = form, .json = false, .out = dir};
    struct verdicts   v = {0};

    place(dir, sizeof dir, name);
    int code = lab_run(&e, &ask, &v, why);

    verdicts_free(&v);
    return code;
}

/* ---- attention, looked at ---- */

enum { LOOK = 40, READERS = 2 };

static void open_reader(struct model *m, const char *entry, int32_t *tokens)
{
    struct config c;
    struct why    why;
    struct rng    r = rng_open(5, RNG_TEST, 0);

    config_defaults(&c);
    c.layers = 2, c.width = 32, c.heads = 4, c.vocab = V, c.context = LOOK;
    ck_assert_int_eq(config_set(&c, "mixers", entry, &why), FAIL_NONE);
    ck_assert_int_eq(config_resolve(&c, &why), FAIL_NONE);
    ck_assert_int_eq(model_open(m, &c, &why), FAIL_NONE);
    model_init(m, 7);
    for (size_t i = 0; i < m->n; i++)
        m->w[i] *= 3;                   // weights that are far from uniform
    for (int i = 0; i <= READERS * LOOK; i++)
        tokens[i] = (int32_t)rng_below(&r, V);
}

static void score_reader(const struct model *m, const int32_t *tokens, real *nats)
{
    struct pass p;
    struct why  why;

    ck_assert_int_eq(pass_open(&p, m, READERS, LOOK, PASS_SCORE, &why), FAIL_NONE);
    model_score(m, &p, READERS, LOOK, tokens, tokens + 1, 0, nats);
    pass_close(&p);
}

START_TEST(a_plain_model_finds_the_same_nats)
{
    int32_t       tokens[READERS * LOOK + 1];
    unsigned char hidden[LOOK * LOOK] = {0};
    real          nats[READERS * LOOK];
    double        plain[LOOK], blind[LOOK];
    struct model  m;
    struct why    why;

    open_reader(&m, "softmax", tokens);
    score_reader(&m, tokens, nats);
    ck_assert_int_eq(plain_nats(&m, LOOK, tokens, tokens + 1, NULL, plain, &why),
                     FAIL_NONE);
    for (int t = 0; t < LOOK; t++)
        ck_assert_double_eq_tol(plain[t], (double)nats[t], 1e-4);
    hidden[20 * LOOK + 3] = 1;          // token 20 and what reads it later, none before
    ck_assert_int_eq(plain_nats(&m, LOOK, tokens, tokens + 1, hidden, blind, &why),
                     FAIL_NONE);
    for (int t = 0; t < 20; t++)
        ck_assert(plain[t] == blind[t]);
    ck_assert(plain[20] != blind[20]);
    model_close(&m);
}
END_TEST

START_TEST(weights_of_attention_are_counted)
{
    static const char *const entries[] = {"softmax", "softmax(window=5)", "rela"};
    int32_t         tokens[READERS * LOOK + 1];
    struct attended seen;
    struct model    m;
    struct why      why;

    open_reader(&m, entries[_i], tokens);
    ck_assert_int_eq(task_attended(&m, READERS, LOOK, tokens, &seen, &why), FAIL_NONE);
    ck_assert_double_eq(seen.rows, 2 * 4 * READERS * LOOK);
    ck_assert_double_eq(seen.pairs, 2 * 4 * READERS * LOOK * (LOOK + 1) / 2);
    if (_i == 0)
        ck_assert_double_eq(seen.zeros, 0);
    if (_i == 1)                        // all but a window of 5
        ck_assert_double_eq(seen.zeros, 2 * 4 * READERS * (LOOK - 5) * (LOOK - 4) / 2);
    if (_i == 2)
        ck_assert(seen.zeros > 0.4 * seen.pairs && seen.zeros < 0.6 * seen.pairs);
    ck_assert(seen.apart > 0 && seen.apart < 2 * seen.met);     // log2 of 4 heads
    model_close(&m);
}
END_TEST

/* Heads with the same queries and keys look at the same places. */
START_TEST(heads_that_are_the_same_are_not_apart)
{
    static const char *const names[] = {"wq", "wk"};
    int32_t         tokens[READERS * LOOK + 1];
    struct attended seen;
    struct model    m;
    struct why      why;

    open_reader(&m, _i ? "rela" : "softmax", tokens);
    for (int i = 0; i < m.n_param; i++)
        for (int k = 0; k < 2; k++)
            if (strstr(m.param[i].name, names[k]))
                for (int row = 8; row < 32; row++)
                    memcpy(m.w + m.param[i].at + row * 32,
                           m.w + m.param[i].at + row % 8 * 32, 32 * sizeof *m.w);
    ck_assert_int_eq(task_attended(&m, READERS, LOOK, tokens, &seen, &why), FAIL_NONE);
    ck_assert(seen.met > 0);
    ck_assert_double_eq_tol(seen.apart / seen.met, 0, 1e-12);
    model_close(&m);
}
END_TEST

START_TEST(a_task_is_learnt_from_its_labelled_positions)
{
    struct why why = {"?"};

    ck_assert_msg(run_in("lag", LAB_BRIEF, train_lag, &why) == 0, "%s", why.line);
    ck_assert_msg(lag_accuracy[0] < 0.3, "untrained: %.3f", lag_accuracy[0]);
    ck_assert_msg(lag_accuracy[1] > 0.95, "trained: %.3f", lag_accuracy[1]);
}
END_TEST

START_TEST(steps_of_transfer_change_the_mixers_alone)
{
    struct why why = {"?"};

    ck_assert_msg(run_in("transfer", LAB_BRIEF, transfer_lag, &why) == 0, "%s", why.line);
}
END_TEST

/* ---- the record ---- */

static int stop_after, computed;

/* Four cells; the user asks to stop after stop_after of them. */
static enum fail four_cells(struct lab *l, struct why *why)
{
    lab_plan(l, 4);
    for (int i = 0; i < 4; i++) {
        char   key[32];
        double values[2];
        int    code;

        snprintf(key, sizeof key, "gla(conv=4,rank=3) %d", i);
        if (lab_recall(l, key, values)) {
            ck_assert(values[0] == i / 3.0 && isnan(values[1]));
            continue;
        }
        interrupted = computed == stop_after;
        if (!lab_progress(l, key, 0.5))
            return FAIL_INTERRUPTED;
        computed++;
        values[0] = i / 3.0, values[1] = NAN;
        if ((code = lab_record(l, key, values, why)))
            return code;
    }
    return FAIL_NONE;
}

START_TEST(finished_cells_outlive_an_interruption)
{
    struct why why;

    computed = 0, stop_after = 3;
    ck_assert_int_eq(run_in("cells", LAB_QUICK, four_cells, &why), FAIL_INTERRUPTED);
    ck_assert_int_eq(computed, 3);
    interrupted = 0, stop_after = 99;
    ck_assert_int_eq(run_in("cells", LAB_QUICK, four_cells, &why), 0);
    ck_assert_int_eq(computed, 4);
    ck_assert_int_eq(run_in("cells", LAB_QUICK, four_cells, &why), 0);
    ck_assert_int_eq(computed, 4);
}
END_TEST

START_TEST(cells_of_another_form_are_not_taken)
{
    struct why why;

    computed = 0, stop_after = 99;
    ck_assert_int_eq(run_in("forms", LAB_QUICK, four_cells, &why), 0);
    ck_assert_int_eq(run_in("forms", LAB_FULL, four_cells, &why), 0);
    ck_assert_int_eq(computed, 8);
    ck_assert_int_eq(run_in("forms", LAB_QUICK, four_cells, &why), 0);
    ck_assert_int_eq(computed, 8);
}
END_TEST

static const char *const broken[] = {
    "", "nonsense\n", "form,cell,a\n", "form,cell,a,b\nquick,\"x\",1\n",
    "form,cell,a,b\nquick,\"x\",1,2", "form,cell,a,b\nquick,\"x,1,2\n",
    "form,cell,a,b\nquick,\"x\",1,b\n", "form,cell,a,b\nquick,\"x\",1,2,3\n",
};

START_TEST(a_record_of_something_else_is_refused)
{
    struct why why;
    char       dir[512], path[600], name[16];

    snprintf(name, sizeof name, "broken%d", _i);
    place(dir, sizeof dir, name);
    ck_assert_int_eq(dir_make(dir, &why), 0);
    path_join(path, sizeof path, dir, "try.csv");
    ck_assert_int_eq(file_write(path, broken[_i], strlen(broken[_i]), &why), 0);
    ck_assert_int_eq(run_in(name, LAB_QUICK, four_cells, &why), FAIL_INPUT);
    ck_assert_ptr_nonnull(strstr(why.line, "try.csv"));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("task");
    TCase *tc = tcase_create("lab");

    tcase_add_loop_test(tc, recall_is_laid_out_as_published, 0, 5);
    tcase_add_test(tc, the_slots_of_the_queries_follow_the_published_law);
    tcase_add_test(tc, a_string_is_followed_by_its_copy_and_the_copy_is_wanted);
    tcase_add_test(tc, a_model_without_mlp_has_the_gradient_of_its_loss);
    tcase_add_test(tc, the_predicted_token_is_the_one_with_the_fewest_nats);
    tcase_add_test(tc, a_plain_model_finds_the_same_nats);
    tcase_add_loop_test(tc, weights_of_attention_are_counted, 0, 3);
    tcase_add_loop_test(tc, heads_that_are_the_same_are_not_apart, 0, 2);
    tcase_add_test(tc, a_task_is_learnt_from_its_labelled_positions);
    tcase_add_test(tc, steps_of_transfer_change_the_mixers_alone);
    tcase_add_test(tc, finished_cells_outlive_an_interruption);
    tcase_add_test(tc, cells_of_another_form_are_not_taken);
    tcase_add_loop_test(tc, a_record_of_something_else_is_refused, 0,
                        sizeof broken / sizeof *broken);
    suite_add_tcase(s, tc);
    return s;
}

int main(void) { return rig_run(suite(), 0); }
