# weft
#
#   make              build/release/bin/weft (and weft-train, weft-infer beside it)
#   make demo         install what is missing, build, train on built-in stories, let it write
#   make compare-demo eight architectures on the stories at equal compute, in a quarter of an hour
#   make test         install what is missing, build, run every test; what failed is said last
#   make test-mixer M=foo   what every mixer must hold, for one of them, in seconds
#   make test-cpus    MODE=portable's program on emulated CPUs, kernels on aarch64; with qemu
#   make test-serve   the server under load for ten minutes, then 10,000 broken requests (Python)
#   make fuzz T=600   every reader under libFuzzer, ten minutes each; needs clang
#   make test-page    the page of weft serve in chromium without a window; says when that is missing
#   make check        the tests again under AddressSanitizer and UBSan, and MODE=tiny's
#   make test-mpi     the same bits on 1, 2, 4 and 8 ranks; needs libopenmpi-dev and openmpi-bin
#   make race         threads under ThreadSanitizer and Archer, which knows OpenMP; needs clang
#   make memcheck     the small suites under valgrind
#   make tidy         clang-tidy and cppcheck over the source; says when one is missing
#   make coverage     the share of lines that make test runs, by room
#   make mutate       break the source in N=160 places, one at a time: do the tests notice?
#   make faults       every call, allocation and bit that can go wrong, tried; minutes
#   make deps         install what is missing; silent when all is there
#   make layers       fail when an include goes the wrong way
#   make format       indentation and blanks by .clang-format; make format-check only names the lines
#   make recording    docs/recording.svg: a real session in a terminal of 80 columns
#   make compile_commands.json   how each file is compiled, for editors
#   make lib          build/release/lib: libweft.so, libweft.a, weft.h, weft.py
#   make install      copy weft, its man page and completion, and the library below PREFIX
#                     (default /usr/local)
#   make uninstall    remove them
#   make deb          a Debian package for any x86-64, in build/deb; with dpkg-dev
#   make clean        remove build/
#   make help         this text
#
#   MODE=release      -O3 for this machine (the default)
#   MODE=debug        -O0 -g
#   MODE=asan         AddressSanitizer and UBSan
#   MODE=double       every real is a double: for the golden vectors and finite differences
#   MODE=race         ThreadSanitizer
#   MODE=coverage     counts the lines that run, for gcov
#   MODE=portable     one program for every x86-64: the CPU it runs on chooses its level
#   MODE=tiny         double, with the smallest chunks and tiles: nine tokens cross every seam
#   MPI=1             with MPI (see docs/ranks.md), in build/release-mpi
#   MARCH=x86-64-v3   build for another machine than this one
#   CC=clang CXX=clang++   another compiler
#   SERVE=0           without weft serve and its libmicrohttpd
#   V=1               show the commands
#
# Another MODE has its own directory; another MARCH, compiler or flag compiles everything
# again.

VERSION := 0.2.0

MODE   ?= release
MARCH  ?= native
PREFIX ?= /usr/local
SERVE  ?= 1
CC     ?= cc
CXX    ?= c++

# MODE=portable is all of weft once for each of these, in directories below its own.
LEVELS := v2 v3 v4 v4-bf16 v4-amx
LEVEL  ?=
O      := build/$(MODE)$(if $(MPI),-mpi)$(LEVEL:%=/%)

# As many jobs as there are cores, unless -j says otherwise; a make below this one shares
# them.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

Q      := $(if $(V),,@)

# No -ffast-math: NaN checks and -INFINITY masks must keep their meaning. These three
# change neither; they let the compiler vectorise and fuse multiply with add.
MATH := -fno-math-errno -fno-trapping-math -ffp-contract=fast

# For some processors gcc leaves a chain of multiply-adds unfused where it is alone in its
# loop, so that a row summed alone would differ in its last bit from the same row in a
# tile.
MATH += $(shell $(CC) -Werror --param=avoid-fma-max-bits=0 -x c -fsyntax-only /dev/null 2>/dev/null && \
          echo --param=avoid-fma-max-bits=0)

