#!/bin/sh
# A run killed with kill -9 at any moment and resumed is the uninterrupted run: the same
# loss at every step and the same final weights and moments, bit for bit, for 1 and for 2
# threads. Also what else only a real process shows: SIGTERM, the lock, refusals, damaged
# checkpoints.

set -eu
weft=${WEFT:-build/release/bin/weft}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export OMP_PROC_BIND=false OMP_WAIT_POLICY=passive      # the machine may be busy

two=$([ "$(getconf _NPROCESSORS_ONLN)" -gt 1 ] && echo 2 || echo 1)

die() {
    echo "resume.sh: $*" >&2
    exit 1
}

# A text with something to learn, the same every time.
awk 'BEGIN { split("the a boy girl dog saw found lost red old ball house and", w, " ")
    x = 7
    for (i = 0; i < 12000; i++) { x = (x * 1103 + 12345) % 65536
        printf "%s%s", w[x % 13 + 1], i % 9 == 8 ? ".\n" : " " } }' > "$tmp/text.txt"

settings="layers=2 width=32 heads=2 context=64 batch=4 accumulate=2 steps=120 \
tokenizer=bytes eval_every=24 checkpoint_every=11 sample_every=60 keep=2 \
mixers=softmax(window=32)/mlstm window_p=0.5 window_short=8"

train() {
    "$weft" train "$@" >> "$tmp/out" 2>&1
}

# What must not depend on interruptions: everything in the log but speeds, times and
# memory.
losses() {
    sed -n '2,$s/"tok_s.*"skipped"/"skipped"/; 2,$s/, "rss".*//p' "$1/log.jsonl"
}

lines() {
    wc -l 2> "$tmp/null" < "$1/log.jsonl" || echo 0
}

# Start `weft train ARGS` and send it a signal once the log of RUN has N lines; status is
# what it ended with.
stop_at() {
    signal=$1 run=$2 n=$3
    shift 3
    "$weft" train "$@" >> "$tmp/out" 2>&1 &
    pid=$!
    while [ "$(lines "$run")" -lt "$n" ] && kill -0 $pid 2> "$tmp/null"; do
        sleep 0.01
    done
    kill -"$signal" $pid 2> "$tmp/null" || true
    status=0
    wait $pid 2> "$tmp/null" || status=$?
}

same_run() {
    losses "$1" > "$tmp/a"
    losses "$2" > "$tmp/b"
    [ "$(wc -l < "$tmp/a")" -eq 120 ] || die "$1 has not 120 steps in its log"
    cmp "$tmp/a" "$tmp/b" || die "$3: losses differ"
    grep '^{"sample"' "$1/log.jsonl" > "$tmp/a" || die "$1 has no samples in its log"
    grep '^{"sample"' "$2/log.jsonl" | cmp - "$tmp/a" || die "$3: samples differ"
    for f in model.safetensors trainer.safetensors config.json; do
        cmp "$1/latest/$f" "$2/latest/$f" || die "$3: $f differs"
    done
}

# The windows that steps A to B of a run drew, each once.
windows() {
    grep '^{"step"' "$1/log.jsonl" | sed -n "$2,$3s/.*\"window\": \([0-9]*\),.*/\1/p" |
        sort -u | xargs
}

for count in 1 2; do
    whole=$tmp/whole-$count cut=$tmp/cut-$count threads=$((count < two ? count : two))
    train "$tmp/text.txt" --out "$whole" $settings threads=$threads ||
        die "training failed"

    # Killed while it prepares, before the first checkpoint, and between and during later
    # ones.
    "$weft" train "$tmp/text.txt" --out "$cut" $settings threads=$threads >> "$tmp/out" \
        2>&1 &
    pid=$!
    while [ ! -e "$cut/config.cfg" ]; do sleep 0.01; done
    kill -9 $pid
    wait $pid 2> "$tmp/null" || true
    kills=0
    for n in 5 20 24 50 67 68 100; do
        stop_at 9 "$cut" $n --resume "$cut" "$tmp/text.txt"
        [ $status -ne 137 ] || kills=$((kills + 1))
    done
    [ $kills -ge 4 ] || die \
        "only $kills of 7 kills came in time: the run is too short to test"
    train --resume "$cut" "$tmp/text.txt" || die "resuming failed"
    same_run "$whole" "$cut" "kill -9 with $threads threads"
done
cmp "$tmp/whole-1/latest/model.safetensors" "$tmp/whole-2/latest/model.safetensors" ||
    die "1 and 2 threads give different weights"

[ "$(windows "$tmp/cut-2" 1 108)" = "0 8" ] || die "both windows should have been drawn"
[ "$(windows "$tmp/cut-2" 109 120)" = 0 ] || die "the last tenth should draw no window"

