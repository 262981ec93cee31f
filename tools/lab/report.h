/* What `weft lab all` leaves beside the records: summary.md, a table of all claims, and
 * report.html, one self-contained page with a part for each experiment: claims, verdicts,
 * plots, budgets. */
#ifndef WEFT_LAB_REPORT_H
#define WEFT_LAB_REPORT_H

#include "tools/lab/lab.h"

/* "12 of 14 exact rows hold; of 30 trained rows 21 are decided: 15 hold, 6 fail". */
void report_counts(const struct verdicts *v, char *buf, size_t cap);

/* Write both into dir, in which each experiment has a directory of its own; v is settled.
 * *summary is the table's text (malloc'ed; the caller frees). FAIL_WRITE, FAIL_MEMORY. */
enum fail report_write(const char *dir, const struct lab_ask *ask,
                       const struct verdicts *v, char **summary, struct why *why);

/* The same in pages of the project, between two lines that mark the place: the table in
 * docs/lab.md, the counts in README.md. FAIL_INPUT for a page without the
 * marks, FAIL_WRITE, FAIL_MEMORY. */
#define REPORT_MARK(form, side) "<!-- weft lab all" form " --docs: " side " -->\n"
enum fail report_pages(const struct lab_ask *ask, const struct verdicts *v,
                       struct why *why);

#endif
