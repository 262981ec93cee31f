/* Word problems of groups: which mixers track a state, and for how long.
 *
 * One layer, trained on words of 24 tokens and tested on words of 192. Gates between 0
 * and 1 can only forget, and softmax only averages; a state that turns (Selective RoPE)
 * or is reflected (eigenvalues down to -1) can follow parity and Z3. Turns in a plane
 * commute, so of S3 they can follow no more than the sign, and of A5 nothing.
 */
#include "tools/lab/groups/tracking.h"
#include "tools/lab/panel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GROUPS = 4, Z3 = 1, STARTS = 2 };  // of Z3, for one of the others

static const char *const group_names[GROUPS] = {"parity", "z3", "s3", "a5"};

static const char standard[] =
    "softmax,gla,gla+srope(base=1,gate=0,act=none,rank=8),"
    "gla+srope(base=1,gate=0,act=half,rank=8),"
    "normattn(eta=exp)+srope(base=1,gate=0,act=none,rank=8),deltanet(neg_eig=1)";

struct words {
    struct group group;
    struct task  task;
    int          tests;
};

static enum fail cell(const struct panel *p, struct lab *l, int arm, uint64_t seed,
                      const char *key, double *values, struct why *why)
{
    const struct words *w = p->user;
    struct task         t = w->task;

    t.mixers = p->arm[arm];
    t.seed = seed;
    return track_words(&t, &w->group, w->tests, l, key, values, why);
}

static struct words settings(const struct lab *l, const char *group)
{
    struct words w = {.tests = lab_form(l) == LAB_FULL ? 512 : 128};

    group_make(&w.group, group);
    w.task = (struct task){.layers = 1, .width = 32, .heads = 2, .batch = 16,
                           .length = 24, .steps = 2000, .lr = 2e-2,
                           .vocab = group_vocab(&w.group), .clip = 1};
    return w;
}

/* Does its state turn or reflect, instead of only fading? */
static bool turns(const char *arm)
{
    return strstr(arm, "srope") || strstr(arm, "neg_eig=1");
}

static const struct lab_claim claims[] = {
    TRACK_BY_HAND,
    {"parity", "parity up to four times the training length: one layer that turns or "
     "reflects can, layers that only fade cannot", "0.935 with srope", "all arms",
     "seeds with a turning arm at 0.9 and no fading one 0.1 above guessing",
     ANSWER_SHARE, 0.5, "a turning arm at 0.95 within the training length"},
    {"z3", "z3 up to four times the training length: one layer that turns or reflects "
     "can, layers that only fade cannot", "0.92 with srope in DeltaNet", "all arms",
     "seeds with a turning arm at 0.9 and no fading one 0.1 above guessing",
     ANSWER_SHARE, 0.5, "a turning arm at 0.95 within the training length"},
    {"s3", "control: s3, which does not commute, is beyond one layer of any arm", NULL,
     "all arms",
     "seeds with no fading arm 0.1 above guessing, none 0.1 above all that commutes",
     ANSWER_SHARE, 0.5, NULL},
    {"a5", "control: a5, which does not commute, is beyond one layer of any arm", NULL,
     "all arms",
     "seeds with no fading arm 0.1 above guessing, none 0.1 above all that commutes",
     ANSWER_SHARE, 0.5, NULL},
    {0},
};

/* Of one seed, the most that an arm of those that turn, or of the others, gets right. */
static double most(const struct panel *p, bool turning, int range, int seed)
{
    double x[LAB_SEEDS], best = NAN;

    for (int a = 0; a < p->arms; a++)
        if (turns(p->arm[a]) == turning)
            best = fmax(best, panel_seeds(p, a, range, x)[seed]);
    return best;
}

/* Parity and Z3 commute: turns can follow them, fading cannot. S3 and A5 do not: no arm
 * here should, beyond what of them commutes. The paper trains on 128 and tests on 512:
 * four times. */
