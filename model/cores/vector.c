/* Three parts: the recurrence, as decoding runs it; the same over a chunk of tokens, as
 * matrix products; and the gradient. Each part begins with its derivation. The formulas
 * of the core itself are in vector.h.
 */
#include "model/cores/vector.h"

#include "model/kernels/arena.h"
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"

#include <stdbool.h>
#include <string.h>

enum {
    CHUNK  = VECTOR_CHUNK,
    SUB    = TINY(16, 2),           // rows of a sub-block
    SUBS   = CHUNK / SUB,
    STRIPE = TINY(64, 4),           // key channels that are worked on at once
};

/* ---- layout ------------------------------------------------------------------------ */

static int    chunks(const struct vector *c) { return (c->T + CHUNK - 1) / CHUNK; }
static size_t head_state(const struct vector *c) { return (size_t)c->dk * c->dv; }

/* Of a head: the states that enter chunks 1, 2, ... */
static size_t head_kept(const struct vector *c)
{
    return (chunks(c) - 1) * head_state(c);
}

size_t vector_kept(const struct vector *c) { return (size_t)c->B * c->H * head_kept(c); }
size_t vector_state(const struct vector *c) { return c->H * head_state(c); }

struct scratch {
    double *sum;            // (B, H, dk) dg, summed from the end
    real   *G;              // (B, H, dk, dv) G
};

static size_t lay_out(struct scratch *s, void *base, const struct vector *c)
{
    struct arena a = arena_over(base, SIZE_MAX);
    size_t       n = (size_t)c->B * c->H;

    s->sum = arena_bytes(&a, "sum", n * c->dk * sizeof *s->sum);
    s->G = arena_reals(&a, "G", n * head_state(c));
    return a.used;
}

size_t vector_scratch(const struct vector *c)
{
    struct scratch s;

    return lay_out(&s, NULL, c) / sizeof(real);
}

/* The chunk of head h that begins at token t of sequence b: at most CHUNK tokens of
 * one head, from the first. */
static struct vector chunk_of(const struct vector *c, int b, int h, int t)
{
    size_t        row = (size_t)b * c->T + t, hk = (size_t)h * c->dk;
    struct vector u = *c;

    u.q += row * c->ld_q + hk;
    u.k += row * c->ld_k + hk;
    u.g += row * c->ld_g + hk;
    u.v += row * c->ld_v + (size_t)h * c->dv;
    u.T = c->T - t < CHUNK ? c->T - t : CHUNK;
    return u;
}

static size_t o_at(const struct vector *c, int b, int h, int t)
{
    return ((size_t)b * c->T + t) * c->ld_o + (size_t)h * c->dv;
}

/* ---- 1. the recurrence ----------------------------------------------------------------
 *
 *     S' = diag(e^g) S + k vᵀ,  o = scale S'ᵀ q          row i of S decays with e^{g_i}
 */

/* One token; o (dv). S is read and written once. */
static void step(const struct vector *u, real *S, real *o)
{
    memset(o, 0, u->dv * sizeof *o);
    for (int i = 0; i < u->dk; i++, S += u->dv) {
        real a = vexp(u->g[i]), in = u->k[i], out = u->scale * u->q[i];

        #pragma omp simd
        for (int j = 0; j < u->dv; j++) {
            S[j] = a * S[j] + in * u->v[j];
            o[j] += out * S[j];
        }
    }
}

