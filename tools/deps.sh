#!/bin/sh
# Install the named Debian packages that are missing; silent when none is.
# On other systems say which packages to install, once the compiler cannot find them.
set -eu

if ! command -v dpkg-query >/dev/null 2>&1; then
    serve=
    case " $* " in *" libmicrohttpd-dev "*) serve=libmicrohttpd ;; esac
    if pkg-config --exists sentencepiece libzstd jansson libxxhash $serve check \
        2>/dev/null; then
        exit 0
    fi
    cat >&2 <<'TEXT'
weft: some of its libraries are missing. Install them with one of
  dnf install gcc gcc-c++ make pkgconf openblas-openmp sentencepiece-devel \
    libzstd-devel jansson-devel xxhash-devel libmicrohttpd-devel check-devel
  pacman -S gcc make pkgconf openblas sentencepiece zstd jansson xxhash \
    libmicrohttpd check
  brew install gcc make pkg-config openblas sentencepiece zstd jansson xxhash \
    libmicrohttpd check
libmicrohttpd is needed for weft serve only: make SERVE=0 does without.
OpenBLAS is needed for products=openblas only: make OPENBLAS=/where/it/is/libopenblas.so.0
TEXT
    exit 1
fi

missing=
for p in "$@"; do
    status=$(dpkg-query -W -f '${Status}' "$p" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || {
        echo "weft: missing:$missing" >&2
        echo "as root, run: apt-get update && apt-get install -y$missing" >&2
        exit 1
    }
    as_root=sudo
fi
echo "installing$missing"
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install \
    -y -qq --no-install-recommends $missing
