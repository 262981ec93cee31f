"""A browser without a window, by WebDriver and Python's standard library alone."""
import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic",
         "--no-first-run", "--disable-background-networking", "--disable-sync",
         "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars"]
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Right": "\ue014", "Down": "\ue015",
        "Control": "\ue009"}


def missing():
    """What of chromium and chromedriver is not there."""
    names = {"chromium": BROWSERS, "chromedriver": ("chromedriver",)}
    return [name for name, of in names.items() if not any(map(shutil.which, of))]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Browser:
    def __init__(self, width=1100, height=900):
        self.home = tempfile.mkdtemp(prefix="weft-page-")
        port = free_port()
        null = subprocess.DEVNULL
        self.driver = subprocess.Popen(["chromedriver", f"--port={port}"],
                                       stdout=null, stderr=null,
                                       env={**os.environ, "HOME": self.home})
        self.url = f"http://127.0.0.1:{port}"
        self.session = ""
        self.wait(lambda: self.call("GET", "/status")["ready"], "chromedriver")
        options = {"args": FLAGS + [f"--user-data-dir={self.home}/data",
                                    f"--window-size={width},{height}"]}
        options["binary"] = next(filter(None, map(shutil.which, BROWSERS)))
        made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.session = "/session/" + made["sessionId"]

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + self.session + path, data,
                                         method=method,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as e:
            raise AssertionError(json.load(e)["value"]["message"]) from None

    def wait(self, what, name, seconds=60):
        end = time.monotonic() + seconds
        while True:
            try:
                found = what()
                if found:
                    return found
            except (OSError, AssertionError):
                pass
            if time.monotonic() > end:
                raise AssertionError(f"waited {seconds} seconds for {name}")
            time.sleep(0.1)

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *args):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def until(self, script, name, seconds=60):
        return self.wait(lambda: self.run("return " + script), name, seconds)

    def find(self, css):
        return self.call("POST", "/element", {"using": "css selector",
                                              "value": css})[ELEMENT]

    def click(self, css):
        self.call("POST", f"/element/{self.find(css)}/click", {})

    def keys(self, css, *keys):
        text = "".join(KEYS.get(k, k) for k in keys)
        self.call("POST", f"/element/{self.find(css)}/value", {"text": text})

    def press(self, *keys):
        """Keys, wherever the focus is."""
        actions = [{"type": t, "value": KEYS.get(k, k)}
                   for k in keys for t in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys",
                                                    "actions": actions}]})

    def devtools(self, command, **params):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def look(self, width, height, scheme="light"):
        """A window of this size, and the system's choice of light or dark."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height,
                      deviceScaleFactor=1, mobile=width < 600)
        self.devtools("Emulation.setEmulatedMedia",
                      features=[{"name": "prefers-color-scheme", "value": scheme}])

    def shoot(self, path, whole=True):
        shot = self.devtools("Page.captureScreenshot", format="png",
                             captureBeyondViewport=whole)
        with open(path, "wb") as f:
            f.write(base64.b64decode(shot["data"]))

    def console(self):
        log = self.call("POST", "/se/log", {"type": "browser"})
        return [line["message"] for line in log
                if line["level"] in ("SEVERE", "WARNING")]

    def close(self):
        try:
            self.call("DELETE", "")
        except (OSError, AssertionError):
            pass
        self.driver.terminate()
        self.driver.wait()
        shutil.rmtree(self.home, ignore_errors=True)
