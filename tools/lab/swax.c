/* SWAX (arXiv:2509.24552): windows and mLSTM in turn. Short windows make the mLSTM learn
 * to recall from afar, long ones serve what is near, windows drawn anew at every step
 * keep both.
 *
 * Recall: facts are stated and asked for at distances uniform in their logarithm. One
 * windowed layer reaches 31 tokens back, the two of the arm without mLSTM reach 62; what
 * lies farther can only come through a state, or through full attention.
 *
 * Text: bits per byte of stories, by position in windows of 128 bytes. At the first 32 of
 * them all there is to see lies within the long window.
 *
 * The arms of one seed see the same data in the same order. A difference counts when a
 * paired t-test over the seeds gives p < 0.05.
 */
#include "tools/lab/corpus.h"
#include "tools/lab/panel.h"
#include "tools/lab/streams.h"

#include <math.h>
#include <stdio.h>

enum { SHORT, LONG, STOCHASTIC, MLSTM, WINDOWS, FULL, ARMS };
enum { LENGTH = 128, W_SHORT = 4, W_LONG = 32 };
enum { DISTANCES = 9, FAR_AT = 6, PLACES = 6 };

/* Columns: recall at each distance, its mean beyond all windows; bits per byte at each
 * range of positions, at those within the long window; the floor. */
enum { BEYOND = DISTANCES, BITS, NEAR = BITS + PLACES, FLOOR, COLUMNS };

static const double      distances[DISTANCES] = {1, 2, 4, 8, 16, 31, 64, 96, 120};
static const double      places[PLACES] = {4, 8, 16, W_LONG, 64, LENGTH};  // ends
static const char *const names[ARMS] = {
    "windows of 4 and mlstm", "windows of 32 and mlstm",
    "windows of 4 or 32, drawn, and mlstm", "mlstm alone", "windows of 32 alone",
    "full attention",
};
static const char *const entries[ARMS] = {
    "softmax(window=4)/mlstm", "softmax(window=32)/mlstm", "softmax(window=32)/mlstm",
    "mlstm", "softmax(window=32)", "softmax",
};

static const struct facts spread = {8, 8, 4, 4, 1, 120};

struct setting {
    struct task recall, text;
    int         tests;
    long        bytes, held_out;    // of text
};

static struct setting settings(const struct lab *l)
{
    enum form form = lab_form(l);
    bool      full = form == LAB_FULL, brief = form == LAB_BRIEF;

    return (struct setting){
        .tests = full ? 512 : 128,
        .bytes = full ? 8000000 : brief ? 100000 : 1000000,
        .held_out = (full ? 512 : 64) * LENGTH,
        .recall = {.layers = 2, .width = 32, .heads = 2, .mlp = 64,
                   .vocab = facts_vocab(&spread), .batch = full ? 32 : 16,
                   .length = LENGTH, .steps = full ? 6000 : brief ? 5 : 700, .lr = 1e-2,
                   .clip = 1, .window_short = W_SHORT, .fill = facts_fill,
                   .user = &spread},
        .text = {.layers = full ? 4 : 2, .width = 64, .heads = 2, .mlp = 192,
                 .vocab = CORPUS_VOCAB, .batch = 16, .length = LENGTH,
                 .steps = full ? 3000 : brief ? 5 : 400, .lr = 3e-3, .weight_decay = 0.1,
                 .clip = 1, .window_short = W_SHORT, .fill = corpus_fill},
    };
}

/* ---- cells ------------------------------------------------------------------------ */

/* The arm's mixers and windows in a task, and no value yet. */
static void prepare(struct task *t, int arm, uint64_t seed, double *values)
{
    t->mixers = entries[arm], t->seed = seed;
    t->window_p = arm == STOCHASTIC ? 0.5 : 0;
    for (int i = 0; i < COLUMNS; i++)
        values[i] = NAN;
}

