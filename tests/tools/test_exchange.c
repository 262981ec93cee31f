/* Models out of weft and back: the same bits, what is refused, and files that lie. */
#include "data/base/file.h"
#include "data/base/json.h"
#include "infer/verbs.h"
#include "model/files/checkpoint.h"
#include "tests/support/rig.h"
#include "tests/support/spawn.h"
#include "tools/exchange/exchange.h"
#include "tools/exchange/gguf.h"
#include "tools/verbs.h"
#include "train/train_verb.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS(table) (int)(sizeof table / sizeof *table)

/* The directory of this test, which runs in a process of its own. */
static const char *home(void)
{
    static const char *tmp;

    return tmp ? tmp : (tmp = rig_tmp());
}

static const char *dir(const char *name)
{
    static char path[4][PATH_MAX];
    static int  turn;

    turn = (turn + 1) % 4;
    return path_join(path[turn], PATH_MAX, home(), name);
}

/* Run a verb whose line has % before names in the test's directory. */
static const struct ran *run(int (*verb)(int, char **), const char *line)
{
    char full[3000], *to = full;

    for (const char *p = line; *p; p++)
        if (*p == '%')
            to += sprintf(to, "%s/", home());
        else
            *to++ = *p;
    *to = 0;
    return spawn_verb(verb, full, "");
}

static void need(int (*verb)(int, char **), const char *line)
{
    const struct ran *r = run(verb, line);

    ck_assert_msg(r->code == 0, "%s: exit %d: %s", line, r->code, r->err);
}

static void make_run(const char *name, const char *entry, const char *settings)
{
    char line[512];

    snprintf(line, sizeof line, "%%%s %s %s", name, entry, settings);
    need(spawn_checkpoint, line);
}

static void assert_same_file(const char *a, const char *b, const char *name)
{
    char       x[PATH_MAX], y[PATH_MAX];
    uint64_t   h, i, n;
    struct why why;

    ck_assert_msg(!file_hash(path_join(x, sizeof x, dir(a), name), &h, &n, &why) &&
                      !file_hash(path_join(y, sizeof y, dir(b), name), &i, &n, &why),
                  "%s", why.line);
    ck_assert_msg(h == i, "%s of %s is not that of %s", name, b, a);
}

/* ---- there and back ---------------------------------------------------------------- */

static const struct trip {
    const char *to, *mixers, *settings, *form;
} trips[] = {
    {"hf", "softmax", "tied=1", "LlamaForCausalLM"},
    {"hf", "softmax+rope(base=5e5)", "eps=1e-6 kv_heads=2", "LlamaForCausalLM"},
    {"hf", "softmax(window=8)", "", "MistralForCausalLM"},
    {"hf", "softmax(window=8)/softmax", "", "MinistralForCausalLM"},
    {"hf", "softmax(qk_norm=1)/softmax(qk_norm=1,window=4)", "", "Qwen3ForCausalLM"},
    {"hf", "softmax(sink=1)/softmax(window=8)+none", "", "GraniteSWAForCausalLM"},
    {"hf", "gla", "", "GLAForCausalLM"},
    {"hf", "gla(conv=4,dk=6,dv=10)", "", "GLAForCausalLM"},
    {"hf", "softmax(window=1/8)/gla", "kv_heads=2", "GLAForCausalLM"},
    {"hf", "softmax(window=1/8)/gla(heads=2)", "kv_heads=2", "GLAForCausalLM"},
    {"hf", "softmax(window=1/8)/deltanet", "", "GatedDeltaNetForCausalLM"},
    {"hf", "deltanet(neg_eig=1,expand_v=2)", "tied=1", "GatedDeltaNetForCausalLM"},
    {"hf", "retention(expand_v=2)", "", "RetNetForCausalLM"},
    {"hf", "ssd(state=16)", "", "BambaForCausalLM"},
    {"gguf", "softmax", "tied=1 prefix=\"~\"", "GGUF llama"},
    {"gguf", "softmax", "kv_heads=2 eps=1e-6", "GGUF llama"},
    {"gguf", "softmax(qk_norm=1)", "", "GGUF qwen3"},
    {"gguf", "softmax(window=8)/softmax(sink=1)+none", "", "GGUF granite_swa"},
    {"llama2c", "softmax", "tied=1", "llama2.c version 0"},
    {"llama2c", "softmax", "kv_heads=2", "llama2.c version 0"},
};

