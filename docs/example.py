"""python3 example.py runs/book "Once upon": two texts in step, token by token."""
import sys
import weft

model = weft.Model(sys.argv[1])
prompt = [model.eos] + model.tokenize(sys.argv[2])
session = model.session(slots=2)
samplers = [model.sampler(seed=seed) for seed in (5, 6)]
texts = [[], []]

logits = session.feed(prompt, slot=0)
session.copy(1, 0)
rows = [logits, logits]
for _ in range(20):
    ids = [sampler.pick(row) for sampler, row in zip(samplers, rows)]
    for text, token in zip(texts, ids):
        text.append(token)
    rows = session.step([0, 1], ids)
for text in texts:
    print(sys.argv[2] + model.detokenize(text).decode("utf-8", "replace"))
print(f"{sum(model.score(sys.argv[2])):.3f} nats")
