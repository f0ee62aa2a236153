/* symbols.c - see symbols.h. */
#define _GNU_SOURCE
#include "symbols.h"

#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef char *demangle(const char *, char *, size_t *, int *);

struct file {
  struct file *next;
  char *path;
  Dwfl_Module *module; /* NULL: it cannot be read */
};

struct symbols {
  Dwfl *dwfl;
  struct file *files; /* of symbols_of_files */
  demangle *demangle; /* of libstdc++, where there is one */
  char *text;         /* it makes this one longer */
  size_t room;
};

static int process; /* of symbols_open: libdwfl has no place to keep it for find_elf */

/* A process in a container has its own file under a path at which there is another one here, or none. */
static int find_elf(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
                    char **file_name, Elf **elf) {
  struct stat here, there;
  char *path = NULL;
  if (name[0] == '/' && asprintf(&path, "/proc/%d/root%s", process, name) >= 0 &&
      stat(path, &there) == 0 && S_ISREG(there.st_mode) &&
      (stat(name, &here) != 0 || here.st_ino != there.st_ino || here.st_dev != there.st_dev)) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *file_name = path;
    if (file >= 0) return file;
    *file_name = NULL;
  }
  free(path);
  return dwfl_linux_proc_find_elf(module, userdata, name, base, file_name, elf);
}

static Dwfl_Callbacks callbacks = {.find_elf = find_elf,
                                   .find_debuginfo = dwfl_standard_find_debuginfo};

static Dwfl_Callbacks file_callbacks = {.find_elf = dwfl_build_id_find_elf,
                                        .find_debuginfo = dwfl_standard_find_debuginfo,
                                        .section_address = dwfl_offline_section_address};

static struct symbols *begin(const Dwfl_Callbacks *found_by) {
  struct symbols *symbols = calloc(1, sizeof *symbols);
  if (symbols == NULL) return NULL;
  symbols->dwfl = dwfl_begin(found_by);
  void *library = dlopen("libstdc++.so.6", RTLD_LAZY);
  if (library != NULL) symbols->demangle = (demangle *)(uintptr_t)dlsym(library, "__cxa_demangle");
  return symbols;
}

struct symbols *symbols_open(int pid) {
  process = pid;
  struct symbols *symbols = begin(&callbacks);
  if (symbols == NULL || symbols->dwfl == NULL || dwfl_linux_proc_report(symbols->dwfl, pid) != 0 ||
      dwfl_report_end(symbols->dwfl, NULL, NULL) != 0) {
    symbols_close(symbols);
    return NULL;
  }
  return symbols;
}

struct symbols *symbols_of_files(void) {
  return begin(&file_callbacks);
}

struct symbol symbols_find(struct symbols *symbols, uint64_t address) {
  struct symbol symbol = {0};
  Dwfl_Module *module = symbols != NULL ? dwfl_addrmodule(symbols->dwfl, address) : NULL;
  if (module == NULL) return symbol;
  symbol.linkage = dwfl_module_addrname(module, address);
  symbol.function = symbol.linkage;
  if (symbol.linkage != NULL && symbols->demangle != NULL &&
      strncmp(symbol.linkage, "_Z", 2) == 0) {
    int status = 0;
    char *text = symbols->demangle(symbol.linkage, symbols->text, &symbols->room, &status);
    if (text != NULL) symbol.function = symbols->text = text;
  }
  Dwfl_Line *line = dwfl_module_getsrc(module, address);
  if (line != NULL) symbol.file = dwfl_lineinfo(line, NULL, &symbol.line, NULL, NULL, NULL);
  return symbol;
}

static Dwfl_Module *module_of(struct symbols *symbols, const char *path) {
  for (struct file *file = symbols->files; file != NULL; file = file->next)
    if (strcmp(file->path, path) == 0) return file->module;
  struct file *file = calloc(1, sizeof *file);
  char *copy = strdup(path);
  if (file == NULL || copy == NULL) {
    free(file);
    free(copy);
    return NULL;
  }
  dwfl_report_begin_add(symbols->dwfl);
  *file = (struct file){symbols->files, copy, dwfl_report_offline(symbols->dwfl, path, path, -1)};
  dwfl_report_end(symbols->dwfl, NULL, NULL);
  symbols->files = file;
  return file->module;
}

struct symbol symbols_find_in(struct symbols *symbols, const char *path, uint64_t address) {
  GElf_Addr bias;
  if (symbols == NULL || symbols->dwfl == NULL) return (struct symbol){0};
  Dwfl_Module *module = module_of(symbols, path);
  if (module == NULL || dwfl_module_getelf(module, &bias) == NULL) return (struct symbol){0};
  return symbols_find(symbols, address + bias);
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
  if (symbols->dwfl != NULL) dwfl_end(symbols->dwfl);
  while (symbols->files != NULL) {
    struct file *file = symbols->files;
    symbols->files = file->next;
    free(file->path);
    free(file);
  }
  free(symbols->text);
  free(symbols);
}