START_TEST(export_and_import_give_the_same_bits_and_settings)
{
    const struct trip *t = &trips[_i];
    char               line[256];
    const struct ran  *r;

    make_run("run", t->mixers, t->settings);
    snprintf(line, sizeof line, "export %%run --to %s --out %%out", t->to);
    r = run(export_main, line);
    ck_assert_msg(r->code == 0, "%s: %s", t->mixers, r->err);
    ck_assert_msg(strstr(r->out, t->form) != NULL, "%s: %s", t->mixers, r->out);
    need(import_main, "import %out --out %back");
    assert_same_file("run", "back", "config.json");
    assert_same_file("run", "back", "model.safetensors");
    assert_same_file("run", "back", "tokenizer.model");
}
END_TEST

/* The largest difference of weights between two runs, over the largest weight. */
static double difference(const char *a, const char *b)
{
    struct model      x, y;
    struct tokenizer *t, *u;
    struct why        why;
    double            most = 0, large = 0;

    ck_assert_msg(!checkpoint_load(dir(a), &x, &t, NULL, 0, &why) &&
                      !checkpoint_load(dir(b), &y, &u, NULL, 0, &why), "%s", why.line);
    ck_assert_uint_eq(x.n, y.n);
    for (size_t i = 0; i < x.n; i++) {
        most = fmax(most, fabs((double)(x.w[i] - y.w[i])));
        large = fmax(large, fabs((double)x.w[i]));
    }
    model_close(&x), model_close(&y);
    tokenizer_free(t), tokenizer_free(u);
    return most / large;
}

static const struct { const char *line; double most; } types[] = {
    {"export %run --to gguf --type f16 --out %out", 0x1p-11},
    {"export %run --to gguf --type bf16 --out %out", 0x1p-8},
    {"export %run --to gguf --type q8_0 --out %out", 1 / 250.},
    {"export %run --to hf --type f16 --out %out", 0x1p-11},
    {"export %run --to hf --type bf16 --out %out", 0x1p-8},
};

START_TEST(fewer_bits_come_back_as_near_as_they_can)
{
    double d;

    make_run("run", "softmax", "tied=1");
    need(export_main, types[_i].line);
    need(import_main, "import %out --out %back");
    d = difference("run", "back");
    ck_assert_msg(d > 0 && d <= types[_i].most, "%s: %g", types[_i].line, d);
}
END_TEST

static const struct { const char *mixers, *settings, *to; const char *words; } refused[] =
{
    {"mlstm", "", "hf", "no class of transformers or fla computes mlstm"},
    {"gla", "", "gguf", "--to hf knows some of the others"},
    {"softmax(window=8)", "", "llama2c", "--to gguf or hf have more"},
    {"softmax", "eps=1e-6", "llama2c", "llama2.c has 1e-5"},
    {"softmax+rope(base=5e5)", "", "llama2c", "base 10000"},
    {"softmax(window=8)/softmax(window=4)", "", "hf", "windows of two sizes"},
    {"softmax+srope", "", "gguf", "srope"},
    {"softmax(qk_norm=1,sink=1)", "", "hf", "qk_norm and sinks"},
    {"softmax(qk_norm=1)/softmax", "", "hf", "only some of its layers"},
    {"softmax(qk_norm=1,window=4)", "", "gguf", "qwen3 has no windows"},
    {"gla(rank=8)", "", "hf", "rank 16"},
    {"gla+rope", "", "hf", "no rotation"},
    {"gla/deltanet", "", "hf", "no class of others mixes"},
    {"gla(heads=2)/gla", "", "hf", "no class of others mixes"},
    {"softmax(heads=2)", "", "hf", "heads of their own"},
    {"softmax(heads=2)/gla", "", "hf", "heads of their own"},
    {"softmax/softmax(kv_heads=1)", "kv_heads=2", "gguf", "heads of their own"},
    {"softmax(heads=32)+none", "", "gguf", "heads of their own"},
    {"softmax(heads=2)", "", "llama2c", "heads of their own"},
    {"softmax+none/ssd", "", "hf", "no class of transformers"},
    {"softmax", "prefix=ab", "gguf", "a space before a text"},
    {"softmax", "prefix=ab", "llama2c", "a space before a text"},
    {"softmax", "", "hf --type q8_0", "q8_0 is llama.cpp's"},
    {"softmax", "", "llama2c --type f16", "run.c reads f32 only"},
    {"softmax", "", "hf --type f8", "not one of f32, f16, bf16, q8_0"},
    {"softmax", "", "onnx", "not one of hf, gguf, llama2c"},
};

