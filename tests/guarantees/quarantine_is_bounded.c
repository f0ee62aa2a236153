/* 2 GiB are freed while little lives: what is kept from being used again must not fill the memory. */
#include "guarantee.h"

#include <sys/resource.h>

void run(void) {
  const size_t bytes = (size_t)2 << 30, most = (size_t)256 << 20;
  size_t rounds = bytes / tier.full < 4000000 ? bytes / tier.full : 4000000;
  for (size_t i = 0; i < (twin ? 1000 : rounds); i++) {
    unsigned char *block = take(tier.full);
    free(block);
  }
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  if ((size_t)usage.ru_maxrss * 1024 > most) harm("more than 256 MiB are kept");
  survived();
}
