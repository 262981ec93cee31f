#!/bin/sh
# Every wrong turn of the first ten minutes, as a table. A row is
#
#     wrong CODE 'WORDS' COMMAND...     ends with that exit code; of what it prints on
#                                       stderr one line begins "weft", it is the last, and
#                                       WORDS are in it
#     right 'WORDS' COMMAND...          odd input that works: exit 0, WORDS on stderr
#     found 'WORDS' PATH                weft verify says so: exit 3, WORDS on stdout
#     shown 'WORDS' COMMAND...          on a terminal: exit 0, WORDS appear
#
# and after each row everything under keep/ is what it was before: text, datasets and
# runs.

set -eu
export LC_ALL=C OMP_PROC_BIND=false OMP_WAIT_POLICY=passive

weft=$(realpath "${WEFT:-build/release/bin/weft}")
completion=$(realpath "$(dirname "$0")/../../tools/weft.bash")
tmp=$(mktemp -d)
mounted=
trap '[ -z "$mounted" ] || umount "$tmp/disk"; rm -rf "$tmp"' EXIT
cd "$tmp"
mkdir keep new

rows=0 bad=0 bound=: to=out

complain() {
    echo "wrong.sh: $1" >&2
    shift
    echo "    weft $*" >&2
    sed 's/^/    | /' err >&2
    bad=$((bad + 1))
}

# Bytes, names and links of all that must not be lost.
state() {
    find keep -type f -exec cksum {} + | sort
    find keep -type l -printf '%p -> %l\n' | sort
}

run() {
    rows=$((rows + 1)) status=0
    ($bound; timeout 240 "$weft" "$@" > $to 2> err < /dev/null) || status=$?
    state | cmp -s - before || complain "something in keep/ is lost or changed" "$@"
}

wrong() {
    code=$1 words=$2
    shift 2
    run "$@"
    [ $status -eq "$code" ] || complain "exit $status instead of $code" "$@"
    tail -n 1 err | grep -qF -- "$words" || complain "the last line lacks '$words'" "$@"
    tail -n 1 err | grep -q '^weft' && [ "$(grep -c '^weft' err)" -eq 1 ] ||
        complain "not one line of weft's, at the end" "$@"
    find new -mindepth 1 -name '*.tmp-*' | grep -q . &&
        complain "a temporary file is left" "$@"
    rm -rf new
    mkdir new
}

right() {
    words=$1
    shift
    run "$@"
    [ $status -eq 0 ] || complain "exit $status instead of 0" "$@"
    grep -qF -- "$words" err || complain "no line has '$words'" "$@"
    rm -rf new
    mkdir new
}

found() {
    run verify "$2"
    [ $status -eq 3 ] || complain "exit $status instead of 3" verify "$2"
    grep -qF -- "$1" out || complain "no line has '$1'" verify "$2"
}

shown() {
    words=$1
    shift
    rows=$((rows + 1))
    TERM=xterm timeout 240 script -qec "$weft $*" typescript > out 2> err < /dev/null ||
        complain "exit $?" "$@"
    grep -qaF -- "$words" typescript || complain "'$words' is not shown" "$@"
    rm -rf new
    mkdir new
}

# ---- what exists -----------------------------------------------------------------------

tiny='layers=1 width=16 heads=2 context=32 batch=2 threads=1'

awk 'BEGIN { split("the a boy girl dog saw found lost red old ball house and", w, " ")
    x = 7
    for (i = 0; i < 3000; i++) { x = (x * 1103 + 12345) % 65536
        printf "%s%s", w[x % 13 + 1], i % 9 == 8 ? ".\n" : " " } }' > keep/text.txt
"$weft" data build keep/text.txt --out keep/data --vocab 300 --threads 1 > out 2> err
"$weft" data build keep/text.txt --out keep/other --vocab 290 --threads 1 > out 2> err
"$weft" train keep/data --out keep/run $tiny steps=4 checkpoint_every=2 eval_every=2 \
    > out 2> err
state > before
new="--out new/run $tiny steps=2"

# damage DIR FILE FILTER...: damaged/DIR is keep/DIR with that file passed through the
# filter.
damage() {
    from=$1 file=$2
    shift 2
    rm -rf "damaged/$from"
    mkdir -p damaged
    cp -a "keep/$from" "damaged/$from"
    "$@" < "keep/$from/$file" > patched
    cat patched > "damaged/$from/$file"
}

without_end() { head -c -20; }
flipped() { sed "s/$1/$2/"; }
smudged() {
    cat > whole
    head -c "$1" whole
    printf '\377\125\252\001'
    tail -c +$(($1 + 5)) whole
}

# ---- input -----------------------------------------------------------------------------

: > empty.txt
printf x > one.txt
printf 'short\n' > short.txt
mkdir nothing loop
ln -s ../loop loop/again
mkfifo pipe
head -c 60000 "$weft" > binary
{ cat keep/text.txt; printf 'caf\351 \377\376\n'; cat keep/text.txt; } > latin1.txt
{ cat keep/text.txt; printf 'nul \000 here\n'; cat keep/text.txt; } > nul.txt
tr '\n' ' ' < keep/text.txt > line
for i in 1 2 3 4 5 6 7 8; do cat line line > more; mv more line; done
mv line line.txt                                        # 4 MB without a newline
printf '{"text": "a"}\n{"text": 5}\n' > kind.jsonl
printf '{"text": "a"}\n{"text": "b"\n' > syntax.jsonl
printf '{"body": "a"}\n' > field.jsonl

# zstd frames by hand: magic, header, blocks. A run-length block of 128 KiB is four bytes.
frame='\050\265\057\375'
printf "$frame"'\000\070\003\000\020' > cut.txt.zst      # a block without its byte
printf "$frame"'\000\377\003\000\020a' > window.txt.zst  # a window of terabytes
printf "$frame"'\000\070\007\000\020a' > corrupt.txt.zst     # a block of no known type
printf '\002\000\020a' > rle
for i in 1 2 3 4 5 6 7 8 9 10; do cat rle rle > more; mv more rle; done
{ printf "$frame"'\000\070'; cat rle; printf '\001\000\000'; } > bomb.jsonl.zst  # 128 MiB
cp keep/text.txt notzstd.txt.zst

