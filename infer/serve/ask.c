#include "infer/serve/ask.h"

#include "data/base/memory.h"
#include "infer/prompt.h"

#include <stdlib.h>
#include <string.h>

/* ---- ids ---- */

static bool is_eos(const char *text, size_t len)
{
    return len == 4 && !memcmp(text, "</s>", 4);
}

int32_t *ask_ids(const struct tokenizer *t, const char *text, size_t len, long *n)
{
    return is_eos(text, len)
               ? (int32_t *)prompt_encode(t, "", tokenizer_eos(t), "", 0, n)
               : (int32_t *)prompt_encode(t, "", -1, text, len, n);
}

bool ask_id_list(const json_t *list, const char *param, int vocab, int32_t **ids, long *n,
                 struct refusal *why)
{
    size_t  i, count = json_array_size(list);
    json_t *id;

    *ids = count <= ASK_TOKENS ? malloc((count + 1) * sizeof **ids) : NULL;
    *n = (long)count;
    if (count > ASK_TOKENS)
        return refuse(why, 400, param, "%s has more than %d tokens", param, ASK_TOKENS);
    if (!*ids)
        return refuse(why, 503, NULL, "not enough memory");
    json_array_foreach(list, i, id) {
        json_int_t v = json_is_integer(id) ? json_integer_value(id) : -1;

        if (v < 0 || v >= vocab)
            return refuse(why, 400, param, "%s: a token id is a whole number below %d",
                          param, vocab);
        (*ids)[i] = (int32_t)v;
    }
    return true;
}

/* ---- prompts ---- */

/* The ids of a prompt that is a text. */
static int32_t *text_ids(const struct ask_model *m, const char *text, size_t len, long *n)
{
    const struct tokenizer *t = m->tokenizer;
    uint32_t               *ids;

    if (len == 0)
        return (int32_t *)prompt_open(t, m->opening, n);
    if (!is_eos(text, len))
        return (int32_t *)prompt_encode(t, m->prefix, tokenizer_eos(t), text, len, n);
    ids = malloc(2 * sizeof *ids);
    if (ids)
        ids[0] = ids[1] = (uint32_t)tokenizer_eos(t);
    *n = 2;
    return (int32_t *)ids;
}

static bool add_text(struct ask *a, const char *text, size_t len,
                     const struct ask_model *m, struct refusal *why)
{
    struct ask_prompt *p = &a->prompt[a->n_prompt++];

    p->ids = text_ids(m, text, len, &p->n);
    p->opens = len == 0 && *m->opening;
    p->hidden = !p->opens;
    p->prefix = len && !is_eos(text, len) ? strlen(m->prefix) : 0;
    if (p->opens)
        text = m->opening, len = strlen(text);
    p->text = malloc(len + 1);
    if (!p->ids || !p->text)
        return refuse(why, 503, NULL, "not enough memory");
    if (p->n > ASK_TOKENS)
        return refuse(why, 400, a->chat ? "messages" : "prompt",
                      "the prompt has more than %d tokens", ASK_TOKENS);
    memcpy(p->text, text, len);
    p->len = len;
    return true;
}

static bool add_ids(struct ask *a, const json_t *list, const struct tokenizer *t,
                    struct refusal *why)
{
    struct ask_prompt *p = &a->prompt[a->n_prompt++];

    if (!ask_id_list(list, "prompt", tokenizer_vocab(t), &p->ids, &p->n, why))
        return false;
    if (p->n == 0)
        return refuse(why, 400, "prompt", "a prompt of token ids needs at least one");
    p->len = tokenizer_decode(t, (uint32_t *)p->ids, (size_t)p->n, NULL, 0);
    p->text = malloc(p->len + 1);
    if (!p->text)
        return refuse(why, 503, NULL, "not enough memory");
    tokenizer_decode(t, (uint32_t *)p->ids, (size_t)p->n, p->text, p->len);
    return true;
}

static bool add_prompt(struct ask *a, const json_t *j, const struct ask_model *m,
                       struct refusal *why)
{
    if (json_is_string(j))
        return add_text(a, json_string_value(j), json_string_length(j), m, why);
    if (json_is_array(j))
        return add_ids(a, j, m->tokenizer, why);
    return refuse(why, 400, "prompt",
                  "prompt must be a string, a list of strings, a list of token ids, or a "
                  "list of such lists");
}

static bool take_prompts(struct ask *a, const struct ask_model *m, struct refusal *why)
{
    const json_t *p = json_object_get(a->body, "prompt"), *first = json_array_get(p, 0);
    bool          several = first && !json_is_integer(first);
    size_t        n = several ? json_array_size(p) : 1;

    if (n > ASK_PROMPTS)
        return refuse(why, 400, "prompt", "at most %d prompts at once", ASK_PROMPTS);
    a->prompt = calloc(n, sizeof *a->prompt);
    if (!a->prompt)
        return refuse(why, 503, NULL, "not enough memory");
    if (!p || json_is_null(p))
        return add_text(a, "", 0, m, why);
    for (size_t i = 0; i < n; i++)
        if (!add_prompt(a, several ? json_array_get(p, i) : p, m, why))
            return false;
    return true;
}

/* ---- chats ---- */

