#!/bin/sh
# What can go wrong on a disk and in memory, tried at every place: after each case what
# was there is loaded, verified and gone on with, and must end with the bits of a run that
# nobody disturbed.
#
#     make faults             every place, shared out to as many processes as there are
#                             cores (JOBS=1: to one)
#     sh tests/faults/faults.sh quick        some of each, as make test does
#     KILLS=200               so many random kills
#     PARTS="lab kills"       only these of: train build export compare lab (calls),
#                             memory-infer memory-build memory-train, bits cuts kills
#     TALLY=FILE              where the cases of this clone add up, a line for each part,
#                             on top of tests/faults/tally, which came with it
#     sh tests/faults/faults.sh keep         moves the former into the latter
#
# Needs $LIB/preload.so and $LIB/replay, which make builds.
set -eu
jobs=${JOBS:-$(nproc)}          # of OMP_NUM_THREADS it would print that
export LC_ALL=C OMP_PROC_BIND=false OMP_WAIT_POLICY=passive OMP_NUM_THREADS=1

kept=$(realpath "$(dirname "$0")")/tally
tally=$(realpath -m "${TALLY:-build/faults.tally}")
mkdir -p "$(dirname "$tally")"
touch "$tally"

# A line for each kind of fault: how many cases there were in all runs.
add_up() {
    awk '{ n[$1] += $2 } END { for (k in n) print k, n[k] }' "$kept" "$tally" | sort
}

if [ "${1:-}" = keep ]; then
    add_up > "$tally.all" && mv "$tally.all" "$kept" && : > "$tally"
    exit
fi
weft=$(realpath "${WEFT:-build/release/bin/weft}")
lib=$(realpath "${LIB:-build/release/tests/faults}")
much=${1:-quick}
[ "$much" = all ] || much=quick
kills=${KILLS:-$([ $much = all ] && echo 50 || echo 3)}
if grep -q __asan_init "$weft"; then
    echo "faults.sh: skipped: AddressSanitizer has allocations of its own"
    exit 0
fi
for part in ${PARTS:-}; do
    case " train build export compare lab memory-infer memory-build memory-train bits \
cuts kills " in
    *" $part "*) ;;
    *) echo "faults.sh: there is no part '$part'" >&2; exit 2 ;;
    esac
done

# In memory: a disk would only add the time that it takes to sync.
shm=/dev/shm
[ -w $shm ] || shm=${TMPDIR:-/tmp}
tmp=$(realpath "$(mktemp -d -p "$shm")")
pids=
trap 'rm -rf "$tmp"' EXIT
trap 'kill $pids 2> "$tmp/null"; exit 130' INT TERM

# close_with CASES SAID MISSED LOST BAD: what there was in all runs and in this one.
close_with() {
    [ "$5" -eq 0 ] || echo "wrong $5" >> "$tally"
    add_up | awk '{ n[$1] = $2 }
        END { printf "faults.sh: in all runs %d calls, %d allocations, %d bits, %d" \
                     " power cuts, %d kills; %d wrong\n", n["calls"], n["allocations"],
                     n["bits"], n["cuts"], n["kills"], n["wrong"] }'
    echo "faults.sh: $1 cases ($2 said in a line, $3 bits missed): $4 lost, $5 wrong"
    [ "$4" -eq 0 ] && [ "$5" -eq 0 ]
}

# All places: each of so many more of this script tries its share, and leaves its counts
# here.
if [ $much = all ] && [ -z "${FAULTS_SHARE:-}" ]; then
    early=0
    for i in $(seq "$jobs"); do
        FAULTS_SHARE=$i/$jobs FAULTS_COUNTS=$tmp/$i sh "$0" all &
        pids="$pids $!"
    done
    for pid in $pids; do
        wait "$pid" || early=$((early + 1))
    done
    [ $early -eq 0 ] || echo "faults.sh: $early of $jobs did not come to their end" >&2
    close_with $(cat "$tmp"/[0-9]* 2> "$tmp/null" |
        awk '{ for (i = 1; i <= 5; i++) n[i] += $i }
             END { print n[1] + 0, n[2] + 0, n[3] + 0, n[4] + 0, n[5] + 0 }')
    exit $((early > 0))
fi
share=${FAULTS_SHARE:-1/1}
shares=${share#*/} share=${share%/*}
me=faults.sh${FAULTS_SHARE:+ $FAULTS_SHARE}
kills=$(((kills + shares - share) / shares))

cd "$tmp"
mkdir -p w
: > null

cases=0 tried=0 bad=0 lost=0 said=0
wanted() {
    case " ${PARTS:-$1} " in *" $1 "*) ;; *) false ;; esac
}

# add KIND CASES: to the tally, as soon as a part has come to its end.
add() {
    cases=$((cases + $2))
    echo "$1 $2" >> "$tally"
}

complain() {
    bad=$((bad + 1))
    echo "$me: $*" >&2
    tail -n 3 err >&2
}

lose() {
    lost=$((lost + 1))
    complain "$@"
}

# Those of this share, of the lines that come in.
mine() {
    awk -v n="$shares" -v i="$share" 'NR % n == i % n'
}

# The cases that are tried of those numbered 1 to N: all, or some Q spread evenly.
some() {
    if [ $much = all ] || [ "$1" -le "$2" ]; then
        seq 1 "$1"
    else
        awk -v n="$1" -v q="$2" \
            'BEGIN { for (i = 0; i < q; i++) print 1 + int((i + 0.5) * n / q) }'
    fi | mine
}

# faulty CODES COMMAND...: with the library and the FAULT_ variables in $fault; ends with
# one of these codes, and with one line of weft's unless it is 0 or killed.
disturb() {
    tried=$((tried + 1)) status=0
    env LD_PRELOAD="$lib/preload.so" $fault "$weft" "$@" > out 2> err < null || status=$?
}
faulty() {
    codes=$1
    shift
    disturb "$@"
    case " $codes " in
    *" $status "*) ;;
    *) complain "exit $status: $fault: weft $*" ;;
    esac
    if [ $status -ne 0 ] && [ $status -ne 137 ]; then
        said=$((said + 1))
        tail -n 1 err | grep -q '^weft' || complain "no line of weft's: $fault: weft $*"
    fi
}

# How the call can go wrong.
ways() {
    case $1 in
    write) echo ENOSPC EIO EINTR full short kill ;;
    read) echo EIO EINTR short kill ;;
    create) echo ENOSPC EIO EINTR full kill ;;
    rename | mkdir | link | symlink) echo ENOSPC EIO kill ;;
    fsync) echo EIO ENOSPC EINTR kill ;;
    *) echo EIO kill ;;
    esac
}

# each PART FIRST AGAIN Q COMMAND...: FIRST puts things as they were, the command is
# disturbed at every call below w/ in every way, or in Q of them, then AGAIN goes on and
# looks at what came of it.
each() {
    part=$1 first=$2 again=$3 q=$4
    wanted "$part" || return 0
    shift 4
    $first
    fault="FAULT_ROOT=$tmp/w FAULT_LIST=$tmp/list"
    faulty 0 "$@"
    calls=$(wc -l < list) tried=0
    while read -r n call path; do
        for how in $(ways "$call"); do echo "$n $how"; done
    done < list > plan
    for i in $(some "$(wc -l < plan)" "$q"); do
        fault="FAULT_ROOT=$tmp/w FAULT_AT=$(sed -n "${i}s/ / FAULT_HOW=/p" plan)"
        $first
        faulty '0 3 5 137' "$@"
        $again "$@"
    done
    echo "$me: $part: $calls calls, $tried cases"
    add calls $tried
}

# ---- what is disturbed ---------------------------------------------------------------

awk 'BEGIN { x = 7
    split("the a boy girl dog saw found lost red old ball house and", w, " ")
    for (i = 0; i < 900; i++) { x = (x * 1103 + 12345) % 65536
        printf "%s%s", w[x % 13 + 1], i % 9 == 8 ? ".\n" : " " } }' > text.txt
tiny='layers=1 width=8 heads=1 context=16 batch=1 threads=1 sample_every=100 eval_every=2
      checkpoint_every=2 keep=2'
"$weft" data build text.txt --out data --tokenizer bytes --threads 1 > out 2> err
"$weft" train data --out whole $tiny steps=6 > out 2> err
cp -a whole base                # as if it had been stopped at step 4
rm -r base/ckpt-00000006
ln -sfn ckpt-00000004 base/latest

same() {
    for file in model.safetensors trainer.safetensors; do
        cmp -s "whole/latest/$file" "$1/latest/$file" ||
            { lose "other bits in $file: $fault"; return; }
    done
}

fresh_run() { rm -rf w/run && cp -a base w/run; }
resumed() {
    "$weft" verify w/run > out 2> err || lose "damaged: $fault: $(cat out)"
    "$weft" train --resume w/run > out 2> err || complain "not resumed: $fault"
    same w/run
}