OPT.release := -O3 -march=$(MARCH)
BF16        := -mavx512vnni -mavx512bf16
MORE.v4-bf16 := v4 $(BF16)
MORE.v4-amx  := v4 $(BF16) -mamx-tile -mamx-bf16
OPT.portable := -O3 $(if $(LEVEL),-march=x86-64-$(or $(MORE.$(LEVEL)),$(LEVEL)))
OPT.debug   := -O0 -g
OPT.asan    := -O2 -g -march=$(MARCH) -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
OPT.fuzz    := -O1 -g -march=$(MARCH) -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined -Wno-pass-failed
OPT.double  := -O2 -march=$(MARCH) -DWEFT_DOUBLE
OPT.tiny    := $(OPT.double) -DWEFT_TINY
OPT.race    := -O1 -g -march=$(MARCH) -fsanitize=thread
OPT.coverage := -O1 -march=$(MARCH) --coverage
OPT         := $(OPT.$(MODE))
$(if $(OPT),,$(error MODE=$(MODE) is none of release, portable, debug, asan, double, \
  tiny, fuzz, race, coverage))

# OpenBLAS in its openmp flavour (products=openblas loads it), by its own directory: the
# alternatives may prefer another.
OPENBLAS ?= $(firstword $(wildcard $(addsuffix /libopenblas.so.0,/usr/lib/*/openblas-openmp \
              /usr/lib/openblas-openmp)))

# A position of its own, nothing writable that need not be, and a canary on every stack
# frame with an array; libc's checks where there is an optimiser to place them.
HARD      := -fstack-protector-strong
HARDLINK  := -pie -Wl,-z,relro,-z,now
FORTIFY   := $(if $(filter release portable,$(MODE)),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)

WARN     := -Wall -Wextra -Wshadow -Wpointer-arith -Wvla -Wno-missing-field-initializers
CWARN    := $(WARN) -Wstrict-prototypes -Wmissing-prototypes
CPPFLAGS := -I. -I$O -MMD -MP -D_GNU_SOURCE $(FORTIFY)
SHARED   := -fPIC -fvisibility=hidden
CFLAGS   := -std=c11 -g $(OPT) $(HARD) $(MATH) -fopenmp $(SHARED)
# The constructors of a level run on every CPU, and no level may share what is unique; nor
# may the library be seen to have it.
UNIQUE   := $(shell $(CXX) -fno-gnu-unique -x c++ -fsyntax-only /dev/null 2>/dev/null \
              && echo -fno-gnu-unique)
CXXFLAGS := -std=c++17 -g $(if $(LEVEL),-O3,$(OPT)) $(UNIQUE) $(HARD) -fopenmp $(SHARED)
LIBS     := -lsentencepiece -lsentencepiece_train -lzstd -ljansson -lxxhash -lpthread -lm
LDLIBS   := $(LIBS)
ifeq ($(SERVE),0)
CPPFLAGS += -DWEFT_NO_SERVE
SERVER   := infer/serve/none/*.c infer/serve/serve_verb.c
else
LDLIBS   += -lmicrohttpd
SERVER   := infer/serve/*.c
endif

# Open MPI's, MPICH's, or what the alternatives prefer.
MPIPC := $(if $(MPI),$(firstword $(foreach p,ompi-c mpich mpi-c,$(shell pkg-config --exists $p && echo $p))))
$(if $(MPI),$(if $(MPIPC),,$(error MPI=1 needs MPI: apt-get install libopenmpi-dev openmpi-bin)))
CPPFLAGS += $(if $(MPI),-DWEFT_MPI $(shell pkg-config --cflags $(MPIPC)))
LDLIBS   += $(if $(MPI),$(shell pkg-config --libs $(MPIPC)))

LIB   := $(wildcard tokenizer/*.cc $(SERVER) \
           $(foreach d,tokenizer data data/* model model/* infer train,$d/*.c))
TOOL  := $(wildcard tools/*.c tools/*/*.c tools/*/*/*.c)
TESTS := $(wildcard tests/*/test_*.c)
TESTS := $(if $(filter 0,$(SERVE)),$(filter-out tests/serve/%,$(TESTS)),$(TESTS))
RIG   := $(wildcard tests/support/*.c)
FUZZ  := $(filter-out tests/fuzz/test_%,$(wildcard tests/fuzz/*.c))

STARTO := $O/tools/start.c.o
MAINO := $O/tools/main.c.o
LIBO  := $(filter-out $(STARTO) $(MAINO),$(LIB:%=$O/%.o) $(TOOL:%=$O/%.o))
RIGO  := $(RIG:%=$O/%.o)
FUZZO := $(FUZZ:%=$O/%.o)
TESTX := $(TESTS:tests/%.c=$O/tests/%)

C      = $(CC) $(CPPFLAGS) $(CFLAGS) $(CWARN)
CPLUS := $(CXX) $(CPPFLAGS) $(CXXFLAGS) $(WARN)
LINK  := $(CXX) $(OPT) $(HARDLINK) -fopenmp
HOW   := $C

all: $O/bin/weft

# What tools/start.c chooses from: weft, or weft of each level.
ifeq ($(MODE)$(LEVEL),portable)
PROGRAM := $(LEVELS:%=$O/%/weft.o)
CHOICE  := $(patsubst %,X(_%),$(subst -,_,$(LEVELS)))
else
PROGRAM := $(MAINO) $O/weft.a
CHOICE  := X()
endif

$O/bin/weft: $(STARTO) $(PROGRAM) $O/how
	@mkdir -p $(@D)
	@echo "  link $@"
	$Q$(LINK) -o $@ $(filter-out %/how,$^) $(LDLIBS)
	@ln -sf weft $(@D)/weft-train
	@ln -sf weft $(@D)/weft-infer

$O/tests/%: $O/tests/%.c.o $(RIGO) $O/weft.a $O/how
	@mkdir -p $(@D)
	@echo "  link $@"
	$Q$(LINK) -o $@ $(filter %.o,$^) $O/weft.a $(LDLIBS) $(shell pkg-config --libs check)
$O/tests/fuzz/test_fuzz: $(FUZZO)

# All of a level in one object, with a single name for the others to see. Groups of
# sections are resolved here: the linker would take the first level's for all.
$(filter %/weft.o,$(PROGRAM)): $O/%/weft.o: FORCE
	@$(MAKE) --no-print-directory MODE=$(MODE) LEVEL=$* $@
$(if $(LEVEL),$O/weft.o): $(MAINO) $O/weft.a
	@echo "  ld $@"
	$Qld -r --force-group-allocation -o $@.whole $^
	$Qobjcopy --redefine-sym weft_level=weft_level_$(subst -,_,$(LEVEL)) $@.whole
	$Qobjcopy --keep-global-symbol=weft_level_$(subst -,_,$(LEVEL)) $@.whole $@
	@rm $@.whole

# Compiled for any CPU, to say what this one lacks.
$(STARTO): CFLAGS := -std=c11 -g -O2
$(STARTO): CPPFLAGS += -D'LEVELS(X)=$(CHOICE)'

# All but main(), under the program and under every test; made anew so that no object of a
# file that is gone stays in it.
$O/weft.a: $(LIBO)
	@echo "  ar $@"
	@rm -f $@
	$Qar rcs $@ $^

# The library: one object in which only weft_* can be seen from outside, shared and
# static. Verbs and the server stay out.
API  := $(wildcard tools/api/*.c)
APIO := $(filter-out %_verb.c.o $O/infer/serve/% $O/data/base/cli.c.o \
          $O/train/report.c.o $O/train/progress.c.o,$(LIB:%=$O/%.o)) $(API:%=$O/%.o)

lib: $O/lib/libweft.so.0 $O/lib/libweft.a $O/lib/weft.pc

$O/lib/weft.o: $(APIO) Makefile
	@mkdir -p $(@D)
	@echo "  ld $@"
	$Qld -r -d -o $@ $(filter %.o,$^)
	$Qobjcopy --wildcard --keep-global-symbol='weft_*' $@

$O/lib/libweft.a: $O/lib/weft.o
	@rm -f $@
	$Qar rcs $@ $<

$O/lib/libweft.so.0: $O/lib/weft.o tools/api/weft.map $O/how
	@echo "  link $@"
	$Q$(filter-out -pie,$(LINK)) -shared -Wl,-soname,libweft.so.0 -Wl,--version-script=tools/api/weft.map \
	  -Wl,-z,defs -o $@ $< $(LIBS)
	@ln -sf libweft.so.0 $(@D)/libweft.so
	@ln -sf $(CURDIR)/tools/api/weft.h $(CURDIR)/tools/api/weft.py $(@D)

$O/lib/weft.pc: tools/api/weft.pc.in FORCE
	@mkdir -p $(@D)
	@sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|; s|@LIBS@|$(LIBS)$(if $(filter coverage,$(MODE)), -lgcov)|' $< > $@

$O/%.c.o: %.c $O/how
	@mkdir -p $(@D)
	@echo "  cc $<"
	$Q$C -c -o $@ $<

$O/%.cc.o: %.cc $O/how
	@mkdir -p $(@D)
	@echo "  c++ $<"
	$Q$(CPLUS) -c -o $@ $<

$O/model/kernels/gemm_openblas.c.o: CPPFLAGS += $(if $(OPENBLAS),-DOPENBLAS='"$(OPENBLAS)"')

# Write the lines $1 to $@ where they differ from what it holds: what depends on it is
# then made again only when they change.
write_new = mkdir -p $(@D); printf '%s\n' $1 | cmp -s - $@ || printf '%s\n' $1 > $@

# How everything is compiled and linked, and by which compiler.
$O/how: FORCE
	@$(call write_new,'$(HOW)' '$(CPLUS)' '$(LINK) $(LDLIBS)' "$$($(CC) --version)" \
	  $(if $(filter portable,$(MODE)$(LEVEL)),'$(CHOICE)'))

# The version, the commit where this is a checkout, and the flags, for all that is
# written: only this object is compiled again when they change.
COMMIT := $(if $(wildcard .git),$(shell git describe --always --dirty --exclude '*' 2>/dev/null))
bare    = $(subst \,,$(subst ",,$(strip $1)))
$O/data/base/version.c.o: $O/data/base/version.inc
$O/data/base/version.inc: FORCE
	@$(call write_new,'#define NUMBER "$(VERSION)"' '#define COMMIT "$(COMMIT)"' \
	  '#define OF_COMMIT "$(if $(COMMIT), ($(COMMIT)))"' '#define FLAGS "$(call bare,$(CFLAGS))"')

# The presets are compiled in: one C string per train/configs/*.cfg.
$O/train/presets.c.o: $O/train/configs.inc
$O/train/configs.inc: $(wildcard train/configs/*.cfg)
	@mkdir -p $(@D)
	$Qfor f in $^; do printf '{"%s",\n' "$$(basename $$f .cfg)"; \
	  sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/' $$f; echo '},'; done > $@

# The page is compiled in: one C string per file of infer/serve/page.
$O/infer/serve/page.c.o: $O/infer/serve/page.inc
$O/infer/serve/page.inc: $(wildcard infer/serve/page/*)
	@mkdir -p $(@D)
	$Qfor f in $^; do printf '{"%s",\n' "$$(basename $$f)"; \
	  sed 's/\\/\\\\/g; s/"/\\"/g; s/?/\\?/g; s/.*/"&\\n"/' $$f; \
	  printf ', %s},\n' "$$(wc -c < $$f) + 1"; done > $@

# What opens each mixer's file is what `weft info --arch NAME` prints, as one C string.
$O/tools/arch.c.o: $O/tools/notes.inc
$O/tools/notes.inc: $(wildcard model/mixers/*.c)
	@mkdir -p $(@D)
	$Qfor f in $^; do printf '{"%s",\n' "$$(basename $$f .c)"; \
	  sed -n '/\*\//q; s/^\/\* //; s/^ \* \{0,1\}//; s/ᵀ/'"'"'/g; s/²/^2/g; s/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/p' $$f; \
	  echo '},'; done > $@

# ---- tests -----------------------------------------------------------------------------

# Every program and script, and the numerical ones again in double precision; in
# MODE=tiny, those that cross seams of chunks and tiles. They run beside each other, long
# ones first, on one thread where a test does not set more.
ONE    := test_mixers test_gradients test_golden test_sizes test_init test_flops
EXTRA  := $(patsubst %,template-%,$(filter-out test_golden,$(ONE)))
LONG   := test_lab test_compare resume.sh wrong.sh
ALL    := layers $(LONG) $(filter-out $(LONG),$(notdir $(TESTS:.c=) $(wildcard tests/*/*.sh))) \
          $(EXTRA)
