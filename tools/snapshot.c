/* snapshot.c - see snapshot.h. */
#include "snapshot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core.h"

/* FIGURES: without the threads that heaps belong to. */
enum depth { FIGURES, ALL, CLOSELY };

enum { RANGES_MOST = 128, CHUNKS_MOST = 65536, PIECE_PAGES = 512, TRIES = 4, FIGURES_BYTES = 4096 };

bool snapshot_is_late(struct snapshot *snapshot) {
  snapshot->late = snapshot->late || now_ms() > snapshot->late_ms;
  return snapshot->late;
}

void snapshot_metadata(struct snapshot *snapshot, struct resident *resident, uint64_t start,
                       uint64_t end) {
  double weights[PIECE_PAGES];
  uint64_t page = resident->page;
  start &= -page;
  end = (end + page - 1) & -page;
  while (start < end && !snapshot_is_late(snapshot)) {
    uint64_t bytes = end - start < PIECE_PAGES * page ? end - start : PIECE_PAGES * page;
    resident_load(resident, start, bytes, weights);
    for (uint64_t i = 0; i < bytes / page; i++) snapshot->metadata += weights[i] * (double)page;
    start += bytes;
  }
}

/* Chunks that were mapped. */
static void add_chunks(struct snapshot *snapshot, const struct remote *remote,
                       struct resident *resident) {
  const struct directory_layout *layout = &remote->layout;
  uint64_t chunk = remote_word(remote, remote->chunks);
  for (int i = 0; i < CHUNKS_MOST && chunk != 0; i++) {
    uint64_t bytes = remote_word(remote, chunk + layout->chains.chunk_bytes.at);
    if (bytes == 0 || bytes > UINT64_C(1) << 32 || chunk % resident->page != 0) break;
    snapshot_metadata(snapshot, resident, chunk, chunk + bytes);
    snapshot->metadata_bytes += bytes;
    chunk = remote_word(remote, chunk + layout->chains.chunk_next.at);
  }
}

struct range {
  uint64_t start, end;
};

static int by_start(const void *a, const void *b) {
  const struct range *left = a, *right = b;
  return left->start < right->start ? -1 : left->start > right->start;
}

/* What lies in the file that hakmem is in: all of a library, of a program the parts that are known. Pages that several
 * of them touch count once. */
static void add_object(struct snapshot *snapshot, const struct remote *remote,
                       struct resident *resident) {
  const struct directory_layout *layout = &remote->layout;
  struct range ranges[RANGES_MOST] = {{remote->object_start, remote->object_end}};
  size_t count = 1;
  uint64_t page = resident->page;
  if (!remote->is_library) {
    ranges[0] = (struct range){remote->map, remote->map + layout->map.bytes};
    ranges[count++] =
        (struct range){remote->first_chunk, remote->first_chunk + layout->chains.first_chunk_bytes};
    for (size_t i = 0; i < snapshot->heap_count && count < RANGES_MOST; i++) {
      uint64_t heap = snapshot->heaps[i].address;
      if (heap < remote->object_start || heap >= remote->object_end) continue;
      ranges[count++] = (struct range){heap, heap + layout->heap.bytes};
    }
  }
  qsort(ranges, count, sizeof ranges[0], by_start);
  uint64_t done = 0;
  for (size_t i = 0; i < count; i++) {
    uint64_t start = ranges[i].start & -page, end = (ranges[i].end + page - 1) & -page;
    if (start < done) start = done;
    if (start >= end) continue;
    snapshot_metadata(snapshot, resident, start, end);
    done = end;
  }
}

/* Blocks in bins and batches are told by class, not by place: each class' are as resident as its blocks that are not in
 * their slabs. */
