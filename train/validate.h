/* Periodic validation: the same first part of the validation split every time. */
#ifndef WEFT_TRAIN_VALIDATE_H
#define WEFT_TRAIN_VALIDATE_H

#include "data/dataset.h"
#include "train/trainer.h"

enum { VALIDATE_TOKENS = 1 << 16 };

struct validation {
    uint32_t *ids;              // owned; NULL when there is no validation text
    uint64_t  n, at, end;       // tokens in all; of this rank's share the next, the last
    double   *nats;             // (n) owned: of each token
    size_t   *cut;              // (ranks + 1) owned
    uint64_t  bytes;            // of the text that these tokens spell
    int       eos;
    size_t    prefix;           // bytes of the prefix of each document
};

enum fail validation_open(struct validation *v, const struct dataset *d, struct why *why);
void validation_close(struct validation *v);        // a zeroed one is fine

/* Keep the first n tokens at most. */
void validation_cut(struct validation *v, const struct dataset *d, uint64_t n);

/* Mean nats per token and bits per byte of text, in the trainer's pass memory. NAN,
 * without failing, when there is no validation text. All ranks together: each scores a
 * share of the windows. */
enum fail validation_run(struct validation *v, struct trainer *t, double *loss,
                         double *bpb, struct why *why);

#endif
