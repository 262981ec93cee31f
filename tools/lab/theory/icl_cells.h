/* What the three parts of `weft lab icl` share: the values of a cell. */
#ifndef WEFT_LAB_ICL_CELLS_H
#define WEFT_LAB_ICL_CELLS_H

#include "tools/lab/lab.h"

#define ICL_COLUMNS                                                                     \
    "risk,stderr,yardstick,longer,unscaled,off,kq0,kq1,kq2,kq3,kq4,kq5,kq6,kq7,kq8,"    \
    "kq9,kq10,kq11,ov0,ov1,ov2,ov3,ov4,ov5,ov6,ov7,ov8,ov9,ov10,ov11"

/* Of tasks, longer is the best share of one head on the way; of factor, the steps taken
 * and, in unscaled, the rate. */
enum { ICL_RISK, ICL_SE, ICL_EXACT, ICL_LONGER, ICL_UNSCALED, ICL_OFF, ICL_KQ,
       ICL_OV = ICL_KQ + 12, ICL_VALUES = ICL_OV + 12, ICL_BEST = ICL_LONGER };

/* Task allocation over heads (icl_tasks.c), preconditioning (icl_factor.c):
 * run, print, judge. */
int icl_tasks_cells(const struct lab *l);
enum fail icl_tasks(struct lab *l, struct why *why);
int icl_factor_cells(const struct lab *l);
enum fail icl_factor(struct lab *l, struct why *why);

#endif
