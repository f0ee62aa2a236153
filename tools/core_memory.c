/* core_memory.c - see core.h: memory of a process, by its core and the files that it had mapped. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core.h"
#include "mapped.h"
#include "ordered.h"

/* --- where an address is -------------------------------------------------------------------------------------- */

/* The number of the first segment that ends behind it. */
static size_t first_behind(const struct core *core, uint64_t address) {
  return first_above(core->segments, core->segment_count, sizeof *core->segments,
                     offsetof(struct core_segment, end), address);
}

const struct core_segment *core_segment_at(const struct core *core, uint64_t address) {
  size_t at = first_behind(core, address);
  return at < core->segment_count && core->segments[at].start <= address ? &core->segments[at]
                                                                         : NULL;
}

const struct core_mapping *core_mapping_at(const struct core *core, uint64_t address) {
  size_t at = first_above(core->mappings, core->mapping_count, sizeof *core->mappings,
                          offsetof(struct core_mapping, end), address);
  return at < core->mapping_count && core->mappings[at].start <= address ? &core->mappings[at]
                                                                         : NULL;
}

struct core_file *core_file_at(struct core *core, uint64_t start) {
  const struct core_mapping *mapping = core_mapping_at(core, start);
  return mapping != NULL ? &core->files[mapping->file] : NULL;
}

const char *core_program_path(const struct core *core) {
  const struct core_mapping *mapping = core_mapping_at(core, core->entry);
  return mapping != NULL ? core->files[mapping->file].path : "";
}

const struct core_thread *core_thread(const struct core *core, int number) {
  for (size_t i = 0; i < core->thread_count; i++)
    if (core->threads[i].number == number) return &core->threads[i];
  return NULL;
}

/* --- files ------------------------------------------------------------------------------------------------------ */

/* Without a build-id to compare it can only be told whether the file is older than the core. Below a root that the user names it is what the
 * user says. */
static void open_unchecked(const struct core *core, struct core_file *file, const char *name) {
  char path[PATH_MAX + 64];
  struct stat status;
  bool named = core->places.root != NULL;
  snprintf(path, sizeof path, "%s%s", named ? core->places.root : "", name);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    file->why = "is not here";
    return;
  }
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) file->why = "is no regular file here";
  else if (strcmp(name, file->path) != 0) file->why = "was deleted or replaced before";
  else if (!named && status.st_mtime > core->written)
    file->why = "is newer than the core, which has no build-id of it";
  else {
    file->fd = fd;
    file->found = strdup(path);
    return;
  }
  close(fd);
}

int core_file_open(struct core *core, struct core_file *file) {
  char name[PATH_MAX], build_id[BUILD_ID_ROOM] = "";
  struct target target = {core->pid, core};
  if (file->tried) return file->fd;
  file->tried = true;
  if (file->path[0] != '/') {
    file->why = "is no file";
    return -1;
  }
  mapped_name(file->path, name, sizeof name);
  if (file->base != 0) mapped_build_id(target, file->base, build_id);
  if (build_id[0] == 0) {
    open_unchecked(core, file, name);
    return file->fd;
  }
  file->fd = mapped_open_same(target, name, build_id, &file->found);
  file->checked = file->fd >= 0;
  if (file->fd < 0) file->why = "is not here, or another build";
  return file->fd;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

/* How many bytes from `address` on the core itself has, up to `bytes`, and where. */
static size_t kept_at(const struct core *core, uint64_t address, size_t bytes, uint64_t *offset) {
  const struct core_segment *segment = core_segment_at(core, address);
  if (segment == NULL || address - segment->start >= segment->filed) return 0;
  uint64_t left = segment->filed - (address - segment->start);
  *offset = segment->offset + (address - segment->start);
  return left < bytes ? (size_t)left : bytes;
}

/* Of a box: memory that no file has and that was not there reads as zeros. How many bytes were read. */
static size_t read_untouched(const struct core *core, uint64_t address, void *to, size_t bytes) {
  if (core->page_count == 0 || core_mapping_at(core, address) != NULL ||
      core_box_has_page(core, address))
    return 0;
  uint64_t left = core->page - address % core->page;
  size_t part = left < bytes ? (size_t)left : bytes;
  memset(to, 0, part);
  return part;
}

bool core_read_kept(const struct core *core, uint64_t address, void *to, size_t bytes) {
  for (char *at = to; bytes > 0;) {
    uint64_t offset;
    size_t part = kept_at(core, address, bytes, &offset);
    if (part > 0 && !core_read_file(core, offset, at, part)) return false;
    if (part == 0) part = read_untouched(core, address, at, bytes);
    if (part == 0) return false;
    address += part;
    at += part;
    bytes -= part;
  }
  return true;
}

/* Of memory that was left out, and not cut away: the latter may have been written to. How many bytes were read. */
static size_t read_mapped(struct core *core, uint64_t address, void *to, size_t bytes) {
  const struct core_segment *segment = core_segment_at(core, address);
  const struct core_mapping *mapping = core_mapping_at(core, address);
  if (mapping == NULL || (segment != NULL && address - segment->start < segment->promised))
    return 0;
  uint64_t left = mapping->end - address, at = mapping->offset + (address - mapping->start);
  if (left > bytes) left = bytes;
  /* From the next segment on the core may have it. */
  size_t next = first_behind(core, address);
  if (segment == NULL && next < core->segment_count && core->segments[next].start - address < left)
    left = core->segments[next].start - address;
  int fd = core_file_open(core, &core->files[mapping->file]);
  if (fd < 0) return 0;
  ssize_t got = pread(fd, to, left, (off_t)at);
  return got > 0 ? (size_t)got : 0;
}

bool core_read(struct core *core, uint64_t address, void *to, size_t bytes) {
  for (char *at = to; bytes > 0;) {
    uint64_t offset;
    size_t part = kept_at(core, address, bytes, &offset);
    if (part > 0 && !core_read_file(core, offset, at, part)) return false;
    if (part == 0) part = read_mapped(core, address, at, bytes);
    if (part == 0) part = read_untouched(core, address, at, bytes);
    if (part == 0) return false;
    address += part;
    at += part;
    bytes -= part;
  }
  return true;
}

/* --- pages ------------------------------------------------------------------------------------------------------ */

static bool is_zero(const char *bytes, size_t count) {
  return count == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0);
}

