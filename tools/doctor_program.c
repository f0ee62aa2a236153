/* doctor_program.c - a program that the user names: its dynamic linker is asked to load it, with the
 * library preloaded, and to report which malloc each of its libraries binds to. It is not started. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "doctor.h"
#include "elf_symbols.h"

/* --- a program ------------------------------------------------------------------------------ */

/* The name between ` and ' of a line of the dynamic linker is malloc. */
static bool is_malloc_binding(const char *line) { return strstr(line, " symbol `malloc'") != NULL; }

/* "binding file A [0] to B [0]: ...": cuts the line into A and B. */
static bool split_binding(char *line, char **from, char **to) {
  char *start = strstr(line, "binding file ");
  if (start == NULL) return false;
  *from = start + strlen("binding file ");
  char *from_end = strstr(*from, " [");
  char *to_start = strstr(*from, "] to ");
  if (from_end == NULL || to_start == NULL) return false;
  *to = to_start + strlen("] to ");
  char *to_end = strstr(*to, " [");
  if (to_end == NULL) return false;
  *from_end = 0;
  *to_end = 0;
  return true;
}

/* The dynamic linker in its listing mode (as ldd -r): loads and binds everything, starts nothing. */
static _Noreturn void be_listing(const struct library *library, const struct program *program,
                                 int out) {
  static char path[PATH_MAX];
  static char linker[PATH_MAX];
  /* Without links, as the kernel tells it to a program: $ORIGIN is where the program really lies. */
  if (realpath(program->starter, path) == NULL) _exit(EXIT_NO_PROGRAM);
  memcpy(linker, program->dynamic_linker, sizeof linker);
  char *arguments[] = {linker, path, NULL};
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  unsetenv("LD_DEBUG_OUTPUT");
  if (setenv("LD_TRACE_LOADED_OBJECTS", "1", 1) == 0 && setenv("LD_WARN", "yes", 1) == 0 &&
      setenv("LD_BIND_NOW", "yes", 1) == 0 && setenv("LD_DEBUG", "bindings", 1) == 0 &&
      library_set_preload(library))
    execv(linker, arguments);
  _exit(EXIT_CANNOT_RUN);
}

/* One line of the listing: `from` takes malloc from `to`. */
struct binding {
  struct binding *next;
  char *from;
  char *to;
};

static void free_binding(struct binding *binding) {
  free(binding->from);
  free(binding->to);
  free(binding);
}

/* What the listing says. */
struct listing {
  struct binding *bindings;
  struct object {
    struct object *next;
    char *path; /* NULL: the library `name` was not found */
    char *name;
  } * objects;
};

/* "\tNAME => PATH (ADDRESS)", "\tPATH (ADDRESS)" or "\tNAME => not found". */
static void read_object(char *line, struct listing *listing) {
  if (line[0] != '\t') return;
  char *name = line + 1;
  char *arrow = strstr(name, " => ");
  char *path = arrow != NULL ? arrow + strlen(" => ") : name;
  char *end = strstr(path, " (0x");
  if (arrow != NULL) *arrow = 0;
  if (end != NULL) *end = 0;
  bool missing = arrow != NULL && strncmp(path, "not found", strlen("not found")) == 0;
  if (!missing && (path[0] != '/' || end == NULL)) return;
  struct object *object = malloc(sizeof *object);
  if (object == NULL) return;
  *object = (struct object){
      .next = listing->objects, .path = missing ? NULL : strdup(path), .name = strdup(name)};
  listing->objects = object;
}

static void read_binding(char *line, struct listing *listing) {
  char *from;
  char *to;
  if (!is_malloc_binding(line) || !split_binding(line, &from, &to)) return;
  struct binding *binding = malloc(sizeof *binding);
  if (binding == NULL) return;
  *binding = (struct binding){.next = listing->bindings, .from = strdup(from), .to = strdup(to)};
  if (binding->from == NULL || binding->to == NULL) {
    free_binding(binding);
    return;
  }
  listing->bindings = binding;
}

static void read_listing(FILE *in, struct listing *listing) {
  char *line = NULL;
  size_t size = 0;
  while (getline(&line, &size, in) >= 0) {
    read_binding(line, listing);
    read_object(line, listing);
  }
  free(line);
}

/* A program at a fixed address stands in for the functions whose address it takes: its libraries then
 * bind to the program, and reach the library through it. */
static bool binds_to(const struct binding *list, const char *from, const char *to) {
  for (; list != NULL; list = list->next)
    if (strcmp(list->from, from) == 0 && strcmp(list->to, to) == 0) return true;
  return false;
}

static void report_bindings(const struct library *library, const struct program *program,
                            const struct binding *list) {
  int bound = 0;
  int elsewhere = 0;
  for (const struct binding *binding = list; binding != NULL; binding = binding->next) {
    if (strcmp(binding->from, library->path) == 0) continue;
    if (strcmp(binding->to, library->path) == 0 || binds_to(list, binding->to, library->path)) {
      bound++;
    } else {
      elsewhere++;
      doctor_report("FAIL", "%s: %s takes malloc from %s", program->starter, binding->from,
                    binding->to);
    }
  }
  if (bound + elsewhere == 0)
    doctor_report("FAIL", "%s: could not be loaded to see which malloc it gets", program->starter);
  else if (elsewhere == 0)
    doctor_report("ok", "%s: malloc comes from the library in all %d objects that call it",
                  program->starter, bound);
}

