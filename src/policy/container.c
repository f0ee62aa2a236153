/* container.c - see container.h. */
#include "policy/container.h"

#include <string.h>

#include "os/file.h"
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

/* --- files in lines --------------------------------------------------------------------------- */

static bool open_lines(struct container_lines *lines, const char *path) {
  lines->at = lines->end = 0;
  lines->file = os_file_open(path, OS_FILE_READ);
  return lines->file >= 0;
}

static bool next_byte(struct container_lines *lines, char *byte) {
  if (lines->at == lines->end) {
    ptrdiff_t length = os_file_read(lines->file, lines->buffer, sizeof lines->buffer);
    if (length <= 0) return false;
    lines->at = 0;
    lines->end = (size_t)length;
  }
  *byte = lines->buffer[lines->at++];
  return true;
}

/* The next line that fits; longer ones are skipped. False at the end, which closes the file. */
static bool next_line(struct container_lines *lines) {
  size_t length = 0;
  char byte;
  while (next_byte(lines, &byte)) {
    if (byte != '\n') {
      if (length < CONTAINER_LINE) lines->line[length] = byte;
      length++;
    } else if (length < CONTAINER_LINE) {
      lines->line[length] = 0;
      return true;
    } else {
      length = 0;
    }
  }
  os_file_close(lines->file);
  return false;
}

/* Not by strcmp: each function of libc that the library does not use otherwise is one more name to
 * look up whenever a program starts. */
static bool is(const char *text, const char *word) {
  size_t length = strlen(word);
  return strlen(text) == length && memcmp(text, word, length) == 0;
}

/* Ends the string at the next `end` and gives what follows it; NULL: there is none. */
static char *cut(char *text, char end) {
  char *at = text != NULL ? strchr(text, end) : NULL;
  if (at == NULL) return NULL;
  *at = 0;
  return at + 1;
}

