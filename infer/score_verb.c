/* weft score: how well a run predicts a text or a dataset's validation split. */
#include "data/base/cli.h"
#include "data/base/clock.h"
#include "data/base/format.h"
#include "data/base/json.h"
#include "data/base/live.h"
#include "data/base/utf8.h"
#include "data/base/version.h"
#include "data/dataset.h"
#include "data/inputs.h"
#include "data/text.h"
#include "infer/score.h"
#include "infer/verbs.h"
#include "model/mixer_instruments.h"
#include "model/cores/attention.h"
#include "model/files/checkpoint.h"
#include "tokenizer/text_bytes.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { SCORE_TOKENS = 4096 };       // about as many at once
enum { PIECE_IDS = TEXT_PIECE + sizeof((struct config *)0)->prefix };

static const char help[] =
    "weft score runs/book chapter.txt\n"
    "weft score RUN FILE|DATASET [flags]\n"
    "\n"
    "How well a model predicts a text: nats per token, perplexity, bits per byte of\n"
    "the text with its standard error, and nats by position in the window. The lower,\n"
    "the better. A dataset directory means its validation split. For a model with\n"
    "rela layers also the share of their attention weights that are 0 (sparsity) and\n"
    "of the queries whose weights all are (null rate).\n"
    "\n"
    "  weft score runs/book runs/book/data --json\n"
    "  weft score runs/book@best other.txt\n";

struct scorer {
    struct cli cli;
    bool   per_token, json;
    int    threads;
    const char *field;              // of .jsonl lines, NULL: text
    const char *weights;            // their type, NULL: f32

    struct model      model;
    struct tokenizer *tokenizer;
    struct pass       pass;
    int               B;

    // the tokens: a dataset's, or encoded from text
    bool                is_dataset;
    struct dataset      dataset;
    struct shard_cursor cursor;
    struct text        *text;
    uint32_t           *ids;        // (PIECE_IDS + 1) of the current piece
    char               *joined;     // (PIECE_IDS) the prefix and a document's first piece
    long                n, at;
    bool                inside;     // a document whose beginning was encoded
    uint64_t            before;     // input consumed before that piece
    uint64_t            bytes;      // of the documents read so far

    struct spread spread;           // nats and bytes of each window
    struct zeros  zeros;            // of the layers whose weights can be 0
    uint64_t      scored;
    uint32_t      last;             // the token before the next, at first EOS
    struct text_bytes counted;      // its bytes, up to there
    double        start; // wall seconds
    struct live   live;
};

/* ---- tokens ---- */

/* The ids of a piece that is no document's beginning, or has the prefix before it. */
static void encode_text(struct scorer *s, const struct text_piece *p)
{
    const char *prefix = s->model.cfg.prefix;
    size_t      before = s->inside ? 0 : strlen(prefix);
    char       *text = before ? s->joined : NULL;

    if (text) {
        memcpy(text, prefix, before);
        memcpy(text + before, p->bytes, p->len);
    }
    s->n = tokenizer_encode(s->tokenizer, text ? text : p->bytes, before + p->len, s->ids,
                            PIECE_IDS);
    s->inside = !p->last;
}

/* Encode the next piece of text; at the end nothing changes. */
static enum fail encode_piece(struct scorer *s, struct why *why)
{
    struct text_piece piece;
    enum fail         err;

    s->before = text_consumed(s->text);
    if ((err = text_next(s->text, &piece, why)) || !piece.bytes)
        return err;
    encode_text(s, &piece);
    if (s->n < 0 || s->n > PIECE_IDS)
        return fail(why, FAIL_MEMORY, "no memory to tokenize %zu bytes", piece.len);
    if (piece.last)
        s->ids[s->n++] = (uint32_t)tokenizer_eos(s->tokenizer);
    s->bytes += piece.len;
    s->at = 0;
    return 0;
}

/* score_next over text. */
static enum fail text_tokens(void *user, uint32_t *ids, long n, long *got,
                             struct why *why)
{
    struct scorer *s = user;
    enum fail      err = s->at == s->n ? encode_piece(s, why) : 0;

    if (err)
        return err;
    if (n > s->n - s->at)
        n = s->n - s->at;
    memcpy(ids, s->ids + s->at, (size_t)n * sizeof *ids);
    s->at += n;
    *got = n;
    return 0;
}

static void open_dataset(struct scorer *s, const char *path, struct why *why)
{
    enum fail err = dataset_open(&s->dataset, path, why);

    if (err)
        cli_fail(&s->cli, err, why);
    if (tokenizer_fingerprint(s->dataset.tokenizer) !=
        tokenizer_fingerprint(s->tokenizer))
        cli_die(&s->cli, FAIL_INPUT,
                "%s: tokenized for another model than %s; "
                "score the text it was built from instead", path, s->cli.args[0]);
    s->is_dataset = true;
    s->cursor.shard = &s->dataset.shard[1];
    s->bytes = s->dataset.val.bytes;
}

