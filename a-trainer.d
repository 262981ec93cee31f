trainer.o: train/trainer.c train/trainer.h data/loader.h data/shard.h \
 data/base/fail.h model/pass.h model/layers/loss.h model/kernels/real.h \
 model/model.h model/block.h model/mixer.h data/base/rng.h \
 model/kernels/range.h model/layers/rotate.h model/mixer_memory.h \
 model/kernels/arena.h model/config.h train/adamw.h train/leaves.h \
 train/muon.h train/schedule.h train/shares.h data/base/clock.h \
 train/ranks.h
train/trainer.h:
data/loader.h:
data/shard.h:
data/base/fail.h:
model/pass.h:
model/layers/loss.h:
model/kernels/real.h:
model/model.h:
model/block.h:
model/mixer.h:
data/base/rng.h:
model/kernels/range.h:
model/layers/rotate.h:
model/mixer_memory.h:
model/kernels/arena.h:
model/config.h:
train/adamw.h:
train/leaves.h:
train/muon.h:
train/schedule.h:
train/shares.h:
data/base/clock.h:
train/ranks.h:
