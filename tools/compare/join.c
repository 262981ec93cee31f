/* A comparison that several processes make together, on one machine or on many that share
 * OUT. Each claims a trial that nobody has (data/base/claim.h), runs it to its result and
 * looks again; one that a dead process left goes on from its checkpoint. */
#include "tools/compare/compare.h"

#include "data/base/claim.h"
#include "data/base/clock.h"
#include "data/base/file.h"

#include <limits.h>
#include <time.h>

/* What a look at all trials found. */
struct look {
    bool ran;           // one was run: others may be ready now
    bool waits;         // others run some
};

/* Run t, unless it is done or another's. */
static enum fail try_trial(struct comparison *c, struct trial *t, struct look *l,
                           struct why *why)
{
    char          parent[PATH_MAX];
    struct claim *mine = NULL;
    enum fail     err;

    if (t->done)
        return FAIL_NONE;
    if (result_read(t)) {
        view_end(c, t);
        return FAIL_NONE;
    }
    if (!c->joined) {
        l->ran = true;
        return trial_run(c, t, why);
    }
    err = dir_make(path_join(parent, sizeof parent, c->out, c->arch[t->arch].slug), why);
    if (!err)
        err = claim_try(t->dir, &mine, why);
    if (err)
        return err;
    l->waits |= !mine;
    l->ran |= mine != NULL;
    if (!mine)
        return FAIL_NONE;
    err = trial_run(c, t, why);         // looks again whether it is done
    if (t->done)
        claim_finish(mine);
    else
        claim_release(mine);
    return err;
}

/* Is a's learning rate chosen? Otherwise the rates of its sweep that are ready are tried,
 * and further ones while the best is an edge. */
static enum fail try_sweep(struct comparison *c, struct arch *a, struct look *l,
                           bool *chosen, struct why *why)
{
    enum fail err = FAIL_NONE;
    int       beyond;

    *chosen = true;
    if (!c->sweep)
        return FAIL_NONE;
    do {
        for (int k = a->low; !err && k <= a->high; k++) {
            err = try_trial(c, &a->sweep[k], l, why);
            *chosen &= a->sweep[k].done;
        }
        beyond = !err && *chosen ? sweep_extend(a) : 0;
        c->trials += beyond;
    } while (beyond);
    if (!err && *chosen)
        sweep_choose(a, c->seeds);
    return err;
}

static enum fail look_once(struct comparison *c, struct look *l, struct why *why)
{
    bool      chosen[MOST_ARCHS];
    enum fail err = FAIL_NONE;

    for (int i = 0; !err && i < c->n; i++)
        err = try_sweep(c, &c->arch[i], l, &chosen[i], why);
    for (int k = 0; k < c->seeds; k++)
        for (int i = 0; !err && i < c->n; i++)
            if (chosen[i])
                err = try_trial(c, &c->arch[i].trial[k], l, why);
    return err;
}

/* Claims of processes that died when their work was done: nobody claims it again. */
static void sweep_claims(const struct comparison *c)
{
    char path[PATH_MAX];

    claim_sweep(c->out);
    for (int i = 0; i < c->n; i++)
        claim_sweep(path_join(path, sizeof path, c->out, c->arch[i].slug));
}

enum fail join_run(struct comparison *c, struct why *why)
{
    struct look l = {.ran = true};
    enum fail   err = FAIL_NONE;

    while (!err && (l.ran || l.waits)) {
        l = (struct look){0};
        err = look_once(c, &l, why);
        if (!err && !l.ran && l.waits)
            nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
        if (!err && interrupted)
            err = FAIL_INTERRUPTED;
    }
    if (!err && c->joined)
        sweep_claims(c);
    live_clear(&c->live);
    return err;
}