# SIGTERM finishes the step, saves, prints the line that resumes, and exits 130.
run=$tmp/term
stop_at TERM "$run" 30 "$tmp/text.txt" --out "$run" $settings threads=$two
[ $status -eq 130 ] || die "SIGTERM: exit $status instead of 130"
tail -n 1 "$tmp/out" | grep -q -- "weft train --resume $run" ||
    die "SIGTERM: no line to resume"
train --resume "$run" || die "resuming after SIGTERM failed"
same_run "$whole" "$run" "SIGTERM"

# A finished run says so; an existing one is not overwritten; only one process trains in
# it.
train --resume "$run" || die "a finished run does not exit 0"
tail -n 3 "$tmp/out" | grep -q "is finished" || die "a finished run does not say so"
! train "$tmp/text.txt" --out "$run" $settings || die "an existing run was accepted"
tail -n 1 "$tmp/out" | grep -q -- "weft train --resume $run" ||
    die "refused without a way on"
"$weft" train --resume "$run" --steps 100000 >> "$tmp/null" 2>&1 &
pid=$!
while [ "$(lines "$run")" -lt 125 ]; do sleep 0.01; done
status=0
train --resume "$run" || status=$?
kill -9 $pid
wait $pid 2> "$tmp/null" || true
[ $status -eq 5 ] || die "two trainers in one run: exit $status instead of 5"

# A damaged newest checkpoint is set aside, and the one before it takes over.
cp -r "$whole" "$tmp/damaged"
run=$tmp/damaged
newest=$(readlink "$run/latest")
printf x >> "$run/$newest/model.safetensors"
train --resume "$run" || die "a damaged checkpoint: exit $?"
grep -q "set it aside as damaged-$newest" "$tmp/out" ||
    die "a damaged checkpoint was not told of"
same_run "$whole" "$run" "a damaged checkpoint"

# A run by time ends in time (as near as a busy machine lets it, see test_clock);
# interrupted and continued it ends in the same time; and its decisions repeat it, bit for
# bit.
timed="layers=2 width=32 heads=2 context=64 batch=4 tokenizer=bytes \
mixers=softmax(window=32)/mlstm \
window_p=0.5 window_short=8 threads=1"
run=$tmp/timed
stop_at TERM "$run" 12 "$tmp/text.txt" --out "$run" --for 6s $timed
[ $status -eq 130 ] || die "a run by time: exit $status instead of 130 after SIGTERM"
train --resume "$run" || die "resuming a run by time failed"
sed -n 's/.*"seconds": \([0-9.]*\).*/\1/p' "$run/latest/trainer.json" > "$tmp/seconds"
awk '{ exit !($1 > 0.9 * 6 && $1 < 1.1 * 6) }' "$tmp/seconds" ||
    die "6 seconds of training took $(cat "$tmp/seconds")"
train --replay "$run" --out "$tmp/again" threads=$two ||
    die "repeating a run by time failed"
tail -n 1 "$tmp/out" | grep -q "bit for bit" ||
    die "a repeated run does not say that it is the same"
for f in model.safetensors trainer.safetensors; do
    cmp "$run/latest/$f" "$tmp/again/latest/$f" || die "a repeated run: $f differs"
done
losses "$run" > "$tmp/a"
losses "$tmp/again" > "$tmp/b"
cmp "$tmp/a" "$tmp/b" || die "a repeated run: losses differ"
grep '"decision"' "$run/log.jsonl" > "$tmp/a"
grep '"decision"' "$tmp/again/log.jsonl" > "$tmp/b"
cmp "$tmp/a" "$tmp/b" || die "a repeated run: decisions differ"
! grep -q '"mfu": [1-9]\.[0-9]*[1-9]' "$run/log.jsonl" ||
    die "more than the machine's peak"

# More time is another cycle; steps are not what it is counted in.
steps=$(lines "$run")
train --resume "$run" --for 1s || die "more time failed"
[ "$(lines "$run")" -gt "$steps" ] || die "more time added no step"
! train --resume "$run" --steps 9999 || die "steps were given to a run by time"
tail -n 1 "$tmp/out" | grep -q -- "--for" ||
    die "a run by time was refused steps without a way on"

# Nor can it choose an interval again that was given: it would be 0.
for key in eval_every checkpoint_every sample_every; do
    status=0
    train --resume "$run" --for 1s $key=0 || status=$?
    [ $status -eq 2 ] || die "$key=0 for a run by time: exit $status"
done

# More tokens for a run of steps, killed before the first checkpoint of its extension and
# after it: the same run; then more time and more FLOPs, and --replay repeats all of it.
same_weights() {
    for f in model.safetensors trainer.safetensors; do
        cmp "$1/latest/$f" "$2/latest/$f" || die "$3: $f differs"
    done
}
same_end() {
    losses "$1" > "$tmp/a"
    losses "$2" > "$tmp/b"
    cmp "$tmp/a" "$tmp/b" || die "$3: losses differ"
    same_weights "$@"
}
last_step() { sed -n 's/^{"step": \([0-9]*\).*/\1/p' "$1/log.jsonl" | tail -n 1; }

