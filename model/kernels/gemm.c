/* A panel of b, KC rows and NR columns, is copied to where the first-level cache holds it
 * in the order of use; MR rows of a at a time go over it with MR x NR sums in registers:
 *
 *            NR
 *          +----+
 *          | b  | KC        for each row p of the panel and each row i of the strip:
 *     KC   +----+               sum[i][:] += a[i][p] * b[p][:]
 *    +---+ +----+
 * MR | a | | c  |           one broadcast and NR / lanes multiply-adds
 *    +---+ +----+
 *
 * A product by OpenBLAS spends a third of its time on copying at our sizes (k and n of
 * some hundred); here a is read in place, except when it is transposed.
 */
#include "model/kernels/gemm.h"

#include "model/kernels/turn.h"
#include "model/kernels/unpack.h"

#include <stdbool.h>
#include <string.h>

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

#if defined __AVX512F__
enum { NV = 4, MR = 6, KC = TINY(384, 4) };
#else
enum { NV = 2, MR = 6, KC = TINY(256, 4) };
#endif

enum {
    NR = NV * LANES,                // columns of a panel
    FAR = TINY(96, 8),              // a transposed a with rows farther apart is copied:
    MB = TINY(64 * MR, LANES),      // columns at once, a whole number of vectors,
    KT = KC / 2,                    // and rows
    MH = TINY(128, LANES),          // rows of a that are copied at once to be rounded
    LINE = 64 / sizeof(real),       // of cache
    NEXT = 4 * LINE,                // elements of a next row that are sent for
};

/* A factor: element (i, p) at x[i * row + p * col], or a pair of them (see add_pairs). */
struct factor {
    const real *x;
    size_t      row, col;
};

struct scale {
    real alpha, beta;
};

static inline int min_int(int a, int b) { return a < b ? a : b; }

/* ---- the kernel -------------------------------------------------------------------- */

/* Two numbers of bf16, neighbours in k, in the place of one float: the first in the lower
 * half. */
typedef uint32_t pair __attribute__((may_alias));
typedef uint32_t pairs __attribute__((vector_size(VEC_BYTES), may_alias));

/* sum + x b in each lane. A pair adds two products, by one instruction where there is
 * one; elsewhere they are written out, for the tests: gemm_bf16 is faster there. */
static inline __attribute__((always_inline)) vec
add_products(bool paired, vec sum, const real *x, const real *b)
{
#ifndef WEFT_DOUBLE
    if (paired) {
        pairs two = *(const pairs *)b, one = (pairs){0} + *(const pair *)x;
#ifdef __AVX512BF16__
        return _mm512_dpbf16_ps(sum, (__m512bh)one, (__m512bh)two);
#else
        sum += (vec)(two << 16) * (vec)(one << 16);
        return sum + (vec)(two & 0xffff0000) * (vec)(one & 0xffff0000);
#endif
    }
#endif
    (void)paired;
    return sum + *(const vec *)b * *x;
}

/* c (rows, nv vectors) = alpha a (rows, k) b (k, nv vectors) + beta c. rows and nv are
 * constants wherever this is inlined, so that the sums live in registers. While they are
 * formed, c and the beginnings of the next rows of a are on their way. */
static inline __attribute__((always_inline)) void
tile(bool paired, int rows, int nv, real *c, size_t ldc, struct factor a, const real *b,
     int k, struct scale s)
{
    vec sum[MR][NV] = {0};

    #pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
        #pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            __builtin_prefetch(c + i * ldc + j * LANES, 1);
    if (a.col == 1)
        #pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
            #pragma GCC unroll 4
            for (int p = 0; p < NEXT; p += LINE)
                __builtin_prefetch(a.x + (i + rows) * a.row + p);
    for (int p = 0; p < k; p++, b += nv * LANES)
        #pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
            #pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                sum[i][j] = add_products(paired, sum[i][j],
                                         a.x + i * a.row + p * a.col, b + j * LANES);
    #pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
        #pragma GCC unroll 4
        for (int j = 0; j < nv; j++) {
            loose *to = (loose *)(c + i * ldc + j * LANES);

            *to = s.beta == 0 ? s.alpha * sum[i][j] : s.alpha * sum[i][j] + s.beta * *to;
        }
}

