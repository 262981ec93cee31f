#!/bin/sh
# What version 0.1.0 wrote is read for good: a dataset and a checkpoint with a layer of
# each of its sixteen mixers, trained on that dataset. Both verify; the model writes the
# same text and predicts the validation split as well as it did; the run goes on,
# config.cfg being its own.
#
# Made at commit b238261 from text.txt's sentences, 40 times (5,280 bytes):
#     weft data build sentences.txt --tokenizer bytes --out dataset
#     weft train dataset --steps 1000 layers=16 width=8 heads=2 mlp=8 context=64 \
#        batch=4 lr=1e-2 \
#       mixers=...                              (as in checkpoint/config.json)
#     weft infer checkpoint -p "The hen" -n 150 --temp 0 > text.txt
#     weft score checkpoint dataset --json > score.json
set -eu
weft=${WEFT:-build/release/bin/weft}
v1=$(dirname "$0")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

die() {
    echo "v1.sh: $*" >&2
    exit 1
}

nats() {
    sed -n 's/.*"nats": *\([0-9.]*\).*/\1/p' "$1"
}

"$weft" verify "$v1/dataset" > "$tmp/out" 2>&1 || die "dataset: $(cat "$tmp/out")"
"$weft" verify "$v1/checkpoint" > "$tmp/out" 2>&1 || die "checkpoint: $(cat "$tmp/out")"

"$weft" infer "$v1/checkpoint" -p "The hen" -n 150 --temp 0 > "$tmp/text" 2> "$tmp/err" ||
    die "infer: $(cat "$tmp/err")"
cmp "$v1/text.txt" "$tmp/text" || die "another text: $(cat "$tmp/text")"

"$weft" score "$v1/checkpoint" "$v1/dataset" --json > "$tmp/score" 2> "$tmp/err" ||
    die "score: $(cat "$tmp/err")"
awk -v a="$(nats "$v1/score.json")" -v b="$(nats "$tmp/score")" \
    'BEGIN { d = a - b; exit !(a > 0 && d < 1e-4 && d > -1e-4) }' ||
    die "$(nats "$tmp/score") nats a token; version 0.1.0 had $(nats "$v1/score.json")"

# The run goes on, also on a dataset that a later version made of the same text.
cp -r "$v1/dataset" "$tmp/data"
sed 's/"version": 1,/&\n  "build": "weft 0.2.0",/' "$v1/dataset/dataset.json" \
    > "$tmp/data/dataset.json"
for data in "$v1/dataset" "$tmp/data"; do
    run=$tmp/run-${data##*/}
    mkdir "$run"
    cp -r "$v1/checkpoint" "$run/ckpt-00001000"
    ln -s ckpt-00001000 "$run/latest"
    { cat "$v1/config.cfg"; echo "input = $(cd "$data" && pwd)"; } > "$run/config.cfg"
    "$weft" train --resume "$run" --steps 1001 > "$tmp/out" 2>&1 ||
        die "resume: $(cat "$tmp/out")"
    [ -d "$run/ckpt-00001001" ] || die "resume: no step was made: $(cat "$tmp/out")"
done
echo "v1.sh: ok"