START_TEST(what_cannot_go_there_is_refused_with_the_reason)
{
    char line[256];

    make_run("run", refused[_i].mixers, refused[_i].settings);
    snprintf(line, sizeof line, "export %%run --to %s --out %%out", refused[_i].to);
    spawn_refused(run(export_main, line), line, 2, refused[_i].words);
    ck_assert(!path_exists(dir("out")));
}
END_TEST

START_TEST(an_existing_directory_is_not_replaced)
{
    make_run("run", "softmax", "");
    need(export_main, "export %run --to gguf --out %out");
    spawn_refused(run(export_main, "export %run --to hf --out %out"), "export", 2,
                  "exists already");
    spawn_refused(run(import_main, "import %out --out %run"), "import", 2,
                  "exists already");
}
END_TEST

/* README.md of an export; the caller frees. */
static char *card(const char *out)
{
    char       path[PATH_MAX], *text;
    size_t     len;
    struct why why;

    ck_assert(!file_read(path_join(path, sizeof path, dir(out), "README.md"), 1 << 20,
                         &text, &len, &why));
    return text;
}

START_TEST(the_card_says_what_the_model_is)
{
    char *text;

    make_run("run", "softmax", "kv_heads=2");
    need(export_main, "export %run --to gguf --out %out");
    text = card("out");
    ck_assert_ptr_nonnull(strstr(text, "GGUF llama, f32"));
    ck_assert_ptr_nonnull(strstr(text, "| `kv_heads` | `2` |"));
    ck_assert_ptr_nonnull(strstr(text, "after token 256"));
    ck_assert_ptr_nonnull(strstr(text, "weft export run --to gguf --type f32"));
    free(text);
    need(export_main, "export %run --to llama2c --out %other");
    text = card("other");
    ck_assert_ptr_nonnull(strstr(text, "after token 1 and"));
    free(text);
}
END_TEST

/* ---- where others look ------------------------------------------------------------- */

enum { WIDTH = 32, HEAD = 8 };              // of spawn_checkpoint's models

/* Row r of parameter `name` of the run. */
static void weft_row(float *row, const char *name, int r)
{
    struct model      m;
    struct tokenizer *t;
    struct why        why;

    ck_assert(!checkpoint_load(dir("run"), &m, &t, NULL, 0, &why));
    for (int i = 0; i < m.n_param; i++)
        for (int j = 0; j < WIDTH && !strcmp(m.param[i].name, name); j++)
            row[j] = (float)m.w[m.param[i].at + (size_t)r * WIDTH + j];
    model_close(&m);
    tokenizer_free(t);
}

static void assert_row(const void *bytes, const char *name, int r)
{
    float want[WIDTH];

    weft_row(want, name, r);
    ck_assert_msg(!memcmp(bytes, want, sizeof want), "not row %d of %s", r, name);
}

/* llama.cpp's llama turns the pairs 2j, 2j + 1, weft j, j + HEAD / 2. */
START_TEST(gguf_has_the_rows_of_queries_in_pairs)
{
    struct mapped f;
    struct gguf   g;
    struct why    why;
    char          path[PATH_MAX];
    int           seen = 0;

    make_run("run", "softmax", "kv_heads=2");
    need(export_main, "export %run --to gguf --out %out");
    path_join(path, sizeof path, dir("out"), "model.gguf");
    ck_assert(!map_open(&f, path, &why) && !gguf_parse(&g, f.bytes, f.len, path, &why));
    for (int i = 0; i < g.tensors.n; i++) {
        const struct foreign *t = &g.tensors.tensor[i];
        const float          *w = t->data;

        if (!strcmp(t->name, "blk.1.attn_q.weight")) {
            assert_row(w + WIDTH, "blocks.1.mixer.wq", HEAD / 2);
            assert_row(w + (HEAD + 2) * WIDTH, "blocks.1.mixer.wq", HEAD + 1);
            seen++;
        }
        if (!strcmp(t->name, "blk.1.attn_v.weight")) {
            assert_row(w + WIDTH, "blocks.1.mixer.wv", 1);
            seen++;
        }
    }
    ck_assert_int_eq(seen, 2);
    gguf_close(&g);
    map_close(&f);
}
END_TEST

