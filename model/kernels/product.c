#include "model/kernels/product.h"

#include "model/kernels/arena.h"
#include "model/kernels/unpack.h"
#include "model/kernels/vmath.h"

#include <omp.h>
#include <stdbool.h>
#include <string.h>

enum {
    BY_DOTS  = TINY(16, 2),     // rows of x up to which y is made of dot products
    TILE     = TINY(128, 8),    // most rows of a tile of y and of dx
    DW_MOST  = TINY(384, 8),    // most rows and columns of a tile of dw
    DW_ROWS  = TINY(24, 2),     // which are multiples of these, but at the edge
    DW_COLS  = TINY(64, 4),
    DW_SHARE = TINY(64 * 64, 4),    // elements of dw that a thread makes at least alone;
    DW_PART  = TINY(192 * 192, 64), // most of a tile that threads add to in turn
    LAY_TILES = 3,              // whole tiles for which a matrix is laid out
    DOT_ROWS = TINY(32, 5),     // rows of w that a thread takes at least when decoding
    PAIR     = 2,               // rows of w that meet one row of x, or X_MANY, together,
    PAGE     = 4096,            // bytes ahead of them that are sent for meanwhile,
    AHEAD    = PAGE / sizeof(real),
    AFTER    = 4,               // groups of rows of w ahead that are sent for:
    W_ROWS   = 4,               // rows of w whose dot products are taken together,
#if defined __AVX512F__
    X_ROWS   = 4,               // with these of x: the sums must fit the registers
#else
    X_ROWS   = 2,
#endif
    X_MANY   = X_ROWS * W_ROWS / PAIR,
};

static int  min_int(long a, int b) { return a < b ? (int)a : b; }
static int  max_int(int a, int b) { return a > b ? a : b; }
static long parts(long n, long of) { return (n + of - 1) / of; }

int product_tile(long n)
{
    return n >= (long)max_int(omp_get_max_threads(), 2) * TILE ? TILE : TILE / 4;
}

/* Columns of a tile: where there are few tiles of rows, columns are cut too. */
static int column_tile(long n, int out)
{
    enum { CELLS = 8, LEAST = TINY(64, 4) };
    long cells = max_int(omp_get_max_threads(), CELLS),
         cuts = parts(cells, parts(n, product_tile(n)));

    return (int)((out / cuts + LEAST) / LEAST) * LEAST;
}

/* ---- few rows ---------------------------------------------------------------------- */

/* y += what elements p .. in - 1, fewer than a vector, add to the dot products. */
static __attribute__((noinline)) void
dots_rest(real *y, size_t ldy, const real *x, int nx, const real *w, int nw, int p,
          int in)
{
    for (int i = 0; i < nx; i++)
        for (int o = 0; o < nw; o++)
            for (int q = p; q < in; q++)
                y[i * ldy + o] += x[(size_t)i * in + q] * w[(size_t)o * in + q];
}

/* Rows of w that are sent for while others are multiplied: from .. from + n * in. */
struct coming {
    const real *from;
    int         n;
    bool        near;           // to the first cache, side by side; else to the second,
};                              // one after the other

/* What of them is sent for with vector p of a row. */
static inline __attribute__((always_inline)) void
send_for(const struct coming *c, int in, int p)
{
    for (int o = 0; o < c->n; o++)
        if (c->near)
            __builtin_prefetch(c->from + (size_t)o * in + p, 0, 3);
        else
            __builtin_prefetch(c->from + (size_t)p * c->n + o * LANES, 0, 2);
}

/* sum (nx, nw) of nx rows of x and nw of w: vectors run along the rows, and all sums are
 * in flight at once. nx and nw are constants wherever this is inlined. */
static inline __attribute__((always_inline)) void
sum_rows(vec *sum, const real *x, int nx, const real *w, int nw, int in,
         struct coming next)
{
    vec flying[X_ROWS * W_ROWS] = {0};