/* Marks the pages of a segment that are not zeros. Holes of the file are passed by. */
static void mark(struct core *core, const struct core_segment *segment, char *piece, size_t room) {
  for (uint64_t at = 0; at < segment->filed;) {
    off_t data = lseek(core->fd, (off_t)(segment->offset + at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) return;
    if (data > (off_t)(segment->offset + at))
      at = ((uint64_t)data - segment->offset) / core->page * core->page;
    if (at >= segment->filed) return;
    size_t bytes = segment->filed - at < room ? (size_t)(segment->filed - at) : room;
    if (!core_read_file(core, segment->offset + at, piece, bytes)) return;
    for (size_t i = 0; i < bytes; i += core->page) {
      uint64_t page = segment->first_page + (at + i) / core->page;
      if (!is_zero(piece + i, bytes - i < core->page ? bytes - i : core->page))
        core->present[page / 64] |= UINT64_C(1) << page % 64;
    }
    at += bytes;
  }
}

static bool make_present(struct core *core) {
  enum { PIECE = 1 << 20 };
  if (core->present != NULL) return true;
  uint64_t pages = 0;
  for (size_t i = 0; i < core->segment_count; i++)
    pages += (core->segments[i].filed + core->page - 1) / core->page;
  char *piece = malloc(PIECE);
  core->present = calloc(pages / 64 + 1, sizeof *core->present);
  if (piece != NULL && core->present != NULL)
    for (size_t i = 0; i < core->segment_count; i++) mark(core, &core->segments[i], piece, PIECE);
  free(piece);
  return piece != NULL && core->present != NULL;
}

uint64_t core_pages(struct core *core, uint64_t start, uint64_t end) {
  uint64_t pages = 0;
  if (core->page_count > 0) return core_box_pages(core, start, end);
  if (!make_present(core)) return 0;
  for (size_t i = first_behind(core, start); i < core->segment_count; i++) {
    const struct core_segment *segment = &core->segments[i];
    if (segment->start >= end) break;
    uint64_t from = segment->start > start ? segment->start : start;
    uint64_t stop = segment->start + segment->filed < end ? segment->start + segment->filed : end;
    for (; from < stop; from += core->page) pages += core_has_page(core, from);
  }
  return pages;
}

bool core_has_page(struct core *core, uint64_t address) {
  if (core->page_count > 0) return core_box_has_page(core, address);
  const struct core_segment *segment = core_segment_at(core, address);
  if (segment == NULL || address - segment->start >= segment->filed || !make_present(core))
    return false;
  uint64_t page = segment->first_page + (address - segment->start) / core->page;
  return (core->present[page / 64] >> page % 64 & 1) != 0;
}
