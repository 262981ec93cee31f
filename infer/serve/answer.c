#include "infer/serve/answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* How far a text has been told. */
struct reading {
    size_t text;            // bytes of what was picked
    long   tokens;
    long   chars;           // characters of these tokens
    bool   begun, ended;
};

/* Some of a text: what an answer is made of. */
struct piece {
    const struct tokenizer *tokenizer;
    const char             *before;     // the prompt, where it is told
    size_t                  n_before;
    char                   *text;
    size_t                  len;
    struct job_token       *token;      // (n)
    struct likely          *likely;     // (n, top)
    long                    n, chars;   // chars: before the first of these tokens
    long                    hidden;     // of all tokens' characters the first, not told
    int                     top;
    bool                    ended, stopped, first;
};

/* ---- opening and closing ---- */

static bool open_job(struct answer *a, int i, struct engine *e)
{
    const struct ask        *q = &a->ask;
    const struct ask_prompt *p = &q->prompt[i / q->samples];
    struct job_ask           j = {
        .prompt = p->ids,
        .n_prompt = p->n,
        .hidden = p->hidden,
        .max_tokens = q->max_tokens,
        .sampler = q->asked.sampler,
        .stream = (uint64_t)(i % q->samples),
        .stop = q->asked.stop,
        .n_stop = q->asked.n_stop,
        .nats = q->top >= 0,
        .score = q->top >= 0 && q->echo,
        .top = q->top > e->model.cfg.vocab ? e->model.cfg.vocab : q->top < 0 ? 0 : q->top,
    };

    a->job[i] = job_open(e, &a->line, &j);
    if (a->job[i] && q->stream)
        a->job[i]->read = 0;
    return a->job[i] != NULL;
}

bool answer_open(struct answer *a, struct ask *ask, struct engine *e)
{
    uint64_t id = 0;
    bool     ok;

    *a = (struct answer){.ask = *ask, .created = (long)time(NULL)};
    *ask = (struct ask){0};
    a->n = a->ask.n_prompt * a->ask.samples;
    pthread_mutex_init(&a->line.lock, NULL);
    pthread_cond_init(&a->line.news, NULL);
    if (getrandom(&id, sizeof id, GRND_NONBLOCK) < 0)
        id = (uint64_t)(uintptr_t)a;
    snprintf(a->id, sizeof a->id, "%s-%016llx", a->ask.chat ? "chatcmpl" : "cmpl",
             (unsigned long long)id);
    a->job = calloc((size_t)a->n, sizeof *a->job);
    a->reading = calloc((size_t)a->n, sizeof *a->reading);
    ok = a->job && a->reading;
    for (int i = 0; i < a->n && ok; i++)
        ok = open_job(a, i, e);
    return ok;
}

void answer_close(struct answer *a)
{
    for (int i = 0; a->job && i < a->n; i++)
        if (a->job[i])
            job_close(a->job[i]);
    free(a->job);
    free(a->reading);
    pthread_cond_destroy(&a->line.news);
    pthread_mutex_destroy(&a->line.lock);
    ask_close(&a->ask);
}

bool answer_failed(const struct answer *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->job[i]->failed)
            return true;
    return false;
}

/* ---- logprobs ---- */

static json_t *logprob(real nats)
{
    return json_from_double(0.0 - (double)nats);
}

static json_t *token_text(const struct tokenizer *t, int32_t id)
{
    size_t      len;
    const char *piece = tokenizer_piece(t, (uint32_t)id, &len);

    return id == tokenizer_eos(t) ? json_string("</s>") : json_from_bytes(piece, len);
}

/* Characters that begin in these bytes. */
static long count_chars(const char *bytes, size_t len)
{
    long n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    return n;
}

static long chars_of(const struct tokenizer *t, int32_t id)
{
    size_t      len;
    const char *piece = tokenizer_piece(t, (uint32_t)id, &len);

    return count_chars(piece, len);
}

