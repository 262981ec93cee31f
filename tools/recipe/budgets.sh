#!/bin/sh
# Does the order of architectures change with the budget? `weft compare` by the clock on
# one text: eight at 10 s and at 1 min a run over five seeds, four at 5 min over two. A
# comparison that was stopped goes on. Prints a table, and keeps every run.
#
#   tools/recipe/budgets.sh TEXT [--for "10s 1m 5m"]
#
#   WEFT      the program (build/release/bin/weft)
#   JOBS      processes that share a comparison, one thread each (all cores)
#   WORK      where comparisons go (runs/recipe)
#   RESULTS   text, time, architecture, seed, steps, bits per byte, share of stories that
#             hold (tools/recipe/budgets.tsv)
set -eu

here=$(dirname "$0")
weft=${WEFT:-build/release/bin/weft}
jobs=${JOBS:-$(nproc)}
work=${WORK:-runs/recipe}
results=${RESULTS:-$here/budgets.tsv}
times="10s 1m 5m" text=
eight=softmax,luna,linear,swax,gla,mlstm,deltanet,ssd
four=softmax,luna,swax,ssd

die() { echo "budgets.sh: $1" >&2; exit "$2"; }

while [ $# -gt 0 ]; do
    case $1 in
    --for) [ $# -gt 1 ] || die '--for: give times' 2
           times=$2; shift 2 ;;
    *)     text=$1; shift ;;
    esac
done
[ -n "$text" ] || die 'give a text' 2
[ -r "$text" ] || die "$text: cannot be read" 3
pids=
trap 'kill $pids 2> /dev/null; exit 130' INT TERM
mkdir -p "$work"
touch "$results"
name=$(basename "$text" .txt)

# All runs of one budget, by several processes.
compare() {
    archs=$eight seeds=5
    [ "$1" != 5m ] || { archs=$four; seeds=2; }
    pids=
    for i in $(seq "$jobs"); do
        "$weft" compare "$text" --arch $archs --size nano --for "$1" --seeds $seeds \
            seed=101 threads=1 --join "$2" > "$2.said-$i" 2>&1 < /dev/null &
        pids="$pids $!"
    done
    i=0
    for pid in $pids; do
        i=$((i + 1)) status=0
        wait "$pid" || status=$?
        [ $status -eq 0 ] || { kill $pids 2> /dev/null || :
                               die "$(tail -n 1 "$2.said-$i")" $status; }
    done
    pids=
    rm -f "$2".said-*
}

for time in $times; do
    ! grep -q "^$name	$time	" "$results" || continue
    dir=$work/budget-$name-$time
    compare "$time" "$dir"
    awk -F, -v name="$name" -v time="$time" -v OFS='\t' '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        { gsub(/"/, "", $1)
          print name, time, $1, $2, $at["steps"], $at["bits_per_byte"], $at["stories"] }
    ' "$dir/results.csv" >> "$results"
done

awk -F '\t' '
    { key = $1 FS $2 FS $3
      if (!(key in seen)) { seen[key] = 1; keys[++count] = key }
      if ($6 == "") bad[key]++
      else { sum[key] += $6; squares[key] += $6 * $6; n[key]++ } }
    END {
        print "| text | time | architecture | bits per byte |"
        print "|---|---|---|---|"
        for (i = 1; i <= count; i++) {
            split(keys[i], part, FS)
            if (bad[keys[i]]) {
                printf "| %s | %s | `%s` | diverged (%d of %d) |\n", part[1], part[2],
                       part[3], bad[keys[i]], bad[keys[i]] + n[keys[i]]
                continue
            }
            mean = sum[keys[i]] / n[keys[i]]
            spread = squares[keys[i]] - n[keys[i]] * mean * mean
            spread /= n[keys[i]] > 1 ? n[keys[i]] - 1 : 1
            printf "| %s | %s | `%s` | %.3f ± %.3f (%d) |\n", part[1], part[2], part[3],
                   mean, sqrt(spread > 0 ? spread : 0), n[keys[i]]
        }
    }' "$results"
