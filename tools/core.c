/* core.c - see core.h: opening one. */
#define _GNU_SOURCE
#include "core.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "elf_file.h"

bool core_read_file(const struct core *core, uint64_t offset, void *to, size_t bytes) {
  return offset <= core->size && bytes <= core->size - offset &&
         pread(core->fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* --- which kind of file ----------------------------------------------------------------------------------- */

enum { HEAD = 20 };

/* How files begin that systemd-coredump and others have compressed. */
static const struct {
  const char *bytes, *name, *unpack;
} compressions[] = {
    {"\x28\xb5\x2f\xfd", "zstd", "zstd -d"},
    {"\xfd"
     "7zXZ",
     "xz", "xz -dk"},
    {"\x04\x22\x4d\x18", "lz4", "lz4 -d"},
    {"\x1f\x8b", "gzip", "gzip -dk"},
    {"BZh", "bzip2", "bzip2 -dk"},
};
enum { COMPRESSIONS = sizeof compressions / sizeof compressions[0], ZSTD = 0, NOT_COMPRESSED = -1 };

static int compression_of(const char *head) {
  for (int i = 0; i < COMPRESSIONS; i++)
    if (memcmp(head, compressions[i].bytes, strlen(compressions[i].bytes)) == 0) return i;
  return NOT_COMPRESSED;
}

static int open_regular(const char *path) {
  struct stat status;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0 && (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))) {
    close(fd);
    errno = EINVAL;
    fd = -1;
  }
  return fd;
}

bool core_is_file(const char *path) {
  char head[HEAD] = "";
  uint16_t type = 0;
  int fd = open_regular(path);
  if (fd < 0) return false;
  bool read = pread(fd, head, sizeof head, 0) > 0;
  close(fd);
  memcpy(&type, head + EI_NIDENT, sizeof type);
  return read && (compression_of(head) != NOT_COMPRESSED ||
                  (memcmp(head, ELFMAG, SELFMAG) == 0 && type == ET_CORE));
}

/* 0, or an exit code after a complaint. */
static int refuse_other_kinds(struct core *core) {
  struct elf_file elf;
  Elf64_Ehdr header = {0};
  elf_file_read(core->fd, &elf);
  if (core->size == 0) complain("%s: is empty: nothing was written of it", core->path);
  else if (!elf.is_elf) complain("%s: is no core file", core->path);
  else if (!elf.is_ours && elf.machine[0] != 0)
    complain("%s: is of a program for %s; this hakmem reads those for %s", core->path, elf.machine,
             elf_file_own_machine());
  else if (!core_read_file(core, 0, &header, sizeof header))
    complain("%s: is cut within its first header: nothing can be read of it", core->path);
  else if (header.e_type != ET_CORE)
    complain("%s: is a program or a library, no core file", core->path);
  else return 0;
  return EXIT_CANNOT_RUN;
}

/* --- opening ------------------------------------------------------------------------------------------------ */

/* 0, or an exit code after a complaint. */
static int open_file(struct core *core) {
  char head[HEAD] = "";
  struct stat status;
  core->fd = open_regular(core->path);
  if (core->fd < 0) {
    complain("%s: %s", core->path, errno == EINVAL ? "is no regular file" : strerror(errno));
    return errno == ENOENT ? EXIT_NO_PROGRAM : EXIT_CANNOT_RUN;
  }
  if (fstat(core->fd, &status) == 0) core->written = status.st_mtime;
  int packed = pread(core->fd, head, sizeof head, 0) > 0 ? compression_of(head) : NOT_COMPRESSED;
  if (packed == ZSTD) {
    int fd = core_unpack(core->fd, core->path);
    if (fd < 0) return EXIT_CANNOT_RUN;
    close(core->fd);
    core->fd = fd;
  } else if (packed != NOT_COMPRESSED) {
    complain("%s: is compressed by %s, which hakmem does not read; unpack it first: %s", core->path,
             compressions[packed].name, compressions[packed].unpack);
    return EXIT_CANNOT_RUN;
  }
  if (fstat(core->fd, &status) != 0) return EXIT_CANNOT_RUN;
  core->size = (uint64_t)status.st_size;
  return refuse_other_kinds(core);
}

/* 0, or an exit code after a complaint. */
static int read_all(struct core *core) {
  struct core_span notes[CORE_NOTES_MOST];
  size_t note_count = 0;
  int code = core_read_headers(core, notes, &note_count);
  if (code != 0) return code;
  bool ok = true;
  for (size_t i = 0; i < note_count && ok; i++) ok = core_read_notes(core, notes[i]);
  if (!ok || !core_read_box(core) || (!core->is_box && !core_make_maps(core))) {
    complain("out of memory");
    return 1;
  }
  if (core->mapping_count > 0 || core->thread_count > 0) return 0;
  complain(
      "%s: has no notes that say which files were mapped and what threads there were: it is cut "
      "before them, or no core of Linux",
      core->path);
  return EXIT_CANNOT_RUN;
}

int core_open(struct core **core, const char *path, const struct core_places *places) {
  struct core *made = calloc(1, sizeof *made);
  *core = NULL;
  if (made == NULL) {
    complain("out of memory");
    return 1;
  }
  made->path = path;
  made->places = *places;
  made->page = (size_t)sysconf(_SC_PAGESIZE);
  int code = open_file(made);
  if (code == 0) code = read_all(made);
  if (code == 0) *core = made;
  else core_close(made);
  return code;
}

void core_close(struct core *core) {
  if (core == NULL) return;
  for (size_t i = 0; i < core->file_count; i++) {
    if (core->files[i].fd >= 0) close(core->files[i].fd);
    free(core->files[i].path);
    free(core->files[i].found);
  }
  if (core->fd >= 0) close(core->fd);
  free(core->segments);
  free(core->mappings);
  free(core->files);
  free(core->threads);
  free(core->maps);
  free(core->pages);
  free(core->present);
  free(core);
}
