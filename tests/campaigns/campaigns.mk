# Campaigns: what goes wrong all around a program while it allocates; included by the top Makefile (tests/campaigns/README.md).
#
#   make campaigns                  all of them on every configuration; build/campaigns/campaigns.md and .json
#   make campaign-signals           one
#   make campaigns-results          all, into docs/results/
#
# CAMPAIGN_SECONDS=60 for each step that could go on for ever (default 6), CAMPAIGN_SEED=N, CAMPAIGN_ARGS="--config lean --jobs 1".
CAMPAIGN_SECONDS ?= 6
CAMPAIGN_SEED ?= 1
CAMPAIGN_OUT ?= build/campaigns/campaigns
CAMPAIGN_VERSION = $(shell sed -n 's/.*define HAKMEM_VERSION_STRING *"\(.*\)".*/\1/p' include/hakmem.h)
CAMPAIGN_RUN = python3 -B tests/campaigns/campaigns.py --seconds $(CAMPAIGN_SECONDS) --seed $(CAMPAIGN_SEED) $(CAMPAIGN_ARGS)

.PHONY: campaign-build
campaign-build:
	@bash scripts/setup.sh build test
	@mkdir -p build/campaigns
	@for variant in standard check hardened; do \
	  cmake --preset $$variant -DBUILD_TESTING=ON >build/campaigns/build.log 2>&1 && \
	  cmake --build build/$$variant -j $(JOBS) --target campaign_programs >>build/campaigns/build.log 2>&1 || \
	  { cat build/campaigns/build.log; exit 1; }; done

.PHONY: campaigns
campaigns: campaign-build
	@$(CAMPAIGN_RUN) all --out "$(CAMPAIGN_OUT)"

.PHONY: campaigns-results
campaigns-results:
	@$(MAKE) --no-print-directory campaigns CAMPAIGN_OUT=docs/results/campaigns-$(CAMPAIGN_VERSION)

campaign-%: campaign-build
	@$(CAMPAIGN_RUN) $* --out "$(CAMPAIGN_OUT)-$*"
