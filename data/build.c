/* dataset_build reads the text twice.
 *
 *     reading     count it; keep an even sample for the tokenizer
 *     training    the tokenizer, on the part of the sample that is not validation
 *     encoding    every document into one of the shards; one document may be cut in two
 *                 the order-2 model learns from training, is measured on validation;
 *                 lines of validation that stand in training are counted
 *     measuring   zstd -19 of the validation text
 *
 * What it has come to is recorded in UNFINISHED when the tokenizer is there, and between
 * two pieces of text after each file of a shard that is finished.
 */
#include "data/base/clock.h"
#include "data/base/file.h"
#include "data/base/utf8.h"
#include "data/base/version.h"
#include "data/corpus_sample.h"
#include "data/dataset.h"
#include "data/encode.h"
#include "data/inputs.h"
#include "data/overlap.h"
#include "data/spool.h"
#include "data/text.h"
#include "data/yardstick.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define UNFINISHED "unfinished"

enum { TRAIN, VAL };

enum { NEAR = 1 << 16 };        // how far the start of validation may move to a newline

struct build {
    const struct dataset_options *o;
    const char    *dir;                 // where it is built
    char           spool[PATH_MAX];     // stdin, kept in it
    const char   **inputs;              // o->inputs, with the spool for stdin
    struct dataset d;                   // what dataset.json will say

    struct sample sample;
    size_t        fed;                  // slices of the sample the trainer has taken
    uint64_t      nuls;                 // bytes that are zero
    uint64_t      id;                   // see identify
    uint64_t      shard;                // tokens in a file

    struct shard_writer *to[2];
    struct encoder      *encoder;
    struct order2        order2;
    struct yardstick     val;
    struct overlap       overlap;

    uint64_t pos, total;                // bytes of text: so far, in all
    uint64_t target, cut;               // where validation should begin, where it does
    int      split;                     // of the next byte
    bool     open;                      // some of this document is in that split

    bool     encoding;                  // it has begun:
    int      stream;                    // in this one (see n_streams),
    bool     midway;                    // whose first bytes are encoded already,
    struct text_place place;            // up to here
    bool     val_begun;                 // validation text of its own
    uint64_t invalid;                   // bytes that were not UTF-8 before it
    int      recorded;                  // files that were finished at the last record,
    double   stands;                    // and the share of the text then
};

static void tell(const struct build *b, const char *phase, double done)
{
    if (b->o->progress)
        b->o->progress(b->o->user, phase, done < 1 ? done : 1);
}

static enum fail stopped(const struct build *b)
{
    return b->o->stop && *b->o->stop ? FAIL_INTERRUPTED : 0;
}

static enum fail too_short(const struct build *b, const char *what, struct why *why)
{
    return fail(why, FAIL_INPUT, "%s: %s; a dataset needs text for training and for "
                "validation, some thousand bytes at least", b->o->inputs[0], what);
}

static enum fail no_memory(struct why *why)
{
    return fail(why, FAIL_MEMORY, "out of memory for building a dataset");
}

/* ---- what it has come to ---- */

static const char *const shard_files[] = {"train.tok.zst", "val.tok.zst"};

/* In which order the text is encoded: the inputs as one, or each by itself where they are
 * mixed; then validation text of its own. */
static int n_streams(const struct build *b)
{
    return (b->d.n_mix ? b->d.n_mix : 1) + (b->o->val != NULL);
}

static void hash_text(XXH3_state_t *h, const char *text)
{
    XXH3_64bits_update(h, text ? text : "", strlen(text ? text : "") + 1);
}

/* The files behind these paths: names, sizes and times. */
static enum fail hash_inputs(XXH3_state_t *h, const char *const *paths, int n,
                             struct why *why)
{
    struct inputs in;
    enum fail     err = inputs_list(&in, paths, n, why);

