#!/bin/sh
# The first minutes with weft: write the built-in stories, train a model on them for a
# minute, and let it tell one. WEFT is the program; everything it makes is in runs/.
set -eu

weft=${WEFT:-build/release/bin/weft}
text=runs/stories.txt
run=runs/demo

say() { printf '\n== %s\n\n' "$*"; }

mkdir -p runs
if [ -e $run/config.cfg ]; then
    say "$run is there already and is used again (rm -r $run trains anew)"
    "$weft" train --resume $run $([ -e $run/data ] || echo $text)
else
    if [ ! -e $text ]; then
        say "writing $text, 3 MB of stories"
        "$weft" data stories --bytes 3M --out $text
    fi
    say "training $run for a minute: watch the samples"
    # recurrent layers learn how sentences go, one head of the last finds who is who:
    # docs/recipe.md, "Names"
    "$weft" train $text --out $run --for 1m vocab=2048 tokenizer=bpe --size nano \
        --arch rglru/rglru/softmax+none layers=3 heads=2 copy=12
fi

say "a story from $run"
"$weft" infer $run -p "This is the story of" -n 250 --temp 0.6 --seed 3

say "32 more, checked: do they keep to the form, to what they said, and to their names?"
"$weft" infer $run -p "" --samples 32 -n 600 --temp 0.6 --seed 4 2> /dev/null |
    sed 's/^--- sample .* ---$/<|endoftext|>/' | "$weft" data stories --check - |
        tail -n 1

cat <<TEXT

== what next

  another story, and whether a story holds up: its form, and what it says twice

    $weft infer $run -p "Have you heard of" --temp 0.6
    $weft infer $run -p "This is the story of" -n 600 |
      $weft data stories --check -

  five minutes instead of one; your own text, say book.txt; what a run is; all there is

    $weft train $text --out runs/longer --for 5m
    $weft train book.txt --for 3m
    $weft info $run
    $weft
TEXT