static void open_input(struct scorer *s, const char *path)
{
    struct why why;

    if (dataset_is(path) && s->field)
        cli_die(&s->cli, FAIL_USAGE, "--field %s: %s is tokenized already; leave it out",
                s->field, path);
    if (dataset_is(path)) {
        open_dataset(s, path, &why);
        return;
    }
    enum fail err = inputs_check(&path, 1, s->field, &why);

    if (!err)
        err = text_open(&s->text, &path, 1, s->field, &why);
    if (err)
        cli_fail(&s->cli, err, &why);
    s->ids = malloc((PIECE_IDS + 1) * sizeof *s->ids);
    s->joined = malloc(PIECE_IDS);
    if (!s->ids || !s->joined)
        cli_die(&s->cli, FAIL_MEMORY, "no memory for the text");
}

/* ---- every window ---- */

/* The share of the input that was scored, 0 when unknown. */
static double share(const struct scorer *s)
{
    if (s->is_dataset)
        return (double)s->scored / (double)s->dataset.val.tokens;
    double before = (double)s->before, total = (double)text_total(s->text);
    double piece = ((double)text_consumed(s->text) - before) * (double)s->at /
                   (double)s->n;

    return total > 0 ? (before + piece) / total : 0;
}

/* From the third second on. */
static void progress(struct scorer *s)
{
    double took = wall_seconds() - s->start, done = share(s);
    char   count[16], left[16];

    if (took < 2 || !live_due(&s->live))
        return;
    format_count(count, sizeof count, (double)s->scored);
    if (done > 0) {
        format_time(left, sizeof left, took * (1 - done) / done);
        live_show(&s->live, "scored %s tokens, %.0f%%, %s left", count, 100 * done, left);
    } else {
        live_show(&s->live, "scored %s tokens", count);
    }
}

static bool all_utf8(const char *text, size_t len)
{
    size_t i = 0;
    int    n;

    while (i < len && (n = utf8_length(text + i, len - i)) > 0)
        i += (size_t)n;
    return i == len;
}

/* {"id":5,"context":2,"at":0,"text":"the","nats":1.25}: the input that the model saw
 * last, and the token's place in its window. A piece that is not whole characters also
 * has "bytes". */
static void print_token(const struct scorer *s, uint32_t id, long at, real nats)
{
    size_t      len;
    const char *piece = tokenizer_piece(s->tokenizer, id, &len);
    json_t     *j = json_pack("{s:I, s:I, s:I, s:o}", "id", (json_int_t)id, "context",
                              (json_int_t)s->last, "at", (json_int_t)at, "text",
                              json_from_bytes(piece, len));

    if (!all_utf8(piece, len)) {
        json_t *bytes = json_array();

        for (size_t i = 0; i < len; i++)
            json_array_append_new(bytes, json_integer((unsigned char)piece[i]));
        json_object_set_new(j, "bytes", bytes);
    }
    json_object_set_new(j, "nats", json_from_double((double)nats));
    json_line(stdout, j, JSON_COMPACT | JSON_REAL_PRECISION(9));
}

/* score_each. */
static void window(void *user, const uint32_t *ids, const real *nats, long n)
{
    struct scorer *s = user;
    double sum = 0, bytes = 0;

    for (long t = 0; t < n; t++) {
        sum += (double)nats[t];
        bytes += (double)text_bytes_next(&s->counted, ids[t]);
        if (s->per_token)
            print_token(s, ids[t], t, nats[t]);
        s->last = ids[t];
    }
    spread_add(&s->spread, sum, bytes);
    s->scored += (uint64_t)n;
    progress(s);
}

/* What pass.watch calls. */
static void watch(void *user, int layer, struct mixer_layer *l)
{
    struct scorer *s = user;

    (void)layer;
    mixer_zeros(l, &s->zeros);
}

/* ---- the result ---- */

struct figures {
    double nats, perplexity, bpb, error;    // error: NaN when there is one window only
};

static struct figures figures(const struct scorer *s, const struct score *r)
{
    double nats = r->nats / (double)r->tokens;

    return (struct figures){
        .nats = nats,
        .perplexity = exp(nats),
        .bpb = r->nats / M_LN2 / (double)s->bytes,
        .error = spread_error(&s->spread) / M_LN2,
    };
}

static void print_json(const struct scorer *s, const struct score *r)
{
    struct figures f = figures(s, r);
    json_t *j = json_pack("{s:o, s:o, s:o, s:I, s:I, s:o}",
                          "nats", json_from_double(f.nats),
                          "perplexity", json_from_double(f.perplexity),
                          "bpb", json_from_double(f.bpb),
                          "tokens", (json_int_t)r->tokens,
                          "bytes", (json_int_t)s->bytes,
                          "stderr", json_from_double(f.error));

    if (s->zeros.pairs > 0) {
        json_object_set_new(j, "sparsity", json_real(s->zeros.zeros / s->zeros.pairs));
        json_object_set_new(j, "null_rate", json_real(s->zeros.nulls / s->zeros.rows));
    }
    json_object_set_new(j, "build", json_string(version_line));
    json_line(stdout, j, JSON_COMPACT | JSON_REAL_PRECISION(9));
}

