/* What instruments ask of a mixer: `weft info`, `weft score`, the laboratory and tests.
 * Nothing here is needed to train or to decode.
 */
#ifndef WEFT_MIXER_INSTRUMENTS_H
#define WEFT_MIXER_INSTRUMENTS_H

#include "model/cores/range.h"
#include "model/mixer.h"

/* Attention weights and those of them that are 0; rows (b, h, t) of weights and those
 * that have no other. */
struct zeros {
    double pairs, zeros, rows, nulls;
};

struct instruments {
    const char *system;        // its dynamical-system form in a line: what L, B and C are

    /* (optional) After forward with the same ctx: widen r (H) to hold |L| of every token,
     * and return for how many heads: H, or 1 when L has none. A mixer whose system is not
     * finite, such as softmax, has none. */
    int (*decay)(struct ctx *ctx, struct range *r);

    /* (optional) After forward with the same ctx: add what it attended to. For mixers
     * whose weights can be 0. */
    void (*zeros)(const struct ctx *ctx, struct zeros *sum);

    /* (optional) After forward with the same ctx: what token t of sequence b gives to
     * tokens 0 .. t by every head, divided by their sum, p (H, t + 1). Of attentions. */
    void (*weights)(const struct ctx *ctx, int b, int t, double *p);
};

/* Numbers in the decode state of one sequence, without the encoding's, by the paper's
 * formula; and what of mixer_flops is in no matrix product, over T tokens. */
double mixer_paper_state(const struct mixer_cfg *c);
double mixer_elementwise(const struct mixer_cfg *c, int T);

/* Of a layer, after mixer_forward. */
int  mixer_decay(struct mixer_layer *l, struct range *r);           // 0: not finite
void mixer_zeros(const struct mixer_layer *l, struct zeros *sum);
bool mixer_weights(const struct mixer_layer *l, int b, int t, double *p);   // has it any?

/* For mixers' files: decay where |L| = e^g of every token, g (B, T, H, e), ld reals from
 * token to token. */
int decay_of_logs(const struct ctx *ctx, struct range *r, const real *g, size_t ld,
                  int e);

#endif