static void judge(const struct panel *p, const struct words *w, struct lab *l)
{
    const bool   commutes = group_commutes(&w->group);
    const double guess = group_guess(&w->group), unordered = group_unordered(&w->group);
    double       can[LAB_SEEDS], cannot[LAB_SEEDS], once[LAB_SEEDS];
    char         measured[320], yardstick[128];
    int          k = 0;

    for (int s = 0; s < p->seeds; s++) {
        can[s] = most(p, true, TRACK_FOURFOLD, s);
        cannot[s] = most(p, false, TRACK_FOURFOLD, s);
        once[s] = most(p, true, TRACK_ONCE, s);
        k += !(cannot[s] >= guess + 0.1) &&     // NAN: no arm of this kind
             (commutes ? can[s] >= 0.9 : !(can[s] >= unordered + 0.1));
    }
    struct finding  f = find_share(k, p->seeds, 0.5);
    struct interval i = share_interval(k, p->seeds);

    if (commutes)
        gate_learnt(&f, "turning arms", once, p->seeds, 0.95, INFINITY);
    snprintf(measured, sizeof measured, "%d of %d seeds (%.2f to %.2f); in the mean the "
             "best turning arm %.3f, the best fading one %.3f, from %d to %d tokens", k,
             p->seeds, i.low, i.high, mean_of(can, p->seeds).mean,
             mean_of(cannot, p->seeds).mean, 2 * w->task.length, 4 * w->task.length);
    snprintf(yardstick, sizeof yardstick, commutes
             ? "more than half of the seeds; 0.9 can, guessing (%.3f) + 0.1 cannot"
             : "more than half; guessing %.3f, all that commutes %.3f, + 0.1",
             guess, unordered);
    lab_trained(l, w->group.name, &f, measured, yardstick);
}

static enum fail one_group(struct panel *p, const struct words *w, struct lab *l,
                           struct why *why)
{
    struct chart_line chance = {"guessing", group_guess(&w->group)};
    enum fail         err = panel_run(p, l, why);

    if (err)
        return err;
    panel_table(p, l, &chance, 1);
    judge(p, w, l);
    return panel_chart(p, l, &chance, 1, why);
}

static enum fail run(struct lab *l, struct why *why)
{
    struct words      w[GROUPS];
    struct panel      p[GROUPS];
    struct panel_arms arms;
    char              title[GROUPS][64], file[GROUPS][32];
    enum fail         err = track_exact(l, why);

    if (err || lab_form(l) != LAB_FULL)
        return err;                     // srope's quick form has parity
    for (int i = 0; i < GROUPS; i++) {
        w[i] = settings(l, group_names[i]);
        snprintf(title[i], sizeof title[i], "%s: running products right, by position",
                 group_names[i]);
        snprintf(file[i], sizeof file[i], "words-%s", group_names[i]);
        p[i] = (struct panel){.title = title[i], .name = file[i], .arm = arms.name,
                              .n = TRACK_RANGES, .x = track_times, .logx = true,
                              .xlabel = "up to ... times the training length",
                              .ylabel = "accuracy", .cell = cell, .user = &w[i],
                              .seeds = i == Z3 ? STARTS * lab_seeds(l) : 0,
                              .task = &w[i].task};
    }
    err = panel_list(&arms, l, standard, &w[0].task, why);
    for (int i = 0; i < GROUPS; i++) {
        p[i].arms = arms.n;
        err = err ? err : panel_open(&p[i], l, why);
    }
    for (int i = 0; i < GROUPS; i++)
        err = err ? err : one_group(&p[i], &w[i], l, why);
    for (int i = 0; i < GROUPS; i++)
        panel_close(&p[i]);
    return err;
}

const struct experiment experiment_words = {
    .name    = "words",
    .claim   = "states that turn or reflect follow parity and Z3 past the "
               "training length",
    .paper   = "word problems of groups, arXiv:2404.08819; arXiv:2511.17388; "
               "arXiv:2411.12537",
    .columns = "quarter,half,once,twice,fourfold,eightfold",
    .seeds   = 10,
    .run     = run,
    .exact   = true,
    .arch    = true,
    .claims  = claims,
    .at      = "1 layer of width 32, 2000 steps of 16 x 24 tokens",
};