/* ---- 2. chunks ------------------------------------------------------------------------
 *
 * A chunk of tokens 0 .. T - 1, entered by S. With b_x (dk) = g_0 + ... + g_x, unrolling
 * the recurrence from its start gives the state after token x, what it reads from it, and
 * the state that leaves (. of elements):
 *
 *     S_x  = diag(e^{b_x}) S + sum_{y <= x} diag(e^{b_x - b_y}) k_y v_yᵀ
 *     A_xy = scale sum_j q_xj k_yj e^{b_xj - b_yj} for y <= x, 0 for y > x
 *     o    = A v + scale (q . e^b) S
 *     S'   = diag(e^{b_last}) S + (k . e^{b_last - b})ᵀ v
 *
 * In A the decay stands inside the sum over channels, so A is not a matrix product with
 * weights on its elements. (q . e^b) (k . e^{-b})ᵀ would be a product, but e^{-b}
 * overflows. So the chunk is cut into sub-blocks of SUB rows. With a_x = e^{g_x} and
 * a sub-block x0 .. x1 - 1:
 *
 *     q'_x = q_x a_{x0} ... a_x             decayed from the start of its sub-block
 *     k'_y = k_y a_{y+1} ... a_{x1-1}       to the end of its sub-block
 *
 * The decay from a key to a query of a later sub-block is that to the end of the key's,
 * times that over the sub-blocks between them, times that from the start of the query's.
 * So, going down the chunk, k' is decayed over one sub-block after the other, and
 *
 *     A_xy = scale q'_x . k'_y              for all y < x0, once k' has come to x0
 *
 * is a product. Within a sub-block the decay between two rows is a product of fewer than
 * SUB of the a, formed as the rows are walked. No factor exceeds 1 for any g <= 0, and
 * there is one exponential for a row and channel. From the start of the chunk q' becomes
 * q . e^b, at its end k' has become k . e^{b_last - b}.
 *
 * Sums over channels are taken STRIPE channels at a time.
 */

/* n <= STRIPE key channels of a chunk of T tokens, in arrays (rows, n). */
struct stripe {
    int         T, n;
    const real *q, *k;                      // as given, ld apart
    size_t      ld_q, ld_k;
    real        a[CHUNK * STRIPE];
    real        aged_q[CHUNK * STRIPE];     // q'
    real        aged_k[CHUNK * STRIPE];     // k'
    real        sub[SUBS * STRIPE];         // e^{sum of g over sub-block i}
    real        past[(SUBS + 1) * STRIPE];  // e^{sum of g before sub-block i}
};

/* The row after the last of the sub-block that begins at x0. */
static inline int sub_end(const struct stripe *s, int x0)
{
    return s->T - x0 < SUB ? s->T : x0 + SUB;
}

/* e^{b_last} (n). */
static inline const real *chunk_decay(const struct stripe *s)
{
    return s->past + (s->T + SUB - 1) / SUB * s->n;
}

static inline void times(real *y, const real *by, int n)
{
    #pragma omp simd
    for (int j = 0; j < n; j++)
        y[j] *= by[j];
}

static inline void exp_row(real *y, const real *x, int n)
{
    #pragma omp simd
    for (int j = 0; j < n; j++)
        y[j] = vexp(x[j]);
}

/* a and q' of the sub-block at x0, downwards; sum (n): g summed over it. */
static void fill_queries(struct stripe *s, const real *g, size_t ld_g, int x0, real *sum)
{
    const int n = s->n;
    real      run[STRIPE];

    for (int j = 0; j < n; j++)
        sum[j] = 0, run[j] = 1;
    for (int x = x0; x < sub_end(s, x0); x++) {
        const real *gx = g + x * ld_g, *q = s->q + x * s->ld_q;
        real       *a = s->a + x * n, *aged = s->aged_q + x * n;

        #pragma omp simd
        for (int j = 0; j < n; j++) {
            sum[j] += gx[j];
            a[j] = vexp(gx[j]);
            run[j] *= a[j];
            aged[j] = q[j] * run[j];
        }
    }
}

/* k' of the sub-block at x0, upwards. */
static void fill_keys(struct stripe *s, int x0)
{
    const int n = s->n;
    real      run[STRIPE];

    for (int j = 0; j < n; j++)
        run[j] = 1;
    for (int y = sub_end(s, x0) - 1; y >= x0; y--) {
        const real *a = s->a + y * n, *k = s->k + y * s->ld_k;
        real       *aged = s->aged_k + y * n;

        #pragma omp simd
        for (int j = 0; j < n; j++) {
            aged[j] = k[j] * run[j];
            run[j] *= a[j];
        }
    }
}

