#!/bin/sh
# Train the cells of docs/recipe.md that have no result yet.
#
#   tools/recipe/run.sh [--table NAME] [--text NAME=FILE ...]
#
# A cell is a line of cells.sh: table, architecture, settings, text, seed, steps (or a
# time, 120s), parted by tabs. Each is one `weft train`; its line with the final bits per
# byte of the validation text (or "diverged") and the commit is appended to results.tsv. A
# cell with a line there is not run again, so a killed run.sh continues where it was. The
# list is read anew before each cell. Weights do not depend on the number of threads, so
# JOBS cells run beside each other on a thread each; a time is that of one core.
#
#   WEFT      the program (build/release/bin/weft)
#   JOBS      cells at once (2)
#   WORK      texts and runs (runs/recipe)
#   COMMIT    what the program was built from (HEAD, with + when the tree has changes)
#   CELLS     what prints the cells (tools/recipe/cells.sh)
#   RESULTS   where results are kept (tools/recipe/results.tsv)
#
# Texts: stories (seed 101) for what is reported, stories-dev (seed 1001) for what is
# chosen, c (this tree at SOURCE), others by --text: shakespeare is tinyshakespeare, kjv
# what `bible -l0 gen1:1-rev22:21` of Debian's bible-kjv prints, fortunes the texts of
# Debian's fortunes (not *.dat, *.u8) in the order of their names, kjv-1m and kjv-half the
# first 1,100,000 and 550,000 bytes of kjv. Vocabulary 2048 where a cell names none.
set -eu

SOURCE=9d048c1
here=$(dirname "$0")
weft=${WEFT:-build/release/bin/weft}
work=${WORK:-runs/recipe}
cells=${CELLS:-$here/cells.sh}
results=${RESULTS:-$here/results.tsv}
table= texts=

die() { echo "run.sh: $1" >&2; exit "$2"; }

while [ $# -gt 0 ]; do
    case $1 in
    --table) [ $# -gt 1 ] || die '--table: give its name; cells.sh lists them' 2
             table=$2; shift 2 ;;
    --text) case ${2:-} in
            *?=?*) ;;
            *) die '--text: give its name and file, as in shakespeare=FILE' 2 ;;
            esac
            [ -r "${2#*=}" ] || die "${2#*=}: cannot be read" 3
            texts="$texts $2"; shift 2 ;;
    *) die "$1: not known; give --table NAME or --text NAME=FILE" 2 ;;
    esac
done

changed=$(git diff --quiet HEAD -- '*.[ch]' '*.cfg' || echo +)
commit=${COMMIT:-$(git rev-parse --short HEAD)$changed}
tab=$(printf '\t')
mkdir -p "$work"
claims=$(mktemp -d "$work/claims.XXXXXX")
trap 'rm -rf "$claims"' EXIT
trap 'exit 130' INT TERM

# The file of text $1 that --text gave; fails where it gave none.
given() {
    for pair in $texts; do
        [ "${pair%%=*}" != "$1" ] || { echo "${pair#*=}"; return 0; }
    done
    return 1
}

# Write the text $1 to $2.
write_text() {
    case $1 in
    stories)     "$weft" data stories --bytes 3M --seed 101 --out "$2" ;;
    stories-dev) "$weft" data stories --bytes 3M --seed 1001 --out "$2" ;;
    c)           mkdir "$2.tree" && git archive "$SOURCE" | tar -x -C "$2.tree" &&
                 find "$2.tree" -name '*.[ch]' | LC_ALL=C sort | xargs cat > "$2"
                 rm -r "$2.tree" ;;
    *)           cp "$(given "$1")" "$2" ;;
    esac
}

# The words of settings $2 that are of the tokenizer (with $1 = ""), or the others ("-v").
words_of() {
    printf '%s\n' "$2" | tr ' ' '\n' | { grep $1 -E '^(vocab|tokenizer)=' || :; } |
        tr '\n' ' '
}

# Make the dataset of text $1 by the settings $2 where it is not there; prints its name.
dataset() {
    words=$(words_of "" "$2")
    name=$1$(printf %s "$words" | tr -c 'a-z0-9' -)
    if [ ! -e "$work/$name/dataset.json" ]; then
        rm -rf "${work:?}/$name" "$work/$1.txt" "$work/$1.txt.tree"
        # shellcheck disable=SC2086
        { write_text "$1" "$work/$1.txt" &&
          "$weft" data build "$work/$1.txt" --out "$work/$name" vocab=2048 $words
        } > "$work/$name.said" 2>&1 || die "$name: $(tail -1 "$work/$name.said")" 3
    fi
    echo "$name"
}

# The first cell that has no result and that nobody works on, claimed; fails when there is
# none.
next_cell() {
    "$cells" | awk -F '\t' -v table="$table" -v results="$results" '
        function cell() { return $1 FS $2 FS $3 FS $4 FS $5 FS $6 }
        BEGIN { while ((getline < results) > 0) done[cell()] = 1 }
        (table == "" || $1 == table) && !(cell() in done)' |
    while IFS= read -r line; do
        name=$(printf %s "$line" | cksum | tr -d ' ')-$$    # another run.sh's is another
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
        case $steps in
        *s) length="--for $steps" ;;
        *)  length="steps=$steps eval_every=$steps checkpoint_every=$steps" ;;
        esac
        # the settings are words, and none holds a pattern of file names
        # shellcheck disable=SC2086
        OMP_NUM_THREADS=1 OMP_PROC_BIND=false nice -n 19 "$weft" train \
            "$work/$(dataset "$text" "$settings")" --arch "$arch" \
            $(words_of -v "$settings") seed="$seed" $length \
            sample_every=1000000 keep=1 --out "$work/$1" > "$work/$1.said" 2>&1 \
            < /dev/null
    }
}

# The last number that $log has for the key $1.
value() {
    sed -n "s/.*\"$1\": *\([0-9.]*\).*/\1/p" "$log" 2> /dev/null | tail -1
}

# Keep the result of the cell of line $2: bits per byte, or that it diverged; where a time
# is given, also how many steps it had. $3 is train's status.
keep() {
    log=$work/$1/log.jsonl
    bpb=$(value val_bpb)
    case $3 in
    0) ;;
    4) bpb=diverged ;;
    *) echo "run.sh: $2: $(tail -1 "$work/$1.said")" >&2
       return ;;
    esac
    [ -n "$bpb" ] || { echo "run.sh: $2: no validation in its log" >&2; return; }
    case $2 in
    *s) steps=$tab$(value step) ;;
    *)  steps= ;;
    esac
    printf '%s\t%.6s\t%s%s\n' "$2" "$bpb" "$commit" "$steps" >> "$results"
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

# Before any cell: workers do not wait for each other's tokenizers.
"$cells" | awk -F '\t' -v table="$table" \
    'table == "" || $1 == table { print $4 FS $3 }' | sort -u |
while IFS=$tab read -r text settings; do
    case $text in
    stories | stories-dev | c) ;;
    *)  given "$text" > /dev/null ||
            die "a cell trains on $text: give --text $text=FILE, or --table NAME" 2 ;;
    esac
    dataset "$text" "$settings" > /dev/null
done
jobs=${JOBS:-2}
while [ "$jobs" -gt 0 ]; do
    worker &
    jobs=$((jobs - 1))
done
wait
