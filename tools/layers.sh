#!/bin/sh
# Fail when an include goes the wrong way, or a library prints. Each row: a room, and the rooms it
# may include.
set -eu
bad=0

# allow ROOM 'PATTERN' FILES: every project include of FILES must match PATTERN.
allow() {
    room=$1 pattern=$2
    shift 2
    wrong=$(grep -nE '#include "' "$@" /dev/null | grep -vE "#include \"($pattern)" || true)
    [ -z "$wrong" ] || { echo "$room may not include:"; echo "$wrong"; bad=1; }
}

base='data/base/'
kernels="$base|model/kernels/"
layers="$kernels|model/layers/"
cores="$layers|model/cores/"
mixer="$cores|model/mixer"
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
allow model/mixer "$mixer" model/mixer*.[ch]
allow model/mixers "$mixer" model/mixers/*.c
allow model/positions "$mixer" model/positions/*.[ch]
allow model "$model" model/config*.[ch] model/block.[ch] model/model.[ch] model/pass*.[ch]
allow model/files "$files" model/files/*.[ch]
allow infer "$infer" infer/*.[ch]
allow infer/serve "$serve" infer/serve/*.[ch]
allow train "$train" train/*.[ch]
allow tools "$train|tools/" $(find tools -name '*.[ch]')

wrong=$(grep -rl cblas tokenizer data infer train tools model | grep -v -e model/kernels/gemm_openblas.c \
  -e tools/layers.sh || true)
[ -z "$wrong" ] || { echo "only model/kernels/gemm_openblas.c may call cblas:"; echo "$wrong"; bad=1; }

wrong=$(grep -rl -e 'mpi\.h' -e 'MPI_[A-Z][a-z]' tokenizer data infer train tools model | grep -v -e train/ranks.c \
  -e tools/layers.sh || true)
[ -z "$wrong" ] || { echo "only train/ranks.c may call MPI:"; echo "$wrong"; bad=1; }

# Libraries print nothing: verbs do, with their own files. What the tokenizer's child says is read
# by its parent, and an arena's last word is that of a programming error.
voices='data/base/(cli|live)\.c|[a-z]+/[a-z]+_verb\.c|infer/serve/serve_verb\.c|train/(report|progress)\.c'
voices="$voices|tokenizer/(child\.c|sentencepiece\.cc)|model/kernels/arena\.c"
wrong=$(grep -nE '\b(stdout|stderr|v?printf\(|puts\(|putchar\()' $(find data tokenizer model infer \
  train -name '*.c' -o -name '*.cc') | grep -vE "^($voices):" || true)
[ -z "$wrong" ] || { echo "a library prints:"; echo "$wrong"; bad=1; }
exit $bad
