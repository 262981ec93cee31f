/* The verbs infer and score, from end to end. */
#include "infer/score.h"
#include "infer/verbs.h"
#include "tests/support/rig.h"
#include "tests/support/spawn.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void need_run(void)
{
    static char dir[512];

    if (*dir)
        return;
    snprintf(dir, sizeof dir, "%s/run", rig_tmp());
    spawn_run_dir = dir;
    ck_assert_int_eq(spawn_verb(spawn_checkpoint, "@ softmax", "")->code, 0);
}

static const struct ran *infer(const char *line, const char *input)
{
    return spawn_verb(infer_main, line, input);
}

static const struct ran *score(const char *line, const char *input)
{
    return spawn_verb(score_main, line, input);
}

START_TEST(the_same_seed_gives_the_same_text)
{
    char *first;

    need_run();
    first = strdup(infer("infer @ -p Hi -n 40 --seed 5", "")->out);
    ck_assert(!strncmp(first, "Hi", 2));
    ck_assert_str_eq(infer("infer @ -p Hi -n 40 -s 5", "")->out, first);
    ck_assert_str_eq(infer("infer @ -n 40 --seed=5", "Hi\n")->out, first);
    ck_assert_str_eq(infer("infer @ -n 40 --seed=5 --no-echo", "Hi")->out, first + 2);
    ck_assert_str_ne(infer("infer @ -p Hi -n 40 --seed 6", "")->out, first);
    free(first);
}
END_TEST

START_TEST(the_seed_that_was_drawn_is_told_and_repeats_the_text)
{
    char *first, again[256];
    unsigned long long seed;

    need_run();
    const struct ran *r = infer("infer @ -p Hi -n 40", "");

    first = strdup(r->out);
    ck_assert_int_eq(sscanf(r->err, "seed %llu\n", &seed), 1);
    snprintf(again, sizeof again, "infer @ -p Hi -n 40 --seed %llu", seed);
    ck_assert_str_eq(infer(again, "")->out, first);
    free(first);
}
END_TEST

START_TEST(samples_come_in_order_and_the_first_is_the_single_one)
{
    char want[5000];

    need_run();
    const struct ran *r = infer("infer @ -p Hi -n 9 --temp 0.1 --seed 5", "");

    snprintf(want, sizeof want,
             "--- sample 1 of 3 ---\n%.4000s--- sample 2 of 3 ---\nHi", r->out);
    r = infer("infer @ -p Hi -n 9 --temp 0.1 --seed 5 --samples 3", "");

    ck_assert_int_eq(r->code, 0);
    ck_assert_msg(!strncmp(r->out, want, strlen(want)), "%s", r->out);
    ck_assert_ptr_nonnull(strstr(r->out, "--- sample 3 of 3 ---\nHi"));
}
END_TEST

START_TEST(full_attention_says_once_that_it_drops_the_oldest)
{
    const char *line;

    need_run();
    line = strstr(infer("infer @ -p Hi -n 60 --ignore-eos", "")->err,
                  "past the 32 tokens the model was trained on: the oldest are dropped");
    ck_assert_ptr_nonnull(line);
    ck_assert_ptr_null(strstr(line + 1, "past the"));
    ck_assert_ptr_null(strstr(infer("infer @ -p Hi -n 9", "")->err, "past the"));
}
END_TEST

START_TEST(full_attention_holds_as_many_tokens_as_asked)
{
    char *trained;

    need_run();
    trained = strdup(infer("infer @ -p Hi -n 29 --ignore-eos --seed 5", "")->out);
    const struct ran *r =
        infer("infer @ -p Hi -n 29 --ignore-eos --seed 5 --context 99", "");

    ck_assert_str_eq(r->out, trained);
    ck_assert_ptr_null(
        strstr(infer("infer @ -p Hi -n 60 --ignore-eos --context 99", "")->err, "past"));
    ck_assert_ptr_nonnull(strstr(
        infer("infer @ -p Hi -n 99 --ignore-eos --context 99", "")->err,
        "past the 99 tokens the model may hold"));
    free(trained);
}
END_TEST

