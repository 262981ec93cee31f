/* What weft train says on its way: before, while it trains, and after. */
#include "data/base/clock.h"
#include "data/base/file.h"
#include "data/base/format.h"
#include "model/files/checkpoint.h"
#include "tests/support/rig.h"
#include "train/progress.h"
#include "train/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- listening ---- */

static struct {
    FILE *to;
    int   fd, kept;
} ear;

/* What goes to fd from here on. */
static void listen_to(int fd)
{
    fflush(NULL);
    ear.to = tmpfile();
    ear.fd = fd;
    ear.kept = dup(fd);
    ck_assert(ear.to && ear.kept >= 0 && dup2(fileno(ear.to), fd) == fd);
}

/* What went there; valid until the next call. */
static const char *heard(void)
{
    static char text[1 << 16];

    fflush(NULL);
    dup2(ear.kept, ear.fd);
    close(ear.kept);
    rewind(ear.to);
    text[fread(text, 1, sizeof text - 1, ear.to)] = 0;
    fclose(ear.to);
    return text;
}

static struct live live;        // no terminal

/* ---- a run ---- */

static double noon(void *user)
{
    (void)user;
    return 43200;
}

/* 100 steps of 64 tokens each; half a second a step, and 58 s in all. */
static struct setup a_run(const char *dir)
{
    struct setup s = {.saved = -1, .cost = {.step = 0.5, .eval = 2, .save = 1,
                                            .sample = 3}};

    config_defaults(&s.run.cfg);
    s.run.cfg.batch = 2, s.run.cfg.context = 32, s.run.cfg.accumulate = 1;
    s.run.cfg.steps = 100, s.run.cfg.eval_every = 50;
    s.run.cfg.checkpoint_every = s.run.cfg.sample_every = 100;
    s.trainer.cfg = s.run.cfg;
    s.trainer.tally.best_loss = NAN;
    s.clock.now = noon;
    snprintf(s.run.dir, sizeof s.run.dir, "%s", dir);
    s.data = (struct dataset){.train = {.tokens = 900000, .bytes = 3000000},
                              .val = {.tokens = 100000, .bytes = 300000}, .vocab = 257,
                              .zstd_bpb = 2.5, .order2_bpb = 3.25};
    return s;
}

/* ---- before ---- */

START_TEST(the_text_and_what_is_to_beat_are_told)
{
    struct stretch mix[] = {{"a.txt", 5, 2}, {"b.jsonl", 5, 1}};
    struct setup   s = a_run("runs/x");
    struct why     why;

    ck_assert(!tokenizer_load(&s.data.tokenizer, "weft-bytes", 10, &why));
    listen_to(STDERR_FILENO);
    tell_data(&live, &s);
    ck_assert_str_eq(heard(),
                     "text: 3.15 MiB, 1.00M tokens of a vocabulary of 257 (bytes)\n"
                     "to beat, bits/byte: zstd -19 2.500, order-2 model 3.250\n"
                     "there is no text to validate on\n");
    s.data.mix = mix, s.data.n_mix = 2;
    s.data.invalid = 3, s.data.floor_bpb = 1.5, s.validation.n = 1;
    s.data.val_lines = 90, s.data.val_seen = 2;
    snprintf(s.data.val_file, sizeof s.data.val_file, "v.txt");
    listen_to(STDERR_FILENO);
    tell_data(&live, &s);
    ck_assert_str_eq(heard(),
                     "text: 3.15 MiB, 1.00M tokens of a vocabulary of 257 (bytes)\n"
                     "mix, times in an epoch: a.txt 2, b.jsonl 1\n"
                     "validation: v.txt\n"
                     "validation: 2 of 90 lines stand in training too, so its loss "
                     "flatters\n"
                     "text: 3 bytes are not UTF-8; they are kept as they are\n"
                     "to beat, bits/byte: zstd -19 2.500, order-2 model 3.250, no model "
                     "below 1.500\n");
    s.data.zstd_bpb = s.data.order2_bpb = s.data.floor_bpb = 0;
    s.data.n_mix = 0, s.data.invalid = 0, *s.data.val_file = 0;
    listen_to(STDERR_FILENO);
    tell_data(&live, &s);
    ck_assert_str_eq(heard(),
                     "text: 3.15 MiB, 1.00M tokens of a vocabulary of 257 (bytes)\n");
    tokenizer_free(s.data.tokenizer);
}
END_TEST

