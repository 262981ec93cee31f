#!/bin/sh
# tests/summary.sh BEGAN RESULTS...: what came of the suites since BEGAN (seconds since
# 1970), from the directories that tests/run.sh wrote to. An empty RESULT.ran is of a
# suite that was not built. Exits with 1 unless all passed.
began=$1
shift

# Lines "SUITE SECONDS CHECKS FAILED CPU LOG"; a suite of another mode than release is
# "SUITE(MODE)".
results() {
    for dir; do
        mode=$(basename "$(dirname "$dir")")
        for ran in "$dir"/*.ran; do
            [ -e "$ran" ] || continue
            suite=$(basename "$ran" .ran)
            [ "$mode" = release ] || suite="$suite($mode)"
            [ -s "$ran" ] && came=$(cat "$ran") || came="0 0 not-built 0"
            echo "$suite $came ${ran%.ran}.log"
        done
    done
}

results "$@" | sort -k2,2nr -k1,1 | awk -v seconds=$(($(date +%s) - began)) '
    function tell(log_file,    line, told) {    # which checks failed, or its last words
        while ((getline line < log_file) > 0)
            if (line ~ /^[^ ]+:[0-9]+:[FE]:/) {
                print "    " line
                told = 1
            }
        close(log_file)
        if (!told)
            print "    " line
    }
    NR <= 5 { slowest = slowest (NR > 1 ? ", " : "") $1 " " $2 " s" }
    { suites++; checks += $3; cpu += $5 }
    $4 == "not-built" { bad[++n] = $1; missing++; next }
    $4 > 0 { bad[++n] = $1; failed += $4
             log_of[$1] = $6; failures[$1] = $4; of[$1] = $3 }
    END {
        printf "\n%d suites in %d s, %d s of CPU; the slowest: %s\n", suites, seconds, \
            cpu, slowest
        for (i = 1; i <= n; i++) {
            name = bad[i]
            if (!(name in log_of))
                print "not built: " name
            else {
                print "failed: " name ", " failures[name] " of " of[name] ": " \
                    log_of[name]
                tell(log_of[name])
            }
        }
        printf "%d passed, %d failed%s\n", checks - failed, failed, \
            missing ? ", " missing " not built" : ""
        print n || !suites ? "tests failed" : "all tests passed"
        exit n || !suites
    }'
