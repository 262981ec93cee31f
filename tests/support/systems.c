#include "tests/support/systems.h"

#include "tests/support/rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

real *weights_of(const struct layer *l, const char *name)
{
    ck_assert_msg(layer_param(l, name) >= 0, "%s has no %s", l->entry, name);
    return l->wp[layer_param(l, name)];
}

size_t weights_count(const struct layer *l, const char *name)
{
    return param_size(&l->param[layer_param(l, name)]);
}

static void allocate(struct system *s, int T, int e, int N)
{
    size_t n = (size_t)T * e;

    *s = (struct system){.T = T, .e = e, .N = N};
    s->u = calloc(n, sizeof(double));
    s->gate = calloc(n, sizeof(double));
    s->L = calloc(n * N, sizeof(double));
    s->B = calloc(n * N, sizeof(double));
    s->C = calloc(n * N, sizeof(double));
    s->D = calloc(e, sizeof(double));
}

void system_close(struct system *s)
{
    free(s->u), free(s->gate), free(s->L), free(s->B), free(s->C), free(s->D);
}

double *system_run(const struct system *s)
{
    double *h = calloc((size_t)s->e * s->N, sizeof *h);
    double *v = malloc((size_t)s->T * s->e * sizeof *v);

    for (int t = 0; t < s->T; t++)
        for (int c = 0; c < s->e; c++) {
            size_t i = (size_t)t * s->e + c;
            double o = s->D[c] * s->u[i];

            for (int n = 0; n < s->N; n++) {
                size_t k = i * s->N + n;

                h[c * s->N + n] = s->L[k] * h[c * s->N + n] + s->B[k] * s->u[i];
                o += s->C[k] * h[c * s->N + n];
            }
            v[i] = s->gate[i] * o;
        }
    free(h);
    return v;
}

double *system_product(const struct layer *l, const char *name, int from, int out, int in,
                       const double *x, const real *b)
{
    const real *w = weights_of(l, name) + (size_t)from * in;
    double     *y = malloc((size_t)l->T * out * sizeof *y);

    for (int t = 0; t < l->T; t++)
        for (int i = 0; i < out; i++) {
            double sum = b ? b[i] : 0;

            for (int j = 0; j < in; j++)
                sum += (double)w[(size_t)i * in + j] * x[(size_t)t * in + j];
            y[(size_t)t * out + i] = sum;
        }
    return y;
}

double *system_inputs(const struct layer *l)
{
    double *x = malloc(l->n_x * sizeof *x);

    for (size_t i = 0; i < l->n_x; i++)
        x[i] = l->x[i];
    return x;
}

/* u (T, e) from w (T, e). */
static void convolve(const struct layer *l, double *u, const double *w, int e)
{
    const real *k = weights_of(l, "conv"), *b = weights_of(l, "convb");

    for (int t = 0; t < l->T; t++)
        for (int c = 0; c < e; c++) {
            u[(size_t)t * e + c] = b[c];
            for (int j = 0; j < 4; j++)
                if (t - 3 + j >= 0)
                    u[(size_t)t * e + c] +=
                        (double)k[4 * c + j] * w[(size_t)(t - 3 + j) * e + c];
        }
}

static double gelu(double z) { return z / 2 * (1 + erf(z / sqrt(2))); }

static void qlstm_system(const struct layer *l, struct system *s)
{
    int     C = l->cfg.C, e = (int)weights_count(l, "convb"), a = layer_param(l, "a");
    double *x = system_inputs(l), *p = system_product(l, "win", 0, e, C, x, NULL), *z;
    double *w = system_product(l, "win", e, e, C, x, NULL);

    allocate(s, l->T, e, 1);
    convolve(l, s->u, w, e);
    z = system_product(l, "wg", 0, 3 * e, e, s->u, weights_of(l, "bg"));
    for (int i = 0; i < l->T * e; i++) {
        const double *zi = z + (size_t)(i / e) * 3 * e + i % e;

        s->L[i] = a < 0 ? sigmoid(zi[0]) : exp(-fmax(*l->wp[a], 0) * softplus(zi[0]));
        s->B[i] = sigmoid(zi[e]);
        s->C[i] = sigmoid(zi[2 * e]);
        s->gate[i] = gelu(p[i]);
    }
    free(x), free(p), free(w), free(z);
}

