/* A run that begins with the weights of another: weft train INPUT --from RUN. */
#include "data/base/file.h"
#include "model/files/checkpoint.h"
#include "tests/support/docs.h"
#include "tests/support/rig.h"
#include "tests/support/spawn.h"
#include "train/run.h"
#include "train/train_verb.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char tmp[512];

static const char *at(const char *name)
{
    static char path[2][1024];
    static int  turn;

    return path_join(path[turn ^= 1], sizeof path[0], tmp, name);
}

/* weft train with '%' in line for the directory. */
static const struct ran *train(const char *line)
{
    char  words[1000];
    char *to = words;

    for (; *line; line++)
        to += *line == '%' ? sprintf(to, "%s/", tmp) : sprintf(to, "%c", *line);
    return spawn_verb(train_main, words, "");
}

static void must(const char *line, const char *words)
{
    const struct ran *r = train(line);

    ck_assert_msg(r->code == 0 && strstr(r->err, words), "%s: exit %d: %s", line,
                  r->code, r->err);
}

/* A text, and the run that the others begin with. */
static void need_run(void)
{
    static const char *const words[] = {"the ", "a ", "dog ", "boy ", "saw ", "ball.\n"};
    char text[12000] = "";

    if (*tmp)
        return;
    snprintf(tmp, sizeof tmp, "%s", rig_tmp());
    for (unsigned i = 0, x = 7, n = 0; n < sizeof text - 10; i++, x = x * 1103 + 12345)
        n += (unsigned)sprintf(text + n, "%s", words[i % 7 == 6 ? 5 : x / 64 % 5]);
    docs_put_text(at("text.txt"), text);
    must("train %text.txt --out %first layers=2 width=16 heads=2 context=32 batch=2 "
         "threads=1 vocab=270 steps=3", "first: 3 steps");
}

static void load(struct model *m, const char *run)
{
    struct tokenizer *t;
    struct why        why;

    ck_assert_msg(!checkpoint_load(at(run), m, &t, NULL, 0, &why), "%s", why.line);
    tokenizer_free(t);
}

START_TEST(texts_of_few_documents_have_an_opening)
{
    struct model m;

    need_run();
    load(&m, "first/latest");
    ck_assert_msg(*m.cfg.opening, "no opening");
    model_close(&m);
}
END_TEST

START_TEST(parameters_of_the_same_name_and_shape_are_kept)
{
    struct model a, b;
    int          kept = 0;

    need_run();
    must("train %text.txt --from %first --arch gla(dk=8)/mlstm --out %kept "
         "threads=1 steps=1 lr=1e-9 warmup=0", "kept 18 of 31 tensors");
    load(&a, "first");
    load(&b, "kept");
    ck_assert(b.cfg.width == 16 && b.cfg.vocab == a.cfg.vocab && b.cfg.context == 32);
    for (int i = 0, found; i < b.n_param; i++) {
        for (found = 0; found < a.n_param && strcmp(a.param[found].name, b.param[i].name);
             found++)
            ;
        size_t n = param_size(&b.param[i].is);

        if (found == a.n_param || n != param_size(&a.param[found].is))
            continue;                       // mlstm's q and k have half the rows
        for (size_t j = 0; j < n; j++)
            if (fabs((double)(b.w[b.param[i].at + j] -
                              a.w[a.param[found].at + j])) > 1e-6)
                ck_abort_msg("%s was not kept", b.param[i].name);
        kept++;
    }
    ck_assert_int_eq(kept, 18);
    model_close(&a), model_close(&b);
}
END_TEST

START_TEST(what_is_kept_and_what_is_new_is_told_once_each)
{
    need_run();
    const struct ran *r = train("train %text.txt --from %first --arch luna --out %told "
                                "threads=1 steps=1");

    ck_assert_msg(r->code == 0, "%s", r->err);
    ck_assert_msg(strstr(r->err, ": embed norm1 mixer.wq mixer.wk mixer.wv mixer.wo "
                                 "norm2 mlp.wg mlp.wu mlp.wd norm\n") != NULL,
                  "%s", r->err);
    ck_assert_msg(strstr(r->err, "initialised anew: mixer.fw mixer.fb mixer.f1 "
                                 "mixer.f1b mixer.f2 mixer.f2b\n") != NULL, "%s", r->err);
}
END_TEST

START_TEST(what_only_some_blocks_keep_says_how_many)
{
    need_run();
    const struct ran *r = train("train %text.txt --from %first --out %deeper threads=1 "
                                "steps=1 layers=5");

    ck_assert_msg(r->code == 0, "%s", r->err);
    ck_assert_msg(strstr(r->err, ": embed norm1 (2 of 5) ") != NULL, "%s", r->err);
    ck_assert_msg(strstr(r->err, "anew: norm1 (3 of 5) ") != NULL, "%s", r->err);
}
END_TEST