START_TEST(a_long_text_ends_with_the_cost_of_its_first_and_last_tenth)
{
    double us[2], mib[2];

    need_run();
    const char *line = strstr(
        infer("infer @ -p Hi -n 10000 --ignore-eos", "")->err, "first tenth");

    ck_assert_ptr_nonnull(line);
    ck_assert_int_eq(sscanf(line, "first tenth: %lf us a token, %lf MiB held\n"
                                  "last tenth: %lf us a token, %lf MiB held\n",
                            us, mib, us + 1, mib + 1), 4);
    ck_assert(us[0] > 0 && us[1] > 0 && mib[0] > 0);
#ifndef __SANITIZE_ADDRESS__            // which keeps what is freed for a while
    ck_assert_msg(mib[1] < 1.2 * mib[0], "%g MiB, then %g", mib[0], mib[1]);
#endif
    ck_assert_ptr_null(
        strstr(infer("infer @ -p Hi -n 60 --ignore-eos", "")->err, "tenth"));
}
END_TEST

START_TEST(interactive_answers_every_line)
{
    need_run();
    const struct ran *r = infer("infer @ -i -n 0", "one\ntwo\n");

    ck_assert_int_eq(r->code, 0);
    ck_assert_ptr_nonnull(strstr(r->err, "tokens: prompt 9,"));   // EOS and eight bytes
    r = infer("infer @ -i -n 3 --ignore-eos --temp 0", "one\ntwo\n");
    ck_assert_ptr_nonnull(strstr(r->err, "text 6,"));
    ck_assert_ptr_nonnull(strstr(r->err, "tokens: prompt 10,"));  // and the one left over
}
END_TEST

START_TEST(lines_with_a_slash_are_commands)
{
    char       *want, *once;
    const char *line = "infer @ -i -n 9 --ignore-eos --seed 5";

    need_run();
    once = strdup(infer(line, "one\n")->out);
    want = strdup(infer(line, "one\ntwo\n")->out);
    ck_assert_str_ne(want, once);
    // taken back and typed again, the same follows; of what was taken back nothing stays
    const struct ran *r = infer(line, "one\nnever\n/undo\ntwo\n");

    ck_assert(!strncmp(r->out, once, strlen(once)));
    ck_assert_str_eq(r->out + strlen(r->out) - (strlen(want) - strlen(once)),
                     want + strlen(once));
    ck_assert_ptr_nonnull(strstr(r->err, "are taken back"));
    ck_assert_str_eq(infer("infer @ -i -n 9 --ignore-eos --seed 9",
                           "/seed 5\none\ntwo\n")->out, want);
    r = infer("infer @ -i -n 9 --ignore-eos --temp 0", "one\n");
    free(want);
    want = strdup(r->out);
    r = infer("infer @ -i -n 9 --ignore-eos",
              "/temp 0\none\n/undo\n/undo\n/temp hot\n/go\n");
    ck_assert_str_eq(r->out, want);
    ck_assert_ptr_nonnull(strstr(r->err, "nothing is left to take back"));
    ck_assert_ptr_nonnull(strstr(r->err, "/temp X: a number from 0 to 100; it is 0"));
    ck_assert_ptr_nonnull(strstr(r->err, "no command /go; /help lists them"));
    ck_assert_ptr_nonnull(strstr(infer("infer @ -i", "/help\n")->err, "/undo"));
    // EOS, then "/x" and the newline
    ck_assert_ptr_nonnull(strstr(infer("infer @ -i -n 0", "//x\n")->err, "prompt 4,"));
    free(want), free(once);
}
END_TEST

START_TEST(a_command_says_what_it_set_or_what_it_takes)
{
    need_run();
    const struct ran *r =
        infer("infer @ -i -n 0 --seed 9 --temp 0.25",
              "/seed x\n/seed\n/seed 12\n/temp 101\n/temp -1\n/temp 0.5\n/temp 1x\n");

    ck_assert_msg(strstr(r->err, "/seed N: a whole number; it is 9\n"
                                 "/seed N: a whole number; it is 9\n"
                                 "seed 12\n"
                                 "/temp X: a number from 0 to 100; it is 0.25\n"
                                 "/temp X: a number from 0 to 100; it is 0.25\n"
                                 "temperature 0.5\n"
                                 "/temp X: a number from 0 to 100; it is 0.5\n"),
                  "%s", r->err);
}
END_TEST

