/* Settings and entries of `mixers`: what is taken, what is refused and
 * with which words. */
#include "data/base/file.h"
#include "model/config.h"
#include "tests/support/rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one key ----------------------------------------------------------------------- */

static const struct { const char *key, *value, *words; } refused[] = {
    {"lauers", "4", "did you mean 'layers'"},
    {"zzzzzzzzz", "4", "unknown setting"},
    {"layers", "", "not a whole number"},
    {"layers", "four", "not a whole number"},
    {"layers", "4x", "not a whole number"},
    {"layers", "4.0", "not a whole number"},
    {"layers", "0", "out of range"},
    {"layers", "99999999999999999999", "out of range"},
    {"kv_heads", "-1", "out of range"},
    {"tied", "2", "out of range"},
    {"seed", "-1", "not a whole number"},
    {"seed", "18446744073709551616", "out of range"},
    {"steps", "1e3", "not a whole number"},
    {"lr", "fast", "not a number"},
    {"lr", "nan", "not a number"},
    {"lr", "inf", "out of range"},
    {"lr", "-0.1", "out of range"},
    {"lr", "1e-3 or so", "not a number"},
    {"beta2", "1", "out of range"},
    {"schedule", "linear", "not one of cosine|wsd"},
    {"optimiser", "sgd", "not one of adamw|muon"},
    {"precision", "fp8", "not one of f32|bf16"},
    {"schedule", "cos", "not one of"},
    {"schedule", "", "not one of"},
    {"tokenizer", "unigram|bpe", "not one of"},
    {"mixers", "", "give 1 to"},
    {"mixers", "soft\nmax", "control"},
    {"mixers", "softmax#", "'#'"},
    {"prefix", "\"x", "no '#', '\"' or control"},
    {"prefix", "x\"", "no '#', '\"' or control"},
    {"prefix", "\"", "no '#', '\"' or control"},
    {"prefix", "a#", "no '#', '\"' or control"},
    {"prefix", "a\xc3", "not UTF-8"},
    {"prefix", "\xc3\xa4\xa4", "not UTF-8"},
};

START_TEST(a_wrong_setting_is_refused_and_changes_nothing)
{
    struct config c, before;
    struct why    why;

    config_defaults(&c);
    before = c;
    ck_assert_int_eq(config_set(&c, refused[_i].key, refused[_i].value, &why),
                     FAIL_USAGE);
    ck_assert_msg(strstr(why.line, refused[_i].words) != NULL, "%s", why.line);
    ck_assert(!memcmp(&c, &before, sizeof c));
}
END_TEST

START_TEST(a_text_longer_than_its_field_is_refused)
{
    struct config c;
    struct why    why;
    char          text[sizeof c.mixers + 1];

    config_defaults(&c);
    memset(text, 'a', sizeof text);
    text[sizeof c.mixers] = '\0';
    ck_assert_int_eq(config_set(&c, "mixers", text, &why), FAIL_USAGE);
    text[sizeof c.mixers - 1] = '\0';
    ck_assert_int_eq(config_set(&c, "mixers", text, &why), FAIL_NONE);
    ck_assert_str_eq(c.mixers, text);
}
END_TEST

START_TEST(dashes_in_keys_are_underscores)
{
    struct config c;
    struct why    why;

    config_defaults(&c);
    ck_assert_int_eq(config_set(&c, "kv-heads", "2", &why), FAIL_NONE);
    ck_assert_int_eq(c.kv_heads, 2);
    ck_assert_ptr_eq(config_find("window-p"), config_find("window_p"));
    ck_assert_ptr_null(config_find("kv"));
    ck_assert_ptr_null(config_find("kv_heads_"));
}
END_TEST

