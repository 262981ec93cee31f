/* Datasets: build, open, verify; the text comes back whole, and damage is noticed. */
#include "data/base/file.h"
#include "data/corpus_sample.h"
#include "data/dataset.h"
#include "data/overlap.h"
#include "data/stories/stories.h"
#include "data/yardstick.h"
#include "tests/support/rig.h"

#include <dirent.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#define ROWS(table) (int)(sizeof table / sizeof *table)

enum { TEXT = 40000, PATH = 512 };

/* Sentences of drawn words, TEXT bytes, ending in a newline. */
static char *make_text(uint64_t seed)
{
    static const char *const words[] = {
        "the", "river", "was", "old", "and", "a", "boat", "went", "slowly", "under",
        "bridge", "while", "children", "watched", "its", "light", "caf\xc3\xa9",
        "na\xc3\xafve", "stone",
    };
    struct rng r = rng_open(seed, RNG_TEST, 0);
    char      *text = malloc(TEXT + 64);
    size_t     n = 0;

    while (n < TEXT) {
        n += (size_t)sprintf(text + n, "%s", words[rng_below(&r, ROWS(words))]);
        text[n++] = " \n  ,"[rng_below(&r, 5)];
    }
    text[n - 1] = '\n';
    text[n] = 0;
    return text;
}

static const char *put(const char *dir, const char *name, const void *bytes, size_t len)
{
    static char path[4][PATH];
    static int  turn;
    struct why  why;
    char       *to = path[turn++ % 4];

    ck_assert_int_eq(file_write(path_join(to, PATH, dir, name), bytes, len, &why), 0);
    return to;
}

static const char *in(const char *dir, const char *name)
{
    static char path[4][PATH];
    static int  turn;

    return path_join(path[turn++ % 4], PATH, dir, name);
}

/* Build in a process of its own: OpenMP must not have run where the tokenizer is
 * trained. */
static int build_with(const char *dir, const struct dataset_options *o, int threads,
                      struct why *why)
{
    struct why *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int   status;
    pid_t child = fork();

    ck_assert(shared != MAP_FAILED && child >= 0);
    if (child == 0) {
        omp_set_num_threads(threads);
        _exit(dataset_build(dir, o, shared));
    }
    ck_assert(waitpid(child, &status, 0) == child);
    *why = *shared;
    munmap(shared, sizeof *shared);
    ck_assert_msg(WIFEXITED(status), "the build died");
    return WEXITSTATUS(status);
}

static int build(const char *dir, const char *input, const char *tokenizer, int vocab,
                 int threads, struct why *why)
{
    struct dataset_options o = {
        .inputs = &input, .n_inputs = 1, .tokenizer = tokenizer, .vocab = vocab,
        .val_fraction = 0.1, .lock_fd = -1,
    };

    return build_with(dir, &o, threads, why);
}

static void build_ok(const char *dir, const char *input, const char *tokenizer, int vocab)
{
    struct why why;
    int        code = build(dir, input, tokenizer, vocab, 2, &why);

    ck_assert_msg(code == 0, "%s", why.line);
}

static void open_ok(struct dataset *d, const char *dir)
{
    struct why why;

    ck_assert_msg(dataset_open(d, dir, &why) == 0, "%s", why.line);
}

/* The text of a split, its documents' ends counted and left out. */
static char *decode(const struct dataset *d, int split, size_t *len, uint64_t *ends)
{
    const struct shard *s = &d->shard[split];
    uint32_t           *ids = malloc(SHARD_FRAME * sizeof *ids), n;
    size_t              cap = s->n * 64;
    char               *text = malloc(cap);
    struct why          why;

    *len = 0;
    *ends = 0;
    for (uint64_t f = 0; f < s->frames; f++) {
        ck_assert_int_eq(shard_frame(s, f, ids, &n, &why), 0);
        *len += tokenizer_decode(d->tokenizer, ids, n, text + *len, cap - *len);
        for (uint32_t i = 0; i < n; i++)
            *ends += ids[i] == (uint32_t)tokenizer_eos(d->tokenizer);
    }
    free(ids);
    return text;
}

/* Both splits together are the text; each split's numbers are right. */
static void assert_holds(const char *dir, const char *text, size_t len)
{
    struct dataset d;
    size_t         n[2];
    uint64_t       ends[2];

    open_ok(&d, dir);
    for (int i = 0; i < 2; i++) {
        const struct split *s = i ? &d.val : &d.train;
        char               *got = decode(&d, i, &n[i], &ends[i]);

        ck_assert_uint_eq(n[i], s->bytes);
        ck_assert_uint_eq(ends[i], s->documents);
        ck_assert_uint_eq(d.shard[i].n, s->tokens);
        ck_assert(n[i] <= len && !memcmp(got, i ? text + n[0] : text, n[i]));
        free(got);
    }
    ck_assert_uint_eq(n[0] + n[1], len);
    ck_assert_msg(fabs((double)n[1] / (double)len - 0.1) < 0.01,
                  "validation has %zu bytes of %zu", n[1], len);
    dataset_close(&d);
}

static const struct { uint64_t bytes; int vocab; } vocabs[] = {
    {0, 512}, {100000, 512}, {300000, 1024}, {1000000, 2048}, {2500000, 4096},
    {4000000, 4096}, {10000000, 8192}, {(uint64_t)1 << 40, 8192},
};

START_TEST(the_vocabulary_grows_with_the_text)
{
    ck_assert_int_eq(dataset_vocab(vocabs[_i].bytes), vocabs[_i].vocab);
}
END_TEST

static const struct { const char *kind; int vocab; } kinds[] = {
    {"bytes", 0}, {"unigram", 0}, {"unigram", 300}, {"bpe", 320},
};

START_TEST(a_text_comes_back_from_its_tokens)
{
    const char *tmp = rig_tmp(), *dir = in(tmp, "set");
    char       *text = make_text(1);
    struct why  why;

    build_ok(dir, put(tmp, "a.txt", text, strlen(text)), kinds[_i].kind, kinds[_i].vocab);
    assert_holds(dir, text, strlen(text));
    ck_assert_msg(dataset_verify(dir, &why) == 0, "%s", why.line);
    free(text);
}
END_TEST

