/* perf_map.c - see perf_map.h. */
#define _GNU_SOURCE
#include "perf_map.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core.h"
#include "ordered.h"
#include "remote.h"

/* A program has some 100,000 functions, in a file of 10 MB; of a larger one than 64 MiB the first part counts. Any process may write one. */
enum { FILE_MOST = 64 << 20, NAME_ROOM = 1024, OVERLAPS_MOST = 64 };

struct entry {
  uint64_t start, end;
  uint32_t number; /* in the file: code that was made later lies over older code */
  const char *name;
};

struct perf_map {
  struct entry *entries; /* by start */
  size_t count;
  char *file;           /* its lines; names lie in it */
  char text[NAME_ROOM]; /* of the last answer */
};

/* --- the file --------------------------------------------------------------------------------------------- */

struct owner {
  int pid; /* as the process sees it */
  unsigned user;
};

static bool read_owner(int pid, struct owner *owner) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  FILE *file = fopen(path, "re");
  *owner = (struct owner){.pid = pid, .user = UINT_MAX};
  if (file == NULL) return false;
  while (fgets(line, sizeof line, file) != NULL) {
    /* The number in each namespace, its own last; the user that it was started by, and the one that counts. */
    char *last = strrchr(line, '\t');
    if (strncmp(line, "NSpid:", 6) == 0 && last != NULL) owner->pid = atoi(last + 1);
    if (strncmp(line, "Uid:", 4) == 0) sscanf(line + 4, "%*u %u", &owner->user);
  }
  fclose(file);
  return owner->user != UINT_MAX;
}

/* In seconds since 1970, one less for what the kernel rounds. */
static int64_t time_of_birth(int pid) {
  enum { START_TIME = 22 };
  struct timespec now, running;
  clock_gettime(CLOCK_REALTIME, &now);
  clock_gettime(CLOCK_BOOTTIME, &running);
  int64_t born = (int64_t)(remote_stat(pid, START_TIME) / (uint64_t)sysconf(_SC_CLK_TCK));
  return now.tv_sec - running.tv_sec + born - 1;
}

/* Regular, of the process' user or root's, and as old as the process at most. */
static bool is_trusted(int fd, struct target target, const struct owner *owner) {
  struct stat found;
  if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) return false;
  if (target.core != NULL) return found.st_mtime <= target.core->written;
  return (found.st_uid == owner->user || found.st_uid == 0) &&
         found.st_mtime >= time_of_birth(target.pid);
}

static int open_map(struct target target) {
  char path[PATH_MAX];
  struct owner owner;
  if (target.core != NULL) {
    const char *root = target.core->places.root;
    snprintf(path, sizeof path, "%s/tmp/perf-%d.map", root != NULL ? root : "", target.pid);
  } else if (read_owner(target.pid, &owner)) {
    snprintf(path, sizeof path, "/proc/%d/root/tmp/perf-%d.map", target.pid, owner.pid);
  } else return -1;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 || is_trusted(fd, target, &owner)) return fd;
  close(fd);
  return -1;
}

/* Text with a 0 behind it, to be freed; NULL: there is no memory here. */
static char *read_text(int fd) {
  char *text = malloc(FILE_MOST + 1); /* pages that are not read into are never touched */
  size_t length = 0;
  for (ssize_t part = 1; text != NULL && part > 0 && length < FILE_MOST; length += (size_t)part) {
    part = read(fd, text + length, FILE_MOST - length);
    if (part < 0) part = 0;
  }
  if (text != NULL) text[length] = 0;
  return text;
}

/* --- its lines -------------------------------------------------------------------------------------------- */

/* "7f5a95a0ead0 b py::outer:/srv/job.py". False: the line is none. */
static bool parse(const char *line, struct entry *entry) {
  char *at;
  uint64_t start = strtoull(line, &at, 16);
  if (at == line || *at != ' ') return false;
  char *size_text = at;
  uint64_t size = strtoull(size_text, &at, 16);
  if (at == size_text || *at != ' ' || at[1] == 0 || size == 0 || start + size < start)
    return false;
  *entry = (struct entry){.start = start, .end = start + size, .name = at + 1};
  return true;
}

