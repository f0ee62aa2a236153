/* demangle.c - see demangle.h. */
#include "demangle.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Programs in C++ come with a libstdc++. The tool needs none, so it does not ask for one. */
static void find_cxx(struct demangler *demangler) {
  if (demangler->asked) return;
  demangler->asked = true;
  void *library = dlopen("libstdc++.so.6", RTLD_LAZY);
  void *function = library != NULL ? dlsym(library, "__cxa_demangle") : NULL;
  if (function != NULL)
    demangler->of_cxx = (char *(*)(const char *, char *, size_t *, int *))(uintptr_t)function;
}

const char *demangle(struct demangler *demangler, const char *linkage) {
  bool is_cxx = strncmp(linkage, "_Z", 2) == 0;
  /* Rust's older names look like C++ to C++, but for a number at their ends. */
  if ((is_cxx || strncmp(linkage, "_R", 2) == 0) && demangle_rust(demangler, linkage))
    return demangler->text;
  if (!is_cxx) return linkage;
  find_cxx(demangler);
  int status = 0;
  char *text = demangler->of_cxx != NULL
                   ? demangler->of_cxx(linkage, demangler->text, &demangler->room, &status)
                   : NULL;
  if (text == NULL) return linkage;
  return demangler->text = text;
}

void demangle_end(struct demangler *demangler) { free(demangler->text); }
