#!/bin/sh
# Fail when an include goes the wrong way, a library prints, or a line is wider than
# 90 columns. Each row: a room, and the rooms it may include.
set -eu
bad=0

# allow ROOM 'PATTERN' FILES: every project include of FILES must match PATTERN.
allow() {
    room=$1 pattern=$2
    shift 2
    wrong=$(grep -nE '#include "' "$@" /dev/null | grep -vE "#include \"($pattern)" ||
        true)
    [ -z "$wrong" ] || { echo "$room may not include:"; echo "$wrong"; bad=1; }
}

base='data/base/'
kernels="$base|model/kernels/"
layers="$kernels|model/layers/"
cores="$layers|model/cores/"
mixer="$cores|model/(mixer|meter)"
model="$mixer|model/(config|block|model|pass)"
data="$base|tokenizer/|data/"
files="$data|model/"
infer="$files|infer/[a-z_]*\.h"
serve="$infer|infer/serve/"
train="$serve|train/"

allow data/base "$base" data/base/*.[ch]
allow tokenizer "$base|tokenizer/" tokenizer/*
allow data "$data" data/*.[ch] data/stories/*.[ch]
allow model/kernels "$kernels" model/kernels/*.[ch]
allow model/layers "$layers" model/layers/*.[ch]
allow model/cores "$cores" model/cores/*.[ch]
allow model/meter "model/meter" model/meter.[ch]
allow model/mixer "$mixer" model/mixer*.[ch]
allow model/mixers "$mixer" model/mixers/*.c
allow model/positions "$mixer" model/positions/*.[ch]
allow model "$model" model/config*.[ch] model/block.[ch] model/model.[ch] model/pass*.[ch]
allow model/files "$files" model/files/*.[ch]
allow infer "$infer" infer/*.[ch]
allow infer/serve "$serve" infer/serve/*.[ch] infer/serve/none/*.c
allow train "$train" train/*.[ch]
allow tools "$train|tools/" $(find tools -name '*.[ch]')

# complain WHAT LINES: fail, unless there are no lines
complain() {
    [ -z "$2" ] || { printf '%s\n' "$1:" "$2"; bad=1; }
}

rooms='tokenizer data infer train tools model'
complain "only model/kernels/gemm_openblas.c may call cblas" "$(grep -rl cblas $rooms |
    grep -v -e model/kernels/gemm_openblas.c -e tools/layers.sh || true)"
complain "only train/ranks.c may call MPI" "$(
    grep -rl -e 'mpi\.h' -e 'MPI_[A-Z][a-z]' $rooms |
    grep -v -e train/ranks.c -e tools/layers.sh || true)"

# Libraries print nothing: verbs do, with their own files. What the tokenizer's child says
# is read by its parent, and an arena's last word is that of a programming error.
voices='data/base/(cli|live)\.c|[a-z]+/[a-z]+_verb\.c|infer/serve/serve_verb\.c'
voices="$voices|train/(report|progress)\.c|tools/exchange/[a-z]+_verb\.c"
voices="$voices|tokenizer/(child\.c|sentencepiece\.cc)|model/kernels/arena\.c"
quiet='data tokenizer model infer train tools/api tools/exchange'
complain "a library prints" "$(
    grep -nE '\b(stdout|stderr|v?printf\(|puts\(|putchar\()' \
        $(find $quiet -name '*.c' -o -name '*.cc') | grep -vE "^($voices):" || true)"

complain "wider than 90 columns" "$(LC_ALL=C.UTF-8 grep -n '^.\{91\}' $(
    find $rooms tests docs -name '*.[ch]' -o -name '*.cc' -o -name '*.sh' \
        -o -name '*.py') | cut -c 1-100 || true)"
exit $bad