/* {"the": -0.5, ...}: the likeliest, and always the token itself, from the same number
 * as beside it. Of tokens that look alike the likelier is told. */
static json_t *top_json(const struct piece *p, long i)
{
    json_t              *j = json_object();
    const struct likely *top = p->likely + i * p->top;

    for (int k = 0; k <= p->top; k++) {
        bool        own = k == p->top;
        int32_t     id = own ? p->token[i].id : top[k].id;
        json_t     *text = token_text(p->tokenizer, id);
        const char *key = json_string_value(text);

        if (key && strlen(key) == json_string_length(text) && !json_object_get(j, key))
            json_object_set_new(j, key, logprob(own ? p->token[i].nats : top[k].nats));
        json_decref(text);
    }
    return j;
}

static json_t *top_ids(const struct piece *p, long i)
{
    json_t *j = json_array();

    for (int k = 0; k < p->top; k++)
        json_array_append_new(j, json_integer(p->likely[i * p->top + k].id));
    return j;
}

static json_t *top_texts(const struct piece *p, long i)
{
    json_t *j = json_array();

    for (int k = 0; k < p->top; k++)
        json_array_append_new(j,
                              token_text(p->tokenizer, p->likely[i * p->top + k].id));
    return j;
}

static json_t *top_values(const struct piece *p, long i)
{
    json_t *j = json_array();

    for (int k = 0; k < p->top; k++)
        json_array_append_new(j, logprob(p->likely[i * p->top + k].nats));
    return j;
}

static json_t *logprobs_json(const struct piece *p)
{
    json_t *tokens = json_array(), *values = json_array(), *top = json_array(),
           *offsets = json_array(), *ids = json_array(), *lists = json_array(),
           *texts = json_array(), *numbers = json_array();
    long    chars = p->chars;

    for (long i = 0; i < p->n; i++) {
        bool none = isnan((double)p->token[i].nats);

        json_array_append_new(tokens, token_text(p->tokenizer, p->token[i].id));
        json_array_append_new(ids, json_integer(p->token[i].id));
        json_array_append_new(values, logprob(p->token[i].nats));
        json_array_append_new(top, none ? json_null() : top_json(p, i));
        json_array_append_new(lists, none ? json_null() : top_ids(p, i));
        json_array_append_new(texts, none ? json_null() : top_texts(p, i));
        json_array_append_new(numbers, none ? json_null() : top_values(p, i));
        json_array_append_new(offsets,
                              json_integer(chars > p->hidden ? chars - p->hidden : 0));
        chars += chars_of(p->tokenizer, p->token[i].id);
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "tokens", tokens,
                     "token_logprobs", values, "top_logprobs", top, "text_offset",
                     offsets, "token_ids", ids, "top_ids", lists, "top_tokens", texts,
                     "top_values", numbers);
}

static json_t *bytes_json(const struct tokenizer *t, int32_t id)
{
    json_t     *j = json_array();
    size_t      len;
    const char *piece = tokenizer_piece(t, (uint32_t)id, &len);

    for (size_t i = 0; i < len; i++)
        json_array_append_new(j, json_integer((unsigned char)piece[i]));
    return j;
}

static json_t *chat_token(const struct piece *p, int32_t id, real nats)
{
    return json_pack("{s:o, s:o, s:o}", "token", token_text(p->tokenizer, id), "logprob",
                     logprob(nats), "bytes", bytes_json(p->tokenizer, id));
}

static json_t *chat_logprobs(const struct piece *p)
{
    json_t *content = json_array();

    for (long i = 0; i < p->n; i++) {
        json_t *one = chat_token(p, p->token[i].id, p->token[i].nats);
        json_t *top = json_array();

        for (int k = 0; k < p->top; k++)
            json_array_append_new(top, chat_token(p, p->likely[i * p->top + k].id,
                                                  p->likely[i * p->top + k].nats));
        json_object_set_new(one, "top_logprobs", top);
        json_array_append_new(content, one);
    }
    return json_pack("{s:o}", "content", content);
}