START_TEST(one_newline_at_the_end_of_stdin_is_no_prompt)
{
    static const struct { const char *input, *err; } rows[] = {
        {"Hi", "prompt 3,"}, {"Hi\n", "prompt 3,"}, {"Hi\n\n", "prompt 4,"},
    };

    need_run();
    for (int i = 0; i < 3; i++) {
        const struct ran *r = infer("infer @ -n 0", rows[i].input);

        ck_assert_msg(strstr(r->err, rows[i].err) != NULL, "%s", r->err);
        ck_assert_str_eq(r->out, "Hi\n");
    }
}
END_TEST

START_TEST(a_text_ends_before_what_it_is_to_stop_at)
{
    need_run();
    ck_assert_str_eq(infer("infer @ -p Hi -n 9 --temp 0 --logit-bias x+90 --stop xxx "
                           "--stop nothing", "")->out, "Hi\n");
    ck_assert_str_eq(infer("infer @ -p Hi -n 2 --temp 0 --logit-bias x+90 --stop xxx",
                           "")->out, "Hixx\n");
}
END_TEST

/* Bytes of the state that a command says it held. */
static double state_after(const char *line)
{
    const char *at = strstr(infer(line, "")->err, "; state ");
    double      n = 0;
    char        unit[8] = "";

    ck_assert_ptr_nonnull(at);
    ck_assert_int_eq(sscanf(at, "; state %lf %7s", &n, unit), 2);
    return n * (*unit == 'K' ? 1 << 10 : *unit == 'M' ? 1 << 20 : 1);
}

START_TEST(the_last_line_counts_tokens_and_the_state_that_they_took)
{
    double few, many, full;

    need_run();
    ck_assert_ptr_nonnull(strstr(
        infer("infer @ -p Hi -n 4 --ignore-eos", "")->err, "tokens: prompt 3, "));
    ck_assert_ptr_nonnull(strstr(
        infer("infer @ -p Hi -n 4 --ignore-eos", "")->err, "; text 4, "));
    few = state_after("infer @ -p Hi -n 5 --ignore-eos");           // 7 of 32 tokens
    many = state_after("infer @ -p Hi -n 21 --ignore-eos");         // 23
    full = state_after("infer @ -p Hi -n 60 --ignore-eos");
    ck_assert_msg(many > 2 * few && full > many, "%g, %g, %g", few, many, full);
    ck_assert(state_after("infer @ -p Hi -n 90 --ignore-eos") == full);
    ck_assert_ptr_null(strstr(infer("infer @ -p Hi -n 1", "")->err, " each\n"));
    ck_assert_ptr_nonnull(
        strstr(infer("infer @ -p Hi -n 1 --samples 2", "")->err, " each\n"));
}
END_TEST

/* A reader that closes after one byte. */
static int into_closed_pipe(int argc, char **argv)
{
    int pipe_fd[2];

    if (pipe(pipe_fd) || dup2(pipe_fd[1], 1) < 0)
        return 1;
    close(pipe_fd[0]);
    return infer_main(argc, argv);
}

START_TEST(a_reader_that_leaves_ends_it_quietly)
{
    need_run();
    const struct ran *r = spawn_verb(into_closed_pipe,
                                     "infer @ -p Hi -n -1 --ignore-eos", "");

    ck_assert_int_eq(r->code, 0);
    ck_assert_ptr_null(strstr(r->err, "weft infer:"));
}
END_TEST

/* Ctrl-C after a moment. */
static int interrupted_soon(int argc, char **argv)
{
    pid_t self = getpid();

    if (fork() == 0) {
        usleep(300000);
        kill(self, SIGINT);
        _exit(0);
    }
    return infer_main(argc, argv);
}

START_TEST(an_interrupt_ends_the_line_and_exits_130)
{
    need_run();
    const struct ran *r = spawn_verb(interrupted_soon,
                                     "infer @ -p Hi -n -1 --ignore-eos", "");

    ck_assert_int_eq(r->code, 130);
    ck_assert_ptr_nonnull(strstr(r->err, "tokens: prompt"));
}
END_TEST