#define STRIP(name, paired, nv)                                                         \
    static void name##_##nv(int rows, real *c, size_t ldc, struct factor a,             \
                            const real *b, int k, struct scale s)                       \
    {                                                                                   \
        switch (rows) {                                                                 \
        case 1: tile(paired, 1, nv, c, ldc, a, b, k, s); break;                         \
        case 2: tile(paired, 2, nv, c, ldc, a, b, k, s); break;                         \
        case 3: tile(paired, 3, nv, c, ldc, a, b, k, s); break;                         \
        case 4: tile(paired, 4, nv, c, ldc, a, b, k, s); break;                         \
        case 5: tile(paired, 5, nv, c, ldc, a, b, k, s); break;                         \
        default: tile(paired, MR, nv, c, ldc, a, b, k, s);                              \
        }                                                                               \
    }
#define STRIPS(nv) STRIP(strip, false, nv) STRIP(strip_of_pairs, true, nv)

STRIPS(1)
STRIPS(2)
#if defined __AVX512F__
STRIPS(3)
STRIPS(4)
#endif

typedef void strip_fn(int, real *, size_t, struct factor, const real *, int,
                      struct scale);

static strip_fn *const strips[][NV + 1] = {
#if defined __AVX512F__
    {NULL, strip_1, strip_2, strip_3, strip_4},
    {NULL, strip_of_pairs_1, strip_of_pairs_2, strip_of_pairs_3, strip_of_pairs_4},
#else
    {NULL, strip_1, strip_2},
    {NULL, strip_of_pairs_1, strip_of_pairs_2},
#endif
};

/* A strip whose last vector reaches past the columns of c goes through a buffer. */
static void strip(bool paired, int rows, int cols, real *c, size_t ldc, struct factor a,
                  const real *b, int k, struct scale s)
{
    _Alignas(64) real whole[MR * NR];
    int nv = (cols + LANES - 1) / LANES;

    if (cols % LANES == 0) {
        strips[paired][nv](rows, c, ldc, a, b, k, s);
        return;
    }
    for (int i = 0; i < rows && s.beta != 0; i++)
        memcpy(whole + i * NR, c + i * ldc, cols * sizeof *c);
    strips[paired][nv](rows, whole, NR, a, b, k, s);
    for (int i = 0; i < rows; i++)
        memcpy(c + i * ldc, whole + i * NR, cols * sizeof *c);
}

/* ---- copies ------------------------------------------------------------------------ */

/* to (k, NR) from as many columns of b; gcc would call memcpy for each row. */
static void copy_whole_rows(real *to, const real *b, size_t ld, int k)
{
    for (int p = 0; p < k; p++, to += NR, b += ld)
        #pragma GCC unroll 4
        for (int j = 0; j < NV; j++)
            ((vec *)to)[j] = ((const loose *)b)[j];
}

/* to (k, width) from b, zeros beyond its columns; width is a whole number of vectors. */
static void copy_rows(real *to, const real *b, size_t ld, int k, int cols, int width)
{
    if (cols == NR && width == NR) {
        copy_whole_rows(to, b, ld, k);
        return;
    }
    for (int p = 0; p < k; p++, to += width, b += ld) {
        int j = 0;

        for (; j + LANES <= cols; j += LANES)
            *(vec *)(to + j) = *(const loose *)(b + j);
        for (; j < width; j++)
            to[j] = j < cols ? b[j] : 0;
    }
}

/* to (k, width) from b (cols, k) transposed. */
static void copy_turned(real *to, const real *b, size_t ld, int k, int cols, int width)
{
    int whole = cols / LANES * LANES, p = 0;

    for (; p + LANES <= k; p += LANES)
        for (int j = 0; j < whole; j += LANES)
            turn_square(to + p * width + j, width, b + j * ld + p, ld);
    for (; p < k; p++)
        for (int j = 0; j < whole; j++)
            to[p * width + j] = b[j * ld + p];
    for (p = 0; p < k && whole < width; p++)
        for (int j = whole; j < width; j++)
            to[p * width + j] = j < cols ? b[j * ld + p] : 0;
}

