#!/usr/bin/env python3
"""make mutate: would the tests notice? Breaks the source in one place at a time.

Chooses N mutants by SEED among all places of data/, model/, infer/ and train/ where an
operator can be turned around, a condition negated or a statement left out, and adds
those of tests/mutants.txt. Each is compiled, linked in front of weft.a into the suites
that hold its file, the likeliest and the shortest first, and run until one fails; what
all of them pass is compiled again for the suites in double precision, and linked into
weft, for the scripts among the tests. A mutant that these pass, too, has survived: a test
is missing, or the change has no effect.
One that is not compiled, or to the same code, says nothing of the tests and does not
count. Prints a line a mutant, the survivors again, and the share that was killed; begins
no mutant after TIME seconds. Exits with 1 below 90 %.

    python3 tests/mutate.py 160 1 3000 build/release build/double
"""
import argparse
import concurrent.futures
import glob
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOMS = ("data", "model", "infer", "train")
PATIENCE = 60           # seconds of CPU that a mutant's suites may take in all
SCRIPTS = ("v1/v1.sh", "tools/artefacts.sh", "tools/plot.sh", "tools/experiments.sh",
           "tools/limits.sh", "train/recipe.sh", "tools/join.sh", "train/resume.sh",
           "tools/wrong.sh", "faults/faults.sh")
APART = ("train/ranks.c",)      # of several processes: make test-mpi has their tests
SHM = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None    # nothing waits for a disk
SWAPS = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "==", "+": "-",
         "-": "+", "*": "/", "/": "*", "&&": "||", "||": "&&", "+=": "-=", "-=": "+="}
# Left out, these change nothing that a test could see.
QUIET = re.compile(r"\s*(free|\w+_free|close|\w+_close|fclose|closedir|memset|live_\w+|"
                   r"pthread_\w+|atomic_\w+|madvise|json_decref|omp_\w+)\(")
# Nor does what is sent for ahead of its use.
AHEAD = re.compile(r"\b((send_for\w*|__builtin_prefetch)\(|ahead\[|AHEAD_ROWS)")

# ---- where to break it -----------------------------------------------------------------


def blank(text):
    """The text with comments, strings and preprocessor lines blanked out."""
    def spaces(m):
        return re.sub(r"[^\n]", " ", m.group())
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'|'
                  r"^[ \t]*#([^\n]*\\\n)*[^\n]*", spaces, text, flags=re.S | re.M)


def bodies(code):
    """Ranges of function bodies: from a { in the first column to its }."""
    return [(m.start(), code.find("\n}", m.start())) for m in
            re.finditer(r"^\{$", code, flags=re.M)
            if not AHEAD.search(code[code.rfind("\n\n", 0, m.start()):m.start()])]


def places(path):
    """(start, end, replacement) of every mutant of a file."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    code, found = blank(text), []
    for begin, end in bodies(code):
        body = code[begin:end]
        for m in re.finditer(r" (<=|>=|==|!=|&&|\|\||\+=|-=|[<>+*/-]) ", body):
            start = begin + m.start(1)
            found.append((start, start + len(m.group(1)), SWAPS[m.group(1)]))
        for m in re.finditer(r"\bif \(", body):
            start = begin + m.end()
            stop = closing(code, start)
            found.append((start, stop, "!(" + text[start:stop] + ")"))
        for m in re.finditer(r"^ +([a-z_]+(->|\.|\w)*\([^;{}]*\)|[^;{}=()]+[-+*/|]?= "
                             r"[^;{}]+);$", body, flags=re.M):
            start, stop = begin + m.start(1), begin + m.end(1)
            if statement(code, start) and not QUIET.match(code[start:stop]):
                found.append((start, stop, "(void)0"))
    return [(path,) + f for f in found if not AHEAD.search(line(code, f[0]))]


def line(code, at):
    """The line that this place is in, up to its end."""
    return code[code.rfind("\n", 0, at) + 1:code.find("\n", at)]


def closing(code, at):
    """Where the parenthesis that is open at `at` ends."""
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        at += 1
    return at - 1


def statement(code, at):
    """Does a statement begin here, and not a declaration or what an if or for has?"""
    before = code[:at].rstrip()
    return before.endswith((";", "{", "}")) and not re.match(
        r"(static|const|struct|enum|int|long|double|float|real|char|bool|size_t|"
        r"u?int\d+_t|void|unsigned|json_t|FILE|return|vec|DIR|va_\w+)\b", code[at:])


def named(path):
    """The mutants that are always made: FILE, a line's text and what to put there."""
    rows = []
    with open(path, encoding="utf-8") as f:
        for row in f:
            if not row.startswith("#") and row.strip():
                file, old, new = (part.strip() for part in row.split("|||"))
                with open(file, encoding="utf-8") as g:
                    at = g.read().find(old)
                if at < 0:
                    sys.exit(f"mutate: {path}: {file} has no '{old}'")
                rows.append((file, at, at + len(old), new))
    return rows


