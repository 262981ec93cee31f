#include "tools/exchange/vocab.h"

#include "data/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char BLANK[] = "\xe2\x96\x81";         // U+2581 stands for a space in pieces
enum { BLANK_LEN = 3, BYTE_SPACE = MODEL_BYTE0 + ' ' };

/* ---- opening ----------------------------------------------------------------------- */

static bool is_text(const struct model_piece *p, const char *text, size_t len)
{
    return p->len == len && !memcmp(p->text, text, len);
}

enum fail vocab_open(struct vocab *v, const struct tokenizer *t, struct why *why)
{
    size_t      len;
    const void *model = tokenizer_model(t, &len);

    *v = (struct vocab){.kind = VOCAB_BYTES, .n = tokenizer_vocab(t),
                        .eos = tokenizer_eos(t)};
    if (!strcmp(tokenizer_kind(t), "bytes"))
        return FAIL_NONE;
    v->kind = strcmp(tokenizer_kind(t), "bpe") ? VOCAB_UNIGRAM : VOCAB_BPE;
    if (model_parse(&v->form, model, len))              // it was loaded: only memory
        return fail(why, FAIL_MEMORY, "not enough memory for the tokenizer's pieces");
    for (size_t i = MODEL_NORMAL0; i < v->form.n; i++)
        v->space |= is_text(&v->form.piece[i], BLANK, BLANK_LEN);
    return FAIL_NONE;
}

void vocab_close(struct vocab *v)
{
    free(v->form.piece);
    *v = (struct vocab){0};
}

static void set_text(struct token *t, const char *text, size_t len)
{
    memcpy(t->text, text, len);
    t->text[len] = 0;
    t->len = len;
}

/* Piece i as it is. */
static void piece_token(const struct vocab *v, int i, struct token *t)
{
    const struct model_piece *p = &v->form.piece[i];

    *t = (struct token){.score = p->score, .type = (int)p->type};
    set_text(t, p->text, p->len);
}

/* The character that stands for byte c in GPT-2's vocabulary, as UTF-8. */
static void letter(struct token *t, int c)
{
    bool itself = (c >= '!' && c <= '~') || (c >= 0xa1 && c <= 0xac) || c >= 0xae;
    int  code = c, before = 0;
    char utf8[2];

    for (int i = 0; i < c && !itself; i++)
        before += !((i >= '!' && i <= '~') || (i >= 0xa1 && i <= 0xac) || i >= 0xae);
    if (!itself)
        code = 256 + before;
    *t = (struct token){.type = PIECE_NORMAL};
    utf8[0] = (char)(code < 0x80 ? code : 0xc0 | code >> 6);
    utf8[1] = (char)(0x80 | (code & 0x3f));
    set_text(t, utf8, code < 0x80 ? 1 : 2);
}

static void end_token(struct token *t)
{
    *t = (struct token){.type = PIECE_CONTROL};
    set_text(t, "</s>", 4);
}

/* ---- GGUF -------------------------------------------------------------------------- */

static float lowest_score(const struct vocab *v)
{
    float low = 0;

    for (size_t i = MODEL_NORMAL0; i < v->form.n; i++)
        low = fminf(low, v->form.piece[i].score);
    return low;
}

static bool has_piece(const struct vocab *v, const char *text, size_t len)
{
    for (size_t i = MODEL_NORMAL0; i < v->form.n; i++)
        if (is_text(&v->form.piece[i], text, len))
            return true;
    return false;
}

/* A byte piece that goes as a normal token, its character; false: it stays a byte. */
static bool byte_as_text(const struct vocab *v, int c, struct token *t)
{
    char        text = (char)c;
    const char *s = c == ' ' ? BLANK : &text;
    size_t      len = c == ' ' ? BLANK_LEN : 1;

    if (c == 0 || c >= 0x80 || has_piece(v, s, len))
        return false;
    set_text(t, s, len);
    t->score = lowest_score(v) - 10;
    t->type = PIECE_NORMAL;
    return true;
}

void vocab_gguf(const struct vocab *v, int i, struct token *t)
{
    if (v->kind == VOCAB_BYTES) {
        if (i < v->eos)
            letter(t, i);
        else
            end_token(t);
        return;
    }
    piece_token(v, i, t);
    if (t->type == PIECE_BYTE &&
        (v->kind == VOCAB_UNIGRAM || (i == BYTE_SPACE && !v->space)))
        (void)byte_as_text(v, i - MODEL_BYTE0, t);
}

/* ---- llama2.c ---------------------------------------------------------------------- */

/* run.c's document start is 1 and its bytes begin at 3. Of the byte tokenizer's 257 ids
 * those that UTF-8 never has, 0xFE and 0xFF, take the places 0 and 2. */
