/* The server, from end to end, over sockets. */
#include "infer/serve/serve.h"

#include "data/base/clock.h"
#include "data/base/file.h"
#include "data/base/json.h"
#include "infer/score.h"
#include "infer/writer.h"
#include "model/files/checkpoint.h"
#include "tests/support/client.h"
#include "tests/support/rig.h"
#include "tests/support/spawn.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- a run, and a server of it ---- */

static char run[600];

/* A checkpoint of a model with one setting more. */
static void write_checkpoint(long step, const char *stack, const char *setting)
{
    char path[700], pair[64];           // pair is cut in two

    checkpoint_path(path, sizeof path, run, step);
    snprintf(pair, sizeof pair, "%s", setting);
    ck_assert_int_eq(spawn_checkpoint(3, (char *[]){path, (char *)stack, pair}), 0);
}

static void make_latest(long step)
{
    char       name[32];
    struct why why = {"?"};

    ck_assert_msg(!link_replace(run, "latest", checkpoint_name(name, sizeof name, step),
                                &why), "%s", why.line);
}

static void write_step(long step, const char *stack, const char *setting)
{
    write_checkpoint(step, stack, setting);
    make_latest(step);
}

/* One byte more than its manifest says. */
static void damage(long step)
{
    char  dir[700], path[800];
    FILE *f;

    checkpoint_path(dir, sizeof dir, run, step);
    f = fopen(path_join(path, sizeof path, dir, "model.safetensors"), "a");
    fputc('x', f);
    fclose(f);
}

static void write_log(const char *mode, const char *text)
{
    char  path[700];
    FILE *f = fopen(path_join(path, sizeof path, run, "log.jsonl"), mode);

    fputs(text, f);
    fclose(f);
}

/* FAST tells its texts at once; a long one of SLOW is surely under way while a test looks
 * at it, however busy the machine is. */
static const char FAST[] = "width=32", SLOW[] = "width=256";

static void new_run(const char *setting)
{
    static int number;
    struct why why;

    snprintf(run, sizeof run, "%s/run%d", rig_tmp(), number++);
    ck_assert_int_eq(dir_make(run, &why), 0);
    write_step(7, "softmax(window=9)/mlstm", setting);
    write_log("w", "{\"settings\": {}}\n{\"step\": 1, \"val_bpb\": 2.5}\n");
}

static struct serve_options options(void)
{
    struct serve_options o;

    serve_defaults(&o);
    o.path = run;
    o.port = 0;
    return o;
}

static void nap(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)};

    nanosleep(&t, NULL);
}

static int status_of(int port, const char *method, const char *url, const char *headers,
                     const char *body)
{
    struct got g = client_ask(port, method, url, headers, body);
    int        status = g.status;

    got_free(&g);
    return status;
}

static const char as_json_type[] = "Content-Type: application/json\r\n";

/* Until what takes a moment has come about. */
struct patience {
    double until;
};

static bool wait_on(struct patience *p)
{
    if (!p->until)
        p->until = wall_seconds() + CLIENT_PATIENCE;
    nap(0.005);
    return wall_seconds() < p->until;
}

static void wait_until_loaded(const struct server *s)
{
    struct patience p = {0};

    while (status_of(serve_port(s), "GET", "/health", "", "") != 200)
        ck_assert_msg(wait_on(&p), "the model is not loaded");
}

/* Listening, and its model loaded. */
static struct server *start(const struct serve_options *o)
{
    struct server *s;
    struct why     why = {"?"};

    ck_assert_msg(!serve_start(&s, o, &why), "%s", why.line);
    wait_until_loaded(s);
    return s;
}

static struct server *serve_a(const char *setting)
{
    struct serve_options o = options();

    new_run(setting);
    return start(&o);
}

static struct server *serve(void) { return serve_a(FAST); }

static json_t *ask(const struct server *s, int status, const char *body)
{
    return client_post(serve_port(s), "/v1/completions", status, body);
}

static const json_t *first(const json_t *answer)
{
    return json_array_get(json_object_get(answer, "choices"), 0);
}

static const char *text_of(const json_t *answer)
{
    return json_string_value(json_object_get(first(answer), "text"));
}

static double metric(const struct server *s, const char *name)
{
    struct got  g = client_ask(serve_port(s), "GET", "/metrics", "", "");
    char        line[64];
    double      x = NAN;
    const char *at;

    snprintf(line, sizeof line, "\n%s ", name);
    at = g.body ? strstr(g.body, line) : NULL;
    if (at)
        x = atof(at + strlen(line));
    got_free(&g);
    return x;
}

static void wait_for(const struct server *s, const char *name, double value)
{
    struct patience p = {0};
    double          x;

    while ((x = metric(s, name)) != value)
        ck_assert_msg(wait_on(&p), "%s is %g, not %g", name, x, value);
}

/* Wait until no text waits for a slot, and then until none has one. */
static void assert_idle(const struct server *s)
{
    wait_for(s, "weft_texts_waiting", 0);
    wait_for(s, "weft_texts_busy", 0);
}

/* Wait until a text has begun. */
static void wait_for_a_token(const struct server *s)
{
    struct patience p = {0};

    while (!(metric(s, "weft_tokens_total") > 0))
        ck_assert_msg(wait_on(&p), "no text has begun");
}

/* ---- texts ---- */

/* What weft infer would write after a prompt; malloc'ed. */
static char *written(const char *prompt, uint64_t seed, int n)
{
    struct writer_options o = {.K = 1, .n = n};
    struct model          m;
    struct tokenizer     *t;
    struct writer         w;
    struct why            why;
    char                 *text;
    size_t                len;

    sampler_defaults(&o.sampler);
    o.sampler.seed = seed;
    o.out = open_memstream(&text, &len);
    ck_assert_int_eq(checkpoint_load(run, &m, &t, NULL, 0, &why), 0);
    ck_assert_int_eq(writer_open(&w, &m, t, &o, &why), 0);
    ck_assert_int_eq(writer_feed(&w, prompt, strlen(prompt), &why), 0);
    writer_run(&w);
    ck_assert_msg(w.tokens < n || (w.first.seconds > 0 && w.last.seconds > 0 &&
                                   w.first.seconds + w.last.seconds < w.seconds),
                  "tenths of %g and %g s in %g", w.first.seconds, w.last.seconds,
                  w.seconds);
    writer_close(&w);
    fclose(o.out);
    tokenizer_free(t);
    model_close(&m);
    return text;
}

/* The text of 40 tokens after a prompt is that of weft infer, which ends it by a line. */
static void assert_written(const struct server *s, const char *prompt)
{
    char        body[256];
    const char *got, *w;
    char       *want = written(prompt, 5, 40);
    json_t     *as_json = json_from_bytes(want, strlen(want)), *j;

    snprintf(body, sizeof body,
             "{\"prompt\": \"%s\", \"max_tokens\": 40, \"seed\": 5, \"top_k\": 40, "
             "\"temperature\": 0.8, \"top_p\": 0.95, \"min_p\": 0.05}", prompt);
    j = ask(s, 200, body);
    got = text_of(j), w = json_string_value(as_json);
    ck_assert_str_eq(json_string_value(json_object_get(j, "model")) + strlen("run0"),
                     "@7");
    ck_assert_msg(!strncmp(got, w, strlen(got)) && strlen(got) + 1 >= strlen(w),
                  "'%s', not '%s'", got, w);
    json_decref(as_json);
    free(want);
    json_decref(j);
}

START_TEST(a_text_is_the_one_that_weft_infer_writes)
{
    struct server *s = serve();

    assert_written(s, "Hi");
    assert_written(s, "");
    serve_stop(s, 5);
}
END_TEST

/* A list of a choice's logprobs. */
static const json_t *list_of(const json_t *choice, const char *name)
{
    return json_object_get(json_object_get(choice, "logprobs"), name);
}

static long number_at(const json_t *list, size_t i)
{
    return (long)json_integer_value(json_array_get(list, i));
}

/* What goes on from the first n tokens of a text, the likeliest each time. */
static void assert_goes_on(const struct server *s, const json_t *ids, size_t n)
{
    json_t *prompt = json_copy((json_t *)ids);
    json_t *j;
    char   *body;

    while (json_array_size(prompt) > n)
        json_array_remove(prompt, n);
    j = json_pack("{s:o, s:i, s:i, s:i, s:{s:i}}", "prompt", prompt, "max_tokens", 1,
                  "logprobs", 0, "temperature", 0, "logit_bias", "256", -100);
    body = json_dumps(j, 0);
    json_decref(j);
    j = ask(s, 200, body);
    ck_assert_int_eq(number_at(list_of(first(j), "token_ids"), 0), number_at(ids, n));
    json_decref(j);
    free(body);
}

