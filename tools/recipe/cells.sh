#!/bin/sh
# The cells of docs/recipe.md, a line each: table, architecture, settings, text, seed,
# steps (or a time, 120s), parted by tabs, in the order in which run.sh takes them.
# Settings are complete, so that a later change of a default changes none of them.
set -eu

# What the choices began from, and what they came to first.
base="batch=8 lr=6e-3 lr_end=0.1 warmup=0.02 weight_decay=0.1 beta2=0.95 out_init=1"
recipe="batch=8 lr=6e-3 lr_end=0.1 warmup=0.1 weight_decay=0.1 beta2=0.95 out_init=1"

size=nano

# settings: $1 with these keys changed or added.
with() {
    settings="--size $size $1"
    shift
    for word; do
        case " $settings " in
        *" ${word%%=*}="*)
            settings=$(printf %s "$settings" | sed "s/ ${word%%=*}=[^ ]*/ $word/") ;;
        *)  settings="$settings $word" ;;
        esac
    done
}

# table text seed steps architecture..., with the settings of the last with()
cells() {
    row=$1 place="$2\t$3\t$4"
    shift 4
    for arch; do
        printf "%s\t%s\t%s\t$place\n" "$row" "$arch" "$settings"
    done
}

# ---- chosen on development text and seeds: one factor at a time ------------------------

with "$base"
cells base stories-dev 1001 300 softmax mlstm gla swax deltanet "linear(decay=none)"
with "$base" out_init=0
cells base stories-dev 1001 300 softmax mlstm gla swax
with "$base" lr_end=0
cells base stories-dev 1001 300 softmax mlstm gla
with "$base" warmup=0.1
cells base stories-dev 1001 300 softmax mlstm
with "$base" lr=3e-3
cells base stories-dev 1001 300 softmax
with "$base" warmup=0.1 lr=1.2e-2
cells base stories-dev 1001 300 softmax mlstm

with "$base"
cells mixers stories-dev 1001 300 "linear(decay=fixed)+rope" \
    "linear(decay=learned)+rope" \
    "luna(decay=fixed)+rope" "luna(m=32,channels=2,psi=exp,decay=fixed)+rope"

# ---- the rate of the embedding, and the batch ------------------------------------------

with "$recipe"
cells choice stories-dev 1001 300 softmax mlstm gla
for word in table_lr=0.5 table_lr=2 table_lr=4 table_lr=8; do
    with "$recipe" $word
    cells choice stories-dev 1001 300 softmax mlstm gla
done
for word in batch=4 table_lr=2 table_lr=4 table_lr=8; do
    with "$recipe" batch=4 $word
    cells choice stories-dev 1001 600 softmax mlstm gla
done
for lr in 6e-3 4e-3; do
    with "$recipe" batch=2 lr=$lr table_lr=2
    cells choice stories-dev 1001 1200 softmax mlstm gla
done
for word in out_init=0 lr_end=0 schedule=wsd lr=4e-3 lr=9e-3 beta2=0.99; do
    with "$recipe" batch=4 table_lr=2 $word
    cells choice stories-dev 1001 600 softmax mlstm
done

with "$recipe" batch=4 table_lr=2 weight_decay=0
cells choice stories-dev 1001 600 softmax

# ---- around what was chosen, one factor at a time --------------------------------------

chosen="batch=4 lr=6e-3 table_lr=4 lr_end=0.1 warmup=0.1 weight_decay=0.1 beta2=0.95"
chosen="$chosen out_init=1"

for word in lr=4e-3 lr=9e-3 tied=0 beta2=0.99 embed_init=0.5 weight_decay=0 clip=0.5; do
    with "$chosen" $word
    cells around stories-dev 1001 600 softmax mlstm
done
with "$chosen"
cells around stories-dev 1001 600 "softmax(qk_norm=1)"
for seed in 1002 1003; do
    cells qk-norm stories-dev $seed 600 softmax "softmax(qk_norm=1)"
done

# a second seed
with "$chosen"
cells around stories-dev 1002 600 softmax mlstm gla
with "$chosen" table_lr=1
cells around stories-dev 1002 600 softmax mlstm gla
with "$chosen" batch=8
cells around stories-dev 1002 300 softmax mlstm gla

# ---- Muon in place of AdamW: its rate --------------------------------------------------

for lr in 6e-3 3e-3 1.2e-2; do
    with "$chosen" lr=$lr optimiser=muon
    cells muon stories-dev 1001 600 softmax mlstm gla
done

# how many of its steps come to what 600 of AdamW's do; 440 cost as many FLOPs
with "$chosen" optimiser=muon
for steps in 440 360 520; do
    cells muon stories-dev 1001 $steps softmax mlstm gla
