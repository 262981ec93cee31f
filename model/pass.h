/* Passes over a model: training and scoring on (B, T), streaming with decode states.
 *
 *     training    PASS_TRAIN, model_step for each batch: the loss and dw
 *     scoring     PASS_SCORE, model_score: nats of a text; model_predict: its likeliest
 *     streaming   PASS_EXTEND, model_extend: a prompt at once, then token by token
 */
#ifndef WEFT_PASS_H
#define WEFT_PASS_H

#include "model/layers/loss.h"
#include "model/model.h"

/* Memory for passes over (B, T), laid out when it opens: a step's way through the model
 * finds every pointer in place. The model's weights may change, not where they are. */
struct pass {
    enum pass_mode mode;
    int     B, T;           // the largest shape it has memory for
    real   *dw;             // (m->n) gradients; NULL where nothing is trained
    real  **dwp;            // (m->n_param) where each parameter's begin
    void   *acts;           // everything below
    size_t  dw_bytes, acts_bytes;

    int     now_B, now_T;   // the shape it is laid out for
    struct block *block;    // (layers)
    real   *x;              // (B, T, C) the stream after the last block; when nothing is
                            // trained, after each
    real   *room;           // (n_room) for panels of weights: product.h
    size_t  n_room;
    real   *n, *dx;         // (B, T, C) normalised stream (PASS_EXTEND: (B, C)), gradient
    real   *nats;           // (B, T) in training
    real   *logits;         // a slice
    real   *partial;        // of the final norm
    /* (optional) Told of every layer that model_score ran, with what its mixer kept. */
    void  (*watch)(void *user, int layer, struct mixer_layer *l);
    void   *user;
    /* (optional) Told while model_step goes backward: nothing more is added to the
     * gradients from element `from` on. */
    void  (*ready)(void *ready_user, size_t from);
    void   *ready_user;
};

size_t pass_bytes(const struct model *m, int B, int T, enum pass_mode mode);

/* As the settings want it trained. */
static inline enum pass_mode pass_training(const struct config *c)
{
    return c->recompute ? PASS_RECOMPUTE : PASS_TRAIN;
}

/* m must outlive the pass, and its weights stay in their place. FAIL_MEMORY. */
enum fail pass_open(struct pass *p, const struct model *m, int B, int T,
                    enum pass_mode mode, struct why *why);
void   pass_close(struct pass *p);                      // a zeroed one is fine

/* Exchange the array that gradients are added to for *other, of the same size: both are
 * pages_alloc's, and whichever the pass has at its end it frees. */
void pass_swap_gradients(struct pass *p, const struct model *m, real **other);

/* ---- training ---------------------------------------------------------------------- */

/* Mean loss in nats over targets >= 0, and gradients: dw += scale * d(sum of
 * nats)/dw / count, where count is the number of targets >= 0 (scale = 1 / accumulate).
 * tokens, targets (B, T). Without such a target: 0, and nothing is added. */
double model_step(const struct model *m, struct pass *p, const int32_t *tokens,
                  const int32_t *targets, int window, double scale);

/* Attention transfer: every mixer of m learns to answer as the mixer at its place in
 * `from`, a model of the same layers and width, does in that model's own stream. The
 * loss,
 *
 *     mean over the layers of |y - t|² / |t|²         t: the answer of from's mixer
 *
 * is returned; dw += scale times its gradient, mixers only. q is a training pass over
 * `from` of p's shape. */
double model_imitate(const struct model *m, struct pass *p, const struct model *from,
                     struct pass *q, const int32_t *tokens, int window, double scale);

/* Nats of every target into nats (B, T); 0 where targets < 0. No gradients; the pass may
 * be one that trains. B and T may be smaller than it was opened for; a change of shape
 * lays it out anew. */
void model_score(const struct model *m, struct pass *p, int B, int T,
                 const int32_t *tokens, const int32_t *targets, int window, real *nats);

/* As model_score, for one sequence; and the k likeliest tokens of every position into
 * top (T, k), as cross_entropy_top ranks them. */
void model_score_top(const struct model *m, struct pass *p, int T, const int32_t *tokens,
                     const int32_t *targets, real *nats, struct likely *top, int k);

/* The likeliest token at every position with targets >= 0, -1 elsewhere, into
 * best (B, T). As model_score otherwise. */
void model_predict(const struct model *m, struct pass *p, int B, int T,
                   const int32_t *tokens, const int32_t *targets, int32_t *best);

/* ---- streaming --------------------------------------------------------------------- */

/* Bytes of decode state of one sequence, all layers. */
size_t model_state_bytes(const struct model *m);

/* n more tokens for each of S sequences by a pass of PASS_EXTEND: tokens (S, n), pos (S)
 * tokens seen before, state (S) pointers to model_state_bytes each, zero at the start.
 * logits (S, vocab) of each sequence's last token; NULL: not wanted. S and n as B and T
 * of model_score. */
void model_extend(const struct model *m, struct pass *p, void *const *state,
                  const long *pos, int S, int n, const int32_t *tokens, real *logits);

#endif
