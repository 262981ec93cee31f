#include "train/save.h"

#include "data/base/file.h"
#include "data/base/format.h"
#include "data/base/json.h"
#include "data/base/version.h"
#include "model/files/tensors.h"
#include "train/ranks.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <xxhash.h>

enum { TALLY_MAX = 1 << 24, DATASET_MAX = 1 << 20 };

/* More than any run has: of steps, tokens, FLOPs and seconds (a thousand years). */
static const double most_steps = 1e15, most_tokens = 9e18, most_flops = 1e40,
                    most_seconds = 3.2e10;

/* Take the line that begins so out of a text; its new length. */
static size_t drop_line(char *text, size_t len, const char *begin)
{
    char  *at = strstr(text, begin);
    size_t n = at ? 1 + strcspn(at + 1, "\n") : 0;

    if (at)
        memmove(at, at + n, len + 1 - (size_t)(at + n - text));
    return len - n;
}

enum fail save_fingerprint(const char *dataset, uint64_t *hash, struct why *why)
{
    char      path[PATH_MAX], *text;
    size_t    len;
    enum fail err = file_read(path_join(path, sizeof path, dataset, "dataset.json"),
                              DATASET_MAX, &text, &len, why);

    if (err)
        return err;
    len = drop_line(text, len, "\n  \"check\": ");
    len = drop_line(text, len, "\n  \"build\": ");
    *hash = XXH3_64bits(text, len);
    free(text);
    return FAIL_NONE;
}

/* ---- trainer.safetensors ---- */

/* AdamW's moments, m and v whole; buffers have none. */
static enum fail write_moments(const char *dir, const struct model *model, real *m,
                               real *v, struct why *why)
{
    const struct tensor_set part[] = {{"m.", false, m}, {"v.", false, v}};
    char                    path[PATH_MAX];

    path_join(path, sizeof path, dir, "trainer.safetensors");
    return tensors_write(path, model, part, 2, why);
}

/* Rank 0 reads them, each gets its share. */
static enum fail read_moments(const char *dir, struct trainer *t, struct why *why)
{
    struct tensor_set part[] = {{"m.", false, NULL}, {"v.", false, NULL}};
    char              path[PATH_MAX];
    enum fail         err = trainer_whole(t, &part[0].values, &part[1].values, why);

    if (err)
        return err;
    path_join(path, sizeof path, dir, "trainer.safetensors");
    if (ranks_me() == 0)
        err = tensors_read(path, &t->model, part, 2, why);
    err = ranks_agree(err, why);
    if (!err)
        trainer_deal(t, part[0].values, part[1].values);
    trainer_release(t, part[0].values, part[1].values);
    return err;
}

/* ---- trainer.json ---- */

static json_t *decisions_json(const struct decisions *d)
{
    json_t *list = json_array();

    for (int i = 0; i < d->n; i++)
        json_array_append_new(list, json_pack("[I, s, I]", (json_int_t)d->list[i].step,
                                              decided_names[d->list[i].what],
                                              (json_int_t)d->list[i].value));
    return list;
}

static json_t *norms_json(const struct tally *y)
{
    json_t *list = json_array();

    for (int i = 0; i < y->n_norms; i++)
        json_array_append_new(list, json_real(y->norms[i]));
    return list;
}

static enum fail write_tally(const char *dir, const struct trainer *t, uint64_t data,
                             struct why *why)
{
    const struct tally *y = &t->tally;
    char                path[PATH_MAX], hash[17], seed[24];
    json_t *j;

    snprintf(hash, sizeof hash, "%016" PRIx64, data);
    snprintf(seed, sizeof seed, "%" PRIu64, t->cfg.seed);
    j = json_pack("{s:i, s:I, s:I, s:f, s:I, s:I, s:o, s:o, s:I, s:f, s:s, s:s, s:s}",
                  "version", TRAINER_VERSION, "step", (json_int_t)y->step, "tokens",
                  (json_int_t)y->tokens, "flops", y->flops, "skipped",
                  (json_int_t)y->skipped, "skipped_in_a_row", (json_int_t)y->in_a_row,
                  "val_loss", json_from_double(y->val_loss), "best_val_loss",
                  json_from_double(y->best_loss), "best_step", (json_int_t)y->best_step,
                  "seconds", y->seconds, "seed", seed, "data", hash, "level",
                  version_level);
    if (j && strcmp(t->cfg.products, "own"))
        json_object_set_new(j, "products", json_string(t->cfg.products));
    if (j && strcmp(t->cfg.precision, "f32"))
        json_object_set_new(j, "precision", json_string(t->cfg.precision));
    if (j && t->cfg.patience)
        json_object_set_new(j, "waited", json_integer(y->waited));
    if (j && t->decisions.n)
        json_object_set_new(j, "decisions", decisions_json(&t->decisions));
    if (j && y->n_norms)
        json_object_set_new(j, "norms", norms_json(y));
    return json_write(path_join(path, sizeof path, dir, "trainer.json"), j,
                      JSON_INDENT(2), why);
}

/* A number, or NAN for null; anything else makes *ok false. */
static double real_of(const json_t *j, bool *ok)
{
    if (!json_is_number(j) && !json_is_null(j))
        *ok = false;
    return json_to_double(j);
}

static bool unpack_decision(json_t *j, struct decisions *d)
{
    struct decision made = {0};
    struct why      unread;
    json_int_t      step, value;
    const char     *what;
    int             i = 0;

    if (json_unpack_ex(j, NULL, JSON_STRICT, "[I, s, I]", &step, &what, &value))
        return false;
    while (i < DECISIONS && strcmp(what, decided_names[i]))
        i++;
    made = (struct decision){(long)step, (enum decided)i, (long)value};
    return i < DECISIONS && value >= 0 && (double)value <= most_steps &&
           step >= (d->n ? d->list[d->n - 1].step : 0) &&
           !decisions_add(d, made, &unread);
}

/* list is NULL when there are none, as in runs that are counted in steps. An extension by
 * tokens or FLOPs has some for steps to come. */
static bool unpack_decisions(const json_t *list, struct decisions *d)
{
    bool ok = !list || json_is_array(list);

    d->n = 0;
    for (size_t i = 0; ok && i < json_array_size(list); i++)
        ok = unpack_decision(json_array_get(list, i), d);
    return ok && (d->n == 0 || (double)d->list[d->n - 1].step <= most_steps);
}

/* list is NULL when there are none. */
static bool unpack_norms(const json_t *list, struct tally *y)
{
    bool ok = !list || (json_is_array(list) && json_array_size(list) <= OUTLIER_WINDOW);

    y->n_norms = 0;
    for (size_t i = 0; ok && i < json_array_size(list); i++) {
        y->norms[y->n_norms++] = json_to_double(json_array_get(list, i));
        ok = y->norms[i] >= 0 && isfinite(y->norms[i]);
    }
    return ok;
}

/* From 0 to most; false for NAN. */
static bool within(double x, double most)
{
    return x >= 0 && x <= most;
}

static bool is_plausible(const struct tally *y)
{
    double step = (double)y->step;

    return within(step, most_steps) && within((double)y->skipped, step) &&
           within((double)y->in_a_row, step) && within((double)y->best_step, step) &&
           within(y->flops, most_flops) && within(y->seconds, most_seconds) &&
           (isnan(y->val_loss) || within(y->val_loss, HUGE_VAL)) &&
           (isnan(y->best_loss) || within(y->best_loss, HUGE_VAL));
}

/* What trainer.json says beside the tally and the decisions. */
struct origin {
    int  version;
    char seed[24], data[17];
};

/* What trainer.json holds. d may be NULL. */
static bool unpack_tally(json_t *j, struct tally *y, struct decisions *d,
                         struct origin *o)
{
    json_int_t step, tokens, skipped, in_a_row, best_step, waited = 0;
    json_t    *val, *best, *list = NULL, *products = NULL, *norms = NULL,
              *level = NULL, *precision = NULL;
    const char *seed, *data;
    bool       ok = !json_unpack_ex(j, NULL, JSON_STRICT,
        "{s:i, s:I, s:I, s:F, s:I, s:I, s:o, s:o, s:I, s:F, s:s, s:s, s?o, s?o, s?o, "
        "s?I, s?o, s?o}",
        "version", &o->version, "step", &step, "tokens", &tokens, "flops", &y->flops,
        "skipped", &skipped, "skipped_in_a_row", &in_a_row, "val_loss", &val,
        "best_val_loss", &best, "best_step", &best_step, "seconds", &y->seconds,
        "seed", &seed, "data", &data, "decisions", &list, "products", &products,
        "norms", &norms, "waited", &waited, "level", &level,
        "precision", &precision);

