/* Texts, datasets and what becomes of them. */
#include "tests/fuzz/fuzz.h"

#include "data/base/record.h"
#include "data/dataset.h"
#include "data/jsonl.h"
#include "data/stories/stories.h"
#include "data/text.h"
#include "infer/stream.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_frames(const struct shard *s)
{
    static uint32_t ids[SHARD_FRAME];
    struct why      why;
    uint64_t        all = 0;
    uint32_t        n;
    enum fail       err = 0;

    for (uint64_t i = 0; i < s->frames && !err; i++) {
        err = shard_frame(s, i, ids, &n, &why);
        all += err ? 0 : n;
        for (uint32_t k = 0; !err && s->vocab && k < n; k++)
            fuzz_must(ids[k] < s->vocab, "ids are below the vocabulary");
    }
    fuzz_must(!fuzz_took(err, &why) || all == s->n, "frames hold what the table says");
}

void fuzz_shard(const uint8_t *bytes, size_t len)
{
    const char  *path = fuzz_file("train.tok.zst", bytes, len);
    struct shard s;
    struct why   why;

    for (int size = 2; size <= 4; size += 2)
        if (fuzz_took(shard_open(&s, path, size, &why), &why)) {
            read_frames(&s);
            shard_close(&s);
        }
}

void fuzz_dataset(const uint8_t *bytes, size_t len)
{
    static const char *const names[] = {"dataset.json", "tokenizer.model",
                                        "train.tok.zst", "val.tok.zst",
                                        "train-1.tok.zst"};
    const char              *dir = fuzz_bundle(names, 5, bytes, len);
    struct dataset           d;
    struct why               why;

    if (!fuzz_took(dataset_open(&d, dir, &why), &why))
        return;
    read_frames(&d.shard[0]);
    read_frames(&d.shard[1]);
    dataset_close(&d);
}

/* What a build has come to. Whatever the bytes, the walk over them ends. */
void fuzz_record(const uint8_t *bytes, size_t len)
{
    const char    *path = fuzz_file("record", bytes, len);
    struct record *r;
    struct why     why;
    unsigned char  n = 1, part[256];

    if (!fuzz_took(record_open(&r, path, false, &why), &why))
        return;
    for (int i = 0; i < 64 && n && !record_failed(r); i++) {
        record_bytes(r, &n, 1);
        record_bytes(r, part, n);
    }
    fuzz_took(record_close(r, &why), &why);
}

void fuzz_text(const uint8_t *bytes, size_t len)
{
    static const char *const names[] = {"a.txt", "a.jsonl", "a.txt.zst", "a.jsonl.zst"};
    const char              *path;
    struct text_piece        piece = {""};
    struct text             *t;
    struct why               why;

    if (!len)
        return;
    path = fuzz_file(names[bytes[0] % 4], bytes + 1, len - 1);
    if (!fuzz_took(text_open(&t, &path, 1, NULL, &why), &why))
        return;
    while (piece.bytes && fuzz_took(text_next(t, &piece, &why), &why))
        fuzz_must(!piece.bytes || (piece.len > 0 && piece.len <= TEXT_PIECE),
                  "pieces have their size");
    text_close(t);
}

/* ---- jsonl beside jansson ---- */

/* Numbers that no double holds, depth, and a NUL in a name are jansson's own limits. */
static bool is_limit(const json_error_t *e)
{
    enum json_error_code code = json_error_code(e);

    return code == json_error_numeric_overflow || code == json_error_stack_overflow ||
           code == json_error_null_byte_in_key;
}

/* Jansson's object of the line, where it agrees to read it. */
static json_t *oracle(const char *line, size_t len, bool *limit)
{
    json_error_t e;
    json_t      *j = json_loadb(line, len, JSON_ALLOW_NUL, &e);

    *limit = !j && is_limit(&e);
    return j;
}

void fuzz_jsonl(const uint8_t *bytes, size_t len)
{
    char        *line = fuzz_string(bytes, len), problem[256];
    const char  *text;
    size_t       n;
    bool         limit, ok, valid = text_invalid(line, len) == 0;
    json_t      *j = oracle(line, len, &limit), *want = json_object_get(j, "text");

    ok = jsonl_field(line, len, "text", &text, &n, problem, sizeof problem);
    if (ok) {
        fuzz_takes++;
        fuzz_must(text >= line && text + n <= line + len, "the text lies in the line");
        fuzz_must(j || limit || !valid, "jansson reads what jsonl reads");
        fuzz_must(!j || (json_is_string(want) && json_string_length(want) == n &&
                         !memcmp(json_string_value(want), text, n)),
                  "both read the same text");
    } else if (json_is_string(want) && !memchr(line, 0, len)) {     // it skips some NULs
        fuzz_must(strstr(problem, "twice") || strstr(problem, "not a string"), problem);
    }
    json_decref(j);
    free(line);
}

/* ---- stories, characters ---- */

void fuzz_story(const uint8_t *bytes, size_t len)
{
    char              *text = fuzz_string(bytes, len);
    double             bits, floor;
    struct story_fault fault = {0};
    int                is = story_check(text, len, &bits, &fault);

    fuzz_must(is == stories_floor(text, len, &floor), "both say the same");
    fuzz_must(!is || (isfinite(bits) && bits > 0 && bits == floor), "it has bits");
    fuzz_must(is || fault.at <= len, "the fault lies in the text");
    fuzz_takes += is;
    free(text);
}

/* What a stream wrote of the bytes, pushed in steps of `step`. */
static char *streamed(const char *text, size_t len, size_t step, bool terminal,
                      const char *const *stop, int n_stop, size_t *got)
{
    char          *out = NULL;
    FILE          *f = open_memstream(&out, got);
    struct stream *s = stream_open(f, terminal, stop, n_stop);
    bool           stopped = false;

    for (size_t at = 0; at < len && !stopped; at += step)
        stopped = stream_push(s, text + at, len - at < step ? len - at : step);
    stream_end(s);
    stream_close(s);
    fclose(f);
    return out;
}

void fuzz_stream(const uint8_t *bytes, size_t len)
{
    static const char *const stop[] = {"stop", "\n\n", "\xc3\xa9s"};
    char                    *text = fuzz_string(bytes, len);
    size_t                   step = len ? 1 + bytes[0] % 7 : 1, n, m;

    for (int k = 0; k < 4; k++) {
        bool  terminal = k & 1;
        int   stops = k & 2 ? 3 : 0;
        char *one = streamed(text, len, len + 1, terminal, stop, stops, &n);
        char *two = streamed(text, len, step, terminal, stop, stops, &m);

        fuzz_must(n == m && !memcmp(one, two, n), "pieces write what the whole does");
        fuzz_must(k || (n == len && !memcmp(one, text, n)), "a pipe gets the bytes");
        fuzz_must(!terminal || text_invalid(one, n) == 0, "a terminal gets characters");
        free(one);
        free(two);
    }
    fuzz_takes++;
    free(text);
}