wrong 3 'none.txt: ' train none.txt $new
wrong 3 'empty' train empty.txt $new
wrong 3 'one byte of text' train one.txt $new
wrong 3 'context=4 fits' train short.txt $new
wrong 3 'context=2048 fits' train keep/text.txt $new context=8192
wrong 3 'nothing: ' train nothing $new
for form in gz xz bz2 pdf html epub; do cp keep/text.txt form.$form; done
wrong 3 "zcat $PWD/form.gz | weft train -" train form.gz $new
wrong 3 "xzcat $PWD/form.xz | weft train -" train form.xz $new
wrong 3 "bzcat $PWD/form.bz2 | weft train -" train form.bz2 $new
cp keep/text.txt form.jsonl.gz
wrong 3 'zcat form.jsonl.gz > form.jsonl && weft train form.jsonl' \
    data build form.jsonl.gz --out new/data
wrong 3 "pdftotext $PWD/form.pdf - | weft train -" train form.pdf $new
wrong 3 "pandoc -t plain $PWD/form.html | weft train -" train form.html $new
wrong 3 'pandoc -t plain form.epub | weft train -' data build form.epub --out new/data
wrong 2 '--field body: it goes with .jsonl' train keep/text.txt --field body $new
wrong 2 'keep/text.txt: given twice' train keep/text.txt ./keep/text.txt $new
ln -s keep linked
wrong 2 'text.txt: given twice' data build keep/text.txt linked/text.txt --out new/data
wrong 3 'loop' train loop $new
wrong 3 'pipe: ' train pipe $new
wrong 3 '/dev/null' train /dev/null $new
wrong 3 'kind.jsonl:2' train kind.jsonl $new
wrong 3 'syntax.jsonl:2' train syntax.jsonl $new
wrong 3 '"text"' train field.jsonl $new
wrong 3 'cut.txt.zst' train cut.txt.zst $new
wrong 3 'window' train window.txt.zst $new
wrong 3 'corrupt.txt.zst' train corrupt.txt.zst $new
wrong 3 'notzstd.txt.zst' train notzstd.txt.zst $new
wrong 2 'a dataset must be the only input' train keep/data keep/text.txt $new
wrong 3 'looks binary' train binary $new
right 'bytes are not UTF-8' train binary $new tokenizer=bytes
right '3 bytes are not UTF-8' train latin1.txt $new
right '2 steps' train nul.txt $new
right 'products by OpenBLAS' train keep/data --out new/run $tiny steps=1 products=openblas
wrong 2 'own|openblas' train keep/data --out new/run $tiny steps=1 products=mkl
right 'rounded to bf16' train keep/data --out new/run $tiny steps=1 precision=bf16
wrong 2 'needs products=own' train keep/data --out new/run $tiny steps=1 precision=bf16 \
    products=openblas
right 'run: 1 step, ' train keep/data --out new/run $tiny steps=1
right 'learn it by heart: give more, or --size nano' train short.txt --out new/run \
    --size small context=4 steps=1
right 'learn it by heart: give more' train short.txt --out new/run $tiny context=4 steps=1
! grep -q 'or --size' err || complain 'a larger size is advised' train short.txt
right 'learned by heart' train keep/text.txt --out new/run $tiny steps=3000 \
    eval_every=3000

# Hostile input within 800 MB of addresses: 128 MiB in 4 KB, and 4 MB without a newline.
# AddressSanitizer alone takes more.
grep -q __asan_init "$weft" || bound='ulimit -v 800000'
[ "$bound" = : ] || wrong 6 'not enough memory' bench --arch softmax --layers 64 \
    --width 4096
wrong 3 'a line of more than 64 MiB' train bomb.jsonl.zst $new
right '2 steps' train line.txt $new tokenizer=bytes
[ "$bound" = : ] || bound='ulimit -v 300000'
run --version
[ $status -eq 0 ] || complain "exit $status instead of 0" --version
bound=:
export WEFT_CPU=v9
wrong 2 'WEFT_CPU=v9: this program has v' --version
unset WEFT_CPU

# ---- command lines ---------------------------------------------------------------------

# Help is at most 32 lines of 80 columns and begins with an example.
for verb in train infer score data info export import verify compare lab bench \
    'data build' 'data stories'; do
    rows=$((rows + 1))
    "$weft" $verb --help > out 2> err || complain "exit $?" $verb --help
    [ "$(wc -l < out)" -le 32 ] || complain "more than a screen" $verb --help
    ! grep -q '^.\{81\}' out || complain "wider than 80 columns" $verb --help
    head -n 1 out | grep -q "^weft $verb .*[a-z]" ||
        complain "no example first" $verb --help
done
rows=$((rows + 1))
"$weft" train --help settings > out 2> err &&
    grep -q '^clip = 1 .*norm of the gradient' out ||
    complain "a setting is not explained" train --help settings
! grep -q '^.\{81\}' out || complain "wider than 80 columns" train --help settings

wrong 2 "did you mean 'weft train'?" trian
wrong 2 "did you mean 'weft data stories'?" data storys
wrong 2 "did you mean '--size'?" train keep/text.txt --sise nano
wrong 2 "did you mean '--help'?" train --hlep
wrong 2 "did you mean 'layers'?" train keep/text.txt lyers=2
wrong 2 "did you mean '--top-k'?" infer keep/run --topk 5
wrong 2 "did you mean '--json'?" score keep/run keep/text.txt --jsn
wrong 2 'did you mean mini?' train keep/text.txt --size mni --out new/run
wrong 2 'softmax' train keep/text.txt --arch sofmax --out new/run
wrong 2 'not an architecture: --size nano' train keep/text.txt --arch nano --out new/run
wrong 2 'weft calls it lr' train keep/text.txt learning_rate=1 --out new/run
wrong 2 'weft calls it steps' train keep/text.txt --max-steps 5 --out new/run
wrong 2 'weft calls it --tokens N, --steps N or --for' train keep/text.txt epochs=3 \
    --out new/run