/* Its parameters, memory and FLOPs are those of the model; what was chosen is said of a
 * run that begins. */
START_TEST(the_model_and_why_it_was_chosen_are_told)
{
    struct setup   s = a_run("runs/x");
    struct config *c = &s.run.cfg;
    struct why     why;
    char           count[32], memory[32], flops[32], want[400];

    c->layers = 1, c->width = 16, c->heads = 2, c->vocab = 257, c->threads = 1;
    ck_assert(!config_resolve(c, &why) && !model_open(&s.trainer.model, c, &why));
    s.trainer.cfg = *c;
    s.peak = 12.4e9;
    s.chosen = "nano";
    format_count(count, sizeof count, (double)model_count(&s.trainer.model));
    format_bytes(memory, sizeof memory, plan_memory(&s.trainer.model, c));
    format_count(flops, sizeof flops,
                 trainer_step_flops(&s.trainer, 0) / (double)trainer_step_tokens(c));
    snprintf(want, sizeof want,
             "model: softmax, 1 layer of width 16, context 32: %s parameters\n"
             "memory %s; %s FLOPs a token; products at 12 GFLOP/s, 1 thread\n"
             "settings for 3.15 MiB: --size nano vocab=257\n",
             count, memory, flops);
    listen_to(STDERR_FILENO);
    tell_model(&live, &s);
    ck_assert_str_eq(heard(), want);
    s.run.budget = BUDGET_FOR, s.run.amount = 90;
    s.chosen_arch = "copying";
    c->layers = 2, c->threads = 3;
    listen_to(STDERR_FILENO);
    tell_model(&live, &s);
    const char *said = heard();

    ck_assert_msg(strstr(said, "2 layers of ") && strstr(said, "3 threads\n") &&
                  strstr(said, "3.15 MiB and 1m30s: --size nano --arch copying "),
                  "%s", said);
    s.trainer.tally.step = 1;
    listen_to(STDERR_FILENO);
    tell_model(&live, &s);
    said = heard();
    ck_assert_msg(!strstr(said, "settings for"), "%s", said);
    model_close(&s.trainer.model);
}
END_TEST

/* With a size that 3 MB of text can feed, when that is smaller. */
START_TEST(a_model_too_large_for_its_text_is_told)
{
    struct setup   s = a_run("runs/x");
    struct config *c = &s.run.cfg;
    struct why     why;
    char           count[32], want[200];
    const char    *said;

    c->layers = 1, c->width = 16, c->heads = 2, c->vocab = 257;
    ck_assert(!config_resolve(c, &why) && !model_open(&s.trainer.model, c, &why));
    format_count(count, sizeof count, (double)model_count(&s.trainer.model));
    for (int large = 0; large < 2; large++) {
        s.data.train.tokens = 10;
        snprintf(want, sizeof want,
                 "\n3.15 MiB of text are little for %s parameters, which learn it by "
                 "heart: give more%s\n", count, large ? ", or --size mini" : "");
        listen_to(STDERR_FILENO);
        tell_model(&live, &s);
        said = heard();
        ck_assert_msg(strstr(said, want), "%s", said);
        s.data.train.tokens = 1 << 20;
        listen_to(STDERR_FILENO);
        tell_model(&live, &s);
        said = heard();
        ck_assert_msg(!strstr(said, "by heart"), "%s", said);
        c->layers = 100, c->width = 1000;
    }
    model_close(&s.trainer.model);
}
END_TEST

