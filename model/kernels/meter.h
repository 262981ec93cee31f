/* Where a step's time goes: a stopwatch that is always on one part.
 *
 *     enum meter was = meter_switch(METER_MLP);      // this is MLP from here
 *     ...
 *     meter_switch(was);                             // and this the caller's again
 *
 * The serial code of a pass switches it (some hundred times a step, 30 ns each). Each
 * thread has its own watch.
 */
#ifndef WEFT_METER_H
#define WEFT_METER_H

enum meter {
    METER_REST,             // whatever nobody claimed: optimiser, data, the caller
    METER_PROJECTIONS,      // linear layers of a mixer
    METER_MIXER,            // the rest of a mixer: its core
    METER_MLP,
    METER_NORMS,            // and residual sums and embedding
    METER_LOSS,             // logits and cross-entropy, products included
    METER_PARTS,
};

/* Returns the part that was running. */
enum meter meter_switch(enum meter to);

void   meter_clear(void);                       // all parts to 0
double meter_seconds(enum meter part);          // since the last clear

#endif
