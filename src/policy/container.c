/* container.c - see container.h. */
#include "policy/container.h"

#include <string.h>

#include "os/file.h"
#include "policy/groups.h"
#include "policy/options.h"

/* From here on a limit is none. Version 1 without a limit says 2^63 less a page; no machine has
 * 2^60. */
#define NO_LIMIT (UINT64_C(1) << 60)

/* Of this thread: once the first one has ended there is nothing under /proc/self any more.
 * Put together when asked for: a table of pointers would be a private page of every process. */
static struct container_places kernel(void) {
  return (struct container_places){.cgroup = "/proc/thread-self/cgroup",
                                   .mountinfo = "/proc/thread-self/mountinfo",
                                   .pressure = "/proc/pressure/memory",
                                   .root = ""};
}

/* A number of bytes; 0: "max", none, or nothing that we understand. A limit of 0 is told as 1. */
static uint64_t parse_bytes(const char *text) {
  uint64_t bytes = 0;
  const char *digit = text;
  for (; *digit >= '0' && *digit <= '9'; digit++) {
    bytes = bytes * 10 + (uint64_t)(*digit - '0');
    if (bytes >= NO_LIMIT) return 0; /* before ten times as much could overflow */
  }
  if (digit == text || (*digit != 0 && *digit != '\n')) return 0;
  return bytes != 0 ? bytes : 1;
}

/* --- numbers of a group ----------------------------------------------------------------------- */

/* The first line of a small file, which ends with a newline or a 0; NULL: it cannot be read. */
static char *read_text(struct container *container, size_t path_length, const char *name) {
  char *text = container->lines.line;
  if (!groups_join(container->path, container->directory, path_length, "/", name)) return NULL;
  int file = os_file_open(container->path, OS_FILE_READ);
  if (file < 0) return NULL;
  ptrdiff_t length = os_file_read(file, text, CONTAINER_LINE - 1);
  os_file_close(file);
  if (length <= 0) return NULL;
  text[length] = 0;
  return text;
}

static uint64_t read_bytes(struct container *container, size_t path_length, const char *name) {
  const char *text = read_text(container, path_length, name);
  return text != NULL ? parse_bytes(text) : 0;
}

static uint64_t read_current(struct container *container, const struct container_level *level) {
  const char *name = container->first_version ? "memory.usage_in_bytes" : "memory.current";
  return read_bytes(container, level->path_length, name);
}

/* Bytes of files that were not used lately. */
static uint64_t read_idle_cache(struct container *container, const struct container_level *level) {
  struct container_lines *lines = &container->lines;
  uint64_t bytes = 0;
  /* without "total_" v1 leaves out the groups below */
  const char *name = container->first_version ? "total_inactive_file" : "inactive_file";
  if (!groups_join(container->path, container->directory, level->path_length, "/", "memory.stat") ||
      !groups_open_lines(lines, container->path))
    return 0;
  while (groups_next_line(lines)) {
    const char *value = groups_cut(lines->line, ' ');
    if (value != NULL && groups_is(lines->line, name)) bytes = parse_bytes(value);
  }
  return bytes;
}

static void take_smaller(uint64_t *smallest, uint64_t bytes) {
  if (bytes != 0 && (*smallest == 0 || bytes < *smallest)) *smallest = bytes;
}

/* From our group up to the root of the mounted tree. Limits of v1 count for the groups below too:
 * kernels before 5.11 let that be switched off (memory.use_hierarchy), and we then act a little
 * early. */
static void read_limits(struct container *container, const struct container_place *place) {
  bool first_version = container->first_version;
  for (size_t length = strlen(container->directory);
       length > 0 && container->level_count < CONTAINER_LEVELS;
       length = groups_above(container, place, length)) {
    struct container_level level = {
        .limit_bytes =
            read_bytes(container, length, first_version ? "memory.limit_in_bytes" : "memory.max"),
        .high_bytes = first_version ? 0 : read_bytes(container, length, "memory.high"),
        .path_length = length,
    };
    if (level.limit_bytes != 0 || level.high_bytes != 0)
      container->levels[container->level_count++] = level;
    take_smaller(&container->limit_bytes, level.limit_bytes);
    take_smaller(&container->high_bytes, level.high_bytes);
  }
}

/* Microseconds of processors within so many microseconds. "max 100000" in v2, -1 in v1: no quota. */
static uint64_t read_processors(struct container *container, size_t path_length) {
  uint64_t quota, period;
  if (container->first_version) {
    quota = read_bytes(container, path_length, "cpu.cfs_quota_us");
    period = read_bytes(container, path_length, "cpu.cfs_period_us");
  } else {
    char *text = read_text(container, path_length, "cpu.max");
    const char *second = groups_cut(text, ' ');
    quota = text != NULL ? parse_bytes(text) : 0;
    period = second != NULL ? parse_bytes(second) : 0;
  }
  return period != 0 ? (quota + period - 1) / period : 0;
}

