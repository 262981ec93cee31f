#!/bin/sh
# tests/run.sh RESULT SUITE COMMAND...: run a suite and tell in one piece what it said.
# RESULT.log keeps its words, and RESULT.ran the line "SECONDS CHECKS FAILED CPU" for
# tests/summary.sh: CPU is the seconds of processors that it took. Check's programs count
# their checks; a script is one.
result=$1 suite=$2
shift 2
mkdir -p "$(dirname "$result")"
began=$(date +%s)
"$@" > "$result.log" 2>&1
code=$?
times > "$result.ran"
cpu=$(awk -F '[ms ]+' 'NR == 2 { printf "%.0f", 60 * $1 + $2 + 60 * $3 + $4 }' \
    "$result.ran")
echo "  test $suite"
cat "$result.log"
awk -v code=$code -v cpu="$cpu" -v seconds=$(($(date +%s) - began)) '
    /^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+$/ {
        counted = 1
        checks += $3
        failed += $5 + $7
    }
    END {
        if (code && !failed)
            failed = 1
        print seconds, counted ? checks : 1, failed + 0, cpu
    }' "$result.log" > "$result.ran"
exit $code
