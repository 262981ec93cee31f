adamw.o: train/adamw.c train/adamw.h model/model.h model/block.h \
 model/mixer.h data/base/fail.h data/base/rng.h model/kernels/range.h \
 model/kernels/real.h model/layers/rotate.h model/mixer_memory.h \
 model/kernels/arena.h model/config.h model/kernels/vmath.h train/muon.h
train/adamw.h:
model/model.h:
model/block.h:
model/mixer.h:
data/base/fail.h:
data/base/rng.h:
model/kernels/range.h:
model/kernels/real.h:
model/layers/rotate.h:
model/mixer_memory.h:
model/kernels/arena.h:
model/config.h:
model/kernels/vmath.h:
train/muon.h:
