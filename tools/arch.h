/* The mixers, from the table in the code. */
#ifndef WEFT_ARCH_H
#define WEFT_ARCH_H

#include "data/base/fail.h"
#include "model/mixer.h"

/* A line of figures and one of its dynamical system for every mixer, on stdout. */
enum fail arch_table(struct why *why);

/* One of them, "gla" or "gla(conv=4)": formulas, figures, options, encodings, paper. Of
 * a preset or several joined by '/': its settings and a line of figures for each. */
enum fail arch_describe(const char *arch, struct why *why);

/* What the comment that opens its file says: what it is, formulas, papers. */
const char *arch_note(const struct mixer *m);

#endif
