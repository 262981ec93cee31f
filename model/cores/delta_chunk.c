#include "model/cores/delta_chunk.h"

#include "model/kernels/arena.h"
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"

#include <string.h>

enum { L = DELTA_CHUNK, BLOCK = 16 };

size_t delta_chunk_layout(struct delta_chunk *u, real *base, const struct delta *c,
                         bool back)
{
    struct arena m = arena_over(base, SIZE_MAX);
    size_t       n = c->T < L ? c->T : L;

    u->qs = arena_reals(&m, "qs", 2 * n * c->dk);
    u->A = arena_reals(&m, "A", 2 * n * L);
    u->y = arena_reals(&m, "y", 2 * n * c->dv);
    u->u = arena_reals(&m, "u", n * c->dv);
    u->dA = arena_reals(&m, "dA", back * 2 * n * L);
    u->d_o = arena_reals(&m, "d_o", back * 2 * n * c->dv);
    u->E = arena_reals(&m, "E", back * n * L);
    u->G = arena_reals(&m, "G", back * (size_t)c->dk * c->dv);
    return m.used / sizeof(real);
}

void delta_chunk_open(struct delta_chunk *u, const struct delta *c, int b, int h, int t)
{
    const int n = c->T - t < L ? c->T - t : L, dk = c->dk, dv = c->dv;
    double    sum = 0;

    u->n = n, u->dk = dk, u->dv = dv, u->head = h;
    u->row = (size_t)b * c->T + t;
    u->q = c->q + u->row * c->ld + u->head * dk;
    u->k = c->k + u->row * c->ld + u->head * dk;
    u->v = c->v + u->row * c->ld + u->head * dv;
    u->ks = u->qs + (size_t)n * dk;
    u->C = u->A + n * L, u->dC = u->dA + n * L;
    u->w = u->y + (size_t)n * dv, u->z = u->d_o + (size_t)n * dv;
    for (int x = 0; x < n; x++) {
        size_t at = (u->row + x) * c->H + h;

        u->sum[x] = sum += c->log_a[at];
        u->beta[x] = c->beta[at];
        u->e[x] = vexp((real)sum);
    }
    for (int x = 0; x < n; x++)
        u->r[x] = vexp((real)(sum - u->sum[x]));
}

void delta_chunk_score(const struct delta_chunk *u, const struct delta *c, real *E)
{
    const int n = u->n, dk = u->dk;
    real      here[L];

    for (int x = 0; x < n; x++) {
        vscale(u->qs + (size_t)x * dk, c->scale, u->q + x * c->ld, dk);
        memcpy(u->ks + (size_t)x * dk, u->k + x * c->ld, dk * sizeof(real));
    }
    gemm_nt(u->A, L, u->qs, dk, u->ks, dk, 2 * n, n, dk, 1, 0);
    for (int x = 0; x < n; x++) {
        real  *A = u->A + x * L, *C = u->C + x * L, *e = E ? E + x * L : here;
        double top = u->sum[x];

        #pragma omp simd
        for (int y = 0; y <= x; y++) {
            e[y] = vexp((real)(top - u->sum[y]));
            A[y] *= e[y];
            C[y] *= e[y];
        }
        memset(A + x + 1, 0, (n - x - 1) * sizeof(real));
    }
}

/* w -= sum_{y < n} c_y u_y.  u (n, dv), c_y at c[y ld]. Four rows at once spare w. */
static inline void subtract(real *w, const real *c, size_t ld, const real *u, int n,
                            int dv)
{
    for (; n >= 4; n -= 4, c += 4 * ld, u += 4 * dv) {
        const real c0 = c[0], c1 = c[ld], c2 = c[2 * ld], c3 = c[3 * ld];
        const real *u1 = u + dv, *u2 = u1 + dv, *u3 = u2 + dv;

        #pragma omp simd
        for (int j = 0; j < dv; j++)
            w[j] -= c0 * u[j] + c1 * u1[j] + c2 * u2[j] + c3 * u3[j];
    }
    for (; n > 0; n--, c += ld, u += dv) {
        #pragma omp simd
        for (int j = 0; j < dv; j++)
            w[j] -= *c * u[j];
    }
}

/* Solve (I + C b) w = what w holds, and u = b w. Within a block row by row; what a block
 * owes to earlier ones is a product. */
static void solve_down(const struct delta_chunk *s, real *w, real *u)
{
    const size_t dv = s->dv;

    for (int at = 0, end; at < s->n; at = end) {
        end = s->n - at < BLOCK ? s->n : at + BLOCK;
        if (at > 0)
            gemm_nn(w + at * dv, dv, s->C + at * L, L, u, dv, end - at, s->dv, at, -1, 1);
        for (int x = at; x < end; x++) {
            subtract(w + x * dv, s->C + x * L + at, 1, u + at * dv, x - at, s->dv);
            vscale(u + x * dv, s->beta[x], w + x * dv, s->dv);
        }
    }
}

void delta_chunk_solve(const struct delta_chunk *u, const struct delta *c, bool state)
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

/* Solve (I + Cᵀ b) z = what z holds, and y = b z, from the last block up. */
void delta_chunk_solve_back(const struct delta_chunk *s)
{
    const size_t dv = s->dv;
    real        *z = s->z, *y = s->y;

    for (int end = s->n, at; end > 0; end = at) {
        at = (end - 1) / BLOCK * BLOCK;
        if (end < s->n)
            gemm_tn(z + at * dv, dv, s->C + end * L + at, L, y + end * dv, dv, end - at,
                    s->dv, s->n - end, -1, 1);
        for (int x = end - 1; x >= at; x--) {
            subtract(z + x * dv, s->C + (x + 1) * L + x, L, y + (x + 1) * dv, end - 1 - x,
                     s->dv);
            vscale(y + x * dv, s->beta[x], z + x * dv, s->dv);
        }
    }
}
