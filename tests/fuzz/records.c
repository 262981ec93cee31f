/* What runs, comparisons and experiments leave behind, and what a client sends. */
#include "tests/fuzz/fuzz.h"

#include "tools/compare/compare.h"
#include "tools/lab/lab.h"
#include "train/log_read.h"
#ifndef WEFT_NO_SERVE
#include "infer/serve/ask.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_log(const uint8_t *bytes, size_t len)
{
    struct log_table t;
    struct why       why;
    double           sum = 0;

    if (!fuzz_took(log_read(&t, fuzz_file("log.jsonl", bytes, len), &why), &why))
        return;
    for (int c = 0; c < LOG_COLUMNS; c++)
        for (long i = 0; i < t.n; i++)
            sum += t.column[c][i];
    fuzz_must(strnlen(t.mixers, sizeof t.mixers) < sizeof t.mixers || sum > 0,
              "names end");
    log_table_free(&t);
}

void fuzz_compare(const uint8_t *bytes, size_t len)
{
    static const char *const names[] = {"result.json", "log.jsonl"};
    struct trial             t = {0};

    snprintf(t.dir, sizeof t.dir, "%s", fuzz_bundle(names, 2, bytes, len));
    if (!result_read(&t))
        return;
    fuzz_must(t.curve.n <= 2 * CURVE && t.curve.losses <= LOSSES, "a curve fits");
    fuzz_takes++;
}

static enum fail look_up(struct lab *l, struct why *why)
{
    double value[LAB_VALUES];

    (void)why;
    lab_recall(l, "softmax", value);
    return 0;
}

void fuzz_lab(const uint8_t *bytes, size_t len)
{
    static const struct experiment e = {
        .name = "fuzz", .claim = "", .paper = "", .columns = "risk,stderr",
        .run = look_up};
    struct lab_ask  ask = {.form = LAB_BRIEF};
    struct verdicts v = {0};
    struct why      why;
    char            out[4096];

    snprintf(out, sizeof out, "%s", fuzz_file("fuzz.csv", bytes, len));
    *strrchr(out, '/') = 0;
    ask.out = out;
    fuzz_took(lab_run(&e, &ask, &v, &why), &why);
    verdicts_free(&v);
}

#ifdef WEFT_NO_SERVE
void fuzz_http(const uint8_t *bytes, size_t len)
{
    (void)bytes;
    (void)len;
    fuzz_takes++;
}
#else
/* The body of a request: for a text, for a chat, and lists of ids. */
void fuzz_http(const uint8_t *bytes, size_t len)
{
    static struct tokenizer *t;
    struct ask_model         m;
    struct refusal           no = {0};
    struct why               why;

    if (!t)
        fuzz_must(!tokenizer_load(&t, "weft-bytes", 10, &why), "there is a tokenizer");
    m = (struct ask_model){t, "", "Once"};
    for (int chat = 0; chat < 2; chat++) {
        char      *text = fuzz_string(bytes, len);
        json_t    *body = asked_json(text, len, &no);
        struct ask a;

        if (body && ask_read(&a, body, chat, "{role}: {content}\n", &m, &no)) {
            fuzz_takes++;
            fuzz_must(a.n_prompt > 0 && a.n_prompt <= ASK_PROMPTS &&
                          a.n_prompt * a.samples <= ASK_TEXTS,
                      "texts are within their limit");
            for (int i = 0; i < a.n_prompt; i++)
                fuzz_must(a.prompt[i].n > 0 && a.prompt[i].n <= ASK_TOKENS,
                          "prompts are within their limit");
        }
        fuzz_must(body || no.status == 400, "what is no JSON is refused");
        if (body)
            ask_close(&a);
        free(text);
    }
}
#endif
