#!/bin/sh
# The library as it is installed: the examples of docs/ are compiled against it and run,
# shared and static; only weft_* can be seen; what goes wrong is told, and nobody exits or
# prints.
set -eu
weft=${WEFT:-build/release/bin/weft}
weft=$(cd "$(dirname "$weft")" && pwd)/weft
root=$(pwd) mode=$(basename "$(dirname "$(dirname "$weft")")")
tmp=$(mktemp -d "${TMPDIR:-/tmp}/weft-api-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
die() { echo "installed.sh: $*"; exit 1; }
case $mode in
asan) echo "installed.sh: skipped: a sanitizer must come first in the program"; exit 0 ;;
esac

env -u MAKEFLAGS make -s --no-print-directory MODE="$mode" PREFIX="$tmp/usr" install \
    > "$tmp/install.log" 2>&1 ||
    { cat "$tmp/install.log"; die "make install failed"; }
export PKG_CONFIG_PATH="$tmp/usr/lib/pkgconfig" LD_LIBRARY_PATH="$tmp/usr/lib" \
    OMP_NUM_THREADS=1
cd "$tmp"

stray=$(nm -D --defined-only usr/lib/libweft.so.0 | awk '{ print $3 }' |
    grep -v '^weft_' || true)
[ -z "$stray" ] || die "libweft.so.0 also exports: $stray"
stray=$(nm -g --defined-only usr/lib/libweft.a | awk 'NF == 3 { print $3 }' |
    grep -v '^weft_' || true)
[ -z "$stray" ] || die "libweft.a also exports: $stray"
for name in $(grep -oE '\bweft_[a-z_]+\(' usr/include/weft.h | tr -d '(' | sort -u); do
    nm -D --defined-only usr/lib/libweft.so.0 | grep -q " $name\$" ||
        die "$name is not exported"
done

# A run of its own, made by the library: text may be tokenized before anything is
# computed.
cat > train.c <<'TEXT'
#include <stdio.h>
#include <weft.h>
static int steps;
static int on_step(void *user, const weft_step_info *s)
{
    steps++;
    return user && s->step >= 3;
}
int main(int argc, char **argv)
{
    char options[1000];
    for (int i = 0; i < 2; i++) {           // the second is ended after three steps
        snprintf(options, sizeof options, "{\"input\": \"%s\", \"out\": \"%s-%d\", "
                 "\"layers\": 2, \"width\": 32, \"heads\": 2, \"context\": 32, "
                 "\"batch\": 4, \"vocab\": 300, \"steps\": 6, \"threads\": 1, "
                 "\"seed\": %s}", i ? argv[3] : argv[1], argv[2], i,
                 i ? "9007199254740993" : "1");
        int err = weft_train(options, on_step, i ? options : NULL);
        printf("%d %d %s\n", err, steps, err ? weft_error() : "");
    }
    snprintf(options, sizeof options,
             "{\"input\": \"%s\", \"out\": \"x\", \"steps\": 1}", argv[1]);
    printf("%d %s\n", weft_train(options, NULL, NULL), weft_error());
    printf("%d %s\n", weft_train("{\"out\": \"y\", \"steps\": 1, \"lauers\": 2}", NULL,
                                NULL), weft_error());
    printf("%d %s\n", weft_train("{", NULL, NULL), weft_error());
    snprintf(options, sizeof options,
             "{\"input\": \"%s\", \"out\": \"z\", \"steps\": 0}", argv[3]);
    printf("%d %s\n", weft_train(options, NULL, NULL), weft_error());
    snprintf(options, sizeof options,
             "{\"input\": [\"%s\", 5], \"out\": \"z\", \"steps\": 1}", argv[3]);
    printf("%d %s\n", weft_train(options, NULL, NULL), weft_error());
    printf("%d %s\n", weft_train("{\"out\": \"z\", \"for\": 1, \"lr_end\": 0.5}", NULL,
                                NULL), weft_error());
    return 0;
}
TEXT
"$weft" data stories --bytes 60k --out stories.txt 2> /dev/null
cc -std=c99 -Wall -Werror train.c $(pkg-config --cflags --libs weft) -o train
./train stories.txt run run-0/data > trained 2> said ||
    die "weft_train: $(cat trained said)"
