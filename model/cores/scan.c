/* Three parts: the recurrences, as training and decoding both run them; the selective one
 * in chunks; and the gradients. The formulas of the core itself are in scan.h.
 */
#include "model/cores/scan.h"

#include "model/kernels/ahead.h"
#include "model/kernels/vec.h"
#include "model/kernels/vmath.h"

#include <string.h>

enum {
    CHUNK  = SCAN_CHUNK,
    STRIPE = TINY(64, 4),           // channels that go through time together:
    PATCH  = TINY(32, 4),           // those of the selective form,
    WIDE   = (PATCH + LANES - 1) / LANES * LANES,       // in whole vectors,
    TOGETHER = 4,                   // and states: forward,
    PAIR   = 2,                     // backward
    AHEAD  = 6,                     // arrays that the next patch needs
    ROWS   = (CHUNK > LANES ? CHUNK : LANES) + 2,
    SERIAL = TINY(1 << 14, 1),      // numbers up to which a scan stays on one thread
};

static int channels(int C, int c, int most) { return C - c < most ? C - c : most; }
static int tokens(int T, int t) { return T - t < CHUNK ? T - t : CHUNK; }
static int chunks(int T) { return (T + CHUNK - 1) / CHUNK; }
static int patches(int C) { return (C + PATCH - 1) / PATCH; }

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

            scan_stripe(s, h, past, b, c, channels(s->C, c, STRIPE));
        }
}

void scan_extend(const struct scan *s, void *const *state, size_t at, real *h)
{
    #pragma omp parallel for collapse(2) schedule(static) \
        if ((size_t)s->B * s->T * s->C > SERIAL)
    for (int b = 0; b < s->B; b++)
        for (int c = 0; c < s->C; c += STRIPE)
            scan_stripe(s, h, (real *)state[b] + at + c, b, c, channels(s->C, c, STRIPE));
}

/* ---- 2. chunks ------------------------------------------------------------------------
 *
 * The selective recurrence holds N states a channel, with a_t = e^{A s_t}:
 *
 *     h_t[j] = a_t[j] h_{t-1}[j] + B_t[j] s_t u_t,   y_t = sum_j C_t[j] h_t[j] + skip u_t
 *
 * A few states j at a time run through the tokens of a chunk, so that s, s u and y of the
 * chunk stay in the cache. The states between chunks are kept for backward.
 */

/* A chunk of n tokens and m channels from row and channel c on, laid out without gaps
 * and with zeros behind the last channel: loops over a patch have a fixed length.
 * ROWS is more than a chunk so that arrays walked together are not a multiple of 4096
 * bytes apart, where a load waits for the store to its neighbour. */