static void forget_checkpoints(void)
{
    unlink(at("cut/latest"));
    dir_remove(at("cut/ckpt-00000002"));
    dir_remove(at("cut/ckpt-00000004"));
}

/* As if it had been killed before its first checkpoint. */
START_TEST(a_run_without_a_checkpoint_begins_again_with_the_same_weights)
{
    struct model a, b;

    need_run();
    must("train %text.txt --from %first --arch linear --out %cut threads=1 steps=4 "
         "checkpoint_every=2", "cut: 4 steps");
    load(&a, "cut");
    forget_checkpoints();
    must("train --resume %cut", "kept");
    load(&b, "cut");
    ck_assert(a.n == b.n && !memcmp(a.w, b.w, a.n * sizeof *a.w));
    model_close(&a), model_close(&b);
}
END_TEST

START_TEST(without_an_arch_a_run_goes_on_with_other_text)
{
    need_run();
    must("train %first/data --from %first --out %more threads=1 steps=1",
         "kept 20 of 20 tensors");
    must("train --resume %more --steps 2", "more: 2 steps");
}
END_TEST

/* After as many steps as it transfers, what is not a mixer's is as it was, also by weight
 * decay; mixers have moved. */
START_TEST(transfer_trains_the_mixers_alone)
{
    struct model a, b;

    need_run();
    must("train %text.txt --from %first --arch luna --out %taught threads=1 steps=3 "
         "transfer=3 lr=1e-2 warmup=0", "taught: 3 steps");
    load(&a, "first");
    load(&b, "taught");
    for (int i = 0; i < a.n_param; i++)
        for (int j = 0; j < b.n_param; j++) {
            size_t bytes = param_size(&a.param[i].is) * sizeof *a.w;

            if (!strcmp(a.param[i].name, b.param[j].name) &&
                !memcmp(a.w + a.param[i].at, b.w + b.param[j].at, bytes) ==
                    model_of_mixer(&b, j))
                ck_abort_msg("%s", b.param[j].name);
        }
    model_close(&a), model_close(&b);
}
END_TEST

/* Also one that was cut off while its mixers were learning, and one just after. */
START_TEST(a_transfer_goes_on_bit_for_bit)
{
    static const char *const line =
        "train %text.txt --from %first --arch gla --out %whole threads=1 steps=6 "
        "transfer=4 checkpoint_every=2 keep=9";
    struct model a, b;

    need_run();
    must(line, "whole: 6 steps");
    load(&a, "whole");
    for (int step = 2; step <= 4; step += 2) {
        char name[32];

        snprintf(name, sizeof name, "ckpt-%08d", step);
        dir_remove(at("whole/ckpt-00000006"));
        if (step == 2)
            dir_remove(at("whole/ckpt-00000004"));
        unlink(at("whole/latest"));
        ck_assert_int_eq(symlink(name, at("whole/latest")), 0);
        const struct ran *r = train("train --resume %whole");

        ck_assert_msg(r->code == 0 && strstr(r->err, "whole: 6 steps") &&
                      !strstr(r->err, "initialised anew"),
                      "exit %d: %s", r->code, r->err);
        load(&b, "whole");
        ck_assert_msg(!memcmp(a.w, b.w, a.n * sizeof *a.w), "from step %d", step);
        model_close(&b);
    }
    model_close(&a);
}
END_TEST

START_TEST(a_transfer_needs_a_model_to_learn_from)
{
    static const struct {
        const char *line, *words;
    } wrong[] = {
        {"train %text.txt --out %alone threads=1 steps=3 transfer=1 layers=2 width=16 "
         "heads=2 context=32 batch=2", "needs a model to learn from: --from RUN"},
        {"train %text.txt --from %first --out %wider threads=1 steps=3 transfer=1 "
         "layers=3", "needs the layers and the width of --from: 2 and 16"},
        {"train %text.txt --from %first --out %muon threads=1 steps=3 transfer=1 "
         "optimiser=muon", "goes with optimiser=adamw"},
    };

    need_run();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct ran *r = train(wrong[i].line);

        ck_assert_msg(r->code == 2 && strstr(r->err, wrong[i].words), "exit %d: %s",
                      r->code, r->err);
    }
}
END_TEST

