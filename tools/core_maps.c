/* core_maps.c - see core.h: a core's memory as lines of /proc/PID/maps, which other parts of the tool read. */
#define _GNU_SOURCE
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

struct line {
  uint64_t start, end, offset;
  uint32_t rights, file; /* file: number + 1 in core->files; 0: none */
};

struct lines {
  struct line *all;
  size_t count, room;
  bool failed;
};

static void add(struct lines *lines, struct line line) {
  if (line.start >= line.end || lines->failed) return;
  if (lines->count == lines->room) {
    size_t room = 2 * lines->room + 64;
    struct line *more = reallocarray(lines->all, room, sizeof *more);
    lines->failed = more == NULL;
    if (lines->failed) return;
    lines->all = more;
    lines->room = room;
  }
  lines->all[lines->count++] = line;
}

/* Code is left out by gdb with all that is said of it: such a mapping is taken for code. */
static uint32_t rights_of(const struct core *core, const struct core_mapping *mapping) {
  const struct core_segment *segment = core_segment_at(core, mapping->start);
  return segment != NULL ? segment->rights : PF_R | PF_X;
}

/* What of a segment is of no file. Both are in the order of addresses, and `at` is the first mapping that may matter. */
static void add_anonymous(struct lines *lines, const struct core *core,
                          const struct core_segment *segment, size_t *at) {
  uint64_t from = segment->start;
  while (*at < core->mapping_count && core->mappings[*at].end <= from) (*at)++;
  for (size_t i = *at; i < core->mapping_count && core->mappings[i].start < segment->end; i++) {
    add(lines, (struct line){from, core->mappings[i].start, 0, segment->rights, 0});
    if (core->mappings[i].end > from) from = core->mappings[i].end;
  }
  add(lines, (struct line){from, segment->end, 0, segment->rights, 0});
}

static int by_start(const void *a, const void *b) {
  const struct line *left = a, *right = b;
  return left->start < right->start ? -1 : left->start > right->start;
}

static const char *name_of(const struct core *core, const struct line *line) {
  const struct core_thread *first = core_thread(core, core->pid);
  if (line->file != 0) return core->files[line->file - 1].path;
  if (first != NULL && first->stack >= line->start && first->stack < line->end) return "[stack]";
  return core->vdso >= line->start && core->vdso < line->end ? "[vdso]" : "";
}

static void print(const struct core *core, const struct line *line, FILE *out) {
  uint32_t rights = line->rights;
  fprintf(out, "%llx-%llx %c%c%cp %llx 00:%02x %u ", (unsigned long long)line->start,
          (unsigned long long)line->end, rights & PF_R ? 'r' : '-', rights & PF_W ? 'w' : '-',
          rights & PF_X ? 'x' : '-', (unsigned long long)line->offset, line->file != 0, line->file);
  for (const char *letter = name_of(core, line); *letter != 0; letter++)
    fputc(*letter == '\n' ? '?' : *letter, out);
  fputc('\n', out);
}

bool core_make_maps(struct core *core) {
  struct lines lines = {0};
  size_t at = 0;
  for (size_t i = 0; i < core->mapping_count; i++) {
    const struct core_mapping *mapping = &core->mappings[i];
    add(&lines, (struct line){mapping->start, mapping->end, mapping->offset,
                              rights_of(core, mapping), mapping->file + 1});
  }
  for (size_t i = 0; i < core->segment_count; i++)
    add_anonymous(&lines, core, &core->segments[i], &at);
  if (lines.count > 0) qsort(lines.all, lines.count, sizeof *lines.all, by_start);
  FILE *out = open_memstream(&core->maps, &core->maps_length);
  for (size_t i = 0; out != NULL && i < lines.count; i++) print(core, &lines.all[i], out);
  bool ok = out != NULL && !lines.failed && ferror(out) == 0;
  if (out != NULL) ok = fclose(out) == 0 && ok;
  free(lines.all);
  return ok;
}

FILE *core_maps(const struct core *core) {
  /* fmemopen refuses nothing of no length in older releases of glibc. */
  return core->maps_length > 0 ? fmemopen(core->maps, core->maps_length, "re")
                               : fopen("/dev/null", "re");
}
