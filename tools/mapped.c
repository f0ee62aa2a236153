/* mapped.c - see mapped.h. */
#define _GNU_SOURCE
#include "mapped.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core.h"

static const char deleted[] = " (deleted)";

enum { ROOT_ROOM = PATH_MAX };

bool mapped_parse(char *line, struct mapped *mapped) {
  enum { RIGHTS = sizeof mapped->rights - 1 };
  char *at = line;
  line[strcspn(line, "\n")] = 0;
  mapped->start = strtoull(at, &at, 16);
  if (*at++ != '-') return false;
  mapped->end = strtoull(at, &at, 16);
  if (*at++ != ' ' || strlen(at) < RIGHTS + 1) return false;
  memcpy(mapped->rights, at, RIGHTS);
  mapped->rights[RIGHTS] = 0;
  at += RIGHTS + 1;
  mapped->offset = strtoull(at, &at, 16);
  strtoul(at, &at, 16); /* device */
  if (*at++ != ':') return false;
  strtoul(at, &at, 16);
  mapped->inode = strtoull(at, &at, 10);
  mapped->path = at + strspn(at, " ");
  return true;
}

/* A regular file, and of this number where it is not 0; -1: it is none. */
static int open_regular(const char *path, uint64_t inode) {
  struct stat status;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0 && (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
                  (inode != 0 && status.st_ino != inode))) {
    close(fd);
    fd = -1;
  }
  return fd;
}

static int open_of_core(struct core *core, uint64_t start) {
  struct core_file *file = core_file_at(core, start);
  int fd = file != NULL ? core_file_open(core, file) : -1;
  errno = ENOENT;
  return fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
}

int mapped_open(struct target target, const struct mapped *mapped) {
  char path[PATH_MAX + 64];
  int pid = target.pid;
  if (target.core != NULL) return open_of_core(target.core, mapped->start);
  struct stat status;
  snprintf(path, sizeof path, "/proc/%d/map_files/%llx-%llx", pid,
           (unsigned long long)mapped->start, (unsigned long long)mapped->end);
  int fd = open_regular(path, 0), error = errno;
  if (fd >= 0) return fd;
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  if (stat(path, &status) != 0 || status.st_ino != mapped->inode)
    snprintf(path, sizeof path, "/proc/%d/root%s", pid, mapped->path);
  fd = open_regular(path, mapped->inode);
  errno = error;
  return fd;
}

const char *mapped_name(const char *path, char *text, size_t room) {
  snprintf(text, room, "%s", path);
  size_t length = strlen(text);
  if (length >= sizeof deleted && strcmp(text + length - (sizeof deleted - 1), deleted) == 0)
    text[length - (sizeof deleted - 1)] = 0;
  return text;
}

/* --- build-ids ----------------------------------------------------------------------------------------------- */

/* Reads of somebody's memory, or of a file. */
struct source {
  bool is_file;
  int fd;
  struct target target;
  uint64_t start;
};

/* Of a core what it has itself: its files are what is to be compared with that. */
static bool get(const struct source *source, uint64_t at, void *to, size_t bytes) {
  if (source->is_file)
    return at <= INT64_MAX && pread(source->fd, to, bytes, (off_t)at) == (ssize_t)bytes;
  return target_read_kept(source->target, source->start + at, to, bytes);
}

/* Notes: their header, the owner's name, its content, each in multiples of 4 bytes. */
static bool take_note(const struct source *source, uint64_t at, uint64_t bytes,
                      char text[BUILD_ID_ROOM]) {
  enum { NOTES_MOST = 64, ID_MOST = BUILD_ID_ROOM / 2 };
  uint64_t end = at + bytes;
  for (int i = 0; i < NOTES_MOST && at < end && end - at >= sizeof(Elf64_Nhdr); i++) {
    Elf64_Nhdr note;
    char owner[4] = "";
    unsigned char id[ID_MOST];
    if (!get(source, at, &note, sizeof note)) return false;
    at += sizeof note;
    uint64_t content = at + ((uint64_t)note.n_namesz + 3) / 4 * 4;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof owner && note.n_descsz > 0 &&
        note.n_descsz <= sizeof id && get(source, at, owner, sizeof owner) &&
        memcmp(owner, ELF_NOTE_GNU, sizeof owner) == 0 && get(source, content, id, note.n_descsz)) {
      for (unsigned k = 0; k < note.n_descsz; k++) sprintf(text + (size_t)2 * k, "%02x", id[k]);
      return true;
    }
    at = content + ((uint64_t)note.n_descsz + 3) / 4 * 4;
  }
  return false;
}

/* In memory notes lie where the addresses say; in a file, where the offsets do. A file that has debugging information alone has no
 * right offsets in its program headers, but sections. */
