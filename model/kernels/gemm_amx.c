/* Products of bf16 by AMX: eight registers of 16 x 16 words, and one instruction that
 * multiplies two of them and adds what comes out to a third, 16 x 16 x 32 multiply-adds.
 *
 *           k                       a word is a pair of bf16, neighbours in k
 *        +------+       32
 *     32 | a a  |  k +------+       left    word (i, p) = a[i][2p], a[i][2p + 1]
 *        +------+    | b  b |       right   word (p, j) = b[2p][j], b[2p + 1][j]
 *                    +------+
 *                 32 | c  c |       two tiles of a and two of b make four of c
 *                    | c  c |
 *                    +------+
 *
 * It takes 16 cycles, in which one thread can copy little: columns of b are rounded and
 * copied once for all rows of a, which are copied strip by strip, so that c is written
 * along its rows.
 */
#include "model/kernels/gemm.h"

#if defined __AMX_BF16__ && defined __AVX512BF16__ && defined __linux__ && \
    !defined WEFT_DOUBLE

#include "model/kernels/turn.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    SIDE = 16,                  // lines of a tile, and words of a line
    TILE = SIDE * SIDE,         // words of a tile
    DEEP = 2 * SIDE,            // of k, in a tile
    WIDE = 2 * SIDE,            // lines of a strip
    KC = 12 * DEEP,             // of k, in a panel
    NC = 16 * WIDE,             // columns of b that are copied at once
};

typedef uint32_t word __attribute__((may_alias));

static inline int min_int(int a, int b) { return a < b ? a : b; }

/* The first n of 16 lanes. */
static inline __mmask16 first(int n)
{
    return (__mmask16)(n >= SIDE ? 0xffff : n <= 0 ? 0 : (1 << n) - 1);
}

/* ---- copies ------------------------------------------------------------------------ */

/* A factor: along, its rows run along k, (lines, k); across, (k, lines). */
struct factor {
    const real *x;
    size_t      ld;
    bool        along;
};

static struct factor moved(struct factor f, size_t line, size_t p)
{
    f.x += f.along ? line * f.ld + p : p * f.ld + line;
    return f;
}

/* Words (line, p) of rows that run along k; zeros beyond their lines and depth. */
static void tile_along(word *to, const real *x, size_t ld, int lines, int depth)
{
    const __mmask16 low = first(depth), high = first(depth - SIDE);

    for (int i = 0; i < SIDE; i++, x += ld) {
        __m512i words = _mm512_setzero_si512();

        if (i < lines)
            words = (__m512i)_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(high, x + SIDE),
                                                 _mm512_maskz_loadu_ps(low, x));
        _mm512_store_si512(to + i * SIDE, words);
    }
}

/* Words (p, line) of rows that run across k. */
static void tile_across(word *to, const real *x, size_t ld, int lines, int depth)
{
    const __mmask16 mask = first(lines);
    __m512i         in_turn = _mm512_setzero_si512();

    for (int j = 0; j < SIDE; j++)
        ((word *)&in_turn)[j] = (word)(j | (j + SIDE) << 16);
    for (int p = 0; p < SIDE; p++, x += 2 * ld) {
        __m512i both = (__m512i)_mm512_cvtne2ps_pbh(
            _mm512_maskz_loadu_ps(2 * p + 1 < depth ? mask : 0, x + ld),
            _mm512_maskz_loadu_ps(2 * p < depth ? mask : 0, x));

        __builtin_prefetch(x + DEEP * ld);
        __builtin_prefetch(x + DEEP * ld + ld);
        _mm512_store_si512(to + p * SIDE, _mm512_permutexvar_epi16(in_turn, both));
    }
}

/* A strip of up to WIDE lines of f, to (tiles of k, 2, TILE): the left factor has its
 * lines down the tiles, the right one across. */
static void copy_strip(word *to, struct factor f, bool left, int lines, int depth)
{
    for (int p = 0; p < depth; p += DEEP)
        for (int i = 0; i < WIDE; i += SIDE, to += TILE) {
            _Alignas(64) word tile[TILE];
            struct factor     at = moved(f, i, p);

            (f.along ? tile_along : tile_across)(f.along == left ? to : tile, at.x, at.ld,
                                                 lines - i, depth - p);
            if (f.along != left)
                turn_square((real *)to, SIDE, (const real *)tile, SIDE);
        }
}

/* ---- products ---------------------------------------------------------------------- */

/* Eight tiles of 16 rows of 64 bytes. */
static void take_tiles(void)
{
    static const struct {
        uint8_t  palette, start, unused[14];
        uint16_t bytes[16];
        uint8_t  rows[16];
    } shapes = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64},
                {16, 16, 16, 16, 16, 16, 16, 16}};

    _tile_loadconfig(&shapes);
}