/* Settings that differ from the defaults in every key. */
static void fill_all(struct config *c)
{
    *c = (struct config){
        .layers = 7,
        .width = 96,
        .heads = 6,
        .kv_heads = 3,
        .mlp = 192,
        .mixers = "softmax(window=1/8)+none/softmax",
        .tied = 0,
        .context = 100,
        .vocab = 257,
        .eps = 1e-6,
        .prefix = " = ",
        .batch = 3,
        .accumulate = 5,
        .recompute = 1,
        .lr = 0.1 + 0.2,
        .lr_end = 0.7,
        .schedule = "wsd",
        .warmup = 1.0 / 3,
        .optimiser = "muon", .products = "openblas", .precision = "bf16",
        .weight_decay = 1e-300,
        .clip = 4.9406564584124654e-324,
        .beta1 = 0.1,
        .beta2 = 0.2,
        .table_lr = 0.5,
        .transfer = 7,
        .embed_init = 3,
        .out_init = 0,
        .copy = 0.25,
        .seed = UINT64_MAX,
        .steps = 123456789012,
        .eval_every = 1,
        .checkpoint_every = 2,
        .sample_every = 3,
        .keep = 9,
        .patience = 4,
        .window_short = 8,
        .window_p = 0.7,
        .window_anneal = 0.3,
        .tokenizer = "bytes",
        .val_fraction = 0.123456789012345678,
        .threads = 2,
    };
}

static void assert_same(const struct config *a, const struct config *b)
{
    for (const struct key *k = config_keys; k->name; k++) {
        const char *x = (const char *)a + k->at, *y = (const char *)b + k->at;

        bool text = k->type == KEY_TEXT || k->type == KEY_QUOTED;

        ck_assert_msg(text ? !strcmp(x, y) : !memcmp(x, y, k->size), "%s", k->name);
    }
}

static char *printed(const struct config *c)
{
    char  *text = NULL;
    size_t len;
    FILE  *f = open_memstream(&text, &len);

    config_print(c, f);
    fclose(f);
    return text;
}

START_TEST(settings_survive_text_exactly)
{
    struct config a, b;
    struct why    why;
    char         *text;

    fill_all(&a);
    config_defaults(&b);
    text = printed(&a);
    ck_assert_msg(!config_parse(&b, text, "print", NULL, &why), "%s", why.line);
    assert_same(&a, &b);
    free(text);
}
END_TEST

/* Behind a value that is too long for that, after two blanks. */
START_TEST(what_settings_mean_is_printed_in_a_column)
{
    struct config c;
    char         *text, *next;

    fill_all(&c);
    text = printed(&c);
    for (const char *line = text; *line; line = next) {
        const char *comment = strchr(line, '#');

        next = strchr(line, '\n') + 1;
        ck_assert_msg(comment - line == 30 || (comment - line > 30 && comment[-3] != ' '),
                      "%.*s", (int)(next - line), line);
    }
    free(text);
}
END_TEST

START_TEST(settings_survive_json_exactly)
{
    struct config a, b;
    struct why    why;
    json_t       *j, *back;
    char         *text;

    fill_all(&a);
    config_defaults(&b);
    j = config_to_json(&a, -1);
    text = json_dumps(j, JSON_REAL_PRECISION(17));
    back = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(!config_from_json(&b, back, -1, "json", &why), "%s", why.line);
    assert_same(&a, &b);
    free(text);
    json_decref(j);
    json_decref(back);
}
END_TEST

START_TEST(every_key_has_its_own_place_and_a_meaning)
{
    for (const struct key *k = config_keys; k->name; k++) {
        ck_assert_msg(k->about && *k->about, "%s", k->name);
        for (const struct key *o = config_keys; o < k; o++)
            ck_assert_msg(o->at + o->size <= k->at || k->at + k->size <= o->at,
                          "%s and %s", o->name, k->name);
    }
}
END_TEST

START_TEST(the_defaults_are_values_that_may_be_set)
{
    struct config c, d;
    struct why    why;

    config_defaults(&c);
    d = c;
    for (const struct key *k = config_keys; k->name; k++) {
        char value[sizeof c.mixers];

        config_format(&c, k, value, sizeof value);
        ck_assert_msg(!config_set(&d, k->name, value, &why), "%s", why.line);
    }
    assert_same(&c, &d);
}
END_TEST

/* ---- JSON -------------------------------------------------------------------------- */

