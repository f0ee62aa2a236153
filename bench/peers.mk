# The allocators that hakmem is measured against; included by the top Makefile.
#
#   make peers                      all of bench/peers/peers.toml, into build/peers/
#   make peers PEERS="mimalloc3"    these alone
#   make peers PEERS=security       the hardened ones, into build/peers/security.json
#   make security-table             what comes of misused memory on hakmem's builds and on these: the table of
#                                   docs/security.md, and build/bench/security.json (tests/guarantees/README.md)
#
# Without the right to install packages it goes on with what there is: a peer that cannot be had is
# reported as missing, with the reason.
.PHONY: peers
peers:
	@bash scripts/setup.sh build bench $(filter security,$(PEERS)) || echo "peers: going on without these packages" >&2
	@python3 scripts/build_peers.py --jobs $(JOBS) $(addprefix --only ,$(PEERS))

.PHONY: security-programs
security-programs: build/standard/build.ninja build/hardened/build.ninja
	@bash scripts/setup.sh build test
	@$(MAKE) --no-print-directory peers PEERS=security
	@cmake --preset standard -DBUILD_TESTING=ON >/dev/null
	@cmake --build build/standard -j $(JOBS) --target hakmem_targets guarantee_programs
	@cmake --build build/hardened -j $(JOBS) --target hakmem_targets

.PHONY: security-table
security-table: security-programs
	@python3 -B tests/guarantees/table.py --document docs/security.md --json build/bench/security.json