nothing() { rm -rf w/*; }
built() {
    [ ! -e w/set ] || "$weft" verify w/set > out 2> err ||
        complain "half a dataset: $fault"
    rm -rf w/set
    "$weft" data build text.txt --out w/set --tokenizer bytes --threads 1 > out 2> err ||
        complain "not built again: $fault"
    diff -r w data_only > out 2>&1 || complain "something is left: $fault: $(head -1 out)"
}
mkdir data_only
cp -a data data_only/set

exported() {
    [ ! -e w/out ] || diff -r w/out reference > out 2>&1 ||
        complain "half an export: $fault"
    rm -rf w/out
    "$weft" export whole --to hf --out w/out > out 2> err ||
        complain "not exported again: $fault"
    diff -r w/out reference > out 2>&1 || complain "another export: $fault"
    [ "$(ls -A w)" = out ] || complain "something is left: $fault"
}
"$weft" export whole --to hf --out reference > out 2> err

figures() { grep -o '"bpb":[0-9.]*' "$1/results.jsonl"; }
compared() {
    "$weft" "$@" > out 2> err || complain "not compared again: $fault"
    figures w/cmp > mine
    cmp -s mine figures || complain "other figures: $fault"
}
compare="--arch softmax,gla --tokens 64 --seeds 1 $tiny"
"$weft" compare data --out cmp $compare > out 2> err
figures cmp > figures

# A record without the seconds that its cells took, and the charts beside it.
findings() { sed 's/",\([^,]*\),[^,]*,/",\1,/' "$1"/*.csv "$1"/*.svg; ls "$1"; }
measured() {
    "$weft" "$@" > out 2> err || complain "not measured again: $fault"
    findings w/lab > mine
    cmp -s mine findings || complain "another record: $fault"
}
lab='systems --quick'
"$weft" lab $lab --out lab > out 2> err
findings lab > findings

echo "$me: $(date -u +%H:%M:%S) every call, failing or killed at it"
each train fresh_run resumed 24 train --resume w/run
each build nothing built 12 data build text.txt --out w/set --tokenizer bytes --threads 1
each export nothing exported 8 export whole --to hf --out w/out
each compare nothing compared 6 compare data --out w/cmp $compare
each lab nothing measured 6 lab $lab --out w/lab

# ---- memory --------------------------------------------------------------------------

# starved PART FIRST AGAIN Q COMMAND...: every allocation fails once. One that weft asked
# for ends with 6 and a line, or is done without; what libraries do is counted.
starved() {
    part=$1 first=$2 again=$3 q=$4 own=0 other=0 died=0
    wanted "$part" || return 0
    if grep -q __gcov_exit "$weft"; then
        echo "$me: $part: skipped: gcov has allocations of its own"
        return 0
    fi
    shift 4
    $first
    fault="FAULT_MALLOCS=$tmp/count"
    faulty 0 "$@"
    n=$(tail -n 1 count) tried=0
    for i in $(some "$n" "$q"); do
        fault="FAULT_MALLOC=$i FAULT_MALLOCS=$tmp/count"
        $first
        disturb "$@"
        if grep -q own count; then
            own=$((own + 1))
            case $status in
            0 | 6) ;;
            5) grep -q 'memory.*; step 6 is not saved' err || complain "exit 5: $fault" ;;
            *) complain "exit $status: $fault: weft $*" ;;
            esac
        else
            other=$((other + 1))
            case $status in
            0 | 6) ;;
            *) died=$((died + 1)); echo "$status $(tail -n 1 err)" >> deaths ;;
            esac
        fi
        [ $status -ne 6 ] || tail -n 1 err | grep -q '^weft' || complain "no line: $fault"
        $again "$@"
    done
    echo "$me: $part: $n allocations; $own of weft's own tried, $other of" \
         "libraries ($died ended otherwise than with 6)"
    add allocations $tried
}
: > deaths
any() { :; }
written() { [ $status -ne 0 ] || cmp -s out text || complain "another text: $fault"; }
echo "$me: $(date -u +%H:%M:%S) every allocation fails"
for k in 1 2; do
    infer="infer whole -p the -n 3 --seed 1 --samples $k"
    "$weft" $infer > text 2> err
    starved memory-infer any written 12 $infer
done
starved memory-build nothing built 12 data build text.txt --out w/set --tokenizer bytes \
    --threads 1
starved memory-train fresh_run resumed 16 train --resume w/run
sort deaths | uniq -c | sort -rn | head -5 | sed "s|^|$me:   a library: |"

# ---- bits ----------------------------------------------------------------------------

# One bit of one byte: of small files each byte, of large ones some.
flips=0 missed=0
flip() {
    dir=$1 file=$2 size=$(wc -c < "$1/$2")
    cp "$dir/$file" kept
    if [ "$size" -le 1200 ]; then places=$(some "$size" 4); else
        places=$(awk -v n="$size" -v q=$([ $much = all ] && echo 100 || echo 3) \
            'BEGIN { srand(n); for (i = 0; i < q; i++) print 1 + int(rand() * n) }' |
            mine); fi
    for at in $places; do
        byte=$(od -An -tu1 -j $((at - 1)) -N 1 kept | tr -d ' ')
        bit=$((1 << (at * 5 % 8)))
        printf "\\$(printf %o $((byte & bit ? byte - bit : byte + bit)))" > one
        { head -c $((at - 1)) kept; cat one; tail -c +$((at + 1)) kept; } > "$dir/$file"
        flips=$((flips + 1)) status=0
        "$weft" verify "$dir" > out 2> err || status=$?
        [ $status -ne 0 ] || missed=$((missed + 1))
        [ $status -eq 3 ] || complain "exit $status: bit $bit of byte $at of $file"
    done
    cat kept > "$dir/$file"
}
echo "$me: $(date -u +%H:%M:%S) a bit of each file turns"
cp -a whole/latest/ turned
if wanted bits; then
    for file in $(ls turned); do flip turned "$file"; done
    for file in $(ls data); do flip data "$file"; done
    add bits $flips
fi

# ---- power cuts ----------------------------------------------------------------------

cuts=0
cut() {
    rm -rf cutrun
    need=$("$lib/replay" trace "$1" "$2" "$1" cutrun)
    need=${need#* }
    cuts=$((cuts + 1)) fault="a power cut after $1 of $ops, $2"
    status=0
    "$weft" train --resume cutrun/run data > out 2> err || status=$?
    if [ $status -ne 0 ]; then
        [ $status -lt 126 ] || complain "exit $status: $fault"
        [ "$need" -eq 0 ] || lose "nothing to go on with: $fault"
        return
    fi
    from=$(sed -n 's/^continuing .* at step //p
                   s/.* is finished: \([0-9]*\) steps.*/\1/p' err)
    [ "${from:-0}" -ge "$need" ] || lose "from ${from:-0}, not $need: $fault"
    same cutrun/run
}
echo "$me: $(date -u +%H:%M:%S) what was not synced vanishes"
rm -rf w/*
env LD_PRELOAD="$lib/preload.so" FAULT_ROOT="$tmp/w" FAULT_TRACE="$tmp/trace" \
    "$weft" train data --out w/run $tiny steps=6 > out 2> err
ops=$(wc -l < trace)
cut_everywhere() {
    for k in $(some "$ops" 8) $([ $much = all ] || echo "$ops"); do
        for what in least names bytes torn; do
            [ $much = all ] || [ $((k % 4)) -eq 0 ] || [ "$k" -eq "$ops" ] ||
                [ $what = least ] || continue
            cut "$k" $what
        done
    done
    add cuts $cuts
}
! wanted cuts || cut_everywhere

# ---- kill -9 -------------------------------------------------------------------------

echo "$me: $(date -u +%H:%M:%S) kill -9 at random"
killed=0
long=$(printf %s "$tiny" |
    sed 's/checkpoint_every=2/checkpoint_every=25/; s/eval_every=2/eval_every=100/')
began=$(date +%s%N)
"$weft" train data --out straight $long steps=400 > out 2> err
took=$((($(date +%s%N) - began) / 1000))

# A run with three kills in it, each at a time when an undisturbed one would go on.
disturbed_run() {
    rm -rf w/run
    "$weft" train data --out w/run $long steps=400 > out 2> err &
    pid=$!
    for i in 1 2 3; do
        sleep "$(od -An -tu2 -N 2 /dev/urandom |
            awk -v us=$took '{ printf "%.4f", $1 / 65536 * 0.6e-6 * us }')"
        kill -9 $pid 2> null && killed=$((killed + 1))
        wait $pid 2> null || :
        if [ -e w/run/config.cfg ]; then
            "$weft" train --resume w/run data > out 2> err &
        else
            rm -rf w/run
            "$weft" train data --out w/run $long steps=400 > out 2> err &
        fi
        pid=$!
    done
    fault="kill -9"
    wait $pid || complain "not resumed after kill -9"
    for file in model.safetensors trainer.safetensors; do
        cmp -s "straight/latest/$file" "w/run/latest/$file" ||
            lose "other bits after kill -9"
    done
}
if wanted kills; then
    while [ $killed -lt "$kills" ]; do
        before=$killed
        disturbed_run
        add kills $((killed - before))
    done
fi

if [ "${FAULTS_SHARE:-}" ]; then
    echo "$cases $said $missed $lost $bad" > "$FAULTS_COUNTS"
else
    close_with $cases $said $missed $lost $bad
fi
