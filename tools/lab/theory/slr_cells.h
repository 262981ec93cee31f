/* What the panels of `weft lab slr` share: the values of a cell, its yardstick, its
 * verdicts. */
#ifndef WEFT_LAB_SLR_CELLS_H
#define WEFT_LAB_SLR_CELLS_H

#include "tools/lab/lab.h"
#include "tools/lab/theory/slr_net.h"

#include <stddef.h>

#define SLR_COLUMNS "risk,stderr,oracle,bayes,m_kk,m_vv,m_kv,m_vk,q_kk,q_vv,q_vk,bias"

enum {
    SLR_RISK, SLR_SE, SLR_ORACLE, SLR_BAYES, SLR_MKK, SLR_MVV, SLR_MKV, SLR_MVK,
    SLR_QKK, SLR_QVV, SLR_QVK, SLR_BIAS, SLR_VALUES
};

struct slr_result {
    const struct slr *s;
    enum slr_arm      arm;
    double            value[SLR_VALUES];
};

/* "spiked L=1-3 nu=5". */
void slr_name(char *name, size_t cap, const struct slr *s);

/* The least risk of an arm; NaN where it is not known or not reached at finite k. */
double slr_oracle(const struct slr *s, enum slr_arm arm);

void slr_values(double *value, struct estimate e, const struct slr_order *o,
                double oracle, double bayes);

/* Population: every claim over all results, and risk against nu. */
void slr_verdicts(struct lab *l, const struct slr_result *r, int n);
enum fail slr_chart_risks(struct lab *l, const struct slr_result *r, int n,
                          struct why *why);

/* Finite samples: softmax and linear attention fitted to N = alpha D of them. */
int slr_samples_cells(const struct lab *l);
enum fail slr_samples(struct lab *l, struct why *why);

#endif
