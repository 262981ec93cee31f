/* The model: embedding, blocks, final norm, head. One core for training and generation.
 *
 *     x = embed[tokens]
 *     x += mixer_i(rms(x) norm1_i);  x += wd( silu(wg n) * (wu n) ),  n = rms(x) norm2_i
 *     logits = head (rms(x) norm)                                 head = embed when tied
 *
 * Parameters lie in one array in the order of model.param: embed, blocks, norm, head.
 * Gradients and moments are arrays of the same layout.
 */
#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include "model/block.h"
#include "model/config.h"
#include "model/kernels/product.h"

struct model_param {
    char         name[64];          // blocks.0.mixer.wq
    struct param is;                // shape, init, decay, buffer
    size_t       at;                // index of its first element
};

struct model {
    struct config       cfg;        // resolved
    struct mixer_cfg   *layer;      // (layers)
    struct model_param *param;
    int                 n_param;
    size_t              n;          // elements in all
    real               *w;          // inside of pages
    void               *pages;
    size_t              pages_bytes;
    const real        **wp;         // (n_param) w + param[i].at
    int                *first;      // (layers + 1) index of a block's first parameter;
                                    // the last entry is the final norm's
    struct packed_weights packed;   // its matrices in fewer bits, after model_pack
    void                 *packs;    // their memory
    size_t                packs_bytes;
};

/* Build a model from a resolved config with vocab set (mlp = 0 at this point: blocks
 * without an MLP); parameters allocated, not filled.
 * FAIL_MEMORY when memory is short. On failure *m is zero. */
enum fail model_open(struct model *m, const struct config *cfg, struct why *why);
void model_close(struct model *m);                      // a zeroed one is fine
void model_init(struct model *m, uint64_t seed);        // fill every parameter

/* How much larger tokens begin than without copy, 1 where there is none: at the size that
 * blocks write in, so that who is who is still there in the last block. Their table is
 * the head too; the final norm begins as much smaller, and logits as they would. */
double model_loudness(const struct config *c);

/* The parameters are at w from now on, inside pages that model_close unmaps. */
void model_hold(struct model *m, real *w, void *pages, size_t bytes);

/* Take over every parameter that `from` has under the same name and in the same shape;
 * taken (n_param, may be NULL) says which. */
void model_take(struct model *m, const struct model *from, bool *taken);

/* From now on passes read the matrices rounded to bf16 or q8_0, wherever a product goes
 * forward over rows of a multiple of Q8_BLOCK, but for those that are direct (struct
 * param): for models that are not trained. The weights stay as they are, for all else.
 * type is "bf16" or "q8_0"; with "f32" and NULL passes read them, as before. FAIL_USAGE:
 * another. FAIL_MEMORY. */
enum fail model_pack(struct model *m, const char *type, struct why *why);
void model_unpack(struct model *m);             // they read the weights themselves again

bool   model_of_mixer(const struct model *m, int i);    // is parameter i a mixer's?
size_t model_count(const struct model *m);  // trained parameters, buffers left out

/* dwp NULL: no gradients. The head (vocab, width) is the embedding when tied. */
struct block model_block(const struct model *m, int i, real *const *dwp);
const real  *model_head(const struct model *m);

/* Useful FLOPs of a forward pass over one sequence of T tokens: products and mixer
 * cores, logits included; embeddings, norms, activations left out. Training costs
 * three times that. */
double model_flops(const struct model *m, int T, int window);

#endif
