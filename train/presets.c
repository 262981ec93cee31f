#include "train/presets.h"

#include "data/base/split.h"

#include <string.h>

static const struct preset {
    const char *name, *text;
} presets[] = {
#include "train/configs.inc"
    {NULL, NULL},
};

static const char *const sizes[] = {"pico", "nano", "mini", "small", "base"};
#define ONE_MORE(name) +1
enum { N_SIZES = sizeof sizes / sizeof *sizes, KNOWN = MIXERS(ONE_MORE) };

const char *preset_find(const char *name)
{
    size_t len = strlen(name);

    if (len > 4 && !strcmp(name + len - 4, ".cfg"))
        len -= 4;
    for (const struct preset *p = presets; p->name; p++)
        if (strlen(p->name) == len && !strncmp(p->name, name, len))
            return p->text;
    return NULL;
}

static bool is_size(const char *name)
{
    for (int i = 0; i < N_SIZES; i++)
        if (!strcmp(name, sizes[i]))
            return true;
    return false;
}

static bool is_mixer(const char *name)
{
    for (int i = 0; i < KNOWN; i++)
        if (!strcmp(name, mixers[i]->name))
            return true;
    return false;
}

const char *preset_arch(int i)
{
    for (const struct preset *p = presets; p->name; p++)
        if (!is_size(p->name) && !is_mixer(p->name) && i-- == 0)
            return p->name;
    return NULL;
}

static enum fail apply_size(struct config *c, const char *size, struct why *why)
{
    const char *near = nearest_name(size, sizes, N_SIZES);

    if (is_size(size))
        return config_parse(c, preset_find(size), size, preset_find, why);
    return fail(why, FAIL_USAGE, "--size %s: %s%s%stake one of pico, nano, mini, small, "
                "base",
                size, near ? "did you mean " : "", near ? near : "", near ? "? " : "");
}

/* Commas part architectures in `weft compare`. */
static bool lists_several(const char *arch)
{
    return arch[split_length(arch, ',')] != '\0';
}

/* The preset that is nearer to an unknown name than any mixer is, or NULL. */
static const char *near_preset(const char *arch)
{
    const char *near, *names[KNOWN + sizeof presets / sizeof *presets];
    int         n = 0;

    for (; n < KNOWN; n++)
        names[n] = mixers[n]->name;
    for (int i = 0; (names[n] = preset_arch(i)); i++)
        n++;
    near = nearest_name(arch, names, n);
    return near && is_mixer(near) ? NULL : near;
}

/* What weft calls an architecture that others call so; NULL: nothing is known. */
static const char *other_arch(const char *arch)
{
    static const char *const other[][2] = {
        {"transformer", "softmax"}, {"gpt", "softmax"}, {"attention", "softmax"},
        {"gpt2", "softmax"}, {"llama", "softmax"}, {"mamba", "s6"}, {"mamba2", "ssd"},
        {"xlstm", "mlstm"}, {"lstm", "mlstm"}, {"retnet", "retention"}, {"gru", "mingru"},
    };

    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (!strcmp(arch, other[i][0]))
            return other[i][1];
    return NULL;
}

static enum fail apply_arch(struct config *c, const char *arch, struct why *why)
{
    const char *text = preset_find(arch), *near = text ? NULL : near_preset(arch);

    if (is_size(arch))
        return fail(why, FAIL_USAGE, "--arch %s: a size, not an architecture: --size %s",
                    arch, arch);
    if (text)
        return config_parse(c, text, arch, preset_find, why);
    if (other_arch(arch))
        return fail(why, FAIL_USAGE, "--arch %s: weft calls it %s", arch,
                    other_arch(arch));
    if (near)
        return fail(why, FAIL_USAGE, "--arch %s: did you mean '%s'?", arch, near);
    if (lists_several(arch))
        return fail(why, FAIL_USAGE,
                    "--arch %s: one architecture at a time; layers of different "
                    "mixers are joined by /, as in softmax(window=32)/softmax",
                    arch);
    return config_set(c, "mixers", arch, why);
}

enum fail presets_apply(struct config *c, const struct sources *s, struct why *why)
{
    enum fail err;

    config_defaults(c);
    if (s->from)
        *c = *s->from;
    err = s->from ? 0 : apply_size(c, s->size ? s->size : "nano", why);
    if (!err && s->arch)
        err = apply_arch(c, s->arch, why);
    if (!err && s->file)
        err = config_parse_file(c, s->file, preset_find, why);
    for (int i = 0; !err && i < s->n_set; i++)
        err = config_set(c, s->set[2 * i], s->set[2 * i + 1], why);
    return err;
}
