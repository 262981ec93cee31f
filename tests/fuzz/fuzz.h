/* Readers that are given any bytes at all: by libFuzzer (make fuzz), and the seeds by
 * make test. A reader may refuse what it likes; it must not crash, leak, loop, or say yes
 * to what its own rules forbid.
 *
 * What reads a directory gets a bundle, so that one input has all its files:
 *
 *     which file u8, its bytes u16, bytes ... and so on; the last may be cut short
 */
#ifndef WEFT_FUZZ_H
#define WEFT_FUZZ_H

#include "data/base/fail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fuzz_target {
    const char *name;               // also of its seeds: tests/fuzz/seeds/NAME
    void      (*run)(const uint8_t *bytes, size_t len);
};

extern const struct fuzz_target fuzz_targets[];         // ends with a NULL name

/* One walk of the readers of each folder. */
#define FUZZ(X)                                                                   \
    X(safetensors) X(checkpoint) X(config_json) X(config_cfg) X(trainer_json)     \
    X(manifest) X(arch) X(dataset) X(shard) X(jsonl) X(record) X(text)            \
    X(tokenizer) X(story) X(stream) X(log) X(compare) X(lab) X(gguf) X(hf)        \
    X(llama2c) X(vocab) X(http)
#define DECLARE_FUZZ(name) void fuzz_##name(const uint8_t *bytes, size_t len);
FUZZ(DECLARE_FUZZ)

/* A property that does not hold: abort, which libFuzzer and Check both report. */
void fuzz_must(bool holds, const char *what);

/* Did a reader take it? If not, its reason must be one line without control characters.
 * fuzz_takes counts those that did. */
bool        fuzz_took(enum fail err, const struct why *why);
extern long fuzz_takes;

void fuzz_place(const char *dir);           // where files are put, before the first

/* The input as one file of this name; its path. */
const char *fuzz_file(const char *name, const uint8_t *bytes, size_t len);

/* The input as a string that ends with a NUL; free it. */
char *fuzz_string(const uint8_t *bytes, size_t len);

/* The input as the files of a directory, those that it lacks are not there; its path. */
const char *fuzz_bundle(const char *const *names, int n, const uint8_t *bytes,
                        size_t len);

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#endif
