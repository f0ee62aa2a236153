/* probe.c - see probe.h. Parent and child are the same program; the child writes lines "KEY VALUE". */
#define _GNU_SOURCE
#include "probe.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "own_path.h"

/* What has to come from the library: the C functions, and operator new and delete. */
static const char *const functions[] = {
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "aligned_alloc",
    "memalign",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "malloc_usable_size",
    "_Znwm",
    "_ZdlPv",
};

/* --- the child ------------------------------------------------------------------------------ */

static const char *call_text(const char *function) {
  const char *(*call)(void) = NULL;
  *(void **)&call = dlsym(RTLD_DEFAULT, function);
  return call != NULL ? call() : "";
}

int command_probe(void) {
  void *version = dlsym(RTLD_DEFAULT, "hak_version");
  Dl_info library = {0};
  if (version == NULL || dladdr(version, &library) == 0)
    return 0; /* the library is not here: no line says so */
  printf("version %s\nvariant %s\n", call_text("hak_version"), call_text("hak_variant"));
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    Dl_info place = {0};
    void *function = dlsym(RTLD_DEFAULT, functions[i]);
    if (function == NULL) printf("foreign %s (missing)\n", functions[i]);
    else if (dladdr(function, &place) == 0 || place.dli_fbase != library.dli_fbase)
      printf("foreign %s (%s)\n", functions[i], place.dli_fname != NULL ? place.dli_fname : "?");
  }
  bool (*owns)(const void *) = NULL;
  *(void **)&owns = dlsym(RTLD_DEFAULT, "hak_owns");
  void *(*volatile allocate)(size_t) = malloc;
  void *block = allocate(100);
  printf("owns %d\n", owns != NULL && block != NULL && owns(block));
  free(block);
  return 0;
}

/* --- the parent ----------------------------------------------------------------------------- */

static void read_line(struct probe *probe, char *line) {
  line[strcspn(line, "\n")] = 0;
  char *value = strchr(line, ' ');
  if (value == NULL) return;
  *value++ = 0;
  if (strcmp(line, "version") == 0) snprintf(probe->version, sizeof probe->version, "%s", value);
  if (strcmp(line, "variant") == 0) snprintf(probe->variant, sizeof probe->variant, "%s", value);
  if (strcmp(line, "owns") == 0) probe->owns = strcmp(value, "1") == 0;
  if (strcmp(line, "foreign") == 0) {
    size_t used = strlen(probe->foreign);
    snprintf(probe->foreign + used, sizeof probe->foreign - used, " %s", value);
  }
}

static _Noreturn void be_child(const struct library *library, bool quiet, int out) {
  static char tool[] = "hakmem";
  static char argument[] = PROBE_ARGUMENT;
  char *arguments[] = {tool, argument, NULL};
  dup2(out, STDOUT_FILENO);
  if (quiet) {
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, STDERR_FILENO);
  }
  if (library_set_preload(library)) execv(own_path(), arguments);
  _exit(EXIT_CANNOT_RUN);
}

bool probe_run(const struct library *library, bool quiet, struct probe *probe) {
  memset(probe, 0, sizeof *probe);
  int ends[2];
  if (own_path() == NULL) {
    complain("cannot find the tool itself, to start it on the library: /proc is not there");
    return false;
  }
  if (pipe2(ends, O_CLOEXEC) != 0) {
    complain("%s", strerror(errno));
    return false;
  }
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) be_child(library, quiet, ends[1]);
  close(ends[1]);
  FILE *in = fdopen(ends[0], "r");
  if (child < 0 || in == NULL) {
    complain("cannot start a child process: %s", strerror(errno));
    close(ends[0]);
    return false;
  }
  char line[512];
  while (fgets(line, sizeof line, in) != NULL) read_line(probe, line);
  fclose(in);
  while (waitpid(child, &probe->exit_status, 0) < 0 && errno == EINTR) continue;
  return true;
}
