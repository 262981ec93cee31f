/* A chunk of n tokens, entered by the state S. G is the sum of g within the chunk, and
 *
 *     e_x = e^{G_x},  r_y = e^{G_n - G_y},  E_xy = e^{G_x - G_y} for y <= x
 *     A = scale q kᵀ . E for y <= x,  C = k kᵀ . E for y < x           . of elements
 *
 * Unrolling the recurrence, with w_t = v_t - e^{g_t} S_{t-1}ᵀ k_t and b = diag(beta):
 *
 *     w = v - e k S - C u,   u = b w       that is (I + C b) w = v - e k S, downwards
 *     o = scale e q S + A u
 *     S' = e_n S + kᵀ (r u)
 *
 * Backward, with dS' = Γ. The adjoint of the solve is a solve upwards with the transpose:
 *
 *     du = Aᵀ do + r k Γ
 *     z = du - Cᵀ y,   y = b z             that is (I + Cᵀ b) z = du
 *     dv = y,   dbeta = z . w,   dA = do uᵀ,   dC = -y uᵀ
 *     dq = scale (e do Sᵀ + (dA . E) k)
 *     dk = -e y Sᵀ + ((dC . E) + (dC . E)ᵀ) k + (dA . E)ᵀ scale q + r u Γᵀ
 *     dS = e_n Γ + scale qᵀ (e do) - kᵀ (e y)
 *
 * No exponent is positive. Nothing is divided by beta, so beta = 0 has its gradient.
 * q over k, and do over -y, are stacked to 2 n rows: what is written with both above
 * is one product.
 *
 * g_t is in E_xy for y < t <= x, in e_x for t <= x, in r_y for y < t, and in e_n. So
 *
 *     dg_t = sum_{y < t <= x} (dA A + dC C)_xy + sum_{y < t} r_y (k . Γ u)_y
 *          + sum_{x >= t} e_x (scale q . S do - k . S y)_x + e_n <Γ, S>
 *
 * reaches over the chunk only. The sums are differences of running sums, kept in double.
 */
#include "model/cores/delta.h"

#include "model/cores/delta_chunk.h"
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"

#include <string.h>

enum { L = DELTA_CHUNK, LANES = 64 };

/* ---- layout ---------------------------------------------------------------------- */

static size_t head_state(const struct delta *c) { return (size_t)c->dk * c->dv; }
static int    chunks(const struct delta *c) { return (c->T + L - 1) / L; }

/* The states that enter chunks 1, 2, ... of each head. */
static size_t head_kept(const struct delta *c) { return (chunks(c) - 1) * head_state(c); }

size_t delta_kept(const struct delta *c) { return (size_t)c->B * c->H * head_kept(c); }
size_t delta_state(const struct delta *c) { return c->H * head_state(c); }

/* The heads of all sequences are shared out: lane i takes heads i, i + lanes, ... */
static int lanes(const struct delta *c)
{
    return c->B * c->H < LANES ? c->B * c->H : LANES;
}

size_t delta_scratch(const struct delta *c, bool back)
{
    struct delta_chunk u;

    return lanes(c) * delta_chunk_layout(&u, NULL, c, back);
}

static void lane_open(struct delta_chunk *u, const struct delta *c, real *scratch,
                      int lane, bool back)
{
    delta_chunk_layout(u, scratch + lane * delta_chunk_layout(u, NULL, c, back), c, back);
}

/* Row x of y (n, width) times by[x]. */
static void scale_rows(real *y, const real *by, int n, size_t width)
{
    for (int x = 0; x < n; x++)
        vscale(y + x * width, by[x], y + x * width, (int)width);
}

/* ---- forward --------------------------------------------------------------------- */

static void chunk_read(const struct delta_chunk *u, const struct delta *c, const real *S,
                       real *o)
{
    const int n = u->n, dv = u->dv;

    delta_chunk_score(u, c, NULL);
    if (S)
        gemm_nn(u->y, dv, u->qs, u->dk, S, dv, 2 * n, dv, u->dk, 1, 0);
    delta_chunk_solve(u, c, S != NULL);
    o += u->row * c->ld_o + u->head * dv;
    for (int x = 0; S && x < n; x++)
        vscale(o + x * c->ld_o, u->e[x], u->y + (size_t)x * dv, dv);
    gemm_nn(o, c->ld_o, u->A, L, u->u, dv, n, dv, n, 1, S != NULL);
}

/* The state that leaves, after chunk_read; from (NULL: empty) may be to. */
static void chunk_write(const struct delta_chunk *u, const real *from, real *to)
{
    scale_rows(u->u, u->r, u->n, u->dv);
    if (from && from != to)
        memcpy(to, from, (size_t)u->dk * u->dv * sizeof *to);
    gemm_tn(to, u->dv, u->ks, u->dk, u->u, u->dv, u->dk, u->dv, u->n, 1,
            from ? u->e[u->n - 1] : 0);
}