/* The blocks of a packed row that hold columns from .. end - 1 of it, as reals. */
static inline __attribute__((always_inline)) void
unpack_row(enum packed type, real *to, const unsigned char *row, int from, int end)
{
    for (int p = from / Q8_BLOCK; p * Q8_BLOCK < end; p++, to += Q8_BLOCK) {
        vec block[BLOCK_VECS];

        unpack_block(type, block, row + p * packed_bytes(type, Q8_BLOCK));
        memcpy(to, block, sizeof block);
    }
}

/* to (k, width) from rows of packed numbers, their columns p .. p + k - 1, transposed. */
static void copy_unpacked(real *to, enum packed type, const unsigned char *b,
                          size_t row_bytes, int p, int k, int cols, int width)
{
    enum { LONGEST = KC + 2 * Q8_BLOCK };
    _Alignas(64) real rows[NR * LONGEST];

    for (int j = 0; j < cols; j++)
        if (type == PACKED_Q8_0)
            unpack_row(PACKED_Q8_0, rows + j * LONGEST, b + j * row_bytes, p, p + k);
        else
            unpack_row(PACKED_BF16, rows + j * LONGEST, b + j * row_bytes, p, p + k);
    copy_turned(to, rows + p % Q8_BLOCK, LONGEST, k, cols, width);
}

/* ---- half the bits ----------------------------------------------------------------- */

/* The bits of x rounded to the nearest number of bf16, ties to even; NaN stays. */
static inline uint32_t rounded(float x)
{
    uint32_t b;

    memcpy(&b, &x, sizeof b);
    b = (b & 0x7fffffff) > 0x7f800000 ? b | 1 << 22 : b + 0x7fff + (b >> 16 & 1);
    return b & 0xffff0000;
}

static void round_copies(real *x, int n)
{
    #pragma omp simd
    for (int i = 0; i < n; i++) {
        uint32_t b = rounded((float)x[i]);
        float    y;

        memcpy(&y, &b, sizeof y);
        x[i] = y;
    }
}

/* Pairs of x (rows, width) down its columns, to (half as many rows, width) at the same
 * place; an odd row has zeros for its partner. */
static void pair_rows(real *x, int rows, int width)
{
    pair *to = (pair *)x;

    for (int p = 0; p < rows; p += 2, to += width)
        #pragma omp simd
        for (int j = 0; j < width; j++)
            to[j] = rounded((float)x[p * width + j]) >> 16 |
                    (p + 1 < rows ? rounded((float)x[(p + 1) * width + j]) : 0);
}

static void round_rows(bool paired, real *x, int rows, int width)
{
    if (paired)
        pair_rows(x, rows, width);
    else
        round_copies(x, rows * width);
}

/* Pairs of x (rows, width) along its rows, in the first half of each. */
static void pair_columns(real *x, int rows, int width)
{
    typedef uint16_t half __attribute__((may_alias));

    for (int i = 0; i < rows; i++, x += width) {
        half *to = (half *)x;

        #pragma omp simd
        for (int p = 0; p < width; p++)
            to[p] = (half)(rounded((float)x[p]) >> 16);
    }
}

/* ---- products ---------------------------------------------------------------------- */

/* What a product multiplies: floats, floats rounded to bf16, or pairs of bf16. */
enum bits { ALL, ROUNDED, PAIRED };

static struct factor moved(struct factor f, size_t i, size_t p)
{
    return (struct factor){f.x + i * f.row + p * f.col, f.row, f.col};
}

/* All rows over a panel of depth rows and cols columns. */
static void over_panel(bool paired, real *c, size_t ldc, struct factor a,
                       const real *panel, int m, int cols, int depth, struct scale s)
{
    for (int i = 0; i < m; i += MR)
        strip(paired, min_int(m - i, MR), cols, c + i * ldc, ldc, moved(a, i, 0), panel,
              paired ? (depth + 1) / 2 : depth, s);
}

_Static_assert(64 % NR == 0, "gemm_whole_panels counts panels of 64 columns");

static int whole_vectors(int cols) { return (cols + LANES - 1) / LANES * LANES; }

/* The right factor: (k, n), or (n, k) when turned or packed; or laid out. */
struct right {
    const real          *x;
    size_t               ld;
    bool                 turned, laid;
    enum packed          type;
    const unsigned char *packed;        // in place of x; ld is in bytes
};