DOUBLE := test_gradients test_mixers test_golden test_systems test_scalar test_linear_attention \
          test_vector test_delta test_scan test_softmax test_rela test_srope test_numeric \
          test_products test_pass test_oracles test_icl test_muon template-test_mixers \
          template-test_gradients
TINY   := test_gradients test_mixers test_golden test_scalar test_vector test_delta test_scan \
          test_softmax test_products
BESIDE := OMP_NUM_THREADS=1 OMP_PROC_BIND=false OMP_WAIT_POLICY=passive CK_TIMEOUT_MULTIPLIER=4

# Make these targets below, whatever fails; then say what came of them.
all_of = began=$$(date +%s); rm -rf build/*/results; $(1) -k --no-print-directory $(2); \
         tests/summary.sh $$began build/*/results

test: deps
	@$(call all_of,$(MAKE),test-all $(if $(filter double,$(MODE)),,test-double))

check: deps
	@$(call all_of,$(MAKE),test-asan test-tiny)

# Two threads everywhere. What the system's libraries do among themselves is not looked at.
RACE := test_session test_trainer test_loader test_pass test_serve test_products test_softmax
race: deps
	@command -v clang > /dev/null && archer=$$(ls /usr/lib/llvm-*/lib/libarcher.so 2> /dev/null | \
	    tail -n 1) && [ "$$archer" ] || \
	  { echo "make race: skipped: it needs clang and libomp-dev"; exit 0; }; \
	export OMP_TOOL_LIBRARIES=$$archer; \
	export TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions=$(CURDIR)/tests/race.supp; \
	$(call all_of,$(MAKE) MODE=race CC=clang CXX=clang++ \
	    BESIDE='OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive CK_TIMEOUT_MULTIPLIER=20' \
	    SUITES='$(RACE)',suites)