/* Decays over sub-blocks come from sums of g, not from products of the a: they multiply
 * up over the whole sequence, and where g is near zero an a has few of its digits. */
static void fill_decays(struct stripe *s, const real *g, size_t ld_g)
{
    const int n = s->n;
    real      sum[STRIPE], all[STRIPE] = {0};

    exp_row(s->past, all, n);
    for (int x0 = 0, i = 0; x0 < s->T; x0 += SUB, i++) {
        fill_queries(s, g, ld_g, x0, sum);
        fill_keys(s, x0);
        for (int j = 0; j < n; j++)
            all[j] += sum[j];
        exp_row(s->sub + i * n, sum, n);
        exp_row(s->past + (i + 1) * n, all, n);
    }
}

/* The stripe of channels c, c + 1, ... of a chunk. */
static void stripe_open(struct stripe *s, const struct vector *u, int c)
{
    s->T = u->T;
    s->n = u->dk - c < STRIPE ? u->dk - c : STRIPE;
    s->q = u->q + c, s->ld_q = u->ld_q;
    s->k = u->k + c, s->ld_k = u->ld_k;
    fill_decays(s, u->g + c, u->ld_g);
}

/* Rows before x0 of y times the decay over the sub-block that begins there. */
static void age(const struct stripe *s, real *y, int x0)
{
    for (int x = 0; x < x0; x++)
        times(y + x * s->n, s->sub + x0 / SUB * s->n, s->n);
}

/* Rows [x0, x1) of y times the decay from the start of the chunk to their sub-block's. */
static void age_from_start(const struct stripe *s, real *y, int x0, int x1)
{
    for (int x = x0; x < x1; x++)
        times(y + x * s->n, s->past + x / SUB * s->n, s->n);
}

/* w * k summed, and w * a for the next row, in one pass. */
static inline real dot_and_decay(real *w, const real *k, const real *a, int n)
{
    real sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (int j = 0; j < n; j++) {
        sum += w[j] * k[j];
        w[j] *= a[j];
    }
    return sum;
}

/* A_xy += scale sum_j q_xj k_yj a_{y+1,j} ... a_xj for y <= x in the sub-block at x0. */
static void sub_scores(const struct stripe *s, real *A, int x0, real scale)
{
    const int n = s->n;

    for (int x = x0; x < sub_end(s, x0); x++) {
        real w[STRIPE];

        for (int j = 0; j < n; j++)
            w[j] = scale * s->q[x * s->ld_q + j];
        for (int y = x; y >= x0; y--)
            A[x * CHUNK + y] += dot_and_decay(w, s->k + y * s->ld_k, s->a + y * n, n);
    }
}

/* Rows x0 .. of the sub-block of A (T, CHUNK) +=; k' has been aged to x0. */
static void scores(const struct stripe *s, real *A, int x0, real scale)
{
    const int n = s->n;

    if (x0)
        gemm_nt(A + x0 * CHUNK, CHUNK, s->aged_q + x0 * n, n, s->aged_k, n,
                sub_end(s, x0) - x0, x0, n, scale, 1);
    sub_scores(s, A, x0, scale);
}

/* o of a chunk that `from` enters (NULL: empty) and `to` leaves (NULL: not wanted; may be
 * from). */
static void chunk_forward(const struct vector *u, const real *from, real *to, real *o)
{
    struct stripe s;
    real          A[CHUNK * CHUNK] = {0};

    for (int c = 0; c < u->dk; c += STRIPE) {
        size_t at = (size_t)c * u->dv;

        stripe_open(&s, u, c);
        for (int x0 = 0; x0 < u->T; x0 += SUB) {
            scores(&s, A, x0, u->scale);
            age(&s, s.aged_k, x0);
        }
        if (from) {
            age_from_start(&s, s.aged_q, 0, u->T);
            gemm_nn(o, u->ld_o, s.aged_q, s.n, from + at, u->dv, u->T, u->dv, s.n,
                    u->scale, c > 0);
        }
        if (from && to)
            vscale_rows(to + at, from + at, u->dv, chunk_decay(&s), s.n, u->dv);
        if (to)
            gemm_tn(to + at, u->dv, s.aged_k, s.n, u->v, u->ld_v, s.n, u->dv, u->T,
                    1, !!from);
    }
    gemm_nn(o, u->ld_o, A, CHUNK, u->v, u->ld_v, u->T, u->dv, u->T, 1, from != NULL);
}

