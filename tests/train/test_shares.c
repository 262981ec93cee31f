/* train/shares.h: every parameter is one rank's, and shares are about equal, for any
 * number of ranks: where they are cut needs no other process. */
#include "tests/support/rig.h"
#include "train/adamw.h"
#include "train/muon.h"
#include "train/shares.h"

#include <stdlib.h>
#include <string.h>

static struct model model;

static void need_model(void)
{
    struct config c;
    struct why    why;

    if (model.n)
        return;
    config_defaults(&c);
    c.layers = 5, c.width = 192, c.heads = 3, c.context = 16, c.vocab = 300;
    ck_assert_msg(!config_resolve(&c, &why) && !model_open(&model, &c, &why), "%s",
                  why.line);
}

static struct shares shares_of(int ranks, int mine, bool muon)
{
    struct shares s;
    struct why    why;

    need_model();
    ck_assert_msg(!shares_open(&s, &model, ranks, mine, muon, &why), "%s", why.line);
    return s;
}

static bool begins_a_block(size_t at)
{
    for (int i = 0; i <= model.cfg.layers; i++)
        if (model.param[model.first[i]].at == at)
            return true;
    return at == 0;
}

static const int crowds[] = {1, 2, 3, 8, 100};

START_TEST(buckets_are_whole_blocks_and_worth_a_message)
{
    const int     n = crowds[_i];
    struct shares s = shares_of(n, 0, false);
    size_t        least = (size_t)n * ADAMW_BLOCK, at = 0;

    ck_assert_int_eq(s.buckets == 1, n == 1 || 2 * least > model.n);
    for (int i = 0; i < s.buckets; i++) {
        const size_t *cut = shares_cut(&s, i);

        ck_assert(cut[0] == at && begins_a_block(at));
        at = cut[n];
        ck_assert_msg(at - cut[0] >= least || s.buckets == 1, "bucket %d of %d: %zu", i,
                      s.buckets, at - cut[0]);
    }
    ck_assert(at == model.n);
    shares_close(&s);
}
END_TEST

/* The parameter that a place is inside of. */
static const struct model_param *around(size_t at)
{
    for (int i = 0; i < model.n_param; i++)
        if (model.param[i].at < at &&
            at < model.param[i].at + param_size(&model.param[i].is))
            return &model.param[i];
    return NULL;
}

/* As near to equal shares as blocks of AdamW allow, or Muon's matrices. */
static size_t best_cut(size_t at, bool muon, size_t from, size_t to)
{
    size_t                    cut = (at + ADAMW_BLOCK / 2) / ADAMW_BLOCK * ADAMW_BLOCK;
    const struct model_param *p = muon ? around(cut) : NULL;

    if (p && muon_takes(p)) {
        size_t end = p->at + param_size(&p->is);

        cut = cut - p->at < end - cut ? p->at : end;
    }
    return cut < from ? from : cut > to ? to : cut;
}

START_TEST(a_bucket_is_cut_into_equal_shares_and_no_matrix_of_muon_is)
{
    const int n = crowds[_i];

    for (int muon = 0; muon < 2; muon++) {
        struct shares s = shares_of(n, 0, muon);

        for (int i = 0; i < s.buckets; i++) {
            const size_t *cut = shares_cut(&s, i);
            double        each = (double)(cut[n] - cut[0]) / n;

            for (int k = 1; k < n; k++) {
                size_t want = best_cut(cut[0] + (size_t)(each * k), muon, cut[0], cut[n]);

                if (cut[k] != want || cut[k] < cut[k - 1])
                    ck_abort_msg("bucket %d, share %d of %d: %zu, not %zu", i, k, n,
                                 cut[k], want);
            }
        }
        shares_close(&s);
    }
}
END_TEST

START_TEST(each_number_is_one_ranks_own)
{
    const int n = crowds[_i];
    real     *all, *others, *own;

    need_model();
    all = calloc(model.n, sizeof *all);
    others = malloc(model.n * sizeof *others);
    own = malloc(model.n * sizeof *own);
    for (int mine = 0; mine < n; mine++) {
        struct shares s = shares_of(n, mine, false);
        size_t        count = 0, from, to;

        for (size_t i = 0; i < model.n; i++)
            others[i] = own[i] = 1;
        shares_zero_others(&s, others);
        shares_zero_own(&s, own);
        for (size_t i = 0; i < model.n; i++) {
            if (others[i] + own[i] != 1)
                ck_abort_msg("rank %d of %d: number %zu is both or neither", mine, n, i);
            all[i] += others[i];
            count += others[i] == 1;
        }
        for (int i = 0; i < s.buckets; i++)
            count -= shares_own(&s, i, &from, &to) ? to - from : 0;
        ck_assert_int_eq(count, 0);
        shares_close(&s);
    }
    for (size_t i = 0; i < model.n; i++)
        if (all[i] != 1)
            ck_abort_msg("number %zu has %g of %d ranks", i, (double)all[i], n);
    free(all), free(others), free(own);
}
END_TEST

int main(void)
{
    enum { CROWDS = sizeof crowds / sizeof *crowds };
    Suite *s = suite_create("shares");
    TCase *tc = tcase_create("shares");
    int    bad;

    tcase_add_loop_test(tc, buckets_are_whole_blocks_and_worth_a_message, 0, CROWDS);
    tcase_add_loop_test(tc, a_bucket_is_cut_into_equal_shares_and_no_matrix_of_muon_is, 0,
                        CROWDS);
    tcase_add_loop_test(tc, each_number_is_one_ranks_own, 0, CROWDS);
    suite_add_tcase(s, tc);
    bad = rig_run(s, 0);
    if (model.n)
        model_close(&model);
    return bad;
}
