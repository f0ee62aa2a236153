/* lying.c - a program with the library in it that changes what this says of itself, as any program may, for tests of the tool.
 *
 * Usage: lying stacks|old|slices|units|name|heaps|bins. heaps and bins are no lies: heaps that the program has made, and such whose bins are
 * full. Prints "ready PID 0" and ends when its standard input does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "hakmem.h"
#include "observe/directory.h"
#include "observe/samples.h"

extern char hakmem_directory[] __attribute__((visibility("hidden")));

/* Blocks of all sizes, all of them freed again. */
static int fill_bins(const char *name) {
  enum { COUNT = 16, STEPS = 16 };
  hak_heap *heap = hak_heap_create(name, 0);
  for (size_t size = 16; size < 64 * 1024; size += (size + STEPS - 1) / STEPS) {
    void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++)
      if ((blocks[i] = hak_heap_malloc(heap, size)) == NULL) return 1;
    for (int i = 0; i < COUNT; i++) hak_free(blocks[i]);
  }
  return 0;
}

int main(int argc, char **argv) {
  free(malloc((size_t)argc * 100));
  char *start = hakmem_directory;
  struct directory *directory = (void *)start;
  struct directory_layout *layout = (void *)(start + directory->layout);
  char *page = (char *)((unsigned long)layout & -4096ul);
  if (mprotect(page, (char *)(layout + 1) - page, PROT_READ | PROT_WRITE) != 0) return 1;
  if (strcmp(argv[1], "slices") == 0) layout->map.slice_shift = layout->map.unit_shift;
  if (strcmp(argv[1], "stacks") == 0) {
    struct samples *samples = (void *)(start + directory->samples);
    samples->version = SAMPLES_VERSION;
    samples->samples = 1;
    samples->stacks_end = 0xffffffff;
  }
  if (strcmp(argv[1], "old") == 0) {
    struct samples *samples = (void *)(start + directory->samples);
    samples->version = SAMPLES_VERSION - 1;
    samples->samples = 1;
    samples->stacks_end = 1;
  }
  if (strcmp(argv[1], "units") == 0) {
    char *pool = start + directory->pool, *run = pool + layout->pool.runs.at;
    memcpy(start + directory->units + layout->units.mapped.at, &(uint64_t){UINT64_C(1) << 62},
           sizeof(uint64_t));
    memcpy(pool + layout->pool.count.at, &(uint64_t){1}, layout->pool.count.bytes);
    memcpy(run + layout->pool.run_base.at, &(uint64_t){0}, layout->pool.run_base.bytes);
    memcpy(run + layout->pool.run_units.at, &(uint64_t){UINT64_C(1) << 61},
           layout->pool.run_units.bytes);
  }
  if (strcmp(argv[1], "name") == 0) prctl(PR_SET_NAME, "\033[31mX\xc2\x9bY");
  for (int i = 1; strcmp(argv[1], "heaps") == 0 && i <= 3; i++)
    if (hak_heap_malloc(hak_heap_create(i < 3 ? "session" : "other", 0), (size_t)(1000 * i)) ==
        NULL)
      return 1;
  if (strcmp(argv[1], "bins") == 0 && (fill_bins("session") != 0 || fill_bins(NULL) != 0)) return 1;
  /* Without another malloc, for which a lie may be fatal. */
  char text[32], end;
  int length = snprintf(text, sizeof text, "ready %d 0\n", getpid());
  return write(STDOUT_FILENO, text, (size_t)length) < 0 || read(STDIN_FILENO, &end, 1) < 0;
}
