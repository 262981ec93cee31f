#include "data/base/clock.h"
#include "data/base/memory.h"
#include "infer/serve/answer.h"
#include "infer/serve/http.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- models ---- */

/* The model that a request names, held; NULL: refused. */
static struct engine *engine_named(struct server *s, const char *name,
                                   struct refusal *why)
{
    bool           known;
    struct why     unloaded;
    struct engine *e = served_engine(s->served, name, &known, &unloaded);

    if (!known) {
        refuse(why, 404, "model", "there is no model '%.100s' here", name);
        why->code = "model_not_found";
    } else if (!e) {
        refuse(why, 503, NULL, "%s", unloaded.line);
    }
    return e;
}

/* The JSON of a request, and the model that it names, held. */
static struct engine *read_body(struct server *s, struct call *c, json_t **body)
{
    struct engine *e = NULL;
    const char    *name;
    size_t         len;

    *body = asked_json(c->body ? c->body : "", c->len, &c->refusal);
    if (*body && asked_string(*body, "model", &name, &len, &c->refusal))
        e = engine_named(s, name, &c->refusal);
    if (!e) {
        json_decref(*body);
        *body = NULL;
    }
    return e;
}

static struct engine *engine_in_query(struct server *s, struct call *c)
{
    return engine_named(s, MHD_lookup_connection_value(c->connection,
                                                       MHD_GET_ARGUMENT_KIND, "model"),
                        &c->refusal);
}

/* ---- texts ---- */

/* An answer on its way. */
struct writing {
    struct server *server;
    struct answer  answer;
    struct call    call;            // of its connection
    char          *bytes;           // (len) to be sent, at of them are
    size_t         len, at;
    double         sent;            // when the last events were made
    double         beat;            // when anything was
    bool           submitted, ended;
};

/* From event to event of a stream, in seconds: what is faster comes several tokens at a
 * time, so that sending takes no time from computing. Each event wakes a thread here and
 * a client, maybe on the same cores: the more are served at once, the fewer each gets. */
static double event_seconds(const struct server *s)
{
    int open = atomic_load(&s->open);

    return open <= 3 ? 0.015 : open < 20 ? 0.005 * open : 0.1;
}

static const double a_while = 0.25;         // after which we look whether the client left

/* Under line.lock: wait for news, or only for the end of a text, a while (below 1 s). */
static void wait_a_while(struct answer *a, bool for_end, double seconds)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(seconds * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    a->line.for_end = for_end;
    pthread_cond_clockwait(&a->line.news, &a->line.lock, CLOCK_MONOTONIC, &until);
}

static bool all_done(const struct answer *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->job[i]->state != JOB_DONE)
            return false;
    return true;
}

/* Nobody waits for it any more: get the jobs back, and close. */
static void give_up(struct writing *w)
{
    struct answer *a = &w->answer;

    for (int i = 0; w->submitted && i < a->n; i++)
        atomic_store(&a->job[i]->left, true);
    if (w->submitted) {
        scheduler_poke(w->server->scheduler);
        pthread_mutex_lock(&a->line.lock);
        while (!all_done(a))
            wait_a_while(a, true, a_while);
        pthread_mutex_unlock(&a->line.lock);
    }
    answer_close(a);
    free(w->bytes);
    free(w);
}

/* Wait for the end of all texts; false: the client left, or there is no time. */
static bool wait_for_all(struct writing *w)
{
    struct answer *a = &w->answer;
    bool           waits = true, done = false;

    while (waits && !done) {
        pthread_mutex_lock(&a->line.lock);
        if (!all_done(a))
            wait_a_while(a, true, a_while);
        done = all_done(a);
        pthread_mutex_unlock(&a->line.lock);
        waits = done || (call_waits(&w->call) && !atomic_load(&w->server->hurry));
    }
    return done;
}

static enum MHD_Result answer_whole_text(struct server *s, struct call *c,
                                         struct writing *w)
{
    enum MHD_Result sent = MHD_NO;

    if (wait_for_all(w)) {
        json_t *j = answer_failed(&w->answer) ? NULL : answer_whole(&w->answer);

        sent = reply_json(s, c, 200, j);
    }
    give_up(w);
    return sent;
}

/* Write a piece as an event; false: no memory. */
static bool put_event(FILE *f, json_t *piece)
{
    char *text = json_to_text(piece, JSON_COMPACT | JSON_REAL_PRECISION(9));
    bool  ok = text && fprintf(f, "data: %s\n\n", text) > 0;

    json_decref(piece);
    free(text);
    return ok;
}

