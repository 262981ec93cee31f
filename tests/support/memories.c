#include "tests/support/memories.h"

#include "tests/support/encoding.h"
#include "tests/support/rig.h"
#include "tests/support/systems.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool has(const struct layer *l, const char *text)
{
    return strstr(l->entry, text) != NULL;
}

static bool is(const struct layer *l, const char *name)
{
    return !strcmp(l->cfg.mixer->name, name);
}

static double silu(double z) { return z * sigmoid(z); }

/* ---- pieces ---- */

static void allocate(struct memory *s, const struct layer *l, int N, int P)
{
    size_t n = (size_t)l->T * l->cfg.H;

    *s = (struct memory){.T = l->T, .H = l->cfg.H, .N = N, .P = P};
    s->L = calloc(n * N * N, sizeof(double));
    s->B = calloc(n * N, sizeof(double));
    s->C = calloc(n * N, sizeof(double));
    s->u = calloc(n * P, sizeof(double));
    s->D = calloc(n * P, sizeof(double));
}

void memory_close(struct memory *s)
{
    free(s->L), free(s->B), free(s->C), free(s->u), free(s->D);
}

/* W x (T, out). */
static double *project(const struct layer *l, const char *name, const double *x)
{
    int out = l->param[layer_param(l, name)].rows;

    return system_product(l, name, 0, out, l->cfg.C, x, NULL);
}

/* z (T, e) <- silu of its causal convolution; b may be NULL. */
static void convolve(const struct layer *l, double *z, const real *k,
                     const real *b, int e)
{
    for (int t = l->T - 1; t >= 0; t--)
        for (int c = 0; c < e; c++) {
            double sum = b ? b[c] : 0;

            for (int j = 0; j < 4 && j <= t; j++)
                sum += (double)k[4 * c + 3 - j] * z[(size_t)(t - j) * e + c];
            z[(size_t)t * e + c] = silu(sum);
        }
}

/* L of head i (of T H) is diag(a), a (N), ld 0: the same for all. */
static void set_diagonal(struct memory *s, size_t i, const double *a, int ld)
{
    for (int j = 0; j < s->N; j++)
        s->L[(i * s->N + j) * s->N + j] = a[j * ld];
}

static void copy(double *to, const double *from, size_t n, double by)
{
    for (size_t i = 0; i < n; i++)
        to[i] = by * from[i];
}

/* ---- attention rows ---- */

/* hedgehog: softmax(W z + b) and softmax of its negative. */
static void hedgehog(const struct layer *l, const char *w, const char *b, int h,
                     const double *z, double *phi, int dk)
{
    double sum[2] = {0, 0};

    for (int i = 0; i < dk; i++) {
        double y = weights_of(l, b)[h * dk + i];

        for (int j = 0; j < dk; j++)
            y += (double)weights_of(l, w)[((size_t)h * dk + i) * dk + j] * z[j];
        sum[0] += phi[i] = exp(y);
        sum[1] += phi[dk + i] = exp(-y);
    }
    for (int i = 0; i < 2 * dk; i++)
        phi[i] /= sum[i / dk];
}

static double psi(const struct layer *l, int channel, double u)
{
    int    hidden = l->param[layer_param(l, "f1")].cols;
    int    g = l->param[layer_param(l, "f1")].rows > 1 ? channel : 0;
    double sum = weights_of(l, "f2b")[channel];

    for (int j = 0; j < hidden; j++)
        sum += (double)weights_of(l, "f2")[channel * hidden + j] *
               fmax((double)weights_of(l, "f1")[g * hidden + j] * u +
                    (double)weights_of(l, "f1b")[g * hidden + j], 0);
    return fmax(sum, 0);
}

static void luna_map(const struct layer *l, const double *z, double *phi, int dk)
{
    int m = l->param[layer_param(l, "fw")].rows, L = l->param[layer_param(l, "f2")].rows;

    for (int i = 0; i < m; i++) {
        double u = weights_of(l, "fb")[i];

        for (int j = 0; j < dk; j++)
            u += (double)weights_of(l, "fw")[i * dk + j] * z[j];
        for (int c = 0; c < L; c++)
            phi[i * L + c] = psi(l, c, u) / sqrt(m);
    }
}

static void feature(const struct layer *l, bool key, int h, const double *z,
                    double *phi, int dk)
{
    if (is(l, "luna"))
        luna_map(l, z, phi, dk);
    else if (has(l, "hedgehog"))
        hedgehog(l, key ? "hk" : "hq", key ? "hkb" : "hqb", h, z, phi, dk);
    else
        for (int j = 0; j < dk; j++)
            phi[j] = is(l, "normattn") || has(l, "feature=id") ? z[j]
                   : has(l, "relu") ? fmax(z[j], 0) : z[j] >= 0 ? z[j] + 1 : exp(z[j]);
}

