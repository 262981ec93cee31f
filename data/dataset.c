#include "data/dataset.h"

#include "data/base/file.h"
#include "data/base/json.h"
#include "data/base/version.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { JSON_MAX = 1 << 20, MAX_FILES = 9999 };

static const char        advice[] = "rebuild it with: weft data build";
static const char *const shard_names[] = {"train.tok.zst", "val.tok.zst"};

/* dataset.json as jansson's own formats: packing and unpacking are one list of keys. */
#define SPLIT  "{s:I, s:I, s:I}"
#define STRICT "{s:I, s:I, s:I!}"

static void to_hex(char text[17], uint64_t hash)
{
    snprintf(text, 17, "%016llx", (unsigned long long)hash);
}

/* The 16 digits of the line `check` in the text of a dataset.json, NULL: there is none.
 * They are the xxh3 of that text with zeros in their place. */
static char *check_digits(char *text)
{
    static const char key[] = "\n  \"check\": \"";
    char             *at = strstr(text, key);

    return at && strlen(at) >= sizeof key + 16 ? at + sizeof key - 1 : NULL;
}

/* json_write, with the digits of `check`. */
static enum fail write_checked(const char *path, json_t *j, struct why *why)
{
    char     *text = json_to_text(j, JSON_INDENT(2) | JSON_REAL_PRECISION(7));
    char     *digits = text ? check_digits(text) : NULL, hex[17];
    size_t    len = text ? strlen(text) : 0;
    enum fail err;

    json_decref(j);
    if (json_ran_out() || !digits) {
        free(text);
        return fail(why, FAIL_MEMORY, "%s: out of memory", path);
    }
    text[len] = '\n';           // in the place of the NUL
    to_hex(hex, XXH3_64bits(text, len + 1));
    memcpy(digits, hex, 16);
    err = file_write(path, text, len + 1, why);
    free(text);
    return err;
}

/* FAIL_INPUT: the text is not the one that was written. Version 0.1 did not say. */
static enum fail check_text(const char *path, struct why *why)
{
    char     *text, *digits, hex[17];
    size_t    len;
    enum fail err = file_read(path, JSON_MAX, &text, &len, why);

    if (err)
        return err;
    digits = check_digits(text);
    if (digits) {
        char said[17] = "";

        memcpy(said, digits, 16);
        memset(digits, '0', 16);
        to_hex(hex, XXH3_64bits(text, len));
        if (strcmp(said, hex))
            err = fail(why, FAIL_INPUT, "%s: damaged: its own hash does not hold; %s",
                       path, advice);
    }
    free(text);
    return err;
}

/* [{"input": "a.txt", "tokens": 1200, "weight": 2.0}, ...] */
static json_t *mix_json(const struct dataset *d)
{
    json_t *list = json_array();

    for (int i = 0; i < d->n_mix; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:f}", "input", d->mix[i].name,
                                              "tokens", (json_int_t)d->mix[i].tokens,
                                              "weight", d->mix[i].weight));
    return list;
}

static const char no_memory[] = "out of memory";

static bool take_stretch(struct stretch *s, json_t *j)
{
    const char *name;
    json_int_t  tokens;

    if (json_unpack(j, "{s:s, s:I, s:F!}", "input", &name, "tokens", &tokens, "weight",
                    &s->weight) ||
        tokens < 1 || !(s->weight >= 1 && s->weight <= 1e6) ||
        strlen(name) >= sizeof s->name)
        return false;
    strcpy(s->name, name);
    s->tokens = (uint64_t)tokens;
    return true;
}

/* j is NULL when there is none; NULL, or what is wrong. */
static const char *take_mix(struct dataset *d, const json_t *j)
{
    uint64_t sum = 0;

    if (!j)
        return NULL;
    d->n_mix = (int)json_array_size(j);
    if (d->n_mix < 2 || d->n_mix > DATASET_MIX)
        return "an impossible mix";
    d->mix = calloc((size_t)d->n_mix, sizeof *d->mix);
    if (!d->mix)
        return no_memory;
    for (int i = 0; i < d->n_mix; i++) {
        if (!take_stretch(&d->mix[i], json_array_get(j, (size_t)i)))
            return "an impossible mix";
        sum += d->mix[i].tokens;
    }
    return sum == d->train.tokens ? NULL : "the mix is not that of the training text";
}

/* ---- the files ---- */

/* Version 2 has a shard of several files. */
static int version_of(const struct dataset *d)
{
    return d->train.files > 1 || d->val.files > 1 ? 2 : 1;
}

