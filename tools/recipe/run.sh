changed=$(git diff --quiet HEAD -- '*.[ch]' '*.cfg' || echo +)
commit=${COMMIT:-$(git rev-parse --short HEAD)$changed}#!/bin/sh
# Train the cells of docs/recipe.md that have no result yet.
#
#   tools/recipe/run.sh [--table NAME] [--shakespeare FILE]
#
# A cell is a line of cells.sh: table, architecture, settings, text, seed, steps, parted
# by tabs. Each is one `weft train`; its line with the final bits per byte of the
# validation text (or "diverged") and the commit is appended to results.tsv. A cell with a
# line there is not run again, so a killed run.sh continues where it was. The list is read
# anew before each cell. Weights do not depend on the number of threads, so JOBS cells run
# beside each other on a thread each.
#
#   WEFT      the program (build/release/bin/weft)
#   JOBS      cells at once (2)
#   WORK      texts and runs (runs/recipe)
#   COMMIT    what the program was built from (HEAD, with + when the tree has changes)
#   CELLS     what prints the cells (tools/recipe/cells.sh)
#   RESULTS   where results are kept (tools/recipe/results.tsv)
#
# Texts: stories (seed 101) for what is reported, stories-dev (seed 1001) for what is
# chosen, shakespeare (--shakespeare FILE), c (this tree at SOURCE). Vocabulary 2048.
set -eu

SOURCE=9d048c1
here=$(dirname "$0")
weft=${WEFT:-build/release/bin/weft}
work=${WORK:-runs/recipe}
cells=${CELLS:-$here/cells.sh}
results=${RESULTS:-$here/results.tsv}
table= shakespeare=

die() { echo "run.sh: $1" >&2; exit "$2"; }

while [ $# -gt 0 ]; do
    case $1 in
    --table) [ $# -gt 1 ] || die '--table: give its name; cells.sh lists them' 2
             table=$2; shift 2 ;;
    --shakespeare) [ $# -gt 1 ] || die '--shakespeare: give the file' 2
                   shakespeare=$2; shift 2 ;;
    *) die "$1: not known; give --table NAME or --shakespeare FILE" 2 ;;
    esac
done
[ -z "$shakespeare" ] || [ -r "$shakespeare" ] || die "$shakespeare: cannot be read" 3

changed=$(git diff --quiet HEAD -- '*.[ch]' '*.cfg' || echo +)
commit=${COMMIT:-$(git rev-parse --short HEAD)$changed}
tab=$(printf '\t')
mkdir -p "$work"
claims=$(mktemp -d "$work/claims.XXXXXX")
trap 'rm -rf "$claims"' EXIT
trap 'exit 130' INT TERM

# Write the text $1 to $2.
write_text() {
    case $1 in
    stories)     "$weft" data stories --bytes 3M --seed 101 --out "$2" ;;
    stories-dev) "$weft" data stories --bytes 3M --seed 1001 --out "$2" ;;
    shakespeare) cp "$shakespeare" "$2" ;;
    c)           mkdir "$2.tree" && git archive "$SOURCE" | tar -x -C "$2.tree" &&
                 find "$2.tree" -name '*.[ch]' | LC_ALL=C sort | xargs cat > "$2"
                 rm -r "$2.tree" ;;
    *)           echo 'no such text'; return 1 ;;
    esac
}

# The dataset of text $1, made on first use.
dataset() {
    [ ! -e "$work/$1/dataset.json" ] || return 0
    rm -rf "$work/$1" "$work/$1.txt" "$work/$1.txt.tree"
    { write_text "$1" "$work/$1.txt" &&
      "$weft" data build "$work/$1.txt" --out "$work/$1" vocab=2048; } > "$work/$1.said" \
          2>&1 ||
        die "$1: $(tail -1 "$work/$1.said")" 3
}

# The first cell that has no result and that nobody works on, claimed; fails when there is
# none.
next_cell() {
    "$cells" | awk -F '\t' -v table="$table" -v results="$results" '
        function cell() { return $1 FS $2 FS $3 FS $4 FS $5 FS $6 }
        BEGIN { while ((getline < results) > 0) done[cell()] = 1 }
        (table == "" || $1 == table) && !(cell() in done)' |
    while IFS= read -r line; do
        name=$(printf %s "$line" | cksum | tr -d ' ')
        if mkdir "$claims/$name" 2> /dev/null; then
            printf '%s\n' "$name" "$line"
            break
        fi
    done
}

# Train the cell of line $2, whose run is $1.
train() {
    printf '%s\n' "$2" | {
        IFS=$tab read -r _ arch settings text seed steps
        rm -rf "$work/$1"
        # the settings are words, and none holds a pattern of file names
        # shellcheck disable=SC2086
        OMP_NUM_THREADS=1 OMP_PROC_BIND=false nice -n 19 "$weft" train "$work/$text" \
            --arch "$arch" $settings seed="$seed" steps="$steps" eval_every="$steps" \
            checkpoint_every="$steps" sample_every=1000000 keep=1 \
            --out "$work/$1" > "$work/$1.said" 2>&1 < /dev/null
    }
}

# Keep the result of the cell of line $2: bits per byte, or that it diverged; $3 is
# train's status.
keep() {
    bpb=$(sed -n 's/.*"val_bpb": *\([0-9.]*\).*/\1/p' "$work/$1/log.jsonl" 2> /dev/null |
        tail -1)
    case $3 in
    0) ;;
    4) bpb=diverged ;;
    *) echo "run.sh: $2: $(tail -1 "$work/$1.said")" >&2
       return ;;
    esac
    printf '%s\t%.6s\t%s\n' "$2" "$bpb" "$commit" >> "$results"
    rm -rf "${work:?}/$1" "$work/$1.said"
}

worker() {
    while next=$(next_cell) && [ -n "$next" ]; do
        name=$(printf '%s\n' "$next" | sed -n 1p)
        line=$(printf '%s\n' "$next" | sed -n 2p)
        status=0
        train "$name" "$line" || status=$?
        keep "$name" "$line" "$status"
    done
}

for text in $("$cells" | awk -F '\t' -v table="$table" \
    'table == "" || $1 == table { print $4 }' |
              sort -u); do
    [ "$text" != shakespeare ] || [ -n "$shakespeare" ] ||
        die 'a cell trains on tinyshakespeare: give --shakespeare FILE, or --table NAME' 2
    dataset "$text"
done
jobs=${JOBS:-2}
while [ "$jobs" -gt 0 ]; do
    worker &
    jobs=$((jobs - 1))
done
wait
