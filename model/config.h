/* The settings: one row per key. Parsing, --help, the log's first line, config.cfg and
 * config.json walk the same table, so they cannot disagree.
 *
 *     key = value        in files, with # comments and `include FILE`
 *     key=value          on a command line; --key value is the same
 */
#ifndef WEFT_CONFIG_H
#define WEFT_CONFIG_H

#include "data/base/fail.h"
#include "model/mixer.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

struct config {
    // the model
    int  layers, width, heads, kv_heads, mlp;       // kv_heads 0: heads;
                                                    // mlp 0: 8/3 width, up to 64
    char mixers[512];
    int  tied, context, vocab;                      // vocab 0: chosen from the text
    double eps;                                     // of RMSNorm
    char prefix[32];                                // text before every document
    char opening[32];                               // of a text without a prompt
    // training
    int    batch, accumulate, recompute;
    char   products[16];                            // own, openblas
    char   precision[8];                            // of products: f32, bf16
    double lr, lr_end;                              // lr_end: cosine's last share of lr
    char   schedule[16];                            // cosine, wsd
    double warmup;                                  // steps, or below 1 a share of them
    char   optimiser[8];                            // adamw, muon
    double weight_decay;                            // -1: chosen by passes
    double clip, outlier, beta1, beta2;
    double table_lr;                                // factor, of embedding and head
    long   transfer;                                // steps of attention transfer
    double embed_init, out_init;                    // factors on the standard starts
    double copy;                                    // of a head that begins to copy
    uint64_t seed;
    long   steps, eval_every, checkpoint_every, sample_every;   // 0: chosen from steps
    int    keep;
    int    patience;                                // validations without a best, 0: any
    int    window_short;
    double window_p, window_anneal;
    // data
    char   tokenizer[16];                           // unigram, bpe, bytes
    double val_fraction;
    int    threads;                                 // 0: all cores
};

/* KEY_QUOTED: text that may be empty or blank; in files and on command lines it stands in
 * double quotes, in JSON without. */
enum key_type { KEY_INT, KEY_LONG, KEY_SEED, KEY_REAL, KEY_TEXT, KEY_QUOTED };
enum key_part { KEY_MODEL, KEY_TRAIN, KEY_DATA };

struct key {
    const char   *name, *about;
    enum key_type type;
    enum key_part part;
    size_t        at, size;         // of the field in struct config
    double        min, max;
    const char   *choices;          // KEY_TEXT: "cosine|wsd", or NULL for any text
    bool          optional;         // JSON has it only where it is not the default
};
extern const struct key config_keys[];              // ends with a NULL name

void config_defaults(struct config *c);

/* Set one key from text; '-' in its name is '_'. FAIL_USAGE: unknown key (with the
 * nearest), not a number, out of range. */
enum fail config_set(struct config *c, const char *key, const char *value,
                     struct why *why);

/* What weft calls a setting that other programs call so, or how it is said here; NULL:
 * nothing is known. */
const char *config_other_name(const char *name);

/* Is it a key? */
const struct key *config_find(const char *key);

/* The keys' names, for command lines; ends with NULL. */
const char *const *config_names(void);

/* Apply `key = value` lines, each key at most once. `include` is looked up by the
 * resolver (presets) or, when that answers NULL, beside the file; without a resolver only
 * in its directory. where names the text in errors. */
typedef const char *(*config_include)(const char *name);
enum fail config_parse(struct config *c, const char *text, const char *where,
                       config_include include, struct why *why);
enum fail config_parse_file(struct config *c, const char *path, config_include include,
                            struct why *why);

/* The value as text, as config_set takes it. */
void config_format(const struct config *c, const struct key *k, char *buf, size_t cap);

/* `key = value` for every key, with its meaning as a comment. */
void config_print(const struct config *c, FILE *f);

/* As a JSON object of the keys of this part (or -1: of all); a seed above 2^63 is
 * a string. config_from_json refuses unknown and missing keys; an optional one that is
 * missing gets its default. FAIL_INPUT. */
json_t *config_to_json(const struct config *c, int part);
enum fail config_from_json(struct config *c, const json_t *j, int part, const char *where,
                           struct why *why);

/* Fill what is still to be chosen (kv_heads, mlp, window_short) and check that the parts
 * fit: heads divide width, every entry of `mixers` parses, passes its check() and has
 * a layer to take it, the sizes are possible. FAIL_USAGE. */
enum fail config_resolve(struct config *c, struct why *why);

/* Can weights begin so? The head that copies is attention's. A model that has them from
 * another may have replaced it since. config_resolve has succeeded. FAIL_USAGE. */
enum fail config_check_start(const struct config *c, struct why *why);

/* How many entries `mixers` lists; layer i takes entry i mod that. */
int config_entries(const struct config *c);

/* The mixer of layer i; config_resolve has succeeded. */
void config_layer(const struct config *c, int i, struct mixer_cfg *out);

#endif