void vector_forward(const struct vector *c, real *o, real *kept)
{
    #pragma omp parallel for collapse(2) schedule(dynamic)
    for (int b = 0; b < c->B; b++)
        for (int h = 0; h < c->H; h++) {
            real       *next = kept + ((size_t)b * c->H + h) * head_kept(c);
            const real *S = NULL;

            for (int t = 0; t < c->T; t += CHUNK) {
                struct vector u = chunk_of(c, b, h, t);
                real         *to = t + CHUNK < c->T ? next : NULL;

                chunk_forward(&u, S, to, o + o_at(c, b, h, t));
                S = to;
                next += head_state(c);
            }
        }
}

void vector_extend(const struct vector *c, void *const *state, size_t at, real *o)
{
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < c->B; b++)
        for (int h = 0; h < c->H; h++) {
            real *S = (real *)state[b] + at + h * head_state(c);

            for (int t = 0; t < c->T; t += CHUNK) {
                struct vector u = chunk_of(c, b, h, t);

                if (u.T == 1)
                    step(&u, S, o + o_at(c, b, h, t));
                else
                    chunk_forward(&u, S, S, o + o_at(c, b, h, t));
            }
        }
}

/* Of the weights within a chunk only those below the diagonal are formed. */
double vector_flops(int T, int dk, int dv)
{
    double n = T < CHUNK ? T : CHUNK;

    return (n + 1) * dk + 2 * n * dv + 4.0 * dk * dv;
}

/* ---- 3. backward ----------------------------------------------------------------------
 *
 * G (dk, dv) is the gradient of the leaving S'. Chunks are walked last to first:
 *
 *     P_xy = scale d_o_x . v_y for y <= x                   gradient of the sum in A_xy
 *     dq_x = sum_{y <= x} P_xy (k_y . e^{b_x - b_y}) + scale e^{b_x} . (S d_o_x)
 *     dk_y = sum_{x >= y} P_xy (q_x . e^{b_x - b_y}) + e^{b_last - b_y} . (G v_y)
 *     dv   = Aᵀ d_o + (k . e^{b_last - b}) G
 *     G   <- diag(e^{b_last}) G + scale (q . e^b)ᵀ d_o
 *
 * The sums over sub-blocks before that of x are products with k', those after that of y
 * with q'; the rest is walked row by row, as in A.
 *
 * The gradient of the log decays has a closed form, by channels. Let R_t be the gradient
 * of the state after token t, which token t reads and the next one decays. With
 * dk_t = R_t v_t, dq_t = scale S_t d_o_t, and < > the product summed over the row of
 * a channel,
 *
 *     R_t = scale q_t d_o_tᵀ + diag(e^{g_{t+1}}) R_{t+1},   dg_t = <R_t, e^{g_t} S_{t-1}>
 *     <R_t, S_t> = dg_t + k_t . dk_t                 by the recurrence of S_t
 *                = q_t . dq_t + dg_{t+1}             by that of R_t
 *
 * and so dg_t = dg_{t+1} + q_t . dq_t - k_t . dk_t: one running sum, kept in double.
 */

/* dq_x = a_{x0} ... a_x d_x + sum_{y < x} P_xy k_y a_{y+1} ... a_x for x in the sub-block
 * at x0, by Horner's rule from its first key on. P (T, CHUNK), d (T, n), dq ld apart. */