[ ! -s said ] || die "the library printed: $(cat said)"
grep -qx '0 6 ' trained || die "weft_train: $(cat trained)"
grep -qx '130 9 stopped' trained || die "weft_train that is stopped: $(cat trained)"
grep -q '^2 .*train first, or give a dataset' trained ||
    die "text after computing: $(cat trained)"
grep -q "^2 .*lauers" trained || die "an unknown setting: $(cat trained)"
grep -q "^2 options: not JSON" trained || die "no JSON: $(cat trained)"
grep -q "^2 options: steps must be" trained || die "no steps: $(cat trained)"
grep -q "^2 options: input must be" trained || die "an input of 5: $(cat trained)"
grep -q "^2 options: lr_end goes with" trained || die "lr_end by time: $(cat trained)"
[ ! -e z ] || die "what is refused leaves a run"
grep -q '^seed = 9007199254740993 ' run-1/config.cfg ||
    die "another seed than was given: $(grep seed run-1/config.cfg)"
"$weft" info run-1 | grep -q 'step *3\|ckpt-00000003' ||
    "$weft" verify run-1 > /dev/null || die "run-1 is not whole"

# The example in C: shared, static, and as C++. It writes what weft infer writes.
cc -Wall -Werror "$root/docs/example.c" $(pkg-config --cflags --libs weft) -o shared
cc -Wall -Werror -c -I usr/include "$root/docs/example.c" -o example.o
c++ example.o usr/lib/libweft.a $(pkg-config --static --libs weft |
    sed 's/-lweft//') -o static
echo '#include <weft.h>' | c++ -x c++ -Wall -Werror -fsyntax-only -I usr/include -
./shared run-0 "Once upon" > first
./static run-0 "Once upon" > second
cmp first second || die "shared and static differ"
"$weft" infer run-0 -p "Once upon" --no-echo -n 40 -s 5 2> /dev/null > infer
head -c "$(wc -c < infer)" first | cmp -s - infer ||
    die "$(cat first) is not $(cat infer)"
printf 'Once upon' > prompt.txt
nats_of() {     # RUN: those of weft score, without the end of the document
    "$weft" score "$1" prompt.txt --per-token 2> /dev/null |
        grep -o '"nats":[0-9.e-]*' | cut -d: -f2 |
        sed '$d' | awk '{ s += $1 } END { printf "%.3f", s }'
}
nats=$(nats_of run-0)
grep -q ": $nats nats" first || die "$(tail -1 first), but weft score says $nats"

# So it is with a model that reads a prefix before every text.
"$weft" train stories.txt --out prefixed layers=2 width=32 heads=2 context=32 batch=4 \
    vocab=300 steps=2 'prefix="Q "' > /dev/null 2>&1 || die "no model with a prefix"
prefixed=$(nats_of prefixed)
./shared prefixed "Once upon" > first
grep -q ": $prefixed nats" first || die "$(tail -1 first), but weft score says $prefixed"

# A model of one book begins, without a prompt, with the word that weft infer begins with.
head -c 20000 stories.txt | tr '\n' ' ' > book.txt
"$weft" train book.txt --out book layers=2 width=32 heads=2 context=32 batch=4 vocab=300 \
    steps=2 > /dev/null 2>&1 || die "no model of one book"
grep -q '"opening"' book/latest/config.json || die "a book without an opening"
./shared book "" > first
"$weft" infer book -p "" -n 40 -s 5 2> /dev/null > infer
head -c "$(wc -c < infer)" first | cmp -s - infer ||
    die "$(cat first) is not $(cat infer)"
./shared nowhere x 2> said && die "a missing run is no error"
grep -q 'nowhere: no such run' said || die "a missing run: $(cat said)"

