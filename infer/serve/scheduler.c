#include "infer/serve/scheduler.h"

#include "data/base/clock.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BUSY = 256 };       // over all engines
enum { MOST_UNREAD = 4096 };    // tokens that a reader may be behind

struct scheduler {
    struct scheduler_options o;
    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  work;
    struct job     *first, **end;       // who waits
    bool            draining, closing;
    struct scheduler_counts counts;     // under lock

    // the thread's own
    struct job     *busy[MOST_BUSY];    // in the order they were taken in
    int             n_busy;
    struct likely  *top;                // of a scored window
    real           *nats;
    long            top_cap, nats_cap;
    struct scheduler_counts now;        // since counts was last added to
};

/* ---- taking in ---- */

static int free_slot(const struct engine *e)
{
    for (int i = 0; i < e->session.S; i++)
        if (!e->in[i])
            return i;
    return -1;
}

/* Take j out of the queue, which *at points at it from. */
static void unqueue(struct scheduler *s, struct job **at)
{
    struct job *j = *at;

    *at = j->next;
    if (s->end == &j->next)
        s->end = at;
    j->next = NULL;
    s->counts.waiting--;
}

static void set_state(struct job *j, enum job_state state)
{
    pthread_mutex_lock(&j->line->lock);
    j->state = state;
    pthread_mutex_unlock(&j->line->lock);
}

/* Under lock: those who left go, those for whom there is a slot come in. */
static void take_in(struct scheduler *s)
{
    for (struct job **at = &s->first, *j; (j = *at);) {
        int slot = free_slot(j->engine);

        if (atomic_load(&j->left)) {
            unqueue(s, at);
            s->counts.jobs++;
            s->counts.left++;
            job_end(j, false);
        } else if (slot >= 0 && s->n_busy < MOST_BUSY) {
            unqueue(s, at);
            j->slot = slot;
            j->engine->in[slot] = j;
            s->busy[s->n_busy++] = j;
            set_state(j, j->ask.score ? JOB_SCORING : JOB_FEEDING);
        } else {
            at = &j->next;
        }
    }
    s->counts.busy = s->n_busy;
}

/* j is done: its slot is free, and j is no longer ours. */
static void let_go(struct scheduler *s, struct job *j, bool failed)
{
    int i = 0;

    while (s->busy[i] != j)
        i++;
    memmove(s->busy + i, s->busy + i + 1, (size_t)(--s->n_busy - i) * sizeof *s->busy);
    j->engine->in[j->slot] = NULL;
    s->now.jobs++;
    job_end(j, failed);
}

static bool has_left(const struct job *j)
{
    long read = j->read > j->n_prompt ? j->read : j->n_prompt;

    return atomic_load(&j->left) || (j->read >= 0 && j->n - read > MOST_UNREAD);
}

static void drop_who_left(struct scheduler *s)
{
    for (int i = s->n_busy - 1; i >= 0; i--) {
        struct job *j = s->busy[i];

        pthread_mutex_lock(&j->line->lock);
        bool gone = has_left(j);

        pthread_mutex_unlock(&j->line->lock);
        if (gone) {
            s->now.left++;
            let_go(s, j, false);
        }
    }
}

/* ---- the prompt ---- */

/* Memory for the nats of n tokens and k of the likeliest beside each. */
static bool make_room(struct scheduler *s, long n, int k)
{
    if (n > s->nats_cap) {
        real *nats = realloc(s->nats, (size_t)n * sizeof *nats);

        if (!nats)
            return false;
        s->nats = nats;
        s->nats_cap = n;
    }
    if (n * k + 1 > s->top_cap) {
        struct likely *top = realloc(s->top, (size_t)(n * k + 1) * sizeof *top);

        if (!top)
            return false;
        s->top = top;
        s->top_cap = n * k + 1;
    }
    return true;
}

/* Add the scored tokens of a window to what the job has; the first of a prompt that
 * nothing precedes has no nats. */
static bool add_scored(struct scheduler *s, struct job *j, const int32_t *targets, long n)
{
    int  k = j->ask.top;
    bool ok = true;

    pthread_mutex_lock(&j->line->lock);
    if (j->scored == 0 && j->ask.hidden == 0)
        ok = job_add(j, j->ask.prompt[0], (real)NAN, NULL);
    for (long i = 0; i < n && ok; i++)
        ok = job_add(j, targets[i], s->nats[i], s->top + i * k);
    j->n_prompt = j->n;
    pthread_mutex_unlock(&j->line->lock);
    return ok;
}

