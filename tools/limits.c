/* limits.c - see limits.h. Which group a process is in is found by the library's own reader (policy/groups.h). */
#define _GNU_SOURCE
#include "limits.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/file.h"
#include "policy/groups.h"

/* From here on a limit is none: version 1 without one says 2^63 less a page. */
#define NO_LIMIT (1ull << 60)

/* --- files, as policy/groups.c asks for them ------------------------------------------------------------------ */

/* What lies there may be anything that the process has mounted: a pipe is not waited for. */
int os_file_open(const char *path, enum os_file_use use) {
  (void)use;
  return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

ptrdiff_t os_file_read(int file, void *into, size_t bytes) { return read(file, into, bytes); }

void os_file_close(int file) { close(file); }

/* --- the group ------------------------------------------------------------------------------------------------ */

void limits_find(struct limit_place *place, int pid) {
  char cgroup[64], mounts[64], root[64];
  struct container_places places = {.cgroup = cgroup, .mountinfo = mounts, .root = root};
  struct container *container = calloc(1, sizeof *container);
  *place = (struct limit_place){0};
  if (container == NULL) return;
  snprintf(cgroup, sizeof cgroup, "/proc/%d/cgroup", pid);
  snprintf(mounts, sizeof mounts, "/proc/%d/mountinfo", pid);
  snprintf(root, sizeof root, "/proc/%d/root", pid);
  const struct container_place *found = groups_find(container, &places, "memory");
  if (found != NULL) {
    snprintf(place->directory, sizeof place->directory, "%s", container->directory);
    place->mount_length = found->mount_length;
    place->first_version = container->first_version;
  }
  free(container);
}

/* --- figures of a group --------------------------------------------------------------------------------------- */

/* A small file of the group whose path has `length` bytes; false: there is none. */
static bool read_file(const struct limit_place *place, size_t length, const char *name, char *text,
                      size_t room) {
  char path[sizeof place->directory + 64];
  snprintf(path, sizeof path, "%.*s/%s", (int)length, place->directory, name);
  int file = os_file_open(path, OS_FILE_READ);
  if (file < 0) return false;
  ssize_t got = read(file, text, room - 1);
  close(file);
  text[got > 0 ? got : 0] = 0;
  return got > 0;
}

/* 0: none, or "max". */
static double read_bytes(const struct limit_place *place, size_t length, const char *name) {
  char text[64];
  if (!read_file(place, length, name, text, sizeof text) || text[0] < '0' || text[0] > '9')
    return 0;
  unsigned long long bytes = strtoull(text, NULL, 10);
  return bytes < NO_LIMIT ? (double)bytes : 0;
}

/* Pages of files that were not used lately: the kernel takes them back before it kills. */
static double read_idle(const struct limit_place *place, size_t length) {
  char text[8192];
  const char *name = place->first_version ? "\ntotal_inactive_file " : "\ninactive_file ";
  if (!read_file(place, length, "memory.stat", text, sizeof text)) return 0;
  const char *at = strstr(text, name);
  return at != NULL ? (double)strtoull(at + strlen(name), NULL, 10) : 0;
}

static size_t above(const struct limit_place *place, size_t length) {
  if (length <= place->mount_length) return 0;
  do length--;
  while (length > place->mount_length && place->directory[length] != '/');
  return length;
}

/* Of the group and of those above it the one that has used most of what it may. */
static struct limit read_container(const struct limit_place *place) {
  const char *most = place->first_version ? "memory.limit_in_bytes" : "memory.max";
  const char *used = place->first_version ? "memory.usage_in_bytes" : "memory.current";
  struct limit nearest = {0};
  for (size_t length = strlen(place->directory); length > 0; length = above(place, length)) {
    struct limit limit = {.most = read_bytes(place, length, most)};
    if (limit.most <= 0) continue;
    limit.used = read_bytes(place, length, used) - read_idle(place, length);
    if (limit.used < 0) limit.used = 0;
    if (nearest.most <= 0 || limit.used * nearest.most > nearest.used * limit.most) nearest = limit;
  }
  return nearest;
}

/* --- of the process itself ------------------------------------------------------------------------------------ */

static struct limit read_address_space(int pid) {
  static const char name[] = "Max address space";
  char path[64], line[256];
  struct limit limit = {0};
  unsigned long long pages = 0;
  snprintf(path, sizeof path, "/proc/%d/limits", pid);
  FILE *file = fopen(path, "re");
  if (file == NULL) return limit;
  while (fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, name, sizeof name - 1) == 0)
      limit.most = (double)strtoull(line + sizeof name - 1, NULL, 10); /* "unlimited": 0 */
  fclose(file);
  if (limit.most <= 0) return limit;
  snprintf(path, sizeof path, "/proc/%d/statm", pid);
  file = fopen(path, "re");
  if (file == NULL) return (struct limit){0};
  if (fscanf(file, "%llu", &pages) != 1) pages = 0;
  fclose(file);
  limit.used = (double)pages * (double)sysconf(_SC_PAGESIZE);
  return limit;
}

void limits_read(struct limits *limits, const struct limit_place *place, int pid) {
  limits->container = read_container(place);
  limits->address_space = read_address_space(pid);
}