/* The last line may be cut: it counts if it has its end. */
static void take_lines(struct perf_map *map) {
  size_t space = 0;
  struct entry entry;
  for (char *line = map->file, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
    *end = 0;
    if (!parse(line, &entry)) continue;
    if (map->count == space) {
      struct entry *more = reallocarray(map->entries, space = 2 * space + 256, sizeof *more);
      if (more == NULL) break;
      map->entries = more;
    }
    entry.number = (uint32_t)map->count;
    map->entries[map->count++] = entry;
  }
}

static int by_start(const void *a, const void *b) {
  const struct entry *left = a, *right = b;
  if (left->start != right->start) return left->start < right->start ? -1 : 1;
  return left->number < right->number ? -1 : 1;
}

struct perf_map *perf_map_open(struct target target) {
  int fd = target.pid > 0 ? open_map(target) : -1;
  if (fd < 0) return NULL;
  struct perf_map *map = calloc(1, sizeof *map);
  if (map != NULL && (map->file = read_text(fd)) != NULL) take_lines(map);
  if (map != NULL && map->count > 0)
    qsort(map->entries, map->count, sizeof *map->entries, by_start);
  close(fd);
  return map;
}

void perf_map_close(struct perf_map *map) {
  if (map == NULL) return;
  free(map->entries);
  free(map->file);
  free(map);
}

/* --- names ------------------------------------------------------------------------------------------------ */

/* "py::Class.method:/srv/job.py", as CPython writes it. */
static bool split_python(char *text, struct perf_name *name) {
  if (strncmp(text, "py::", 4) != 0) return false;
  name->function = text + 4;
  char *colon = strchr(text + 4, ':');
  if (colon == NULL) return true;
  *colon = 0;
  name->file = colon + 1;
  return true;
}

/* Cuts a number behind the last ':'; -1: there is none. */
static int cut_number(char *text) {
  char *colon = strrchr(text, ':'), *end;
  if (colon == NULL || colon[1] < '0' || colon[1] > '9') return -1;
  long number = strtol(colon + 1, &end, 10);
  if (*end != 0 || number > INT_MAX) return -1;
  *colon = 0;
  return (int)number;
}

/* "JS:*handle /srv/app.js:12:5", as V8 writes it: the sign says how well it is compiled, the last number is a column. A function without a
 * name has none before the blank. */
static bool split_v8(char *text, struct perf_name *name) {
  static const char *const kinds[] = {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"};
  char *at = NULL;
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && at == NULL; i++)
    if (strncmp(text, kinds[i], strlen(kinds[i])) == 0) at = text + strlen(kinds[i]);
  if (at == NULL) return false;
  at += strspn(at, "~*^+'");
  name->function = at;
  char *blank = strrchr(at, ' ');
  if (blank == NULL || cut_number(blank) < 0) return true;
  int line = cut_number(blank);
  if (line < 0) return true;
  *blank = 0;
  name->file = blank + 1;
  name->line = line;
  if (at[0] == 0) name->function = "(anonymous)";
  return true;
}

/* The last entry that starts there or before. Older code may reach over younger, but not over much of it. */
bool perf_map_find(struct perf_map *map, uint64_t address, struct perf_name *name) {
  const struct entry *found = NULL;
  if (map == NULL) return false;
  size_t above = first_above(map->entries, map->count, sizeof *map->entries,
                             offsetof(struct entry, start), address);
  for (size_t i = 0; i < OVERLAPS_MOST && i < above; i++) {
    const struct entry *entry = &map->entries[above - 1 - i];
    if (address < entry->end && (found == NULL || entry->number > found->number)) found = entry;
  }
  if (found == NULL) return false;
  snprintf(map->text, sizeof map->text, "%s", found->name);
  *name = (struct perf_name){0};
  if (!split_python(map->text, name) && !split_v8(map->text, name)) name->function = map->text;
  return true;
}