START_TEST(biases_and_penalties_reach_the_text)
{
    need_run();
    ck_assert_str_eq(infer("infer @ -p Hi -n 4 --temp 0 --logit-bias 120+90 "
                           "--logit-bias 121+80", "")->out, "Hixxxx\n");
    ck_assert_str_eq(infer("infer @ -p Hi -n 4 --temp 0 --logit-bias x+90 "
                           "--logit-bias y+80 --presence-penalty 20", "")->out,
                     "Hixyxx\n");
    ck_assert_str_eq(infer("infer @ -p Hi -n 4 --temp 0 --logit-bias x+90 "
                           "--logit-bias y+80 --frequency-penalty 20", "")->out,
                     "Hixyxy\n");
    ck_assert_str_eq(infer("infer @ -p Hi -n 4 --temp 0 --logit-bias x+9e1 "
                           "--logit-bias x-inf --logit-bias y+80", "")->out,
                     "Hiyyyy\n");
}
END_TEST

/* What infer and score refuse, the code, and words of the line. */
static const struct {
    bool score; const char *line; int code; const char *err;
} refused[] = {
    {false, "infer", 2, "which run?"},
    {false, "infer @ Once", 2, "'Once' is one argument too many"},
    {false, "infer @ -i --samples 2", 2, "leave out --samples"},
    {false, "infer @ --stop=", 2, "--stop: the text is empty"},
    {false, "infer @ --top-p 1.5", 2, "it goes from 0 to 1"},
    {false, "infer @ -n -2", 2, "--n-predict: -2 is out of range"},
    {false, "infer @ --context 0", 2, "--context: 0 is out of range"},
    {false, "infer @ --presence-penalty 101", 2, "it goes from -100 to 100"},
    {false, "infer @ --logit-bias 257+1", 2,
     "257: there is no such token; ids go from 0 to 256"},
    {false, "infer @ --logit-bias 5", 2, "'5' is not TOKEN+X or TOKEN-X"},
    {false, "infer @ --logit-bias 5+nan", 2, "'5+nan' is not TOKEN+X"},
    {false, "infer @ --logit-bias +1", 2, "'+1' is not TOKEN+X"},
    {false, "infer @ --logit-bias abc+1", 2, "'abc' is 3 tokens of this model: 'a' 'b'"},
    {false, "infer nowhere -p x", 3, "nowhere"},
    {false, "infer / -p x", 3, "/"},
    {true, "score @", 2, "weft score RUN FILE|DATASET"},
    {true, "score @ nothing.txt", 3, "nothing.txt"},
    {true, "score nowhere -", 3, "nowhere"},
};

START_TEST(what_cannot_work_is_refused_in_one_line)
{
    need_run();
    const struct ran *r = refused[_i].score ? score(refused[_i].line, "x")
                                            : infer(refused[_i].line, "x");

    spawn_refused(r, refused[_i].line, refused[_i].code, refused[_i].err);
    ck_assert_str_eq(r->out, "");
}
END_TEST

START_TEST(score_counts_every_byte_and_the_end_of_the_document)
{
    json_t *j;

    need_run();
    const struct ran *r = score("score @ - --json", "To be, or not to be, that is it");

    ck_assert_msg(r->code == 0, "%s", r->err);
    j = json_loads(r->out, 0, NULL);
    ck_assert_ptr_nonnull(j);
    double nats = json_number_value(json_object_get(j, "nats"));

    ck_assert_int_eq(json_integer_value(json_object_get(j, "tokens")), 32);
    ck_assert_int_eq(json_integer_value(json_object_get(j, "bytes")), 31);
    ck_assert(json_is_null(json_object_get(j, "stderr")));         // one window
    ck_assert_double_gt(nats, 0);
    ck_assert_double_eq_tol(json_number_value(json_object_get(j, "bpb")),
                            nats * 32 / log(2) / 31, 1e-6);
    ck_assert_double_eq_tol(json_number_value(json_object_get(j, "perplexity")),
                            exp(nats), 1e-5 * exp(nats));
    json_decref(j);
}
END_TEST