    for (int p = 0; p + LANES <= in; p += LANES) {
        send_for(&next, in, p);
        #pragma GCC unroll 8
        for (int i = 0; i < nx; i++) {
            const loose *at = (const loose *)(x + (size_t)i * in + p);
            // volatile: gcc would read it again for each row of w, and loads be the limit
            vec one = nx == X_MANY ? *(const volatile loose *)at : *at;

            #pragma GCC unroll 4
            for (int o = 0; o < nw; o++)
                flying[i * nw + o] += one * *(const loose *)(w + (size_t)o * in + p);
        }
    }
    #pragma GCC unroll 16
    for (int i = 0; i < nx * nw; i++)
        sum[i] = flying[i];
}

/* The dot products that sum_rows forms; y (nx, nw). */
static inline __attribute__((always_inline)) void
dots(real *y, size_t ldy, const real *x, int nx, const real *w, int nw, int in,
     struct coming next)
{
    const int whole = nx * nw / LANES * LANES;
    vec  sum[X_ROWS * W_ROWS];
    real dot[X_ROWS * W_ROWS];

    sum_rows(sum, x, nx, w, nw, in, next);
    #pragma GCC unroll 4
    for (int i = 0; i < whole; i += LANES)
        *(loose *)(dot + i) = vec_sums(sum + i);
    #pragma GCC unroll 4
    for (int i = whole; i < nx * nw; i++)
        dot[i] = vec_sum(sum[i]);
    #pragma GCC unroll 8
    for (int i = 0; i < nx; i++)
        memcpy(y + i * ldy, dot + i * nw, nw * sizeof *y);
    if (in % LANES)
        dots_rest(y, ldy, x, nx, w, nw, in / LANES * LANES, in);
}

/* One row of x against LANES of w, PAIR at a time, sent for a page ahead, where the CPU's
 * own fetching stops. */
static void dots_of_one(real *y, const real *x, const real *w, int in)
{
    vec sum[LANES];

    for (int o = 0; o < LANES; o += PAIR)
        sum_rows(sum + o, x, 1, w + (size_t)o * in, PAIR, in,
                 (struct coming){w + (size_t)o * in + AHEAD, PAIR, .near = true});
    *(loose *)y = vec_sums(sum);
    if (in % LANES)
        dots_rest(y, LANES, x, 1, w, LANES, in / LANES * LANES, in);
}

/* X_MANY rows of x against W_ROWS of w, which are read once: PAIR at a time, and as many
 * of those behind `after` are sent for meanwhile. For twice as many rows of x it is
 * slower. */
static void dots_of_many(real *y, size_t ldy, const real *x, const real *w, int in,
                         const real *after, const real *end)
{
    for (int o = 0; o < W_ROWS; o += PAIR)
        dots(y + o, ldy, x, X_MANY, w + (size_t)o * in, PAIR, in,
             (struct coming){after + (size_t)o * in, after < end ? PAIR : 0});
}

/* All n rows of x against nw rows of w. Memory is to be busy all the time, so each pass
 * over them sends for its share of the rows that come AFTER them, up to end. */
static inline __attribute__((always_inline)) void
dot_rows(real *y, size_t ldy, const real *x, int n, const real *w, int nw, int in,
         const real *end)
{
    const real *after = w + (size_t)AFTER * nw * in;
    const bool  many = nw == W_ROWS && n >= X_MANY && n < X_MANY + X_ROWS;

    if (many)
        dots_of_many(y, ldy, x, w, in, after, end);
    for (int i = many ? X_MANY : 0; i < n;) {
        int           rows = n - i < X_ROWS ? 1 : X_ROWS, from = nw * i / n;
        struct coming next = {after + (size_t)from * in,
                              !many && after < end ? nw * (i + rows) / n - from : 0};

        if (rows == X_ROWS)
            dots(y + i * ldy, ldy, x + (size_t)i * in, X_ROWS, w, nw, in, next);
        else
            dots(y + i * ldy, ldy, x + (size_t)i * in, 1, w, nw, in, next);
        i += rows;
    }
}

/* Columns r .. end - 1 of y. */
static void few_columns(real *y, const real *x, const real *w, int n, int in, int out,
                        int r, int end)
{
    const real *w_end = w + (size_t)end * in;

    for (; n == 1 && r + LANES <= end; r += LANES)
        dots_of_one(y + r, x, w + (size_t)r * in, in);
    for (; r + W_ROWS <= end; r += W_ROWS)
        dot_rows(y + r, out, x, n, w + (size_t)r * in, W_ROWS, in, w_end);
    for (; r < end; r++)
        dot_rows(y + r, out, x, n, w + (size_t)r * in, 1, in, w_end);
}