static int feature_count(const struct layer *l, int dk)
{
    if (is(l, "luna"))
        return l->param[layer_param(l, "fw")].rows * l->param[layer_param(l, "f2")].rows;
    return has(l, "hedgehog") ? 2 * dk : dk;
}

/* f of head i (of T H): what is left of the past after one more token. */
static double left_of(const struct layer *l, const double *x, int i)
{
    int    H = l->cfg.H, h = i % H, C = l->cfg.C;
    double z = has(l, "decay=learned") ? (double)weights_of(l, "bf")[h] : 0;

    if (has(l, "decay=fixed"))
        return h == H - 1 ? 1 : H == 2 ? 0.875 : 1 - pow(0.5, 1 + 4 * h / (H - 2.0));
    if (!has(l, "decay=learned"))
        return 1;
    for (int j = 0; j < C; j++)
        z += (double)weights_of(l, "wf")[h * C + j] * x[(size_t)(i / H) * C + j];
    return sigmoid(z);
}

/* log eta of head i (of T H): of what the layer divides by. */
static double log_eta(const struct layer *l, const struct memory *s,
                      const double *x, int i)
{
    int    H = s->H, h = i % H, C = l->cfg.C;
    double sum = is(l, "normattn") ? (double)weights_of(l, "bn")[h] : 1e-6, left = 1;

    if (has(l, "normalise=0"))
        return 0;
    if (is(l, "normattn")) {
        for (int j = 0; j < C; j++)
            sum += (double)weights_of(l, "wn")[h * C + j] * x[(size_t)(i / H) * C + j];
        return has(l, "eta=exp") ? sum : softplus(sum);
    }
    for (int k = i; k >= 0; left *= left_of(l, x, k), k -= H)
        for (int j = 0; j < s->N; j++)
            sum += left * s->C[(size_t)i * s->N + j] * s->B[(size_t)k * s->N + j];
    return log(sum);
}

/* linear, luna, normattn: L = f eta_{t-1} / eta_t, B = phi(k) / eta_t, C = phi(q). */
static void attention(struct memory *s, const struct layer *l, const double *x)
{
    double *q = project(l, "wq", x), *k = project(l, "wk", x), *v = project(l, "wv", x);
    int     H = l->cfg.H, dk = l->param[layer_param(l, "wq")].rows / H, n = l->T * H;
    bool    scaled = is(l, "normattn") || has(l, "normalise=0");
    double *eta = malloc((size_t)n * sizeof *eta);

    encoding_turn(l, 0, q, H), encoding_turn(l, 0, k, H);
    allocate(s, l, feature_count(l, dk), l->param[layer_param(l, "wv")].rows / H);
    s->first = 1;
    copy(s->u, v, (size_t)n * s->P, 1);
    for (int i = 0; i < n; i++) {
        feature(l, false, i % H, q + (size_t)i * dk, s->C + (size_t)i * s->N, dk);
        feature(l, true, i % H, k + (size_t)i * dk, s->B + (size_t)i * s->N, dk);
    }
    for (int i = 0; i < n; i++)
        eta[i] = log_eta(l, s, x, i);
    for (int i = 0; i < n; i++) {
        double ratio = i < H ? 1 : left_of(l, x, i) * exp(eta[i - H] - eta[i]);

        set_diagonal(s, i, &ratio, 0);
        copy(s->B + (size_t)i * s->N, s->B + (size_t)i * s->N, s->N, exp(-eta[i]));
        copy(s->C + (size_t)i * s->N, s->C + (size_t)i * s->N, s->N,
             scaled ? 1 / sqrt(dk) : 1);
    }
    free(q), free(k), free(v), free(eta);
}

/* inline: L = (t-1)/t, B = (k - mean k_t) / t, u = v - mean v_{t-1}, D = mean
 * v_t, t from 1. */