/* As the page asks: the opening's tokens come with their ids, and are no document's. */
static void assert_echoed(const struct server *s)
{
    json_t *j = ask(s, 200, "{\"prompt\": \"\", \"echo\": true, \"max_tokens\": 3, "
                    "\"logprobs\": 0, \"temperature\": 0, "
                    "\"logit_bias\": {\"256\": -100}}");
    const json_t *ids = list_of(first(j), "token_ids");

    ck_assert_int_eq(json_array_size(ids), 8);
    for (size_t i = 0; i < 5; i++)
        ck_assert_int_eq(number_at(ids, i), "Zebra"[i]);
    ck_assert(json_is_null(json_array_get(list_of(first(j), "token_logprobs"), 0)));
    ck_assert(!json_is_null(json_array_get(list_of(first(j), "token_logprobs"), 1)));
    assert_goes_on(s, ids, 7);
    json_decref(j);
}

START_TEST(without_a_prompt_a_text_begins_with_the_opening_of_its_model)
{
    struct server *s = serve_a("opening=\"Zebra\"");
    struct got     g;
    json_t        *j;
    const json_t  *at;

    assert_written(s, "Hi");
    assert_written(s, "");
    j = ask(s, 200, "{\"max_tokens\": 3, \"logprobs\": 0}");
    at = json_object_get(json_object_get(first(j), "logprobs"), "text_offset");
    ck_assert_int_eq(strncmp(text_of(j), "Zebra", 5), 0);
    ck_assert_int_eq(json_integer_value(json_array_get(at, 0)), 5);
    json_decref(j);
    g = client_ask(serve_port(s), "POST", "/v1/completions", as_json_type,
                   "{\"max_tokens\": 3, \"stream\": true}");
    ck_assert(g.body && strstr(g.body, "\"text\":\"Zebra"));
    got_free(&g);
    assert_echoed(s);
    serve_stop(s, 5);
}
END_TEST

START_TEST(a_prefix_stands_before_a_prompt_and_is_not_told)
{
    struct server *s = serve_a("prefix=\"QQ\"");
    json_t        *j = ask(s, 200, "{\"max_tokens\": 5, \"logit_bias\": {\"81\": 100}}");
    struct got     g = client_ask(serve_port(s), "GET", "/served", "", "");

    ck_assert_str_eq(text_of(j), "QQQ");
    json_decref(j);
    ck_assert_msg(strstr(g.body, "\"prefix\":\"QQ\"") != NULL, "%s", g.body);
    got_free(&g);
    assert_written(s, "Hi");
    serve_stop(s, 5);
}
END_TEST

START_TEST(messages_are_joined_by_the_template)
{
    struct serve_options o = options();
    struct server       *s;
    json_t              *j;

    new_run(FAST);
    o.chat_template = "{role}: {content}\n";
    s = start(&o);
    j = client_post(serve_port(s), "/v1/chat/completions", 200,
                    "{\"max_tokens\": 1, \"messages\": ["
                    "{\"role\": \"user\", \"content\": \"Hi\"},"
                    "{\"role\": \"bot\", \"content\": \"Ha\"}]}");
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(j, "usage"),
                                                        "prompt_tokens")),
                     sizeof "user: Hi\nbot: Ha\n" - 1);
    json_decref(j);
    serve_stop(s, 5);
}
END_TEST

/* The text's offsets of a stream's tokens. */
static json_t *streamed_offsets(const char *body)
{
    json_t *all = json_array();

    for (const char *at = body; (at = strstr(at, "data: {")); at += 6) {
        json_t *j = json_loads(at + 6, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL);

        json_array_extend(all, (json_t *)list_of(first(j), "text_offset"));
        json_decref(j);
    }
    return all;
}

/* Five tokens, of which two are the prefix that the text lacks; whole, and a stream. */
static void assert_offsets(const struct server *s, const char *fields)
{
    static const long want[] = {0, 0, 0, 1, 2};
    char              body[256];
    json_t           *j, *streamed;
    struct got        g;

    snprintf(body, sizeof body, "{%s, \"logprobs\": 0}", fields);
    j = ask(s, 200, body);
    snprintf(body, sizeof body, "{%s, \"logprobs\": 0, \"stream\": true}", fields);
    g = client_ask(serve_port(s), "POST", "/v1/completions", as_json_type, body);
    streamed = streamed_offsets(g.body);
    ck_assert_int_eq(json_array_size(list_of(first(j), "text_offset")), 5);
    for (size_t i = 0; i < 5; i++)
        ck_assert_int_eq(number_at(list_of(first(j), "text_offset"), i), want[i]);
    ck_assert(json_equal(streamed, list_of(first(j), "text_offset")));
    json_decref(streamed);
    json_decref(j);
    got_free(&g);
}

START_TEST(offsets_are_of_the_text_that_is_told)
{
    struct server *s = serve_a("prefix=\"QQ\"");

    assert_offsets(s, "\"max_tokens\": 5, \"logit_bias\": {\"81\": 100}");
    assert_offsets(s, "\"prompt\": \"Hi\", \"echo\": true, \"max_tokens\": 1");
    serve_stop(s, 5);
}
END_TEST

/* A stream's events, as [choices' text put together, finish reason, events]. */
static json_t *stream_of(const struct got *g)
{
    char   *text = calloc(1, g->len + 1);
    json_t *finish = json_null(), *usage = json_null();
    int     events = 0;
    bool    done = false;

    for (char *at = g->body; (at = strstr(at, "data: ")); at += 6, events++) {
        json_t *j = json_loads(at + 6, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL);
        json_t *c = json_array_get(json_object_get(j, "choices"), 0);

        done = !strncmp(at + 6, "[DONE]", 6);
        if (c)
            strcat(text, json_string_value(json_object_get(c, "text")));
        if (json_is_string(json_object_get(c, "finish_reason")))
            finish = json_incref(json_object_get(c, "finish_reason"));
        if (json_is_object(json_object_get(j, "usage")))
            usage = json_incref(json_object_get(j, "usage"));
        json_decref(j);
    }
    json_t *all = json_pack("{s:s, s:o, s:o, s:b}", "text", text, "finish", finish,
                            "usage", usage, "done", done);

    free(text);
    return all;
}

START_TEST(a_stream_is_the_whole_text_in_pieces)
{
    static const char no_nul[] = ", \"logit_bias\": {\"0\": -100}";  // it ends C strings
    static const char *const asks[] = {
        "{\"prompt\": \"Hi\", \"max_tokens\": 60, \"seed\": 3%s}",
        "{\"prompt\": \"Hi\", \"max_tokens\": 60, \"seed\": 3, \"logprobs\": 2%s}",
        "{\"prompt\": \"Hi\", \"max_tokens\": 60, \"seed\": 3, \"echo\": true%s}",
        "{\"prompt\": \"Hi\", \"max_tokens\": 60, \"seed\": 3, "
        "\"stop\": [\"e\", \"zq\"]%s}",
        "{\"prompt\": \"Hi\", \"max_tokens\": 0, \"echo\": true%s}",
    };
    struct server *s = serve();

    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        char body[320], more[128];

        snprintf(body, sizeof body, asks[i], no_nul);
        json_t *whole = ask(s, 200, body);

        snprintf(more, sizeof more, ", \"stream\": true, \"stream_options\": "
                 "{\"include_usage\": true}%s", no_nul);
        snprintf(body, sizeof body, asks[i], more);
        struct got g = client_ask(serve_port(s), "POST", "/v1/completions",
                                  "Content-Type: application/json\r\n", body);
        json_t    *all = stream_of(&g);

        ck_assert_str_eq(json_string_value(json_object_get(all, "text")), text_of(whole));
        ck_assert(
            json_equal(json_object_get(all, "usage"), json_object_get(whole, "usage")));
        ck_assert(json_equal(json_object_get(all, "finish"),
                             json_object_get(first(whole), "finish_reason")));
        ck_assert(json_is_true(json_object_get(all, "done")));
        json_decref(all);
        json_decref(whole);
        got_free(&g);
    }
    serve_stop(s, 5);
}
END_TEST

/* Events of a choice, up to the last of the first choice. */
static int events_of(const char *body, int choice)
{
    const char *end = body, *at = body;
    char        words[32];
    int         n = 0;

    while ((at = strstr(end + 1, "[{\"index\":0,")))
        end = at;
    snprintf(words, sizeof words, "[{\"index\":%d,", choice);
    for (at = body; (at = strstr(at, words)) && at <= end; at++)
        n++;
    return n;
}

START_TEST(the_texts_of_a_stream_come_side_by_side)
{
    struct server *s = serve_a(SLOW);
    struct got     g = client_ask(serve_port(s), "POST", "/v1/completions", as_json_type,
                                  "{\"prompt\": \"Hi\", \"max_tokens\": 600, \"n\": 3, "
                                  "\"logit_bias\": {\"256\": -100}, \"stream\": true}");
    int            first = events_of(g.body, 0);

    ck_assert_int_ge(first, 4);
    for (int i = 1; i < 3; i++)
        ck_assert_int_ge(events_of(g.body, i), first / 2);
    got_free(&g);
    serve_stop(s, 5);
}
END_TEST

