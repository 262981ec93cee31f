#include "tests/support/variants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const table[] = {
    "softmax(window=5)",
    "softmax(window=1)",
    "softmax(window=64)+none",
    "softmax(qk_norm=1)",
    "softmax(sink=1)+none",
    "softmax(heads=4,kv_heads=2,qk_norm=1,sink=1,window=7)+rope(base=100)",
    "softmax(heads=4,kv_heads=1)",
    "rela+none",
    "rela(heads=4,kv_heads=2)",
    "rela(heads=4,kv_heads=1)+srope(base=10)",
    "softmax+srope",
    "softmax+srope(base=10,act=none,gate=0)",
    "gla+srope(base=1,act=turn,rank=3,bias=1)",
    "gla+srope(base=1,act=half,gate=0)",
    "softmax+srope(base=10,skip_conv=1,bias=1)",
    "softmax+srope(temps=rfa,max=0.25,act=none)",
    "linear(feature=id,normalise=0)+srope(rank=3,act=half,skip_conv=1)",
    "softmax(heads=4,kv_heads=2,window=9)+srope(base=1,rank=3,bias=1)",
    "softmax(qk_norm=1,window=5)+srope(rank=5,act=none,gate=0,bias=1)",
    "retention+none",
    "retention(heads=4)",
    "retention(heads=4,expand_v=2)",
    "mlstm(norm=rms)",
    "mlstm(dk=5,dv=7)+none",
    "mlstm(heads=4,dk=8)+rope",
    "ssd(expand=1,state=5)",
    "ssd(heads=4,state=16)",
    "linear(feature=taylor,dk=4,dv=10)+srope(base=10)",
    "linear(feature=hedgehog)+rope",
    "linear(feature=favor)",
    "linear(feature=favor,m=10,normalise=0)",
    "linear(feature=id,normalise=0)+rope",
    "linear(heads=4,dk=2,normalise=0)",
    "linear(decay=fixed)+rope",
    "linear(heads=4,decay=learned)",
    "linear(heads=4,feature=id,normalise=0,decay=fixed)+rope",
    "linear(feature=hedgehog,normalise=0,decay=learned)",
    "linear(feature=favor,decay=learned)",
    "luna(channels=2,shared=0)+rope",
    "luna(heads=4,decay=fixed,psi=exp)+rope",
    "luna(m=0,channels=2,hidden=9,psi=exp,decay=learned)",
    "luna(m=14,channels=3,hidden=5,shared=0,psi=exp)",
    "luna+srope",
    "normattn(eta=exp)+none",
    "normattn(eta=sigmoid)",
    "normattn(heads=4)",
    "inline(feature=elu1,local=4)+rope",
    "inline(heads=4,local=0)+rope",
    "inline(local=1)",
    "inline(feature=elu1,subtract=0)",
    "inline(feature=elu1,subtract=0,local=0)+rope",
    "retention+srope(rank=3)",
    "mlstm+srope",
    "linear(feature=id,normalise=0)+srope",
    "normattn+srope",
    "inline+srope",
    "deltanet(neg_eig=1)",
    "deltanet(heads=4,expand_v=3)",
    "deltanet(heads=4)+rope(base=100)",
    "deltanet+srope",
    "gla+rope",
    "gla(conv=4,rank=3)",
    "gla(heads=4,dk=8,dv=5,conv=4)+rope(base=100)",
    "gla(dk=70)",
    "metala(heads=4,dk=5,dv=9)",
    "metala(aug=0,conv=0)",
    "metala(heads=4,aug=0)",
    "metala(conv=0)",
    "gla+srope",
    "gla(conv=4)+srope(rank=3,bias=1)",
    "qlstm(expand=1)",
    "qlstm(reversed=1,expand=1)",
    "rglru(inner=40,heads=4)",
    "mingru(act=none,expand=2)",
    "s6(expand=1,state=5,rank=3)",
    "linear(heads=1,feature=relu)",
    "linear(feature=cosformer,max_len=500)",
    "luna(m=8,channels=2,hidden=5)",
    "luna(m=8,channels=2,hidden=6,shared=0)+rope",
};