static void inline_system(struct memory *s, const struct layer *l, const double *x)
{
    double *q = project(l, "wq", x), *k = project(l, "wk", x), *v = project(l, "wv", x);
    int     C = l->cfg.C, e = C / l->cfg.H;
    double *mean = calloc(2 * (size_t)C, sizeof *mean);

    encoding_turn(l, 0, q, l->cfg.H), encoding_turn(l, 0, k, l->cfg.H);
    allocate(s, l, e, e);
    s->first = 1;
    for (int i = 0; i < l->T * C; i++) {
        int    t = i / C + 1, c = i % C;
        double shrink = (t - 1.0) / t, key = k[i];

        feature(l, false, 0, &q[i], &s->C[i], has(l, "elu1") ? 1 : 0);
        feature(l, true, 0, &k[i], &key, has(l, "elu1") ? 1 : 0);
        s->C[i] = (has(l, "elu1") ? s->C[i] : q[i]) / sqrt(e);
        s->u[i] = v[i] - mean[C + c];
        mean[c] += (key - mean[c]) / t;
        mean[C + c] += s->u[i] / t;
        s->B[i] = (key - mean[c]) / t;
        s->D[i] = mean[C + c];
        if (c % e == 0)
            set_diagonal(s, (size_t)i / e, &shrink, 0);
    }
    free(q), free(k), free(v), free(mean);
}

/* ---- gated rows ---- */

/* q, k and v of retention, gla, mlstm and deltanet; C and B are q / sqrt(dk) and k. */
static void take_qkv(struct memory *s, const struct layer *l, const double *x)
{
    static const char *const names[3] = {"wq", "wk", "wv"},
                      *const convs[3] = {"cq", "ck", "cv"};
    int dk = l->param[layer_param(l, "wq")].rows / l->cfg.H;

    allocate(s, l, dk, l->param[layer_param(l, "wv")].rows / l->cfg.H);
    for (int i = 0; i < 3; i++) {
        int     rows = l->param[layer_param(l, names[i])].rows;
        double *z = project(l, names[i], x);

        if (layer_param(l, convs[i]) >= 0)
            convolve(l, z, weights_of(l, convs[i]), NULL, rows);
        if (i < 2)
            encoding_turn(l, 0, z, l->cfg.H);
        copy(i == 0 ? s->C : i == 1 ? s->B : s->u, z, (size_t)l->T * rows,
             i ? 1 : 1 / sqrt(dk));
        free(z);
    }
}

/* retention: L = 1 - 2^-(5+h). */
static void retention(struct memory *s, const struct layer *l, const double *x)
{
    take_qkv(s, l, x);
    for (int i = 0; i < s->T * s->H; i++) {
        double a = 1 - exp2(-5 - i % s->H);

        set_diagonal(s, i, &a, 0);
    }
}

/* gla: L = diag(sigmoid(z)^(1/16)); with an encoding the channels of a pair share one. */
static void gla(struct memory *s, const struct layer *l, const double *x)
{
    int     rank = l->param[layer_param(l, "wa1")].rows, n = (int)weights_count(l, "ba");
    double *low = project(l, "wa1", x);
    double *z = system_product(l, "wa2", 0, n, rank, low, weights_of(l, "ba"));

    take_qkv(s, l, x);
    for (int i = 0; i < l->T * n; i++)
        z[i] = pow(sigmoid(z[i]), 1 / 16.0);
    for (int i = 0, e = n / s->H; i < s->T * s->H; i++)
        for (int j = 0; j < s->N; j++)
            s->L[((size_t)i * s->N + j) * s->N + j] = z[(size_t)i * e + j % e];
    free(low), free(z);
}

/* mlstm: L = sigmoid(f), B = e^i k, C = q / max(|n.q|, 1), n as S with 1 for v. */
static void mlstm(struct memory *s, const struct layer *l, const double *x)
{
    double *in = system_product(l, "wi", 0, l->cfg.H, l->cfg.C, x, weights_of(l, "bi"));
    double *f = system_product(l, "wf", 0, l->cfg.H, l->cfg.C, x, weights_of(l, "bf")),
           *sum;

    take_qkv(s, l, x);
    sum = calloc((size_t)s->H * s->N, sizeof *sum);
    for (int i = 0; i < s->T * s->H; i++) {
        double  a = sigmoid(15 * tanh(f[i] / 15)), dot = 0,
                *n = sum + (size_t)(i % s->H) * s->N;
        double *B = s->B + (size_t)i * s->N, *C = s->C + (size_t)i * s->N;

        set_diagonal(s, i, &a, 0);
        copy(B, B, s->N, exp(15 * tanh(in[i] / 15)));
        for (int j = 0; j < s->N; j++) {
            n[j] = a * n[j] + B[j];
            dot += n[j] * C[j];
        }
        copy(C, C, s->N, 1 / fmax(fabs(dot), 1));
    }
    free(in), free(f), free(sum);
}

static void shorten(double *z, int n)
{
    double sum = 1e-6;

    for (int j = 0; j < n; j++)
        sum += z[j] * z[j];
    copy(z, z, n, 1 / sqrt(sum));
}