/* A text that was cut short for want of memory does not end as others do. */
static void put_end(FILE *f, const struct answer *a)
{
    if (answer_failed(a)) {
        fputs("data: {\"error\": {\"message\": \"not enough memory\", "
              "\"type\": \"server_error\", \"param\": null, \"code\": null}}\n\n", f);
        return;
    }
    if (!a->ask.usage || put_event(f, answer_usage(a)))
        fputs("data: [DONE]\n\n", f);
}

/* What is new of every text, as events into w->bytes. */
static void next_events(struct writing *w)
{
    struct answer *a = &w->answer;
    json_t        *piece;
    bool           ok;

    free(w->bytes);
    w->bytes = NULL;
    w->len = w->at = 0;
    FILE *f = memory_stream(&w->bytes, &w->len);

    ok = f != NULL;
    for (int i = 0; i < a->n && ok; i++)
        if (answer_piece(a, i, &piece))
            ok = put_event(f, piece);
    w->ended = !ok || answer_told(a);
    if (w->ended && ok)
        put_end(f, a);
    if (f && fclose(f))
        w->ended = true;
}

/* A comment, so that nobody takes a stream that waits for a dead one: nor does the
 * server's own limit of idle time. */
static void beat(struct writing *w)
{
    int n;

    if (wall_seconds() - w->beat < w->server->o.beat)
        return;
    free(w->bytes);
    n = asprintf(&w->bytes, ":\n\n");
    if (n < 0)
        w->bytes = NULL;
    w->len = n < 0 ? 0 : (size_t)n;
    w->beat = wall_seconds();
}

/* Not too soon after the last event, unless all is written: at a multiple of the time
 * between events, so that all streams are sent at once and computing halts once. */
static void wait_for_more(struct writing *w)
{
    struct answer *a = &w->answer;
    double         between = event_seconds(w->server);
    double         until = ceil(w->sent / between) * between, now;

    pthread_mutex_lock(&a->line.lock);
    while ((now = wall_seconds()) < until && !all_done(a))
        wait_a_while(a, true, until - now);
    pthread_mutex_unlock(&a->line.lock);
}

/* MHD_ContentReaderCallback */
static ssize_t read_text(void *user, uint64_t pos, char *to, size_t most)
{
    struct writing *w = user;

    (void)pos;
    while (w->at == w->len) {
        if (w->ended)
            return MHD_CONTENT_READER_END_OF_STREAM;
        if (atomic_load(&w->server->hurry) || !call_waits(&w->call))
            return MHD_CONTENT_READER_END_WITH_ERROR;
        wait_for_more(w);
        next_events(w);
        if (w->len)
            w->sent = w->beat = wall_seconds();
        if (w->len || w->ended)
            continue;
        pthread_mutex_lock(&w->answer.line.lock);
        if (!answer_news(&w->answer))
            wait_a_while(&w->answer, false, a_while);
        pthread_mutex_unlock(&w->answer.line.lock);
        beat(w);
    }
    size_t n = w->len - w->at < most ? w->len - w->at : most;

    memcpy(to, w->bytes + w->at, n);
    w->at += n;
    return (ssize_t)n;
}

static void end_text(void *user)
{
    give_up(user);
}

/* Hand in the texts of a request; NULL: refused. */
static struct writing *begin(struct server *s, struct call *c, struct ask *ask,
                             struct engine *e)
{
    struct writing *w = calloc(1, sizeof *w);

    if (!w || !answer_open(&w->answer, ask, e)) {
        refuse(&c->refusal, 503, NULL, "not enough memory");
    } else {
        w->server = s;
        w->call = *c;
        w->beat = wall_seconds();
        w->submitted = scheduler_submit(s->scheduler, w->answer.job, w->answer.n);
        if (w->submitted)
            return w;
        refuse(&c->refusal, 503, NULL, "too many requests wait already; try again");
    }
    if (w)
        give_up(w);
    return NULL;
}

static enum MHD_Result complete(struct server *s, struct call *c, bool chat)
{
    json_t         *body;
    struct engine  *e = read_body(s, c, &body);
    struct ask_model m;
    struct ask      ask;
    struct writing *w = NULL;
    bool            stream;

    if (!e)
        return reply_refusal(s, c, &c->refusal);
    m = (struct ask_model){e->tokenizer, e->model.cfg.prefix, e->model.cfg.opening};
    if (ask_read(&ask, body, chat, s->o.chat_template, &m, &c->refusal)) {
        stream = ask.stream;
        w = begin(s, c, &ask, e);
    }
    ask_close(&ask);
    engine_release(e);
    if (!w)
        return reply_refusal(s, c, &c->refusal);
    return stream ? reply_stream(s, c, read_text, w, end_text)
                  : answer_whole_text(s, c, w);
}