/* run.c begins documents with token 1, and bytes are tokens from 3 on. */
START_TEST(llama2c_has_the_tokens_where_run_c_looks)
{
    struct mapped f;
    struct why    why;
    char          path[PATH_MAX];
    const size_t  row = WIDTH * sizeof(float);

    make_run("run", "softmax", "");
    need(export_main, "export %run --to llama2c --out %out");
    path_join(path, sizeof path, dir("out"), "model.bin");
    ck_assert(!map_open(&f, path, &why));
    assert_row(f.bytes + 28 + row, "embed", 256);
    assert_row(f.bytes + 28 + ('a' + 3) * row, "embed", 'a');
    map_close(&f);
}
END_TEST

/* ---- as others write them ---------------------------------------------------------- */

static json_t *read_config(char *path, size_t cap, const char *name)
{
    json_t    *j;
    struct why why;

    path_join(path, cap, dir("out"), name);
    ck_assert_msg(!json_read(&j, path, 1 << 24, "", &why), "%s", why.line);
    return j;
}

static void write_config(const char *path, json_t *j)
{
    struct why why;

    ck_assert(!json_write(path, j, JSON_REAL_PRECISION(17), &why));
}

static const char *const foreign[] = {
    "softmax", "softmax(window=8)", "softmax(window=8)/softmax", "softmax(qk_norm=1)",
    "softmax+rope(base=500000)",
};

/* Without weft's own settings the same model comes from transformers' keys alone. */
START_TEST(a_directory_of_transformers_is_read_from_its_own_keys)
{
    char    path[PATH_MAX];
    json_t *j;

    make_run("run", foreign[_i], "kv_heads=2 eps=1e-6");
    need(export_main, "export %run --to hf --out %out");
    j = read_config(path, sizeof path, "config.json");
    json_object_del(j, "weft");
    write_config(path, j);
    need(import_main, "import %out --out %back");
    assert_same_file("run", "back", "config.json");
    assert_same_file("run", "back", "model.safetensors");
}
END_TEST

/* A key as a GGUF has it. */
static void put_key(FILE *f, const char *name, uint32_t type, const void *value,
                    size_t size)
{
    uint64_t len = strlen(name);

    fwrite(&len, 8, 1, f);
    fwrite(name, 1, len, f);
    fwrite(&type, 4, 1, f);
    fwrite(value, 1, size, f);
}

static void rename_key(char *bytes, size_t len, const char *name)
{
    char *at = memmem(bytes, len, name, strlen(name));

    if (at)
        *at = 'x';
}

/* out/model.gguf as another program may write it: without weft's settings, and with this
 * value of a key in place of its own; size 0: without the key; NULL: only the former. A
 * second key fills up to 32 bytes, to which the tensors are aligned. */
static void edit_gguf(const char *name, uint32_t type, const void *value, size_t size)
{
    char       path[PATH_MAX], *bytes, filler[8 + 32] = {0};
    size_t     len, used;
    uint64_t   keys;
    FILE      *f;
    struct why why;

    path_join(path, sizeof path, dir("out"), "model.gguf");
    ck_assert(!file_read(path, 1 << 26, &bytes, &len, &why));
    rename_key(bytes, len, "weft.settings");
    ck_assert_ptr_nonnull(memmem(bytes, len, "xeft.settings", 13));
    if (name)
        rename_key(bytes, len, name);
    memcpy(&keys, bytes + 16, 8);
    keys += size ? 2 : 0;
    f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    fwrite(bytes, 1, 16, f);
    fwrite(&keys, 8, 1, f);
    if (size) {
        used = 8 + strlen(name) + 4 + size + 8 + 1 + 4 + 8;
        filler[0] = (char)(31 - (used + 31) % 32);
        put_key(f, name, type, value, size);
        put_key(f, "x", GGUF_STRING, filler, 8 + (size_t)filler[0]);
    }
    fwrite(bytes + 24, 1, len - 24, f);
    ck_assert(!fclose(f));
    free(bytes);
}

