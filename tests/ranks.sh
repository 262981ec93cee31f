#!/bin/sh
# make test-mpi: training on 1, 2, 4 and 8 ranks has the same weights, moments and log to
# the last bit; also after kill -9 of a rank and going on with another number; and what
# goes wrong ends all ranks with one line.
set -eu
weft=$(realpath "${WEFT:-build/release-mpi/bin/weft}")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive
export OMPI_MCA_btl_base_warn_component_unused=0 OMPI_MCA_rmaps_base_oversubscribe=1

die() {
    echo "ranks.sh: $*" >&2
    [ ! -e "$tmp/out" ] || tail -5 "$tmp/out" >&2
    exit 1
}

settings="layers=2 width=64 heads=2 context=32 batch=2 accumulate=8 steps=24 \
eval_every=8 checkpoint_every=5 sample_every=12 keep=2 threads=1"

# run N ARGS: weft train ARGS on N ranks; status is how it ended.
run() {
    n=$1 status=0
    shift
    mpirun --oversubscribe -np "$n" "$weft" train "$@" > "$tmp/out" 2>&1 || status=$?
}

losses() {
    sed -n '2,$s/"tok_s.*"skipped"/"skipped"/; 2,$s/, "rss".*//p' "$1/log.jsonl"
}

lines() {
    wc -l 2> "$tmp/null" < "$1/log.jsonl" || echo 0
}

same() {
    losses "$1" > "$tmp/a"
    losses "$2" > "$tmp/b"
    [ -s "$tmp/a" ] || die "$3: $1 has no log"
    cmp "$tmp/a" "$tmp/b" || die "$3: the log differs"
    for f in model.safetensors trainer.safetensors config.json; do
        cmp "$1/latest/$f" "$2/latest/$f" || die "$3: $f differs"
    done
}

# fails STATUS TEXT WHAT: the last run ended so, with one line, which says TEXT.
fails() {
    [ "$status" -eq "$1" ] || die "$3: exit $status instead of $1"
    [ "$(grep -c '^weft train:' "$tmp/out")" -eq 1 ] || die "$3: not one line"
    grep '^weft train:' "$tmp/out" | grep -q "$2" || die "$3: it does not say $2"
}

"$weft" data stories --bytes 200k > "$tmp/text.txt" 2> "$tmp/null"
"$weft" data build "$tmp/text.txt" --tokenizer bytes --shard 32k --out "$tmp/data" \
    > "$tmp/null" 2>&1

# The same bits: a run of one process, and 1, 2, 4 and 8 ranks.
for what in --arch=softmax --arch=gla --arch=swax optimiser=muon accumulate=24 \
    recompute=1 clip=0.1; do
    "$weft" train "$tmp/data" --out "$tmp/one" $settings "$what" > "$tmp/out" 2>&1 ||
        die "$what"
    for n in 1 2 4 8; do
        run $n "$tmp/data" --out "$tmp/many" $settings "$what"
        [ $status -eq 0 ] || die "$what on $n ranks: exit $status"
        same "$tmp/one" "$tmp/many" "$what on $n ranks"
        rm -r "$tmp/many"
    done
    [ "$what" = clip=0.1 ] || rm -r "$tmp/one"
    echo "ranks.sh: $what: the same on 1, 2, 4 and 8 ranks"
done

# A model of several buckets, whose gradients are exchanged during the backward pass, or
# after it.
large="$settings width=256 layers=3 heads=4 steps=6 sample_every=0"
for what in accumulate=8 optimiser=muon; do
    "$weft" train "$tmp/data" --out "$tmp/large" $large "$what" > "$tmp/out" 2>&1 ||
        die "$what"
    for n in 2 4 8; do
        for WEFT_OVERLAP in 0 1; do
            export WEFT_OVERLAP
            run $n "$tmp/data" --out "$tmp/many" $large "$what"
            [ $status -eq 0 ] || die "a large model, $what on $n ranks: exit $status"
            same "$tmp/large" "$tmp/many" \
                "a large model, $what on $n ranks, overlap $WEFT_OVERLAP"
            rm -r "$tmp/many"
        done
    done
    rm -r "$tmp/large"
done
unset WEFT_OVERLAP
echo "ranks.sh: with and without overlap: the same"

# Only rank 0 prints, the data is built once, and threads do not matter.
run 4 "$tmp/text.txt" --out "$tmp/text" $settings clip=0.1 tokenizer=bytes threads=2
[ $status -eq 0 ] || die "from text: exit $status"
same "$tmp/one" "$tmp/text" "from text"
[ "$(grep -c 'write with it' "$tmp/out")" -eq 1 ] || die "more than one rank prints"

# The ranks of a run, by their number.
rank() {
    for p in $(pgrep -f -- "train.*$tmp/killed"); do
        tr '\0' '\n' < "/proc/$p/environ" 2> "$tmp/null" |
            grep -qx "OMPI_COMM_WORLD_RANK=$1" && echo "$p"
    done | head -1
}

# stop SIGNAL RANK LINES N ARGS: send a rank, or mpirun, a signal once the log has so many
# lines.
stop() {
    signal=$1 which=$2 until=$3 n=$4 status=0
    shift 4
    mpirun --oversubscribe -np "$n" "$weft" train "$@" > "$tmp/out" 2>&1 &
    launcher=$!
    while [ "$(lines "$tmp/killed")" -lt "$until" ] &&
        kill -0 $launcher 2> "$tmp/null"; do
        sleep 0.05
    done
    [ "$which" = mpirun ] && to=$launcher || to=$(rank "$which")
    kill -"$signal" "$to" 2> "$tmp/null" || true
    wait $launcher 2> "$tmp/null" || status=$?
}

