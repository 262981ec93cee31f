/* Which rank keeps the moments of which parameters, and updates them. The parameters'
 * array is cut at multiples of ADAMW_BLOCK; with Muon also where parameters begin, so
 * that each of its matrices is one rank's, whole. With one rank all is its own. */
#ifndef WEFT_SHARES_H
#define WEFT_SHARES_H

#include "model/model.h"

struct shares {
    size_t *cut;                // (n + 1) of the parameters,
    size_t *place;              // (n + 1) and of squares
    double *squares;            // see adamw_squares
    size_t  from, to;           // this rank's own
};

/* FAIL_MEMORY; then nothing needs closing. */
enum fail shares_open(struct shares *s, const struct model *m, bool muon,
                      struct why *why);
void shares_close(struct shares *s);        // a zeroed one is fine

/* All ranks together: the norm of the gradients g, of which only the own part is
 * summed. */
double shares_norm(struct shares *s, const struct model *m, const real *g);

/* Set all of g to zero but the own part. */
void shares_zero_others(const struct shares *s, const struct model *m, real *g);

#endif