START_TEST(tokens_are_json_lines_that_add_up_to_the_score)
{
    double nats = 0;
    int    n = 0;
    static const int ids[] = {'"', 0xc3, 0xa9, '\\', 1, 256};

    need_run();
    const struct ran *r = score("score @ - --per-token --json", "\"\xc3\xa9\\\x01");

    ck_assert_msg(r->code == 0, "%s", r->err);
    for (const char *line = r->out; *line; line = strchr(line, '\n') + 1) {
        json_t *j = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);

        ck_assert_msg(j != NULL, "%s", line);
        double here = json_number_value(json_object_get(j, "nats"));

        if (n < 6) {
            ck_assert_int_eq(json_integer_value(json_object_get(j, "id")), ids[n]);
            ck_assert_int_eq(json_integer_value(json_object_get(j, "context")),
                             n ? ids[n - 1] : 256);
            ck_assert_int_eq(json_integer_value(json_object_get(j, "at")), n);
            ck_assert((json_object_get(j, "bytes") != NULL) == (n == 1 || n == 2));
            nats += here;
        } else {
            ck_assert_double_eq_tol(here, nats / 6, 1e-7 * here);
        }
        json_decref(j);
        n++;
    }
    ck_assert_int_eq(n, 7);
}
END_TEST

/* A model with prefix "Hi " and the same weights without, on the same text. */
START_TEST(a_prefix_is_read_before_every_document_and_not_echoed)
{
    const char *plain = spawn_run_dir, *scored = "score @ - --per-token --json";
    char        dir[512], *want;

    need_run();
    plain = spawn_run_dir;
    want = strdup(infer("infer @ -p Hi~there -n 20 --seed 5 --no-echo", "")->out);
    snprintf(dir, sizeof dir, "%s/prefix", rig_tmp());
    spawn_run_dir = dir;
    ck_assert_int_eq(
        spawn_verb(spawn_checkpoint, "@ softmax prefix=\"Hi~\"", "")->code, 0);
    ck_assert_str_eq(infer("infer @ -p there -n 20 --seed 5 --no-echo", "")->out, want);
    ck_assert(!strncmp(infer("infer @ -p there -n 3", "")->out, "there", 5));
    free(want);
    want = strdup(score(scored, "a\n<|endoftext|>\nb\n")->out);
    spawn_run_dir = plain;
    const char *joined =
        score(scored, "Hi a\n<|endoftext|>\nHi b\n")->out;

    ck_assert_int_eq(strcspn(want, "{"), 0);
    ck_assert_msg(!strncmp(want, joined, strrchr(joined, '{') - joined), "%s", want);
    free(want);
}
END_TEST

/* Bits are counted by the bytes of the text, and so is their error. A byte is a token
 * here, and three of them are the prefix. */
START_TEST(the_error_of_bits_per_byte_leaves_the_prefix_out)
{
    const char   *plain;
    char          dir[512], text[128];
    struct spread s = {0};
    double        nats = 0, bytes = 0;
    int           hidden = 3;

    need_run();
    plain = spawn_run_dir;
    snprintf(dir, sizeof dir, "%s/prefixed", rig_tmp());
    spawn_run_dir = dir;
    ck_assert_int_eq(
        spawn_verb(spawn_checkpoint, "@ softmax prefix=\"Hi~\"", "")->code, 0);
    snprintf(text, sizeof text, "%040d\n<|endoftext|>\n%050d\n", 0, 7);
    const struct ran *r = score("score @ - --per-token --json", text);

    spawn_run_dir = plain;
    ck_assert_msg(r->code == 0, "%s", r->err);
    for (const char *line = r->out; *line; line = strchr(line, '\n') + 1) {
        json_t       *j = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
        const json_t *id = json_object_get(j, "id");

        if (!id || (nats > 0 && !json_integer_value(json_object_get(j, "at")))) {
            spread_add(&s, nats, bytes);
            nats = bytes = 0;
        }
        if (!id)
            ck_assert_double_eq_tol(json_number_value(json_object_get(j, "stderr")),
                                    spread_error(&s) / log(2), 1e-6);
        nats += json_number_value(json_object_get(j, "nats"));
        if (json_integer_value(id) == 256)
            hidden = 3;
        else if (hidden > 0)
            hidden--;
        else
            bytes++;
        json_decref(j);
    }
    ck_assert_uint_ge(s.n, 3);
}
END_TEST

START_TEST(the_table_has_an_error_and_the_positions)
{
    char text[200];

    need_run();
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    const struct ran *r = score("score @ -", text);

    ck_assert_msg(r->code == 0, "%s", r->err);
    ck_assert_ptr_nonnull(strstr(r->out, " +- "));
    ck_assert_ptr_nonnull(strstr(r->out, "tokens       200\nbytes        199\n"));
    ck_assert_ptr_nonnull(strstr(r->out, "\n1                     7  "));
    ck_assert_ptr_nonnull(strstr(r->out, "\n16-31 "));
    ck_assert_ptr_nonnull(strstr(r->out, "\n32                    6  "));
}
END_TEST

