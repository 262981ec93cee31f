#include "model/layers/feature.h"

#include "model/kernels/product.h"
#include "model/kernels/vmath.h"

#include <math.h>

/* Some tokens of one head. Pointers that come with a slice are to its first. */
struct slice {
    const struct feature *f;
    long   i;                   // the first token's row of B T
    int    h, n;                // head, tokens
    size_t ld, step, ld_dz;     // from token to token in z, in phi and dphi, in dz
};

int feature_width(enum feature_map map, int dk, int chosen)
{
    switch (map) {
    case FEATURE_TAYLOR:    return 1 + dk + dk * (dk + 1) / 2;
    case FEATURE_HEDGEHOG:
    case FEATURE_COSFORMER: return 2 * dk;
    case FEATURE_FAVOR:     return chosen;
    default:                return dk;
    }
}

/* ---- elu1, relu -------------------------------------------------------------------- */

static void elu1(const struct slice *s, real *phi, real *top, const real *z)
{
    (void)top;
    for (int i = 0; i < s->n; i++, phi += s->step, z += s->ld) {
        #pragma omp simd
        for (int j = 0; j < s->f->dk; j++)
            phi[j] = z[j] < 0 ? vexp(z[j]) : z[j] + 1;
    }
}

static void elu1_back(const struct slice *s, real *dz, real *dphi, const real *phi,
                      const real *z)
{
    (void)z;
    for (int i = 0; i < s->n; i++, phi += s->step, dphi += s->step, dz += s->ld_dz) {
        #pragma omp simd
        for (int j = 0; j < s->f->dk; j++)
            dz[j] = dphi[j] * (phi[j] < 1 ? phi[j] : 1);
    }
}

static void relu(const struct slice *s, real *phi, real *top, const real *z)
{
    (void)top;
    for (int i = 0; i < s->n; i++, phi += s->step, z += s->ld) {
        #pragma omp simd
        for (int j = 0; j < s->f->dk; j++)
            phi[j] = z[j] < 0 ? 0 : z[j];
    }
}

static void relu_back(const struct slice *s, real *dz, real *dphi, const real *phi,
                      const real *z)
{
    (void)z;
    for (int i = 0; i < s->n; i++, phi += s->step, dphi += s->step, dz += s->ld_dz) {
        #pragma omp simd
        for (int j = 0; j < s->f->dk; j++)
            dz[j] = phi[j] > 0 ? dphi[j] : 0;
    }
}

/* ---- cosformer --------------------------------------------------------------------- */

struct wave {
    real sin, cos;
};

static struct wave wave_at(const struct feature *f, long i)
{
    double t = (double)(i % f->T) + 1 + (f->pos ? (double)f->pos[i / f->T] : 0);
    double a = 1.5707963267948966 * t / f->horizon;

    return (struct wave){(real)sin(a), (real)cos(a)};
}

static void cosformer(const struct slice *s, real *phi, real *top, const real *z)
{
    const int dk = s->f->dk;

    (void)top;
    for (int i = 0; i < s->n; i++, phi += s->step, z += s->ld) {
        struct wave w = wave_at(s->f, s->i + i);

        #pragma omp simd
        for (int j = 0; j < dk; j++) {
            real r = z[j] < 0 ? 0 : z[j];

            phi[j] = r * w.sin;
            phi[dk + j] = r * w.cos;
        }
    }
}

static void cosformer_back(const struct slice *s, real *dz, real *dphi, const real *phi,
                           const real *z)
{
    const int dk = s->f->dk;

    (void)phi;
    for (int i = 0; i < s->n; i++, dphi += s->step, z += s->ld, dz += s->ld_dz) {
        struct wave w = wave_at(s->f, s->i + i);

        #pragma omp simd
        for (int j = 0; j < dk; j++)
            dz[j] = z[j] > 0 ? dphi[j] * w.sin + dphi[dk + j] * w.cos : 0;
    }
}

/* ---- taylor ------------------------------------------------------------------------ */

/* Factors of z_i, z_i² and z_i z_j. */
struct factors {
    real first, square, cross;
};

static struct factors factors_of(int dk)
{
    return (struct factors){(real)pow(dk, -0.25), (real)sqrt(0.5 / dk),
                            (real)sqrt(1.0 / dk)};
}

/* The pairs of row i: (i, i), (i, i + 1), ..., (i, dk - 1). */
static void taylor(const struct slice *s, real *phi, real *top, const real *z)
{
    const int            dk = s->f->dk;
    const struct factors c = factors_of(dk);

    (void)top;
    for (int t = 0; t < s->n; t++, phi += s->step, z += s->ld) {
        real *pair = phi + 1 + dk;

        phi[0] = 1;
        for (int i = 0; i < dk; i++, pair += dk - i + 1) {
            phi[1 + i] = c.first * z[i];
            pair[0] = c.square * z[i] * z[i];
            #pragma omp simd
            for (int j = 1; j < dk - i; j++)
                pair[j] = c.cross * z[i] * z[i + j];
        }
    }
}

