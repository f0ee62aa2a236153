/* remote.c - see remote.h. */
#define _GNU_SOURCE
#include "remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "cli.h"
#include "core.h"
#include "remote_find.h"

struct target remote_target(const struct remote *remote) {
  return (struct target){remote->task, remote->core};
}

bool remote_read(const struct remote *remote, uint64_t address, void *to, size_t bytes) {
  return target_read(remote_target(remote), address, to, bytes);
}

bool remote_write(const struct remote *remote, uint64_t address, const void *from, size_t bytes) {
  if (remote->core != NULL) return false;
  struct iovec here = {(void *)(uintptr_t)from, bytes};
  struct iovec there = {(void *)(uintptr_t)address, bytes};
  return process_vm_writev(remote->task, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

static unsigned read_words_of_core(const struct remote *remote, const uint64_t *addresses,
                                   unsigned count, uint64_t *words) {
  unsigned got = 0;
  while (got < count && remote_read(remote, addresses[got], &words[got], sizeof *words)) got++;
  return got;
}

unsigned remote_read_words(const struct remote *remote, const uint64_t *addresses, unsigned count,
                           uint64_t *words) {
  struct iovec here = {words, count * sizeof *words}, there[READ_AT_ONCE];
  if (remote->core != NULL) return read_words_of_core(remote, addresses, count, words);
  for (unsigned i = 0; i < count; i++)
    there[i] = (struct iovec){(void *)(uintptr_t)addresses[i], sizeof *words};
  ssize_t got = process_vm_readv(remote->task, &here, 1, there, count, 0);
  return got < 0 ? 0 : (unsigned)((size_t)got / sizeof *words);
}

uint64_t remote_word(const struct remote *remote, uint64_t address) {
  uint64_t word = 0;
  return remote_read(remote, address, &word, sizeof word) ? word : 0;
}

uint64_t copy_get(struct copy copy, struct directory_field field) {
  if (field.at > copy.size || field.bytes > copy.size - field.at) return 0;
  const char *at = copy.bytes + field.at;
  uint8_t byte;
  uint16_t half;
  uint32_t word;
  uint64_t all;
  switch (field.bytes) {
  case 1:
    memcpy(&byte, at, sizeof byte);
    return byte;
  case 2:
    memcpy(&half, at, sizeof half);
    return half;
  case 4:
    memcpy(&word, at, sizeof word);
    return word;
  case 8:
    memcpy(&all, at, sizeof all);
    return all;
  default:
    return 0;
  }
}

uint64_t copy_get_at(struct copy copy, struct directory_array array, uint32_t i,
                     struct directory_field field) {
  uint64_t at = array.at + (uint64_t)array.stride * i;
  if (i >= array.count || at > copy.size) return 0;
  return copy_get((struct copy){copy.bytes + at, copy.size - at}, field);
}

bool remote_option(const struct remote *remote, const char *name, int32_t *value) {
  const struct directory_layout *layout = &remote->layout;
  size_t bytes = layout->options.name.bytes;
  uint8_t started = 0;
  char text[64];
  if (remote->option_table == 0 || strlen(name) >= bytes || bytes > sizeof text ||
      !remote_read(remote, remote->started, &started, sizeof started) || started == 0)
    return false;
  for (uint32_t i = 0; i < layout->options.count; i++) {
    uint64_t row = remote->option_table + (uint64_t)i * layout->options.stride;
    if (!remote_read(remote, row + layout->options.name.at, text, bytes)) return false;
    if (strncmp(text, name, bytes) == 0)
      return remote_read(remote, remote->option_values + i * sizeof *value, value, sizeof *value);
  }
  return false;
}

/* --- its directory ----------------------------------------------------------------------------------- */

static uint64_t place(uint64_t directory, directory_distance distance) {
  return distance == 0 ? 0 : directory + (uint64_t)distance;
}

static bool is_array_in(struct directory_array array, uint64_t bytes) {
  return array.at <= bytes && array.stride > 0 && array.count <= (bytes - array.at) / array.stride;
}

static bool is_plausible(const struct directory_layout *layout) {
  enum { MOST = 1 << 20 };
  return layout->map.unit_shift >= 12 && layout->map.unit_shift <= 32 &&
         layout->map.slice_shift >= 12 && layout->map.slice_shift <= layout->map.unit_shift &&
         layout->map.unit_shift - layout->map.slice_shift <= 6 &&
         layout->map.leaf_shift > layout->map.unit_shift && layout->map.leaf_shift <= 48 &&
         layout->superslab.bytes <= MOST && layout->heap.bytes <= MOST &&
         layout->pool.bytes <= MOST && layout->heap.classes <= 256 &&
         is_array_in(layout->map.root, layout->map.bytes) && layout->map.root.stride == 8 &&
         layout->map.root.count <= 1 << 26 &&
         is_array_in(layout->map.superslabs, layout->map.leaf_bytes) &&
         layout->map.superslabs.stride == 8 && layout->map.superslabs.count <= 1 << 20 &&
         is_array_in(layout->superslab.slabs, layout->superslab.bytes) &&
         layout->superslab.slabs.count <=
             1u << (layout->map.unit_shift - layout->map.slice_shift) &&
         is_array_in(layout->heap.bins, layout->heap.bytes) &&
         is_array_in(layout->heap.outgoing, layout->heap.bytes) &&
         is_array_in(layout->pool.runs, layout->pool.bytes) && layout->counters.classes <= 256 &&
         layout->counters.counters <= 64 && layout->counters.supplies <= 64 &&
         layout->named.bytes <= MOST && layout->options.count <= 4096 &&
         layout->options.stride <= 4096;
}

static int refuse_core(const struct remote *remote) {
  char missing[128] = "";
  if (remote->core->missing > 0)
    snprintf(missing, sizeof missing, ": it is cut, %llu bytes of it are missing",
             (unsigned long long)remote->core->missing);
  complain("%s: of process %d (%s), what hakmem knew of its memory is not in this core%s",
           remote->core->path, remote->pid, remote->program, missing);
  return EXIT_CANNOT_RUN;
}

/* After a read that failed. */
static int cannot_read(struct remote *remote) {
  if (remote->core != NULL) return refuse_core(remote);
  return errno == EFAULT || errno == ESRCH ? remote_report(remote, remote_look(remote))
                                           : remote_refused(remote);
}

/* The directory at `address`. 0, or an exit code. */
static int read_directory(struct remote *remote, uint64_t address) {
  struct directory directory = {0};
  size_t head = offsetof(struct directory, layout);
  if (!remote_read(remote, address, &directory, head)) return cannot_read(remote);
  if (memcmp(directory.magic, DIRECTORY_MAGIC, sizeof directory.magic) != 0 ||
      directory.bytes < head || directory.bytes > 65536) {
    complain("process %d (%s): what should be hakmem's directory in %s is something else",
             remote->pid, remote->program, remote->object);
    return EXIT_CANNOT_RUN;
  }
  if (directory.version != DIRECTORY_VERSION) {
    complain("process %d (%s) runs on another release of hakmem, whose directory has version %u; "
             "this tool reads version %d: use the tool of that release",
             remote->pid, remote->program, directory.version, DIRECTORY_VERSION);
    return EXIT_CANNOT_RUN;
  }
  size_t bytes = directory.bytes < sizeof directory ? directory.bytes : sizeof directory;
  uint32_t layout_bytes = 0;
  if (!remote_read(remote, address, &directory, bytes) ||
      !remote_read(remote, place(address, directory.layout), &layout_bytes, sizeof layout_bytes))
    return cannot_read(remote);
  if (layout_bytes > sizeof remote->layout) layout_bytes = sizeof remote->layout;
  if (!remote_read(remote, place(address, directory.layout), &remote->layout, layout_bytes))
    return cannot_read(remote);
  if (!is_plausible(&remote->layout)) {
    complain("process %d (%s): hakmem's directory makes no sense", remote->pid, remote->program);
    return EXIT_CANNOT_RUN;
  }
  make_printable(remote->layout.release, sizeof remote->layout.release);
  make_printable(remote->layout.variant, sizeof remote->layout.variant);
  remote->directory = address;
  remote->map = place(address, directory.map);
  remote->heaps = place(address, directory.heaps);
  remote->lists = place(address, directory.lists);
  remote->units = place(address, directory.units);
  remote->pool = place(address, directory.pool);
  remote->stuck = place(address, directory.stuck);
  remote->chunks = place(address, directory.chunks);
  remote->first_chunk = place(address, directory.first_chunk);
  remote->os_counts = place(address, directory.os_counts);
  remote->counters_shared = place(address, directory.counters_shared);
  remote->counters_supplied = place(address, directory.counters_supplied);
  remote->started = place(address, directory.started);
  remote->option_values = place(address, directory.option_values);
  remote->option_table = place(address, directory.option_table);
  remote->samples = place(address, directory.samples);
  remote->requests = place(address, directory.requests);
  remote->heap_none = place(address, directory.heap_none);
  remote->option_sources = place(address, directory.option_sources);
  remote->lost = place(address, directory.lost);
  remote->guarded = place(address, directory.guarded);
  remote->guarded_slots = place(address, directory.guarded_slots);
  return 0;
}

bool remote_has_directory(const struct remote *remote) {
  char magic[sizeof DIRECTORY_MAGIC - 1];
  return remote_read(remote, remote->directory, magic, sizeof magic) &&
         memcmp(magic, DIRECTORY_MAGIC, sizeof magic) == 0;
}

static int complain_of_none(const struct remote *remote, const struct found *found) {
  if (remote->core != NULL && found->missing[0] != 0) {
    complain("%s: hakmem may be in %s, of which this machine has no file of the same build; name "
             "where it is: --root or --debug-dir",
             remote->core->path, found->missing);
    return EXIT_CANNOT_RUN;
  }
  if (remote->core == NULL && remote_look(remote) == REMOTE_ENDED)
    return remote_report(remote, REMOTE_ENDED);
  if (found->older[0] != 0) {
    complain(
        "process %d (%s) runs on an older hakmem (%s), which cannot be looked into from outside: "
        "start it again on this one, or with HAKMEM_STATS_SIGNAL=USR1",
        remote->pid, remote->program, found->older);
    return EXIT_CANNOT_RUN;
  }
  complain("process %d (%s) does not run on hakmem but on %s; start it by: hakmem run -- %s",
           remote->pid, remote->program, found->allocator, remote->program);
  return EXIT_CANNOT_RUN;
}

/* A box says where it is. One that was damaged may have mappings of terabytes, which nobody looks through. */
static void find_in_box(const struct core *core, struct found *found) {
  const uint64_t most = UINT64_C(1) << 30, at = core->box.directory;
  const struct core_mapping *mapping = core_mapping_at(core, at);
  struct place *place = &found->places[0];
  if (mapping == NULL) return;
  const struct core_file *file = &core->files[mapping->file];
  snprintf(place->path, sizeof place->path, "%s", file->path);
  place->is_library = strncmp(base_name(file->path), "libhakmem", 9) == 0;
  place->directory = at;
  place->start = at > most && file->base < at - most ? at - most : file->base;
  for (size_t i = 0; i < core->mapping_count; i++)
    if (core->mappings[i].file == mapping->file) place->end = core->mappings[i].end;
  if (place->end > at && place->end - at > most) place->end = at + most;
  found->count = 1;
}

/* Where hakmem is in it. 0, or an exit code after a complaint. */
static int open_there(struct remote *remote, uint64_t late_ms) {
  int code = 0;
  struct found *found = calloc(1, sizeof *found);
  if (found == NULL) {
    complain("out of memory");
    return 1;
  }
  if (remote->core != NULL && remote->core->is_box) find_in_box(remote->core, found);
  if (found->count > 0) code = 0;
  else if (!remote_find(remote_target(remote), found, late_ms) ||
           (found->count == 0 && found->refused))
    code = remote_refused(remote);
  else if (found->count == 0) code = complain_of_none(remote, found);
  /* A program may have it twice, linked in and preloaded: the one that has heaps serves it. */
  for (unsigned i = 0; i < found->count && code == 0 && !remote->shared; i++) {
    struct place *at = &found->places[i];
    snprintf(remote->object, sizeof remote->object, "%s", at->path);
    remote->is_library = at->is_library;
    remote->object_start = at->start;
    remote->object_end = at->end;
    code = read_directory(remote, at->directory);
    if (code == 0 && !remote->shared && remote_word(remote, remote->heaps) != 0) break;
  }
  free(found);
  int32_t libc = 0;
  if (code == 0 && remote_option(remote, "HAKMEM_FORCE_LIBC_ALLOC", &libc) && libc != 0) {
    complain("process %d (%s) has hakmem loaded, but does not use it: "
             "HAKMEM_FORCE_LIBC_ALLOC=1 is set, and every call goes to libc's malloc",
             remote->pid, remote->program);
    return EXIT_CANNOT_RUN;
  }
  return code;
}

int remote_open(struct remote *remote, const char *text) { return remote_open_by(remote, text, 0); }

int remote_open_by(struct remote *remote, const char *text, uint64_t late_ms) {
  if (text == NULL) {
    complain("name a process, by its number");
    return EXIT_USAGE;
  }
  memset(remote, 0, sizeof *remote);
  int code = remote_check_process(remote, text);
  return code != 0 || remote->shared ? code : open_there(remote, late_ms);
}

bool remote_is_refused(const struct remote *remote) {
  return remote->object[0] != 0 && remote->directory == 0 && !remote->shared;
}

int remote_of_core(struct remote *remote, struct core *core) {
  char byte;
  memset(remote, 0, sizeof *remote);
  remote->core = core;
  remote->pid = remote->task = core->pid;
  snprintf(remote->program, sizeof remote->program, "%s", core->program);
  int code = open_there(remote, 0);
  /* The directory is read from a file, which every process has: what the process wrote may be cut away. */
  if (code == 0 && !core_read_kept(core, remote->heaps, &byte, sizeof byte))
    code = refuse_core(remote);
  else if (code == 0 && core->missing > 0)
    complain("note: %s is cut: %llu bytes of %llu are missing, and figures are of what is there",
             core->path, (unsigned long long)core->missing,
             (unsigned long long)core->size + core->missing);
  else if (code == 0 && core->is_box && core->page_count == 0)
    complain(
        "note: %s does not say which pages were resident: the process may not read that of "
        "itself (it has changed its user, or has privileges); of the sum only 'resident' is known",
        core->path);
  return code;
}

int remote_open_core(struct remote *remote, const char *path, const struct core_places *places) {
  struct core *core;
  memset(remote, 0, sizeof *remote);
  int code = core_open(&core, path, places);
  return code != 0 ? code : remote_of_core(remote, core);
}

void remote_close(struct remote *remote) {
  if (remote == NULL) return;
  core_close(remote->core);
  remote->core = NULL;
}