static int recall_cell(const struct panel *p, struct lab *l, int arm, uint64_t seed,
                       const char *key, double *values, struct why *why)
{
    const struct setting *s = p->user;
    struct task           t = s->recall;
    struct model          m;
    int                   code;

    prepare(&t, arm, seed, values);
    if ((code = task_train(&t, &m, l, key, 0.9, why)))
        return code;
    values[BEYOND] = 0;
    for (int i = 0; !code && i < DISTANCES; i++) {
        struct facts      at = spread;
        struct task_count c = {0};

        at.near = at.far = (int)distances[i];
        t.user = &at;
        code = task_test(&t, &m, LENGTH, s->tests, task_count_each, &c, why);
        values[i] = task_accuracy(&c);
        values[BEYOND] += i < FAR_AT ? 0 : values[i] / (DISTANCES - FAR_AT);
    }
    model_close(&m);
    return code;
}

static int score_text(const struct corpus *c, const struct model *m, double *values,
                      struct why *why)
{
    double nats[LENGTH], bytes[LENGTH];
    int    code = corpus_score(c, m, LENGTH, nats, bytes, why);

    for (int i = 0; i < PLACES; i++)
        values[BITS + i] = corpus_bits(nats, bytes, i ? (int)places[i - 1] : 0,
                                       (int)places[i]);
    values[NEAR] = corpus_bits(nats, bytes, 0, W_LONG);
    values[FLOOR] = c->floor;
    return code;
}

static int text_cell(const struct panel *p, struct lab *l, int arm, uint64_t seed,
                     const char *key, double *values, struct why *why)
{
    const struct setting *s = p->user;
    struct task           t = s->text;
    struct corpus         c;
    struct model          m;
    int                   code = corpus_open(&c, s->bytes, s->held_out, seed, why);

    if (code)
        return code;
    prepare(&t, arm, seed, values);
    t.user = &c;
    code = task_train(&t, &m, l, key, 0.95, why);
    if (!code) {
        code = score_text(&c, &m, values, why);
        model_close(&m);
    }
    corpus_close(&c);
    return code;
}

/* ---- verdicts --------------------------------------------------------------------- */

/* above[0] must exceed above[1], and not_above[0] must not exceed not_above[1], beyond
 * the spread over the seeds; a pair of one arm asks nothing. */
struct claim {
    const char *text;
    int         above[2], not_above[2];
};

static const struct claim of_recall[] = {
    {"with short windows the mLSTM recalls more from beyond all windows",
     {SHORT, LONG}, {SHORT, SHORT}},
    {"windows drawn anew recall more from afar than long ones, and not measurably less "
     "than short ones", {STOCHASTIC, LONG}, {SHORT, STOCHASTIC}},
};
static const struct claim of_text[] = {
    {"with long windows what is near is predicted better",
     {SHORT, LONG}, {SHORT, SHORT}},
    {"windows drawn anew predict what is near better than short ones, and not "
     "measurably worse than long ones", {SHORT, STOCHASTIC}, {STOCHASTIC, LONG}},
};

/* "drawn - long +0.050, p 0.031". True when the first is above the second by more than
 * the seeds explain; one seed explains nothing. */
static bool compare(const struct panel *p, const int arm[2], int column, char *buf,
                    size_t cap)
{
    static const char *const kind[] = {"short", "long", "drawn"};
    struct paired            d = panel_paired(p, arm[1], arm[0], column);
    char                     chance[16] = "one seed";

    if (!isnan(d.p))
        snprintf(chance, sizeof chance, "p %.3f", d.p);
    snprintf(buf, cap, "%s - %s %+.3f, %s", kind[arm[0]], kind[arm[1]], d.diff.mean,
             chance);
    return d.diff.mean > 0 && d.p < 0.05;
}

static void judge(const struct panel *p, struct lab *l, const struct claim *c, int column,
                  const char *yardstick)
{
    char text[3][32], first[48], second[48], measured[256];
    bool holds = compare(p, c->above, column, first, sizeof first),
         fails = compare(p, c->not_above, column, second, sizeof second);
    bool one = c->not_above[0] == c->not_above[1];

    snprintf(measured, sizeof measured, "short %s, long %s, drawn %s; %s%s%s",
             panel_text(p, SHORT, column, text[0]), panel_text(p, LONG, column, text[1]),
             panel_text(p, STOCHASTIC, column, text[2]), first, one ? "" : "; ",
             one ? "" : second);
    lab_verdict(l, holds && !fails, c->text, measured, yardstick);
}

/* ---- the whole -------------------------------------------------------------------- */

static void say_column(const struct panel *p, struct lab *l, const char *title, int c)
{
    char text[32];

    lab_say(l, "\n%s", title);
    for (int a = 0; a < ARMS; a++)
        lab_say(l, "%-40s%17s", names[a], panel_text(p, a, c, text));
}

static int run_recall(struct panel *p, struct lab *l, struct why *why)
{
    static const struct chart_line guess = {"guessing", 0.25};
    int                            code = panel_run(p, l, why);

    if (code)
        return code;
    panel_table(p, l, &guess, 1);
    say_column(p, l, "mean of those beyond the stacked windows' 62 tokens", BEYOND);
    lab_say(l, "reported at 131k tokens, 1.4B parameters: window 128 0.30, 2048 0.00, "
               "drawn about 0.30");
    for (int i = 0; i < 2; i++)
        judge(p, l, &of_recall[i], BEYOND,
              "right beyond 62 tokens; p < 0.05 over the seeds counts; guessing 0.250");
    return panel_chart(p, l, &guess, 1, why);
}

static int run_text(struct panel *p, struct lab *l, struct why *why)
{
    int               code = panel_run(p, l, why);
    struct chart_line floor = {"entropy of the stories", 0};
    char              yardstick[96];

    if (code)
        return code;
    floor.y = panel_mean(p, SHORT, FLOOR);
    panel_table(p, l, &floor, 1);
    say_column(p, l, "all within the long window's 32 bytes", NEAR);
    lab_say(l, "reported perplexity, 1.4B parameters: window 128 2.551, 2048 2.523, "
               "drawn 2.502; xLSTM alone 2.602");
    snprintf(yardstick, sizeof yardstick, "bits per byte within 32 bytes; p < 0.05 over "
             "the seeds counts; floor %.3f", floor.y);
    for (int i = 0; i < 2; i++)
        judge(p, l, &of_text[i], NEAR, yardstick);
    return panel_chart(p, l, &floor, 1, why);
}

static int run(struct lab *l, struct why *why)
{
    struct setting s = settings(l);
    struct panel   recall = {
        .title = "answers right, by distance from the fact", .name = "swax",
        .xlabel = "distance in tokens", .ylabel = "accuracy", .arm = names, .arms = ARMS,
        .n = DISTANCES, .x = distances, .logx = true, .cell = recall_cell, .user = &s,
        .task = &s.recall,
    };
    struct panel text = {
        .title = "bits per byte of stories, by position", .name = "swax-text",
        .xlabel = "bytes before it, up to", .ylabel = "bits per byte", .arm = names,
        .arms = ARMS, .from = BITS, .n = PLACES, .x = places, .logx = true,
        .unbounded = true, .cell = text_cell, .user = &s, .task = &s.text,
    };
    int code = panel_open(&recall, l, why);

    if (!code)
        code = panel_open(&text, l, why);
    if (!code)
        code = run_recall(&recall, l, why);
    if (!code)
        code = run_text(&text, l, why);
    panel_close(&recall);
    panel_close(&text);
    return code;
}

const struct experiment experiment_swax = {
    .name    = "swax",
    .claim   = "short windows teach mLSTM to recall from afar, drawn ones keep what "
               "is near too",
    .paper   = "SWAX, arXiv:2509.24552",
    .columns = "d1,d2,d4,d8,d16,d31,d64,d96,d120,beyond,"
               "bpb4,bpb8,bpb16,bpb32,bpb64,bpb128,near,floor",
    .seeds   = 3,
    .quick   = 3,
    .run     = run,
};