START_TEST(texts_whose_prompt_is_known_begin_in_the_same_step)
{
    struct server *s = serve();

    json_decref(ask(s, 200, "{\"prompt\": \"Hi\", \"max_tokens\": 10, \"n\": 8, "
                            "\"logit_bias\": {\"256\": -100}}"));
    assert_idle(s);
    ck_assert(metric(s, "weft_tokens_total") == 80);
    // the first text is a step ahead, and its first token comes with the prompt
    ck_assert(metric(s, "weft_steps_total") == 10);
    serve_stop(s, 5);
}
END_TEST

/* ---- company ---- */

enum { ASKS = 64, CLIENTS = 12 };

/* Request i: a prompt of up to three chunks, and some options. */
static char *request(int i)
{
    struct rng r = rng_open(11, RNG_TEST, (uint64_t)i / 2);     // pairs share a prompt
    int        n = (int)rng_below(&r, 8) ? 1 + (int)rng_below(&r, 40) : 1300;
    char       prompt[1400], *body;

    for (int k = 0; k < n; k++)
        prompt[k] = (char)('a' + (int)rng_below(&r, 26));
    prompt[n] = 0;
    if (asprintf(&body, "{\"prompt\": \"%s\", \"seed\": %d, \"max_tokens\": %d, "
                       "\"temperature\": %g, \"top_k\": %d, \"logprobs\": %d, \"n\": %d, "
                       "\"presence_penalty\": %g}", prompt, i, 1 + (int)rng_below(&r, 50),
                       i % 3 ? 0.9 : 0, i % 2 ? 40 : 0, i % 4, 1 + i % 3,
                       i % 5 ? 0 : 0.5) < 0)
        abort();
    return body;
}

struct crowd {
    const struct server *s;
    pthread_mutex_t      lock;
    int                  next;
    json_t              *choices[ASKS];
};

/* Check is for one thread: what is wrong shows when the answers are compared. */
static void *ask_on(void *user)
{
    struct crowd *c = user;

    for (;;) {
        pthread_mutex_lock(&c->lock);
        int i = c->next < ASKS ? c->next++ : -1;

        pthread_mutex_unlock(&c->lock);
        if (i < 0)
            return NULL;
        i = (i * 37 + 11) % ASKS;
        char      *body = request(i);
        struct got g = client_ask(serve_port(c->s), "POST", "/v1/completions",
                                  as_json_type, body);
        json_t    *j = g.body ? json_loads(g.body, JSON_ALLOW_NUL, NULL) : NULL;

        c->choices[i] = json_incref(json_object_get(j, "choices"));
        json_decref(j);
        got_free(&g);
        free(body);
    }
}

START_TEST(sixty_four_requests_in_company_give_the_bytes_that_each_gives_alone)
{
    struct crowd   c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t      client[CLIENTS];
    struct serve_options o;
    struct server *alone;

    c.s = serve();
    for (int i = 0; i < CLIENTS; i++)
        pthread_create(&client[i], NULL, ask_on, &c);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(client[i], NULL);
    ck_assert(metric(c.s, "weft_cache_hits_total") > 10);
    ck_assert(metric(c.s, "weft_steps_total") < 0.6 * metric(c.s, "weft_tokens_total"));
    assert_idle(c.s);
    o = options();
    o.cache = 0;
    alone = start(&o);
    for (int i = 0; i < ASKS; i++) {
        char   *body = request(i);
        json_t *j = ask(alone, 200, body);

        ck_assert_msg(json_equal(json_object_get(j, "choices"), c.choices[i]),
                      "request %d: %s", i, body);
        json_decref(j);
        json_decref(c.choices[i]);
        free(body);
    }
    ck_assert(metric(alone, "weft_cache_hits_total") == 0);
    serve_stop(alone, 5);
    serve_stop((struct server *)c.s, 5);
}
END_TEST

/* ---- logprobs ---- */

/* Tokens for score_next: those of a text. */
struct letters {
    const char *text;
    long        at, n;
};

static enum fail next_letters(void *user, uint32_t *ids, long n, long *got,
                              struct why *why)
{
    struct letters *l = user;

    (void)why;
    for (*got = 0; *got < n && l->at < l->n; (*got)++)
        ids[*got] = (unsigned char)l->text[l->at++];
    return 0;
}

static double scored(const char *text)
{
    struct letters    l = {text, 0, (long)strlen(text)};
    struct model      m;
    struct tokenizer *t;
    struct pass       p;
    struct score      r;
    struct why        why;

    ck_assert_int_eq(checkpoint_load(run, &m, &t, NULL, 0, &why), 0);
    ck_assert_int_eq(pass_open(&p, &m, 4, m.cfg.context, PASS_SCORE, &why), 0);
    ck_assert_int_eq(
        score_run(&m, &p, 4, tokenizer_eos(t), next_letters, &l, 0, NULL, NULL, &r, &why),
        0);
    pass_close(&p);
    tokenizer_free(t);
    model_close(&m);
    return r.nats;
}

static double sum_of(const json_t *logprobs, long from, long to)
{
    const json_t *list = json_object_get(logprobs, "token_logprobs");
    double        sum = 0;

    for (long i = from; i < to; i++)
        sum += json_to_double(json_array_get(list, (size_t)i));
    return sum;
}

START_TEST(the_logprobs_of_a_prompt_are_the_nats_of_weft_score)
{
    static const char *const texts[] = {
        "It was a dark and stormy night.", "x",
        "and beyond one context, where the windows of weft score begin anew, it agrees "
        "too"};
    struct server *s = serve();

    for (int i = 0; i < 3; i++) {
        char body[256];

        snprintf(body, sizeof body, "{\"prompt\": \"%s\", \"echo\": true, "
                 "\"max_tokens\": 0, \"logprobs\": 1}", texts[i]);
        json_t *j = ask(s, 200, body);
        double  want = scored(texts[i]);
        double  got = -sum_of(json_object_get(first(j), "logprobs"), 0,
                              (long)strlen(texts[i]));

        ck_assert_msg(fabs(got - want) <= 1e-6 * want, "%.9g, not %.9g", got, want);
        json_decref(j);
    }
    serve_stop(s, 5);
}
END_TEST

/* lm-evaluation-harness, local-completions: sums token_logprobs[ctxlen:-1], and takes it
 * for greedy where each is the largest of its top_logprobs. */
START_TEST(the_requests_of_lm_eval_are_answered)
{
    struct server *s = serve();
    json_t *j = ask(s, 200, "{\"model\": \"any\", \"prompt\": [[256, 72, 105, 33], "
                    "[256, 65], [72]], \"temperature\": 0, \"max_tokens\": 1, "
                    "\"logprobs\": 1, \"seed\": 1234, \"echo\": true}");
    json_t *choices = json_object_get(j, "choices");
    static const size_t lengths[] = {4, 2, 1};

    ck_assert_int_eq(json_array_size(choices), 3);
    for (size_t i = 0; i < 3; i++) {
        json_t *l = json_object_get(json_array_get(choices, i), "logprobs");
        json_t *values = json_object_get(l, "token_logprobs");
        json_t *tops = json_object_get(l, "top_logprobs"), *value;
        size_t  n = json_array_size(values), k;

        ck_assert_int_eq(n, lengths[i] + 1);
        ck_assert_int_eq(json_array_size(tops), n);
        ck_assert(json_is_null(json_array_get(values, 0)));
        ck_assert(json_is_null(json_array_get(tops, 0)));
        json_array_foreach(values, k, value) {
            const char *key;
            json_t     *x;
            double      best = -INFINITY;

            if (k == 0)
                continue;
            json_object_foreach(json_array_get(tops, k), key, x)
                best = fmax(best, json_number_value(x));
            ck_assert(best >= json_number_value(value));
            if (k == n - 1)
                ck_assert_msg(best == json_number_value(value),
                              "the likeliest was taken");
        }
    }
    json_decref(j);
    serve_stop(s, 5);
}
END_TEST

START_TEST(the_end_of_a_text_is_a_token_of_the_answer)
{
    struct server *s = serve();
    json_t *j = ask(s, 200, "{\"prompt\": [72], \"max_tokens\": 9, \"logprobs\": 0, "
                    "\"logit_bias\": {\"256\": 100}}");
    const json_t *l = json_object_get(first(j), "logprobs");

    ck_assert_str_eq(text_of(j), "");
    ck_assert_str_eq(json_string_value(json_object_get(first(j), "finish_reason")),
                     "stop");
    ck_assert_int_eq(json_array_size(json_object_get(l, "token_logprobs")), 1);
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(l, "tokens"), 0)),
                     "</s>");
    json_decref(j);
    serve_stop(s, 5);
}
END_TEST

/* ---- forms ---- */

