/* aligned.c - see aligned.h. */
#include "superslab/aligned.h"

/* Where there is no address space to cut the place out of: the free places below, one by one. */
static char *map_below(char *place, size_t bytes, size_t alignment, size_t ahead) {
  enum { TRIES = 16 };
  uintptr_t aligned = (uintptr_t)place & ~(alignment - 1);
  for (int i = 0; i < TRIES && aligned > alignment + ahead; i++, aligned -= alignment) {
    char *p =
        os_map_at((char *)(aligned - ahead), bytes); // NOLINT(performance-no-int-to-ptr): a place
    if (p != NULL) return p;
  }
  return NULL;
}

char *aligned_map(size_t bytes, size_t alignment, size_t ahead, bool *at_once) {
  /* Since Linux 6.7 the kernel aligns such lengths to 2 MiB by itself: one call. */
  char *p = os_map(bytes);
  *at_once = true;
  if (p == NULL) return NULL;
  if ((((uintptr_t)p + ahead) & (alignment - 1)) == 0) return p;
  os_unmap_unused(p, bytes);
  *at_once = false;
  char *near = p;
  p = os_map(bytes + alignment);
  if (p == NULL) return map_below(near, bytes, alignment, ahead);
  size_t head = (size_t)(-((uintptr_t)p + ahead) & (alignment - 1));
  /* A trim that the kernel refuses leaves address space that nobody touches. */
  if (head != 0) os_unmap_unused(p, head);
  if (alignment - head != 0) os_unmap_unused(p + head + bytes, alignment - head);
  return p + head;
}