/* Another allocator among the program's libraries: loaded, and passed over by who calls malloc. */
static void report_object(const struct library *library, const struct object *object) {
  if (object->path == NULL) {
    if (object->name != NULL) doctor_report("FAIL", "%s: the library is not found", object->name);
    return;
  }
  const char *slash = strrchr(object->path, '/');
  const char *name = slash != NULL ? slash + 1 : object->path;
  if (strcmp(object->path, library->path) == 0 || strncmp(name, "libc.", 5) == 0 ||
      strncmp(name, "libc-", 5) == 0 || strncmp(name, "ld", 2) == 0)
    return;
  int fd = open(object->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  bool allocates = elf_symbol_find(fd, "malloc") == SYMBOL_EXPORTED &&
                   elf_symbol_find(fd, "free") == SYMBOL_EXPORTED;
  bool sanitizes = elf_symbol_find(fd, "__asan_init") == SYMBOL_EXPORTED;
  if (sanitizes)
    doctor_report("FAIL", "%s: AddressSanitizer has to have malloc itself", object->path);
  else if (allocates && elf_symbol_find(fd, "hak_version") != SYMBOL_EXPORTED)
    doctor_report("note",
                  "%s defines malloc, too: a preloaded one is found before it; memory that the "
                  "program takes from it by names of its own (mallocx, mi_malloc, tc_malloc...) "
                  "does not come from hakmem, and may not be given to free",
                  object->path);
  close(fd);
}

static void report_own_malloc(const struct program *program) {
  if (program->is_go)
    doctor_report("note",
                  "%s is a Go program: Go manages the memory of its own code; only what it "
                  "calls of C takes malloc from the library",
                  program->starter);
  if (program->has_hakmem && program->own_malloc != SYMBOL_NONE)
    doctor_report("note", "%s has a hakmem of its own linked in, and runs on that",
                  program->starter);
  else if (program->own_malloc == SYMBOL_EXPORTED)
    doctor_report("FAIL", "%s brings its own malloc, which is found before a preloaded one",
                  program->starter);
  else if (program->own_malloc == SYMBOL_HIDDEN)
    doctor_report("FAIL",
                  "%s brings its own malloc for its own calls; its libraries take the library's",
                  program->starter);
}

/* An allocator inside the program, under names of its own: what it hands out is no block of malloc's. */
static void report_inner_allocator(const struct program *program) {
  static const char *const names[] = {"je_malloc", "_rjem_malloc", "mi_malloc", "tc_malloc",
                                      "rpmalloc"};
  if (program->own_malloc != SYMBOL_NONE) return;
  int fd = open(program->starter, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    enum elf_symbol kind = elf_symbol_find(fd, names[i]);
    if (kind != SYMBOL_EXPORTED && kind != SYMBOL_HIDDEN) continue;
    doctor_report("note",
                  "%s has an allocator inside (%s): memory that it takes from that does not come "
                  "from hakmem, and is not ours in hakmem stats",
                  program->starter, names[i]);
    break;
  }
  close(fd);
}

static void free_listing(struct listing *listing) {
  while (listing->bindings != NULL) {
    struct binding *next = listing->bindings->next;
    free_binding(listing->bindings);
    listing->bindings = next;
  }
  while (listing->objects != NULL) {
    struct object *next = listing->objects->next;
    free(listing->objects->path);
    free(listing->objects->name);
    free(listing->objects);
    listing->objects = next;
  }
}

void doctor_check_program(const struct library *library, const struct program *program) {
  report_own_malloc(program);
  report_inner_allocator(program);
  if (program->dynamic_linker[0] == 0) {
    doctor_report(
        "note",
        "%s: which malloc it gets is not known: it names no dynamic linker, or may not be read",
        program->starter);
    return;
  }
  /* Any other may be a program that a stranger put there. */
  if (!program_is_own_linker(program->dynamic_linker)) {
    doctor_report(
        "note",
        "%s: which malloc it gets is not known: its dynamic linker is not that of this tool, "
        "and is not started",
        program->starter);
    return;
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    doctor_report("FAIL", "%s", strerror(errno));
    return;
  }
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) be_listing(library, program, ends[1]);
  close(ends[1]);
  FILE *in = fdopen(ends[0], "r");
  if (child < 0 || in == NULL) {
    doctor_report("FAIL", "cannot start a child process: %s", strerror(errno));
    close(ends[0]);
    return;
  }
  struct listing listing = {NULL, NULL};
  read_listing(in, &listing);
  fclose(in);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  for (const struct object *object = listing.objects; object != NULL; object = object->next)
    report_object(library, object);
  if (!program->has_hakmem || program->own_malloc == SYMBOL_NONE)
    report_bindings(library, program, listing.bindings);
  free_listing(&listing);
}