/* deltanet: L = e^g (I - beta k k'), B = beta k. */
static void deltanet(struct memory *s, const struct layer *l, const double *x)
{
    double *b = project(l, "wb", x);
    double *a = system_product(l, "wa", 0, l->cfg.H, l->cfg.C, x, weights_of(l, "dtb"));

    take_qkv(s, l, x);
    for (int i = 0; i < s->T * s->H; i++) {
        double *k = s->B + (size_t)i * s->N, *q = s->C + (size_t)i * s->N;
        double  beta = sigmoid(b[i]) * (has(l, "neg_eig=1") ? 2 : 1);
        double  g = exp(-exp((double)weights_of(l, "alog")[i % s->H]) * softplus(a[i]));

        copy(q, q, s->N, sqrt(s->N));
        shorten(k, s->N), shorten(q, s->N);
        copy(q, q, s->N, 1 / sqrt(s->N));
        for (int j = 0; j < s->N * s->N; j++)
            s->L[(size_t)i * s->N * s->N + j] =
                g * ((j / s->N == j % s->N) - beta * k[j / s->N] * k[j % s->N]);
        copy(k, k, s->N, beta);
    }
    free(a), free(b);
}

/* metala: L = diag(a), B = 1 - a, D = sigmoid(v (q . aug (1 - a))). */
static void metala(struct memory *s, const struct layer *l, const double *x)
{
    double *u = layer_param(l, "conv") >= 0 ? system_inputs(l) : NULL, *q, *z, *v;

    (void)x;
    convolve(l, u, weights_of(l, "conv"), NULL, l->cfg.C);
    q = project(l, "wq", u), z = project(l, "wa", u), v = project(l, "wv", u);
    allocate(s, l, (int)weights_count(l, "aug") / l->cfg.H,
             (int)weights_count(l, "bg") / l->cfg.H);
    copy(s->C, q, (size_t)l->T * s->H * s->N, 1 / sqrt(s->N));
    copy(s->u, v, (size_t)l->T * s->H * s->P, 1);
    for (int i = 0; i < l->T * s->H; i++) {
        double own = 0;

        for (int j = 0; j < s->N; j++) {
            size_t at = (size_t)i * s->N + j;

            z[at] = pow(sigmoid(z[at]), 1 / 16.0);
            s->B[at] = 1 - z[at];
            own += q[at] * (double)weights_of(l, "aug")[at % ((size_t)s->H * s->N)] *
                   s->B[at];
        }
        set_diagonal(s, i, z + (size_t)i * s->N, 1);
        for (int j = 0; j < s->P; j++)
            s->D[(size_t)i * s->P + j] = sigmoid(own * v[(size_t)i * s->P + j]);
    }
    free(u), free(q), free(z), free(v);
}

/* ssd: L = e^{-e^alog d}, B = d B, C = C, D = dskip u. Rows of win: z, u, B, C, t. */
static void ssd(struct memory *s, const struct layer *l, const double *x)
{
    int     e = (int)weights_count(l, "norm"), xbc = (int)weights_count(l, "convb");
    int     N = (xbc - e) / 2, H = l->cfg.H;
    double *z = system_product(l, "win", e, xbc, l->cfg.C, x, NULL);
    double *d = system_product(l, "win", e + xbc, H, l->cfg.C, x, weights_of(l, "dtb"));

    convolve(l, z, weights_of(l, "conv"), weights_of(l, "convb"), xbc);
    allocate(s, l, N, e / H);
    for (int i = 0; i < l->T * H; i++) {
        const double *row = z + (size_t)(i / H) * xbc, *u = row + (size_t)(i % H) * s->P;
        double        step = softplus(d[i]),
                      a = exp(-exp(weights_of(l, "alog")[i % H]) * step);

        set_diagonal(s, i, &a, 0);
        copy(s->B + (size_t)i * N, row + e, N, step);
        copy(s->C + (size_t)i * N, row + e + N, N, 1);
        copy(s->u + (size_t)i * s->P, u, s->P, 1);
        copy(s->D + (size_t)i * s->P, u, s->P, weights_of(l, "dskip")[i % H]);
    }
    free(z), free(d);
}

/* ---- all of them ---- */

static const struct row {
    const char *name;
    void      (*open)(struct memory *s, const struct layer *l, const double *x);
} rows[] = {
    {"linear", attention}, {"luna", attention}, {"normattn", attention},
    {"inline", inline_system},
    {"retention", retention}, {"gla", gla}, {"mlstm", mlstm}, {"deltanet", deltanet},
    {"metala", metala}, {"ssd", ssd},
};

void memory_open(struct memory *s, const struct layer *l)
{
    const struct row *r = rows;
    double           *x = system_inputs(l);

    while (!is(l, r->name))
        r++;
    r->open(s, l, x);
    free(x);
}

