/* core_box.c - see core.h: a black box that the library wrote (src/observe/box.h). */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core.h"
#include "mapped.h"
#include "ordered.h"
#include "remote.h"

/* --- its parts --------------------------------------------------------------------------------------------------- */

void core_note_box(struct core *core, const Elf64_Phdr *header) {
  unsigned part = header->p_type - BOX_FACTS;
  if (part < CORE_BOX_PARTS && core->box_parts[part].bytes == 0)
    core->box_parts[part] = (struct core_span){header->p_offset, header->p_filesz};
}

/* A part, with a 0 behind it; NULL: there is none, or no memory. */
static char *read_part(const struct core *core, uint32_t type, size_t *bytes) {
  const struct core_span *part = &core->box_parts[type - BOX_FACTS];
  *bytes = 0;
  if (part->bytes > BOX_BYTES_MOST || part->bytes > core->size) return NULL;
  char *text = calloc(1, part->bytes + 1);
  if (text != NULL && core_read_file(core, part->offset, text, part->bytes)) {
    *bytes = part->bytes;
    return text;
  }
  free(text);
  return NULL;
}

bool box_take_facts(struct box_facts *facts, const void *bytes, size_t count) {
  memset(facts, 0, sizeof *facts);
  memcpy(facts, bytes, count < sizeof *facts ? count : sizeof *facts);
  make_printable(facts->name, sizeof facts->name);
  make_printable(facts->arguments, sizeof facts->arguments);
  make_printable(facts->said, sizeof facts->said);
  return count >= offsetof(struct box_facts, name) && facts->version == BOX_VERSION &&
         facts->process <= INT32_MAX;
}

static bool take_facts(struct core *core) {
  size_t bytes;
  char *part = read_part(core, BOX_FACTS, &bytes);
  core->is_box = part != NULL && box_take_facts(&core->box, part, bytes);
  free(part);
  if (!core->is_box) return false;
  core->pid = (int)core->box.process;
  core->entry = core->box.program;
  core->missing += core->box.cut;
  snprintf(core->program, sizeof core->program, "%s", core->box.name);
  snprintf(core->arguments, sizeof core->arguments, "%.*s", (int)sizeof core->arguments - 1,
           core->box.arguments);
  return true;
}

/* Mappings of files, as NT_FILE has them. False: out of memory. */
static bool take_mapping(struct core *core, char *line) {
  struct mapped mapped;
  struct core_mapping mapping = {0};
  if (!mapped_parse(line, &mapped) || mapped.inode == 0 || mapped.start >= mapped.end) return true;
  mapping.start = mapped.start;
  mapping.end = mapped.end;
  mapping.offset = mapped.offset;
  return core_add_mapping(core, mapped.path, mapping);
}

static bool take_maps(struct core *core) {
  size_t bytes, lines = 1;
  char *line = NULL;
  size_t room = 0;
  core->maps = read_part(core, BOX_MAPS, &bytes);
  core->maps_length = bytes;
  if (core->maps == NULL) return true;
  for (size_t i = 0; i < bytes; i++) lines += core->maps[i] == '\n';
  core->mappings = calloc(lines, sizeof *core->mappings);
  core->files = calloc(lines, sizeof *core->files);
  FILE *maps = core_maps(core);
  bool ok = maps != NULL && core->mappings != NULL && core->files != NULL;
  while (ok && getline(&line, &room, maps) >= 0) ok = take_mapping(core, line);
  if (maps != NULL) fclose(maps);
  free(line);
  core_settle_mappings(core);
  return ok;
}

static int by_start(const void *a, const void *b) {
  uint64_t left = ((const struct box_pages *)a)->start,
           right = ((const struct box_pages *)b)->start;
  return left < right ? -1 : left > right;
}

bool core_read_box(struct core *core) {
  size_t bytes;
  if (core->box_parts[0].bytes == 0 || !take_facts(core)) return true;
  core->pages = (struct box_pages *)(void *)read_part(core, BOX_PAGES, &bytes);
  core->page_count = bytes / sizeof *core->pages;
  if (core->page_count > 0) qsort(core->pages, core->page_count, sizeof *core->pages, by_start);
  return take_maps(core);
}

/* --- pages ------------------------------------------------------------------------------------------------------- */

/* How many entries begin at `address` or before it. */
static size_t entries_to(const struct core *core, uint64_t address) {
  return first_above(core->pages, core->page_count, sizeof *core->pages,
                     offsetof(struct box_pages, start), address);
}

bool core_box_has_page(const struct core *core, uint64_t address) {
  size_t above = entries_to(core, address);
  if (above == 0) return false;
  const struct box_pages *entry = &core->pages[above - 1];
  uint64_t page = (address - entry->start) / core->page;
  return page < BOX_PAGES_EACH && (entry->present[page / BOX_WORD] >> page % BOX_WORD & 1) != 0;
}

uint64_t core_box_pages(const struct core *core, uint64_t start, uint64_t end) {
  uint64_t pages = 0, each = BOX_PAGES_EACH * core->page;
  size_t above = entries_to(core, start);
  for (size_t at = above > 0 ? above - 1 : 0; at < core->page_count && core->pages[at].start < end;
       at++) {
    uint64_t first = core->pages[at].start;
    for (uint64_t page = first > start ? first : start; page < end && page - first < each;
         page += core->page)
      pages += core_box_has_page(core, page);
  }
  return pages;
}
