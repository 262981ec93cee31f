#include "train/warmstart.h"

#include "data/base/file.h"
#include "model/files/checkpoint.h"
#include "train/presets.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* All but the length of training, and the threads of that machine. */
static void take_settings(struct config *to, const struct setup *s)
{
    char       dir[sizeof s->run.from];
    struct why unread;

    snprintf(dir, sizeof dir, "%s", s->run.from);
    *strrchr(dir, '/') = 0;
    if (run_settings(dir, to, &unread))
        (void)presets_apply(to, &(struct sources){0}, &unread);
    to->steps = to->eval_every = to->checkpoint_every = to->sample_every = 0;
    to->threads = 0;
    to->transfer = 0;                   // from the model before that
    for (const struct key *k = config_keys; k->name; k++)
        if (k->part == KEY_MODEL)
            memcpy((char *)to + k->at, (const char *)&s->start.cfg + k->at, k->size);
    snprintf(to->tokenizer, sizeof to->tokenizer, "%s", tokenizer_kind(s->tokenizer));
}

enum fail start_load(struct setup *s, struct why *why)
{
    return s->start.w ? FAIL_NONE : checkpoint_load(s->run.from, &s->start, &s->tokenizer,
                                                    NULL, 0, why);
}

enum fail start_open(struct setup *s, const char *path, struct config *cfg,
                     struct why *why)
{
    char dir[PATH_MAX], full[PATH_MAX];
    enum fail err = checkpoint_find(path, dir, sizeof dir, why);

    if (err)
        return err;
    if (!realpath(dir, full) || strlen(full) >= sizeof s->run.from)
        return fail(why, FAIL_INPUT, "%s: %s", dir,
                    strerror(errno ? errno : ENAMETOOLONG));
    memcpy(s->run.from, full, strlen(full) + 1);
    err = start_load(s, why);
    if (!err)
        take_settings(cfg, s);
    return err;
}

enum fail start_reload(struct setup *s, struct why *why)
{
    char latest[PATH_MAX];

    if (!*s->run.from ||
        path_exists(path_join(latest, sizeof latest, s->run.dir, "latest")))
        return 0;
    return start_load(s, why);
}

enum fail start_check(const struct setup *s, struct why *why)
{
    if (!s->tokenizer ||
        tokenizer_fingerprint(s->tokenizer) == tokenizer_fingerprint(s->data.tokenizer))
        return 0;
    return fail(why, FAIL_INPUT,
                "%s: tokenized for another model than %s; "
                "give the text it was built from instead",
                s->data.dir, s->run.from);
}

void start_drop(struct setup *s)
{
    s->trainer.start = NULL;
    model_close(&s->start);
    tokenizer_free(s->tokenizer);
    s->tokenizer = NULL;
}

void start_name(char *dir, size_t cap, const char *input, const char *arch)
{
    size_t n;

    run_name(dir, cap, input);
    n = strlen(dir);
    snprintf(dir + n, cap - n, "-%s", arch ? arch : "more");
    for (char *p = dir + n; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789.", *p))
            *p = '-';
    for (n = strlen(dir); dir[n - 1] == '-'; n--)
        dir[n - 1] = 0;
}
