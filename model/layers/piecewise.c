#include "model/layers/piecewise.h"

#include "model/kernels/arena.h"
#include "model/kernels/vec.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Sixteen lanes shuffle the tables in registers, eight load what they need. */
#if defined __GNUC__ && !defined __clang__
enum { SHUFFLES = LANES == 16 };
#else
enum { SHUFFLES = 0 };
#endif

static int channels_of(const struct piecewise *p)
{
    return p->channels / p->groups;
}

/* Pairs of channels in a group. */
static int twos_of(const struct piecewise *p)
{
    return (channels_of(p) + 1) / 2;
}

/* Numbers in all lines. */
static size_t lines(const struct piecewise *p)
{
    return (size_t)p->groups * twos_of(p) * 4 * p->row;
}

/* The lines of the pair of channels that l is in. */
static real *lines_of(const struct piecewise *p, int l)
{
    const int per = channels_of(p);

    return p->line + ((size_t)(l / per) * twos_of(p) + l % per / 2) * 4 * p->row;
}

/* Where lines_of has value (k = 0) and slope (k = 1) of a pair's first channel, and those
 * of its second (k = 2, 3), in piece i: a row each, to be shuffled, or four together. */
static size_t place_of(const struct piecewise *p, int k, int i)
{
    return SHUFFLES ? (size_t)k * p->row + i : 4 * (size_t)i + k;
}

size_t piecewise_layout(struct piecewise *p, real *base)
{
    struct arena a = arena_over(base, SIZE_MAX);

    for (p->search = 2 * LANES; p->search < p->hidden;)
        p->search *= 2;
    p->row = p->search + LANES;
    p->knot = arena_reals(&a, "knot", (size_t)p->groups * p->search);
    p->heap = arena_reals(&a, "heap", (size_t)p->groups * p->search);
    p->line = arena_reals(&a, "line", lines(p));
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

static void build_piece(const struct piecewise *p, const struct piecewise_net *w, int g,
                        int i)
{
    const int   hidden = p->hidden, per = channels_of(p);
    const real *knot = p->knot + (size_t)g * p->search, *f1 = w->f1 + (size_t)g * hidden;
    const real *f1b = w->f1b + (size_t)g * hidden;

    for (int l = g * per; l < (g + 1) * per; l++) {
        const real *f2 = w->f2 + (size_t)l * hidden;
        double      value = w->f2b[l], slope = 0;

        for (int j = 0; j < hidden; j++)
            if (active(f1[j], f1b[j], knot, i)) {
                value += (double)f2[j] * (double)f1b[j];
                slope += (double)f2[j] * (double)f1[j];
            }
        lines_of(p, l)[place_of(p, l % per % 2 * 2, i)] = (real)value;
        lines_of(p, l)[place_of(p, l % per % 2 * 2 + 1, i)] = (real)slope;
    }
}

/* Pieces beyond the last are as it is. */
static void repeat_last(const struct piecewise *p, real *table)
{
    for (int k = 0; k < 4; k++)
        for (int i = p->hidden + 1; i < p->row; i++)
            table[place_of(p, k, i)] = table[place_of(p, k, p->hidden)];
}

void piecewise_build(struct piecewise *p, const struct piecewise_net *w)
{
    memset(p->line, 0, lines(p) * sizeof *p->line);     // of no channel, too
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
    }
    for (int l = 0; l < p->groups * twos_of(p); l++)
        repeat_last(p, p->line + (size_t)l * 4 * p->row);
}

/* ---- reading -------------------------------------------------------------------------
 *
 * LANES numbers at a time. A table of some vectors is read by shuffling them, a long one
 * element by element; the lines of eight lanes by a load for each.
 */

enum { MOST = 4 };      // pairs of vectors that are shuffled

typedef real four __attribute__((vector_size(4 * sizeof(real)), may_alias,
                                 aligned(sizeof(real))));

struct line {
    vec value, slope;
};

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

#if defined __has_builtin && VEC_BYTES == 32 && !defined WEFT_DOUBLE
#if __has_builtin(__builtin_shufflevector)
#define LOADS
#endif
#endif

#ifdef LOADS
#define BOTH(x, y) __builtin_shufflevector(x, y, 0, 1, 2, 3, 4, 5, 6, 7)
#define LOW(x, y) __builtin_shufflevector(x, y, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH(x, y) __builtin_shufflevector(x, y, 2, 10, 3, 11, 6, 14, 7, 15)
#define FIRST(x, y) __builtin_shufflevector(x, y, 0, 1, 8, 9, 4, 5, 12, 13)
#define SECOND(x, y) __builtin_shufflevector(x, y, 2, 3, 10, 11, 6, 7, 14, 15)

