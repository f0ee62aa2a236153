# Benchmark binaries and the runs that compare them; included by the top Makefile.
#
#   make bench_random_mixed_hakmem           libhakmem.a of the standard variant
#   make bench_random_mixed_hakmem_minimal   ... of the fast variant
#   make bench_random_mixed_hakmem_observe   ... of the observe variant: never for speed figures
#   make bench_random_mixed_system           libc's malloc
#   make bench_random_mixed_mi               mimalloc
#   make perf_fast | perf_observe | perf_all
#   make bench-build                         all programs of bench/, into build/bench/, dynamically
#                                            linked: the allocator is preloaded
#
# They are linked statically. HAKMEM_FORCE_LIBC_ALLOC=1 needs libc's allocator beside ours, so a binary that
# takes both sides of that comparison is linked dynamically: make BENCH_LINK= bench_random_mixed_hakmem
#
# mimalloc is the peer: from the Rust crate libmimalloc-sys when cargo is there, else from Debian's
# libmimalloc-dev. Each binary says with --version what it is linked with.
BENCH_CC ?= $(CC)
BENCH_CFLAGS ?= -O2 -g
BENCH_WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Werror
BENCH_SOURCES := bench/random_mixed.c bench/allocator.c
BENCH_COMPILE = $(BENCH_CC) -std=gnu11 $(BENCH_CFLAGS) $(BENCH_WARNINGS)
# Static, all five alike: the dynamic linker's pages and system calls are not what is measured.
BENCH_LINK ?= -static
BENCH_HEADERS := $(wildcard bench/*.h)

ITERS ?= 20000000
WS ?= 400
RUNS ?= 10

# The library is asked for each time: ninja knows whether it is up to date.
.PHONY: bench-force
build/%/libhakmem.a: bench-force build/%/build.ninja
	@cmake --build build/$* --target hakmem_static

bench_random_mixed_hakmem: build/standard/libhakmem.a
bench_random_mixed_hakmem_minimal: build/fast/libhakmem.a
bench_random_mixed_hakmem_observe: build/observe/libhakmem.a
bench_random_mixed_hakmem bench_random_mixed_hakmem_minimal bench_random_mixed_hakmem_observe: \
  $(BENCH_SOURCES) $(BENCH_HEADERS)
	$(BENCH_COMPILE) -DBENCH_HAKMEM=1 -Iinclude $(BENCH_SOURCES) $(filter %.a,$^) $(BENCH_LINK) -pthread -o $@

bench_random_mixed_system: $(BENCH_SOURCES) $(BENCH_HEADERS)
	$(BENCH_COMPILE) $(BENCH_SOURCES) $(BENCH_LINK) -pthread -o $@

# --- the programs that allocators are preloaded into -----------------------------------------------

BENCH_OUT ?= build/bench
BENCH_PROGRAMS := $(patsubst bench/%.c,$(BENCH_OUT)/%,$(filter-out bench/allocator.c,$(wildcard bench/*.c)))

# Changes when the compiler or its flags do, so that the programs are built again then.
$(BENCH_OUT)/flags: bench-force
	@mkdir -p $(BENCH_OUT)
	@echo '$(BENCH_COMPILE)' | cmp -s - $@ || echo '$(BENCH_COMPILE)' >$@

$(BENCH_PROGRAMS): $(BENCH_OUT)/%: bench/%.c bench/allocator.c $(BENCH_HEADERS) $(BENCH_OUT)/flags
	$(BENCH_COMPILE) $< bench/allocator.c -pthread -o $@

.PHONY: bench-build
bench-build: $(BENCH_PROGRAMS)

# --- mimalloc: the peer -------------------------------------------------------------------------

BENCH_MI_CRATE := bench/peers/mimalloc
BENCH_MI_BUILD := build/peers/mimalloc
BENCH_MI_VERSION = $(shell sed -n 's/^libmimalloc-sys = .*"=\([0-9.]*\)".*/\1/p' \
  $(BENCH_MI_CRATE)/Cargo.toml)

# Two lines: how the binary names its peer, and what the linker needs.
$(BENCH_MI_BUILD)/link: $(BENCH_MI_CRATE)/Cargo.toml $(BENCH_MI_CRATE)/Cargo.lock
	@mkdir -p $(BENCH_MI_BUILD)
	@rm -rf $(BENCH_MI_BUILD)/target
	@if command -v cargo >/dev/null && CARGO_TARGET_DIR=$(BENCH_MI_BUILD)/target \
	  cargo build --release --quiet --locked --manifest-path $(BENCH_MI_CRATE)/Cargo.toml; then \
	  echo 'crate libmimalloc-sys $(BENCH_MI_VERSION)' >$@; \
	  ls $(BENCH_MI_BUILD)/target/release/build/libmimalloc-sys-*/out/libmimalloc.a | \
	    sed 's|^|$(BENCH_LINK) |' >>$@; \
	elif echo 'int main(void) { return 0; }' | \
	  $(BENCH_CC) -x c - -lmimalloc -o $(BENCH_MI_BUILD)/probe 2>/dev/null; then \
	  echo "without cargo: mimalloc is the installed libmimalloc" >&2; \
	  printf '%s\n' 'installed libmimalloc, dynamic' '-Wl,--no-as-needed -lmimalloc' >$@; \
	else \
	  echo "mimalloc is missing: install cargo or libmimalloc-dev" >&2; exit 1; \
	fi

bench_random_mixed_mi: $(BENCH_SOURCES) $(BENCH_HEADERS) $(BENCH_MI_BUILD)/link
	{ read -r source; read -r library; } <$(BENCH_MI_BUILD)/link; \
	$(BENCH_COMPILE) -DBENCH_MIMALLOC=1 "-DBENCH_MIMALLOC_SOURCE=\"$$source\"" \
	  $(BENCH_SOURCES) $$library -pthread -o $@

# --- runs ---------------------------------------------------------------------------------------

.PHONY: perf_fast
perf_fast: bench_random_mixed_hakmem_minimal
	@ITERS=$(ITERS) WS=$(WS) RUNS=$(RUNS) BENCH_BIN=./$< scripts/run_mixed_10_cleanenv.sh

.PHONY: perf_observe
perf_observe: bench_random_mixed_hakmem_observe
	@HAKMEM_SS_OS_STATS=1 KEEP=HAKMEM_SS_OS_STATS ITERS=$(ITERS) WS=$(WS) RUNS=$(RUNS) BENCH_BIN=./$< scripts/run_mixed_10_cleanenv.sh

.PHONY: perf_all
perf_all: bench_random_mixed_hakmem bench_random_mixed_hakmem_minimal bench_random_mixed_mi \
  bench_random_mixed_system
	@ITERS=$(ITERS) WS=$(WS) RUNS=$(RUNS) scripts/compare_mixed.sh $(addprefix ./,$^)
