/* Three parts: the recurrence, as decoding runs it; the same over a chunk of tokens, as
 * matrix products and a triangular solve; and the gradient. Each part begins with its
 * derivation. The formulas of the core itself are in delta.h.
 */
#include "model/cores/delta.h"

#include "model/kernels/arena.h"
#include "model/kernels/product.h"
#include "model/kernels/vec.h"
#include "model/kernels/vmath.h"

#include <omp.h>
#include <string.h>

enum {
    CHUNK      = DELTA_CHUNK,
    SOLVE_ROWS = TINY(16, 2),       // of a chunk that are solved one by one
    MAX_SHARES = TINY(64, 3),
};

/* ---- layout ------------------------------------------------------------------------ */

static size_t head_state(const struct delta *c) { return (size_t)c->dk * c->dv; }
static int    chunks(const struct delta *c) { return (c->T + CHUNK - 1) / CHUNK; }

/* The states that enter chunks 1, 2, ... of each head. */
static size_t head_kept(const struct delta *c) { return (chunks(c) - 1) * head_state(c); }

size_t delta_kept(const struct delta *c) { return (size_t)c->B * c->H * head_kept(c); }
size_t delta_state(const struct delta *c) { return c->H * head_state(c); }

/* One chunk of one head: its n rows, and the memory it is worked out in. The letters are
 * those of the derivations below. A pair on one line lies one below the other and makes
 * 2 n rows. Those of A, C, dA, dC and E are CHUNK apart. */
struct chunk {
    int         n, dk, dv;
    size_t      row, head;          // the first row, and the head, among all
    const real *q, *k, *v;          // rows of the caller
    double      b[CHUNK];
    real        e[CHUNK], r[CHUNK], beta[CHUNK];
    real       *qs, *ks;            // (n, dk) scale q; k
    real       *A, *C;              // (n, n); of C only y < x is set
    real       *y, *w;              // (n, dv) q S in the place of y in forward
    real       *u;                  // (n, dv)
    real       *dA, *dC;            // (n, n); these and the rest in backward only
    real       *d_o, *z;            // (n, dv) du, then z, then -y in z
    real       *E;                  // (n, n)
    real       *G;                  // (dk, dv)
};

/* Memory for any chunk of c, from base or only counted; in reals. */
static size_t chunk_layout(struct chunk *u, real *base, const struct delta *c, bool back)
{
    struct arena m = arena_over(base, SIZE_MAX);
    size_t       n = c->T < CHUNK ? c->T : CHUNK;

    u->qs = arena_reals(&m, "qs", 2 * n * c->dk);
    u->A = arena_reals(&m, "A", 2 * n * CHUNK);
    u->y = arena_reals(&m, "y", 2 * n * c->dv);
    u->u = arena_reals(&m, "u", n * c->dv);
    u->dA = arena_reals(&m, "dA", back * 2 * n * CHUNK);
    u->d_o = arena_reals(&m, "d_o", back * 2 * n * c->dv);
    u->E = arena_reals(&m, "E", back * n * CHUNK);
    u->G = arena_reals(&m, "G", back * (size_t)c->dk * c->dv);
    return m.used / sizeof(real);
}

/* The chunk of head h of sequence b that begins at token t. */
static void chunk_open(struct chunk *u, const struct delta *c, int b, int h, int t)
{
    const int n = c->T - t < CHUNK ? c->T - t : CHUNK, dk = c->dk, dv = c->dv;
    double    sum = 0;

    u->n = n, u->dk = dk, u->dv = dv, u->head = h;
    u->row = (size_t)b * c->T + t;
    u->q = c->q + u->row * c->ld + u->head * dk;
    u->k = c->k + u->row * c->ld + u->head * dk;
    u->v = c->v + u->row * c->ld + u->head * dv;
    u->ks = u->qs + (size_t)n * dk;
    u->C = u->A + n * CHUNK, u->dC = u->dA + n * CHUNK;
    u->w = u->y + (size_t)n * dv, u->z = u->d_o + (size_t)n * dv;
    for (int x = 0; x < n; x++) {
        size_t at = (u->row + x) * c->H + h;

        u->b[x] = sum += c->log_a[at];
        u->beta[x] = c->beta[at];
        u->e[x] = vexp((real)sum);
    }
    for (int x = 0; x < n; x++)
        u->r[x] = vexp((real)(sum - u->b[x]));
}

