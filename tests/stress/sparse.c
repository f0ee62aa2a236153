/* Blocks of which only a few pages are written: what stays resident is about these pages, not the
 * 2 MiB around each that a huge page would take.
 *
 * usage: sparse PATTERN MOST_MB: the peak of resident memory may be so much */
#include "kit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* Written at its ends. */
static char *write_ends(char *block, size_t size) {
  CHECK(block, "no memory for %zu bytes", size);
  block[0] = 1;
  block[size - 1] = 2;
  return block;
}

/* --- many threads with a few blocks each ----------------------------------------------------- */

enum { BLOCKS_MOST = 1000 };

struct load {
  unsigned threads, blocks;
  size_t size_least, size_most, alignment; /* alignment 0: malloc */
};

static pthread_barrier_t filled;

static char *allocate(const struct load *load, size_t size) {
  void *block = NULL;
  if (load->alignment == 0) return mem_malloc(size);
  return mem_posix_memalign(&block, load->alignment, size) == 0 ? block : NULL;
}

static void *hold(void *argument) {
  const struct load *load = argument;
  char *blocks[BLOCKS_MOST];
  static _Atomic uint64_t started;
  struct kit_rng rng = kit_rng_make(++started);
  for (unsigned i = 0; i < load->blocks; i++) {
    size_t size = load->size_least + kit_below(&rng, load->size_most - load->size_least + 1);
    blocks[i] = write_ends(allocate(load, size), size);
    CHECK(load->alignment == 0 || (uintptr_t)blocks[i] % load->alignment == 0, "not aligned");
  }
  pthread_barrier_wait(&filled);
  for (unsigned i = 0; i < load->blocks; i++) mem_free(blocks[i]);
  return NULL;
}

static void in_threads(struct load load) {
  enum { THREADS_MOST = 256 };
  pthread_t threads[THREADS_MOST];
  pthread_barrier_init(&filled, NULL, load.threads);
  for (unsigned i = 0; i < load.threads; i++)
    CHECK(pthread_create(&threads[i], NULL, hold, &load) == 0, "no thread");
  for (unsigned i = 0; i < load.threads; i++) pthread_join(threads[i], NULL);
}

/* Two of them start in 2 MiB; the rest of these is nobody's. */
static void aligned(void) { in_threads((struct load){64, 38, 100, 32 * KIT_KB, KIT_MB}); }

/* In slabs, of the class that the alignment asks for. */
static void aligned_small(void) { in_threads((struct load){4, 1000, 100, 120, 64 * KIT_KB}); }

static void large(void) { in_threads((struct load){200, 3, 362 * KIT_KB, 362 * KIT_KB, 0}); }

/* --- one thread ------------------------------------------------------------------------------------ */

/* The first may be expected to be written whole, not all of them. */
static void spans(void) {
  enum { BLOCKS = 600, SIZE = 362 << 10 };
  static char *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) blocks[i] = write_ends(mem_malloc(SIZE), SIZE);
  for (int i = 0; i < BLOCKS; i++) mem_free(blocks[i]);
}

static void huge(void) {
  enum { BLOCKS = 64, SIZE = 3 << 20 };
  char *blocks[BLOCKS];
  for (int round = 0; round < 4; round++) {
    for (int i = 0; i < BLOCKS; i++) blocks[i] = write_ends(mem_malloc(SIZE), SIZE);
    for (int i = 0; i < BLOCKS; i++) mem_free(blocks[i]);
  }
}

/* Small ones in units that huge pages were asked for, for blocks that were never written. */
static void after_huge(void) {
  enum { HUGE = 4, BLOCKS = 250 };
  char *huge_blocks[HUGE], *blocks[BLOCKS];
  for (int i = 0; i < HUGE; i++) huge_blocks[i] = mem_malloc(10 * KIT_MB);
  for (int i = 0; i < HUGE; i++) mem_free(huge_blocks[i]);
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = mem_malloc(48 * KIT_KB);
    CHECK(blocks[i], "no memory");
    blocks[i][0] = 1;
  }
  for (int i = 0; i < BLOCKS; i++) mem_free(blocks[i]);
}

/* Read here and there, never written. */
static void zeroed(void) {
  enum { BLOCKS = 2000, SIZE = 64 << 10 };
  static char *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = mem_calloc(1, SIZE);
    CHECK(blocks[i], "no memory");
  }
  for (int i = 0; i < BLOCKS; i += 100)
    CHECK(blocks[i][0] == 0 && blocks[i][SIZE / 2] == 0 && blocks[i][SIZE - 1] == 0, "not zero");
  for (int i = 0; i < BLOCKS; i++) mem_free(blocks[i]);
}

/* Read before they are written, as a table's empty places are: the kernel maps its page of zeros first, and a second fault replaces it. */
static void read_first(void) {
  enum { BLOCKS = 2000, SIZE = 6020, PAGES = BLOCKS * SIZE / 4096 };
  static char *blocks[BLOCKS];
  struct rusage before, after;
  CHECK(getrusage(RUSAGE_SELF, &before) == 0, "no figures");
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = mem_calloc(1, SIZE);
    CHECK(blocks[i], "no memory");
    CHECK(blocks[i][0] == 0 && blocks[i][SIZE / 2] == 0 && blocks[i][SIZE - 1] == 0, "not zero");
    memset(blocks[i], 1, SIZE);
  }
  CHECK(getrusage(RUSAGE_SELF, &after) == 0, "no figures");
  long faults = after.ru_minflt - before.ru_minflt;
  printf("%ld faults for %d pages of 4 KiB\n", faults, PAGES);
  CHECK(faults < PAGES * 5 / 4, "%ld faults", faults);
  for (int i = 0; i < BLOCKS; i++) mem_free(blocks[i]);
}

/* Every aligned 2 MiB become resident at the first touch then. */
static bool kernel_decides(void) {
  char text[64] = "";
  FILE *enabled = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  if (enabled == NULL) return false;
  bool always = fgets(text, sizeof text, enabled) != NULL && strstr(text, "[always]") != NULL;
  fclose(enabled);
  return always;
}

static size_t peak_kb(void) {
  size_t peak = kit_status_kb("VmHWM:");
  CHECK(peak > 0, "the kernel does not tell the peak");
  return peak;
}

int main(int argc, char **argv) {
  kit_start();
  static const struct {
    const char *name;
    void (*run)(void);
  } patterns[] = {{"aligned", aligned}, {"aligned-small", aligned_small},
                  {"large", large},     {"spans", spans},
                  {"huge", huge},       {"after-huge", after_huge},
                  {"zeroed", zeroed},   {"read-first", read_first}};
  CHECK(argc == 3, "a pattern and MiB");
  if (kernel_decides()) {
    printf("skipped: the kernel makes huge pages without being asked\n");
    return KIT_SKIP;
  }
  size_t i = 0, count = sizeof patterns / sizeof *patterns;
  while (i < count && strcmp(patterns[i].name, argv[1]) != 0) i++;
  CHECK(i < count, "no such pattern: %s", argv[1]);
  patterns[i].run();
  size_t peak = peak_kb(), most = strtoull(argv[2], NULL, 10);
  printf("%s: %zu KiB resident at the peak, %zu MiB allowed\n", argv[1], peak, most);
  CHECK(peak <= most * 1024, "%zu KiB were resident", peak);
  return 0;
}
