/* demangle_missing.c - where there is no libiberty, names of Rust stay as the linker has them. */
#include "demangle.h"

bool demangle_rust(struct demangler *demangler, const char *linkage) {
  (void)demangler;
  (void)linkage;
  return false;
}
