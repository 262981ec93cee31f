#!/usr/bin/env python3
"""tools/format.py [--check] FILE...: indentation and blanks by .clang-format.

clang-format decides how deep a statement stands and where a blank must or may not be.
Where lines end, and what lines up tables, declarations, arguments and comments, is the
author's: it would tear them apart. Of its replacements those are made that keep every
line: the indentation of a line that begins a statement, and a blank that is missing or
too many. A #pragma stands as deep as the loop below it.

--check changes nothing, names the lines and exits with 1 when there are any."""
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

# the end of a statement or label, or the opening of a block: a statement follows
ENDS = re.compile(rb"(;|\*/|//[^\n]*|\belse|^ *#[^\n]*|^\}|[;})] *\}|"
                  rb"(\)|\belse|\bdo|^struct \w+) *\{|^ *\{|^ *\})$", re.M)


def wanted(text, start, end, new):
    """Whether to put new in the place of the blanks text[start:end]."""
    old = text[start:end].decode()
    if old.count("\n") != new.count("\n") or "\\" in old + new:
        return False
    if "\n" not in new:
        # one of * & - + may be another operator than clang-format takes it for
        beside = set(text[start - 1:start] + text[end:end + 1])
        return (not old or not new) and not beside & set(b"*&-+")
    before = text[text.rfind(b"\n", 0, start) + 1:start]
    return text[end:end + 1] not in b"/.{" and bool(ENDS.search(before))


def laid_out(path, text):
    # shown a comment as long as the #pragma in its place, clang-format leaves it inside
    shown = re.sub(rb"(?m)^( *)#pragma", rb"\1//ragma", text)
    out = subprocess.run(["clang-format", "--output-replacements-xml",
                          "--assume-filename=" + path],
                         input=shown, capture_output=True, check=True).stdout
    result, at = [], 0
    for r in xml.fromstring(out):
        start, new = int(r.get("offset")), r.text or ""
        end = start + int(r.get("length"))
        if wanted(text, start, end, new):
            result += [text[at:start], new.encode()]
            at = end
    return b"".join(result) + text[at:]


def main(args):
    check = args[:1] == ["--check"]
    bad = 0
    for path in args[1:] if check else args:
        with open(path, "rb") as f:
            text = f.read()
        new = laid_out(path, text)
        if new == text:
            continue
        if not check:
            with open(path, "wb") as f:
                f.write(new)
            continue
        bad = 1
        for n, (a, b) in enumerate(zip(text.split(b"\n"), new.split(b"\n")), 1):
            if a != b:
                print(f"{path}:{n}: not laid out by .clang-format (make format)")
    return bad


sys.exit(main(sys.argv[1:]))