/* How many files are listed, and which is i. */
static int n_files(const struct dataset *d)
{
    return 1 + d->train.files + d->val.files;
}

static char *file_name(char *buf, size_t cap, const struct dataset *d, int i)
{
    if (i == 0)
        snprintf(buf, cap, "tokenizer.model");
    else if (i <= d->train.files)
        shard_name(buf, cap, shard_names[0], i - 1);
    else
        shard_name(buf, cap, shard_names[1], i - 1 - d->train.files);
    return buf;
}

static enum fail hash_file(const struct dataset *d, const char *dir, int i,
                           uint64_t *hash, struct why *why)
{
    char     name[64], path[PATH_MAX];
    uint64_t size;

    file_name(name, sizeof name, d, i);
    return file_hash(path_join(path, sizeof path, dir, name), hash, &size, why);
}

/* {"tokenizer.model": "16 hexadecimal digits", ...} */
static enum fail files_json(const struct dataset *d, const char *dir, json_t **out,
                            struct why *why)
{
    enum fail err = 0;

    *out = json_object();
    for (int i = 0; i < n_files(d) && !err; i++) {
        char     name[64], hex[17];
        uint64_t hash = 0;

        err = hash_file(d, dir, i, &hash, why);
        to_hex(hex, hash);
        json_object_set_new(*out, file_name(name, sizeof name, d, i), json_string(hex));
    }
    if (err)
        json_decref(*out);
    return err;
}

enum fail dataset_describe(const struct dataset *d, const char *dir, struct why *why)
{
    char      path[PATH_MAX], print[17];
    json_t   *files;
    enum fail err = files_json(d, dir, &files, why);

    if (err)
        return err;
    to_hex(print, tokenizer_fingerprint(d->tokenizer));
    json_t *j = json_pack(
        "{s:i, s:s, s:s, s:{s:s, s:i, s:s}, s:" SPLIT ", s:" SPLIT ", s:I, s:f, s:f, "
        "s:o, s:o}",
        "version", version_of(d), "check", "0000000000000000", "build", version_line,
        "tokenizer", "kind",
        tokenizer_kind(d->tokenizer), "vocab", d->vocab, "fingerprint", print, "train",
        "tokens", (json_int_t)d->train.tokens, "bytes", (json_int_t)d->train.bytes,
        "documents", (json_int_t)d->train.documents, "val", "tokens",
        (json_int_t)d->val.tokens, "bytes", (json_int_t)d->val.bytes, "documents",
        (json_int_t)d->val.documents, "invalid_bytes", (json_int_t)d->invalid,
        "zstd19_bpb", d->zstd_bpb, "order2_bpb", d->order2_bpb, "floor_bpb",
        d->floor_bpb > 0 ? json_real(d->floor_bpb) : json_null(), "files", files);

    if (j && *d->val_file)
        json_object_set_new(j, "val_file", json_string(d->val_file));
    if (j && d->val_seen)
        json_object_set_new(j, "val_seen",
                            json_pack("{s:I, s:I}", "lines", (json_int_t)d->val_seen,
                                      "of", (json_int_t)d->val_lines));
    if (j && d->n_mix)
        json_object_set_new(j, "mix", mix_json(d));
    if (j && *d->prefix)
        json_object_set_new(j, "prefix", json_string(d->prefix));
    return write_checked(path_join(path, sizeof path, dir, "dataset.json"), j, why);
}

/* What dataset.json says beside what goes into struct dataset. */
struct claims {
    char     kind[16];
    uint64_t fingerprint;
    json_t  *files;             // owned: each file's hash
};

static bool take_hex(uint64_t *hash, const char *text)
{
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return false;
    *hash = strtoull(text, NULL, 16);
    return true;
}

/* The files of a shard that are listed. */
static int count_files(const json_t *files, const char *first)
{
    char name[64];
    int  n = 0;

    while (n < MAX_FILES &&
           json_object_get(files, shard_name(name, sizeof name, first, n)))
        n++;
    return n;
}

/* All of them are listed, and nothing else is. */
static bool take_files(struct dataset *d, struct claims *c, json_t *files)
{
    char name[64];

    d->train.files = count_files(files, shard_names[0]);
    d->val.files = count_files(files, shard_names[1]);
    if (!d->train.files || !d->val.files || json_object_size(files) != (size_t)n_files(d))
        return false;
    for (int i = 0; i < n_files(d); i++) {
        json_t  *hex = json_object_get(files, file_name(name, sizeof name, d, i));
        uint64_t unread;

        if (!json_is_string(hex) || !take_hex(&unread, json_string_value(hex)))
            return false;
    }
    c->files = json_incref(files);
    return true;
}

