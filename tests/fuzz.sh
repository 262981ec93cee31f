#!/bin/sh
# fuzz.sh FUZZ SECONDS [READER...]: each reader under libFuzzer, one after the other. What
# is new to the coverage stays in build/fuzz/corpus, what breaks a reader in
# build/fuzz/found, and the runs of all times add up in build/fuzz/tally.
fuzz=$1 seconds=$2
shift 2
here=$(dirname "$0") out=$(dirname "$(dirname "$fuzz")") shm=/dev/shm
[ -w $shm ] || shm=${TMPDIR:-/tmp}
tmp=$(mktemp -d -p "$shm") || exit 1
trap 'rm -rf "$tmp"' EXIT
export TMPDIR="$tmp" OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
asan=detect_leaks=1:allocator_may_return_null=1:handle_abort=1
export ASAN_OPTIONS=$asan:malloc_context_size=6:quarantine_size_mb=8
export UBSAN_OPTIONS=print_stacktrace=1
mkdir -p "$out/found"
touch "$out/tally"
failed=0

run() {
    WEFT_FUZZ=$1 "$fuzz" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=20 \
        -max_len=65536 -print_final_stats=1 -close_fd_mask=1 \
        -artifact_prefix="$out/found/$1-" "$out/corpus/$1" "$here/fuzz/seeds/$1" \
        > "$out/$1.log" 2>&1
}

stat() {
    sed -n "s/^stat::$2: *//p" "$out/$1.log" | grep . || echo 0
}

printf '%-14s %12s %11s %14s\n' reader inputs 'per second' 'in all runs'
for t in ${*:-$("$fuzz")}; do
    [ -d "$here/fuzz/seeds/$t" ] || { echo "make fuzz: there is no reader $t"; exit 2; }
    mkdir -p "$out/corpus/$t"
    said=
    run "$t" || { failed=$((failed + 1)); said="  FAILED: $out/$t.log"; }
    echo "$t $(stat "$t" number_of_executed_units)" >> "$out/tally"
    all=$(awk -v t="$t" '$1 == t { n += $2 } END { printf "%.0f", n }' "$out/tally")
    printf '%-14s %12s %11s %14s%s\n' "$t" "$(stat "$t" number_of_executed_units)" \
        "$(stat "$t" average_exec_per_sec)" "$all" "$said"
done
awk -v f=$failed '{ n += $2; t[$1] }
    END { for (i in t) k++
          printf "fuzz: %d failed; %.0f inputs to %d readers in all runs\n", f, n, k
        }' "$out/tally"
[ $failed = 0 ]
