/* What weft train says before and after training, on stderr. */
#ifndef WEFT_REPORT_H
#define WEFT_REPORT_H

#include "data/base/live.h"
#include "train/setup.h"

/* --help settings: every setting with its default, its meaning and range, on stdout. */
void tell_settings(void);

/* Before: the text and its yardsticks, the model and what was chosen, the plan. */
void tell_data(struct live *l, const struct setup *s);
void tell_overlap(struct live *l, const struct dataset *d);     // when there is too much
void tell_model(struct live *l, const struct setup *s);
void tell_plan(struct live *l, const struct setup *s);

/* After: how it went and what to do next. nats, bits: the last validation; NAN: none. */
void tell_result(const struct setup *s, double nats, double bits);
void tell_finished(const struct setup *s);          // there was nothing left to train
void tell_interrupted(const struct setup *s);

/* Whether a model's bits per byte are good for this text, in a line: good below both
 * yardsticks, fair between them, poor above. */
void tell_verdict(const struct dataset *d, double bits, char *line, size_t cap);

#endif