static void share_out(struct snapshot *snapshot) {
  uint64_t carved_bytes = 0, free_bytes = 0;
  for (unsigned c = 0; c < CLASSES_MOST; c++) {
    struct class_figures *figures = &snapshot->classes[c];
    if (figures->carved == 0) continue;
    double out_bytes = (double)(figures->carved - figures->free);
    double kept_bytes = (double)(figures->kept * figures->size);
    double share = out_bytes > kept_bytes ? kept_bytes / out_bytes : 1;
    figures->caches = figures->out * share;
    figures->live = figures->out - figures->caches;
    snapshot->caches += figures->caches;
    snapshot->live += figures->live;
    snapshot->fragmentation += figures->fragmentation;
    snapshot->slack += figures->slack;
    carved_bytes += figures->carved;
    free_bytes += figures->free;
  }
  for (size_t i = 0; i < snapshot->heap_count; i++)
    snapshot->in_bins += snapshot->heaps[i].bins + snapshot->heaps[i].inbox;
  uint64_t out = carved_bytes - free_bytes;
  uint64_t not_live = snapshot->in_bins + snapshot->lost;
  snapshot->in_use =
      (out > not_live ? out - not_live : 0) + snapshot->large_bytes + snapshot->huge_bytes;
  /* Of what was given back, only pages inside slabs are of free blocks. */
  snapshot->pinned = free_bytes > snapshot->hole_bytes ? free_bytes - snapshot->hole_bytes : 0;
  snapshot->given_bytes += snapshot->hole_bytes;
}

/* A structure of which fields are read, the last of them `last`. */
static bool read_figures(const struct remote *remote, uint64_t address, struct directory_field last,
                         struct copy *copy) {
  copy->size = (size_t)last.at + last.bytes;
  return copy->size <= FIGURES_BYTES &&
         remote_read(remote, address, (char *)(uintptr_t)copy->bytes, copy->size);
}

static void read_counts(struct snapshot *snapshot, const struct remote *remote) {
  const struct directory_layout *layout = &remote->layout;
  char buffer[FIGURES_BYTES];
  struct copy copy = {buffer, 0};
  if (read_figures(remote, remote->units, layout->units.decommit_disabled, &copy)) {
    snapshot->units_mapped = copy_get(copy, layout->units.mapped);
    snapshot->acquired = copy_get(copy, layout->units.acquired);
    snapshot->released = copy_get(copy, layout->units.released);
    snapshot->fallback_mmap = copy_get(copy, layout->units.fallback_mmap);
    snapshot->huge_alloc = copy_get(copy, layout->units.huge_alloc);
    snapshot->huge_fail = copy_get(copy, layout->units.huge_fail);
    snapshot->decommit_disabled = copy_get(copy, layout->units.decommit_disabled);
  }
  if (read_figures(remote, remote->os_counts, layout->os_counts.failed, &copy)) {
    snapshot->os_mmap = copy_get(copy, layout->os_counts.mmap);
    snapshot->os_munmap = copy_get(copy, layout->os_counts.munmap);
    snapshot->os_mprotect = copy_get(copy, layout->os_counts.mprotect);
    snapshot->os_madvise = copy_get(copy, layout->os_counts.madvise);
    snapshot->os_mremap = copy_get(copy, layout->os_counts.mremap);
    snapshot->os_failed = copy_get(copy, layout->os_counts.failed);
  }
  if (read_figures(remote, remote->lists, layout->lists.era, &copy)) {
    snapshot->superslabs_peak = copy_get(copy, layout->lists.peak);
    snapshot->slices_in_use = copy_get(copy, layout->lists.slices_in_use);
    snapshot->dirty_slices = copy_get(copy, layout->lists.dirty_slices);
  }
}

static bool take_once(struct snapshot *snapshot, const struct remote *remote, enum depth depth,
                      uint64_t late_ms) {
  struct resident resident;
  memset(snapshot, 0, sizeof *snapshot);
  snapshot->closely = depth == CLOSELY;
  snapshot->late_ms = late_ms;
  if (!resident_open(&resident, remote_target(remote))) return false;
  snapshot->resident = resident.total;
  snapshot->swapped = resident.swapped;
  snapshot->by_page = resident.by_page;
  read_counts(snapshot, remote);
  uint64_t before = snapshot->units_mapped;
  uint64_t found = snapshot_units(snapshot, remote, &resident);
  bool ok = snapshot_heaps(snapshot, remote);
  if (depth != FIGURES) snapshot_threads(snapshot, remote);
  add_object(snapshot, remote, &resident);
  add_chunks(snapshot, remote, &resident);
  if (remote->lost != 0) snapshot->lost = remote_word(remote, remote->lost);
  share_out(snapshot);
  snapshot->not_ours = resident_rest(&resident);
  if (depth == CLOSELY) snapshot_mappings(snapshot, &resident);
  snapshot->heaps_active = snapshot->heap_count - snapshot->heaps_parked -
                           snapshot->heaps_of_samples - snapshot->heaps_common -
                           snapshot->heaps_named;
  snapshot->mapped_bytes = snapshot->units_mapped << remote->layout.map.unit_shift;
  snapshot->slab_bytes = snapshot->slices_in_use << remote->layout.map.slice_shift;
  snapshot->cached_bytes += (snapshot->dirty_slices << remote->layout.map.slice_shift) +
                            (snapshot->units_warm << remote->layout.map.unit_shift);
  resident_close(&resident);
  /* Units that are in nobody's list just now, or were seen in two. */
  uint64_t away = found > before ? found - before : before - found;
  snapshot->partial = snapshot->late || away > 1 + before / 200 ||
                      snapshot_difference(snapshot) > 0.01 * (double)snapshot->resident;
  return ok;
}

