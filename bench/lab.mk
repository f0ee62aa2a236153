# The benchmark suite and what else the lab measures; included by the top Makefile.
#
#   make bench                      every row on every allocator: build/bench/results.json
#   make bench-quick                short runs on a few allocators, under two minutes
#   make bench-ir                   instructions of malloc and free, under callgrind
#   make bench-programs             real programs: CPU time, peak memory, page faults
#   make bench-servers              real servers under load: throughput, latency, CPU time, memory (SECONDS=5)
#   make bench-ab A= B= ROW=        rule R1 on a change; BUILD_CHANGE=1: threshold of 0.5%
#   make heaps-results              heaps of the program's own beside mimalloc's and jemalloc's arenas, into docs/results
#   make python-results             a job of pandas on hakmem and others, into docs/results
#   make rust-results               a tokio server with each allocator linked in, into docs/results
#   make bench-huge                 heaps of 10^7 small blocks and of 64 GiB on every allocator (BLOCKS=10000000 GIB=64): two
#                                   tables, and build/bench/huge.json
#   make hunt                       worst cases of hakmem against the others (SECONDS=600 SEED=1)
#   make report                     one HTML file of all that was measured here, or of the results in
#                                   docs/results where nothing was: build/bench/report.html
#   make report-kept                of the results in docs/results in any case
#   make charts                     the charts of docs/results/README.md, from its suite
#   make pictures                   the picture of hakmem top in README.md
#   make scorecard                  docs/scorecard.md from them
#   make results MIMALLOC_BENCH=DIR every published result anew, of the commit that is checked out, then scorecard and charts.
#                                   Run again, it goes on. RESULTS="suite programs" chooses parts of bench/results.toml;
#                                   ROUNDS=1 is a try, which changes nothing in docs
#   make results-plan               what of that is left, and about how long it takes
#
# RESUME=1 make bench goes on with a run that was stopped, on the same commit, peers and machine only.
# ROUNDS=N sets how often each is run, LAB_ARGS= adds options (build/lab/venv/bin/hakmem-lab --help),
# MIMALLOC_BENCH=DIR adds the programs of mimalloc-bench built there.
HAKMEM_LAB := build/lab/venv/bin/hakmem-lab
ROUNDS ?=
LAB_ROUNDS = $(if $(ROUNDS),--rounds $(ROUNDS))
LAB_EXTRA = $(if $(MIMALLOC_BENCH),--mimalloc-bench "$(MIMALLOC_BENCH)")

.PHONY: lab-setup
lab-setup:
	@bash scripts/setup.sh build bench || echo "lab: going on without these packages" >&2
	@bash scripts/setup_lab.sh

# The standard variant, whatever VARIANT says: it is what is released.
.PHONY: lab-library
lab-library: build/standard/build.ninja
	@cmake --build build/standard -j $(JOBS) --target hakmem_targets

.PHONY: bench
bench: lab-setup lab-library bench-build peers
	@$(HAKMEM_LAB) suite $(LAB_ROUNDS) $(LAB_EXTRA) $(if $(filter 1,$(RESUME)),--resume) \
	  -o build/bench/results.json $(LAB_ARGS)

# Peers as they are: building them alone takes longer than two minutes.
.PHONY: bench-quick
bench-quick: lab-setup lab-library bench-build
	@[ -f build/peers/peers.json ] || echo "lab: no peers besides glibc; make peers builds them" >&2
	@$(HAKMEM_LAB) suite --quick $(LAB_ROUNDS) $(LAB_EXTRA) -o build/bench/quick.json $(LAB_ARGS)

.PHONY: bench-ir
bench-ir: lab-setup lab-library bench-build peers
	@$(HAKMEM_LAB) instructions -o build/bench/instructions.json $(LAB_ARGS)

.PHONY: bench-programs
bench-programs: lab-setup lab-library peers
	@bash scripts/setup.sh programs || echo "lab: going on without these programs" >&2
	@$(HAKMEM_LAB) programs $(LAB_ROUNDS) -o build/bench/programs.json $(LAB_ARGS)