static void print_table(const struct scorer *s, const struct score *r, FILE *to)
{
    struct figures f = figures(s, r);
    int context = s->model.cfg.context;

    fprintf(to, "nats/token   %.4f\nperplexity   %.2f\nbits/byte    %.4f", f.nats,
            f.perplexity, f.bpb);
    if (isfinite(f.error))
        fprintf(to, " +- %.4f", f.error);
    fprintf(to, "\ntokens       %llu\nbytes        %llu\n", (unsigned long long)r->tokens,
            (unsigned long long)s->bytes);
    if (s->zeros.pairs > 0)
        fprintf(to, "sparsity     %.4f of rela's weights are 0\n"
                "null rate    %.4f of its tokens have no other\n",
                s->zeros.zeros / s->zeros.pairs, s->zeros.nulls / s->zeros.rows);
    fprintf(to, "\n%-12s %10s  nats/token\n", "position", "tokens");
    for (int i = 0; i < SCORE_BUCKETS && r->bucket_tokens[i]; i++) {
        int  from = 1 << i, last = 2 * from - 1 < context ? 2 * from - 1 : context;
        char range[32];

        snprintf(range, sizeof range, last > from ? "%d-%d" : "%d", from, last);
        fprintf(to, "%-12s %10llu  %.4f\n", range,
                (unsigned long long)r->bucket_tokens[i],
                r->bucket_nats[i] / (double)r->bucket_tokens[i]);
    }
}

/* ---- the verb ---- */

static void parse(struct scorer *s, int argc, char **argv)
{
    const struct flag flags[] = {
        {"per-token", 0, NULL, "every token as a JSON line; the rest goes to stderr",
         .on = &s->per_token},
        {"json", 0, NULL, "one JSON line instead of the table", .on = &s->json},
        {"field", 0, "NAME", "what holds the text in .jsonl lines (text)",
         .text = &s->field},
        {"weights", 0, "T", "f32, or rounded on load to bf16 or q8_0 (f32)",
         .text = &s->weights},
        {"threads", 0, "N", "threads (all cores)",
         .number = &s->threads, .min = 1, .max = 1024},
        {0},
    };

    s->cli = (struct cli){.verb = "score", .help = help, .flags = flags};
    cli_parse(&s->cli, argc, argv);
    s->cli.flags = NULL;
    if (s->cli.n_args != 2)
        cli_die(&s->cli, FAIL_USAGE,
                "give a run and a text: weft score RUN FILE|DATASET");
    if (s->threads)
        omp_set_num_threads(s->threads);
}

static void load(struct scorer *s)
{
    struct why why;
    enum fail  err;

    cli_guard_maps(&s->cli);
    err = checkpoint_map(s->cli.args[0], &s->model, &s->tokenizer, NULL, 0, &why);
    if (!err)
        err = model_pack(&s->model, s->weights, &why);
    if (err)
        cli_fail(&s->cli, err, &why);
    s->B = SCORE_TOKENS / s->model.cfg.context;
    s->B = s->B < 1 ? 1 : s->B;
    err = pass_open(&s->pass, &s->model, s->B, s->model.cfg.context, PASS_SCORE,
                    &why);
    if (err)
        cli_fail(&s->cli, err, &why);
    s->pass.watch = watch, s->pass.user = s;
}

static void unload(struct scorer *s)
{
    if (s->is_dataset)
        dataset_close(&s->dataset);
    else
        text_close(s->text);
    free(s->ids);
    free(s->joined);
    pass_close(&s->pass);
    tokenizer_free(s->tokenizer);
    model_close(&s->model);
}

static void run(struct scorer *s, struct score *result)
{
    struct why why;
    int eos = tokenizer_eos(s->tokenizer);

    s->last = (uint32_t)eos;
    s->counted = text_bytes_open(s->tokenizer, s->is_dataset ? s->dataset.prefix
                                                             : s->model.cfg.prefix);
    s->start = wall_seconds();
    s->live = live_open(30);
    enum fail err = score_run(
        &s->model, &s->pass, s->B, eos, s->is_dataset ? shard_cursor_next : text_tokens,
        s->is_dataset ? (void *)&s->cursor : s, 0, window, s, result, &why);

    live_clear(&s->live);
    if (err)
        cli_fail(&s->cli, err, &why);
    if (s->bytes == 0)
        cli_die(&s->cli, FAIL_INPUT, "%s: there is no text in it to score",
                s->cli.args[1]);
}

int score_main(int argc, char **argv)
{
    static struct scorer s;
    struct score result;

    s = (struct scorer){0};
    parse(&s, argc, argv);
    load(&s);
    open_input(&s, s.cli.args[1]);
    run(&s, &result);
    if (s.json)
        print_json(&s, &result);
    else
        print_table(&s, &result, s.per_token ? stderr : stdout);
    if (fflush(stdout))
        cli_die(&s.cli, FAIL_WRITE, "cannot write the result");
    unload(&s);
    return 0;
}
