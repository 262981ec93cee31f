/* Three parts: the recurrences, as training and decoding both run them; the selective one
 * in chunks; and the gradients. The formulas of the core itself are in scan.h.
 */
#include "model/cores/scan.h"

#include "model/kernels/vmath.h"

#include <string.h>

enum {
    CHUNK  = SCAN_CHUNK,
    STRIPE = TINY(64, 4),           // channels that go through time together
    ROWS   = CHUNK + 2,
    SERIAL = TINY(1 << 14, 1),      // numbers up to which a scan stays on one thread
};

static int channels(int C, int c) { return C - c < STRIPE ? C - c : STRIPE; }
static int tokens(int T, int t) { return T - t < CHUNK ? T - t : CHUNK; }
static int chunks(int T) { return (T + CHUNK - 1) / CHUNK; }
static int stripes(int C) { return (C + STRIPE - 1) / STRIPE; }

/* ---- 1. the recurrence ----------------------------------------------------------------
 *
 *     h_t = a_t h_{t-1} + b_t
 *
 * There is no matrix to form: a channel needs two operations a token, whatever the order.
 * A thread takes a stripe of channels through all tokens.
 */

/* The stripe of m channels at c of sequence b, from past (m) and leaving the
 * last state in it. */
static void scan_stripe(const struct scan *s, real *h, real *past, int b, int c, int m)
{
    for (int t = 0; t < s->T; t++) {
        size_t      at = ((size_t)b * s->T + t) * s->C + c;
        const real *a = s->a + at;
        real       *ht = h + at;

        #pragma omp simd
        for (int i = 0; i < m; i++)
            past[i] = ht[i] = a[i] * past[i] + ht[i];
    }
}

void scan_forward(const struct scan *s, real *h)
{
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < s->B; b++)
        for (int c = 0; c < s->C; c += STRIPE) {
            real past[STRIPE] = {0};

            scan_stripe(s, h, past, b, c, channels(s->C, c));
        }
}

void scan_extend(const struct scan *s, void *const *state, size_t at, real *h)
{
    #pragma omp parallel for collapse(2) schedule(static) \
        if ((size_t)s->B * s->T * s->C > SERIAL)
    for (int b = 0; b < s->B; b++)
        for (int c = 0; c < s->C; c += STRIPE)
            scan_stripe(s, h, (real *)state[b] + at + c, b, c, channels(s->C, c));
}

/* ---- 2. chunks ------------------------------------------------------------------------
 *
 * The selective recurrence holds N states a channel, with a_t = e^{A s_t}:
 *
 *     h_t[j] = a_t[j] h_{t-1}[j] + B_t[j] s_t u_t,   y_t = sum_j C_t[j] h_t[j] + skip u_t
 *
 * One state j after the other runs through the tokens of a chunk, so that s, s u and y of
 * the chunk stay in the cache while the state is in registers. The states between chunks
 * are kept for backward.
 */

/* A chunk of n tokens and m channels from row and channel c on, laid out without gaps
 * and with zeros behind the last channel: loops over a stripe have a fixed length.
 * ROWS is more than a chunk so that arrays walked together are not a multiple of 4096
 * bytes apart, where a load waits for the store to its neighbour. */
struct patch {
    size_t row;
    int    c, n, m;
    real   u[ROWS][STRIPE], s[ROWS][STRIPE], su[ROWS][STRIPE];
    real   s2[ROWS][STRIPE];     // s / log 2, for powers of 2
};

size_t selective_state(const struct selective *s)
{
    return (size_t)s->N * s->C;
}

/* The states before each chunk and after the last: (B, chunks + 1, N, C). */
size_t selective_kept(const struct selective *s)
{
    return (size_t)s->B * (chunks(s->T) + 1) * selective_state(s);
}

/* The m channels of a stripe, then zeros. */
static inline void fetch(real *to, const real *from, int m)
{
    memcpy(to, from, m * sizeof *to);
    if (m < STRIPE)
        memset(to + m, 0, (STRIPE - m) * sizeof *to);
}

