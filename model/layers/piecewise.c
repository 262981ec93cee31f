#include "model/layers/piecewise.h"

#include "model/kernels/arena.h"
#include "model/kernels/vec.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static int channels_of(const struct piecewise *p)
{
    return p->channels / p->groups;
}

size_t piecewise_layout(struct piecewise *p, real *base)
{
    struct arena a = arena_over(base, SIZE_MAX);

    for (p->search = 2 * LANES; p->search < p->hidden;)
        p->search *= 2;
    p->row = p->search + LANES;
    p->knot = arena_reals(&a, "knot", (size_t)p->groups * p->search);
    p->heap = arena_reals(&a, "heap", (size_t)p->groups * p->search);
    p->anchor = arena_reals(&a, "anchor", (size_t)p->groups * p->row);
    p->value = arena_reals(&a, "value", (size_t)p->channels * p->row);
    p->slope = arena_reals(&a, "slope", (size_t)p->channels * p->row);
    return a.used / sizeof(real);
}

/* ---- the table --------------------------------------------------------------------- */

/* Unit j is active above its knot (f1 >= 0) or up to it. One that does not depend
 * on u has its knot at -INFINITY when it is always active, at INFINITY when never. */
static real knot_of(real f1, real f1b)
{
    if (f1 == 0)
        return f1b > 0 ? -INFINITY : INFINITY;
    return -f1b / f1;
}

static bool active(real f1, real f1b, const real *knot, int piece)
{
    real at = knot_of(f1, f1b);
    bool above = piece > 0 && knot[piece - 1] >= at;

    return f1 < 0 ? !above : above;
}

static void sort(real *a, int n)
{
    for (int i = 1; i < n; i++) {
        real x = a[i];
        int  j = i;

        for (; j > 0 && a[j - 1] > x; j--)
            a[j] = a[j - 1];
        a[j] = x;
    }
}

static void build_heap(real *heap, const real *knot, int n)
{
    heap[0] = 0;
    for (int level = 1; level < n; level *= 2)
        for (int i = 0; i < level; i++)
            heap[level + i] = knot[(2 * i + 1) * (n / level / 2) - 1];
}

/* A finite end of piece i of n + 1, if it has one. */
static real anchor_of(const real *knot, int i, int n)
{
    if (i > 0 && isfinite(knot[i - 1]))
        return knot[i - 1];
    return i < n && isfinite(knot[i]) ? knot[i] : 0;
}

static void build_piece(const struct piecewise *p, const struct piecewise_net *w, int g,
                        int i)
{
    const int   hidden = p->hidden, per = channels_of(p);
    const real *knot = p->knot + (size_t)g * p->search, *f1 = w->f1 + (size_t)g * hidden;
    const real *f1b = w->f1b + (size_t)g * hidden;
    real        at = anchor_of(knot, i, hidden);

    p->anchor[g * p->row + i] = at;
    for (int l = g * per; l < (g + 1) * per; l++) {
        const real *f2 = w->f2 + (size_t)l * hidden;
        double      value = w->f2b[l], slope = 0;

        for (int j = 0; j < hidden; j++)
            if (active(f1[j], f1b[j], knot, i)) {
                value += (double)f2[j] * ((double)f1[j] * (double)at + (double)f1b[j]);
                slope += (double)f2[j] * (double)f1[j];
            }
        p->value[l * p->row + i] = (real)value;
        p->slope[l * p->row + i] = (real)slope;
    }
}

/* Pieces beyond the last are as it is. */
static void repeat_last(const struct piecewise *p, real *table)
{
    for (int i = p->hidden + 1; i < p->row; i++)
        table[i] = table[p->hidden];
}

void piecewise_build(struct piecewise *p, const struct piecewise_net *w)
{
    for (int g = 0; g < p->groups; g++) {
        real *knot = p->knot + (size_t)g * p->search;

        for (int j = 0; j < p->search; j++)
            knot[j] = INFINITY;
        for (int j = 0; j < p->hidden; j++)
            knot[j] = knot_of(w->f1[g * p->hidden + j], w->f1b[g * p->hidden + j]);
        sort(knot, p->hidden);
        build_heap(p->heap + (size_t)g * p->search, knot, p->search);
        for (int i = 0; i <= p->hidden; i++)
            build_piece(p, w, g, i);
        repeat_last(p, p->anchor + (size_t)g * p->row);
    }
    for (int l = 0; l < p->channels; l++) {
        repeat_last(p, p->value + (size_t)l * p->row);
        repeat_last(p, p->slope + (size_t)l * p->row);
    }
}

