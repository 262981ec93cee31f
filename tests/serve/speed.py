"""What the server's speed is: speed.py WEFT RUN

One stream and eight of them at once, a prompt seen before, and a token of the server's beside one
of weft infer. In turns, the best of several; worth something only with nothing else running.
"""
import http.client
import json
import re
import subprocess
import sys
import threading
import time

weft, run = sys.argv[1:3]
TOKENS, TURNS = 400, 6
server = subprocess.Popen([weft, "serve", run, "--port", "0"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
port = int(re.search(r":(\d+)/", server.stdout.readline()).group(1))


def ask(body):
    """Seconds to the first event, and to the last."""
    c = http.client.HTTPConnection("127.0.0.1", port)
    start = time.monotonic()
    c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    r = c.getresponse()
    r.readline()
    first = time.monotonic() - start
    r.read()
    c.close()
    return first, time.monotonic() - start


def info():
    c = http.client.HTTPConnection("127.0.0.1", port)
    c.request("GET", "/tokenizer_info")
    r = c.getresponse()
    return json.loads(r.read()) if r.status == 200 else None


while not info():
    time.sleep(0.1)
eos = info()["eos_id"]


def streams(k):
    body = {"prompt": "Once upon a time", "max_tokens": TOKENS, "stream": True, "top_k": 40,
            "temperature": 0.8, "top_p": 0.95, "min_p": 0.05, "logit_bias": {str(eos): -100}}
    crew = [threading.Thread(target=ask, args=(dict(body, seed=i),)) for i in range(k)]
    start = time.monotonic()
    for t in crew:
        t.start()
    for t in crew:
        t.join()
    return k * TOKENS / (time.monotonic() - start)


def infer(k):
    out = subprocess.run([weft, "infer", run, "-p", "Once upon a time", "-n", str(TOKENS), "--seed",
                          "0", "--ignore-eos", "--samples", str(k)], capture_output=True, errors="replace").stderr
    number, unit = re.search(r"text \d+, ([\d.]+)(k?)/s", out).groups()
    return float(number) * (1000 if unit else 1)


ask({"prompt": [5] * 700, "max_tokens": 1, "stream": True})
one, eight, alone, together, cached = [], [], [], [], []
for _ in range(TURNS):
    one.append(streams(1))
    eight.append(streams(8))
    alone.append(infer(1))
    together.append(infer(8))
    cached.append(ask({"prompt": [5] * 700, "max_tokens": 1, "stream": True})[0])
server.terminate()
server.wait()
print(f"one stream       {max(one):8.0f} tokens/s")
print(f"eight streams    {max(eight):8.0f} tokens/s, {max(eight) / max(one):.2f} times as many")
print(f"weft infer       {max(alone):8.0f} tokens/s, a token of the server's takes "
      f"{100 * (max(alone) / max(one) - 1):+.1f} %")
print(f"weft infer --samples 8: {max(together):.0f} tokens/s, {max(together) / max(alone):.2f} "
      f"times as many")
print(f"a prompt of 700 tokens seen before: first token after {1e3 * min(cached):.1f} ms")