    if (!ok || o->version < 1 || o->version > TRAINER_VERSION ||
        !within((double)tokens, most_tokens) || waited < 0 || waited > step)
        return false;
    snprintf(o->seed, sizeof o->seed, "%s", seed);
    snprintf(o->data, sizeof o->data, "%s", data);
    y->step = (long)step;
    y->tokens = (uint64_t)tokens;
    y->skipped = (long)skipped;
    y->in_a_row = (long)in_a_row;
    y->best_step = (long)best_step;
    y->waited = (long)waited;
    y->val_loss = real_of(val, &ok);
    y->best_loss = real_of(best, &ok);
    return ok && is_plausible(y) && unpack_norms(norms, y) &&
           (!d || unpack_decisions(list, d));
}

/* Is dir named after another step than this? `latest`, or a copy, is not named so. */
static bool is_of_another(const char *dir, long step)
{
    const char *slash = strrchr(dir, '/'), *name = slash ? slash + 1 : dir;
    long        named = checkpoint_step(name);

    return named >= 0 && named != step;
}

/* Read dir's trainer.json; d may be NULL. */
static enum fail read_tally(const char *dir, struct tally *y, struct decisions *d,
                            struct origin *o, struct why *why)
{
    char      path[PATH_MAX];
    json_t   *j;
    enum fail err = json_read(&j, path_join(path, sizeof path, dir, "trainer.json"),
                              TALLY_MAX, "use an earlier checkpoint or a copy", why);

    if (err)
        return err;
    if (!unpack_tally(j, y, d, o))
        err = fail(why, FAIL_INPUT, "%s: damaged, or of another version of weft", path);
    else if (is_of_another(dir, y->step))
        err = fail(why, FAIL_INPUT, "%s: it is of step %ld; restore its directory's name",
                   path, y->step);
    json_decref(j);
    return err;
}

/* ---- listing and pruning ---- */

void save_choose(const double *val_loss, long n, int keep, bool *stay)
{
    long best = -1;

    for (long i = 0; i < n; i++) {
        stay[i] = i < keep;
        if (isfinite(val_loss[i]) && (best < 0 || val_loss[i] < val_loss[best]))
            best = i;
    }
    if (best >= 0)
        stay[best] = true;
}

/* Remove a checkpoint under a temporary name, so that a kill leaves nothing that looks
 * like one. */
static void remove_step(const char *run, long step)
{
    char path[PATH_MAX], gone[PATH_MAX + 16];

    checkpoint_path(path, sizeof path, run, step);
    snprintf(gone, sizeof gone, "%s.tmp-%08x", path, (unsigned)step);
    dir_remove(rename(path, gone) ? path : gone);
}

/* Best effort: what cannot be read is taken as never validated. */
static void prune(const char *run, int keep, long good)
{
    long   *step, n = checkpoint_list(run, &step);
    double *loss = n > 0 ? malloc((size_t)n * (sizeof *loss + sizeof(bool))) : NULL;
    bool   *stay = (bool *)(loss + (n > 0 ? n : 0));
    char    path[PATH_MAX];

    if (loss) {
        for (long i = 0; i < n; i++) {
            struct tally  y = {.val_loss = NAN};
            struct origin unread;
            struct why    ignored;

            checkpoint_path(path, sizeof path, run, step[i]);
            loss[i] = read_tally(path, &y, NULL, &unread, &ignored) ? NAN : y.val_loss;
        }
        save_choose(loss, n, keep, stay);
        for (long i = 0; i < n; i++)
            if (!stay[i] && step[i] != good)
                remove_step(run, step[i]);
    }
    free(loss);
    free(step);
}

/* ---- writing ---- */

static enum fail write_files(const char *dir, const struct trainer *t, real *m, real *v,
                             const struct tokenizer *k, uint64_t data, struct why *why)
{
    enum fail err = checkpoint_write(dir, &t->model, k, why);

    if (!err)
        err = write_moments(dir, &t->model, m, v, why);
    if (!err)
        err = write_tally(dir, t, data, why);
    if (!err)
        err = manifest_write(dir, why);
    return err;
}