/* z (T, e) = W u + b, W block diagonal. */
static double *block_product(const struct layer *l, const char *name, const char *bias,
                             const double *u, int e)
{
    const real *w = weights_of(l, name), *b = weights_of(l, bias);
    double     *z = malloc((size_t)l->T * e * sizeof *z);
    int         m = e / l->cfg.H;

    for (int t = 0; t < l->T; t++)
        for (int i = 0; i < e; i++) {
            double sum = b[i];

            for (int j = 0; j < m; j++)
                sum += (double)w[(size_t)i * m + j] * u[(size_t)t * e + i / m * m + j];
            z[(size_t)t * e + i] = sum;
        }
    return z;
}

static void rglru_system(const struct layer *l, struct system *s)
{
    int     C = l->cfg.C, e = (int)weights_count(l, "lam");
    double *x = system_inputs(l),
           *p = system_product(l, "wy", 0, e, C, x, weights_of(l, "by"));
    double *w = system_product(l, "wx", 0, e, C, x, weights_of(l, "bx")), *r, *g;

    allocate(s, l->T, e, 1);
    convolve(l, s->u, w, e);
    r = block_product(l, "wa", "ba", s->u, e);
    g = block_product(l, "wi", "bi", s->u, e);
    for (int i = 0; i < l->T * e; i++) {
        double log_a = -8 * sigmoid(r[i]) * softplus(weights_of(l, "lam")[i % e]);

        s->L[i] = exp(log_a);
        s->B[i] = (i < e ? 1 : sqrt(-expm1(2 * log_a))) * sigmoid(g[i]);
        s->C[i] = 1;
        s->gate[i] = gelu(p[i]);
    }
    free(x), free(p), free(w), free(r), free(g);
}

static void mingru_system(const struct layer *l, struct system *s)
{
    int     C = l->cfg.C, e = (int)weights_count(l, "wz") / C;
    bool    act = !strstr(l->entry, "act=none");
    double *x = system_inputs(l), *k = system_product(l, "wz", 0, e, C, x, NULL);
    double *v = system_product(l, "wh", 0, e, C, x, NULL);

    allocate(s, l->T, e, 1);
    for (int i = 0; i < l->T * e; i++) {
        s->L[i] = sigmoid(-k[i]);
        s->B[i] = sigmoid(k[i]);
        s->C[i] = 1;
        s->u[i] = !act ? v[i] : v[i] >= 0 ? v[i] + 0.5 : sigmoid(v[i]);
        s->gate[i] = 1;
    }
    free(x), free(k), free(v);
}

static void s6_states(const struct layer *l, struct system *s, const double *step,
                      const double *bc)
{
    int N = s->N;

    for (int i = 0; i < s->T * s->e; i++)
        for (int n = 0; n < N; n++) {
            double        A = -exp(weights_of(l, "alog")[i % s->e * N + n]);
            const double *in = bc + (size_t)(i / s->e) * 2 * N;

            s->L[(size_t)i * N + n] = exp(softplus(step[i]) * A);
            s->B[(size_t)i * N + n] = softplus(step[i]) * in[n];
            s->C[(size_t)i * N + n] = in[N + n];
        }
}

static void s6_system(const struct layer *l, struct system *s)
{
    int     C = l->cfg.C, e = (int)weights_count(l, "bdt");
    int     N = (int)weights_count(l, "alog") / e;
    int     R = (int)weights_count(l, "wdt") / e;
    double *q, *bc, *step, *x = system_inputs(l);
    double *w = system_product(l, "win", 0, e, C, x, NULL);
    double *z = system_product(l, "win", e, e, C, x, NULL);

    allocate(s, l->T, e, N);
    convolve(l, s->u, w, e);
    for (int i = 0; i < l->T * e; i++) {
        s->u[i] *= sigmoid(s->u[i]);
        s->gate[i] = z[i] * sigmoid(z[i]);
        s->D[i % e] = weights_of(l, "dskip")[i % e];
    }
    q = system_product(l, "wx", 0, R, e, s->u, NULL);
    bc = system_product(l, "wx", R, 2 * N, e, s->u, NULL);
    step = system_product(l, "wdt", 0, e, R, q, weights_of(l, "bdt"));
    s6_states(l, s, step, bc);
    free(x), free(w), free(z), free(q), free(bc), free(step);
}

static const struct {
    const char *name;
    void      (*open)(const struct layer *l, struct system *s);
} systems[] = {
    {"qlstm", qlstm_system}, {"rglru", rglru_system}, {"mingru", mingru_system},
    {"s6", s6_system},
};

void system_open(struct system *s, const struct layer *l)
{
    const int n = sizeof systems / sizeof *systems;
    int       i = 0;

    while (i < n && strcmp(systems[i].name, l->cfg.mixer->name))
        i++;
    ck_assert_msg(i < n, "%s has no system here", l->entry);
    systems[i].open(l, s);
}
