/* Checkpoints: what is written is loaded, and whatever does not belong together is
 * refused. */
#include "data/base/cli.h"
#include "data/base/file.h"
#include "model/files/checkpoint.h"
#include "model/files/safetensors.h"
#include "model/files/tensors.h"
#include "tests/support/rig.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct tokenizer *new_tokenizer(void)
{
    struct tokenizer *t;
    struct why        why;

    ck_assert(!tokenizer_load(&t, "weft-bytes", 10, &why));
    return t;
}

static void new_model(struct model *m)
{
    struct config c;
    struct why    why;

    config_defaults(&c);
    c.layers = 2, c.width = 16, c.heads = 2, c.context = 24, c.vocab = 257, c.tied = 0;
    strcpy(c.mixers, "softmax(window=1/8,qk_norm=1)+srope(rank=4)/mlstm+none");
    ck_assert_msg(!config_resolve(&c, &why), "%s", why.line);
    ck_assert_msg(!model_open(m, &c, &why), "%s", why.line);
    model_init(m, 7);
    for (size_t i = 0; i < m->n; i++)       // as a file holds them, in every build
        m->w[i] = (float)m->w[i];
}

/* A run with one checkpoint; dir receives the checkpoint's path (512 bytes). */
static const char *new_run(char *dir)
{
    const char       *run = rig_tmp();
    struct tokenizer *t = new_tokenizer();
    struct model      m;
    struct why        why;

    new_model(&m);
    path_join(dir, 512, run, "ckpt-00000003");
    ck_assert(!mkdir(dir, 0777));
    ck_assert_msg(!checkpoint_write(dir, &m, t, &why), "%s", why.line);
    ck_assert_msg(!manifest_write(dir, &why), "%s", why.line);
    ck_assert(!link_replace(run, "latest", "ckpt-00000003", &why));
    model_close(&m);
    tokenizer_free(t);
    return run;
}

/* Loading path must fail with these words, and so must mapping it. */
static void assert_refused(const char *path, const char *words)
{
    struct model      m;
    struct tokenizer *t;
    struct why        why;

    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq((i ? checkpoint_map : checkpoint_load)(path, &m, &t, NULL, 0,
                                                                &why), FAIL_INPUT);
        ck_assert_msg(strstr(why.line, words) != NULL, "%s", why.line);
        ck_assert_ptr_null(m.w);
        ck_assert_ptr_null(t);
    }
}

START_TEST(what_was_saved_is_loaded)
{
    char              dir[512], found[512], with_slash[600];
    const char       *run = new_run(dir);
    struct model      want, got;
    struct tokenizer *t;
    struct why        why;

    new_model(&want);
    snprintf(with_slash, sizeof with_slash, "%s//", run);
    for (int i = 0; i < 3; i++) {
        const char *path = i == 0 ? run : i == 1 ? dir : with_slash;

        ck_assert_msg(!checkpoint_load(path, &got, &t, found, sizeof found, &why), "%s",
                      why.line);
        ck_assert_str_eq(found, dir);
        ck_assert_uint_eq(got.n, want.n);
        ck_assert(!memcmp(got.w, want.w, want.n * sizeof *want.w));
        ck_assert_str_eq(got.cfg.mixers, want.cfg.mixers);
        ck_assert_int_eq(got.cfg.tied, 0);
        ck_assert_str_eq(tokenizer_kind(t), "bytes");
        model_close(&got);
        tokenizer_free(t);
    }
    model_close(&want);
}
END_TEST

static void map_run(const char *run, struct model *m)
{
    struct tokenizer *t;
    struct why        why;

    ck_assert_msg(!checkpoint_map(run, m, &t, NULL, 0, &why), "%s", why.line);
    tokenizer_free(t);
}

static void assert_same_weights(const struct model *got)
{
    struct model want;

    new_model(&want);
    ck_assert_uint_eq(got->n, want.n);
    for (int i = 0; i < want.n_param; i++)
        ck_assert(!memcmp(got->wp[i], want.wp[i],
                          param_size(&want.param[i].is) * sizeof *want.w));
    model_close(&want);
}