/* Threads that take heads, each with memory of its own, which stays in its cache. */
static int shares(const struct delta *c)
{
    return c->B * c->H < MAX_SHARES ? c->B * c->H : MAX_SHARES;
}

static int threads(const struct delta *c)
{
    return omp_get_max_threads() < shares(c) ? omp_get_max_threads() : shares(c);
}

size_t delta_scratch(const struct delta *c, bool back)
{
    struct chunk u;

    return shares(c) * chunk_layout(&u, NULL, c, back);
}

/* Memory of the calling thread. */
static void share_open(struct chunk *u, const struct delta *c, real *scratch, bool back)
{
    chunk_layout(u, scratch + omp_get_thread_num() * chunk_layout(u, NULL, c, back), c,
                 back);
}

/* ---- 1. the recurrence ----------------------------------------------------------------
 *
 * With a = e^g, reading the old state twice and writing it once:
 *
 *     u  = beta (v - a Sᵀ k)
 *     o  = scale (a Sᵀ q + (k . q) u)          = scale S'ᵀ q
 *     S' = a S + k uᵀ
 */

/* One token; o (dv), past (dv) holds Sᵀ k, then u. */
static void step(const struct chunk *u, const struct delta *c, real *S, real *past,
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

/* ---- 2. chunks ------------------------------------------------------------------------
 *
 * A chunk of n tokens, entered by the state S. b is the sum of g within the chunk, and
 *
 *     e_x = e^{b_x},  r_y = e^{b_n - b_y},  E_xy = e^{b_x - b_y} for y <= x
 *     A = scale q kᵀ . E for y <= x,  C = k kᵀ . E for y < x           . of elements
 *
 * Unrolling the recurrence, with w_t = v_t - e^{g_t} S_{t-1}ᵀ k_t:
 *
 *     w = v - e k S - C u,   u = beta w    that is (I + C beta) w = v - e k S, downwards
 *     o = scale e q S + A u
 *     S' = e_n S + kᵀ (r u)
 *
 * No exponent is positive. q over k are stacked to 2 n rows: what is written with both
 * above is one product.
 */

/* Rows x .. end - 1 of A . E and C . E, and of E where it is wanted. Columns from end on
 * are zeros. */
static inline __attribute__((always_inline)) void
weigh_rows(const struct chunk *u, real *E, int x, int end, int n)
{
    const int some = end < n ? end : n;
    real      here[CHUNK];

    for (; x < end; x++) {
        real  *A = u->A + x * CHUNK, *C = u->C + x * CHUNK, *e = E ? E + x * CHUNK : here;
        double top = u->b[x];

        #pragma omp simd
        for (int y = 0; y < some; y++) {
            e[y] = y <= x ? vexp((real)(top - u->b[y])) : 0;
            A[y] = y <= x ? A[y] * e[y] : 0;
            C[y] = y <= x ? C[y] * e[y] : 0;
        }
        for (int y = some; y < n; y++)
            e[y] = A[y] = C[y] = 0;
    }
}

/* A whole chunk a fourth of its rows at a time, so that loops have constant lengths. */
static void weigh_scores(const struct chunk *u, real *E)
{
    enum { FOURTH = CHUNK / 4 };

    if (u->n < CHUNK) {
        weigh_rows(u, E, 0, u->n, u->n);
        return;
    }
    weigh_rows(u, E, 0, FOURTH, CHUNK);
    weigh_rows(u, E, FOURTH, 2 * FOURTH, CHUNK);
    weigh_rows(u, E, 2 * FOURTH, 3 * FOURTH, CHUNK);
    weigh_rows(u, E, 3 * FOURTH, CHUNK, CHUNK);
}

/* qs, ks, A and C; E where it is wanted (NULL: not). */
static void chunk_score(const struct chunk *u, const struct delta *c, real *E)
{
    const int n = u->n, dk = u->dk;

    for (int x = 0; x < n; x++) {
        vscale(u->qs + (size_t)x * dk, c->scale, u->q + x * c->ld, dk);
        vscale(u->ks + (size_t)x * dk, 1, u->k + x * c->ld, dk);
    }
    gemm_nt(u->A, CHUNK, u->qs, dk, u->ks, dk, 2 * n, n, dk, 1, 0);
    weigh_scores(u, E);
}

/* n columns, at most LANES, of some rows: from the first to the last, or from the last
 * with `up`, u = beta w of a row is taken from all that follow, C times, or with `up` its
 * transpose times. Where rows is a constant, w is in registers. */
static inline __attribute__((always_inline)) void
solve_rows(real *w, real *u, size_t dv, const real *C, const real *beta, int rows, int n,
           bool up)
{
    vec r[SOLVE_ROWS] = {0};

    #pragma GCC unroll 16
    for (int x = 0; x < rows; x++)
        r[x] = vec_load(w + x * dv, n);
    #pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        const int x = up ? rows - 1 - i : i;
        const vec by = r[x] * beta[x];

        vec_store(w + x * dv, r[x], n);
        vec_store(u + x * dv, by, n);
        #pragma GCC unroll 16
        for (int z = 0; z < rows; z++)
            if (up ? z < x : z > x)
                r[z] -= by * (up ? C[x * CHUNK + z] : C[z * CHUNK + x]);
    }
}

