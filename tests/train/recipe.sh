#!/bin/sh
# The recipe lets attention learn: 120 short steps on stories end well below what a model
# reaches whose embedding starts so small that the first blocks drown it (3.01 bits per
# byte with a deviation of 0.02, 2.30 with 1 / sqrt(width); seeds 1001 and 1002).
set -eu
weft=${WEFT:-build/release/bin/weft}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$weft" data stories --bytes 1M --seed 7 --out "$dir/stories.txt" 2>/dev/null
"$weft" train "$dir/stories.txt" --out "$dir/run" --steps 120 vocab=512 layers=2 \
    width=128 heads=4 \
  context=128 batch=8 lr=3e-3 eval_every=120 sample_every=1000 seed=7 > /dev/null \
      2> "$dir/said" ||
  { cat "$dir/said"; exit 1; }
bpb=$(sed -n 's/.*"val_bpb": *\([0-9.]*\).*/\1/p' "$dir/run/log.jsonl" | tail -1)
awk -v b="$bpb" 'BEGIN { exit !(b > 0 && b < 2.65) }' ||
  { echo "recipe.sh: softmax ends at $bpb bits per byte; 2.65 is the limit"; exit 1; }