/* The last number of a key in the run's log. */
static double last_in_log(const char *run, const char *key)
{
    char       path[600], *text, *found;
    double     x = NAN;
    size_t     len;
    struct why why;

    snprintf(path, sizeof path, "%s/%s/log.jsonl", tmp, run);
    ck_assert_msg(!file_read(path, 1 << 24, &text, &len, &why), "%s", why.line);
    for (found = text; (found = strstr(found, key)); found++)
        x = strtod(found + strlen(key) + 2, NULL);      // behind '": '
    free(text);
    return x;
}

/* Steps of transfer cost less than others: both are counted at their own price. */
START_TEST(flops_buy_steps_of_transfer_and_others)
{
    char line[200];

    need_run();
    must("train %text.txt --from %first --arch gla --out %priced threads=1 steps=40 "
         "transfer=20", "priced: 40 steps");
    snprintf(line, sizeof line,
             "train %%text.txt --from %%first --arch gla --out %%bought threads=1 "
             "transfer=20 --flops %.9g",
             1.001 * last_in_log("priced", "flops"));
    must(line, "bought: 40 steps");
}
END_TEST

/* Nothing that a run was taught with is left in one that begins with it. */
START_TEST(a_run_from_one_that_was_taught_is_not)
{
    char       path[600], *text;
    size_t     len;
    struct why why;

    need_run();
    must("train %text.txt --from %first --arch gla --out %pupil threads=1 steps=3 "
         "transfer=2", "pupil: 3 steps");
    must("train %text.txt --from %pupil --out %grown threads=1 steps=3",
         "grown: 3 steps");
    path_join(path, sizeof path, tmp, "grown/config.cfg");
    ck_assert_msg(!file_read(path, 1 << 20, &text, &len, &why), "%s", why.line);
    ck_assert_msg(!strstr(text, "transfer = 2"), "%s", text);
    free(text);
}
END_TEST

/* The teacher may be gone as soon as nothing is learnt from it any more. */
START_TEST(a_run_goes_on_without_its_teacher)
{
    need_run();
    must("train %text.txt --out %teacher layers=2 width=16 heads=2 context=32 batch=2 "
         "threads=1 vocab=270 steps=3", "teacher: 3 steps");
    must("train %text.txt --from %teacher --arch gla --out %late threads=1 steps=4 "
         "transfer=2 checkpoint_every=2 keep=9", "late: 4 steps");
    dir_remove(at("late/ckpt-00000004"));
    unlink(at("late/latest"));
    ck_assert_int_eq(symlink("ckpt-00000002", at("late/latest")), 0);
    dir_remove(at("teacher"));
    must("train --resume %late", "late: 4 steps");
}
END_TEST

START_TEST(a_copier_does_not_begin_with_the_weights_of_another)
{
    need_run();
    const struct ran *r = train("train %text.txt --from %first --arch copying --out "
                                "%copier threads=1 steps=1");

    ck_assert_msg(r->code == 2 && strstr(r->err, "copy = 12 is how weights begin"),
                  "exit %d: %s", r->code, r->err);
}
END_TEST

static struct config settings_of(const char *run)
{
    struct config c;
    struct why    why;

    ck_assert_msg(!run_settings(at(run), &c, &why), "%s", why.line);
    return c;
}

/* Its embedding stays as loud as it began, whoever answers in the head's place. */
START_TEST(the_mixers_of_a_copier_can_be_replaced)
{
    struct config c;

    need_run();
    must("train %text.txt --arch copying --out %copies layers=2 width=16 context=32 "
         "batch=2 threads=1 vocab=270 steps=2", "copies: 2 steps");
    must("train %text.txt --from %copies --arch gla --out %replaced threads=1 steps=4 "
         "checkpoint_every=2 keep=9", "replaced: 4 steps");
    c = settings_of("replaced");
    ck_assert(c.copy == 12 && c.heads == 2 && !strcmp(c.mixers, "gla"));
    dir_remove(at("replaced/ckpt-00000004"));
    unlink(at("replaced/latest"));
    ck_assert_int_eq(symlink("ckpt-00000002", at("replaced/latest")), 0);
    must("train --resume %replaced", "replaced: 4 steps");
}
END_TEST

static double decay_of(const char *run)
{
    return settings_of(run).weight_decay;
}

/* What so many steps take is not known; with minutes it is another matter: wrong.sh. */
START_TEST(a_run_of_steps_begins_with_plain_attention)
{
    need_run();
    must("train %text.txt --out %unnamed threads=1 vocab=270 steps=1",
         "--size nano vocab=");
    ck_assert(settings_of("unnamed").copy == 0 && settings_of("unnamed").heads == 4);
    must("train %text.txt --out %named threads=1 vocab=270 steps=1 copy=8",
         "--size nano vocab=");
    ck_assert(settings_of("named").copy == 8 && settings_of("named").heads == 4);
}
END_TEST