struct patch {
    size_t row;
    int    c, n, m;
    const real *ahead[AHEAD];   // of the next one, rows C apart; or NULL
    _Alignas(64) real u[ROWS][WIDE];
    real   s[ROWS][WIDE], su[ROWS][WIDE];
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

/* The m channels of a patch, then zeros. A whole patch is copied without a call. */
static inline __attribute__((always_inline)) void
fetch(real *to, const real *from, int m)
{
    if (m == WIDE) {
        memcpy(to, from, WIDE * sizeof *to);
        return;
    }
    memcpy(to, from, m * sizeof *to);
    memset(to + m, 0, (WIDE - m) * sizeof *to);
}

/* And back. */
static inline __attribute__((always_inline)) void put(real *to, const real *from, int m)
{
    if (m == WIDE)
        memcpy(to, from, WIDE * sizeof *to);
    else
        memcpy(to, from, m * sizeof *to);
}

/* Beside token t of the ith group of states: row t of the ith array of the next patch is
 * sent for. It is a few lines, which the CPU does not foresee; all at once they would be
 * more than it can wait for. */
static inline __attribute__((always_inline)) void
send_for_row(const struct patch *p, const struct selective *s, int i, int t)
{
    if (i < AHEAD && p->ahead[i])
        send_for(p->ahead[i] + (size_t)t * s->C, WIDE);
}

/* The next patch is `later` tokens from this one; x: its arrays, NULL behind the last. */
static void send_for_next(struct patch *p, const struct selective *s, int later,
                          const real *const x[AHEAD])
{
    for (int i = 0; i < AHEAD; i++)
        p->ahead[i] = x[i] ? x[i] + (p->row + later) * s->C + p->c : NULL;
}

static void patch_load(struct patch *p, const struct selective *s, int b, int t0, int c)
{
    p->row = (size_t)b * s->T + t0;
    p->c = c;
    p->n = tokens(s->T, t0);
    p->m = channels(s->C, c, PATCH);
    memset(p->ahead, 0, sizeof p->ahead);
    for (int t = 0; t < p->n; t++) {
        fetch(p->u[t], s->u + (p->row + t) * s->C + c, p->m);
        fetch(p->s[t], s->step + (p->row + t) * s->C + c, p->m);
        #pragma omp simd
        for (int i = 0; i < WIDE; i++)
            p->su[t][i] = p->s[t][i] * p->u[t][i];
    }
}

/* A[j] / log 2, for powers of 2. */
static inline void fetch_rate(real *to, const struct patch *p, const struct selective *s,
                              int j)
{
    fetch(to, s->rate + (size_t)j * s->C + p->c, p->m);
    vscale(to, (real)1.4426950408889634, to, WIDE);
}

/* y += C_t[j] h_t[j] of J states from j on; h (N, C) is carried. J is a constant wherever
 * this is inlined. */
static inline __attribute__((always_inline)) void
advance(int J, const struct patch *p, const struct selective *s, int j,
        real (*y)[WIDE], real *h)
{
    _Alignas(64) real rate[TOGETHER][WIDE], now[TOGETHER][WIDE];

    for (int k = 0; k < J; k++) {
        fetch_rate(rate[k], p, s, j + k);
        fetch(now[k], h + (size_t)(j + k) * s->C + p->c, p->m);
    }
    for (int t = 0; t < p->n; t++) {
        const size_t at = (p->row + t) * s->ld + j;
        const real  *in = s->in + at, *out = s->out + at;

        send_for_row(p, s, j / TOGETHER, t);
        #pragma omp simd
        for (int i = 0; i < WIDE; i++) {
            real sum = y[t][i];

            #pragma GCC unroll 4
            for (int k = 0; k < J; k++) {
                now[k][i] = vexp2(rate[k][i] * p->s[t][i]) * now[k][i] +
                            in[k] * p->su[t][i];
                sum += out[k] * now[k][i];
            }
            y[t][i] = sum;
        }
    }
    for (int k = 0; k < J; k++)
        put(h + (size_t)(j + k) * s->C + p->c, now[k], p->m);
}

/* y of one chunk; h (N, C) is carried. */
static void selective_chunk(const struct selective *s, const struct patch *p,
                            real *y, real *h)
{
    _Alignas(64) real sum[ROWS][WIDE], skip[WIDE];
    int j = 0;

    fetch(skip, s->skip + p->c, p->m);
    for (int t = 0; t < p->n; t++)
        for (int i = 0; i < WIDE; i++)
            sum[t][i] = skip[i] * p->u[t][i];
    for (; j + TOGETHER <= s->N; j += TOGETHER)
        advance(TOGETHER, p, s, j, sum, h);
    for (; j < s->N; j++)
        advance(1, p, s, j, sum, h);
    for (int t = 0; t < p->n; t++)
        put(y + (p->row + t) * s->C + p->c, sum[t], p->m);
}

/* The patches of sequence b at channel c. The state before chunk i is at h + i stride;
 * with a stride of 0 it is only carried. */
static void selective_patch(const struct selective *s, real *y, real *h,
                            size_t stride, int b, int c)
{
    struct patch p;

    for (int t = 0; t < s->T; t += CHUNK, h += stride) {
        patch_load(&p, s, b, t, c);
        if (stride && t + CHUNK < s->T)
            send_for_next(&p, s, CHUNK, (const real *[AHEAD]){s->u, s->step, y});
        for (int j = 0; stride && j < s->N; j++)
            put(h + stride + (size_t)j * s->C + c, h + (size_t)j * s->C + c, p.m);
        selective_chunk(s, &p, y, h + stride);
    }
}

static void state_zero(const struct selective *s, real *h, int c)
{
    for (int j = 0; j < s->N; j++)
        memset(h + (size_t)j * s->C + c, 0,
               channels(s->C, c, PATCH) * sizeof *h);
}

void selective_forward(const struct selective *s, real *y, real *kept)
{
    const size_t per = selective_state(s);

    #pragma omp parallel for collapse(2) schedule(dynamic)
    for (int b = 0; b < s->B; b++)
        for (int c = 0; c < s->C; c += PATCH) {
            real *h = kept + (size_t)b * (chunks(s->T) + 1) * per;

            state_zero(s, h, c);
            selective_patch(s, y, h, per, b, c);
        }
}

void selective_extend(const struct selective *s, void *const *state, size_t at, real *y)
{
    #pragma omp parallel for collapse(2) schedule(static) if (s->B * s->T > 1)
    for (int b = 0; b < s->B; b++)
        for (int c = 0; c < s->C; c += PATCH)
            selective_patch(s, y, (real *)state[b] + at, 0, b, c);
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
            scan_stripe_back(s, dh, da, ld_da, h, b, c, channels(s->C, c, STRIPE));
}

/* din and dout of each patch of a sequence: (patches, 2, N, T). */
static size_t selective_sums(const struct selective *s)
{
    return (size_t)patches(s->C) * s->T * 2 * s->N;
}

/* The sums, and dh carried from token to token, (N, C), of each sequence. */
size_t selective_scratch(const struct selective *s)
{
    return s->B * (selective_sums(s) + selective_state(s));
}

/* What backward gathers over the states j of a chunk, and the replay of some of them. */
struct gather {
    _Alignas(64) real dy[ROWS][WIDE];
    real db[ROWS][WIDE];            // sum_j B_t[j] D_t[j]
    real da[ROWS][WIDE];            // sum_j A[j] F_t[j]
    real rate[PAIR][WIDE];          // A[j] / log 2
    real a[PAIR][ROWS][WIDE];       // e^{A[j] s_t}, then D_t[j]
    real h[PAIR][ROWS][WIDE];       // h_t[j], the entering state first
};

/* J states from j on. J is a constant wherever this and the next are inlined. */
static inline __attribute__((always_inline)) void
replay(int J, const struct patch *p, const struct selective *s, int j, struct gather *g,
       const real *entering)
{
    for (int k = 0; k < J; k++) {
        fetch_rate(g->rate[k], p, s, j + k);
        fetch(g->h[k][0], entering + (size_t)k * s->C, p->m);
    }
    for (int t = 0; t < p->n; t++) {
        const real *in = s->in + (p->row + t) * s->ld + j;

        send_for_row(p, s, j / PAIR, t);
        #pragma omp simd
        for (int i = 0; i < WIDE; i++)
            #pragma GCC unroll 2
            for (int k = 0; k < J; k++) {
                real a = vexp2(g->rate[k][i] * p->s[t][i]);

                g->a[k][t][i] = a;
                g->h[k][t + 1][i] = a * g->h[k][t][i] + in[k] * p->su[t][i];
            }
    }
}

/* The same states, last token first. later (J, C) carries e^{A s_{t+1}} D_{t+1},
 * drate (J, C) sums over tokens. */
static inline __attribute__((always_inline)) void
retreat(int J, const struct patch *p, const struct selective *s, int j, struct gather *g,
        real *later, real *drate)
{
    _Alignas(64) real next[PAIR][WIDE], sum[PAIR][WIDE] = {0};

    for (int k = 0; k < J; k++)
        fetch(next[k], later + (size_t)k * s->C, p->m);
    for (int t = p->n - 1; t >= 0; t--) {
        const size_t at = (p->row + t) * s->ld + j;
        const real  *in = s->in + at, *out = s->out + at;

        #pragma omp simd
        for (int i = 0; i < WIDE; i++) {
            real db = g->db[t][i], da = g->da[t][i];

            #pragma GCC unroll 2
            for (int k = 0; k < J; k++) {
                real D = out[k] * g->dy[t][i] + next[k][i], aD = g->a[k][t][i] * D,
                     F = aD * g->h[k][t][i];

                g->a[k][t][i] = D;
                next[k][i] = aD;
                db += in[k] * D;
                da += g->rate[k][i] * F;
                sum[k][i] += p->s[t][i] * F;
            }
            g->db[t][i] = db;
            g->da[t][i] = da;
        }
    }
    for (int k = 0; k < J; k++) {
        put(later + (size_t)k * s->C, next[k], p->m);
        vaxpy(drate + (size_t)k * s->C, 1, sum[k], p->m);
    }
}

/* sum (n) of x_t . y_t over the channels of a patch, LANES tokens together. */
static void sum_channels(real *sum, real (*x)[WIDE], real (*y)[WIDE], int n)
{
    for (int t = 0; t < n; t += LANES) {
        vec dot[LANES], dots;

        #pragma GCC unroll 16
        for (int l = 0; l < LANES; l++) {
            dot[l] = *(const vec *)x[t + l] * *(const vec *)y[t + l];
            #pragma GCC unroll 8
            for (int i = LANES; i < WIDE; i += LANES)
                dot[l] += *(const vec *)(x[t + l] + i) * *(const vec *)(y[t + l] + i);
        }
        dots = vec_sums(dot);
        memcpy(sum + t, &dots, (n - t < LANES ? n - t : LANES) * sizeof *sum);
    }
}

/* J states from j on of a chunk. entering, later and drate (N, C) from its channels on;
 * sums (2, N, T) from its tokens on: din and dout of this patch. */
static inline __attribute__((always_inline)) void
states_back(int J, struct patch *p, const struct selective *s, int j, struct gather *g,
            const real *entering, real *later, real *drate, real *sums)
{
    const size_t at = (size_t)j * s->C;

    replay(J, p, s, j, g, entering + at);
    retreat(J, p, s, j, g, later + at, drate + at);
    for (int k = 0; k < J; k++) {
        sum_channels(sums + (size_t)(j + k) * s->T, p->su, g->a[k], p->n);
        sum_channels(sums + (size_t)(s->N + j + k) * s->T, g->dy, g->h[k] + 1, p->n);
    }
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
            ds[i] = p->u[t][i] * k->db[t][i] + k->da[t][i] * (real)0.69314718055994531;
            dskip[i] += k->dy[t][i] * p->u[t][i];
        }
    }
}

