/* The files of a model and of a run. */
#include "tests/fuzz/fuzz.h"

#include "data/base/file.h"
#include "data/base/json.h"
#include "model/config.h"
#include "model/files/checkpoint.h"
#include "model/files/safetensors.h"
#include "train/presets.h"
#include "train/save.h"

#include <stdlib.h>
#include <string.h>

void fuzz_safetensors(const uint8_t *bytes, size_t len)
{
    struct safetensors s;
    struct why         why;
    uint64_t           sum = 0, all = 0;

    if (!fuzz_took(safetensors_open(&s, fuzz_file("model.safetensors", bytes, len), &why),
                   &why))
        return;
    for (int i = 0; i < s.n; i++) {
        static const size_t size[] = {4, 8, 8, 2, 2};
        const char         *data = s.tensor[i].data;

        fuzz_must(safetensors_find(&s, s.tensor[i].name) != NULL, "a tensor is found");
        for (size_t k = 0; k < s.tensor[i].n * size[s.tensor[i].dtype]; k++, all++)
            sum += (unsigned char)data[k];
    }
    fuzz_must(all <= len && sum <= 255 * all, "tensors lie in the file");
    safetensors_close(&s);
}

/* A directory whose manifest agrees with whatever its files hold. */
void fuzz_checkpoint(const uint8_t *bytes, size_t len)
{
    static const char *const names[] = {"config.json", "model.safetensors",
                                        "tokenizer.model"};
    const char              *dir = fuzz_bundle(names, 3, bytes, len);
    struct model             m;
    struct tokenizer        *t;
    struct why               why;

    fuzz_must(!manifest_write(dir, &why), "a manifest is written");
    if (!fuzz_took(checkpoint_load(dir, &m, &t, NULL, 0, &why), &why))
        return;
    fuzz_must(m.cfg.vocab == tokenizer_vocab(t), "the tokenizer is the model's");
    tokenizer_free(t);
    model_close(&m);
}

/* What is accepted comes back the same. */
static void again(const struct config *c, int part)
{
    json_t       *j = config_to_json(c, part), *k;
    struct config d;
    struct why    why;

    config_defaults(&d);
    fuzz_must(j && !config_from_json(&d, j, part, "again", &why), "settings come back");
    k = config_to_json(&d, part);
    fuzz_must(json_equal(j, k), "settings come back the same");
    json_decref(j);
    json_decref(k);
}

void fuzz_config_json(const uint8_t *bytes, size_t len)
{
    json_t       *j;
    struct config c;
    struct why    why;

    if (!fuzz_took(json_read(&j, fuzz_file("config.json", bytes, len), 1 << 20, "", &why),
                   &why))
        return;
    config_defaults(&c);
    if (fuzz_took(config_from_json(&c, j, KEY_MODEL, "config.json", &why), &why)) {
        again(&c, KEY_MODEL);
        if (fuzz_took(config_resolve(&c, &why), &why))
            fuzz_must(config_entries(&c) > 0, "there is a mixer");
    }
    json_decref(j);
}

/* No file is read for what is included. */
static const char *include(const char *name)
{
    const char *text = preset_find(name);

    return text ? text : "";
}

void fuzz_config_cfg(const uint8_t *bytes, size_t len)
{
    char         *text = fuzz_string(bytes, len);
    struct config c;
    struct why    why;

    config_defaults(&c);
    if (fuzz_took(config_parse(&c, text, "config.cfg", include, &why), &why)) {
        again(&c, -1);
        fuzz_took(config_resolve(&c, &why), &why);
    }
    free(text);
}

void fuzz_trainer_json(const uint8_t *bytes, size_t len)
{
    static const char *const names[] = {"trainer.json"};
    uint8_t                  head[3] = {0, 0xff, 0xff};
    struct decisions         d = {0};
    struct tally             y;
    struct why               why;
    char                    *all = malloc(len + 3);

    fuzz_must(all != NULL, "there is memory");
    memcpy(all, head, 3);
    if (len)
        memcpy(all + 3, bytes, len);
    if (fuzz_took(save_load_tally(fuzz_bundle(names, 1, (uint8_t *)all, len + 3), &y, &d,
                                  &why), &why)) {
        for (int i = 1; i < d.n; i++)
            fuzz_must(d.list[i].step >= d.list[i - 1].step, "decisions are in order");
        decisions_free(&d);
    }
    free(all);
}

void fuzz_manifest(const uint8_t *bytes, size_t len)
{
    static const char *const names[] = {"manifest.json", "a", "b"};
    const char              *dir = fuzz_bundle(names, 3, bytes, len);
    struct why               why;
    bool                     all = fuzz_took(manifest_check(dir, &why), &why);

    fuzz_must(fuzz_took(manifest_check_listed(dir, &why), &why) || !all,
              "what holds for all files holds for those that are listed");
}

void fuzz_arch(const uint8_t *bytes, size_t len)
{
    char         *text = fuzz_string(bytes, len < 511 ? len : 511);
    struct config c;
    struct why    why;

    config_defaults(&c);
    c.layers = 4, c.width = 48, c.context = 64, c.vocab = 300;
    if (fuzz_took(config_set(&c, "mixers", text, &why), &why) &&
        fuzz_took(config_resolve(&c, &why), &why))
        again(&c, KEY_MODEL);
    free(text);
}