static bool take_split(struct split *s, const json_int_t n[3])
{
    *s = (struct split){(uint64_t)n[0], (uint64_t)n[1], (uint64_t)n[2], s->files};
    return n[0] > 0 && n[1] > 0 && n[2] > 0 && n[2] <= n[0];
}

/* All values out of the parsed object; NULL, or what is wrong. */
static const char *take_values(struct dataset *d, struct claims *c, json_t *j,
                               json_error_t *err)
{
    const char *kind, *print, *check, *build, *prefix = "", *val_file = "";
    json_int_t  version, vocab, train[3], val[3], invalid, seen = 0, lines = 0;
    json_t     *least, *files, *mix = NULL;

    if (json_unpack_ex(
            j, err, 0,
            "{s:I, s?s, s?s, s:{s:s, s:I, s:s!}, s:" STRICT ", s:" STRICT ", s:I, s:F, "
            "s:F, s:o, s:o, s?s, s?s, s?{s:I, s:I!}, s?o!}",
            "version", &version, "check", &check, "build", &build,
            "tokenizer", "kind", &kind, "vocab", &vocab, "fingerprint", &print,
            "train", "tokens", &train[0], "bytes", &train[1], "documents", &train[2],
            "val", "tokens", &val[0], "bytes", &val[1], "documents", &val[2],
            "invalid_bytes", &invalid,
            "zstd19_bpb", &d->zstd_bpb, "order2_bpb", &d->order2_bpb, "floor_bpb", &least,
            "files", &files, "prefix", &prefix, "val_file", &val_file, "val_seen",
            "lines", &seen, "of", &lines, "mix", &mix))
        return err->text;
    if (version > 2)
        return "written by another version";
    if (vocab < 2 || vocab > TOKENIZER_VOCAB_MAX || strlen(kind) >= sizeof c->kind)
        return "an impossible tokenizer";
    if (!take_split(&d->train, train) || !take_split(&d->val, val))
        return "an impossible number of tokens, bytes or documents";
    if (invalid < 0 || d->zstd_bpb < 0 || d->order2_bpb < 0)
        return "a negative number";
    if (!json_is_null(least) && !(json_is_real(least) && json_real_value(least) > 0))
        return "floor_bpb is neither null nor above 0";
    if (!take_files(d, c, files))
        return "files are missing, unknown, or without a hash of 16 hexadecimal digits";
    if (version != version_of(d))
        return "written by another version";
    if (!take_hex(&c->fingerprint, print))
        return "the fingerprint is not 16 hexadecimal digits";
    if (strlen(prefix) >= sizeof d->prefix)
        return "the prefix is too long";
    if (strlen(val_file) >= sizeof d->val_file)
        return "the name of the validation text is too long";
    if (seen < 0 || seen > lines)
        return "an impossible number of lines";
    d->val_seen = (uint64_t)seen;
    d->val_lines = (uint64_t)lines;
    strcpy(d->prefix, prefix);
    strcpy(d->val_file, val_file);
    strcpy(c->kind, kind);
    d->vocab = (int)vocab;
    d->invalid = (uint64_t)invalid;
    d->floor_bpb = json_is_null(least) ? 0 : json_real_value(least);
    return take_mix(d, mix);
}

bool dataset_overlaps(const struct dataset *d)
{
    return d->val_seen > 0 && (*d->val_file || 20 * d->val_seen >= d->val_lines);
}

static enum fail read_json(struct dataset *d, struct claims *c, struct why *why)
{
    char         path[PATH_MAX];
    json_t      *j;
    json_error_t bad;
    const char  *wrong;
    enum fail    err = json_read(&j, path_join(path, sizeof path, d->dir, "dataset.json"),
                                 JSON_MAX, advice, why);

    if (err)
        return err;
    wrong = take_values(d, c, j, &bad);
    if (json_ran_out() || wrong == no_memory)
        err = fail(why, FAIL_MEMORY, "%s: %s", path, no_memory);
    else if (wrong)
        err = fail(why, FAIL_INPUT, "%s: %s; %s", path, wrong, advice);
    json_decref(j);
    return err ? err : check_text(path, why);
}