/* ---- choices ---- */

/* What is echoed and what was picked, as one string. */
static json_t *text_json(const struct piece *p)
{
    size_t  len = p->n_before + p->len;
    char   *all = malloc(len + 1);
    json_t *j;

    if (!all)
        return NULL;
    if (p->n_before)
        memcpy(all, p->before, p->n_before);
    if (p->len)
        memcpy(all + p->n_before, p->text, p->len);
    j = json_from_bytes(all, len);
    free(all);
    return j;
}

static json_t *finish_json(const struct piece *p)
{
    return !p->ended ? json_null() : json_string(p->stopped ? "stop" : "length");
}

static json_t *choice(const struct answer *a, int i, const struct piece *p)
{
    json_t *text = text_json(p), *said, *logprobs = json_null();

    if (a->ask.top >= 0)
        logprobs = a->ask.chat ? chat_logprobs(p) : logprobs_json(p);
    if (!a->ask.chat)
        return json_pack("{s:i, s:o, s:o, s:o}", "index", i, "text", text, "logprobs",
                         logprobs, "finish_reason", finish_json(p));
    said = json_pack("{s:o}", "content", text);
    if (p->first)
        json_object_set_new(said, "role", json_string("assistant"));
    return json_pack("{s:i, s:o, s:o, s:o}", "index", i,
                     a->ask.stream ? "delta" : "message", said, "logprobs", logprobs,
                     "finish_reason", finish_json(p));
}

static json_t *envelope(const struct answer *a, json_t *choices)
{
    const char *object = !a->ask.chat     ? "text_completion"
                         : a->ask.stream ? "chat.completion.chunk"
                                         : "chat.completion";
    const char *label = a->job[0]->engine->label;

    return json_pack("{s:s, s:s, s:I, s:o, s:o}", "id", a->id, "object", object,
                     "created", (json_int_t)a->created, "model",
                     json_from_bytes(label, strlen(label)), "choices", choices);
}

static json_t *usage_json(const struct answer *a)
{
    long prompt = 0, picked = 0;

    for (int i = 0; i < a->ask.n_prompt; i++)
        prompt += a->ask.prompt[i].n - a->ask.prompt[i].hidden;
    for (int i = 0; i < a->n; i++)
        picked += a->job[i]->n - a->job[i]->n_prompt;
    return json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)prompt,
                     "completion_tokens", (json_int_t)picked, "total_tokens",
                     (json_int_t)prompt + picked);
}

/* ---- what is told ---- */

static bool is_told(const struct answer *a, const struct ask_prompt *q)
{
    return a->ask.echo || q->opens;
}

/* Characters of the prompt, where it is told and its tokens are not. */
static long chars_before(const struct answer *a, const struct ask_prompt *q,
                         const struct tokenizer *t)
{
    long chars = 0;

    for (long i = 0; i < q->n && q->opens && !a->ask.echo; i++)
        chars += chars_of(t, q->ids[i]);
    return chars;
}

/* Characters of the model's prefix that the tokens begin with and no text has: a told
 * prompt's, or those that the model wrote itself. Under lock. */
static long chars_hidden(const struct job *j, const struct ask_prompt *q)
{
    size_t bytes = j->ask.score && q->prefix ? q->prefix : j->skipped;

    return count_chars(j->engine->model.cfg.prefix, bytes);
}

/* ---- whole ---- */

json_t *answer_whole(const struct answer *a)
{
    json_t *choices = json_array(), *j;

    for (int i = 0; i < a->n; i++) {
        const struct job        *job = a->job[i];
        const struct ask_prompt *q = &a->ask.prompt[i / a->ask.samples];
        struct piece             p = {
            .tokenizer = job->engine->tokenizer,
            .before = q->text,
            .n_before = is_told(a, q) ? q->len : 0,
            .text = job->text,
            .len = job->len,
            .token = job->token,
            .likely = job->likely,
            .n = job->n,
            .chars = chars_before(a, q, job->engine->tokenizer),
            .hidden = chars_hidden(job, q),
            .top = job->ask.top,
            .ended = true,
            .stopped = job->stopped,
            .first = true,
        };

        json_array_append_new(choices, choice(a, i, &p));
    }
    j = envelope(a, choices);
    json_object_set_new(j, "usage", usage_json(a));
    return j;
}

