/* How parameters begin, and which of them decay: SPEC's tables. */
#include "model/model.h"
#include "tests/support/rig.h"
#include "tests/support/variants.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { C = 512, H = 64, E = C / H, LAYERS = 2 };

static const char *const entries[] = {
    "softmax(qk_norm=1,sink=1)+srope(bias=1)", "softmax+srope(rank=8)", "rela",
    "linear(feature=id,normalise=0)", "linear(feature=hedgehog)", "luna", "normattn",
    "normattn(eta=exp)", "inline", "retention", "mlstm", "ssd", "deltanet",
    "gla(conv=4)", "metala", "qlstm(reversed=1)", "rglru", "mingru", "s6",
};

enum { N_ENTRIES = sizeof entries / sizeof *entries };

/* All equal a; N(0, a); spread from a to b; between a and b. */
enum kind { CONST, NORMAL, SPREAD, BETWEEN };

struct rule {
    const char *entry, *names;      // those that begin with entry; names parted by blanks
    enum kind   kind;
    double      a, b;
};

/* Of a step: the inverse softplus of 1e-3 and of 1e-1. */
#define STEP -6.9073, -2.2522

static const struct rule rules[] = {
    {"", "qn kn norm dskip sr_s",                      CONST, 1},
    {"", "sink hqb hkb b1 b2 fb bg aug ba convb sr_bias sr_bg by bx", CONST, 0},
    {"", "conv cq ck cv",                              SPREAD, -0.5, 0.5},
    {"", "gate w2 sr_conv sr_wg",                      NORMAL, 0.02},
    {"", "dtb bdt",                                    SPREAD, STEP},
    {"luna", "fw",                                     NORMAL, 0.35355},    // E^-1/2
    {"luna", "f1 f1b",                                 NORMAL, 1},
    {"luna", "f2",                                     NORMAL, 0.125},      // 64^-1/2
    {"luna", "f2b",                                    CONST, 0.1},
    {"normattn(eta=exp)", "bn",                        CONST, 0},
    {"normattn", "bn",                                 SPREAD, 4, 9},
    {"mlstm", "wg wi wf",                              CONST, 0},
    {"mlstm", "bi",                                    CONST, -10},
    {"mlstm", "bf",                                    SPREAD, 3, 6},
    {"ssd", "alog",                                    SPREAD, 0, 2.7726},  // log 16
    {"deltanet", "alog",                               BETWEEN, -6.9078, 2.7726},
    {"metala", "wq wa",                                SPREAD, -0.015625, 0.015625},
    {"qlstm", "win",                                   NORMAL, 0.044194},   // C^-1/2
    {"qlstm", "wg",                                    NORMAL, 0.03125},    // (2 C)^-1/2
    {"qlstm", "a",                                     CONST, 1},
    {"rglru", "wa wi",                                 NORMAL, 0.35355},
    {"rglru", "bi",                                    CONST, 0},
    {"rglru", "lam",                                   SPREAD, -6.9073, -2.1977},
    {"s6", "wdt",                                      SPREAD, -0.17678, 0.17678},
    {"s6", "alog",                                     SPREAD, 0, 2.7726},
};

enum { N_RULES = sizeof rules / sizeof *rules };