/* The nats of the next window of a prompt, as infer/score.h cuts it. */
static void score_window(struct scheduler *s, struct job *j)
{
    const struct engine *e = j->engine;
    const int32_t       *tokens = j->ask.prompt + j->scored;
    long left = j->ask.n_prompt - 1 - j->scored, T = e->model.cfg.context;
    long n = left < T ? left : T;
    bool ok = make_room(s, T, j->ask.top);

    if (ok && n > 0)
        model_score_top(&e->model, &j->engine->score, (int)n, tokens, tokens + 1, s->nats,
                        s->top, j->ask.top);
    if (!ok || !add_scored(s, j, tokens + 1, n)) {
        let_go(s, j, true);
        return;
    }
    j->scored += n;
    if (j->scored < j->ask.n_prompt - 1)
        return;
    set_state(j, JOB_FEEDING);
}

/* Its prompt is fed: choose the first token. */
static void begin_text(struct scheduler *s, struct job *j)
{
    struct engine *e = j->engine;
    size_t         at = (size_t)j->slot * (size_t)e->model.cfg.vocab;

    s->now.first_seconds += wall_seconds() - j->since;
    s->now.tokens++;
    if (job_pick(j, e->logits + at, e->row + at))
        set_state(j, JOB_WRITING);
    else
        let_go(s, j, false);
}

/* What is known of the prompt: how many of its tokens. */
static long look_up(struct scheduler *s, const struct job *j, real *logits)
{
    struct engine *e = j->engine;
    long           known = cache_get(&e->cache, &e->session, j->slot, j->ask.prompt,
                                     j->ask.n_prompt, logits);

    if (!known)
        session_clear(&e->session, j->slot);
    s->now.cached_tokens += known;
    s->now.hits += known > 0;
    s->now.misses += known == 0;
    return known;
}

/* Go on with the prompt by a chunk; false: all of it was known. */
static bool feed_chunk(struct scheduler *s, struct job *j)
{
    struct engine *e = j->engine;
    real          *logits = e->logits + (size_t)j->slot * (size_t)e->model.cfg.vocab;
    long           n = j->ask.n_prompt, take = 0;

    if (j->fed == 0)
        j->fed = look_up(s, j, logits);
    if (j->fed < n) {
        take = session_chunk(&e->session, j->slot, n - j->fed);
        session_feed(&e->session, j->slot, j->ask.prompt + j->fed, take,
                     j->fed + take == n ? logits : NULL);
        j->fed += take;
        s->now.prompt_tokens += take;
        cache_put(&e->cache, &e->session, j->slot, j->ask.prompt, j->fed,
                  j->fed == n ? logits : NULL);
    }
    if (j->fed == n)
        begin_text(s, j);
    return take > 0;
}

/* Go on with the prompt of j, if it has not been fed; false: that took no time. */
static bool go_on(struct scheduler *s, struct job *j)
{
    if (j->state == JOB_SCORING) {
        score_window(s, j);
        return true;
    }
    if (j->state != JOB_FEEDING)
        return false;
    if (j->ask.max_tokens > 0)
        return feed_chunk(s, j);
    let_go(s, j, false);
    return false;
}

/* One piece of work on one prompt: the first that is not known. */
static void advance_prompt(struct scheduler *s)
{
    for (int i = 0; i < s->n_busy;) {
        struct job *j = s->busy[i];

        if (go_on(s, j))
            return;
        i += i < s->n_busy && s->busy[i] == j;      // unless that was all of it
    }
}

/* ---- writing ---- */