# kill -9 of a rank ends all; the run goes on with another number of them, and another.
stop KILL 1 8 4 "$tmp/data" --out "$tmp/killed" $settings clip=0.1
[ $status -ne 0 ] || die "a rank was killed, and all went well"
stop KILL 0 16 2 --resume "$tmp/killed"
export OMPI_MCA_odls_base_sigkill_timeout=10     # mpirun gives the others time to save
stop TERM 5 20 8 --resume "$tmp/killed"
[ $status -eq 130 ] || [ $status -eq 0 ] || die "SIGTERM: exit $status"
if [ $status -eq 130 ]; then
    grep -q 'saved at step' "$tmp/out" || die "SIGTERM: nothing was saved"
fi
# Ctrl-C, as a terminal gives it to mpirun.
stop INT mpirun 22 4 --resume "$tmp/killed"
unset OMPI_MCA_odls_base_sigkill_timeout
grep -q 'saved at step\|write with it\|finished' "$tmp/out" ||
    die "Ctrl-C: nothing was saved"
run 1 --resume "$tmp/killed"
[ $status -eq 0 ] || die "resuming on one rank: exit $status"
same "$tmp/one" "$tmp/killed" "killed on 4, 2 and 8 ranks"
echo "ranks.sh: killed and resumed on 4, 2, 8 and 1 ranks: the same"

# The clock of rank 0 decides for all; one process repeats what four did.
run 4 "$tmp/data" --out "$tmp/timed" $(echo "$settings" |
    sed 's/steps=24//; s/[a-z]*_every=[0-9]*//g') \
    --for 4s
[ $status -eq 0 ] || die "--for: exit $status"
run 1 --replay "$tmp/timed" --out "$tmp/again"
[ $status -eq 0 ] || die "--replay: exit $status"
grep -q 'bit for bit' "$tmp/out" || die "--replay does not say so"

# A rank sends as many bytes as the formula says, and one process alone is told what is
# missing.
mpirun --oversubscribe -np 4 "$weft" bench tiny --ranks --layers 1 --width 64 \
    --context 32 --threads 1 \
    > "$tmp/out" 2>&1 || die "bench --ranks: exit $?"
awk '$1 == "sent" { ok = $2 " " $3 == $(NF - 1) " " $NF } END { exit !ok }' "$tmp/out" ||
    die "bench --ranks: not the bytes of the formula"
[ "$(grep -c '^  1024 ' "$tmp/out")" -eq 1 ] ||
    die "bench --ranks: no projection, or several"
status=0
"$weft" bench tiny --ranks > "$tmp/out" 2>&1 || status=$?
[ $status -eq 2 ] || die "bench --ranks of one process: exit $status"

# What goes wrong.
run 3 "$tmp/data" --out "$tmp/wrong" $settings
fails 2 'power of two' "three ranks"
run 4 "$tmp/data" --out "$tmp/wrong" $settings accumulate=6
fails 2 'divides accumulate' "four ranks for six passes"
run 2 "$tmp/data" --out "$tmp/wrong" $settings lr=x
fails 2 'lr' "a bad value"
run 2 "$tmp/nothing" --out "$tmp/wrong" $settings
fails 3 'nothing' "no input"
[ ! -e "$tmp/wrong" ] || die "what failed left a run"

sed 's/-O3 -march/-O2 -march/g' "$weft" > "$tmp/other"
chmod +x "$tmp/other"
status=0
mpirun --oversubscribe -np 1 "$weft" train "$tmp/data" --out "$tmp/wrong" $settings : \
    -np 1 "$tmp/other" train "$tmp/data" --out "$tmp/wrong" $settings > "$tmp/out" 2>&1 ||
        status=$?
fails 3 'rank 1: another build' "another build"

# A program for several levels of the CPU (make MODE=portable MPI=1) that take different
# ones.
if [ -n "${PORTABLE:-}" ]; then
    status=0
    mpirun --oversubscribe -np 1 "$PORTABLE" train "$tmp/data" --out "$tmp/wrong" \
        $settings : \
        -np 1 -x WEFT_CPU=v2 "$PORTABLE" train "$tmp/data" --out "$tmp/wrong" $settings \
        > "$tmp/out" 2>&1 || status=$?
    fails 3 'rank 1: .* level v2 and rank 0' "another level"
    [ ! -e "$tmp/wrong" ] || die "what failed left a run"
    echo "ranks.sh: $(grep '^weft train:' "$tmp/out")"
else
    echo "ranks.sh: no PORTABLE program: ranks of different levels were not tried"
fi

# A rank whose machine has other data, or none: the same path with something else under
# it.
if unshare -m true 2> "$tmp/null"; then
    "$weft" data stories --bytes 50k --seed 7 > "$tmp/other.txt" 2> "$tmp/null"
    "$weft" data build "$tmp/other.txt" --tokenizer bytes --out "$tmp/data2" \
        > "$tmp/null" 2>&1
    mkdir "$tmp/empty"
    for other in data2 empty; do
        status=0
        mpirun --oversubscribe -np 1 "$weft" train "$tmp/data" --out "$tmp/wrong" \
            $settings : \
            -np 1 unshare -m sh -c 'mount --bind "$0" "$1" && shift && exec "$@"' \
                "$tmp/$other" \
            "$tmp/data" "$weft" train "$tmp/data" --out "$tmp/wrong" $settings \
            > "$tmp/out" 2>&1 || status=$?
        fails 3 'rank 1: .*data' "a rank with $other"
    done
    [ ! -e "$tmp/wrong" ] || die "what failed left a run"
else
    echo "ranks.sh: no mount namespaces here: ranks without the data were not tried"
fi
echo "ranks.sh: ok"
