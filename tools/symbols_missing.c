/* symbols_missing.c - places in the code where there is no libdw: addresses. */
#include "symbols.h"

struct symbols *symbols_open(struct target target) {
  (void)target;
  return NULL;
}

struct symbol symbols_find(struct symbols *symbols, uint64_t address) {
  (void)symbols;
  (void)address;
  return (struct symbol){0};
}

char *symbols_build_id(struct symbols *symbols, uint64_t address, char text[BUILD_ID_ROOM]) {
  (void)symbols;
  (void)address;
  text[0] = 0;
  return text;
}

const struct unread *symbols_unread(const struct symbols *symbols) {
  (void)symbols;
  return NULL;
}

const struct unread *symbols_unread_at(struct symbols *symbols, uint64_t address) {
  (void)symbols;
  (void)address;
  return NULL;
}

struct symbols *symbols_of_files(void) {
  return NULL;
}

struct symbol symbols_find_in(struct symbols *symbols, const char *path, const char *build_id,
                              uint64_t address) {
  (void)symbols;
  (void)path;
  (void)build_id;
  (void)address;
  return (struct symbol){0};
}

unsigned symbols_calls(struct symbols *symbols, int thread, uint64_t *addresses, unsigned most) {
  (void)symbols;
  (void)thread;
  (void)addresses;
  (void)most;
  return 0;
}

void symbols_close(struct symbols *symbols) { (void)symbols; }
