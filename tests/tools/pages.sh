#!/bin/sh
# The pages tell the truth about the program: every link leads to a file, every source
# file that is named is there, and every setting, verb, mixer and exit code stands where a
# reader looks for it.
set -eu
weft=${WEFT:-build/release/bin/weft}
pages="README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md docs/*.md"
rooms='data|tokenizer|model|infer|serve|train|tools|tests|docs'
bad=0
wrong() { echo "pages.sh: $*"; bad=1; }

for page in $pages; do
    for link in $(grep -oE '\]\([^)#]+\)' $page | sed 's/^](//; s/)$//' |
        grep -v '^http' || true); do
        [ -e "$(dirname $page)/$link" ] || wrong "$page: $link: no such file"
    done
    for file in $(grep -oE "\\b($rooms)/[a-z0-9_/-]+\\.(c|h|cc|sh|md|svg)\\b" $page |
                  grep -v -e /foo -e template | sort -u || true); do
        [ -e "$file" ] || wrong "$page: $file: no such file"
    done
done

keys=$("$weft" train --help settings | sed -n 's/^\([a-z0-9_]*\) = .*/\1/p')
for key in $keys; do
    grep -q "^| \`$key\` |" docs/formats.md ||
        wrong "docs/formats.md: the setting $key is missing"
done
[ "$(echo $keys | wc -w)" -ge 30 ] ||
    wrong "weft train --help settings names $(echo $keys | wc -w) settings"

# A new mixer is one file and one line: the front page may follow later, but names none
# that is not.
known=" $("$weft" info --arch | awk '/^[a-z0-9]+ +(rope|srope|none) / { print $1 }' |
    xargs) "
named=$(sed -n '/^| `softmax` | attention/,/^$/s/^| \([^|]*\) |.*/\1/p' README.md |
    tr -d '`,')
for mixer in $known; do
    case " $(echo $named) " in *" $mixer "*) ;; *) echo \
        "pages.sh: README.md does not name $mixer" ;; esac
done
for mixer in $named; do
    "$weft" info --arch "$mixer" > /dev/null 2>&1 ||
        wrong "README.md: $mixer: no mixer or preset"
done

for verb in $("$weft" | sed -n '/^Verbs/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    grep -q "weft $verb" README.md || wrong "README.md: weft $verb is missing"
done

# A page for each verb, with every flag of its help; and in weft.1 every verb.
man=$(mktemp -d)
trap 'rm -rf "$man"' EXIT
tools/manpages.sh "$weft" "$man"
for verb in $("$weft" | sed -n '/^Verbs/,/^$/s/^  \([a-z]*\) .*/\1/p') 'data build' \
    'data stories'; do
    page=$man/weft-$(echo "$verb" | tr ' ' -).1
    [ -s "$page" ] || { wrong "no man page of weft $verb"; continue; }
    for flag in $("$weft" $verb --help |
        sed -n '/^Flags/,/^$/s/^[^-]*\(-., \)*\(--[a-z-]*\).*/\2/p'); do
        sed 's/\\-/-/g' "$page" | grep -q "^\.B .*$flag" ||
            wrong "the man page of weft $verb lacks $flag"
    done
    grep -qx "\.B ${verb%% *}" tools/weft.1 || wrong "tools/weft.1 lacks weft $verb"
    over=$man/weft$(echo "$verb" | sed -n 's/^\(data\) .*/-\1/p').1
    sed 's/\\-/-/g' "$over" | grep -q "^\.BR $(basename "$page" .1) (1)" ||
        wrong "$(basename "$over") does not lead on to weft $verb"
    tail -n 4 "$page" | grep -q '^\.BR weft (1)' ||
        wrong "the man page of weft $verb does not lead back"
done

for code in $(sed -n 's/^ *FAIL_[A-Z]* = \([1-9][0-9]*\).*/\1/p' data/base/fail.h); do
    grep -q "^| $code |" docs/formats.md ||
        wrong "docs/formats.md: exit code $code is missing"
    grep -qx "\.B $code" tools/weft.1 || wrong "tools/weft.1: exit code $code is missing"
done

# The page of weft serve needs nothing from elsewhere and stays small.
[ "$(cat infer/serve/page/* | wc -c)" -lt 60000 ] ||
    wrong "infer/serve/page: $(cat infer/serve/page/* | wc -c) bytes, not under 60,000"
foreign=$(grep -ohE '(https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^ ]*' infer/serve/page/* |
    grep -v '^http://www.w3.org/2000/svg' || true)
[ -z "$foreign" ] || wrong "infer/serve/page takes from elsewhere: $foreign"
exit $bad