/* What an address answers to GET; the result is the caller's. */
static json_t *get(const struct server *s, const char *url)
{
    struct got g = client_ask(serve_port(s), "GET", url, "", "");
    json_t    *j = g.body ? json_loads(g.body, 0, NULL) : NULL;

    ck_assert_msg(g.status == 200 && j, "%s: %d, %.300s", url, g.status, g.body);
    got_free(&g);
    return j;
}

static const char *string_in(const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));

    return text ? text : "";
}

static long number_in(const json_t *j, const char *key)
{
    return (long)json_integer_value(json_object_get(j, key));
}

/* want: the answer, or the field that is refused. */
static const struct { const char *url, *body, *want; } of_tokens[] = {
    {"/tokenize", "{\"content\": \"Hi\"}",
     "{\"tokens\": [72, 105], \"pieces\": [\"H\", \"i\"], \"count\": 2}"},
    {"/tokenize", "{\"prompt\": \"\\u00e9\"}",
     "{\"tokens\": [195, 169], \"pieces\": [\"\\ufffd\", \"\\ufffd\"], \"count\": 2}"},
    {"/tokenize", "{\"content\": \"</s>\"}",
     "{\"tokens\": [256], \"pieces\": [\"</s>\"], \"count\": 1}"},
    {"/tokenize", "{\"content\": \"\", \"prompt\": \"Hi\"}",
     "{\"tokens\": [], \"pieces\": [], \"count\": 0}"},
    {"/detokenize", "{\"tokens\": [72, 105, 195, 169]}",
     "{\"content\": \"Hi\\u00e9\", \"prompt\": \"Hi\\u00e9\"}"},
    {"/tokenize", "{}", "content"},
    {"/tokenize", "{\"content\": 5}", "content"},
    {"/tokenize", "{\"prompt\": [72]}", "prompt"},
    {"/detokenize", "{}", "tokens"},
    {"/detokenize", "{\"tokens\": \"Hi\"}", "tokens"},
    {"/detokenize", "{\"tokens\": [257]}", "tokens"},
};

START_TEST(a_text_becomes_tokens_and_tokens_a_text)
{
    struct server *s = serve();
    json_t        *j, *want;

    for (size_t i = 0; i < sizeof of_tokens / sizeof *of_tokens; i++) {
        want = json_loads(of_tokens[i].want, 0, NULL);
        j = client_post(serve_port(s), of_tokens[i].url, want ? 200 : 400,
                        of_tokens[i].body);
        if (want)
            ck_assert_msg(json_equal(j, want), "%s", of_tokens[i].body);
        else
            ck_assert_str_eq(string_in(json_object_get(j, "error"), "param"),
                             of_tokens[i].want);
        json_decref(j);
        json_decref(want);
    }
    j = get(s, "/tokenizer_info");
    want = json_pack("{s:s, s:i, s:i, s:s}", "kind", "bytes", "vocab", 257, "eos_id", 256,
                     "eos_token", "</s>");
    ck_assert(json_equal(j, want));
    json_decref(j);
    json_decref(want);
    serve_stop(s, 5);
}
END_TEST

/* The likeliest token is taken: it is the first of what is told beside it. */
static void assert_choice(const json_t *c, int i)
{
    const json_t *ids = json_array_get(list_of(c, "top_ids"), 0);
    const json_t *values = json_array_get(list_of(c, "top_values"), 0);
    const json_t *texts = json_array_get(list_of(c, "top_tokens"), 0);
    double        nats = json_number_value(json_array_get(values, 0));

    ck_assert_int_eq(number_in(c, "index"), i);
    ck_assert_int_eq(json_array_size(list_of(c, "tokens")), 1);
    ck_assert(json_array_size(ids) == 2 && json_array_size(texts) == 2);
    ck_assert_int_eq(number_at(ids, 0), number_at(list_of(c, "token_ids"), 0));
    ck_assert(json_equal(json_array_get(texts, 0),
                         json_array_get(list_of(c, "tokens"), 0)));
    ck_assert(nats <= 0 && nats >= json_number_value(json_array_get(values, 1)));
    ck_assert(nats ==
              json_number_value(json_array_get(list_of(c, "token_logprobs"), 0)));
}

START_TEST(an_answer_has_the_form_of_openai)
{
    struct server *s = serve();
    json_t        *j = ask(s, 200, "{\"prompt\": [\"Hi\", \"You\"], \"n\": 2, "
                           "\"max_tokens\": 1, \"logprobs\": 2, \"temperature\": 0}");
    const json_t  *usage = json_object_get(j, "usage"), *one, *top;
    long           since = (long)time(NULL) - number_in(j, "created");

    ck_assert(!strncmp(string_in(j, "id"), "cmpl-", 5));
    ck_assert_int_eq(strlen(string_in(j, "id")), 5 + 16);
    ck_assert_str_eq(string_in(j, "object"), "text_completion");
    ck_assert(since >= 0 && since <= CLIENT_PATIENCE);
    ck_assert_int_eq(json_array_size(json_object_get(j, "choices")), 4);
    for (int i = 0; i < 4; i++)
        assert_choice(json_array_get(json_object_get(j, "choices"), (size_t)i), i);
    ck_assert_int_eq(number_in(usage, "prompt_tokens"), 5);
    ck_assert_int_eq(number_in(usage, "completion_tokens"), 4);
    ck_assert_int_eq(number_in(usage, "total_tokens"), 9);
    json_decref(j);
    j = client_post(serve_port(s), "/v1/chat/completions", 200,
                    "{\"max_tokens\": 1, \"temperature\": 0, \"logprobs\": true, "
                    "\"top_logprobs\": 1, \"messages\": [{\"role\": \"user\", "
                    "\"content\": [{\"type\": \"text\", \"text\": \"Hi\"}, "
                    "{\"type\": \"text\", \"text\": \"!\"}]}]}");
    ck_assert(!strncmp(string_in(j, "id"), "chatcmpl-", 9));
    ck_assert_str_eq(string_in(j, "object"), "chat.completion");
    ck_assert_str_eq(string_in(json_object_get(first(j), "message"), "role"),
                     "assistant");
    ck_assert_int_eq(number_in(json_object_get(j, "usage"), "prompt_tokens"), 4);
    one = json_array_get(list_of(first(j), "content"), 0);
    top = json_array_get(json_object_get(one, "top_logprobs"), 0);
    ck_assert(json_is_string(json_object_get(one, "token")) &&
              json_is_array(json_object_get(one, "bytes")));
    ck_assert(json_equal(json_object_get(top, "logprob"),
                         json_object_get(one, "logprob")));
    ck_assert(json_equal(json_object_get(top, "token"), json_object_get(one, "token")));
    json_decref(j);
    serve_stop(s, 5);
}
END_TEST

START_TEST(a_streamed_chat_says_once_who_speaks)
{
    static const char body[] =
        "{\"max_tokens\": 40, \"seed\": 3, \"logit_bias\": {\"0\": -100, "
        "\"256\": -100}, \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]%s}";
    struct server *s = serve();
    char           text[4096] = "", asked[256];
    json_t        *whole, *j;
    struct got     g;
    int            events = 0;

    snprintf(asked, sizeof asked, body, "");
    whole = client_post(serve_port(s), "/v1/chat/completions", 200, asked);
    ck_assert(json_is_null(json_object_get(first(whole), "logprobs")));
    snprintf(asked, sizeof asked, body, ", \"stream\": true");
    g = client_ask(serve_port(s), "POST", "/v1/chat/completions", as_json_type, asked);
    for (const char *at = g.body; (at = strstr(at, "data: {")); at += 6, events++) {
        const json_t *delta;

        j = json_loads(at + 6, JSON_DISABLE_EOF_CHECK, NULL);
        delta = json_object_get(first(j), "delta");
        ck_assert_str_eq(string_in(j, "object"), "chat.completion.chunk");
        ck_assert_str_eq(string_in(delta, "role"), events ? "" : "assistant");
        strcat(text, string_in(delta, "content"));
        json_decref(j);
    }
    ck_assert_int_ge(events, 1);
    ck_assert_str_eq(text,
                     string_in(json_object_get(first(whole), "message"), "content"));
    json_decref(whole);
    got_free(&g);
    serve_stop(s, 5);
}
END_TEST