static const struct { const char *key, *json, *words; } bad_json[] = {
    {"layers", "\"4\"", "layers: give a whole number"},
    {"layers", "4.5", "layers: give a whole number"},
    {"layers", "true", "layers: give a whole number"},
    {"layers", "0", "out of range"},
    {"layers", NULL, "'layers' is missing"},
    {"mixers", "3", "mixers: give a string"},
    {"colour", "1", "unknown setting 'colour'"},
    {"lr", "0.1", "unknown setting 'lr'"},
    {"kv-heads", "1", "unknown setting 'kv-heads'"},
};

START_TEST(wrong_json_is_refused)
{
    struct config c;
    struct why    why;
    json_t       *j;

    fill_all(&c);
    j = config_to_json(&c, KEY_MODEL);
    if (bad_json[_i].json)
        json_object_set_new(j, bad_json[_i].key,
                            json_loads(bad_json[_i].json, JSON_DECODE_ANY, NULL));
    else
        json_object_del(j, bad_json[_i].key);
    ck_assert_int_eq(config_from_json(&c, j, KEY_MODEL, "config.json", &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, bad_json[_i].words) != NULL, "%s", why.line);
    ck_assert_msg(strstr(why.line, "config.json") != NULL, "%s", why.line);
    json_decref(j);
}
END_TEST

START_TEST(an_optional_key_is_left_out_at_its_default_and_may_be_missing)
{
    struct config c, d;
    struct why    why;
    json_t       *j;

    config_defaults(&d);
    d.vocab = 257;
    j = config_to_json(&d, KEY_MODEL);
    ck_assert_ptr_null(json_object_get(j, "eps"));
    ck_assert_ptr_null(json_object_get(j, "prefix"));
    fill_all(&c);
    ck_assert_msg(!config_from_json(&c, j, KEY_MODEL, "config.json", &why), "%s",
                  why.line);
    ck_assert_double_eq(c.eps, 1e-5);
    ck_assert_str_eq(c.prefix, "");
    json_decref(j);
}
END_TEST

START_TEST(a_quoted_text_keeps_its_blanks)
{
    struct config c;
    struct why    why;

    config_defaults(&c);
    ck_assert(!config_parse(&c, "prefix = \" \" # a blank", "text", NULL, &why));
    ck_assert_str_eq(c.prefix, " ");
    ck_assert(!config_set(&c, "prefix", "x", &why));
    ck_assert_str_eq(c.prefix, "x");
    ck_assert(!config_set(&c, "prefix", "a\xc3\xa4\xe2\x82\xac", &why));
    ck_assert_str_eq(c.prefix, "a\xc3\xa4\xe2\x82\xac");
    ck_assert(!config_set(&c, "prefix", "\"\"", &why));
    ck_assert_str_eq(c.prefix, "");
    ck_assert_int_eq(config_set(&c, "prefix", "a\nb", &why), FAIL_USAGE);
    ck_assert_int_eq(config_set(&c, "prefix", "\"a\"b\"", &why), FAIL_USAGE);
    ck_assert_int_eq(config_set(&c, "prefix", "0123456789012345678901234567890123", &why),
                     FAIL_USAGE);
}
END_TEST

/* ---- files ------------------------------------------------------------------------- */

static const char *preset(const char *name)
{
    if (!strcmp(name, "wide"))
        return "width = 256\n";
    if (!strcmp(name, "again"))
        return "include again\n";
    return strcmp(name, "broken") ? NULL : "\nwidth = wide\n";
}

START_TEST(a_file_may_have_comments_blanks_and_includes)
{
    struct config c;
    struct why    why;
    const char   *text = "# a comment\n\n  layers=3# so few\r\n\tinclude wide\n"
                         "heads   =  8\n"
                         "mixers = softmax(window=1/4) / softmax";

    config_defaults(&c);
    ck_assert_msg(!config_parse(&c, text, "text", preset, &why), "%s", why.line);
    ck_assert_int_eq(c.layers, 3);
    ck_assert_int_eq(c.width, 256);
    ck_assert_int_eq(c.heads, 8);
    ck_assert_str_eq(c.mixers, "softmax(window=1/4) / softmax");
}
END_TEST

