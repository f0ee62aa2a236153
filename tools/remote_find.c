/* remote_find.c - see remote_find.h.
 *
 * The directory lies in a section of its own, so that a program that was stripped of its symbols has it, too.
 */
#define _GNU_SOURCE
#include "remote_find.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "core.h"
#include "elf_file.h"
#include "mapped.h"
#include "observe/directory.h"
#include "remote_image.h"

enum { HEADERS_MOST = 128, SECTIONS_MOST = 4096 };

static bool read_at(int fd, void *to, size_t bytes, uint64_t offset) {
  return offset <= INT64_MAX && pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* Address of the section as the file has it; 0: it has none. */
static uint64_t find_section(int fd, const Elf64_Ehdr *header) {
  if (header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shnum > SECTIONS_MOST ||
      header->e_shstrndx >= header->e_shnum)
    return 0;
  Elf64_Shdr names, section;
  uint64_t table = header->e_shoff;
  if (!read_at(fd, &names, sizeof names, table + header->e_shstrndx * sizeof names)) return 0;
  for (unsigned i = 0; i < header->e_shnum; i++) {
    char name[sizeof DIRECTORY_SECTION];
    if (!read_at(fd, &section, sizeof section, table + i * sizeof section)) return 0;
    if ((section.sh_flags & SHF_ALLOC) == 0 || section.sh_size < sizeof DIRECTORY_MAGIC) continue;
    if (read_at(fd, name, sizeof name, names.sh_offset + section.sh_name) &&
        memcmp(name, DIRECTORY_SECTION, sizeof name) == 0)
      return section.sh_addr;
  }
  return 0;
}

/* Where the file says that its memory begins and ends. */
static bool find_bounds(int fd, const Elf64_Ehdr *header, uint64_t *first, uint64_t *end) {
  Elf64_Phdr headers[HEADERS_MOST];
  unsigned count = header->e_phnum;
  if (header->e_phentsize != sizeof headers[0] || count > HEADERS_MOST ||
      !read_at(fd, headers, count * sizeof headers[0], header->e_phoff))
    return false;
  *first = UINT64_MAX;
  *end = 0;
  for (unsigned i = 0; i < count; i++) {
    if (headers[i].p_type != PT_LOAD) continue;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if ((headers[i].p_vaddr & -page) < *first) *first = headers[i].p_vaddr & -page;
    uint64_t stop = headers[i].p_vaddr + headers[i].p_memsz;
    if (stop > *end) *end = (stop + page - 1) & -page;
  }
  return *first < *end;
}

/* --- the process' files ---------------------------------------------------------------------------- */

static const char *name_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

/* What others call themselves, most particular first. */
static void note_allocator(const char *name, struct found *found) {
  static const char *const known[][2] = {
      {"libasan", "AddressSanitizer's malloc"},
      {"libtsan", "ThreadSanitizer's malloc"},
      {"libjemalloc", "jemalloc"},
      {"libtcmalloc", "tcmalloc"},
      {"libmimalloc", "mimalloc"},
      {"libsnmalloc", "snmalloc"},
      {"librpmalloc", "rpmalloc"},
      {"libhoard", "Hoard"},
      {"libscudo", "Scudo"},
      {"libhardened_malloc", "hardened_malloc"},
      {"vgpreload_memcheck", "valgrind's malloc"},
  };
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (strncmp(name, known[i][0], strlen(known[i][0])) == 0)
      snprintf(found->allocator, sizeof found->allocator, "%s", known[i][1]);
  if (found->allocator[0] != 0) return;
  if (strncmp(name, "ld-musl-", 8) == 0)
    snprintf(found->allocator, sizeof found->allocator, "musl's malloc");
}

/* The library, or the program, of which it may be a part. */
static bool may_have_it(const struct core *core, const struct mapped *mapping, bool named) {
  return named || strcmp(mapping->path, core_program_path(core)) == 0;
}

/* The file cannot be read: it was deleted or replaced since, or lies where this tool may not look. A library of hakmem
 * exports its directory. */
static void look_into_memory(struct target target, const struct mapped *mapping, bool named,
                             struct found *found) {
  errno = 0;
  struct image image = remote_image_find(target, mapping->start, DIRECTORY_SYMBOL);
  if (image.symbol == 0 && errno == EPERM) found->refused = true;
  else if (image.symbol == 0 && target.core != NULL && may_have_it(target.core, mapping, named))
    snprintf(found->missing, sizeof found->missing, "%s", mapping->path);
  else if (image.symbol == 0 && named)
    snprintf(found->older, sizeof found->older, "%s", mapping->path);
  if (image.symbol == 0 || found->count == PLACES_MOST) return;
  struct place *place = &found->places[found->count++];
  snprintf(place->path, sizeof place->path, "%s", mapping->path);
  place->is_library = named;
  place->start = mapping->start;
  place->directory = image.symbol;
  place->end = image.end;
}

static void look_into(struct target target, const struct mapped *mapping, struct found *found) {
  const char *name = name_of(mapping->path);
  bool named = strncmp(name, "libhakmem", 9) == 0;
  note_allocator(name, found);
  int fd = mapped_open(target, mapping);
  if (fd < 0) {
    look_into_memory(target, mapping, named, found);
    return;
  }
  Elf64_Ehdr header;
  struct elf_file elf;
  uint64_t section = 0, first = 0, end = 0;
  elf_file_read(fd, &elf);
  if (elf.is_ours && !elf.damaged && read_at(fd, &header, sizeof header, 0) &&
      find_bounds(fd, &header, &first, &end))
    section = find_section(fd, &header);
  close(fd);
  if (section == 0 || section < first || section >= end || found->count == PLACES_MOST) {
    if (named && section == 0) snprintf(found->older, sizeof found->older, "%s", mapping->path);
    return;
  }
  struct place *place = &found->places[found->count++];
  snprintf(place->path, sizeof place->path, "%s", mapping->path);
  place->is_library = named;
  place->start = mapping->start;
  place->directory = mapping->start + (section - first);
  place->end = mapping->start + (end - first);
}

bool remote_find(struct target target, struct found *found, uint64_t late_ms) {
  char *line = NULL;
  size_t room = 0;
  uint64_t seen = 0;
  bool has_glibc = false, any = false;
  memset(found, 0, sizeof *found);
  FILE *maps = target_maps(target);
  if (maps == NULL) return false;
  while (getline(&line, &room, maps) >= 0 && (late_ms == 0 || now_ms() <= late_ms)) {
    struct mapped mapping;
    any = true;
    /* A file's first bytes have its headers, and its other mappings follow. */
    if (!mapped_parse(line, &mapping) || mapping.path[0] != '/' || mapping.offset != 0 ||
        mapping.inode == seen)
      continue;
    seen = mapping.inode;
    if (strncmp(name_of(mapping.path), "libc.so.6", 9) == 0 ||
        strncmp(name_of(mapping.path), "libc-2.", 7) == 0)
      has_glibc = true;
    look_into(target, &mapping, found);
  }
  free(line);
  fclose(maps);
  if (found->allocator[0] == 0)
    snprintf(found->allocator, sizeof found->allocator, "%s",
             has_glibc ? "glibc's malloc" : "a malloc that is part of the program");
  return any;
}
