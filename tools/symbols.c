/* symbols.c - see symbols.h. */
#define _GNU_SOURCE
#include "symbols.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core.h"
#include "demangle.h"
#include "inlined.h"
#include "perf_map.h"

struct file {
  struct file *next;
  char *name;          /* its path or build-id */
  Dwfl_Module *module; /* NULL: it cannot be read */
};

struct symbols {
  Dwfl *dwfl;
  struct file *files; /* of symbols_of_files */
  struct demangler demangler;
  struct target target; /* of symbols_open */
  struct unread *unread;
  struct perf_map *made; /* NULL: there is none, or nobody has asked */
  bool made_asked;
  Elf *core; /* of symbols_calls */
  struct inlined *inlined;
  struct symbol callers[INLINED_MOST]; /* of the last place */
};

/* --- the files of a process ------------------------------------------------------------------------------ */

/* What is mapped from `base` on, the file's name in `line`; false: it is there no more. */
static bool find_mapping(struct target target, uint64_t base, struct mapped *mapping, char **line) {
  size_t room = 0;
  bool found = false;
  FILE *maps = target_maps(target);
  if (maps == NULL) return false;
  while (!found && getline(line, &room, maps) >= 0)
    found = mapped_parse(*line, mapping) && mapping->start == base;
  fclose(maps);
  return found;
}

/* The path by which libdwfl looks for files beside it: a process in a container has its own under a path at which there is
 * another one here, or none. */
static char *path_of(struct target target, const char *name, uint64_t base, int fd) {
  struct stat here, there;
  char *path = NULL;
  struct core_file *file = target.core != NULL ? core_file_at(target.core, base) : NULL;
  if (file != NULL && file->found != NULL) return strdup(file->found);
  if (fstat(fd, &there) == 0 && stat(name, &here) == 0 && here.st_ino == there.st_ino &&
      here.st_dev == there.st_dev)
    return strdup(name);
  if (target.core != NULL) return strdup(name);
  return asprintf(&path, "/proc/%d/root%s", target.pid, name) >= 0 ? path : NULL;
}

static void note_unread(struct symbols *symbols, uint64_t base, const char *name,
                        const char *build_id, bool gone, int error) {
  const struct core *core = symbols->target.core;
  struct core_file *file = core != NULL ? core_file_at(symbols->target.core, base) : NULL;
  struct unread *unread = calloc(1, sizeof *unread);
  if (unread == NULL) return;
  *unread = (struct unread){.next = symbols->unread, .base = base, .name = strdup(name)};
  snprintf(unread->build_id, sizeof unread->build_id, "%s", build_id);
  const char *slash = strrchr(name, '/');
  if (file != NULL)
    snprintf(unread->why, sizeof unread->why,
             "%.60s %s (--root, --debug-dir): its functions have no names",
             slash != NULL ? slash + 1 : name, file->why != NULL ? file->why : "cannot be read");
  else
    snprintf(unread->why, sizeof unread->why, "%.60s %s, and %s: its functions have no names",
             slash != NULL ? slash + 1 : name,
             gone ? "was deleted or replaced" : "is another file now, or cannot be read",
             error == EPERM || error == EACCES
                 ? "only root or CAP_CHECKPOINT_RESTORE may read what is mapped"
                 : "the kernel has no link to what is mapped");
  symbols->unread = unread;
}

static int find_elf(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
                    char **file_name, Elf **elf) {
  struct symbols *symbols = *userdata;
  struct mapped mapping;
  char *line = NULL, build_id[BUILD_ID_ROOM], clean[PATH_MAX];
  if (name[0] != '/')
    return symbols->target.core != NULL
               ? -1
               : dwfl_linux_proc_find_elf(module, userdata, name, base, file_name, elf);
  int fd = -1, error = 0;
  mapped_build_id(symbols->target, base, build_id);
  mapped_name(name, clean, sizeof clean);
  bool gone = strcmp(clean, name) != 0;
  if (find_mapping(symbols->target, base, &mapping, &line)) {
    fd = mapped_open(symbols->target, &mapping);
    error = errno;
  }
  if (fd < 0) fd = mapped_open_alike(symbols->target, clean, build_id);
  if (fd >= 0) *file_name = path_of(symbols->target, clean, base, fd);
  else if (line != NULL) note_unread(symbols, base, clean, build_id, gone, error);
  free(line);
  return fd;
}

/* In a container these are the process' own, too. */
static int find_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
                          const char *file_name, const char *link, GElf_Word sum,
                          char **debug_name) {
  struct symbols *symbols = *userdata;
  char build_id[BUILD_ID_ROOM];
  int fd =
      dwfl_standard_find_debuginfo(module, userdata, name, base, file_name, link, sum, debug_name);
  return fd >= 0
             ? fd
             : mapped_open_debug(symbols->target, mapped_build_id(symbols->target, base, build_id));
}

