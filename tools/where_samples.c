/* where_samples.c - see where.h: what the sampler knows of a block, and guarded samples. */
#include <stdlib.h>
#include <string.h>

#include "where.h"

/* --- samples ------------------------------------------------------------------------------------------------------ */

static void take(struct where_sample *sample, const struct sample_record *record,
                 const struct profile *profile) {
  uint64_t address = atomic_load(&record->address), since = atomic_load(&record->since_ms);
  /* Without a block a record says where the last one was. */
  bool freed = address == 0;
  if (freed) address = atomic_load(&record->heap);
  if (address == 0 || address != sample->address || (sample->found && freed)) return;
  sample->found = true;
  sample->freed = freed;
  sample->size = atomic_load(&record->size);
  sample->age_ms = profile->now_ms > since ? profile->now_ms - since : 0;
  sample->site = profile_site(profile, atomic_load(&record->stack));
}

struct search {
  struct where *where;
  const struct profile *profile;
};

static void look(void *context, const struct sample_record *records, uint32_t count) {
  const struct search *search = context;
  for (uint32_t i = 0; i < count; i++) {
    take(&search->where->sample, &records[i], search->profile);
    take(&search->where->sample_before, &records[i], search->profile);
    take(&search->where->sample_behind, &records[i], search->profile);
  }
}

void where_samples(struct where *where, const struct where_reader *reader) {
  bool slab = where->kind == WHERE_SLAB && where->size != 0;
  if (reader->profile == NULL || (!slab && where->kind != WHERE_LARGE &&
                                  where->kind != WHERE_HUGE && where->kind != WHERE_CACHED))
    return;
  where->sample.address = where->start;
  if (slab && where->sampled) {
    where->sample_before.address = where->number > 0 ? where->start - where->size : 0;
    where->sample_behind.address = where->start + where->size;
  }
  struct search search = {where, reader->profile};
  (void)profile_each_chunk(reader->remote, look, &search);
}

/* --- guarded samples ------------------------------------------------------------------------------------------------ */

static void take_event(struct where_event *event, const struct directory_layout *layout,
                       struct copy slot, struct directory_field field) {
  enum { MOST = sizeof event->addresses / sizeof event->addresses[0] };
  if (field.at > slot.size) return;
  struct copy copy = {slot.bytes + field.at, slot.size - field.at};
  struct directory_field word = {0, sizeof(uint64_t)};
  uint64_t depth = copy_get(copy, layout->guarded.depth);
  event->thread = (int)copy_get(copy, layout->guarded.thread);
  for (uint32_t i = 0; i < depth && i < MOST && i < layout->guarded.addresses.count; i++)
    event->addresses[event->depth++] = copy_get_at(copy, layout->guarded.addresses, i, word);
}

/* How far it is from a block that the slot has, or had; 0 within it. */
static uint64_t distance_to(uint64_t address, uint64_t block, uint64_t size) {
  if (address < block) return block - address;
  return address - block < size ? 0 : address - block - size + 1;
}

static void take_slot(struct where *where, const struct directory_layout *layout,
                      struct copy slot) {
  enum { FREED = 2 };
  where->start = copy_get(slot, layout->guarded.block);
  where->bytes = copy_get(slot, layout->guarded.size);
  where->live = copy_get(slot, layout->guarded.state) != FREED;
  where->allocated = where->freed = (struct where_event){0};
  take_event(&where->allocated, layout, slot, layout->guarded.allocated);
  if (!where->live) take_event(&where->freed, layout, slot, layout->guarded.freed);
}

bool where_guarded(struct where *where, const struct where_reader *reader) {
  enum { SLOTS_MOST = 4096, STRIDE_MOST = 1 << 16 };
  const struct remote *remote = reader->remote;
  const struct directory_layout *layout = &remote->layout;
  uint32_t count = layout->guarded.count, stride = layout->guarded.stride;
  uint64_t area[2] = {0, 0}, nearest = UINT64_MAX;
  if (remote->guarded == 0 || count > SLOTS_MOST || stride > STRIDE_MOST ||
      !remote_read(remote, remote->guarded, area, sizeof area) ||
      where->address - area[0] >= area[1])
    return false;
  where->kind = WHERE_GUARDED;
  char *bytes = calloc(1, stride + 1);
  struct copy slot = {bytes, stride};
  for (uint32_t i = 0; i < count && bytes != NULL; i++) {
    if (!remote_read(remote, remote->guarded_slots + (uint64_t)i * stride, bytes, stride)) break;
    if (copy_get(slot, layout->guarded.state) == 0) continue;
    uint64_t away = distance_to(where->address, copy_get(slot, layout->guarded.block),
                                copy_get(slot, layout->guarded.size));
    if (away >= nearest) continue;
    nearest = away;
    take_slot(where, layout, slot);
  }
  free(bytes);
  return true;
}