static enum MHD_Result completions(struct server *s, struct call *c)
{
    return complete(s, c, false);
}

static enum MHD_Result chat_completions(struct server *s, struct call *c)
{
    return complete(s, c, true);
}

/* ---- tokens ---- */

static json_t *tokens_json(const struct tokenizer *t, const int32_t *ids, long n)
{
    json_t *list = json_array(), *pieces = json_array();

    for (long i = 0; i < n; i++) {
        size_t      len;
        const char *piece = tokenizer_piece(t, (uint32_t)ids[i], &len);

        json_array_append_new(list, json_integer(ids[i]));
        json_array_append_new(pieces, ids[i] == tokenizer_eos(t)
                                          ? json_string("</s>")
                                          : json_from_bytes(piece, len));
    }
    return json_pack("{s:o, s:o, s:I}", "tokens", list, "pieces", pieces, "count",
                     (json_int_t)n);
}

static enum MHD_Result tokenize(struct server *s, struct call *c)
{
    json_t        *body, *j = NULL;
    struct engine *e = read_body(s, c, &body);
    const char    *text = NULL;
    size_t         len;
    long           n;

    if (e && asked_string(body, "content", &text, &len, &c->refusal) && !text)
        asked_string(body, "prompt", &text, &len, &c->refusal);
    if (e && !text && !c->refusal.status)
        refuse(&c->refusal, 400, "content", "content must be a string");
    if (text) {
        int32_t *ids = ask_ids(e->tokenizer, text, len, &n);

        j = ids ? tokens_json(e->tokenizer, ids, n) : NULL;
        free(ids);
    }
    json_decref(body);
    engine_release(e);
    return text ? reply_json(s, c, 200, j) : reply_refusal(s, c, &c->refusal);
}

/* What ids stand for, as {"content": ..., "prompt": ...}. */
static json_t *text_of(const struct tokenizer *t, const int32_t *ids, long n)
{
    size_t  len = tokenizer_decode(t, (const uint32_t *)ids, (size_t)n, NULL, 0);
    char   *text = malloc(len + 1);
    json_t *j = NULL;

    if (text) {
        tokenizer_decode(t, (const uint32_t *)ids, (size_t)n, text, len);
        j = json_pack("{s:o, s:o}", "content", json_from_bytes(text, len), "prompt",
                      json_from_bytes(text, len));
    }
    free(text);
    return j;
}

static enum MHD_Result detokenize(struct server *s, struct call *c)
{
    json_t        *body, *j = NULL;
    struct engine *e = read_body(s, c, &body);
    const json_t  *list = e ? json_object_get(body, "tokens") : NULL;
    int32_t       *ids = NULL;
    long           n;

    if (e && !json_is_array(list))
        refuse(&c->refusal, 400, "tokens", "tokens must be a list of token ids");
    else if (e && ask_id_list(list, "tokens", tokenizer_vocab(e->tokenizer), &ids, &n,
                              &c->refusal))
        j = text_of(e->tokenizer, ids, n);
    free(ids);
    json_decref(body);
    engine_release(e);
    return c->refusal.status ? reply_refusal(s, c, &c->refusal)
                             : reply_json(s, c, 200, j);
}

static enum MHD_Result tokenizer_info(struct server *s, struct call *c)
{
    struct engine *e = engine_in_query(s, c);
    json_t        *j;

    if (!e)
        return reply_refusal(s, c, &c->refusal);
    j = json_pack("{s:s, s:i, s:i, s:s}", "kind", tokenizer_kind(e->tokenizer), "vocab",
                  tokenizer_vocab(e->tokenizer), "eos_id", tokenizer_eos(e->tokenizer),
                  "eos_token", "</s>");
    engine_release(e);
    return reply_json(s, c, 200, j);
}

/* ---- the server itself ---- */

static enum MHD_Result models(struct server *s, struct call *c)
{
    return reply_json(s, c, 200, served_list(s->served));
}

static enum MHD_Result what_is_served(struct server *s, struct call *c)
{
    return reply_json(s, c, 200, served_json(s->served));
}

static enum MHD_Result health(struct server *s, struct call *c)
{
    bool ready = served_ready(s->served);

