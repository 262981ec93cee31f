// tokenizer.h over SentencePiece. No exception may cross into C, so every entry point
// that can throw ends in a catch.

#include "tokenizer/tokenizer.h"

#include "tokenizer/child.h"
#include "tokenizer/lines.h"
#include "tokenizer/model_form.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

using sentencepiece::SentencePieceProcessor;
using sentencepiece::SentencePieceTrainer;

static const char BYTES_MODEL[] = "weft-bytes";
static const char SPACE[] = "\xe2\x96\x81";         // U+2581 stands for a space in pieces

// Encoding asks SentencePiece for at most about this many bytes at once.
static const size_t RUN_BYTES = 1 << 16;

struct tokenizer {
    std::string         model;
    const char         *kind;
    int                 eos;
    int                 byte0;          // id of the byte piece 0
    uint32_t            serial;         // differs between the tokenizers of a process
    bool                space;          // a piece is one space; else spaces are bytes
    bool                by_word;        // no piece has a space after another character
    std::string         bytes;          // of all pieces
    std::vector<size_t> at{0};          // piece i is bytes[at[i] .. at[i + 1])
    std::unique_ptr<SentencePieceProcessor> sp;     // empty: the byte tokenizer

    size_t vocab() const { return at.size() - 1; }
    void   add(const std::string &piece) { bytes += piece, at.push_back(bytes.size()); }
};

// ---- training -------------------------------------------------------------------------

class line_iterator : public sentencepiece::SentenceIterator {
  public:
    explicit line_iterator(std::string_view lines) : lines_(lines) { Next(); }
    bool done() const override { return done_; }
    const std::string &value() const override { return line_; }
    sentencepiece::util::Status status() const override { return {}; }
    void Next() override
    {
        at_ = lines_.find_first_not_of('\n', at_);
        size_t end = lines_.find('\n', at_);

        done_ = end == std::string::npos;
        if (!done_)
            line_ = lines_.substr(at_, end - at_);
        at_ = end + 1;
    }

  private:
    std::string_view lines_;
    std::string      line_;
    size_t           at_ = 0;
    bool             done_ = false;
};

struct training {
    const char      *kind;
    int              vocab;
    std::string_view lines;
};

// In the child: the model goes to `out`, an error to stderr.
static enum fail train(void *user, int out)
try {
    const training *t = static_cast<const training *>(user);
    line_iterator   lines(t->lines);
    std::string     model;

    // A fixed number of threads, as the sums of unigram's training depend on it. The soft
    // limit lets the vocabulary come out smaller than asked for.
    auto status = SentencePieceTrainer::Train(
        {{"model_type", t->kind},
         {"vocab_size", std::to_string(t->vocab)},
         {"hard_vocab_limit", "false"},
         {"character_coverage", "1"},
         {"normalization_rule_name", "identity"},
         {"add_dummy_prefix", "false"},
         {"remove_extra_whitespaces", "false"},
         {"allow_whitespace_only_pieces", "true"},
         {"byte_fallback", "true"},
         {"unk_id", "0"}, {"bos_id", "1"}, {"eos_id", "2"}, {"pad_id", "-1"},
         {"num_threads", "2"},
         {"minloglevel", "3"}},
        &lines, &model);

    if (status.ok())
        return child_write(out, model.data(), model.size()) ? FAIL_INPUT : FAIL_NONE;
    fprintf(stderr, "%s\n", status.message());
    return FAIL_INPUT;
} catch (const std::bad_alloc &) {
    return FAIL_MEMORY;
} catch (const std::exception &e) {
    fprintf(stderr, "%s\n", e.what());
    return FAIL_INPUT;
}

// The number of ids in the model that the child gave.
static enum fail count_ids(const char *model, size_t len, int *ids, struct why *why)
{
    model_form form;
    enum fail  err = model_parse(&form, model, len);

    *ids = static_cast<int>(form.n);
    free(form.piece);
    return err == FAIL_MEMORY ? fail(why, err, "out of memory")
           : err ? fail(why, err, "the trainer gave a model of an unexpected form")
                 : FAIL_NONE;
}

// In a child; the model must have most of the ids asked for.
static enum fail train_in_child(training *t, int close_fd, void **model, size_t *len,
                                int *fits, struct why *why)
{
    char      *bytes;
    int        ids = 0;
    struct why words;
    enum fail  err = child_run(train, t, close_fd, &bytes, len, &words);

    if (!err)
        err = count_ids(bytes, *len, &ids, &words);
    if (err == FAIL_INPUT)
        err = fail(why, err,
                   "tokenizer: SentencePiece's trainer failed: %s; give more text or "
                   "tokenizer=bytes",
                   words.line);
    else if (err == FAIL_MEMORY)
        err = fail(why, err, "tokenizer: %s for its training; take tokenizer=bytes",
                   words.line);
    else if (!err && ids < t->vocab - t->vocab / 10) {
        *fits = std::max<int>(ids, TOKENIZER_VOCAB_MIN);
        err = fail(why, FAIL_USAGE,
                   "vocab=%d is too large for this text; vocab=%d fits, or leave it out",
                   t->vocab, *fits);
    }
    if (!err) {
        *model = bytes;
    } else {
        *len = 0;
        free(bytes);
    }
    return err;
}