enum { TABLE = sizeof table / sizeof *table, MOST = 1024 };

static const char *entry[MOST];
static int         n_bare, n_entry;     // entries that are a mixer's name, and all

/* The mixer that WEFT_MIXER names; NULL: all are asked for. */
static const struct mixer *asked(void)
{
    const char *name = getenv("WEFT_MIXER");
    int         i = 0;

    if (!name || !*name)
        return NULL;
    while (mixers[i] && strcmp(mixers[i]->name, name))
        i++;
    if (mixers[i])
        return mixers[i];
    fprintf(stderr, "WEFT_MIXER=%s: no mixer of MIXERS in model/mixer.h\n", name);
    exit(2);
}

/* Whether an entry is of this owner, "luna" or "+srope", and has these words. */
static bool is_of(const char *e, const char *owner, const char *words)
{
    size_t n = strlen(owner);

    e = *owner == '+' ? strstr(e, owner) : e;
    return e && !strncmp(e, owner, n) && strchr("(+", e[n]) && strstr(e + n, words);
}

static void add(const char *e)
{
    if (n_entry == MOST)
        abort();
    entry[n_entry++] = e;
}

/* An entry mixer + owner + words, when the table has none with these words. */
static void complete(const char *mixer, const char *owner, const char *words)
{
    char e[256];

    for (int i = 0; i < TABLE; i++)
        if (is_of(table[i], owner, words))
            return;
    snprintf(e, sizeof e, *words == '+' ? "%s%s%s" : "%s%s(%s)", mixer, owner, words);
    add(strdup(e));
}

/* Every value but the standard of the owner's flags and choices. */
static void complete_opts(const char *mixer, const char *owner, const struct opt *o)
{
    for (; o && o->name; o++) {
        const char *at = o->type == OPT_FLAG ? "0|1" : o->choices;
        char        words[128];

        for (int i = 0; at && *at; i++) {
            int len = (int)strcspn(at, "|");

            snprintf(words, sizeof words, "%s=%.*s", o->name, len, at);
            if (i != (int)o->standard)
                complete(mixer, owner, words);
            at += len + (at[len] == '|');
        }
    }
}

static void complete_mixer(const struct mixer *m)
{
    char owner[64];

    complete_opts("", m->name, m->opts);
    for (int i = 0; m->position && positions[i]; i++) {
        snprintf(owner, sizeof owner, "+%s", positions[i]->name);
        if (strcmp(positions[i]->name, m->position))
            complete("", m->name, owner);
        complete_opts(m->name, owner, positions[i]->opts);
    }
}

static void list_entries(void)
{
    const struct mixer *only = asked();

    if (n_entry)
        return;
    for (int i = 0; i < n_mixers; i++)
        if (!only || mixers[i] == only)
            add(mixers[i]->name);
    n_bare = n_entry;
    for (int i = 0; i < TABLE; i++)
        if (!only || is_of(table[i], only->name, ""))
            add(table[i]);
    for (int i = 0; i < n_bare; i++)
        complete_mixer(variant_mixer(i));
}

int variant_mixers(void)
{
    list_entries();
    return n_bare;
}

const struct mixer *variant_mixer(int i)
{
    int k = 0;

    while (strcmp(mixers[k]->name, entry[i]))
        k++;
    return mixers[k];
}

int variant_count(void)
{
    list_entries();
    return n_entry;
}

const char *variant_entry(int i)
{
    return entry[i];
}

uint64_t variant_seed(int i)
{
    uint64_t hash = 0xcbf29ce484222325;         // FNV-1a

    for (const char *c = entry[i]; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3;
    return hash;
}

struct mixer_cfg variant_cfg(int i, int C)
{
    return layer_cfg(variant_entry(i), C, 2, VARIANT_LONGEST);
}

void variant_open(struct layer *l, int i, int B, int T)
{
    struct mixer_cfg c = variant_cfg(i, 24);

    layer_open(l, variant_entry(i), &c, B, T, 7);
}
