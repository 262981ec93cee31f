#include "train/shares.h"

#include "train/adamw.h"
#include "train/muon.h"
#include "train/ranks.h"

#include <stdlib.h>
#include <string.h>

/* ---- cutting ---- */

/* The matrix of Muon around a place, NULL when there is none. */
static const struct model_param *matrix_around(const struct model *m, size_t at)
{
    for (int i = 0; i < m->n_param; i++) {
        const struct model_param *p = &m->param[i];

        if (p->at < at && at < p->at + param_size(&p->is) && muon_takes(p))
            return p;
    }
    return NULL;
}

/* The place nearest to `at` where the array may be cut. */
static size_t cut_near(const struct model *m, bool muon, size_t at)
{
    size_t                    cut = (at + ADAMW_BLOCK / 2) / ADAMW_BLOCK * ADAMW_BLOCK;
    const struct model_param *p;

    if (cut >= m->n)
        return m->n;
    p = muon ? matrix_around(m, cut) : NULL;
    if (p)
        cut = cut - p->at < param_size(&p->is) / 2 ? p->at : p->at + param_size(&p->is);
    return cut;
}

/* ---- opening ---- */

enum fail shares_open(struct shares *s, const struct model *m, bool muon, struct why *why)
{
    size_t n = (size_t)ranks_n(), mine = (size_t)ranks_share_of(ranks_me());

    *s = (struct shares){.to = m->n};
    if (n == 1)
        return FAIL_NONE;
    s->cut = calloc(2 * (n + 1), sizeof *s->cut);
    s->squares = calloc(adamw_place(m, m->n), sizeof *s->squares);
    if (!s->cut || !s->squares) {
        shares_close(s);
        return fail(why, FAIL_MEMORY, "out of memory for the shares of %zu ranks", n);
    }
    s->place = s->cut + n + 1;
    for (size_t i = 0; i <= n; i++) {
        s->cut[i] = i < n ? cut_near(m, muon,
                                     (size_t)((double)m->n / (double)n * (double)i))
                          : m->n;
        s->place[i] = adamw_place(m, s->cut[i]);
    }
    s->from = s->cut[mine];
    s->to = s->cut[mine + 1];
    return FAIL_NONE;
}

void shares_close(struct shares *s)
{
    free(s->cut);
    free(s->squares);
    *s = (struct shares){0};
}

/* ---- the norm ---- */

double shares_norm(struct shares *s, const struct model *m, const real *g)
{
    if (ranks_n() == 1)
        return adamw_norm(m, g);
    adamw_squares(m, g, s->from, s->to, s->squares);
    ranks_spread_doubles(s->squares, s->place);
    return adamw_total(m, s->squares);
}

void shares_zero_others(const struct shares *s, const struct model *m, real *g)
{
    memset(g, 0, s->from * sizeof *g);
    memset(g + s->to, 0, (m->n - s->to) * sizeof *g);
}
