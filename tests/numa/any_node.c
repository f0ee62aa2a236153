/* any_node.c - a machine with four memory nodes, on which a thread is now here and now there: it stays for some looks at the number.
 *
 * For programs that are linked with --wrap=os_node. */
#include <stdint.h>

unsigned __wrap_os_node(void); /* the linker calls it so */

unsigned __wrap_os_node(void) {
  enum { FOUR = 4, LOOKS = 32 };
  static _Thread_local uint64_t random, left;
  if (left-- == 0) {
    random += (uintptr_t)&random; /* another start in each thread */
    random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    left = (random >> 40) % LOOKS;
  }
  return (unsigned)(random >> 33) % FOUR;
}