static void taylor_back(const struct slice *s, real *dz, real *dphi, const real *phi,
                        const real *z)
{
    const int            dk = s->f->dk;
    const struct factors c = factors_of(dk);

    (void)phi;
    for (int t = 0; t < s->n; t++, dphi += s->step, z += s->ld, dz += s->ld_dz) {
        const real *pair = dphi + 1 + dk;

        for (int i = 0; i < dk; i++)
            dz[i] = c.first * dphi[1 + i];
        for (int i = 0; i < dk; i++, pair += dk - i + 1) {
            real sum = 0;

            #pragma omp simd reduction(+ : sum)
            for (int j = 1; j < dk - i; j++) {
                sum += pair[j] * z[i + j];
                dz[i + j] += c.cross * pair[j] * z[i];
            }
            dz[i] += c.cross * sum + 2 * c.square * pair[0] * z[i];
        }
    }
}

/* ---- hedgehog ---------------------------------------------------------------------- */

/* p = softmax(sign y); p may be y. */
static void softmax(real *p, const real *y, real sign, int n)
{
    real top = sign * y[0], sum = 0;

    for (int j = 1; j < n; j++)
        top = sign * y[j] > top ? sign * y[j] : top;
    #pragma omp simd reduction(+ : sum)
    for (int j = 0; j < n; j++) {
        p[j] = vexp(sign * y[j] - top);
        sum += p[j];
    }
    for (int j = 0; j < n; j++)
        p[j] /= sum;
}

static void hedgehog(const struct slice *s, real *phi, real *top, const real *z)
{
    const int   dk = s->f->dk;
    const real *w = s->f->w + (size_t)s->h * dk * dk, *b = s->f->b + s->h * dk;

    (void)top;
    gemm_nt(phi, s->step, z, s->ld, w, dk, s->n, dk, dk, 1, 0);
    for (int i = 0; i < s->n; i++, phi += s->step) {
        for (int j = 0; j < dk; j++)
            phi[j] += b[j];
        softmax(phi + dk, phi, -1, dk);
        softmax(phi, phi, 1, dk);
    }
}

/* With halves p, r of phi: dy = p (dp - p.dp) - r (dr - r.dr), left in the first half of
 * dphi; dz = Wᵀ dy. */
static void hedgehog_back(const struct slice *s, real *dz, real *dphi, const real *phi,
                          const real *z)
{
    const int dk = s->f->dk;

    (void)z;
    for (int i = 0; i < s->n; i++) {
        const real *p = phi + i * s->step, *r = p + dk;
        real       *dp = dphi + i * s->step, *dr = dp + dk;
        real        along_p = vdot(p, dp, dk), along_r = vdot(r, dr, dk);

        #pragma omp simd
        for (int j = 0; j < dk; j++)
            dp[j] = p[j] * (dp[j] - along_p) - r[j] * (dr[j] - along_r);
    }
    gemm_nn(dz, s->ld_dz, dphi, s->step, s->f->w + (size_t)s->h * dk * dk, dk, s->n, dk,
            dk, 1, 0);
}

/* dw += sum of dy zᵀ, db += sum of dy, over all tokens of each head. */
static void hedgehog_weights(const struct feature *f, real *dw, real *db,
                             const real *dphi, const real *z, size_t ld)
{
    const int    dk = f->dk, n = f->B * f->T;
    const size_t step = (size_t)f->H * f->m;

    #pragma omp parallel for schedule(dynamic)
    for (int h = 0; h < f->H; h++) {
        const real *dy = dphi + (size_t)h * f->m;

        gemm_tn(dw + (size_t)h * dk * dk, dk, dy, step, z + h * dk, ld, dk, dk, n, 1, 1);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < dk; j++)
                db[h * dk + j] += dy[i * step + j];
    }
}

/* ---- favor ------------------------------------------------------------------------- */

/* Remove from a its part along the unit vector u. */
static void make_orthogonal(real *a, const real *u, int n)
{
    double along = 0;

    for (int j = 0; j < n; j++)
        along += (double)a[j] * (double)u[j];
    for (int j = 0; j < n; j++)
        a[j] -= (real)along * u[j];
}

static void set_length(real *a, int n, double length)
{
    double sum = 0;

    for (int j = 0; j < n; j++)
        sum += (double)a[j] * (double)a[j];
    for (int j = 0; j < n; j++)
        a[j] *= (real)(length / sqrt(sum));
}

static double normal_length(int n, struct rng *r)
{
    double sum = 0;

    for (int j = 0; j < n; j++) {
        double z = rng_normal(r);

        sum += z * z;
    }
    return sqrt(sum);
}