START_TEST(a_prefix_stands_before_every_document)
{
    static const char text[] = "one\n<|endoftext|>\ntwo\n<|endoftext|>\nsix\n";
    const char    *tmp = rig_tmp(), *dir = in(tmp, "set"), *input;
    struct dataset d;
    struct why     why;
    size_t         n;
    uint64_t       ends;

    input = put(tmp, "a.txt", text, sizeof text - 1);
    struct dataset_options o = {.inputs = &input, .n_inputs = 1, .tokenizer = "bytes",
                                .prefix = "Hi~", .val_fraction = 0.4, .lock_fd = -1};

    ck_assert_msg(!build_with(dir, &o, 2, &why), "%s", why.line);
    open_ok(&d, dir);
    for (int i = 0; i < 2; i++) {
        char    *got = decode(&d, i, &n, &ends), *from = got;
        uint64_t met = 0;

        for (; (from = memmem(from, n - (size_t)(from - got), "Hi~", 3)); from++)
            met++;
        ck_assert_uint_eq(met, ends);
        ck_assert_msg(!strncmp(got, "Hi~", 3), "%.*s", (int)n, got);
        free(got);
    }
    dataset_close(&d);
}
END_TEST

START_TEST(building_again_on_other_threads_gives_the_same_bytes)
{
    static const char *const names[] = {"dataset.json", "tokenizer.model",
                                        "train.tok.zst", "val.tok.zst"};
    const char *tmp = rig_tmp();
    char       *text = make_text(2);
    struct why  why;

    put(tmp, "a.txt", text, strlen(text));
    for (int threads = 1; threads <= 3; threads++) {
        char dir[8] = {(char)('0' + threads)};
        int  code = build(in(tmp, dir), in(tmp, "a.txt"), "unigram", 0, threads, &why);

        ck_assert_msg(code == 0, "%s", why.line);
        for (int i = 0; i < 4; i++) {
            uint64_t a, b, size;

            ck_assert(!file_hash(in(in(tmp, "1"), names[i]), &a, &size, &why));
            ck_assert(!file_hash(in(in(tmp, dir), names[i]), &b, &size, &why));
            ck_assert_msg(a == b, "%s differs with %d threads", names[i], threads);
        }
    }
    free(text);
}
END_TEST

/* ---- every way in gives the same documents ---- */

static const char mark[] = "<|endoftext|>\n";

/* Two documents as one .txt. */
static size_t as_txt(char *out, const char *a, const char *b)
{
    return (size_t)sprintf(out, "%s%s%s%s", a, mark, b, mark);
}

static size_t json_line(char *out, const char *text)
{
    size_t n = (size_t)sprintf(out, "{\"text\": \"");

    for (; *text; text++)
        n += (size_t)sprintf(out + n, *text == '\n' ? "\\n" : "%c", *text);
    return n + (size_t)sprintf(out + n, "\"}\n");
}