static void patch_load(struct patch *p, const struct selective *s, int b, int t0, int c)
{
    p->row = (size_t)b * s->T + t0;
    p->c = c;
    p->n = tokens(s->T, t0);
    p->m = channels(s->C, c);
    for (int t = 0; t < p->n; t++) {
        fetch(p->u[t], s->u + (p->row + t) * s->C + c, p->m);
        fetch(p->s[t], s->step + (p->row + t) * s->C + c, p->m);
        #pragma omp simd
        for (int i = 0; i < STRIPE; i++) {
            p->su[t][i] = p->s[t][i] * p->u[t][i];
            p->s2[t][i] = p->s[t][i] * (real)1.4426950408889634;
        }
    }
}

/* y += C_t[j] h_t[j] of state j; h (m) is carried. */
static void advance(const struct patch *p, const struct selective *s, int j,
                    real (*y)[STRIPE], real *h)
{
    real rate[STRIPE], hj[STRIPE];

    fetch(rate, s->rate + (size_t)j * s->C + p->c, p->m);
    fetch(hj, h, p->m);
    for (int t = 0; t < p->n; t++) {
        const size_t at = (p->row + t) * s->ld + j;
        const real   in = s->in[at], out = s->out[at];

        #pragma omp simd
        for (int i = 0; i < STRIPE; i++) {
            hj[i] = vexp2(rate[i] * p->s2[t][i]) * hj[i] + in * p->su[t][i];
            y[t][i] += out * hj[i];
        }
    }
    memcpy(h, hj, p->m * sizeof *h);
}

/* y of one chunk; h (N, C) is carried. */
static void selective_chunk(const struct selective *s, const struct patch *p,
                            real *y, real *h)
{
    real sum[ROWS][STRIPE], skip[STRIPE];

    fetch(skip, s->skip + p->c, p->m);
    for (int t = 0; t < p->n; t++)
        for (int i = 0; i < STRIPE; i++)
            sum[t][i] = skip[i] * p->u[t][i];
    for (int j = 0; j < s->N; j++)
        advance(p, s, j, sum, h + (size_t)j * s->C + p->c);
    for (int t = 0; t < p->n; t++)
        memcpy(y + (p->row + t) * s->C + p->c, sum[t], p->m * sizeof *y);
}

/* The stripe of channels at c of sequence b. The state before chunk i is at h + i stride;
 * with a stride of 0 it is only carried. */
static void selective_stripe(const struct selective *s, real *y, real *h,
                            size_t stride, int b, int c)
{
    struct patch p;

    for (int t = 0; t < s->T; t += CHUNK, h += stride) {
        patch_load(&p, s, b, t, c);
        for (int j = 0; stride && j < s->N; j++)
            memcpy(h + stride + (size_t)j * s->C + c, h + (size_t)j * s->C + c,
                   p.m * sizeof *h);
        selective_chunk(s, &p, y, h + stride);
    }
}

static void state_zero(const struct selective *s, real *h, int c)
{
    for (int j = 0; j < s->N; j++)
        memset(h + (size_t)j * s->C + c, 0, channels(s->C, c) * sizeof *h);
}

void selective_forward(const struct selective *s, real *y, real *kept)
{
    const size_t per = selective_state(s);

    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < s->B; b++)
        for (int c = 0; c < s->C; c += STRIPE) {
            real *h = kept + (size_t)b * (chunks(s->T) + 1) * per;

            state_zero(s, h, c);
            selective_stripe(s, y, h, per, b, c);
        }
}

void selective_extend(const struct selective *s, void *const *state, size_t at, real *y)
{
    #pragma omp parallel for collapse(2) schedule(static) if (s->B * s->T > 1)
    for (int b = 0; b < s->B; b++)
        for (int c = 0; c < s->C; c += STRIPE)
            selective_stripe(s, y, (real *)state[b] + at, 0, b, c);
}