    for (size_t i = 0; !err && i < in.n; i++) {
        struct stat st = {0};
        int64_t     of[3];

        (void)stat(in.file[i].path, &st);
        of[0] = st.st_size;
        of[1] = st.st_mtim.tv_sec;
        of[2] = st.st_mtim.tv_nsec;
        hash_text(h, in.file[i].path);
        XXH3_64bits_update(h, of, sizeof of);
    }
    if (!err)
        inputs_free(&in);
    return err;
}

/* What decides the bytes of the dataset: the program, the options, the files. */
static enum fail identify(struct build *b, struct why *why)
{
    const struct dataset_options *o = b->o;
    XXH3_state_t                 *h = XXH3_createState();
    double    of[] = {o->vocab, o->val_fraction, (double)o->shard, o->n_inputs};
    uint64_t  given = o->given ? tokenizer_fingerprint(o->given) : 0;
    enum fail err;

    if (!h)
        return no_memory(why);
    XXH3_64bits_reset(h);
    hash_text(h, version_line);
    hash_text(h, o->tokenizer);
    hash_text(h, o->field);
    hash_text(h, o->prefix);
    XXH3_64bits_update(h, of, sizeof of);
    XXH3_64bits_update(h, &given, sizeof given);
    if (o->weights)
        XXH3_64bits_update(h, o->weights, (size_t)o->n_inputs * sizeof *o->weights);
    err = hash_inputs(h, o->inputs, o->n_inputs, why);
    if (!err && o->val)
        err = hash_inputs(h, &o->val, 1, why);
    b->id = XXH3_64bits_digest(h);
    XXH3_freeState(h);
    return err;
}

/* The variables of the encoding. */
static void walk_encoding(struct build *b, struct record *r)
{
    char       path[PATH_MAX];
    struct why why;
    enum fail  err;

    record_bytes(r, &b->stream, sizeof b->stream);
    record_bytes(r, &b->place, sizeof b->place);
    record_bytes(r, &b->val_begun, sizeof b->val_begun);
    record_bytes(r, &b->invalid, sizeof b->invalid);
    record_bytes(r, &b->pos, sizeof b->pos);
    record_bytes(r, &b->cut, sizeof b->cut);
    record_bytes(r, &b->split, sizeof b->split);
    record_bytes(r, &b->open, sizeof b->open);
    record_bytes(r, &b->d.train, sizeof b->d.train);
    record_bytes(r, &b->d.val, sizeof b->d.val);
    for (int i = 0; i < b->d.n_mix; i++)
        record_bytes(r, &b->d.mix[i].tokens, sizeof b->d.mix[i].tokens);
    order2_record(&b->order2, r);
    yardstick_record(&b->val, r);
    overlap_record(&b->overlap, r);
    for (int i = TRAIN; i <= VAL && !record_failed(r); i++) {
        path_join(path, sizeof path, b->dir, shard_files[i]);
        b->to[i] = shard_record(r, b->to[i], path);
    }
    if (!record_failed(r) && !b->encoder &&
        (err = encoder_open(&b->encoder, b->d.tokenizer, b->d.prefix, b->to, &why)))
        record_fail(r, err, &why);
    if (!record_failed(r))
        encoder_record(b->encoder, r);
    if (b->stream < 0 || b->stream >= n_streams(b) || b->split < TRAIN || b->split > VAL)
        record_refuse(r);
}

/* All of them: this walk saves them, or restores them. */
static void walk(struct build *b, struct record *r)
{
    uint64_t id = b->id;

    record_bytes(r, &id, sizeof id);
    if (id != b->id)
        record_refuse(r);
    record_bytes(r, &b->total, sizeof b->total);
    record_bytes(r, &b->target, sizeof b->target);
    record_bytes(r, &b->nuls, sizeof b->nuls);
    record_bytes(r, &b->d.invalid, sizeof b->d.invalid);
    record_bytes(r, &b->encoding, sizeof b->encoding);
    if (b->encoding && !record_failed(r))
        walk_encoding(b, r);
}

