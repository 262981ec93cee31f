#include "tests/support/variants.h"

static const char *const variants[] = {
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

int variant_count(void)
{
    return n_mixers + (int)(sizeof variants / sizeof *variants);
}

const char *variant_entry(int i)
{
    return i < n_mixers ? mixers[i]->name : variants[i - n_mixers];
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