/* The patches of sequence b at channel c; h: its kept states, later (N, C),
 * sums (2, N, T). */
static void selective_patch_back(const struct selective *s,
                                 const struct selective_grad *g, const real *dy,
                                 const real *h, real *later, real *sums, int b, int c)
{
    const size_t  per = selective_state(s);
    real         *drate = g->drate + b * per, *dskip = g->dskip + (size_t)b * s->C + c;
    struct patch  p;
    struct gather k;

    state_zero(s, later, c);
    state_zero(s, drate, c);
    memset(dskip, 0, channels(s->C, c, PATCH) * sizeof *dskip);
    for (int i = chunks(s->T) - 1; i >= 0; i--) {
        const real *entering = h + i * per + c;
        real       *to = sums + (size_t)i * CHUNK;
        int         j = 0;

        patch_load(&p, s, b, i * CHUNK, c);
        memset(k.db, 0, sizeof k.db);
        memset(k.da, 0, sizeof k.da);
        for (int t = 0; t < p.n; t++)
            fetch(k.dy[t], dy + (p.row + t) * s->C + c, p.m);
        if (i > 0) {
            send_for_next(&p, s, -CHUNK, (const real *[AHEAD]){s->u, s->step, dy, g->du,
                                                               g->dstep});
            p.ahead[5] = entering - per;
        }
        for (; j + PAIR <= s->N; j += PAIR)
            states_back(PAIR, &p, s, j, &k, entering, later + c, drate + c, to);
        for (; j < s->N; j++)
            states_back(1, &p, s, j, &k, entering, later + c, drate + c, to);
        scatter(&p, s, g, &k, dskip);
    }
}

