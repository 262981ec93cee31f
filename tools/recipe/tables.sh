#!/bin/sh
# Print the tables of docs/recipe.md from results.tsv, as markdown: a row an architecture,
# a column what differs from the settings above it, bits per byte of the validation text.
# More than one seed: their mean, standard deviation, and how many in brackets.
#
#   tools/recipe/tables.sh [TABLE]
set -eu
results=${RESULTS:-$(dirname "$0")/results.tsv}

awk -F '\t' -v only="${1:-}" '
    only != "" && $1 != only { next }
    {
        group = $1 FS $4 FS ($1 == "flops" ? "as many FLOPs as 300" : $6)
        if (!(group in first)) { first[group] = ++groups; name[groups] = group }
        g = first[group]
        if (!((g, $2) in row)) { row[g, $2] = ++rows[g]; arch[g, rows[g]] = $2 }
        if (!((g, $3) in col)) { col[g, $3] = ++cols[g]; setting[g, cols[g]] = $3 }
        if (!((g, $5) in seed)) { seed[g, $5] = 1; seeds[g] = seeds[g] ", " $5 }
        at = g SUBSEP row[g, $2] SUBSEP col[g, $3]
        if ($7 == "diverged") bad[at]++
        else { sum[at] += $7; squares[at] += $7 * $7; n[at]++ }
    }

    # The words of setting a that b has not.
    function beyond(a, b,    words, k, i, s) {
        k = split(a, words, " ")
        for (i = 1; i <= k; i++)
            if (!index(" " b " ", " " words[i] " "))
                s = s (s ? " " : "") words[i]
        return s
    }

    # Columns of one key that every column sets to another value: in their order. The
    # first of others is what the rest differ from.
    function head(g,    c, key, word, v, i, sorted) {
        sorted = cols[g] > 1
        for (c = 1; c <= cols[g]; c++) {
            order[c] = c
            word = beyond(setting[g, c], setting[g, c == 1 ? 2 : 1])
            title[c] = word
            sorted = sorted && word !~ / / &&
                (c == 1 || key == substr(word, 1, index(word, "=")))
            key = substr(word, 1, index(word, "="))
            value[c] = substr(word, index(word, "=") + 1) + 0
        }
        if (!sorted)
            title[1] = "as above"
        for (c = 2; sorted && c <= cols[g]; c++)
            for (i = c; i > 1 && value[order[i]] < value[order[i - 1]]; i--) {
                v = order[i]; order[i] = order[i - 1]; order[i - 1] = v
            }
    }

    function cell(at,    mean, spread) {
        if (bad[at]) return "diverged"
        if (!n[at]) return ""
        mean = sum[at] / n[at]
        if (n[at] == 1) return sprintf("%.3f", mean)
        spread = (squares[at] - n[at] * mean * mean) / (n[at] - 1)
        return sprintf("%.3f ± %.3f (%d)", mean, sqrt(spread > 0 ? spread : 0), n[at])
    }

    END {
        for (g = 1; g <= groups; g++) {
            split(name[g], part, FS)
            head(g)
            printf "%s: %s, %s%s, seed%s, `%s`\n\n|", part[1], part[2], part[3],
                   part[3] ~ /s$/ ? "" : " steps", substr(seeds[g], 2), setting[g, 1]
            for (c = 1; c <= cols[g]; c++) printf " | %s", title[order[c]]
            printf " |\n|---"
            for (c = 1; c <= cols[g]; c++) printf "|---"
            print "|"
            for (r = 1; r <= rows[g]; r++) {
                printf "| `%s`", arch[g, r]
                for (c = 1; c <= cols[g]; c++)
                    printf " | %s", cell(g SUBSEP r SUBSEP order[c])
                print " |"
            }
            print ""
        }
    }' "$results"
