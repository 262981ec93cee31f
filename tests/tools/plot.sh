#!/bin/sh
# weft plot draws what the log says: on the terminal, in SVG and HTML, as a table.
set -eu
weft=${WEFT:-build/release/bin/weft}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export LC_ALL=C

die() {
    echo "plot.sh: $*" >&2
    exit 1
}

# wrong CODE WORDS ARGUMENTS...: one line with these words, and this exit code.
wrong() {
    code=$1 words=$2
    shift 2
    "$weft" plot "$@" > "$tmp/out" 2> "$tmp/err" && die "plot $*: exit 0"
    [ $? = "$code" ] || die "plot $*: another exit code than $code"
    grep -q "$words" "$tmp/err" || die "plot $*: $(cat "$tmp/err")"
    [ "$(wc -l < "$tmp/err")" = 1 ] && [ ! -s "$tmp/out" ] ||
        die "plot $*: more than a line"
}

awk 'BEGIN { for (i = 0; i < 400; i++) print "the owl saw the " i % 7 " hens" }' \
    > "$tmp/text.txt"
"$weft" data build "$tmp/text.txt" --tokenizer bytes --out "$tmp/data" > "$tmp/out" 2>&1
for run in a 'b<i>'; do
    "$weft" train "$tmp/data" --out "$tmp/$run" --steps 20 layers=1 width=8 heads=1 \
        context=16 batch=2 \
        eval_every=4 checkpoint_every=10 > "$tmp/out" 2>&1 || die "$(cat "$tmp/out")"
done
cd "$tmp"
case $weft in /*) ;; *) weft=$OLDPWD/$weft ;; esac

# The terminal: ASCII in this locale, at most 80 columns, both runs and the yardstick
# named.
"$weft" plot a 'b<i>' > out
[ "$(LC_ALL=C tr -d '\n -~' < out | wc -c)" = 0 ] ||
    die "bytes beyond ASCII in the C locale"
awk 'length > 80 { exit 1 }' out || die "more than 80 columns"
for word in 'a a ' 'b b<i> ' 'zstd -19' 'bits per byte' 'steps'; do
    grep -qF "$word" out || die "the terminal does not say '$word': $(cat out)"
done
LC_ALL=C.UTF-8 "$weft" plot a | grep -q '[⠀-⣿]' || die "no braille in a UTF-8 locale"
last=$(sed -n 's/.*"val_bpb": \([0-9.]*\).*/\1/p' a/log.jsonl | tail -n 1)
grep -qF "a a $(printf %.4g "$last")" out ||
    die "the last validation is $last: $(cat out)"

# Files: five quantities (the window never changes), names made harmless, no variables, no
# scripts.
"$weft" plot a 'b<i>' --x flops --out both > out 2>&1
for f in both.svg both.html; do
    [ "$(grep -o '>training FLOPs<' $f | wc -l)" = 5 ] || die "$f: not five charts"
    grep -qF 'b&lt;i&gt;' $f && ! grep -qF 'b<i>' $f || die "$f: a name is not harmless"
    ! grep -qE 'nan|<script|src=' $f || die "$f: nan or a script"
done
! grep -qF 'var(' both.svg || die "both.svg: librsvg and Inkscape know no variables"
"$weft" plot a --out only.svg > out 2>&1
[ -e only.svg ] && [ ! -e only.html ] && [ ! -e only.svg.html ] ||
    die "--out only.svg writes more"

# The table: a row for each step, the log's own numbers, empty where nothing was
# validated.
"$weft" plot a 'b<i>' --csv > table
[ "$(wc -l < table)" = 41 ] || die "$(wc -l < table) lines for two runs of 20 steps"
awk -F, 'NF != 16 { exit 1 }' table || die "rows of different lengths"
sed -n 's/^{"step": \([0-9]*\),.*"loss": \([^,]*\), "val_loss": \([^,]*\),.*/\1 \2 \3/p' \
    a/log.jsonl |
    sed 's/null//' > said
exactly() {
    awk '{ printf "%d %.17g %s\n", $1, $2, NF < 3 ? "" : sprintf("%.17g", $3) }'
}
exactly < said > numbers
awk -F, 'NR > 1 && NR < 22 { print $2, $5, $6 }' table | exactly | diff - numbers > out ||
    die "$(head -n 3 out)"

# Up to a checkpoint.
[ "$("$weft" plot a@10 --csv | wc -l)" = 11 ] || die "a@10 does not end at step 10"
"$weft" plot a@best a > out || die "a@best is not drawn"
wrong 3 'neither best nor the step' a@3

# A run that is writing its next line, and others that are none.
mkdir torn empty cmp
grep -v '"sample"' a/log.jsonl | head -c -20 > torn/log.jsonl
[ "$("$weft" plot torn --csv | wc -l)" = 20 ] || die "a torn line counts"
head -n 1 a/log.jsonl > empty/log.jsonl
touch cmp/compare.json
wrong 3 'no step is logged yet' empty
wrong 3 'no log.jsonl' a nowhere
wrong 3 'seed-1' cmp
wrong 2 'did you mean tokens' a --x token
wrong 2 'give one run'
wrong 2 'no such choice' a --y beauty
"$weft" plot a --out no/such/place.svg > out 2> err && die "wrote to no/such/place.svg"
[ $? = 5 ] || die "another exit code than 5"
rm -f a/log.jsonl && mkfifo a/log.jsonl
wrong 3 'log.jsonl' a
