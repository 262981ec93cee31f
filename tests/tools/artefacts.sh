#!/bin/sh
# Whatever weft writes names what wrote it: version, commit, compiler and flags, as weft
# --version prints them.
set -eu
weft=${WEFT:-build/release/bin/weft}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
v1=$(dirname "$0")/../v1
line=$("$weft" --version)

die() {
    echo "artefacts.sh: $*" >&2
    exit 1
}

# quiet NAME COMMAND...: its stdout to $tmp/NAME.
quiet() {
    to=$tmp/$1
    shift
    "$@" > "$to" 2> "$tmp/err" || die "$*: $(cat "$tmp/err")"
}

named() {
    grep -qF "$line" "$1" || die "${1##*/} does not name its build"
}

echo "$line" | grep -qE \
    '^weft [0-9]+\.[0-9]+\.[0-9]+( \([0-9a-f]+(-dirty)?\))?, .*[0-9] .*-std=c11 ' ||
    die "weft --version says '$line'"

awk 'BEGIN { for (i = 0; i < 400; i++) print "the owl saw the " i % 7 " hens" }' \
    > "$tmp/text.txt"
quiet out "$weft" data build "$tmp/text.txt" --tokenizer bytes --out "$tmp/data"
named "$tmp/data/dataset.json"

quiet out "$weft" train "$tmp/data" --out "$tmp/run" --steps 2 layers=1 width=8 heads=1 \
    context=16 \
    batch=2
named "$tmp/run/config.cfg"
for word in version commit compiler flags level; do
    head -n 1 "$tmp/run/log.jsonl" | grep -qF "\"$word\": " ||
        die "the log names no $word"
done
level=$(echo "$line" | sed 's/^[^,]*, \([^,]*\),.*/\1/')
grep -qF "\"level\": \"$level\"" "$tmp/run/latest/trainer.json" ||
    die "the checkpoint does not name the level $level"
quiet out "$weft" train --resume "$tmp/run" --steps 3
[ "$(grep -c '^#' "$tmp/run/config.cfg")" = 1 ] || die "config.cfg names several builds"

quiet score "$weft" score "$v1/checkpoint" "$v1/dataset" --json
named "$tmp/score"
quiet bench "$weft" bench --arch mingru --layers 1 --width 8 --heads 1 --context 16 \
    --batch 1 \
    --steps 1 --json
named "$tmp/bench"

compare() {
    quiet table "$weft" compare "$tmp/data" --arch mingru,rglru --tokens 64 --seeds 1 \
        --out "$tmp/compare" --json layers=1 width=8 heads=1 context=16 batch=2
}
compare
named "$tmp/compare/results.jsonl"
named "$tmp/compare/report.md"
named "$tmp/compare/report.html"
named "$tmp/table"
! grep 'another build' "$tmp/compare/report.md" || die "a comparison of one build has two"
sed -i 's/"build": "weft[^"]*"/"build": "weft 0.0.0"/' \
    "$tmp/compare/mingru/seed-1/result.json"
compare
grep -q '^1 of 2 runs were made by another build' "$tmp/compare/report.md" ||
    die "a run of another build is said to be this one's"

# Lines of a record stand below the build that computed them; another one names itself
# anew.
lab() {
    quiet lab.json "$weft" lab words --brief --json --out "$tmp/lab"
}
lab
named "$tmp/lab.json"
named "$tmp/lab/words.csv"
[ "$(grep -c '^# weft' "$tmp/lab/words.csv")" = 1 ] ||
    die "a record names its build more than once"
sed 's/^# weft.*/# weft 0.0.0/; $d' "$tmp/lab/words.csv" > "$tmp/older"
cp "$tmp/older" "$tmp/lab/words.csv"
lab
named "$tmp/lab/words.csv"
[ "$(grep -c '^# weft' "$tmp/lab/words.csv")" = 2 ] ||
    die "two builds computed a record of one"
grep -q '"build": "weft 0.0.0"' "$tmp/lab.json" ||
    die "a cell of another build is said to be this one's"
echo "artefacts.sh: ok"
