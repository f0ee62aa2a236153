/* program.c - see program.h. The order of the checks is that of execve(2), so that the first complaint
 * is the one that the user would meet anyway. */
#define _GNU_SOURCE
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli.h"
#include "env_command.h"
#include "own_path.h"
#include "settings.h"

#define MAX_SCRIPT_DEPTH 5 /* the kernel's own limit for scripts run by scripts */
#define LINE_SIZE 256      /* of a "#!" line, the kernel's too */
#define MAX_ENV_WORDS 128  /* so far env's arguments are followed to the program that it starts */

/* --- finding it ----------------------------------------------------------------------------- */

/* 0 when `path` can be executed, else the error that execve would give. */
static int executable(const char *path) {
  struct stat status;
  if (stat(path, &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  /* With the effective ids, as execve does. */
  if (!S_ISREG(status.st_mode) || faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) != 0) return EACCES;
  return 0;
}

/* Looks `name` up in PATH. Returns 0 or an error number. */
static int find_in_path(const char *name, char *path) {
  const char *directories = getenv("PATH");
  char standard[256];
  if (directories == NULL) {
    confstr(_CS_PATH, standard, sizeof standard);
    directories = standard;
  }
  int error = ENOENT;
  for (const char *start = directories;; start++) {
    const char *end = strchrnul(start, ':');
    int length = (int)(end - start);
    int written = snprintf(path, PATH_MAX, "%.*s%s%s", length, start, length > 0 ? "/" : "", name);
    if (written > 0 && written < PATH_MAX) {
      int problem = executable(path);
      if (problem == 0) return 0;
      if (problem == EACCES)
        error = EACCES; /* another directory may hold one that can be executed */
    }
    if (*end == 0) return error;
    start = end;
  }
}

static int resolve(const char *name, char *path) {
  if (name[0] == 0) return ENOENT;
  if (strchr(name, '/') == NULL) return find_in_path(name, path);
  size_t length = strlen(name);
  if (length >= PATH_MAX) return ENAMETOOLONG;
  memcpy(path, name, length + 1);
  return executable(path);
}

/* --- can it be preloaded? ------------------------------------------------------------------- */

/* The dynamic linker may be run as a program; it has none itself, but preloads all the same. */
static bool is_dynamic_linker(const struct stat *status) {
  static struct elf_file own;
  const char *tool = own_path();
  int fd = tool != NULL ? open(tool, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return false;
  elf_file_read(fd, &own);
  close(fd);
  struct stat linker;
  return own.interpreter[0] != 0 && stat(own.interpreter, &linker) == 0 &&
         linker.st_dev == status->st_dev && linker.st_ino == status->st_ino;
}

bool program_is_own_linker(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && is_dynamic_linker(&status);
}

static bool is_musl(const char *dynamic_linker) {
  const char *slash = strrchr(dynamic_linker, '/');
  return strncmp(slash != NULL ? slash + 1 : dynamic_linker, "ld-musl", 7) == 0;
}

/* What makes the kernel raise privileges when it starts the file, or NULL. The dynamic linker ignores
 * LD_PRELOAD then. Whoever starts it: a command must not work for root only. */
static const char *privileges(int fd, const struct stat *status) {
  if ((status->st_mode & S_ISUID) != 0) return "set-user-ID";
  if ((status->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP)) return "set-group-ID";
  if (fgetxattr(fd, "security.capability", NULL, 0) > 0) return "given file capabilities";
  return NULL;
}

const char *program_obstacle(const char *path) {
  struct stat status;
  const char *obstacle = NULL;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct elf_file *file = calloc(1, sizeof *file);
  if (fd >= 0 && file != NULL && fstat(fd, &status) == 0) {
    elf_file_read(fd, file);
    obstacle = privileges(fd, &status);
    if (obstacle == NULL && file->is_ours && !file->damaged && file->interpreter[0] == 0 &&
        !is_dynamic_linker(&status))
      obstacle = "statically linked";
  }
  free(file);
  if (fd >= 0) close(fd);
  return obstacle;
}

static int check_elf(const char *path, int fd, const struct stat *status,
                     const struct elf_file *file, const struct library *library,
                     struct program *program) {
  if (!file->is_ours && !file->damaged) {
    complain("%s: is a program for %s; the library is for %s", path, file->machine,
             elf_file_own_machine());
    return EXIT_CANNOT_RUN;
  }
  if (file->damaged) {
    complain("%s: is not a valid program: its ELF headers are damaged", path);
    return EXIT_CANNOT_RUN;
  }
  const char *raised = privileges(fd, status);
  if (raised != NULL) {
    complain("%s: is %s: no library can be preloaded into a program that raises its privileges",
             path, raised);
    return EXIT_CANNOT_RUN;
  }
  snprintf(program->starter, sizeof program->starter, "%s", path);
  program->is_go = file->is_go;
  if (file->interpreter[0] == 0) {
    if (is_dynamic_linker(status)) return 0;
    if (file->is_go) {
      complain("%s: is a statically linked Go program: no library can be preloaded into it, and Go "
               "manages its memory itself",
               path);
      return EXIT_CANNOT_RUN;
    }
    if (elf_symbol_find(fd, "hak_version") != SYMBOL_NONE)
      complain("%s: is statically linked, with hakmem in it: start it as it is", path);
    else
      complain("%s: is statically linked: no library can be preloaded into it (it can be linked "
               "with libhakmem.a)",
               path);
    return EXIT_CANNOT_RUN;
  }
  if (access(file->interpreter, F_OK) != 0) {
    complain("%s: its dynamic linker %s: %s", path, file->interpreter, strerror(errno));
    return EXIT_NO_PROGRAM;
  }
  if (is_musl(file->interpreter) ? library->elf.needs_glibc : library->elf.needs_musl) {
    bool musl = is_musl(file->interpreter);
    complain("%s: runs on %s, the library on %s", path, musl ? "musl" : "glibc",
             musl ? "glibc" : "musl");
    return EXIT_CANNOT_RUN;
  }
  memcpy(program->dynamic_linker, file->interpreter, sizeof program->dynamic_linker);
  /* Its own malloc is found before that of any library, preloaded or not. */
  enum elf_symbol own = elf_symbol_find(fd, "malloc");
  program->own_malloc = own == SYMBOL_EXPORTED || own == SYMBOL_HIDDEN ? own : SYMBOL_NONE;
  enum elf_symbol version = elf_symbol_find(fd, "hak_version");
  program->has_hakmem = version == SYMBOL_EXPORTED || version == SYMBOL_HIDDEN;
  return 0;
}

static int check_file(const char *path, int depth, const struct library *library,
                      struct program *program);

/* Is it env, and not a script of that name? */
static bool is_env(const char *path, const struct program *program) {
  const char *slash = strrchr(path, '/');
  return strcmp(slash != NULL ? slash + 1 : path, "env") == 0 &&
         strcmp(path, program->starter) == 0;
}

/* `env name`: the program that matters is the one that env will start. */
static int check_env(const char *path, char **words, int depth, const struct library *library,
                     struct program *program) {
  struct env_command command = env_command_read(words);
  if (command.program == NULL || command.looks_elsewhere) return 0; /* for env to report */
  if (command.drops_preload) {
    complain("%s: env starts '%s' without the LD_PRELOAD that puts it on hakmem", path,
             command.program);
    return EXIT_CANNOT_RUN;
  }
  char target[PATH_MAX];
  int error = resolve(command.program, target);
  if (error != 0) {
    bool in_path = error == ENOENT && strchr(command.program, '/') == NULL;
    const char *hint =
        strpbrk(command.program, " \t") != NULL ? " (env cuts it up with -S only)" : "";
    complain("%s: env is to start '%s': %s%s", path, command.program,
             in_path ? "not found in PATH" : strerror(error), hint);
    return error == ENOENT || error == ENOTDIR ? EXIT_NO_PROGRAM : EXIT_CANNOT_RUN;
  }
  int code = check_file(target, depth + 1, library, program);
  if (code != 0 || !is_env(target, program)) return code;
  return depth < MAX_SCRIPT_DEPTH ? check_env(path, command.arguments, depth + 1, library, program)
                                  : 0;
}

/* `line` starts with "#!". */
static int check_script(const char *path, char *line, int depth, const struct library *library,
                        struct program *program) {
  line[strcspn(line, "\n")] = 0;
  char *interpreter = line + 2 + strspn(line + 2, " \t");
  char *argument = interpreter + strcspn(interpreter, " \t");
  if (*argument != 0) *argument++ = 0;
  if (interpreter[0] == 0) {
    program->needs_shell = true;
    return check_file("/bin/sh", depth + 1, library, program);
  }
  if (depth >= MAX_SCRIPT_DEPTH) {
    complain("%s: too many scripts that are run by scripts", path);
    return EXIT_CANNOT_RUN;
  }
  int error = executable(interpreter);
  if (error != 0) {
    size_t length = strlen(interpreter);
    if (interpreter[length - 1] == '\r') {
      interpreter[length - 1] = 0;
      complain("%s: the line '#!%s' ends in a carriage return: the script has DOS line ends", path,
               interpreter);
    } else {
      complain("%s: its interpreter %s: %s", path, interpreter, strerror(error));
    }
    return error == ENOENT || error == ENOTDIR ? EXIT_NO_PROGRAM : EXIT_CANNOT_RUN;
  }
  program->is_script = true;
  int code = check_file(interpreter, depth + 1, library, program);
  if (code != 0 || !is_env(interpreter, program)) return code;
  /* One argument, as the kernel passes it, then the script itself. */
  argument += strspn(argument, " \t");
  for (size_t end = strlen(argument); end > 0 && strchr(" \t", argument[end - 1]) != NULL; end--)
    argument[end - 1] = 0;
  char *words[] = {argument, NULL};
  return argument[0] != 0 ? check_env(path, words, depth, library, program) : 0;
}

static int check_file(const char *path, int depth, const struct library *library,
                      struct program *program) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0; /* it may be executable without being readable */
  struct stat status;
  struct elf_file *file = calloc(1, sizeof *file);
  char line[LINE_SIZE] = "";
  ssize_t length = pread(fd, line, sizeof line - 1, 0);
  int code = 0;
  if (file == NULL || length < 0 || fstat(fd, &status) != 0) {
    complain("%s: %s", path, strerror(errno));
    code = EXIT_CANNOT_RUN;
  } else {
    elf_file_read(fd, file);
    if (file->is_elf) {
      code = check_elf(path, fd, &status, file, library, program);
    } else if (line[0] == '#' && line[1] == '!') {
      code = check_script(path, line, depth, library, program);
    } else if (memchr(line, 0, (size_t)length) == NULL) {
      program->needs_shell = true;
      code = check_file("/bin/sh", depth + 1, library, program);
    }
    /* Else a format that only the kernel may know (binfmt_misc). */
  }
  free(file);
  close(fd);
  return code;
}

static int find(const char *name, const struct library *library, struct program *program) {
  memset(program, 0, sizeof *program);
  int error = resolve(name, program->path);
  memcpy(program->starter, program->path, sizeof program->starter);
  if (error == ENOENT && name[0] != 0 && strchr(name, '/') == NULL) {
    complain("'%s': not found in PATH", name);
    return EXIT_NO_PROGRAM;
  }
  if (error != 0) {
    complain("'%s': %s", name, strerror(error));
    return error == ENOENT || error == ENOTDIR ? EXIT_NO_PROGRAM : EXIT_CANNOT_RUN;
  }
  return check_file(program->path, 0, library, program);
}

int program_find(const char *name, const struct library *library, struct program *program) {
  int code = find(name, library, program);
  return code != 0 ? code : program_refuse_own_malloc(program);
}

int program_examine(char **argv, const struct library *library, struct program *program) {
  int code = find(argv[0], library, program);
  if (code != 0 || !is_env(program->path, program)) return code;
  /* -S writes into its word, which env itself has to get whole. */
  char *words[MAX_ENV_WORDS] = {NULL};
  size_t count = 0;
  for (; count < MAX_ENV_WORDS - 1 && argv[count + 1] != NULL && code == 0; count++)
    if ((words[count] = strdup(argv[count + 1])) == NULL) code = EXIT_CANNOT_RUN;
  if (code == 0) code = check_env(program->path, words, 0, library, program);
  else complain("%s", strerror(ENOMEM));
  for (size_t i = 0; i < count; i++) free(words[i]);
  return code;
}

int program_refuse_own_malloc(const struct program *program) {
  if (program->own_malloc == SYMBOL_NONE || program->has_hakmem) return 0;
  if (program->own_malloc == SYMBOL_EXPORTED) {
    complain("%s: brings its own malloc, which the dynamic linker finds before a preloaded one: it "
             "cannot run on hakmem",
             program->starter);
    return EXIT_CANNOT_RUN;
  }
  complain(
      "note: %s brings its own malloc for its own calls: only its libraries and the programs that "
      "it starts run on hakmem",
      program->starter);
  return 0;
}

/* --- running it ----------------------------------------------------------------------------- */

int program_execute(const struct program *program, char **argv) {
  settings_complain();
  execv(program->path, argv);
  if (errno == ENOEXEC && program->needs_shell) {
    int count = 0;
    while (argv[count] != NULL) count++;
    char **arguments = calloc((size_t)count + 2, sizeof *arguments);
    if (arguments != NULL) {
      static char shell[] = "sh";
      static char path[PATH_MAX];
      snprintf(path, sizeof path, "%s", program->path);
      arguments[0] = shell;
      arguments[1] = path;
      memcpy(arguments + 2, argv + 1, (size_t)count * sizeof *argv);
      execv("/bin/sh", arguments);
      free(arguments);
    }
  }
  complain("%s: %s", program->path, strerror(errno));
  return EXIT_CANNOT_RUN;
}

_Noreturn void program_end_by(int signal_number) {
  struct rlimit none = {0, 0};
  sigset_t set;
  setrlimit(RLIMIT_CORE, &none);
  signal(signal_number, SIG_DFL);
  sigemptyset(&set);
  sigaddset(&set, signal_number);
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  kill(getpid(), signal_number);
  exit(128 + signal_number);
}
