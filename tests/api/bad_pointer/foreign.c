/* Pointers that never were ours. */
#include "bad_pointer.h"

#include <dlfcn.h>
#include <sys/mman.h>

#define UNIT ((size_t)2 * 1024 * 1024)

void case_free_stack(void) {
  char on_stack[64] __attribute__((aligned(16)));
  free_badly(opaque(on_stack), FOREIGN);
}

void case_free_static(void) {
  static char in_data[4096] __attribute__((aligned(4096))) = {1};
  free_badly(opaque(in_data), FOREIGN);
}

void case_free_function(void) { free_badly((void *)(uintptr_t)case_free_function, FOREIGN); }

/* A mapping of the program's own, aligned like one of ours. */
void case_free_foreign_mapping(void) {
  char *p = mmap(NULL, 2 * UNIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) give_up("mmap failed\n");
  free_badly((void *)(((uintptr_t)p + UNIT - 1) & ~(UNIT - 1)), FOREIGN);
}

/* Telling a foreign pointer apart must not read it. */
void case_free_unreadable_mapping(void) {
  char *p = mmap(NULL, 1 << 22, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) give_up("mmap failed\n");
  free_badly(p + 65536, FOREIGN);
}

/* A block of libc's own malloc, as a library that was bound to it might hand out. */
/* By libc's own handle: the name itself leads to ours. */
void case_free_libc_block(void) {
  void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  void *(*allocate)(size_t) = libc != NULL ? (void *(*)(size_t))dlsym(libc, "__libc_malloc") : NULL;
  if (allocate != NULL) free_badly(allocate(100), FOREIGN);
}

void case_free_garbage(void) { free_badly((void *)garbage, FOREIGN); }

/* An address inside memory of ours that was never given to the program: the end of the 2 MiB unit of
 * the first small block. */
void case_free_never_handed_out(void) {
  uintptr_t p = (uintptr_t)take(100);
  free_badly((void *)((p & ~(UNIT - 1)) + UNIT - 4096), FOREIGN "|" INTERIOR "|" DOUBLE_FREE);
}

void case_realloc_stack(void) {
  char on_stack[64] __attribute__((aligned(16)));
  announce("realloc", opaque(on_stack), FOREIGN);
  opaque(realloc(opaque(on_stack), 100));
}

/* realloc to zero frees; it has to complain in its own name. */
void case_realloc_stack_to_zero(void) {
  char on_stack[64] __attribute__((aligned(16)));
  announce("realloc", opaque(on_stack), FOREIGN);
  opaque(realloc(opaque(on_stack), (size_t)(uintptr_t)opaque(NULL)));
}

void case_realloc_garbage(void) {
  announce("realloc", (void *)garbage, FOREIGN);
  opaque(realloc(opaque((void *)garbage), 100));
}

void case_usable_size_stack(void) {
  char on_stack[64] __attribute__((aligned(16)));
  announce("malloc_usable_size", opaque(on_stack), FOREIGN);
  opaque((void *)(uintptr_t)malloc_usable_size(opaque(on_stack)));
}
