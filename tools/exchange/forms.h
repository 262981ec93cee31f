/* Which architecture of others a stack of weft is, and which stack one of theirs is.
 *
 *     softmax, full                         llama
 *     softmax(window=w)                     mistral       GGUF: granite_swa
 *     full and window=w mixed               ministral     GGUF: granite_swa
 *     qk_norm                               qwen3         GGUF: without windows
 *     sinks, layers without rotation        granite_swa
 *     gla, deltanet, retention, each also
 *     beside softmax with rotation          gla, gated_deltanet, retnet (fla)
 *     ssd                                   bamba
 */
#ifndef WEFT_FORMS_H
#define WEFT_FORMS_H

#include "tools/exchange/names.h"

enum form_kind {
    FORM_LLAMA, FORM_MISTRAL, FORM_MINISTRAL, FORM_QWEN3, FORM_GRANITE_SWA,
    FORM_GLA, FORM_DELTANET, FORM_RETNET, FORM_BAMBA, FORMS,
};

struct form {
    const char  *type, *class;      // "llama", "LlamaForCausalLM"
    const char  *needs;             // to load it: "transformers 5"
    enum dialect dialect;           // of its Hugging Face files
};
extern const struct form forms[FORMS];

/* The form of a model in a Hugging Face directory, in a GGUF. FAIL_USAGE: there is none,
 * with the reason and what can be done. */
enum fail form_for_hf(const struct model *m, enum form_kind *kind, struct why *why);
enum fail form_for_gguf(const struct model *m, enum form_kind *kind, struct why *why);

/* FAIL_USAGE unless llama2.c's run.c computes what the model does. */
enum fail form_for_llama2c(const struct model *m, struct why *why);

/* How the tensors of that form are named and lie. */
struct spelling form_hf_spelling(enum form_kind kind, enum packed type);
struct spelling form_gguf_spelling(enum form_kind kind, enum packed type);

/* ---- a layer ----------------------------------------------------------------------- */

double layer_opt(const struct mixer_cfg *c, const char *name);  // 0: it has none such
bool   layer_is(const struct mixer_cfg *c, const char *mixer);
double layer_base(const struct mixer_cfg *c);   // of rotation; 0: none, -1: another kind

/* The one window of a stack's layers, or 0; the one base of those that rotate. */
int    stack_window(const struct model *m);
double stack_base(const struct model *m);

/* ---- back to weft ------------------------------------------------------------------ */

/* Layer i of an attention stack as its file tells it. */
struct attention_layer {
    int    window;                  // 0: all
    bool   qk_norm, sink;
    double base;                    // 0: no rotation
};

/* `mixers` of n such layers, as short as it gets. FAIL_INPUT: too long a list. */
enum fail form_mixers(struct config *c, const struct attention_layer *layer, int n,
                      const char *where, struct why *why);

#endif
