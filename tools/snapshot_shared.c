/* snapshot_shared.c - see snapshot.h: a snapshot made of the sums that a process keeps for others (HAKMEM_SHM=1). They are what
 * hakmem has counted, resident or not: where they are more than what is resident, all are taken for less alike.
 */
#include <string.h>

#include "snapshot.h"

bool snapshot_from_shared(struct snapshot *snapshot, const struct remote *remote) {
  struct shared_figures figures;
  memset(snapshot, 0, sizeof *snapshot);
  if (!remote_read_shared(remote, &figures, &snapshot->resident)) return false;
  double counted = (double)figures.in_use + (double)figures.in_bins + (double)figures.cached +
                   (double)figures.pinned + (double)figures.metadata;
  double resident = (double)snapshot->resident;
  double scale = counted > resident ? resident / counted : 1;
  snapshot->counted = true;
  snapshot->age = remote_shared_age(&figures);
  snapshot->live = (double)figures.in_use * scale;
  snapshot->caches = ((double)figures.in_bins + (double)figures.cached) * scale;
  snapshot->fragmentation = (double)figures.pinned * scale;
  snapshot->metadata = (double)figures.metadata * scale;
  snapshot->not_ours = resident - counted * scale;
  if (snapshot->not_ours < 0) snapshot->not_ours = 0; /* by rounding */
  snapshot->large_bytes = figures.large;
  snapshot->huge_bytes = figures.huge;
  snapshot->huge_live = figures.huge_live;
  snapshot->cached_bytes = figures.cached;
  snapshot->given_bytes = figures.given;
  snapshot->in_use = figures.in_use;
  snapshot->in_bins = figures.in_bins;
  snapshot->pinned = figures.pinned;
  snapshot->mapped_bytes = figures.mapped;
  snapshot->slab_bytes = figures.slabs;
  snapshot->superslabs = figures.superslabs;
  snapshot->superslabs_peak = figures.superslabs_peak;
  snapshot->units_warm = figures.units_warm;
  snapshot->metadata_bytes = figures.metadata;
  snapshot->heaps_active = figures.heaps_active;
  snapshot->heaps_parked = figures.heaps_parked;
  snapshot->os_mmap = figures.os_mmap;
  snapshot->os_munmap = figures.os_munmap;
  snapshot->os_mprotect = figures.os_mprotect;
  snapshot->os_madvise = figures.os_madvise;
  snapshot->os_mremap = figures.os_mremap;
  snapshot->os_failed = figures.os_failed;
  snapshot->acquired = figures.acquired;
  snapshot->released = figures.released;
  snapshot->fallback_mmap = figures.fallback_mmap;
  snapshot->huge_alloc = figures.huge_alloc;
  snapshot->huge_fail = figures.huge_fail;
  snapshot->decommit_disabled = figures.decommit_disabled;
  return true;
}
