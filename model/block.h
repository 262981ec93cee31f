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
    BLOCK_BEFORE = 1,       // parameters before the mixer's
    BLOCK_AFTER  = 4,       // and after them, unless mlp = 0
    BLOCK_PARAMS = BLOCK_BEFORE + MIXER_PARAMS + BLOCK_AFTER,
};

/* A block: its parameters, and its buffers for passes over (B, T) once block_layout has
 * put them in place. It must stay where that found it. */
struct block {
    const struct mixer_cfg *cfg;
    int                     mlp;            // hidden width h
    int                     n_mixer;        // parameters of the mixer
    const real *const      *w;
    real *const            *dw;             // NULL outside training

    long  rows;             // B T
    real *x, *out;          // (B, T, C) input and output, the caller's; out may be x
                            // where no backward follows
    real *a;                // (B, T, C) after the mixer        kept for backward
    real *gu;               // (B, T, 2h) gate and up of MLP    kept for backward
    real *n, *y;            // (B, T, C) normalised; of the mixer or the MLP
    real *wide;             // (B, T, h) of the MLP
    real *partial;          // of the norms
    struct mixer_layer mixer;
};

/* Declare them in p (BLOCK_PARAMS); returns how many. */
int block_params(const struct mixer_cfg *c, int mlp, struct param *p);

/* How many of a block's n parameters are the mixer's. */
static inline int block_mixer_params(int n, int mlp)
{
    return n - BLOCK_BEFORE - (mlp ? BLOCK_AFTER : 0);
}

/* Lay b out for passes of this mode over (B, T); x and out are set. What forward keeps
 * for backward is taken from kept, the rest, which all blocks may share, from scratch. */
void block_layout(struct block *b, enum pass_mode mode, int B, int T, struct arena *kept,
                  struct arena *scratch);

/* From b->x to b->out. */
void block_forward(struct block *b, int window);

/* Again what forward kept, from b->x: the same bits. */
void block_recompute(struct block *b, int window);

/* dx (B, T, C) holds the gradient of b->out and becomes that of b->x. */
void block_backward(struct block *b, real *dx);

/* The mixer alone, held to what another answered at its place: x (B, T, C) is the stream
 * before both, a = x + the other's answer t. The loss |y - t|² / |t|² is returned; scale
 * times its gradient is added to that of the mixer's parameters. */
double block_imitate(struct block *b, int window, const real *x, const real *a,
                     double scale);

/* T more tokens of each of B running sequences, of which state[i] is the state in all
 * layers and pos[i] the tokens seen before. */
void block_extend(struct block *b, void *const *state, const long *pos);

#endif
