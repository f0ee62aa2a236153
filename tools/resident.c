/* resident.c - see resident.h. */
#define _GNU_SOURCE
#include "resident.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core.h"
#include "mapped.h"
#include "ordered.h"

/* Entries of pagemap that are read at once: a unit of 2 MiB. */
enum { AT_ONCE = 512, SMAPS_BUFFER = 64 * 1024 };

#define PAGE_PRESENT (UINT64_C(1) << 63)
#define PAGE_EXCLUSIVE (UINT64_C(1) << 56)

/* The number behind "Name:" in kB, as bytes. */
static bool is_figure(const char *line, const char *name, uint64_t *bytes) {
  size_t length = strlen(name);
  if (strncmp(line, name, length) != 0 || line[length] != ':') return false;
  *bytes = strtoull(line + length + 1, NULL, 10) * 1024;
  return true;
}

static FILE *open_file(int pid, const char *name) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  return fopen(path, "re");
}

static bool add_area(struct resident *resident, size_t *room, uint64_t start, uint64_t end) {
  if (resident->count == *room) {
    size_t more = *room == 0 ? 256 : *room * 2;
    struct area *areas = realloc(resident->areas, more * sizeof *areas);
    if (areas == NULL) return false;
    resident->areas = areas;
    *room = more;
  }
  resident->areas[resident->count++] = (struct area){.start = start, .end = end, .own = -1};
  return true;
}

/* Behind "start-end rwxp offset device inode". */
static void read_name(struct area *area, char *line) {
  enum { FIELDS_BEFORE = 5 };
  line[strcspn(line, "\n")] = 0;
  for (int i = 0; i < FIELDS_BEFORE; i++) {
    line += strcspn(line, " ");
    line += strspn(line, " ");
  }
  const char *slash = strrchr(line, '/');
  if (slash != NULL && line[0] == '/') line += slash + 1 - line;
  snprintf(area->name, sizeof area->name, "%s", line);
}

static bool read_areas(struct resident *resident) {
  char *line = NULL;
  size_t line_room = 0, room = 0;
  uint64_t bytes;
  FILE *file = open_file(resident->target.pid, "smaps");
  if (file == NULL) return false;
  setvbuf(file, NULL, _IOFBF, SMAPS_BUFFER); /* the kernel looks for its place at each read */
  bool ok = true;
  while (ok && getline(&line, &line_room, file) >= 0) {
    char *at;
    uint64_t start = strtoull(line, &at, 16);
    if (*at == '-') {
      ok = add_area(resident, &room, start, strtoull(at + 1, NULL, 16));
      if (ok) read_name(&resident->areas[resident->count - 1], line);
    } else if (resident->count > 0 && is_figure(line, "Rss", &bytes))
      resident->areas[resident->count - 1].resident = bytes;
    else if (is_figure(line, "Swap", &bytes)) resident->swapped += bytes;
  }
  free(line);
  fclose(file);
  return ok && resident->count > 0;
}

static uint64_t read_total(const struct resident *resident) {
  char line[256];
  uint64_t total = 0;
  FILE *file = open_file(resident->target.pid, "smaps_rollup");
  if (file != NULL) {
    while (fgets(line, sizeof line, file) != NULL)
      if (is_figure(line, "Rss", &total)) break;
    fclose(file);
  }
  /* Linux before 4.14 has no such file. */
  for (size_t i = 0; file == NULL && i < resident->count; i++) total += resident->areas[i].resident;
  return total;
}

/* A box knows the sum, and which pages of what no file has are resident. */
static bool add_rest_of_box(struct resident *resident, size_t *room) {
  const struct core *core = resident->target.core;
  if (!core->is_box || core->box.resident <= resident->total) return true;
  if (!add_area(resident, room, UINT64_MAX, UINT64_MAX)) return false;
  struct area *area = &resident->areas[resident->count - 1];
  snprintf(area->name, sizeof area->name, "files");
  area->resident = core->box.resident - resident->total;
  resident->total = core->box.resident;
  return true;
}

/* Of a core: its mappings, with the pages that it has. */
static bool read_core(struct resident *resident) {
  char *line = NULL;
  size_t line_room = 0, room = 0;
  struct mapped mapping;
  FILE *maps = target_maps(resident->target);
  if (maps == NULL) return false;
  bool ok = true;
  while (ok && getline(&line, &line_room, maps) >= 0) {
    if (!mapped_parse(line, &mapping)) continue;
    ok = add_area(resident, &room, mapping.start, mapping.end);
    if (!ok) break;
    struct area *area = &resident->areas[resident->count - 1];
    const char *slash = strrchr(mapping.path, '/');
    snprintf(area->name, sizeof area->name, "%s", slash != NULL ? slash + 1 : mapping.path);
    area->resident = core_pages(resident->target.core, area->start, area->end) * resident->page;
    resident->total += area->resident;
  }
  free(line);
  fclose(maps);
  return ok && add_rest_of_box(resident, &room);
}

bool resident_open_pages(struct resident *resident, struct target target) {
  char path[64];
  memset(resident, 0, sizeof *resident);
  resident->target = target;
  resident->page = (size_t)sysconf(_SC_PAGESIZE);
  snprintf(path, sizeof path, "/proc/%d/pagemap", target.pid);
  resident->pagemap = target.core == NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  resident->by_page = target.core != NULL || resident->pagemap >= 0;
  return resident->by_page;
}

