/* own_heaps.c - heaps that the program makes, in the interface of whatever allocator is loaded: hak_heap_*, mimalloc's mi_heap_*,
 * jemalloc's arenas (mallocx without a thread cache); where there is none, malloc and free stand in.
 *
 * Each thread has HEAPS of them, one after the other: BLOCKS blocks of 16 to 1,024 bytes, of which PAIRS are freed and
 * replaced at random, and then the heap is destroyed as a whole (by malloc and free: block by block). A block that is allocated is an
 * operation.
 *
 * What it shows: what a block of a heap costs beside one of malloc, and what the end of a heap costs.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <dlfcn.h>

enum { KIND_MALLOC, KIND_HAKMEM, KIND_MIMALLOC, KIND_JEMALLOC };

static struct {
  int kind;
  void *(*create)(const char *, size_t);
  void *(*mi_create)(void);
  void *(*allocate)(void *, size_t);
  void (*destroy)(void *);
  void *(*mallocx)(size_t, int);
  void (*dallocx)(void *, int);
  int (*mallctl)(const char *, void *, size_t *, void *, size_t);
} calls;

/* Every address of a function by its name: a data pointer to a function pointer is what POSIX lets dlsym do. */
static bool find(void *function, const char *name) {
  void *address = dlsym(RTLD_DEFAULT, name);
  memcpy(function, &address, sizeof address);
  return address != NULL;
}

static void find_calls(void) {
  if (find(&calls.create, "hak_heap_create") && find(&calls.allocate, "hak_heap_malloc") &&
      find(&calls.destroy, "hak_heap_destroy"))
    calls.kind = KIND_HAKMEM;
  else if (find(&calls.mi_create, "mi_heap_new") && find(&calls.allocate, "mi_heap_malloc") &&
           find(&calls.destroy, "mi_heap_destroy"))
    calls.kind = KIND_MIMALLOC;
  else if (find(&calls.mallocx, "mallocx") && find(&calls.dallocx, "dallocx") &&
           find(&calls.mallctl, "mallctl"))
    calls.kind = KIND_JEMALLOC;
}

/* jemalloc's flags: the arena, plus one, from bit 20 on; no thread cache: 1 from bit 8 on. */
enum { ARENA_SHIFT = 20, NO_CACHE = 1 << 8 };

struct heap {
  void *handle;
  int flags;
  unsigned arena;
};

static void create(struct heap *heap) {
  size_t bytes = sizeof heap->arena;
  if (calls.kind == KIND_HAKMEM) heap->handle = calls.create("bench", 0);
  if (calls.kind == KIND_MIMALLOC) heap->handle = calls.mi_create();
  if (calls.kind == KIND_JEMALLOC) {
    if (calls.mallctl("arenas.create", &heap->arena, &bytes, NULL, 0) != 0)
      bench_fail(BENCH_FAILED, "arenas.create failed");
    heap->flags = (int)((heap->arena + 1) << ARENA_SHIFT) | NO_CACHE;
  } else if (calls.kind != KIND_MALLOC && heap->handle == NULL) {
    bench_fail(BENCH_FAILED, "no heap");
  }
}

static void *allocate(const struct heap *heap, size_t size) {
  if (calls.kind == KIND_MALLOC) return malloc(size);
  return calls.kind == KIND_JEMALLOC ? calls.mallocx(size, heap->flags)
                                     : calls.allocate(heap->handle, size);
}

static void give(void *block) {
  if (calls.kind == KIND_JEMALLOC) calls.dallocx(block, NO_CACHE);
  else free(block);
}

static void destroy(struct heap *heap, char **blocks, uint64_t count) {
  char name[40];
  if (calls.kind == KIND_JEMALLOC) {
    snprintf(name, sizeof name, "arena.%u.destroy", heap->arena);
    if (calls.mallctl(name, NULL, NULL, NULL, 0) != 0) bench_fail(BENCH_FAILED, "%s failed", name);
  } else if (calls.kind == KIND_MALLOC) {
    for (uint64_t i = 0; i < count; i++) free(blocks[i]);
  } else {
    calls.destroy(heap->handle);
  }
}

struct settings {
  uint64_t threads, heaps, blocks, pairs;
  char **table;
};

static bool work(struct bench_worker *worker) {
  const struct settings *settings = worker->shared;
  char **blocks = settings->table + worker->index * settings->blocks;
  worker->operations = settings->heaps * (settings->blocks + settings->pairs);
  for (uint64_t h = 0; h < settings->heaps; h++) {
    struct heap heap = {NULL, 0, 0};
    create(&heap);
    for (uint64_t i = 0; i < settings->blocks + settings->pairs; i++) {
      uint64_t draw = bench_draw(&worker->random);
      size_t size = 16 + bench_below(bench_low(draw), 1009);
      uint64_t at = i < settings->blocks ? i : bench_below(bench_high(draw), settings->blocks);
      if (i >= settings->blocks) {
        worker->checksum += bench_stamp_of(blocks[at]);
        give(blocks[at]);
      }
      blocks[at] = bench_check(allocate(&heap, size), size);
      bench_stamp(blocks[at], draw | 1);
    }
    destroy(&heap, blocks, settings->blocks);
  }
  return false;
}

int main(int argc, char **argv) {
  static const struct bench_argument arguments[] = {
      BENCH_THREADS,
      {"HEAPS", "heaps of each thread, one after the other", 1, UINT64_C(1) << 24, NULL, NULL},
      {"BLOCKS", "blocks that live in each", 1, UINT64_C(1) << 24, NULL, NULL},
      {"PAIRS", "blocks of each that are replaced", 0, BENCH_MAX_OPERATIONS, NULL, NULL},
      BENCH_SEED,
  };
  uint64_t values[5];
  bench_arguments(argc, argv, "Heaps of the program's own, filled, used and destroyed.", arguments,
                  5, values);
  struct settings settings = {values[0], values[1], values[2], values[3], NULL};
  find_calls();
  settings.table = bench_map(settings.threads * settings.blocks * sizeof(char *));
  struct bench_result result = bench_run(settings.threads, work, &settings, values[4]);
  bench_report(&result);
  return 0;
}
