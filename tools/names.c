/* names.c - hakmem names: adds functions and lines to the places in code that a message of the library tells. */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "cli.h"
#include "symbols.h"

static const char documentation[] =
    "Copies FILE, or standard input, and adds function and line to each place in code, which is a "
    "file and an address in it "
    "(/usr/bin/server+0x1234). It searches the files where they are named, or by the build-id "
    "that follows, as hakmem prof writes it of a file that was deleted or replaced."
    "\v"
    "examples:\n"
    "  hakmem names < server.log\n"
    "  ./server 2>&1 | hakmem names";

static error_t parse(int key, char *value, struct argp_state *state) {
  return take_argument(key, value, state->input);
}

static const struct argp parser = {.parser = parse, .args_doc = "[FILE]", .doc = documentation};

static bool is_blank(char letter) { return letter == ' ' || letter == '\t'; }

/* Of the path that ends there. The library's own lines start with its name and blanks, and loggers write time, host and program before
 * that. A path may have blanks within. */
static const char *start_of_path(const char *line, const char *end) {
  static const char ours[] = "hakmem:";
  const char *start = line;
  for (const char *at = line; (at = strstr(at, ours)) != NULL && at < end;) {
    at += sizeof ours - 1;
    if (is_blank(*at)) start = at;
  }
  start += strspn(start, " \t");
  if (start[0] == '/') return start;
  for (const char *at = start; at + 1 < end; at++)
    if (is_blank(at[0]) && at[1] == '/') return at + 1;
  return start;
}

/* "PATH+0xADDRESS", perhaps with the build-id of the file behind it. */
struct place {
  char *path;
  char *build_id; /* NULL: not told */
  unsigned long long address;
};

/* The last one of the line, which ends it; false: it has none. */
static bool find_place(const char *line, struct place *place) {
  static const char id_begins[] = " (build-id ";
  const char *plus = strrchr(line, '+');
  char *end;
  *place = (struct place){0};
  if (plus == NULL || strncmp(plus, "+0x", 3) != 0) return false;
  place->address = strtoull(plus + 1, &end, 16);
  if (strncmp(end, id_begins, sizeof id_begins - 1) == 0) {
    const char *id = end + sizeof id_begins - 1;
    size_t length = strspn(id, "0123456789abcdef");
    if (id[length] != ')' || length == 0) return false;
    place->build_id = strndup(id, length);
    end += sizeof id_begins - 1 + length + 1;
  }
  const char *start = start_of_path(line, plus);
  if ((*end == '\n' || *end == 0) && start < plus)
    place->path = strndup(start, (size_t)(plus - start));
  return place->path != NULL;
}

static void tell(struct symbol symbol) {
  enum { ROOM = 8192 };
  char text[ROOM];
  if (symbol.function != NULL) printf("  %s", symbol_texts(&symbol, text, sizeof text));
}

static void copy(FILE *in) {
  struct symbols *symbols = symbols_of_files();
  char *line = NULL;
  size_t room = 0;
  ssize_t length;
  struct place place;
  while ((length = getline(&line, &room, in)) > 0) {
    bool ends = line[length - 1] == '\n';
    if (ends) line[length - 1] = 0;
    fwrite(line, 1, (size_t)length - ends, stdout); /* there may be a NUL in it */
    if (find_place(line, &place))
      tell(symbols_find_in(symbols, place.path, place.build_id, place.address));
    free(place.path);
    free(place.build_id);
    if (ends) fputc('\n', stdout);
    fflush(stdout); /* the other end of a pipe may be a program that goes on */
  }
  free(line);
  symbols_close(symbols);
}

int command_names(int argc, char **argv) {
  char *path = NULL;
  if (argp_parse(&parser, argc, argv, 0, NULL, &path) != 0) return EXIT_USAGE;
  FILE *in = path != NULL ? fopen(path, "re") : stdin;
  if (in == NULL) {
    complain("%s: %s", path, strerror(errno));
    return EXIT_FAILURE;
  }
  copy(in);
  bool failed = ferror(in) != 0 || fflush(stdout) != 0;
  if (failed)
    complain("%s: cannot read it, or cannot write what was read",
             path != NULL ? path : "standard input");
  if (in != stdin) fclose(in);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