static void sub_back_q(const struct stripe *s, real *dq, size_t ld, const real *P,
                       const real *d, int x0)
{
    const int n = s->n;

    for (int x = x0; x < sub_end(s, x0); x++) {
        real *to = dq + x * ld;

        memcpy(to, d + x * n, n * sizeof *to);
        for (int y = x0; y < x; y++) {
            const real *a = s->a + y * n, *k = s->k + y * s->ld_k, by = P[x * CHUNK + y];

            #pragma omp simd
            for (int j = 0; j < n; j++)
                to[j] = a[j] * to[j] + by * k[j];
        }
        times(to, s->a + x * n, n);
    }
}

/* dk_y = a_{y+1} ... a_{x1-1} d_y + sum_{x > y} P_xy q_x a_{y+1} ... a_x for y in the
 * sub-block at x0, by Horner's rule from its last query back. */
static void sub_back_k(const struct stripe *s, real *dk, size_t ld, const real *P,
                       const real *d, int x0)
{
    const int n = s->n, x1 = sub_end(s, x0);

    for (int y = x0; y < x1; y++) {
        real *to = dk + y * ld;

        memcpy(to, d + y * n, n * sizeof *to);
        for (int x = x1 - 1; x > y; x--) {
            const real *a = s->a + x * n, *q = s->q + x * s->ld_q, by = P[x * CHUNK + y];

            #pragma omp simd
            for (int j = 0; j < n; j++)
                to[j] = a[j] * (to[j] + by * q[j]);
        }
    }
}

/* What backward needs of a chunk, or of a stripe of it, beside u. */
struct back {
    const real *S;      // entering, NULL: empty
    real       *G;      // G of the leaving state, then of the entering one
    bool        last;   // nothing leaves: G is not set yet
    const real *d_o;
    real       *dq, *dk, *dv, *dg;
    double     *sum;    // (dk) dg of the token after this chunk, then of its first
    const real *P;      // (T, CHUNK) scale d_o vᵀ; above the diagonal unused
};

/* dq but for the token itself, and the scores A, which need k' at the same age.
 * Leaves k' aged to the end of the chunk. */
static void back_q(struct stripe *s, const struct vector *u, const struct vector_grad *g,
                   const struct back *p, real *A)
{
    const int n = s->n;
    real      d[CHUNK * STRIPE] = {0};

    if (p->S)
        gemm_nt(d, n, p->d_o, u->ld_o, p->S, u->dv, u->T, n, u->dv, u->scale, 0);
    for (int x0 = 0; x0 < u->T; x0 += SUB) {
        int x1 = sub_end(s, x0);

        scores(s, A, x0, u->scale);
        age_from_start(s, d, x0, x1);
        if (x0)
            gemm_nn(d + x0 * n, n, p->P + x0 * CHUNK, CHUNK, s->aged_k, n, x1 - x0, n,
                    x0, 1, 1);
        sub_back_q(s, p->dq, g->ld_dq, p->P, d, x0);
        age(s, s->aged_k, x0);
    }
}

/* dk but for the token itself. */
static void back_k(const struct stripe *s, const struct vector *u,
                   const struct vector_grad *g, const struct back *p)
{
    const int n = s->n;
    real      d[CHUNK * STRIPE] = {0};

    if (!p->last)
        gemm_nt(d, n, u->v, u->ld_v, p->G, u->dv, u->T, n, u->dv, 1, 0);
    for (int x0 = (u->T - 1) / SUB * SUB; x0 >= 0; x0 -= SUB) {
        sub_back_k(s, p->dk, g->ld_dk, p->P, d, x0);
        age(s, d, x0);
        if (x0)
            gemm_tn(d, n, p->P + x0 * CHUNK, CHUNK, s->aged_q + x0 * n, n, x0, n,
                    sub_end(s, x0) - x0, 1, 1);
    }
}

/* G, from the leaving to the entering state; q' becomes q . e^b. */
static void back_state(struct stripe *s, const struct vector *u, const struct back *p)
{
    if (!p->last)
        vscale_rows(p->G, p->G, u->dv, chunk_decay(s), s->n, u->dv);
    age_from_start(s, s->aged_q, 0, u->T);
    gemm_tn(p->G, u->dv, s->aged_q, s->n, p->d_o, u->ld_o, s->n, u->dv, u->T, u->scale,
            !p->last);
}

