#!/bin/sh
# Is the clock as good as a cosine that knew its steps? Each pair: `--for TIME`, then as
# many steps by cosine, on the same text and seed. Pairs that have a line in clock.tsv are
# not run again.
#
#   tools/recipe/clock.sh DATASET... [--for TIME]
#
#   WEFT      the program (build/release/bin/weft)
#   WORK      where runs go (runs/recipe)
#   RESULTS   architecture, dataset, seed, time, steps, clock, cosine
#             (tools/recipe/clock.tsv)
set -eu

here=$(dirname "$0")
weft=${WEFT:-build/release/bin/weft}
work=${WORK:-runs/recipe}
results=${RESULTS:-$here/clock.tsv}
time=40s texts=

while [ $# -gt 0 ]; do
    case $1 in
    --for) time=$2; shift 2 ;;
    *)     texts="$texts $1"; shift ;;
    esac
done
[ -n "$texts" ] || { echo 'clock.sh: give datasets (weft data build)' >&2; exit 2; }
mkdir -p "$work"
touch "$results"

# The last value of key $2 in the log of run $1.
last() { sed -n "s/.*\"$2\": *\([0-9.]*\).*/\1/p" "$work/$1/log.jsonl" | tail -1; }

# run, architecture, text, seed, budget...
train() {
    run=$1 arch=$2 text=$3 seed=$4
    shift 4
    rm -rf "${work:?}/$run"
    "$weft" train "$text" --arch "$arch" --size nano seed="$seed" "$@" \
        weight_decay=0.1 sample_every=1000000 keep=1 --out "$work/$run" \
        > "$work/$run.said" 2>&1 < /dev/null
}

pairs() {
    for arch in softmax mlstm; do
        for text in $texts; do
            for seed in 101 102 103; do
                printf '%s\t%s\t%s\t%s\n' "$arch" "$text" "$seed" "$time"
            done
        done
    done
}

pairs | while IFS="$(printf '\t')" read -r arch text seed time; do
    pair=$(printf '%s\t%s\t%s\t%s' "$arch" "$(basename "$text")" "$seed" "$time")
    ! grep -qF "$pair" "$results" || continue
    train clock "$arch" "$text" "$seed" --for "$time"
    steps=$(last clock step)
    train cosine "$arch" "$text" "$seed" steps="$steps" eval_every="$steps"
    printf '%s\t%s\t%.4f\t%.4f\n' "$pair" "$steps" \
        "$(last clock val_bpb)" "$(last cosine val_bpb)" >> "$results"
done
