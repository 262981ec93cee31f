#include "tools/lab/theory/slr_cells.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

void slr_name(char *name, size_t cap, const struct slr *s)
{
    char length[16];

    snprintf(length, sizeof length, s->lo == s->hi ? "%d" : "%d-%d", s->lo, s->hi);
    snprintf(name, cap, "%s L=%s nu=%g", s->kind == SLR_SPIKED ? "spiked" : "max",
             length, s->nu);
}

double slr_oracle(const struct slr *s, enum slr_arm arm)
{
    if (arm == SLR_SOFTMAX)
        return isinf(s->nu) ? NAN : slr_bayes(s);
    if (arm == SLR_LINEAR)
        return slr_linear(s);
    return slr_activation(arm) ? slr_family(s, slr_activation(arm)) : NAN;
}

void slr_values(double *value, struct estimate e, const struct slr_order *o,
                double oracle, double bayes)
{
    value[SLR_RISK] = e.mean, value[SLR_SE] = e.se;
    value[SLR_ORACLE] = oracle, value[SLR_BAYES] = bayes;
    value[SLR_MKK] = o->m_kk, value[SLR_MVV] = o->m_vv;
    value[SLR_MKV] = o->m_kv, value[SLR_MVK] = o->m_vk;
    value[SLR_QKK] = o->q_kk, value[SLR_QVV] = o->q_vv, value[SLR_QVK] = o->q_vk;
    value[SLR_BIAS] = o->c;
}

/* ---- verdicts ---------------------------------------------------------------------- */

/* The result that lies worst, and how many were looked at. */
struct worst {
    double by;
    int    n;
    char   text[160];
};

static void consider(struct worst *w, double by, const struct slr_result *r,
                     const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void consider(struct worst *w, double by, const struct slr_result *r,
                     const char *format, ...)
{
    char    name[64], what[80];
    va_list args;

    if (w->n++ > 0 && by <= w->by)
        return;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    slr_name(name, sizeof name, r->s);
    w->by = by;
    snprintf(w->text, sizeof w->text, "%s, %s: %s", slr_arm_name[r->arm], name, what);
}

static void judge(struct lab *l, const struct worst *w, double limit, const char *name,
                  const char *yardstick)
{
    char measured[220];

    snprintf(measured, sizeof measured, "furthest of %d: %s", w->n, w->text);
    if (w->n > 0)
        lab_exact(l, name, w->by <= limit, measured, yardstick);
}

/* |risk - oracle| in units of 3 standard errors + 2 %. */
static double off(const double *v)
{
    return fabs(v[SLR_RISK] - v[SLR_ORACLE]) / (3 * v[SLR_SE] + 0.02 * v[SLR_ORACLE]);
}

/* Standard errors below a bound. */
static double below(const double *v, double bound)
{
    return (bound - v[SLR_RISK]) / v[SLR_SE];
}

/* |k| at the optimum: sqrt(nu) or nu. */
static double key_norm(const struct slr *s)
{
    return s->kind == SLR_SPIKED ? sqrt(s->nu) : s->nu;
}

static void judge_reaching(struct lab *l, const struct slr_result *r, int n)
{
    struct worst softmax = {0}, linear = {0}, element = {0}, norm = {0};

    for (int i = 0; i < n; i++) {
        const double *v = r[i].value;
        double        want = key_norm(r[i].s), got = sqrt(v[SLR_QKK]);
        struct worst *w = r[i].arm == SLR_SOFTMAX ? &softmax
                        : r[i].arm == SLR_LINEAR  ? &linear : &element;

        if (!isfinite(v[SLR_ORACLE]))
            continue;
        consider(w, off(v), &r[i], "risk %.5f +- %.5f, exact %.5f", v[SLR_RISK],
                 v[SLR_SE], v[SLR_ORACLE]);
        if (r[i].arm == SLR_SOFTMAX)
            consider(&norm, fabs(got / want - 1), &r[i], "|k| %.3f, exact %.3f",
                     got, want);
    }
    judge(l, &softmax, 1, "bayes", "1 - E[p_e], within 3 standard errors + 2 %");
    judge(l, &norm, 0.02, "key-norm", "within 2 %");
    judge(l, &linear, 1, "linear",
          "spiked L(L-1)/(L^2+nu(L-1)), max 1-(1+M^2)/L, within 3 standard errors + 2 %");
    judge(l, &element, 1, "family",
          "the optimum over scale and bias by quadrature, within 3 standard "
          "errors + 2 %");
}

static void judge_bounds(struct lab *l, const struct slr_result *r, int n)
{
    struct worst linear = {0}, element = {0}, any = {0};

    for (int i = 0; i < n; i++) {
        const double *v = r[i].value;

        consider(&any, below(v, v[SLR_BAYES]), &r[i], "risk %.5f +- %.5f, Bayes %.5f",
                 v[SLR_RISK], v[SLR_SE], v[SLR_BAYES]);
        if (r[i].arm == SLR_LINEAR)
            consider(&linear, below(v, v[SLR_ORACLE]), &r[i],
                     "risk %.5f +- %.5f, bound %.5f", v[SLR_RISK], v[SLR_SE],
                     v[SLR_ORACLE]);
        if (slr_activation(r[i].arm)) {
            double best = slr_elementwise(r[i].s);

            consider(&element, below(v, best), &r[i], "risk %.5f +- %.5f, bound %.5f",
                     v[SLR_RISK], v[SLR_SE], best);
        }
    }
    judge(l, &linear, 3, "linear-bound", "3 standard errors");
    judge(l, &element, 3, "element-bound",
          "1 - integral of r^2/t (oracle.c), 3 standard errors");
    judge(l, &any, 3, "nothing-beats", "3 standard errors");
}

/* The risk of an arm in the mean over the seeds of a setting; NaN: not run. */
static struct estimate mean_risk(const struct slr_result *r, int n, const struct slr *s,
                                 enum slr_arm arm)
{
    struct estimate e = {0, 0};
    int             seen = 0;

    for (int i = 0; i < n; i++)
        if (r[i].s == s && r[i].arm == arm)
            e = (struct estimate){e.mean + r[i].value[SLR_RISK],
                                  hypot(e.se, r[i].value[SLR_SE])}, seen++;
    return seen ? (struct estimate){e.mean / seen, e.se / seen}
                : (struct estimate){NAN, NAN};
}

/* Lengths 1..3 mixed against the mean of the three bounds at known length. */
static void judge_lengths(struct lab *l, const struct slr_result *r, int n)
{
    for (int i = 0; i < n; i += SLR_ARMS) {
        const struct slr *s = r[i].s;
        struct estimate   linear = mean_risk(r, n, s, SLR_LINEAR),
                          softmax = mean_risk(r, n, s, SLR_SOFTMAX);
        double            apart = 0, bayes = r[i].value[SLR_BAYES];
        char              measured[160], yardstick[160];

        if (s->lo == s->hi || s->kind != SLR_SPIKED)
            continue;
        for (int L = s->lo; L <= s->hi; L++)
            apart += slr_linear(&(struct slr){s->kind, s->nu, L, L}) /
                     (s->hi - s->lo + 1);
        snprintf(measured, sizeof measured,
                 "linear %.4f +- %.4f, softmax %.4f +- %.4f at L = %d to %d, nu = %g",
                 linear.mean, linear.se, softmax.mean, softmax.se, s->lo, s->hi, s->nu);
        snprintf(yardstick, sizeof yardstick,
                 "above one linear layer for each L, %.4f; Bayes %.4f; within 3 standard "
                 "errors + 2 %%", apart, bayes);
        lab_exact(l, "lengths", linear.mean - apart > 3 * linear.se + 0.02 * apart &&
                  fabs(softmax.mean - bayes) <= 3 * softmax.se + 0.02 * bayes, measured,
                  yardstick);
        return;
    }
}

/* The setting of L = 3 and this nu; NULL: not run. */
static const struct slr *spiked_at(const struct slr_result *r, int n, double nu)
{
    for (int i = 0; i < n; i++)
        if (r[i].s->kind == SLR_SPIKED && r[i].s->lo == 3 && r[i].s->nu == nu)
            return r[i].s;
    return NULL;
}

/* From nu = 1 to nu = 10 at L = 3: 1/nu would fall 10 times. */
static void judge_decay(struct lab *l, const struct slr_result *r, int n)
{
    const struct slr *weak = spiked_at(r, n, 1), *strong = spiked_at(r, n, 10);
    double            linear, softmax;
    char              measured[120], yardstick[120];

    if (!weak || !strong)
        return;
    linear = mean_risk(r, n, weak, SLR_LINEAR).mean /
             mean_risk(r, n, strong, SLR_LINEAR).mean;
    softmax = mean_risk(r, n, weak, SLR_SOFTMAX).mean /
              mean_risk(r, n, strong, SLR_SOFTMAX).mean;
    snprintf(measured, sizeof measured, "nu 1 to 10 at L = 3: linear falls %.2f times, "
             "softmax %.2f times", linear, softmax);
    snprintf(yardstick, sizeof yardstick,
             "1/nu: 10 times; exact: linear %.2f, Bayes %.2f times",
             slr_linear(weak) / slr_linear(strong), slr_bayes(weak) / slr_bayes(strong));
    lab_exact(l, "decay", softmax > 10 && linear < 10, measured, yardstick);
}

void slr_verdicts(struct lab *l, const struct slr_result *r, int n)
{
    judge_reaching(l, r, n);
    judge_bounds(l, r, n);
    judge_lengths(l, r, n);
    judge_decay(l, r, n);
}

/* ---- risk against nu --------------------------------------------------------------- */

enum { CURVE = 24, CURVES = 3, DOTS = 64 };

static void curve(double *y, double *x, double (*f)(const struct slr *))
{
    for (int i = 0; i < CURVE; i++) {
        struct slr s = {SLR_SPIKED, pow(10, i / (CURVE - 1.0)), 3, 3};

        x[i] = s.nu, y[i] = f(&s);
    }
}

enum fail slr_chart_risks(struct lab *l, const struct slr_result *r, int n,
                          struct why *why)
{
    static const struct {
        const char *name; double (*f)(const struct slr *);
    } exact[CURVES] = {
        {"Bayes", slr_bayes}, {"best element-wise", slr_elementwise},
        {"best linear", slr_linear},
    };
    double x[CURVE], y[CURVES][CURVE], at[SLR_ARMS][DOTS], risk[SLR_ARMS][DOTS];
    struct chart_series series[CURVES + SLR_ARMS] = {0};

    for (int i = 0; i < CURVES; i++) {
        curve(y[i], x, exact[i].f);
        series[i] = (struct chart_series){.name = exact[i].name, .x = x, .y = y[i],
                                          .n = CURVE, .colour = i};
    }
    for (int arm = 0; arm < SLR_ARMS; arm++) {
        int seen = 0;

        for (int i = 0; i < n && seen < DOTS; i++)
            if ((int)r[i].arm == arm && r[i].s->kind == SLR_SPIKED && r[i].s->lo == 3 &&
                r[i].s->hi == 3)
                at[arm][seen] = r[i].s->nu, risk[arm][seen++] = r[i].value[SLR_RISK];
        series[CURVES + arm] = (struct chart_series){
            .name = slr_arm_name[arm], .x = at[arm], .y = risk[arm], .n = seen,
            .points = 1, .colour = CURVES + arm};
    }
    return lab_chart(l, "slr-risk", &(struct chart){
        .title = "Risk against signal, spiked, L = 3: exact curves, trained points",
        .xlabel = "nu", .ylabel = "risk", .logx = 1, .logy = 1, .series = series,
        .nseries = CURVES + SLR_ARMS}, why);
}
