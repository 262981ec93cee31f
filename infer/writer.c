#include "infer/writer.h"

#include "data/base/clock.h"
#include "data/base/memory.h"
#include "infer/prompt.h"
#include "infer/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct text_out {
    struct sampler *sampler;
    struct stream  *stream;
    FILE           *file;           // o.out, or memory when there are several
    char           *bytes;          // that memory
    size_t          len;
    bool            done;
};

/* ---- opening and closing ---- */

static bool text_out_open(struct writer *w, int k)
{
    struct text_out *t = &w->text[k];
    int eos = tokenizer_eos(w->tokenizer);

    t->file = w->o.K > 1 ? memory_stream(&t->bytes, &t->len) : w->o.out;
    t->sampler = sampler_open(&w->o.sampler, tokenizer_vocab(w->tokenizer), (uint64_t)k);
    if (!t->file || !t->sampler)
        return false;
    t->stream = stream_open(t->file, w->o.terminal, w->o.stop, w->o.n_stop);
    if (t->stream)
        stream_wrap(t->stream, w->o.columns);
    sampler_ban(t->sampler, w->o.ignore_eos ? eos : -1);
    w->next[k] = eos;
    return t->stream != NULL;
}

enum fail writer_open(struct writer *w, const struct model *m, const struct tokenizer *t,
                      const struct writer_options *o, struct why *why)
{
    *w = (struct writer){.o = *o, .model = m, .tokenizer = t};
    w->text = calloc((size_t)o->K, sizeof *w->text);
    w->next = calloc((size_t)o->K, sizeof *w->next);
    enum fail err = session_open(&w->session, m, o->K, why);

    for (int k = 0; k < o->K && !err; k++)
        if (!w->text || !w->next || !text_out_open(w, k))
            err = fail(why, FAIL_MEMORY, "no memory for %d texts; ask for fewer", o->K);
    if (err)
        writer_close(w);
    return err;
}

static void drop_turn(struct turn *t)
{
    sampler_close(t->sampler);
    free(t->state);
}

void writer_close(struct writer *w)
{
    for (int i = 0; i < w->turns; i++)
        drop_turn(&w->turn[i]);
    for (int k = 0; w->text && k < w->o.K; k++) {
        stream_close(w->text[k].stream);
        sampler_close(w->text[k].sampler);
        if (w->o.K > 1 && w->text[k].file)
            fclose(w->text[k].file);
        free(w->text[k].bytes);
    }
    free(w->text);
    free(w->next);
    session_close(&w->session);
    *w = (struct writer){0};
}

/* ---- the prompt ---- */

/* A text in memory may have found none, too. */
static void check_output(struct writer *w, FILE *f)
{
    if (ferror(f) && !w->error)
        w->error = errno ? errno : EIO;
}

void writer_echo(struct writer *w, const char *bytes, size_t len)
{
    for (int k = 0; k < w->o.K; k++) {
        stream_echo(w->text[k].stream, bytes, len);
        check_output(w, w->text[k].file);
    }
}

enum fail writer_feed(struct writer *w, const char *bytes, size_t len, struct why *why)
{
    const char *prefix = w->model->cfg.prefix, *opening = w->model->cfg.opening;
    double      start = wall_seconds();
    int32_t     first = w->next[0];
    bool        empty = first == tokenizer_eos(w->tokenizer) && !len;
    bool        opens = empty && *opening;
    long        n;
    uint32_t   *ids = empty ? prompt_open(w->tokenizer, opening, &n)
                            : prompt_encode(w->tokenizer, prefix, first, bytes, len, &n);

    if (!ids)
        return fail(why, FAIL_MEMORY, "no memory for a prompt of %zu bytes", len);
    if (opens)
        writer_echo(w, opening, strlen(opening));
    for (long i = first >= 0 && !opens; i < n; i++)
        for (int k = 0; k < w->o.K; k++)
            sampler_accept(w->text[k].sampler, (int32_t)ids[i]);
    session_prompt(&w->session, (const int32_t *)ids, n);
    for (int k = 0; k < w->o.K; k++)
        stream_skip(w->text[k].stream, empty && !opens ? prefix : "");
    w->next[0] = -1;
    w->prompt_tokens += n;
    w->prompt_seconds += wall_seconds() - start;
    free(ids);
    return 0;
}

/* ---- writing ---- */