/* Rows p .. p + depth - 1 and columns j .. j + cols - 1 of b. */
static void copy_panel(real *panel, const struct right *b, int p, int j, int depth,
                       int cols)
{
    int width = whole_vectors(cols);

    if (b->packed)
        copy_unpacked(panel, b->type, b->packed + j * b->ld, b->ld, p, depth, cols,
                      width);
    else if (b->turned)
        copy_turned(panel, b->x + j * b->ld + p, b->ld, depth, cols, width);
    else
        copy_rows(panel, b->x + p * b->ld + j, b->ld, depth, cols, width);
}

/* The same of packed numbers of bf16, as pairs: they lie side by side in a row. p and
 * depth are even. */
static void copy_packed_pairs(real *panel, const struct right *b, int p, int j, int depth,
                              int cols)
{
    enum { PAIR = 2 * sizeof(uint16_t) };

    copy_turned(panel, (const real *)(b->packed + j * b->ld + p / 2 * PAIR),
                b->ld / PAIR, depth / 2, cols, whole_vectors(cols));
}

/* Where the panel of row p and column j is in a b of depth k that was laid out. */
static const real *laid_panel(const struct right *b, int p, int j, int k, int cols)
{
    return b->x + (size_t)j * k + (size_t)p * whole_vectors(cols);
}

/* a with contiguous rows. */
static void by_rows(real *c, size_t ldc, struct factor a, const struct right *b, int m,
                    int n, int k, struct scale s)
{
    _Alignas(64) real panel[KC * NR];
    int p = 0;

    do {
        int depth = min_int(k - p, KC);

        for (int j = 0; j < n; j += NR) {
            int         cols = min_int(n - j, NR);
            const real *from = b->laid ? laid_panel(b, p, j, k, cols) : panel;

            if (!b->laid)
                copy_panel(panel, b, p, j, depth, cols);
            over_panel(false, c + j, ldc, moved(a, 0, p), from, m, cols, depth, s);
        }
        s.beta = 1;
    } while ((p += KC) < k);
}

/* by_rows of a and b rounded to bf16, m <= MH. */
static void by_rounded_rows(bool paired, real *c, size_t ldc, struct factor a,
                            const struct right *b, int m, int n, int k, struct scale s)
{
    enum { WIDE = (KC + LANES - 1) / LANES * LANES };
    _Alignas(64) real panel[KC * NR], side[MH * WIDE];
    int p = 0;

    do {
        int depth = min_int(k - p, KC), width = whole_vectors(depth);

        copy_rows(side, a.x + p, a.row, m, depth, width);
        if (paired)
            pair_columns(side, m, width);
        else
            round_copies(side, m * width);
        for (int j = 0; j < n; j += NR) {
            int         cols = min_int(n - j, NR);
            const real *from = b->laid ? laid_panel(b, p, j, k, cols) : panel;

            if (paired && b->packed) {
                copy_packed_pairs(panel, b, p, j, depth, cols);
            } else if (!b->laid) {
                copy_panel(panel, b, p, j, depth, cols);
                round_rows(paired, panel, depth, whole_vectors(cols));
            }
            over_panel(paired, c + j, ldc, (struct factor){side, width, 1}, from, m, cols,
                       depth, s);
        }
        s.beta = 1;
    } while ((p += KC) < k);
}

/* a (k, m) transposed, m <= MB. Rows of a that are far apart, or to be rounded, are
 * copied next to each other. */
static void by_columns(enum bits bits, real *c, size_t ldc, const real *a, size_t lda,
                       const real *b, size_t ldb, int m, int n, int k, struct scale s)
{
    _Alignas(64) real panel[KT * NR], side[KT * MB];
    int p = 0;

    do {
        int           depth = min_int(k - p, KT);
        struct factor rows = {a + p * lda, 1, lda};

        if (lda > FAR || bits != ALL) {
            copy_rows(side, rows.x, lda, depth, m, whole_vectors(m));
            rows = (struct factor){side, 1, whole_vectors(m)};
        }
        if (bits != ALL)
            round_rows(bits == PAIRED, side, depth, whole_vectors(m));
        for (int j = 0; j < n; j += NR) {
            int cols = min_int(n - j, NR);

            copy_rows(panel, b + p * ldb + j, ldb, depth, cols, whole_vectors(cols));
            if (bits != ALL)
                round_rows(bits == PAIRED, panel, depth, whole_vectors(cols));
            over_panel(bits == PAIRED, c + j, ldc, rows, panel, m, cols, depth, s);
        }
        s.beta = 1;
    } while ((p += KT) < k);
}

