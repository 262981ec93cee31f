/* A needle in a haystack (RULER, arXiv:2404.06654), small and in bytes: which mixers
 * still know a three-digit number, by where in the text it stood and how long the text
 * is. The first digit counts: the others follow from it by induction, without the key.
 * To name the first digit of any of the four needles is right in 1/4 + 3/4 x 1/10. Every
 * arm follows a layer that lets it see the token before. Not in the quick form.
 */
#include "tools/lab/panel.h"
#include "tools/lab/recall/recall.h"
#include "tools/lab/text/streams.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEPTHS = 5, LENGTHS = 3, NEEDLES = 4 };

static const double depths[DEPTHS] = {0, 0.25, 0.5, 0.75, 1};
static const int    lengths[LENGTHS] = {64, 128, 256};

static const char standard[] = "softmax+none,gla,mlstm";

struct setting {
    struct task task;
    int         tests;
};

/* Trained on questions for all needles at drawn depths; tested on one question. */
static struct setting settings(const struct lab *l)
{
    static const struct needle all = {NEEDLES, NEEDLES, -1};
    enum form                  form = lab_form(l);

    return (struct setting){
        .tests = form == LAB_FULL ? 256 : 8,
        .task = {.layers = 2, .width = 32, .heads = 2, .vocab = NEEDLE_VOCAB,
                 .batch = 8, .length = lengths[0], .steps = form == LAB_FULL ? 6000 : 5,
                 .lr = 5e-3, .weight_decay = 0.1, .clip = 1, .fill = needle_fill,
                 .user = &all},
    };
}

/* task_each: the first answer of every sequence. */
static void first_digit(void *user, int T, const int32_t *tokens, const int32_t *targets,
                        const int32_t *best)
{
    struct task_count *c = user;

    (void)tokens;
    for (int t = 0; t < T; t++)
        if (targets[t] >= 0) {
            c->asked++, c->right += best[t] == targets[t];
            return;
        }
}

/* The share of first digits right, (LENGTHS, DEPTHS). */
static enum fail cell(const struct panel *p, struct lab *l, int arm, uint64_t seed,
                      const char *key, double *values, struct why *why)
{
    const struct setting *s = p->user;
    struct task           t = s->task;
    char                  list[192];
    struct model          m;
    enum fail             err;

    snprintf(list, sizeof list, RECALL_SHIFT "/%s", p->arm[arm]);
    t.mixers = list, t.seed = seed;
    if ((err = task_train(&t, &m, l, key, 0.8, why)))
        return err;
    for (int i = 0; !err && i < LENGTHS * DEPTHS; i++) {
        struct needle     one = {NEEDLES, 1, depths[i % DEPTHS]};
        struct task_count c = {0};

        t.user = &one;
        err = task_test(&t, &m, lengths[i / DEPTHS], s->tests, first_digit, &c, why);
        values[i] = task_accuracy(&c);
    }
    model_close(&m);
    return err;
}

/* The mean over depths at one length. */
static double over_depths(const struct panel *p, int arm, int length)
{
    double sum = 0;

    for (int i = 0; i < DEPTHS; i++)
        sum += panel_mean(p, arm, length * DEPTHS + i);
    return sum / DEPTHS;
}

/* The arm of full attention, or -1. */
static int full_attention(const struct panel *p)
{
    for (int a = 0; a < p->arms; a++)
        if (!strcmp(p->arm[a], "softmax") || !strncmp(p->arm[a], "softmax+", 8))
            return a;
    return -1;
}

static const double any_needle = 0.25 + 0.75 / 10;

static const struct lab_claim claims[] = {
    {"attention", "after equal training full attention finds more needles than others",
     "MetaLA: LLaMA2 52.3, HGRN2 4.8, MetaLA 9.0", "softmax; all the others",
     "first digits right at the trained length", ANSWER_MORE, 0.05,
     "full attention at 0.95 there"},
    {"longer", "needles are found in texts four times as long as those trained on", NULL,
     "all arms", "first digits right at four times the length", ANSWER_ABOVE, 0.9,
     "the arm at 0.95 at the trained length"},
    {0},
};

/* Of every seed the mean over depths at one length. */
static double *seeds_of(const struct panel *p, int arm, int at, double *x)
{
    double one[LAB_SEEDS];

    for (int s = 0; s < p->seeds; s++)
        x[s] = 0;
    for (int i = 0; i < DEPTHS; i++) {
        panel_seeds(p, arm, at * DEPTHS + i, one);
        for (int s = 0; s < p->seeds; s++)
            x[s] += one[s] / DEPTHS;
    }
    return x;
}

