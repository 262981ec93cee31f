"""The server under load and attack, by Python's standard library alone.

    load.py WEFT RUN [SECONDS] [MUTATED]

Starts weft serve on a free port and, for SECONDS, keeps 64 clients at it: whole texts,
streams, prompts scored, lists of prompts, clients that leave and clients that send a byte
a second. Then MUTATED broken requests. It must answer all that is right, with the same
text for the same seed, free every slot, and hold no more memory at the end than after a
first part.
"""
import http.client
import json
import random
import re
import socket
import subprocess
import sys
import threading
import time

weft, run = sys.argv[1:3]
seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 600
mutated = int(sys.argv[4]) if len(sys.argv) > 4 else 10000
CACHE = 16                # MiB of prompts
server = subprocess.Popen([weft, "serve", run, "--port", "0", "--cache", str(CACHE)],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
port = int(re.search(r":(\d+)/", server.stdout.readline()).group(1))
counts, texts, lock, bad = {}, {}, threading.Lock(), []


def count(what):
    with lock:
        counts[what] = counts.get(what, 0) + 1


def post(url, body, timeout=120):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        c.request("POST", url, json.dumps(body), {"Content-Type": "application/json"})
        r = c.getresponse()
        return r.status, r.read(), r.getheader("Retry-After")
    finally:
        c.close()


def metrics():
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request("GET", "/metrics")
    text = c.getresponse().read().decode()
    c.close()
    return {k: float(v) for k, v in re.findall(r"^(\w+) (\S+)$", text, re.M)}


def same(key, text):
    with lock:
        if texts.setdefault(key, text) != text:
            bad.append(f"{key}: another text than before")


def complete(r):
    seed, stream = r.randrange(40), r.random() < 0.5
    body = {"prompt": "Once upon a time " * (1 + seed % 3), "seed": seed,
            "max_tokens": 8 + 4 * (seed % 8), "stream": stream, "logprobs": seed % 3}
    status, answer, retry = post("/v1/completions", body)
    if status == 503:
        if not retry:
            bad.append("503 without Retry-After")
        count("503")
        time.sleep(0.05)
        return
    if status != 200:
        bad.append(f"{status}: {answer[:200]}")
    elif stream:
        events = [e[6:] for e in answer.decode().split("\n\n") if e.startswith("data: ")]
        if events[-1] != "[DONE]":
            bad.append("a stream without its end")
        parts = [json.loads(e)["choices"][0]["text"] for e in events[:-1]]
        same(seed, "".join(parts))
    else:
        same(seed, json.loads(answer)["choices"][0]["text"])
    count("texts")


def score(r):
    prompts = [[r.randrange(200) for _ in range(r.randrange(1, 60))] for _ in range(4)]
    status, answer, _ = post("/v1/completions", {
        "prompt": prompts, "temperature": 0, "max_tokens": 1, "logprobs": 1,
        "echo": True})
    if status == 200:
        for p, c in zip(prompts, json.loads(answer)["choices"]):
            if len(c["logprobs"]["token_logprobs"]) != len(p) + 1:
                bad.append("logprobs of another length")
        count("scored")


def leave(r):
    s = socket.create_connection(("127.0.0.1", port), 60)
    body = json.dumps({"prompt": "Once", "max_tokens": 20000,
                       "stream": r.random() < 0.5}).encode()
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
              b"Content-Type: application/json\r\n"
              b"Content-Length: %d\r\n\r\n" % len(body) + body)
    s.settimeout(r.random())
    try:
        s.recv(100)
    except OSError:
        pass
    s.close()
    count("left")


def dawdle(r):
    s = socket.create_connection(("127.0.0.1", port), 60)
    try:
        for byte in b"GET /health HTTP/1.1\r\n"[:r.randrange(1, 6)]:
            s.sendall(bytes([byte]))
            time.sleep(1)
    except OSError:
        pass
    s.close()
    count("slow")


def client(n, until):
    r = random.Random(n)
    while time.monotonic() < until and server.poll() is None:
        try:
            r.choices([complete, score, leave, dawdle], [80, 12, 6, 2])[0](r)
        except (OSError, http.client.HTTPException) as e:
            count(type(e).__name__)
            time.sleep(0.05)


def crowd(length):
    until = time.monotonic() + length
    threads = [threading.Thread(target=client, args=(n, until)) for n in range(64)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


good = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Content-Type: application/json\r\nContent-Length: 90\r\n\r\n"
        b'{"prompt": ["Hi", [5, 6]], "max_tokens": 3, "stop": ["a"], "logprobs": 1, '
        b'"n": 2}          ')


def mutant(r):
    b = bytearray(good)
    for _ in range(r.randrange(1, 6)):
        at, n = r.randrange(len(b)), r.randrange(1, 9)
        noise = bytes(r.randrange(256) for _ in range(n))
        b[at:at + r.choice([0, n, n])] = r.choice([noise, b"", b[:n] * 40])
    return bytes(b)


def attack(first, step):
    for i in range(first, mutated, step):
        try:
            s = socket.create_connection(("127.0.0.1", port), 60)
            s.sendall(mutant(random.Random(i)))
            s.shutdown(socket.SHUT_WR)
            answer = s.recv(100)
            while s.recv(1 << 16):
                pass
            count("mutant " + (answer[9:12].decode("latin1") or "no answer"))
            s.close()
        except OSError as e:
            count("mutant " + type(e).__name__)


def idle():
    for _ in range(600):
        m = metrics()
        if m["weft_texts_busy"] + m["weft_texts_waiting"] == 0:
            return m
        time.sleep(0.1)
    bad.append("a slot is stuck")
    return m


while True:
    c = http.client.HTTPConnection("127.0.0.1", port)
    c.request("GET", "/health")
    if c.getresponse().status == 200:
        break
    time.sleep(0.1)
crowd(seconds / 5)
before = idle()["weft_memory_bytes"]
most = before * 1.1 + 8e6
if seconds < 300:
    most += CACHE << 20     # which so short a first part does not fill
crowd(seconds * 4 / 5)
after = idle()["weft_memory_bytes"]
print(f"{seconds:g} s of 64 clients: {counts}")
print(f"memory: {before / 1e6:.1f} MB after a fifth, {after / 1e6:.1f} MB at the end")
if after > most:
    bad.append("memory grows")
counts.clear()
crews = [threading.Thread(target=attack, args=(k, 8)) for k in range(8)]
for t in crews:
    t.start()
for t in crews:
    t.join()
last = idle()["weft_memory_bytes"] if server.poll() is None else 0
print(f"{mutated} mutated requests: {counts}")
print(f"memory: {last / 1e6:.1f} MB")
if last > most:
    bad.append("memory grows under attack")
if server.poll() is not None:
    bad.append(f"the server ended with {server.returncode}")
server.terminate()
if server.wait(60) != 0:
    bad.append(f"SIGTERM: exit {server.returncode}")
print("\n".join(sorted(set(bad))) or "all is well")
sys.exit(bool(bad))