static const char *const foreign_gguf[] = {
    "softmax", "softmax(qk_norm=1)", "softmax+rope(base=500000)",
    "softmax(window=8,sink=1)/softmax(sink=1)+none",
};

/* weft.settings under a name that nobody knows: llama.cpp's own keys say the same. */
START_TEST(a_gguf_is_read_from_its_own_keys)
{
    make_run("run", foreign_gguf[_i], "kv_heads=2 eps=1e-6");
    need(export_main, "export %run --to gguf --out %out");
    edit_gguf(NULL, 0, NULL, 0);
    need(import_main, "import %out --out %back");
    assert_same_file("run", "back", "config.json");
    assert_same_file("run", "back", "model.safetensors");
}
END_TEST

/* What an import says on stderr. */
static const char *told(const char *line)
{
    const struct ran *r = run(import_main, line);

    ck_assert_msg(r->code == 0, "%s: exit %d: %s", line, r->code, r->err);
    return r->err;
}

/* weft's own exports begin with its EOS, so that nothing is said of them. */
START_TEST(a_first_token_that_is_not_wefts_is_told)
{
    const char *words = "texts begin with token 1 there, with 256 in weft";
    char        path[PATH_MAX];
    json_t     *j;

    make_run("run", "softmax", "");
    need(export_main, "export %run --to gguf --out %out");
    ck_assert_str_eq(told("import %out --out %a"), "");
    edit_gguf("tokenizer.ggml.bos_token_id", GGUF_U32, &(uint32_t){1}, 4);
    ck_assert_ptr_nonnull(strstr(told("import %out --out %b"), words));
    edit_gguf("tokenizer.ggml.add_bos_token", GGUF_BOOL, &(uint8_t){0}, 1);
    ck_assert_str_eq(told("import %out --out %c"), "");
    ck_assert(!rename(dir("out"), dir("gguf")));
    need(export_main, "export %run --to hf --out %out");
    ck_assert_str_eq(told("import %out --out %d"), "");
    j = read_config(path, sizeof path, "config.json");
    json_object_set_new(j, "bos_token_id", json_integer(1));
    write_config(path, j);
    ck_assert_ptr_nonnull(strstr(told("import %out --out %e"), words));
}
END_TEST

/* Put the first `n` tensors of out/model.safetensors into one shard, the rest into
 * another, and write their index. */
static void split_weights(int n)
{
    static const char *const name[] = {"a.safetensors", "b.safetensors"};

    struct safetensors s;
    struct why         why;
    char               path[PATH_MAX], part[PATH_MAX];
    json_t            *map = json_object();

    path_join(path, sizeof path, dir("out"), "model.safetensors");
    ck_assert(!safetensors_open(&s, path, &why));
    for (int k = 0; k < 2; k++)
        ck_assert(!safetensors_write(path_join(part, sizeof part, dir("out"), name[k]),
                                     s.tensor + (k ? n : 0), k ? s.n - n : n, NULL, 0,
                                     &why));
    for (int i = 0; i < s.n; i++)
        json_object_set_new(map, s.tensor[i].name, json_string(name[i >= n]));
    safetensors_close(&s);
    unlink(path);
    write_config(path_join(path, sizeof path, dir("out"), "model.safetensors.index.json"),
                 json_pack("{s:o}", "weight_map", map));
}

START_TEST(shards_are_read_by_their_index)
{
    make_run("run", "softmax", "");
    need(export_main, "export %run --to hf --out %out");
    split_weights(5);
    need(import_main, "import %out --out %back");
    assert_same_file("run", "back", "model.safetensors");
}
END_TEST

