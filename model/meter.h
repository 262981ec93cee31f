/* Where a step's time goes: a stopwatch that is always on one part.
 *
 *     enum meter was = meter_switch(METER_MLP);      // this is MLP from here
 *     ...
 *     meter_switch(was);                             // and this the caller's again
 *
 * The serial code of a pass switches it, which does nothing unless this thread has
 * started it: then some hundred times a step, 30 ns each. Each thread has its own watch.
 */
#ifndef WEFT_METER_H
#define WEFT_METER_H

#include <stdbool.h>

enum meter {
    METER_REST,             // whatever nobody claimed: optimiser, data, the caller
    METER_PROJECTIONS,      // of a mixer: proj_forward, proj_backward
    METER_MIXER,            // the rest of a mixer: its core
    METER_MLP,
    METER_NORMS,            // and residual sums and embedding
    METER_LOSS,             // logits and cross-entropy, products included
    METER_PARTS,
};

void   meter_start(void);               // from nothing, on METER_REST
double meter_seconds(enum meter part);  // since then
void   meter_stop(void);

extern _Thread_local bool meter_runs;
enum meter meter_go(enum meter to);

/* Returns the part that was running. */
static inline enum meter meter_switch(enum meter to)
{
    return meter_runs ? meter_go(to) : METER_REST;
}

#endif
