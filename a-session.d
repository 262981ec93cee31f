session.o: infer/session.c infer/session.h model/pass.h \
 model/layers/loss.h model/kernels/real.h model/model.h model/block.h \
 model/mixer.h data/base/fail.h data/base/rng.h model/kernels/range.h \
 model/layers/rotate.h model/mixer_memory.h model/kernels/arena.h \
 model/config.h
infer/session.h:
model/pass.h:
model/layers/loss.h:
model/kernels/real.h:
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