START_TEST(the_metrics_count_what_was_done)
{
    static const char body[] = "{\"prompt\": \"Hi\", \"max_tokens\": 10, "
                               "\"logit_bias\": {\"256\": -100}}";
    static const struct { const char *name; double want; } rows[] = {
        {"weft_texts_total", 2},         {"weft_texts_left_total", 0},
        {"weft_prompt_tokens_total", 3}, {"weft_cached_tokens_total", 3},   // EOS, H, i
        {"weft_cache_misses_total", 1},  {"weft_cache_hits_total", 1},
        {"weft_tokens_total", 20},       {"weft_steps_total", 18},
        {"weft_reloads_total", 0},       {"weft_answers_total{status=\"3xx\"}", 0},
        {"weft_answers_total{status=\"4xx\"}", 2},
        {"weft_answers_total{status=\"5xx\"}", 0},
    };
    struct server *s = serve();
    double         up, computed, waited;

    for (int i = 0; i < 2; i++) {
        json_decref(ask(s, 200, body));
        assert_idle(s);
    }
    ck_assert_int_eq(status_of(serve_port(s), "GET", "/nothing", "", ""), 404);
    json_decref(ask(s, 400, "{\"n\": 0}"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_msg(metric(s, rows[i].name) == rows[i].want, "%s is %g, not %g",
                      rows[i].name, metric(s, rows[i].name), rows[i].want);
    wait_for(s, "weft_requests_open", 1);           // that which asks
    computed = metric(s, "weft_compute_seconds_total");
    waited = metric(s, "weft_first_token_seconds_total");
    up = metric(s, "weft_uptime_seconds");
    ck_assert(computed > 0 && computed < up && waited > 0 && waited < up);
    ck_assert(up < CLIENT_PATIENCE && metric(s, "weft_memory_bytes") > 1 << 20);
    write_step(9, "gla", FAST);
    wait_for(s, "weft_reloads_total", 1);
    serve_stop(s, 5);
}
END_TEST

static const struct {
    const char *method, *url;
    int         status;
    const char *type;
} heads[] = {
    {"GET", "/", 200, "text/html; charset=utf-8"},
    {"HEAD", "/", 200, "text/html; charset=utf-8"},
    {"GET", "/page.js", 200, "text/javascript; charset=utf-8"},
    {"GET", "/health", 200, "application/json"},
    {"GET", "/metrics", 200, "text/plain; version=0.0.4; charset=utf-8"},
    {"GET", "/nothing", 404, "application/json"},
};

START_TEST(every_answer_says_what_it_is_and_what_a_browser_may_do_with_it)
{
    static const char *const lines[] = {
        "Cache-Control: no-store", "X-Content-Type-Options: nosniff",
        "Content-Security-Policy: default-src 'none'", "Referrer-Policy: no-referrer"};
    struct server *s = serve();

    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        struct got g = client_ask(serve_port(s), heads[i].method, heads[i].url, "", "");
        char       type[96];

        snprintf(type, sizeof type, "Content-Type: %s", heads[i].type);
        ck_assert_int_eq(g.status, heads[i].status);
        ck_assert_msg(strstr(g.head, type) != NULL, "%s: %s", heads[i].url, g.head);
        for (int k = 0; k < 4; k++)
            ck_assert_msg(strstr(g.head, lines[k]) != NULL, "%s: %s", heads[i].url,
                          g.head);
        ck_assert((g.len == 0) == !strcmp(heads[i].method, "HEAD"));
        got_free(&g);
    }
    serve_stop(s, 5);
}
END_TEST

/* The status of a request as it stands. */
static int raw_status(int port, const char *bytes, size_t len)
{
    int        fd = client_connect(port), status;
    struct got g;

    client_send(fd, bytes, len);
    shutdown(fd, SHUT_WR);
    g = client_receive(fd);
    status = g.status;
    got_free(&g);
    close(fd);
    return status;
}

static const struct { const char *host; int status; } hosts[] = {
    {"localhost", 200}, {"LocalHost:1", 200},  {"127.0.0.1:8080", 200}, {"[::1]:80", 200},
    {"192.0.2.7", 403}, {"[2001:db8::1]", 403}, {"localhost.example", 403},
};

START_TEST(only_this_machines_names_lead_to_it)
{
    struct server *s = serve();

    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        char bytes[128];
        int  status;

        snprintf(bytes, sizeof bytes, "GET /v1/models HTTP/1.1\r\nHost: %s\r\n"
                 "Connection: close\r\n\r\n", hosts[i].host);
        status = raw_status(serve_port(s), bytes, strlen(bytes));
        ck_assert_msg(status == hosts[i].status, "%s: %d", hosts[i].host, status);
    }
    serve_stop(s, 5);
}
END_TEST

/* A run, its checkpoint, and the step of it: what /served says is the same. */
static const struct { const char *behind, *kind; } paths[] = {
    {"", "run"}, {"/ckpt-00000007", "checkpoint"}, {"@7", "checkpoint"},
};

START_TEST(what_is_served_is_told)
{
    static const char numbers[] = "{\"zstd19_bpb\": 2.5, \"order2_bpb\": 3.5}";

    for (int i = 0; i < 3; i++) {
        struct serve_options o = options();
        struct server       *s;
        struct why           why;
        struct patience      p = {0};
        char                 path[700], file[700];
        json_t              *j = NULL, *models;
        const json_t        *m;

        new_run(FAST);
        ck_assert_int_eq(dir_make(path_join(file, sizeof file, run, "data"), &why), 0);
        ck_assert_int_eq(
            file_write(path_join(file, sizeof file, run, "data/dataset.json"),
                       numbers, strlen(numbers), &why), 0);
        snprintf(path, sizeof path, "%s%s", run, paths[i].behind);
        o.path = path;
        s = start(&o);
        do {                                        // the log is read by a thread
            ck_assert_msg(wait_on(&p), "no val_bpb");
            json_decref(j);
            j = get(s, "/served");
            m = json_array_get(json_object_get(j, "models"), 0);
        } while (json_number_value(json_object_get(m, "val_bpb")) != 2.5);
        ck_assert_str_eq(string_in(j, "kind"), paths[i].kind);
        ck_assert_str_eq(string_in(j, "name"), strrchr(run, '/') + 1);
        ck_assert(json_is_false(json_object_get(j, "training")));
        ck_assert(json_number_value(json_object_get(j, "zstd_bpb")) == 2.5);
        ck_assert(json_number_value(json_object_get(j, "order2_bpb")) == 3.5);
        ck_assert(json_is_null(json_object_get(j, "floor_bpb")));
        ck_assert_str_eq(string_in(m, "id"), string_in(j, "name"));
        ck_assert_str_eq(string_in(m, "checkpoint"), "ckpt-00000007");
        ck_assert(number_in(m, "step") == 7 && number_in(m, "vocab") == 257 &&
                  number_in(m, "context") == 32 && number_in(m, "parameters") > 0);
        ck_assert(json_is_null(json_object_get(m, "seed")));
        models = get(s, "/v1/models");
        ck_assert_str_eq(string_in(models, "object"), "list");
        ck_assert_str_eq(
            string_in(json_array_get(json_object_get(models, "data"), 0), "id"),
            string_in(j, "name"));
        json_decref(models);
        json_decref(j);
        serve_stop(s, 5);
    }
}
END_TEST

/* ---- what is refused ---- */

static const struct {
    const char *body, *param;
} wrong[] = {
    {"", NULL},
    {"[]", NULL},
    {"{\"prompt\": \"a\", \"prompt\": \"b\"}", NULL},
    {"{\"prompt\": 5}", "prompt"},
    {"{\"prompt\": []}", "prompt"},
    {"{\"prompt\": [257]}", "prompt"},
    {"{\"prompt\": [-1]}", "prompt"},
    {"{\"prompt\": [1.5]}", "prompt"},
    {"{\"prompt\": [[1], [[2]]]}", "prompt"},
    {"{\"model\": 5}", "model"},
    {"{\"max_tokens\": -1}", "max_tokens"},
    {"{\"max_tokens\": 65537}", "max_tokens"},
    {"{\"max_tokens\": 1e300}", "max_tokens"},
    {"{\"max_tokens\": \"5\"}", "max_tokens"},
    {"{\"max_tokens\": 65536, \"logprobs\": 20, \"n\": 8}", "max_tokens"},
    {"{\"temperature\": -1}", "temperature"},
    {"{\"top_p\": 1.1}", "top_p"},
    {"{\"min_p\": \"x\"}", "min_p"},
    {"{\"top_k\": 1.5}", "top_k"},
    {"{\"repeat_penalty\": 0}", "repeat_penalty"},
    {"{\"presence_penalty\": 3}", "presence_penalty"},
    {"{\"frequency_penalty\": -3}", "frequency_penalty"},
    {"{\"stop\": \"\"}", "stop"},
    {"{\"stop\": [1]}", "stop"},
    {"{\"stop\": [\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\","
     "\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\"]}", "stop"},
    {"{\"stop\": \"a\\u0000b\"}", "stop"},
    {"{\"seed\": \"x\"}", "seed"},
    {"{\"seed\": 1.5}", "seed"},
    {"{\"top_k\": -2}", "top_k"},
    {"{\"repeat_last_n\": -1}", "repeat_last_n"},
    {"{\"max_completion_tokens\": -1}", "max_completion_tokens"},
    {"{\"stream_options\": {\"include_usage\": 1}}", "include_usage"},
    {"{\"logit_bias\": []}", "logit_bias"},
    {"{\"logit_bias\": {\"-1\": 1}}", "logit_bias"},
    {"{\"logit_bias\": {\"5x\": 1}}", "logit_bias"},
    {"{\"logit_bias\": {\"5\": \"x\"}}", "logit_bias"},
    {"{\"n\": 0}", "n"},
    {"{\"n\": 9}", "n"},
    {"{\"echo\": 1}", "echo"},
    {"{\"logprobs\": 21}", "logprobs"},
    {"{\"logprobs\": true}", "logprobs"},
    {"{\"stream\": \"yes\"}", "stream"},
    {"{\"stream_options\": 1}", "stream_options"},
    {"{\"logit_bias\": {\"x\": 1}}", "logit_bias"},
    {"{\"logit_bias\": {\"257\": 1}}", "logit_bias"},
    {"{\"logit_bias\": {\"5\": 101}}", "logit_bias"},
};