static const struct { const char *text, *words; int code; } bad_text[] = {
    {"layers = 3\nlayers 4\n", "text:2: 'layers 4': write key = value", FAIL_USAGE},
    {"\n\nlayer = 3\n", "text:3: unknown setting 'layer'; did you mean 'layers'",
     FAIL_USAGE},
    {"layers = 3 4\n", "text:1: layers = 3 4: not a whole number", FAIL_USAGE},
    {"= 3\n", "text:1: unknown setting ''", FAIL_USAGE},
    {"layers = 2\nwidth = 8\nlayers = 2\n", "text:3: layers is given twice", FAIL_USAGE},
    {"kv_heads = 2\nkv-heads = 2\n", "text:2: kv_heads is given twice", FAIL_USAGE},
    {"include again\n", "more than 8 files inside each other", FAIL_USAGE},
    {"include broken\n", "text:1: broken:2: width = wide: not a whole number",
     FAIL_USAGE},
    {"\ninclude no-such-file.cfg\n", "text:2: no-such-file.cfg", FAIL_INPUT},
};

START_TEST(a_wrong_line_is_named_by_file_and_number)
{
    struct config c;
    struct why    why;

    config_defaults(&c);
    ck_assert_int_eq(config_parse(&c, bad_text[_i].text, "text", preset, &why),
                     bad_text[_i].code);
    ck_assert_msg(strstr(why.line, bad_text[_i].words) != NULL, "%s", why.line);
}
END_TEST

static void put(const char *dir, const char *name, const char *text, size_t len)
{
    char       path[512];
    struct why why;

    ck_assert(!file_write(path_join(path, sizeof path, dir, name), text, len, &why));
}

START_TEST(an_included_file_lies_beside_the_one_that_names_it)
{
    const char   *dir = rig_tmp();
    struct config c;
    struct why    why;
    char          path[512];

    put(dir, "a.cfg", "include b.cfg\nlayers = 9\n", 25);
    put(dir, "b.cfg", "layers = 2\nwidth = 64\n", 22);
    config_defaults(&c);
    path_join(path, sizeof path, dir, "a.cfg");
    ck_assert_msg(!config_parse_file(&c, path, preset, &why), "%s", why.line);
    ck_assert_int_eq(c.layers, 9);
    ck_assert_int_eq(c.width, 64);
    put(dir, "a.cfg", "layers\0= 9\n", 11);
    ck_assert_int_eq(config_parse_file(&c, path, preset, &why), FAIL_USAGE);
}
END_TEST

/* As of a run that comes from elsewhere. What lies beside its directory may begin with
 * the same name. */
START_TEST(without_presets_a_file_includes_what_lies_below_it_alone)
{
    static const struct { const char *name; bool below; } names[] = {
        {"b.cfg", true}, {"sub/b.cfg", true}, {"../run/b.cfg", true},
        {"../b.cfg", false}, {"../run2/b.cfg", false}, {"link.cfg", false},
    };
    static const char *const dirs[] = {".", "run", "run/sub", "run2"};
    const char   *tmp = rig_tmp();
    char          run[512], path[600], text[600];
    struct config c;
    struct why    why;

    for (int i = 0; i < 4; i++) {
        ck_assert(!dir_make(path_join(path, sizeof path, tmp, dirs[i]), &why));
        put(path, "b.cfg", "width = 32\n", 11);
    }
    path_join(run, sizeof run, tmp, "run");
    path_join(path, sizeof path, run, "a.cfg");
    ck_assert(!link_replace(run, "link.cfg", "../b.cfg", &why));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(text, sizeof text, "include %s\n", names[i].name);
        put(run, "a.cfg", text, strlen(text));
        config_defaults(&c);
        ck_assert_int_eq(config_parse_file(&c, path, NULL, &why),
                         names[i].below ? FAIL_NONE : FAIL_USAGE);
        ck_assert_int_eq(c.width, names[i].below ? 32 : 128);
        ck_assert_msg(!config_parse_file(&c, path, preset, &why), "%s", why.line);
    }
    snprintf(text, sizeof text, "include %s/b.cfg\n", run);
    put(run, "a.cfg", text, strlen(text));
    ck_assert_msg(!config_parse_file(&c, path, NULL, &why), "%s", why.line);
    put(run, "a.cfg", "include a.cfg\n", 14);
    ck_assert_int_eq(config_parse_file(&c, path, NULL, &why), FAIL_USAGE);
    ck_assert_msg(strstr(why.line, "more than 8 files inside each other"), "%s",
                  why.line);
}
END_TEST