START_TEST(weights_of_rela_that_are_0_are_counted)
{
    char        dir[512], text[100];
    const char *plain, *at;
    double      zeros = -1, nulls = -1;
    json_t     *j;

    need_run();
    plain = spawn_run_dir;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    ck_assert_ptr_null(strstr(score("score @ -", text)->out, "sparsity"));
    ck_assert_ptr_null(strstr(score("score @ - --json", text)->out, "sparsity"));
    snprintf(dir, sizeof dir, "%s/rela", rig_tmp());
    spawn_run_dir = dir;
    ck_assert_int_eq(spawn_verb(spawn_checkpoint, "@ rela", "")->code, 0);
    at = strstr(score("score @ -", text)->out, "sparsity");
    ck_assert_ptr_nonnull(at);
    ck_assert_int_eq(sscanf(at, "sparsity %lf of rela's weights are 0\n"
                                "null rate %lf of its tokens", &zeros, &nulls), 2);
    ck_assert(zeros >= 0 && zeros <= 1 && nulls >= 0 && nulls <= 1);
    j = json_loads(score("score @ - --json", text)->out, 0, NULL);
    spawn_run_dir = plain;
    ck_assert_double_eq_tol(json_number_value(json_object_get(j, "sparsity")), zeros,
                            1e-4);
    ck_assert_double_eq_tol(json_number_value(json_object_get(j, "null_rate")), nulls,
                            1e-4);
    json_decref(j);
}
END_TEST

START_TEST(beside_tokens_the_table_goes_to_stderr)
{
    need_run();
    const struct ran *r = score("score @ - --per-token", "ab");

    ck_assert_msg(r->code == 0, "%s", r->err);
    ck_assert(!strncmp(r->out, "{\"id\":97,", 9) && !strstr(r->out, "nats/token"));
    ck_assert(!strncmp(r->err, "nats/token   ", 13));
}
END_TEST

#define ROWS(table) (int)(sizeof table / sizeof *table)

static Suite *suite(void)
{
    Suite *s = suite_create("verbs");
    TCase *tc = tcase_create("verbs");

    tcase_add_test(tc, the_same_seed_gives_the_same_text);
    tcase_add_test(tc, the_seed_that_was_drawn_is_told_and_repeats_the_text);
    tcase_add_test(tc, samples_come_in_order_and_the_first_is_the_single_one);
    tcase_add_test(tc, full_attention_says_once_that_it_drops_the_oldest);
    tcase_add_test(tc, full_attention_holds_as_many_tokens_as_asked);
    tcase_add_test(tc, a_long_text_ends_with_the_cost_of_its_first_and_last_tenth);
    tcase_add_test(tc, interactive_answers_every_line);
    tcase_add_test(tc, lines_with_a_slash_are_commands);
    tcase_add_test(tc, a_command_says_what_it_set_or_what_it_takes);
    tcase_add_test(tc, one_newline_at_the_end_of_stdin_is_no_prompt);
    tcase_add_test(tc, a_text_ends_before_what_it_is_to_stop_at);
    tcase_add_test(tc, the_last_line_counts_tokens_and_the_state_that_they_took);
    tcase_add_test(tc, a_reader_that_leaves_ends_it_quietly);
    tcase_add_test(tc, an_interrupt_ends_the_line_and_exits_130);
    tcase_add_test(tc, biases_and_penalties_reach_the_text);
    tcase_add_loop_test(tc, what_cannot_work_is_refused_in_one_line, 0, ROWS(refused));
    tcase_add_test(tc, score_counts_every_byte_and_the_end_of_the_document);
    tcase_add_test(tc, tokens_are_json_lines_that_add_up_to_the_score);
    tcase_add_test(tc, a_prefix_is_read_before_every_document_and_not_echoed);
    tcase_add_test(tc, the_error_of_bits_per_byte_leaves_the_prefix_out);
    tcase_add_test(tc, the_table_has_an_error_and_the_positions);
    tcase_add_test(tc, weights_of_rela_that_are_0_are_counted);
    tcase_add_test(tc, beside_tokens_the_table_goes_to_stderr);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