/* z (n) <- (z - mean) / rms, or z / rms. */
static void normalise(double *z, int n, bool centre, double eps)
{
    double mean = 0, sum = 0;

    for (int j = 0; centre && j < n; j++)
        mean += z[j] / n;
    for (int j = 0; j < n; j++)
        sum += (z[j] - mean) * (z[j] - mean) / n;
    for (int j = 0; j < n; j++)
        z[j] = (z[j] - mean) / sqrt(sum + eps);
}

/* What the layer gates its output with, (T, e); NULL: nothing. */
static double *gates_of(const struct layer *l, int e)
{
    double *x = system_inputs(l), *z = NULL;

    if (is(l, "metala"))
        convolve(l, x, weights_of(l, "conv"), NULL, l->cfg.C);
    if (is(l, "ssd"))
        z = system_product(l, "win", 0, e, l->cfg.C, x, NULL);
    else if (layer_param(l, "wg") >= 0)
        z = system_product(l, "wg", 0, e, l->cfg.C, x,
                           is(l, "metala") ? weights_of(l, "bg") : NULL);
    for (int i = 0; z && i < l->T * e; i++)
        z[i] = is(l, "mlstm") ? sigmoid(z[i]) : silu(z[i]);
    free(x);
    return z;
}

static void finish(const struct memory *s, const struct layer *l, double *o)
{
    int     e = s->H * s->P, norm = layer_param(l, "norm"),
            group = is(l, "ssd") ? e : s->P;
    double *gate = gates_of(l, e);
    bool    centre = is(l, "metala") || (is(l, "mlstm") && !has(l, "norm=rms"));

    for (int i = 0; gate && is(l, "ssd") && i < s->T * e; i++)
        o[i] *= gate[i];
    for (int i = 0; (norm >= 0 || centre) && i < s->T * e; i += group)
        normalise(o + i, group, centre, is(l, "mlstm") ? 1e-6 : 1e-5);
    for (int i = 0; i < s->T * e; i++) {
        o[i] *= norm < 0 ? 1 : (double)l->wp[norm][i % (int)weights_count(l, "norm")];
        o[i] *= gate && !is(l, "ssd") ? gate[i] : 1;
    }
    free(gate);
}

/* S <- L S + B u', o = S' C + D for one token and head. */
static void step(const struct memory *s, size_t i, double *S, double *next, double *o)
{
    const double *L = s->L + i * s->N * s->N, *u = s->u + i * s->P;

    memcpy(o, s->D + i * s->P, (size_t)s->P * sizeof *o);
    for (int a = 0; a < s->N; a++)
        for (int p = 0; p < s->P; p++) {
            double sum = s->B[i * s->N + a] * u[p];

            for (int b = 0; b < s->N; b++)
                sum += L[a * s->N + b] * S[b * s->P + p];
            next[a * s->P + p] = sum;
            o[p] += s->C[i * s->N + a] * sum;
        }
    memcpy(S, next, (size_t)s->N * s->P * sizeof *S);
}

double *memory_run(const struct memory *s, const struct layer *l)
{
    size_t  state = (size_t)s->N * s->P;
    double *S = calloc(state * s->H, sizeof *S), *next = malloc(state * sizeof *next);
    double *o = malloc((size_t)s->T * s->H * s->P * sizeof *o);

    for (int i = 0; i < s->T * s->H; i++)
        step(s, i, S + (i % s->H) * state, next, o + (size_t)i * s->P);
    finish(s, l, o);
    free(S), free(next);
    return o;
}

void memory_range(const struct memory *s, struct range *r)
{
    for (int i = s->first * s->H; i < s->T * s->H; i++) {
        const double *L = s->L + (size_t)i * s->N * s->N, *B = s->B + (size_t)i * s->N;
        double        trace = 0, along = 0, length = 0, off = 0;

        for (int j = 0; j < s->N * s->N; j++) {
            int a = j / s->N, b = j % s->N;

            along += B[a] * L[j] * B[b];
            length += a == b ? B[a] * B[a] : 0;
            trace += a == b ? L[j] : 0;
            off += a == b ? 0 : fabs(L[j]);
        }
        for (int j = 0; off == 0 && j < s->N; j++)
            range_add(&r[i % s->H], fabs(L[j * s->N + j]));
        if (off > 0) {                      // I and a multiple of B B': two eigenvalues
            range_add(&r[i % s->H], fabs(along / length));
            range_add(&r[i % s->H], fabs((trace - along / length) / (s->N - 1)));
        }
    }
}
