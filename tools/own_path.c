/* own_path.c - see own_path.h. /proc may not be mounted (a chroot, a build in a sandbox), and names the
 * dynamic linker when that was called with the tool as its argument; then the kernel's word, and the
 * name that the tool was called by. */
#define _GNU_SOURCE
#include "own_path.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "elf_file.h"

static const char *called_by;
static char path[PATH_MAX];

void own_path_start(const char *called) { called_by = called; }

/* Takes the file when it can be the tool: a program, which the dynamic linker, for one, is not. */
static bool take(const char *candidate) {
  static struct elf_file file;
  if (candidate == NULL || realpath(candidate, path) == NULL) return false;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  elf_file_read(fd, &file);
  close(fd);
  return file.is_elf && file.is_ours && !file.damaged && file.interpreter[0] != 0;
}

static bool take_from_path(const char *name) {
  const char *directories = getenv("PATH");
  if (directories == NULL || name[0] == 0) return false;
  for (const char *start = directories;; start++) {
    const char *end = strchrnul(start, ':');
    char candidate[PATH_MAX];
    int length = (int)(end - start);
    int written = snprintf(candidate, sizeof candidate, "%.*s%s%s", length, start,
                           length > 0 ? "/" : "", name);
    if (written > 0 && written < PATH_MAX && access(candidate, X_OK) == 0 && take(candidate))
      return true;
    if (*end == 0) return false;
    start = end;
  }
}

const char *own_path(void) {
  if (path[0] != 0) return path;
  if (take("/proc/self/exe") || take((const char *)getauxval(AT_EXECFN))) return path;
  bool found = called_by != NULL &&
               (strchr(called_by, '/') != NULL ? take(called_by) : take_from_path(called_by));
  if (!found) path[0] = 0;
  return found ? path : NULL;
}