/* Of two blocks; all, then all but the embedding and what the second has of its mixer. */
START_TEST(what_a_run_began_with_is_told)
{
    struct setup   s = a_run("runs/x");
    struct config *c = &s.run.cfg;
    struct model  *m = &s.trainer.model;
    struct why     why;
    char           some[32], all[32], want[400];
    bool           taken[32];
    double         kept = 0;
    int            n = 0;

    c->layers = 2, c->width = 16, c->heads = 2, c->vocab = 257;
    ck_assert(!config_resolve(c, &why) && !model_open(m, c, &why) && m->n_param <= 32);
    s.trainer.start = m;
    s.trainer.taken = taken;
    snprintf(s.run.from, sizeof s.run.from, "/a/ckpt-00000001");
    memset(taken, true, sizeof taken);
    format_count(all, sizeof all, (double)m->n);
    snprintf(want, sizeof want,
             "\nfrom /a/ckpt-00000001: kept %d of %d tensors (%s of %s parameters): "
             "embed norm1 mixer.wq mixer.wk mixer.wv mixer.wo norm2 mlp.wg mlp.wu mlp.wd "
             "norm\n",
             m->n_param, m->n_param, all, all);
    listen_to(STDERR_FILENO);
    tell_model(&live, &s);
    const char *said = heard();

    ck_assert_msg(strstr(said, want) && !strstr(said, "anew"), "%s, not %s", said, want);
    for (int i = 0; i < m->n_param; i++) {
        taken[i] = i > 0 && strncmp(m->param[i].name, "blocks.1.mixer.", 15);
        n += taken[i];
        kept += taken[i] ? (double)param_size(&m->param[i].is) : 0;
    }
    format_count(some, sizeof some, kept);
    snprintf(want, sizeof want,
             ": kept %d of %d tensors (%s of %s parameters): norm1 mixer.wq (1 of 2) "
             "mixer.wk (1 of 2) mixer.wv (1 of 2) mixer.wo (1 of 2) norm2 mlp.wg mlp.wu "
             "mlp.wd norm\ninitialised anew: embed mixer.wq (1 of 2) mixer.wk (1 of 2) "
             "mixer.wv (1 of 2) mixer.wo (1 of 2)\n", n, m->n_param, some, all);
    listen_to(STDERR_FILENO);
    tell_model(&live, &s);
    said = heard();
    ck_assert_msg(strstr(said, want), "%s, not %s", said, want);
    s.trainer.tally.step = 1;
    listen_to(STDERR_FILENO);
    tell_model(&live, &s);
    said = heard();
    ck_assert_msg(!strstr(said, "kept"), "%s", said);
    model_close(m);
}
END_TEST

/* Steps that are left, tokens of each, how often they read the text, and the time. */
START_TEST(the_plan_is_that_of_the_steps_left)
{
    struct setup    s = a_run("runs/x");
    struct decision more[] = {{100, DECIDED_WARMUP, 4}, {116, DECIDED_END, 120}};

    listen_to(STDERR_FILENO);
    tell_plan(&live, &s);
    ck_assert_str_eq(heard(), "100 steps of 64 tokens (0.00711 times the text), about "
                              "58s\n");
    s.trainer.tally.step = 50;
    listen_to(STDERR_FILENO);
    tell_plan(&live, &s);
    ck_assert_str_eq(heard(), "continuing runs/x at step 50\n"
                              "50 steps of 64 tokens (0.00356 times the text), about "
                              "29s\n");
    s.trainer.tally.step = 99;
    s.data.train.tokens = 1;
    listen_to(STDERR_FILENO);
    tell_plan(&live, &s);
    ck_assert_str_eq(heard(), "continuing runs/x at step 99\n"
                              "1 step of 64 tokens (64 times the text), about 0.6s\n"
                              "so often read, a text is learned by heart: more text or "
                              "less time is better\n");
    s.trainer.tally.step = 100;
    s.trainer.decisions = (struct decisions){more, 2, 2};
    s.data.train.tokens = 640;
    s.extends = true;
    listen_to(STDERR_FILENO);
    tell_plan(&live, &s);
    ck_assert_str_eq(heard(), "continuing runs/x at step 100\n"
                              "20 steps of 64 tokens (2 times the text), about 10s\n"
                              "over these the learning rate climbs, stays and falls once "
                              "more\n");
}
END_TEST