/* ---- entries ----------------------------------------------------------------------- */

static struct mixer_cfg model_cfg(void)
{
    return (struct mixer_cfg){.C = 96, .H = 4, .Hk = 4, .layers = 2, .context = 64};
}

/* Value of an option by its name. */
static double option(const struct mixer_cfg *c, const char *name)
{
    for (int i = 0; c->mixer->opts[i].name; i++)
        if (!strcmp(c->mixer->opts[i].name, name))
            return c->opt[i];
    ck_abort_msg("no option %s", name);
    return 0;
}

static const struct {
    const char *entry, *position; int H, Hk; double window;
} entries[] = {
    {"softmax", "rope", 4, 4, 0},
    {"softmax()", "rope", 4, 4, 0},
    {"softmax+none", "none", 4, 4, 0},
    {"softmax(window=5)", "rope", 4, 4, 5},
    {"softmax(window=1/8)", "rope", 4, 4, 8},
    {"softmax(window=1/3)+none", "none", 4, 4, 21},
    {"softmax(window=1/1000)", "rope", 4, 4, 1},
    {"softmax(heads=2)", "rope", 2, 2, 0},
    {"softmax(heads=6,kv_heads=3)", "rope", 6, 3, 0},
    {"softmax(kv_heads=1, window = 7) + rope(base=1e+5)", "rope", 4, 1, 7},
};

START_TEST(an_entry_sets_its_layer)
{
    struct mixer_cfg c = model_cfg();
    struct why       why;

    ck_assert_msg(!mixer_parse(&c, entries[_i].entry, &why), "%s", why.line);
    ck_assert_str_eq(c.mixer->name, "softmax");
    ck_assert_str_eq(c.position->name, entries[_i].position);
    ck_assert_int_eq(c.H, entries[_i].H);
    ck_assert_int_eq(c.Hk, entries[_i].Hk);
    ck_assert_double_eq(option(&c, "window"), entries[_i].window);
    ck_assert_double_eq(c.eps, 1e-5);
    c.eps = 1e-3;
    ck_assert(!mixer_parse(&c, entries[_i].entry, &why));
    ck_assert_double_eq(c.eps, 1e-3);
}
END_TEST

START_TEST(an_encoding_has_options_of_its_own)
{
    struct mixer_cfg c = model_cfg();
    struct why       why;

    ck_assert(!mixer_parse(&c, "softmax", &why));
    ck_assert_double_eq(c.position_opt[0], 1e4);
    ck_assert(!mixer_parse(&c, "softmax+rope(base=1e+5)", &why));
    ck_assert_double_eq(c.position_opt[0], 1e5);
    ck_assert(!mixer_parse(&c, "gla+srope", &why));
    for (int i = 0; i < 5; i++) {
        static const char *const names[] = {"base", "rank", "act", "gate", "bias"};
        static const double      standard[] = {5e5, 0, 0, 1, 0};    // act 0: silu

        ck_assert_str_eq(c.position->opts[i].name, names[i]);
        ck_assert_double_eq(c.position_opt[i], standard[i]);
    }
}
END_TEST

