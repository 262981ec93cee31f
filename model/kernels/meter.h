/* Where a step's time goes: a stopwatch that is always on one part.
 *
 * The serial code of a pass switches it (some hundred times a step, 30 ns each); whoever
 * asks reads the seconds of each part since the last clear. Each thread has its own.
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

void   meter_clear(void);
double meter_seconds(enum meter part);

#endif