/* x[k], number k of each lane's piece: a load a lane, turned in registers. */
static inline __attribute__((always_inline)) void
load_lines(vec *x, const real *table, order at)
{
    _Alignas(VEC_BYTES) lane_index piece[LANES];
    four r[LANES];

    *(order *)piece = at;
    #pragma GCC unroll 8
    for (int i = 0; i < LANES; i++)
        r[i] = *(const four *)(table + 4 * (size_t)piece[i]);

    vec a = BOTH(r[0], r[4]), b = BOTH(r[1], r[5]);
    vec c = BOTH(r[2], r[6]), d = BOTH(r[3], r[7]);

    x[0] = FIRST(LOW(a, b), LOW(c, d));
    x[1] = SECOND(LOW(a, b), LOW(c, d));
    x[2] = FIRST(HIGH(a, b), HIGH(c, d));
    x[3] = SECOND(HIGH(a, b), HIGH(c, d));
}
#else
static inline void load_lines(vec *x, const real *table, order at)
{
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < LANES; i++)
            x[k][i] = table[4 * at[i] + k];
}
#endif

/* The lines of two channels in the pieces `at`. */
static inline __attribute__((always_inline)) void
look_up_lines(const struct piecewise *p, int pairs, const real *table, order at,
              struct line *line)
{
    vec x[4] = {0};

    if (SHUFFLES)
        for (int k = 0; k < 4; k++)
            x[k] = of_piece(table + (size_t)k * p->row, pairs, at);
    else
        load_lines(x, table, at);
    line[0] = (struct line){x[0], x[1]};
    line[1] = (struct line){x[2], x[3]};
}

static inline __attribute__((always_inline)) void
read_row(const struct piecewise *p, int pairs, real *psi, const real *u, int m)
{
    const int per = channels_of(p);

    for (int j = 0; j < m; j += LANES)
        for (int g = 0; g < p->groups; g++) {
            vec   x = vec_load(u + j, m - j);
            order at = find(p, g, pairs, x);

            for (int k = 0; k < per; k += 2) {
                struct line line[2];
                real       *to = psi + (size_t)(g * per + k) * m + j;

                look_up_lines(p, pairs, lines_of(p, g * per + k), at, line);
                vec_store(to, line[0].value + line[0].slope * x, m - j);
                if (k + 1 < per)
                    vec_store(to + m, line[1].value + line[1].slope * x, m - j);
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
    return lines(p);
}

/* d u and d of two channels and n lanes, each added to those of its piece. */
static inline void add_to_pieces(double *sums, order at, const vec *d, vec u, int n)
{
    typedef double wide __attribute__((vector_size(4 * sizeof(double)), may_alias,
                                       aligned(sizeof(double))));
    _Alignas(VEC_BYTES) lane_index piece[LANES];
    _Alignas(VEC_BYTES) real of[4][LANES];
    four each[LANES];

    *(order *)piece = at;
    for (int k = 0; k < 2; k++) {
        *(loose *)of[2 * k] = d[k] * u;
        *(loose *)of[2 * k + 1] = d[k];
    }
    for (int i = 0; i < LANES; i++)
        each[i] = (four){of[0][i], of[1][i], of[2][i], of[3][i]};
    for (int i = 0; i < n; i++)
        *(wide *)(sums + 4 * piece[i]) += __builtin_convertvector(each[i], wide);
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

            for (int k = 0; k < per; k += 2) {
                const real *row = dpsi + (size_t)(g * per + k) * m + j;
                size_t      two = (size_t)(g * twos_of(p) + k / 2) * 4 * p->row;
                vec         d[2] = {vec_load(row, n)};
                struct line line[2];

                if (k + 1 < per)
                    d[1] = vec_load(row + m, n);
                look_up_lines(p, pairs, p->line + two, at, line);
                sum += line[0].slope * d[0] + line[1].slope * d[1];
                add_to_pieces(sums + two, at, d, x, n);
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

    for (int l = 0; l < p->channels; l++) {
        int           g = l / per;
        const real   *knot = p->knot + (size_t)g * p->search;
        const double *sum = sums + (lines_of(p, l) - p->line) + l % per % 2 * 2;
        double        all = 0;

        for (int j = 0; j < hidden; j++) {
            size_t in = (size_t)g * hidden + j, out = (size_t)l * hidden + j;
            double X = 0, Y = 0;

            for (int i = 0; i <= hidden; i++)
                if (active(w->f1[in], w->f1b[in], knot, i)) {
                    X += sum[4 * i];
                    Y += sum[4 * i + 1];
                }
            dw->f2[out] += (real)((double)w->f1[in] * X + (double)w->f1b[in] * Y);
            dw->f1[in] += (real)((double)w->f2[out] * X);
            dw->f1b[in] += (real)((double)w->f2[out] * Y);
        }
        for (int i = 0; i <= hidden; i++)
            all += sum[4 * i + 1];
        dw->f2b[l] += (real)all;
    }
}