START_TEST(mapped_weights_are_those_that_are_read_and_change_no_file)
{
    char         dir[512];
    const char  *run = new_run(dir);
    struct model m;

    for (int i = 0; i < 2; i++) {
        map_run(run, &m);
        assert_same_weights(&m);
        ck_assert_int_eq(sizeof *m.w == sizeof(float), (const void *)m.w != m.pages);
        m.w[0] += 1;
        model_close(&m);
    }
}
END_TEST

/* A file with the same tensors, the last one first. */
static void write_backwards(const char *path)
{
    struct safetensors s;
    struct why         why;

    ck_assert(!safetensors_open(&s, path, &why));
    for (int i = 0; i < s.n / 2; i++) {
        struct tensor t = s.tensor[i];

        s.tensor[i] = s.tensor[s.n - 1 - i];
        s.tensor[s.n - 1 - i] = t;
    }
    ck_assert(!safetensors_write(path, s.tensor, s.n, NULL, 0, &why));
    safetensors_close(&s);
}

START_TEST(weights_in_another_order_are_copied)
{
    char         dir[512], path[600];
    const char  *run = new_run(dir);
    struct model m;
    struct why   why;

    write_backwards(path_join(path, sizeof path, dir, "model.safetensors"));
    ck_assert(!manifest_write(dir, &why));
    map_run(run, &m);
    assert_same_weights(&m);
    ck_assert_ptr_eq(m.w, m.pages);
    model_close(&m);
}
END_TEST

/* In a process of its own, which is to end as a verb does. */
START_TEST(a_mapped_file_that_becomes_shorter_is_one_line)
{
    char         dir[512], path[600], line[200] = "";
    const char  *run = new_run(dir);
    struct cli   cli = {.verb = "infer"};
    int          ends[2], status;

    if (sizeof(real) != sizeof(float))
        return;
    ck_assert(!pipe(ends));
    if (!fork()) {
        struct model  m;
        volatile real sum = 0;

        dup2(ends[1], STDERR_FILENO);
        cli_guard_maps(&cli);
        map_run(run, &m);
        if (truncate(path_join(path, sizeof path, dir, "model.safetensors"), 0))
            _exit(9);
        sum += m.w[0];
        _exit(0);
    }
    close(ends[1]);
    ck_assert_int_gt(read(ends[0], line, sizeof line - 1), 0);
    close(ends[0]);
    wait(&status);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == FAIL_INPUT);
    ck_assert_str_eq(line, "weft infer: the model's file became shorter while it was "
                           "used\n");
}
END_TEST

START_TEST(files_hold_float32_whatever_the_build)
{
    char                dir[512], path[600];
    struct safetensors  s;
    struct model        m;
    struct why          why;
    float               first;

    new_run(dir);
    new_model(&m);
    ck_assert(!safetensors_open(
        &s, path_join(path, sizeof path, dir, "model.safetensors"), &why));
    ck_assert_int_eq(s.n, m.n_param);
    for (int i = 0; i < s.n; i++) {
        ck_assert_int_eq(s.tensor[i].dtype, DTYPE_F32);
        ck_assert_str_eq(s.tensor[i].name, m.param[i].name);
        memcpy(&first, s.tensor[i].data, sizeof first);
        ck_assert_float_eq(first, (float)m.w[m.param[i].at]);
    }
    safetensors_close(&s);
    model_close(&m);
}
END_TEST

/* ---- RUN@best, RUN@STEP ------------------------------------------------------------ */

/* A run of steps 5 (loss 2), 10 (1), 15 (1), 20 (never validated) and 25 (not finite). */
static char *validated_run(void)
{
    static const char *const loss[] = {"2.0", "1.0", "1.0", "null", "1e999"};
    static char run[512];
    char        dir[600], path[700], text[64];
    struct why  why;

    snprintf(run, sizeof run, "%s/a@b", rig_tmp());
    for (int i = 0; i < 5; i++) {
        checkpoint_path(dir, sizeof dir, run, 5 + 5 * i);
        ck_assert(!dir_make(dir, &why));
        snprintf(text, sizeof text, "{\"val_loss\": %s}", loss[i]);
        path_join(path, sizeof path, dir, "trainer.json");
        ck_assert(!file_write(path, text, strlen(text), &why));
    }
    return run;
}

