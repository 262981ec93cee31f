#include "infer/serve/served.h"

#include "data/base/clock.h"
#include "data/base/file.h"
#include "data/base/version.h"
#include "model/files/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_MODELS = 64,
    JSON_MOST = 16 << 20,
    AGAIN_SECONDS = 10,         // until what there was no memory for is tried again
};

/* One of the models. */
struct entry {
    char           name[128];
    char           run[PATH_MAX];       // what is loaded, as checkpoint_find takes it
    char           dir[PATH_MAX];       // its run: where the log and the lock are
    char           refused[PATH_MAX];   // the checkpoint that could not be loaded
    double         again;               // wall seconds: when to try it again
    struct why     why;                 // it could not; "": nothing is wrong
    bool           untold;              // and nobody has asked served_refused since
    long           seed;                // of a comparison's run, -1
    char           arch[512];
    double         val_bpb;             // of its newest validation, NAN
    bool           training;
    struct engine *engine;              // held; NULL: none yet
};

struct served {
    struct served_options o;
    char            kind[16], name[128];
    struct entry    entry[MOST_MODELS];
    int             n;
    double          zstd, order2, floor;        // bits per byte of the dataset, NAN
    pthread_mutex_t lock;
    pthread_cond_t  stop;
    pthread_t       thread;
    atomic_bool     stopping;
    long            changes, reloads;
    time_t          began;
};

/* ---- looking at files ---- */

/* Does some process hold dir/lock? Asked of the kernel's table, since taking the lock
 * for a moment could keep a trainer out. */
static bool is_locked(const char *dir)
{
    char        path[PATH_MAX], line[256], want[64];
    struct stat st;
    FILE       *f = stat(path_join(path, sizeof path, dir, "lock"), &st)
                        ? NULL
                        : fopen("/proc/locks", "re");
    bool        found = false;

    if (!f)
        return false;
    snprintf(want, sizeof want, " %02x:%02x:%lu ", major(st.st_dev), minor(st.st_dev),
             (unsigned long)st.st_ino);
    while (!found && fgets(line, sizeof line, f))
        found = strstr(line, "FLOCK") && strstr(line, want);
    fclose(f);
    return found;
}

/* The last part of a path, links and dots resolved. */
static void base_name(const char *path, char *name, size_t cap)
{
    char        full[PATH_MAX];
    const char *slash;

    if (!realpath(path, full))
        snprintf(full, sizeof full, "%s", path);
    slash = strrchr(full, '/');
    snprintf(name, cap, "%.120s", slash && slash[1] ? slash + 1 : full);
}

/* A number of a JSON file, NAN where there is none. */
static double number_in(const json_t *j, const char *key)
{
    return json_to_double(json_object_get(j, key));
}

static void read_dataset(struct served *s, const char *dir)
{
    char       path[PATH_MAX];
    struct why unread;
    json_t    *j = NULL;

    path_join(path, sizeof path, dir, "data/dataset.json");
    if (!path_exists(path) || json_read(&j, path, JSON_MOST, "", &unread))
        return;
    s->zstd = number_in(j, "zstd19_bpb");
    s->order2 = number_in(j, "order2_bpb");
    s->floor = number_in(j, "floor_bpb");
    json_decref(j);
}

/* The newest validation of a run, from the end of its log. */
static double newest_bpb(const char *run)
{
    char   path[PATH_MAX], *line = NULL;
    size_t cap = 0;
    double bpb = NAN;
    FILE  *f = file_stream(path_join(path, sizeof path, run, "log.jsonl"));

    if (!f)
        return NAN;
    fseek(f, -(1L << 20), SEEK_END);            // a shorter one is read whole
    while (getline(&line, &cap, f) > 0) {
        const char *at = strstr(line, "\"val_bpb\":");
        double      x;

        if (at && sscanf(at + 10, " %lf", &x) == 1)
            bpb = x;
    }
    free(line);
    fclose(f);
    return bpb;
}

/* ---- what path is ---- */

static struct entry *add(struct served *s, const char *name, const char *run,
                         const char *dir)
{
    struct entry *e = &s->entry[s->n++];

    *e = (struct entry){.seed = -1, .val_bpb = NAN};
    snprintf(e->name, sizeof e->name, "%.120s", name);
    snprintf(e->run, sizeof e->run, "%s", run);
    snprintf(e->dir, sizeof e->dir, "%s", dir);
    return e;
}

