/* pprof_missing.c - pprof's format where there is no libprotobuf-c. */
#include "cli.h"
#include "pprof.h"

static void complain_of_it(void) {
  complain("this hakmem was built without libprotobuf-c and zlib, and knows no pprof format");
}

bool pprof_is_built(void) { return false; }

bool pprof_write(const struct profile *profile, const struct remote *remote, enum place_value shown,
                 int fd) {
  (void)shown;
  (void)profile;
  (void)remote;
  (void)fd;
  complain_of_it();
  return false;
}

bool pprof_write_places(const struct places *places, enum place_value shown, int fd) {
  (void)shown;
  (void)places;
  (void)fd;
  complain_of_it();
  return false;
}

struct places *pprof_read(const char *path) {
  (void)path;
  complain_of_it();
  return NULL;
}