/* A few rows of x: w is read once, and its rows stay in cache for all of them. One row
 * has its own way; the sums are formed in the same order. */
static void forward_few(real *y, const real *x, const real *w, int n, int in, int out)
{
    const long parts = (out + DOT_ROWS - 1) / DOT_ROWS;

    #pragma omp parallel
    {
        long i = omp_get_thread_num(), all = omp_get_num_threads();

        few_columns(y, x, w, n, in, out, (int)(parts * i / all) * DOT_ROWS,
                    min_int(parts * (i + 1) / all * DOT_ROWS, out));
    }
}

/* ---- weights in fewer bits --------------------------------------------------------- */

/* Of the calling thread: others may run another model at the same time. */
static _Thread_local const struct packed_weights *packed;

void product_take_packed(const struct packed_weights *p) { packed = p; }

bool product_reads_packed(void) { return packed; }

/* The packed rows that stand for w, rows of `in` numbers, or NULL. */
static const unsigned char *find_packed(const real *w, int in)
{
    int low = 0, high = packed ? packed->n : 0;

    while (low < high) {
        const struct packed_matrix *m = &packed->matrix[(low + high) / 2];

        if (w < m->w)
            high = (low + high) / 2;
        else if (w >= m->w + (size_t)m->rows * m->cols)
            low = (low + high) / 2 + 1;
        else
            return m->cols != in ? NULL
                   : m->data + (size_t)(w - m->w) / in * packed_bytes(packed->type, in);
    }
    return NULL;
}

/* sum (nx) of nx rows of x, a constant wherever this is inlined, and one packed row. The
 * sums of a block's vectors are kept apart until the end: one chain of additions would be
 * slower than memory. What lies a page ahead is sent for, as in dots_of_one. */
static inline __attribute__((always_inline)) void
sum_packed(enum packed type, vec *sum, const real *x, int nx, const unsigned char *w,
           int in)
{
    vec    flying[X_ROWS][BLOCK_VECS] = {0};
    size_t bytes = type == PACKED_Q8_0 ? Q8_BYTES : 2 * Q8_BLOCK;

    for (int p = 0; p < in; p += Q8_BLOCK, w += bytes) {
        vec block[BLOCK_VECS];

        __builtin_prefetch(w + PAGE, 0, 3);
        unpack_block(type, block, w);
        #pragma GCC unroll 4
        for (int i = 0; i < nx; i++)
            #pragma GCC unroll 8
            for (int j = 0; j < BLOCK_VECS; j++)
                flying[i][j] += *(const loose *)(x + (size_t)i * in + p + j * LANES) *
                                block[j];
    }
    #pragma GCC unroll 4
    for (int i = 0; i < nx; i++) {
        sum[i] = flying[i][0];
        #pragma GCC unroll 8
        for (int j = 1; j < BLOCK_VECS; j++)
            sum[i] += flying[i][j];
    }
}

/* y (nx, LANES / nx) of nx rows of x and as many packed ones as fill a vector of sums. */
static inline __attribute__((always_inline)) void
packed_vector(enum packed type, real *y, size_t ldy, const real *x, int nx,
              const unsigned char *w, size_t bytes, int in)
{
    vec sum[LANES], dot;

    for (int o = 0; o < LANES / nx; o++)
        sum_packed(type, sum + o * nx, x, nx, w + o * bytes, in);
    dot = vec_sums(sum);
    for (int o = 0; o < LANES / nx; o++)
        for (int i = 0; i < nx; i++)
            y[i * ldy + o] = dot[o * nx + i];
}

