/* meta.c - memory for descriptors and heaps: a bump pointer over chunks that are never given back.
 *
 * The first chunk lies in .bss, so a small program needs no system call and no page for it. The kernel may place others right
 * beside user memory: they lie between guard pages, so that a linear overflow ends before them. In front of .bss lies
 * the library's code, which is read-only.
 */
#include "superslab/superslab.h"

#define CHUNK (512 * KIB) /* each is two mappings more, of which the kernel allows 65,530 */

_Alignas(64) char meta_first_chunk[META_FIRST_CHUNK];
struct lock meta_lock;
struct meta_chunk *meta_chunks HAK_START_DATA;
static char *position = meta_first_chunk, *limit = meta_first_chunk + META_FIRST_CHUNK;
static _Atomic uint64_t used HAK_START_DATA;

static char *take(size_t bytes, size_t alignment) {
  uintptr_t start = ((uintptr_t)position + alignment - 1) & ~(uintptr_t)(alignment - 1);
  if (start > (uintptr_t)limit || (uintptr_t)limit - start < bytes) return NULL;
  position = (char *)start + bytes;
  return (char *)start;
}

void *meta_allocate(size_t bytes, size_t alignment) {
  lock_acquire(&meta_lock);
  char *p = take(bytes, alignment);
  if (p == NULL) {
    size_t least = sizeof(struct meta_chunk) + bytes + alignment;
    struct meta_chunk *chunk = os_map_guarded(least > CHUNK ? least : CHUNK);
    if (chunk != NULL) {
      chunk->bytes = least > CHUNK ? least : CHUNK;
      chunk->next = meta_chunks;
      meta_chunks = chunk;
      position = (char *)(chunk + 1);
      limit = (char *)chunk + chunk->bytes;
      p = take(bytes, alignment);
    }
  }
  lock_release(&meta_lock);
  if (p != NULL) atomic_fetch_add_explicit(&used, bytes, memory_order_relaxed);
  return p;
}

uint64_t meta_bytes_used(void) { return atomic_load_explicit(&used, memory_order_relaxed); }

void meta_forget(void) { position = limit; }
