/* Blocks of ours: freed twice, and addresses inside them. */
#include "bad_pointer.h"

#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>

static void *in_a_thread(void *(*run)(void *), void *argument) {
  pthread_t thread;
  void *result = NULL;
  if (pthread_create(&thread, NULL, run, argument) != 0) give_up("no thread\n");
  pthread_join(thread, &result);
  return result;
}

static void free_again(void *block) { free_badly(opaque(block), double_free_of_tier); }

/* --- freed twice -------------------------------------------------------------------------------- */

/* At once, with nothing in between. */
void case_double_free(void) {
  void *p = take(block_size);
  free(p);
  free_again(p);
}

/* With other blocks of the size freed in between: the block is no longer the head of any list. */
void case_double_free_delayed(void) {
  enum { OTHERS = 30 };
  void *others[OTHERS];
  void *p = take(block_size);
  for (int i = 0; i < OTHERS; i++) others[i] = take(block_size);
  free(p);
  for (int i = 0; i < OTHERS; i++) free(others[i]);
  free_again(p);
}

/* The classic of corrupted lists: a, b, a. */
void case_double_free_two_apart(void) {
  void *a = take(block_size), *b = take(block_size);
  free(a);
  free(b);
  free_again(a);
}

/* With so many others freed in between that the thread's cache has given blocks back. */
void case_double_free_after_spill(void) {
  size_t count = (size_t)64 * 1024 * 1024 / block_size;
  if (count > 200000) count = 200000;
  void **others = take(count * sizeof *others);
  void *p = take(block_size);
  void *neighbour = take(block_size); /* keeps the slab in use */
  for (size_t i = 0; i < count; i++) others[i] = take(block_size);
  free(p);
  for (size_t i = 0; i < count; i++) free(others[i]);
  free_again(p);
  free(neighbour);
}

static void *run_free(void *block) {
  free(block);
  return NULL;
}

static void *run_free_again(void *block) {
  free_again(block);
  return NULL;
}

static void *run_free_twice(void *block) {
  free(block);
  free_again(block);
  return NULL;
}

static void *run_take(void *unused) {
  (void)unused;
  return take(block_size);
}

/* Freed by its own thread, then by another. */
void case_double_free_other_thread(void) {
  void *block = take(block_size);
  free(block);
  in_a_thread(run_free_again, opaque(block));
}

/* Freed by another thread, which then ends, and then by its own. */
void case_double_free_remote_first(void) {
  void *block = take(block_size);
  in_a_thread(run_free, block);
  free_again(block);
}

/* Freed twice by a thread that does not own it: both may lie in one outgoing batch. */
void case_double_free_remote_twice(void) { in_a_thread(run_free_twice, take(block_size)); }

/* The thread that allocated the block is gone. */
void case_double_free_after_owner_ended(void) {
  void *block = in_a_thread(run_take, NULL);
  free(block);
  free_again(block);
}

void case_double_free_aligned(void) {
  void *p = NULL;
  if (posix_memalign(&p, 4096, block_size) != 0) give_up("posix_memalign failed\n");
  free(p);
  free_again(p);
}

/* The old address of a block that realloc moved. */
void case_free_after_moving_realloc(void) {
  char *p = take(block_size);
  char *old = opaque(p);
  size_t size = block_size, unit = (size_t)2 * 1024 * 1024;
  /* A Huge block grows where it is as long as nothing else lies behind it, and behind the units of its guard. */
  uintptr_t next_unit = ((uintptr_t)p + size + unit) & ~(unit - 1);
  for (int i = 0; i < 8; i++, next_unit += unit) {
    void *found = mmap((void *)next_unit, 4096, PROT_NONE, // NOLINT(performance-no-int-to-ptr)
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (found != MAP_FAILED) break;
  }
  do {
    size *= 3;
    p = realloc(p, size);
  } while (p == old && size < (size_t)1 << 30);
  if (p == old) give_up("realloc never moved the block\n");
  free_again(old);
}

void case_realloc_freed(void) {
  void *p = take(block_size);
  free(p);
  announce("realloc", opaque(p), double_free_of_tier);
  opaque(realloc(opaque(p), block_size * 2));
}

/* Blocks of the size that the mistake was made with, and of others. */
static void report(int signal_number) {
  static int calls;
  if (calls++ > 0) _exit(5);
  size_t sizes[] = {block_size, 100, 100000, block_size};
  char *blocks[4];
  for (int i = 0; i < 4; i++) {
    blocks[i] = malloc(sizes[i]);
    if (blocks[i] == NULL) _exit(4);
    memset(blocks[i], i, sizes[i]);
  }
  for (int i = 0; i < 4; i++) free(blocks[i]);
  (void)signal_number; /* abort() ends the process when this returns */
}

/* abort() raises SIGABRT, which a program's crash reporter catches: it has to be able to allocate. */
void case_abort_handler(void) {
  signal(SIGABRT, report);
  case_double_free();
}

/* --- written to after it was freed ----------------------------------------------------------------- */

/* Two free blocks in one list; the one that is handed out next has had its link written. */
static void overwrite_link(uintptr_t kept, uintptr_t flipped) {
  void *next = take(block_size), *block = take(block_size);
  free(next);
  free(block);
  uintptr_t *link = opaque(block);
  *link = (*link & kept) ^ flipped;
  announce("malloc", block, WRITTEN_AFTER);
  for (int i = 0; i < 3; i++) opaque(malloc(block_size));
}

/* Found under the heap's lock, and in a list that the heap still has. */
void case_abort_handler_inside(void) {
  signal(SIGABRT, report);
  void *next = take(block_size), *block = take(block_size);
  free(next);
  free(block);
  *(uintptr_t *)opaque(block) ^= 0x10;
  announce("malloc", block, WRITTEN_AFTER);
  malloc_trim(0);
}

/* Where malloc would hand out the program's stack. */
void case_write_link_to_stack(void) {
  _Alignas(16) char fake[64] = {0};
  overwrite_link(0, (uintptr_t)opaque(fake));
}

/* Where malloc would hand out a block that lives. */
void case_write_link_to_live(void) { overwrite_link(0, (uintptr_t)take(block_size)); }

/* Where its list would end. */
void case_write_link_null(void) { overwrite_link(0, 0); }

/* As an overflow by one byte does. */
void case_write_link_byte(void) { overwrite_link(UINTPTR_MAX, 0x10); }

/* --- addresses inside --------------------------------------------------------------------------- */

void case_free_interior(void) { free_badly((char *)take(block_size) + into, INTERIOR); }

static void *run_free_interior(void *block) {
  free_badly((char *)block + into, INTERIOR);
  return NULL;
}

void case_free_interior_other_thread(void) { in_a_thread(run_free_interior, take(block_size)); }

void case_realloc_interior(void) {
  char *p = take(block_size);
  announce("realloc", p + into, INTERIOR);
  opaque(realloc(opaque(p + into), block_size * 2));
}

void case_usable_size_interior(void) {
  char *p = take(block_size);
  announce("malloc_usable_size", p + into, INTERIOR);
  opaque((void *)(uintptr_t)malloc_usable_size(opaque(p + into)));
}