wrong 2 'weft calls it softmax' train keep/text.txt --arch transformer --out new/run
wrong 2 'core' train keep/text.txt threads=1000 --out new/run
wrong 2 'core' infer keep/run -p x --threads 1000
cp -a keep/run larger                   # as if made on a machine with more cores
sed 's/^threads = 1 /threads = 1000 /' keep/run/config.cfg > larger/config.cfg
grep -q '^threads = 1000' larger/config.cfg || complain 'no threads' config.cfg
right 'threads = 1000 is more than' train --resume larger steps=5
grep -q 'larger: 5 steps' err || complain 'it did not go on' train --resume larger
echo 'threads = 1000' > larger.cfg
right 'threads = 1000 is more than' train keep/data --config larger.cfg --out new/run \
    layers=1 \
    width=16 heads=2 context=32 batch=2 steps=2
run lab --threads 1
[ $status -eq 0 ] || complain "exit $status instead of 0" lab --threads 1
wrong 2 'no input' train --for 1m
wrong 2 '90s, 3m or 1h30m' train keep/text.txt --for soon --out new/run
wrong 2 'within ten years' train keep/text.txt --for 1e9h --out new/run
wrong 2 'schedule goes with --steps' train keep/text.txt --for 1m schedule=wsd \
    --out new/run
echo 'schedule = wsd' > wsd.cfg
right 'schedule in wsd.cfg does not hold' train keep/data --config wsd.cfg --for 1s \
    --out new/run $tiny
echo 'lr_end = 0.5' > end.cfg
right 'lr_end in end.cfg does not hold' train keep/data --config end.cfg --for 1s \
    --out new/run $tiny
run train keep/data --config wsd.cfg --steps 2 --out new/run $tiny
[ $status -eq 0 ] || complain "exit $status instead of 0" train --config wsd.cfg
! grep -q 'does not hold' err || complain 'by steps it holds' train --config wsd.cfg
rm -rf new/run
wrong 2 'one of --for' train keep/text.txt --for 1m --steps 5 --out new/run
wrong 2 'not a whole number' train keep/text.txt layers=two --out new/run
wrong 2 'out of range' train keep/text.txt --out new/run $tiny --steps 0
wrong 2 'out of range' train keep/text.txt --out new/run $tiny --steps -1k
wrong 2 'not a whole number' train keep/text.txt --out new/run $tiny --steps 1.5
right '1000 steps' train keep/data --out new/run $tiny layers=1 width=8 context=8 \
    --steps 1k
wrong 2 'out of range' train keep/text.txt layers=0 --out new/run
wrong 2 'out of range' train keep/text.txt lr=-1 --out new/run
wrong 2 'out of range' train keep/text.txt $new vocab=5
wrong 2 'too large for this text' train keep/text.txt $new vocab=4096
wrong 2 'do not divide width' train keep/text.txt $new heads=3
wrong 2 'parameters; make some of them smaller' train keep/text.txt $new width=65536 \
    layers=1024
wrong 6 'memory' train keep/text.txt $new width=16384 heads=16 layers=64
wrong 6 'reduce batch=128 (and raise accumulate=1 by as much), or context=1048576, or' \
    train keep/text.txt $new context=1048576 batch=128
wrong 2 'leave vocab out' train keep/data $new vocab=999
wrong 2 'was built with ""; give the text' train keep/data $new prefix=x
wrong 2 'out of range' infer keep/run -p x --temp -1
wrong 2 '--weights f16: they are f32, bf16 or q8_0' infer keep/run -p x --weights f16
right 'text 4' infer keep/run -p x -n 4 --ignore-eos --weights q8_0
right 'text 4' infer keep/run -p x -n 4 --ignore-eos --weights bf16
wrong 2 'out of range' data stories --bytes -5
wrong 3 'nowhere: no such run' infer nowhere -p x
wrong 3 'nowhere: no such run' serve nowhere
wrong 3 'keep/data: ' serve keep/data
wrong 3 'weft train keep/data' infer keep/data -p x
wrong 3 'keep/text.txt: a file' infer keep/text.txt -p x
cp -a keep/data 'my data'
wrong 3 "weft train 'my data'" infer 'my data' -p x
wrong 3 'nowhere: no such run' train --resume nowhere
wrong 3 'not a run' train --resume keep/data
wrong 3 'config.cfg' train --replay nowhere
wrong 2 'takes everything from the run' train --replay keep/run --for 1m
wrong 2 'lr cannot change' train --replay keep/run lr=1
wrong 2 'lr cannot change when a run is resumed' train --resume keep/run lr=1
for more in '--out new/run' '--arch gla' '--size nano' '--config wsd.cfg' '--field body' \
    '--val keep/text.txt'; do
    wrong 2 'takes its settings from the run' train --resume keep/run $more
done
for more in keep/text.txt '--arch gla' '--size nano' '--config wsd.cfg' '--field body' \
    '--from keep/run' '--val keep/text.txt' '--tokens 5' '--flops 5' \
    '--resume keep/run'; do
    wrong 2 'takes everything from the run' train --replay keep/run $more
done
for more in '--tokens 5 --flops 5' '--steps 5 --tokens 5' '--steps 5 --flops 5' \
    '--for 1m --flops 5'; do
    wrong 2 'one of --for' train keep/text.txt $more --out new/run
done
for more in tokenizer=bytes val_fraction=0.2; do
    wrong 2 'is tokenized and split already' train keep/data $more --out new/run
done
wrong 2 'lr_end goes with --steps' train keep/text.txt --for 1m lr_end=0.1 --out new/run

# What a budget buys, and what was chosen where nothing was named.
right '--size pico vocab=300' train keep/data --for 1s --out new/run \
    threads=1
