/* symbols.c - see symbols.h. */
#include "symbols.h"

#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef char *demangle(const char *, char *, size_t *, int *);

struct symbols {
  Dwfl *dwfl;
  demangle *demangle; /* of libstdc++, where there is one */
  char *text;         /* it makes this one longer */
  size_t room;
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
  if (library != NULL) symbols->demangle = (demangle *)(uintptr_t)dlsym(library, "__cxa_demangle");
  return symbols;
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
  free(symbols->text);
  free(symbols);
}