/* c (WIDE, WIDE) = a b, or c + a b, of strips of some tiles. */
static inline void square(real *c, size_t ldc, const word *a, const word *b, int tiles,
                          bool add)
{
    const size_t row = ldc * sizeof *c;
    real        *low = c + SIDE * ldc;

    // gcc does not know that _tile_loadd reads memory
    __asm__ volatile("" ::: "memory");
    if (add) {
        _tile_loadd(0, c, row);
        _tile_loadd(1, c + SIDE, row);
        _tile_loadd(2, low, row);
        _tile_loadd(3, low + SIDE, row);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int t = 0; t < tiles; t++, a += 2 * TILE, b += 2 * TILE) {
        _tile_loadd(4, a, 64);
        _tile_loadd(6, b, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + TILE, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + TILE, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, row);
    _tile_stored(1, c + SIDE, row);
    _tile_stored(2, low, row);
    _tile_stored(3, low + SIDE, row);
}

/* Some rows of c that come next. */
static inline void send_for(const real *c, size_t ldc, int rows)
{
    for (int i = 0; i < rows; i++) {
        __builtin_prefetch(c + i * ldc, 1);
        __builtin_prefetch(c + i * ldc + SIDE, 1);
    }
}

struct scale {
    real alpha, beta;
};

/* A square by way of a buffer: where c has fewer rows or columns, or is scaled. */
static void part_of_square(real *c, size_t ldc, const word *a, const word *b, int tiles,
                           int rows, int cols, struct scale s)
{
    _Alignas(64) real whole[WIDE * WIDE];
    bool              plain = s.alpha == 1 && (s.beta == 0 || s.beta == 1);

    if (plain && s.beta == 1) {
        memset(whole, 0, sizeof whole);
        for (int i = 0; i < rows; i++)
            memcpy(whole + i * WIDE, c + i * ldc, cols * sizeof *c);
    }
    square(whole, WIDE, a, b, tiles, plain && s.beta == 1);
    for (int i = 0; i < rows; i++, c += ldc) {
        const real *sum = whole + i * WIDE;

        if (plain)
            memcpy(c, sum, cols * sizeof *c);
        else if (s.beta == 0)
            for (int j = 0; j < cols; j++)
                c[j] = s.alpha * sum[j];
        else
            for (int j = 0; j < cols; j++)
                c[j] = s.alpha * sum[j] + s.beta * c[j];
    }
}

/* A strip of rows over all n columns, copied to right. */
static void over_columns(real *c, size_t ldc, const word *left, const word *right,
                         int rows, int n, int tiles, struct scale s)
{
    bool plain = rows == WIDE && s.alpha == 1 && (s.beta == 0 || s.beta == 1);

    for (int j = 0; j < n; j += WIDE, right += 2 * tiles * TILE) {
        int cols = min_int(n - j, WIDE);

        send_for(c + j + WIDE, ldc, rows);
        if (plain && cols == WIDE)
            square(c + j, ldc, left, right, tiles, s.beta == 1);
        else
            part_of_square(c + j, ldc, left, right, tiles, rows, cols, s);
    }
}

/* n <= NC. */
static void by_tiles(real *c, size_t ldc, struct factor a, struct factor b, int m, int n,
                     int k, struct scale s)
{
    _Alignas(64) word left[WIDE * KC / 2], right[NC * KC / 2];
    int p = 0;

    do {
        int depth = min_int(k - p, KC), tiles = (depth + DEEP - 1) / DEEP;

        for (int j = 0; j < n; j += WIDE)
            copy_strip(right + j * tiles * SIDE, moved(b, j, p), false,
                       min_int(n - j, WIDE), depth);
        for (int i = 0; i < m; i += WIDE) {
            int rows = min_int(m - i, WIDE);

            copy_strip(left, moved(a, i, p), true, rows, depth);
            over_columns(c + i * ldc, ldc, left, right, rows, n, tiles, s);
        }
        s.beta = 1;
    } while ((p += KC) < k);
}

static void product(real *c, size_t ldc, struct factor a, struct factor b, int m, int n,
                    int k, struct scale s)
{
    take_tiles();
    for (int j = 0; j < n; j += NC)
        by_tiles(c + j, ldc, a, moved(b, j, 0), m, min_int(n - j, NC), k, s);
    _tile_release();
}

#define FORM(name, a_along, b_along)                                                    \
    static void name(real *c, size_t ldc, const real *a, size_t lda, const real *b,     \
                     size_t ldb, int m, int n, int k, real alpha, real beta)            \
    {                                                                                   \
        product(c, ldc, (struct factor){a, lda, a_along},                               \
                (struct factor){b, ldb, b_along}, m, n, k, (struct scale){alpha, beta});\
    }
FORM(amx_nt, true, true)
FORM(amx_nn, true, false)
FORM(amx_tn, false, false)

/* Linux lends the tiles to a process that asks. */
static bool are_lent(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

    return !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA);
}

const struct gemm *gemm_amx(void)
{
    static const struct gemm amx = {"bf16 by AMX", amx_nt, amx_nn, amx_tn, 150};
    static int               lent;

    if (!lent)
        lent = are_lent() ? 1 : -1;
    return lent > 0 ? &amx : NULL;
}

#else

const struct gemm *gemm_amx(void) { return NULL; }

#endif