# MODE=debug: valgrind does not know every instruction of this machine.
SMALL := test_rng test_cli test_files test_live test_text test_config
memcheck: deps
	@command -v valgrind > /dev/null || \
	  { echo "make memcheck: skipped: it needs valgrind"; exit 0; }; \
	$(call all_of,$(MAKE) MODE=debug SUITES='$(SMALL)' \
	    UNDER='valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite',suites)

# By .clang-tidy and tests/cppcheck.supp. A file is looked at again when its object has
# changed, or the settings.
TIDY  = $(filter-out -MMD -MP,$(CPPFLAGS)) -std=c11 -fopenmp -march=$(MARCH) \
        -Xclang -analyzer-config -Xclang max-nodes=30000
tidy: deps
	@if command -v clang-tidy > /dev/null; then \
	  $(MAKE) -ks --no-print-directory MODE=$(MODE) $(filter %.c,$(LIB:%=$O/tidy/%) $(TOOL:%=$O/tidy/%)) && \
	  echo "make tidy: clang-tidy finds nothing in $(words $(filter %.c,$(LIB) $(TOOL))) files"; \
	else echo "make tidy: clang-tidy is skipped: it is not installed"; fi
	@if command -v cppcheck > /dev/null; then \
	  mkdir -p $O/tidy/cppcheck && cppcheck -q -j $(shell nproc) --std=c11 --error-exitcode=1 \
	    --enable=warning,performance,portability --inline-suppr -I. -I$O -D_GNU_SOURCE -D__x86_64__ '-DLEVELS(X)=' \
	    --suppressions-list=tests/cppcheck.supp --cppcheck-build-dir=$O/tidy/cppcheck \
	    $(filter %.c,$(LIB) $(TOOL)) && \
	  echo "make tidy: cppcheck finds nothing in $(words $(filter %.c,$(LIB) $(TOOL))) files"; \
	else echo "make tidy: cppcheck is skipped: it is not installed"; fi
