/* library.c - see library.h. */
#define _GNU_SOURCE
#include "library.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "elf_symbols.h"
#include "hakmem.h"
#include "own_path.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

/* The name that an installation without development files has comes first. */
enum { NAMES = 2, MOST_VARIANT = 40 };
static const char *const file_names[][NAMES] = {
    [LIBRARY_RUN] = {"libhakmem.so." TEXT(HAKMEM_VERSION_MAJOR), "libhakmem.so"},
    [LIBRARY_TRACE] = {"libhakmem-trace.so." TEXT(HAKMEM_VERSION_MAJOR), "libhakmem-trace.so"},
    [LIBRARY_COPIES] = {"libhakmem-copies.so." TEXT(HAKMEM_VERSION_MAJOR), "libhakmem-copies.so"},
};

/* The places that were looked at, for the message when nothing was found. */
struct search {
  enum library_kind kind;
  struct library *library;
  char *looked;
  size_t looked_size;
  FILE *log;
};

/* By its symbols, not by its name: a program would run without hakmem, and nothing would say so. */
static const char *problem_of(int fd) {
  bool allocates = elf_symbol_find(fd, "malloc") == SYMBOL_EXPORTED &&
                   elf_symbol_find(fd, "free") == SYMBOL_EXPORTED;
  bool is_hakmem = elf_symbol_find(fd, "hak_version") == SYMBOL_EXPORTED;
  if (is_hakmem && allocates) return NULL;
  if (is_hakmem) return "has no malloc: it is hakmem for programs that call hak_malloc themselves";
  return allocates ? "is another allocator, not hakmem" : "is not hakmem: it has no malloc";
}

/* Reads the file as a library; `why` gets what is wrong with it. */
static bool read_library(const char *path, struct library *library, const char **why) {
  if (realpath(path, library->path) == NULL) {
    *why = strerror(errno);
    return false;
  }
  /* A pipe without a writer must not make us wait. */
  int fd = open(library->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    *why = strerror(errno);
    return false;
  }
  elf_file_read(fd, &library->elf);
  library->problem = problem_of(fd);
  close(fd);
  if (!library->elf.is_elf || library->elf.damaged) *why = "not a shared library";
  else if (!library->elf.is_ours) *why = "a library for another machine";
  else if (!library->elf.is_shared || library->elf.interpreter[0] != 0)
    *why = "a program, not a shared library";
  else return true;
  return false;
}

/* Looks into the directory `base`/`sub`. */
static bool look(struct search *search, const char *base, const char *sub) {
  for (size_t i = 0; i < NAMES; i++) {
    char path[PATH_MAX];
    const char *slash = sub[0] != 0 ? "/" : "";
    int length =
        snprintf(path, sizeof path, "%s%s%s/%s", base, slash, sub, file_names[search->kind][i]);
    if (length < 0 || (size_t)length >= sizeof path) continue;
    const char *why = NULL;
    if (read_library(path, search->library, &why)) return true;
    fprintf(search->log, "  %s: %s\n", path, why);
  }
  return false;
}

/* Looks into the directory `base`/`sub``below`. */
static bool look_below(struct search *search, const char *base, const char *sub,
                       const char *below) {
  char whole[PATH_MAX];
  if (sub[0] == 0 && below[0] != 0) below++; /* its slash */
  int length = snprintf(whole, sizeof whole, "%s%s", sub, below);
  return length >= 0 && (size_t)length < sizeof whole && look(search, base, whole);
}

/* The directory of this tool; false when it is not known. */
static bool own_directory(char *directory, size_t size) {
  const char *path = own_path();
  if (path == NULL) return false;
  const char *slash = strrchr(path, '/');
  int length = slash == path ? 1 : (int)(slash - path);
  return snprintf(directory, size, "%.*s", length, path) < (int)size;
}

static bool search_all(struct search *search, const char *variant) {
  char directory[PATH_MAX];
  bool known = own_directory(directory, sizeof directory);
  if (!known)
    fputs("  (where the tool itself lies is not known: /proc is not there)\n", search->log);
  /* What is not for every program lies below the library directory of an installation. */
  char below[MOST_VARIANT + sizeof "/hakmem/"] = "";
  if (variant != NULL && strcmp(variant, HAKMEM_TOOL_VARIANT) != 0) {
    char sub[MOST_VARIANT + 4]; /* a build tree: build/VARIANT/ */
    snprintf(sub, sizeof sub, "../%s", variant);
    if (known && look(search, directory, sub)) return true;
    snprintf(below, sizeof below, "/hakmem/%s", variant);
  } else {
    if (known && look(search, directory, "")) return true;
    if (search->kind == LIBRARY_TRACE) snprintf(below, sizeof below, "/hakmem");
  }
  if (known && look_below(search, directory, HAKMEM_BINDIR_TO_LIBDIR, below)) return true;
  if (known && strcmp(HAKMEM_BINDIR_TO_LIBDIR, "../lib") != 0 &&
      look_below(search, directory, "../lib", below))
    return true;
  return look_below(search, HAKMEM_LIBDIR, "", below);
}