grep -q -- '--resume new/run --for 1s$' err || complain 'no more of the time' train --for
right '3 steps of 64 tokens' train keep/data --out new/run $tiny --tokens 190
! grep -q 'settings for' err && grep -q -- '--resume new/run --steps 6$' err ||
    complain 'settings that were given, or other steps' train --tokens
right 'runs/text-luna: 1 step, ' train keep/text.txt --from keep/run --arch luna steps=1
right 'runs/text-more: 1 step, ' train keep/text.txt --from keep/run steps=1

# More steps for a run that is done; it is then no other run again.
cp -a keep/run longer
wrong 2 'has done 4 steps already, more than --steps 3' train --resume longer --steps 3
right '6 steps instead of 4: from here the learning rate' train --resume longer --steps 6
grep -q '^continuing longer at step 4$' err && grep -q '^2 steps of 64 tokens' err ||
    complain 'it does not go on from step 4' train --resume longer
right 'longer is finished: 6 steps done' train --resume longer
wrong 3 'model.safetensors differs; it was trained by another build' \
    train --replay longer --out new/again
cp -a keep/run first
right 'first-replay: 4 steps' train --replay first/
! grep -q 'train it more' err || complain 'a repeated run is to be extended' train
wrong 2 'repeats another run; extend that one: --resume' train --resume first-replay \
    --for 1s
sed 's/^steps = 4/steps = 9/' keep/run/config.cfg > first/config.cfg
wrong 3 'first is not finished; finish it with: weft train --resume first' \
    train --replay first --out new/again
wrong 2 'first is a run already; continue it with: weft train --resume first' \
    train keep/text.txt --out first $tiny steps=2
rm first/latest
wrong 3 'first has no checkpoint yet; finish it with' train --replay first --out new/again
cp keep/text.txt keep/part.txt:2
state > before
right 'mix, times in an epoch: field.jsonl 1, text.txt 4' train field.jsonl:0.5 \
    keep/text.txt:2 \
    --field body --out new/run $tiny steps=2
right 'measuring' data build keep/text.txt --val field.jsonl --field body --out new/fields
right 'validation: part.txt:2' train keep/text.txt --val keep/part.txt:2 --out new/run \
    $tiny steps=2
lines=$(grep -c '.\{32\}' keep/part.txt:2)
right "$lines of $lines lines stand in training too" \
    train keep/text.txt --val keep/part.txt:2 --out new/run $tiny steps=2
rows=$((rows + 1))
echo 'Zebras are not in that text; a sample of one document begins as they do.' > zebra
"$weft" train keep/text.txt --val zebra --out new/run $tiny steps=1 tokenizer=bytes \
    > out 2> err && grep -q '"sample": *1, "text": *"Z' new/run/log.jsonl ||
    complain 'a sample begins after eos' train
"$weft" infer new/run -n 4 < /dev/null 2> err | grep -q '^Zebras' ||
    complain 'a text without a prompt begins after eos' infer
"$weft" train keep/text.txt --from new/run --out new/next steps=1 > out 2> err &&
    ! grep -q Zebras new/next/config.cfg || complain 'the opening of another text' train
rm -rf new/run new/next
rows=$((rows + 1))
"$weft" train keep/text.txt --val zebra --out new/run $tiny steps=1 tokenizer=bytes \
    'prefix="In "' > out 2> err && grep -q '^opening = "Zebras"' new/run/config.cfg ||
    complain 'the opening is of the prefix' train
rm -rf new/run
rows=$((rows + 1))
"$weft" data build keep/text.txt --val keep/text.txt --out new/set > out 2> err ||
    complain "exit $?" data build
grep -q '  in training  \([0-9]*\) of \1 lines of validation' out ||
    complain 'nothing is said' data build --val
right 'lines stand in training too' compare keep/text.txt --val keep/text.txt \
    --arch softmax,gla --seeds 1 \
    --tokens 128 --out new/cmp $tiny
right '2 steps' train keep/part.txt:2 --out new/run $tiny steps=2
wrong 2 "its weight 'x' is not a number" train keep/text.txt:x --out new/run
wrong 2 "its weight '-1' is not a number" data build keep/text.txt:-1 --out new/set
wrong 2 'val_fraction, --val and --field out' train keep/data --val keep/text.txt \
    --out new/run
wrong 2 'val_fraction, --val and --field out' train keep/data --field body --out new/run
wrong 2 'leave val_fraction out' train keep/text.txt --val keep/text.txt \
    val_fraction=0.1 --out new/run
wrong 2 'leave val_fraction out' data build keep/text.txt --val keep/text.txt \
    val_fraction=0.1 --out new/d
wrong 2 'leave --val out' compare keep/data --val keep/text.txt --arch softmax --flops 1e9
wrong 2 'leave --field out' compare keep/data --field body --arch softmax --flops 1e9
wrong 3 'none.txt' train keep/text.txt --val none.txt --out new/run
wrong 3 'none.txt' data build keep/text.txt --val none.txt --out new/set
wrong 3 'looks binary' data build keep/text.txt --val "$weft" --out new/set
wrong 2 'one of --for' train --resume keep/run --for 1m --tokens 5
wrong 2 'do not have equal budgets' compare keep/text.txt --arch softmax --flops 1e9 \
    patience=3
wrong 3 'nowhere: no such run' train keep/text.txt --from nowhere --out new/run
wrong 3 'a dataset, not a run' train keep/text.txt --from keep/data --out new/run
wrong 3 'tokenized for another model' train keep/other --from keep/run --out new/run \
    steps=2
wrong 2 'leave --size out' train keep/text.txt --from keep/run --size nano --out new/run
wrong 2 'leave vocab out' train keep/text.txt --from keep/run vocab=300 --out new/run
wrong 2 'leave tokenizer out' train keep/text.txt --from keep/run tokenizer=bpe \
    --out new/run
wrong 2 'takes its settings from the run' train --resume keep/run --from keep/run
right 'initialised anew: mixer.fw' train keep/data --from keep/run --arch luna \
    --out new/run steps=2
