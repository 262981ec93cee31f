#!/bin/sh
# tools/manpages.sh WEFT DIR: man pages in DIR, weft.1 and weft-VERB.1 for each verb.
#
# A verb's page is what `weft VERB --help` prints, so the two cannot disagree: the lines
# up to the first blank one are its synopsis, the list under "Flags:" its options, the
# rest its description. Of weft.1 the version comes from weft itself.
set -eu
weft=$1 dir=$2 here=$(dirname "$0")
version=$("$weft" --version | sed -n '1s/^weft \([^ ]*\).*/\1/p')

verbs() { "$weft" | sed -n '/^Verbs:/,/^$/s/^  \([a-z]\{1,\}\)  *\(.*\)/\1 \2/p'; }
subs() { "$weft" data --help | sed -n 's/^  \([a-z]\{1,\}\)  *\([a-z].*\)/\1 \2/p'; }

# page NAME ABOUT WORDS...: the page of `weft WORDS --help`.
page() {
    name=$1 about=$2
    shift 2
    { echo "NAME $name"; echo "ABOUT $about"; "$weft" "$@" --help; } |
    awk -v version="$version" '
        function roff(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s)
                           sub(/^[.\047]/, "\\\\\\&&", s)
                           return s }
        function keep(nf) { if (nf != as_is) print nf ? ".nf" : ".fi"; as_is = nf }
        function text(s) { keep(s ~ /^ /); print s == "" ? ".PP" : roff(s) }
        /^NAME / && NR == 1 { name = $2; next }
        NR == 2 { sub(/^ABOUT /, "")
                  printf ".TH %s 1 \"\" \"weft %s\" \"User Commands\"\n",
                         toupper(name), version
                  printf ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n", roff(name), roff($0)
                  keep(1); part = "synopsis"; next }
        part == "synopsis" && /^$/ {
                  keep(0); print ".SH DESCRIPTION"; part = "about"; next }
        part == "synopsis" { print roff($0); next }
        /^Flags:/ { keep(0); print ".SH OPTIONS"; part = "flags"; next }
        part == "flags" && /^ +-/ {
                  line = $0; sub(/^ +/, "", line); at = match(line, /   */)
                  form = at ? substr(line, 1, at - 1) : line
                  sub(/^ +/, "", line); says = at ? substr(line, at) : ""
                  sub(/^ +/, "", says)
                  printf ".TP\n.B %s\n%s\n", roff(form), says == "" ? "\\&" : roff(says)
                  next }
        part == "flags" && /^$/ { print ".SH NOTES"; part = "notes"; next }
        part == "flags" { sub(/^ +/, ""); print roff($0); next }
        { text($0) }
        END { keep(0) }' > "$dir/$name.1"
}

# see PAGE NAMES...: the section that leads on to the pages of these names.
see() {
    page=$1
    shift
    { echo ".SH SEE ALSO"
      printf '%s\n' "$@" | sed 's/-/\\-/g; s/.*/.BR & (1),/; $s/,$//'; } >> "$dir/$page.1"
}

mkdir -p "$dir"
sed "1s/\"weft [^\"]*\"/\"weft $version\"/" "$here/weft.1" > "$dir/weft.1"
see weft $(verbs | sed 's/ .*//; s/^/weft-/')
verbs | while read -r verb about; do
    page "weft-$verb" "$about" "$verb"
    see "weft-$verb" weft $([ "$verb" != data ] || subs | sed 's/ .*//; s/^/weft-data-/')
done
subs | while read -r sub about; do
    page "weft-data-$sub" "$about" data "$sub"
    see "weft-data-$sub" weft weft-data
done