    return reply_json(s, c, ready ? 200 : 503,
                      json_pack("{s:s}", "status", ready ? "ok" : "loading"));
}

static void put_metric(FILE *f, const char *name, const char *kind, const char *about,
                       double value)
{
    fprintf(f, "# HELP weft_%s %s\n# TYPE weft_%s %s\nweft_%s %.17g\n", name, about, name,
            kind, name, value);
}

static void put_metrics(FILE *f, struct server *s)
{
    struct scheduler_counts n = scheduler_counts(s->scheduler);

    put_metric(f, "uptime_seconds", "gauge", "Since the server began.",
               wall_seconds() - s->began);
    put_metric(f, "memory_bytes", "gauge", "Memory that the process holds.",
               (double)memory_held());
    put_metric(f, "requests_open", "gauge", "Requests under way.",
               (double)atomic_load(&s->open));
    put_metric(f, "texts_waiting", "gauge", "Texts that wait for a slot.", n.waiting);
    put_metric(f, "texts_busy", "gauge", "Texts that have a slot.", n.busy);
    put_metric(f, "texts_total", "counter", "Texts that ended.", (double)n.jobs);
    put_metric(f, "texts_left_total", "counter", "Texts whose client left.",
               (double)n.left);
    put_metric(f, "prompt_tokens_total", "counter", "Tokens of prompts computed.",
               (double)n.prompt_tokens);
    put_metric(f, "cached_tokens_total", "counter",
               "Tokens of prompts found in the cache.", (double)n.cached_tokens);
    put_metric(f, "cache_hits_total", "counter", "Prompts of which a part was known.",
               (double)n.hits);
    put_metric(f, "cache_misses_total", "counter", "Prompts that were not known.",
               (double)n.misses);
    put_metric(f, "tokens_total", "counter", "Tokens written.", (double)n.tokens);
    put_metric(f, "steps_total", "counter", "Steps, each a token of some texts.",
               (double)n.steps);
    put_metric(f, "compute_seconds_total", "counter", "Seconds of computing.", n.seconds);
    put_metric(f, "first_token_seconds_total", "counter",
               "Seconds from a request to its first token, summed.", n.first_seconds);
    put_metric(f, "reloads_total", "counter", "Newer checkpoints taken.",
               (double)served_reloads(s->served));
    fputs("# HELP weft_answers_total Answers by status.\n"
          "# TYPE weft_answers_total counter\n", f);
    for (int i = 2; i < 6; i++)
        fprintf(f, "weft_answers_total{status=\"%dxx\"} %ld\n", i,
                atomic_load(&s->answers[i]));
}

static enum MHD_Result metrics(struct server *s, struct call *c)
{
    char           *text = NULL;
    size_t          len = 0;
    FILE           *f = memory_stream(&text, &len);
    enum MHD_Result sent;

    if (!f)
        return MHD_NO;
    put_metrics(f, s);
    sent = fclose(f) ? MHD_NO
                     : reply_text(s, c, 200, "text/plain; version=0.0.4; charset=utf-8",
                                  text, len);
    free(text);
    return sent;
}

/* ---- the page ---- */

static enum MHD_Result page(struct server *s, struct call *c)
{
    const char *type, *text;
    size_t      len;

    text = page_file(c->url, &len, &type);
    return reply_text(s, c, 200, type, text, len);
}

/* ---- the table ---- */

static const struct route routes[] = {
    {"POST", "/v1/completions", false, completions},
    {"POST", "/v1/chat/completions", false, chat_completions},
    {"GET", "/v1/models", false, models},
    {"GET", "/health", true, health},
    {"GET", "/metrics", false, metrics},
    {"POST", "/tokenize", false, tokenize},
    {"POST", "/detokenize", false, detokenize},
    {"GET", "/tokenizer_info", false, tokenizer_info},
    {"GET", "/served", false, what_is_served},
    {"GET", "/events", false, events_answer},
};
static const struct route page_route = {"GET", "/", true, page};

/* The route of an address, whatever the method. */
static const struct route *route_at(const char *url)
{
    const char *type;
    size_t      len;

    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (!strcmp(routes[i].url, url))
            return &routes[i];
    return page_file(url, &len, &type) ? &page_route : NULL;
}

const struct route *route_find(const char *method, const char *url, const char **allowed)
{
    const struct route *r = route_at(url);

    *allowed = !r ? NULL : strcmp(r->method, "GET") ? r->method : "GET, HEAD";
    if (!strcmp(method, "HEAD"))
        method = "GET";
    return r && !strcmp(r->method, method) ? r : NULL;
}
