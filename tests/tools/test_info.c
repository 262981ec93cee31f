/* What weft says of its mixers and of a model: info, and the weights of rela in score. */
#include "data/dataset.h"
#include "infer/verbs.h"
#include "model/mixer_instruments.h"
#include "tests/support/docs.h"
#include "tests/support/rig.h"
#include "tests/support/spawn.h"
#include "tools/arch.h"
#include "tools/verbs.h"
#include "train/presets.h"

#include <jansson.h>
#include <string.h>

/* ---- the table ---- */

START_TEST(every_mixer_says_what_it_is)
{
    const struct mixer *m = mixers[_i];
    const char         *note = arch_note(m);

    ck_assert_msg(*m->about && *m->instruments->system, "%s", m->name);
    ck_assert_msg(strstr(note, "arXiv:"), "%s: its file opens without a paper, arXiv:...",
                  m->name);
    ck_assert_msg(strstr(note, "\n    y = ") || strstr(note, ";   y = "),
                  "%s: its file opens without the formula of y", m->name);
    for (const char *p = note; *p; p++)
        ck_assert_msg((unsigned char)*p < 0x80, "%s: not ASCII: %.20s", m->name, p);
    for (const struct opt *o = m->opts; o && o->name; o++)
        ck_assert_msg(o->about && *o->about, "%s: %s says nothing", m->name, o->name);
}
END_TEST

static void assert_width(const char *text)
{
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        ck_assert_msg(strcspn(line, "\n") <= 100, "wide: %.*s",
                      (int)strcspn(line, "\n"), line);
}

START_TEST(the_page_of_a_mixer_fits_a_hundred_columns)
{
    char              line[64];
    const struct ran *r;

    snprintf(line, sizeof line, "info --arch %s", mixers[_i]->name);
    r = spawn_verb(info_main, line, "");
    ck_assert_msg(r->code == 0, "%s", r->err);
    assert_width(r->out);
    for (const struct opt *o = mixers[_i]->opts; o && o->name; o++)
        ck_assert_msg(strstr(r->out, o->about) != NULL, "no %s", o->name);
}
END_TEST

/* The encoding that --arch with a mixer's name takes: its preset's, or its own. */
static const char *encoding_of(const char *name)
{
    struct config    c;
    struct mixer_cfg m;
    struct why       why;

    ck_assert_msg(!presets_apply(&c, &(struct sources){.arch = name}, &why) &&
                      !config_resolve(&c, &why),
                  "%s", why.line);
    config_layer(&c, 0, &m);
    return m.position->name;
}

START_TEST(the_table_has_a_row_for_every_mixer_in_a_hundred_columns)
{
    const struct ran *r = spawn_verb(info_main, "info --arch", "");

    ck_assert_msg(r->code == 0, "%s", r->err);
    for (int i = 0; mixers[i]; i++) {
        char row[64];

        snprintf(row, sizeof row, "\n%-10s %-8s ", mixers[i]->name,
                 encoding_of(mixers[i]->name));
        ck_assert_msg(strstr(r->out, row) != NULL, "no row of %s", mixers[i]->name);
        ck_assert_msg(strstr(r->out, mixers[i]->instruments->system) != NULL,
                      "no system of %s", mixers[i]->name);
    }
    assert_width(r->out);
}
END_TEST

/* Width 384, 6 heads, MLP 1024: SPEC's counts, with the norms and the MLP of a block. */
START_TEST(the_figures_are_those_of_the_formulas)
{
    const struct ran *r = spawn_verb(info_main, "info --arch softmax", "");
    double params = 4 * 384. * 384 + 3 * 384. * 1024 + 2 * 384;
    char   want[32];

    ck_assert_msg(r->code == 0, "%s", r->err);
    snprintf(want, sizeof want, "%.2fM", params / 1e6);
    ck_assert_ptr_nonnull(strstr(r->out, want));
    // 2 * 384 floats a token
    ck_assert_ptr_nonnull(strstr(r->out, "3.00 MiB     192 MiB"));
    ck_assert_ptr_nonnull(strstr(r->out, "https://arxiv.org/abs/1706.03762"));
    r = spawn_verb(info_main, "info --arch mlstm", "");
    ck_assert_ptr_nonnull(strstr(r->out, "norm=ln "));
    ck_assert_ptr_nonnull(strstr(r->out, "(ln|rms)"));
}
END_TEST

START_TEST(a_preset_named_as_its_mixer_says_what_it_sets)
{
    const struct ran *r = spawn_verb(info_main, "info --arch linear", "");

    ck_assert_msg(strstr(r->out, "is linear(decay=fixed)+rope.\n") != NULL, "%s", r->out);
    r = spawn_verb(info_main, "info --arch linear(decay=none)", "");
    ck_assert_ptr_null(strstr(r->out, "preset linear,"));
    r = spawn_verb(info_main, "info --arch softmax", "");
    ck_assert_ptr_null(strstr(r->out, "preset"));
}
END_TEST

START_TEST(an_architecture_of_several_mixers_has_a_row_for_each)
{
    const struct ran *r = spawn_verb(info_main, "info --arch swax", "");

    ck_assert_msg(r->code == 0, "%s", r->err);
    ck_assert_ptr_nonnull(strstr(r->out, "\nmixers = softmax(window=1/8)/mlstm\n"));
    ck_assert_ptr_nonnull(strstr(r->out, "\nsoftmax    rope "));
    ck_assert_ptr_nonnull(strstr(r->out, "\nmlstm      none "));
    ck_assert_ptr_nonnull(strstr(r->out, "https://arxiv.org/abs/2509.24552"));
    r = spawn_verb(info_main, "info --arch softmax(window=1/8)+srope/gla", "");
    ck_assert_msg(strstr(r->out, "\nsoftmax    srope ") != NULL, "%s", r->out);
    ck_assert_ptr_nonnull(strstr(r->out, "\ngla        none "));
}
END_TEST

START_TEST(every_preset_is_listed_and_described)
{
    int n = 0;

    for (const char *name; (name = preset_arch(n)); n++) {
        char line[64];

        snprintf(line, sizeof line, "info --arch %s", name);
        const struct ran *r = spawn_verb(info_main, line, "");

        ck_assert_msg(r->code == 0, "%s", r->err);
        ck_assert_msg(strstr(r->out, preset_find(name)) == r->out, "%s", r->out);
        r = spawn_verb(info_main, "info --arch", "");
        ck_assert_msg(strstr(strstr(r->out, "\nPresets: "), name) != NULL, "no %s", name);
    }
    ck_assert_int_gt(n, 0);
}
END_TEST

START_TEST(an_unknown_mixer_is_refused_with_the_nearest)
{
    spawn_refused(spawn_verb(info_main, "info --arch mlstn", ""), "info", 2, "mlstm");
    spawn_refused(spawn_verb(info_main, "info --arch swxa", ""), "info", 2, "'swax'");
}
END_TEST

/* ---- a model ---- */

static const char *tmp(void)
{
    static const char *dir;

    return dir ? dir : (dir = rig_tmp());
}

static void checkpoint(const char *name, const char *entries)
{
    static char dir[512], line[600];

    snprintf(dir, sizeof dir, "%s/%s", tmp(), name);
    snprintf(line, sizeof line, "@ %s", entries);
    spawn_run_dir = dir;
    ck_assert_int_eq(spawn_verb(spawn_checkpoint, line, "")->code, 0);
}

/* Where info looks for the text of the checkpoints above. */
static int build_data(int argc, char **argv)
{
    const char *inputs[] = {argv[0]};
    char        dir[512];
    struct dataset_options o = {.inputs = inputs, .n_inputs = 1, .tokenizer = "bytes",
                                .val_fraction = 0.5, .lock_fd = -1};

    (void)argc;
    snprintf(dir, sizeof dir, "%s/data", tmp());
    return dataset_build(dir, &o, &docs_why);
}

START_TEST(a_run_says_how_fast_its_layers_forget)
{
    char path[512], text[4096];

    for (size_t i = 0; i < sizeof text; i++)
        text[i] = i % 37 == 36 ? '\n' : (char)('a' + i * i % 26);
    snprintf(path, sizeof path, "%s/text.txt", tmp());
    docs_put(path, text, sizeof text);
    checkpoint("fixed", "retention(heads=2)/softmax");
    ck_assert_ptr_nonnull(strstr(spawn_verb(info_main, "info @", "")->out,
                                 "|L|            not known"));
    spawn_run_dir = path;
    ck_assert_int_eq(spawn_verb(build_data, "@", "")->code, 0);
    checkpoint("again", "retention(heads=2)/softmax");
    const struct ran *r = spawn_verb(info_main, "info @", "");

    ck_assert_msg(r->code == 0, "%s", r->err);
    // 1 - 2^-5, 1 - 2^-6
    ck_assert_msg(strstr(r->out, "layer 0        retention  0.9688 to 0.9688, "
                                 "0.9844 to 0.9844\n") != NULL, "%s", r->out);
    checkpoint("plain", "softmax");
    ck_assert_ptr_null(strstr(spawn_verb(info_main, "info @", "")->out, "|L|"));
}
END_TEST

/* Half the layers have no query and so no weight at all; the queries of the others equal
 * their keys, so that a token always sees itself. */
START_TEST(score_tells_the_zeros_of_rela)
{
    json_t *j;

    checkpoint("rela", "rela");
    const struct ran *r = spawn_verb(score_main, "score @ - --json",
                                     "To be, or not to be, that");

    ck_assert_msg(r->code == 0, "%s", r->err);
    j = json_loads(r->out, 0, NULL);
    ck_assert_double_eq(json_number_value(json_object_get(j, "null_rate")), 0.5);
    ck_assert_double_gt(json_number_value(json_object_get(j, "sparsity")), 0.5);
    ck_assert_double_lt(json_number_value(json_object_get(j, "sparsity")), 0.99);
    json_decref(j);
    r = spawn_verb(score_main, "score @ -", "To be, or not to be, that");
    ck_assert_ptr_nonnull(strstr(r->out, "\nnull rate    0.5000 "));
    checkpoint("none", "softmax");
    r = spawn_verb(score_main, "score @ - --json", "To be");
    ck_assert_ptr_null(strstr(r->out, "null_rate"));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("info");
    TCase *tc = tcase_create("info");

    tcase_add_loop_test(tc, every_mixer_says_what_it_is, 0, n_mixers);
    tcase_add_test(tc, the_table_has_a_row_for_every_mixer_in_a_hundred_columns);
    tcase_add_loop_test(tc, the_page_of_a_mixer_fits_a_hundred_columns, 0, n_mixers);
    tcase_add_test(tc, the_figures_are_those_of_the_formulas);
    tcase_add_test(tc, a_preset_named_as_its_mixer_says_what_it_sets);
    tcase_add_test(tc, an_architecture_of_several_mixers_has_a_row_for_each);
    tcase_add_test(tc, every_preset_is_listed_and_described);
    tcase_add_test(tc, an_unknown_mixer_is_refused_with_the_nearest);
    tcase_add_test(tc, a_run_says_how_fast_its_layers_forget);
    tcase_add_test(tc, score_tells_the_zeros_of_rela);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