static void judge_attention(const struct panel *p, struct lab *l, int full)
{
    struct finding all[PANEL_ARMS];
    double         x[LAB_SEEDS], y[LAB_SEEDS];
    int            n = 0, rival = -1;
    char           measured[400];

    seeds_of(p, full, 0, y);
    for (int a = 0; a < p->arms; a++)
        if (a != full) {
            all[n++] = find_more(seeds_of(p, a, 0, x), y, p->seeds, 0.05);
            if (rival < 0 || over_depths(p, a, 0) > over_depths(p, rival, 0))
                rival = a;
        }
    if (!n)
        return;
    all[0] = find_all(all, n);
    gate_learnt(&all[0], p->arm[full], y, p->seeds, 0.95, INFINITY);
    snprintf(measured, sizeof measured, "%s %.3f, %s %.3f over all depths of %d bytes",
             p->arm[full], over_depths(p, full, 0), p->arm[rival],
             over_depths(p, rival, 0), lengths[0]);
    lab_trained(l, "attention", &all[0], measured,
                "first digits right; 0.325 by any of the needles; 0.05 counts as more");
}

static void judge(const struct panel *p, struct lab *l)
{
    int            full = full_attention(p), best = 0;
    double         x[LAB_SEEDS];
    struct finding f;
    char           measured[400];

    for (int a = 0; a < p->arms; a++)
        if (over_depths(p, a, LENGTHS - 1) > over_depths(p, best, LENGTHS - 1))
            best = a;
    if (full >= 0)
        judge_attention(p, l, full);
    f = find_above(seeds_of(p, best, LENGTHS - 1, x), p->seeds, 0.9);
    of_several(&f, p->arms);
    gate_learnt(&f, p->arm[best], seeds_of(p, best, 0, x), p->seeds, 0.95, INFINITY);
    snprintf(measured, sizeof measured, "%s %.3f at %d bytes, %.3f at %d", p->arm[best],
             over_depths(p, best, 0), lengths[0], over_depths(p, best, LENGTHS - 1),
             lengths[LENGTHS - 1]);
    lab_trained(l, "longer", &f, measured,
                "first digits right of the best arm there, above 0.9");
}

/* Table and chart of each length, from the cells of one run. */
static enum fail show(const struct panel *all, struct lab *l, struct why *why)
{
    const struct chart_line guess = {"any needle's", any_needle};
    char                           title[96], name[32];
    enum fail                      err = FAIL_NONE;

    for (int i = 0; !err && i < LENGTHS; i++) {
        struct panel p = *all;

        snprintf(title, sizeof title, "needles in %d bytes%s: first digits right, by "
                 "depth", lengths[i], i ? "" : ", the training length");
        snprintf(name, sizeof name, "niah-%d", lengths[i]);
        p.title = title, p.name = name, p.from = i * DEPTHS;
        panel_table(&p, l, &guess, 1);
        err = panel_chart(&p, l, &guess, 1, why);
    }
    return err;
}

static enum fail run(struct lab *l, struct why *why)
{
    struct setting    s = settings(l);
    struct panel_arms arms;
    struct panel      p = {.name = "niah", .xlabel = "depth: 0 first, 1 last",
                           .ylabel = "first digits right", .arm = arms.name, .n = DEPTHS,
                           .x = depths, .cell = cell, .user = &s,
                           .task = &s.task};
    enum fail         err = panel_list(&arms, l, standard, &s.task, why);

    if (lab_form(l) == LAB_QUICK)
        return err;                     // 6000 steps at least are no quick form's
    p.arms = arms.n;
    if (!err)
        err = panel_open(&p, l, why);
    if (!err)
        err = panel_run(&p, l, why);
    if (!err)
        err = show(&p, l, why);
    if (!err)
        judge(&p, l);
    panel_close(&p);
    return err;
}

const struct experiment experiment_niah = {
    .name    = "niah",
    .claim   = "after equal training full attention finds needles that fixed "
               "states do not",
    .paper   = "RULER, arXiv:2404.06654; MetaLA, arXiv:2411.10741",
    .columns =
        "a000,a025,a050,a075,a100,b000,b025,b050,b075,b100,c000,c025,c050,c075,c100",
    .seeds   = 12,
    .run     = run,
    .arch    = true,
    .claims  = claims,
    .at      = "2 layers of width 32, 6000 steps of 8 x 64 bytes",
};
