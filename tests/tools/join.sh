#!/bin/sh
# A comparison that three processes join, one of which is killed: every run once, the bits
# and the table of one process alone. The same by --jobs.
set -eu
weft=${WEFT:-build/release/bin/weft}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export OMP_NUM_THREADS=1 OMP_PROC_BIND=false

die() {
    echo "join.sh: $*" >&2
    exit 1
}

"$weft" data stories --bytes 100k > "$tmp/text.txt" 2> "$tmp/null"
what="$tmp/text.txt --arch softmax,gla --tokens 8k --seeds 2 layers=1 width=16 heads=2 \
context=32 batch=4 tokenizer=bytes checkpoint_every=10"

same() {
    for f in softmax gla; do
        for seed in 1 2; do
            for g in model.safetensors trainer.safetensors; do
                cmp "$tmp/alone/$f/seed-$seed/latest/$g" "$1/$f/seed-$seed/latest/$g" ||
                    die "$2: $f seed $seed: $g differs"
            done
        done
    done
    cut -d, -f1-15 "$tmp/alone/results.csv" > "$tmp/a"
    cut -d, -f1-15 "$1/results.csv" > "$tmp/b"
    cmp "$tmp/a" "$tmp/b" || die "$2: another table"
    [ -z "$(find "$1" -name '*.claim-*')" ] || die "$2: claims are left"
}

"$weft" compare $what --out "$tmp/alone" > "$tmp/alone.txt" 2> "$tmp/alone.err" ||
    die "alone: $(cat "$tmp/alone.err")"

for i in 1 2 3; do
    "$weft" compare $what --join "$tmp/three" > "$tmp/three.$i" 2> "$tmp/three.$i.err" &
    eval "pid$i=$!"
done
# Kill the second in the middle of a run.
until [ -n "$(find "$tmp/three" -name '*.claim-0' 2> "$tmp/null" | grep seed)" ]; do
    kill -0 $pid1 2> "$tmp/null" || die "nobody claims a run: $(cat "$tmp/three.1.err")"
    sleep 0.05
done
sleep 0.2
kill -9 $pid2 2> "$tmp/null" || die "the second had ended already"
wait $pid1 || die "the first: $(cat "$tmp/three.1.err")"
wait $pid3 || die "the third: $(cat "$tmp/three.3.err")"
same "$tmp/three" "three processes"
grep -q 'bits/byte' "$tmp/three.1" || die "the first printed no table"
cmp "$tmp/three.1" "$tmp/three.3" || die "two tables"

# Alone and together do not mix.
mkdir "$tmp/held"
cp "$tmp/three/compare.json" "$tmp/held/"
status=0
flock "$tmp/held/lock" "$weft" compare $what --join "$tmp/held" > "$tmp/out" 2>&1 ||
    status=$?
[ $status -eq 5 ] || die "joined a comparison that another makes alone: exit $status"

"$weft" compare $what --jobs 2 --out "$tmp/jobs" > "$tmp/jobs.txt" 2> "$tmp/jobs.err" ||
    die "--jobs: $(cat "$tmp/jobs.err")"
same "$tmp/jobs" "--jobs"
[ "$(grep -c 'bits/byte in' "$tmp/jobs.err")" -eq 4 ] || die "--jobs tells the runs twice"
status=0
"$weft" compare $what --jobs 2 --out "$tmp/jobs2" --for 5s > "$tmp/out" 2>&1 || status=$?
[ $status -eq 2 ] || die "--jobs with two budgets: exit $status"

# The laboratory: the same cells, the same words.
lab="mqar --brief --arch softmax,linear,gla --seeds 3"
# Without the seconds that each took.
cells() { grep -v '^#' "$1/mqar.csv" | sed 's/\(",[^,]*\),[^,]*/\1/' | sort; }
"$weft" lab $lab --out "$tmp/lab" > "$tmp/lab.txt" 2> "$tmp/null" || die "lab alone"
for i in 1 2 3; do
    "$weft" lab $lab --join "$tmp/shared" > "$tmp/shared.$i" 2> "$tmp/null" &
    eval "pid$i=$!"
done
until [ -n "$(find "$tmp/shared" -name '*.claim-0' 2> "$tmp/null")" ]; do
    kill -0 $pid1 2> "$tmp/null" || die "nobody claims a cell"
    sleep 0.02
done
kill -9 $pid2 2> "$tmp/null" || die "the second had ended already"
wait $pid1 && wait $pid3 || die "lab --join"
"$weft" lab $lab --jobs 2 --out "$tmp/worked" > "$tmp/worked.txt" 2> "$tmp/null" ||
    die "lab --jobs"
cells "$tmp/lab" > "$tmp/a"
for dir in shared worked; do
    cells "$tmp/$dir" > "$tmp/b"
    cmp "$tmp/a" "$tmp/b" || die "lab: other cells in $dir"
    [ -z "$(find "$tmp/$dir" -name '*.claim-*')" ] || die "lab: claims are left in $dir"
done
for out in shared.1 shared.3 worked.txt; do
    grep -v '^written to' "$tmp/lab.txt" > "$tmp/a"
    grep -v '^written to' "$tmp/$out" > "$tmp/b"
    cmp "$tmp/a" "$tmp/b" || die "lab: $out says something else"
done
echo "join.sh: ok"