static bool has_word(const char *list, const char *word) {
  size_t length = strlen(word);
  for (; list != NULL; list = strchr(list, ',')) {
    list += *list == ',';
    if (strncmp(list, word, length) == 0 && (list[length] == ',' || list[length] == 0)) return true;
  }
  return false;
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

/* --- paths ------------------------------------------------------------------------------------ */

/* The three parts, one after the other; false and "" when they do not fit. */
static bool join(char path[CONTAINER_PATH], const char *start, size_t start_length,
                 const char *middle, const char *end) {
  size_t middle_length = strlen(middle), end_length = strlen(end);
  path[0] = 0;
  if (start_length + middle_length + end_length >= CONTAINER_PATH) return false;
  memcpy(path, start, start_length);
  memcpy(path + start_length, middle, middle_length);
  memcpy(path + start_length + middle_length, end, end_length + 1);
  return true;
}

/* "/a/b" below "/a" is "/b"; NULL when the path leads elsewhere. Seen from inside of a namespace,
 * groups outside of it are "/..": as part of a path to open that would lead out of the mounted
 * tree. */
static const char *path_below(const char *path, const char *top) {
  size_t length = is(top, "/") ? 0 : strlen(top);
  if (strncmp(path, top, length) != 0) return NULL;
  path += length;
  if (is(path, "/")) return "";
  if (*path != '/' && *path != 0) return NULL;
  for (const char *part = path; part != NULL; part = strchr(part + 1, '/'))
    if (strncmp(part, "/..", 3) == 0 && (part[3] == '/' || part[3] == 0)) return NULL;
  return path;
}

static bool is_octal(char c) { return c >= '0' && c <= '7'; }

/* The kernel writes blanks, newlines and backslashes in a path as \040 and the like. */
static void unescape(char *text) {
  char *to = text;
  for (const char *from = text; *from != 0; to++)
    if (from[0] == '\\' && is_octal(from[1]) && is_octal(from[2]) && is_octal(from[3])) {
      *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
      from += 4;
    } else {
      *to = *from++;
    }
  *to = 0;
}

/* --- the groups of this process --------------------------------------------------------------- */

static void set_path(struct container_place *place, const char *path) {
  place->mount_length = place->below_length = 0;
  if (*path == '/') join(place->path, path, strlen(path), "", "");
  else place->path[0] = 0;
}

/* Lines of "number:controllers:path". The one without controllers is cgroup v2. */
static void read_paths(struct container *container, const char *file) {
  struct container_lines *lines = &container->lines;
  struct container_place *unified = &container->unified, *memory = &container->memory;
  set_path(unified, "");
  set_path(memory, "");
  if (!open_lines(lines, file)) return;
  while (next_line(lines)) {
    char *controllers = cut(lines->line, ':');
    const char *path = cut(controllers, ':');
    if (path == NULL) continue;
    if (*controllers == 0 && is(lines->line, "0")) set_path(unified, path);
    else if (has_word(controllers, "memory")) set_path(memory, path);
  }
}

/* Takes a mounted tree when our group lies in it. Of several the one with the highest root, in
 * which more levels can be seen; of equal ones the last, which may cover the others. */
static void consider(struct container_place *place, char directory[CONTAINER_PATH],
                     char found[CONTAINER_PATH], const char *above, const char *root,
                     const char *point) {
  const char *below = place->path[0] != 0 ? path_below(place->path, root) : NULL;
  if (below == NULL || (place->mount_length != 0 && strlen(below) < place->below_length)) return;
  if (!join(found, above, strlen(above), point, below)) return;
  memcpy(directory, found, strlen(found) + 1);
  place->below_length = strlen(below);
  place->mount_length = strlen(found) - place->below_length;
}

/* Lines of "number number device root point options [tags] - type source options". */
static void read_mounts(struct container *container, const struct container_places *places) {
  struct container_lines *lines = &container->lines;
  if (!open_lines(lines, places->mountinfo)) return;
  while (next_line(lines)) {
    char *type = strchr(lines->line, ' ');
    while (type != NULL && strncmp(type, " - ", 3) != 0) type = strchr(type + 1, ' ');
    if (type == NULL) continue;
    *type = 0;
    type += 3;
    char *of_tree = cut(cut(type, ' '), ' ');
    bool version_2 = is(type, "cgroup2");
    if (!version_2 && (!is(type, "cgroup") || !has_word(of_tree, "memory"))) continue;
    char *root = cut(cut(cut(lines->line, ' '), ' '), ' ');
    char *point = cut(root, ' ');
    cut(point, ' ');
    if (point == NULL || *root != '/' || *point != '/') continue;
    unescape(root);
    unescape(point);
    if (version_2)
      consider(&container->unified, container->pressure_of, container->path, places->root, root,
               point);
    else
      consider(&container->memory, container->directory, container->path, places->root, root,
               point);
  }
}

/* --- numbers of a group ----------------------------------------------------------------------- */

static uint64_t read_bytes(struct container *container, size_t path_length, const char *name) {
  char text[32];
  if (!join(container->path, container->directory, path_length, "/", name)) return 0;
  int file = os_file_open(container->path, OS_FILE_READ);
  if (file < 0) return 0;
  ptrdiff_t length = os_file_read(file, text, sizeof text - 1);
  os_file_close(file);
  if (length <= 0) return 0;
  text[length] = 0;
  return parse_bytes(text);
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
  if (!join(container->path, container->directory, level->path_length, "/", "memory.stat") ||
      !open_lines(lines, container->path))
    return 0;
  while (next_line(lines)) {
    const char *value = cut(lines->line, ' ');
    if (value != NULL && is(lines->line, name)) bytes = parse_bytes(value);
  }
  return bytes;
}

static void take_smaller(uint64_t *smallest, uint64_t bytes) {
  if (bytes != 0 && (*smallest == 0 || bytes < *smallest)) *smallest = bytes;
}

/* From our group up to the root of the mounted tree. Limits of v1 count for the groups below too:
 * kernels before 5.11 let that be switched off (memory.use_hierarchy), and we then act a little
 * early. */
static void read_limits(struct container *container, size_t mount_length) {
  const char *directory = container->directory;
  bool first_version = container->first_version;
  for (size_t length = strlen(directory); container->level_count < CONTAINER_LEVELS; length--) {
    while (length > mount_length && directory[length] != '/' && directory[length] != 0) length--;
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
    if (length <= mount_length) break;
  }
}

/* --- from outside ----------------------------------------------------------------------------- */

static void clear(struct container *container) {
  memset(container, 0, offsetof(struct container, lines));
}

void container_read_at(struct container *container, const struct container_places *places) {
  clear(container);
  if (!option_value(CONTAINER)) return;
  read_paths(container, places->cgroup);
  read_mounts(container, places);
  /* Where both versions are in use, a controller is in one of them: memory is in v1 if that is
   * mounted. */
  container->first_version = container->memory.mount_length != 0;
  if (!container->first_version)
    memcpy(container->directory, container->pressure_of, CONTAINER_PATH);
  const struct container_place *place =
      container->first_version ? &container->memory : &container->unified;
  if (place->mount_length != 0) read_limits(container, place->mount_length);
}

void container_read(struct container *container) {
  struct container_places places = kernel();
  container_read_at(container, &places);
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
  if (group[0] != 0 && join(container->path, group, strlen(group), "/", "memory.pressure"))
    file = open_trigger(container->path);
  return file >= 0 ? file : open_trigger(places->pressure);
}

int container_pressure_open(struct container *container) {
  struct container_places places = kernel();
  return container_pressure_open_at(container, &places);
}
