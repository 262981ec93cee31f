#!/bin/sh
# What the demo's recipe writes after so many seconds: trains it by the clock, lets it
# write 32 texts as tools/demo.sh does, and has them checked. What has a line in demo.tsv
# is not run again.
#
#   tools/recipe/demo.sh [--for "60 180 600"] [--seeds "101"] [--arch ARCH] [key=value...]
#
#   WEFT      the program (build/release/bin/weft)
#   WORK      where texts and runs go (runs/recipe)
#   RESULTS   settings, text's seed, seed, seconds, steps, bits per byte, texts that are
#             stories, break the form, contradict a fact, names, of these known in percent
#             (tools/recipe/demo.tsv)
#
# Seeds from 1001 on train on stories-dev (seed 1001), others on stories (seed 101).
set -eu

here=$(dirname "$0")
weft=${WEFT:-build/release/bin/weft}
work=${WORK:-runs/recipe}
results=${RESULTS:-$here/demo.tsv}
times="60 180 600" seeds=101 arch=rglru/rglru/softmax+none settings=

while [ $# -gt 0 ]; do
    case $1 in
    --for)   times=$2; shift 2 ;;
    --seeds) seeds=$2; shift 2 ;;
    --arch)  arch=$2; shift 2 ;;
    *=*)     settings="$settings $1"; shift ;;
    *)       echo "demo.sh: $1: not known" >&2; exit 2 ;;
    esac
done
settings=${settings:- layers=3 heads=2 copy=12 tokenizer=bpe}
mkdir -p "$work"
touch "$results"

value() { sed -n "s/.*\"$1\": *\([0-9.]*\).*/\1/p" "$run/log.jsonl" | tail -1; }

# the figures of --check's last line, parted by tabs: stories, form, fact, names, known
figures() {
    tail -n 1 | awk -v OFS='\t' '{
        names = known = 0
        for (i = 3; i <= NF; i++)
            if ($i == "names") {
                names = $(i - 1)
                known = $(i + 1)
            }
        print $1, $7, $11, names, known
    }'
}

for seconds in $times; do
    for seed in $seeds; do
        from=$([ "$seed" -gt 1000 ] && echo 1001 || echo 101)
        row=$(printf '%s%s\t%s\t%s\t%s' "$arch" "$settings" "$from" "$seed" "$seconds")
        ! grep -qF "$row$(printf '\t')" "$results" || continue
        text=$work/demo-$from.txt run=$work/demo-$seed
        [ -e "$text" ] ||
            "$weft" data stories --bytes 3M --seed "$from" --out "$text" 2> /dev/null
        rm -rf "$run"
        # the settings are words, and none holds a pattern of file names
        # shellcheck disable=SC2086
        "$weft" train "$text" --out "$run" --for "${seconds}s" vocab=2048 --size nano \
            weight_decay=0.1 --arch "$arch" $settings seed="$seed" > "$run.said" 2>&1 \
            < /dev/null
        "$weft" infer "$run" -p "" --samples 32 -n 600 --temp 0.6 --seed 4 2> /dev/null |
            sed 's/^--- sample .* ---$/<|endoftext|>/' > "$run.txt"
        printf '%s\t%s\t%s\t%s\n' "$row" "$(value step)" "$(value val_bpb)" \
            "$("$weft" data stories --check "$run.txt" | figures)" | tee -a "$results"
        rm -rf "${run:?}" "$run.said" "$run.txt"
    done
done