# ---- which suites hold it --------------------------------------------------------------


def symbols(path, kinds):
    """What others may use: functions (T), data (R, D); local in a program."""
    out = subprocess.run(["nm", "--defined-only", path], capture_output=True, text=True,
                         check=True).stdout
    return {line.split()[-1] for line in out.splitlines() if line.split()[-2] in kinds}


class Build:
    """A directory of objects and suites that have passed; how says what made them."""

    def __init__(self, top):
        self.top = top
        with open(f"{top}/how", encoding="utf-8") as f:
            self.cc, _, self.link, *_ = f.read().split("\n")
        self.link += " " + subprocess.run(["pkg-config", "--libs", "check"], text=True,
                                          capture_output=True, check=True).stdout.strip()
        ran = ((s, self.ran(s)) for s in sorted(glob.glob("tests/*/test_*.c")))
        self.suites = {f"{top}/{s[:-2]}": (symbols(f"{top}/{s[:-2]}", "tTrRdD"), *times)
                       for s, times in ran if times}
        self.scripts = [(s, self.ran(s)) for s in (f"tests/{s}" for s in SCRIPTS)]

    def ran(self, source):
        """Seconds of CPU and seconds that a suite took; None where it was not run."""
        name = f"{self.top}/results/{os.path.basename(source).removesuffix('.c')}"
        if not os.path.exists(name + ".ran"):
            return None
        with open(name + ".ran", encoding="utf-8") as f:
            words = f.read().split()
        if len(words) < 4 or words[2] != "0":
            sys.exit(f"mutate: {source} has not passed; see {name}.log")
        return float(words[3]), float(words[0])

    def holds(self, path):
        """Suites that hold a file: of its name first, of its room, then the short."""
        own = symbols(f"{self.top}/{path}.o", "TRD")
        stem, room = os.path.basename(path)[:-2], path.split("/")[0]
        found = [p for p, (has, *_) in self.suites.items() if own and own <= has]
        return sorted(found, key=lambda p: (stem not in p, f"tests/{room}/" not in p,
                                            self.suites[p][1]))

    def compiles(self, source, to):
        return subprocess.run(f"{self.cc} -w -MF /dev/null -c -o {to} {source}",
                              shell=True, stderr=subprocess.DEVNULL).returncode == 0

    def same(self, texts, base):
        """Does the compiler make the same of both texts?"""
        made = []
        for text in texts:
            with open(f"{base}.c", "w", encoding="utf-8") as f:
                f.write(text)
            if subprocess.run(f"{self.cc} -w -g0 -MF /dev/null -c -o {base}.o {base}.c",
                              shell=True, stderr=subprocess.DEVNULL).returncode:
                return False
            with open(f"{base}.o", "rb") as f:
                made.append(f.read())
        return made[0] == made[1]

    def links(self, objects, to):
        compiler, libraries = self.link.split(" -l", 1)
        subprocess.run(f"{compiler} -Wl,-S -o {to} {objects} {self.top}/weft.a "
                       f"-l{libraries}", shell=True, check=True)

    def rig(self, program):
        """What the Makefile links a suite with besides."""
        found = glob.glob(f"{self.top}/tests/support/*.o")
        if program.endswith("/test_fuzz"):
            found += set(glob.glob(f"{self.top}/tests/fuzz/*.o")) - {program + ".c.o"}
        return f"{program}.c.o {' '.join(sorted(found))}"

    def killer(self, path, mutant, to):
        """The first suite that fails with the mutant of a file."""
        spent = 0.0
        for program in self.holds(path):
            _, seconds, wall = self.suites[program]
            if spent and spent + seconds > PATIENCE:
                continue
            self.links(f"{self.rig(program)} {mutant}", to)
            spent += seconds + 0.1
            if not passes([to], seconds, wall):
                return f"{os.path.basename(program)} ({os.path.basename(self.top)})"
        return None

    def script(self, mutant, to):
        """The first script that fails with the mutant in weft."""
        tools = f"{self.top}/tools"
        self.links(f"{tools}/start.c.o {tools}/main.c.o {mutant}", to)
        for script, times in self.scripts:
            if times and not passes(["sh", script], *times, WEFT=to,
                                    LIB=f"{self.top}/tests/faults"):
                return os.path.basename(script)
        return None


