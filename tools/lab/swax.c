/* SWAX (arXiv:2509.24552): windows and mLSTM in turn. Short windows make the mLSTM learn
 * to recall from afar, long ones serve what is near, windows drawn anew at every step
 * keep both.
 *
 * Facts are stated and asked for at distances uniform in their logarithm. One windowed
 * layer reaches 31 tokens back, the two of the arm without mLSTM reach 62; what lies
 * farther can only come through a state, or through full attention.
 */
#include "tools/lab/panel.h"
#include "tools/lab/streams.h"

#include <stdio.h>
#include <stdlib.h>

enum { SHORT, LONG, STOCHASTIC, MLSTM, WINDOWS, FULL, ARMS };
enum { LENGTH = 128, NEAR = 31, DISTANCES = 9, FAR_AT = 6, LOSS = DISTANCES };
enum { W_SHORT = 4 };

static const double GUESS_NATS = 1.386294361119891;    // of 4 values

static const double      distances[DISTANCES] = {1, 2, 4, 8, 16, NEAR, 64, 96, 120};
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
    struct task task;
    int         tests;
};

static struct setting settings(const struct lab *l)
{
    enum form form = lab_form(l);
    bool      full = form == LAB_FULL;

    return (struct setting){
        .tests = full ? 512 : 64,
        .task = {.layers = 2, .width = 32, .heads = 2, .mlp = 64,
                 .vocab = facts_vocab(&spread), .batch = full ? 32 : 16, .length = LENGTH,
                 .steps = full ? 6000 : form == LAB_QUICK ? 700 : 5, .lr = 1e-2,
                 .clip = 1, .window_short = W_SHORT, .fill = facts_fill, .user = &spread},
    };
}

/* ---- cells ------------------------------------------------------------------------ */

/* Mean nats of questions that the long window reaches. */
static int near_loss(const struct task *t, const struct model *m, int tests, double *loss,
                     struct why *why)
{
    enum { B = 16 };
    struct facts near = spread;
    struct pass  p = {0};
    size_t       size = (size_t)B * LENGTH;
    int32_t     *tokens = malloc(2 * size * sizeof *tokens), *targets = tokens + size;
    real        *nats = malloc(size * sizeof *nats);
    double       sum = 0, asked = 0;
    int          code = tokens && nats ? pass_open(&p, m, B, LENGTH, false, why)
                                       : fail(why, FAIL_INPUT,
                                              "out of memory for a test");

    near.far = NEAR;
    for (int i = 0; !code && i < tests; i += B) {
        for (int b = 0; b < B; b++) {
            struct rng r = rng_open(t->seed, RNG_LAB, ((uint64_t)1 << 47) + i + b);

            facts_fill(&near, &r, LENGTH, tokens + b * LENGTH, targets + b * LENGTH);
        }
        model_score(m, &p, B, LENGTH, tokens, targets, 0, nats);
        for (size_t j = 0; j < size; j++)
            sum += (double)nats[j], asked += targets[j] >= 0;
    }
    *loss = sum / asked;
    pass_close(&p);
    free(tokens);
    free(nats);
    return code;
}

static int cell(const struct panel *p, struct lab *l, int arm, uint64_t seed,
                const char *key, double *values, struct why *why)
{
    const struct setting *s = p->user;
    struct task           t = s->task;
    struct model          m;
    int                   code;

    t.mixers = entries[arm], t.seed = seed;
    t.window_p = arm == STOCHASTIC ? 0.5 : 0;
    if ((code = task_train(&t, &m, l, key, 0.9, why)))
        return code;
    for (int i = 0; !code && i < DISTANCES; i++) {
        struct facts      at = spread;
        struct task_count c = {0};

        at.near = at.far = (int)distances[i];
        t.user = &at;
        code = task_test(&t, &m, LENGTH, s->tests, task_count_each, &c, why);
        values[i] = task_accuracy(&c);
    }
    if (!code)
        code = near_loss(&t, &m, s->tests, &values[LOSS], why);
    model_close(&m);
    return code;
}