START_TEST(a_value_that_makes_no_sense_is_refused_by_its_name)
{
    struct server *s = serve();

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_t *j = ask(s, 400, wrong[i].body), *e = json_object_get(j, "error");
        const char *param = json_string_value(json_object_get(e, "param"));

        ck_assert(json_is_string(json_object_get(e, "message")));
        ck_assert_msg(wrong[i].param ? param && !strcmp(param, wrong[i].param) : !param,
                      "%s: %s", wrong[i].body, param ? param : "null");
        json_decref(j);
    }
    json_decref(ask(s, 200, "{\"unknown\": {\"field\": [1]}, \"max_tokens\": 1}"));
    json_decref(ask(s, 200, "{\"prompt\": null, \"stop\": null, \"logit_bias\": null, "
                            "\"seed\": null, \"echo\": null, \"top_k\": -1, "
                            "\"temperature\": null, \"stream_options\": null, "
                            "\"max_tokens\": 1}"));
    serve_stop(s, 5);
}
END_TEST

/* What an address answers to a method that it does not take. */
static void assert_allows(int port, const char *url, const char *methods)
{
    struct got g = client_ask(port, "PUT", url, "", "");
    char       line[64];

    snprintf(line, sizeof line, "Allow: %s", methods);
    ck_assert_int_eq(g.status, 405);
    ck_assert_msg(strstr(g.head, line) != NULL, "%s: %s", url, g.head);
    got_free(&g);
}

START_TEST(strangers_and_strange_requests_are_refused)
{
    struct server *s = serve();
    int            port = serve_port(s);
    char          *deep = malloc(2001), *large = malloc((1 << 20) + 3);
    static const char rebound[] = "GET /served HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    static const char no_host[] = "GET /served HTTP/1.0\r\n\r\n";

    ck_assert_int_eq(status_of(port, "GET", "/nothing", "", ""), 404);
    ck_assert_int_eq(status_of(port, "GET", "/../../etc/passwd", "", ""), 404);
    // one model: any name means it
    ck_assert_int_eq(
        status_of(port, "GET", "/tokenizer_info?model=..%2f..%2fetc", "", ""), 200);
    ck_assert_int_eq(status_of(port, "GET", "/v1/completions", "", ""), 405);
    ck_assert_int_eq(status_of(port, "POST", "/health", as_json_type, "{}"), 405);
    assert_allows(port, "/health", "GET, HEAD");
    assert_allows(port, "/page.js", "GET, HEAD");
    assert_allows(port, "/v1/completions", "POST");
    ck_assert_int_eq(status_of(port, "POST", "/v1/completions", "", "{}"), 415);
    ck_assert_int_eq(status_of(port, "POST", "/v1/completions",
                               "Content-Type: application/jsonx\r\n", "{}"), 415);
    ck_assert_int_eq(raw_status(port, rebound, strlen(rebound)), 403);
    ck_assert_int_eq(raw_status(port, no_host, strlen(no_host)), 403);
    memset(deep, '[', 2000), deep[2000] = 0;
    ck_assert_int_eq(status_of(port, "POST", "/v1/completions", as_json_type, deep), 400);
    memset(large, ' ', (1 << 20) + 2), large[(1 << 20) + 2] = 0;
    ck_assert_int_eq(status_of(port, "POST", "/v1/completions", as_json_type, large),
                     413);
    free(deep);
    free(large);
    serve_stop(s, 5);
}
END_TEST

START_TEST(a_key_opens)
{
    struct serve_options o = options();
    struct server       *s;
    struct why           why;
    char                 file[700];
    int                  port;

    new_run(FAST);
    o.path = run;
    o.host = "0.0.0.0";
    ck_assert_int_eq(serve_start(&s, &o, &why), FAIL_USAGE);
    o.host = "127.0.0.1";
    o.key_file = path_join(file, sizeof file, run, "key");
    ck_assert_int_eq(serve_start(&s, &o, &why), FAIL_INPUT);
    ck_assert_int_eq(file_write(file, "short\n", 6, &why), 0);
    ck_assert_int_eq(serve_start(&s, &o, &why), FAIL_INPUT);
    ck_assert_int_eq(file_write(file, "open sesame\n", 12, &why), 0);
    s = start(&o);
    port = serve_port(s);
    struct got g = client_ask(port, "GET", "/served", "", "");

    ck_assert_int_eq(g.status, 401);
    ck_assert(strstr(g.head, "WWW-Authenticate: Bearer") != NULL &&
              strstr(g.body, "\"authentication_error\"") != NULL);
    got_free(&g);
    ck_assert_int_eq(status_of(port, "GET", "/served",
                               "Authorization: Bearer open sesam\r\n", ""), 401);
    ck_assert_int_eq(status_of(port, "GET", "/served",
                               "Authorization: Bearer open sesame!\r\n", ""), 401);
    ck_assert_int_eq(status_of(port, "GET", "/served",
                               "Authorization: Bearer open sesame\r\n", ""), 200);
    ck_assert_int_eq(status_of(port, "GET", "/served?key=open%20sesame", "", ""), 200);
    ck_assert_int_eq(status_of(port, "GET", "/", "", ""), 200);
    serve_stop(s, 5);
}
END_TEST

/* A good request with some bytes changed, cut out or put in. */
static size_t mutate(char *to, size_t cap, int i)
{
    static const char good[] =
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        "Content-Type: application/json\r\nContent-Length: 75\r\n\r\n"
        "{\"prompt\": \"Hi\", \"max_tokens\": 3, \"stop\": [\"a\"], \"logprobs\": 1, "
        "\"n\": 2    }";
    struct rng r = rng_open(17, RNG_TEST, (uint64_t)i);
    size_t     n = strlen(good);

    memcpy(to, good, n);
    for (int k = 1 + (int)rng_below(&r, 4); k > 0; k--) {
        size_t at = rng_below(&r, n), len = 1 + rng_below(&r, 8);

        len = at + len > n ? n - at : len;
        if (rng_below(&r, 3) == 0) {
            memmove(to + at, to + at + len, n - at - len);
            n -= len;
        } else if (rng_below(&r, 2) && n + len < cap) {
            memmove(to + at + len, to + at, n - at);
            n += len;
        }
        for (size_t b = at; b < at + len && b < n; b++)
            to[b] = (char)rng_below(&r, 256);
    }
    return n;
}

START_TEST(mutated_requests_break_nothing)
{
    struct server *s = serve();
    char           bytes[1024];
    int            answered = 0;

    for (int i = 0; i < 300; i++) {
        int status = raw_status(serve_port(s), bytes, mutate(bytes, sizeof bytes, i));

        answered += status > 0;
        ck_assert_msg(status < 500 || status == 501 || status == 505, "%d: %d", i,
                      status);
    }
    ck_assert_int_gt(answered, 100);
    json_decref(ask(s, 200, "{\"prompt\": \"Hi\", \"max_tokens\": 3}"));
    assert_idle(s);
    serve_stop(s, 5);
}
END_TEST

/* ---- crowds ---- */

static const char long_ask[] =
    "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s";

/* Ask for a text of n tokens. */
static int send_long(const struct server *s, int n, const char *more)
{
    char body[256], bytes[600];
    int  fd = client_connect(serve_port(s));

    snprintf(body, sizeof body, "{\"prompt\": \"Hi\", \"max_tokens\": %d, "
             "\"logit_bias\": {\"256\": -100}%s}", n, more);
    snprintf(bytes, sizeof bytes, long_ask, strlen(body), body);
    client_send(fd, bytes, strlen(bytes));
    return fd;
}

START_TEST(who_leaves_frees_the_slot)
{
    struct server *s = serve_a(SLOW);
    int            fd[6];

    for (int i = 0; i < 6; i++)
        fd[i] = send_long(s, 60000, i % 2 ? ", \"stream\": true" : "");
    wait_for(s, "weft_texts_busy", 6);
    for (int i = 0; i < 6; i++)
        close(fd[i]);
    assert_idle(s);
    ck_assert(metric(s, "weft_texts_left_total") == 6);
    serve_stop(s, 5);
}
END_TEST