static enum fail save(struct build *b, struct why *why)
{
    char           path[PATH_MAX];
    struct record *r;
    enum fail      err = record_open(&r, path_join(path, sizeof path, b->dir, UNFINISHED),
                                     true, why);

    if (err)
        return err;
    walk(b, r);
    return record_close(r, why);
}

/* Files of the shards that are whole. */
static int finished(const struct build *b)
{
    return shard_finished(b->to[TRAIN]) + shard_finished(b->to[VAL]);
}

/* How much of the text is encoded; that of val comes on top of total. */
static double share(const struct build *b)
{
    return fmin((double)b->pos / (double)b->total, 1);
}

/* Between two pieces of t: record what stands, when a file was finished since. Stdin
 * cannot be read again. */
static enum fail record_progress(struct build *b, const struct text *t, struct why *why)
{
    enum fail err;

    if (!b->encoding || b->spool[0] || finished(b) == b->recorded ||
        !text_tell(t, &b->place))
        return 0;
    if ((err = encoder_flush(b->encoder, why)))
        return err;
    b->recorded = finished(b);
    b->stands = share(b);
    return save(b, why);
}

/* ---- reading ---- */

static enum fail take_inputs(struct build *b, struct why *why)
{
    enum fail err;

    b->inputs = calloc((size_t)b->o->n_inputs + 1, sizeof *b->inputs);
    if (!b->inputs)
        return no_memory(why);
    for (int i = 0; i < b->o->n_inputs; i++) {
        b->inputs[i] = b->o->inputs[i];
        if (strcmp(b->inputs[i], "-"))
            continue;
        if (!b->spool[0]) {
            tell(b, "reading", 0);
            path_join(b->spool, sizeof b->spool, b->dir, "-");
            if ((err = spool_stdin(b->spool, b->o->stop, why)))
                return err;
        }
        b->inputs[i] = b->spool;
    }
    return 0;
}

/* Run every piece of the text of n paths through `take`. */
static enum fail each_piece(struct build *b, const char *const *paths, int n,
                            const char *phase,
                            enum fail (*take)(struct build *b, const struct text_piece *p,
                                              struct why *why),
                            struct why *why)
{
    struct text      *t;
    struct text_piece p;
    uint64_t          told = b->pos;
    enum fail         err = text_open(&t, paths, n, b->o->field, why);

    if (err)
        return err;
    if (b->midway)
        err = text_seek(t, &b->place, why);
    b->midway = false;
    tell(b, phase, b->total ? (double)b->pos / (double)b->total : 0);
    while (!err && !(err = text_next(t, &p, why)) && p.bytes &&
           !(err = take(b, &p, why)) && !(err = stopped(b))) {
        b->pos += p.len;
        err = record_progress(b, t, why);
        if (b->pos - told >= TEXT_PIECE) {
            double all = b->total ? (double)b->total : (double)text_total(t);
            double done = b->total ? (double)b->pos : (double)text_consumed(t);

            told = b->pos;
            tell(b, phase, all > 0 ? done / all : 0);
        }
    }
    text_close(t);
    return err;
}

static enum fail count_piece(struct build *b, const struct text_piece *p, struct why *why)
{
    b->d.invalid += text_invalid(p->bytes, p->len);
    for (size_t i = 0; i < p->len; i++)
        b->nuls += !p->bytes[i];
    for (size_t at = 0, n; at < p->len; at += n) {
        n = text_slice(p->bytes + at, p->len - at, SAMPLE_STRETCH);
        if (sample_add(&b->sample, b->pos + at, p->bytes + at, n))
            return no_memory(why);
    }
    return 0;
}

/* FAIL_INPUT when `bad` of the bytes make this no text, unless it is to be read as
 * bytes. */