/* m, v: the moments, whole. */
static enum fail write_checkpoint(const char *run, const struct trainer *t, real *m,
                                  real *v, const struct tokenizer *k, uint64_t data,
                                  long good, struct why *why)
{
    char       path[PATH_MAX], name[32];
    struct dir d;
    struct why link;
    enum fail  err;

    err = dir_begin(&d, checkpoint_path(path, sizeof path, run, t->tally.step), why);
    if (err)
        return err;
    err = write_files(d.tmp, t, m, v, k, data, why);
    if (!err)
        err = dir_commit(&d, why);
    if (err)
        dir_abort(&d);
    if (err)
        return err;
    err = link_replace(run, "latest", checkpoint_name(name, sizeof name, t->tally.step),
                       &link);
    if (err)
        return fail(why, err, "%.700s; %s is whole, and --resume finds it", link.line,
                    name);
    prune(run, t->cfg.keep, good);
    return 0;
}

enum fail save_weights(const char *run, const struct trainer *t,
                       const struct tokenizer *k, char *dir, size_t cap, struct why *why)
{
    char name[32];

    snprintf(name, sizeof name, "weights-%08ld", t->tally.step);
    return checkpoint_save(path_join(dir, cap, run, name), &t->model, k, why);
}

/* Weights and two moments in float32, and what describes them. */
static double checkpoint_bytes(const struct model *m)
{
    return 3 * 4.0 * (double)m->n + 300.0 * m->n_param;
}

/* Of n checkpoints, those still to be written where there are `had`: the oldest of them
 * make room. */
static long to_come(long n, long had)
{
    return n > had ? n - had : 1;
}

/* "free some space": what helps where n do not fit, but `fit` more do. Those that are
 * kept lie beside the best and the next. */
static void room_advice(char *line, size_t cap, long n, long had, long fit)
{
    char keep[48] = "";

    while (n > 3 && to_come(n, had) > fit)
        n--;
    if (to_come(n, had) <= fit)
        snprintf(keep, sizeof keep, ", give keep=%ld", n - 2);
    snprintf(line, cap, "free some space%s, or %s", keep,
             had > 0 ? "move the run to another disk" : "choose another disk with --out");
}

enum fail save_check_room(const char *run, const struct model *m, long n,
                          struct why *why)
{
    struct statvfs disk;
    long          *step, had = checkpoint_list(run, &step);
    double         each = checkpoint_bytes(m), room;
    char           free_bytes[32], bytes[32], advice[160];

    free(step);
    had = had > 0 ? had : 0;
    if (statvfs(run, &disk))
        return 0;
    room = (double)disk.f_bavail * (double)disk.f_frsize;
    if (room >= (double)to_come(n, had) * each)
        return 0;
    format_bytes(free_bytes, sizeof free_bytes, room);
    format_bytes(bytes, sizeof bytes, each);
    room_advice(advice, sizeof advice, n, had, (long)(room / each));
    n = to_come(n, had);
    return fail(why, FAIL_WRITE,
                "%s: the disk has room for %s, and %ld checkpoint%s of %s must fit; %s",
                run, free_bytes, n, n == 1 ? "" : "s", bytes, advice);
}

enum fail save_write(const char *run, struct trainer *t, const struct tokenizer *k,
                     uint64_t data, long good, struct why *why)
{
    real     *m, *v;
    enum fail err = trainer_whole(t, &m, &v, why);

    if (err)
        return err;
    trainer_collect(t, m, v);
    if (ranks_me() == 0)
        err = write_checkpoint(run, t, m, v, k, data, good, why);
    trainer_release(t, m, v);
    return ranks_agree(err, why);
}

/* ---- reading ---- */

/* Can every file of dir be read to its end? FAIL_INPUT. */
static enum fail check_readable(const char *dir, struct why *why)
{
    DIR           *d = opendir(dir);
    struct dirent *e;
    struct stat    st;
    char           path[PATH_MAX];
    uint64_t       hash, size;
    enum fail      err = 0;