/* ---- verdicts --------------------------------------------------------------------- */

/* Mean accuracy at the distances beyond every window. */
static double beyond(const struct panel *p, int arm)
{
    double sum = 0;

    for (int i = FAR_AT; i < DISTANCES; i++)
        sum += panel_mean(p, arm, i);
    return sum / (DISTANCES - FAR_AT);
}

static void say_losses(const struct panel *p, struct lab *l)
{
    char text[32];

    lab_say(l, "\n%-40s%16s%20s", "", "recall beyond 62", "nats within 31");
    for (int a = 0; a < ARMS; a++)
        lab_say(l, "%-40s%16.3f%20s", names[a], beyond(p, a),
                panel_text(p, a, LOSS, text));
    lab_say(l, "reported, 1.4B parameters (window 128, 2048, drawn; "
               "xLSTM alone): recall at 131k\n"
               "0.30, 0.00, about 0.30; perplexity 2.551, 2.523, 2.502; 2.602");
}

static void judge(const struct panel *p, struct lab *l)
{
    const double near[] = {panel_mean(p, SHORT, LOSS), panel_mean(p, LONG, LOSS),
                           panel_mean(p, STOCHASTIC, LOSS)};
    const double far[] = {beyond(p, SHORT), beyond(p, LONG), beyond(p, STOCHASTIC)};
    char         recall[96], loss[96];

    snprintf(recall, sizeof recall,
             "short %.3f, long %.3f, drawn %.3f right beyond 62 tokens", far[SHORT],
             far[LONG], far[STOCHASTIC]);
    snprintf(loss, sizeof loss, "short %.3f, long %.3f, drawn %.3f nats within 31 tokens",
             near[SHORT], near[LONG], near[STOCHASTIC]);
    lab_verdict(l, far[SHORT] > far[LONG] + 0.05,
                "with short windows the mLSTM recalls more from beyond all windows",
                recall, "0.05 counts as more; guessing 0.250");
    lab_verdict(l, near[LONG] < near[SHORT] - 0.02 && near[LONG] < GUESS_NATS,
                "with long windows what is near is predicted better", loss,
                "0.02 nats count as better; guessing 1.386");
    lab_verdict(l, far[STOCHASTIC] > far[SHORT] - 0.05 && far[SHORT] > far[LONG] + 0.05,
                "windows drawn anew recall as much from afar as short ones", recall,
                "within 0.05 of short, which is above long");
    lab_verdict(l, near[STOCHASTIC] < near[LONG] + 0.02 && near[STOCHASTIC] < GUESS_NATS,
                "windows drawn anew predict what is near as well as long ones", loss,
                "within 0.02 nats of long; guessing 1.386");
}

static int run(struct lab *l, struct why *why)
{
    static const struct chart_line guess = {"guessing", 0.25};
    struct setting                 s = settings(l);
    struct panel                   p = {
        .title = "answers right, by distance from the fact", .name = "swax",
        .xlabel = "distance in tokens", .ylabel = "accuracy", .arm = names, .arms = ARMS,
        .n = DISTANCES, .x = distances, .logx = true, .cell = cell, .user = &s,
    };
    int code = panel_open(&p, l, why);

    if (!code)
        code = panel_run(&p, l, why);
    if (!code) {
        panel_table(&p, l, &guess, 1);
        say_losses(&p, l);
        judge(&p, l);
        code = panel_chart(&p, l, &guess, 1, why);
    }
    panel_close(&p);
    return code;
}

const struct experiment experiment_swax = {
    .name    = "swax",
    .claim   = "short windows teach mLSTM to recall from afar, drawn ones keep what "
               "is near too",
    .paper   = "SWAX, arXiv:2509.24552",
    .columns = "d1,d2,d4,d8,d16,d31,d64,d96,d120,loss",
    .seeds   = 3,
    .run     = run,
};