static enum fail check_text(const struct build *b, const char *name, bool others,
                            uint64_t bad, uint64_t bytes, struct why *why)
{
    double percent = 100 * (double)bad / (double)bytes;

    if (percent <= 10 || !strcmp(b->o->tokenizer, "bytes"))
        return 0;
    return fail(why, FAIL_INPUT,
                "%s%s: looks binary (%.0f %% of its bytes are not text); "
                "give text, or take tokenizer=bytes", strcmp(name, "-") ? name : "stdin",
                others ? " and the other inputs" : "", percent);
}

static enum fail read_text(struct build *b, struct why *why)
{
    enum fail err;

    if ((err = each_piece(b, b->inputs, b->o->n_inputs, "reading", count_piece, why)))
        return err;
    b->total = b->pos;
    b->pos = 0;
    if (b->total < 2)
        return too_short(b, b->total ? "one byte of text" : "no text", why);
    if ((err = check_text(b, b->o->inputs[0], b->o->n_inputs > 1, b->d.invalid + b->nuls,
                          b->total, why)))
        return err;

    uint64_t val = (uint64_t)((double)b->total * b->o->val_fraction);

    b->target = b->o->val ? b->total : b->total - (val ? val : 1);
    return 0;
}

/* ---- the tokenizer ---- */

static const char *next_slice(void *user, size_t *len)
{
    struct build        *b = user;
    struct sample_slice *s = b->sample.slice + b->fed;

    if (b->fed == b->sample.n)
        return NULL;
    b->fed++;
    *len = s->len;
    return b->sample.text + s->at;
}

int dataset_vocab(uint64_t bytes)
{
    double bits = round(log2(2.2 * sqrt((double)bytes + 1)));

    return 1 << (int)fmin(fmax(bits, 9), 13);
}

/* FAIL_USAGE unless it is 0 or a vocabulary that the kind of tokenizer can have. */
static enum fail check_vocab(const struct dataset_options *o, struct why *why)
{
    bool bytes = !strcmp(o->tokenizer, "bytes");
    int  least = bytes ? 257 : TOKENIZER_VOCAB_MIN,
         most = bytes ? 257 : TOKENIZER_VOCAB_MAX;

    if (!o->vocab || (o->vocab >= least && o->vocab <= most))
        return 0;
    if (bytes)
        return fail(why, FAIL_USAGE,
                    "vocab=%d: the byte tokenizer has 257 ids; leave vocab out",
                    o->vocab);
    return fail(why, FAIL_USAGE,
                "vocab=%d: out of range; it goes from %d to %d, "
                "0 for what suits the text", o->vocab, least, most);
}

/* Train; when the vocabulary was chosen here and is too large for the text,
 * take what fits. */
static enum fail train_model(struct build *b, void **model, size_t *len, struct why *why)
{
    int       vocab = b->o->vocab ? b->o->vocab : dataset_vocab(b->target), fits;
    enum fail err = 0;

    for (int tries = 0; tries < 3; tries++, vocab = fits) {
        b->fed = 0;
        err = tokenizer_train(b->o->tokenizer, vocab, next_slice, b, b->o->lock_fd, model,
                              len, &fits, why);
        if (!fits || b->o->vocab)
            break;
    }
    return err;
}

/* The model that was given, or a trained one; malloc'ed. */
static enum fail take_model(struct build *b, void **model, size_t *len, struct why *why)
{
    const void *given = b->o->given ? tokenizer_model(b->o->given, len) : NULL;

    if (given) {
        *model = malloc(*len);
        if (!*model)
            return no_memory(why);
        memcpy(*model, given, *len);
        return 0;
    }
    if (strcmp(b->o->tokenizer, "bytes"))
        tell(b, "training the tokenizer", 0);
    sample_cut(&b->sample, b->target);
    return train_model(b, model, len, why);
}

static enum fail make_tokenizer(struct build *b, struct why *why)
{
    char   path[PATH_MAX];
    void  *model;
    size_t len;
    enum fail err;

    if ((err = take_model(b, &model, &len, why)))
        return err;
    sample_free(&b->sample);
    path_join(path, sizeof path, b->dir, "tokenizer.model");
    err = file_write(path, model, len, why);
    if (!err)
        err = tokenizer_load(&b->d.tokenizer, model, len, why);
    if (!err)
        b->d.vocab = tokenizer_vocab(b->d.tokenizer);
    free(model);
    return err;
}

/* ---- encoding ---- */

/* Where in this piece, which holds the target, validation begins: at its end when a
 * document ends near, else after a newline when one is near, else before a character. */
static uint64_t choose_cut(const struct build *b, const struct text_piece *p)
{
    uint64_t    room = (b->total - b->target) / 2, near = room < NEAR ? room : NEAR;
    size_t      at = (size_t)(b->target - b->pos), left = p->len - at;
    const char *newline = memchr(p->bytes + at, '\n', left < near ? left : near);

    if (at == 0)
        return b->target;
    if (p->last && left <= near)
        return b->pos + p->len;
    if (newline)
        return b->pos + (uint64_t)(newline - p->bytes) + 1;
    return b->pos + utf8_floor(p->bytes, at);
}

static struct split *split_of(struct build *b)
{
    return b->split == TRAIN ? &b->d.train : &b->d.val;
}

static void measure_text(struct build *b, const char *bytes, size_t len,
                         bool document_ends)
{
    if (b->split == TRAIN) {
        order2_learn(&b->order2, bytes, len, document_ends);
        overlap_learn(&b->overlap, bytes, len, document_ends);
    } else {
        order2_measure(&b->order2, bytes, len, document_ends);
        yardstick_add(&b->val, bytes, len, document_ends);
        overlap_count(&b->overlap, bytes, len, document_ends);
    }
}

static enum fail put_text(struct build *b, const char *bytes, size_t len, struct why *why)
{
    split_of(b)->bytes += len;
    b->open |= len > 0;
    measure_text(b, bytes, len, false);
    return encoder_text(b->encoder, b->split, bytes, len, why);
}

static enum fail put_end(struct build *b, struct why *why)
{
    split_of(b)->documents++;
    b->open = false;
    measure_text(b, "", 0, true);
    return encoder_eos(b->encoder, b->split, why);
}

static enum fail encode_piece(struct build *b, const struct text_piece *p,
                              struct why *why)
{
    size_t head = 0;
    enum fail err;

    if (b->target >= b->pos && b->target - b->pos < p->len)
        b->cut = choose_cut(b, p);
    if (b->split == TRAIN && b->pos + p->len > b->cut) {
        head = (size_t)(b->cut - b->pos);
        if ((err = put_text(b, p->bytes, head, why)) ||
            (b->open && (err = put_end(b, why))))
            return err;
        b->split = VAL;
    }
    if ((err = put_text(b, p->bytes + head, p->len - head, why)))
        return err;
    return p->last ? put_end(b, why) : 0;
}

/* ---- validation text of its own ---- */

static enum fail encode_val_piece(struct build *b, const struct text_piece *p,
                                  struct why *why)
{
    b->d.invalid += text_invalid(p->bytes, p->len);
    for (size_t i = 0; i < p->len; i++)
        b->nuls += !p->bytes[i];
    return encode_piece(b, p, why);
}

static enum fail encode_val(struct build *b, struct why *why)
{
    enum fail err;

    if (!b->val_begun) {
        b->val_begun = true;
        b->invalid = b->d.invalid;
        b->split = VAL;
        b->target = UINT64_MAX;
        b->nuls = 0;
    }
    err = each_piece(b, &b->o->val, 1, "encoding", encode_val_piece, why);
    if (!err)
        err = check_text(b, b->o->val, false, b->d.invalid - b->invalid + b->nuls,
                         b->d.val.bytes, why);
    return err;
}

/* ---- weights ---- */

/* Do weights differ? */
static bool mixed(const struct dataset_options *o)
{
    for (int i = 1; o->weights && i < o->n_inputs; i++)
        if (o->weights[i] != o->weights[0])
            return true;
    return false;
}