START_TEST(a_mixer_has_its_encoding_and_takes_every_other_or_none)
{
    const char *mixer = mixers[_i]->name;
    const char *standard = mixers[_i]->position;
    char        entry[64];
    struct why  why;

    for (int i = -1; i < 0 || positions[i]; i++) {
        struct mixer_cfg c = model_cfg();
        const char      *name = i < 0 ? standard ? standard : "none" : positions[i]->name;

        snprintf(entry, sizeof entry, "%s%s%s", mixer, i < 0 ? "" : "+",
                 i < 0 ? "" : name);
        if (!standard && strcmp(name, "none")) {
            ck_assert_int_eq(mixer_parse(&c, entry, &why), FAIL_USAGE);
            ck_assert_msg(strstr(why.line, "takes no position encoding; leave out +"),
                          "%s", why.line);
        } else {
            ck_assert_msg(!mixer_parse(&c, entry, &why), "%s", why.line);
            ck_assert_str_eq(c.position->name, name);
        }
    }
}
END_TEST

static const struct { const char *entry, *words; } bad_entries[] = {
    {"", "unknown mixer ''"},
    {"sofmax", "did you mean 'softmax'"},
    {"qqqqqqqq", "known: softmax"},
    {"softmax+", "unknown position encoding ''"},
    {"softmax+roop", "did you mean 'rope'"},
    {"softmax+rope+none", "unknown position encoding 'rope+none'"},
    {"softmax(windw=3)", "unknown option of softmax 'windw'; did you mean 'window'"},
    {"softmax(base=3)", "kv_heads"},
    {"softmax+rope(heads=2)", "unknown option of rope 'heads'"},
    {"softmax(window)", "'window': write option=value"},
    {"softmax(window=)", "window = : give a number of tokens"},
    {"softmax(window=-1)", "from 0 to"},
    {"softmax(window=2.5)", "a share of the context"},
    {"softmax(window=1/0)", "a share of the context"},
    {"softmax(window=3/2)", "a share of the context"},
    {"softmax(window=1/8x)", "a share of the context"},
    {"softmax(qk_norm=2)", "give 0 or 1"},
    {"softmax(heads=0)", "a whole number from 1"},
    {"softmax(heads=5)", "heads = 5 do not divide width = 96"},
    {"softmax(kv_heads=3)", "kv_heads = 3 do not divide heads = 4"},
    {"softmax(heads=32)", "keys of a head are 3 wide; make that even by width or heads, "
                          "or write softmax+none"},
    {"gla(heads=16)+srope", "keys of a head are 3 wide; make that even by width, heads "
                            "or dk, or write gla+none"},
    {"mlstm(dk=7)+rope", "7 wide"},
    {"softmax+srope(rnk=3)", "unknown option of srope 'rnk'; did you mean 'rank'"},
    {"softmax+srope(act=relu)", "one of silu|none"},
    {"softmax+rope(base=nan)", "base = nan: give a number"},
    {"softmax(window=3", "parentheses"},
    {"softmax)", "parentheses"},
    {"softmax(window=3)x", "parentheses"},
    {"softmax((window=3))", "parentheses"},
    {"softmax(x(window=3)", "parentheses"},
    {"softmax(window=3))", "parentheses"},
    {"softmax(heads=4097)", "a whole number from 1 to 4096"},
    {"softmax+rope(base=50x)", "base = 50x: give a number from"},
    {"softmax+rope(base=0)", "base = 0: give a number from"},
    {"softmax+rope(base=)", "base = : give a number from"},
};

START_TEST(a_wrong_entry_is_refused)
{
    struct mixer_cfg c = model_cfg();
    struct why       why;

    ck_assert_int_eq(mixer_parse(&c, bad_entries[_i].entry, &why), FAIL_USAGE);
    ck_assert_msg(strstr(why.line, bad_entries[_i].words) != NULL, "%s", why.line);
}
END_TEST

START_TEST(odd_heads_are_fine_without_rotation)
{
    struct mixer_cfg c = model_cfg();
    struct why       why;

    ck_assert_msg(!mixer_parse(&c, "softmax(heads=32)+none", &why), "%s", why.line);
}
END_TEST

/* ---- the parts together ------------------------------------------------------------ */

