/* where_mapping.c - see where.h: memory that is not ours. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "where.h"

static bool has(const struct where *where, uint64_t address) {
  return address >= where->mapping.start && address < where->mapping.end;
}

/* A thread's stack pointer lies in its stack, and with glibc its thread-local variables as well. */
static int thread_of_stack(const struct where *where, const struct where_reader *reader) {
  const struct remote *remote = reader->remote;
  const struct core *core = remote->core;
  if (strcmp(where->name, "[stack]") == 0) return remote->pid;
  if (where->name[0] != 0) return 0;
  for (size_t i = 0; core != NULL && i < core->thread_count; i++)
    if (core->threads[i].stack != 0 && has(where, core->threads[i].stack))
      return core->threads[i].number;
  for (size_t i = 0; i < reader->heaps->heap_count; i++) {
    const struct heap_figures *heap = &reader->heaps->heaps[i];
    if (!heap->parked && heap->mark != 0 && has(where, heap->mark)) return heap->thread;
  }
  return 0;
}

void where_mapping(struct where *where, const struct where_reader *reader) {
  char *line = NULL, byte;
  size_t room = 0;
  struct target target = remote_target(reader->remote);
  FILE *maps = target_maps(target);
  bool found = false;
  if (maps == NULL) return;
  while (!found && getline(&line, &room, maps) >= 0)
    found = mapped_parse(line, &where->mapping) && has(where, where->address);
  if (found) {
    where->kind = WHERE_MAPPING;
    where->start = where->mapping.start;
    where->bytes = where->mapping.end - where->mapping.start;
    snprintf(where->name, sizeof where->name, "%s", where->mapping.path);
    make_printable(where->name, sizeof where->name);
    where->stack_of = thread_of_stack(where, reader);
    where->kept = target_read(target, where->address, &byte, sizeof byte);
  }
  where->mapping.path = where->name;
  free(line);
  fclose(maps);
}
