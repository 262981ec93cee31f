/* What changes from step to step by plan: the learning rate and the attention window.
 * Both follow from the settings and the step's index (from 0) alone. */
#ifndef WEFT_SCHEDULE_H
#define WEFT_SCHEDULE_H

#include "model/config.h"

/* Rises linearly over the warm-up, then
 *
 *     cosine   falls along half a cosine to lr_end of the peak at the last step
 *     wsd      stays, and falls linearly towards zero over the last fifth of the steps
 */
double schedule_lr(const struct config *c, long step);

/* The window drawn for a step: window_short with probability window_p, otherwise, and in
 * the last window_anneal share of the steps, 0 (every layer takes its own). */
int schedule_window(const struct config *c, long step);

#endif