static void head_forward(struct delta_chunk *u, const struct delta *c, real *o,
                         real *next, int b, int h)
{
    const real *S = NULL;

    for (int t = 0; t < c->T; t += L) {
        delta_chunk_open(u, c, b, h, t);
        chunk_read(u, c, S, o);
        if (t + L < c->T) {
            chunk_write(u, S, next);
            S = next;
            next += head_state(c);
        }
    }
}

void delta_forward(const struct delta *c, real *o, real *kept, real *scratch)
{
    #pragma omp parallel for schedule(dynamic)
    for (int lane = 0; lane < lanes(c); lane++) {
        struct delta_chunk u;

        lane_open(&u, c, scratch, lane, false);
        for (int i = lane; i < c->B * c->H; i += lanes(c))
            head_forward(&u, c, o, kept + i * head_kept(c), i / c->H, i % c->H);
    }
}

/* ---- extend ---------------------------------------------------------------------- */

/* One token; past holds Sᵀ k, then u. */
static void step(const struct delta_chunk *u, const struct delta *c, real *S, real *past,
                 real *o)
{
    const int  dk = u->dk, dv = u->dv;
    const real a = u->e[0], both = vdot(u->q, u->k, dk);

    memset(past, 0, dv * sizeof *past);
    memset(o, 0, dv * sizeof *o);
    for (int i = 0; i < dk; i++) {
        const real *row = S + (size_t)i * dv, q = u->q[i], k = u->k[i];

        #pragma omp simd
        for (int j = 0; j < dv; j++) {
            past[j] += k * row[j];
            o[j] += q * row[j];
        }
    }
    #pragma omp simd
    for (int j = 0; j < dv; j++) {
        past[j] = u->beta[0] * (u->v[j] - a * past[j]);
        o[j] = c->scale * (a * o[j] + both * past[j]);
    }
    for (int i = 0; i < dk; i++) {
        real *row = S + (size_t)i * dv, k = u->k[i];

        #pragma omp simd
        for (int j = 0; j < dv; j++)
            row[j] = a * row[j] + k * past[j];
    }
}

static void head_extend(struct delta_chunk *u, const struct delta *c, real *S, real *o,
                        int b, int h)
{
    for (int t = 0; t < c->T; t += L) {
        delta_chunk_open(u, c, b, h, t);
        if (u->n == 1) {
            step(u, c, S, u->u, o + u->row * c->ld_o + u->head * u->dv);
        } else {
            chunk_read(u, c, S, o);
            chunk_write(u, S, S);
        }
    }
}

void delta_extend(const struct delta *c, void *const *state, size_t at, real *o,
                  real *scratch)
{
    #pragma omp parallel for schedule(static)
    for (int lane = 0; lane < lanes(c); lane++) {
        struct delta_chunk u;

        lane_open(&u, c, scratch, lane, false);
        for (int i = lane; i < c->B * c->H; i += lanes(c)) {
            int b = i / c->H, h = i % c->H;

            head_extend(&u, c, (real *)state[b] + at + h * head_state(c), o, b, h);
        }
    }
}

/* ---- backward -------------------------------------------------------------------- */

/* What backward needs of a chunk beside it, and the parts of dg. */
struct back {
    const real *S;                  // entering, NULL: empty
    bool        last;               // nothing leaves: Γ is not set yet
    double      read[L];            // of e_x
    double      written[L];         // of r_y
    double      inside[L];          // row sums less column sums of dA A + dC C
    double      through;            // e_n <Γ, S>
};

/* du in z, and do packed. */
static void back_u(const struct delta_chunk *u, const struct delta *c, struct back *b,
                   const real *d_o)
{
    const int n = u->n, dv = u->dv;

    d_o += u->row * c->ld_o + u->head * dv;
    for (int x = 0; x < n; x++)
        memcpy(u->d_o + (size_t)x * dv, d_o + x * c->ld_o, dv * sizeof(real));
    if (!b->last) {
        gemm_nn(u->z, dv, u->ks, u->dk, u->G, dv, n, dv, u->dk, 1, 0);
        scale_rows(u->z, u->r, n, dv);
    }
    for (size_t x = 0; x < (size_t)n; x++)
        b->written[x] = b->last ? 0 : vdot(u->u + x * dv, u->z + x * dv, dv);
    gemm_tn(u->z, dv, u->A, L, u->d_o, dv, n, dv, n, 1, !b->last);
}

/* dv = y, dbeta = z . w, and -y in the place of z. */
static void back_v(const struct delta_chunk *u, const struct delta *c,
                   const struct delta_grad *g)
{
    const size_t dv = u->dv;

    for (int x = 0; x < u->n; x++) {
        size_t row = u->row + x;
        real  *y = u->y + x * dv, *z = u->z + x * dv;

        g->dbeta[row * c->H + u->head] = vdot(z, u->w + x * dv, u->dv);
        memcpy(g->dv + row * c->ld + u->head * dv, y, dv * sizeof(real));
        vscale(z, -1, y, u->dv);
    }
}

