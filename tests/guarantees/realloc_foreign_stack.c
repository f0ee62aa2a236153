/* The address of a local variable is resized. */
#include "guarantee.h"

void run(void) {
  unsigned char target[512] __attribute__((aligned(16))) = {0};
  void *start = twin ? NULL : opaque(target) + 64;
  announce("realloc", start);
  opaque(realloc(opaque(start), 2 * tier.size));
  end_if_untouched(opaque(target), sizeof target, HANDED_OUT_TARGET);
}