/* ---- 3. backward ----------------------------------------------------------------------
 *
 * The scan: h_t is read by its own token and decayed by the next. With D_t the gradient
 * of h_t by both ways,
 *
 *     D_t = dh_t + a_{t+1} D_{t+1},   db_t = D_t,   da_t = D_t h_{t-1}
 *
 * The selective recurrence, for every state j, the states of a chunk replayed from the
 * one that enters it:
 *
 *     D_t[j]  = C_t[j] dy_t + a_{t+1}[j] D_{t+1}[j]
 *     F_t[j]  = D_t[j] a_t[j] h_{t-1}[j]                the gradient of A[j] s_t
 *     dC_t[j] = dy_t . h_t[j],  dB_t[j] = s_t u_t . D_t[j]          . sums over channels
 *     dA[j]   = sum_t s_t F_t[j]
 *     ds_t    = sum_j (A[j] F_t[j] + B_t[j] u_t D_t[j])
 *     du_t    = sum_j B_t[j] s_t D_t[j] + skip dy_t,   dskip = sum_t dy_t u_t
 */

static void scan_stripe_back(const struct scan *s, real *dh, real *da, size_t ld_da,
                            const real *h, int b, int c, int m)
{
    real later[STRIPE] = {0}, none[STRIPE] = {0};     // later: a_{t+1} db_{t+1}

    for (int t = s->T - 1; t >= 0; t--) {
        size_t      row = (size_t)b * s->T + t, at = row * s->C + c;
        const real *a = s->a + at, *before = t > 0 ? h + at - s->C : none;
        real       *d = dh + at, *dat = da + row * ld_da + c;

        #pragma omp simd
        for (int i = 0; i < m; i++) {
            d[i] += later[i];
            dat[i] = d[i] * before[i];
            later[i] = a[i] * d[i];
        }
    }
}

void scan_backward(const struct scan *s, real *dh, real *da, size_t ld_da, const real *h)
{
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < s->B; b++)
        for (int c = 0; c < s->C; c += STRIPE)
            scan_stripe_back(s, dh, da, ld_da, h, b, c, channels(s->C, c));
}

/* din and dout of each stripe of a sequence: (stripes, T, 2, N). */
static size_t selective_sums(const struct selective *s)
{
    return (size_t)stripes(s->C) * s->T * 2 * s->N;
}

/* The sums, and dh carried from token to token, (N, C), of each sequence. */
size_t selective_scratch(const struct selective *s)
{
    return s->B * (selective_sums(s) + selective_state(s));
}

/* What backward gathers over the states j of a chunk, and the replay of one of them. */
struct gather {
    real dy[ROWS][STRIPE];
    real db[ROWS][STRIPE];      // sum_j B_t[j] D_t[j]
    real da[ROWS][STRIPE];      // sum_j A[j] F_t[j]
    real rate[STRIPE];          // A[j]
    real a[ROWS][STRIPE];       // e^{A[j] s_t}
    real h[ROWS][STRIPE];       // h_t[j], the entering state first
};

static void replay(const struct patch *p, const struct selective *s, int j,
                   struct gather *g, const real *entering)
{
    fetch(g->rate, s->rate + (size_t)j * s->C + p->c, p->m);
    fetch(g->h[0], entering, p->m);
    for (int t = 0; t < p->n; t++) {
        const real in = s->in[(p->row + t) * s->ld + j];

        #pragma omp simd
        for (int i = 0; i < STRIPE; i++) {
            real a = vexp2(g->rate[i] * p->s2[t][i]);

            g->a[t][i] = a;
            g->h[t + 1][i] = a * g->h[t][i] + in * p->su[t][i];
        }
    }
}

/* State j of a chunk, last token first. later (m) carries e^{A s_{t+1}} D_{t+1},
 * drate (m) sums over tokens; sums (n, 2, N): din and dout of this stripe. */
static void retreat(const struct patch *p, const struct selective *s, int j,
                    struct gather *g, real *later, real *drate, real *sums)
{
    real next[STRIPE], sum[STRIPE] = {0};

