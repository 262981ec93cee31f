/* SWAX (arXiv:2509.24552): windows and mLSTM in turn. Short windows make the mLSTM learn
 * to recall from afar, long ones serve what is near, windows drawn anew at every step
 * keep both.
 *
 * The long window is half the training length.
 *
 * Recall: facts are stated and asked for at distances uniform in their logarithm, all
 * within the long window, as nearly all that text depends on lies within the paper's. So
 * with long windows the mLSTM has nothing to learn, ever; with short ones it has. Asked
 * is from beyond all stacked windows, too, where only a state or full attention reaches,
 * in sequences longer than any trained on.
 *
 * Text: bits per byte of stories, by position in the sequence, not in the quick form. In
 * its first half all there is to see lies within the long window.
 *
 * The arms of one seed see the same data in the same order.
 */
#include "tools/lab/panel.h"
#include "tools/lab/text/ablation.h"
#include "tools/lab/text/corpus.h"
#include "tools/lab/text/streams.h"

#include <math.h>
#include <stdio.h>

/* Of text only the first TEXT, of recall in the quick form those before FULL. */
enum { SHORT, LONG, STOCHASTIC, TEXT, MLSTM = TEXT, WINDOWS, FULL, ARMS };
enum { DISTANCES = 9, WITHIN_TO = 4, BEYOND_FROM = 6, PLACES = 6 };
enum { ROOM = 32 };         // for the facts of a test, beside their distance

/* Columns: recall at each distance, its mean within the long window and beyond all
 * stacked; bits per byte at each range of positions, at those within the long window; the
 * floor. */
enum { WITHIN = DISTANCES, BEYOND, BITS, NEAR = BITS + PLACES, FLOOR, COLUMNS };

enum { LENGTH = 48, WIDE = LENGTH / 2, NARROW = 4 };     // tokens; windows

static const double distances[DISTANCES] = {1, 6, 12, 22, 30, 36, 50, 64, 80};
static const double places[PLACES] = {4, 8, 12, 24, 36, 48};    // ends of the ranges
static const char *const names[ARMS] = {
    "windows of 4 and mlstm", "windows of 24 and mlstm",
    "windows of 4 or 24, drawn, and mlstm", "mlstm alone", "windows of 24 alone",
    "full attention",
};
static const char *const mixers_of[ARMS] = {
    "softmax(window=4)/mlstm", "softmax(window=24)/mlstm", "softmax(window=24)/mlstm",
    "mlstm", "softmax(window=24)", "softmax",
};

struct setting {
    struct facts facts;
    struct task  recall, text;
    int          arms, tests;
    long         bytes, held_out;           // of text
};

static void settle(struct setting *s, enum form form)
{
    const bool whole = form == LAB_FULL, brief = form == LAB_BRIEF;

    *s = (struct setting){
        .arms = whole ? ARMS : FULL, .tests = whole ? 512 : 128,
        .bytes = whole ? 4000000 : 100000, .held_out = (whole ? 1024 : 64) * LENGTH,
        .facts = {.facts = 8, .keys = 8, .values = 4, .noise = 4,
                  .near = 1, .far = WIDE - 2},
    };
    s->recall = (struct task){
        .layers = 2, .width = 32, .heads = 2, .mlp = 64, .vocab = facts_vocab(&s->facts),
        .batch = 16, .length = LENGTH, .steps = brief ? 5 : 1600, .lr = 5e-3,
        .weight_decay = 0.1, .clip = 1, .window_short = NARROW, .fill = facts_fill,
        .user = &s->facts,
    };
    s->text = (struct task){
        .layers = 2, .width = 64, .heads = 2, .mlp = 192, .vocab = CORPUS_VOCAB,
        .batch = 16, .length = LENGTH, .steps = brief ? 5 : 1500, .lr = 5e-3,
        .weight_decay = 0.1, .clip = 1, .window_short = NARROW, .fill = corpus_fill,
    };
}

/* ---- cells ------------------------------------------------------------------------ */

/* The arm's mixers and windows in a task, and no value yet. */
static void prepare(struct task *t, int arm, uint64_t seed, double *values)
{
    t->mixers = mixers_of[arm], t->seed = seed;
    t->window_p = arm == STOCHASTIC ? 0.5 : 0;
    for (int i = 0; i < COLUMNS; i++)
        values[i] = NAN;
}

static double mean(const double *values, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += values[i];
    return sum / n;
}

static enum fail ask(const struct setting *s, struct task *t, const struct model *m,
                     double *values, struct why *why)
{
    enum fail err = FAIL_NONE;

    for (int i = 0; !err && i < DISTANCES; i++) {
        struct facts      at = s->facts;
        struct task_count count = {0};
        int               distance = (int)distances[i], room = distance + ROOM;

        at.near = at.far = distance;
        t->user = &at;
        err = task_test(t, m, room > LENGTH ? room : LENGTH, s->tests,
                        task_count_each, &count, why);
        values[i] = task_accuracy(&count);
    }
    values[WITHIN] = mean(values, WITHIN_TO);
    values[BEYOND] = mean(values + BEYOND_FROM, DISTANCES - BEYOND_FROM);
    return err;
}

static enum fail recall_cell(const struct panel *p, struct lab *l, int arm, uint64_t seed,
                             const char *key, double *values, struct why *why)
{
    const struct setting *s = p->user;
    struct task           t = s->recall;
    struct model          m;
    enum fail             err;

    prepare(&t, arm, seed, values);
    if ((err = task_train(&t, &m, l, key, 0.9, why)))
        return err;
    err = ask(s, &t, &m, values, why);
    model_close(&m);
    return err;
}

static enum fail score_text(const struct corpus *text, const struct model *m,
                            double *values, struct why *why)
{
    double    nats[LENGTH], bytes[LENGTH];
    enum fail err = corpus_score(text, m, LENGTH, nats, bytes, why);

    for (int i = 0; i < PLACES; i++)
        values[BITS + i] = corpus_bits(nats, bytes, i ? (int)places[i - 1] : 0,
                                       (int)places[i]);
    values[NEAR] = corpus_bits(nats, bytes, 0, WIDE);
    values[FLOOR] = text->floor;
    return err;
}

static enum fail text_cell(const struct panel *p, struct lab *l, int arm, uint64_t seed,
                           const char *key, double *values, struct why *why)
{
    const struct setting *s = p->user;
    struct task           t = s->text;
    struct corpus         c;
    struct model          m;
    enum fail             err = corpus_open(&c, s->bytes, s->held_out, seed, why);

    if (err)
        return err;
    prepare(&t, arm, seed, values);
    t.user = &c;
    err = task_train(&t, &m, l, key, 0.95, why);
    if (!err) {
        err = score_text(&c, &m, values, why);
        model_close(&m);
    }
    corpus_close(&c);
    return err;
}

/* ---- verdicts --------------------------------------------------------------------- */

#define LEARNT "windows of the long arm: 0.95 within them"

enum { DRAWN_SHORT = 2 };               // of the claims

static const struct lab_claim claims[] = {
    {"beyond-short", "with short windows the mLSTM recalls more from beyond all windows",
     "0.30 against 0.00 at 131k tokens", "short, long", "beyond", ANSWER_MORE, 0.05,
     LEARNT},
    {"beyond-drawn", "windows drawn anew recall more from beyond than long ones",
     "0.30 against 0.00", "drawn, long", "beyond", ANSWER_MORE, 0.05, LEARNT},
    [DRAWN_SHORT] = {"drawn-short",
     "windows drawn anew recall from beyond as well as short ones", "0.30 both",
     "drawn, short", "beyond", ANSWER_EQUAL, 0.05, LEARNT},
    {"near-short", "short windows hurt what is near", NULL, "short, long", "within",
     ANSWER_MORE, 0.02, LEARNT},
    {"near-drawn", "windows drawn anew recall what is near as well as long ones", NULL,
     "drawn, long", "within", ANSWER_EQUAL, 0.02, LEARNT},
    {"hybrid-mlstm", "a hybrid with short windows recalls more than the mLSTM alone",
     NULL, "short, mlstm", "beyond", ANSWER_MORE, 0.05, LEARNT},
    {"hybrid-windows", "and more than windows alone", NULL, "short, windows alone",
     "beyond", ANSWER_MORE, 0.05, LEARNT},
    {"text-long", "with long windows what is near is predicted better",
     "perplexity 2.523 against 2.551", "long, short", "near", ANSWER_MORE, 0.005,
     "below 2 bits per byte"},
    {"text-drawn", "windows drawn anew predict what is near better than short ones",
     "perplexity 2.502 against 2.551", "drawn, short", "near", ANSWER_MORE, 0.005,
     "below 2 bits per byte"},
    {0},
};