static void put_on_stdin(const char *bytes, size_t len)
{
    int   ends[2];
    pid_t writer;

    ck_assert(!pipe(ends) && (writer = fork()) >= 0);
    if (writer == 0) {
        close(ends[0]);
        _exit(write(ends[1], bytes, len) != (ssize_t)len);
    }
    close(ends[1]);
    ck_assert(dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
    close(ends[0]);
}

static const char *const forms[] = {"a.txt", "a.jsonl", "a.txt.zst", "directory", "stdin",
                                    "stdin.jsonl", "stdin.zst"};

START_TEST(every_form_of_input_gives_the_same_documents)
{
    const char *tmp = rig_tmp(), *dir = in(tmp, "set");
    const char *form = forms[_i], *input = in(tmp, form);
    char       *a = make_text(3), *b = make_text(4), *whole = malloc(2 * TEXT + 200);
    char       *file = malloc(4 * TEXT), *packed = malloc(4 * TEXT);
    size_t      len = as_txt(file, a, b);
    struct why  why;

    sprintf(whole, "%s%s", a, b);
    if (!strcmp(form, "a.txt")) {
        put(tmp, form, file, len);
    } else if (!strcmp(form, "a.jsonl")) {
        len = json_line(file, a);
        put(tmp, form, file, len + json_line(file + len, b));
    } else if (!strcmp(form, "a.txt.zst")) {
        put(tmp, form, packed, ZSTD_compress(packed, 4 * TEXT, file, len, 3));
    } else if (!strcmp(form, "directory")) {
        ck_assert_int_eq(dir_make(input, &why), 0);
        put(input, "1.txt", a, strlen(a));
        put(input, "2.txt", b, strlen(b));
    } else {
        if (!strcmp(form, "stdin.jsonl"))
            len = json_line(file, a), len += json_line(file + len, b);
        if (!strcmp(form, "stdin.zst"))
            len = ZSTD_compress(packed, 4 * TEXT, file, len, 3);
        put_on_stdin(strcmp(form, "stdin.zst") ? file : packed, len);
        input = "-";
    }
    build_ok(dir, input, "bytes", 0);
    assert_holds(dir, whole, strlen(whole));

    struct dataset d;

    open_ok(&d, dir);
    ck_assert_uint_eq(d.train.documents, 2);        // the second is cut in two
    ck_assert_uint_eq(d.val.documents, 1);
    ck_assert(!path_exists(in(dir, "-")));
    dataset_close(&d);
    free(a), free(b), free(whole), free(file), free(packed);
}
END_TEST

START_TEST(many_small_documents_and_a_large_one_keep_their_order)
{
    enum { SMALL = 20000, COPIES = 120 };

    const char    *tmp = rig_tmp(), *dir = in(tmp, "set");
    char          *text = make_text(9);
    char          *file = malloc(COPIES * 2 * TEXT), *whole = malloc(COPIES * 2 * TEXT);
    size_t         n = 0, len = 0;
    struct dataset d;

    for (int i = 0; i < SMALL; i++) {
        n += (size_t)sprintf(file + n, "%d\n%s", i, mark);
        len += (size_t)sprintf(whole + len, "%d\n", i);
    }
    for (int i = 0; i < COPIES; i++) {
        n += (size_t)sprintf(file + n, "%d %s", i, text);
        len += (size_t)sprintf(whole + len, "%d %s", i, text);
    }
    build_ok(dir, put(tmp, "a.txt", file, n), "bytes", 0);
    assert_holds(dir, whole, len);
    open_ok(&d, dir);
    ck_assert_uint_eq(d.train.documents, SMALL + 1);
    dataset_close(&d);
    free(text), free(file), free(whole);
}
END_TEST

START_TEST(bytes_that_are_not_utf8_are_kept_and_counted)
{
    const char *tmp = rig_tmp(), *dir = in(tmp, "set");
    char       *text = make_text(5);
    size_t      len = strlen(text);

    for (size_t i = 0; i < 7; i++)
        text[100 + 1000 * i] = "\xff\0\xc3\x80\xfe\xf8\xed"[i];
    build_ok(dir, put(tmp, "a.txt", text, len), _i ? "unigram" : "bytes", 0);
    assert_holds(dir, text, len);

    struct dataset d;

    open_ok(&d, dir);
    ck_assert_uint_ge(d.invalid, 6);
    dataset_close(&d);
    free(text);
}
END_TEST

/* ---- what cannot be built ---- */

static const struct {
    const char *text, *tokenizer;
    int         vocab, want;
    const char *says;
} refused[] = {
    {"", "bytes", 0, FAIL_INPUT, "a.txt"},
    {"x", "bytes", 0, FAIL_INPUT, "one byte of text"},
    {"\xc3\xa9", "bytes", 0, FAIL_INPUT, "one character of text"},
    {"<|endoftext|>\n", "bytes", 0, FAIL_INPUT, "a.txt"},
    {"some text", "bytes", 300, FAIL_USAGE, "257"},
    {"some text", "unigram", 100, FAIL_USAGE, "vocab=100"},
    {"some text", "words", 0, FAIL_USAGE, "tokenizer=words"},
    {"some text, and some more text\n", "unigram", 5000, FAIL_USAGE, "too large"},
    {"\n\n\n\n\n\n\n\n\n", "unigram", 0, FAIL_INPUT, "tokenizer=bytes"},
    {"8 letters\x80\xff", "unigram", 0, FAIL_INPUT,
     "a.txt: looks binary (18 % of its bytes are not text); "
     "give text, or take tokenizer=bytes"},
};

START_TEST(what_cannot_be_built_is_said_and_leaves_nothing)
{
    const char *tmp = rig_tmp();
    struct why  why;
    int         code;

    put(tmp, "a.txt", refused[_i].text, strlen(refused[_i].text));
    code = build(in(tmp, "set"), in(tmp, "a.txt"), refused[_i].tokenizer,
                 refused[_i].vocab, 1, &why);
    ck_assert_msg(code == refused[_i].want, "exit %d: %s", code, why.line);
    ck_assert_msg(strstr(why.line, refused[_i].says) != NULL, "%s", why.line);
    ck_assert_int_eq(rig_entries(tmp), 1);
}
END_TEST

static void assert_text(const struct dataset *d, int split, const char *want)
{
    size_t   len;
    uint64_t ends;
    char    *text = decode(d, split, &len, &ends);

    ck_assert_uint_eq(len, strlen(want));
    ck_assert(!memcmp(text, want, len));
    free(text);
}

/* Where validation begins. */
static const struct {
    const char *why, *name, *text;
    double      share;
    const char *train, *val;
} cuts[] = {
    {"the share", "a.txt", "0123456789", 0.3, "0123456", "789"},
    {"after a newline", "a.txt", "0123456789abcde\nfghij", 0.4, "0123456789abcde\n",
     "fghij"},
    {"which is too far", "a.txt", "0123456789abcdefg\nij", 0.4, "0123456789ab",
     "cdefg\nij"},
    {"where a document ends", "a.jsonl",
     "{\"text\": \"0123456789\"}\n{\"text\": \"abcdefghijklmnopqrst\"}\n", 0.7,
     "0123456789", "abcdefghijklmnopqrst"},
    {"where one begins", "a.jsonl",
     "{\"text\": \"01234\"}\n{\"text\": \"5\\n789\"}\n", 0.5, "01234", "5\n789"},
    {"before a character", "a.txt", "abcdef\u4eba\u4eba\u4eba", 0.5, "abcdef",
     "\u4eba\u4eba\u4eba"},
};

START_TEST(validation_begins_near_its_share_where_something_ends)
{
    const char    *tmp = rig_tmp();
    const char    *input = put(tmp, cuts[_i].name, cuts[_i].text, strlen(cuts[_i].text));
    struct dataset d;
    struct why     why;
    struct dataset_options o = {
        .inputs = &input, .n_inputs = 1, .tokenizer = "bytes",
        .val_fraction = cuts[_i].share, .lock_fd = -1,
    };

    ck_assert_msg(!build_with(in(tmp, "set"), &o, 1, &why), "%s", why.line);
    open_ok(&d, in(tmp, "set"));
    assert_text(&d, 0, cuts[_i].train);
    assert_text(&d, 1, cuts[_i].val);
    dataset_close(&d);
}
END_TEST

START_TEST(validation_text_of_its_own_leaves_the_inputs_to_training)
{
    const char    *tmp = rig_tmp();
    const char    *input = put(tmp, "a.txt", "one two three\nfour", 18);
    struct dataset d;
    struct why     why;
    struct dataset_options o = {
        .inputs = &input, .n_inputs = 1, .val = put(tmp, "held.txt", "five\xff", 5),
        .tokenizer = "bytes", .val_fraction = 0.5, .lock_fd = -1,
    };

    ck_assert_msg(!build_with(in(tmp, "set"), &o, 1, &why), "%s", why.line);
    open_ok(&d, in(tmp, "set"));
    assert_text(&d, 0, "one two three\nfour");
    assert_text(&d, 1, "five\xff");
    ck_assert_str_eq(d.val_file, "held.txt");
    ck_assert(d.train.tokens == 19 && d.val.tokens == 6 && d.invalid == 1);
    ck_assert(d.n_mix == 0 && d.shard[0].n_mix == 0);
    ck_assert_int_eq(dataset_verify(in(tmp, "set"), &why), 0);
    dataset_close(&d);
    o.val = put(tmp, "none.txt", "", 0);
    ck_assert_int_eq(build_with(in(tmp, "no"), &o, 1, &why), FAIL_INPUT);
    ck_assert(!path_exists(in(tmp, "no")));
}
END_TEST

/* Build from a text and a validation text ("": none, and the text twice); what
 * dataset.json then says, of which only the numbers are good. */
static struct dataset overlapping(const char *text, const char *held)
{
    const char    *tmp = rig_tmp();
    const char    *inputs[] = {put(tmp, "a.txt", text, strlen(text)),
                               put(tmp, "copy.txt", text, strlen(text))};
    struct dataset d;
    struct why     why;
    struct dataset_options o = {
        .inputs = inputs, .n_inputs = *held ? 1 : 2, .tokenizer = "bytes",
        .val = *held ? put(tmp, "held.txt", held, strlen(held)) : NULL,
        .val_fraction = 0.25, .lock_fd = -1,
    };

    ck_assert_msg(!build_with(in(tmp, "set"), &o, 1, &why), "%s", why.line);
    open_ok(&d, in(tmp, "set"));
    struct dataset numbers = d;

    dataset_close(&d);
    return numbers;
}

#define LONG_A "a line of more than thirty-two bytes, the first\n"
#define LONG_B "a line of more than thirty-two bytes, another\n"
#define LONG_C "a line of more than thirty-two bytes, the last\n"

START_TEST(validation_text_that_stands_in_training_is_counted)
{
    struct dataset d = overlapping(LONG_A "short\n" LONG_B, LONG_C "short\n" LONG_A);

    ck_assert(d.val_lines == 2 && d.val_seen == 1 && dataset_overlaps(&d));
    d = overlapping(LONG_A "short\n" LONG_B, LONG_C "short\n");
    ck_assert(d.val_seen == 0 && !dataset_overlaps(&d));
    d = overlapping(LONG_A LONG_B LONG_C, "");
    ck_assert(d.val_seen == 1 && dataset_overlaps(&d));
    d.val_lines = 21;
    ck_assert(!dataset_overlaps(&d));
}
END_TEST

/* Line i, in two pieces. */
static void add_line(struct overlap *o, long i, bool training)
{
    char line[80];
    int  n = sprintf(line, "line %ld of a text with a great many of them", i);

    (training ? overlap_learn : overlap_count)(o, line, 7, false);
    (training ? overlap_learn : overlap_count)(o, line + 7, (size_t)n - 7, true);
}

START_TEST(beyond_a_million_lines_an_even_sample_is_counted)
{
    const long     n = 3 * OVERLAP_MOST;
    struct overlap o;

    ck_assert(overlap_open(&o));
    for (long i = 0; i < n; i++)
        add_line(&o, i, true);
    ck_assert_uint_eq(o.drop, 3);
    for (long i = 0; i < n / 100; i++)          // half of them are there
        add_line(&o, n - n / 200 + i, false);
    ck_assert_double_eq_tol((double)o.lines, (double)n / 400, 400);
    ck_assert_double_eq_tol((double)o.seen / (double)o.lines, 0.5, 0.03);
    overlap_close(&o);
}
END_TEST

START_TEST(a_mix_has_the_tokens_and_the_weight_of_every_input)
{
    const char *tmp = rig_tmp();
    const char *inputs[] = {put(tmp, "a.txt", "12345\n<|endoftext|>\n12", 22),
                            put(tmp, "b\xff.txt", "123", 3),
                            put(tmp, "c.txt", "1234567890", 10)};
    double      weights[] = {1, 0.5, 3};
    uint64_t    tokens[] = {10, 4, 6};      // with eos; the last lost 5 to validation
    struct dataset d;
    struct why     why;
    struct dataset_options o = {
        .inputs = inputs, .n_inputs = 3, .weights = weights, .tokenizer = "bytes",
        .val_fraction = 0.27, .lock_fd = -1,
    };

    ck_assert_msg(!build_with(in(tmp, "set"), &o, 1, &why), "%s", why.line);
    open_ok(&d, in(tmp, "set"));
    ck_assert_int_eq(d.shard[0].n_mix, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(d.mix[i].tokens, tokens[i]);
        ck_assert(d.shard[0].mix[i].weight == 2 * weights[i]);
    }
    ck_assert_str_eq(d.mix[1].name, "b?.txt");
    dataset_close(&d);
    o.val_fraction = 0.6;                   // all of c.txt
    ck_assert_int_eq(build_with(in(tmp, "no"), &o, 1, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, "c.txt: all of it is in the validation split"), "%s",
                  why.line);
    weights[0] = weights[1] = weights[2] = 7;
    ck_assert_msg(!build_with(in(tmp, "equal"), &o, 1, &why), "%s", why.line);
    open_ok(&d, in(tmp, "equal"));
    ck_assert_int_eq(d.n_mix, 0);
    dataset_close(&d);
}
END_TEST

/* What dataset.json may not say of a mix of 10, 4 and 11 tokens. */
static const struct { const char *was, *now; } bad_mixes[] = {
    {"\"tokens\": 10,\n", "\"tokens\": 11,\n"}, {"\"tokens\": 10,\n", "\"tokens\": 0,\n"},
    {"\"weight\": 1.0", "\"weight\": 0.5"}, {"\"weight\": 1.0", "\"weight\": 1e9"},
    {"\"weight\": 1.0", "\"wait\": 1.0"},     {"\"mix\": [", "\"mix\": [3, "},
};

START_TEST(a_mix_that_cannot_be_is_refused)
{
    const char *tmp = rig_tmp();
    const char *inputs[] = {put(tmp, "a.txt", "123456789", 9),
                            put(tmp, "b.txt", "12", 2)};
    double      weights[] = {3, 1};
    char       *json, *at, text[8192];
    size_t      len;
    struct dataset d;
    struct why     why;
    struct dataset_options o = {
        .inputs = inputs, .n_inputs = 2, .weights = weights, .tokenizer = "bytes",
        .val = inputs[0], .lock_fd = -1,
    };

    ck_assert_msg(!build_with(in(tmp, "set"), &o, 1, &why), "%s", why.line);
    ck_assert(!file_read(in(tmp, "set/dataset.json"), 8000, &json, &len, &why));
    at = strstr(strstr(json, "\"mix\""), bad_mixes[_i].was);
    ck_assert_ptr_nonnull(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - json), json, bad_mixes[_i].now,
             at + strlen(bad_mixes[_i].was));
    put(in(tmp, "set"), "dataset.json", text, strlen(text));
    ck_assert_int_eq(dataset_open(&d, in(tmp, "set"), &why), FAIL_INPUT);
    free(json);
}
END_TEST

