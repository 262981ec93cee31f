#!/bin/sh
# fuzz.sh FUZZ SECONDS [READER...]: each reader under libFuzzer, as many beside each other
# as there are cores (JOBS=1: one after the other). What is new to the coverage stays in
# build/fuzz/corpus, what breaks a reader in build/fuzz/found. The runs of this clone add
# up in build/fuzz/tally, on top of tests/fuzz/tally, which came with it; fuzz.sh keep
# FUZZ moves the former into the latter, to be committed.
here=$(dirname "$0")

# A line a reader: how many inputs it got in the runs of these tallies.
add_up() {
    awk '{ n[$1] += $2 } END { for (t in n) printf "%s %.0f\n", t, n[t] }' "$@" |
        LC_ALL=C sort
}

if [ "$1" = keep ]; then
    own=$(dirname "$(dirname "$2")")/tally
    add_up "$here/fuzz/tally" "$own" > "$own.all" && mv "$own.all" "$here/fuzz/tally" &&
        : > "$own"
    exit
fi
fuzz=$1 seconds=$2
shift 2
out=$(dirname "$(dirname "$fuzz")") shm=/dev/shm
[ -w $shm ] || shm=${TMPDIR:-/tmp}
tmp=$(mktemp -d -p "$shm") || exit 1
pids=
trap 'rm -rf "$tmp"' EXIT
trap 'kill $pids 2> /dev/null; exit 130' INT TERM
jobs=${JOBS:-$(nproc)}          # of OMP_NUM_THREADS it would print that
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
asan=detect_leaks=1:allocator_may_return_null=1:handle_abort=1
export ASAN_OPTIONS=$asan:malloc_context_size=6:quarantine_size_mb=8
export UBSAN_OPTIONS=print_stacktrace=1
mkdir -p "$out/found"
touch "$out/tally"
failed=0

# In a process of its own, which becomes the fuzzer.
run() {
    mkdir -p "$out/corpus/$1" "$tmp/$1"
    export WEFT_FUZZ="$1" TMPDIR="$tmp/$1"
    exec "$fuzz" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=20 \
        -max_len=65536 -print_final_stats=1 -close_fd_mask=1 \
        -artifact_prefix="$out/found/$1-" "$out/corpus/$1" "$here/fuzz/seeds/$1" \
        > "$out/$1.log" 2>&1
}

stat() {
    sed -n "s/^stat::$2: *//p" "$out/$1.log" | grep . || echo 0
}

# tell READER WORDS: what came of it, which also goes to the tally.
tell() {
    inputs=$(stat "$1" number_of_executed_units)
    echo "$1 $inputs" >> "$out/tally"
    all=$(add_up "$here/fuzz/tally" "$out/tally" | sed -n "s/^$1 //p")
    printf '%-14s %12s %11s %14s%s\n' "$1" "$inputs" \
        "$(stat "$1" average_exec_per_sec)" "$all" "$2"
}

set -- ${*:-$("$fuzz")}
[ $# -gt 0 ] || { echo "make fuzz: $fuzz names no readers"; exit 1; }
for t; do
    [ -d "$here/fuzz/seeds/$t" ] || { echo "make fuzz: there is no reader $t"; exit 2; }
done
printf '%-14s %12s %11s %14s\n' reader inputs 'per second' 'in all runs'
while [ $# -gt 0 ]; do
    pids= names= n=0
    while [ $# -gt 0 ] && [ $n -lt "$jobs" ]; do
        run "$1" &
        pids="$pids $!" names="$names $1" n=$((n + 1))
        shift
    done
    for pid in $pids; do
        names=${names# } t=${names%% *} names=${names#* } said=
        wait "$pid" || { failed=$((failed + 1)); said="  FAILED: $out/$t.log"; }
        tell "$t" "$said"
    done
done
add_up "$here/fuzz/tally" "$out/tally" | awk -v f=$failed '{ n += $2 }
    END { printf "fuzz: %d failed; %.0f inputs to %d readers in all runs\n", f, n, NR }'
[ $failed = 0 ]