static const struct { const char *word; long step; const char *wrong; } named[] = {
    {"@best", 15, NULL},        // the newer of equals
    {"@best/", 15, NULL},
    {"@5", 5, NULL},
    {"@00020", 20, NULL},
    {"@7", 0, "'7' is neither best nor the step of a checkpoint; those it has: 25, 20, "
              "15, 10, 5"},
    {"@5x", 0, "'5x' is neither best"},
    {"@-5", 0, "'-5' is neither best"},
    {"@", 0, "'' is neither best"},
    {"@worst", 0, "'worst' is neither best"},
    {"@99999999999999999999", 0, "neither best nor the step"},
    {"@best@best", 0, "a@b@best@best: no such run or checkpoint"},
};

START_TEST(a_checkpoint_of_a_run_has_a_name)
{
    char       path[600], dir[PATH_MAX], want[PATH_MAX];
    const char *run = validated_run();
    struct why why;

    snprintf(path, sizeof path, "%s%s", run, named[_i].word);
    if (named[_i].wrong) {
        ck_assert_int_eq(checkpoint_find(path, dir, sizeof dir, &why), FAIL_INPUT);
        ck_assert_msg(strstr(why.line, named[_i].wrong) != NULL, "%s", why.line);
        return;
    }
    ck_assert_msg(!checkpoint_find(path, dir, sizeof dir, &why), "%s", why.line);
    ck_assert_str_eq(dir, checkpoint_path(want, sizeof want, run, named[_i].step));
}
END_TEST

START_TEST(of_many_checkpoints_the_newest_are_named)
{
    char       run[512], path[600], dir[PATH_MAX];
    struct why why;
    long      *step;

    snprintf(run, sizeof run, "%s/many", rig_tmp());
    for (long i = 0; i < 40; i++)
        ck_assert(!dir_make(checkpoint_path(path, sizeof path, run, 7 * i % 40), &why));
    ck_assert_int_eq(checkpoint_list(run, &step), 40);
    for (long i = 0; i < 40; i++)
        ck_assert_int_eq(step[i], 39 - i);
    snprintf(path, sizeof path, "%s@", run);
    ck_assert_int_eq(checkpoint_find(path, dir, sizeof dir, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, "has: 39, 38, 37, 36, 35, 34, 33, 32 and older ones"),
                  "%s", why.line);
    free(step);
}
END_TEST

START_TEST(a_directory_that_is_there_is_taken_by_its_name)
{
    char       path[600], config[700], dir[PATH_MAX];
    struct why why;

    snprintf(path, sizeof path, "%s@best", validated_run());
    ck_assert(!dir_make(path, &why));
    ck_assert(!file_write(path_join(config, sizeof config, path, "config.json"), "{}", 2,
                          &why));
    ck_assert_msg(!checkpoint_find(path, dir, sizeof dir, &why), "%s", why.line);
    ck_assert_str_eq(dir, path);
}
END_TEST

START_TEST(a_run_that_was_never_validated_has_no_best)
{
    char       run[512], path[600], dir[PATH_MAX];
    struct why why;

    snprintf(run, sizeof run, "%s/plain", rig_tmp());
    ck_assert(!dir_make(checkpoint_path(path, sizeof path, run, 3), &why));
    snprintf(path, sizeof path, "%s@best", run);
    ck_assert_int_eq(checkpoint_find(path, dir, sizeof dir, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, "no checkpoint of it was validated; those it has: 3"),
                  "%s", why.line);
}
END_TEST

/* ---- what is not a checkpoint ------------------------------------------------------ */

START_TEST(a_path_that_is_no_checkpoint_says_what_it_is)
{
    const char *dir = rig_tmp();
    char        path[512];
    struct why  why;

    assert_refused("no/such/run", "no such run or checkpoint");
    assert_refused(dir, "neither a run nor a checkpoint");
    ck_assert(!file_write(path_join(path, sizeof path, dir, "config.cfg"), "", 0, &why));
    assert_refused(path, "give a run or checkpoint directory");
    assert_refused(dir, "no checkpoint yet; continue training with: weft train --resume");
    ck_assert(!link_replace(dir, "latest", "ckpt-1", &why));
    assert_refused(dir, "points at ckpt-1, which is no checkpoint");
    dir = rig_tmp();
    ck_assert(
        !file_write(path_join(path, sizeof path, dir, "dataset.json"), "", 0, &why));
    assert_refused(dir, "a dataset, not a run; train on it with: weft train");
}
END_TEST