static void write_text(const char *name, size_t bytes)
{
    char      *text = malloc(bytes);
    struct why why;

    for (size_t i = 0; i < bytes; i++)
        text[i] = "A small text, again and again.\n"[i % 31];
    ck_assert(!file_write(dir(name), text, bytes, &why));
    free(text);
}

START_TEST(an_imported_model_is_scored_and_streams_as_the_original)
{
    char *want;

    make_run("run", "softmax", "");
    need(export_main, "export %run --to llama2c --out %out");
    need(import_main, "import %out/model.bin --out %back");
    want = strdup(run(infer_main, "infer %run -p Hi -n 20 --seed 3")->out);
    ck_assert_str_eq(run(infer_main, "infer %back -p Hi -n 20 --seed 3")->out, want);
    free(want);
    write_text("text.txt", 400);
    want = strdup(run(score_main, "score %run %text.txt --per-token")->out);
    ck_assert_ptr_nonnull(strstr(want, "\"nats\":"));
    ck_assert_str_eq(run(score_main, "score %back %text.txt --per-token")->out, want);
    free(want);
}
END_TEST

/* With two query heads to a key head, which linear mixers have not. */
START_TEST(an_imported_model_is_trained_on_and_converted)
{
    const struct ran *r;
    char             *want;

    make_run("run", "softmax", "kv_heads=2");
    need(export_main, "export %run --to llama2c --out %out");
    need(import_main, "import %out --out %back");
    write_text("text.txt", 4000);
    need(train_main, "train %text.txt --from %back --arch gla --out %on steps=2 batch=1");
    need(score_main, "score %on %text.txt");
    r = run(lab_main, "lab convert --from %run --text %text.txt --brief --json --out %a "
                      "--arch luna,linear(feature=elu1)");
    ck_assert_msg(r->code == 0, "%s", r->err);
    ck_assert_ptr_nonnull(strstr(r->out, " luna converted 4 + 8 steps"));
    want = strdup(r->out);
    r = run(lab_main, "lab convert --from %back --text %text.txt --brief --json --out %b "
                      "--arch luna,linear(feature=elu1)");
    ck_assert_str_eq(r->out, want);
    free(want);
}
END_TEST

static const struct { const char *line, *words; } no_conversion[] = {
    {"lab convert --from %gla --brief --out %a", "no softmax to convert"},
    {"lab convert --from %run --text %short.txt --brief --out %a", "too short"},
    {"lab convert --from %run --text %none.txt --brief --out %a", "none.txt"},
    {"lab convert --from %none --brief --out %a", "none"},
    {"lab convert --text %short.txt --brief --out %a", "--text goes with --from"},
    {"lab copy --from %run --brief --out %a", "copy takes no --from"},
    {"lab all --from %run --brief --out %a", "name one experiment"},
};

START_TEST(what_cannot_be_converted_is_refused)
{
    const struct ran *r;

    make_run("run", "softmax", "");
    make_run("gla", "gla", "");
    write_text("short.txt", 40);
    r = run(lab_main, no_conversion[_i].line);
    ck_assert_msg(r->code == FAIL_USAGE || r->code == FAIL_INPUT, "exit %d", r->code);
    ck_assert_msg(strstr(r->err, no_conversion[_i].words) != NULL, "%s", r->err);
}
END_TEST

/* ---- files that lie ---------------------------------------------------------------- */

static const struct { const char *key, *value, *words; } lies[] = {
    {"model_type", "\"gpt2\"", "weft reads llama"},
    {"hidden_size", "0", "a size is missing or out of range"},
    {"hidden_size", "1e30", "a size is missing or out of range"},
    {"hidden_size", "65536", "heads of another width"},
    {"num_hidden_layers", "3", "numbers, too few"},
    {"num_hidden_layers", "1", "belongs to no part of the model"},
    {"num_attention_heads", "3", "heads of another width"},
    {"vocab_size", "16000000", "257 tokens where the model has 16000000"},
    {"num_key_value_heads", "3", "do not divide"},
    {"head_dim", "5", "heads of another width"},
    {"intermediate_size", "64", "not of the shape"},
    {"vocab_size", "256", "257 tokens where the model has 256"},
    {"rms_norm_eps", "-1", "a size is missing or out of range"},
    {"hidden_act", "\"gelu\"", "another activation"},
    {"attention_bias", "true", "biases"},
    {"rope_scaling", "{\"type\": \"linear\"}", "scaled rotation"},
    {"tie_word_embeddings", "true", "lm_head.weight belongs to no part"},
};