right 'checkpoint keep/run/ckpt-00000002' infer keep/run@2 -n 1 -p x
right 'checkpoint keep/run/ckpt-0000000' infer keep/run@best -n 1 -p x
wrong 3 "'3' is neither best nor the step of a checkpoint; those it has: 4, 2" infer \
    keep/run@3 -p x
wrong 3 "'3' is neither best" verify keep/run@3
wrong 3 "'3' is neither best" score keep/run@3 keep/text.txt
wrong 3 "'3' is neither best" info keep/run@3
right 'ckpt-00000002' train keep/text.txt --from keep/run@2 --out new/run steps=2
right 'bit for bit' train --replay keep/run@2 --out new/again
cp -a keep/run bare
sed "s|^input = .*|input = $(pwd -P)/bare/../keep/text.txt|" keep/run/config.cfg \
    > bare/config.cfg
wrong 3 'its tokenized text is gone' train --replay bare --out new/again
rm -rf bare/latest bare/ckpt-*
wrong 3 'its input lies outside of it' train --resume bare
cp -a keep/run unbegun                  # killed before the first checkpoint of more
echo 'budget = tokens 1e4 after 1e5' >> unbegun/config.cfg
right 'unbegun: 6 steps' train --resume unbegun --steps 6
wrong 2 '--from keep/run@2 begins a new run' train --resume keep/run@2
wrong 3 "'3' is neither best" train --resume keep/run@3
wrong 3 'nowhere@best: no such' verify nowhere@best
wrong 3 'none.txt' score keep/run none.txt
wrong 3 'empty' score keep/run empty.txt
wrong 3 'name another with --field' score keep/run field.jsonl
wrong 2 '--field body: it goes with .jsonl' score keep/run keep/text.txt --field body
wrong 2 'tokenized already; leave it out' score keep/run keep/data --field body
right 'bits/byte' score keep/run field.jsonl --field body --per-token
wrong 3 'nothing' info nothing
wrong 3 'none: no such' verify none
wrong 3 'neither a dataset, a run nor a checkpoint' verify keep/text.txt
wrong 3 'no?such?[31m: ' infer "$(printf 'no\nsuch\033[31m')" -p x
echo 'lyers = 3' > odd.cfg
printf 'layers = 1\033[31m\n' > red.cfg
wrong 2 'layers = 1?[31m: not a whole number' train keep/text.txt --config red.cfg \
    --out new/run
wrong 2 "did you mean 'layers'?" train keep/text.txt --config odd.cfg --out new/run
wrong 3 'none.cfg' train keep/text.txt --config none.cfg --out new/run
right 'oldest are dropped' infer keep/run -n 5 -p "$(head -c 400 keep/text.txt)" \
    --ignore-eos

# The shell completes verbs, presets, and names with spaces as one.
completes() {
    rows=$((rows + 1)) want=$1
    shift
    bash -c '. "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _weft
        printf "<%s>" "${COMPREPLY[@]}"' - "$completion" "$weft" "$@" > out 2> err
    grep -qF -- "$want" out || complain "'$(cat out)' is not '$want'" "$@"
}
if command -v bash > null; then
    completes '<train>' tr
    completes '<swax>' train --arch swa
    completes '<my data>' train my
fi

# ---- damage ----------------------------------------------------------------------------

at=ckpt-00000004
damage data train.tok.zst without_end
wrong 3 'train.tok.zst' train damaged/data $new
damage data train.tok.zst smudged 40
wrong 3 'train.tok.zst' train damaged/data $new
found 'train.tok.zst' damaged/data
damage data val.tok.zst smudged 20
wrong 3 'val.tok.zst' score keep/run damaged/data
damage data tokenizer.model smudged 200
wrong 3 'tokenizer.model' train damaged/data $new
damage data dataset.json without_end
wrong 3 'dataset.json' train damaged/data $new
damage run $at/model.safetensors without_end
wrong 3 'model.safetensors' infer damaged/run -p x
damage run $at/model.safetensors smudged 2
wrong 3 'model.safetensors' infer damaged/run -p x
damage run $at/model.safetensors smudged 5000
wrong 3 'model.safetensors' infer damaged/run -p x
found 'model.safetensors' damaged/run
damage run $at/tokenizer.model without_end
wrong 3 'tokenizer.model' infer damaged/run -p x
wrong 3 'the newest intact checkpoint is damaged/run/ckpt-00000002' infer damaged/run -p x
damage run $at/config.json without_end
wrong 3 'config.json' infer damaged/run -p x
damage data dataset.json flipped '"version": 1' '"version": 9'
wrong 3 'version' train damaged/data $new  # a checkpoint's: tests/model/test_checkpoint.c
damage run $at/manifest.json cat
rm damaged/run/$at/manifest.json
wrong 3 'manifest.json' infer damaged/run -p x
damage run $at/manifest.json without_end
found 'manifest.json' damaged/run
damage run config.cfg flipped '^layers' lyers
wrong 3 "did you mean 'layers'?" train --resume damaged/run --steps 6
damage run $at/trainer.json without_end
right 'set it aside as damaged-' train --resume damaged/run --steps 6
damage run $at/trainer.json without_end
rm -r damaged/run/ckpt-00000002
wrong 3 'every checkpoint is damaged' train --resume damaged/run --steps 6
wrong 3 'every checkpoint is damaged' train --resume damaged/run --steps 6
rm -r damaged/run/$at
wrong 3 'its checkpoints are gone' train --resume damaged/run --steps 6
cmp -s keep/run/log.jsonl damaged/run/log.jsonl ||
    complain "the log is lost" train --resume

# ---- doors that are closed -------------------------------------------------------------