/* Of each claim: its column, and the arm that has more of it after the one with less. */
static const struct compared {
    int column, less, more;
} compared[] = {
    {BEYOND, LONG, SHORT}, {BEYOND, LONG, STOCHASTIC}, {BEYOND, SHORT, STOCHASTIC},
    {WITHIN, SHORT, LONG}, {WITHIN, LONG, STOCHASTIC}, {BEYOND, MLSTM, SHORT},
    {BEYOND, WINDOWS, SHORT}, {NEAR, LONG, SHORT}, {NEAR, STOCHASTIC, SHORT},
};
enum { OF_TEXT = 7, N_CLAIMS = 9 };

static void gate(const struct panel *p, int column, struct finding *f)
{
    double x[LAB_SEEDS];

    if (column != NEAR) {
        gate_learnt(f, "within the long window", panel_seeds(p, LONG, WITHIN, x),
                    panel_count(p, LONG), 0.95, INFINITY);
        return;
    }
    f->learnt = panel_mean(p, LONG, NEAR) < 2;
    snprintf(f->gate, sizeof f->gate, "%.3f bits per byte, not 2",
             panel_mean(p, LONG, NEAR));
}

static void judge(const struct panel *p, struct lab *l, int i,
                  const struct chart_line *line)
{
    const struct compared *c = &compared[i];
    double         x[LAB_SEEDS], y[LAB_SEEDS];
    char           a[32], b[32], measured[240], yardstick[160];
    struct paired  d = panel_paired(p, c->less, c->more, c->column);
    struct finding f = (claims[i].answer == ANSWER_EQUAL ? find_equal : find_more)(
        panel_seeds(p, c->less, c->column, x), panel_seeds(p, c->more, c->column, y),
        panel_both(p, c->less, c->more), claims[i].limit);

    gate(p, c->column, &f);
    snprintf(measured, sizeof measured, "%s %s, %s %s; difference %+.3f +- %.3f",
             p->arm[c->more], panel_text(p, c->more, c->column, a), p->arm[c->less],
             panel_text(p, c->less, c->column, b), d.diff.mean, d.diff.error);
    snprintf(yardstick, sizeof yardstick, "%s, seed by seed; %s %g; %s %.3f",
             c->column == NEAR     ? "bits per byte within the long window"
             : c->column == WITHIN ? "answers right within the long window"
                                   : "answers right beyond the stacked windows",
             claims[i].answer == ANSWER_EQUAL ? "margin" : "refuted below",
             claims[i].limit, line->name, line->y);
    lab_trained(l, claims[i].name, &f, measured, yardstick);
}

/* ---- the whole -------------------------------------------------------------------- */

static const char *const reported_recall[ARMS] = {
    [SHORT] = "0.30", [LONG] = "0.00", [STOCHASTIC] = "0.30",
};
static const char *const reported_perplexity[ARMS] = {
    [SHORT] = "2.551", [LONG] = "2.523", [STOCHASTIC] = "2.502", [MLSTM] = "2.602",
};

