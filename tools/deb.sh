#!/bin/sh
# tools/deb.sh WEFT OUT: a Debian package of the program WEFT, in the directory OUT; with
# dpkg-dev. Depends are those of the libraries that it was linked with, as dpkg-shlibdeps
# finds them.
set -eu
weft=$(realpath "$1") out=$2
mkdir -p "$out"
out=$(realpath "$out")
cd "$(dirname "$0")/.."
umask 022

for tool in dpkg-deb dpkg-shlibdeps strip gzip; do
    command -v $tool > /dev/null ||
        { echo "make deb: $tool is missing; install dpkg-dev and binutils" >&2; exit 2; }
done

version=$("$weft" --version | sed -n '1s/^weft \([^ ]*\).*/\1/p')
arch=$(dpkg --print-architecture)
commit_date=$(git log -1 --format=%cD 2> /dev/null || date -R -r CHANGELOG.md)
root=$out/root
by="${DEBFULLNAME:-The weft authors} <${DEBEMAIL:-weft@weft.invalid}>"
rm -rf "$root"
mkdir -p "$root/DEBIAN" "$root/usr/bin" "$root/usr/share/man/man1" \
    "$root/usr/share/doc/weft" \
    "$root/usr/share/bash-completion/completions" \
        "$root/usr/share/zsh/vendor-completions" \
    "$root/usr/share/fish/vendor_completions.d"

install -m 755 "$weft" "$root/usr/bin/weft"
strip --strip-unneeded --remove-section=.comment --remove-section=.note \
    "$root/usr/bin/weft"
for name in weft-train weft-infer; do ln -s weft "$root/usr/bin/$name"; done

tools/manpages.sh "$weft" "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*.1

install -m 644 tools/weft.bash "$root/usr/share/bash-completion/completions/weft"
install -m 644 tools/weft.zsh "$root/usr/share/zsh/vendor-completions/_weft"
install -m 644 tools/weft.fish "$root/usr/share/fish/vendor_completions.d/weft.fish"

doc=$root/usr/share/doc/weft
{ echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
  echo 'Upstream-Name: weft'
  echo
  echo 'Files: *'
  sed -n 's/^Copyright (c) /Copyright: /p' LICENSE
  echo 'License: Expat'
  sed '1,/^Copyright/d' LICENSE | sed '1{/^$/d}; s/^$/./; s/^/ /'
} > "$doc/copyright"
{ echo "weft ($version) unstable; urgency=medium"
  echo
  echo "  * Release $version; what changed is in CHANGELOG.md."
  echo
  echo " -- $by  $commit_date"
} | gzip -9n > "$doc/changelog.gz"
gzip -9nc CHANGELOG.md > "$doc/CHANGELOG.md.gz"
install -m 644 docs/formats.md "$doc/formats.md"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/debian"
printf 'Source: weft\n\nPackage: weft\nArchitecture: any\n' > "$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O -e"$root/usr/bin/weft" 2> /dev/null |
          sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || { echo "make deb: dpkg-shlibdeps found no libraries" >&2; exit 1; }

cat > "$root/DEBIAN/control" <<EOF
Package: weft
Version: $version
Architecture: $arch
Maintainer: $by
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: $depends
Suggests: libopenblas0-openmp
Section: science
Priority: optional
Description: train small language models from plain text and stream text from them
 Trains language models of up to some ten million parameters on a CPU, from text
 files, within a time that is given, and streams text from them. The layer that
 mixes time is a choice among attention, linear attention and recurrences, which
 can be compared at equal compute. One program in C, without Python.
EOF
(cd "$root" && find usr -type f -printf '%p\n' | LC_ALL=C sort |
    xargs md5sum) > "$root/DEBIAN/md5sums"
chmod 644 "$root/DEBIAN/control" "$root/DEBIAN/md5sums"

deb=$out/weft_${version}_$arch.deb
dpkg-deb --root-owner-group --build "$root" "$deb" > /dev/null
rm -rf "$root"
echo "$deb"