/* b, rounded where that is wanted, panel by panel. */
static void lay(enum bits bits, real *to, const struct right *b, int n, int k)
{
    for (int j = 0; j < n; j += NR) {
        int cols = min_int(n - j, NR), width = whole_vectors(cols);

        for (int p = 0; p < k; p += KC) {
            real *panel = to + (size_t)j * k + (size_t)p * width;
            int   depth = min_int(k - p, KC);

            copy_panel(panel, b, p, j, depth, cols);
            if (bits != ALL)
                round_rows(bits == PAIRED, panel, depth, width);
        }
    }
}

/* ---- the forms --------------------------------------------------------------------- */

#define LAID(name, bits)                                                                \
    static void name##_lay_nt(real *c, size_t ldc, const real *a, size_t lda,           \
                              const real *b, size_t ldb, int m, int n, int k,           \
                              real alpha, real beta)                                    \
    {                                                                                   \
        (void)ldc, (void)a, (void)lda, (void)m, (void)alpha, (void)beta;                \
        lay(bits, c, &(struct right){b, ldb, .turned = true}, n, k);                    \
    }                                                                                   \
    static void name##_lay_nn(real *c, size_t ldc, const real *a, size_t lda,           \
                              const real *b, size_t ldb, int m, int n, int k,           \
                              real alpha, real beta)                                    \
    {                                                                                   \
        (void)ldc, (void)a, (void)lda, (void)m, (void)alpha, (void)beta;                \
        lay(bits, c, &(struct right){b, ldb}, n, k);                                    \
    }

static void own_nt(real *c, size_t ldc, const real *a, size_t lda, const real *b,
                   size_t ldb, int m, int n, int k, real alpha, real beta)
{
    by_rows(c, ldc, (struct factor){a, lda, 1}, &(struct right){b, ldb, .turned = true},
            m, n, k, (struct scale){alpha, beta});
}

static void own_nn(real *c, size_t ldc, const real *a, size_t lda, const real *b,
                   size_t ldb, int m, int n, int k, real alpha, real beta)
{
    by_rows(c, ldc, (struct factor){a, lda, 1}, &(struct right){b, ldb}, m, n, k,
            (struct scale){alpha, beta});
}

LAID(own, ALL)

static void own_laid(real *c, size_t ldc, const real *a, size_t lda, const real *b,
                     size_t ldb, int m, int n, int k, real alpha, real beta)
{
    by_rows(c, ldc, (struct factor){a, lda, 1}, &(struct right){b, ldb, .laid = true}, m,
            n, k, (struct scale){alpha, beta});
}

static void columns(enum bits bits, real *c, size_t ldc, const real *a, size_t lda,
                    const real *b, size_t ldb, int m, int n, int k, struct scale s)
{
    for (int i = 0; i < m; i += MB)
        by_columns(bits, c + i * ldc, ldc, a + i, lda, b, ldb, min_int(m - i, MB), n, k,
                   s);
}

static void own_tn(real *c, size_t ldc, const real *a, size_t lda, const real *b,
                   size_t ldb, int m, int n, int k, real alpha, real beta)
{
    columns(ALL, c, ldc, a, lda, b, ldb, m, n, k, (struct scale){alpha, beta});
}

static void rounded_rows(bool paired, real *c, size_t ldc, const real *a, size_t lda,
                         const struct right *b, int m, int n, int k, struct scale s)
{
    for (int i = 0; i < m; i += MH)
        by_rounded_rows(paired, c + i * ldc, ldc, (struct factor){a + i * lda, lda, 1}, b,
                        min_int(m - i, MH), n, k, s);
}

