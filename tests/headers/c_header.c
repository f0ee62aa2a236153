/* c_header.c - the public header under each standard of C, by each compiler; see compile.py. */
#include <hakmem.h>

static bool visit(void *block, size_t usable, void *argument) {
  (void)block;
  *(size_t *)argument += usable;
  return true;
}

int main(void) {
  hak_heap *heap = hak_heap_create("c", 1000);
  size_t bytes = 0;
  void *block = hak_heap_malloc(heap, 100);
  bool all = hak_heap_walk(heap, visit, &bytes) && block != NULL;
  hak_heap_destroy(heap);
  return all && bytes >= 100 ? 0 : 1;
}
