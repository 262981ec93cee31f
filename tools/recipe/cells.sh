#!/bin/sh
# The cells of docs/recipe.md, a line each: table, architecture, settings, text, seed, steps,
# parted by tabs, in the order in which run.sh takes them. Settings are complete, so that a later
# change of a default changes none of them.
set -eu

# The recipe that was chosen, at nano.
recipe="batch=8 lr=6e-3 lr_end=0.1 warmup=0.02 weight_decay=0.1 beta2=0.95 out_init=1"

# The recipe with these keys changed or added.
with() {
    settings="--size nano $recipe"
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
    table=$1 text=$2 seed=$3 steps=$4
    shift 4
    for arch; do
        printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$table" "$arch" "$settings" "$text" "$seed" "$steps"
    done
}

# ---- chosen on development text and seeds: one factor at a time --------------------------------

with
cells base stories-dev 1001 300 softmax mlstm gla swax deltanet "linear(decay=none)"
with out_init=0;            cells base stories-dev 1001 300 softmax mlstm gla swax
with lr_end=0;              cells base stories-dev 1001 300 softmax mlstm gla
with warmup=0.1;            cells base stories-dev 1001 300 softmax mlstm gla
with lr=3e-3;               cells base stories-dev 1001 300 softmax mlstm gla
with lr=1.2e-2;             cells base stories-dev 1001 300 softmax mlstm gla
with batch=4 lr=4e-3;       cells batch stories-dev 1001 600 softmax mlstm gla
with tied=0;                cells base stories-dev 1001 300 softmax

with
cells mixers stories-dev 1001 300 "linear(decay=fixed)+rope" "linear(decay=learned)+rope" \
    "luna(decay=fixed)+rope" "luna(m=32,channels=2,psi=exp,decay=fixed)+rope" \
    "luna(m=32,channels=2,psi=exp,decay=learned)+rope"

# ---- reported: every mixer over five rates -----------------------------------------------------

all="softmax gla mlstm swax linear luna ssd deltanet retention metala rela normattn inline
     qlstm rglru mingru s6"
for seed in 101 102 103; do
    for lr in 6e-3 3e-3 1.2e-2 1.5e-3 2.4e-2; do
        with lr=$lr
        # names of architectures hold no pattern of file names
        # shellcheck disable=SC2086
        cells rates stories $seed 300 $all
    done
done