/* Replace (or, with NULL bytes, remove) a file of a checkpoint behind its manifest's
 * back, or with a manifest to match. */
static void replace(const char *dir, const char *name, const char *bytes, size_t len,
                    bool match)
{
    char       path[600];
    struct why why;

    path_join(path, sizeof path, dir, name);
    if (bytes)
        ck_assert(!file_write(path, bytes, len, &why));
    else
        ck_assert(!unlink(path));
    if (match) {
        unlink(path_join(path, sizeof path, dir, "manifest.json"));
        ck_assert(!manifest_write(dir, &why));
    }
}

static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.model",
                                    "manifest.json"};

START_TEST(a_missing_or_changed_file_is_noticed)
{
    char       dir[512], path[600], *bytes;
    struct why why;
    size_t     len;

    new_run(dir);
    ck_assert(!file_read(path_join(path, sizeof path, dir, files[_i]), 1 << 24, &bytes,
                         &len, &why));
    bytes[len / 2] ^= 1;
    replace(dir, files[_i], bytes, len, false);
    assert_refused(dir, files[_i]);
    replace(dir, files[_i], NULL, 0, false);
    assert_refused(dir, files[_i]);
    free(bytes);
}
END_TEST

START_TEST(a_damaged_latest_names_the_newest_intact_checkpoint)
{
    char              dir[512], older[512], words[640];
    const char       *run = new_run(dir);
    struct tokenizer *t = new_tokenizer();
    struct model      m;
    struct why        why;

    new_model(&m);
    for (long step = 1; step < 3; step++) {
        ck_assert(!mkdir(checkpoint_path(older, sizeof older, run, step), 0777));
        ck_assert(!checkpoint_write(older, &m, t, &why));
        ck_assert(!manifest_write(older, &why));
    }
    model_close(&m);
    tokenizer_free(t);
    replace(dir, "tokenizer.model", "nonsense", 8, false);
    snprintf(words, sizeof words, "; the newest intact checkpoint is %s", older);
    assert_refused(run, words);
    replace(older, "config.json", "{}", 2, false);
    snprintf(words, sizeof words, "%s/ckpt-00000001", run);
    assert_refused(run, words);
    ck_assert(checkpoint_intact(run, older, sizeof older));
    ck_assert_str_eq(older, words);
}
END_TEST

/* Where there is no other, none is named: not the one that is wrong itself. */
START_TEST(a_sole_checkpoint_that_is_wrong_is_not_called_intact)
{
    struct model      m;
    struct tokenizer *t;
    struct why        why;
    char              dir[512];
    const char       *run = new_run(dir);

    replace(dir, "config.json", "[]", 2, true);
    ck_assert_int_eq(checkpoint_load(run, &m, &t, NULL, 0, &why), FAIL_INPUT);
    ck_assert_msg(!strstr(why.line, "intact"), "%s", why.line);
}
END_TEST

START_TEST(a_saved_model_is_whole_or_not_there)
{
    char              path[512], other[512];
    const char       *dir = rig_tmp();
    struct tokenizer *t = new_tokenizer(), *u;
    struct model      m, got;
    struct why        why;

    new_model(&m);
    path_join(path, sizeof path, dir, "saved");
    path_join(other, sizeof other, dir, "other");
    ck_assert_msg(!checkpoint_save(path, &m, t, &why), "%s", why.line);
    ck_assert_msg(!checkpoint_load(path, &got, &u, NULL, 0, &why), "%s", why.line);
    ck_assert(!memcmp(got.w, m.w, m.n * sizeof *m.w));
    model_close(&got);
    tokenizer_free(u);
    m.w[m.n / 2] = NAN;
    ck_assert_int_eq(checkpoint_save(other, &m, t, &why), FAIL_DIVERGED);
    ck_assert_int_eq(rig_entries(dir), 1);
    model_close(&m);
    tokenizer_free(t);
}
END_TEST

