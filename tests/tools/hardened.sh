#!/bin/sh
# The program has the protections that the Makefile asks for, and the model's sources
# refuse -ffast-math, which would take away the meaning of NaN and -INFINITY.
set -eu
weft=${WEFT:-build/release/bin/weft}
bad=0
wrong() { echo "hardened.sh: $*"; bad=1; }

if command -v readelf > /dev/null; then
    readelf -hW "$weft" | grep -q 'Type:.*DYN' || wrong "it has a fixed position (no PIE)"
    readelf -lW "$weft" | grep -q GNU_RELRO || wrong "no RELRO"
    readelf -dW "$weft" | grep -q 'BIND_NOW\|Flags:.*NOW' || wrong "RELRO is not full"
    readelf -lW "$weft" | grep GNU_STACK | grep -q ' RW ' ||
        wrong "its stack can be executed"
    readelf -sW --dyn-syms "$weft" | grep -q '__stack_chk_fail' ||
        wrong "no stack protector"
    case $weft in */release/*)
        readelf -sW --dyn-syms "$weft" | grep -q '__snprintf_chk' ||
            wrong "no FORTIFY_SOURCE" ;;
    esac
else
    echo "hardened.sh: protections are not looked at: there is no readelf"
fi
for flags in '' -ffast-math -ffinite-math-only; do
    if ${CC:-cc} -std=c11 -D_GNU_SOURCE -I. $flags -fsyntax-only model/kernels/arena.c \
        2> /dev/null
    then result=taken; else result=refused; fi
    [ "${flags:+refused}" = "$result" ] || [ "$flags$result" = taken ] ||
        wrong "'$flags' is $result"
done
[ $bad -eq 0 ] || exit 1
echo "hardened.sh: ok"