static bool holds(const char *dir, const char *name)
{
    char path[PATH_MAX];

    return path_exists(path_join(path, sizeof path, dir, name));
}

static int by_seed(const struct dirent **a, const struct dirent **b)
{
    long x = atol((*a)->d_name + 5), y = atol((*b)->d_name + 5);

    return (x > y) - (x < y);
}

static int is_seed(const struct dirent *d)
{
    return !strncmp(d->d_name, "seed-", 5);
}

/* The run of an architecture: of its seeds the first that has a checkpoint, else the
 * first. */
static bool pick_seed(const char *arch, char *run, long *seed)
{
    struct dirent **d = NULL;
    int             n = scandir(arch, &d, is_seed, by_seed), found = -1;
    bool            ready = false;

    for (int i = 0; i < n && !ready; i++) {
        path_join(run, PATH_MAX, arch, d[i]->d_name);
        ready = holds(run, "latest");
        found = ready || found < 0 ? i : found;
    }
    if (found >= 0) {
        path_join(run, PATH_MAX, arch, d[found]->d_name);
        *seed = atol(d[found]->d_name + 5);
    }
    for (int i = 0; i < n; i++)
        free(d[i]);
    free(d);
    return found >= 0;
}

/* Every directory of a comparison that has a run in it and is not there yet. */
static void add_architectures(struct served *s)
{
    struct dirent **d = NULL;
    int             n = scandir(s->o.path, &d, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        char arch[PATH_MAX], run[PATH_MAX];
        long seed = -1;
        bool known = d[i]->d_name[0] == '.' || s->n == MOST_MODELS;

        for (int k = 0; k < s->n; k++)
            known |= !strcmp(s->entry[k].name, d[i]->d_name);
        path_join(arch, sizeof arch, s->o.path, d[i]->d_name);
        if (!known && pick_seed(arch, run, &seed))
            add(s, d[i]->d_name, run, run)->seed = seed;
        free(d[i]);
    }
    free(d);
}

static bool is_run(const char *path)
{
    return holds(path, "config.cfg") || holds(path, "latest");
}

/* The run of path: itself, what RUN@best says, or where a checkpoint lies; else path. */
static void run_of(const char *path, char *dir)
{
    char *cut;

    snprintf(dir, PATH_MAX, "%s", path);
    if (!path_exists(path) && (cut = strrchr(dir, '@')))
        *cut = 0;
    if (is_run(dir) || !realpath(path, dir))
        return;
    cut = strrchr(dir, '/');
    if (cut && cut > dir)
        *cut = 0;
    if (!is_run(dir))
        snprintf(dir, PATH_MAX, "%s", path);
}

static enum fail look_at(struct served *s, bool training, struct why *why)
{
    const char *path = s->o.path;
    char        dir[PATH_MAX], run[PATH_MAX];
    enum fail   err;

    run_of(path, run);
    base_name(run, s->name, sizeof s->name);
    if (holds(path, "compare.json")) {
        strcpy(s->kind, "compare");
        add_architectures(s);
        if (!s->n)
            return fail(why, FAIL_INPUT, "%s: no architecture of it has a run yet", path);
    } else {
        err = checkpoint_find(path, dir, sizeof dir, why);
        if (err && !(is_run(path) && (training || is_locked(path))))
            return err;
        strcpy(s->kind, is_run(path) ? "run" : "checkpoint");
        add(s, s->name, path, run);
    }
    read_dataset(s, run);
    return 0;
}

/* ---- following ---- */

static void take_engine(struct served *s, struct entry *e, struct engine *new)
{
    struct engine *old;

    pthread_mutex_lock(&s->lock);
    old = e->engine;
    e->engine = new;
    e->why.line[0] = 0;
    e->untold = false;
    snprintf(e->arch, sizeof e->arch, "%.500s", new->model.cfg.mixers);
    s->reloads += old != NULL;
    s->changes++;
    pthread_mutex_unlock(&s->lock);
    engine_release(old);
}