/* ---- reading -------------------------------------------------------------------------
 *
 * LANES numbers at a time. A table of some vectors is read by shuffling them, a long one
 * element by element.
 */

enum { MOST = 4 };      // pairs of vectors that are shuffled

/* y in the lanes where the bit `size` of at is set, else x. By shifts, which leave whole
 * lanes: a comparison would go through a mask register and back. */
static inline vec by_bit(vec x, vec y, order at, int size)
{
    const int top = 8 * sizeof(real) - 1;
    order     here = at << (top - __builtin_ctz(size)) >> top;

    return (vec)(((order)x & ~here) | ((order)y & here));
}

#if defined __GNUC__ && !defined __clang__
static inline vec look_in_one(const loose *t, order at)
{
    return __builtin_shuffle((vec)t[0], (vec)t[1], at);
}

static inline vec look_in_two(const loose *t, order at)
{
    return by_bit(look_in_one(t, at), look_in_one(t + 2, at), at, 2 * LANES);
}
#endif

/* table[at] for at < 2 LANES pairs; pairs, 0 for a long table, is a constant wherever
 * this is inlined. */
static inline __attribute__((always_inline)) vec
look_up(const real *table, int pairs, order at)
{
    vec x = {0};

#if defined __GNUC__ && !defined __clang__
    const loose *t = (const loose *)table;

    if (pairs == 1)
        return look_in_one(t, at);
    if (pairs == 2)
        return look_in_two(t, at);
    if (pairs == 4)
        return by_bit(look_in_two(t, at), look_in_two(t + 4, at), at, 4 * LANES);
#endif
    for (int i = 0; i < LANES; i++)
        x[i] = table[at[i]];
    return x;
}

/* How many knots are at or below u, down the tree; the last knot has no place in it. */
static inline __attribute__((always_inline)) order
find(const struct piecewise *p, int g, int pairs, vec u)
{
    const int   n = pairs ? pairs * 2 * LANES : p->search;
    const real *heap = p->heap + (size_t)g * n, *knot = p->knot + (size_t)g * n;
    order       at = {0};

    at += 1;
    #pragma GCC unroll 8
    for (int level = 1; level < n; level *= 2) {
        const int from = level < 2 * LANES ? 0 : level, wide = from / 2 / LANES;

        at += at - (look_up(heap + from, pairs ? wide + !wide : 0, at - from) <= u);
    }
    return at - n - (knot[n - 1] <= u);
}

/* table[at] of pieces, of which the last is beyond what is shuffled. */
static inline __attribute__((always_inline)) vec
of_piece(const real *table, int pairs, order at)
{
    const int n = pairs * 2 * LANES;
    vec       x = look_up(table, pairs, at);

    return pairs ? by_bit(x, *(const loose *)(table + n), at, n) : x;
}

static inline __attribute__((always_inline)) void
read_row(const struct piecewise *p, int pairs, real *psi, const real *u, int m)
{
    const int per = channels_of(p);

    for (int j = 0; j < m; j += LANES)
        for (int g = 0; g < p->groups; g++) {
            vec   x = vec_load(u + j, m - j);
            order at = find(p, g, pairs, x);
            vec   from = x - of_piece(p->anchor + (size_t)g * p->row, pairs, at);

            for (int l = g * per; l < (g + 1) * per; l++) {
                const size_t row = (size_t)l * p->row;

                vec_store(psi + (size_t)l * m + j,
                          of_piece(p->value + row, pairs, at) +
                          of_piece(p->slope + row, pairs, at) * from, m - j);
            }
        }
}

static int pairs_of(const struct piecewise *p)
{
    int pairs = p->search / (2 * LANES);

    return pairs <= MOST ? pairs : 0;
}