done

# ---- every mixer before table_lr and batches of four: one seed, kept for the order -----

with "$recipe"
cells first stories 101 300 softmax luna linear swax gla mlstm deltanet ssd retention \
    metala rela \
    normattn inline

# ---- what a minute buys: vocabulary, shape and batch by the clock ----------------------

clock="batch=4 lr=6e-3 table_lr=4 warmup=0.1 weight_decay=0.1 beta2=0.95 out_init=1"
# text, settings in place of those...
minutes() {
    text=$1
    shift
    for words; do
        # shellcheck disable=SC2086
        with "$clock" $words
        cells minutes "$text" 1001 120s softmax
    done
}
for text in kjv fortunes; do
    minutes $text vocab=2048 tokenizer=bpe vocab=1024 vocab=4096 vocab=8192 \
        "vocab=4096 tokenizer=bpe"
done
minutes kjv-1m vocab=1024 vocab=2048 vocab=4096
minutes stories-dev vocab=2048 vocab=3000 tokenizer=bpe
minutes kjv "vocab=4096 layers=3" "vocab=4096 layers=6" \
    "vocab=4096 width=192 lr=4e-3 table_lr=6" "vocab=4096 batch=2" "vocab=4096 batch=8"
minutes fortunes "vocab=4096 layers=3"
minutes kjv "vocab=4096 context=128 batch=8"
for words in layers=3 layers=4; do
    with "$clock" vocab=4096 $words
    cells minutes kjv 1001 360s softmax
done
minutes stories-dev "vocab=3000 layers=3"
for words in layers=3 layers=4; do
    with "$clock" vocab=3000 $words
    cells minutes stories-dev 1002 120s softmax
done

# five minutes of a fast core: batch, rate, depth, Muon; and a text that comes by often
# text, architecture, settings in place of those...
long() {
    text=$1 arch=$2
    shift 2
    for words; do
        # shellcheck disable=SC2086
        with "$clock" $words
        cells long "$text" 1001 300s "$arch"
    done
}
long stories-dev softmax "vocab=3000 layers=3" "vocab=3000 layers=3 batch=8"
long kjv-1m softmax "vocab=2048 layers=3" "vocab=2048 layers=3 weight_decay=1"
long stories-dev softmax "vocab=3000 layers=3 lr=3e-3" "vocab=3000 layers=4 batch=8" \
    "vocab=3000 layers=3 batch=8 weight_decay=1"
long kjv-1m softmax "vocab=2048 layers=3 weight_decay=0.5" \
    "vocab=2048 layers=3 weight_decay=0.25"
long stories-dev softmax "vocab=3000 layers=3 batch=8 weight_decay=0.3"

# what may be the default where there are minutes: a head that copies, norm of q and k,
# Muon
with "$clock" vocab=3000 layers=3
cells better stories-dev 1001 300s softmax copying "softmax(qk_norm=1)"
with "$clock" vocab=3000 layers=3 batch=8 optimiser=muon
cells better stories-dev 1001 300s softmax
with "$clock" vocab=4096 layers=3
cells better kjv 1001 300s softmax copying
cells better kjv 1001 120s copying softmax
with "$clock" vocab=3000 layers=3
cells better stories-dev 1001 120s copying softmax
with "$clock" vocab=4096 layers=3
cells better fortunes 1001 180s softmax copying
with "$clock" vocab=4096 layers=3 heads=2
cells better fortunes 1001 180s softmax
with "$clock" vocab=4096 layers=3
cells better fortunes 1001 300s softmax copying

# and how much weight decay for how many passes: about 3, 8 and 16
# text, time, weight decay...
passes() {
    text=$1 time=$2
    shift 2
    for decay; do
        with "$clock" vocab=2048 layers=3 weight_decay="$decay"
        cells passes "$text" 1001 "$time" copying
    done
}
passes kjv-half 300s 0.5 1
passes kjv-1m 300s 0.2 0.4
passes kjv-half 300s 2
passes kjv-1m 300s 0.8

# ---- does the rate carry over to the next sizes? ---------------------------------------

# lr falls as 1 / width from nano's, the embedding's stays: around that, by half as much.
# A table a size; lr/table_lr...
size_rates() {
    size=$1
    shift
    for pair; do
        with "$chosen" batch=8 lr="${pair%/*}" table_lr="${pair#*/}"
        cells "$size" stories-dev 1001 100 softmax mlstm gla
    done
    size=nano
}
size_rates nano 6e-3/4 4e-3/6 9e-3/2.667 2.667e-3/9
size_rates mini 3e-3/8 2e-3/12 4.5e-3/5.333 1.333e-3/18
# softmax was flat there: two seeds more
size=mini
for lr in 2e-3/12 1.333e-3/18 3e-3/8; do
    with "$chosen" batch=8 lr="${lr%/*}" table_lr="${lr#*/}"
    for seed in 1002 1003; do
        cells mini stories-dev $seed 100 softmax
    done