START_TEST(an_existing_directory_is_not_touched)
{
    const char *tmp = rig_tmp(), *dir = in(tmp, "set");
    struct why  why;

    ck_assert_int_eq(dir_make(dir, &why), 0);
    put(tmp, "a.txt", "text", 4);
    ck_assert_int_eq(build(dir, in(tmp, "a.txt"), "bytes", 0, 1, &why), FAIL_USAGE);
    ck_assert_int_eq(rig_entries(dir), 0);
    ck_assert_int_eq(rig_entries(tmp), 2);
}
END_TEST

START_TEST(two_bytes_are_a_dataset)
{
    const char    *tmp = rig_tmp(), *dir = in(tmp, "set");
    struct dataset d;

    build_ok(dir, put(tmp, "a.txt", "ab", 2), "bytes", 0);
    open_ok(&d, dir);
    ck_assert_uint_eq(d.train.tokens, 2);
    ck_assert_uint_eq(d.val.tokens, 2);
    dataset_close(&d);
}
END_TEST

static int stop_now = 1;

START_TEST(a_stopped_build_leaves_nothing)
{
    const char *tmp = rig_tmp(), *input = put(tmp, "a.txt", "some text", 9);
    struct why  why;

    ck_assert_int_eq(dataset_build(in(tmp, "set"),
                                   &(struct dataset_options){.inputs = &input,
                                                             .n_inputs = 1,
                                                             .tokenizer = "bytes",
                                                             .val_fraction = 0.1,
                                                             .lock_fd = -1,
                                                             .stop = &stop_now},
                                   &why),
                     FAIL_INTERRUPTED);
    ck_assert_int_eq(rig_entries(tmp), 1);
}
END_TEST

/* ---- going on after a kill ---- */

/* Inputs of some megabytes: records are made after a batch of the encoder's, of two. */
static const struct { const char *name, *val; double weights[3]; } long_builds[] = {
    {"one after the other", NULL, {1, 1, 1}},
    {"mixed", NULL, {1, 3, 2}},
    {"validation apart", "c.jsonl", {1, 1, 1}},
};

/* Lines that count, n bytes: as plain text, and as .jsonl. */
static void put_lines(const char *dir, const char *name, size_t n, bool json)
{
    char  *text = malloc(n + 128);
    size_t at = 0;

    for (int i = 0; at < n; i++)
        at += (size_t)sprintf(text + at, json ? "{\"text\": \"line %d of %s\"}\n"
                                              : "line %d of %s\n", i, name);
    put(dir, name, text, at);
    free(text);
}

static double die_at;

static void die_there(void *user, const char *phase, double done)
{
    (void)user;
    if (!strcmp(phase, "encoding") && done >= die_at)
        raise(SIGKILL);
}

/* A number that a build in a process of its own can set. */
static double *shared_number(void)
{
    double *x = mmap(NULL, sizeof *x, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                     -1, 0);

    ck_assert(x != MAP_FAILED);
    return x;
}

/* Build in a process that is killed when that much of the text is encoded. */
static void build_killed(const char *dir, struct dataset_options o, double at)
{
    int        status;
    struct why why;
    pid_t      child = fork();

    if (child == 0) {
        die_at = at;
        o.progress = die_there;
        _exit(dataset_build(dir, &o, &why));
    }
    ck_assert(waitpid(child, &status, 0) == child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void same_files(const char *tmp)
{
    char           one[PATH], two[PATH];
    DIR           *d = opendir(path_join(one, PATH, tmp, "one"));
    struct dirent *e;
    uint64_t       a, b, size;
    struct why     why;

    path_join(two, PATH, tmp, "two");
    ck_assert_int_eq(rig_entries(one), rig_entries(two));
    while ((e = readdir(d)))
        if (e->d_name[0] != '.')
            ck_assert_msg(!file_hash(in(one, e->d_name), &a, &size, &why) &&
                              !file_hash(in(two, e->d_name), &b, &size, &why) && a == b,
                          "%s differs", e->d_name);
    closedir(d);
}

/* What a build told of its progress. */
struct heard {
    char   phases[128];             // each once, in their order
    char   phase[32];               // the last
    double done, encoded;           // of it; of encoding, at most
    bool   back;                    // it went backwards, or beyond its end
};

static void hear(void *user, const char *phase, double done)
{
    struct heard *h = user;

    if (strcmp(h->phase, phase)) {
        snprintf(h->phase, sizeof h->phase, "%s", phase);
        strcat(strcat(h->phases, phase), " ");
        h->done = 0;
    }
    h->back |= !(done >= h->done && done <= 1);
    h->done = done;
    if (!strcmp(phase, "encoding"))
        h->encoded = done;
}

START_TEST(progress_goes_from_phase_to_phase_and_forward)
{
    const char   *tmp = rig_tmp();
    char          path[PATH];
    const char   *input = path_join(path, PATH, tmp, "a.txt");
    struct heard *h = mmap(NULL, sizeof *h, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct why    why;
    struct dataset_options o = {
        .inputs = &input, .n_inputs = 1, .tokenizer = "bytes", .val_fraction = 0.01,
        .lock_fd = -1, .progress = hear, .user = h,
    };

    put_lines(tmp, "a.txt", 4 << 20, false);
    ck_assert_msg(!build_with(in(tmp, "set"), &o, 1, &why), "%s", why.line);
    ck_assert_str_eq(h->phases, "reading encoding measuring ");
    ck_assert_msg(!h->back && h->encoded > 0.4, "encoding ends at %g", h->encoded);
    munmap(h, sizeof *h);
}
END_TEST

START_TEST(a_killed_build_goes_on_and_gives_the_same_bytes)
{
    const char *tmp = rig_tmp(), *val = long_builds[_i].val;
    char        paths[3][PATH];
    const char *inputs[3] = {paths[0], paths[1], paths[2]};
    double     *stands = shared_number();
    struct why  why;
    struct dataset_options o = {
        .inputs = inputs, .n_inputs = val ? 2 : 3, .weights = long_builds[_i].weights,
        .tokenizer = "bytes", .val_fraction = 0.3, .shard = 1 << 20, .lock_fd = -1,
    };

    put_lines(tmp, "a.txt", 5 << 20, false);
    put_lines(tmp, "b.txt", 2 << 20, false);
    put_lines(tmp, "c.jsonl", 5 << 20, true);
    path_join(paths[0], PATH, tmp, "a.txt");
    path_join(paths[1], PATH, tmp, "b.txt");
    path_join(paths[2], PATH, tmp, "c.jsonl");
    o.val = val ? paths[2] : NULL;
    build_killed(in(tmp, "two"), o, 0.1);           // nothing was finished
    build_killed(in(tmp, "two"), o, 0.6);
    ck_assert(path_exists(in(tmp, "two.part/train-1.tok.zst")));
    build_killed(in(tmp, "two"), o, 0.95);
    o.stands = stands;
    ck_assert_int_eq(build_with(in(tmp, "two"), &o, 1, &why), 0);
    ck_assert_msg(*stands > 0.6 && *stands <= 1, "went on from %g", *stands);
    ck_assert_int_eq(build_with(in(tmp, "one"), &o, 2, &why), 0);
    ck_assert(*stands == 0);
    same_files(tmp);
    ck_assert_int_eq(dataset_verify(in(tmp, "two"), &why), 0);
    ck_assert(!path_exists(in(tmp, "two.part")));
}
END_TEST

static int stop_late;

static void stop_there(void *user, const char *phase, double done)
{
    (void)user;
    stop_late = !strcmp(phase, "encoding") && done > 0.7;
}

/* Begin a build of TMP/set from 8 MB in *input, stop it, and go on with what it returns;
 * where it stands is in *stands. */
static struct dataset_options stopped_build(const char *tmp, const char *const *input,
                                            double *stands)
{
    struct dataset_options o = {
        .inputs = input, .n_inputs = 1, .tokenizer = "bytes", .val_fraction = 0.1,
        .shard = 1 << 20, .lock_fd = -1, .progress = stop_there, .stop = &stop_late,
        .stands = stands,
    };
    struct why why;

    put_lines(tmp, "a.txt", 8 << 20, false);
    ck_assert_int_eq(build_with(in(tmp, "set"), &o, 1, &why), FAIL_INTERRUPTED);
    ck_assert(*stands > 0.4 && path_exists(in(tmp, "set.part/unfinished")));
    o.progress = NULL;
    return o;
}

START_TEST(a_stopped_build_keeps_what_stands_for_the_same_text_alone)
{
    const char *tmp = rig_tmp();
    char        path[PATH];
    const char *input = path_join(path, PATH, tmp, "a.txt");
    double     *stands = shared_number();
    struct why  why;
    struct dataset_options o = stopped_build(tmp, &input, stands);

    o.val = "/nowhere";                             // a call that cannot begin
    ck_assert_int_eq(build_with(in(tmp, "set"), &o, 1, &why), FAIL_INPUT);
    ck_assert(path_exists(in(tmp, "set.part/unfinished")));
    o.val = NULL;
    put_lines(tmp, "a.txt", 9 << 20, false);
    stop_late = 0;
    ck_assert_int_eq(build_with(in(tmp, "set"), &o, 1, &why), 0);
    ck_assert(*stands == 0);                        // other text: from its beginning
    ck_assert_int_eq(dataset_verify(in(tmp, "set"), &why), 0);
    put(tmp, "mine.part", "", 0);
    ck_assert_int_eq(dataset_build(in(tmp, "mine"), &o, &why), FAIL_WRITE);
    ck_assert_int_eq(dir_make(in(tmp, "other.part"), &why), 0);
    put(in(tmp, "other.part"), "letter", "Dear", 4);
    ck_assert_int_eq(dataset_build(in(tmp, "other"), &o, &why), FAIL_WRITE);
    ck_assert(path_exists(in(tmp, "other.part/letter")));
}
END_TEST

/* What differs from the build that was stopped: in the first row nothing. */
static const struct {
    const char *what, *prefix;
    double      share;
    uint64_t    shard;
} others[] = {
    {"nothing", NULL, 0.1, 1 << 20},
    {"prefix", "x", 0.1, 1 << 20},
    {"val_fraction", NULL, 0.2, 1 << 20},
    {"shard", NULL, 0.1, 1 << 21},
};

START_TEST(other_options_do_not_go_on_with_what_a_stopped_build_left)
{
    const char *tmp = rig_tmp();
    char        path[PATH], copy[4 * PATH];
    const char *input = path_join(path, PATH, tmp, "a.txt");
    double     *stands = shared_number();
    struct why  why;
    struct dataset_options o = stopped_build(tmp, &input, stands);

    o.stop = &stop_now;                     // as soon as it has looked what there is
    for (int i = 0; i < ROWS(others); i++) {
        snprintf(copy, sizeof copy, "cp -r '%s' '%s'", in(tmp, "set.part"),
                 in(tmp, "again.part"));
        ck_assert_int_eq(system(copy), 0);
        o.prefix = others[i].prefix, o.val_fraction = others[i].share;
        o.shard = others[i].shard;
        ck_assert_int_eq(build_with(in(tmp, "again"), &o, 1, &why), FAIL_INTERRUPTED);
        ck_assert_msg((*stands > 0.4) == (i == 0), "another %s: it stands at %g",
                      others[i].what, *stands);
        snprintf(copy, sizeof copy, "rm -rf '%s'", in(tmp, "again.part"));
        ck_assert_int_eq(system(copy), 0);
    }
}
END_TEST

/* ---- damage ---- */

/* Replace `from` by `to` in a file of the dataset, or write the file anew. */
static const struct { const char *file, *from, *to; bool opens; } damage[] = {
    {"dataset.json", NULL, "", false},
    {"dataset.json", NULL, "[]", false},
    {"dataset.json", NULL, "{\"version\": 1}", false},
    {"dataset.json", "\"version\": 1", "\"version\": 2", false},
    {"dataset.json", "\"version\": 1", "\"version\": 1, \"version\": 1", false},
    {"dataset.json", "\"version\": 1", "\"version\": 1, \"colour\": 1", false},
    {"dataset.json", "\"version\": 1", "\"version\": \"1\"", false},
    {"dataset.json", "\"kind\": \"bytes\"", "\"kind\": \"bpe\"", false},
    {"dataset.json", "\"vocab\": 257", "\"vocab\": 256", false},
    {"dataset.json", "\"vocab\": 257", "\"vocab\": -257", false},
    {"dataset.json", "\"vocab\": 257", "\"vocab\": 4294967553", false},
    {"dataset.json", "\"tokens\": ", "\"tokens\": 1", false},
    {"dataset.json", "\"tokens\": ", "\"tokens\": -", false},
    {"dataset.json", "\"documents\": 1", "\"documents\": 0", false},
    {"dataset.json", "\"invalid_bytes\": 0", "\"invalid_bytes\": -1", false},
    {"dataset.json", "\"invalid_bytes\": 0", "\"invalid_bytes\": 1", false},
    {"dataset.json", "\"floor_bpb\": null", "\"floor_bpb\": -1.5", false},
    {"dataset.json", "\"floor_bpb\": null", "\"floor_bpb\": \"low\"", false},
    {"dataset.json", "\"fingerprint\": \"", "\"fingerprint\": \"0", false},
    {"dataset.json", "\"val.tok.zst\": \"", "\"val.tok.zst\": \"-", false},
    {"dataset.json", "\"val.tok.zst\"", "\"else.tok.zst\"", false},
    {"tokenizer.model", NULL, "weft-bites", false},
    {"tokenizer.model", NULL, "", false},
    {"train.tok.zst", NULL, "", false},
    {"train.tok.zst", "\x5e\x2a\x4d\x18", "\x5f\x2a\x4d\x18", false},
    {"train.tok.zst", "\x28\xb5\x2f\xfd", "\x28\xb5\x2f\xfc", true},
    {"val.tok.zst", "\x28\xb5\x2f\xfd", "\x28\xb5\x2f\xfe", true},
};

static void do_damage(const char *dir, const char *name, const char *from, const char *to)
{
    char      *bytes, *at, *out;
    size_t     len, head;
    struct why why;

    if (!from) {
        put(dir, name, to, strlen(to));
        return;
    }
    ck_assert_int_eq(file_read(in(dir, name), 1 << 20, &bytes, &len, &why), 0);
    at = memmem(bytes, len, from, strlen(from));
    ck_assert_msg(at != NULL, "%s: no '%s' to damage", name, from);
    head = (size_t)(at - bytes);
    out = malloc(len + strlen(to));
    memcpy(out, bytes, head);
    memcpy(out + head, to, strlen(to));
    memcpy(out + head + strlen(to), at + strlen(from), len - head - strlen(from));
    put(dir, name, out, len + strlen(to) - strlen(from));
    free(out);
    free(bytes);
}

START_TEST(damage_is_noticed)
{
    const char    *tmp = rig_tmp(), *dir = in(tmp, "set"), *name = damage[_i].file;
    char          *text = make_text(6);
    struct dataset d;
    struct why     why;
    int            code;

    build_ok(dir, put(tmp, "a.txt", text, strlen(text)), "bytes", 0);
    do_damage(dir, name, damage[_i].from, damage[_i].to);
    code = dataset_open(&d, dir, &why);
    if (!code)
        dataset_close(&d);
    ck_assert_msg(code == (damage[_i].opens ? 0 : FAIL_INPUT), "open: %d", code);
    code = dataset_verify(dir, &why);
    ck_assert_msg(code == FAIL_INPUT, "verify: %d", code);
    ck_assert_msg(strstr(why.line, dir) != NULL, "%s", why.line);
    free(text);
}
END_TEST

START_TEST(another_datasets_shard_is_noticed)
{
    const char *tmp = rig_tmp(), *one = in(tmp, "one"), *two = in(tmp, "two");
    char       *text = make_text(7), *bytes;
    size_t      len;
    struct why  why;

    build_ok(one, put(tmp, "a.txt", text, strlen(text)), "bytes", 0);
    text[0] ^= 1;
    build_ok(two, put(tmp, "a.txt", text, strlen(text)), "bytes", 0);
    ck_assert_int_eq(file_read(in(one, "train.tok.zst"), 1 << 20, &bytes, &len, &why), 0);
    put(two, "train.tok.zst", bytes, len);
    ck_assert_int_eq(dataset_verify(two, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, "hash") != NULL, "%s", why.line);
    free(bytes);
    free(text);
}
END_TEST

/* ---- yardsticks ---- */

START_TEST(the_order_2_yardstick_is_exact)
{
    static struct order2 o;
    double               none = (4.0 / 256) / (6 + 4), seen;

    ck_assert(order2_open(&o));
    order2_learn(&o, "xya", 3, false);
    order2_learn(&o, "", 0, true);
    order2_learn(&o, "xyb", 3, true);
    order2_measure(&o, "x", 1, false);
    order2_measure(&o, "y", 1, true);
    order2_measure(&o, "q", 1, true);
    // x: 2 of 6, 2 of 2 after \0 and after \0\0; y: the same after x; q: never
    seen = (2 + 4 * ((2 + 4 * ((2 + 4.0 / 256) / 10)) / (2 + 4))) / (2 + 4);
    none = 4 * (4 * none / (2 + 4)) / (2 + 4);
    ck_assert_double_eq_tol(order2_bits(&o), -(2 * log2(seen) + log2(none)) / 3, 1e-12);
    order2_close(&o);
}
END_TEST

START_TEST(the_order_2_yardstick_is_no_use_on_text_never_seen)
{
    const char    *tmp = rig_tmp(), *dir = in(tmp, "set");
    char          *text = make_text(9);
    size_t         len = strlen(text), from = len - len / 10;
    struct dataset d;

    build_ok(in(tmp, "same"), put(tmp, "a.txt", text, len), "bytes", 0);
    for (size_t i = from; i < len; i++)
        text[i] = (char)('0' + i * i / 7 % 10);
    build_ok(dir, put(tmp, "b.txt", text, len), "bytes", 0);
    open_ok(&d, in(tmp, "same"));
    ck_assert(d.order2_bpb > 1 && d.order2_bpb < 3);
    dataset_close(&d);
    open_ok(&d, dir);
    ck_assert_msg(d.order2_bpb > 8, "%g bits", d.order2_bpb);
    dataset_close(&d);
    free(text);
}
END_TEST

static void unheard(void *user, double done)
{
    (void)user, (void)done;
}

START_TEST(the_zstd_yardstick_is_that_of_zstd_19)
{
    static struct yardstick y;

    char  *text = make_text(8), *packed = malloc(2 * TEXT);
    size_t len = strlen(text), whole = ZSTD_compress(packed, 2 * TEXT, text, len, 19);

    ck_assert(yardstick_open(&y));
    for (size_t at = 0; at < len; at += 1000)
        yardstick_add(&y, text + at, len - at < 1000 ? len - at : 1000, false);
    ck_assert_double_eq_tol(yardstick_zstd(&y, unheard, NULL),
                            8.0 * (double)whole / (double)len, 0.002);
    yardstick_close(&y);
    free(packed);
    free(text);
}
END_TEST

START_TEST(the_floor_of_stories_is_exact)
{
    enum { STORIES = 300 };

    const char    *tmp = rig_tmp(), *dir = in(tmp, "set");
    char          *text = malloc(STORIES * (STORY_MAX + 20));
    size_t         len = 0, end[STORIES + 1] = {0};
    double         bits[STORIES], sum = 0;
    struct dataset d;

    for (uint64_t i = 0; i < STORIES; i++) {
        struct rng r = rng_open(1, RNG_STORY, i);
        size_t     n = story_write(&r, text + len, STORY_MAX, &bits[i]);

        text[len + n++] = '\n';
        end[i + 1] = end[i] + n;
        len += n + (size_t)sprintf(text + len + n, "%s", mark);
    }
    if (_i)
        len += (size_t)sprintf(text + len, "This is no story.\n");
    build_ok(dir, put(tmp, "a.txt", text, len), "bytes", 0);
    open_ok(&d, dir);
    for (int i = 0; i < STORIES; i++)
        if (end[i] >= d.train.bytes)
            sum += bits[i];
    ck_assert_double_eq_tol(d.floor_bpb, _i ? 0 : sum / (double)d.val.bytes, 1e-6);
    dataset_close(&d);
    free(text);
}
END_TEST

START_TEST(a_sample_is_even_and_bounded)
{
    static char   piece[SAMPLE_STRETCH];
    struct sample s = {0};
    uint64_t      pos = 0, gap = 0, before = 0, size = 90u << 20;

    for (size_t n; pos < size; pos += n) {
        n = 1 + (size_t)(pos * 7919 % (sizeof piece / 4));
        memset(piece, (int)(pos >> 20), n);
        ck_assert_int_eq(sample_add(&s, pos, piece, n), 0);
    }
    ck_assert_uint_le(s.used, SAMPLE_MAX);
    ck_assert_uint_ge(s.used, SAMPLE_MAX / 4);
    for (size_t i = 0; i < s.n; i++) {
        gap = s.slice[i].pos - before > gap ? s.slice[i].pos - before : gap;
        before = s.slice[i].pos;
        ck_assert_int_eq(s.text[s.slice[i].at], (char)(s.slice[i].pos >> 20));
    }
    ck_assert_uint_le(gap, (s.stride + 1) * SAMPLE_STRETCH);
    ck_assert_uint_le(size - before, (s.stride + 1) * SAMPLE_STRETCH);
    sample_cut(&s, size / 2);
    ck_assert_uint_le(s.slice[s.n - 1].pos + s.slice[s.n - 1].len, size / 2);
    sample_free(&s);
}
END_TEST

/* Three bytes a character: no cut at a multiple of anything is between two. */
START_TEST(a_sample_is_never_cut_inside_a_character)
{
    static const char line[] = "\u4eba\u4eba\u4eba\u4eba";
    struct sample     s = {0};

    ck_assert_int_eq(sample_add(&s, 0, line, 12), 0);
    for (uint64_t at = 11; at > 0; at--) {
        sample_cut(&s, at);
        ck_assert_uint_eq(s.slice[s.n - 1].len, at / 3 * 3);
    }
    sample_free(&s);
    for (size_t max = 1; max < 12; max++)
        ck_assert_uint_eq(text_slice(line, 12, max), max / 3 * 3);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("dataset");
    TCase *tc = tcase_create("dataset");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, the_vocabulary_grows_with_the_text, 0, ROWS(vocabs));
    tcase_add_loop_test(tc, a_text_comes_back_from_its_tokens, 0, ROWS(kinds));
    tcase_add_test(tc, a_prefix_stands_before_every_document);
    tcase_add_test(tc, building_again_on_other_threads_gives_the_same_bytes);
    tcase_add_loop_test(tc, every_form_of_input_gives_the_same_documents, 0, ROWS(forms));
    tcase_add_test(tc, many_small_documents_and_a_large_one_keep_their_order);
    tcase_add_loop_test(tc, bytes_that_are_not_utf8_are_kept_and_counted, 0, 2);
    tcase_add_loop_test(tc, what_cannot_be_built_is_said_and_leaves_nothing, 0,
                        ROWS(refused));
    tcase_add_loop_test(tc, validation_begins_near_its_share_where_something_ends, 0,
                        ROWS(cuts));
    tcase_add_test(tc, validation_text_of_its_own_leaves_the_inputs_to_training);
    tcase_add_test(tc, validation_text_that_stands_in_training_is_counted);
    tcase_add_test(tc, beyond_a_million_lines_an_even_sample_is_counted);
    tcase_add_test(tc, a_mix_has_the_tokens_and_the_weight_of_every_input);
    tcase_add_loop_test(tc, a_mix_that_cannot_be_is_refused, 0, ROWS(bad_mixes));
    tcase_add_test(tc, an_existing_directory_is_not_touched);
    tcase_add_test(tc, two_bytes_are_a_dataset);
    tcase_add_test(tc, a_stopped_build_leaves_nothing);
    tcase_add_loop_test(tc, a_killed_build_goes_on_and_gives_the_same_bytes, 0,
                        ROWS(long_builds));
    tcase_add_test(tc, progress_goes_from_phase_to_phase_and_forward);
    tcase_add_test(tc, a_stopped_build_keeps_what_stands_for_the_same_text_alone);
    tcase_add_test(tc, other_options_do_not_go_on_with_what_a_stopped_build_left);
    tcase_add_loop_test(tc, damage_is_noticed, 0, ROWS(damage));
    tcase_add_test(tc, another_datasets_shard_is_noticed);
    tcase_add_test(tc, the_order_2_yardstick_is_exact);
    tcase_add_test(tc, the_order_2_yardstick_is_no_use_on_text_never_seen);
    tcase_add_test(tc, the_zstd_yardstick_is_that_of_zstd_19);
    tcase_add_loop_test(tc, the_floor_of_stories_is_exact, 0, 2);
    tcase_add_test(tc, a_sample_is_even_and_bounded);
    tcase_add_test(tc, a_sample_is_never_cut_inside_a_character);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
