# The front door: every command a user types. CMake does the work, in build/<variant>/.
#
#   make                 libhakmem.so, libhakmem.a and the tool, in build/standard/
#   make VARIANT=fast    another variant: standard fast observe hardened check asan tsan
#   make demo            real programs on hakmem and on glibc: time and peak memory beside each other, and the means
#   make test            the quick tests of the variants check and standard: under six minutes
#   make test-changed    of the others, those that the change since BASE can affect (docs/testing.md); BASE: a commit,
#                        by default the last one for which make test-all passed
#   make test-all        every test in every variant: before a release
#   make install         into PREFIX (default /usr/local); DESTDIR is honoured. VARIANT=hardened: its libraries beside the standard
#                        ones, in lib/hakmem/hardened
#   make uninstall       removes what make install put into PREFIX, with VARIANT= that of one variant
#   make lint, format    clang-format and clang-tidy: check, or rewrite; lint reads the pages too (scripts/prose.py)
#   make sbom            what hakmem consists of, in SPDX: build/hakmem-VERSION.spdx.json
#   make dist            what a release hands out, of the commit REF (default HEAD): build/dist/; PARTS=source,
#                        deb, python, rust: those alone
#   make wheel           the Python package (docs/python.md), as it is handed out: build/python/release/
#   make abi-baseline    tests/package/abi/ anew, of the release REF (docs/releasing.md)
#   make clean           removes build/ and the benchmark binaries
#   make peers           the allocators to compare with, as libraries to preload (bench/peers/README.md)
#   make security-table  misused memory on hakmem and on hardened peers: the tables of docs/security.md
#   make bench           every benchmark on every allocator; bench-quick: under two minutes
#   make bench-ir        instructions of malloc and free; bench-programs: real programs; bench-servers: real
#                        servers under load
#   make bench-huge      heaps of 10^7 blocks and of 64 GiB
#   make bench-ab A= B= ROW=   is B faster than A? (bench/lab.mk)
#   make soak            a minute of steady load: does memory stay flat? soak-results: two hours of it
#   make campaigns       system calls refused, signals, forks, limits, filters while a program allocates (tests/campaigns)
#   make site            the documentation as a site: build/site/index.html
#   make report          what was measured, as one HTML file; make scorecard: docs/scorecard.md
#   make bench_random_mixed_hakmem   (_hakmem_minimal, _hakmem_observe, _system, _mi)
VARIANT ?= standard
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
BUILD := build/$(VARIANT)

.PHONY: all
all: $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS) --target hakmem_targets
	@echo "built: $(BUILD)"

# Without the tests, so that a build needs no more than a compiler, cmake and ninja. `make test`
# switches them on in the same directory.
build/%/build.ninja: | CMakePresets.json
	@command -v cmake >/dev/null && command -v ninja >/dev/null || \
	  { echo "cmake or ninja is missing: run scripts/setup.sh build" >&2; exit 1; }
	@cmake --preset $* -DBUILD_TESTING=OFF

.PRECIOUS: build/%/build.ninja

-include bench/bench.mk
-include bench/peers.mk
-include bench/lab.mk
-include bench/soak.mk
-include tests/campaigns/campaigns.mk

.PHONY: demo
demo:
	@bash scripts/demo.sh

.PHONY: setup
setup:
	@bash scripts/setup.sh

# CTest's label `slow` decides what is left out here, nothing else (cmake/tests.cmake).
.PHONY: test
test:
	@bash scripts/setup.sh build test
	@python3 tests/runner/run.py --quick --jobs $(JOBS) $(TEST_VARIANTS)

# By the table tests/affected.toml. What it does not know runs everything.
.PHONY: test-changed
test-changed: setup
	@python3 tests/runner/run.py --changed $(if $(BASE),--base '$(BASE)') --jobs $(JOBS) $(TEST_VARIANTS)

# After a `make test` that passed on the same files, its tests are not repeated: the slow ones and the
# other variants run.
.PHONY: test-all
test-all: setup
	@python3 tests/runner/run.py --jobs $(JOBS) $(TEST_VARIANTS)

.PHONY: install
install: all
	@DESTDIR="$(DESTDIR)" sh scripts/install.sh install "$(PREFIX)" "$(VARIANT)" "$(BUILD)"

.PHONY: uninstall
uninstall:
	@DESTDIR="$(DESTDIR)" sh scripts/install.sh uninstall "$(PREFIX)" $(if $(filter file,$(origin VARIANT)),,"$(VARIANT)")

# The standard variant, whatever VARIANT says: it is what is released.
.PHONY: sbom
sbom:
	@bash scripts/setup.sh build
	@$(MAKE) --no-print-directory all VARIANT=standard
	@python3 -B scripts/sbom.py --build build/standard \
	  -o build/hakmem-$$(sed -n 's/.*HAKMEM_VERSION_STRING "\(.*\)"/\1/p' include/hakmem.h).spdx.json

REF ?= HEAD
.PHONY: dist
dist:
	@bash scripts/setup.sh build
	@bash scripts/dist.sh $(REF) $(PARTS)

.PHONY: wheel
wheel:
	@bash scripts/setup.sh build
	@python3 -B bindings/python/release.py $(WHEEL_OPTIONS)

# The pages, with the options and statistics of the standard variant, and the results as plots.
.PHONY: site
site:
	@bash scripts/setup.sh build bench
	@$(MAKE) --no-print-directory all VARIANT=standard
	@bash scripts/setup_lab.sh
	@bash scripts/setup_site.sh
	@bash scripts/site.sh
	@echo "written: build/site/index.html"

.PHONY: abi-baseline
abi-baseline:
	@bash scripts/setup.sh build test-all
	@python3 -B tests/package/abi.py baseline . $(REF)

.PHONY: lint
lint:
	@bash scripts/lint.sh

.PHONY: format
format:
	@bash scripts/lint.sh --format

.PHONY: clean
clean:
	rm -rf build bench_random_mixed_*

.PHONY: help
help:
	@sed -n 's/^#   //p' Makefile