static void take_build_id(const struct source *source, char text[BUILD_ID_ROOM]) {
  enum { HEADERS_MOST = 128, SECTIONS_MOST = 4096 };
  Elf64_Ehdr header;
  text[0] = 0;
  if (!get(source, 0, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64)
    return;
  if (source->is_file && header.e_shentsize == sizeof(Elf64_Shdr)) {
    for (unsigned i = 0; i < header.e_shnum && i < SECTIONS_MOST; i++) {
      Elf64_Shdr section;
      if (!get(source, header.e_shoff + i * sizeof section, &section, sizeof section)) return;
      if (section.sh_type == SHT_NOTE &&
          take_note(source, section.sh_offset, section.sh_size, text))
        return;
    }
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return;
  uint64_t first = UINT64_MAX;
  for (int pass = 0; pass < 2; pass++) {
    for (unsigned i = 0; i < header.e_phnum && i < HEADERS_MOST; i++) {
      Elf64_Phdr segment;
      if (!get(source, header.e_phoff + i * sizeof segment, &segment, sizeof segment)) return;
      if (pass == 0 && segment.p_type == PT_LOAD && segment.p_vaddr - segment.p_offset < first)
        first = segment.p_vaddr - segment.p_offset;
      uint64_t at = source->is_file ? segment.p_offset : segment.p_vaddr - first;
      if (pass == 1 && segment.p_type == PT_NOTE && take_note(source, at, segment.p_filesz, text))
        return;
    }
  }
}

char *mapped_build_id(struct target target, uint64_t start, char text[BUILD_ID_ROOM]) {
  take_build_id(&(struct source){.target = target, .start = start}, text);
  return text;
}

/* A look for a file that has the build-id. */
struct look {
  const char *build_id;
  char **found; /* NULL: nobody asks for its path */
  char root[ROOT_ROOM];
};

static __attribute__((format(printf, 2, 3))) int open_if(const struct look *look,
                                                         const char *format, ...) {
  char path[2 * PATH_MAX + 64], found[BUILD_ID_ROOM];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(path, sizeof path, format, arguments);
  va_end(arguments);
  int fd = open_regular(path, 0);
  if (fd < 0) return -1;
  take_build_id(&(struct source){.is_file = true, .fd = fd}, found);
  if (strcmp(found, look->build_id) == 0) {
    if (look->found != NULL) *look->found = strdup(path);
    return fd;
  }
  close(fd);
  return -1;
}

/* What debuginfod-find, gdb and others have fetched; nothing is fetched here. */
static int open_of_cache(const struct look *look, const char *kind) {
  const char *cache = getenv("DEBUGINFOD_CACHE_PATH"), *folder = getenv("XDG_CACHE_HOME");
  const char *home = getenv("HOME"), *id = look->build_id;
  if (cache != NULL) return open_if(look, "%s/%s/%s", cache, id, kind);
  if (folder != NULL) return open_if(look, "%s/debuginfod_client/%s/%s", folder, id, kind);
  return home == NULL ? -1 : open_if(look, "%s/.cache/debuginfod_client/%s/%s", home, id, kind);
}

/* "": our own root. */
static struct look begin_look(struct target target, const char *build_id, char **found) {
  struct look look = {.build_id = build_id, .found = found};
  const char *root = target.core != NULL ? target.core->places.root : NULL;
  if (root != NULL) snprintf(look.root, sizeof look.root, "%s", root);
  else if (target.core == NULL && target.pid != 0)
    snprintf(look.root, sizeof look.root, "/proc/%d/root", target.pid);
  return look;
}

/* The folder that the user names for a core: by build-id, as packages of debugging information lie, or by the file's name. */
static int open_of_folder(const struct look *look, struct target target, const char *ending) {
  const char *folder = target.core != NULL ? target.core->places.debug_dir : NULL;
  const char *id = look->build_id;
  if (folder == NULL) return -1;
  int fd = open_if(look, "%s/.build-id/%.2s/%s%s", folder, id, id + 2, ending);
  return fd >= 0 ? fd : open_if(look, "%s/%s%s", folder, id, ending);
}

static bool is_build_id(const char *text) {
  size_t length = strspn(text, "0123456789abcdef");
  return length > 2 && text[length] == 0;
}

int mapped_open_debug(struct target target, const char *build_id) {
  static const char form[] = "%s/usr/lib/debug/.build-id/%.2s/%s.debug";
  if (!is_build_id(build_id)) return -1;
  struct look look = begin_look(target, build_id, NULL);
  int fd = open_of_folder(&look, target, ".debug");
  if (fd < 0) fd = open_if(&look, form, look.root, build_id, build_id + 2);
  if (fd < 0 && look.root[0] != 0) fd = open_if(&look, form, "", build_id, build_id + 2);
  return fd >= 0 ? fd : open_of_cache(&look, "debuginfo");
}

/* Copies lie beside each other, by their names, where somebody has gathered them for a core. */
static int open_of_core_alike(const struct look *look, struct target target, const char *name) {
  const char *slash = strrchr(name, '/'), *folder = target.core->places.debug_dir;
  int fd = open_of_folder(look, target, "");
  if (fd < 0 && folder != NULL)
    fd = open_if(look, "%s/%s", folder, slash != NULL ? slash + 1 : name);
  if (fd < 0 && look->root[0] != 0) fd = open_if(look, "%s", name);
  return fd;
}

int mapped_open_same(struct target target, const char *path, const char *build_id, char **found) {
  char name[PATH_MAX];
  int fd = -1;
  if (!is_build_id(build_id)) return -1;
  struct look look = begin_look(target, build_id, found);
  if (path != NULL) fd = open_if(&look, "%s%s", look.root, mapped_name(path, name, sizeof name));
  if (fd < 0 && path != NULL && target.core != NULL) fd = open_of_core_alike(&look, target, name);
  /* Fedora's links to programs and libraries. */
  if (fd < 0)
    fd = open_if(&look, "%s/usr/lib/.build-id/%.2s/%s", look.root, build_id, build_id + 2);
  return fd >= 0 ? fd : open_of_cache(&look, "executable");
}

int mapped_open_alike(struct target target, const char *path, const char *build_id) {
  int fd = mapped_open_same(target, path, build_id, NULL);
  return fd >= 0 ? fd : mapped_open_debug(target, build_id);
}