extern "C" enum fail tokenizer_train(const char *kind, int vocab, tokenizer_next next,
                                     void *user, int close_fd, void **model, size_t *len,
                                     int *fits, struct why *why)
{
    char  *lines;
    size_t n;

    *model = NULL;
    *len = 0;
    *fits = 0;
    if (!strcmp(kind, "bytes")) {
        *len = strlen(BYTES_MODEL);
        *model = strdup(BYTES_MODEL);
        return *model ? FAIL_NONE : fail(why, FAIL_MEMORY, "tokenizer: out of memory");
    }
    if (strcmp(kind, "unigram") && strcmp(kind, "bpe"))
        return fail(why, FAIL_USAGE,
                    "tokenizer=%s: there is none; take unigram, bpe or bytes", kind);
    if (vocab < TOKENIZER_VOCAB_MIN || vocab > TOKENIZER_VOCAB_MAX)
        return fail(why, FAIL_USAGE, "vocab=%d: out of range; it goes from %d to %d",
                    vocab, TOKENIZER_VOCAB_MIN, TOKENIZER_VOCAB_MAX);
    if (enum fail err = lines_read(&lines, &n, vocab, next, user, why))
        return err;

    training  t = {kind, vocab, {lines, n}};
    enum fail err = train_in_child(&t, close_fd, model, len, fits, why);
    free(lines);
    return err;
}

// ---- loading --------------------------------------------------------------------------

static void load_bytes(tokenizer *t)
{
    t->kind = "bytes";
    t->eos = 256;
    t->byte0 = 0;
    for (int c = 0; c < 256; c++)
        t->add(std::string(1, static_cast<char>(c)));
    t->add("");
}

static std::string spaces_back(const model_piece &p)
{
    std::string s(p.text, p.len);

    for (size_t i = 0; (i = s.find(SPACE, i)) != std::string::npos; i++)
        s.replace(i, 3, " ");
    return s;
}

static void add_pieces(tokenizer *t, const model_form &form)
{
    for (int i = 0; i < MODEL_BYTE0; i++)
        t->add("");
    for (int c = 0; c < 256; c++)
        t->add(std::string(1, static_cast<char>(c)));
    t->space = false;
    t->by_word = true;
    for (size_t i = MODEL_NORMAL0; i < form.n; i++) {
        std::string s = spaces_back(form.piece[i]);
        size_t      word = s.find_first_not_of(' ');

        t->space |= s == " ";
        t->by_word &= word == std::string::npos || s.find(' ', word) == std::string::npos;
        t->add(s);
    }
    t->by_word |= !t->space;
}

static enum fail load_pieces(tokenizer *t)
{
    model_form form;

    if (enum fail err = model_parse(&form, t->model.data(), t->model.size()))
        return err;
    std::unique_ptr<model_piece, void (*)(void *)> owner(form.piece, free);

    t->kind = form.bpe ? "bpe" : "unigram";
    t->eos = 2;
    t->byte0 = MODEL_BYTE0;
    add_pieces(t, form);
    t->sp = std::make_unique<SentencePieceProcessor>();
    if (!t->sp->LoadFromSerializedProto(t->model).ok() ||
        t->sp->GetPieceSize() != static_cast<int>(form.n))
        return FAIL_INPUT;
    return FAIL_NONE;
}

static enum fail load(struct tokenizer **t, const void *model, size_t len)
try {
    static std::atomic<uint32_t> serials(0);
    enum fail                    err = FAIL_NONE;

    auto loaded = std::make_unique<tokenizer>();
    loaded->model.assign(static_cast<const char *>(model), len);
    loaded->serial = ++serials;
    if (loaded->model == BYTES_MODEL)
        load_bytes(loaded.get());
    else
        err = load_pieces(loaded.get());
    if (!err)
        *t = loaded.release();
    return err;
} catch (const std::bad_alloc &) {
    return FAIL_MEMORY;
} catch (...) {
    return FAIL_INPUT;
}

extern "C" enum fail tokenizer_load(struct tokenizer **t, const void *model, size_t len,
                                    struct why *why)
{
    *t = NULL;

    enum fail err = load(t, model, len);

    return err == FAIL_MEMORY ? fail(why, err, "out of memory for the tokenizer")
           : err ? fail(why, err, "not a tokenizer of weft, or a damaged one")
                 : FAIL_NONE;
}