/* One column beside the paper's figures. */
static void say_column(const struct panel *p, struct lab *l, const char *title, int c,
                       const char *const *reported)
{
    char text[32];

    lab_say(l, "\n%-40s%17s%12s", title, "here", reported ? "paper" : "");
    for (int a = 0; a < p->arms; a++)
        lab_say(l, "%-40s%17s%12s", p->arm[a], panel_text(p, a, c, text),
                reported && reported[a] ? reported[a] : "");
}

static enum fail run_recall(struct panel *p, struct lab *l, struct why *why)
{
    static const struct chart_line guess = {"guessing", 0.25};
    enum fail                      err = panel_run(p, l, why);

    if (err)
        return err;
    panel_table(p, l, &guess, 1);
    say_column(p, l, "mean within the long window", WITHIN, NULL);
    say_column(p, l, "mean beyond the stacked windows", BEYOND, reported_recall);
    lab_say(l, "paper: needles at 131k tokens, about; windows of 128 and 2048, trained "
               "at 16k, 1.4B parameters");
    for (int i = 0; i < OF_TEXT; i++)
        if (i != DRAWN_SHORT || lab_form(l) != LAB_QUICK)   // as well takes more seeds
            judge(p, l, i, &guess);
    return panel_chart(p, l, &guess, 1, why);
}

static enum fail run_text(struct panel *p, struct lab *l, struct why *why)
{
    enum fail         err = panel_run(p, l, why);
    struct chart_line floor = {"entropy of the stories", 0};

    if (err)
        return err;
    floor.y = panel_mean(p, SHORT, FLOOR);
    panel_table(p, l, &floor, 1);
    say_column(p, l, "all within the long window", NEAR, reported_perplexity);
    lab_say(l, "paper: perplexity of code, 1.4B parameters");
    for (int i = OF_TEXT; i < N_CLAIMS; i++)
        judge(p, l, i, &floor);
    return panel_chart(p, l, &floor, 1, why);
}

static enum fail run(struct lab *l, struct why *why)
{
    /* Few where arms are far apart: of the full form, the quick one, and text. */
    static const int starts[][ARMS] = {
        {[LONG] = 8, [MLSTM] = 10, [WINDOWS] = 6, [FULL] = 4},
        {[LONG] = 5, [STOCHASTIC] = 5, [WINDOWS] = 4},
        {8, 8, 8},
    };
    const bool     reads = lab_form(l) != LAB_QUICK;
    struct setting s;

    settle(&s, lab_form(l));

    struct panel recall = {
        .title = "answers right, by distance from the fact", .name = "swax",
        .xlabel = "distance in tokens", .ylabel = "accuracy", .arm = names,
        .arms = s.arms, .n = DISTANCES, .x = distances, .logx = true,
        .cell = recall_cell, .user = &s, .task = &s.recall,
        .starts = starts[!reads],
    };
    struct panel text = {
        .title = "bits per byte of stories, by position", .name = "swax-text",
        .xlabel = "bytes before it, up to", .ylabel = "bits per byte",
        .arm = names, .arms = TEXT, .from = BITS, .n = PLACES, .x = places,
        .logx = true, .unbounded = true, .cell = text_cell,
        .user = &s, .task = &s.text, .starts = starts[2],
    };
    enum fail err = panel_open(&recall, l, why);

    if (!err && reads)
        err = panel_open(&text, l, why);
    if (!err)
        err = run_recall(&recall, l, why);
    if (!err && reads)
        err = run_text(&text, l, why);
    panel_close(&recall);
    panel_close(&text);
    return err;
}

const struct experiment experiment_swax = {
    .name    = "swax",
    .claim   = "short windows teach mLSTM to recall from afar, drawn ones keep what "
               "is near too",
    .paper   = "SWAX, arXiv:2509.24552",
    .columns = "recall1,recall2,recall3,recall4,recall5,recall6,recall7,recall8,recall9,"
               "within,beyond,bits1,bits2,bits3,bits4,bits5,bits6,near,floor",
    .seeds   = 18,
    .quick   = 8,
    .run     = run,
    .claims  = claims,
    .at      = "recall: 2 layers of width 32, 1600 steps of 16 x 48 tokens; text: "
               ABLATION_AT,
};
