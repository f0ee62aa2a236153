/* told.c - who has put functions in the place of munmap and madvise, as libraries for RDMA do, hears of every page that goes.
 *
 * The functions are this program's own; with -DPATCHED they are reached by a jump that is written over libc's, as UCX does it. They
 * allocate. Each page that blocks lay on, and that is in memory no more at the end, must have been told of since the blocks were freed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCKS = 6000, PAGES_MOST = 1 << 17, HEARD = 1 << 19, PAGE = 4096 };

/* --- what is heard ----------------------------------------------------------------------------------- */

static _Atomic uintptr_t heard[HEARD]; /* page numbers, by open addressing */

static _Atomic uintptr_t *place_of(uintptr_t page) {
  uintptr_t at = page * UINT64_C(0x9e3779b97f4a7c15) >> 45;
  while (atomic_load(&heard[at]) != 0 && atomic_load(&heard[at]) != page) at = (at + 1) % HEARD;
  return &heard[at];
}

static void hear(const void *address, size_t bytes) {
  static _Thread_local bool inside;
  for (size_t at = 0; at < bytes; at += PAGE) {
    uintptr_t page = ((uintptr_t)address + at) / PAGE, none = 0;
    while (!atomic_compare_exchange_strong(place_of(page), &none, page) && none != page) none = 0;
  }
  if (inside) return;
  inside = true;
  char *block = malloc(100), *large = malloc(100000);
  if (block == NULL || large == NULL) abort();
  block[0] = large[99999] = 1;
  free(block);
  free(realloc(large, 3000000));
  inside = false;
}

static bool was_heard(uintptr_t page) { return atomic_load(place_of(page)) == page; }

static int own_munmap(void *address, size_t bytes) {
  hear(address, bytes);
  return (int)syscall(SYS_munmap, address, bytes);
}

static int own_madvise(void *address, size_t bytes, int advice) {
  if (advice == MADV_DONTNEED || advice == MADV_FREE) hear(address, bytes);
  return (int)syscall(SYS_madvise, address, bytes, advice);
}

#ifdef PATCHED
static void patch(const char *name, void *with) {
  unsigned char jump[13] = {0x49, 0xbb, 0, 0,    0,    0,   0,
                            0,    0,    0, 0x41, 0xff, 0xe3}; /* movabs $with, %r11; jmp *%r11 */
  memcpy(jump + 2, &with, sizeof with);
  char *code = dlsym(RTLD_DEFAULT, name);
  char *start = (char *)((uintptr_t)code & ~(uintptr_t)(PAGE - 1));
  if (code == NULL || mprotect(start, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) abort();
  memcpy(code, jump, sizeof jump);
}

static void listen(void) {
  patch("munmap", (void *)own_munmap);
  patch("madvise", (void *)own_madvise);
}
#else
int munmap(void *address, size_t bytes) { return own_munmap(address, bytes); }
int madvise(void *address, size_t bytes, int advice) { return own_madvise(address, bytes, advice); }
static void listen(void) {}
#endif

/* --- what goes --------------------------------------------------------------------------------------- */

static uintptr_t pages[PAGES_MOST];
static size_t page_count;

static void note(const void *block, size_t bytes) {
  for (uintptr_t page = (uintptr_t)block / PAGE; page <= ((uintptr_t)block + bytes - 1) / PAGE;
       page++)
    if (page_count < PAGES_MOST && (page_count == 0 || pages[page_count - 1] != page))
      pages[page_count++] = page;
}

static bool is_gone(uintptr_t page) {
  unsigned char resident = 0;
  return mincore((void *)(page * PAGE), 1, &resident) != 0 || (resident & 1) == 0;
}

static void *blocks[BLOCKS];

/* All sizes, which are given back in different ways; every seventh stays, so that pages go from between blocks. */
static void fill(void) {
  for (int i = 0; i < BLOCKS; i++) {
    size_t size = i % 500 == 0 ? (size_t)5 << 20 : i % 50 == 0 ? 300000 : i % 3 == 0 ? 9000 : 700;
    if ((blocks[i] = malloc(size)) == NULL) abort();
    memset(blocks[i], 1, size);
    note(blocks[i], size);
  }
}

static void *drop(void *unused) {
  for (int i = 0; i < BLOCKS; i++)
    if (i % 7 != 0 || i % 50 == 0) free(blocks[i]);
  return unused;
}

/* Pages of a huge block could move, without a word. */
static void grow(void) {
  size_t size = (size_t)6 << 20;
  char *block = malloc(size), *behind = malloc(size);
  memset(block, 1, size);
  note(block, size);
  if ((block = realloc(block, 8 * size)) == NULL) abort();
  free(block);
  free(behind);
}

int main(int argc, char **argv) {
  bool by_helper = argc > 1 && strcmp(argv[1], "helper") == 0;
  listen();
  fill();
  for (size_t i = 0; i < HEARD; i++) atomic_store(&heard[i], 0);
  if (by_helper) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, drop, NULL) != 0) abort();
    pthread_join(thread, NULL);
    sleep(3);
  } else {
    drop(NULL);
    malloc_trim(0);
  }
  grow();
  size_t gone = 0, unheard = 0;
  for (size_t i = 0; i < page_count; i++)
    if (is_gone(pages[i])) {
      gone++;
      unheard += !was_heard(pages[i]);
    }
  printf("%zu pages, %zu gone, %zu unheard\n", page_count, gone, unheard);
  if (gone < page_count / 3) return 2; /* nothing was tested */
  return unheard != 0;
}