/* How a library gets to where it is looked for: in a build tree by make, elsewhere by make install with the prefix that the tool lies in. */
static void say_how_to_install(const char *variant) {
  char directory[PATH_MAX], file[PATH_MAX + sizeof "/CMakeCache.txt"];
  bool known = own_directory(directory, sizeof directory);
  if (variant == NULL) variant = "standard";
  bool is_standard = strcmp(variant, "standard") == 0;
  snprintf(file, sizeof file, "%s/CMakeCache.txt", known ? directory : "");
  if (known && access(file, F_OK) == 0) {
    fprintf(stderr, "'make VARIANT=%s' builds it; or name a library with --library\n", variant);
    return;
  }
  char *last = known ? strrchr(directory, '/') : NULL;
  bool is_bin = last != NULL && last != directory && strcmp(last, "/bin") == 0;
  if (is_bin) *last = 0;
  fprintf(stderr,
          "'make %s%s%sinstall%s%s' in hakmem's source puts it there%s; or name a library with "
          "--library\n",
          is_standard ? "" : "VARIANT=", is_standard ? "" : variant, is_standard ? "" : " ",
          is_bin ? " PREFIX=" : "", is_bin ? directory : "",
          strcmp(variant, "hardened") == 0
              ? ", or the package libhakmem0-hardened (Debian), hakmem-libs-hardened (Fedora)"
              : "");
}

/* One of the names in HAKMEM_TOOL_VARIANTS, which have blanks between them. */
static bool is_variant(const char *name) {
  char all[] = HAKMEM_TOOL_VARIANTS, *rest = all, *one;
  while ((one = strsep(&rest, " ")) != NULL)
    if (strcmp(one, name) == 0) return true;
  return false;
}

bool library_locate(enum library_kind kind, const char *given, const char *variant,
                    struct library *library) {
  if (given != NULL && variant != NULL) {
    complain("--library and --variant cannot be used together");
    return false;
  }
  if (variant != NULL && !is_variant(variant)) {
    complain("--variant %s: not the name of a variant; there are " HAKMEM_TOOL_VARIANTS, variant);
    return false;
  }
  if (given != NULL) {
    const char *why = NULL;
    if (read_library(given, library, &why)) return true;
    complain(given[0] != 0 ? "%s: %s" : "'%s': %s", given, why);
    return false;
  }
  struct search search = {.kind = kind, .library = library};
  search.log = open_memstream(&search.looked, &search.looked_size);
  if (search.log == NULL) {
    complain("%s", strerror(errno));
    return false;
  }
  bool found = search_all(&search, variant);
  fclose(search.log);
  if (!found) {
    complain("cannot find the library%s%s%s; searched:", kind == LIBRARY_TRACE ? " for traces" : "",
             variant != NULL ? " of variant " : "", variant != NULL ? variant : "");
    fputs(search.looked, stderr);
    say_how_to_install(variant);
  }
  free(search.looked);
  return found;
}

bool library_find(enum library_kind kind, const char *given, const char *variant,
                  struct library *library) {
  if (!library_locate(kind, given, variant, library)) return false;
  if (library->problem != NULL) complain("%s: %s", library->path, library->problem);
  return library->problem == NULL;
}

bool library_find_copies(const struct library *beside, struct library *copies) {
  char directory[PATH_MAX];
  const char *slash = strrchr(beside->path, '/');
  int length = slash == beside->path ? 1 : (int)(slash - beside->path);
  snprintf(directory, sizeof directory, "%.*s", length, beside->path);
  struct search search = {.kind = LIBRARY_COPIES, .library = copies};
  search.log = open_memstream(&search.looked, &search.looked_size);
  if (search.log == NULL) {
    complain("%s", strerror(errno));
    return false;
  }
  bool found = look(&search, directory, "");
  fclose(search.log);
  if (!found) {
    complain("--check-copies: no library for that beside %s; the hardened build has one:",
             beside->path);
    fputs(search.looked, stderr);
    fputs("--variant hardened beside --check-copies takes it\n", stderr);
  }
  free(search.looked);
  return found;
}

/* Does the dynamic linker replace a part of the path by something else? */
static bool has_token(const char *path) {
  static const char *const tokens[] = {"ORIGIN", "LIB", "PLATFORM"};
  for (const char *dollar = strchr(path, '$'); dollar != NULL; dollar = strchr(dollar + 1, '$'))
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
      if (strncmp(dollar + 1 + (dollar[1] == '{'), tokens[i], strlen(tokens[i])) == 0) return true;
  return false;
}

bool library_set_preload(const struct library *library) {
  if (strpbrk(library->path, ": \t\n") != NULL) {
    complain(
        "%s: the dynamic linker cannot preload a path with a space or a colon; put the library "
        "elsewhere",
        library->path);
    return false;
  }
  if (has_token(library->path)) {
    complain(
        "%s: the dynamic linker cannot preload a path with $ORIGIN, $LIB or $PLATFORM, which it "
        "replaces; put the library elsewhere",
        library->path);
    return false;
  }
  const char *before = getenv("LD_PRELOAD");
  char *value = NULL;
  size_t own = strlen(library->path);
  if (before != NULL && strncmp(before, library->path, own) == 0 &&
      (before[own] == 0 || strchr(": ", before[own]) != NULL))
    return true; /* by a `hakmem run` further up */
  int length = before != NULL && before[0] != 0 ? asprintf(&value, "%s:%s", library->path, before)
                                                : asprintf(&value, "%s", library->path);
  if (length < 0 || setenv("LD_PRELOAD", value, 1) != 0) {
    complain("%s", strerror(ENOMEM));
    return false;
  }
  free(value);
  return true;
}
