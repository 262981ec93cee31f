/* Selective RoPE (arXiv:2511.17388): a state that the input turns.
 *
 * One gla layer without a position encoding, with rope, and with srope on parity and Z3,
 * trained on short words and tested on words up to eight times as long; S3 as the
 * control, of which turns in a plane can follow the sign and no more, since they commute;
 * attention copying strings longer than those trained on; and gla predicting stories with
 * each encoding. In the quick form parity alone.
 *
 * A turn that is learned as a free number is off by a little, and the errors add up: how
 * far parity is followed is a matter of the start. With increments that saturate at none
 * and at half a turn (act = half, weft's own) it is less so: both from many starts.
 *
 * On development seeds words are learned at two rates; the paper searches a grid of four.
 */
#include "tools/lab/groups/tracking.h"
#include "tools/lab/panel.h"
#include "tools/lab/recall/strings.h"
#include "tools/lab/text/ablation.h"

#include <math.h>
#include <stdio.h>

enum { NONE, ROPE, SROPE, ENCODINGS };
enum { DRIFTS, SATURATED };                     // arms of DRIFT
enum { PARITY, Z3, S3, COPY, DRIFT, PANELS };
enum { TEXT = 8, TEXTS = 2, BITS = TRACK_RANGES };      // claims from there on; a column
enum { RATES = 2, MOST = RATES * ENCODINGS };
enum { STARTS = 5, COPIES = 7 };            // of DRIFT for one of the others; of COPY

#define FREE "gla+srope(base=1,gate=0,act=none,rank=8)"
#define SATURATES "gla+srope(base=1,gate=0,act=half,rank=8)"
#define PUBLISHED "softmax+srope(temps=rfa,max=0.25,skip_conv=1,act=none)"

/* What is trained, by its name in the table; as many arms again at the other rate. */
static const struct arms {
    int         n;
    const char *name[MOST], *mixers[MOST];
    double      lr[MOST];
} words_arms = {
    3,
    {"gla+none", "gla+rope", FREE, "gla+none, lr 0.04", "gla+rope, lr 0.04",
     "gla+srope(act=none), lr 0.04"},
    {"gla+none", "gla+rope", FREE, "gla+none", "gla+rope", FREE},
    {2e-2, 2e-2, 2e-2, 4e-2, 4e-2, 4e-2},
}, copy_arms = {
    3, {"softmax+none", "softmax+rope", PUBLISHED},
    {"softmax+none", "softmax+rope", PUBLISHED}, {3e-3, 3e-3, 3e-3},
}, drift_arms = {
    2, {FREE, SATURATES, "gla+srope(act=none), lr 0.04", "gla+srope(act=half), lr 0.02"},
    {FREE, SATURATES, FREE, SATURATES}, {2e-2, 4e-2, 4e-2, 2e-2},
};

struct setting {
    const struct arms *arms;
    struct group group;
    struct task  task;
    int          tests;
    double       guess;
};

/* ---- words ------------------------------------------------------------------------ */

static struct setting for_words(const struct lab *l, const char *group)
{
    struct setting s = {.tests = lab_form(l) == LAB_FULL ? 512 : 128};

    group_make(&s.group, group);
    s.guess = group_guess(&s.group);
    s.task = (struct task){.layers = 1, .width = 32, .heads = 2, .batch = 16,
                           .length = 24, .steps = 2000, .clip = 1};
    return s;
}

static enum fail words_cell(const struct panel *p, struct lab *l, int arm, uint64_t seed,
                            const char *key, double *values, struct why *why)
{
    const struct setting *s = p->user;
    struct task           t = s->task;

    t.mixers = s->arms->mixers[arm], t.lr = s->arms->lr[arm], t.seed = seed;
    track_nothing(values);
    return track_words(&t, &s->group, s->tests, l, key, values, why);
}

/* ---- copying ---------------------------------------------------------------------- */

enum { LETTERS = 26, SHORTEST = 4, LONGEST = 16 };

static struct setting for_copying(const struct lab *l)
{
    static const struct strings packed = {LETTERS, SHORTEST, LONGEST};

    (void)l;
    return (struct setting){
        .tests = 256,
        .guess = 1.0 / LETTERS,
        .task = {.layers = 2, .width = 64, .heads = 4, .mlp = 128,
                 .vocab = STRING_LETTERS + LETTERS, .batch = 8, .length = 96,
                 .steps = 1600, .lr = 3e-3, .weight_decay = 0.1, .clip = 1,
                 .fill = strings_fill, .user = &packed},
    };
}

/* The share of letters copied right from strings of track_times of LONGEST letters. */
static enum fail copy_cell(const struct panel *p, struct lab *l, int arm, uint64_t seed,
                           const char *key, double *values, struct why *why)
{
    const struct setting *s = p->user;
    struct task           t = s->task;
    struct model          m;
    enum fail             err;

    t.mixers = p->arm[arm], t.seed = seed;
    track_nothing(values);
    if ((err = task_train(&t, &m, l, key, 0.9, why)))
        return err;
    for (int i = 0; !err && i < TRACK_RANGES; i++) {
        int               n = (int)(track_times[i] * LONGEST);
        struct strings    one = {LETTERS, n, n};
        struct task_count c = {0};

        t.user = &one;
        err = task_test(&t, &m, string_tokens(n), s->tests, task_count_each, &c, why);
        values[i] = task_accuracy(&c);
    }
    model_close(&m);
    return err;
}

/* ---- verdicts --------------------------------------------------------------------- */

static const double enough = 0.9;

/* Of an encoding's rates the one with the best mean. */
static int best(const struct panel *p, int arm, int range)
{
    const struct setting *s = p->user;
    int                   found = arm;

    for (int i = arm; i < p->arms; i += s->arms->n)
        if (panel_mean(p, i, range) > panel_mean(p, found, range))
            found = i;
    return found;
}

/* An encoding's answers right in a range, seed by seed. */
static double *seeds_of(const struct panel *p, int arm, int range, double *x)
{
    return panel_seeds(p, best(p, arm, range), range, x);
}

/* The better of none and rope, seed by seed. */
static double *others_of(const struct panel *p, int range, double *x)
{
    double rope[LAB_SEEDS];

    seeds_of(p, NONE, range, x);
    seeds_of(p, ROPE, range, rope);
    for (int s = 0; s < p->seeds; s++)
        x[s] = fmax(x[s], rope[s]);
    return x;
}

static void must_have_learnt(const struct panel *p, int arm, int range, const char *name,
                             struct finding *f)
{
    const struct setting *s = p->user;
    double                x[LAB_SEEDS];

    gate_learnt(f, name, panel_seeds(p, best(p, arm, range), TRACK_ONCE, x), p->seeds,
                0.95, s->guess);
}

/* "none 0.49, rope 0.51, srope 0.99 (5 of 6 seeds at 0.9)" at a range. */
static void tell(const struct panel *p, int range, char *buf, size_t cap)
{
    char a[32], b[32], c[32];
    int  mine = best(p, SROPE, range);

    snprintf(buf, cap, "none %s, rope %s, srope %s (%d of %d seeds at %.1f)",
             panel_text(p, best(p, NONE, range), range, a),
             panel_text(p, best(p, ROPE, range), range, b),
             panel_text(p, mine, range, c), panel_reach(p, mine, range, enough), p->seeds,
             enough);
}

#define WITHIN "srope at 0.95 within the training length, or 3 standard errors above " \
               "guessing"

static const struct lab_claim claims[] = {
    TRACK_BY_HAND,
    TRACK_PARTS,
    {"parity", "one gla layer follows parity beyond the training length with srope, not "
     "with none or rope", "0.935 at 512, trained at 128", "gla + none, rope, srope",
     "running products right from once to twice the training length", ANSWER_MORE, 0.1,
     WITHIN},
    {"half", "with increments that saturate at half a turn (weft's own) it follows "
     "parity to four times the length from most starts", NULL, "gla + srope(act=half)",
     "of 50 starts those with 0.9 of the running products right from twice to four "
     "times the training length", ANSWER_SHARE, 0.5, NULL},
    {"drift", "increments that are free numbers drift: there fewer are right", NULL,
     "gla + srope, srope(act=half), 50 starts",
     "running products right from twice to four times the training length", ANSWER_MORE,
     0.02, WITHIN ", both"},
    {"z3", "one gla layer follows z3 far beyond the training length with srope, not with "
     "none or rope", "0.92 in DeltaNet", "gla + none, rope, srope",
     "running products right from twice to four times the training length", ANSWER_MORE,
     0.1, WITHIN},
    {"s3", "turns in a plane commute: one gla layer cannot follow s3 even with srope",
     NULL, "gla + none, rope, srope",
     "running products right from twice to four times the training length", ANSWER_BELOW,
     0.1, NULL},
    {"copy", "attention copies strings twice as long as trained on better with srope "
     "than with none or rope", "0.96 and 0.11 at eight times",
     "softmax + none, rope, srope(temps=rfa,max=0.25,skip_conv=1,act=none)",
     "letters right", ANSWER_MORE, 0.05, WITHIN},
    [TEXT] = {"text", "gla predicts text better with srope than with rope",
     "better language modelling", "gla + rope, srope(bias=1)", "bits per byte of stories",
     ANSWER_MORE, 0.005, ABLATION_GATE},
    {"plain", "and than without an encoding", NULL, "gla + none, srope(bias=1)",
     "bits per byte of stories", ANSWER_MORE, 0.005, ABLATION_GATE},
    {0},
};