START_TEST(a_config_that_lies_is_refused)
{
    char    path[PATH_MAX];
    json_t *j;

    make_run("run", "softmax", "");
    need(export_main, "export %run --to hf --out %out");
    j = read_config(path, sizeof path, "config.json");
    json_object_del(j, "weft");
    json_object_set_new(j, lies[_i].key,
                        json_loads(lies[_i].value, JSON_DECODE_ANY, NULL));
    write_config(path, j);
    spawn_refused(run(import_main, "import %out --out %back"), lies[_i].key, 3,
                  lies[_i].words);
    ck_assert(!path_exists(dir("back")));
}
END_TEST

/* One 32-bit number of the header of model.bin, and what it must give. */
static const struct { long at; int32_t value; const char *words; } headers[] = {
    {0, 0, "out of range"},           {0, -32, "out of range"},
    {0, 33, "do not divide"},         {4, 1 << 30, "out of range"},
    {8, 1 << 20, "out of range"},     {8, 3, "where its header means"},
    {12, 0, "out of range"},          {12, 5, "do not divide"},
    {16, 3, "do not divide"},         {20, INT32_MIN, "out of range"},
    {20, 257, "where its header"},    {24, INT32_MAX, "out of range"},
    {24, 33, "where its header"},     {0, 0x616b3432, "version"},
};

START_TEST(a_header_of_llama2c_that_lies_is_refused)
{
    char  path[PATH_MAX];
    FILE *f;

    make_run("run", "softmax", "");
    need(export_main, "export %run --to llama2c --out %out");
    f = fopen(path_join(path, sizeof path, dir("out"), "model.bin"), "r+b");
    ck_assert(f && !fseek(f, headers[_i].at, SEEK_SET));
    fwrite(&headers[_i].value, 4, 1, f);
    fclose(f);
    spawn_refused(run(import_main, "import %out --out %back"), "import", 3,
                  headers[_i].words);
}
END_TEST

#define BYTES(text) text, sizeof text - 1

/* Keys that change what is computed, in a stack of two layers. */
static const struct {
    const char *mixers, *key;
    uint32_t    type;
    const char *value;
    size_t      size;
    const char *words;
} asks[] = {
    {"softmax", "llama.rope.scale_linear", GGUF_F32, BYTES("\0\0\x80\x40"),
     "rotation is scaled"},
    {"softmax", "llama.attention.scale", GGUF_F32, BYTES("\0\0\0\x3f"), "a scale of"},
    {"softmax(window=8)", "granite_swa.attention.scale", GGUF_F32,
     BYTES("\0\0\0\x3f"), "a scale of"},
    {"softmax(window=8)", "granite_swa.attention.sliding_window_pattern", 0, NULL, 0,
     "one value for each of the 2 layers"},
    {"softmax(window=8)", "granite_swa.attention.sliding_window_pattern", GGUF_U32,
     BYTES("\2\0\0\0"), "one value for each of the 2 layers"},
    {"softmax(window=8)", "granite_swa.attention.rope_pattern", 0, NULL, 0,
     "one value for each of the 2 layers"},
    {"softmax(window=8)", "granite_swa.attention.rope_pattern", GGUF_ARRAY,
     BYTES("\7\0\0\0\1\0\0\0\0\0\0\0\1"), "one value for each of the 2 layers"},
    {"softmax(window=8)", "granite_swa.attention.sliding_window", 0, NULL, 0,
     "no size for them"},
    {"softmax", "llama.attention.head_count", GGUF_ARRAY,
     BYTES("\4\0\0\0\2\0\0\0\0\0\0\0\4\0\0\0\2\0\0\0"), "out of range"},
};

