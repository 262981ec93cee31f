/* A dataset directory: text, tokenized once.
 *
 *     dataset.json      what is below in struct dataset, the xxh3 of the others, and what
 *                       wrote it; mix and val_file where there are any
 *     tokenizer.model
 *     train.tok.zst, val.tok.zst, and where they are large train-1.tok.zst, ...
 */
#ifndef WEFT_DATASET_H
#define WEFT_DATASET_H

#include "data/shard.h"
#include "tokenizer/tokenizer.h"

#include <stdbool.h>

struct split {
    uint64_t tokens;            // EOS included
    uint64_t bytes;             // of the documents' own text
    uint64_t documents;
    int      files;             // of its shard
};

struct dataset {
    char              dir[1024];
    struct split      train, val;
    struct tokenizer *tokenizer;   // owned
    int               vocab;
    char              prefix[32];  // text before every document
    uint64_t          invalid;     // bytes that are not UTF-8, all splits
    double            zstd_bpb;    // zstd -19 of the validation text, bits per byte
    double            order2_bpb;  // of the validation text under an order-2 model
                                   // counted on the training text (data/yardstick.h)
    double            floor_bpb;   // exact entropy of the validation text, 0 when unknown
    char              val_file[64];    // the validation text's name; "": the end of
                                       // the text is it
    uint64_t          val_lines;   // of the validation text, of some length, and how many
    uint64_t          val_seen;    // of them the training text has too (data/overlap.h)
    struct stretch   *mix;         // (n_mix) of train, one an input; owned. None: all
    int               n_mix;       // are read equally often
    struct shard      shard[2];    // train, val
};

enum { DATASET_MIX = 256 };         // inputs of different weight at most
enum { DATASET_MODEL = 64 << 20 };  // bytes of a tokenizer at most
enum { DATASET_SHARD = 1 << 26 };   // tokens in a file, unless told otherwise

struct dataset_options {
    const char *const *inputs;      // files or directories; "-" is stdin
    int                n_inputs;
    const double      *weights;     // (n_inputs, optional) above 0: an input of twice
                                    // the weight is read twice as often, the lightest
                                    // once an epoch. Shapes training alone: tokenizer,
                                    // splits and yardsticks take each text as it is
    const char        *val;         // (optional) file or directory: the validation text,
                                    // all of it; the inputs are then all for training
    const char        *field;       // of .jsonl, NULL: text
    const char        *tokenizer;   // unigram, bpe, bytes
    int                vocab;       // 0: chosen from the amount of text;
                                    // bytes has its own
    const struct tokenizer *given;  // (optional) taken as it is, where one would
                                    // be trained
    const char        *prefix;      // (optional) text before every document
    double             val_fraction;
    uint64_t           shard;       // tokens in a file at most, a multiple of a frame's;
                                    // 0: DATASET_SHARD
    int                lock_fd;     // not to be inherited by the tokenizer's trainer; -1
    /* (optional) called now and then: a phase ("reading", "training the tokenizer",
     * "encoding", "measuring") and how far it is, 0 .. 1. */
    void             (*progress)(void *user, const char *phase, double done);
    void              *user;
    volatile int      *stop;        // (optional) not 0: give up
    double            *stands;      // (optional) gets the share of the text that was
                                    // encoded before: by an earlier call when this one
                                    // began; when it was stopped, by both
};

/* Build dir from the inputs; it appears whole or not at all. Refuses an existing dir.
 * Until then it is DIR.part. A call that was stopped or killed after it had finished
 * files of a shard leaves that, and the same call for the same files goes on from there:
 * the same bytes as without the stop. What one for other files left is thrown away.
 * Memory does not grow with the text, but for eight bytes for every frame.
 * Must run before the first OpenMP region of the process (the tokenizer's trainer forks).
 * FAIL_USAGE: dir exists, a vocabulary that the text cannot fill (says which fits),
 * an unknown tokenizer. FAIL_INPUT: unreadable, too little text for two splits, or
 * binary (more than a tenth of it is NUL or not UTF-8) and the tokenizer is not bytes.
 * FAIL_WRITE, FAIL_MEMORY; FAIL_INTERRUPTED: stop. */
enum fail dataset_build(const char *dir, const struct dataset_options *o,
                        struct why *why);

/* The vocabulary of so many bytes of training text where nobody names one: the power of
 * two nearest to 2.2 sqrt(bytes), from 512 to 8192 (docs/recipe.md has why). A text that
 * cannot fill it gets what it can. */
int dataset_vocab(uint64_t bytes);

/* So much of the validation text stands in the training text too that it must be
 * said: any line of a text of its own, a twentieth of those at the end of a text, which
 * may have refrains. */
bool dataset_overlaps(const struct dataset *d);

/* Open and check: dataset.json, the tokenizer's fingerprint, the seek tables. Reading
 * a frame checks its ids against the vocabulary. dataset_verify also checks every hash
 * and every frame. FAIL_INPUT. */
enum fail dataset_open(struct dataset *d, const char *dir, struct why *why);
void dataset_close(struct dataset *d);
enum fail dataset_verify(const char *dir, struct why *why);

bool dataset_is(const char *dir);       // there is a dataset.json

/* Write the dataset.json of the other files in dir, for d's numbers and tokenizer.
 * FAIL_WRITE. */
enum fail dataset_describe(const struct dataset *d, const char *dir, struct why *why);

#endif