/* srope more than none and rope in a range. */
static void judge_more(const struct panel *p, struct lab *l, const char *name, int range,
                       double least, const char *yardstick)
{
    double         x[LAB_SEEDS], y[LAB_SEEDS];
    char           measured[240];
    struct finding f = find_more(others_of(p, range, x), seeds_of(p, SROPE, range, y),
                                 p->seeds, least);

    must_have_learnt(p, SROPE, range, "srope", &f);
    tell(p, range, measured, sizeof measured);
    lab_trained(l, name, &f, measured, yardstick);
}

/* What saturates, by itself and beside what is free. */
static void judge_drift(const struct panel *p, struct lab *l)
{
    const int       range = TRACK_FOURFOLD;
    const int       half = best(p, SATURATED, range), open = best(p, DRIFTS, range);
    const int       k = panel_reach(p, half, range, enough);
    struct interval i = share_interval(k, p->seeds);
    double          x[LAB_SEEDS], y[LAB_SEEDS];
    char            measured[240], a[32], b[32];
    struct finding  most = find_share(k, p->seeds, 0.5);
    struct finding  more = find_more(panel_seeds(p, open, range, x),
                                     panel_seeds(p, half, range, y), p->seeds, 0.02);

    must_have_learnt(p, DRIFTS, range, "free", &more);
    must_have_learnt(p, SATURATED, range, "saturating", &more);
    snprintf(measured, sizeof measured, "%d of %d starts (%.2f to %.2f)", k, p->seeds,
             i.low, i.high);
    lab_trained(l, "half", &most, measured, "more than half of the starts; guessing 0.5");
    snprintf(measured, sizeof measured, "free %s (%d of %d starts at %.1f), saturating "
             "%s (%d)", panel_text(p, open, range, a),
             panel_reach(p, open, range, enough), p->seeds, enough,
             panel_text(p, half, range, b), k);
    lab_trained(l, "drift", &more, measured, "start by start; refuted below 0.02");
}

/* No more of S3 than commutes. */
static void judge_s3(const struct panel *p, const struct group *g, struct lab *l)
{
    const int      range = TRACK_FOURFOLD;
    double         x[LAB_SEEDS], y[LAB_SEEDS];
    char           measured[240], yardstick[120];
    struct finding f[2] = {
        find_below(others_of(p, range, x), p->seeds, group_guess(g) + 0.1),
        find_below(seeds_of(p, SROPE, range, y), p->seeds, group_unordered(g) + 0.1),
    };

    f[0] = find_all(f, 2);
    tell(p, range, measured, sizeof measured);
    snprintf(yardstick, sizeof yardstick, "none and rope below guessing (%.3f) + 0.1, "
             "srope below all that commutes (%.3f) + 0.1", group_guess(g),
             group_unordered(g));
    lab_trained(l, "s3", &f[0], measured, yardstick);
}

static void judge(const struct panel *p, const struct setting *s, int which,
                  struct lab *l)
{
    if (which == COPY)
        judge_more(p, l, "copy", TRACK_TWICE, 0.05, "more than either, seed by seed; "
                   "refuted below 0.05; guessing 0.038");
    if (which == PARITY)
        judge_more(p, l, "parity", TRACK_TWICE, 0.1, "more than either, seed by seed; "
                   "refuted below 0.1; guessing 0.5");
    if (which == DRIFT)
        judge_drift(p, l);
    if (which == Z3)
        judge_more(p, l, "z3", TRACK_FOURFOLD, 0.1, "more than either, seed by seed; "
                   "refuted below 0.1; guessing 0.333");
    if (which == S3)
        judge_s3(p, &s->group, l);
}

static void paper_says(struct lab *l, int panel)
{
    static const char *const figures[PANELS] = {
        "paper, from 128 to 512 tokens, width 384: none and rope fail, srope 0.935",
        "paper: none and rope fail, srope in DeltaNet about 0.92",
        "theory: no turning in a plane can; the sign alone is right in 0.333",
        "paper, from 64 to 512 letters, 4 layers of width 512: rope 0.11, srope 0.96",
        "weft's own: increments that saturate at none and at half a turn",
    };

    lab_say(l, "%s", figures[panel]);
}

