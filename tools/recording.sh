#!/bin/sh
# recording.sh OUT.svg: a session with weft in a terminal of 80 columns, as a picture made
# of text. What is in it was printed by the commands shown; of a line that was rewritten
# in place its last state before other output is kept. WEFT is the program, TIME how long
# it trains (1m).
set -eu

weft=$(realpath "${WEFT:-build/release/bin/weft}")
out=$(realpath -m "${1:?give the name of an .svg file}")
time=${TIME:-1m}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

cat > session <<TEXT
weft data stories --bytes 3M > stories.txt
weft train stories.txt --for $time vocab=2048
weft infer runs/stories -p "This is the story of" -n 150 --temp 0.6 --seed 3
TEXT

cat > play <<'TEXT'
stty cols 80 rows 24 -echo
while read -r line; do
    printf '\033[1m$ %s\033[0m\n' "$line"
    eval "$line" < /dev/null
    echo
done < session
TEXT

PATH=$(dirname "$weft"):$PATH TERM=xterm script -q -e -c 'sh play' typescript > log \
    < /dev/null

# Lines as they stand when all is printed. \001 and \002 begin and end bold.
awk '
/^Script (started|done)/ { next }
{
    gsub(/\033\[1m/, "\001"); gsub(/\033\[0m/, "\002")
    gsub(/\033\[[0-9;]*[A-JL-Za-z]/, "")
    n = split($0, part, "\r")
    shown = bar = ""
    for (i = 1; i <= n; i++) {
        gsub(/\033\[K/, "", part[i])
        if (part[i] == "")
            continue
        if (part[i] ~ /^\[[=> ]*\] /)
            bar = part[i]
        shown = part[i]
    }
    if (bar != "" && bar != shown)
        print bar
    print shown
}' typescript > lines

# 80 columns, the markup that XML needs, one <text> for each line.
awk '
function put(s) {
    gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); gsub(/>/, "\\&gt;", s)
    gsub(/\001/, "<tspan class=\"b\">", s); gsub(/\002/, "</tspan>", s)
    text[n++] = s
}
{
    bold = /\001/ ? 2 : 0
    for (s = $0; length(s) > 80 + bold; s = substr(s, 81 + bold)) {
        put(substr(s, 1, 80 + bold) (bold ? "\002" : ""))
        bold = 0
    }
    put(s)
}
END {
    while (n && text[n - 1] == "")
        n--
    high = n * 18 + 28
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 704 %d\" ", high
    print "width=\"704\" height=\"" high "\" font-size=\"14\" " \
        "font-family=\"ui-monospace, Menlo, Consolas, monospace\">"
    print "<style>text { fill: #d8dee9; white-space: pre } " \
        ".b { fill: #fff; font-weight: bold }</style>"
    print "<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#22272e\"/>"
    for (i = 0; i < n; i++)
        if (text[i] != "")
            printf "<text xml:space=\"preserve\" x=\"16\" y=\"%d\">%s</text>\n",
                i * 18 + 28, text[i]
    print "</svg>"
}' lines > picture

mkdir -p "$(dirname "$out")"
mv picture "$out"
echo "$out: $(grep -c '<text' "$out") lines"