/* dir cannot be loaded. A file that is damaged stays so; memory may come back. */
static void refuse_engine(struct served *s, struct entry *e, const char *dir,
                          enum fail err, const struct why *why)
{
    pthread_mutex_lock(&s->lock);
    snprintf(e->refused, sizeof e->refused, "%s", dir);
    e->again = err == FAIL_MEMORY ? wall_seconds() + AGAIN_SECONDS : INFINITY;
    e->untold |= strcmp(e->why.line, why->line) != 0;
    e->why = *why;
    pthread_mutex_unlock(&s->lock);
}

/* The newest checkpoint, unless it is in already or could not be loaded before. */
static enum fail follow(struct served *s, struct entry *e, struct why *why)
{
    char           dir[PATH_MAX];
    struct engine *new;
    enum fail      err = checkpoint_find(e->run, dir, sizeof dir, why);

    if (err || (e->engine && !strcmp(dir, e->engine->dir)) ||
        (!strcmp(dir, e->refused) && wall_seconds() < e->again))
        return err;
    err = engine_open(&new, e->run, e->name, s->o.slots, s->o.cache, why);
    if (err)
        refuse_engine(s, e, dir, err, why);
    else
        take_engine(s, e, new);
    return err;
}

/* Of two numbers that may both be NAN. */
static bool differ(double a, double b)
{
    return a != b && !(isnan(a) && isnan(b));
}

static void look_again(struct served *s, struct entry *e)
{
    bool   training = is_locked(e->dir);
    double bpb = newest_bpb(e->dir);

    pthread_mutex_lock(&s->lock);
    s->changes += training != e->training || differ(bpb, e->val_bpb);
    e->training = training;
    e->val_bpb = bpb;
    pthread_mutex_unlock(&s->lock);
}

/* A comparison that goes on may have got another architecture. */
static void find_more(struct served *s)
{
    int before = s->n;

    pthread_mutex_lock(&s->lock);
    if (!strcmp(s->kind, "compare"))
        add_architectures(s);
    s->changes += s->n != before;
    pthread_mutex_unlock(&s->lock);
}

/* Wait a second, or until it is to stop; true then. */
static bool pause_or_stop(struct served *s)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    pthread_mutex_lock(&s->lock);
    while (!s->stopping &&
           !pthread_cond_clockwait(&s->stop, &s->lock, CLOCK_MONOTONIC, &until))
        ;
    bool stop = s->stopping;

    pthread_mutex_unlock(&s->lock);
    return stop;
}

static void *watch(void *user)
{
    struct served *s = user;
    struct why     kept;                // in the entry

    do {
        find_more(s);
        for (int i = 0; i < s->n && !s->stopping; i++) {
            (void)follow(s, &s->entry[i], &kept);
            look_again(s, &s->entry[i]);
        }
    } while (!pause_or_stop(s));
    return NULL;
}

/* ---- from outside ---- */

/* Load what no other checkpoint will come after. */
static enum fail load_at_once(struct served *s, struct why *why)
{
    struct entry *e = &s->entry[0];

    return !strcmp(s->kind, "compare") || is_locked(e->dir) ? 0 : follow(s, e, why);
}

enum fail served_open(struct served **to, const struct served_options *o, bool training,
                      struct why *why)
{
    struct served *s = calloc(1, sizeof *s);
    enum fail      err;

    *to = NULL;
    if (!s)
        return fail(why, FAIL_MEMORY, "no memory to serve");
    s->o = *o;
    s->zstd = s->order2 = s->floor = NAN;
    s->began = time(NULL);
    err = look_at(s, training, why);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->stop, NULL);
    if (!err && !training)
        err = load_at_once(s, why);
    if (!err && pthread_create(&s->thread, NULL, watch, s))
        err = fail(why, FAIL_MEMORY, "no thread to load models");
    if (err) {
        engine_release(s->entry[0].engine);
        free(s);
    } else {
        *to = s;
    }
    return err;
}

void served_close(struct served *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_signal(&s->stop);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    for (int i = 0; i < s->n; i++)
        engine_release(s->entry[i].engine);
    pthread_cond_destroy(&s->stop);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Under lock. A name may have the step behind it; it asks for the newest all the same. */
static struct entry *find(struct served *s, const char *name)
{
    size_t len = name ? strcspn(name, "@") : 0;

    for (int i = 0; name && i < s->n; i++)
        if (!strcmp(s->entry[i].name, name) ||
            (strlen(s->entry[i].name) == len && !strncmp(s->entry[i].name, name, len)))
            return &s->entry[i];
    return s->n && (!name || s->n == 1) ? &s->entry[0] : NULL;
}

struct engine *served_engine(struct served *s, const char *name, bool *known,
                             struct why *why)
{
    struct engine *engine = NULL;

    pthread_mutex_lock(&s->lock);
    struct entry *e = find(s, name);

    *known = e != NULL;
    if (e && e->engine)
        engine = engine_hold(e->engine);
    else if (e)
        *why = *e->why.line ? e->why : (struct why){"the model is not loaded yet"};
    pthread_mutex_unlock(&s->lock);
    return engine;
}

bool served_refused(struct served *s, struct why *why)
{
    bool untold = false;

    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n && !untold; i++) {
        untold = s->entry[i].untold;
        s->entry[i].untold = false;
        if (untold)
            *why = s->entry[i].why;
    }
    pthread_mutex_unlock(&s->lock);
    return untold;
}

bool served_log(struct served *s, const char *name, char *log)
{
    pthread_mutex_lock(&s->lock);
    const struct entry *e = find(s, name);

    if (e)
        path_join(log, PATH_MAX, e->dir, "log.jsonl");
    pthread_mutex_unlock(&s->lock);
    return e != NULL;
}

bool served_ready(struct served *s)
{
    bool ready = false;

    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n; i++)
        ready |= s->entry[i].engine != NULL;
    pthread_mutex_unlock(&s->lock);
    return ready;
}

long served_changes(struct served *s)
{
    pthread_mutex_lock(&s->lock);
    long n = s->changes;

    pthread_mutex_unlock(&s->lock);
    return n;
}

long served_reloads(struct served *s)
{
    pthread_mutex_lock(&s->lock);
    long n = s->reloads;

    pthread_mutex_unlock(&s->lock);
    return n;
}

/* ---- as JSON ---- */

/* A name, of whatever bytes. */
static json_t *name_json(const char *name)
{
    return json_from_bytes(name, strlen(name));
}

static json_t *step_json(long step)
{
    return step < 0 ? json_null() : json_integer(step);
}

static json_t *entry_json(const struct entry *e)
{
    const struct engine *g = e->engine;
    char                 dir[256] = "";

    if (g)
        base_name(g->dir, dir, sizeof dir);
    json_t *j = json_pack("{s:o, s:s, s:o, s:o, s:b, s:o, s:o}", "id",
                          name_json(e->name), "arch", e->arch, "checkpoint",
                          g ? name_json(dir) : json_null(),
                          "step", step_json(g ? g->step : -1), "training", e->training,
                          "val_bpb", json_from_double(e->val_bpb), "seed",
                          step_json(e->seed));

    if (j && g)
        json_object_update_new(
            j, json_pack("{s:I, s:i, s:i, s:I, s:s}", "parameters",
                         (json_int_t)model_count(&g->model), "vocab", g->model.cfg.vocab,
                         "context", g->model.cfg.context, "state_bytes",
                         (json_int_t)g->session.state_bytes, "prefix",
                         g->model.cfg.prefix));
    return j;
}

json_t *served_json(struct served *s)
{
    json_t *models = json_array(), *j;
    bool    training = is_locked(s->o.path);

    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n; i++) {
        json_array_append_new(models, entry_json(&s->entry[i]));
        training |= s->entry[i].training;
    }
    j = json_pack("{s:s, s:o, s:b, s:s, s:i, s:o, s:o, s:o, s:o}", "kind", s->kind,
                  "name", name_json(s->name), "training", training, "version",
                  version_line, "slots", s->o.slots, "zstd_bpb",
                  json_from_double(s->zstd), "order2_bpb", json_from_double(s->order2),
                  "floor_bpb", json_from_double(s->floor), "models", models);
    pthread_mutex_unlock(&s->lock);
    return j;
}

json_t *served_list(struct served *s)
{
    json_t *list = json_array();

    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n; i++)
        json_array_append_new(list, json_pack("{s:o, s:s, s:I, s:s}", "id",
                                              name_json(s->entry[i].name), "object",
                                              "model", "created", (json_int_t)s->began,
                                              "owned_by", "weft"));
    pthread_mutex_unlock(&s->lock);
    return json_pack("{s:s, s:o}", "object", "list", "data", list);
}
