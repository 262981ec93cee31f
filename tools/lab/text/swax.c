/* SWAX (arXiv:2509.24552): windows and mLSTM in turn. Short windows make the mLSTM learn
 * to recall from afar, long ones serve what is near, windows drawn anew at every step
 * keep both.
 *
 * The long window is half the training length, the short one 8 tokens.
 *
 * Recall: facts are stated and asked for at distances uniform in their logarithm, up to
 * the training length. The two long windows stacked in the arm without mLSTM reach nearly
 * as far; what lies farther can only come through a state, or through full attention, and
 * is asked in sequences up to four times as long as trained on (the paper's: eight
 * times). The steps are few on purpose: what is compared is how soon the mLSTM learns to
 * recall.
 *
 * Text: bits per byte of stories, by position in the sequence. In its first half all
 * there is to see lies within the long window.
 *
 * The arms of one seed see the same data in the same order. A difference counts when a
 * paired t-test over the seeds gives p < 0.05.
 */
#include "tools/lab/panel.h"
#include "tools/lab/text/corpus.h"
#include "tools/lab/text/streams.h"

#include <math.h>
#include <stdio.h>

/* MIDDLE only in the full form. */
enum { SHORT, LONG, STOCHASTIC, MLSTM, WINDOWS, FULL, MIDDLE, ARMS };
enum { DISTANCES = 9, WITHIN_TO = 4, BEYOND_FROM = 6, PLACES = 6 };
enum { LONGEST = 256 };     // training length
enum { W_SHORT = 8 };
enum { ROOM = 32 };         // for the facts of a test, beside their distance

/* Columns: recall at each distance, its mean within the long window and beyond all
 * stacked; bits per byte at each range of positions, at those within the long window; the
 * floor. */
enum { WITHIN = DISTANCES, BEYOND, BITS, NEAR = BITS + PLACES, FLOOR, COLUMNS };

struct scale {
    int         length;                                 // the long window is half of it
    double      distances[DISTANCES], places[PLACES];   // ends of the ranges of positions
    const char *names[ARMS], *mixers[ARMS];
};

static const struct scale quick = {
    128,
    {1, 6, 30, 60, 80, 96, 200, 300, 500},
    {4, 8, 16, 32, 64, 128},
    {"windows of 8 and mlstm", "windows of 64 and mlstm",
     "windows of 8 or 64, drawn, and mlstm", "mlstm alone", "windows of 64 alone",
     "full attention"},
    {"softmax(window=8)/mlstm", "softmax(window=64)/mlstm", "softmax(window=64)/mlstm",
     "mlstm", "softmax(window=64)", "softmax"},
};
static const struct scale full = {
    256,
    {1, 6, 30, 120, 160, 220, 400, 600, 1000},
    {8, 16, 32, 64, 128, 256},
    {"windows of 8 and mlstm", "windows of 128 and mlstm",
     "windows of 8 or 128, drawn, and mlstm", "mlstm alone", "windows of 128 alone",
     "full attention", "windows of 32 and mlstm"},
    {"softmax(window=8)/mlstm", "softmax(window=128)/mlstm", "softmax(window=128)/mlstm",
     "mlstm", "softmax(window=128)", "softmax", "softmax(window=32)/mlstm"},
};

struct setting {
    const struct scale *scale;
    struct facts        facts;
    struct task         recall, text;
    int                 arms, tests;
    long                bytes, held_out;    // of text
};

static void settle(struct setting *s, enum form form)
{
    const bool          whole = form == LAB_FULL, brief = form == LAB_BRIEF;
    const struct scale *c = whole ? &full : &quick;

    *s = (struct setting){
        .scale = c, .arms = whole ? ARMS : MIDDLE, .tests = whole ? 512 : 128,
        .bytes = whole ? 8000000 : brief ? 100000 : 1000000,
        .held_out = (whole ? 512 : 64) * c->length,
        .facts = {.facts = 8, .keys = 8, .values = 4, .noise = 4,
                  .near = 1, .far = c->length - 6},
    };
    s->recall = (struct task){
        .layers = 2, .width = 32, .heads = 2, .mlp = 64, .vocab = facts_vocab(&s->facts),
        .batch = 16, .length = c->length, .steps = whole ? 1500 : brief ? 5 : 1000,
        .lr = 1e-2, .clip = 1, .window_short = W_SHORT, .fill = facts_fill,
        .user = &s->facts,
    };
    s->text = (struct task){
        .layers = whole ? 4 : 2, .width = 64, .heads = 2, .mlp = 192,
        .vocab = CORPUS_VOCAB, .batch = whole ? 8 : 16, .length = c->length,
        .steps = whole ? 3000 : brief ? 5 : 250, .lr = 3e-3, .weight_decay = 0.1,
        .clip = 1, .window_short = W_SHORT, .fill = corpus_fill,
    };
}

/* ---- cells ------------------------------------------------------------------------ */