static void end_text(struct writer *w, struct text_out *t)
{
    stream_end(t->stream);
    if (!stream_at_line_start(t->stream))
        stream_echo(t->stream, "\n", 1);
    t->done = true;
    check_output(w, t->file);
}

/* Several texts: put out those whose turn it is. */
static void print_ready(struct writer *w)
{
    for (; w->printed < w->o.K && w->text[w->printed].done; w->printed++) {
        const struct text_out *t = &w->text[w->printed];

        if (ferror(t->file))
            return;
        fprintf(w->o.out, "--- sample %d of %d ---\n", w->printed + 1, w->o.K);
        fwrite(t->bytes, 1, t->len, w->o.out);
        fflush(w->o.out);
        check_output(w, w->o.out);
    }
}

/* Choose the next token of text k from its logits; false when the text ends with it. */
static bool pick(struct writer *w, int k)
{
    const real *logits = w->session.logits + (size_t)k * (size_t)w->model->cfg.vocab;
    size_t      len;

    w->next[k] = sampler_pick(w->text[k].sampler, logits);
    w->tokens++;
    if (w->next[k] == tokenizer_eos(w->tokenizer) && !w->o.ignore_eos)
        return false;
    const char *piece = tokenizer_piece(w->tokenizer, (uint32_t)w->next[k], &len);
    bool        stopped = stream_push(w->text[k].stream, piece, len);

    check_output(w, w->text[k].file);
    return !stopped;
}

/* One token of every text that goes on; an ended one is fed EOS. Returns
 * how many go on. */
static int pick_all(struct writer *w)
{
    int left = 0;

    for (int k = 0; k < w->o.K; k++) {
        if (w->text[k].done)
            w->next[k] = tokenizer_eos(w->tokenizer);
        else if (pick(w, k))
            left++;
        else
            end_text(w, &w->text[k]);
    }
    if (w->o.K > 1)
        print_ready(w);
    return left;
}

/* After i of n tokens: a tenth ends here, or the last one begins. */
static void time_tenths(struct writer *w, int i, double start, double *last)
{
    const int n = w->o.n, tenth = n / 10;

    if (i == tenth)
        w->first = (struct tenth){wall_seconds() - start, memory_held()};
    if (i == n - tenth)
        *last = wall_seconds();
    if (i == n)
        w->last = (struct tenth){wall_seconds() - *last, memory_held()};
}

void writer_run(struct writer *w)
{
    double start = wall_seconds(), last = start;

    w->first = w->last = (struct tenth){0};
    for (int k = 0; k < w->o.K; k++)
        w->text[k].done = false;
    for (int i = 0; (w->o.n < 0 || i < w->o.n) && !interrupted && !w->error; i++) {
        if (i)                  // the first is chosen from the prompt's logits
            session_extend(&w->session, w->next);
        if (pick_all(w) == 0)
            break;
        time_tenths(w, i + 1, start, &last);
    }
    w->seconds += wall_seconds() - start;
    for (int k = 0; k < w->o.K; k++)
        if (!w->text[k].done)
            end_text(w, &w->text[k]);
    if (w->o.K > 1)
        print_ready(w);
}

/* ---- turns ---- */

enum fail writer_mark(struct writer *w, struct why *why)
{
    struct turn t = {.sampler = sampler_copy(w->text[0].sampler),
                     .state = malloc(w->session.state_bytes), .next = w->next[0]};

    if (!t.sampler || !t.state) {
        drop_turn(&t);
        return fail(why, FAIL_MEMORY, "no memory to remember where the text stands");
    }
    session_get(&w->session, 0, t.state, &t.pos);
    if (w->turns == WRITER_TURNS) {
        drop_turn(&w->turn[0]);
        memmove(w->turn, w->turn + 1, --w->turns * sizeof *w->turn);
    }
    w->turn[w->turns++] = t;
    return 0;
}

bool writer_undo(struct writer *w)
{
    struct turn *t;

    if (w->turns == 0)
        return false;
    t = &w->turn[--w->turns];
    session_set(&w->session, 0, t->state, t->pos);
    sampler_restore(w->text[0].sampler, t->sampler);
    w->next[0] = t->next;
    drop_turn(t);
    return true;
}

void writer_temp(struct writer *w, double temp)
{
    sampler_temp(w->text[0].sampler, temp);
}

void writer_seed(struct writer *w, uint64_t seed)
{
    sampler_seed(w->text[0].sampler, seed);
}