static inline __attribute__((always_inline)) void
solve_block(const struct chunk *s, real *w, real *u, int at, int end, bool up)
{
    const size_t dv = s->dv;
    const real  *C = s->C + at * CHUNK + at, *beta = s->beta + at;

    w += at * dv, u += at * dv;
    for (int j = 0; j < s->dv; j += LANES) {
        if (end - at == SOLVE_ROWS && s->dv - j >= LANES)
            solve_rows(w + j, u + j, dv, C, beta, SOLVE_ROWS, LANES, up);
        else
            solve_rows(w + j, u + j, dv, C, beta, end - at, s->dv - j, up);
    }
}

/* Solve (I + C beta) w = what w holds, and u = beta w: SOLVE_ROWS at a time one by one;
 * what these owe to the rows before them is a product. */
static void solve_down(const struct chunk *s, real *w, real *u)
{
    const size_t dv = s->dv;

    for (int at = 0, end; at < s->n; at = end) {
        end = s->n - at < SOLVE_ROWS ? s->n : at + SOLVE_ROWS;
        if (at > 0)
            gemm_nn(w + at * dv, dv, s->C + at * CHUNK, CHUNK, u, dv, end - at, s->dv, at,
                    -1, 1);
        solve_block(s, w, u, at, end, false);
    }
}

/* w and u, of which w holds k S; without a state it holds nothing. */
static void chunk_solve(const struct chunk *u, const struct delta *c, bool state)
{
    for (int x = 0; x < u->n; x++) {
        const real *v = u->v + x * c->ld;
        real       *w = u->w + (size_t)x * u->dv;

        #pragma omp simd
        for (int j = 0; j < u->dv; j++)
            w[j] = state ? v[j] - u->e[x] * w[j] : v[j];
    }
    solve_down(u, u->w, u->u);
}

static void chunk_read(const struct chunk *u, const struct delta *c, const real *S,
                       real *o)
{
    const int n = u->n, dv = u->dv;

    chunk_score(u, c, NULL);
    if (S)
        gemm_nn(u->y, dv, u->qs, u->dk, S, dv, 2 * n, dv, u->dk, 1, 0);
    chunk_solve(u, c, S != NULL);
    o += u->row * c->ld_o + u->head * dv;
    for (int x = 0; S && x < n; x++)
        vscale(o + x * c->ld_o, u->e[x], u->y + (size_t)x * dv, dv);
    gemm_nn(o, c->ld_o, u->A, CHUNK, u->u, dv, n, dv, n, 1, S != NULL);
}

/* The state that leaves, after chunk_read; from (NULL: empty) may be to. */
static void chunk_write(const struct chunk *u, const real *from, real *to)
{
    vscale_rows(u->u, u->u, u->dv, u->r, u->n, u->dv);
    if (from && from != to)
        memcpy(to, from, (size_t)u->dk * u->dv * sizeof *to);
    gemm_tn(to, u->dv, u->ks, u->dk, u->u, u->dv, u->dk, u->dv, u->n, 1,
            from ? u->e[u->n - 1] : 0);
}

static void head_forward(struct chunk *u, const struct delta *c, real *o,
                         real *next, int b, int h)
{
    const real *S = NULL;

    for (int t = 0; t < c->T; t += CHUNK) {
        chunk_open(u, c, b, h, t);
        chunk_read(u, c, S, o);
        if (t + CHUNK < c->T) {
            chunk_write(u, S, next);
            S = next;
            next += head_state(c);
        }
    }
}

