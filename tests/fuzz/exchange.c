/* The files of other programs, and tokenizers. */
#include "tests/fuzz/fuzz.h"

#include "tokenizer/tokenizer.h"
#include "tools/exchange/exchange.h"
#include "tools/exchange/vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Any text must come back. */
static void round_trip(const struct tokenizer *t)
{
    static const char text[] = "Once upon\ta time,\n  caf\xc3\xa9 \xff\x80\x01 "
                               "\xe2\x96\x81x";
    uint32_t          ids[sizeof text];
    char              back[4 * sizeof text];
    long              n = tokenizer_encode(t, text, sizeof text - 1, ids, sizeof text);
    size_t            len;

    fuzz_must(n > 0 && n < (long)sizeof text, "a text has ids");
    len = tokenizer_decode(t, ids, (size_t)n, back, sizeof back);
    fuzz_must(len == sizeof text - 1 && !memcmp(back, text, len), "a text comes back");
}

void fuzz_tokenizer(const uint8_t *bytes, size_t len)
{
    struct tokenizer *t;
    struct why        why;

    if (!fuzz_took(tokenizer_load(&t, bytes, len, &why), &why))
        return;
    round_trip(t);
    tokenizer_free(t);
}

/* A tokenizer of others: SentencePiece's, or tokenizer.bin of 300 tokens. */
void fuzz_vocab(const uint8_t *bytes, size_t len)
{
    struct tokenizer *t;
    struct why        why;
    bool              blank;

    if (!fuzz_took(tokenizer_take(&t, fuzz_file("tokenizer.model", bytes, len), 300,
                                  &blank, &why), &why))
        return;
    round_trip(t);
    tokenizer_free(t);
}

void fuzz_gguf(const uint8_t *bytes, size_t len)
{
    struct incoming in = {0};
    struct why      why;

    fuzz_took(gguf_import(&in, fuzz_file("model.gguf", bytes, len), NULL, &why), &why);
    incoming_close(&in);
}

void fuzz_hf(const uint8_t *bytes, size_t len)
{
    static const char *const names[] = {"config.json", "model.safetensors",
                                        "tokenizer.model", "weft.tokenizer.model",
                                        "model.safetensors.index.json", "tokenizer.json"};
    struct incoming          in = {0};
    struct why               why;

    fuzz_took(hf_import(&in, fuzz_bundle(names, 6, bytes, len), NULL, &why), &why);
    incoming_close(&in);
}

void fuzz_llama2c(const uint8_t *bytes, size_t len)
{
    static const char *const names[] = {"model.bin", "tokenizer.bin", "weft.json",
                                        "tokenizer.model"};
    const char              *dir = fuzz_bundle(names, 4, bytes, len);
    struct incoming          in = {0};
    struct why               why;
    char                     path[4096 + 16];

    snprintf(path, sizeof path, "%s/model.bin", dir);
    fuzz_took(llama2c_import(&in, path, NULL, &why), &why);
    incoming_close(&in);
}