/* The text of a message: a string, or a list of parts {"type": "text", "text": ...}. */
static bool put_content(FILE *f, const json_t *content, struct refusal *why)
{
    size_t  i;
    json_t *part;

    if (json_is_string(content)) {
        fwrite(json_string_value(content), 1, json_string_length(content), f);
        return true;
    }
    if (!json_is_array(content))
        return refuse(why, 400, "messages", "a message's content must be a string");
    json_array_foreach(content, i, part) {
        const json_t *text = json_object_get(part, "text");

        if (!json_is_string(text))
            return refuse(why, 400, "messages",
                          "only content of type text is understood");
        fwrite(json_string_value(text), 1, json_string_length(text), f);
    }
    return true;
}

static bool put_message(FILE *f, const json_t *message, const char *template,
                        struct refusal *why)
{
    const char *role = json_string_value(json_object_get(message, "role"));

    if (!role)
        return refuse(why, 400, "messages", "each message needs a role and a content");
    while (*template) {
        if (!strncmp(template, "{role}", 6)) {
            fputs(role, f);
            template += 6;
        } else if (!strncmp(template, "{content}", 9)) {
            if (!put_content(f, json_object_get(message, "content"), why))
                return false;
            template += 9;
        } else {
            fputc(*template++, f);
        }
    }
    return true;
}

static bool take_messages(struct ask *a, const char *template, const struct ask_model *m,
                          struct refusal *why)
{
    const json_t *list = json_object_get(a->body, "messages");
    char         *text = NULL;
    size_t        len = 0, i;
    FILE         *f = memory_stream(&text, &len);
    json_t       *message;
    bool          ok = json_array_size(list) > 0;

    if (!ok)
        refuse(why, 400, "messages", "messages must be a list of at least one message");
    a->prompt = calloc(1, sizeof *a->prompt);
    if (!f || !a->prompt)
        ok = refuse(why, 503, NULL, "not enough memory");
    json_array_foreach(list, i, message)
        ok = ok && put_message(f, message, template, why);
    if (f && fclose(f))
        ok = refuse(why, 503, NULL, "not enough memory");
    ok = ok && add_text(a, text, len, m, why);
    free(text);
    return ok;
}

/* ---- the other fields ---- */

/* logprobs: a number for completions; for chats a switch, and top_logprobs the number. */
static bool take_logprobs(struct ask *a, struct refusal *why)
{
    long top = -1;
    bool on = false;

    if (!a->chat) {
        if (!asked_whole(a->body, "logprobs", 0, ASK_TOP, &top, why))
            return false;
    } else {
        if (!asked_switch(a->body, "logprobs", &on, why) ||
            !asked_whole(a->body, "top_logprobs", 0, ASK_TOP, &top, why))
            return false;
        top = !on ? -1 : top < 0 ? 0 : top;
    }
    a->top = (int)top;
    return true;
}

static bool take_stream(struct ask *a, struct refusal *why)
{
    const json_t *o = json_object_get(a->body, "stream_options");

    if (!asked_switch(a->body, "stream", &a->stream, why))
        return false;
    if (!o || json_is_null(o))
        return true;
    if (!json_is_object(o))
        return refuse(why, 400, "stream_options", "stream_options must be an object");
    return asked_switch(o, "include_usage", &a->usage, why);
}

/* What all texts together may take: a token, and what is told of it. */
static bool check_size(const struct ask *a, struct refusal *why)
{
    double tokens = 0;

    for (int i = 0; i < a->n_prompt; i++)
        tokens += (double)(a->max_tokens + (a->echo ? a->prompt[i].n : 0)) * a->samples;
    if (a->n_prompt * a->samples > ASK_TEXTS)
        return refuse(why, 400, "n", "at most %d texts at once", ASK_TEXTS);
    if (tokens * (1 + (a->top > 0 ? a->top : 0)) > ASK_FIGURES)
        return refuse(why, 400, "max_tokens",
                      "too much at once: %.0f tokens in all%s", tokens,
                      a->top > 0 ? ", and logprobs of each" : "");
    return true;
}

bool ask_read(struct ask *a, json_t *body, bool chat, const char *template,
              const struct ask_model *m, struct refusal *why)
{
    struct sampler_options *o = &a->asked.sampler;
    long                    samples = 1;

    *a = (struct ask){.body = body, .chat = chat, .max_tokens = chat ? 256 : 16};
    sampler_defaults(o);
    o->temp = o->top_p = 1;             // OpenAI's: the model's own distribution
    o->top_k = 0, o->min_p = 0;
    if (!asked_whole(body, "max_tokens", 0, ASK_TOKENS, &a->max_tokens, why) ||
        !asked_whole(body, "max_completion_tokens", 0, ASK_TOKENS, &a->max_tokens, why) ||
        !asked_whole(body, "n", 1, ASK_SAMPLES, &samples, why) ||
        (!chat && !asked_switch(body, "echo", &a->echo, why)) || !take_logprobs(a, why) ||
        !take_stream(a, why) || !asked_stops(&a->asked, body, why) ||
        !asked_sampler(&a->asked, body, tokenizer_vocab(m->tokenizer), why))
        return false;
    a->samples = (int)samples;
    return (chat ? take_messages(a, template, m, why) : take_prompts(a, m, why)) &&
           check_size(a, why);
}

void ask_close(struct ask *a)
{
    for (int i = 0; i < a->n_prompt; i++) {
        free(a->prompt[i].ids);
        free(a->prompt[i].text);
    }
    free(a->prompt);
    asked_close(&a->asked);
    json_decref(a->body);
    *a = (struct ask){0};
}