/* It was never written, but it is over. */
START_TEST(who_leaves_the_queue_has_ended)
{
    struct serve_options o = options();
    struct server       *s;
    int                  fd[2];

    new_run(SLOW);
    o.path = run;
    o.slots = 1;
    s = start(&o);
    fd[0] = send_long(s, 60000, "");
    wait_for(s, "weft_texts_busy", 1);
    fd[1] = send_long(s, 60000, "");
    wait_for(s, "weft_texts_waiting", 1);
    close(fd[1]);
    wait_for(s, "weft_texts_waiting", 0);
    ck_assert(metric(s, "weft_texts_left_total") == 1);
    ck_assert(metric(s, "weft_texts_total") == 1);
    close(fd[0]);
    assert_idle(s);
    serve_stop(s, 5);
}
END_TEST

/* Read from a stream until it holds the words. */
static void read_until(int fd, char *all, size_t cap, const char *words)
{
    size_t n = strlen(all);

    while (!strstr(all, words)) {
        ssize_t more = recv(fd, all + n, cap - 1 - n, 0);

        ck_assert_msg(more > 0, "no '%s' in '%s'", words, all);
        n += (size_t)more;
        all[n] = 0;
    }
}

/* One text is written, one waits, and a third is turned away. */
START_TEST(who_waits_hears_that_it_lives_and_a_full_queue_says_when_to_come_again)
{
    struct serve_options o = options();
    struct server       *s;
    struct got           g;
    char                 waited[4096] = "";
    int                  fd[2];

    new_run(SLOW);
    o.path = run;
    o.slots = 1, o.most_waiting = 1;
    o.beat = 0.1;
    s = start(&o);
    fd[0] = send_long(s, 60000, "");
    wait_for(s, "weft_texts_busy", 1);
    fd[1] = send_long(s, 3, ", \"stream\": true");
    wait_for(s, "weft_texts_waiting", 1);
    g = client_ask(serve_port(s), "POST", "/v1/completions", as_json_type, "{}");
    ck_assert_int_eq(g.status, 503);
    ck_assert(strstr(g.head, "Retry-After: ") != NULL);
    got_free(&g);
    read_until(fd[1], waited, sizeof waited, ":\n\n");
    ck_assert_msg(!strstr(waited, "data: "), "%s", waited);
    close(fd[0]);
    read_until(fd[1], waited, sizeof waited, "data: [DONE]");
    close(fd[1]);
    assert_idle(s);
    json_decref(ask(s, 200, "{}"));
    serve_stop(s, 5);
}
END_TEST

START_TEST(more_texts_than_may_wait_are_taken_when_nobody_does)
{
    struct serve_options o = options();
    struct server       *s;

    new_run(FAST);
    o.most_waiting = 2;
    s = start(&o);
    json_decref(ask(s, 200, "{\"n\": 8, \"max_tokens\": 2}"));
    serve_stop(s, 5);
}
END_TEST

/* Threads of this process: the fewest within half a second, since connections' end. */
static int count_threads(void)
{
    int fewest = INT_MAX;

    for (int i = 0; i < 100; i++) {
        DIR *d = opendir("/proc/self/task");
        int  n = 0;

        while (readdir(d))
            n++;
        closedir(d);
        fewest = n < fewest ? n : fewest;
        nap(0.005);
    }
    return fewest;
}

/* Threads of this process, and of a server that is started where OpenMP has n. */
static int threads_with(int n)
{
    struct serve_options o = options();
    struct server       *s;
    int                  before = omp_get_max_threads(), count;

    omp_set_num_threads(n);
    s = start(&o);
    json_decref(ask(s, 200, "{\"prompt\": \"Hi\", \"max_tokens\": 2}"));
    count = count_threads();
    serve_stop(s, 5);
    omp_set_num_threads(before);
    return count;
}

START_TEST(a_server_computes_with_the_threads_of_who_starts_it)
{
    int one, four;

    new_run(FAST);
    one = threads_with(1);
    four = threads_with(4);
#ifndef __clang__                       // whose OpenMP has one set of threads for all
    ck_assert_msg(four >= one + 3, "%d threads with 4, %d with 1", four, one);
#else
    (void)one, (void)four;
#endif
}
END_TEST

static void *stop_it(void *user)
{
    serve_stop(user, CLIENT_PATIENCE);
    return NULL;
}

START_TEST(stopping_finishes_what_is_streaming)
{
    struct server *s = serve_a(SLOW);
    int            port = serve_port(s), fd = send_long(s, 600, ", \"stream\": true");
    pthread_t      thread;
    struct got     g;

    wait_for_a_token(s);
    pthread_create(&thread, NULL, stop_it, s);
    g = client_receive(fd);
    pthread_join(thread, NULL);
    ck_assert_int_eq(g.status, 200);
    ck_assert_msg(strstr(g.body, "\"finish_reason\":\"length\"") &&
                  strstr(g.body, "data: [DONE]"), "%.200s", g.body + g.len - 200);
    ck_assert_int_eq(client_connect(port), -1);
    got_free(&g);
    close(fd);
}
END_TEST

/* ---- a run that trains ---- */

/* Does an answer name this model? Its text may hold any word, but no bare quotes. */
static void assert_model(const char *body, const char *label, bool named)
{
    char field[64];

    snprintf(field, sizeof field, "\"model\":\"%s\"", label);
    ck_assert_msg(!strstr(body, field) == !named, "%s: %.300s", field, body);
}

START_TEST(a_newer_checkpoint_is_followed_and_nobody_is_dropped)
{
    struct server  *s = serve_a(SLOW);
    int             fd = send_long(s, 3000, ", \"stream\": true");
    struct patience p = {0};
    char            label[32] = "";
    struct got      g;

    wait_for_a_token(s);
    write_step(9, "mlstm", FAST);
    while (!strstr(label, "@9")) {
        json_t *j = ask(s, 200, "{\"prompt\": \"Hi\", \"max_tokens\": 1}");

        snprintf(label, sizeof label, "%s",
                 json_string_value(json_object_get(j, "model")));
        json_decref(j);
        ck_assert_msg(wait_on(&p), "%s", label);
    }
    g = client_receive(fd);
    ck_assert(strstr(g.body, "data: [DONE]"));
    assert_model(g.body, label, false);
    *strstr(label, "@9") = 0;
    strcat(label, "@7");
    assert_model(g.body, label, true);
    got_free(&g);
    close(fd);
    assert_idle(s);
    serve_stop(s, 5);
}
END_TEST

START_TEST(the_log_is_told_as_it_grows_and_again_when_it_is_cut)
{
    struct server *s = serve();
    int            fd = client_connect(serve_port(s));
    char           all[1 << 14] = "", again[1 << 14] = "";
    static const char get[] = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const char rest[] =
        "GET /events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 1\r\n\r\n";

    client_send(fd, get, strlen(get));
    read_until(fd, all, sizeof all, "id: 1\ndata: {\"step\": 1, \"val_bpb\": 2.5}\n\n");
    ck_assert(strstr(all, "event: served\ndata: {\"kind\":\"run\""));
    write_log("a", "{\"step\": 2, ");
    write_log("a", "\"loss\": 1}\n");
    read_until(fd, all, sizeof all, "id: 2\ndata: {\"step\": 2, \"loss\": 1}\n\n");
    close(fd);
    fd = client_connect(serve_port(s));
    client_send(fd, rest, strlen(rest));
    read_until(fd, again, sizeof again, "id: 2\n");
    ck_assert(!strstr(again, "id: 1\n"));
    write_log("w", "{\"settings\": {}}\n");
    read_until(fd, again, sizeof again, "event: reset\ndata: {}\n\nid: 0\n");
    close(fd);
    serve_stop(s, 5);
}
END_TEST

START_TEST(who_comes_back_with_more_lines_than_the_log_has_begins_again)
{
    static const char *const last[] = {"9", "9223372036854775807"};
    struct server           *s = serve();

    for (int i = 0; i < 2; i++) {
        int         fd = client_connect(serve_port(s));
        char        all[1 << 14] = "", get[128];
        const char *reset;

        snprintf(get, sizeof get, "GET /events HTTP/1.1\r\nHost: localhost\r\n"
                 "Last-Event-ID: %s\r\n\r\n", last[i]);
        client_send(fd, get, strlen(get));
        read_until(fd, all, sizeof all, "id: 1\n");
        reset = strstr(all, "event: reset\n");
        ck_assert_msg(reset && strstr(reset, "id: 0\n"), "%s", all);
        close(fd);
    }
    serve_stop(s, 5);
}
END_TEST

START_TEST(a_validation_is_a_change_of_what_is_served)
{
    struct server *s = serve();
    int            fd = client_connect(serve_port(s));
    char           all[1 << 14] = "";
    static const char get[] = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";

    client_send(fd, get, strlen(get));
    read_until(fd, all, sizeof all, "\"val_bpb\":2.5");      // the log has a blank there
    write_log("a", "{\"step\": 2, \"val_bpb\": 2.25}\n");
    read_until(fd, all, sizeof all, "\"val_bpb\":2.25");
    close(fd);
    serve_stop(s, 5);
}
END_TEST

