#!/bin/sh
# Who learns more a minute? For each text and seed, in turns: `weft train TEXT --for TIME`
# with nothing else asked for, then PyTorch's recipes (tools/bench/rival/gpt.py) for as
# long, on the same training bytes and as many threads. All are scored on the same
# held-out bytes. What has a line in rivals.tsv is not run again. Prints a table of
# all of them at the end.
#
#   tools/recipe/rivals.sh TEXT... [--for SECONDS] [--seeds "101 102 103"]
#
#   WEFT      the program (build/release/bin/weft)
#   PYTHON    a python3 with torch (python3)
#   THREADS   of each (all cores)
#   WORK      where runs go (runs/recipe)
#   RESULTS   text, seed, seconds, threads, who, steps, tokens, bits per byte
#             (tools/recipe/rivals.tsv)
set -eu

here=$(dirname "$0")
weft=${WEFT:-build/release/bin/weft}
python=${PYTHON:-python3}
threads=${THREADS:-$(nproc)}
work=${WORK:-runs/recipe}
results=${RESULTS:-$here/rivals.tsv}
seconds=180 seeds="101 102 103" texts=

die() { echo "rivals.sh: $1" >&2; exit "$2"; }

while [ $# -gt 0 ]; do
    case $1 in
    --for)   seconds=$2; shift 2 ;;
    --seeds) seeds=$2; shift 2 ;;
    *)       [ -r "$1" ] || die "$1: cannot be read" 3
             texts="$texts $1"; shift ;;
    esac
done
[ -n "$texts" ] || die 'give texts' 2
"$python" -c 'import torch' 2> /dev/null ||
    die "$python has no torch: install python3-torch, give PYTHON=/usr/bin/python3" 3
# Debian's OpenBLAS does not know newer processors and is slow on them unless it is told
if [ -z "${OPENBLAS_CORETYPE:-}" ] && grep -q avx512f /proc/cpuinfo; then
    export OPENBLAS_CORETYPE=SkylakeX
fi
mkdir -p "$work"
touch "$results"

# The value of key $1 in the JSON lines of standard input, the last one.
value() { sed -n "s/.*\"$1\": *\([0-9.]*\).*/\1/p" | tail -1; }

# steps, tokens, bits per byte of weft's default on $text; the run stays, for its data
by_weft() {
    rm -rf "$run"
    "$weft" train "$text" --for "${seconds}s" seed="$seed" threads="$threads" \
        --out "$run" > "$run.said" 2>&1 < /dev/null
    printf '%s\t%s\t%s\n' "$(value step < "$run/log.jsonl")" \
        "$(value tokens < "$run/log.jsonl")" \
        "$("$weft" score "$run" "$run/data" --json 2> /dev/null | value bpb)"
}

# the same of a recipe of gpt.py, in the environment in which PyTorch is fastest
by_torch() {
    [ -e "$run/data/dataset.json" ] || by_weft > /dev/null
    OMP_NUM_THREADS=$threads MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000 \
        "$python" "$here/../bench/rival/gpt.py" "$run/data" --recipe "$1" \
        --seconds "$seconds" --seed "$seed" --threads "$threads" > "$run.json"
    printf '%s\t%s\t%s\n' "$(value steps < "$run.json")" "$(value tokens < "$run.json")" \
        "$(value bpb < "$run.json")"
}

for text in $texts; do
    for seed in $seeds; do
        name=$(basename "$text" .txt)
        run=$work/rivals-$name-$seed
        for who in weft modern nanogpt llmc; do
            row=$(printf '%s\t%s\t%s\t%s\t%s' "$name" "$seed" "$seconds" "$threads" $who)
            ! grep -qF "$row$(printf '\t')" "$results" || continue
            [ $who = weft ] && got=$(by_weft) || got=$(by_torch $who)
            printf '%s\t%s\n' "$row" "$got" | tee -a "$results"
        done
        rm -rf "${run:?}" "$run.said" "$run.json"
    done
done

sort -s -t "$(printf '\t')" -k 1,1 -k 3,3n "$results" | awk -F '\t' '
    {
        key = $1 FS $3 FS $4 FS $5
        if (!(key in n)) keys[++count] = key
        all[key] = all[key] (n[key]++ ? ", " : "") sprintf("%.3f", $8)
        sum[key] += $8; steps[key] += $6; tokens[key] += $7
    }
    END {
        printf "| text | seconds | threads | who | bits per byte, by seed | mean "
        print "| steps | tokens |"
        print "|---|---|---|---|---|---|---|---|"
        for (i = 1; i <= count; i++) {
            key = keys[i]
            split(key, part, FS)
            printf "| %s | %s | %s | %s | %s | %.3f | %.0f | %.2fM |\n", part[1], part[2],
                   part[3], part[4], all[key], sum[key] / n[key], steps[key] / n[key],
                   tokens[key] / n[key] / 1e6
        }
    }'