/* All n rows of x against LANES packed ones, or fewer, then one by one. */
static inline __attribute__((always_inline)) void
packed_rows(enum packed type, real *y, size_t ldy, const real *x, int n,
            const unsigned char *w, int rows, size_t bytes, int in)
{
    int i = 0;

    for (; rows == LANES && i + X_ROWS <= n; i += X_ROWS)
        for (int o = 0; o < LANES; o += LANES / X_ROWS)
            packed_vector(type, y + i * ldy + o, ldy, x + (size_t)i * in, X_ROWS,
                          w + o * bytes, bytes, in);
    for (; rows == LANES && i < n; i++)
        packed_vector(type, y + i * ldy, ldy, x + (size_t)i * in, 1, w, bytes, in);
    for (; i < n; i++)
        for (int o = 0; o < rows; o++) {
            vec sum;

            sum_packed(type, &sum, x + (size_t)i * in, 1, w + o * bytes, in);
            y[i * ldy + o] = vec_sum(sum);
        }
}

static void packed_few(real *y, const real *x, const unsigned char *w, int n, int in,
                       int out)
{
    const enum packed type = packed->type;
    const size_t      bytes = packed_bytes(type, in);

    #pragma omp parallel for schedule(static)
    for (int o = 0; o < out; o += LANES)
        if (type == PACKED_Q8_0)
            packed_rows(PACKED_Q8_0, y + o, out, x, n, w + o * bytes,
                        min_int(out - o, LANES), bytes, in);
        else
            packed_rows(PACKED_BF16, y + o, out, x, n, w + o * bytes,
                        min_int(out - o, LANES), bytes, in);
}

static void packed_many(real *y, const real *x, const unsigned char *w, long n, int in,
                        int out)
{
    const enum packed type = packed->type;
    const size_t      bytes = packed_bytes(type, in);
    const int         tile = product_tile(n), cols = column_tile(n, out);
    const bool        rounded = packed->round_rows;

    #pragma omp parallel for schedule(dynamic) collapse(2)
    for (long i = 0; i < n; i += tile)
        for (int o = 0; o < out; o += cols)
            gemm_nt_packed(y + i * out + o, out, x + i * in, in, type, w + o * bytes,
                           rounded, min_int(n - i, tile), min_int(out - o, cols), in);
}

/* ---- panels for all tiles ---------------------------------------------------------- */

/* Lent by a pass. */
static _Thread_local struct {
    real  *at;
    size_t n;
} room;

void product_take_room(real *at, size_t n)
{
    room.at = at;
    room.n = at ? n : 0;
}

long product_many(void) { return LAY_TILES * (TILE / 4); }

struct product_right product_right(const real *w, int n, int k, bool turned, long rows,
                                   size_t *taken)
{
    struct product_right b = {w, n, k, turned, NULL};
    const size_t         size = gemm_whole_panels(n) * (size_t)k;

    if (gemm_used()->panel && rows >= LAY_TILES * (long)product_tile(rows) &&
        room.n >= size && *taken <= room.n - size) {
        b.laid = room.at + *taken;
        *taken += size;
    }
    return b;
}

void product_lay(const struct product_right *b, int count)
{
    const struct gemm *by = gemm_used();
    bool               any = false;

    for (; count > 0; b++, count--) {
        const size_t from = b->turned ? b->k : 1;      // from one column to the next

        if (!b->laid)
            continue;
        any = true;
        #pragma omp for schedule(static) nowait
        for (int j = 0; j < b->n; j += by->panel)
            (b->turned ? by->lay_nt : by->lay_nn)(
                b->laid + (size_t)j * b->k, 0, NULL, 0, b->w + j * from,
                b->turned ? b->k : b->n, 0, min_int(b->n - j, by->panel), b->k, 1, 0);
    }
    if (any) {
        #pragma omp barrier
    }
}

void product_by(const struct product_right *b, real *c, size_t ldc, const real *a,
                size_t lda, int m, int from, int n, real keep)
{
    const struct gemm *by = gemm_used();

    if (b->laid && from % by->panel == 0 && (n % by->panel == 0 || from + n == b->n))
        by->laid(c, ldc, a, lda, b->laid + (size_t)from * b->k, 0, m, n, b->k, 1, keep);
    else if (b->turned)
        by->nt(c, ldc, a, lda, b->w + (size_t)from * b->k, b->k, m, n, b->k, 1, keep);
    else
        by->nn(c, ldc, a, lda, b->w + from, b->n, m, n, b->k, 1, keep);
}

/* ---- forward and backward ---------------------------------------------------------- */

static void forward_many(real *y, const real *x, const real *w, long n, int in, int out,
                         int cols, struct rows_work then)
{
    const int                  tile = product_tile(n);
    size_t                     taken = 0;
    const struct product_right b = product_right(w, out, in, true, n, &taken);

    if (b.laid)
        cols = (int)gemm_whole_panels(cols);
    #pragma omp parallel
    {
        product_lay(&b, 1);
        #pragma omp for schedule(dynamic) collapse(2)
        for (long i = 0; i < n; i += tile)
            for (int o = 0; o < out; o += cols) {
                product_by(&b, y + i * out + o, out, x + i * in, in,
                           min_int(n - i, tile), o, min_int(out - o, cols), 0);
                if (then.run)
                    then.run(then.of, i, min_int(n - i, tile));
            }
    }
}

void product_forward(real *y, const real *x, const real *w, long n, int in, int out)
{
    const unsigned char *small = find_packed(w, in);

    if (small && n <= BY_DOTS)
        packed_few(y, x, small, (int)n, in, out);
    else if (small)
        packed_many(y, x, small, n, in, out);
    else if (n <= BY_DOTS)
        forward_few(y, x, w, (int)n, in, out);
    else
        forward_many(y, x, w, n, in, out, column_tile(n, out), (struct rows_work){0});
}

void product_forward_then(real *y, const real *x, const real *w, long n, int in, int out,
                          struct rows_work then)
{
    if (n > BY_DOTS && column_tile(n, out) >= out && !find_packed(w, in)) {
        forward_many(y, x, w, n, in, out, out, then);
        return;
    }
    product_forward(y, x, w, n, in, out);
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i += FEW_ROWS)
        then.run(then.of, i, min_int(n - i, FEW_ROWS));
}

/* A tile of dw, and the rows of dy and x that are multiplied at once. */
struct cut {
    int  rows, cols;
    long depth;
};

/* What dw (out, in) costs cut so: the multiply-adds of the tiles that one thread makes,
 * and half a tile that it waits for others. An element that is copied costs as
 * much as some multiply-adds; each tile copies its columns of dy and of x. */
static double cut_cost(struct cut c, long n, int in, int out, int threads)
{
    long   cells = parts(out, c.rows) * parts(in, c.cols) * parts(n, c.depth);
    double tile = (double)c.rows * c.cols +
                  gemm_used()->copy * ((double)c.rows + c.cols);

    return ((double)parts(cells, threads) + 0.5) * tile * (double)c.depth;
}

/* The cheapest cut with tiles of `most` elements or fewer. */
static struct cut weights_cut(long depth, int most, long n, int in, int out, int threads)
{
    struct cut best = {0};
    double     least = 0;

    for (int r = DW_ROWS; r <= DW_MOST; r += DW_ROWS)
        for (int c = DW_COLS; c <= DW_MOST; c += DW_COLS) {
            struct cut cut = {min_int(out, r), min_int(in, c), depth};
            double     cost = cut_cost(cut, n, in, out, threads);

            if (cut.rows * cut.cols <= most && (!best.rows || cost < least))
                best = cut, least = cost;
        }
    return best;
}

/* dw (rows, cols), in apart, += part. */
static void add_part(real *dw, int in, const real *part, int rows, int cols)
{
    for (int i = 0; i < rows; i++)
        vaxpy(dw + (size_t)i * in, 1, part + (size_t)i * cols, cols);
}

/* Where dw is too small for all threads they share the rows, too. A product forms its
 * sums over gemm's depth apart and adds one after the other to dw; here it is done in the
 * same order by whoever is next, and no bit differs. Not inlined: gemm's panels would lie
 * deeper in the stack for all. */
static __attribute__((noinline)) void
weights_by_depth(real *dw, const real *dy, const real *x, long n, int in, int out,
                 int threads)
{
    const struct cut c = weights_cut(gemm_used()->depth, DW_PART, n, in, out, threads);

    #pragma omp for schedule(dynamic) collapse(3) ordered nowait
    for (long i = 0; i < n; i += c.depth)
        for (int o = 0; o < out; o += c.rows)
            for (int j = 0; j < in; j += c.cols) {
                _Alignas(64) real part[DW_PART];
                int rows = min_int(out - o, c.rows), cols = min_int(in - j, c.cols);

                gemm_tn(part, cols, dy + i * out + o, out, x + i * in + j, in, rows, cols,
                        min_int(n - i, (int)c.depth), 1, 0);
                #pragma omp ordered
                add_part(dw + (size_t)o * in + j, in, part, rows, cols);
            }
}