START_TEST(resolving_fills_what_follows_from_the_rest)
{
    struct config c;
    struct why    why;

    config_defaults(&c);
    ck_assert_msg(!config_resolve(&c, &why), "%s", why.line);
    ck_assert_int_eq(c.kv_heads, 4);
    ck_assert_int_eq(c.mlp, 384);
    ck_assert_double_eq(c.eps, 1e-5);
    c.eps = 1e-3;
    ck_assert(!config_resolve(&c, &why));
    ck_assert_double_eq(c.eps, 1e-3);
    c.eps = 0;
    ck_assert(!config_resolve(&c, &why));
    ck_assert_double_eq(c.eps, 1e-5);
    c.width = 768, c.heads = c.kv_heads = 12, c.mlp = 0, c.context = 1024;
    strcpy(c.mixers, "softmax(window=1/8)");
    c.window_p = 0.5;
    ck_assert_msg(!config_resolve(&c, &why), "%s", why.line);
    ck_assert_int_eq(c.mlp, 2048);
    ck_assert_int_eq(c.window_short, 16);
}
END_TEST

START_TEST(the_short_window_is_a_64th_of_the_context_and_at_least_4)
{
    static const int contexts[][2] = {
        {16, 4}, {256, 4}, {319, 4}, {320, 5}, {1024, 16}, {16384, 256},
    };

    for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++) {
        struct config c;
        struct why    why;

        config_defaults(&c);
        strcpy(c.mixers, "softmax(window=1/8)/mlstm");
        c.context = contexts[i][0];
        ck_assert_msg(!config_resolve(&c, &why), "%s", why.line);
        ck_assert_int_eq(c.window_short, 0);            // nothing draws it
        c.window_p = 0.5;
        ck_assert_msg(!config_resolve(&c, &why), "%s", why.line);
        ck_assert_int_eq(c.window_short, contexts[i][1]);
    }
}
END_TEST

START_TEST(layers_take_the_entries_in_turn)
{
    static const double window[] = {32, 0, 7, 32, 0};
    struct config       c;
    struct why          why;

    config_defaults(&c);
    c.layers = 5;
    strcpy(c.mixers, "softmax(window=1/8)/softmax+none/softmax(window=7,heads=2)");
    ck_assert_msg(!config_resolve(&c, &why), "%s", why.line);
    for (int i = 0; i < c.layers; i++) {
        struct mixer_cfg m;

        config_layer(&c, i, &m);
        ck_assert_double_eq(option(&m, "window"), window[i]);
        ck_assert_str_eq(m.position->name, i % 3 == 1 ? "none" : "rope");
        ck_assert_int_eq(m.H, i % 3 == 2 ? 2 : 4);
        ck_assert_int_eq(m.C, 128);
        ck_assert_int_eq(m.layers, 5);
    }
}
END_TEST

static const struct { const char *text, *words; } misfits[] = {
    {"heads = 3", "heads = 3 do not divide width = 128"},
    {"kv_heads = 3", "kv_heads = 3 do not divide heads = 4"},
    {"heads = 128", "turns pairs"},
    {"mixers = softmax/", "unknown mixer ''"},
    {"mixers = softmax/sofmax", "did you mean 'softmax'"},
    {"mixers = softmax/softmax/softmax\nlayers = 2", "lists 3 mixers for 2 layers"},
    {"layers = 1024\nwidth = 65536\nvocab = 100000", "make some of them smaller"},
    {"context = 1048576\nbatch = 65536", "make one of them smaller"},
    {"window_p = 0.5", "has a window"},
    {"mixers = rglru(inner=30)", "rglru(inner=30): rglru: "},
};

/* On both sides of 2^40 parameters and of 2^28 tokens, by each of what makes them. */
static const struct { const char *text, *words; } limits[] = {
    {"layers = 1024\nwidth = 16000\nmlp = 1", NULL},
    {"layers = 1024\nwidth = 16800\nmlp = 1", "1.2e+12 parameters"},
    {"layers = 1024\nwidth = 1024\nmlp = 340000", NULL},
    {"layers = 1024\nwidth = 1024\nmlp = 360000", "1.1e+12 parameters"},
    {"layers = 1\nwidth = 60000\nmlp = 1\nvocab = 16777216", NULL},
    {"layers = 1\nwidth = 65536\nmlp = 1\nvocab = 16777216", "1.1e+12 parameters"},
    {"batch = 256\ncontext = 1048576", NULL},
    {"batch = 257\ncontext = 1048576", "are 269484032 tokens at once"},
};

