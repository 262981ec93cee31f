#!/bin/sh
# make test-cpus: the program of MODE=portable, and numerical tests of its levels, on
# emulated CPUs; and those tests on aarch64. Without qemu-x86_64 (Debian: qemu-user) it
# says so and passes.
set -eu
weft=$(realpath build/portable/bin/weft)
command -v qemu-x86_64 > /dev/null || {
    echo 'test-cpus: skipped, there is no qemu-x86_64 (Debian: apt install qemu-user)'
    exit 0
}
# weft would otherwise execute itself again, outside of the emulator.
export OMP_PROC_BIND=false OMP_NUM_THREADS=1
unset OPENBLAS_CORETYPE         # names kernels that an emulated CPU may not have
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0

complain() {
    echo "test-cpus: $*" >&2
    bad=1
}

# says CPU LEVEL: what --version calls the level that this CPU runs.
says() {
    qemu-x86_64 -cpu "$1" "$weft" --version > "$tmp/out" 2>&1 || complain "$1: exit $?"
    grep -q ", $2, " "$tmp/out" || complain "$1 is not $2: $(cat "$tmp/out")"
}

# refuses STATUS WORDS CPU [LEVEL]: one line with these words.
refuses() {
    status=0
    WEFT_CPU=${4-} qemu-x86_64 -cpu "$3" "$weft" --version > "$tmp/out" 2>&1 || status=$?
    [ $status -eq "$1" ] || complain "$3 ${4-}: exit $status instead of $1"
    sed -i '/^qemu-x86_64: warning/d' "$tmp/out"
    [ "$(wc -l < "$tmp/out")" -eq 1 ] && grep -q "$2" "$tmp/out" ||
        complain "$3 ${4-}: not one line with '$2': $(cat "$tmp/out")"
}

train() {
    "$@" train "$tmp/text.txt" --out "$tmp/run" layers=2 width=32 heads=2 context=32 \
        batch=2 \
        tokenizer=bytes steps=2 seed=7 > "$tmp/out" 2>&1 ||
            complain "training: exit $?: $(tail -n 1 "$tmp/out")"
    cksum < "$tmp/run/latest/model.safetensors"
    rm -rf "$tmp/run"
}

# same_bits CPU LEVEL: training there and at that level here leave the same weights.
same_bits() {
    there=$(train qemu-x86_64 -cpu "$1" "$weft")
    here=$(WEFT_CPU=$2 train "$weft")
    [ "$there" = "$here" ] || complain "$1 trains other weights than WEFT_CPU=$2 here"
}

# holds CPU LEVEL SUITE...: these tests pass there.
holds() {
    cpu=$1 level=$2
    shift 2
    for suite; do
        program=build/portable/$level/tests/model/$suite
        ${MAKE:-make} -s MODE=portable LEVEL=$level "$program"
        CK_FORK=no qemu-x86_64 -cpu $cpu "$program" > "$tmp/out" 2>&1 ||
            complain "$suite at $level on $cpu: $(grep -v '^qemu-x86_64: warning' \
                "$tmp/out" | tail -n 3)"
    done
}

# Another architecture as far as the libraries go: what needs none but libc, libm and
# OpenMP's is compiled by a cross compiler, and its suites run on an emulated CPU.
ARM_SUITES='test_products test_packed test_numeric test_scalar test_vector test_delta
    test_scan test_softmax'
ARM_FLAGS='-std=c11 -D_GNU_SOURCE -O2 -fopenmp -fno-math-errno -fno-trapping-math
    -ffp-contract=fast -I. -idirafter /usr/include'

compile_arm() {
    [ -z "$(find data model tests -name '*.h' -newer build/aarch64/weft.a \
        2> /dev/null)" ] || rm -rf build/aarch64
    mkdir -p build/aarch64
    for file in data/base/[a-u]*.c model/kernels/*.c model/layers/*.c model/cores/*.c \
        model/mixers/*.c model/positions/*.c model/*.c tests/support/rig.c \
        tests/support/layer.c tests/support/systems.c \
        tests/cpus/small_check.c; do
        object=build/aarch64/$(echo "$file" | tr / _).o
        [ "$object" -nt "$file" ] || echo "$file $object"
    done | xargs -r -n 2 -P "$(nproc)" sh -c '
        aarch64-linux-gnu-gcc '"$(echo $ARM_FLAGS)"' -c -o "$1" "$0"'
    rm -f build/aarch64/weft.a
    aarch64-linux-gnu-ar rcs build/aarch64/weft.a build/aarch64/*.o
}

arm() {
    if ! command -v aarch64-linux-gnu-gcc > /dev/null ||
        ! command -v qemu-aarch64 > /dev/null; then
        echo 'test-cpus: aarch64 is skipped, there is no qemu-aarch64 or' \
            'aarch64-linux-gnu-gcc (Debian: qemu-user gcc-aarch64-linux-gnu)'
        return
    fi
    compile_arm
    for suite in $ARM_SUITES; do
        aarch64-linux-gnu-gcc $ARM_FLAGS -static -o "$tmp/$suite" \
            "tests/model/$suite.c" build/aarch64/weft.a -lm 2> "$tmp/out" &&
            WITHOUT=products_of_weft_and_of_openblas_are_their_sums \
            qemu-aarch64 "$tmp/$suite" > "$tmp/out" 2>&1 ||
            complain "aarch64: $suite: $(tail -n 3 "$tmp/out")"
        echo "test-cpus: aarch64: $(tail -n 1 "$tmp/out")"
    done
}

says Nehalem v2
says Haswell v3
refuses 3 'this CPU has no ssse3' qemu64
refuses 2 'WEFT_CPU=v3: this CPU has no avx' Nehalem v3
refuses 2 'WEFT_CPU=v5: this program has v2, v3, v4' Haswell v5
"$weft" data stories --bytes 4k > "$tmp/text.txt"
same_bits Nehalem v2
grep -q avx2 /proc/cpuinfo && same_bits Haswell v3
holds Nehalem v2 test_products test_packed test_numeric
# QEMU 7 reads 16 bytes where vfmadd231ss reads 4, so that a number right before a page
# that may not be read ends the program: this CPU runs the tests of that.
export CK_RUN_CASE=linear
holds Haswell v3 test_products
unset CK_RUN_CASE
holds Haswell v3 test_packed test_numeric
! grep -q avx2 /proc/cpuinfo ||
    CK_RUN_CASE=fences build/portable/v3/tests/model/test_products > "$tmp/out" 2>&1 ||
    complain "test_products at v3: $(tail -n 3 "$tmp/out")"
arm
echo "test-cpus: max runs $(qemu-x86_64 -cpu max "$weft" --version | cut -d , -f 2)"
[ $bad -eq 0 ] && echo 'test-cpus: passed'
exit $bad
