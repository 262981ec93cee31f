"""What the server's speed is: speed.py WEFT RUN [TURNS]

One stream and eight of them at once, a prompt seen before, and a token of the server's
beside one of weft infer: by the clock, and by the CPU time of one thread, which other
programs disturb less. All in turns; a figure is the median over the turns of what the
turn gave, so that a machine whose speed drifts does not spoil it. Worth something only
with nothing else running.
"""
import json
import os
import re
import resource
import select
import socket
import statistics
import subprocess
import sys
import time

weft, run = sys.argv[1:3]
TOKENS, TURNS = 400, int(sys.argv[3]) if len(sys.argv) > 3 else 7
OPTIONS = {"max_tokens": TOKENS, "stream": True, "top_k": 40, "temperature": 0.8,
           "top_p": 0.95,
           "min_p": 0.05}


class Server:
    def __init__(self, *flags):
        self.process = subprocess.Popen([weft, "serve", run, "--port", "0", *flags],
                                        text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.port = int(re.search(r":(\d+)/", self.process.stdout.readline()).group(1))
        while b" 200 " not in self.get("/health"):
            time.sleep(0.1)
        self.eos = json.loads(self.get("/tokenizer_info").split(b"\r\n\r\n")[1])["eos_id"]

    def send(self, head, body=b""):
        s = socket.create_connection(("127.0.0.1", self.port))
        s.sendall(b"%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                  b"Content-Type: application/json\r\n"
                  b"Content-Length: %d\r\n\r\n" % (head, len(body)) + body)
        return s

    def get(self, url):
        s, answer = self.send(b"GET " + url.encode()), b""
        while part := s.recv(1 << 16):
            answer += part
        return answer

    def ask(self, bodies):
        """Seconds to the first event of any, and to the end of all."""
        start, first = time.monotonic(), None
        open_ones = [self.send(b"POST /v1/completions",
                               json.dumps(b).encode()) for b in bodies]
        while open_ones:
            for s in select.select(open_ones, [], [])[0]:
                part = s.recv(1 << 16)
                if not first and b"data:" in part:
                    first = time.monotonic() - start
                if not part:
                    open_ones.remove(s)
        return first, time.monotonic() - start

    def streams(self, k, n=TOKENS):
        """Tokens a second."""
        return k * n / self.ask([dict(OPTIONS, prompt="Once upon a time", seed=i,
                                      max_tokens=n,
                                      logit_bias={str(self.eos): -100})
                                 for i in range(k)])[1]

    def cpu(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        self.process.terminate()
        self.process.wait()


def infer(k, n=TOKENS, *flags):
    """Tokens a second, and seconds of CPU in all."""
    def used():
        u = resource.getrusage(resource.RUSAGE_CHILDREN)
        return u.ru_utime + u.ru_stime
    before = used()
    out = subprocess.run([weft, "infer", run, "-p", "Once upon a time", "-n", str(n),
                          "--seed", "0",
                          "--ignore-eos", "--samples", str(k), *flags],
                         capture_output=True,
                         errors="replace").stderr
    number, unit = re.search(r"text \d+, ([\d.]+)(k?)/s", out).groups()
    return float(number) * (1000 if unit else 1), used() - before


def cpu_of_a_token(server, n=700):
    """The server's and weft infer's: what n tokens take more than a few."""
    parts = []
    for tokens in (50, 50 + n):
        before = server.cpu()
        server.streams(1, tokens)
        parts.append((server.cpu() - before, infer(1, tokens, "--threads", "1")[1]))
    return [(more - few) / n for few, more in zip(*parts)]


def middle(values):
    return statistics.median(values)


long = dict(OPTIONS, prompt=[5] * 700, max_tokens=1)
one, eight, alone, together, cached, cpu = [], [], [], [], [], []
server = Server()
server.ask([long])
server.streams(1)
for _ in range(TURNS):
    one.append(server.streams(1))
    alone.append(infer(1)[0])
    eight.append(server.streams(8))
    together.append(infer(8)[0])
    cached.append(server.ask([long])[0])
server.close()
server = Server("--threads", "1")
server.streams(1)
for _ in range(TURNS):
    cpu.append(cpu_of_a_token(server))
server.close()
print(f"one stream       {middle(one):8.0f} tokens/s; weft infer {middle(alone):.0f}, "
      f"of whose time a token takes "
      f"{100 * (middle([a / b for a, b in zip(alone, one)]) - 1):+.1f} %")
print(f"eight streams    {middle(eight):8.0f} tokens/s, "
      f"{middle([b / a for a, b in zip(one, eight)]):.2f} times as many; "
      f"weft infer --samples 8: {middle(together):.0f}, "
      f"{middle([b / a for a, b in zip(alone, together)]):.2f} times")
print(f"CPU of a token   {1e6 * middle([c[0] for c in cpu]):8.0f} us, one thread; "
      f"weft infer {1e6 * middle([c[1] for c in cpu]):.0f} us: "
      f"{100 * (middle([c[0] / c[1] for c in cpu]) - 1):+.1f} %")
print(f"a prompt of 700 tokens seen before: first token after "
      f"{1e3 * middle(cached):.1f} ms")