    if (!d && errno != ENOTDIR)
        return fail(why, FAIL_INPUT, "%s: cannot open: %s", dir, strerror(errno));
    while (d && !err && (e = readdir(d))) {
        path_join(path, sizeof path, dir, e->d_name);
        if (stat(path, &st))
            err = errno == ENOENT ? 0
                                  : fail(why, FAIL_INPUT, "%s: cannot read: %s", path,
                                         strerror(errno));
        else if (S_ISREG(st.st_mode))
            err = file_hash(path, &hash, &size, why);
    }
    if (d)
        closedir(d);
    return err;
}

/* FAIL_DIVERGED: weights or moments are not finite, as versions before 0.2 could save. */
static enum fail check_numbers(const char *dir, struct why *why)
{
    static const char *const names[] = {"model.safetensors", "trainer.safetensors"};
    char                     path[PATH_MAX];
    enum fail                err = 0;

    for (int i = 0; i < 2 && err != FAIL_DIVERGED; i++)
        if (path_exists(path_join(path, sizeof path, dir, names[i])))
            err = tensors_check_finite(path, why);
    return err == FAIL_DIVERGED ? err : 0;
}

/* Is the checkpoint damaged? What only cannot be read now is not: FAIL_INPUT. Nor does a
 * file too many damage it, which loading it will refuse. */
static enum fail check_damage(const char *dir, bool *damaged, struct why *damage,
                              struct why *why)
{
    enum fail found = manifest_check_listed(dir, damage), err = 0;

    if (found)
        err = check_readable(dir, why);
    if (found && !err) // the reason may have passed
        found = manifest_check_listed(dir, damage);
    if (!found)
        found = check_numbers(dir, damage);
    *damaged = found != 0;
    return !err && found == FAIL_MEMORY ? fail(why, found, "%s", damage->line) : err;
}

/* Set a damaged checkpoint aside, under a name that is free. */
static void set_aside(const char *run, long step, const struct why *damage,
                      struct why *note)
{
    char path[PATH_MAX], aside[PATH_MAX], name[64], word[32];

    checkpoint_path(path, sizeof path, run, step);
    snprintf(name, sizeof name, "damaged-%s", checkpoint_name(word, sizeof word, step));
    for (int i = 2; path_exists(path_join(aside, sizeof aside, run, name)); i++)
        snprintf(name, sizeof name, "damaged-%s-%d", word, i);
    if (rename(path, aside))
        return;
    (void)fail(note, FAIL_INPUT, "%.700s; set it aside as %s", damage->line, name);
}

/* The place of the newest intact one of n checkpoints, n when there is none; damage is
 * that of the one before. FAIL_INPUT: one cannot be read. */
static enum fail find_intact(const char *run, const long *step, long n, long *place,
                             struct why *damage, struct why *why)
{
    char dir[PATH_MAX];
    bool damaged;
    enum fail err = 0;

    for (*place = 0; *place < n && !err; ++*place) {
        err = check_damage(checkpoint_path(dir, sizeof dir, run, step[*place]), &damaged,
                           damage, why);
        if (!damaged)
            break;
    }
    return err;
}

/* Did the run have a checkpoint? `latest` stays when all are gone. */
static bool had_checkpoint(const char *run)
{
    char        path[PATH_MAX];
    struct stat st;

    return !lstat(path_join(path, sizeof path, run, "latest"), &st);
}

enum fail save_newest(const char *run, char *dir, size_t cap, struct why *note,
                      struct why *why)
{
    long      *step, n, place;
    char       name[32];
    struct why damage;
    enum fail  err;

    dir[0] = note->line[0] = 0;
    n = checkpoint_list(run, &step);
    if (n < 0)
        return fail(why, errno == ENOMEM ? FAIL_MEMORY : FAIL_INPUT,
                    "%s: cannot be listed: %s", run, strerror(errno));
    err = find_intact(run, step, n, &place, &damage, why);
    if (!err && n && place == n)
        err = fail(why, FAIL_INPUT,
                   "%s: every checkpoint is damaged; restore one from a copy, or start "
                   "anew with another --out",
                   run);
    if (!err && !n && had_checkpoint(run))
        err = fail(why, FAIL_INPUT,
                   "%s: its checkpoints are gone; restore one from a copy, or start "
                   "anew with another --out",
                   run);
    for (long i = 0; !err && i < place; i++)
        set_aside(run, step[i], &damage, note);
    if (!err && n) {
        checkpoint_path(dir, cap, run, step[place]);
        err = link_replace(run, "latest", checkpoint_name(name, sizeof name, step[place]),
                           why);
    }
    free(step);
    return err;
}