done
# and what mini had before
size=mini
with "$chosen" batch=8 lr=2e-3 table_lr=1
cells mini stories-dev 1001 100 softmax
size=nano
size_rates small 2e-3/12 1.333e-3/18 3e-3/8

# what small had before, and what it has since
size=small
for words in "lr=1e-3 table_lr=1 warmup=0.02" "lr=1.5e-3 table_lr=16"; do
    # shellcheck disable=SC2086
    with "$chosen" batch=8 $words
    cells small stories-dev 1001 100 softmax
done

# three times as long, another seed: the embedding's rate, and the warm-up, against none
size=mini
for words in "table_lr=12" "table_lr=1 warmup=0.02"; do
    # shellcheck disable=SC2086
    with "$chosen" batch=8 lr=2e-3 $words
    cells mini stories-dev 1002 300 softmax
done
size=nano

# ---- reported: every mixer, three seeds ------------------------------------------------

all="softmax luna linear swax gla mlstm deltanet ssd retention metala rela normattn inline
     qlstm rglru mingru s6"

# table, text, seed, rate...
rates() {
    row_name=$1 text=$2 seed=$3
    shift 3
    for lr; do
        with "$chosen" lr="$lr"
        # names of architectures hold no pattern of file names
        # shellcheck disable=SC2086
        cells "$row_name" "$text" "$seed" 300 $all
    done
}

# on development text first: which mixer asks for a rate of its own?
rates tune stories-dev 1001 6e-3 3e-3 1.2e-2

# those that did better at 3e-3 by one percent: lower still, and on another seed
low="metala rela normattn mingru swax"
with "$chosen" lr=1.5e-3
# shellcheck disable=SC2086
cells tune stories-dev 1001 300 $low
for lr in 3e-3 6e-3; do
    with "$chosen" lr=$lr
    # shellcheck disable=SC2086
    cells tune stories-dev 1002 300 $low
done

# two that were better at 3e-3 on reported seeds: what do development seeds say?
for lr in 3e-3 6e-3 4.5e-3; do
    with "$chosen" lr=$lr
    for seed in 1001 1002 1003; do
        cells tune stories-dev $seed 300 mlstm swax
    done
done

rates rates stories 101 6e-3
rates rates stories 102 6e-3
rates rates stories 103 6e-3

# ---- reported: linear, luna, swax beside softmax, at equal steps and equal FLOPs -------

with "$chosen"
cells rates stories 104 300 softmax luna linear swax
cells rates stories 105 300 softmax luna linear swax

# the steps that cost what 300 of softmax do (log.jsonl, "flops")
for seed in 101 102 103 104 105; do
    cells flops stories $seed 296 luna
    cells flops stories $seed 317 linear
    cells flops stories $seed 328 swax
done

# ---- other texts -----------------------------------------------------------------------

cells texts shakespeare 101 300 softmax luna linear swax gla mlstm
cells texts c 101 300 softmax luna linear swax gla mlstm

# ---- reported: every mixer over four rates more ----------------------------------------

for seed in 101 102 103; do
    rates rates stories $seed 3e-3 1.2e-2
done
for seed in 101 102 103; do
    rates rates stories $seed 1.5e-3 2.4e-2
done

# the rate that mlstm and swax have since
with "$chosen" lr=4.5e-3
for seed in 101 102 103; do
    cells rates stories $seed 300 mlstm swax
done

# ---- reported: the same with products of bf16 ------------------------------------------

with "$chosen" precision=bf16
for seed in 101 102 103; do
    cells precision stories $seed 300 softmax linear gla mlstm deltanet ssd
done

# ---- reported: the order before and after, at equal tokens -----------------------------

# the embedding's start of 0.02, the rate, batch and plain forms of 0.1.0
with "$chosen" batch=8 lr=3e-3 table_lr=1 warmup=0.02 embed_init=0.2263
# shellcheck disable=SC2046
cells before stories 101 300 $(printf '%s\n' $all |
    sed 's/^\(linear\|luna\)$/\1(decay=none)/')
# and today's, with the rates that presets have
with "$chosen"
cells after stories 101 600 softmax luna linear gla deltanet ssd retention rela inline \
    qlstm rglru mingru s6
with "$chosen" lr=4.5e-3
cells after stories 101 600 mlstm swax
with "$chosen" lr=3e-3
cells after stories 101 600 metala normattn
