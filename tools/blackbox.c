/* blackbox.c - hakmem blackbox DIR: the boxes that processes wrote there (HAKMEM_BLACKBOX). */
#define _GNU_SOURCE
#include <argp.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "core.h"
#include "json_writer.h"
#include "stats.h"

enum { KEY_FORMAT = 1000, NANOSECONDS = 1000000000 };

struct arguments {
  char *format, *directory;
};

static const struct argp_option options[] = {
    {"format", KEY_FORMAT, "FORMAT", 0, "text (default) or json", 0},
    {0},
};

static error_t parse(int key, char *value, struct argp_state *state) {
  struct arguments *arguments = state->input;
  if (key != KEY_FORMAT) return take_argument(key, value, &arguments->directory);
  arguments->format = value;
  return 0;
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .args_doc = "DIR",
    .doc = "List the black boxes that processes have written into a directory "
           "(HAKMEM_BLACKBOX=DIR), the newest first: when, which process, its resident memory "
           "then, how large the file is, and why. 'hakmem prof', 'stats' and 'explain' read one.",
};

struct listed_box {
  char name[256];
  uint64_t size;
  struct box_facts facts;
};

struct boxes {
  struct listed_box *all;
  size_t count, room;
  unsigned unfinished, unreadable;
};

const char *box_why(const struct box_facts *facts, char text[BOX_WHY_ROOM]) {
  static const char *const whys[BOX_REASONS] = {
      "unknown", "HAKMEM_BLACKBOX_MB", "container's limit", "RLIMIT_AS", "no memory", "message"};
  char limit[16];
  const char *why = whys[facts->reason < BOX_REASONS ? facts->reason : 0];
  if (facts->limit > 0)
    snprintf(text, BOX_WHY_ROOM, "%s (%s)", why, stats_bytes((double)facts->limit, limit));
  else if (facts->reason == BOX_MESSAGE && facts->said[0] != 0)
    snprintf(text, BOX_WHY_ROOM, "%s", facts->said);
  else snprintf(text, BOX_WHY_ROOM, "%s", why);
  return text;
}

static bool ends_with(const char *name, const char *end) {
  size_t length = strlen(name), end_length = strlen(end);
  return length > end_length && strcmp(name + length - end_length, end) == 0;
}

/* Facts stand at one place in each box. False: it is none. */
static bool read_box(int directory, struct listed_box *box) {
  char bytes[BOX_FACTS_AT + sizeof(struct box_facts)];
  struct stat status;
  int fd = openat(directory, box->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) return false;
  bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  ssize_t length = is_file ? pread(fd, bytes, sizeof bytes, 0) : -1;
  close(fd);
  if (length < BOX_FACTS_AT || memcmp(bytes, ELFMAG, SELFMAG) != 0) return false;
  box->size = (uint64_t)status.st_size;
  return box_take_facts(&box->facts, bytes + BOX_FACTS_AT, (size_t)length - BOX_FACTS_AT);
}

/* False: out of memory. */
static bool add(struct boxes *boxes, int directory, const char *name) {
  struct listed_box box = {0};
  if (strncmp(name, BOX_NAME, sizeof BOX_NAME - 1) != 0) return true;
  boxes->unfinished += ends_with(name, BOX_UNFINISHED);
  if (!ends_with(name, BOX_ENDING)) return true;
  snprintf(box.name, sizeof box.name, "%s", name);
  if (!read_box(directory, &box)) {
    boxes->unreadable++;
    return true;
  }
  if (boxes->count == boxes->room) {
    size_t room = 2 * boxes->room + 16;
    struct listed_box *more = reallocarray(boxes->all, room, sizeof *more);
    if (more == NULL) return false;
    boxes->all = more;
    boxes->room = room;
  }
  boxes->all[boxes->count++] = box;
  return true;
}

static int newest_first(const void *a, const void *b) {
  const struct box_facts *left = &((const struct listed_box *)a)->facts,
                         *right = &((const struct listed_box *)b)->facts;
  return left->written_ns < right->written_ns ? 1 : left->written_ns > right->written_ns ? -1 : 0;
}