/* dg, and only then what a token gives to itself, P_tt k_t in dq_t and P_tt q_t in dk_t:
 * that would cancel in the sum, but leave its rounding, which under strong decay is
 * larger than dg. */
static void back_g(const struct stripe *s, const struct vector_grad *g,
                   const struct back *p)
{
    for (int x = s->T - 1; x >= 0; x--) {
        const real *q = s->q + x * s->ld_q, *k = s->k + x * s->ld_k,
                   own = p->P[x * CHUNK + x];
        real       *dq = p->dq + x * g->ld_dq, *dk = p->dk + x * g->ld_dk;
        real       *dg = p->dg + x * g->ld_dg;
        double     *sum = p->sum;

        #pragma omp simd
        for (int j = 0; j < s->n; j++) {
            sum[j] += (double)q[j] * dq[j] - (double)k[j] * dk[j];
            dg[j] = (real)sum[j];
            dq[j] += own * k[j];
            dk[j] += own * q[j];
        }
    }
}

static struct back from_channel(const struct back *p, int c, int dv)
{
    struct back b = *p;

    b.S = p->S ? p->S + (size_t)c * dv : NULL;
    b.G += (size_t)c * dv;
    b.dq += c, b.dk += c, b.dg += c, b.sum += c;
    return b;
}

static void chunk_back(const struct vector *u, const struct vector_grad *g,
                       struct back *p)
{
    struct stripe s;
    real          A[CHUNK * CHUNK] = {0}, P[CHUNK * CHUNK];

    gemm_nt(P, CHUNK, p->d_o, u->ld_o, u->v, u->ld_v, u->T, u->T, u->dv, u->scale, 0);
    p->P = P;
    for (int c = 0; c < u->dk; c += STRIPE) {
        struct back b = from_channel(p, c, u->dv);

        stripe_open(&s, u, c);
        back_q(&s, u, g, &b, A);
        if (!b.last)
            gemm_nn(b.dv, g->ld_dv, s.aged_k, s.n, b.G, u->dv, u->T, u->dv, s.n,
                    1, c > 0);
        back_k(&s, u, g, &b);
        back_g(&s, g, &b);
        if (b.S)
            back_state(&s, u, &b);
    }
    gemm_tn(p->dv, g->ld_dv, A, CHUNK, p->d_o, u->ld_o, u->T, u->dv, u->T, 1, !p->last);
    p->P = NULL;
}

static void head_back(const struct vector *c, const struct vector_grad *g,
                      const real *d_o, const real *kept, struct scratch *s, int b, int h)
{
    size_t i = (size_t)b * c->H + h, hk = (size_t)h * c->dk;

    kept += i * head_kept(c);
    memset(s->sum + i * c->dk, 0, c->dk * sizeof *s->sum);
    for (int t = (chunks(c) - 1) * CHUNK; t >= 0; t -= CHUNK) {
        struct vector u = chunk_of(c, b, h, t);
        size_t        row = (size_t)b * c->T + t;
        struct back   p = {
            .S = t ? kept + (t / CHUNK - 1) * head_state(c) : NULL,
            .G = s->G + i * head_state(c), .last = t + CHUNK >= c->T,
            .d_o = d_o + o_at(c, b, h, t), .sum = s->sum + i * c->dk,
            .dq = g->dq + row * g->ld_dq + hk, .dk = g->dk + row * g->ld_dk + hk,
            .dg = g->dg + row * g->ld_dg + hk,
            .dv = g->dv + row * g->ld_dv + (size_t)h * c->dv,
        };

        chunk_back(&u, g, &p);
    }
}

void vector_backward(const struct vector *c, const struct vector_grad *g, const real *d_o,
                     const real *kept, real *scratch)
{
    struct scratch s;

    lay_out(&s, scratch, c);
    #pragma omp parallel for collapse(2) schedule(dynamic)
    for (int b = 0; b < c->B; b++)
        for (int h = 0; h < c->H; h++)
            head_back(c, g, d_o, kept, &s, b, h);
}