void product_weights(real *dw, const real *dy, const real *x, long n, int in, int out)
{
    const int  threads = omp_get_num_threads(), depth = gemm_used()->depth;
    struct cut c;

    if (threads > 1 && depth && n > depth && (long)in * out < (long)threads * DW_SHARE) {
        weights_by_depth(dw, dy, x, n, in, out, threads);
        return;
    }
    c = weights_cut(n, DW_MOST * DW_MOST, n, in, out, threads);
    #pragma omp for schedule(dynamic) collapse(2) nowait
    for (int o = 0; o < out; o += c.rows)
        for (int j = 0; j < in; j += c.cols)
            gemm_tn(dw + (size_t)o * in + j, in, dy + o, out, x + j, in,
                    min_int(out - o, c.rows), min_int(in - j, c.cols), (int)n, 1, 1);
}

/* Inside a parallel region: first and dx, tile by tile. */
static void rows_back(struct rows_work first, real *dx, real keep, const real *dy,
                      const struct product_right *w, long n)
{
    const int tile = product_tile(n), in = w->n, out = w->k;

    #pragma omp for schedule(dynamic) nowait
    for (long i = 0; i < n; i += tile) {
        if (first.run)
            first.run(first.of, i, min_int(n - i, tile));
        if (dx)
            product_by(w, dx + i * in, in, dy + i * out, out, min_int(n - i, tile), 0, in,
                       keep);
    }
}

/* The tiles of dw are larger, so they come first. */
void product_backward(real *dx, real keep, real *dw, const real *dy, const real *x,
                      const real *w, long n, int in, int out)
{
    size_t                     taken = 0;
    const struct product_right b = product_right(w, in, out, false, dx ? n : 0, &taken);

    #pragma omp parallel
    {
        product_lay(&b, 1);
        if (dw)
            product_weights(dw, dy, x, n, in, out);
        if (dx)
            rows_back((struct rows_work){0}, dx, keep, dy, &b, n);
    }
}

void product_backward_after(struct rows_work first, real *dx, real keep, real *dw,
                            const real *dy, const real *x, const real *w, long n, int in,
                            int out)
{
    size_t                     taken = 0;
    const struct product_right b = product_right(w, in, out, false, dx ? n : 0, &taken);

    #pragma omp parallel
    {
        product_lay(&b, 1);
        rows_back(first, dx, keep, dy, &b, n);
        #pragma omp barrier
        if (dw)
            product_weights(dw, dy, x, n, in, out);
    }
}

/* ---- the yardstick ----------------------------------------------------------------- */

enum { ROWS = 512 };            // of each thread

/* The best rate of y (n, D) = x wᵀ, w (D, D), n rows on all threads. */
static double best_gflops(const struct gemm *by, real *y, const real *x, const real *w,
                          int n, int D, int tries)
{
    double best = 0;

    for (int i = 0; i < tries; i++) {
        double start = omp_get_wtime(), rate;

        #pragma omp parallel for schedule(static)
        for (int t = 0; t < n; t += ROWS)
            by->nt(y + (size_t)t * D, D, x + (size_t)t * D, D, w, D, ROWS, D, D, 1, 0);
        rate = 2.0 * n * D * D / (omp_get_wtime() - start) / 1e9;
        best = rate > best ? rate : best;
    }
    return best;
}

double product_gflops(const struct gemm *by, int tries)
{
    enum { D = 768 };
    int    rows = ROWS * omp_get_max_threads();
    size_t bytes = (2 * (size_t)rows * D + (size_t)D * D) * sizeof(real);
    real  *x = pages_alloc(bytes), *y, *w;
    double best;

    if (!x)
        return 0;
    y = x + (size_t)rows * D;
    w = y + (size_t)rows * D;
    for (size_t i = 0; i < bytes / sizeof(real); i++)
        x[i] = 1;
    best = best_gflops(by, y, x, w, rows, D, tries);
    pages_free(x, bytes);
    return best;
}
