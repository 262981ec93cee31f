#!/bin/sh
# tests/coverage.sh DIR: what share of the lines of each room ran, from the counts that
# the programs of MODE=coverage left below DIR. tools/lab is not in the total.
set -eu
find "$1" -name '*.gcda' ! -path '*/tests/*' ! -path '*/template/*' |
    while read -r counts; do
        source=${counts#"$1"/}
        source=${source%.gcda}
        gcov -n "${counts%.gcda}.o" 2> /dev/null | awk -v source="$source" '
            $1 == "File" { own = $2 == "\047" source "\047" }
            own && /^Lines executed/ { split($2, share, /[:%]/)
                printf "%s %.0f %d\n", source, share[2] / 100 * $4, $4; own = 0 }'
    done | sort | awk '
    { room = $1; sub(/\/[^\/]*$/, "", room)
      if (room ~ /^tools\/lab/) room = "tools/lab"
      if (!(room in all)) name[++n] = room
      ran[room] += $2; all[room] += $3
      if (room != "tools/lab") { total += $2; of += $3 } }
    END {
        for (i = 1; i <= n; i++)
            printf "%-18s %6d of %6d lines  %5.1f %%\n", name[i], ran[name[i]], \
                all[name[i]], 100 * ran[name[i]] / all[name[i]]
        printf "coverage: %d of %d lines outside tools/lab, %.1f %%\n", total, of, \
            100 * total / of
        exit total < 0.9 * of
    }'