# ---- one mutant ------------------------------------------------------------------------


def limited(seconds):
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return limit


def passes(command, seconds, wall, **more):
    """A mutant that waits for ever is noticed as soon as it must be."""
    tmp = tempfile.mkdtemp(dir=SHM)         # a program that crashes leaves its files
    env = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive",
               CK_TIMEOUT_MULTIPLIER="20", CK_VERBOSITY="silent", TMPDIR=tmp,
               TALLY="/dev/null", **more)
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=env,
                             stderr=subprocess.DEVNULL, start_new_session=True,
                             preexec_fn=limited(int(10 + 4 * seconds)))
    try:
        return child.wait(40 + 5 * wall) == 0
    except subprocess.TimeoutExpired:
        child.terminate()               # Check ends its group
        time.sleep(1)
        return False
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)    # a script's own children, too
        except ProcessLookupError:
            pass
        child.wait()
        shutil.rmtree(tmp, ignore_errors=True)


def describe(path, start, end, new):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    line = text.count("\n", 0, start) + 1
    old = " ".join(text[start:end].split())
    return text, f"{path}:{line}: {old[:50]} -> {' '.join(new.split())[:54]}"


def run(i, mutant, builds):
    """(what it is, what killed it, None, or "" where it is no other program)."""
    path, start, end, new = mutant
    text, what = describe(*mutant)
    base = f"{builds[0].top}/mutate/{i}"
    broken = text[:start] + new + text[end:]
    with open(base + ".c", "w", encoding="utf-8") as f:
        f.write(broken)
    try:
        for n, build in enumerate(builds):
            if not build.compiles(f"{base}.c", f"{base}.{n}.o"):
                return what, ""
            killer = build.killer(path, f"{base}.{n}.o", f"{base}.x")
            if killer:
                return what, killer
        killer = builds[0].script(f"{base}.0.o", f"{base}.x")
        if not killer and all(b.same((text, broken), base) for b in builds):
            return what, ""
        return what, killer
    finally:
        for name in glob.glob(base + ".*"):
            os.remove(name)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("n", type=int)
    p.add_argument("seed", type=int)
    p.add_argument("time", type=float)
    p.add_argument("builds", nargs="+")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--only", default="", help="files whose path has this")
    a = p.parse_args()

    began, builds = time.monotonic(), [Build(top) for top in a.builds]
    os.makedirs(f"{builds[0].top}/mutate", exist_ok=True)
    files = sorted(f for room in ROOMS for f in glob.glob(f"{room}/**/*.c",
                                                          recursive=True)
                   if a.only in f and f not in APART
                   and os.path.exists(f"{builds[0].top}/{f}.o") and builds[0].holds(f))
    every = [m for f in files for m in places(f)]
    chosen = [m for m in named("tests/mutants.txt") if a.only in m[0]]
    chosen += random.Random(a.seed).sample(every, min(a.n, len(every)))
    print(f"{len(every)} places in {len(files)} files; {len(chosen)} mutants, seed "
          f"{a.seed}", flush=True)

    killed, survived, later, none = 0, [], 0, 0

    def one(job):
        return run(*job, builds) if time.monotonic() - began < a.time else None

    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for result in pool.map(one, enumerate(chosen)):
            if not result:
                later += 1
                continue
            what, killer = result
            if killer == "":
                none += 1
                print(f"{'no other program':28} {what}", flush=True)
                continue
            killed += killer is not None
            print(f"{'killed by ' + killer if killer else 'SURVIVED':28} {what}",
                  flush=True)
            if not killer:
                survived.append(what)
    for what in survived:
        print("survived:", what)
    made = killed + len(survived)
    print(f"mutate: {killed} of {made} mutants killed ({100 * killed / max(made, 1):.1f} "
          f"%), {none} no other program, {later} not tried, seed {a.seed}, "
          f"{time.monotonic() - began:.0f} s")
    return made == 0 or killed < 0.9 * made


if __name__ == "__main__":
    sys.exit(main())