/* A child that does what training on does: a newer checkpoint, `latest`, and the older
 * one goes. There is one besides, in spare. */
static pid_t train_on(const char *run, int steps)
{
    char       older[512], newer[512], spare[512], name[32];
    struct why why;
    pid_t      child = fork();

    path_join(spare, sizeof spare, run, "spare");
    for (long step = 4; child == 0 && step < 4 + steps; step++) {
        checkpoint_path(older, sizeof older, run, step - 1);
        checkpoint_path(newer, sizeof newer, run, step);
        if (rename(spare, newer) ||
            link_replace(run, "latest", checkpoint_name(name, sizeof name, step), &why) ||
            rename(older, spare))
            _exit(1);
        usleep(2000);
    }
    if (child == 0)
        _exit(0);
    return child;
}

START_TEST(a_run_may_train_on_while_it_is_loaded)
{
    char              dir[512], spare[512];
    const char       *run = new_run(dir);
    struct tokenizer *t = new_tokenizer();
    struct model      m;
    struct why        why;
    int               status = 0;

    new_model(&m);
    ck_assert(!mkdir(path_join(spare, sizeof spare, run, "spare"), 0777));
    ck_assert(!checkpoint_write(spare, &m, t, &why) && !manifest_write(spare, &why));
    pid_t child = train_on(run, 60);

    do {
        model_close(&m);
        tokenizer_free(t);
        ck_assert_msg(!checkpoint_load(run, &m, &t, NULL, 0, &why), "%s", why.line);
    } while (!waitpid(child, &status, WNOHANG));
    model_close(&m);
    tokenizer_free(t);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(only_the_names_that_checkpoints_get_are_taken_for_checkpoints)
{
    static const char *const names[] = {"ckpt-00000012", "ckpt-123456789", "ckpt-12",
                                        "ckpt--0000012", "ckpt-", "ckpt-0000001x",
                                        "ckpt-99999999999999999999"};
    const char *run = rig_tmp();
    char        path[512];
    long       *step;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert(!mkdir(path_join(path, sizeof path, run, names[i]), 0777));
    ck_assert_int_eq(checkpoint_list(run, &step), 2);
    ck_assert(step[0] == 123456789 && step[1] == 12);
    free(step);
}
END_TEST

/* A key of config.json, what it becomes (NULL: removed), and the words of the error. */
static const struct { const char *key, *json, *words; } wrong[] = {
    {"model_type", "\"llama\"", "not a model of weft"},
    {"model_type", NULL, "not a model of weft"},
    {"version", "2", "another version of weft (format 2; this one reads 1)"},
    {"version", NULL, "no version"},
    {"colour", "1", "unknown setting 'colour'"},
    {"layers", NULL, "'layers' is missing"},
    {"layers", "0", "out of range"},
    {"layers", "3", "the tensor blocks.2"},
    {"heads", "3", "do not divide"},
    {"width", "32", "of the shape"},
    {"mlp", "128", "of the shape"},
    {"tied", "1", "tensors where the model has"},
    {"mixers", "\"hardmax\"", "unknown mixer"},
    {"vocab", "300", "257 tokens where the model has 300"},
    {"vocab", "0", "257 tokens where the model has 0"},
};

START_TEST(files_that_do_not_belong_together_are_refused)
{
    char         dir[512], path[600], *text;
    json_error_t error;
    json_t      *j;

    new_run(dir);
    j = json_load_file(path_join(path, sizeof path, dir, "config.json"), 0, &error);
    if (wrong[_i].json)
        json_object_set_new(j, wrong[_i].key,
                            json_loads(wrong[_i].json, JSON_DECODE_ANY, &error));
    else
        json_object_del(j, wrong[_i].key);
    text = json_dumps(j, 0);
    replace(dir, "config.json", text, strlen(text), true);
    assert_refused(dir, wrong[_i].words);
    free(text);
    json_decref(j);
}
END_TEST

START_TEST(nonsense_in_place_of_a_file_is_refused)
{
    char dir[512];

    new_run(dir);
    replace(dir, "config.json", "{\"layers\": 1, \"layers\": 2}", 26, true);
    assert_refused(dir, "duplicate");
    replace(dir, "config.json", "[]", 2, true);
    assert_refused(dir, "not a model of weft");
    new_run(dir);
    replace(dir, "tokenizer.model", "nonsense", 8, true);
    assert_refused(dir, "tokenizer.model");
    new_run(dir);
    replace(dir, "model.safetensors", "nonsense", 8, true);
    assert_refused(dir, "model.safetensors");
}
END_TEST

/* ---- the trainer's tensors --------------------------------------------------------- */

START_TEST(parts_come_back_under_their_prefix)
{
    char         path[512];
    struct model m;
    struct why   why;
    real        *a[2], *b[2];

    new_model(&m);
    for (int k = 0; k < 2; k++) {
        a[k] = malloc(m.n * sizeof *a[k]);
        b[k] = calloc(m.n, sizeof *b[k]);
        for (size_t i = 0; i < m.n; i++)
            a[k][i] = (float)(i + 0.5 * k);
    }
    const struct tensor_set from[] = {{"m.", false, a[0]}, {"v.", false, a[1]}};
    const struct tensor_set to[] = {{"m.", false, b[0]}, {"v.", false, b[1]}};
    const struct tensor_set swapped[] = {{"v.", false, b[0]}, {"m.", false, b[1]}};
    const struct tensor_set missing = {"w.", false, b[0]};

    path_join(path, sizeof path, rig_tmp(), "trainer.safetensors");
    ck_assert(!tensors_write(path, &m, from, 2, &why));
    ck_assert_msg(!tensors_read(path, &m, to, 2, &why), "%s", why.line);
    ck_assert(!memcmp(a[0], b[0], m.n * sizeof(real)) &&
              !memcmp(a[1], b[1], m.n * sizeof(real)));
    ck_assert(!tensors_read(path, &m, swapped, 2, &why));
    ck_assert(!memcmp(a[1], b[0], m.n * sizeof(real)) &&
              !memcmp(a[0], b[1], m.n * sizeof(real)));
    ck_assert_int_eq(tensors_read(path, &m, to, 1, &why), FAIL_INPUT);
    ck_assert_int_eq(tensors_read(path, &m, &missing, 1, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, "w.embed is missing") != NULL, "%s", why.line);
    ck_assert_int_eq(tensors_write(rig_tmp(), &m, from, 2, &why), FAIL_WRITE);
    for (int k = 0; k < 2; k++)
        free(a[k]), free(b[k]);
    model_close(&m);
}
END_TEST

START_TEST(numbers_that_are_not_finite_are_neither_written_nor_read)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    char               path[512], *bytes;
    struct model       m;
    struct why         why;
    size_t             len;

    new_model(&m);
    struct tensor_set part = {"", true, m.w};
    real              kept = m.w[m.n - 1];

    path_join(path, sizeof path, rig_tmp(), "model.safetensors");
    for (int i = 0; i < 3; i++) {
        m.w[m.n - 1] = bad[i];
        ck_assert_int_eq(tensors_write(path, &m, &part, 1, &why), FAIL_DIVERGED);
        ck_assert(strstr(why.line, "head is not finite") && !path_exists(path));
        m.w[m.n - 1] = kept;
        ck_assert(!tensors_write(path, &m, &part, 1, &why));
        ck_assert(!file_read(path, 1 << 24, &bytes, &len, &why));
        memcpy(bytes + len - sizeof bad[i], &bad[i], sizeof bad[i]);
        ck_assert(!file_write(path, bytes, len, &why));
        ck_assert_int_eq(tensors_read(path, &m, &part, 1, &why), FAIL_INPUT);
        ck_assert_msg(strstr(why.line, "head holds numbers that are not finite"), "%s",
                      why.line);
        free(bytes);
        unlink(path);
    }
    model_close(&m);
}
END_TEST