START_TEST(a_gguf_that_asks_for_more_than_weft_has_is_refused)
{
    make_run("run", asks[_i].mixers, "");
    need(export_main, "export %run --to gguf --out %out");
    edit_gguf(asks[_i].key, asks[_i].type, asks[_i].value, asks[_i].size);
    spawn_refused(run(import_main, "import %out --out %back"), asks[_i].key, 3,
                  asks[_i].words);
    ck_assert(!path_exists(dir("back")));
}
END_TEST

/* The bytes of an exported GGUF; the caller frees. */
static unsigned char *gguf_bytes(size_t *len)
{
    char       path[PATH_MAX], *bytes;
    struct why why;

    make_run("run", "softmax(window=8)", "");
    need(export_main, "export %run --to gguf --out %out");
    ck_assert(!file_read(path_join(path, sizeof path, dir("out"), "model.gguf"), 1 << 26,
                         &bytes, len, &why));
    return (unsigned char *)bytes;
}

static void assert_parse(const unsigned char *bytes, size_t len, bool may)
{
    unsigned char *exact = malloc(len + 1);     // what is behind it is not its own
    struct gguf    g;
    struct why     why;
    enum fail      err;

    memcpy(exact, bytes, len);
    exact = realloc(exact, len ? len : 1);
    err = gguf_parse(&g, exact, len, "x.gguf", &why);
    if (err != FAIL_INPUT && !(may && !err))
        ck_abort_msg("%zu bytes: %d", len, (int)err);
    if (!err)
        gguf_close(&g);
    free(exact);
}

START_TEST(a_gguf_cut_anywhere_is_refused)
{
    size_t         len;
    unsigned char *bytes = gguf_bytes(&len);

    for (size_t n = 0; n < len - 32; n += n < 400 ? 1 : 997)
        assert_parse(bytes, n, false);
    assert_parse(bytes, len, true);
    free(bytes);
}
END_TEST

START_TEST(a_gguf_with_any_byte_changed_is_read_or_refused)
{
    size_t         len;
    unsigned char *bytes = gguf_bytes(&len);

    for (size_t at = 0; at < 20000 && at < len; at += at < 2000 ? 1 : 37) {
        unsigned char was = bytes[at];

        bytes[at] = 0xff;
        assert_parse(bytes, len, true);
        bytes[at] = was ^ 1;
        assert_parse(bytes, len, true);
        bytes[at] = was;
    }
    free(bytes);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("exchange");
    TCase *tc = tcase_create("exchange");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, export_and_import_give_the_same_bits_and_settings, 0,
                        ROWS(trips));
    tcase_add_loop_test(tc, fewer_bits_come_back_as_near_as_they_can, 0, ROWS(types));
    tcase_add_loop_test(tc, what_cannot_go_there_is_refused_with_the_reason, 0,
                        ROWS(refused));
    tcase_add_test(tc, an_existing_directory_is_not_replaced);
    tcase_add_test(tc, the_card_says_what_the_model_is);
    tcase_add_loop_test(tc, a_directory_of_transformers_is_read_from_its_own_keys, 0,
                        ROWS(foreign));
    tcase_add_loop_test(tc, a_gguf_is_read_from_its_own_keys, 0, ROWS(foreign_gguf));
    tcase_add_test(tc, a_first_token_that_is_not_wefts_is_told);
    tcase_add_loop_test(tc, a_gguf_that_asks_for_more_than_weft_has_is_refused, 0,
                        ROWS(asks));
    tcase_add_test(tc, gguf_has_the_rows_of_queries_in_pairs);
    tcase_add_test(tc, llama2c_has_the_tokens_where_run_c_looks);
    tcase_add_test(tc, shards_are_read_by_their_index);
    tcase_add_test(tc, an_imported_model_is_scored_and_streams_as_the_original);
    tcase_add_test(tc, an_imported_model_is_trained_on_and_converted);
    tcase_add_loop_test(tc, what_cannot_be_converted_is_refused, 0, ROWS(no_conversion));
    tcase_add_loop_test(tc, a_config_that_lies_is_refused, 0, ROWS(lies));
    tcase_add_loop_test(tc, a_header_of_llama2c_that_lies_is_refused, 0, ROWS(headers));
    tcase_add_test(tc, a_gguf_cut_anywhere_is_refused);
    tcase_add_test(tc, a_gguf_with_any_byte_changed_is_read_or_refused);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 1);
}