static void print_text(const struct boxes *boxes) {
  printf("%-19s %8s %-15s %10s %10s  %-24s %s\n", "when", "pid", "program", "resident", "size",
         "file", "why");
  for (size_t i = 0; i < boxes->count; i++) {
    struct listed_box *box = &boxes->all[i];
    char when[32] = "?", resident[16], size[16], why[BOX_WHY_ROOM];
    time_t seconds = (time_t)(box->facts.written_ns / NANOSECONDS);
    struct tm broken;
    if (localtime_r(&seconds, &broken) != NULL)
      strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &broken);
    make_printable(box->name, sizeof box->name);
    printf("%-19s %8u %-15s %10s %10s  %-24s %s\n", when, box->facts.process, box->facts.name,
           stats_bytes((double)box->facts.resident, resident), stats_bytes((double)box->size, size),
           box->name, box_why(&box->facts, why));
  }
}

static void print_json(const struct boxes *boxes) {
  static const char *const reasons[BOX_REASONS] = {"unknown",       "at",      "limit",
                                                   "address_space", "failure", "message"};
  struct json json = {.out = stdout};
  json_open_group(&json, NULL, '{');
  json_number(&json, "version", 1);
  json_open_group(&json, "boxes", '[');
  for (size_t i = 0; i < boxes->count; i++) {
    const struct box_facts *facts = &boxes->all[i].facts;
    json_open_group(&json, NULL, '{');
    json_text(&json, "file", boxes->all[i].name);
    json_number(&json, "size", boxes->all[i].size);
    json_number(&json, "written", facts->written_ns / NANOSECONDS);
    json_number(&json, "pid", facts->process);
    json_text(&json, "program", facts->name);
    json_text(&json, "called", facts->arguments);
    json_number(&json, "resident", facts->resident);
    json_text(&json, "reason", reasons[facts->reason < BOX_REASONS ? facts->reason : 0]);
    json_number(&json, "limit", facts->limit);
    json_text(&json, "said", facts->said);
    json_number(&json, "cut", facts->cut);
    json_close_group(&json, '}');
  }
  json_close_group(&json, ']');
  json_number(&json, "unfinished", boxes->unfinished);
  json_number(&json, "unreadable", boxes->unreadable);
  json_close_group(&json, '}');
  putchar('\n');
}

/* 0, or an exit code after a complaint. */
static int read_directory(const char *path, struct boxes *boxes) {
  DIR *directory = opendir(path);
  bool ok = true;
  if (directory == NULL) {
    int error = errno;
    complain("%s: %s", path, strerror(error));
    return error == ENOENT ? EXIT_NO_PROGRAM : EXIT_CANNOT_RUN;
  }
  for (struct dirent *entry; ok && (entry = readdir(directory)) != NULL;)
    ok = add(boxes, dirfd(directory), entry->d_name);
  closedir(directory);
  if (!ok) complain("out of memory");
  if (boxes->count > 0) qsort(boxes->all, boxes->count, sizeof *boxes->all, newest_first);
  return ok ? 0 : 1;
}

int command_blackbox(int argc, char **argv) {
  struct arguments arguments = {0};
  struct boxes boxes = {0};
  bool is_json;
  if (argp_parse(&parser, argc, argv, 0, NULL, &arguments) != 0) return EXIT_USAGE;
  if (!take_text_or_json(arguments.format, &is_json)) return EXIT_USAGE;
  if (arguments.directory == NULL) {
    complain("name the directory of HAKMEM_BLACKBOX");
    return EXIT_USAGE;
  }
  int code = read_directory(arguments.directory, &boxes);
  if (code == 0 && is_json) print_json(&boxes);
  else if (code == 0 && boxes.count > 0) print_text(&boxes);
  if (code == 0 && !is_json && boxes.count == 0)
    printf("no black box is in %s\n", arguments.directory);
  if (code == 0 && boxes.unfinished + boxes.unreadable > 0)
    complain("note: %u file%s not written to %s end, %u cannot be read", boxes.unfinished,
             boxes.unfinished == 1 ? " was" : "s were", boxes.unfinished == 1 ? "its" : "their",
             boxes.unreadable);
  free(boxes.all);
  return code;
}