int vocab_llama2c_id(const struct vocab *v, int place)
{
    if (v->kind != VOCAB_BYTES)
        return place == 1 ? 2 : place == 2 ? 1 : place;
    return place == 0 ? 0xfe : place == 1 ? v->eos : place == 2 ? 0xff : place - 3;
}

static void blanks_to_spaces(struct token *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->len;) {
        bool blank = i + BLANK_LEN <= t->len && !memcmp(t->text + i, BLANK, BLANK_LEN);

        t->text[n++] = blank ? ' ' : t->text[i];
        i += blank ? BLANK_LEN : 1;
    }
    t->text[n] = 0;
    t->len = n;
}

static void byte_token(struct token *t, int c)
{
    char text[8];
    bool plain = c >= ' ' && c <= '~';

    *t = (struct token){.type = PIECE_BYTE};
    snprintf(text, sizeof text, plain ? "%c" : "<0x%02X>", c);
    set_text(t, text, strlen(text));
}

void vocab_llama2c(const struct vocab *v, int place, struct token *t)
{
    int i = vocab_llama2c_id(v, place);

    if (v->kind == VOCAB_BYTES && i < v->eos) {
        byte_token(t, i);
    } else if (v->kind == VOCAB_BYTES || i == v->eos) {
        end_token(t);
        set_text(t, "\n<s>\n", 5);
    } else if (i == BYTE_SPACE && !v->space) {
        byte_token(t, ' ');
    } else {
        piece_token(v, i, t);
        blanks_to_spaces(t);
    }
}

/* ---- tokenizer.json ---------------------------------------------------------------- */

static json_t *added_token(int id, const char *text)
{
    return json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", text,
                     "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0,
                     "special", 1);
}

static json_t *added_tokens(const struct vocab *v)
{
    json_t *list = json_array();

    if (v->kind != VOCAB_BYTES) {
        json_array_append_new(list, added_token(0, "<unk>"));
        json_array_append_new(list, added_token(1, "<s>"));
    }
    json_array_append_new(list, added_token(v->eos, "</s>"));
    return list;
}

/* Every text begins with the token that documents begin after. */
static json_t *post_processor(const struct vocab *v)
{
    return json_pack(
        "{s:s, s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}], s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}, "
        "{s:{s:s, s:i}}], s:{s:{s:s, s:[i], s:[s]}}}",
        "type", "TemplateProcessing", "single", "SpecialToken", "id", "</s>", "type_id",
        0, "Sequence", "id", "A", "type_id", 0, "pair", "SpecialToken", "id", "</s>",
        "type_id", 0, "Sequence", "id", "A", "type_id", 0, "Sequence", "id", "B",
        "type_id", 1, "special_tokens", "</s>", "id", "</s>", "ids", v->eos, "tokens",
        "</s>");
}

static json_t *pre_tokenizer(const struct vocab *v, bool blank)
{
    if (v->kind == VOCAB_BYTES)
        return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space",
                         blank, "trim_offsets", 0, "use_regex", 0);
    return json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement", BLANK,
                     "prepend_scheme", blank ? "first" : "never", "split", 0);
}

static json_t *decoder(const struct vocab *v, bool blank)
{
    json_t *list;

    if (v->kind == VOCAB_BYTES)
        return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space",
                         0, "trim_offsets", 0, "use_regex", 0);
    list = json_pack("[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]", "type", "Replace", "pattern",
                     "String", BLANK, "content", " ", "type", "ByteFallback", "type",
                     "Fuse");
    if (blank)
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip",
                                              "content", " ", "start", 1, "stop", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", list);
}

/* Piece i for tokenizer.json: where U+2581 alone is no piece, the byte 0x20 is it. */
static void json_token(const struct vocab *v, int i, struct token *t)
{
    if (v->kind == VOCAB_BYTES) {
        vocab_gguf(v, i, t);
        return;
    }
    piece_token(v, i, t);
    if (i == BYTE_SPACE && !v->space)
        set_text(t, BLANK, BLANK_LEN);
}

/* [[text, score], ...]; a byte piece would win as the text "<0x0A>" with its score of
 * 0. */
static json_t *unigram_model(const struct vocab *v)
{
    json_t *list = json_array();

    for (int i = 0; i < v->n; i++) {
        struct token t;

        json_token(v, i, &t);
        json_array_append_new(list, json_pack("[s%, f]", t.text, t.len,
                                              t.type == PIECE_BYTE ? -1e6
                                                                   : (double)t.score));
    }
    return json_pack("{s:s, s:i, s:o, s:b}", "type", "Unigram", "unk_id", 0, "vocab",
                     list, "byte_fallback", 1);
}

/* Id of a normal piece by its text. */
struct known {
    const struct model_piece **sorted;
    size_t                     n;
};

