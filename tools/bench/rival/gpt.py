"""Three ways of training a small GPT in PyTorch, each as its own community does it,
against the clock.

    nanogpt   nanoGPT's recipe for a CPU: learned positions, LayerNorm, GELU, AdamW,
              cosine
    llmc      llm.c's: GPT-2 with its biases, the batch of train_gpt2.c (4 x 64), the
              rate, warm-up and cosine to zero of its script for 124M parameters
    modern    what modded-nanoGPT and nanochat describe: RoPE, RMSNorm, norm of q and k,
              squared ReLU, output projections that start at zero, Muon for matrices,
              AdamW for the rest

The text is a dataset of `weft data build`: the same training bytes and the same held-out
bytes as weft sees. Prints one line of JSON: bits per byte of the held-out text after
`--seconds` of training.

    python3 tools/bench/rival/gpt.py DATASET --recipe modern --seconds 180 --seed 101
"""
import argparse
import json
import math
import subprocess
import time

import torch
from torch import nn
from torch.nn import functional as F


BATCHES = {"nanogpt": (12, 64), "llmc": (4, 64), "modern": (8, 256)}     # and context


class Shape:
    def __init__(self, vocab, context, bias, layers=4, width=128, heads=4):
        self.vocab, self.context, self.bias = vocab, context, bias
        self.layers, self.width, self.heads = layers, width, heads


# ---- layers ----------------------------------------------------------------------------