# Names that speak to a terminal: ESC, CSI as one character, and what turns the line
# around.
quiet() {
    cat out err > said
    for bytes in '\033' '\302\233' '\342\200\256'; do
        ! grep -qaF "$(printf "$bytes")" said ||
            complain "a control character is said" "$@"
    done
}
loud=$(printf 'a\033[31m\302\2331m\342\200\256c')
mkdir loud
right '1 step, ' train keep/data --out "loud/$loud" $tiny steps=1
quiet train
right 'checkpoint' infer "loud/$loud" -p x -n 2
quiet infer
for verb in info verify; do
    run $verb "loud/$loud"
    [ $status -eq 0 ] && grep -q 'a?\[31m?1m?c' out ||
        complain "exit $status, or it is not named" $verb
    quiet $verb
done
right 'measuring' data build keep/text.txt --out "loud/$loud.d" --tokenizer bytes
quiet data build
run export "loud/$loud" --to hf --out "loud/$loud.hf"
quiet export
run import "loud/$loud.hf" --out "loud/$loud.run"
[ $status -eq 0 ] || complain "exit $status instead of 0" import
quiet import
run plot "loud/$loud" --csv
[ $status -eq 0 ] || complain "exit $status instead of 0" plot --csv
quiet plot --csv
right 'measuring' data build keep/text.txt --out "loud/$loud.e" --tokenizer bytes
if command -v bash > null; then
    bash -c "test -d $(sed -n 's/^next: .* train \(.*\) --for 3m$/\1/p' out)" ||
        complain "the command as printed does not work" data build
fi

# A run directory from elsewhere reads and writes nothing outside of itself.
damage run config.cfg cat
echo secret > secret.cfg
echo 'include ../../secret.cfg' >> damaged/run/config.cfg
wrong 3 'outside of this file' train --resume damaged/run --steps 6
mkdir -p foreign
sed "s|^input = .*|input = $PWD/keep/text.txt|" keep/run/config.cfg > foreign/config.cfg
wrong 3 "name it: weft train --resume foreign $PWD/keep/text.txt" train --resume foreign
[ ! -e foreign/data ] || complain "it was read unasked" train --resume foreign
wrong 2 'is none of foreign' train --resume foreign secret.cfg
right 'foreign: 4 steps' train --resume foreign keep/text.txt
damage run config.cfg cat
rm damaged/run/lock
ln keep/text.txt damaged/run/lock
wrong 5 'hard link' train --resume damaged/run --steps 6
damage run log.jsonl cat
rm damaged/run/log.jsonl
mkfifo damaged/run/log.jsonl
wrong 5 'log.jsonl: a pipe' train --resume damaged/run --steps 6
rm damaged/run/config.cfg
mkfifo damaged/run/config.cfg
run info damaged/run
[ $status -eq 0 ] || complain "exit $status: it waits for a pipe" info damaged/run
wrong 3 'config.cfg: a pipe' train --resume damaged/run --steps 6
damage run config.cfg cat
echo 'budget = flops 1e999' >> damaged/run/config.cfg
wrong 3 'a number in its range' train --resume damaged/run
damage run config.cfg cat
echo 'layers = 1' >> damaged/run/config.cfg
wrong 3 'layers is given twice' train --resume damaged/run
printf 'lr = 0.1\nwidth = 16\nlr = 0.2\n' > twice.cfg
wrong 2 'twice.cfg:3: lr is given twice' train keep/text.txt --config twice.cfg \
    --out new/run
cp -a keep/data 'x<img src=1>'
right 'with plots' compare 'x<img src=1>' --arch softmax,gla --tokens 200 --seeds 1 \
    --out loud/compare $tiny
! grep -q '^[^ ].*<img' loud/compare/report.md || complain "HTML in report.md" compare

run data stories --check keep/text.txt
[ $status -eq 3 ] && grep -q '0 of 1 texts are stories' out ||
    complain "exit $status for a text that is no story" data stories --check

# A link names its run; a finished run says how to go on; another build is said.
ln -s keep/text.txt tale.txt
right 'runs/tale: 2 steps' train tale.txt $tiny steps=2
wrong 2 'finished; train it more with: weft train --resume runs/tale --for 3m' \
    train tale.txt $tiny steps=2
damage run log.jsonl flipped '"compiler": "' '"compiler": "old '
right 'damaged/run is finished' train --resume damaged/run
! grep -q 'another build' err || complain "a finished run is resumed" train --resume
right 'resumed by another build or machine than began it (' train --resume damaged/run \
    --steps 6
damage run log.jsonl flipped '"flags": "' '"flags": "-Old '
right 'than began it (other compiler flags)' train --resume damaged/run --steps 6
damage run log.jsonl cat
right '2 steps' train --resume damaged/run --steps 6
! grep -q 'another build' err || complain "the same build is another" train --resume
right 'its draws change nothing' train keep/data --arch swax --out new/run $tiny \
    layers=2 steps=1
right '1 step, ' train keep/data --arch swax --out new/run $tiny layers=2 context=64 \
    steps=1
! grep -q 'change nothing' err || complain "draws that change something" train --arch swax

# ---- writing ---------------------------------------------------------------------------

wrong 2 'keep/run is a run already' train keep/text.txt --out keep/run $tiny steps=2
wrong 2 'keep exists and is not a run' train keep/text.txt --out keep $tiny steps=2
mkdir -p keep/hidden keep/locked
echo mine > keep/hidden/.mine
echo mine > keep/locked/lock
state > before
wrong 2 'keep/hidden exists and is not a run' train keep/text.txt --out keep/hidden \
    $tiny steps=2
wrong 2 'keep/locked exists and is not a run' train keep/text.txt --out keep/locked \
    $tiny steps=2
wrong 2 'exists already' data build keep/text.txt --out keep/data
right 'measuring' data build keep/text.txt --out 'new/my data' --tokenizer bytes
grep -q "train 'new/my data' --for" out || complain 'a path is not quoted' data build
wrong 5 'exists already' data stories --bytes 1k --out keep/text.txt
wrong 5 'keep/text.txt' train keep/text.txt --out keep/text.txt/run $tiny steps=2
wrong 5 '/proc/run' train keep/text.txt --out /proc/run $tiny steps=2