/* Do the settings that shape the model agree? Its opening does not; versions before 0.2
 * know none. */
static enum fail check_shape(const char *dir, const struct config *a,
                             const struct config *b, struct why *why)
{
    char x[600], y[600];

    for (const struct key *k = config_keys; k->name; k++) {
        if (k->part != KEY_MODEL || k->at == offsetof(struct config, opening))
            continue;
        config_format(a, k, x, sizeof x);
        config_format(b, k, y, sizeof y);
        if (strcmp(x, y))
            return fail(why, FAIL_INPUT,
                        "%s: %s is %s here and %s in the run's config.cfg; "
                        "restore config.cfg",
                        dir, k->name, x, y);
    }
    return 0;
}

enum fail save_load_model(const char *dir, const struct config *cfg,
                          const struct tokenizer *k, struct model *m, struct why *why)
{
    struct tokenizer *its;
    enum fail         err = checkpoint_load(dir, m, &its, NULL, 0, why);

    if (err)
        return err;
    err = check_shape(dir, &m->cfg, cfg, why);
    if (!err && tokenizer_fingerprint(its) != tokenizer_fingerprint(k))
        err = fail(why, FAIL_INPUT,
                   "%s: its tokenizer is not the data's; restore the data this "
                   "run was trained on",
                   dir);
    tokenizer_free(its);
    memcpy(m->cfg.opening, cfg->opening, sizeof m->cfg.opening);
    if (err)
        model_close(m);
    return err;
}

enum fail save_check(const char *dir, const struct model *m, struct why *why)
{
    const struct tensor_set part[] = {{"m.", false, NULL}, {"v.", false, NULL}};
    struct decisions        d = {0};
    struct tally            y;
    struct origin           o;
    char                    path[PATH_MAX];
    enum fail               err;

    if (!path_exists(path_join(path, sizeof path, dir, "trainer.json")))
        return 0;
    err = read_tally(dir, &y, &d, &o, why);
    decisions_free(&d);
    path_join(path, sizeof path, dir, "trainer.safetensors");
    return err ? err : tensors_read(path, m, part, 2, why);
}

enum fail save_load_tally(const char *dir, struct tally *y, struct decisions *d,
                          struct why *why)
{
    struct origin unread;

    return read_tally(dir, y, d, &unread, why);
}

/* Do the data, the seed and the order of sums agree with what t was opened for? */
static enum fail check_origin(const char *dir, const struct trainer *t, uint64_t data,
                              const struct origin *o, struct why *why)
{
    char seed[24], hash[17];

    snprintf(hash, sizeof hash, "%016" PRIx64, data);
    snprintf(seed, sizeof seed, "%" PRIu64, t->cfg.seed);
    if (strcmp(hash, o->data))
        return fail(why, FAIL_INPUT,
                    "%s: the data has changed since; restore the data this run "
                    "was trained on, or start a new run",
                    dir);
    if (strcmp(seed, o->seed))
        return fail(why, FAIL_INPUT, "%s: trained with seed %s, config.cfg says %s", dir,
                    o->seed, seed);
    if (o->version == 1 && t->cfg.accumulate > 1)
        return fail(why, FAIL_INPUT,
                    "%s: written by an older weft, which added the gradients of "
                    "accumulate=%d passes in another order; begin a new run with its "
                    "weights: --from %s",
                    dir, t->cfg.accumulate, dir);
    return FAIL_NONE;
}

enum fail save_load_state(const char *dir, struct trainer *t, uint64_t data,
                          struct why *why)
{
    struct origin o;
    enum fail     err = FAIL_NONE;

    if (ranks_me() == 0) {
        err = read_tally(dir, &t->tally, &t->decisions, &o, why);
        if (!err)
            err = check_origin(dir, t, data, &o, why);
    }
    err = ranks_agree(err, why);
    if (err)
        return err;
    ranks_share(&t->tally, sizeof t->tally);
    err = trainer_share_decisions(t, why);
    return err ? err : read_moments(dir, t, why);
}