.PHONY: bench-ab
bench-ab: lab-setup lab-library bench-build
	@[ -n "$(A)" ] && [ -n "$(B)" ] && [ -n "$(ROW)" ] || \
	  { echo "usage: make bench-ab A='LIBRARY and VARIABLES' B='...' ROW=row,row" >&2; exit 2; }
	@$(HAKMEM_LAB) ab --a "$(A)" --b "$(B)" --row "$(ROW)" $(if $(BUILD_CHANGE),--build-change) \
	  $(LAB_ROUNDS) $(LAB_EXTRA) -o build/bench/ab.json $(LAB_ARGS)

# One part of `make results` each: into docs/results.
.PHONY: heaps-results python-results rust-results
heaps-results python-results rust-results: %-results: lab-setup
	@$(MAKE) --no-print-directory results RESULTS=$*

# In an environment of its own.
PANDAS := build/bench/pandas
.PHONY: python-bench
python-bench:
	@[ -x $(PANDAS)/bin/python ] || python3 -m venv $(PANDAS)
	@$(PANDAS)/bin/pip install --quiet --disable-pip-version-check -r bindings/python/bench/requirements.txt

.PHONY: rust-bench
rust-bench:
	@bash scripts/setup.sh build test-all
	@cd bindings/rust && cargo build --release --locked -p hakmem-compare

# What the servers are, and their loads: bench/servers.toml. Programs that cannot be built are reported by name.
SERVERS_OUT := build/bench/servers
SERVERS_CXX ?= $(CXX)
SERVERS_CXXFLAGS ?= -std=c++17 -O2 -g -Wall -Wextra -Wshadow -Werror
SERVERS_PROGRAMS := $(addprefix $(SERVERS_OUT)/,rpc_server load rocksdb_server tokio-server DirectServer.class)
SERVERS_ALLOCATORS ?= all,speed=HAKMEM_PROFILE=speed,lean=HAKMEM_PROFILE=lean