/* Of a clock's run the time is sure and the steps are not. */
START_TEST(the_plan_of_a_clock_is_its_time)
{
    struct setup s = a_run("runs/x");
    char         want[100];

    s.trainer.cfg.steps = s.run.cfg.steps = 0;
    s.run.budget = BUDGET_FOR;
    s.clock.amount = 100;
    clock_start(&s.clock, 40);
    snprintf(want, sizeof want, "about %ld steps of 64 tokens (",
             plan_steps(&s.trainer, BUDGET_FOR, 60, &s.cost, 0));
    listen_to(STDERR_FILENO);
    tell_plan(&live, &s);
    const char *said = heard();

    ck_assert_msg(!strncmp(said, want, strlen(want)) &&
                  strstr(said, " times the text), 1m00s\n"), "%s", said);
}
END_TEST

/* Every setting in lines of 80 columns that are as full as they can be; its explanation
 * from column 32 on. */
START_TEST(every_setting_is_explained_in_full_lines)
{
    struct config c;
    char          line[1000], next[400];
    const char   *said, *at;

    config_defaults(&c);
    listen_to(STDOUT_FILENO);
    tell_settings();
    said = heard();
    for (const struct key *k = config_keys; k->name; k++) {
        char value[sizeof c.mixers];

        config_format(&c, k, value, sizeof value);
        snprintf(line, sizeof line, "\n%s = %s", k->name, value);
        ck_assert_msg(strstr(said, line), "%s", line);
    }
    at = strstr(said, "\n\n") + 2;
    for (*line = 0; sscanf(at, "%399[^\n]", next) == 1; strcpy(line, next)) {
        size_t indent = strspn(next, " ");

        at += strlen(next) + 1;
        ck_assert_msg(strlen(next) <= 80 && (indent == 0 || indent == 32), "%s", next);
        if (indent && strlen(line) > 32)
            ck_assert_msg(strlen(line) + 1 + strcspn(next + 32, " ") > 80, "%s\n%s", line,
                          next);
    }
    ck_assert(!*at);
    ck_assert(strstr(said, "\nlayers = 4                      blocks in the stack; 1 to "
                           "1024\n"));
    ck_assert(strstr(said, " over the stack\ntied = "));     // words have no range
}
END_TEST

/* ---- while it trains ---- */

static void take(struct progress *p, long number, double loss, bool transfer)
{
    struct tally    y = {.step = number};
    struct step     s = {.loss = loss, .seconds = 0.5, .flops = 1e9,
                         .transfer = transfer};
    struct log_line line = {.tally = &y, .step = &s, .tok_s = 2000, .mfu = 0.5};

    p->live.shown = 0;
    progress_step(p, &line);
}

/* A mean of all losses at first, then of about the last twenty; 100 hours and a quarter
 * are left after the first step of five. */