/* Whether a name is one of a list parted by blanks. */
static bool listed(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = list; (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

/* The rule of a parameter. That of matrices without one of their own: N(0, S), of
 * outputs by 1 / sqrt(2 layers). */
static struct rule rule_of(const char *entry, const struct param *p)
{
    double S = sqrt(2 / (5.0 * p->cols));

    for (int i = 0; i < N_RULES; i++)
        if (!strncmp(rules[i].entry, entry, strlen(rules[i].entry)) &&
            listed(rules[i].names, p->name))
            return rules[i];
    ck_assert_msg(p->name[0] == 'w' || listed("sr_a sr_b", p->name), "%s: no rule for %s",
                  entry, p->name);
    return (struct rule){entry, p->name, NORMAL,
                         strcmp(p->name, "wo") ? S : S / sqrt(2 * LAYERS)};
}

static bool follows(const struct rule *r, const real *w, size_t n)
{
    double least = INFINITY, most = -INFINITY, square = 0, rim = 1e-3 * (r->b - r->a);

    for (size_t i = 0; i < n; i++) {
        least = fmin(least, (double)w[i]);
        most = fmax(most, (double)w[i]);
        square += (double)w[i] * (double)w[i] / (double)n;
    }
    if (r->kind == CONST)
        return least == (double)(real)r->a && most == least;
    if (r->kind == NORMAL)
        return fabs(sqrt(square) / r->a - 1) < 3 / sqrt((double)n) && least * most < 0;
    if (least < r->a - rim || most > r->b + rim)
        return false;
    return r->kind == BETWEEN || most - least > 0.7 * (r->b - r->a);
}

/* One of each head, in rows. */
static void assert_identities(const struct param *p, const real *w)
{
    for (size_t i = 0; i < param_size(p); i++)
        if (w[i] != (i / E % E == i % E))
            ck_abort_msg("%s is not the identity", p->name);
}

/* The rows of sr_w count by their direction alone; proj has its tests in
 * test_linear_attention. */
START_TEST(parameters_begin_as_their_tables_say)
{
    struct mixer_cfg c = layer_cfg(entries[_i], C, H, 256);
    struct param     p[MIXER_PARAMS];
    int              n = mixer_params(&c, p);
    real            *w[MIXER_PARAMS];

    ck_assert_int_eq(c.layers, LAYERS);
    for (int i = 0; i < n; i++)
        w[i] = rig_reals(param_size(&p[i]));
    mixer_init(&c, w, 3, 0);
    for (int i = 0; i < n; i++) {
        if (listed("hq hk", p[i].name))
            assert_identities(&p[i], w[i]);
        else if (strcmp(p[i].name, "sr_w")) {
            struct rule r = rule_of(entries[_i], &p[i]);

            ck_assert_msg(follows(&r, w[i], param_size(&p[i])), "%s: %s begins wrongly",
                          entries[_i], p[i].name);
        }
        free(w[i]);
    }
}
END_TEST

/* How a tensor begins by its declaration alone, of INIT_OWN apart. */
static struct rule declared(const struct param *p)
{
    double S = sqrt(2 / (5.0 * p->cols));

    switch (p->init) {
    case INIT_ZERO:
    case INIT_ONE:
        return (struct rule){.kind = CONST, .a = p->init == INIT_ONE};
    case INIT_CONST:
        return (struct rule){.kind = CONST, .a = p->a};
    case INIT_UNIFORM:
        return (struct rule){.kind = BETWEEN, .a = -p->a, .b = p->a};
    case INIT_NORMAL:
        return (struct rule){.kind = NORMAL, .a = p->a};
    case INIT_OUTPUT:
        return (struct rule){.kind = NORMAL, .a = S / sqrt(2 * LAYERS)};
    default:
        return (struct rule){.kind = NORMAL, .a = S};
    }
}

/* Small tensors are left to the tables: the deviation of a few numbers says little. */
START_TEST(parameters_begin_as_declared)
{
    struct mixer_cfg c = variant_cfg(_i, 240);
    struct param     p[MIXER_PARAMS];
    int              n = mixer_params(&c, p);
    real            *w[MIXER_PARAMS];

    for (int i = 0; i < n; i++)
        w[i] = rig_reals(param_size(&p[i]));
    mixer_init(&c, w, 3, 0);
    for (int i = 0; i < n; i++) {
        struct rule r = declared(&p[i]);

        ck_assert_msg(p[i].init == INIT_OWN ||
                      (r.kind == NORMAL && param_size(&p[i]) < 500) ||
                      follows(&r, w[i], param_size(&p[i])), "%s: %s begins wrongly",
                      variant_entry(_i), p[i].name);
        free(w[i]);
    }
}
END_TEST

/* Whether the tables above are about this entry's mixer. */
static bool in_tables(const char *entry)
{
    size_t n = strcspn(entry, "(+");
    int    i = 0;

    while (i < N_ENTRIES && (strncmp(entries[i], entry, n) ||
                             strcspn(entries[i], "(+") != n))
        i++;
    return i < N_ENTRIES;
}

START_TEST(only_matrices_decay)
{
    struct mixer_cfg c = variant_cfg(_i, 24);
    struct param     p[MIXER_PARAMS];

    for (int i = mixer_params(&c, p) - 1; i >= 0; i--) {
        bool matrix = p[i].name[0] == 'w' ||
                      listed("sr_a sr_b sr_wg fw f1 f2", p[i].name);

        ck_assert_msg(!p[i].decay || (p[i].cols > 0 && !p[i].buffer), "%s: %s",
                      variant_entry(_i), p[i].name);
        if (in_tables(variant_entry(_i)))
            ck_assert_msg(p[i].decay == matrix &&
                          p[i].buffer == !strcmp(p[i].name, "proj"), "%s: %s",
                          variant_entry(_i), p[i].name);
    }
}
END_TEST

/* The root of the mean square of a model's parameter. */
static double spread(const struct model *m, const char *name)
{
    for (int i = 0; i < m->n_param; i++)
        if (!strcmp(m->param[i].name, name)) {
            const real *w = m->w + m->param[i].at;
            size_t      n = param_size(&m->param[i].is);
            double      sum = 0;

            for (size_t j = 0; j < n; j++)
                sum += (double)w[j] * (double)w[j];
            return sqrt(sum / (double)n);
        }
    ck_abort_msg("no parameter is called %s", name);
    return NAN;
}

static const struct {
    double embed_init, out_init;
} starts[] = {{1, 1}, {0.25, 0}, {4, 0.5}};

/* Width 64: 1/8 for the embedding; S sqrt(1/4) for outputs, S = sqrt(2 / (5 inputs)). */
START_TEST(embedding_and_output_projections_start_by_their_factors)
{
    static const char *const        wo[] = {"blocks.0.mixer.wo", "blocks.1.mixer.wo"},
                             *const wd[] = {"blocks.0.mlp.wd", "blocks.1.mlp.wd"};
    double        embed = starts[_i].embed_init, out = starts[_i].out_init;
    struct config c;
    struct model  m;
    struct why    why;

    config_defaults(&c);
    c.layers = 2, c.width = 64, c.vocab = 512;
    c.embed_init = embed, c.out_init = out;
    snprintf(c.mixers, sizeof c.mixers, "softmax/mingru");
    ck_assert_msg(!config_resolve(&c, &why) && !model_open(&m, &c, &why), "%s", why.line);
    model_init(&m, 3);
    ck_assert_double_eq_tol(spread(&m, "embed"), embed / 8, 0.02 * embed / 8);
    for (int i = 0; i < 2; i++) {
        double S = sqrt(2 / (5.0 * 64)), D = sqrt(2 / (5.0 * c.mlp));

        ck_assert_double_eq_tol(spread(&m, wo[i]), out * S / 2, 0.04 * S / 2);
        ck_assert_double_eq_tol(spread(&m, wd[i]), out * D / 2, 0.04 * D / 2);
    }
    ck_assert_double_eq_tol(spread(&m, "blocks.0.mixer.wq"), sqrt(2 / 320.0), 3e-3);
    model_close(&m);
}
END_TEST

/* With copy the last block's first head writes what it reads, `copy` times and on a
 * subspace of its size; tokens enter at 1, and the final norm takes that back. */
START_TEST(a_head_begins_as_a_copier)
{
    static const struct {
        const char *mixers;
        int         head;           // numbers of one
    } form[] = {{"softmax", 32}, {"softmax(heads=4,kv_heads=1)", 16}};
    const int     head = form[_i].head;
    struct config c;
    struct model  m, plain;
    struct why    why;
    const real   *wv = NULL, *wo = NULL, *plain_wo = NULL;

    config_defaults(&c);
    c.layers = 2, c.width = 64, c.heads = 2, c.vocab = 512;
    snprintf(c.mixers, sizeof c.mixers, "%s", form[_i].mixers);
    ck_assert_msg(!config_resolve(&c, &why) && !model_open(&plain, &c, &why), "%s",
                  why.line);
    c.copy = 12;
    ck_assert_msg(!config_resolve(&c, &why) && !model_open(&m, &c, &why), "%s", why.line);
    model_init(&plain, 3);
    model_init(&m, 3);
    for (int i = 0; i < m.n_param; i++) {
        wv = strcmp(m.param[i].name, "blocks.1.mixer.wv") ? wv : m.wp[i];
        wo = strcmp(m.param[i].name, "blocks.1.mixer.wo") ? wo : m.wp[i];
        plain_wo = strcmp(m.param[i].name, "blocks.1.mixer.wo") ? plain_wo : plain.wp[i];
    }
    for (int j = 0; j < 64; j++)
        ck_assert_mem_eq(wo + j * 64 + head, plain_wo + j * 64 + head,
                         (64 - head) * sizeof *wo);
    for (int a = 0; a < head; a++) {
        double squares = 0;

        for (int j = 0; j < 64; j++) {
            squares += (double)wv[a * 64 + j] * (double)wv[a * 64 + j];
            ck_assert_double_eq_tol(wo[j * 64 + a], 12 * wv[a * 64 + j], 1e-5);
        }
        ck_assert_double_eq_tol(squares, 1, 1e-5);
    }
    ck_assert_double_eq_tol(spread(&m, "embed"), 1, 0.02);
    ck_assert_double_eq_tol(spread(&m, "norm"), 0.125, 1e-6);
    ck_assert_double_eq_tol(spread(&m, "blocks.0.mixer.wo"),
                            spread(&plain, "blocks.0.mixer.wo"), 1e-12);
    ck_assert_double_eq(model_loudness(&m.cfg), 8);
    ck_assert_double_eq(model_loudness(&plain.cfg), 1);
    model_close(&m);
    model_close(&plain);
}
END_TEST

START_TEST(a_copier_needs_attention_and_a_tied_head)
{
    struct config c;
    struct why    why;

    config_defaults(&c);
    c.copy = 12, c.tied = 0;
    ck_assert_int_eq(config_resolve(&c, &why), FAIL_USAGE);
    ck_assert_str_eq(why.line, "copy = 12 needs tied = 1; copy=0 is without");
    c.tied = 1;
    snprintf(c.mixers, sizeof c.mixers, "softmax/gla");
    ck_assert_int_eq(config_resolve(&c, &why), FAIL_NONE);
    ck_assert_int_eq(config_check_start(&c, &why), FAIL_USAGE);
    ck_assert_str_eq(why.line,
                     "copy = 12 needs softmax in the last layer, not gla; "
                     "copy=0 is without");
    snprintf(c.mixers, sizeof c.mixers, "gla/softmax(window=32)");
    ck_assert_int_eq(config_resolve(&c, &why), FAIL_NONE);
    ck_assert_int_eq(config_check_start(&c, &why), FAIL_NONE);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("init");
    TCase *tc = tcase_create("init");

    tcase_add_loop_test(tc, parameters_begin_as_their_tables_say, 0, N_ENTRIES);
    tcase_add_loop_test(tc, parameters_begin_as_declared, 0, variant_count());
    tcase_add_loop_test(tc, only_matrices_decay, 0, variant_count());
    tcase_add_loop_test(tc, embedding_and_output_projections_start_by_their_factors, 0,
                        sizeof starts / sizeof *starts);
    tcase_add_loop_test(tc, a_head_begins_as_a_copier, 0, 2);
    tcase_add_test(tc, a_copier_needs_attention_and_a_tied_head);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