static Dwfl_Callbacks callbacks = {.find_elf = find_elf, .find_debuginfo = find_debuginfo};

static Dwfl_Callbacks file_callbacks = {.find_elf = dwfl_build_id_find_elf,
                                        .find_debuginfo = dwfl_standard_find_debuginfo,
                                        .section_address = dwfl_offline_section_address};

static struct symbols *begin(const Dwfl_Callbacks *found_by) {
  struct symbols *symbols = calloc(1, sizeof *symbols);
  if (symbols == NULL) return NULL;
  symbols->dwfl = dwfl_begin(found_by);
  symbols->inlined = inlined_new();
  return symbols;
}

static int set_owner(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
                     void *owner) {
  (void)module, (void)name, (void)base;
  *userdata = owner;
  return DWARF_CB_OK;
}

static bool report_maps(Dwfl *dwfl, struct target target) {
  FILE *maps = target_maps(target);
  if (maps == NULL) return false;
  bool ok = dwfl_linux_proc_maps_report(dwfl, maps) == 0;
  fclose(maps);
  return ok;
}

struct symbols *symbols_open(struct target target) {
  struct symbols *symbols = begin(&callbacks);
  bool ok = symbols != NULL && symbols->dwfl != NULL &&
            (target.core != NULL ? report_maps(symbols->dwfl, target)
                                 : dwfl_linux_proc_report(symbols->dwfl, target.pid) == 0);
  if (!ok || dwfl_report_end(symbols->dwfl, NULL, NULL) != 0) {
    symbols_close(symbols);
    return NULL;
  }
  symbols->target = target;
  dwfl_getmodules(symbols->dwfl, set_owner, symbols, 0);
  return symbols;
}

const struct unread *symbols_unread(const struct symbols *symbols) {
  return symbols != NULL ? symbols->unread : NULL;
}

const struct unread *symbols_unread_at(struct symbols *symbols, uint64_t address) {
  Dwarf_Addr base = 0;
  Dwfl_Module *module = symbols != NULL ? dwfl_addrmodule(symbols->dwfl, address) : NULL;
  if (module == NULL) return NULL;
  dwfl_module_info(module, NULL, &base, NULL, NULL, NULL, NULL, NULL);
  const struct unread *unread = symbols->unread;
  while (unread != NULL && unread->base != base) unread = unread->next;
  return unread;
}

struct symbols *symbols_of_files(void) {
  return begin(&file_callbacks);
}

/* What no file has may have been made at run time. */
static struct symbol find_made(struct symbols *symbols, uint64_t address) {
  struct perf_name name;
  if (!symbols->made_asked) symbols->made = perf_map_open(symbols->target);
  symbols->made_asked = true;
  if (!perf_map_find(symbols->made, address, &name)) return (struct symbol){0};
  return (struct symbol){.function = name.function,
                         .linkage = name.function,
                         .file = name.file,
                         .source = name.file,
                         .line = name.line,
                         .made = true};
}

/* The line belongs to the innermost function; each call's to what calls it. `symbol` is the function that all of them are in. */
static struct symbol add_callers(struct symbols *symbols, struct symbol symbol,
                                 const struct inlined_call *calls, unsigned count) {
  const char *file = symbol.file;
  int line = symbol.line;
  struct symbol inner = symbol;
  for (unsigned i = 0; i < count; i++) {
    struct symbol *caller = &symbols->callers[i];
    *caller = inner;
    caller->file = calls[i].file;
    caller->line = calls[i].line;
    inner = (struct symbol){.function = calls[i].function,
                            .linkage = calls[i].linkage,
                            .source = calls[i].source,
                            .caller = caller};
  }
  inner.file = file;
  inner.line = line;
  return inner;
}

struct symbol symbols_find(struct symbols *symbols, uint64_t address) {
  struct symbol symbol = {0};
  struct inlined_call calls[INLINED_MOST];
  GElf_Off distance = 0;
  GElf_Sym entry;
  Dwfl_Module *module = symbols != NULL ? dwfl_addrmodule(symbols->dwfl, address) : NULL;
  if (symbols == NULL) return symbol;
  if (module == NULL) return find_made(symbols, address);
  symbol.linkage = dwfl_module_addrinfo(module, address, &distance, &entry, NULL, NULL, NULL);
  /* libdwfl may take code between files for the file's before it. */
  if (symbol.linkage == NULL && (symbol = find_made(symbols, address)).made) return symbol;
  Dwarf_Addr bias;
  const Dwarf_Die *unit = dwfl_module_addrdie(module, address, &bias);
  unsigned inlined = unit != NULL ? inlined_find(symbols->inlined, unit, address - bias,
                                                 &symbols->demangler, calls)
                                  : 0;
  if (symbol.linkage != NULL) symbol.function = demangle(&symbols->demangler, symbol.linkage);
  Dwfl_Line *line = dwfl_module_getsrc(module, address);
  if (line != NULL) symbol.file = dwfl_lineinfo(line, NULL, &symbol.line, NULL, NULL, NULL);
  Dwfl_Line *first = symbol.linkage != NULL ? dwfl_module_getsrc(module, address - distance) : NULL;
  if (first != NULL) symbol.source = dwfl_lineinfo(first, NULL, NULL, NULL, NULL, NULL);
  return add_callers(symbols, symbol, calls, inlined);
}

/* The module of a file that is opened here; its name is the build-id where there is one. */
static Dwfl_Module *module_of(struct symbols *symbols, const char *path, const char *build_id) {
  const char *name = build_id != NULL ? build_id : path;
  for (struct file *file = symbols->files; file != NULL; file = file->next)
    if (strcmp(file->name, name) == 0) return file->module;
  struct file *file = calloc(1, sizeof *file);
  char *copy = strdup(name);
  if (file == NULL || copy == NULL) {
    free(file);
    free(copy);
    return NULL;
  }
  int fd = build_id != NULL ? mapped_open_alike((struct target){0}, path, build_id) : -1;
  *file = (struct file){.next = symbols->files, .name = copy};
  symbols->files = file;
  if (build_id != NULL && fd < 0) return NULL;
  dwfl_report_begin_add(symbols->dwfl);
  file->module = dwfl_report_offline(symbols->dwfl, copy, path, fd);
  dwfl_report_end(symbols->dwfl, NULL, NULL);
  if (file->module == NULL && fd >= 0) close(fd);
  return file->module;
}

struct symbol symbols_find_in(struct symbols *symbols, const char *path, const char *build_id,
                              uint64_t address) {
  GElf_Addr bias;
  Dwarf_Addr start = 0;
  if (symbols == NULL || symbols->dwfl == NULL) return (struct symbol){0};
  Dwfl_Module *module = module_of(symbols, path, build_id);
  if (module == NULL || dwfl_module_getelf(module, &bias) == NULL) return (struct symbol){0};
  dwfl_module_info(module, NULL, &start, NULL, NULL, NULL, NULL, NULL);
  /* Programs that are no PIE have addresses from 0x400000 on. */
  return symbols_find(symbols, address + bias >= start ? address + bias : address + start);
}

/* --- calls of a thread ------------------------------------------------------------------------------------ */

struct calls {
  uint64_t *addresses;
  unsigned count, most;
};

/* Behind a call, unless a signal interrupted it: then it is the instruction itself. */
static int add_call(Dwfl_Frame *frame, void *argument) {
  struct calls *calls = argument;
  Dwarf_Addr at;
  bool activation;
  if (calls->count == calls->most || !dwfl_frame_pc(frame, &at, &activation)) return DWARF_CB_ABORT;
  calls->addresses[calls->count++] = activation ? at : at - 1;
  return DWARF_CB_OK;
}

unsigned symbols_calls(struct symbols *symbols, int thread, uint64_t *addresses, unsigned most) {
  struct calls calls = {addresses, 0, most};
  if (symbols == NULL || symbols->target.core == NULL) return 0;
  if (symbols->core == NULL) {
    elf_version(EV_CURRENT);
    symbols->core = elf_begin(symbols->target.core->fd, ELF_C_READ, NULL);
    if (symbols->core == NULL || dwfl_core_file_attach(symbols->dwfl, symbols->core) < 0) return 0;
  }
  (void)dwfl_getthread_frames(symbols->dwfl, thread, add_call, &calls);
  return calls.count;
}

char *symbols_build_id(struct symbols *symbols, uint64_t address, char text[BUILD_ID_ROOM]) {
  const unsigned char *bits = NULL;
  GElf_Addr place;
  Dwfl_Module *module = symbols != NULL ? dwfl_addrmodule(symbols->dwfl, address) : NULL;
  text[0] = 0;
  /* The file is opened for the names, and its notes are read then. */
  if (module == NULL || dwfl_module_getelf(module, &place) == NULL) return text;
  int bytes = dwfl_module_build_id(module, &bits, &place);
  for (int i = 0; i < bytes && i < BUILD_ID_ROOM / 2; i++) sprintf(text + 2 * i, "%02x", bits[i]);
  return text;
}

void symbols_close(struct symbols *symbols) {
  if (symbols == NULL) return;
  inlined_free(symbols->inlined);
  if (symbols->dwfl != NULL) dwfl_end(symbols->dwfl);
  if (symbols->core != NULL) elf_end(symbols->core);
  while (symbols->files != NULL) {
    struct file *file = symbols->files;
    symbols->files = file->next;
    free(file->name);
    free(file);
  }
  while (symbols->unread != NULL) {
    struct unread *unread = symbols->unread;
    symbols->unread = unread->next;
    free(unread->name);
    free(unread);
  }
  demangle_end(&symbols->demangler);
  perf_map_close(symbols->made);
  free(symbols);
}