# Rates and decay of a head that copies are those of the settings, not of the weights.
copying="layers=2 width=32 heads=2 mixers=softmax copy=12 table_lr=4 context=64 batch=4 \
steps=120 tokenizer=bytes checkpoint_every=11"
train "$tmp/text.txt" --out "$tmp/copying" $copying || die "a head that copies failed"
stop_at KILL "$tmp/copying-cut" 50 "$tmp/text.txt" --out "$tmp/copying-cut" $copying
[ $status -eq 137 ] || die "a head that copies was done before it was killed"
train --resume "$tmp/copying-cut" || die "resuming a head that copies failed"
same_end "$tmp/copying" "$tmp/copying-cut" "a head that copies, killed"

cp -r "$whole" "$tmp/longer"
cp -r "$whole" "$tmp/killed"
train --resume "$tmp/longer" --tokens 100k || die "more tokens for a run of steps failed"
[ "$(last_step "$tmp/longer")" -eq 316 ] || die "100k tokens of 512 are not 196 steps"
stop_at KILL "$tmp/killed" 126 --resume "$tmp/killed" --tokens 100k checkpoint_every=1000
[ "$(readlink "$tmp/killed/latest")" = ckpt-00000120 ] || die "a checkpoint came too soon"
stop_at KILL "$tmp/killed" 150 --resume "$tmp/killed" checkpoint_every=11
train --resume "$tmp/killed" || die "resuming an extended run failed"
same_end "$tmp/longer" "$tmp/killed" "an extension that was killed"
train --resume "$tmp/longer" --for 1s || die "more time for a run of steps failed"
steps=$(last_step "$tmp/longer")
[ "$steps" -gt 316 ] || die "a second of time added no step"
train --resume "$tmp/longer" --flops 1e7 || die "more FLOPs failed"
[ "$(last_step "$tmp/longer")" -gt "$steps" ] || die "more FLOPs added no step"
train --replay "$tmp/longer" --out "$tmp/again2" || die "repeating an extended run failed"
same_weights "$tmp/longer" "$tmp/again2" "a repeated extension"

# Patience ends a run at the same validation, killed or not; the best is kept; more begins
# anew.
patient="$settings patience=2 eval_every=5 checkpoint_every=50 steps=2000 lr=0.05"
train "$tmp/text.txt" --out "$tmp/patient" $patient || die "a run with patience failed"
grep -q "stopping (patience=2)" "$tmp/out" || die "the end of patience is not told of"
steps=$(last_step "$tmp/patient")
[ "$steps" -lt 2000 ] || die "patience did not end"
tail -n 2 "$tmp/patient/log.jsonl" | grep -q '"decision": "end"' ||
    die "its end is not in the log"
best=$(sed -n 's/.*"best_step": \([0-9]*\),/\1/p' "$tmp/patient/latest/trainer.json")
[ "$best" -eq $((steps - 10)) ] || die "best at $best, and it went on to $steps"
[ -d "$tmp/patient/$(printf ckpt-%08d "$best")" ] || die "the best checkpoint is not kept"
stop_at KILL "$tmp/hasty" $((best + 7)) "$tmp/text.txt" --out "$tmp/hasty" $patient
train --resume "$tmp/hasty" || die "resuming a run with patience failed"
same_end "$tmp/patient" "$tmp/hasty" "patience after a kill"
train --resume "$tmp/hasty" || die "a run that lost its patience is not finished"
train --resume "$tmp/hasty" --tokens 4k || die "more tokens after patience failed"
[ "$(last_step "$tmp/hasty")" -eq $((steps + 8)) ] ||
    die "patience took the tokens that were added"

# Bits per byte are those of the text, without the prefix of its documents, as score has
# them.
awk 'BEGIN { for (i = 0; i < 300; i++) printf "{\"text\": \"the boy saw %d\"}\n", i }' \
    > "$tmp/docs.jsonl"
train "$tmp/docs.jsonl" --out "$tmp/prefixed" layers=1 width=16 heads=2 context=32 \
    batch=2 threads=1 tokenizer=bytes "prefix=from a long list: " steps=2 ||
    die "training with a prefix failed"
val=$(sed -n 's/.*"val_bpb": *\([0-9.]*\).*/\1/p' "$tmp/prefixed/log.jsonl" | tail -n 1)
"$weft" score "$tmp/prefixed" "$tmp/prefixed/data" --json 2> "$tmp/null" |
    sed -n 's/.*"bpb": *\([0-9.]*\).*/\1/p' > "$tmp/bpb"
awk -v val="$val" '{ ok = $1 > 0.95 * val && $1 < 1.05 * val } END { exit !ok }' \
    "$tmp/bpb" || die "with a prefix: $val while training, $(cat "$tmp/bpb") by score"

echo "resume.sh: ok"
