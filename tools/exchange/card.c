/* README.md of an exported model: its card. */
#include "data/base/file.h"
#include "data/base/format.h"
#include "data/base/json.h"
#include "data/base/memory.h"
#include "data/base/version.h"
#include "data/dataset.h"
#include "tools/exchange/exchange.h"
#include "train/log.h"
#include "train/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_MAX = 1 << 24 };

/* ---- what the run tells ------------------------------------------------------------ */

static void put_config(FILE *to, const struct config *c)
{
    fputs("## Architecture\n\n| setting | value |\n|---|---|\n", to);
    for (const struct key *k = config_keys; k->name; k++) {
        char value[sizeof c->mixers];

        if (k->part != KEY_MODEL)
            continue;
        config_format(c, k, value, sizeof value);
        fprintf(to, "| `%s` | `%s` |\n", k->name, value);
    }
}

/* The dataset of the run, where it is still there. */
static bool open_data(struct dataset *d, const struct run *r)
{
    char       path[PATH_MAX];
    struct why unread;

    path_join(path, sizeof path, r->dir, "data");
    if (!dataset_is(path) && r->n_input)
        snprintf(path, sizeof path, "%s", r->input[0]);
    return dataset_is(path) && !dataset_open(d, path, &unread);
}

static void put_data(FILE *to, const struct dataset *d)
{
    char bytes[32];

    format_bytes(bytes, sizeof bytes, (double)d->train.bytes);
    fprintf(to, "\n## Data\n\nTrained on %s of text in %llu document%s (%llu tokens, %s, "
            "vocabulary %d); validated on\n%llu bytes that it never saw. Fingerprint of "
            "the tokenizer: `%016llx`.\n", bytes, (unsigned long long)d->train.documents,
            d->train.documents == 1 ? "" : "s", (unsigned long long)d->train.tokens,
            tokenizer_kind(d->tokenizer), d->vocab, (unsigned long long)d->val.bytes,
            (unsigned long long)tokenizer_fingerprint(d->tokenizer));
}

static void put_score(FILE *to, double bpb, const struct dataset *d)
{
    fputs("\n## How well it predicts\n\n| of the validation text | bits per byte "
          "|\n|---|---|\n", to);
    if (!isnan(bpb))
        fprintf(to, "| this model | %.4f |\n", bpb);
    if (!d)
        return;
    fprintf(to, "| `zstd -19` | %.4f |\n| an order-2 model of bytes | %.4f |\n",
            d->zstd_bpb, d->order2_bpb);
    if (d->floor_bpb > 0)
        fprintf(to, "| no model beats | %.4f |\n", d->floor_bpb);
}

/* What trainer.json says. */
static void put_training(FILE *to, const struct outgoing *x, const struct run *r)
{
    char           path[PATH_MAX], time[32];
    struct dataset d;
    struct why     unread;
    json_t        *j = NULL;
    bool           data = r && open_data(&d, r);
    double         bpb = NAN;

    if (!json_read(&j, path_join(path, sizeof path, x->dir, "trainer.json"), JSON_MAX, "",
                   &unread)) {
        json_int_t step = json_integer_value(json_object_get(j, "step"));

        bpb = log_bpb(path_join(path, sizeof path, x->dir, ".."), (long)step);
        format_time(time, sizeof time, json_number_value(json_object_get(j, "seconds")));
        fprintf(to, "\n## Training\n\n%lld steps in %s. Fingerprint of the data: `%s`.\n",
                (long long)step, time, json_string_value(json_object_get(j, "data")));
    }
    json_decref(j);
    if (data)
        put_data(to, &d);
    if (data || !isnan(bpb))
        put_score(to, bpb, data ? &d : NULL);
    if (data)
        dataset_close(&d);
}

/* The settings of training, as weft train takes them. */
static void put_command(FILE *to, const struct outgoing *x, const struct run *r)
{
    fputs("\n## How it was made\n\n", to);
    if (r) {
        fputs("    weft train INPUT", to);
        for (const struct key *k = config_keys; k->name; k++) {
            char          value[sizeof r->cfg.mixers], standard[sizeof value];
            struct config d;

            config_defaults(&d);
            config_format(&r->cfg, k, value, sizeof value);
            config_format(&d, k, standard, sizeof standard);
            if (strcmp(value, standard))
                fprintf(to, " '%s=%s'", k->name, value);
        }
        fputc('\n', to);
    }
    fprintf(to, "    %s\n\nwith %s.\n", x->command, version_line);
}

/* ---- the page ---------------------------------------------------------------------- */

static const char *const usage[][2] = {
    {"hf", "```python\n"
           "from transformers import AutoModelForCausalLM, AutoTokenizer\n"
           "t = AutoTokenizer.from_pretrained(\".\")\n"
           "m = AutoModelForCausalLM.from_pretrained(\".\")\n"
           "x = t(\"Once upon a time\", return_tensors=\"pt\")\n"
           "print(t.decode(m.generate(**x, max_new_tokens=100)[0]))\n"
           "```\n\n"},
    {"gguf", "    llama-cli -m model.gguf -no-cnv -p \"Once upon a time\"\n"
             "    ollama create NAME -f Modelfile\n"},
    {"llama2c", "    ./run model.bin -z tokenizer.bin -t 0.8 -i \"Once upon a time\"\n"},
};

static void put_page(FILE *to, const struct outgoing *x, const struct run *r)
{
    int  first = strcmp(x->to, "llama2c") ? x->vocab.eos : LLAMA2C_FIRST;
    char count[32];

    format_count(count, sizeof count, (double)model_count(&x->model));
    fprintf(to, "# %s\n\nA language model of %s parameters, trained with weft and "
            "exported as %s.\n\n## Use\n\n", x->name, count, x->form);
    for (size_t i = 0; i < sizeof usage / sizeof *usage; i++)
        if (!strcmp(usage[i][0], x->to))
            fputs(usage[i][1], to);
    fputs("    weft import . --out RUN\n\n", to);
    fprintf(to, "A document begins after token %d and ends with it.\n", first);
    for (int i = 0; i < x->n_notes; i++)
        fprintf(to, "Note: %s.\n", x->notes[i]);
    fputc('\n', to);
    put_config(to, &x->model.cfg);
    put_training(to, x, r);
    put_command(to, x, r);
}

enum fail card_write(const struct outgoing *x, const char *dir, struct why *why)
{
    char       path[PATH_MAX], parent[PATH_MAX], *text = NULL;
    size_t     len;
    FILE      *to = memory_stream(&text, &len);
    struct run r = {.lock = -1};
    struct why unread;
    bool       run;
    enum fail  err;

    run = !run_read(&r, path_join(parent, sizeof parent, x->dir, ".."), &unread);
    if (to)
        put_page(to, x, run ? &r : NULL);
    err = to && !fclose(to)
              ? file_write(path_join(path, sizeof path, dir, "README.md"), text, len, why)
              : fail(why, FAIL_MEMORY, "out of memory for the model's card");
    free(text);
    if (run)
        run_close(&r);
    return err;
}