void delta_forward(const struct delta *c, real *o, real *kept, real *scratch)
{
    #pragma omp parallel for schedule(dynamic) num_threads(threads(c))
    for (int i = 0; i < c->B * c->H; i++) {
        struct chunk u;

        share_open(&u, c, scratch, false);
        head_forward(&u, c, o, kept + i * head_kept(c), i / c->H, i % c->H);
    }
}

static void head_extend(struct chunk *u, const struct delta *c, real *S, real *o,
                        int b, int h)
{
    for (int t = 0; t < c->T; t += CHUNK) {
        chunk_open(u, c, b, h, t);
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
    #pragma omp parallel for schedule(static) num_threads(threads(c))
    for (int i = 0; i < c->B * c->H; i++) {
        struct chunk u;
        int          b = i / c->H, h = i % c->H;

        share_open(&u, c, scratch, false);
        head_extend(&u, c, (real *)state[b] + at + h * head_state(c), o, b, h);
    }
}

/* q and k against the keys of the chunk; the solve; against u; against the state; and the
 * state's own update. */
double delta_flops(int T, int dk, int dv)
{
    double n = T < CHUNK ? T : CHUNK;

    return 4 * n * dk + (n - 1) * dv + 2 * n * dv + 6.0 * dk * dv;
}

/* ---- 3. backward ----------------------------------------------------------------------
 *
 * With G the gradient of S'. The adjoint of the solve is a solve upwards with the
 * transpose:
 *
 *     du = Aᵀ do + r k G
 *     z = du - Cᵀ y,   y = beta z          that is (I + Cᵀ beta) z = du
 *     dv = y,   dbeta = z . w,   dA = do uᵀ,   dC = -y uᵀ
 *     dq = scale (e do Sᵀ + (dA . E) k)
 *     dk = -e y Sᵀ + ((dC . E) + (dC . E)ᵀ) k + (dA . E)ᵀ scale q + r u Gᵀ
 *     G <- e_n G + scale qᵀ (e do) - kᵀ (e y)
 *
 * Nothing is divided by beta, so beta = 0 has its gradient. do over -y are stacked to 2 n
 * rows.
 *
 * g_t is in E_xy for y < t <= x, in e_x for t <= x, in r_y for y < t, and in e_n. So
 *
 *     dg_t = sum_{y < t <= x} (dA A + dC C)_xy + sum_{y < t} r_y (k . G u)_y
 *          + sum_{x >= t} e_x (scale q . S do - k . S y)_x + e_n <G, S>
 *
 * reaches over the chunk only. The sums are differences of running sums, kept in double.
 */

/* What backward needs of a chunk beside it, and the parts of dg. */
struct back {
    const real *S;                  // entering, NULL: empty
    bool        last;               // nothing leaves: G is not set yet
    double      read[CHUNK];        // of e_x
    double      written[CHUNK];     // of r_y
    double      inside[CHUNK];      // row sums less column sums of dA A + dC C
    double      through;            // e_n <G, S>
};

/* du in z, and do packed. */
static void back_u(const struct chunk *u, const struct delta *c, struct back *b,
                   const real *d_o)
{
    const int n = u->n, dv = u->dv;

    d_o += u->row * c->ld_o + u->head * dv;
    for (int x = 0; x < n; x++)
        memcpy(u->d_o + (size_t)x * dv, d_o + x * c->ld_o, dv * sizeof(real));
    if (!b->last) {
        gemm_nn(u->z, dv, u->ks, u->dk, u->G, dv, n, dv, u->dk, 1, 0);
        vscale_rows(u->z, u->z, dv, u->r, n, dv);
    }
    for (size_t x = 0; x < (size_t)n; x++)
        b->written[x] = b->last ? 0 : vdot(u->u + x * dv, u->z + x * dv, dv);
    gemm_tn(u->z, dv, u->A, CHUNK, u->d_o, dv, n, dv, n, 1, !b->last);
}

/* Solve (I + Cᵀ beta) z = what z holds, and y = beta z, from the last rows up. */
static void chunk_solve_back(const struct chunk *s)
{
    const size_t dv = s->dv;
    real        *z = s->z, *y = s->y;

    for (int end = s->n, at; end > 0; end = at) {
        at = (end - 1) / SOLVE_ROWS * SOLVE_ROWS;
        if (end < s->n)
            gemm_tn(z + at * dv, dv, s->C + end * CHUNK + at, CHUNK, y + end * dv, dv,
                    end - at, s->dv, s->n - end, -1, 1);
        solve_block(s, z, y, at, end, true);
    }
}

/* dv = y, dbeta = z . w, and -y in the place of z. */
static void back_v(const struct chunk *u, const struct delta *c,
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
static void back_scores(const struct chunk *u, struct back *b)
{
    const int n = u->n, dv = u->dv;
    double    column[CHUNK] = {0};

    gemm_nt(u->dA, CHUNK, u->d_o, dv, u->u, dv, 2 * n, n, dv, 1, 0);
    for (int x = 0; x < n; x++) {
        const real *A = u->A + x * CHUNK, *C = u->C + x * CHUNK, *e = u->E + x * CHUNK;
        real       *dA = u->dA + x * CHUNK, *dC = u->dC + x * CHUNK;
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
            u->dC[y * CHUNK + x] = dC[y];
    }
    for (int x = 0; x < n; x++)
        b->inside[x] -= column[x];
}

/* The part of dq and dk that comes from the entering state. */
static void back_read(const struct chunk *u, const struct delta *c, struct back *b,
                      real *dq, real *dk)
{
    const int n = u->n, dv = u->dv;

    vscale_rows(u->d_o, u->d_o, dv, u->e, n, dv);
    vscale_rows(u->z, u->z, dv, u->e, n, dv);
    gemm_nt(dq, c->ld, u->d_o, dv, b->S, dv, n, u->dk, dv, c->scale, 0);
    gemm_nt(dk, c->ld, u->z, dv, b->S, dv, n, u->dk, dv, 1, 0);
    for (int x = 0; x < n; x++)
        b->read[x] = (double)vdot(u->q + x * c->ld, dq + x * c->ld, u->dk) +
                     (double)vdot(u->k + x * c->ld, dk + x * c->ld, u->dk);
}

/* dq, dk, and G of the entering state. */
static void back_qk(const struct chunk *u, const struct delta *c, struct back *b,
                    real *dq, real *dk)
{
    const int  n = u->n, e = u->dk, dv = u->dv;
    const real some = b->S != NULL, keep = b->last ? 0 : u->e[n - 1];

    dq += u->row * c->ld + u->head * e;
    dk += u->row * c->ld + u->head * e;
    memset(b->read, 0, sizeof b->read);
    if (b->S)
        back_read(u, c, b, dq, dk);
    gemm_nn(dq, c->ld, u->dA, CHUNK, u->ks, e, n, e, n, c->scale, some);
    gemm_tn(dk, c->ld, u->dA, CHUNK, u->qs, e, n, e, 2 * n, 1, some);
    if (!b->last) {
        vscale_rows(u->u, u->u, dv, u->r, n, dv);
        gemm_nt(dk, c->ld, u->u, dv, u->G, dv, n, e, dv, 1, 1);
    }
    b->through = b->S && !b->last ? keep * vdot(u->G, b->S, e * dv) : 0;
    if (b->S)
        gemm_tn(u->G, dv, u->qs, e, u->d_o, dv, e, dv, 2 * n, 1, keep);
}

static void back_gate(const struct chunk *u, const struct delta *c,
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

static void head_back(struct chunk *u, const struct delta *c,
                      const struct delta_grad *g, const real *d_o, const real *kept,
                      int i, int h)
{
    for (int t = chunks(c) - 1; t >= 0; t--) {
        struct back b = {.last = t == chunks(c) - 1};

        b.S = t > 0 ? kept + (t - 1) * head_state(c) : NULL;
        chunk_open(u, c, i, h, t * CHUNK);
        chunk_score(u, c, u->E);
        if (b.S)
            gemm_nn(u->w, u->dv, u->ks, u->dk, b.S, u->dv, u->n, u->dv, u->dk, 1, 0);
        chunk_solve(u, c, b.S != NULL);
        back_u(u, c, &b, d_o);
        chunk_solve_back(u);
        back_v(u, c, g);
        back_scores(u, &b);
        back_qk(u, c, &b, g->dq, g->dk);
        back_gate(u, c, &b, g->dlog_a);
    }
}

void delta_backward(const struct delta *c, const struct delta_grad *g, const real *d_o,
                    const real *kept, real *scratch)
{
    #pragma omp parallel for schedule(dynamic) num_threads(threads(c))
    for (int i = 0; i < c->B * c->H; i++) {
        struct chunk u;

        share_open(&u, c, scratch, true);
        head_back(&u, c, g, d_o, kept + i * head_kept(c), i / c->H, i % c->H);
    }
}