bool resident_open(struct resident *resident, struct target target) {
  (void)resident_open_pages(resident, target);
  if (!(target.core != NULL ? read_core : read_areas)(resident)) {
    resident_close(resident);
    return false;
  }
  if (target.core == NULL) resident->total = read_total(resident);
  return true;
}

void resident_close(struct resident *resident) {
  if (resident->pagemap >= 0) close(resident->pagemap);
  free(resident->areas);
  resident->areas = NULL;
  resident->count = 0;
}

/* The first area that ends behind `address`. */
static size_t find(const struct resident *resident, uint64_t address) {
  return first_above(resident->areas, resident->count, sizeof *resident->areas,
                     offsetof(struct area, end), address);
}

/* Entries of `count` pages; false: it cannot be told. */
static bool read_entries(const struct resident *resident, uint64_t start, uint64_t *entries,
                         size_t count) {
  if (!resident->by_page) return false;
  if (resident->target.core != NULL) {
    for (size_t i = 0; i < count; i++)
      entries[i] = core_has_page(resident->target.core, start + i * resident->page)
                       ? PAGE_PRESENT | PAGE_EXCLUSIVE
                       : 0;
    return true;
  }
  size_t bytes = count * sizeof *entries;
  uint64_t offset = start / resident->page * sizeof *entries;
  return pread(resident->pagemap, entries, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* How much a page counts. What an area has for itself is resident for sure, so the rest is shared out to the others. */
static void weigh(const struct resident *resident, struct area *area) {
  uint64_t entries[AT_ONCE], own = 0, other = 0;
  size_t page = resident->page;
  area->own = area->other = 0;
  if (area->resident == 0) return;
  if (resident->target.core != NULL) { /* it was counted by these pages */
    area->own = 1;
    return;
  }
  for (uint64_t at = area->start; at < area->end; at += AT_ONCE * page) {
    size_t count = (area->end - at) / page < AT_ONCE ? (area->end - at) / page : AT_ONCE;
    if (!read_entries(resident, at, entries, count)) return;
    for (size_t i = 0; i < count; i++) {
      if ((entries[i] & PAGE_PRESENT) == 0) continue;
      if ((entries[i] & PAGE_EXCLUSIVE) != 0) own++;
      else other++;
    }
  }
  double pages = (double)area->resident / (double)page;
  if (own > 0) area->own = pages < (double)own ? pages / (double)own : 1;
  double left = pages - (double)own;
  if (other > 0 && left > 0) area->other = left < (double)other ? left / (double)other : 1;
}

void resident_load(struct resident *resident, uint64_t start, uint64_t bytes, double *weights) {
  uint64_t entries[AT_ONCE];
  size_t page = resident->page;
  size_t area_at = find(resident, start);
  for (uint64_t i = 0; i < bytes / page; i++) {
    uint64_t address = start + i * page;
    size_t in_batch = i % AT_ONCE;
    if (in_batch == 0) {
      size_t count = bytes / page - i < AT_ONCE ? bytes / page - i : AT_ONCE;
      if (!read_entries(resident, address, entries, count)) memset(entries, 0, sizeof entries);
    }
    weights[i] = 0;
    while (area_at < resident->count && resident->areas[area_at].end <= address) area_at++;
    if (area_at == resident->count || resident->areas[area_at].start > address) continue;
    struct area *area = &resident->areas[area_at];
    if (!resident->by_page) {
      weights[i] = (double)area->resident / (double)(area->end - area->start);
    } else {
      if (area->own < 0) weigh(resident, area);
      if ((entries[in_batch] & PAGE_PRESENT) != 0)
        weights[i] = (entries[in_batch] & PAGE_EXCLUSIVE) != 0 ? area->own : area->other;
    }
    area->claimed += weights[i] * (double)page;
  }
}

bool resident_is(struct resident *resident, uint64_t address) {
  uint64_t bytes = NEAR_PAGES * resident->page, start = address & -bytes;
  if (start != resident->near_start || start == 0) {
    resident->near_start = start;
    if (!read_entries(resident, start, resident->near, NEAR_PAGES))
      memset(resident->near, 0xff, sizeof resident->near);
  }
  return (resident->near[(address - start) / resident->page] & PAGE_PRESENT) != 0;
}

uint64_t resident_bytes(const struct resident *resident, uint64_t start, uint64_t end) {
  uint64_t entries[AT_ONCE], bytes = 0, page = resident->page;
  while (start < end) {
    size_t count = (end - start) / page < AT_ONCE ? (end - start) / page : AT_ONCE;
    if (count == 0 || !read_entries(resident, start, entries, count)) break;
    for (size_t i = 0; i < count; i++) bytes += (entries[i] & PAGE_PRESENT) != 0 ? page : 0;
    start += count * page;
  }
  return bytes;
}

double resident_rest_of(const struct area *area) {
  return (double)area->resident > area->claimed ? (double)area->resident - area->claimed : 0;
}

double resident_rest(const struct resident *resident) {
  double rest = 0;
  for (size_t i = 0; i < resident->count; i++) rest += resident_rest_of(&resident->areas[i]);
  return rest;
}