/* din and dout of a chunk: the sums over its patches, in their order. */
static void sum_patches(const struct selective *s, const struct selective_grad *g,
                       const real *sums, int b, int t)
{
    const size_t row = (size_t)b * s->T + t, N = s->N;
    const int    n = tokens(s->T, t);

    for (size_t j = 0; j < 2 * N; j++) {
        real *to = (j < N ? g->din + j : g->dout + j - N) + row * g->ld;
        real  sum[CHUNK] = {0};

        for (int k = 0; k < patches(s->C); k++)
            vaxpy(sum, 1, sums + (k * 2 * N + j) * s->T + t, n);
        for (int i = 0; i < n; i++)
            to[i * g->ld] = sum[i];
    }
}

void selective_backward(const struct selective *s, const struct selective_grad *g,
                        const real *dy, const real *kept, real *scratch)
{
    const size_t per = selective_state(s), n_sums = selective_sums(s),
                 patch = n_sums / patches(s->C);
    real        *later = scratch + s->B * n_sums;

    #pragma omp parallel for collapse(2) schedule(dynamic)
    for (int b = 0; b < s->B; b++)
        for (int c = 0; c < s->C; c += PATCH)
            selective_patch_back(s, g, dy, kept + b * (chunks(s->T) + 1) * per,
                                 later + b * per,
                                 scratch + b * n_sums + c / PATCH * patch, b, c);
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < s->B; b++)
        for (int t = 0; t < s->T; t += CHUNK)
            sum_patches(s, g, scratch + b * n_sums, b, t);
}
