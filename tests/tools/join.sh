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
how="--arch softmax,gla --tokens 8k --seeds 2 layers=1 width=16 heads=2 \
context=32 batch=4 tokenizer=bytes checkpoint_every=10"
what="$tmp/text.txt $how"

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

# value FILE NAME: of a number in JSON with a line for each.
value() {
    sed -n "s/.*\"$2\": \([0-9.e+]*\).*/\1/p" "$1"
}

# alone OUT WHAT: speeds were measured when all runs were done, and stand in the table.
alone() {
    for f in softmax gla; do
        [ -z "$(find "$1" -name result.json -newer "$1/$f/speed.json")" ] ||
            die "$2: the speed of $f was measured while others ran"
        awk -F, -v f=$f -v train="$(value "$1/$f/speed.json" train)" \
            -v decode="$(value "$1/$f/speed.json" decode)" '
            function near(a, b) { return a > 0 && a / b > 0.999999 && a / b < 1.000001 }
            $1 == "\"" f "\"" { n++; ok += near($17, train) && near($18, decode) &&
                            near($14 / $16, train) }
            END { exit !(n == 2 && ok == 2) }' "$1/results.csv" ||
            die "$2: not the speed of $f alone: $(grep "^\"$f" "$1/results.csv")"
    done
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
alone "$tmp/three" "three processes"
[ ! -e "$tmp/alone/gla/speed.json" ] || die "alone: speeds measured again"

# While one process measures speeds, the others wait, and take them over. What was left by
# one that was killed when its run was done is removed.
rm "$tmp/three/gla/speed.json"
cat /proc/sys/kernel/random/boot_id > "$tmp/three/gla/seed-1.claim-0"
cat /proc/sys/kernel/random/boot_id > "$tmp/three/speed.claim-0"
flock "$tmp/three/speed.claim-0" sleep 2 &
"$weft" compare $what --join "$tmp/three" > "$tmp/late" 2> "$tmp/late.err" &
pid1=$!
sleep 1
kill -0 $pid1 2> "$tmp/null" && [ ! -e "$tmp/three/gla/speed.json" ] ||
    die "two processes measure speeds at once: $(cat "$tmp/late.err")"
wait $pid1 || die "the late one: $(cat "$tmp/late.err")"
alone "$tmp/three" "a late one"
[ -z "$(find "$tmp/three" -name '*.claim-*')" ] || die "claims of the dead are left"

# Alone and together do not mix.
mkdir "$tmp/held"
cp "$tmp/three/compare.json" "$tmp/held/"
status=0
flock "$tmp/held/lock" "$weft" compare $what --join "$tmp/held" > "$tmp/out" 2>&1 ||
    status=$?
[ $status -eq 5 ] || die "joined a comparison that another makes alone: exit $status"

# Behind -- there are no flags: the workers' own must stand before it.
"$weft" compare $how --jobs 2 --out "$tmp/jobs" -- "$tmp/text.txt" > "$tmp/jobs.txt" \
    2> "$tmp/jobs.err" || die "--jobs: $(cat "$tmp/jobs.err")"
! grep '^weft compare:' "$tmp/jobs.err" || die "--jobs: a worker failed"
same "$tmp/jobs" "--jobs"
alone "$tmp/jobs" "--jobs"
[ "$(grep -c 'bits/byte in' "$tmp/jobs.err")" -eq 4 ] || die "--jobs tells the runs twice"
status=0
"$weft" compare $what --jobs 2 --out "$tmp/jobs2" --for 5s > "$tmp/out" 2>&1 || status=$?
[ $status -eq 2 ] || die "--jobs with two budgets: exit $status"
status=0
"$weft" compare "$tmp/text.txt" --arch softmax,sofmax --tokens 1k --jobs 2 \
    --out "$tmp/jobs2" > "$tmp/out" 2>&1 || status=$?
[ $status -eq 2 ] && [ "$(grep -c '^weft compare' "$tmp/out")" -eq 1 ] ||
    die "--jobs: a mistake is not told once: exit $status"

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
status=0
"$weft" lab mqra --jobs 2 --out "$tmp/none" > "$tmp/out" 2>&1 || status=$?
[ $status -eq 2 ] && [ "$(grep -c "did you mean 'mqar'" "$tmp/out")" -eq 1 ] ||
    die "lab --jobs: a mistake is not told once: exit $status"
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