void piecewise_read(const struct piecewise *p, real *psi, const real *u, long n, int m)
{
    const int pairs = pairs_of(p);

    for (; n > 0; n--, psi += (size_t)p->channels * m, u += m)
        switch (pairs) {
        case 1: read_row(p, 1, psi, u, m); break;
        case 2: read_row(p, 2, psi, u, m); break;
        case 4: read_row(p, 4, psi, u, m); break;
        default: read_row(p, 0, psi, u, m);
        }
}

size_t piecewise_sums(const struct piecewise *p)
{
    return 2 * (size_t)p->row * p->channels;
}

/* d u and d of n lanes, each added to those of its piece. */
static inline void add_to_pieces(double *sums, order at, vec d, vec u, int n)
{
    typedef double two __attribute__((vector_size(2 * sizeof(double)), may_alias,
                                      aligned(sizeof(double))));
    _Alignas(VEC_BYTES) lane_index piece[LANES];
    _Alignas(VEC_BYTES) real of_u[LANES], plain[LANES], both[2 * LANES];

    *(order *)piece = at;
    *(loose *)of_u = d * u;
    *(loose *)plain = d;
    for (int i = 0; i < LANES; i++) {
        both[2 * i] = of_u[i];
        both[2 * i + 1] = plain[i];
    }
    for (int i = 0; i < n; i++)
        *(two *)(sums + 2 * piece[i]) += (two){both[2 * i], both[2 * i + 1]};
}

static inline __attribute__((always_inline)) void
back_row(const struct piecewise *p, int pairs, real *du, double *sums, const real *dpsi,
         const real *u, int m)
{
    const int per = channels_of(p);

    for (int j = 0; j < m; j += LANES) {
        const int n = m - j < LANES ? m - j : LANES;
        vec       x = vec_load(u + j, n), sum = {0};

        for (int g = 0; g < p->groups; g++) {
            order at = find(p, g, pairs, x);

            for (int l = g * per; l < (g + 1) * per; l++) {
                const size_t row = (size_t)l * p->row;
                vec          d = vec_load(dpsi + (size_t)l * m + j, n);

                sum += of_piece(p->slope + row, pairs, at) * d;
                add_to_pieces(sums + 2 * row, at, d, x, n);
            }
        }
        vec_store(du + j, sum, n);
    }
}

void piecewise_back(const struct piecewise *p, real *du, double *sums, const real *dpsi,
                    const real *u, long n, int m)
{
    const int pairs = pairs_of(p);

    for (; n > 0; n--, du += m, u += m, dpsi += (size_t)p->channels * m)
        switch (pairs) {
        case 1: back_row(p, 1, du, sums, dpsi, u, m); break;
        case 2: back_row(p, 2, du, sums, dpsi, u, m); break;
        case 4: back_row(p, 4, du, sums, dpsi, u, m); break;
        default: back_row(p, 0, du, sums, dpsi, u, m);
        }
}

/* With X, Y the sums of dpsi u and dpsi over the pieces where unit j is active:
 *
 *     df2 = f1 X + f1b Y,  df1 = f2 X,  df1b = f2 Y       df2b: dpsi over all pieces
 */
void piecewise_weights(const struct piecewise *p, const struct piecewise_net *dw,
                       const struct piecewise_net *w, const double *sums)
{
    const int hidden = p->hidden, per = channels_of(p);

    for (int l = 0; l < p->channels; l++, sums += 2 * (size_t)p->row) {
        int         g = l / per;
        const real *knot = p->knot + (size_t)g * p->search;
        double      all = 0;

        for (int j = 0; j < hidden; j++) {
            size_t in = (size_t)g * hidden + j, out = (size_t)l * hidden + j;
            double X = 0, Y = 0;

            for (int i = 0; i <= hidden; i++)
                if (active(w->f1[in], w->f1b[in], knot, i)) {
                    X += sums[2 * i];
                    Y += sums[2 * i + 1];
                }
            dw->f2[out] += (real)((double)w->f1[in] * X + (double)w->f1b[in] * Y);
            dw->f1[in] += (real)((double)w->f2[out] * X);
            dw->f1b[in] += (real)((double)w->f2[out] * Y);
        }
        for (int i = 0; i <= hidden; i++)
            all += sums[2 * i + 1];
        dw->f2b[l] += (real)all;
    }
}