/* dA . E, and dC . E with its transpose added. */
static void back_scores(const struct delta_chunk *u, struct back *b)
{
    const int n = u->n, dv = u->dv;
    double    column[L] = {0};

    gemm_nt(u->dA, L, u->d_o, dv, u->u, dv, 2 * n, n, dv, 1, 0);
    for (int x = 0; x < n; x++) {
        const real *A = u->A + x * L, *C = u->C + x * L, *e = u->E + x * L;
        real       *dA = u->dA + x * L, *dC = u->dC + x * L;
        double      sum = 0;

        #pragma omp simd reduction(+ : sum)
        for (int y = 0; y < x; y++) {
            double both = dA[y] * A[y] + dC[y] * C[y];

            sum += both;
            column[y] += both;
            dA[y] *= e[y];
            dC[y] *= e[y];
        }
        b->inside[x] = sum;
        dC[x] = 0;
        memset(dA + x + 1, 0, (n - x - 1) * sizeof(real));
        for (int y = 0; y < x; y++)
            u->dC[y * L + x] = dC[y];
    }
    for (int x = 0; x < n; x++)
        b->inside[x] -= column[x];
}

/* The part of dq and dk that comes from the entering state. */
static void back_read(const struct delta_chunk *u, const struct delta *c, struct back *b,
                      real *dq, real *dk)
{
    const int n = u->n, dv = u->dv;

    scale_rows(u->d_o, u->e, n, dv);
    scale_rows(u->z, u->e, n, dv);
    gemm_nt(dq, c->ld, u->d_o, dv, b->S, dv, n, u->dk, dv, c->scale, 0);
    gemm_nt(dk, c->ld, u->z, dv, b->S, dv, n, u->dk, dv, 1, 0);
    for (int x = 0; x < n; x++)
        b->read[x] = (double)vdot(u->q + x * c->ld, dq + x * c->ld, u->dk) +
                     (double)vdot(u->k + x * c->ld, dk + x * c->ld, u->dk);
}

/* dq, dk, and Γ of the entering state. */
static void back_qk(const struct delta_chunk *u, const struct delta *c, struct back *b,
                    real *dq, real *dk)
{
    const int  n = u->n, e = u->dk, dv = u->dv;
    const real some = b->S != NULL, keep = b->last ? 0 : u->e[n - 1];

    dq += u->row * c->ld + u->head * e;
    dk += u->row * c->ld + u->head * e;
    memset(b->read, 0, sizeof b->read);
    if (b->S)
        back_read(u, c, b, dq, dk);
    gemm_nn(dq, c->ld, u->dA, L, u->ks, e, n, e, n, c->scale, some);
    gemm_tn(dk, c->ld, u->dA, L, u->qs, e, n, e, 2 * n, 1, some);
    if (!b->last) {
        scale_rows(u->u, u->r, n, dv);
        gemm_nt(dk, c->ld, u->u, dv, u->G, dv, n, e, dv, 1, 1);
    }
    b->through = b->S && !b->last ? keep * vdot(u->G, b->S, e * dv) : 0;
    if (b->S)
        gemm_tn(u->G, dv, u->qs, e, u->d_o, dv, e, dv, 2 * n, 1, keep);
}

static void back_gate(const struct delta_chunk *u, const struct delta *c,
                      const struct back *b, real *dg)
{
    double sum = b->through;

    for (int x = 0; x < u->n; x++)
        sum += b->written[x];
    for (int x = u->n - 1; x >= 0; x--) {
        sum += b->inside[x] + b->read[x] - b->written[x];
        dg[(u->row + x) * c->H + u->head] = (real)sum;
    }
}

static void head_back(struct delta_chunk *u, const struct delta *c,
                      const struct delta_grad *g, const real *d_o, const real *kept,
                      int i, int h)
{
    for (int t = chunks(c) - 1; t >= 0; t--) {
        struct back b = {.last = t == chunks(c) - 1};

        b.S = t > 0 ? kept + (t - 1) * head_state(c) : NULL;
        delta_chunk_open(u, c, i, h, t * L);
        delta_chunk_score(u, c, u->E);
        if (b.S)
            gemm_nn(u->w, u->dv, u->ks, u->dk, b.S, u->dv, u->n, u->dv, u->dk, 1, 0);
        delta_chunk_solve(u, c, b.S != NULL);
        back_u(u, c, &b, d_o);
        delta_chunk_solve_back(u);
        back_v(u, c, g);
        back_scores(u, &b);
        back_qk(u, c, &b, g->dq, g->dk);
        back_gate(u, c, &b, g->dlog_a);
    }
}

void delta_backward(const struct delta *c, const struct delta_grad *g, const real *d_o,
                    const real *kept, real *scratch)
{
    #pragma omp parallel for schedule(dynamic)
    for (int lane = 0; lane < lanes(c); lane++) {
        struct delta_chunk u;

        lane_open(&u, c, scratch, lane, true);
        for (int i = lane; i < c->B * c->H; i += lanes(c))
            head_back(&u, c, g, d_o, kept + i * head_kept(c), i / c->H, i % c->H);
    }
}

/* q and k against the keys of the chunk; the solve; against u; against the state; and the
 * state's own update. */
double delta_flops(int T, int dk, int dv)
{
    double n = T < L ? T : L;

    return 4 * n * dk + (n - 1) * dv + 2 * n * dv + 6.0 * dk * dv;
}