/* In language modelling, with each encoding. Without bias the increments begin at 0, and
 * srope as no encoding at all; 1500 steps do not bring it far from there. */
static enum fail run_text(struct lab *l, struct why *why)
{
    static const char *const arms[] = {"gla+none", "gla+rope", "gla+srope(bias=1)"};
    static const struct ablation_pair pairs[TEXTS] = {
        {{ROPE}, {SROPE}}, {{NONE}, {SROPE}},
    };
    static const int starts[] = {7, 7, 7};

    return ablation_run(&(struct ablation){
        .name = "srope-text", .title = "gla by its encoding, bits per byte", .arm = arms,
        .arms = 3, .starts = starts, .column = BITS, .claims = claims + TEXT,
        .pairs = pairs, .n = TEXTS}, l, why);
}

/* ---- the whole -------------------------------------------------------------------- */

static enum fail one_panel(struct panel *p, const struct setting *s, int which,
                           struct lab *l, struct why *why)
{
    struct chart_line chance = {"guessing", s->guess};
    enum fail         err = panel_run(p, l, why);

    if (err)
        return err;
    panel_table(p, l, &chance, 1);
    paper_says(l, which);
    judge(p, s, which, l);
    return panel_chart(p, l, &chance, 1, why);
}

/* Fewer where arms are far apart, more where a start may fail. */
static int seeds_for(const struct lab *l, int panel)
{
    return panel == DRIFT ? STARTS * lab_seeds(l)
                          : lab_starts(l, panel == COPY ? COPIES : 0);
}

static enum fail run(struct lab *l, struct why *why)
{
    static const char *const groups[PANELS] = {"parity", "z3", "s3", [DRIFT] = "parity"};
    static const char *const files[PANELS] = {"srope-parity", "srope-z3", "srope-s3",
                                              "srope-copy", "srope-drift"};
    static const struct arms *const arms[PANELS] = {&words_arms, &words_arms, &words_arms,
                                                    &copy_arms, &drift_arms};
    static const char *const titles[] = {
        "parity: running products right, by position",
        "Z3: running products right, by position",
        "S3: running products right, by position",
        "copying: letters right, by length",
        "parity by free and by saturating turns: running products right, by position",
    };
    const int      panels = lab_form(l) == LAB_FULL ? PANELS : PARITY + 1;
    struct setting s[PANELS];
    struct panel   p[PANELS] = {{0}};
    enum fail      err = track_exact(l, why);

    if (!err)
        err = track_parts(l, why);
    if (err || lab_form(l) == LAB_BRIEF)
        return err;
    for (int i = 0; i < panels; i++) {
        bool sweep = i != COPY && lab_develops(l);

        s[i] = i == COPY ? for_copying(l) : for_words(l, groups[i]);
        s[i].arms = arms[i];
        p[i] = (struct panel){.title = titles[i], .name = files[i], .user = &s[i],
                              .arm = s[i].arms->name, .lr = s[i].arms->lr,
                              .arms = s[i].arms->n * (sweep ? RATES : 1),
                              .seeds = seeds_for(l, i),
                              .n = TRACK_RANGES,
                              .x = track_times, .logx = true,
                              .xlabel = "up to ... times the training length",
                              .ylabel = "accuracy", .task = &s[i].task,
                              .cell = i == COPY ? copy_cell : words_cell};
        err = err ? err : panel_open(&p[i], l, why);
    }
    for (int i = 0; i < panels; i++)
        err = err ? err : one_panel(&p[i], &s[i], i, l, why);
    for (int i = 0; i < PANELS; i++)
        panel_close(&p[i]);
    return err ? err : run_text(l, why);
}

const struct experiment experiment_srope = {
    .name    = "srope",
    .claim   = "one gla layer with Selective RoPE tracks parity and Z3 past the "
               "training length",
    .paper   = "Selective Rotary Position Embedding, arXiv:2511.17388",
    .columns = "quarter,half,once,twice,fourfold,eightfold,bits",
    .seeds   = 10,
    .quick   = 8,
    .run     = run,
    .exact   = true,
    .claims  = claims,
    .at      = "words: 1 layer of width 32, 2000 steps of 16 x 24 tokens; copying: 2 "
               "layers of width 64, 1600 steps of 8 x 96; text: " ABLATION_AT,
};