static void wait_for_refusal(struct server *s, struct why *why)
{
    struct patience p = {0};

    while (!serve_refused(s, why))
        ck_assert_msg(wait_on(&p), "nothing was refused");
}

/* Nobody trains it: there is nothing to wait for. Where somebody does, who asks hears
 * why, until a checkpoint comes that is whole; that one then stays. */
START_TEST(a_damaged_checkpoint_is_told)
{
    struct serve_options o = options();
    struct server       *s;
    struct why           why = {"?"};
    json_t              *j;
    const char          *said;

    new_run(FAST);
    damage(7);
    ck_assert_int_eq(serve_start(&s, &o, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, "model.safetensors") != NULL, "%s", why.line);
    o.training = true;
    ck_assert_msg(!serve_start(&s, &o, &why), "%s", why.line);
    wait_for_refusal(s, &why);
    j = ask(s, 503, "{}");
    said = json_string_value(json_object_get(json_object_get(j, "error"), "message"));
    ck_assert_msg(said && strlen(said) > 20 && !strncmp(said, why.line, strlen(said)),
                  "'%s', not '%s'", said, why.line);
    json_decref(j);
    write_step(9, "gla", FAST);
    wait_until_loaded(s);
    write_checkpoint(11, "gla", FAST);
    damage(11);
    make_latest(11);
    wait_for_refusal(s, &why);
    ck_assert(!serve_refused(s, &why));
    j = ask(s, 200, "{}");
    ck_assert(strstr(json_string_value(json_object_get(j, "model")), "@9") != NULL);
    json_decref(j);
    serve_stop(s, 5);
}
END_TEST

START_TEST(a_run_without_a_checkpoint_is_served_when_it_is_about_to_train)
{
    struct serve_options o = options();
    struct server       *s;
    struct why           why = {"?"};
    char                 config[700];

    snprintf(run, sizeof run, "%s/new", rig_tmp());
    ck_assert_int_eq(dir_make(run, &why), 0);
    ck_assert_int_eq(
        file_write(path_join(config, sizeof config, run, "config.cfg"), "", 0, &why), 0);
    ck_assert_int_eq(serve_start(&s, &o, &why), FAIL_INPUT);
    o.training = true;
    ck_assert_msg(!serve_start(&s, &o, &why), "%s", why.line);
    ck_assert_int_eq(status_of(serve_port(s), "GET", "/health", "", ""), 503);
    json_decref(ask(s, 503, "{}"));
    write_step(1, "gla", FAST);
    wait_until_loaded(s);
    json_decref(ask(s, 200, "{}"));
    serve_stop(s, 5);
}
END_TEST

START_TEST(a_comparison_has_a_model_for_each_architecture)
{
    struct serve_options o = options();
    struct server       *s;
    struct why           why = {"?"};
    static const char *const archs[] = {"gla", "softmax"};
    char                 top[512], path[600];
    json_t              *served;
    const json_t        *models;

    snprintf(top, sizeof top, "%s/compared", rig_tmp());
    for (int i = 0; i < 2; i++) {
        snprintf(run, sizeof run, "%s/%s/seed-%d", top, archs[i], 3 + i);
        ck_assert_int_eq(dir_make(run, &why), 0);
        write_step(5, archs[i], FAST);
    }
    snprintf(path, sizeof path, "%s/gla/seed-2", top);          // has no checkpoint
    ck_assert_int_eq(dir_make(path, &why), 0);
    snprintf(path, sizeof path, "%s/.hidden/seed-1", top);
    ck_assert_int_eq(dir_make(path, &why), 0);
    ck_assert_int_eq(
        file_write(path_join(path, sizeof path, top, "compare.json"), "{}", 2, &why), 0);
    o.path = top;
    s = start(&o);
    served = get(s, "/served");
    ck_assert_str_eq(string_in(served, "kind"), "compare");
    models = json_object_get(served, "models");
    ck_assert_int_eq(json_array_size(models), 2);
    for (int i = 0; i < 2; i++) {
        ck_assert_str_eq(string_in(json_array_get(models, (size_t)i), "id"), archs[i]);
        ck_assert_int_eq(number_in(json_array_get(models, (size_t)i), "seed"), 3 + i);
    }
    json_decref(served);
    json_decref(ask(s, 404, "{\"model\": \"gl\"}"));
    json_decref(ask(s, 404, "{\"model\": \"gla2@5\"}"));
    json_decref(ask(s, 404, "{\"model\": \"mlstm\"}"));
    json_decref(ask(s, 404, "{\"model\": \"../../etc\"}"));
    for (int i = 0; i < 2; i++) {
        struct patience p = {0};
        char            body[64];

        snprintf(body, sizeof body, "{\"model\": \"%s\"}", archs[i]);
        while (status_of(serve_port(s), "POST", "/v1/completions", as_json_type, body) ==
               503)
            ck_assert_msg(wait_on(&p), "%s is not loaded", archs[i]);
        json_t *j = ask(s, 200, body);

        snprintf(body, sizeof body, "%s@5", archs[i]);
        ck_assert_str_eq(json_string_value(json_object_get(j, "model")), body);
        json_decref(j);
        snprintf(body, sizeof body, "{\"model\": \"%s@4\"}", archs[i]);     // the newest
        json_decref(ask(s, 200, body));
    }
    serve_stop(s, 5);
}
END_TEST

START_TEST(a_port_that_is_taken_gives_way_to_the_next)
{
    struct serve_options o = options();
    struct server       *s = serve(), *next;
    struct why           why = {"?"};

    o.path = run;
    o.port = serve_port(s);
    next = start(&o);
    ck_assert_int_gt(serve_port(next), serve_port(s));
    serve_stop(next, 5);
    o.fixed = true;
    ck_assert_int_eq(serve_start(&next, &o, &why), FAIL_WRITE);
    serve_stop(s, 5);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("serve");
    TCase *tc = tcase_create("serve");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, a_text_is_the_one_that_weft_infer_writes);
    tcase_add_test(tc, without_a_prompt_a_text_begins_with_the_opening_of_its_model);
    tcase_add_test(tc, messages_are_joined_by_the_template);
    tcase_add_test(tc, a_prefix_stands_before_a_prompt_and_is_not_told);
    tcase_add_test(tc, offsets_are_of_the_text_that_is_told);
    tcase_add_test(tc, a_stream_is_the_whole_text_in_pieces);
    tcase_add_test(tc, the_texts_of_a_stream_come_side_by_side);
    tcase_add_test(tc, texts_whose_prompt_is_known_begin_in_the_same_step);
    tcase_add_test(tc,
                   sixty_four_requests_in_company_give_the_bytes_that_each_gives_alone);
    tcase_add_test(tc, the_logprobs_of_a_prompt_are_the_nats_of_weft_score);
    tcase_add_test(tc, the_requests_of_lm_eval_are_answered);
    tcase_add_test(tc, the_end_of_a_text_is_a_token_of_the_answer);
    tcase_add_test(tc, a_text_becomes_tokens_and_tokens_a_text);
    tcase_add_test(tc, an_answer_has_the_form_of_openai);
    tcase_add_test(tc, a_streamed_chat_says_once_who_speaks);
    tcase_add_test(tc, the_metrics_count_what_was_done);
    tcase_add_test(tc,
                   every_answer_says_what_it_is_and_what_a_browser_may_do_with_it);
    tcase_add_test(tc, only_this_machines_names_lead_to_it);
    tcase_add_test(tc, what_is_served_is_told);
    tcase_add_test(tc, a_value_that_makes_no_sense_is_refused_by_its_name);
    tcase_add_test(tc, strangers_and_strange_requests_are_refused);
    tcase_add_test(tc, a_key_opens);
    tcase_add_test(tc, mutated_requests_break_nothing);
    tcase_add_test(tc, who_leaves_frees_the_slot);
    tcase_add_test(tc, who_leaves_the_queue_has_ended);
    tcase_add_test(
        tc, who_waits_hears_that_it_lives_and_a_full_queue_says_when_to_come_again);
    tcase_add_test(tc, more_texts_than_may_wait_are_taken_when_nobody_does);
    tcase_add_test(tc, a_server_computes_with_the_threads_of_who_starts_it);
    tcase_add_test(tc, stopping_finishes_what_is_streaming);
    tcase_add_test(tc, a_newer_checkpoint_is_followed_and_nobody_is_dropped);
    tcase_add_test(tc, the_log_is_told_as_it_grows_and_again_when_it_is_cut);
    tcase_add_test(tc, who_comes_back_with_more_lines_than_the_log_has_begins_again);
    tcase_add_test(tc, a_validation_is_a_change_of_what_is_served);
    tcase_add_test(tc, a_damaged_checkpoint_is_told);
    tcase_add_test(tc, a_run_without_a_checkpoint_is_served_when_it_is_about_to_train);
    tcase_add_test(tc, a_comparison_has_a_model_for_each_architecture);
    tcase_add_test(tc, a_port_that_is_taken_gives_way_to_the_next);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
