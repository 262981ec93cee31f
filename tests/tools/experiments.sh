#!/bin/sh
# tools/recipe: a cell is trained once, one that fails leaves no result, and the tables
# are those of the results.
set -eu
weft=${WEFT:-build/release/bin/weft}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export WEFT="$weft" WORK="$dir/work" CELLS="$dir/cells.sh" RESULTS="$dir/results.tsv" \
    COMMIT=c0ffee

die() { echo "experiments.sh: $1"; cat "$dir/said" "$RESULTS"; exit 1; }
results() { cut -f 1,2,5 "$RESULTS" | LC_ALL=C sort | tr '\t\n' ' ;'; }

mkdir -p "$WORK"
"$weft" data stories --bytes 60k --seed 7 --out "$dir/stories.txt" 2> "$dir/said"
"$weft" data build "$dir/stories.txt" --out "$WORK/stories" vocab=300 > /dev/null \
    2>> "$dir/said"
cat > "$CELLS" <<'CELLS'
#!/bin/sh
tiny='layers=1 width=16 heads=2 context=16 batch=2'
printf 'one\tsoftmax\t%s lr=%s\tstories\t%s\t2\n' \
    "$tiny" 1e-3 1 "$tiny" 1e-3 2 "$tiny" 3e-3 1
printf 'two\tmingru\t%s\tstories\t1\t2\n' "$tiny" "$tiny heads=3"
CELLS
chmod +x "$CELLS"
: > "$RESULTS"

tools/recipe/run.sh --table one > "$dir/said" 2>&1 || die 'a table fails'
[ "$(results)" = 'one softmax 1;one softmax 1;one softmax 2;' ] ||
    die 'not the cells of one table'
cp "$RESULTS" "$dir/before"
tools/recipe/run.sh --table one > "$dir/said" 2>&1
cmp -s "$RESULTS" "$dir/before" || die 'a cell with a result is trained again'
sed 1d "$dir/before" > "$RESULTS"
tools/recipe/run.sh > "$dir/said" 2>&1
[ "$(results)" = 'one softmax 1;one softmax 1;one softmax 2;two mingru 1;' ] ||
    die 'not the cells that were left'
grep -q 'heads' "$dir/said" || die 'a cell that fails is not told'
sort "$dir/before" > "$dir/a"
grep '^one' "$RESULTS" | sort > "$dir/b"
cmp -s "$dir/a" "$dir/b" || die 'a cell trained again has another result'

printf 'x\tgla\tlr=%s\tstories\t%s\t9\t%s\tc0ffee\n' 2e-3 1 0.5 1e-3 1 0.25 2e-3 2 0.75 \
    > "$RESULTS"
printf 'x\tssd\tlr=1e-3\tstories\t1\t9\tdiverged\tc0ffee\n' >> "$RESULTS"
tools/recipe/tables.sh > "$dir/said"
cat > "$dir/want" <<'TABLE'
x: stories, 9 steps, seed 1, 2, `lr=2e-3`

| | lr=1e-3 | lr=2e-3 |
|---|---|---|
| `gla` | 0.250 | 0.625 ± 0.177 (2) |
| `ssd` | diverged |  |

TABLE
cmp -s "$dir/said" "$dir/want" ||
    die 'not the table of the results'
printf 'x\tgla\t\tverse\t1\t9\n' > "$dir/verse"
printf '#!/bin/sh\ncat "%s/verse"\n' "$dir" > "$CELLS"
code=0
tools/recipe/run.sh > "$dir/said" 2>&1 || code=$?
[ "$code" -eq 2 ] && grep -q 'give --text verse=FILE' "$dir/said" ||
    die 'a text that is not known passes'
code=0
tools/recipe/run.sh --text verse="$dir/none" > "$dir/said" 2>&1 || code=$?
[ "$code" -eq 3 ] || die 'a text that is not there passes'

# a text of its own, by the clock, with a tokenizer of its own: its steps are kept
: > "$RESULTS"
printf 'x\tgla\t%s vocab=290\tverse\t1\t1s\n' \
    'layers=1 width=16 heads=2 context=16 batch=2' > "$dir/verse"
tools/recipe/run.sh --text verse="$dir/stories.txt" > "$dir/said" 2>&1 ||
    die 'a text that is given is not trained'
grep -q '"vocab": 290' "$WORK"/verse*/dataset.json || die 'not the vocabulary of the cell'
[ "$(cut -f 6 "$RESULTS")" = 1s ] && [ "$(cut -f 9 "$RESULTS")" -ge 1 ] ||
    die 'the steps of a second are not kept'
code=0
tools/recipe/run.sh --tables > "$dir/said" 2>&1 || code=$?
[ "$code" -eq 2 ] || die 'a flag that is not known passes'