    fetch(next, later, p->m);
    for (int t = p->n - 1; t >= 0; t--) {
        const size_t at = (p->row + t) * s->ld + j;
        const real   in = s->in[at], out = s->out[at];
        real         din = 0, dout = 0;

        #pragma omp simd reduction(+ : din, dout)
        for (int i = 0; i < STRIPE; i++) {
            real D = out * g->dy[t][i] + next[i], aD = g->a[t][i] * D,
                 F = aD * g->h[t][i];

            next[i] = aD;
            g->db[t][i] += in * D;
            g->da[t][i] += g->rate[i] * F;
            sum[i] += p->s[t][i] * F;
            din += p->su[t][i] * D;
            dout += g->dy[t][i] * g->h[t + 1][i];
        }
        sums[(size_t)t * 2 * s->N + j] = din;
        sums[((size_t)t * 2 + 1) * s->N + j] = dout;
    }
    memcpy(later, next, p->m * sizeof *later);
    for (int i = 0; i < p->m; i++)
        drate[i] += sum[i];
}

/* du = s db + skip dy,  ds = u db + da,  dskip += dy u */
static void scatter(const struct patch *p, const struct selective *s,
                    const struct selective_grad *g, const struct gather *k, real *dskip)
{
    for (int t = 0; t < p->n; t++) {
        size_t at = (p->row + t) * s->C + p->c;
        real  *du = g->du + at, *ds = g->dstep + at;

        #pragma omp simd
        for (int i = 0; i < p->m; i++) {
            du[i] = p->s[t][i] * k->db[t][i] + s->skip[p->c + i] * k->dy[t][i];
            ds[i] = p->u[t][i] * k->db[t][i] + k->da[t][i];
            dskip[i] += k->dy[t][i] * p->u[t][i];
        }
    }
}

/* The stripe of channels at c of sequence b; h: its kept states, later (N, C),
 * sums (T, 2, N). */
static void selective_stripe_back(const struct selective *s,
                                 const struct selective_grad *g, const real *dy,
                                 const real *h, real *later, real *sums, int b, int c)
{
    const size_t  per = selective_state(s);
    real         *drate = g->drate + b * per, *dskip = g->dskip + (size_t)b * s->C + c;
    struct patch   p;
    struct gather k;

    state_zero(s, later, c);
    state_zero(s, drate, c);
    memset(dskip, 0, channels(s->C, c) * sizeof *dskip);
    for (int i = chunks(s->T) - 1; i >= 0; i--) {
        patch_load(&p, s, b, i * CHUNK, c);
        memset(k.db, 0, sizeof k.db);
        memset(k.da, 0, sizeof k.da);
        for (int t = 0; t < p.n; t++)
            fetch(k.dy[t], dy + (p.row + t) * s->C + c, p.m);
        for (int j = 0; j < s->N; j++) {
            size_t at = (size_t)j * s->C + c;

            replay(&p, s, j, &k, h + i * per + at);
            retreat(&p, s, j, &k, later + at, drate + at,
                    sums + (size_t)i * CHUNK * 2 * s->N);
        }
        scatter(&p, s, g, &k, dskip);
    }
}

/* din and dout of a token: the sums over its stripes, in their order. */
static void sum_stripes(const struct selective *s, const struct selective_grad *g,
                       const real *sums, int b, int t)
{
    const size_t row = (size_t)b * s->T + t, N = s->N;
    real        *din = g->din + row * g->ld, *dout = g->dout + row * g->ld;

    memset(din, 0, N * sizeof *din);
    memset(dout, 0, N * sizeof *dout);
    for (int k = 0; k < stripes(s->C); k++) {
        const real *from = sums + ((size_t)k * s->T + t) * 2 * N;

        for (size_t j = 0; j < N; j++) {
            din[j] += from[j];
            dout[j] += from[N + j];
        }
    }
}

void selective_backward(const struct selective *s, const struct selective_grad *g,
                        const real *dy, const real *kept, real *scratch)
{
    const size_t per = selective_state(s), n_sums = selective_sums(s),
                 stripe = n_sums / stripes(s->C);
    real        *later = scratch + s->B * n_sums;

    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < s->B; b++)
        for (int c = 0; c < s->C; c += STRIPE)
            selective_stripe_back(s, g, dy, kept + b * (chunks(s->T) + 1) * per,
                                 later + b * per,
                                 scratch + b * n_sums + c / STRIPE * stripe, b, c);
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < s->B; b++)
        for (int t = 0; t < s->T; t++)
            sum_stripes(s, g, scratch + b * n_sums, b, t);
}
