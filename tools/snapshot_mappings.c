/* snapshot_mappings.c - see snapshot.h: what is resident and not ours, by the names of mappings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot.h"

enum { NAMES_MOST = 512 };

/* glibc takes a thread's stack and its thread-local variables from one mapping: where one of these lies in it, it is a stack. */
static bool is_stack(const struct snapshot *snapshot, const struct area *area) {
  for (size_t i = 0; i < snapshot->heap_count; i++) {
    uint64_t mark = snapshot->heaps[i].mark;
    if (!snapshot->heaps[i].parked && mark >= area->start && mark < area->end) return true;
  }
  return false;
}

static const char *name_of(const struct snapshot *snapshot, const struct area *area) {
  if (area->name[0] != 0) return area->name;
  return is_stack(snapshot, area) ? "stacks of threads" : "mappings without a name";
}

static int by_bytes(const void *a, const void *b) {
  double left = ((const struct mapping *)a)->bytes, right = ((const struct mapping *)b)->bytes;
  return left < right ? 1 : left > right ? -1 : 0;
}

void snapshot_mappings(struct snapshot *snapshot, const struct resident *resident) {
  enum { KEPT = sizeof snapshot->mappings / sizeof snapshot->mappings[0] };
  struct mapping *all = calloc(NAMES_MOST, sizeof *all);
  size_t count = 0;
  for (size_t i = 0; all != NULL && i < resident->count; i++) {
    const struct area *area = &resident->areas[i];
    double bytes = resident_rest_of(area);
    if (bytes <= 0) continue;
    const char *name = name_of(snapshot, area);
    size_t at = 0;
    while (at < count && strcmp(all[at].name, name) != 0) at++;
    if (at == NAMES_MOST) at = NAMES_MOST - 1; /* beyond, names run together */
    if (at == count) snprintf(all[count++].name, sizeof all->name, "%s", name);
    all[at].count++;
    all[at].bytes += bytes;
  }
  if (count > 0) qsort(all, count, sizeof *all, by_bytes);
  snapshot->mapping_count = count < KEPT ? count : KEPT;
  for (size_t i = 0; i < snapshot->mapping_count; i++) {
    snapshot->mappings[i] = all[i];
    make_printable(snapshot->mappings[i].name, sizeof all->name);
  }
  free(all);
}