#define IN_BF16(name, bits)                                                             \
    static void name##_nt(real *c, size_t ldc, const real *a, size_t lda, const real *b,\
                          size_t ldb, int m, int n, int k, real alpha, real beta)       \
    {                                                                                   \
        rounded_rows(bits == PAIRED, c, ldc, a, lda,                                    \
                     &(struct right){b, ldb, .turned = true}, m, n, k,                  \
                     (struct scale){alpha, beta});                                      \
    }                                                                                   \
    static void name##_nn(real *c, size_t ldc, const real *a, size_t lda, const real *b,\
                          size_t ldb, int m, int n, int k, real alpha, real beta)       \
    {                                                                                   \
        rounded_rows(bits == PAIRED, c, ldc, a, lda, &(struct right){b, ldb}, m, n, k,  \
                     (struct scale){alpha, beta});                                      \
    }                                                                                   \
    LAID(name, bits)                                                                    \
    static void name##_laid(real *c, size_t ldc, const real *a, size_t lda,             \
                            const real *b, size_t ldb, int m, int n, int k, real alpha, \
                            real beta)                                                  \
    {                                                                                   \
        rounded_rows(bits == PAIRED, c, ldc, a, lda,                                    \
                     &(struct right){b, ldb, .laid = true}, m, n, k,                    \
                     (struct scale){alpha, beta});                                      \
    }                                                                                   \
    static void name##_tn(real *c, size_t ldc, const real *a, size_t lda, const real *b,\
                          size_t ldb, int m, int n, int k, real alpha, real beta)       \
    {                                                                                   \
        columns(bits, c, ldc, a, lda, b, ldb, m, n, k, (struct scale){alpha, beta});    \
    }
IN_BF16(bf16, ROUNDED)

void gemm_nt_packed(real *c, size_t ldc, const real *a, size_t lda, enum packed type,
                    const unsigned char *b, bool rounded, int m, int n, int k)
{
    const struct right right = {.ld = packed_bytes(type, (size_t)k), .type = type,
                                .packed = b};

    if (rounded)
        rounded_rows(true, c, ldc, a, lda, &right, m, n, k, (struct scale){1, 0});
    else
        by_rows(c, ldc, (struct factor){a, lda, 1}, &right, m, n, k,
                (struct scale){1, 0});
}

#define FORMS(name) name##_nt, name##_nn, name##_tn
#define LAID_FORMS(name)                                                                \
    .lay_nt = name##_lay_nt, .lay_nn = name##_lay_nn, .laid = name##_laid, .panel = NR

const struct gemm gemm_own = {"own", FORMS(own), 30, KT, LAID_FORMS(own)};
const struct gemm gemm_bf16 = {"bf16", FORMS(bf16), 30, KT, LAID_FORMS(bf16)};

#ifndef WEFT_DOUBLE
IN_BF16(pairs, PAIRED)
const struct gemm gemm_pairs = {"bf16 in pairs", FORMS(pairs), 60, KT, LAID_FORMS(pairs)};
#endif

const struct gemm *gemm_in_bf16(void)
{
    if (gemm_amx())
        return gemm_amx();
#if defined __AVX512BF16__ && !defined WEFT_DOUBLE
    return &gemm_pairs;
#else
    return &gemm_bf16;
#endif
}

bool gemm_rounds(enum packed type)
{
#ifndef WEFT_DOUBLE
    return type == PACKED_BF16 && gemm_in_bf16() == &gemm_pairs;
#else
    (void)type;
    return false;
#endif
}

/* ---- who makes them ---------------------------------------------------------------- */

static const struct gemm *used = &gemm_own;

const struct gemm *gemm_use(const struct gemm *by)
{
    const struct gemm *was = used;

    used = by;
    return was;
}

const struct gemm *gemm_used(void) { return used; }

const struct gemm *gemm_yardstick(void) { return used->foreign ? &gemm_own : used; }

void gemm_nt(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
             int m, int n, int k, real alpha, real beta)
{
    used->nt(c, ldc, a, lda, b, ldb, m, n, k, alpha, beta);
}

void gemm_nn(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
             int m, int n, int k, real alpha, real beta)
{
    used->nn(c, ldc, a, lda, b, ldb, m, n, k, alpha, beta);
}

void gemm_tn(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
             int m, int n, int k, real alpha, real beta)
{
    used->tn(c, ldc, a, lda, b, ldb, m, n, k, alpha, beta);
}