# A run that was killed before its first checkpoint; and its lock, which died with it.
mkdir begun
"$weft" train keep/data --out begun/run $tiny steps=1000000 > out 2> err &
pid=$!
while ! grep -q '"step": *2' begun/run/log.jsonl 2> null; do sleep 0.02; done
wrong 5 'another process' train --resume begun/run
wrong 3 'no checkpoint yet' infer begun/run -p x
kill -9 $pid
wait $pid 2> null || true
wrong 3 'weft train --resume begun/run' infer begun/run -p x
wrong 3 'name it: weft train --resume begun/run ' train --resume begun/run --steps 5
right '5 steps' train --resume begun/run keep/data --steps 5

# Interrupted while stdin is read, or just before: there is nothing to resume.
mkfifo slow
for signal in INT HUP 'INT later' 'HUP later'; do
    rows=$((rows + 1)) status=0
    env --default-signal "$weft" train - --out begun/stdin $tiny steps=2 > out 2> err \
        < slow &
    pid=$!
    exec 9> slow
    while [ ! -e begun/stdin/config.cfg ]; do sleep 0.02; done
    [ "$signal" = "${signal% later}" ] || sleep 0.3
    kill -"${signal% later}" $pid
    wait $pid || status=$?
    exec 9>&-
    [ $status -eq 130 ] && tail -n 1 err | grep -q 'repeat the command' &&
        [ ! -e begun/stdin ] ||
        complain "exit $status, or a run is left" "train - and SIG$signal"
done
"$weft" train - --out begun/stdin $tiny steps=2 > out 2> err < slow &
pid=$!
exec 9> slow
while [ ! -e begun/stdin/config.cfg ]; do sleep 0.02; done
kill -9 $pid
wait $pid 2> null || true
exec 9>&-
wrong 3 'repeat the command' train --resume begun/stdin

# Eleven minutes of one thread are not those of two: the size is one for them. Five are
# enough for a head that copies, if nothing of the architecture is given.
chosen() {
    what=$1
    shift
    rows=$((rows + 1))
    : > err                     # where the words of the one before are
    "$weft" train keep/text.txt --out begun/size threads=1 context=32 vocab=300 "$@" \
        > out 2> err &
    pid=$!
    until grep -q 'settings for' err || ! kill -0 $pid 2> null; do sleep 0.02; done
    kill -9 $pid 2> null || true
    wait $pid 2> null || true
    rm -rf begun/size
    grep -q "settings for .*: $what vocab=300" err || complain "not $what" train "$@"
}
chosen '--size pico --arch copying' --for 11m
chosen '--size pico --arch copying' --for 5m
chosen '--size pico' --for 299s
chosen '--size pico' --for 5m heads=4

# A comparison: each is refused in a line, and what is there stays.
same="--out new/compare $tiny"
wrong 2 "did you mean 'gla'?" compare keep/text.txt --arch softmax,glaa --tokens 1k $same
wrong 2 "did you mean 'swax'?" compare keep/text.txt --arch softmax,swxa --tokens 1k $same
wrong 2 'two architectures or more' compare keep/text.txt --arch softmax --tokens 1k $same
wrong 2 'one budget for each run' compare keep/text.txt --arch softmax,gla $same
wrong 2 'too small for one step' compare keep/data --arch softmax,gla --tokens 3 $same
wrong 2 'too small for one step' compare keep/data --arch softmax,gla --flops 10 $same
wrong 2 'is not a comparison' compare keep/data --arch softmax,gla --tokens 1k \
    --out keep/run $tiny
wrong 3 'no such file' compare none.txt --arch softmax,gla --tokens 1k $same
wrong 3 'text' compare one.txt --arch softmax,gla --tokens 1k $same
wrong 3 'fewer than one window' compare keep/data --arch softmax,gla --tokens 100k $same \
    context=8192

# A terminal is not left without a word while something takes its time.
shown 'softmax seed 1: preparing' compare keep/data --arch softmax,gla --tokens 200 \
    --seeds 1 $same
shown 'gla seed 1: scoring' compare keep/data --arch softmax,gla --tokens 200 --seeds 1 \
    $same
shown 'training gla' bench --arch gla --layers 1 --context 32 --batch 2 --steps 1

# Divergence: exit 4, and the last good checkpoint is kept, however many steps follow it.
steep='warmup=0 clip=0 lr=10 weight_decay=10 checkpoint_every=1 keep=2'
wrong 4 'the last good checkpoint is begun/steep/ckpt-' \
    train keep/data --out begun/steep $tiny $steep steps=200
good=$(grep -o 'begun/steep/ckpt-[0-9]*' err)
right 'tokens:' infer "$good" -p x -n 3
step=$(echo "$good" | sed 's/.*-0*//')
grep -q '"step": *'$((step + 20)) begun/steep/log.jsonl ||
    complain "it did not go on for 20 steps" "$good"

# With keep=1 too; and after a resume that went on with what caused it.
wrong 4 'the last good checkpoint is begun/sole/ckpt-' \
    train keep/data --out begun/sole $tiny $steep keep=1 steps=200
good=$(grep -o 'begun/sole/ckpt-[0-9]*' err)
right 'tokens:' infer "$good" -p x -n 3
wrong 4 'the last good checkpoint is begun/sole/ckpt-' train --resume begun/sole
right 'tokens:' infer "$(grep -o 'begun/sole/ckpt-[0-9]*' err)" -p x -n 3

# A collapse: every token as likely as any other, and no gradient.
wrong 4 'collapsed: the loss is that of guessing' \
    train keep/data --out begun/flat $tiny warmup=0 lr=3 table_lr=1 weight_decay=1 \
    checkpoint_every=1 keep=1 steps=300
grep -q 'the last good checkpoint is' err || complain "the good one is not named" train
right 'tokens:' infer "$(grep -o 'begun/flat/ckpt-[0-9]*' err)" -p x -n 3

# Outliers: those steps are skipped, said and counted.
right 'deviations high (1 so far)' \
    train keep/data --out begun/odd $tiny outlier=2 steps=300
