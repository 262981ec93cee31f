loader.o: data/loader.c data/loader.h data/shard.h data/base/fail.h \
 data/base/rng.h
data/loader.h:
data/shard.h:
data/base/fail.h:
data/base/rng.h:
