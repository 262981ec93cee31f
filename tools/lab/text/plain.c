#include "tools/lab/text/plain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plain {
    const struct model *m;
    int     T, C, H, mlp;
    double *x, *n, *q, *k, *v, *o;      // (T, C) each; x is the stream
    double *wide;                       // (2 mlp)
    double *p;                          // (T) weights of one query
};

/* Parameter `name` of block i. */
static const real *weight(const struct model *m, int i, const char *name)
{
    char full[64];

    snprintf(full, sizeof full, "blocks.%d.%s", i, name);
    for (int j = 0; j < m->n_param; j++)
        if (!strcmp(m->param[j].name, full))
            return m->wp[j];
    fprintf(stderr, "weft lab: a plain model has no %s\n", full);
    abort();                            // not a softmax model: the caller's mistake
}

/* y = w x, w (rows, cols). */
static void times(double *y, const real *w, const double *x, int rows, int cols)
{
    for (int i = 0; i < rows; i++, w += cols) {
        y[i] = 0;
        for (int j = 0; j < cols; j++)
            y[i] += (double)w[j] * x[j];
    }
}

/* n = x w / sqrt(mean(x²) + eps) */
static void norm(const struct plain *s, double *n, const double *x, const real *w)
{
    double sum = 0;

    for (int j = 0; j < s->C; j++)
        sum += x[j] * x[j];
    for (int j = 0; j < s->C; j++)
        n[j] = x[j] * (double)w[j] / sqrt(sum / s->C + s->m->cfg.eps);
}

/* rope: pairs (j, j + e/2) of every head, by t base^(-2j/e). */
static void turn(const struct plain *s, double *q, int t, double base)
{
    const int e = s->C / s->H, half = e / 2;

    for (int h = 0; h < s->H; h++, q += e)
        for (int j = 0; j < half; j++) {
            double angle = t * pow(base, -(double)j / half);
            double a = q[j], b = q[j + half];

            q[j] = a * cos(angle) - b * sin(angle);
            q[j + half] = a * sin(angle) + b * cos(angle);
        }
}

/* o of head h of query t. */
static void attend(const struct plain *s, int t, int h, const unsigned char *hidden)
{
    const int     e = s->C / s->H;
    const double *q = s->q + t * s->C + h * e;
    double       *o = s->o + t * s->C + h * e, sum = 0;

    memset(o, 0, (size_t)e * sizeof *o);
    for (int u = 0; u <= t; u++) {
        const double *k = s->k + u * s->C + h * e;

        s->p[u] = 0;
        for (int j = 0; j < e; j++)
            s->p[u] += q[j] * k[j] / sqrt(e);
        s->p[u] = hidden && hidden[t * s->T + u] ? 0 : exp(s->p[u]);
        sum += s->p[u];
    }
    for (int u = 0; u <= t; u++)
        for (int j = 0; j < e; j++)
            o[j] += s->p[u] / sum * s->v[u * s->C + h * e + j];
}

/* x += wo attention(wq n, wk n, wv n),  n = rms(x) norm1 */
static void run_mixer(const struct plain *s, int i, const unsigned char *hidden)
{
    const int    C = s->C;
    const double base = s->m->layer[i].position_opt[0];

    for (int t = 0; t < s->T; t++) {
        norm(s, s->n, s->x + t * C, weight(s->m, i, "norm1"));
        times(s->q + t * C, weight(s->m, i, "mixer.wq"), s->n, C, C);
        times(s->k + t * C, weight(s->m, i, "mixer.wk"), s->n, C, C);
        times(s->v + t * C, weight(s->m, i, "mixer.wv"), s->n, C, C);
        turn(s, s->q + t * C, t, base);
        turn(s, s->k + t * C, t, base);
    }
    for (int t = 0; t < s->T; t++) {
        for (int h = 0; h < s->H; h++)
            attend(s, t, h, hidden);
        times(s->n, weight(s->m, i, "mixer.wo"), s->o + t * C, C, C);
        for (int j = 0; j < C; j++)
            s->x[t * C + j] += s->n[j];
    }
}

/* x += wd(silu(wg n) * (wu n)),  n = rms(x) norm2 */
static void run_mlp(const struct plain *s, int i)
{
    double *g = s->wide, *u = s->wide + s->mlp;

    for (int t = 0; t < s->T; t++) {
        double *x = s->x + t * s->C;

        norm(s, s->n, x, weight(s->m, i, "norm2"));
        times(g, weight(s->m, i, "mlp.wg"), s->n, s->mlp, s->C);
        times(u, weight(s->m, i, "mlp.wu"), s->n, s->mlp, s->C);
        for (int j = 0; j < s->mlp; j++)
            g[j] *= u[j] / (1 + exp(-g[j]));
        times(s->n, weight(s->m, i, "mlp.wd"), g, s->C, s->mlp);
        for (int j = 0; j < s->C; j++)
            x[j] += s->n[j];
    }
}

/* -log softmax(head rms(x) norm)[target] of token t. */
static double loss(const struct plain *s, int t, int32_t target)
{
    const struct model *m = s->m;
    const real         *head = model_head(m);
    double              sum = 0, logit, right = 0;

    norm(s, s->n, s->x + t * s->C, m->wp[m->first[m->cfg.layers]]);
    for (int v = 0; v < m->cfg.vocab; v++, head += s->C) {
        times(&logit, head, s->n, 1, s->C);
        sum += exp(logit);
        right = v == target ? logit : right;
    }
    return log(sum) - right;
}

enum fail plain_nats(const struct model *m, int T, const int32_t *tokens,
                     const int32_t *targets, const unsigned char *hidden, double *nats,
                     struct why *why)
{
    const int    C = m->cfg.width;
    const size_t n = (size_t)T * C;
    double      *all = malloc((6 * n + 2 * (size_t)m->cfg.mlp + (size_t)T) * sizeof *all);
    struct plain s = {.m = m, .T = T, .C = C, .H = m->cfg.heads, .mlp = m->cfg.mlp};

    if (!all)
        return fail(why, FAIL_MEMORY, "out of memory for a text of %d tokens", T);
    s.x = all, s.n = all + n, s.q = all + 2 * n, s.k = all + 3 * n, s.v = all + 4 * n;
    s.o = all + 5 * n, s.p = all + 6 * n, s.wide = s.p + T;
    for (size_t i = 0; i < n; i++)
        s.x[i] = (double)m->wp[0][(size_t)tokens[i / C] * C + i % C];
    for (int i = 0; i < m->cfg.layers; i++) {
        run_mixer(&s, i, hidden);
        if (s.mlp)
            run_mlp(&s, i);
    }
    for (int t = 0; t < T; t++)
        nats[t] = loss(&s, t, targets[t]);
    free(all);
    return FAIL_NONE;
}