$O/tidy/tools/start.c: CPPFLAGS += -D'LEVELS(X)=$(CHOICE)'
$O/tidy/%.c: $O/%.c.o .clang-tidy
	@mkdir -p $(@D)
	@echo "  tidy $*.c"
	$Qclang-tidy --quiet $*.c -- $(TIDY) 2> $@.err || { grep -v ' warnings generated' $@.err; exit 1; }
	@mv $@.err $@

# A program that was killed has not counted: what only kill -9 runs is missing. Nor may the
# length of files be limited: the counts would be cut.
coverage: deps
	@find build/coverage -name '*.gcda' -delete 2> /dev/null; \
	$(call all_of,$(MAKE),test-coverage); passed=$$?; \
	tests/coverage.sh build/coverage && exit $$passed
test-coverage: ; @$(MAKE) MODE=coverage SUITES='$(filter-out limits.sh,$(ALL))' suites

N    ?= 160
SEED ?= 1
mutate: deps
	@command -v python3 > /dev/null || { echo "make mutate: skipped: there is no python3"; exit 0; }; \
	$(MAKE) MODE=$(MODE) SUITES='$(filter-out layers template-%,$(ALL))' suites > /dev/null && \
	$(MAKE) MODE=double SUITES='$(filter-out template-%,$(DOUBLE))' suites > /dev/null && \
	python3 tests/mutate.py $N $(SEED) $(or $(TIME_LIMIT),3000) $O build/double $(if $(ONLY),--only $(ONLY))