/* One token of every text of e: rows are the jobs in the order of their slots. */
static void step_engine(struct scheduler *s, struct engine *e)
{
    struct job *rows[SESSION_ROWS];
    bool        goes_on[SESSION_ROWS];
    int         slots[SESSION_ROWS], k = 0;
    int32_t     tokens[SESSION_ROWS];
    size_t      V = (size_t)e->model.cfg.vocab;

    for (int i = 0; i < e->session.S; i++)
        if (e->in[i] && e->in[i]->state == JOB_WRITING) {
            rows[k] = e->in[i];
            slots[k] = i;
            tokens[k++] = e->in[i]->last;
        }
    session_step(&e->session, slots, tokens, k, e->logits);
    #pragma omp parallel for schedule(dynamic) if (k > 1)
    for (int i = 0; i < k; i++)
        goes_on[i] = job_pick(rows[i], e->logits + (size_t)i * V, e->row + (size_t)i * V);
    s->now.tokens += k;
    s->now.steps++;
    for (int i = 0; i < k; i++)
        if (!goes_on[i])
            let_go(s, rows[i], false);
}

/* Each engine that has a text to go on with, once. */
static void step_all(struct scheduler *s)
{
    struct engine *done[MOST_BUSY];
    int            n = 0;

    for (int i = 0; i < s->n_busy; i++) {
        struct engine *e = s->busy[i]->engine;
        bool           new = s->busy[i]->state == JOB_WRITING;

        for (int k = 0; k < n; k++)
            new &= done[k] != e;
        if (new)
            done[n++] = engine_hold(e);
    }
    for (int i = 0; i < n; i++) {
        step_engine(s, done[i]);
        engine_release(done[i]);
    }
}

/* ---- the thread ---- */

static void add_counts(struct scheduler *s, double seconds)
{
    struct scheduler_counts *c = &s->counts, *n = &s->now;

    c->jobs += n->jobs;
    c->left += n->left;
    c->prompt_tokens += n->prompt_tokens;
    c->cached_tokens += n->cached_tokens;
    c->tokens += n->tokens;
    c->hits += n->hits;
    c->misses += n->misses;
    c->steps += n->steps;
    c->first_seconds += n->first_seconds;
    c->seconds += seconds;
    c->busy = s->n_busy;
    *n = (struct scheduler_counts){0};
}

static void *run(void *user)
{
    struct scheduler *s = user;

    omp_set_num_threads(s->o.threads);
    pthread_mutex_lock(&s->lock);
    for (;;) {
        take_in(s);
        if (!s->n_busy && s->closing && !s->first)
            break;
        if (!s->n_busy) {
            pthread_cond_wait(&s->work, &s->lock);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        double start = wall_seconds();

        drop_who_left(s);
        advance_prompt(s);
        step_all(s);
        pthread_mutex_lock(&s->lock);
        add_counts(s, wall_seconds() - start);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- from outside ---- */

enum fail scheduler_open(struct scheduler **to, const struct scheduler_options *o,
                         struct why *why)
{
    struct scheduler *s = calloc(1, sizeof *s);

    *to = NULL;
    if (!s)
        return fail(why, FAIL_MEMORY, "no memory for the scheduler");
    s->o = *o;
    if (!s->o.threads)                  // of OpenMP each thread has a number of its own
        s->o.threads = omp_get_max_threads();
    s->end = &s->first;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    if (pthread_create(&s->thread, NULL, run, s)) {
        free(s);
        return fail(why, FAIL_MEMORY, "no thread for the scheduler");
    }
    *to = s;
    return 0;
}

void scheduler_close(struct scheduler *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->draining = s->closing = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    free(s->top);
    free(s->nats);
    free(s);
}

void scheduler_drain(struct scheduler *s)
{
    pthread_mutex_lock(&s->lock);
    s->draining = true;
    pthread_mutex_unlock(&s->lock);
}

bool scheduler_submit(struct scheduler *s, struct job **jobs, int n)
{
    bool room;

    pthread_mutex_lock(&s->lock);
    room = !s->draining &&
           (!s->counts.waiting || s->counts.waiting + n <= s->o.most_waiting);
    for (int i = 0; i < n && room; i++) {
        jobs[i]->next = NULL;
        *s->end = jobs[i];
        s->end = &jobs[i]->next;
        s->counts.waiting++;
    }
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    return room;
}

void scheduler_poke(struct scheduler *s)
{
    pthread_mutex_lock(&s->lock);
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

struct scheduler_counts scheduler_counts(struct scheduler *s)
{
    struct scheduler_counts c;

    pthread_mutex_lock(&s->lock);
    c = s->counts;
    pthread_mutex_unlock(&s->lock);
    return c;
}
