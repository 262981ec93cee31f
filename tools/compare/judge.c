#include "tools/compare/compare.h"

#include "data/base/clock.h"
#include "data/base/utf8.h"
#include "data/stories/stories.h"
#include "infer/sampler.h"
#include "infer/session.h"
#include "tokenizer/text_bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- validation ---- */

struct tallying {
    struct text_bytes text;
    struct spread     spread;       // nats and bytes of each window
};

static void add_window(void *user, const uint32_t *ids, const real *nats, long n)
{
    struct tallying *y = user;
    double           sum = 0, bytes = 0;

    for (long i = 0; i < n; i++) {
        sum += (double)nats[i];
        bytes += (double)text_bytes_next(&y->text, ids[i]);
    }
    spread_add(&y->spread, sum, bytes);
}

static enum fail validate(struct setup *s, struct trial *t, struct why *why)
{
    struct shard_cursor *cursor = calloc(1, sizeof *cursor);
    struct tallying      y = {text_bytes_open(s->data.tokenizer, s->data.prefix)};
    struct score         score;
    enum fail            err;

    if (!cursor)
        return fail(why, FAIL_MEMORY, "out of memory");
    cursor->shard = &s->data.shard[1];
    err = score_run(&s->trainer.model, &s->trainer.pass, s->trainer.cfg.batch,
                    tokenizer_eos(s->data.tokenizer), shard_cursor_next, cursor,
                    FINAL_TOKENS, add_window, &y, &score, why);
    free(cursor);
    if (err)
        return err;
    t->nats = score.nats / (double)score.tokens;
    t->bpb = y.spread.x / y.spread.y / M_LN2;
    t->error = spread_error(&y.spread) / M_LN2;
    for (int i = 0; i < SCORE_BUCKETS; i++)
        t->bucket[i] = score.bucket_tokens[i]
                           ? score.bucket_nats[i] / (double)score.bucket_tokens[i]
                           : NAN;
    return 0;
}

/* ---- writing ---- */

/* Documents that are being written, S of them in step. */
struct page {
    char   text[STORY_MAX];
    size_t len;
    bool   ended;
};

static void add_piece(struct page *p, const struct tokenizer *k, int32_t token)
{
    size_t      len;
    const char *piece = tokenizer_piece(k, (uint32_t)token, &len);

    if (p->ended || token == tokenizer_eos(k) || p->len + len > sizeof p->text) {
        p->ended = true;
        return;
    }
    if (len)
        memcpy(p->text + p->len, piece, len);
    p->len += len;
}

/* Write S documents of at most n tokens with the sampler's defaults; *speed: steps a
 * second. */
static enum fail write_pages(const struct setup *s, int S, int n, uint64_t seed,
                             struct page *page, double *speed, struct why *why)
{
    const struct tokenizer *k = s->data.tokenizer;
    struct sampler_options  o;
    struct sampler         *sampler[STORIES] = {NULL};
    struct session          session;
    int32_t                 token[STORIES], eos = tokenizer_eos(k);
    int                     vocab = s->trainer.cfg.vocab, left = S, steps = 0;
    enum fail               err = session_open(&session, &s->trainer.model, S, why);
    double                  seconds = 0;

    if (err)
        return err;
    sampler_defaults(&o);
    o.seed = seed;
    for (int i = 0; i < S; i++)
        if (!(sampler[i] = sampler_open(&o, vocab, (uint64_t)i)))
            err = fail(why, FAIL_MEMORY, "out of memory for %d samples", S);
    session_prompt(&session, &eos, 1);
    for (; !err && steps < n && left > 0 && !interrupted; steps++) {
        left = 0;
        for (int i = 0; i < S; i++) {
            token[i] =
                sampler_pick(sampler[i], session.logits + (size_t)i * (size_t)vocab);
            add_piece(&page[i], k, token[i]);
            left += !page[i].ended;
        }
        double start = wall_seconds();

        session_extend(&session, token);
        seconds += wall_seconds() - start;
    }
    *speed = seconds > 0 ? steps / seconds : NAN;
    for (int i = 0; i < S; i++)
        sampler_close(sampler[i]);
    session_close(&session);
    return err;
}

/* The page as UTF-8 of at most cap - 1 bytes: what is none becomes U+FFFD. */
static void keep_text(char *to, size_t cap, const struct page *p)
{
    size_t used = 0, n;

    for (size_t at = 0; at < p->len; at += n) {
        int         len = utf8_length(p->text + at, p->len - at);
        bool        good = len > 0 && p->text[at] != 0;
        const char *from = good ? p->text + at : "\xef\xbf\xbd";

        n = len > 0 ? (size_t)len : 1;
        len = good ? len : 3;
        if (used + (size_t)len + 4 > cap) {
            memcpy(to + used, "\xe2\x80\xa6", 3);
            used += 3;
            break;
        }
        memcpy(to + used, from, (size_t)len);
        used += (size_t)len;
    }
    to[used] = 0;
}

/* The share of documents that are whole stories without a contradiction. */
static double share_of_stories(const struct page *page)
{
    struct story_fault fault;
    double             bits;
    int                good = 0;

    for (int i = 0; i < STORIES; i++)
        good += page[i].ended && story_check(page[i].text, page[i].len, &bits, &fault);
    return good / (double)STORIES;
}

/* Every model writes from the same draws: only the architecture and its seed differ. */
enum fail judge_decode(const struct setup *s, struct trial *t, struct why *why)
{
    struct page *page = calloc(1, sizeof *page);
    double       speed;
    enum fail    err = 0;

    if (!page)
        return fail(why, FAIL_MEMORY, "out of memory for a sample");
    t->decode = t->decode_low = NAN;
    for (int i = 0; i < DECODES && !err && !interrupted; i++) {
        memset(page, 0, sizeof *page);
        err = write_pages(s, 1, 200, t->seed, page, &speed, why);
        t->decode = fmax(t->decode, speed);
        t->decode_low = fmin(t->decode_low, speed);
    }
    keep_text(t->sample, sizeof t->sample, page);
    free(page);
    return err;
}

static enum fail write_stories(const struct setup *s, struct trial *t, struct why *why)
{
    struct page *page;
    double       speed;
    enum fail    err;

    t->stories = NAN;
    if (s->data.floor_bpb <= 0 || t->share < 1)
        return FAIL_NONE;
    page = calloc(STORIES, sizeof *page);
    if (!page)
        return fail(why, FAIL_MEMORY, "out of memory for samples");
    err = write_pages(s, STORIES, 1000, t->seed, page, &speed, why);
    t->stories = share_of_stories(page);
    free(page);
    return err;
}

enum fail judge(struct setup *s, struct trial *t, struct why *why)
{
    const struct tally *y = &s->trainer.tally;
    enum fail           err = validate(s, t, why);

    if (!err)
        err = judge_decode(s, t, why);
    if (!err)
        err = write_stories(s, t, why);
    if (!err && interrupted)
        err = FAIL_INTERRUPTED;
    t->tokens = (double)y->tokens;
    t->flops = y->flops;
    t->steps = (double)y->step;
    if (!err && !isfinite(t->bpb))
        err = fail(why, FAIL_DIVERGED, "diverged: its validation loss is not finite");
    return err;
}