static int by_text(const void *a, const void *b)
{
    const struct model_piece *p = *(const struct model_piece *const *)a,
                             *q = *(const struct model_piece *const *)b;
    size_t                    common = p->len < q->len ? p->len : q->len;
    int                       d = memcmp(p->text, q->text, common);

    return d ? d : (p->len > q->len) - (p->len < q->len);
}

static bool knows(const struct known *k, const char *text, size_t len)
{
    struct model_piece        want = {.text = text, .len = len};
    const struct model_piece *key = &want;

    return bsearch(&key, k->sorted, k->n, sizeof *k->sorted, by_text) != NULL;
}

static bool known_open(struct known *k, const struct vocab *v)
{
    k->n = v->form.n - MODEL_NORMAL0;
    k->sorted = malloc((k->n + 1) * sizeof *k->sorted);
    if (!k->sorted)
        return false;
    for (size_t i = 0; i < k->n; i++)
        k->sorted[i] = &v->form.piece[MODEL_NORMAL0 + i];
    qsort(k->sorted, k->n, sizeof *k->sorted, by_text);
    return true;
}

/* Every split of a piece into two known ones: SentencePiece merges any two neighbours
 * whose text is a piece, the piece with the lower id first. */
static void add_merges(json_t *list, const struct known *k, const struct model_piece *p)
{
    for (size_t i = 0, n; i < p->len; i += n) {
        n = (size_t)utf8_length(p->text + i, p->len - i);
        if (i && knows(k, p->text, i) && knows(k, p->text + i, p->len - i))
            json_array_append_new(list, json_pack("[s%, s%]", p->text, i, p->text + i,
                                                  p->len - i));
    }
}

static json_t *merges(const struct vocab *v)
{
    json_t      *list = json_array();
    struct known k;

    if (v->kind == VOCAB_BYTES)
        return list;
    if (!known_open(&k, v)) {
        json_decref(list);
        return NULL;
    }
    for (size_t i = MODEL_NORMAL0; i < v->form.n; i++)
        add_merges(list, &k, &v->form.piece[i]);
    free(k.sorted);
    return list;
}

static json_t *bpe_model(const struct vocab *v)
{
    json_t *ids = json_object();
    bool    pieces = v->kind == VOCAB_BPE;

    for (int i = 0; i < v->n; i++) {
        struct token t;

        json_token(v, i, &t);
        json_object_setn_new(ids, t.text, t.len, json_integer(i));
    }
    return json_pack("{s:s, s:n, s:o?, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE",
                     "dropout", "unk_token", pieces ? json_string("<unk>") : NULL,
                     "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                     pieces, "byte_fallback", pieces, "ignore_merges", 0, "vocab", ids,
                     "merges", merges(v));
}

json_t *vocab_json(const struct vocab *v, bool blank)
{
    return json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:o}", "version", "1.0",
                     "truncation", "padding", "added_tokens", added_tokens(v),
                     "normalizer", "pre_tokenizer", pre_tokenizer(v, blank),
                     "post_processor", post_processor(v), "decoder", decoder(v, blank),
                     "model", v->kind == VOCAB_UNIGRAM ? unigram_model(v) : bpe_model(v));
}

/* ---- and back ---------------------------------------------------------------------- */

enum fail vocab_make(const struct token *token, int n, bool bpe, void **model,
                     size_t *len, struct why *why)
{
    struct model_form f = {.bpe = bpe, .n = (size_t)n};
    enum fail         err = FAIL_MEMORY;

    *model = NULL;
    f.piece = malloc(((size_t)n + 1) * sizeof *f.piece);
    for (int i = 0; f.piece && i < n; i++)
        f.piece[i] = (struct model_piece){token[i].text, token[i].len, token[i].score,
                                          (uint64_t)token[i].type};
    if (f.piece)
        err = model_write(&f, model, len);
    free(f.piece);
    return !err ? FAIL_NONE
           : err == FAIL_MEMORY ? fail(why, err, "out of memory for the tokenizer")
           : fail(why, err,
                  "its tokens are not in SentencePiece's order (unknown, two controls, "
                  "256 bytes, the rest, all different); give --tokenizer FILE");
}

enum fail vocab_convert(const void *bytes, size_t size, void **model, size_t *len,
                        bool *blank, struct why *why)
{
    struct model_form f;
    enum fail         err = model_parse_foreign(&f, bytes, size);

    *model = NULL;
    *blank = !err && f.blank;
    if (!err) {
        err = model_write(&f, model, len);
        free(f.piece);
    }
    return !err ? FAIL_NONE
           : err == FAIL_MEMORY ? fail(why, err, "out of memory for the tokenizer")
           : fail(why, err,
                  "not a SentencePiece model that weft can read: unigram or bpe, bytes "
                  "as fallback, no normalisation, ids unknown 0, controls 1 and 2, bytes "
                  "from 3");
}