/* ---- piece by piece ---- */

/* Under lock: has text i something that was not told? */
static bool has_news(const struct answer *a, int i)
{
    const struct job     *j = a->job[i];
    const struct reading *r = &a->reading[i];

    return !r->ended && (j->state == JOB_DONE || j->len > r->text ||
                         (a->ask.top >= 0 && j->n > r->tokens));
}

bool answer_news(const struct answer *a)
{
    for (int i = 0; i < a->n; i++)
        if (has_news(a, i))
            return true;
    return false;
}

/* Under lock: copy what text i has that was not told; false: nothing. */
static bool copy_news(const struct answer *a, int i, struct piece *p)
{
    struct job     *j = a->job[i];
    struct reading *r = &a->reading[i];
    size_t          k = (size_t)j->ask.top, n = (size_t)(j->n - r->tokens);
    size_t          len = j->len - r->text;

    if (!has_news(a, i))
        return false;
    p->text = malloc(len + 1);
    p->token = malloc((n + 1) * sizeof *p->token);
    p->likely = malloc((n * k + 1) * sizeof *p->likely);
    if (!p->text || !p->token || !p->likely)
        return true;
    memcpy(p->text, j->text + r->text, len);
    if (n)
        memcpy(p->token, j->token + r->tokens, n * sizeof *p->token);
    if (n && k)
        memcpy(p->likely, j->likely + (size_t)r->tokens * k, n * k * sizeof *p->likely);
    p->len = len;
    p->n = (long)n;
    p->hidden = chars_hidden(j, &a->ask.prompt[i / a->ask.samples]);
    p->ended = j->state == JOB_DONE;
    p->stopped = j->stopped;
    j->read = j->n;
    return true;
}

/* What is new of text i is told, now. */
static json_t *tell(struct answer *a, int i, struct piece *p)
{
    const struct ask_prompt *q = &a->ask.prompt[i / a->ask.samples];
    struct reading          *r = &a->reading[i];
    json_t                  *j = NULL, *choices = json_array();

    p->tokenizer = a->job[i]->engine->tokenizer;
    p->top = a->job[i]->ask.top;
    p->first = !r->begun;
    p->before = q->text;
    p->n_before = is_told(a, q) && !r->begun ? q->len : 0;
    p->chars = chars_before(a, q, p->tokenizer) + r->chars;
    if (p->text && p->token && p->likely) {
        json_array_append_new(choices, choice(a, i, p));
        j = envelope(a, choices);
    } else {
        json_decref(choices);
    }
    for (long k = 0; k < p->n; k++)
        r->chars += chars_of(p->tokenizer, p->token[k].id);
    r->text += p->len;
    r->tokens += p->n;
    r->begun = true;
    r->ended = p->ended;
    return j;
}

bool answer_piece(struct answer *a, int i, json_t **piece)
{
    struct piece p = {0};
    bool        news = false;

    pthread_mutex_lock(&a->line.lock);
    news = copy_news(a, i, &p);
    pthread_mutex_unlock(&a->line.lock);
    if (news)
        *piece = tell(a, i, &p);
    free(p.text);
    free(p.token);
    free(p.likely);
    return news;
}

bool answer_told(const struct answer *a)
{
    for (int i = 0; i < a->n; i++)
        if (!a->reading[i].ended)
            return false;
    return true;
}

json_t *answer_usage(const struct answer *a)
{
    json_t *j = envelope(a, json_array());

    json_object_set_new(j, "usage", usage_json(a));
    return j;
}