/* The last component of a path, cut to cap bytes, with '?' for what is not UTF-8. */
static void name_input(char *name, size_t cap, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t      n = 0, len;

    if (slash && slash[1])
        path = slash + 1;
    for (; *path; path += len) {
        int whole = utf8_length(path, strlen(path));

        len = whole > 0 ? (size_t)whole : 1;
        if (n + len + 1 > cap)
            break;
        memcpy(name + n, whole > 0 ? path : "?", len);
        n += len;
    }
    name[n] = 0;
}

static enum fail open_mix(struct build *b, struct why *why)
{
    double least = INFINITY;

    if (b->o->n_inputs > DATASET_MIX)
        return fail(why, FAIL_USAGE, "%d inputs of different weight; at most %d can be "
                    "mixed, but one may be a directory", b->o->n_inputs, DATASET_MIX);
    b->d.n_mix = b->o->n_inputs;
    b->d.mix = calloc((size_t)b->d.n_mix, sizeof *b->d.mix);
    if (!b->d.mix)
        return no_memory(why);
    for (int i = 0; i < b->d.n_mix; i++)
        least = fmin(least, b->o->weights[i]);
    for (int i = 0; i < b->d.n_mix; i++) {
        name_input(b->d.mix[i].name, sizeof b->d.mix[i].name, b->o->inputs[i]);
        b->d.mix[i].weight = b->o->weights[i] / least;
    }
    return 0;
}

/* One of the inputs of a mix, and a mark after it. */
static enum fail encode_one(struct build *b, int i, struct why *why)
{
    enum fail err = each_piece(b, &b->inputs[i], 1, "encoding", encode_piece, why);

    return err ? err : encoder_mark(b->encoder, &b->d.mix[i].tokens, why);
}

/* From marks to lengths. */
static enum fail close_mix(struct build *b, struct why *why)
{
    for (int i = b->d.n_mix - 1; i >= 0; i--) {
        b->d.mix[i].tokens -= i ? b->d.mix[i - 1].tokens : 0;
        if (b->d.mix[i].tokens == 0)
            return fail(why, FAIL_INPUT,
                        "%s: all of it is in the validation split, the end of the text; "
                        "name it before the others, or give --val FILE",
                        b->o->inputs[i]);
    }
    return 0;
}

static enum fail encode_stream(struct build *b, struct why *why)
{
    bool      last = b->stream == n_streams(b) - 1;
    enum fail err;

    if (b->o->val && last)
        return encode_val(b, why);
    err = b->d.n_mix ? encode_one(b, b->stream, why)
                     : each_piece(b, b->inputs, b->o->n_inputs, "encoding", encode_piece,
                                  why);
    if (!err && b->stream == n_streams(b) - 1 - (b->o->val != NULL) && b->pos != b->total)
        err = fail(why, FAIL_INPUT, "%s: the text changed while it was read; try again",
                   b->o->inputs[0]);
    return err;
}

static enum fail encode_inputs(struct build *b, struct why *why)
{
    enum fail err = 0;

    for (; !err && b->stream < n_streams(b); b->stream++)
        err = encode_stream(b, why);
    return err;
}

static enum fail finish_shard(struct shard_writer **w, uint64_t *n, struct why *why)
{
    enum fail err = *w ? shard_finish(*w, n, why) : 0;

    *w = NULL;
    return err;
}

static enum fail begin_encoding(struct build *b, struct why *why)
{
    char      path[PATH_MAX];
    int       width = b->d.vocab > 1 << 16 ? 4 : 2;
    enum fail err;

    b->cut = UINT64_MAX;
    for (int i = TRAIN; i <= VAL; i++) {
        path_join(path, sizeof path, b->dir, shard_files[i]);
        if ((err = shard_create(&b->to[i], path, width, why)))
            return err;
        shard_limit(b->to[i], b->shard);
    }
    b->encoding = true;
    return encoder_open(&b->encoder, b->d.tokenizer, b->d.prefix, b->to, why);
}