extern "C" void tokenizer_free(struct tokenizer *t)
{
    delete t;
}

extern "C" enum fail tokenizer_expect(struct tokenizer **t, int vocab, const char *path,
                                      struct why *why)
{
    int had = tokenizer_vocab(*t);

    if (had == vocab)
        return FAIL_NONE;
    tokenizer_free(*t);
    *t = nullptr;
    return fail(why, FAIL_INPUT, "%s: %d tokens where the model has %d", path, had,
                vocab);
}

extern "C" const char *tokenizer_kind(const struct tokenizer *t)
{
    return t->kind;
}

extern "C" int tokenizer_vocab(const struct tokenizer *t)
{
    return static_cast<int>(t->vocab());
}

extern "C" int tokenizer_eos(const struct tokenizer *t)
{
    return t->eos;
}

extern "C" uint64_t tokenizer_fingerprint(const struct tokenizer *t)
{
    return XXH3_64bits(t->model.data(), t->model.size());
}

extern "C" const void *tokenizer_model(const struct tokenizer *t, size_t *len)
{
    *len = t->model.size();
    return t->model.data();
}

// ---- text to ids ----------------------------------------------------------------------

// A short run and its ids, remembered: most words of a text have been met before.
struct word {
    uint32_t serial;                // of its tokenizer; 0: an empty slot
    uint8_t  len, n;
    char     text[26];
    uint32_t ids[8];
};

struct memory {
    static const size_t SLOTS = 1 << 15;
    std::unique_ptr<word[]> words{new word[SLOTS]()};
    std::vector<int>        ids;    // SentencePiece's answer
};

struct sink {
    uint32_t *ids;
    size_t    cap, n;
    void      put(uint32_t id) { if (n < cap) ids[n] = id; n++; }
};

// Whether the pieces of ids, joined, are the n bytes at s.
static bool spells(const tokenizer *t, const std::vector<int> &ids, const char *s,
                   size_t n)
{
    for (int id : ids) {
        if (id < 0 || static_cast<size_t>(id) >= t->vocab())
            return false;

        size_t len = t->at[id + 1] - t->at[id];
        if (!len || len > n || memcmp(s, &t->bytes[t->at[id]], len))
            return false;
        s += len, n -= len;
    }
    return n == 0;
}

// SentencePiece's ids of a run; its bytes should they not spell it.
static void ask(const tokenizer *t, const char *s, size_t n, std::vector<int> *ids)
{
    if (t->sp->Encode({s, n}, ids).ok() && spells(t, *ids, s, n))
        return;
    ids->clear();
    for (size_t i = 0; i < n; i++)
        ids->push_back(t->byte0 + static_cast<unsigned char>(s[i]));
}

static void encode_run(const tokenizer *t, memory *m, const char *s, size_t n, sink *out)
{
    word *w = n <= sizeof w->text ? &m->words[XXH3_64bits(s, n) % memory::SLOTS] : NULL;

    if (w && w->serial == t->serial && w->len == n && !memcmp(w->text, s, n)) {
        for (int i = 0; i < w->n; i++)
            out->put(w->ids[i]);
        return;
    }
    ask(t, s, n, &m->ids);
    for (int id : m->ids)
        out->put(id);
    if (w && m->ids.size() <= 8) {
        w->serial = t->serial;
        w->len = static_cast<uint8_t>(n);
        w->n = static_cast<uint8_t>(m->ids.size());
        memcpy(w->text, s, n);
        std::copy(m->ids.begin(), m->ids.end(), w->ids);
    }
}

extern "C" long tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
                                 uint32_t *ids, size_t cap) try {
    static thread_local memory m;
    sink out = {ids, cap, 0};

    for (size_t n; len; text += n, len -= n) {
        n = t->sp && (t->space || *text != ' ')
                ? carried_run(text, len, RUN_BYTES, t->by_word) : 0;
        if (n)
            encode_run(t, &m, text, n, &out);
        else
            out.put(t->byte0 + static_cast<unsigned char>(text[n++]));
    }
    return static_cast<long>(out.n);
} catch (...) {
    return -1;
}

// ---- ids to text ----------------------------------------------------------------------

extern "C" const char *tokenizer_piece(const struct tokenizer *t, uint32_t id,
                                       size_t *len)
{
    bool known = id < t->vocab();

    *len = known ? t->at[id + 1] - t->at[id] : 0;
    return known ? &t->bytes[t->at[id]] : "";
}

extern "C" size_t tokenizer_decode(const struct tokenizer *t, const uint32_t *ids,
                                   size_t n, char *text, size_t cap)
{
    size_t need = 0, len;

    for (size_t i = 0; i < n; i++, need += len) {
        const char *piece = tokenizer_piece(t, ids[i], &len);

        if (need < cap)
            memcpy(text + need, piece, std::min(len, cap - need));
    }
    return need;
}