test-cpus: deps
	@$(MAKE) MODE=portable all
	@MAKE='$(MAKE)' tests/cpus.sh

# TIME=20 BROKEN=500: a short one.
TIME   ?= 600
BROKEN ?= 10000
test-serve: $O/bin/weft
	@command -v python3 > /dev/null || { echo "make test-serve: skipped: there is no python3"; exit 0; }; \
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	$O/bin/weft data stories --bytes 300k --out $$dir/stories.txt 2> /dev/null && \
	$O/bin/weft train $$dir/stories.txt --size nano --steps 20 --out $$dir/run > /dev/null 2>&1 && \
	python3 tests/serve/load.py $O/bin/weft $$dir/run $(TIME) $(BROKEN)

# Every reader under libFuzzer, T seconds each (F=NAME...: only these), as many beside each
# other as there are cores. MODE=fuzz is clang's.
T ?= 600
fuzz: deps
	@$(if $(shell command -v clang),,echo "make fuzz: skipped: it needs clang:" \
	  "apt-get install clang libclang-rt-14-dev libomp-14-dev"; exit 0;) \
	$(MAKE) MODE=fuzz CC=clang CXX=clang++ build/fuzz/bin/fuzz && \
	tests/fuzz.sh build/fuzz/bin/fuzz $(T) $(F)

# The products read no file, and take minutes to compile when every access is checked.
ifeq ($(MODE),fuzz)
$O/model/kernels/gemm.c.o: CFLAGS := $(filter-out -fsanitize=%,$(CFLAGS))
endif

$O/bin/fuzz: $(FUZZO) $O/weft.a $O/how
	@mkdir -p $(@D)
	@echo "  link $@"
	$Q$(LINK) -fsanitize=fuzzer -o $@ $(filter-out %/how,$^) $(LDLIBS)

test-mixer: deps
	@grep -q 'X($M)' model/mixer.h || \
	  { echo "make test-mixer M=NAME: '$M' is not in MIXERS of model/mixer.h"; exit 2; }
	@export WEFT_MIXER='$M'; $(call all_of,$(MAKE),one-release one-double)

# Not part of make test: it needs MPI, which make deps does not install.
test-mpi:
	@if pkg-config --exists mpi-c ompi-c || pkg-config --exists mpich; then \
	   $(MAKE) MPI=1 build/release-mpi/bin/weft && \
	   $(MAKE) MPI=1 MODE=portable LEVELS="v2 v3" build/portable-mpi/bin/weft && \
	   WEFT=build/release-mpi/bin/weft PORTABLE=build/portable-mpi/bin/weft \
	     sh tests/ranks.sh; \
	 else echo "test-mpi: skipped: no MPI here; apt-get install libopenmpi-dev openmpi-bin"; fi

.PHONY: test-page
test-page: $O/bin/weft
	@command -v python3 > /dev/null || { echo "test-page: skipped, there is no python3"; exit 0; }; \
	WEFT=$O/bin/weft python3 tests/page/page.py

test-all:    ; @$(MAKE) MODE=$(MODE) SUITES='$(ALL)' suites
test-double: ; @$(MAKE) MODE=double SUITES='$(DOUBLE)' suites
test-tiny:   ; @$(MAKE) MODE=tiny SUITES='$(TINY)' suites
test-asan:   ; @ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
                 $(MAKE) MODE=asan SUITES='$(ALL)' suites
one-release: ; @$(MAKE) MODE=release SUITES='$(ONE)' suites
one-double:  ; @$(MAKE) MODE=double SUITES='$(wordlist 1,3,$(ONE))' suites

# Every system call, allocation and bit that can go wrong: tests/faults/faults.sh. KILLS=200 kills
# at random so often; their number adds up in build/faults.tally.
FAULTY := $O/tests/faults/preload.so $O/tests/faults/replay
.PHONY: faults
faults: deps
	@$(MAKE) --no-print-directory MODE=$(MODE) $O/bin/weft $(FAULTY)
	@WEFT=$O/bin/weft LIB=$O/tests/faults sh tests/faults/faults.sh all
