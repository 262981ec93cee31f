/* One block of the stack, LLaMA's:
 *
 *     a = x + mixer(rms(x) norm1)
 *     y = a + swiglu(rms(a) norm2)
 *
 * Everything but the mixer is the same for all architectures, so that comparisons
 * are fair.
 */
#ifndef WEFT_BLOCK_H
#define WEFT_BLOCK_H

#include "model/mixer.h"

/* Parameters of a block in order: norm1; the mixer's; norm2, mlp.wg, mlp.wu, mlp.wd. A
 * block with mlp = 0 ends after the mixer: y = a. */
enum {
    BLOCK_BEFORE = 1,       // the mixer's
    BLOCK_AFTER  = 4,       // them, unless mlp = 0
    BLOCK_PARAMS = BLOCK_BEFORE + MIXER_PARAMS + BLOCK_AFTER,
};

struct block {
    const struct mixer_cfg *cfg;
    int                     mlp;            // hidden width h
    int                     n_mixer;        // parameters of the mixer
    const real *const      *w;
    real *const            *dw;             // NULL outside training
};

/* Declare them in p (BLOCK_PARAMS); returns how many. */
int block_params(const struct mixer_cfg *c, int mlp, struct param *p);

/* How many of a block's n parameters are the mixer's. */
static inline int block_mixer_params(int n, int mlp)
{
    return n - BLOCK_BEFORE - (mlp ? BLOCK_AFTER : 0);
}

/* What a forward pass over (B, T) keeps (its input first), and its scratch (shared
 * by all blocks). */
struct block_kept {
    real *x, *a;            // (B, T, C) the block's input, and after the mixer
    real *gu;               // (B, T, 2h)
    void *mixer;
};
struct block_scratch {
    real *n, *y;            // (B, T, C)
    real *wide;             // (B, T, 3h)
    real *partial;          // of the norms
    void *mixer;
};
size_t block_carve_kept(struct block_kept *k, void *base, const struct block *b,
                        int B, int T);
size_t block_carve_scratch(struct block_scratch *s, void *base, const struct block *b,
                           int B, int T);

/* What the mixer of a call is given; k is NULL for extend. */
struct ctx block_ctx(const struct block *b, const struct block_kept *k,
                     const struct block_scratch *s, int B, int T, int window);

/* From k->x to y (B, T, C), which may be k->x when no backward follows. */
void block_forward(const struct block *b, struct block_kept *k,
                   struct block_scratch *s, int B, int T, int window, real *y);

/* dx (B, T, C) holds the gradient of y and becomes that of k->x. */
void block_backward(const struct block *b, struct block_kept *k,
                    struct block_scratch *s, int B, int T, int window, real *dx);

/* T more tokens of each of B running sequences; x (B, T, C) is changed in place.
 * gu (B, T, 2h). */
void block_extend(const struct block *b, struct block_scratch *s, real *gu,
                  void *const *state, const long *pos, int B, int T, real *x);

#endif
