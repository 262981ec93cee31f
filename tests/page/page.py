"""The page of weft serve and of weft train --page, in a browser without a window: it
loads, follows a run, streams, goes on from an alternative by mouse and by keys, and says
nothing on the console.

    make test-page          SHOTS=DIR also leaves pictures there
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(__file__))
from browser import Browser, missing

WEFT = os.path.abspath(os.environ.get("WEFT", "build/release/bin/weft"))
SHOTS = os.environ.get("SHOTS")
TINY = ["layers=1", "width=32", "heads=2", "context=64", "batch=4", "vocab=300",
        "--threads", "1"]
TOKENS = "document.querySelectorAll('.t').length"
DONE = f"{TOKENS} > 0 && !document.querySelector('.writing')"


def weft(*args):
    done = subprocess.run([WEFT, *args], capture_output=True, text=True)
    assert done.returncode == 0, f"weft {' '.join(args)}: {done.stderr}"
    return done.stdout


class Serving:
    """A weft that says where its page is."""

    def __init__(self, *args, log):
        self.log = open(log, "w+")
        self.process = subprocess.Popen([WEFT, *args], stdout=self.log, stderr=self.log)
        end = time.monotonic() + 60
        while True:
            with open(log) as f:
                found = re.search(r"http://[0-9.:]+/", text := f.read())
            if found:
                break
            assert time.monotonic() < end and self.process.poll() is None, text
            time.sleep(0.1)
        self.url = found.group()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        code = self.process.wait(60)
        self.log.close()
        return code


def silent(b, where):
    said = b.console()
    assert not said, f"{where}: the console says {said}"


def fits(b, width, scheme, name):
    """Nothing is wider than the window."""
    b.look(width, 900, scheme)
    time.sleep(0.5)
    wide = b.run("return document.documentElement.scrollWidth")
    assert wide <= width, f"{name}: {wide} pixels wide in a window of {width}"
    if SHOTS:
        b.shoot(f"{SHOTS}/{name}.png")


def text(b, column):
    return b.run("return document.querySelectorAll('.tokens')[arguments[0]].textContent",
                 column)


def a_finished_run(b, tmp):
    s = Serving("serve", f"{tmp}/run", "--port", "0", "--threads", "1",
                log=f"{tmp}/serve.log")
    try:
        b.look(1100, 900)
        b.open(s.url)
        b.until("document.querySelectorAll('#chart circle').length > 1", "the curve")
        assert b.run("return document.querySelector('#name').textContent") == "run"
        assert "zstd -19" in b.run("return document.querySelector('#chart').textContent")
        for what in ("loss", "learning rate", "gradient", "speed", "bits per byte"):
            b.run(f"document.querySelector('input[value=\"{what}\"]').click()")
            b.until("document.querySelector('#chart path.line')", f"the curve of {what}")

        # three texts side by side, each with the prompt in front
        b.keys("#prompt", "The cat")
        b.run("document.querySelector('#seed').value = 7")
        b.keys("#prompt", "Control", "Enter")
        b.until(DONE, "three texts")
        texts = [text(b, i) for i in range(3)]
        assert all(t.startswith("The cat") for t in texts), texts
        assert len(max(texts, key=len)) > 40, texts
        assert len(set(texts)) == 3, "three samples are the same"
        coloured = b.run("return document.querySelectorAll('.n3, .n4, .n5, .n6').length")
        assert coloured > 0, "no colours"

        # the same seed again: the same texts
        b.run("document.querySelector('#texts').replaceChildren()")
        b.click("#write")
        b.until(DONE, "the texts again")
        assert [text(b, i) for i in range(3)] == texts, "another text with the same seed"

        # by mouse: another token in the place of the sixth of the longest
        at = texts.index(max(texts, key=len))
        b.click(f".text:nth-child({at + 1}) .t:nth-child(6)")
        assert b.run("return document.querySelectorAll('#others button').length") >= 10
        word = b.run("""const b = [...document.querySelectorAll('#others button')]
            .find(x => x.getAttribute('aria-current') !== 'true' &&
                       !x.textContent.includes('[end]'));
            b.id = 'wanted'; return b.querySelector('.w').textContent""")
        if SHOTS:
            b.shoot(f"{SHOTS}/alternatives.png")
        of = f"document.querySelectorAll('.tokens')[{at}].children"
        before = b.run(f"return [...{of}].slice(0, 5).map(t => t.textContent).join('')")
        b.click("#wanted")
        b.until(f"{DONE} && {of}.length > 6", "it goes on")
        chosen = b.run(f"return {of}[5].textContent")
        shown = chosen.replace(" ", "·").replace("\n", "↵")
        assert shown == word, f"'{chosen}' for '{word}'"
        assert text(b, at).startswith(before + chosen), text(b, at)
        assert all(text(b, i) == texts[i] for i in range(3)
                   if i != at), "another column changed"

        # by keys: along the tokens, the alternatives, and back
        b.run("document.querySelectorAll('.tokens')[0].children[0].focus()")
        b.press("Right", "Right", "Right", "Enter")
        b.until("document.activeElement.closest('#others')", "alternatives by keys")
        b.press("Escape")
        focus = b.run("return document.activeElement.dataset.i")
        assert focus == "3", "the focus went elsewhere"
        assert b.run("return document.querySelector('#others').hidden")

        # Esc stops what is being written; a value out of range is said
        b.run("document.querySelector('#max_tokens').value = 4096")
        b.click("#write")
        b.until(f"{TOKENS} > 10", "a long text")
        b.press("Escape")
        b.until("!document.querySelector('.writing') && "
                "document.querySelector('#stop').hidden", "it stopped")
        b.run("document.querySelector('#ask').noValidate = true;"
              "document.querySelector('#temperature').value = -1;"
              "document.querySelector('#write').click()")
        b.until("document.querySelector('#status.bad').textContent"
                ".includes('temperature')", "the error")
        refused = [m for m in b.console() if "400" not in m]
        assert not refused, refused
        for width, scheme, name in ((1100, "light", "light"), (1100, "dark", "dark"),
                                    (400, "light", "phone")):
            fits(b, width, scheme, name)
        dark = b.run("return document.documentElement.dataset.theme")
        b.click("#theme")
        theme = b.run("return document.documentElement.dataset.theme")
        assert theme != dark, "the theme stays"
        b.run("localStorage.clear()")
        silent(b, "a finished run")
    finally:
        assert s.stop() in (0, 130)


def a_comparison(b, tmp):
    s = Serving("serve", f"{tmp}/compare", "--port", "0", "--threads", "1",
                log=f"{tmp}/compare.log")
    try:
        b.look(1100, 900)
        b.open(s.url)
        b.until("document.querySelectorAll('#chart text.name').length == 2",
                "two curves with names")
        b.keys("#prompt", "The cat", "Control", "Enter")
        b.until(f"{DONE} && document.querySelectorAll('.tokens').length == 2",
                "a text of each")
        titles = b.run("return [...document.querySelectorAll("
                       "'.text h3 span:first-child')].map(e => e.textContent)")
        assert sorted(titles) == ["gla", "softmax"], titles
        b.until("[...document.querySelectorAll('.tokens')]"
                ".every(t => t.textContent.startsWith('The cat'))", "the prompt in both")
        fits(b, 1100, "light", "compare")
        fits(b, 400, "dark", "compare-phone")
        silent(b, "a comparison")
    finally:
        assert s.stop() in (0, 130)
    b.until("document.querySelector('#state').textContent.includes('does not answer')",
            "that the server is gone")
    b.open("about:blank")
    said = [m for m in b.console() if "ERR_CONNECTION_REFUSED" not in m]
    assert not said, said


def a_run_that_trains(b, tmp):
    s = Serving("train", f"{tmp}/text.txt", "--out", f"{tmp}/live", "--steps", "100000",
                "--page", "sample_every=40",
                "eval_every=40", "checkpoint_every=40", *TINY, log=f"{tmp}/train.log")
    try:
        b.look(1100, 900)
        b.open(s.url)
        b.until("document.querySelector('#state .live')", "it says that it trains")
        b.until("document.querySelector('.sample')", "a sample")
        b.until("!document.querySelector('#write').disabled", "a checkpoint")
        first = b.run("return Number(document.querySelector('#facts dd').textContent)")
        b.until(f"Number(document.querySelector('#facts dd').textContent) > {first}",
                "a later step")
        b.keys("#prompt", "The cat", "Control", "Enter")
        b.until(DONE, "texts while it trains")
        assert "live@" in b.run("return document.querySelector('#status').textContent")
        if SHOTS:
            b.shoot(f"{SHOTS}/training.png")
        silent(b, "a run that trains")
    finally:
        code = s.stop()
    b.until("document.querySelector('#state').textContent.includes('does not answer')",
            "that the server is gone")
    assert code == 130, f"training ended with {code}"
    with open(f"{tmp}/train.log") as f:
        assert "page: http://127.0.0.1:" in f.read()


def main():
    lacking = missing()
    if lacking:
        print(f"test-page: skipped, there is no {' and no '.join(lacking)}; on Debian: "
              "apt install chromium chromium-driver")
        return
    tmp, b = tempfile.mkdtemp(prefix="weft-page-"), None
    try:
        weft("data", "stories", "--bytes", "200k", "--out", f"{tmp}/text.txt")
        weft("train", f"{tmp}/text.txt", "--out", f"{tmp}/run", "--steps", "60",
             "eval_every=20", *TINY)
        weft("compare", f"{tmp}/text.txt", "--arch", "softmax,gla", "--tokens", "10k",
             "--out", f"{tmp}/compare",
             *[a for a in TINY if not a.startswith("--") and a != "1"], "threads=1")
        b = Browser()
        for test in (a_finished_run, a_comparison, a_run_that_trains):
            start = time.monotonic()
            test(b, tmp)
            took = time.monotonic() - start
            print(f"ok  {test.__name__.replace('_', ' ')}  ({took:.0f}s)", flush=True)
    finally:
        if b:
            b.close()
        shutil.rmtree(tmp, ignore_errors=True)


if __name__ == "__main__":
    try:
        main()
    except AssertionError as e:
        sys.exit(f"test-page: {e}")