# The example in Python, where there is one.
if command -v python3 > /dev/null && python3 -c 'import ctypes' 2> /dev/null; then
    export PYTHONPATH="$tmp/usr/share/weft" PYTHONDONTWRITEBYTECODE=1
    python3 "$root/docs/example.py" run-0 "Once upon" > python || die "example.py failed"
    [ "$(grep -c '^Once upon' python)" = 2 ] || die "example.py: $(cat python)"
    grep -q "^$nats nats" python || die \
        "example.py: $(tail -1 python), but weft score says $nats"
    python3 - <<'TEXT' || die "weft.py is wrong"
import array
import weft
with weft.Model("run-0") as m:
    left = m.generate("Once", max_tokens=100000, logit_bias={str(m.eos): -100})
    next(left)
list(left)                                          # ended with its model
with weft.Model("run-0") as m:
    whole = "".join(m.generate("Once", max_tokens=30, seed=3, temperature=0.8))
    g = m.generate("Once", max_tokens=100000, seed=3, logit_bias={str(m.eos): -100})
    assert whole.startswith(next(g)) and not g.close()
    try:
        list(m.generate("x", stop={"a"}))           # a set is not JSON
        raise AssertionError
    except TypeError:
        pass
    s = m.session(slots=2)
    a = s.feed([m.eos, 5, 6])
    state = s.state()
    b = s.step([0], [7])[0]
    s.set_state(state, 1)
    top = m.sampler(temperature=0)
    assert top.pick(a) == top.pick(list(a)) == top.pick(array.array("d", a))
    assert s.position(1) == 3 and list(s.step([1], [7])[0]) == list(b) != list(a)
    for wrong in (lambda: s.feed([m.vocab]), lambda: s.feed([1], slot=2),
                  lambda: s.step([0, 0], [1, 1]), lambda: s.set_state(state[1:]),
                  lambda: m.sampler(top_p=3), lambda: weft.Model("no"),
                  lambda: list(m.generate("x", max_tokens=-1))):
        try:
            wrong()
        except weft.Error as e:
            assert str(e)
        else:
            raise AssertionError("no error")
    assert m.detokenize(m.tokenize("héllo")) == "héllo".encode()
    for wrong in (lambda: s.step([0, 1], [7]), lambda: m.sampler().pick(a[1:])):
        try:
            wrong()
        except ValueError as e:
            assert str(e)
        else:
            raise AssertionError("read beyond what was given")
TEXT
    python3 - "$prefixed" <<'TEXT' || die "weft.py's threads, or what its callbacks raise"
import os, sys, threading, weft
small = dict(input="run-0/data", layers=1, width=32, heads=2, context=32, batch=4,
             vocab=300)


def tasks():
    return len(os.listdir("/proc/self/task"))


def trained(threads):
    seen = []
    weft.train(lambda _: seen.append(tasks()), out=f"on-{threads}", steps=2,
               threads=threads, **small)
    return max(seen)


def scored(threads):
    seen = []

    def run():
        m.score("Once upon")
        seen.append(tasks())

    weft.set_threads(threads)
    t = threading.Thread(target=run)
    t.start()
    t.join()
    return seen[0]


def stop(_):
    raise KeyboardInterrupt


one = trained(1)
assert trained(2) > one, "weft_train takes its threads from elsewhere"
with weft.Model("prefixed") as m:
    one = scored(1)
    assert scored(2) > one, "weft_set_threads is for one thread alone"
    assert f"{sum(m.score('Once upon')):.3f}" == sys.argv[1]
try:
    weft.train(stop, out="raised", steps=1000, **small)
except KeyboardInterrupt:
    pass
else:
    raise AssertionError("Ctrl-C does not end training")
TEXT
else
    echo "installed.sh: skipped Python: there is none"
fi

env -u MAKEFLAGS make -s --no-print-directory -C "$root" MODE="$mode" PREFIX="$tmp/usr" \
    uninstall
[ -z "$(find usr -type f -o -type l)" ] ||
    die "make uninstall leaves $(find usr -type f -o -type l)"