static enum fail load_tokenizer(struct dataset *d, const struct claims *c,
                                struct why *why)
{
    char       path[PATH_MAX], *model;
    size_t     len;
    struct why bad;
    enum fail  err;

    path_join(path, sizeof path, d->dir, "tokenizer.model");
    if ((err = file_read(path, DATASET_MODEL, &model, &len, why)))
        return err;
    err = tokenizer_load(&d->tokenizer, model, len, &bad);
    free(model);
    if (err)
        return fail(why, err, "%s: %s; %s", path, bad.line, advice);
    if (tokenizer_fingerprint(d->tokenizer) != c->fingerprint
        || tokenizer_vocab(d->tokenizer) != d->vocab
        || strcmp(tokenizer_kind(d->tokenizer), c->kind))
        return fail(why, FAIL_INPUT, "%s: not the tokenizer of dataset.json; %s",
                    path, advice);
    return 0;
}

static enum fail open_shard(struct dataset *d, int i, uint64_t tokens, struct why *why)
{
    char path[PATH_MAX];
    int       width = d->vocab > 1 << 16 ? 4 : 2;
    enum fail err;

    path_join(path, sizeof path, d->dir, shard_names[i]);
    err = shard_open(&d->shard[i], path, width, why);
    for (int k = 1; k < (i ? d->val.files : d->train.files) && !err; k++) {
        char name[PATH_MAX];

        err = shard_join(&d->shard[i], shard_name(name, sizeof name, path, k), why);
    }
    if (err)
        return err;
    if (d->shard[i].n != tokens)
        return fail(why, FAIL_INPUT, "%s: %llu tokens, but dataset.json says %llu; %s",
                    path, (unsigned long long)d->shard[i].n,
                    (unsigned long long)tokens, advice);
    d->shard[i].vocab = (uint32_t)d->vocab;
    return 0;
}

static enum fail open_claims(struct dataset *d, struct claims *c, const char *dir,
                             struct why *why)
{
    enum fail err;

    *c = (struct claims){0};
    *d = (struct dataset){0};
    if (strlen(dir) >= sizeof d->dir)
        return fail(why, FAIL_INPUT, "%s: too long a path", dir);
    strcpy(d->dir, dir);
    if (!(err = read_json(d, c, why)) && !(err = load_tokenizer(d, c, why)) &&
        !(err = open_shard(d, 0, d->train.tokens, why)))
        err = open_shard(d, 1, d->val.tokens, why);
    d->shard[0].mix = d->mix;
    d->shard[0].n_mix = d->n_mix;
    if (err)
        dataset_close(d);
    return err;
}

enum fail dataset_open(struct dataset *d, const char *dir, struct why *why)
{
    struct claims c;
    enum fail     err = open_claims(d, &c, dir, why);

    json_decref(c.files);
    return err;
}

void dataset_close(struct dataset *d)
{
    tokenizer_free(d->tokenizer);
    free(d->mix);
    shard_close(&d->shard[0]);
    shard_close(&d->shard[1]);
    *d = (struct dataset){0};
}

static enum fail check_frames(const struct shard *s, struct why *why)
{
    uint32_t *ids = malloc(SHARD_FRAME * sizeof *ids), n;
    enum fail err = ids ? 0 : fail(why, FAIL_MEMORY, "%s: out of memory", s->path);

    for (uint64_t i = 0; i < s->frames && !err; i++)
        err = shard_frame(s, i, ids, &n, why);
    free(ids);
    return err;
}

enum fail dataset_verify(const char *dir, struct why *why)
{
    struct dataset d;
    struct claims  c;
    enum fail      err = open_claims(&d, &c, dir, why);

    for (int i = 0; !err && i < n_files(&d); i++) {
        char     name[64], hex[17];
        uint64_t hash = 0;

        err = hash_file(&d, dir, i, &hash, why);
        to_hex(hex, hash);
        file_name(name, sizeof name, &d, i);
        if (!err && strcmp(hex, json_string_value(json_object_get(c.files, name))))
            err = fail(why, FAIL_INPUT,
                       "%s/%s: its hash is not the one in dataset.json; %s", dir, name,
                       advice);
    }
    for (int i = 0; i < 2 && !err; i++)
        err = check_frames(&d.shard[i], why);
    json_decref(c.files);
    dataset_close(&d);
    return err;
}

bool dataset_is(const char *dir)
{
    char path[PATH_MAX];

    return path_exists(path_join(path, sizeof path, dir, "dataset.json"));
}
