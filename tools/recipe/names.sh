#!/bin/sh
# What names cost a model of the stories: nats of a name that its story has said before,
# of a new one, and of all else.
#
#   weft score RUN RUN/data --per-token | tools/recipe/names.sh
set -eu

words=$(dirname "$0")/../../data/stories/words.c

sed -n 's/^{"id":\([0-9]*\),.*"text":" *\(.*\)","nats":\([0-9.e+-]*\)}$/\1 \3 \2/p' |
    awk -v names="$(grep -o '{"[A-Z][a-z]*", "s\{0,1\}he"}' "$words" | cut -d'"' -f2)" '
    BEGIN { split(names, list, "\n"); for (i in list) is_name[list[i]] }
    $1 == 2 { story++ }                         # the end of a text
    {
        kind = "other"
        if ($3 in is_name)
            kind = seen[story, $3]++ ? "said before" : "new"
        n[kind]++
        nats[kind] += $2
    }
    END {
        for (kind in n)
            printf "%-12s %7d tokens, %.3f nats each\n", kind, n[kind],
                   nats[kind] / n[kind]
    }'
