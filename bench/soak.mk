# Soaks: does memory stay flat, does throughput hold? Included by the top Makefile.
#
#   make soak               a minute of hakmem with glibc beside it, into build/bench/soak/
#   make soak-results       an hour of that, 20 minutes of each other profile, mimalloc and jemalloc, and
#                           the fragmentation soak, into docs/results/soak-<version>/
#
# SOAK_LONG_SEC= SOAK_SHORT_SEC= SOAK_EPOCH_SEC= SOAK_CYCLES= SOAK_OUT= change what soak-results does;
# RESUME=1 does not measure again what is finished in SOAK_OUT; scripts/soak_results.sh --help has the rest.
# SOAK_SEC=60 is how long `make soak` takes.
SOAK_SEC ?= 60
SOAK_LONG_SEC ?= 3600
SOAK_SHORT_SEC ?= 1200
SOAK_EPOCH_SEC ?= 2
SOAK_CYCLES ?= 50
SOAK_VERSION = $(shell sed -n 's/.*define HAKMEM_VERSION_STRING *"\(.*\)".*/\1/p' include/hakmem.h)
SOAK_OUT ?= docs/results/soak-$(SOAK_VERSION)

.PHONY: soak-build
soak-build: lab-setup lab-library $(BENCH_OUT)/random_mixed $(BENCH_OUT)/phases

.PHONY: soak
soak: soak-build
	@LONG_SEC=$(SOAK_SEC) SHORT_SEC=0 CYCLES=0 EPOCH_SEC=1 scripts/soak_results.sh build/bench/soak

.PHONY: soak-results
soak-results: PEERS ?= mimalloc3 jemalloc
soak-results: soak-build peers
	@LONG_SEC=$(SOAK_LONG_SEC) SHORT_SEC=$(SOAK_SHORT_SEC) EPOCH_SEC=$(SOAK_EPOCH_SEC) \
	  CYCLES=$(SOAK_CYCLES) scripts/soak_results.sh "$(SOAK_OUT)"