START_TEST(a_model_may_be_so_large_and_no_larger)
{
    struct config c;
    struct why    why;
    enum fail     err;

    config_defaults(&c);
    ck_assert_msg(!config_parse(&c, limits[_i].text, "text", NULL, &why), "%s", why.line);
    err = config_resolve(&c, &why);
    ck_assert_msg(err == (limits[_i].words ? FAIL_USAGE : FAIL_NONE), "%s",
                  limits[_i].text);
    if (err)
        ck_assert_msg(strstr(why.line, limits[_i].words) != NULL, "%s", why.line);
}
END_TEST

START_TEST(parts_that_do_not_fit_are_refused)
{
    struct config c;
    struct why    why;

    config_defaults(&c);
    ck_assert_msg(!config_parse(&c, misfits[_i].text, "text", NULL, &why), "%s",
                  why.line);
    ck_assert_int_eq(config_resolve(&c, &why), FAIL_USAGE);
    ck_assert_msg(strstr(why.line, misfits[_i].words) != NULL, "%s", why.line);
}
END_TEST

#define COUNT(table) (int)(sizeof table / sizeof *table)

static Suite *suite(void)
{
    Suite *s = suite_create("config");
    TCase *keys = tcase_create("keys"), *files = tcase_create("files");
    TCase *entry = tcase_create("entries"), *all = tcase_create("together");

    tcase_add_loop_test(keys, a_wrong_setting_is_refused_and_changes_nothing, 0,
                        COUNT(refused));
    tcase_add_test(keys, a_text_longer_than_its_field_is_refused);
    tcase_add_test(keys, dashes_in_keys_are_underscores);
    tcase_add_test(keys, settings_survive_text_exactly);
    tcase_add_test(keys, what_settings_mean_is_printed_in_a_column);
    tcase_add_test(keys, settings_survive_json_exactly);
    tcase_add_test(keys, every_key_has_its_own_place_and_a_meaning);
    tcase_add_test(keys, an_optional_key_is_left_out_at_its_default_and_may_be_missing);
    tcase_add_test(keys, a_quoted_text_keeps_its_blanks);
    tcase_add_test(keys, the_defaults_are_values_that_may_be_set);
    tcase_add_loop_test(files, wrong_json_is_refused, 0, COUNT(bad_json));
    tcase_add_test(files, a_file_may_have_comments_blanks_and_includes);
    tcase_add_loop_test(files, a_wrong_line_is_named_by_file_and_number, 0,
                        COUNT(bad_text));
    tcase_add_test(files, an_included_file_lies_beside_the_one_that_names_it);
    tcase_add_test(files, without_presets_a_file_includes_what_lies_below_it_alone);
    tcase_add_loop_test(entry, an_entry_sets_its_layer, 0, COUNT(entries));
    tcase_add_test(entry, an_encoding_has_options_of_its_own);
    tcase_add_loop_test(entry, a_mixer_has_its_encoding_and_takes_every_other_or_none, 0,
                        n_mixers);
    tcase_add_loop_test(entry, a_wrong_entry_is_refused, 0, COUNT(bad_entries));
    tcase_add_test(entry, odd_heads_are_fine_without_rotation);
    tcase_add_test(all, resolving_fills_what_follows_from_the_rest);
    tcase_add_test(all, the_short_window_is_a_64th_of_the_context_and_at_least_4);
    tcase_add_test(all, layers_take_the_entries_in_turn);
    tcase_add_loop_test(all, a_model_may_be_so_large_and_no_larger, 0, COUNT(limits));
    tcase_add_loop_test(all, parts_that_do_not_fit_are_refused, 0, COUNT(misfits));
    suite_add_tcase(s, keys);
    suite_add_tcase(s, files);
    suite_add_tcase(s, entry);
    suite_add_tcase(s, all);
    return s;
}

int main(void)
{
    return rig_run(suite(), 1);
}