/* Gram-Schmidt of normal rows, twice for the sake of rounding. */
void feature_draw(real *w, int m, int dk, struct rng *r)
{
    for (int i = 0; i < m; i++) {
        real *a = w + (size_t)i * dk;

        for (int j = 0; j < dk; j++)
            a[j] = (real)rng_normal(r);
        for (int pass = 0; pass < 2; pass++) {
            for (int other = i - i % dk; other < i; other++)
                make_orthogonal(a, w + (size_t)other * dk, dk);
            set_length(a, dk, 1);
        }
    }
    for (int i = 0; i < m; i++)
        set_length(w + (size_t)i * dk, dk, normal_length(dk, r));
}

static void favor(const struct slice *s, real *phi, real *top, const real *z)
{
    const struct feature *f = s->f;
    const real            root = (real)pow(f->dk, -0.25), norm = (real)(1 / sqrt(f->m));

    gemm_nt(phi, s->step, z, s->ld, f->w, f->dk, s->n, f->m, f->dk, root, 0);
    for (int i = 0; i < s->n; i++, phi += s->step, z += s->ld) {
        real half = root * root * vdot(z, z, f->dk) / 2, shift = half;

        if (top) {
            shift = phi[0];
            for (int j = 1; j < f->m; j++)
                shift = phi[j] > shift ? phi[j] : shift;
            top[(size_t)i * f->H] = shift - half;
        }
        #pragma omp simd
        for (int j = 0; j < f->m; j++)
            phi[j] = norm * vexp(phi[j] - shift);
    }
}

/* With e = dphi phi: dz' = sum_i e_i (w_i - z'), dz = dz' / dk^(1/4). */
static void favor_back(const struct slice *s, real *dz, real *dphi, const real *phi,
                       const real *z)
{
    const struct feature *f = s->f;
    const real            root = (real)pow(f->dk, -0.25);

    for (int i = 0; i < s->n; i++) {
        real       *e = dphi + i * s->step, *to = dz + i * s->ld_dz, sum = 0;
        const real *p = phi + i * s->step, *from = z + i * s->ld;

        #pragma omp simd reduction(+ : sum)
        for (int j = 0; j < f->m; j++) {
            e[j] *= p[j];
            sum += e[j];
        }
        for (int j = 0; j < f->dk; j++)
            to[j] = -root * root * sum * from[j];
    }
    gemm_nn(dz, s->ld_dz, dphi, s->step, f->w, f->dk, s->n, f->dk, f->m, root, 1);
}

/* ---- all of them ------------------------------------------------------------------- */

static const struct {
    void (*forward)(const struct slice *s, real *phi, real *top, const real *z);
    void (*back)(const struct slice *s, real *dz, real *dphi, const real *phi,
                 const real *z);
} maps[] = {
    [FEATURE_ELU1]      = {elu1, elu1_back},
    [FEATURE_RELU]      = {relu, relu_back},
    [FEATURE_TAYLOR]    = {taylor, taylor_back},
    [FEATURE_HEDGEHOG]  = {hedgehog, hedgehog_back},
    [FEATURE_FAVOR]     = {favor, favor_back},
    [FEATURE_COSFORMER] = {cosformer, cosformer_back},
};

void feature_forward(const struct feature *f, real *phi, real *top, const real *z,
                     size_t ld)
{
    const long rows = (long)f->B * f->T;
    const int  tile = product_tile(rows);

    #pragma omp parallel for collapse(2) schedule(static)
    for (long i = 0; i < rows; i += tile)
        for (int h = 0; h < f->H; h++) {
            struct slice s = {.f = f, .i = i, .h = h, .ld = ld,
                              .step = (size_t)f->H * f->m,
                              .n = rows - i < tile ? (int)(rows - i) : tile};

            maps[f->map].forward(&s, phi + i * s.step + (size_t)h * f->m,
                                 top ? top + i * f->H + h : NULL,
                                 z + i * ld + (size_t)h * f->dk);
        }
}

void feature_backward(const struct feature *f, real *dz, size_t ld_dz, real *dw, real *db,
                      real *dphi, const real *phi, const real *z, size_t ld)
{
    const long rows = (long)f->B * f->T;
    const int  tile = product_tile(rows);

    #pragma omp parallel for collapse(2) schedule(static)
    for (long i = 0; i < rows; i += tile)
        for (int h = 0; h < f->H; h++) {
            struct slice s = {.f = f, .i = i, .h = h, .ld = ld,
                              .step = (size_t)f->H * f->m, .ld_dz = ld_dz,
                              .n = rows - i < tile ? (int)(rows - i) : tile};
            size_t       at = i * s.step + (size_t)h * f->m;

            maps[f->map].back(&s, dz + i * ld_dz + (size_t)h * f->dk, dphi + at, phi + at,
                              z + i * ld + (size_t)h * f->dk);
        }
    if (f->map == FEATURE_HEDGEHOG)
        hedgehog_weights(f, dw, db, dphi, z, ld);
}
