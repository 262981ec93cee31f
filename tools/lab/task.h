/* Small models on synthetic tasks: fresh sequences at every step, the loss and the
 * accuracy only at labelled positions.
 *
 *     struct task t = {.mixers = "softmax(window=4)/gla", .layers = 2, .width = 64, ...,
 *                      .fill = draw, .user = &settings};
 *     err = task_train(&t, &m, l, key, 0.9, why);
 *     err = task_test(&t, &m, T, 512, each, &count, why);
 *     model_close(&m);
 */
#ifndef WEFT_TASK_H
#define WEFT_TASK_H

#include "model/mixer_instruments.h"
#include "model/pass.h"
#include "tools/lab/lab.h"

/* One sequence into tokens and targets (T); targets[t] is the answer wanted at position
 * t, -1: none. Called from several threads. */
typedef void (*task_fill)(const void *user, struct rng *r, int T, int32_t *tokens,
                          int32_t *targets);

struct task {
    const char *mixers;             // as the setting of this name
    int         layers, width, heads;
    int         mlp;                // hidden width; 0: blocks without an MLP
    int         vocab;
    int         batch, length;      // sequences of a step, tokens of each
    long        steps;
    double lr, weight_decay, clip;  // cosine, warm-up over a tenth of the steps
    int         window_short;       // drawn with chance window_p, as in training text
    double      window_p;
    uint64_t    seed;
    task_fill   fill;
    const void *user;
    const struct config *like;      // (optional) the model's settings but for mixers, in
                                    // place of those above
    const struct model *start;      // (optional) weights to begin with, where they agree
    long        transfer;           // so many of the steps come first in which mixers
                                    // learn to answer as start's: model_imitate
    /* (optional) Told the model before every step and after the last. */
    void      (*mark)(void *marker, const struct model *m, long step);
    void       *marker;
};

/* Does the decode state of this entry grow with the context, as attention's does? */
bool task_grows(const char *entry);

/* A model of c's shape with these mixers and without MLPs, its weights zero; it is the
 * caller's to close. On failure *m is zero. FAIL_USAGE, FAIL_MEMORY. */
enum fail task_mixers_alone(struct model *m, struct config *c, const char *entries,
                            struct why *why);

/* Do the settings fit together? FAIL_USAGE. */
enum fail task_check(const struct task *t, struct why *why);

/* Train a model; it is the caller's to close. Tells lab_progress shares from 0 to
 * `share`. FAIL_USAGE, FAIL_INPUT, FAIL_DIVERGED, FAIL_INTERRUPTED; then there is nothing
 * to close. */
enum fail task_train(const struct task *t, struct model *m, struct lab *l,
                     const char *key, double share, struct why *why);

/* What the model answers on n sequences of T tokens that training never saw: each is
 * called with every one in turn; best (T) is the likeliest token where targets >= 0. */
typedef void (*task_each)(void *user, int T, const int32_t *tokens,
                          const int32_t *targets, const int32_t *best);
enum fail task_test(const struct task *t, const struct model *m, int T, int n,
                    task_each each, void *user, struct why *why);

/* task_each that counts: user is a struct task_count. */
struct task_count {
    long asked, right;              // positions
    long strings, whole;            // sequences, and those with every answer right
};
void   task_count_each(void *user, int T, const int32_t *tokens, const int32_t *targets,
                       const int32_t *best);
double task_accuracy(const struct task_count *c);       // right / asked

/* task_each by position: user is a struct task_places whose arrays hold T entries,
 * zeroed. */
struct task_places {
    long *asked, *right;            // (T)
};
void task_places_each(void *user, int T, const int32_t *tokens, const int32_t *targets,
                      const int32_t *best);

/* What m's attention does with these tokens (B, T), over its layers: weights of a token
 * for another, those of them that are exactly 0; rows of weights by one head of one
 * token, those that have no other; tokens with two heads that have weights, and the sum
 * of the Jensen-Shannon divergences of these, in bits. What a window hides counts as
 * 0. FAIL_MEMORY. */
struct attended {
    double pairs, zeros, rows, nulls, met, apart;
};
enum fail task_attended(const struct model *m, int B, int T, const int32_t *tokens,
                        struct attended *sum, struct why *why);

#endif
