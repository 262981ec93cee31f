#include "train/shares.h"

#include "train/adamw.h"
#include "train/muon.h"
#include "train/ranks.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKET = TINY(1 << 18, 64) };        // reals at least

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

/* The place nearest to `at` where the bucket [from, to) may be cut. */
static size_t cut_near(const struct model *m, bool muon, size_t at, size_t from,
                       size_t to)
{
    size_t                    cut = (at + ADAMW_BLOCK / 2) / ADAMW_BLOCK * ADAMW_BLOCK;
    const struct model_param *p;

    p = muon ? matrix_around(m, cut) : NULL;
    if (p)
        cut = cut - p->at < param_size(&p->is) / 2 ? p->at : p->at + param_size(&p->is);
    return cut < from ? from : cut < to ? cut : to;
}

static void cut_bucket(const struct shares *s, const struct model *m, bool muon,
                       size_t from, size_t to, size_t *cut)
{
    double each = (double)(to - from) / s->ranks;

    for (int i = 0; i < s->ranks; i++)
        cut[i] = i ? cut_near(m, muon, from + (size_t)(each * i), from, to) : from;
    cut[s->ranks] = to;
}

/* Where the bucket that ends at `to` begins: before a block, and large enough to be worth
 * its messages. */
static size_t bucket_before(const struct shares *s, const struct model *m, size_t to)
{
    size_t least = (size_t)s->ranks * ADAMW_BLOCK;

    if (s->ranks == 1)
        return 0;
    if (least < BUCKET)
        least = BUCKET;
    for (int i = m->cfg.layers; i >= 0; i--) {
        size_t at = m->param[m->first[i]].at;

        if (at + least <= to)
            return at < least ? 0 : at;
    }
    return 0;
}

/* Count the buckets, and cut them where there is room. */
static int cut_all(const struct shares *s, const struct model *m, bool muon)
{
    size_t to = m->n, from;
    int    n = 0;

    for (; to > 0; to = from) {
        from = bucket_before(s, m, to);
        n++;
        if (s->cut)
            cut_bucket(s, m, muon, from, to,
                       s->cut + (size_t)(s->buckets - n) * ((size_t)s->ranks + 1));
    }
    return n;
}

/* ---- opening ---- */

enum fail shares_open(struct shares *s, const struct model *m, int ranks, int mine,
                      bool muon, struct why *why)
{
    *s = (struct shares){.ranks = ranks, .mine = mine};
    s->buckets = cut_all(s, m, muon);
    s->cut = calloc((size_t)s->buckets * ((size_t)s->ranks + 1), sizeof *s->cut);
    s->squares = calloc(adamw_place(m, m->n), sizeof *s->squares);
    if (!s->cut || !s->squares) {
        shares_close(s);
        return fail(why, FAIL_MEMORY, "out of memory for the shares of %d ranks", ranks);
    }
    cut_all(s, m, muon);
    return FAIL_NONE;
}

void shares_close(struct shares *s)
{
    free(s->cut);
    free(s->squares);
    *s = (struct shares){0};
}

const size_t *shares_cut(const struct shares *s, int bucket)
{
    return s->cut + (size_t)bucket * ((size_t)s->ranks + 1);
}

bool shares_own(const struct shares *s, int bucket, size_t *from, size_t *to)
{
    const size_t *cut = shares_cut(s, bucket);

    *from = cut[s->mine];
    *to = cut[s->mine + 1];
    return *from < *to;
}

/* ---- the norm ---- */

double shares_norm(struct shares *s, const struct model *m, const real *g)
{
    size_t n = adamw_place(m, m->n), from, to;

    if (s->ranks == 1)
        return adamw_norm(m, g);
    memset(s->squares, 0, n * sizeof *s->squares);
    for (int i = 0; i < s->buckets; i++)
        if (shares_own(s, i, &from, &to))
            adamw_squares(m, g, from, to, s->squares);
    ranks_merge(s->squares, n);
    return adamw_total(m, s->squares);
}

/* ---- all buckets ---- */

static void zero(real *x, size_t from, size_t to)
{
    memset(x + from, 0, (to - from) * sizeof *x);
}

void shares_zero_others(const struct shares *s, real *g)
{
    for (int i = 0; i < s->buckets; i++) {
        const size_t *cut = shares_cut(s, i);

        zero(g, cut[0], cut[s->mine]);
        zero(g, cut[s->mine + 1], cut[s->ranks]);
    }
}

void shares_zero_own(const struct shares *s, real *g)
{
    size_t from, to;

    for (int i = 0; i < s->buckets; i++)
        if (shares_own(s, i, &from, &to))
            zero(g, from, to);
}

void shares_spread(const struct shares *s, real *x)
{
    for (int i = 0; i < s->buckets; i++)
        ranks_spread(x, shares_cut(s, i));
}

void shares_collect(const struct shares *s, real *whole, const real *x)
{
    for (int i = 0; i < s->buckets; i++)
        ranks_collect(whole, x, shares_cut(s, i));
}

void shares_deal(const struct shares *s, const real *whole, real *x)
{
    for (int i = 0; i < s->buckets; i++)
        ranks_deal(whole, x, shares_cut(s, i));
}