START_TEST(off_a_terminal_there_are_plain_lines)
{
    struct dataset  d = {.zstd_bpb = 2.5, .floor_bpb = 1.5};
    struct progress p = {0};

    listen_to(STDERR_FILENO);
    progress_open(&p, 10, 5, &d, 1);
    p.start = wall_seconds() - 90225;
    p.bpb = 2;
    take(&p, 6, 2, false);
    ck_assert_str_eq(heard(),
                     "step 6/10  loss 2.000  2.00k tok/s  50% peak  4d04h left\n");
    p.steps = 1000;
    listen_to(STDERR_FILENO);
    take(&p, 7, 4, false);
    take(&p, 8, NAN, false);
    take(&p, 105, 23, false);
    take(&p, 106, 0.5, true);
    p.live.shown = wall_seconds();
    progress_step(&p, &(struct log_line){.tally = &(struct tally){.step = 107},
                                         .step = &(struct step){.seconds = 0.5}});
    const char *said = heard();

    ck_assert_msg(!strncmp(said, "step 7/1000  loss 3.000  ", 25), "%s", said);
    ck_assert_msg(strstr(said, "\nstep 8/1000  loss 3.000  "), "%s", said);
    ck_assert_msg(strstr(said, "\nstep 105/1000  loss 4.000  "), "%s", said);
    ck_assert_msg(strstr(said, "\nstep 106/1000  transfer 0.500  "), "%s", said);
    ck_assert_msg(!strstr(said, "\nstep 107"), "%s", said);
}
END_TEST

START_TEST(on_a_terminal_one_line_is_rewritten)
{
    struct progress p = {.steps = 10, .loss = NAN, .bpb = NAN, .seconds = NAN,
                         .live = {.terminal = true, .every = 0.1}};

    listen_to(STDERR_FILENO);
    take(&p, 5, 2, false);
    take(&p, 6, 2, false);
    const char *said = heard(), *second = strchr(said + 1, '\r');

    ck_assert_msg(second && !strncmp(said, "\r[", 2) && !strncmp(second, "\r[", 2) &&
                  strstr(said, "] 5/10 loss 2.000 ") && !strchr(said, '\n') &&
                  strstr(second, "] 6/10 loss 2.000 "), "%s", said);
}
END_TEST

START_TEST(a_validation_is_a_line_off_a_terminal)
{
    struct progress p = {.steps = 10, .zstd = 2.5, .floor = 1.5};

    listen_to(STDERR_FILENO);
    progress_validation(&p, 5, 1.5, 2);
    p.steps = 0, p.zstd = p.floor = 0;
    progress_validation(&p, 6, 1.5, 2.25);
    progress_validation(&p, 7, NAN, NAN);
    p.live.terminal = true;
    progress_validation(&p, 8, 1.5, 2.75);
    ck_assert_str_eq(heard(),
                     "step 5/10  validation 2.000 bits/byte (1.5000 nats/token, "
                     "perplexity 4.48; zstd -19 2.500; floor 1.500)\n"
                     "step 6  validation 2.250 bits/byte (1.5000 nats/token, perplexity "
                     "4.48)\n");
    ck_assert_double_eq(p.bpb, 2.75);
}
END_TEST

/* Lines of its own stay; a word longer than a line breaks between characters. */
START_TEST(a_sample_is_shown_whole)
{
    struct progress p = {0};
    char            text[400], want[500];
    int             n = sprintf(text, "first\n\nthird a");

    listen_to(STDERR_FILENO);
    progress_sample(&p, 7, text, (size_t)n);
    ck_assert_str_eq(heard(), "sample at step 7:\n    first\n    \n    third a\n");
    n = sprintf(text, "a"), sprintf(want, "sample at step 8:\n    a");
    for (int i = 0; i < 80; i++) {
        n += sprintf(text + n, "é");
        strcat(want, i == 35 || i == 71 ? "\n    é" : "é");
    }
    strcat(want, "\n");
    listen_to(STDERR_FILENO);
    progress_sample(&p, 8, text, (size_t)n);
    ck_assert_str_eq(heard(), want);
}
END_TEST

/* ---- after ---- */