double snapshot_difference(const struct snapshot *snapshot) {
  return fabs((double)snapshot->resident - snapshot->live - snapshot->slack - snapshot->caches -
              snapshot->fragmentation - snapshot->metadata - snapshot->not_ours);
}

void snapshot_free(struct snapshot *snapshot) {
  free(snapshot->heaps);
  snapshot->heaps = NULL;
}

/* Once more, if what there is is not of one moment; the nearer of the two stays. False: that was the last time. */
static bool take_again(struct snapshot *snapshot, const struct remote *remote, enum depth depth,
                       uint64_t late_ms) {
  struct snapshot *other = calloc(1, sizeof *other);
  if (other == NULL || !take_once(other, remote, depth, late_ms)) {
    if (other != NULL) snapshot_free(other);
    free(other);
    return false;
  }
  if (!other->partial || snapshot_difference(other) < snapshot_difference(snapshot)) {
    struct heap_figures *former = snapshot->heaps;
    memcpy(snapshot, other, sizeof *snapshot);
    other->heaps = former;
  }
  snapshot_free(other);
  free(other);
  return true;
}

/* A core has no pages of zeros, and gdb writes zeros for a mapping that it cannot read all of. */
static void note_zeros(const struct snapshot *snapshot, const struct core *core) {
  enum { WORTH_IT = 1 << 20 };
  if (core == NULL || core->is_box || snapshot->in_use < WORTH_IT ||
      snapshot->live > (double)snapshot->in_use / 2)
    return;
  complain("note: %.1f of %.1f MiB in live blocks are zeros in the core: a debugger has not read "
           "them (gdb before 16 "
           "of the hardened library: let the kernel make the core), or nobody wrote to them",
           ((double)snapshot->in_use - snapshot->live) / (1 << 20),
           (double)snapshot->in_use / (1 << 20));
}

static enum remote_state take(struct snapshot *snapshot, const struct remote *remote,
                              enum depth depth, uint64_t ms) {
  if (remote->shared && snapshot_from_shared(snapshot, remote)) return REMOTE_THERE;
  if (remote->shared) return remote_look(remote) == REMOTE_ENDED ? REMOTE_ENDED : REMOTE_OTHER;
  uint64_t late_ms = now_ms() + ms;
  bool taken = take_once(snapshot, remote, depth, late_ms), more = remote->core == NULL;
  if (!taken) snapshot_free(snapshot);
  for (int i = 1; i < TRIES && taken && more && snapshot->partial && !snapshot->late; i++)
    more = take_again(snapshot, remote, depth, late_ms);
  if (taken) note_zeros(snapshot, remote->core);
  enum remote_state state = remote_look(remote);
  if (taken && state != REMOTE_THERE) snapshot_free(snapshot);
  return taken || state != REMOTE_THERE ? state : REMOTE_UNREADABLE;
}

enum remote_state snapshot_take(struct snapshot *snapshot, const struct remote *remote) {
  return take(snapshot, remote, ALL, SNAPSHOT_LATE_MS);
}

enum remote_state snapshot_take_within(struct snapshot *snapshot, const struct remote *remote,
                                       uint64_t ms) {
  return take(snapshot, remote, FIGURES, ms);
}

enum remote_state snapshot_take_closely(struct snapshot *snapshot, const struct remote *remote) {
  return take(snapshot, remote, CLOSELY, SNAPSHOT_LATE_MS);
}