static int files_of(const struct build *b, uint64_t tokens)
{
    return tokens ? (int)((tokens + b->shard - 1) / b->shard) : 1;
}

static enum fail encode_text(struct build *b, struct why *why)
{
    enum fail err = b->encoding ? 0 : begin_encoding(b, why);

    if (err)
        return err;
    if ((err = encode_inputs(b, why)) || (err = encoder_flush(b->encoder, why)) ||
        (err = finish_shard(&b->to[TRAIN], &b->d.train.tokens, why)) ||
        (err = finish_shard(&b->to[VAL], &b->d.val.tokens, why)))
        return err;
    b->d.train.files = files_of(b, b->d.train.tokens);
    b->d.val.files = files_of(b, b->d.val.tokens);
    if (!b->d.train.bytes || !b->d.val.bytes)
        return too_short(b, "one character of text", why);
    return close_mix(b, why);
}

/* ---- the whole ---- */

static void tell_measuring(void *user, double done)
{
    tell(user, "measuring", done);
}

static enum fail measure(struct build *b, struct why *why)
{
    b->d.order2_bpb = order2_bits(&b->order2);
    b->d.val_lines = b->overlap.lines;
    b->d.val_seen = b->overlap.seen;
    b->d.floor_bpb = yardstick_floor(&b->val);
    b->d.zstd_bpb = yardstick_zstd(&b->val, tell_measuring, b);
    return b->d.zstd_bpb < 0 ? no_memory(why) : stopped(b);
}

static enum fail run(struct build *b, bool restored, struct why *why)
{
    enum fail err = take_inputs(b, why);

    if (!err && !restored && !(err = read_text(b, why)))
        err = make_tokenizer(b, why);
    if (!err && !restored && !b->spool[0])
        err = save(b, why);
    if (err || (err = encode_text(b, why)) || (err = measure(b, why)))
        return err;
    if (b->spool[0])
        unlink(b->spool);
    return dataset_describe(&b->d, b->dir, why);
}

/* ---- beginning and ending ---- */

static void release(struct build *b)
{
    if (!b)
        return;
    shard_drop(b->to[TRAIN]);
    shard_drop(b->to[VAL]);
    encoder_close(b->encoder);
    yardstick_close(&b->val);
    order2_close(&b->order2);
    overlap_close(&b->overlap);
    sample_free(&b->sample);
    tokenizer_free(b->d.tokenizer);
    free(b->d.mix);
    free(b->inputs);
    free(b);
}

/* In this directory; NULL where it cannot be. */
static struct build *start(const struct dataset_options *o, const char *dir,
                           enum fail *err, struct why *why)
{
    struct build *b = calloc(1, sizeof *b);
    uint64_t      shard = o->shard ? o->shard : DATASET_SHARD;

    *err = no_memory(why);
    if (!b)
        return NULL;
    b->o = o;
    b->dir = dir;
    b->shard = (shard + SHARD_FRAME - 1) / SHARD_FRAME * SHARD_FRAME;
    if (o->val)
        name_input(b->d.val_file, sizeof b->d.val_file, o->val);
    snprintf(b->d.prefix, sizeof b->d.prefix, "%s", o->prefix ? o->prefix : "");
    if (yardstick_open(&b->val) && order2_open(&b->order2) &&
        overlap_open(&b->overlap) &&
        !(*err = identify(b, why)) && !(*err = mixed(o) ? open_mix(b, why) : 0))
        return b;
    release(b);
    return NULL;
}

/* The tokenizer that is in dir. */
static enum fail load_tokenizer(struct build *b, struct why *why)
{
    char      path[PATH_MAX], *model;
    size_t    len;
    enum fail err = file_read(path_join(path, sizeof path, b->dir, "tokenizer.model"),
                              DATASET_MODEL, &model, &len, why);

    if (err)
        return err;
    err = tokenizer_load(&b->d.tokenizer, model, len, why);
    if (!err)
        b->d.vocab = tokenizer_vocab(b->d.tokenizer);
    free(model);
    return err;
}

/* Go on with what another call left; false: there is nothing of use, nor is b, or, with
 * FAIL_MEMORY in err, it could not be read now. */
static bool restore(struct build *b, enum fail *err, struct why *why)
{
    char           path[PATH_MAX];
    struct record *r;

    for (int i = 0; i < b->o->n_inputs; i++)
        if (!strcmp(b->o->inputs[i], "-"))
            return false;
    path_join(path, sizeof path, b->dir, UNFINISHED);
    if ((*err = load_tokenizer(b, why)) || (*err = record_open(&r, path, false, why)))
        return false;
    walk(b, r);
    if ((*err = record_close(r, why)))
        return false;
    b->midway = b->encoding;
    if (b->encoding)
        b->recorded = finished(b);
    b->stands = b->encoding ? share(b) : 0;
    return true;
}

/* A call that could not even begin leaves what an earlier one has come to. The mark is
 * empty until there is something. */
static enum fail leave_alone(struct dir *whole, enum fail err)
{
    char        path[PATH_MAX];
    struct stat st;

    if (!stat(path_join(path, sizeof path, whole->tmp, UNFINISHED), &st) && st.st_size)
        dir_leave(whole);
    else
        dir_abort(whole);
    return err;
}

/* What is left of a call that failed: worth keeping when the same one may succeed. */
static void keep_or_remove(const struct build *b, struct dir *whole, enum fail err)
{
    bool again = err == FAIL_INTERRUPTED || err == FAIL_WRITE || err == FAIL_MEMORY;

    if (again && b && b->stands > 0)
        dir_leave(whole);
    else
        dir_abort(whole);
}

static void tell_stands(const struct build *b)
{
    if (b && b->o->stands)
        *b->o->stands = b->stands;
}

/* In the directory as whatever was before left it. */
static enum fail build_in(struct dir *whole, const struct dataset_options *o,
                          struct why *why)
{
    enum fail     err;
    struct build *b = start(o, whole->tmp, &err, why);
    bool          restored = b && restore(b, &err, why);

    if (!b || (!restored && err == FAIL_MEMORY)) {
        release(b);
        return leave_alone(whole, err);
    }
    if (!restored) {
        release(b);
        dir_restart(whole, UNFINISHED);
        b = start(o, whole->tmp, &err, why);
    }
    tell_stands(b);
    if (b)
        err = run(b, restored, why);
    if (err) {
        tell_stands(b);
        keep_or_remove(b, whole, err);
    }
    release(b);
    return err;
}

/* Has the validation text lines with fields? */
static bool val_has_fields(const char *val)
{
    struct inputs in;
    struct why    unread;
    bool          fields = false;

    if (!val || inputs_list(&in, &val, 1, &unread))
        return false;
    for (size_t i = 0; i < in.n; i++)
        fields |= in.file[i].jsonl;
    inputs_free(&in);
    return fields;
}

enum fail dataset_build(const char *dir, const struct dataset_options *o, struct why *why)
{
    struct dir whole;
    char       path[PATH_MAX];
    enum fail  err;

    if ((err = check_vocab(o, why)) ||
        (err = inputs_check(o->inputs, o->n_inputs,
                            val_has_fields(o->val) ? NULL : o->field, why)))
        return err;
    if (path_exists(dir))
        return fail(why, FAIL_USAGE,
                    "%s: exists already; remove it or choose another name", dir);
    if ((err = dir_continue(&whole, dir, UNFINISHED, why)) ||
        (err = build_in(&whole, o, why)))
        return err;
    err = dir_commit(&whole, why);
    if (err)
        dir_abort(&whole);
    else
        unlink(path_join(path, sizeof path, dir, UNFINISHED));
    return err;
}