START_TEST(a_result_says_how_good_it_is_and_what_comes_next)
{
    struct setup  s = a_run("runs/a b");
    struct tally *y = &s.trainer.tally;

    y->step = 100, y->tokens = 6400, y->seconds = 75;
    s.data.floor_bpb = 1.5;
    listen_to(STDERR_FILENO);
    tell_result(&s, 1.5, 2);
    ck_assert_str_eq(heard(),
                     "runs/a b: 100 steps, 6.40k tokens in 1m15s\n"
                     "validation 2.000 bits/byte (1.5000 nats/token, perplexity 4.48)\n"
                     "beside it: zstd -19 2.500, order-2 model 3.250, no model below "
                     "1.500\n"
                     "good: 20 % below zstd -19, it has learned how this text goes\n"
                     "write with it:  weft infer 'runs/a b' -p \"Once upon a time\"\n"
                     "train it more:  weft train --resume 'runs/a b' --steps 200\n");
    y->step = y->skipped = 1;
    s.data.zstd_bpb = s.data.floor_bpb = 0;
    s.data.val.bytes = 9999;
    s.run.budget = BUDGET_FOR, s.run.amount = 89.5;
    listen_to(STDERR_FILENO);
    tell_result(&s, 1.5, 2);
    ck_assert_str_eq(heard(),
                     "runs/a b: 1 step, 6.40k tokens in 1m15s, 1 step skipped\n"
                     "validation 2.000 bits/byte (1.5000 nats/token, perplexity 4.48)\n"
                     "the validation text is too small to tell (9999 bytes): give more "
                     "text\n"
                     "write with it:  weft infer 'runs/a b' -p \"Once upon a time\"\n"
                     "train it more:  weft train --resume 'runs/a b' --for 90s\n");
    y->skipped = 2;
    s.run.budget = BUDGET_STEPS;
    s.trainer.decisions.n = 1;
    listen_to(STDERR_FILENO);
    tell_result(&s, NAN, NAN);
    ck_assert_str_eq(heard(),
                     "runs/a b: 1 step, 6.40k tokens in 1m15s, 2 steps skipped\n"
                     "write with it:  weft infer 'runs/a b' -p \"Once upon a time\"\n"
                     "train it more:  weft train --resume 'runs/a b' --tokens 6400\n");
    snprintf(s.run.replay, sizeof s.run.replay, "/runs/first");
    listen_to(STDERR_FILENO);
    tell_finished(&s);
    ck_assert_str_eq(heard(),
                     "runs/a b is finished: 1 step done\n"
                     "write with it:  weft infer 'runs/a b' -p \"Once upon a time\"\n");
}
END_TEST

/* Better by more than chance, why it got worse, and where it is, if it was kept. */
START_TEST(a_run_that_was_better_once_says_when)
{
    static const struct {
        double      best, bits;
        uint64_t    tokens;
        bool        kept;
        const char *then;               // NULL: nothing is said
    } rows[] = {
        {1.25, 2, 6400, false, "it got worse"},
        {1.25, 2, 900000, true, "learned by heart"},
        {1.25, 9, 900000, true, "it came apart"},
        {1.49, 2, 6400, true, NULL},
    };
    struct setup s = a_run(rig_tmp());
    char         want[1500], path[1100], next[1200];
    struct why   why;

    checkpoint_path(path, sizeof path, s.run.dir, 50);
    if (rows[_i].kept)
        ck_assert(!dir_make(path, &why));
    s.trainer.tally = (struct tally){.step = 100, .best_step = 50,
                                     .best_loss = rows[_i].best,
                                     .tokens = rows[_i].tokens};
    listen_to(STDERR_FILENO);
    tell_result(&s, 1.5, rows[_i].bits);
    const char *said = heard(), *at = strstr(said, "it was best at ");

    snprintf(next, sizeof next, "write with it:  weft infer %s%s -p ", s.run.dir,
             rows[_i].then && rows[_i].kept ? "@best" : "");
    ck_assert_msg(strstr(said, next), "%s", said);
    snprintf(next, sizeof next, "train it more:  weft train --resume %s --steps 200\n",
             s.run.dir);
    ck_assert_msg(strstr(said, next), "%s", said);
    ck_assert(!rows[_i].then == !at);
    if (!at)
        return;
    snprintf(want, sizeof want,
             "it was best at step 50 (1.2500 nats/token), then %s\n%s%s%swrite with it: ",
             rows[_i].then, rows[_i].kept ? "that is in:     " : "",
             rows[_i].kept ? path : "", rows[_i].kept ? "\n" : "");
    ck_assert_msg(!strncmp(at, want, strlen(want)), "%s", said);
}
END_TEST

/* What was not saved needs its text named again. */
START_TEST(an_interrupted_run_says_how_it_goes_on)
{
    struct setup s = a_run("runs/x");
    char        *input[] = {"/a/b.txt", "/a b.txt"};

    s.run.input = input, s.run.n_input = 2;
    snprintf(s.run.val, sizeof s.run.val, "/v.txt");
    listen_to(STDERR_FILENO);
    tell_interrupted(&s);
    s.saved = 0;
    tell_interrupted(&s);
    s.saved = 30;
    tell_interrupted(&s);
    s.clock.amount = 60;
    tell_interrupted(&s);
    input[0] = "-", s.run.n_input = 1, s.saved = 0, s.run.val[0] = 0;
    tell_interrupted(&s);
    ck_assert_str_eq(heard(),
                     "continue with:  weft train --resume runs/x /a/b.txt '/a b.txt' "
                     "/v.txt\n"
                     "continue with:  weft train --resume runs/x /a/b.txt '/a b.txt' "
                     "/v.txt\n"
                     "saved at step 30 of 100\n"
                     "continue with:  weft train --resume runs/x\n"
                     "saved at step 30\n"
                     "continue with:  weft train --resume runs/x\n"
                     "continue with:  weft train --resume runs/x\n");
}
END_TEST

START_TEST(a_fair_result_says_what_it_beats)
{
    static const struct {
        double      zstd, order2;
        const char *says;
    } rows[] = {
        {1.8, 2.5, "fair: it beats an order-2 model; train longer to beat zstd -19"},
        {2.5, 1.8, "fair: it beats zstd -19; train longer to beat an order-2 model"},
        {0, 2.5, "there is nothing to compare it with"},
        {2.5, 0, "there is nothing to compare it with"},
    };
    struct dataset d = {.zstd_bpb = rows[_i].zstd, .order2_bpb = rows[_i].order2};
    char           line[128];

    tell_verdict(&d, 2.4, line, sizeof line);
    ck_assert_str_eq(line, rows[_i].says);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("report");
    TCase *tc = tcase_create("all");

    tcase_add_test(tc, the_text_and_what_is_to_beat_are_told);
    tcase_add_test(tc, the_model_and_why_it_was_chosen_are_told);
    tcase_add_test(tc, a_model_too_large_for_its_text_is_told);
    tcase_add_test(tc, what_a_run_began_with_is_told);
    tcase_add_test(tc, the_plan_is_that_of_the_steps_left);
    tcase_add_test(tc, the_plan_of_a_clock_is_its_time);
    tcase_add_test(tc, every_setting_is_explained_in_full_lines);
    tcase_add_test(tc, off_a_terminal_there_are_plain_lines);
    tcase_add_test(tc, on_a_terminal_one_line_is_rewritten);
    tcase_add_test(tc, a_validation_is_a_line_off_a_terminal);
    tcase_add_test(tc, a_sample_is_shown_whole);
    tcase_add_test(tc, a_result_says_how_good_it_is_and_what_comes_next);
    tcase_add_loop_test(tc, a_run_that_was_better_once_says_when, 0, 4);
    tcase_add_test(tc, an_interrupted_run_says_how_it_goes_on);
    tcase_add_loop_test(tc, a_fair_result_says_what_it_beats, 0, 4);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 1);
}
