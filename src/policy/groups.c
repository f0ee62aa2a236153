/* groups.c - see groups.h. */
#include "policy/groups.h"

#include <string.h>

#include "os/file.h"

/* --- files in lines --------------------------------------------------------------------------- */

/* More than there is, a hundred thousand mounts say. */
enum { READS_MOST = 64 * 1024 };

bool groups_open_lines(struct container_lines *lines, const char *path) {
  lines->at = lines->end = lines->reads = 0;
  lines->file = os_file_open(path, OS_FILE_READ);
  return lines->file >= 0;
}

static bool next_byte(struct container_lines *lines, char *byte) {
  if (lines->at == lines->end) {
    ptrdiff_t length = -1;
    if (lines->reads++ < READS_MOST)
      length = os_file_read(lines->file, lines->buffer, sizeof lines->buffer);
    if (length <= 0) return false;
    lines->at = 0;
    lines->end = (size_t)length;
  }
  *byte = lines->buffer[lines->at++];
  return true;
}

bool groups_next_line(struct container_lines *lines) {
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

bool groups_is(const char *text, const char *word) {
  size_t length = strlen(word);
  return strlen(text) == length && memcmp(text, word, length) == 0;
}

char *groups_cut(char *text, char end) {
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

/* --- paths ------------------------------------------------------------------------------------ */

bool groups_join(char path[CONTAINER_PATH], const char *start, size_t start_length,
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
  size_t length = groups_is(top, "/") ? 0 : strlen(top);
  if (strncmp(path, top, length) != 0) return NULL;
  path += length;
  if (groups_is(path, "/")) return "";
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
  if (*path == '/') groups_join(place->path, path, strlen(path), "", "");
  else place->path[0] = 0;
}

/* Lines of "number:controllers:path". The one without controllers is cgroup v2. */
static void read_paths(struct container *container, const char *file, const char *controller) {
  struct container_lines *lines = &container->lines;
  struct container_place *unified = &container->unified, *own = &container->own;
  set_path(unified, "");
  set_path(own, "");
  if (!groups_open_lines(lines, file)) return;
  while (groups_next_line(lines)) {
    char *controllers = groups_cut(lines->line, ':');
    const char *path = groups_cut(controllers, ':');
    if (path == NULL) continue;
    if (*controllers == 0 && groups_is(lines->line, "0")) set_path(unified, path);
    else if (has_word(controllers, controller)) set_path(own, path);
  }
}

/* Takes a mounted tree when our group lies in it. Of several the one with the highest root, in
 * which more levels can be seen; of equal ones the last, which may cover the others. */
static void consider(struct container_place *place, char directory[CONTAINER_PATH],
                     char found[CONTAINER_PATH], const char *above, const char *root,
                     const char *point) {
  const char *below = place->path[0] != 0 ? path_below(place->path, root) : NULL;
  if (below == NULL || (place->mount_length != 0 && strlen(below) < place->below_length)) return;
  if (!groups_join(found, above, strlen(above), point, below)) return;
  memcpy(directory, found, strlen(found) + 1);
  place->below_length = strlen(below);
  place->mount_length = strlen(found) - place->below_length;
}

/* Lines of "number number device root point options [tags] - type source options". */
static void read_mounts(struct container *container, const struct container_places *places,
                        const char *controller) {
  struct container_lines *lines = &container->lines;
  if (!groups_open_lines(lines, places->mountinfo)) return;
  while (groups_next_line(lines)) {
    char *type = strchr(lines->line, ' ');
    while (type != NULL && strncmp(type, " - ", 3) != 0) type = strchr(type + 1, ' ');
    if (type == NULL) continue;
    *type = 0;
    type += 3;
    char *of_tree = groups_cut(groups_cut(type, ' '), ' ');
    bool version_2 = groups_is(type, "cgroup2");
    if (!version_2 && (!groups_is(type, "cgroup") || !has_word(of_tree, controller))) continue;
    char *root = groups_cut(groups_cut(groups_cut(lines->line, ' '), ' '), ' ');
    char *point = groups_cut(root, ' ');
    groups_cut(point, ' ');
    if (point == NULL || *root != '/' || *point != '/') continue;
    unescape(root);
    unescape(point);
    if (version_2)
      consider(&container->unified, container->pressure_of, container->path, places->root, root,
               point);
    else
      consider(&container->own, container->directory, container->path, places->root, root, point);
  }
}

/* --- from outside ----------------------------------------------------------------------------- */

const struct container_place *groups_find(struct container *container,
                                          const struct container_places *places,
                                          const char *controller) {
  container->directory[0] = container->pressure_of[0] = 0;
  read_paths(container, places->cgroup, controller);
  read_mounts(container, places, controller);
  /* Where both versions are in use, a controller is in one of them: in v1 if that is mounted. */
  container->first_version = container->own.mount_length != 0;
  if (container->first_version) return &container->own;
  memcpy(container->directory, container->pressure_of, CONTAINER_PATH);
  return container->unified.mount_length != 0 ? &container->unified : NULL;
}

size_t groups_above(const struct container *container, const struct container_place *place,
                    size_t length) {
  if (length <= place->mount_length) return 0;
  do length--;
  while (length > place->mount_length && container->directory[length] != '/');
  return length;
}
