/* A needle in a haystack (RULER, arXiv:2404.06654), small and in bytes: which mixers
 * still know a three-digit number, by where in the text it stood and how long the text
 * is.
 */
#include "tools/lab/panel.h"
#include "tools/lab/text/streams.h"

#include <stdio.h>
#include <string.h>

enum { DEPTHS = 5, LENGTHS = 3, NEEDLES = 4 };

static const double depths[DEPTHS] = {0, 0.25, 0.5, 0.75, 1};
static const int    lengths[LENGTHS] = {128, 256, 512};

static const char standard[] = "softmax,softmax(window=32)/mlstm,gla(conv=4),deltanet";

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
        .tests = form == LAB_FULL ? 256 : form == LAB_QUICK ? 64 : 8,
        .task = {.layers = 2, .width = 64, .heads = 2, .mlp = 128, .vocab = NEEDLE_VOCAB,
                 .batch = form == LAB_FULL ? 32 : 16, .length = lengths[0],
                 .steps = form == LAB_FULL ? 4000 : form == LAB_QUICK ? 600 : 5,
                 .lr = 3e-3, .weight_decay = 0.1, .clip = 1, .fill = needle_fill,
                 .user = &all},
    };
}

/* The share of digits right, (LENGTHS, DEPTHS). */
static enum fail cell(const struct panel *p, struct lab *l, int arm, uint64_t seed,
                      const char *key, double *values, struct why *why)
{
    const struct setting *s = p->user;
    struct task           t = s->task;
    struct model          m;
    enum fail             err;

    t.mixers = p->arm[arm], t.seed = seed;
    if ((err = task_train(&t, &m, l, key, 0.8, why)))
        return err;
    for (int i = 0; !err && i < LENGTHS * DEPTHS; i++) {
        struct needle     one = {NEEDLES, 1, depths[i % DEPTHS]};
        struct task_count c = {0};

        t.user = &one;
        err = task_test(&t, &m, lengths[i / DEPTHS], s->tests, task_count_each, &c, why);
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

static void judge(const struct panel *p, struct lab *l)
{
    int  full = full_attention(p), rival = -1, best = 0;
    char measured[400];

    for (int a = 0; a < p->arms; a++) {
        if (a != full && (rival < 0 || over_depths(p, a, 0) > over_depths(p, rival, 0)))
            rival = a;
        if (over_depths(p, a, LENGTHS - 1) > over_depths(p, best, LENGTHS - 1))
            best = a;
    }
    if (full >= 0 && rival >= 0) {
        snprintf(measured, sizeof measured,
                 "%s %.3f, %s %.3f over all depths of %d bytes", p->arm[full],
                 over_depths(p, full, 0), p->arm[rival], over_depths(p, rival, 0),
                 lengths[0]);
        lab_verdict(l, over_depths(p, full, 0) > over_depths(p, rival, 0) + 0.05,
                    "after equal training full attention finds more needles than "
                    "the others", measured,
                    "digits right; 0.1 by guessing; 0.05 counts as more");
    }
    snprintf(measured, sizeof measured, "%s %.3f at %d bytes, %.3f at %d", p->arm[best],
             over_depths(p, best, 0), lengths[0], over_depths(p, best, LENGTHS - 1),
             lengths[LENGTHS - 1]);
    lab_verdict(l, over_depths(p, best, LENGTHS - 1) >= 0.9,
                "needles are found in texts four times as long as those trained on",
                measured, "digits right, the best arm there; 0.9 counts as found");
}

/* Table and chart of each length, from the cells of one run. */
static enum fail show(const struct panel *all, struct lab *l, struct why *why)
{
    static const struct chart_line guess = {"guessing", 0.1};
    char                           title[96], name[32];
    enum fail                      err = FAIL_NONE;

    for (int i = 0; !err && i < LENGTHS; i++) {
        struct panel p = *all;

        snprintf(title, sizeof title, "needles in %d bytes%s: digits right, by depth",
                 lengths[i], i ? "" : ", the training length");
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
                           .ylabel = "digits right", .arm = arms.name, .n = DEPTHS,
                           .x = depths, .cell = cell, .user = &s,
                           .task = &s.task};
    enum fail         err = panel_list(&arms, l, standard, &s.task, why);

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
    .seeds   = 3,
    .run     = run,
    .arch    = true,
};