$O/tests/faults/preload.so: tests/faults/preload.c
	@mkdir -p $(@D)
	@echo "  cc $<"
	$Q$(CC) -std=c11 -O1 -g -Wall -Wextra -fPIC -shared -o $@ $< -ldl
$O/tests/faults/replay: tests/faults/replay.c
	@mkdir -p $(@D)
	@echo "  cc $<"
	$Q$(CC) -std=gnu11 -O1 -g -Wall -Wextra -o $@ $<

# A suite that is not built leaves its result empty.
suites: $(SUITES:%=run-%)
$(SUITES:%=run-%): | expected
expected: ; @mkdir -p $O/results; touch $(SUITES:%=$O/results/%.ran)

define run_program
run-$(notdir $(1:.c=)): $O/$(1:.c=)
	@tests/run.sh $O/results/$(notdir $(1:.c=)) $$< env $(BESIDE) $(UNDER) $$<
endef
define run_script
run-$(notdir $1): $1 $O/bin/weft $(if $(findstring tests/api,$1),lib) \
                  $(if $(findstring tests/faults,$1),$(FAULTY))
	@tests/run.sh $O/results/$(notdir $1) $$< env WEFT=$O/bin/weft LIB=$O/tests/faults sh $$<
endef
$(foreach t,$(TESTS),$(eval $(call run_program,$t)))
$(foreach t,$(wildcard tests/*/*.sh),$(eval $(call run_script,$t)))

# The template of docs/ as one mixer more, at the head of MIXERS: what expands that list
# is compiled again beside it, and the harness runs for it.
E      := $O/template
EXTRAO := $E/docs/template-mixer.c.o $E/model/mixer.c.o $E/train/presets.c.o

$E/model/mixer.h: model/mixer.h
	@mkdir -p $(@D)
	$Qsed 's/define MIXERS(X)/& X(template)/' $< > $@
$E/%.c.o: %.c $E/model/mixer.h $O/train/configs.inc $O/how
	@mkdir -p $(@D)
	@echo "  cc $< (template)"
	$Q$(CC) -I$E $(CPPFLAGS) $(CFLAGS) $(CWARN) -c -o $@ $<
$E/test_%: $O/tests/model/test_%.c.o $(EXTRAO) $(RIGO) $O/weft.a
	@echo "  link $@"
	$Q$(LINK) -o $@ $^ $(LDLIBS) $(shell pkg-config --libs check)
$(EXTRA:%=run-%): run-template-%: $E/%
	@tests/run.sh $O/results/template-$* $< env WEFT_MIXER=template $(BESIDE) $<

run-layers:
	@tests/run.sh $O/results/layers $@ tools/layers.sh

# data/base < tokenizer < data < model < infer < infer/serve < train < tools, and inside
# model/: kernels < layers < cores < mixer.h < mixers, positions < block < model < files.
# Includes go left only.
layers:
	@tools/layers.sh

# Needs clang-format and Python, which nothing else here does.
ROOMS := $(sort $(dir $(LIB) $(TOOL) $(RIG) $(FUZZ) $(TESTS)) docs/)
format format-check:
	@if ! command -v clang-format > /dev/null || ! command -v python3 > /dev/null; then \
	  echo "make $@ is skipped: it needs clang-format and python3"; \
	else tools/format.py $(if $(filter %-check,$@),--check) \
	  $(wildcard $(addsuffix *.[ch],$(ROOMS)) $(addsuffix *.cc,$(ROOMS))); fi

# ---- the first minutes -----------------------------------------------------------------

# What needs the libraries is parsed after they are there.
demo: deps
	@$(MAKE) -s --no-print-directory MODE=$(MODE) all
	@WEFT=$O/bin/weft tools/demo.sh

# Three seeds of each; an interrupted demo goes on when it is called again.
DEMO_ARCHS := softmax,linear,gla,mlstm,swax,metala,deltanet,ssd
compare-demo: deps
	@$(MAKE) -s --no-print-directory MODE=$(MODE) all
	@mkdir -p runs
	@[ -e runs/stories.txt ] || $O/bin/weft data stories --bytes 3M --out runs/stories.txt
	$O/bin/weft compare runs/stories.txt --arch $(DEMO_ARCHS) --size nano --flops 2e12 \
	  --seeds 3 --out runs/compare-demo

recording: $O/bin/weft
	@mkdir -p docs
	WEFT=$O/bin/weft tools/recording.sh docs/recording.svg

# ---- setting up ------------------------------------------------------------------------

DEBIAN := gcc g++ make pkg-config libopenblas0-openmp libsentencepiece-dev libzstd-dev \
          libjansson-dev libxxhash-dev $(if $(filter 0,$(SERVE)),,libmicrohttpd-dev) check

# Silent when everything is there. Only Debian and Ubuntu are installed on; others are
# told how.
deps:
	@tools/deps.sh $(DEBIAN)

BINARIES   := $(addprefix $(DESTDIR)$(PREFIX)/bin/,weft weft-train weft-infer)
SHARE      := $(DESTDIR)$(PREFIX)/share
MAN        := $(SHARE)/man/man1
COMPLETION := $(SHARE)/bash-completion/completions/weft $(SHARE)/zsh/site-functions/_weft \
              $(SHARE)/fish/vendor_completions.d/weft.fish

HEADER     := $(DESTDIR)$(PREFIX)/include/weft.h
LIBRARY    := $(DESTDIR)$(PREFIX)/lib
PYTHON     := $(DESTDIR)$(PREFIX)/share/weft/weft.py
LIBRARIES  := $(addprefix $(LIBRARY)/,libweft.so.0 libweft.so libweft.a pkgconfig/weft.pc)

install: $O/bin/weft lib
	install -d $(dir $(firstword $(BINARIES))) $(MAN) $(dir $(COMPLETION)) \
	  $(dir $(HEADER)) $(dir $(PYTHON)) $(LIBRARY)/pkgconfig
	install $O/bin/weft $(firstword $(BINARIES))
	for f in $(wordlist 2,3,$(BINARIES)); do ln -sf weft $$f; done
	tools/manpages.sh $O/bin/weft $(MAN)
	install -m 644 tools/weft.bash $(word 1,$(COMPLETION))
	install -m 644 tools/weft.zsh $(word 2,$(COMPLETION))
	install -m 644 tools/weft.fish $(word 3,$(COMPLETION))
	install -m 644 tools/api/weft.h $(HEADER)
	install -m 644 tools/api/weft.py $(PYTHON)
	install -m 755 $O/lib/libweft.so.0 $(LIBRARY)
	ln -sf libweft.so.0 $(LIBRARY)/libweft.so
	install -m 644 $O/lib/libweft.a $(LIBRARY)
	install -m 644 $O/lib/weft.pc $(LIBRARY)/pkgconfig

uninstall:
	rm -f $(BINARIES) $(MAN)/weft.1 $(MAN)/weft-*.1 $(COMPLETION) $(HEADER) $(PYTHON) $(LIBRARIES)

deb: deps
	@$(MAKE) -s --no-print-directory MODE=portable all
	@tools/deb.sh build/portable/bin/weft build/deb

clean:
	rm -rf build compile_commands.json

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

# The commands of the rules above, in the form that editors read.
SOURCES := $(LIB) $(TOOL) $(RIG) $(FUZZ) $(TESTS)
compile_commands.json: $O/data/base/version.inc $O/train/configs.inc $O/tools/notes.inc \
                       $O/infer/serve/page.inc FORCE
	$Q{ sep='['; for f in $(SOURCES); do \
	  case $$f in *.cc) how='$(CPLUS)';; *) how='$C';; esac; \
	  printf '%s\n  {"directory": "%s", "file": "%s", "command": "%s -c -o %s %s"}' \
	    "$$sep" '$(CURDIR)' $$f "$$how" $O/$$f.o $$f; sep=,; done; echo; echo ']'; } > $@

.PHONY: fuzz race memcheck tidy coverage test-coverage mutate test-mpi test-serve lib all demo \
        compare-demo recording test check test-cpus test-mixer test-all \
        test-double test-tiny test-asan \
        one-release one-double suites expected $(ALL:%=run-%) layers format format-check deps install uninstall deb clean help FORCE
.SECONDARY:
.DELETE_ON_ERROR:
-include $(patsubst %.o,%.d,$(EXTRAO) $(STARTO) $(MAINO) $(LIBO) $(RIGO) $(FUZZO) $(TESTX:%=%.c.o))
