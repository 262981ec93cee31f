#include "infer/serve/engine.h"

#include "model/files/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The step in the name of a checkpoint directory, or -1. */
static long step_of(const char *dir)
{
    const char *slash = strrchr(dir, '/'), *name = slash ? slash + 1 : dir;
    long        step;

    return sscanf(name, "ckpt-%ld", &step) == 1 ? step : -1;
}

static void name_it(struct engine *e, const char *name)
{
    e->step = step_of(e->dir);
    if (e->step >= 0)
        snprintf(e->label, sizeof e->label, "%.120s@%ld", name, e->step);
    else
        snprintf(e->label, sizeof e->label, "%.120s", name);
}

static void engine_close(struct engine *e)
{
    cache_close(&e->cache);
    session_close(&e->session);
    pass_close(&e->score);
    free(e->logits);
    free(e->row);
    tokenizer_free(e->tokenizer);
    model_close(&e->model);
    free(e);
}

static enum fail take_memory(struct engine *e, int slots, size_t cache, struct why *why)
{
    const struct model *m = &e->model;
    size_t              n = (size_t)slots * (size_t)m->cfg.vocab;
    enum fail           err = session_open(&e->session, m, slots, why);

    if (!err)
        err = pass_open(&e->score, m, 1, m->cfg.context, PASS_SCORE, why);
    e->logits = calloc(n, sizeof *e->logits);
    e->row = calloc(n, sizeof *e->row);
    if (!err && (!e->logits || !e->row))
        err = fail(why, FAIL_MEMORY, "no memory for the logits of %d sequences", slots);
    if (!err)
        cache_open(&e->cache, &e->session, cache);
    return err;
}

enum fail engine_open(struct engine **to, const char *path, const char *name, int slots,
                      size_t cache, struct why *why)
{
    struct engine *e = calloc(1, sizeof *e);
    enum fail      err;

    *to = NULL;
    if (!e)
        return fail(why, FAIL_MEMORY, "no memory for a model");
    atomic_init(&e->users, 1);
    err = checkpoint_load(path, &e->model, &e->tokenizer, e->dir, sizeof e->dir, why);
    if (!err)
        err = take_memory(e, slots, cache, why);
    if (err) {
        engine_close(e);
        return err;
    }
    name_it(e, name);
    *to = e;
    return 0;
}

struct engine *engine_hold(struct engine *e)
{
    atomic_fetch_add(&e->users, 1);
    return e;
}

void engine_release(struct engine *e)
{
    if (e && atomic_fetch_sub(&e->users, 1) == 1)
        engine_close(e);
}