grep -q ', [0-9]* steps* skipped$' err || complain "skipped steps are not counted" train

# verify beside a run that prunes what it looks at.
"$weft" train keep/data --out begun/live $tiny steps=100000 checkpoint_every=1 keep=2 \
    > out 2> live &
pid=$!
while [ ! -e begun/live/latest ]; do sleep 0.02; done
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
    rows=$((rows + 1))
    "$weft" verify begun/live > out 2> err ||
        { complain "a pruned checkpoint is damaged" verify; break; }
done
kill -9 $pid
wait $pid 2> null || true

# Killed while they write: the next of the same name leaves nothing of it.
left() { ls -d "$1".tmp-* > out 2> null || [ -e "$1.part" ]; }

for verb in 'data build line.txt --tokenizer bytes' 'data stories --bytes 1G'; do
    rows=$((rows + 1))
    "$weft" $verb --out begun/cut > out 2> err &
    pid=$!
    while ! left begun/cut; do sleep 0.02; done
    kill -9 $pid
    wait $pid 2> null || true
    "$weft" $(echo $verb | sed s/1G/1k/) --out begun/cut > out 2> err ||
        complain "exit $?" $verb
    ! left begun/cut || complain "what a kill left is not swept" $verb
    rm -r begun/cut
done

# A disk that takes nothing for a while: what fails is said, the run goes on, and nothing
# is lost.
if command -v prlimit > null; then
    rows=$((rows + 1)) status=0
    "$weft" train keep/data --out begun/full $tiny steps=4000 checkpoint_every=20 \
        eval_every=4000 \
        > out 2> err &
    pid=$!
    while [ ! -e begun/full/latest ]; do sleep 0.02; done
    prlimit --pid $pid --fsize=1000:unlimited
    while ! grep -q 'not saved: .* the next save tries again' err; do sleep 0.02; done
    prlimit --pid $pid --fsize=unlimited:unlimited
    wait $pid || status=$?
    [ $status -eq 0 ] && [ "$(grep -c '"grad_norm"' begun/full/log.jsonl)" -eq 4000 ] &&
        grep -q 'log.jsonl cannot be written; its lines are kept until it can' err &&
        "$weft" verify begun/full > out || complain "exit $status, or something is lost" \
            train
else
    echo "wrong.sh: a disk that fills up is not tried: there is no prlimit"
fi
bound='ulimit -f 100'
wrong 5 'the weights alone are in begun/part/weights-00000002' \
    train keep/data --out begun/part $tiny steps=2
bound=:
right 'tokens:' infer begun/part/weights-00000002 -p x -n 3
right 'run: 2 steps' train keep/data --out new/run $tiny steps=2

# Nobody reads what it says: it trains on.
rows=$((rows + 1))
{ "$weft" train keep/data --out begun/deaf $tiny steps=2000 2>&1 > out ||
    echo $? > deaf; } | true
for i in 1 2 3 4 5 6 7 8 9 10; do [ -e begun/deaf/ckpt-00002000 ] || sleep 0.3; done
[ -e begun/deaf/ckpt-00002000 ] && [ ! -e deaf ] ||
    complain "a closed stderr ended it" train

# Nor does what it says go into its files when it has nowhere to say it.
rows=$((rows + 1))
"$weft" data build keep/text.txt --out begun/mute <&- >&- 2>&- || true
"$weft" verify begun/mute > out 2> err || complain "closed streams damaged it" data build
"$weft" train keep/data --out begun/quiet $tiny steps=2 2>&- || complain "exit $?" train
[ "$(wc -l < begun/quiet/lock)" -eq 1 ] || complain "its words are in a file" train

# A full disk, real where we may mount a small one.
to=/dev/full
wrong 5 'No space left' infer keep/run -p x
wrong 5 'write' score keep/run keep/text.txt
wrong 5 'No space left' data stories --bytes 100k
wrong 5 'No space left' info keep/run
wrong 5 'stdout' verify keep/run
wrong 5 'No space left' train --help
wrong 5 'No space left' --version
wrong 5 'No space left' lab
to=out
bound='ulimit -f 100'
wrong 5 'File too large' data stories --bytes 1M --out new/stories.txt
wrong 5 'File too large' train keep/data --out new/run $tiny width=128 steps=2
bound=:
mkdir disk
if mount -t tmpfs -o size=600k tmpfs disk 2> null; then
    mounted=1
    wrong 5 'No space left' data stories --bytes 2M --out disk/stories.txt
    wrong 5 'No space left' data build line.txt --out disk/data --tokenizer bytes
    wrong 5 'fit; free some space, or choose another disk with --out' \
        train keep/data --out disk/big $tiny width=128 steps=2
    wrong 5 'must fit; free some space, give keep=' \
        train keep/data --out disk/many $tiny steps=400 checkpoint_every=20 keep=1000
    rm -rf disk/*
    cp -a keep/run disk/run
    head -c 600k /dev/zero > disk/rest 2> null || true
    wrong 5 'fit; free some space, or move the run' train --resume disk/run --steps 8
    rm disk/rest
    diff -r keep/run/$at disk/run/$at > out ||
        complain "a full disk cost a checkpoint" "$at"
    right 'continuing disk/run at step 4' train --resume disk/run --steps 8
    rm -rf disk/*
    first="compare keep/text.txt --arch softmax,gla --tokens 200k --seeds 1 \
        --out disk/compare \
        $tiny width=32 checkpoint_every=20 keep=1000"
    wrong 5 'free some space, or choose another disk with --out' $first
    wrong 5 'the disk has room for' $first
    [ -e disk/compare/data/dataset.json ] ||
        complain "a full disk cost a comparison" $first
else
    echo "wrong.sh: a full disk is not tried: mounting one needs root"
fi

[ $bad -eq 0 ] || { echo "wrong.sh: $bad of $rows rows are wrong" >&2; exit 1; }
echo "wrong.sh: ok, $rows rows"