/* --- from outside ----------------------------------------------------------------------------- */

static void clear(struct container *container) {
  memset(container, 0, offsetof(struct container, lines));
}

void container_read_at(struct container *container, const struct container_places *places) {
  clear(container);
  if (!option_value(CONTAINER)) return;
  const struct container_place *place = groups_find(container, places, "memory");
  if (place != NULL) read_limits(container, place);
}

void container_read(struct container *container) {
  struct container_places places = kernel();
  container_read_at(container, &places);
}

unsigned container_processors_at(struct container *container,
                                 const struct container_places *places) {
  clear(container);
  if (!option_value(CONTAINER)) return 0;
  const struct container_place *place = groups_find(container, places, "cpu");
  uint64_t least = 0;
  for (size_t length = place != NULL ? strlen(container->directory) : 0; length > 0;
       length = groups_above(container, place, length))
    take_smaller(&least, read_processors(container, length));
  return least < UINT32_MAX ? (unsigned)least : UINT32_MAX;
}

unsigned container_processors(struct container *container) {
  struct container_places places = kernel();
  return container_processors_at(container, &places);
}

uint64_t container_current(struct container *container) {
  const struct container_level *tightest = NULL;
  uint64_t smallest = 0;
  for (size_t i = 0; i < container->level_count; i++) {
    uint64_t before = smallest;
    take_smaller(&smallest, container->levels[i].limit_bytes);
    take_smaller(&smallest, container->levels[i].high_bytes);
    if (smallest != before) tightest = &container->levels[i];
  }
  return tightest != NULL ? read_current(container, tightest) : 0;
}

enum margin { MARGIN_HALF, MARGIN_LAST };

/* So much a level may use. */
static uint64_t most_of(const struct container_level *level, enum margin margin) {
  uint64_t high = level->high_bytes, limit = level->limit_bytes;
  uint64_t most_high = margin == MARGIN_HALF ? high / 2 : high;
  uint64_t most = margin == MARGIN_HALF ? limit / 2 : limit - limit / 10;
  return limit == 0 || (high != 0 && most_high < most) ? most_high : most;
}

static bool is_over(const struct container_level *level, uint64_t bytes, enum margin margin) {
  return bytes > most_of(level, margin);
}

static bool any_is_over(struct container *container, enum margin margin) {
  for (size_t i = 0; i < container->level_count; i++) {
    const struct container_level *level = &container->levels[i];
    uint64_t bytes = read_current(container, level);
    if (!is_over(level, bytes, margin)) continue; /* the common case: one small file */
    uint64_t idle = read_idle_cache(container, level);
    if (is_over(level, idle < bytes ? bytes - idle : 0, margin)) return true;
  }
  return false;
}

bool container_is_tight(struct container *container) { return any_is_over(container, MARGIN_LAST); }

bool container_is_half_used(struct container *container) {
  return any_is_over(container, MARGIN_HALF);
}

static uint64_t less(uint64_t from, uint64_t bytes) { return from > bytes ? from - bytes : 0; }

struct container_room container_room(struct container *container, uint64_t coming) {
  struct container_room room = {UINT64_MAX, UINT64_MAX};
  for (size_t i = 0; i < container->level_count; i++) {
    const struct container_level *level = &container->levels[i];
    uint64_t bytes = read_current(container, level);
    if (bytes == 0) continue; /* it has gone, or may not be read */
    bytes += coming;
    if (is_over(level, bytes, MARGIN_LAST)) bytes = less(bytes, read_idle_cache(container, level));
    uint64_t most = level->limit_bytes != 0 ? level->limit_bytes : level->high_bytes;
    uint64_t tight = less(most_of(level, MARGIN_LAST), bytes), limit = less(most, bytes);
    if (tight < room.tight) room.tight = tight;
    if (limit < room.limit) room.limit = limit;
  }
  return room;
}

/* 100 ms within 2 s: threads of this process are slowed down by 5%, which a user notices. Windows
 * are refused below 500 ms, and but for whole multiples of 2 s to all who lack CAP_SYS_RESOURCE.
 * /proc/pressure/memory takes the last byte for the end of the text, so the 0 goes with it. */
static const char trigger[] = "some 100000 2000000";

static int open_trigger(const char *path) {
  int file = os_file_open(path, OS_FILE_READ_WRITE);
  if (file < 0) return -1;
  if (os_file_write(file, trigger, sizeof trigger)) return file;
  os_file_close(file);
  return -1;
}

int container_pressure_open_at(struct container *container, const struct container_places *places) {
  if (!option_value(CONTAINER)) return -1;
  const char *group = container->pressure_of;
  int file = -1;
  if (group[0] != 0 && groups_join(container->path, group, strlen(group), "/", "memory.pressure"))
    file = open_trigger(container->path);
  return file >= 0 ? file : open_trigger(places->pressure);
}

int container_pressure_open(struct container *container) {
  struct container_places places = kernel();
  return container_pressure_open_at(container, &places);
}
