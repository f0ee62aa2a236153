# The allocators that hakmem is measured against; included by the top Makefile.
#
#   make peers                      all of bench/peers/peers.toml, into build/peers/
#   make peers PEERS="mimalloc3"    these alone
#
# Without the right to install packages it goes on with what there is: a peer that cannot be had is
# reported as missing, with the reason.
.PHONY: peers
peers:
	@bash scripts/setup.sh build bench || echo "peers: going on without these packages" >&2
	@python3 scripts/build_peers.py --jobs $(JOBS) $(addprefix --only ,$(PEERS))