$(SERVERS_OUT)/%: bench/servers/%.cpp $(wildcard bench/servers/*.hpp)
	@mkdir -p $(SERVERS_OUT)
	$(SERVERS_CXX) $(SERVERS_CXXFLAGS) $< -pthread $(SERVERS_LIBS) -o $@

$(SERVERS_OUT)/rocksdb_server: SERVERS_LIBS := -lrocksdb

$(SERVERS_OUT)/tokio-server: $(addprefix bench/servers/tokio/,Cargo.toml Cargo.lock src/main.rs)
	@mkdir -p $(SERVERS_OUT)
	cargo build --release --locked --quiet --manifest-path $< --target-dir $(SERVERS_OUT)/cargo
	cp $(SERVERS_OUT)/cargo/release/tokio-server $@

# sun.misc.Unsafe is what frees a direct buffer at once; that the compiler warns of it is known.
$(SERVERS_OUT)/%.class: bench/servers/%.java
	@mkdir -p $(SERVERS_OUT)
	javac -XDignore.symbol.file -d $(SERVERS_OUT) $<

.PHONY: bench-servers-build
bench-servers-build: $(SERVERS_PROGRAMS)

.PHONY: bench-servers
bench-servers: lab-setup lab-library peers
	@bash scripts/setup.sh servers || echo "lab: going on without these servers" >&2
	@$(MAKE) --no-print-directory --keep-going bench-servers-build || echo "lab: going on without these programs" >&2
	@$(HAKMEM_LAB) servers $(LAB_ROUNDS) $(if $(filter command line,$(origin SECONDS)),--seconds $(SECONDS)) \
	  $(if $(ONLY),--only "$(ONLY)") --allocators "$(SERVERS_ALLOCATORS)" $(if $(filter 1,$(RESUME)),--resume) \
	  -o build/bench/servers.json $(LAB_ARGS)

# Peers as they are. 15 minutes; 10^8 blocks take 12 GB of memory.
BLOCKS ?= 10000000
GIB ?= 64
.PHONY: bench-huge
bench-huge: lab-setup lab-library $(BENCH_OUT)/huge
	@build/lab/venv/bin/python -B scripts/huge_table.py --blocks $(BLOCKS) --gib $(GIB) --json build/bench/huge.json

# The shell's own SECONDS is not meant.
HUNT_SECONDS = $(if $(filter command line,$(origin SECONDS)),$(SECONDS),600)
SEED ?= 1
.PHONY: hunt
hunt: lab-setup lab-library bench-build
	@$(HAKMEM_LAB) hunt --seconds $(HUNT_SECONDS) --seed $(SEED) -o build/bench/hunt.json $(LAB_ARGS)

# The results that the repository keeps, of the newest version that has some: the tree's own has none until it is measured.
KEPT_VERSION = $(shell ls docs/results | sed -nE 's/.*-([0-9]+(\.[0-9]+)+)\.json(\.zst)?$$/\1/p' | sort -V | tail -n 1)
KEPT_FILES = $(wildcard $(foreach kind,suite instructions steady programs servers,docs/results/$(kind)*-$(KEPT_VERSION).json.zst) \
  docs/results/soak-$(KEPT_VERSION))

# What was measured here, as far as it was; REPORT_FILES= names others, REPORT= where the page goes.
MEASURED_FILES = $(wildcard $(addprefix build/bench/,results.json programs.json instructions.json \
  steady.json servers.json soak))
REPORT_FILES ?= $(or $(MEASURED_FILES),$(KEPT_FILES))
REPORT ?= build/bench/report.html

.PHONY: report
report: lab-setup
	@mkdir -p "$(dir $(REPORT))"
	@$(HAKMEM_LAB) report $(REPORT_FILES) -o "$(REPORT)"

.PHONY: report-kept
report-kept:
	@$(MAKE) --no-print-directory report REPORT_FILES="$(KEPT_FILES)"

# From the whole suite of that version; CHART_FILE= names another result.
CHART_FILE ?= docs/results/suite-$(KEPT_VERSION).json.zst
.PHONY: charts
charts: lab-setup
	@$(HAKMEM_LAB) chart "$(CHART_FILE)" -o docs/results/overview.svg
	@$(HAKMEM_LAB) chart "$(CHART_FILE)" --narrow -o docs/results/overview-narrow.svg

# Of hakmem top, for the documentation.
.PHONY: pictures
pictures: lab-setup
	@bash scripts/setup.sh build programs
	@cmake --preset standard >/dev/null
	@cmake --build build/standard -j $(JOBS) --target hakmem_targets
	@build/lab/venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
	  -r docs/pictures/requirements.txt
	@build/lab/venv/bin/python docs/pictures/top.py docs/pictures/top.svg

.PHONY: scorecard
scorecard: lab-setup
	@$(HAKMEM_LAB) scorecard

# Each part of bench/results.toml names what has to be built before it.
export MIMALLOC_BENCH
RESULTS ?=
RESULTS_ARGS = $(if $(RESULTS),--parts "$(RESULTS)") $(LAB_ROUNDS) $(LAB_ARGS)
.PHONY: results results-plan
results: lab-setup
	@$(HAKMEM_LAB) results $(RESULTS_ARGS)

results-plan: lab-setup
	@$(HAKMEM_LAB) results --plan $(RESULTS_ARGS)

.PHONY: results-libraries
results-libraries: lab-library build/fast/build.ninja build/hardened/build.ninja
	@cmake --build build/fast -j $(JOBS) --target hakmem_targets
	@cmake --build build/hardened -j $(JOBS) --target hakmem_targets
	@mkdir -p build/bench
	@echo | $(CC) -shared -fPIC -x c - -o build/bench/empty.so

.PHONY: results-programs
results-programs:
	@bash scripts/setup.sh programs || echo "lab: going on without these programs" >&2

.PHONY: results-servers
results-servers:
	@bash scripts/setup.sh servers || echo "lab: going on without these servers" >&2
	@$(MAKE) --no-print-directory --keep-going bench-servers-build || echo "lab: going on without these programs" >&2