/* Tensors of more numbers than are looked at together. */
START_TEST(a_number_far_inside_a_tensor_is_read_and_seen)
{
    char          path[512], *bytes;
    struct config c;
    struct model  m;
    struct why    why;
    size_t        len, bad;
    real         *kept;

    config_defaults(&c);
    c.layers = 1, c.width = 160, c.heads = 2, c.context = 24, c.vocab = 257, c.tied = 0;
    ck_assert(!config_resolve(&c, &why) && !model_open(&m, &c, &why));
    for (size_t i = 0; i < m.n; i++)
        m.w[i] = (real)(i % 8191);
    kept = malloc(m.n * sizeof *kept);
    memcpy(kept, m.w, m.n * sizeof *kept);
    struct tensor_set all = {"", true, m.w};

    path_join(path, sizeof path, rig_tmp(), "model.safetensors");
    ck_assert(!tensors_write(path, &m, &all, 1, &why));
    memset(m.w, 0, m.n * sizeof *m.w);
    ck_assert_msg(!tensors_read(path, &m, &all, 1, &why), "%s", why.line);
    ck_assert(!memcmp(m.w, kept, m.n * sizeof *kept));
    ck_assert(!file_read(path, 1 << 24, &bytes, &len, &why));
    bad = len - 20000 * sizeof(float);
    memcpy(bytes + bad, &(float){NAN}, sizeof(float));
    ck_assert(!file_write(path, bytes, len, &why));
    ck_assert_int_eq(tensors_read(path, &m, &all, 1, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, "head holds numbers that are not finite"), "%s",
                  why.line);
    ck_assert_int_eq(tensors_check_finite(path, &why), FAIL_DIVERGED);
    free(bytes), free(kept);
    model_close(&m);
}
END_TEST

/* One tensor of halves, under its name and in its shape. */
START_TEST(a_tensor_of_another_type_is_refused)
{
    char               dir[512], path[600];
    struct safetensors s;
    struct why         why;

    new_run(dir);
    path_join(path, sizeof path, dir, "model.safetensors");
    ck_assert(!safetensors_open(&s, path, &why));
    s.tensor[0].dtype = DTYPE_F16;
    ck_assert(!safetensors_write(path, s.tensor, s.n, NULL, 0, &why));
    safetensors_close(&s);
    ck_assert(!manifest_write(dir, &why));
    assert_refused(dir, "the tensor embed is not float32 of the shape");
}
END_TEST

#define COUNT(table) (int)(sizeof table / sizeof *table)

static Suite *suite(void)
{
    Suite *s = suite_create("checkpoint");
    TCase *c = tcase_create("files");

    tcase_add_test(c, what_was_saved_is_loaded);
    tcase_add_test(c, mapped_weights_are_those_that_are_read_and_change_no_file);
    tcase_add_test(c, weights_in_another_order_are_copied);
    tcase_add_test(c, a_mapped_file_that_becomes_shorter_is_one_line);
    tcase_add_test(c, files_hold_float32_whatever_the_build);
    tcase_add_test(c, a_path_that_is_no_checkpoint_says_what_it_is);
    tcase_add_loop_test(c, a_checkpoint_of_a_run_has_a_name, 0,
                        sizeof named / sizeof *named);
    tcase_add_test(c, of_many_checkpoints_the_newest_are_named);
    tcase_add_test(c, a_directory_that_is_there_is_taken_by_its_name);
    tcase_add_test(c, a_run_that_was_never_validated_has_no_best);
    tcase_add_loop_test(c, a_missing_or_changed_file_is_noticed, 0, COUNT(files));
    tcase_add_test(c, a_damaged_latest_names_the_newest_intact_checkpoint);
    tcase_add_test(c, a_sole_checkpoint_that_is_wrong_is_not_called_intact);
    tcase_add_test(c, a_saved_model_is_whole_or_not_there);
    tcase_add_test(c, a_run_may_train_on_while_it_is_loaded);
    tcase_add_test(c, only_the_names_that_checkpoints_get_are_taken_for_checkpoints);
    tcase_add_loop_test(c, files_that_do_not_belong_together_are_refused, 0,
                        COUNT(wrong));
    tcase_add_test(c, nonsense_in_place_of_a_file_is_refused);
    tcase_add_test(c, parts_come_back_under_their_prefix);
    tcase_add_test(c, numbers_that_are_not_finite_are_neither_written_nor_read);
    tcase_add_test(c, a_number_far_inside_a_tensor_is_read_and_seen);
    tcase_add_test(c, a_tensor_of_another_type_is_refused);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return rig_run(suite(), 1);
}
