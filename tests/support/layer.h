/* One mixer layer laid out for tests.
 *
 * Every buffer has exactly the declared size, with guard bytes behind it that are
 * checked after each call. Memory that a call must not read (y and kept before forward,
 * scratch before any call) is filled with NaN, so that reading it shows in the results.
 * A failed check fails the running test with the layer's entry in the message. */
#ifndef WEFT_LAYER_H
#define WEFT_LAYER_H

#include "model/mixer.h"

enum { LAYER_BATCH = 80, LAYER_BLOCKS = LAYER_BATCH + 8 };

struct layer_block {
    const char *name;
    char       *p;
    size_t      bytes;
};

struct layer {
    char              entry[256];           // for messages
    struct mixer_cfg  cfg;
    int               B, T;                 // B <= LAYER_BATCH
    int               window;               // drawn for forward and backward, 0: none
    int               n_param;
    struct param      param[MIXER_PARAMS];
    size_t            n_w, n_x;             // elements of all parameters, of x
    real             *w, *dw;               // (n_w)
    real             *wp[MIXER_PARAMS];     // each parameter's part of w, and of dw
    real             *dwp[MIXER_PARAMS];
    real             *x, *y, *dy, *dx;      // (B, T, C)
    void             *kept, *scratch;
    struct sizes      sizes;
    void             *state[LAYER_BATCH];
    long              pos[LAYER_BATCH];     // tokens that went through extend
    struct mixer_layer mixer;               // laid out for forward and backward
    struct layer_block block[LAYER_BLOCKS];
    int               n_block;
};

/* Parse an entry for a model of width C with H heads and room for `context` tokens. A
 * parse error fails the test. */
struct mixer_cfg layer_cfg(const char *entry, int C, int H, int context);

/* Lay out a layer over (B, T): parameters initialised from seed and moved off special
 * values such as 0 and 1, x and dy drawn from N(0, 1), gradients zero, states empty. */
void layer_open(struct layer *l, const char *entry, const struct mixer_cfg *cfg, int B,
                int T, uint64_t seed);
void layer_close(struct layer *l);

void layer_forward(struct layer *l);        // y from x
void layer_backward(struct layer *l);       // dx +=, dw += from dy; after layer_forward
void layer_zero(struct layer *l);           // dx and dw

/* The next n tokens of each of these sequences through extend; their outputs go to their
 * place in y. */
void layer_extend(struct layer *l, const int *seq, int n_seq, int n);
void layer_restart(struct layer *l);        // all sequences empty again, y poisoned

/* Index of a parameter by name, or -1. */
int layer_param(const struct layer *l, const char *name);

/* A matrix of the layer times the tokens of sequence b, in double: a new (T, rows). */
double *layer_project(const struct layer *l, const char *name, int b);

double layer_loss(const struct layer *l);   // sum(y dy), in double
real  *layer_copy(const real *a, size_t n); // the caller frees it

/* Fail unless n elements of a are those of b, to rounding or bit for bit; or finite. */
void layer_assert_near(const struct layer *l, const char *what, const real *a,
                       const real *b, size_t n);
void layer_assert_bits(const struct layer *l, const char *what, const real *a,
                       const real *b, size_t n);
void layer_assert_finite(const struct layer *l, const char *what, const real *a,
                         size_t n);
void layer_assert_results(const struct layer *l);       // y, dx and dw are finite

/* Lay out in m what ctx's encoding alone needs for passes of this mode, w and dw being
 * its own; dw NULL: none. Sets ctx->acts. */
void layer_encoding(struct layout *m, struct ctx *ctx, real *const *w, real *const *dw,
                    enum pass_mode mode, struct arena *kept, struct arena *scratch);

#endif