/* Unless somebody gives it; what another run had is of another text. */
START_TEST(weights_decay_by_how_often_the_text_comes_by)
{
    need_run();
    ck_assert_double_eq(decay_of("first"), 0.1);
    must("train %text.txt --out %often layers=1 width=16 heads=2 context=32 batch=64 "
         "threads=1 vocab=270 steps=60", "times\n");
    ck_assert_double_gt(decay_of("often"), 0.2);
    must("train --resume %often steps=61", "often: 61 steps");
    ck_assert_double_gt(decay_of("often"), 0.2);
    must("train %text.txt --from %often --out %seldom threads=1 batch=2 steps=1",
         "seldom: 1 step");
    ck_assert_double_eq(decay_of("seldom"), 0.1);
    must("train %text.txt --from %often --out %said threads=1 steps=2 weight_decay=0.3",
         "said: 2 steps");
    ck_assert_double_eq(decay_of("said"), 0.3);

    const struct ran *r = train("train %text.txt --out %less weight_decay=-0.5 steps=1");

    ck_assert_msg(r->code == 2 && strstr(r->err, "give 0 or more, or -1"), "exit %d: %s",
                  r->code, r->err);
    r = train("train %text.txt --out %twice weight_decay=x2 steps=1");
    ck_assert_msg(r->code == 2 && strstr(r->err, "it is not chosen yet"), "exit %d: %s",
                  r->code, r->err);
}
END_TEST

static void must_have(const char *run, int heads, int kv_heads)
{
    struct model m;

    load(&m, run);
    ck_assert_int_eq(m.cfg.heads, heads);
    ck_assert_int_eq(m.cfg.kv_heads, kv_heads);
    model_close(&m);
}

START_TEST(inherited_kv_heads_give_way_to_heads_and_given_ones_do_not)
{
    need_run();
    must("train %text.txt --from %first --out %one threads=1 steps=1 heads=1",
         "one: 1 step");
    must_have("one", 1, 1);
    must("train %text.txt --from %first --out %four threads=1 steps=1 heads=4",
         "four: 1 step");
    must_have("four", 4, 4);
    const struct ran *r = train("train %text.txt --from %first --out %given threads=1 "
                                "steps=1 heads=1 kv_heads=2");

    ck_assert_msg(r->code == 2 && strstr(r->err, "kv_heads = 2 do not divide heads = 1"),
                  "exit %d: %s", r->code, r->err);
    must("train %text.txt --out %pairs layers=1 width=16 heads=4 kv_heads=2 context=32 "
         "batch=2 threads=1 vocab=270 steps=1", "pairs: 1 step");
    must("train %text.txt --from %pairs --out %eight threads=1 steps=1 heads=8",
         "eight: 1 step");
    must_have("eight", 8, 2);
    must("train %text.txt --from %pairs --out %single threads=1 steps=1 heads=1",
         "do not divide heads = 1: kv_heads = 1\n");
    must_have("single", 1, 1);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("start");
    TCase *tc = tcase_create("start");

    tcase_add_test(tc, texts_of_few_documents_have_an_opening);
    tcase_add_test(tc, parameters_of_the_same_name_and_shape_are_kept);
    tcase_add_test(tc, what_is_kept_and_what_is_new_is_told_once_each);
    tcase_add_test(tc, what_only_some_blocks_keep_says_how_many);
    tcase_add_test(tc, a_run_without_a_checkpoint_begins_again_with_the_same_weights);
    tcase_add_test(tc, without_an_arch_a_run_goes_on_with_other_text);
    tcase_add_test(tc, transfer_trains_the_mixers_alone);
    tcase_add_test(tc, a_transfer_goes_on_bit_for_bit);
    tcase_add_test(tc, a_transfer_needs_a_model_to_learn_from);
    tcase_add_test(tc, flops_buy_steps_of_transfer_and_others);
    tcase_add_test(tc, a_run_from_one_that_was_taught_is_not);
    tcase_add_test(tc, a_run_goes_on_without_its_teacher);
    tcase_add_test(tc, a_copier_does_not_begin_with_the_weights_of_another);
    tcase_add_test(tc, the_mixers_of_a_copier_can_be_replaced);
    tcase_add_test(tc, a_run_of_steps_begins_with_plain_attention);
    tcase_add_test(tc, weights_decay_by_how_often_the_text_comes_by);
    tcase_add_test(tc, inherited_kv_heads_give_way_to_heads_and_given_ones_do_not);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
