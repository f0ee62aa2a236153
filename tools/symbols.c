/* symbols.c - see symbols.h. */
#include "symbols.h"

#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "remote.h"

typedef char *demangle(const char *, char *, size_t *, int *);

struct symbols {
  Dwfl *dwfl;
  demangle *readable; /* of libstdc++, where there is one */
};

static Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                   .find_debuginfo = dwfl_standard_find_debuginfo};

struct symbols *symbols_open(int pid) {
  struct symbols *symbols = calloc(1, sizeof *symbols);
  if (symbols == NULL) return NULL;
  symbols->dwfl = dwfl_begin(&callbacks);
  if (symbols->dwfl == NULL || dwfl_linux_proc_report(symbols->dwfl, pid) != 0 ||
      dwfl_report_end(symbols->dwfl, NULL, NULL) != 0) {
    symbols_close(symbols);
    return NULL;
  }
  void *library = dlopen("libstdc++.so.6", RTLD_LAZY);
  if (library != NULL) symbols->readable = (demangle *)(uintptr_t)dlsym(library, "__cxa_demangle");
  return symbols;
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

char *symbols_name(struct symbols *symbols, uint64_t address, bool short_name, char *text,
                   size_t room) {
  Dwarf_Addr place = address - 1;
  Dwfl_Module *module = symbols != NULL ? dwfl_addrmodule(symbols->dwfl, place) : NULL;
  if (module == NULL) {
    snprintf(text, room, "0x%llx", (unsigned long long)address);
    return text;
  }
  const char *object = dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
  const char *name = dwfl_module_addrname(module, place);
  char *readable = NULL, whole[32];
  snprintf(whole, sizeof whole, "0x%llx", (unsigned long long)address);
  if (name == NULL) name = whole;
  else if (symbols->readable != NULL && name[0] == '_' && name[1] == 'Z')
    readable = symbols->readable(name, NULL, NULL, NULL);
  if (readable != NULL) name = readable;
  Dwfl_Line *line = dwfl_module_getsrc(module, place);
  int number = 0;
  const char *file = line != NULL ? dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL) : NULL;
  if (short_name) snprintf(text, room, "%s", name);
  else if (file != NULL) snprintf(text, room, "%s (%s:%d)", name, base_name(file), number);
  else snprintf(text, room, "%s (%s)", name, object != NULL ? base_name(object) : "?");
  free(readable);
  make_printable(text, room);
  return text;
}

void symbols_close(struct symbols *symbols) {
  if (symbols == NULL) return;
  if (symbols->dwfl != NULL) dwfl_end(symbols->dwfl);
  free(symbols);
}
