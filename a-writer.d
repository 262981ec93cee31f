writer.o: infer/writer.c infer/writer.h infer/sampler.h \
 model/kernels/real.h infer/session.h model/pass.h model/layers/loss.h \
 model/model.h model/block.h model/mixer.h data/base/fail.h \
 data/base/rng.h model/kernels/range.h model/layers/rotate.h \
 model/mixer_memory.h model/kernels/arena.h model/config.h \
 tokenizer/tokenizer.h data/base/clock.h infer/prompt.h infer/stream.h
infer/writer.h:
infer/sampler.h:
model/kernels/real.h:
infer/session.h:
model/pass.h:
model/layers/loss.h:
model/model.h:
model/block.h:
model/mixer.h:
data/base/fail.h:
data/base/rng.h:
model/kernels/range.h:
model/layers/rotate.h:
model/mixer_memory.h:
model/kernels/arena.h:
model/config.h:
tokenizer/tokenizer.h:
data/base/clock.h:
infer/prompt.h:
infer/stream.h:
