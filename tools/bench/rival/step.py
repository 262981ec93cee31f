"""How fast PyTorch trains the shapes of `weft bench`: the other side of the table in
docs/benchmarks.md.

    OPENBLAS_CORETYPE=SkylakeX OMP_PROC_BIND=spread OMP_PLACES=cores \\
      OMP_WAIT_POLICY=active MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000 \\
      python3 tools/bench/rival/step.py small --arch softmax

The model is weft's: tied embedding, SwiGLU of the same width, RoPE for softmax, AdamW
with clipping; LayerNorm in the place of RMSNorm, because it is faster there. Projections
are fused; linear and mlstm run by chunks. Prints one line of JSON: tokens a second of the
best step, and the largest resident size.
"""
import argparse
import json
import math
import resource
import time

import torch
from torch import nn
from torch.nn import functional as F

#        layers, width, heads, vocabulary, context, batch
SHAPES = {"tiny": (4, 128, 4, 512, 256, 16), "small": (6, 384, 6, 4096, 256, 16),
          "base": (12, 768, 12, 8192, 1024, 4), "long": (6, 384, 6, 4096, 4096, 1)}
CHUNK = 64


def softmax(q, k, v, gates, tables):
    cos, sin, mask = tables

    def rotate(x):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

    keys = rotate(k).flatten(0, 1).transpose(-1, -2)
    scores = torch.baddbmm(mask, rotate(q).flatten(0, 1), keys,
                           alpha=1 / math.sqrt(q.shape[-1]))
    return (scores.softmax(-1) @ v.flatten(0, 1)).view(v.shape)


def in_chunks(x):
    """(B, H, T, D) as (B, H, T / CHUNK, CHUNK, D)"""
    return x.unflatten(2, (-1, min(CHUNK, x.shape[2])))


def before(sums):
    """What the chunks before each one sum to."""
    return F.pad(sums.cumsum(2)[:, :, :-1], (0, 0, 0, 0, 1, 0))


def linear(q, k, v, gates, tables):
    """o = f(q) S / (f(q) n), S and n the sums of f(k) v' and f(k), f = elu + 1"""
    q, k, v = in_chunks(F.elu(q) + 1), in_chunks(F.elu(k) + 1), in_chunks(v)
    v = torch.cat((v, torch.ones_like(v[..., :1])), -1)
    o = (q @ k.transpose(-1, -2)).tril() @ v + q @ before(k.transpose(-1, -2) @ v)
    return (o[..., :-1] / o[..., -1:]).flatten(2, 3)


def mlstm(q, k, v, gates, tables):
    """S_t = f_t S_{t-1} + i_t k v', log i_t and log f_t relative to their running
    maximum m, which has no gradient; o = q S / max(|q n|, 1). All chunks are made at
    once but for the states between them."""
    k = k / math.sqrt(k.shape[-1])
    log_i, log_f = (in_chunks(g[..., None])[..., 0] for g in gates)
    q, k, v = in_chunks(q), in_chunks(k), in_chunks(v)
    v = torch.cat((v, torch.ones_like(v[..., :1])), -1)
    run = F.logsigmoid(log_f).cumsum(-1)
    end = run[..., -1:]
    to_end = end - run + log_i
    within = run[..., :, None] - run[..., None, :] + log_i[..., None, :]
    within = within.masked_fill(torch.ones_like(within, dtype=torch.bool).triu(1),
                                -math.inf)
    with torch.no_grad():
        m = [torch.full_like(end[:, :, 0], -1e4)]
        for last, most in zip(end.unbind(2), to_end.amax(-1, keepdim=True).unbind(2)):
            m.append(torch.maximum(most, last + m[-1]))
        m = torch.stack(m, 2)
        m, next_m = m[:, :, :-1], m[:, :, 1:]
        top = torch.maximum(within.amax(-1), run + m)
    added = (k * (to_end - next_m).exp()[..., None]).transpose(-1, -2) @ v
    S = [torch.zeros_like(added[:, :, 0])]
    for keep, add in zip((end + m - next_m).exp()[..., None].unbind(2), added.unbind(2)):
        S.append(keep * S[-1] + add)
    p = (q @ k.transpose(-1, -2)) * (within - top[..., None]).exp()
    o = p @ v + (run + m - top).exp()[..., None] * (q @ torch.stack(S[:-1], 2))
    least = torch.maximum(o[..., -1:].abs(), (-top).exp()[..., None])
    return (o[..., :-1] / least).flatten(2, 3)


MIXERS = {"softmax": softmax, "linear": linear, "mlstm": mlstm}


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


class Block(nn.Module):
    def __init__(self, width, heads, mixer, norm):
        super().__init__()
        self.heads, self.mixer = heads, mixer
        self.hidden = (8 * width // 3 + 63) // 64 * 64
        self.gates = 2 * heads if mixer is mlstm else 0
        self.qkv = nn.Linear(width, 3 * width + self.gates, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 2 * self.hidden, bias=False)
        self.down = nn.Linear(self.hidden, width, bias=False)
        self.norm1, self.norm2 = norm(width), norm(width)

    def forward(self, x, tables):
        B, T, C = x.shape
        y, gates = self.qkv(self.norm1(x)).split((3 * C, self.gates), -1)
        q, k, v = y.view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        gates = gates.view(B, T, 2, -1).permute(2, 0, 3, 1)
        o = self.mixer(q, k, v, gates, tables)
        x = x + self.out(o.transpose(1, 2).reshape(B, T, C))
        gate, up = self.up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, layers, width, heads, vocab, context, mixer, norm):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width, heads, mixer, norm)
                                    for _ in range(layers))
        self.norm = norm(width)
        half = width // heads // 2
        angle = torch.outer(torch.arange(context), 1e4 ** (-torch.arange(half) / half))
        mask = torch.full((context, context), -math.inf).triu(1)
        self.tables = angle.cos(), angle.sin(), mask if mixer is softmax else None
        nn.init.normal_(self.embed.weight, std=width ** -0.5)

    def forward(self, ids, targets):
        x = self.embed(ids)
        for b in self.blocks:
            x = b(x, self.tables)
        logits = F.linear(self.norm(x), self.embed.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("shape", choices=SHAPES)
    p.add_argument("--arch", choices=MIXERS, default="softmax")
    p.add_argument("--norm", choices=("rms", "layer"), default="layer",
                   help="LayerNorm is one kernel of PyTorch's, RMSNorm several")
    p.add_argument("--steps", type=int, default=5, help="to time; the best counts")
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()

    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    layers, width, heads, vocab, context, batch = SHAPES[a.shape]
    norm = RMSNorm if a.norm == "rms" else nn.LayerNorm
    model = Model(layers, width, heads, vocab, context, MIXERS[a.arch], norm)
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95))
    ids = torch.randint(vocab, (batch, context + 1))
    best = math.inf
    for _ in range(a.steps + 1):        # the first warms up: best leaves it out
        start = time.monotonic()
        adamw.zero_grad(set_to_none=True)
        loss = model(ids[:, :-1], ids[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
        best = min(best, time.monotonic() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"shape": a.shape, "arch": a.arch, "norm": a.norm,
                      "params": sum(q.numel() for q in model.parameters()),
                      "tok_s": round(batch * context / best), "mib": round(peak),
                      "loss": round(loss.item(), 4), "torch": torch.__version__}))


if __name__ == "__main__":
    main()