def rms(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


class Attention(nn.Module):
    """Causal softmax attention; modern: q and k normalised and rotated."""

    def __init__(self, s, modern):
        super().__init__()
        self.heads, self.modern = s.heads, modern
        self.qkv = nn.Linear(s.width, 3 * s.width, bias=s.bias)
        self.out = nn.Linear(s.width, s.width, bias=s.bias)
        half = s.width // s.heads // 2
        angle = torch.outer(torch.arange(s.context), 1e4 ** (-torch.arange(half) / half))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        mask = torch.full((s.context, s.context), -math.inf).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.modern:
            q = rotate(rms(q), self.cos[:T], self.sin[:T])
            k = rotate(rms(k), self.cos[:T], self.sin[:T])
        p = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + self.mask[:T, :T]
        return self.out((p.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, s, modern):
        super().__init__()
        self.modern = modern
        self.attention = Attention(s, modern)
        self.up = nn.Linear(s.width, 4 * s.width, bias=s.bias)
        self.down = nn.Linear(4 * s.width, s.width, bias=s.bias)
        self.norm1 = nn.Identity() if modern else nn.LayerNorm(s.width)
        self.norm2 = nn.Identity() if modern else nn.LayerNorm(s.width)

    def forward(self, x):
        normed = (lambda norm, y: rms(y)) if self.modern else (lambda norm, y: norm(y))
        x = x + self.attention(normed(self.norm1, x))
        h = self.up(normed(self.norm2, x))
        return x + self.down(F.relu(h).square() if self.modern else F.gelu(h))


class GPT(nn.Module):
    def __init__(self, s, modern):
        super().__init__()
        self.modern, self.shape = modern, s
        self.embed = nn.Embedding(s.vocab, s.width)
        self.position = None if modern else nn.Embedding(s.context, s.width)
        self.blocks = nn.ModuleList(Block(s, modern) for _ in range(s.layers))
        self.norm = nn.Identity() if modern else nn.LayerNorm(s.width)
        self.head = nn.Linear(s.width, s.vocab, bias=False)
        if modern:
            nn.init.normal_(self.embed.weight)
            nn.init.zeros_(self.head.weight)
            for b in self.blocks:
                bound = math.sqrt(3) / math.sqrt(s.width)
                nn.init.uniform_(b.attention.qkv.weight, -bound, bound)
                nn.init.uniform_(b.up.weight, -bound, bound)
                nn.init.zeros_(b.attention.out.weight)
                nn.init.zeros_(b.down.weight)
        else:
            for name, p in self.named_parameters():
                if p.dim() == 2:
                    out = name.endswith(("out.weight", "down.weight"))
                    std = 0.02 / math.sqrt(2 * s.layers) if out else 0.02
                    nn.init.normal_(p, std=std)
                elif name.endswith(("qkv.bias", "out.bias", "up.bias", "down.bias")):
                    nn.init.zeros_(p)
            self.head.weight = self.embed.weight

    def forward(self, ids, targets):
        x = self.embed(ids)
        if self.modern:
            x = rms(x)
        else:
            x = x + self.position.weight[: ids.shape[1]]
        for b in self.blocks:
            x = b(x)
        logits = self.head(rms(x) if self.modern else self.norm(x))
        if self.modern:
            logits = 15 * torch.tanh(logits / 15)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")


# ---- optimisers ------------------------------------------------------------------------


class Muon(torch.optim.Optimizer):
    """Momentum made orthogonal by five steps of a quintic Newton-Schulz iteration."""

    def __init__(self, params, lr, momentum=0.95):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                m.lerp_(p.grad, 1 - group["momentum"])
                x = p.grad.lerp(m, group["momentum"])
                tall = x.shape[0] > x.shape[1]
                x = x.t() if tall else x
                x = x / (x.norm() + 1e-7)
                for _ in range(5):
                    a = x @ x.t()
                    x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
                x = x.t() if tall else x
                p.add_(x, alpha=-group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)


def optimisers(model, recipe):
    if recipe != "modern":
        lr, beta2 = (1e-3, 0.99) if recipe == "nanogpt" else (6e-4, 0.95)
        decayed = [p for p in model.parameters() if p.dim() >= 2]
        rest = [p for p in model.parameters() if p.dim() < 2]
        groups = [{"params": decayed, "weight_decay": 0.1},
                  {"params": rest, "weight_decay": 0.0}]
        return [torch.optim.AdamW(groups, lr=lr, betas=(0.9, beta2))]
    matrices = [p for b in model.blocks for p in b.parameters() if p.dim() == 2]
    tables = [{"params": [model.embed.weight],
               "lr": 0.2 * math.sqrt(768 / model.shape.width) / 5},
              {"params": [model.head.weight],
               "lr": 0.004 * math.sqrt(768 / model.shape.width)}]
    return [torch.optim.AdamW(tables, betas=(0.8, 0.95), eps=1e-10, weight_decay=0.0),
            Muon(matrices, lr=0.02)]


def rate(recipe, done):
    """The share of the peak rate when `done` of the time is over."""
    if recipe == "modern":
        return min(1.0, (1 - done) / 0.4)
    warm, end = (0.05, 0.1) if recipe == "nanogpt" else (0.037, 0.0)
    fall = (1 + math.cos(math.pi * done)) / 2
    return min(1.0, done / warm) * (end + (1 - end) * fall)


# ---- the run ---------------------------------------------------------------------------


def read_ids(path):
    raw = subprocess.run(["zstd", "-dc", path], check=True, capture_output=True).stdout
    return torch.frombuffer(bytearray(raw), dtype=torch.int16).long() & 0xFFFF


def batch(ids, B, T, generator):
    at = torch.randint(len(ids) - T - 1, (B,), generator=generator)
    rows = torch.stack([ids[i : i + T + 1] for i in at])
    return rows[:, :-1], rows[:, 1:]


@torch.no_grad()
def bits_per_byte(model, ids, count):
    """Over the whole held-out text, in windows that do not overlap."""
    T, nats = model.shape.context, 0.0
    for at in range(0, len(ids) - 1, 32 * T):
        piece = ids[at : at + 32 * T + 1]
        n = (len(piece) - 1) // T * T
        if n:
            nats += model(piece[:n].view(-1, T),
                          piece[1 : n + 1].view(-1, T)).sum().item()
        if n < len(piece) - 1:
            nats += model(piece[n:-1][None], piece[n + 1 :][None]).sum().item()
    return nats / math.log(2) / count


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data")
    p.add_argument("--recipe", choices=BATCHES, default="nanogpt")
    p.add_argument("--seconds", type=float, default=180)
    p.add_argument("--steps", type=int, help="in place of --seconds")
    p.add_argument("--seed", type=int, default=101)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--batch", type=int)
    p.add_argument("--context", type=int)
    a = p.parse_args()

    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    generator = torch.Generator().manual_seed(a.seed)
    modern = a.recipe == "modern"
    with open(f"{a.data}/dataset.json", encoding="utf-8") as f:
        about = json.load(f)
    train, held = read_ids(f"{a.data}/train.tok.zst"), read_ids(f"{a.data}/val.tok.zst")
    B, T = a.batch or BATCHES[a.recipe][0], a.context or BATCHES[a.recipe][1]
    shape = Shape(int(max(train.max(), held.max())) + 1, T, bias=a.recipe == "llmc")
    model = GPT(shape, modern)
    opts = optimisers(model, a.recipe)
    for o in opts:
        for g in o.param_groups:
            g["peak"] = g["lr"]

    start, steps = time.monotonic(), 0
    while (done := steps / a.steps if a.steps
           else (time.monotonic() - start) / a.seconds) < 1:
        for o in opts:
            for g in o.param_groups:
                g["lr"] = g["peak"] * rate(a.recipe, done)
        loss = model(*batch(train, B, T, generator)).mean()
        model.zero_grad(set_to_none=True)
        loss.backward()
        if not modern:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for o in opts:
            o.step()
        steps += 1
    print(json.dumps({"recipe": a.recipe, "seed": a.seed,
                      "seconds": round(time.monotonic() - start, 2),
                      "steps": steps, "tokens": steps * B * T,
                      "params": sum(q.numel() for q in model.parameters()),
                      "bpb": round(bits_per_byte(model, held, about["val"]["bytes"]), 4),
                      "torch": torch.__version__}))


if __name__ == "__main__":
    main()