/* The arm's mixers and windows in a task, and no value yet. */
static void prepare(struct task *t, const struct scale *c, int arm, uint64_t seed,
                    double *values)
{
    t->mixers = c->mixers[arm], t->seed = seed;
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
    const struct scale *c = s->scale;
    enum fail           err = FAIL_NONE;

    for (int i = 0; !err && i < DISTANCES; i++) {
        struct facts      at = s->facts;
        struct task_count count = {0};
        int               distance = (int)c->distances[i], room = distance + ROOM;

        at.near = at.far = distance;
        t->user = &at;
        err = task_test(t, m, room > c->length ? room : c->length, s->tests,
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

    prepare(&t, s->scale, arm, seed, values);
    if ((err = task_train(&t, &m, l, key, 0.9, why)))
        return err;
    err = ask(s, &t, &m, values, why);
    model_close(&m);
    return err;
}

static enum fail score_text(const struct scale *c, const struct corpus *text,
                            const struct model *m, double *values, struct why *why)
{
    double nats[LONGEST], bytes[LONGEST];
    enum fail err = corpus_score(text, m, c->length, nats, bytes, why);

    for (int i = 0; i < PLACES; i++)
        values[BITS + i] = corpus_bits(nats, bytes, i ? (int)c->places[i - 1] : 0,
                                       (int)c->places[i]);
    values[NEAR] = corpus_bits(nats, bytes, 0, c->length / 2);
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
    prepare(&t, s->scale, arm, seed, values);
    t.user = &c;
    err = task_train(&t, &m, l, key, 0.95, why);
    if (!err) {
        err = score_text(s->scale, &c, &m, values, why);
        model_close(&m);
    }
    corpus_close(&c);
    return err;
}

/* ---- verdicts --------------------------------------------------------------------- */

/* above[0] must exceed above[1], and not_above[0] must not exceed not_above[1], beyond
 * the spread over the seeds; a pair of one arm asks nothing. */
struct claim {
    const char *text;
    int         column, above[2], not_above[2];
};

static const struct claim of_recall[] = {
    {"with short windows the mLSTM recalls more from beyond all windows",
     BEYOND, {SHORT, LONG}, {SHORT, SHORT}},
    {"windows drawn anew recall more from beyond than long ones, and not measurably less "
     "than short ones", BEYOND, {STOCHASTIC, LONG}, {SHORT, STOCHASTIC}},
    {"windows drawn anew recall more from within the long window than short ones, and "
     "not measurably less than long ones", WITHIN, {STOCHASTIC, SHORT},
     {LONG, STOCHASTIC}},
};
static const struct claim of_text[] = {
    {"with long windows what is near is predicted better",
     NEAR, {SHORT, LONG}, {SHORT, SHORT}},
    {"windows drawn anew predict what is near better than short ones, and not "
     "measurably worse than long ones", NEAR, {SHORT, STOCHASTIC}, {STOCHASTIC, LONG}},
};

/* "drawn - long +0.050 +- 0.012, p 0.031", with its standard error. True when the first
 * is above the second by more than the seeds explain; one seed explains nothing. */
static bool compare(const struct panel *p, const int arm[2], int column, char *buf,
                    size_t cap)
{
    static const char *const kind[] = {"short", "long", "drawn"};
    struct paired            d = panel_paired(p, arm[1], arm[0], column);
    char                     chance[32] = ", one seed";

    if (!isnan(d.p))
        snprintf(chance, sizeof chance, " +- %.3f, p %.3f", d.diff.error, d.p);
    snprintf(buf, cap, "%s - %s %+.3f%s", kind[arm[0]], kind[arm[1]], d.diff.mean,
             chance);
    return d.diff.mean > 0 && d.p < 0.05;
}

static void judge(const struct panel *p, struct lab *l, const struct claim *c,
                  const struct chart_line *line)
{
    const int column = c->column;
    char      text[3][32], first[64], second[64], measured[288], yardstick[128];
    bool      holds = compare(p, c->above, column, first, sizeof first);
    bool      fails = compare(p, c->not_above, column, second, sizeof second);
    bool      one = c->not_above[0] == c->not_above[1];

    snprintf(measured, sizeof measured, "short %s, long %s, drawn %s; %s%s%s",
             panel_text(p, SHORT, column, text[0]), panel_text(p, LONG, column, text[1]),
             panel_text(p, STOCHASTIC, column, text[2]), first, one ? "" : "; ",
             one ? "" : second);
    snprintf(yardstick, sizeof yardstick, "%s; p < 0.05 over the seeds counts; %s %.3f",
             column == NEAR     ? "bits per byte within the long window"
             : column == WITHIN ? "answers right within the long window"
                                : "answers right beyond the stacked windows",
             line->name, line->y);
    lab_verdict(l, holds && !fails, c->text, measured, yardstick);
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
    for (size_t i = 0; i < sizeof of_recall / sizeof *of_recall; i++)
        judge(p, l, &of_recall[i], &guess);
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
    for (size_t i = 0; i < sizeof of_text / sizeof *of_text; i++)
        judge(p, l, &of_text[i], &floor);
    return panel_chart(p, l, &floor, 1, why);
}

static enum fail run(struct lab *l, struct why *why)
{
    struct setting s;
    settle(&s, lab_form(l));

    struct panel recall = {
        .title = "answers right, by distance from the fact", .name = "swax",
        .xlabel = "distance in tokens", .ylabel = "accuracy", .arm = s.scale->names,
        .arms = s.arms, .n = DISTANCES, .x = s.scale->distances, .logx = true,
        .cell = recall_cell, .user = &s, .task = &s.recall,
    };
    struct panel text = {
        .title = "bits per byte of stories, by position", .name = "swax-text",
        .xlabel = "bytes before it, up to", .ylabel = "bits per byte",
        .arm = s.scale->names, .arms = s.arms, .from = BITS, .n = PLACES,
        .x = s.scale->places, .logx = true, .unbounded = true, .cell = text_cell,
        .user = &s, .task = &s.text,
    };
    enum fail err = panel_open(&recall, l, why);

    if (!err)
        err = panel_open(&text, l, why);
    if (!err)
        err = run_recall(&recall, l, why);
    if (!err)
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
    .seeds   = 3,
    .quick   = 3,
    .run     = run,
};
