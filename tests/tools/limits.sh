#!/bin/sh
# Limits that hold: under each, one line of weft's is the last on stderr, the exit code is
# the documented one, it takes at most a second of CPU, and nothing is left behind.
set -eu
export LC_ALL=C OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
weft=$(realpath "${WEFT:-build/release/bin/weft}")
tmp=$(mktemp -d)
group=
trap '[ -z "$group" ] || rmdir "$group"; rm -rf "$tmp"' EXIT
cd "$tmp"
bad=0 rows=0 inside=
tiny='layers=1 width=16 heads=2 context=32 batch=2 threads=1'

# under LIMIT CODE WORDS COMMAND..., by the command $inside where one is set.
under() {
    limit=$1 code=$2 words=$3 status=0
    shift 3
    rows=$((rows + 1))
    (eval "$limit" && ulimit -t $seconds &&
        eval exec $inside '"$weft" "$@"') > out 2> err < /dev/null || status=$?
    [ $status -eq "$code" ] && tail -n 1 err | grep -q "^weft.*$words" &&
        [ "$(grep -c '^weft' err)" -eq 1 ] && [ ! -e new ] && ! ls new.tmp-* 2> none ||
        { echo "limits.sh: $limit: weft $*: exit $status, not $code with '$words': \
$(tail -n 1 err); $(ls -d new* 2> none)"; bad=1; }
    rm -rf new*
}

seconds=1
! grep -q __asan_init "$weft" || seconds=10
"$weft" data stories --bytes 300k --out text.txt > out 2> err
"$weft" data build text.txt --out set --tokenizer bytes > out 2> err
"$weft" train set --out run $tiny steps=2 > out 2> err

# ulimit -f: no file may be longer than 512 bytes.
files='ulimit -f 1'
under "$files" 5 'File too large' data build text.txt --out new --tokenizer bytes
under "$files" 5 'File too large' data stories --bytes 300k --out new
under "$files" 5 'File too large' export run --to hf --out new
under "$files" 5 'File too large' export run --to gguf --out new
under "$files" 5 'File too large' train set --out begun $tiny steps=2

# A place where nobody may write, root neither.
for out in /proc/weft /sys/weft; do
    under : 5 "$out: cannot write" data build text.txt --out $out/new --tokenizer bytes
    under : 5 "$out/new: cannot write" data stories --bytes 1k --out $out/new
    under : 5 "$out: cannot write" export run --to hf --out $out/new
    under : 5 "$out: cannot write" train set --out $out/new $tiny steps=2
done

# A tree that is mounted for reading only, and a file system without room.
mount_and='unshare -rm sh -c '
mkdir -p barred small
if unshare -rm true 2> none; then
    inside="$mount_and 'mount -t tmpfs -o ro none barred && exec \"\$@\"' sh"
    out=barred/new words='Read-only file system; choose a directory you may write to'
    under : 5 "$words" data build text.txt --out $out --tokenizer bytes
    under : 5 "$words" export run --to gguf --out $out
    under : 5 "$words" train set --out $out $tiny steps=2
    inside="$mount_and 'mount -t tmpfs -o size=32k none small && exec \"\$@\"' sh"
    out=small/new words='the disk is full, free some space'
    under : 5 "$words" data build text.txt --out $out --tokenizer bytes
    under : 5 "$words" export run --to gguf --out $out
    under : 5 'the disk has room for .*free some space' train set --out $out $tiny steps=2
    inside=
else
    echo "limits.sh: a place for reading only is not tried: it needs unshare -rm"
fi

# A control group with 64 MB, of version 1 or 2: said before anything is taken.
for root in /sys/fs/cgroup/memory:memory.limit_in_bytes /sys/fs/cgroup:memory.max; do
    [ -z "$group" ] && mkdir "${root%:*}/weft-$$" 2> none || continue
    group=${root%:*}/weft-$$
    if echo 64M 2> none > "$group/${root#*:}"; then
        under "sh -c 'echo \$PPID > $group/cgroup.procs'" 6 'this machine has' \
            train set --out new $tiny batch=65536 steps=2
    else
        rmdir "$group" && group=
    fi
done
[ "$group" ] || echo "limits.sh: no control group is tried: making one needs root"

# ulimit -v: addresses. AddressSanitizer takes more than there are.
if [ $seconds -eq 1 ]; then
    memory='ulimit -v 400000'
    under "$memory" 6 'this machine has' train set --out new $tiny batch=65536 steps=2
    under "$memory" 6 'memory' bench --arch softmax --layers 16 --width 2048
    under "$memory" 6 'memory' infer run -p x --samples 1024 --context 1000000
fi
[ $bad -eq 0 ] && echo "limits.sh: $rows limits hold"
exit $bad
