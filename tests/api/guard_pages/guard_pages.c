/* Touches the last byte of a block's pages, or the first one behind or before them, which a guard is to stop.
 * Usage: guard_pages CASE inside|outside
 * Says "ready" when nothing but that touch is left to do. Exit: 0 when it lived on, 2 when the case could not be tried. */
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)

static bool outside;
static size_t page;

static void give_up(const char *why) {
  fprintf(stderr, "%s\n", why);
  exit(2);
}

static void *opaque(void *p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return p;
}

static void touch(char *inner, char *outer) {
  volatile char *p = opaque(outside ? outer : inner);
  if (write(STDOUT_FILENO, "ready\n", 6) != 6) exit(3);
  *p = 1;
}

/* A block that can be written all over. */
static char *take(size_t size) {
  char *p = opaque(malloc(size));
  if (p == NULL) give_up("malloc gave NULL");
  memset(p, 1, size);
  return p;
}

static char *resized(char *p, size_t from, size_t to) {
  memset(p, 7, from);
  char *q = opaque(realloc(p, to));
  if (q == NULL) give_up("realloc gave NULL");
  for (size_t i = 0; i < from && i < to; i++)
    if (q[i] != 7) give_up("realloc lost bytes");
  memset(q, 1, to);
  return q;
}

static size_t in_pages(size_t size) { return (size + page - 1) / page * page; }

static bool mode_is(const char *name) {
  const char *mode = getenv("HAKMEM_GUARD");
  return mode != NULL && strcmp(mode, name) == 0;
}

/* With HAKMEM_GUARD=full a canary stands behind the block's bytes, for which it may have one more page; not where they end with a page. */
static size_t canary_bytes(size_t size) { return mode_is("full") && size % page != 0 ? 8 : 0; }

/* The first byte behind the block's last page. */
static void over(char *p, size_t size) {
  if (malloc_usable_size(p) < size) give_up("fewer bytes are usable");
  memset(p, 2, malloc_usable_size(p));
  touch(p + in_pages(size) - 1, p + in_pages(size + canary_bytes(size)));
}

/* In light the guard of such a block may lie up to so many bytes behind its last page, and what lies before is the block's alone. A loop that
 * writes on meets it. */
static void over_within(char *p, size_t size, size_t more) {
  if (!mode_is("light")) {
    over(p, size);
    return;
  }
  if (malloc_usable_size(p) != in_pages(size)) give_up("other bytes are usable");
  touch(p + in_pages(size) - 1, p + in_pages(size));
  for (size_t at = in_pages(size); outside && at <= in_pages(size) + more; at += page)
    *(volatile char *)opaque(p + at) = 1;
}

/* In the slices of the block, and an eighth more that the cache had. */
static void over_large(char *p, size_t size) { over_within(p, size, 64 * KIB + size / 8); }
/* A huge page behind its last one, at most; an eighth more where it has grown. */
static void over_huge(char *p, size_t size) { over_within(p, size, 2 * MIB); }
static void over_grown(char *p, size_t size) { over_within(p, size, size / 8 + 2 * MIB); }

static void under(char *p) { touch(p, p - 1); }

/* Such blocks on all sides: what lies next to one is in use. */
static char *among_others(size_t size) {
  enum { OTHERS = 40 };
  char *mine = NULL;
  for (int i = 0; i < OTHERS; i++) {
    char *p = take(size);
    if (i == OTHERS / 2) mine = p;
  }
  return mine;
}

/* Makes room behind the block, so that it can grow where it is. */
static char *with_room_behind(size_t size) {
  char *p = take(size), *next = take(size);
  char *others[16];
  for (int i = 0; i < 16; i++) others[i] = take(size);
  free(next);
  for (int i = 0; i < 16; i++) free(others[i]); /* so that it does not stay in the cache */
  return p;
}

static void in_a_child(char *p, size_t size, void (*beyond)(char *, size_t)) {
  fflush(stdout);
  pid_t child = fork();
  if (child < 0) give_up("no child");
  if (child == 0) {
    beyond(p, size);
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) give_up("no child to wait for");
  if (WIFSIGNALED(status)) raise(WTERMSIG(status));
  memset(p, 3, size);
}

/* --- Large ------------------------------------------------------------------------------------------ */

static void case_large_over(void) { over_large(among_others(100 * KIB), 100 * KIB); }
static void case_large_over_page(void) { over_large(among_others(100 * KIB - 77), 100 * KIB - 77); }
static void case_large_over_slices(void) { over_large(among_others(192 * KIB), 192 * KIB); }
static void case_large_under(void) {
  /* Whatever is in front of them: the first of a SuperSlab as well. */
  enum { BLOCKS = 40 };
  char *first = NULL;
  for (int i = 0; i < BLOCKS; i++) {
    char *p = take(150 * KIB);
    if (first == NULL || (uintptr_t)p % (2 * MIB) < (uintptr_t)first % (2 * MIB)) first = p;
  }
  under(first);
}
static void case_large_over_grown(void) {
  over_large(resized(take(70 * KIB), 70 * KIB, 91 * KIB), 91 * KIB);
}
static void case_large_over_grown_slices(void) {
  over_large(resized(with_room_behind(300 * KIB), 300 * KIB, 500 * KIB), 500 * KIB);
}
static void case_large_over_shrunk(void) {
  over_large(resized(take(110 * KIB), 110 * KIB, 80 * KIB), 80 * KIB);
}
static void case_large_over_shrunk_slices(void) {
  over_large(resized(take(900 * KIB), 900 * KIB, 500 * KIB), 500 * KIB);
}
/* With `full` the two that were freed last wait. */
static char *after(size_t first, size_t then) {
  char *p = take(first), *next = take(700 * KIB), *last = take(700 * KIB);
  free(p);
  free(next);
  free(last);
  char *q = take(then);
  if (p != q) give_up("the cached span was not taken");
  return q;
}
static void case_large_over_cached(void) { over_large(after(200 * KIB, 200 * KIB), 200 * KIB); }
static void case_large_over_cached_longer(void) {
  over_large(after(200 * KIB, 240 * KIB), 240 * KIB);
}
/* The guard stays where it was. */
static void case_large_over_cached_shorter(void) {
  char *p = after(250 * KIB, 240 * KIB);
  if (mode_is("light")) over_large(p, 240 * KIB);
  else touch(p + 240 * KIB - 1, p + in_pages(250 * KIB + canary_bytes(250 * KIB)));
}
/* Slices that had guards of their own, at other places. */
static char *reused(void) {
  enum { SHORT = 60 };
  char *p[SHORT];
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < SHORT; i++) p[i] = take((70 + (size_t)i) * KIB);
    for (int i = 0; i < SHORT; i++)
      if (i % 7 != 0 || round > 0) free(p[i]);
  }
  return take(700 * KIB);
}
static void case_large_over_reused(void) { over_large(reused(), 700 * KIB); }
static void case_large_under_reused(void) { under(reused()); }
static char *aligned(size_t alignment, size_t size) {
  char *p = opaque(aligned_alloc(alignment, size));
  if (p == NULL || (uintptr_t)p % alignment != 0) give_up("no aligned block");
  memset(p, 1, size);
  return p;
}
static void case_large_over_aligned(void) {
  for (size_t alignment = 128 * KIB; alignment <= 2 * MIB; alignment *= 2) {
    char *p = aligned(alignment, MIB), *q = aligned(alignment, 100 * KIB);
    memset(p, 1, malloc_usable_size(p));
    memset(q, 1, malloc_usable_size(q));
    free(q);
  }
  over_large(aligned(512 * KIB, 700 * KIB), 700 * KIB);
}
/* Free and cached memory is given back to the system, guards or not. */
static char *purged(size_t size) {
  char *p = take(size), *q = take(size), *r = take(size);
  free(q);
  malloc_trim(0);
  q = take(size);
  free(p);
  malloc_trim(0);
  (void)r;
  return q;
}
static void case_large_over_purged(void) { over_large(purged(333 * KIB), 333 * KIB); }
static void case_large_over_child(void) {
  in_a_child(among_others(100 * KIB), 100 * KIB, over_large);
}

/* --- Huge ------------------------------------------------------------------------------------------- */

static void case_huge_over(void) { over(take(3 * MIB), 3 * MIB); }
static void case_huge_over_page(void) { over(take(3 * MIB - 77), 3 * MIB - 77); }
static void case_huge_over_huge_page(void) { over_huge(take(9 * MIB), 9 * MIB); }
/* Within what it had room for, and beyond. */
static void case_huge_over_appended(void) {
  size_t size = 3 * MIB;
  char *p = take(size);
  for (; size < 20 * MIB; size += 300 * KIB) p = resized(p, size, size + 300 * KIB);
  over_grown(p, size);
}
static void case_huge_over_units(void) { over(take(4 * MIB), 4 * MIB); }
static void case_huge_under(void) { under(among_others(1500 * KIB)); }
static void case_huge_over_grown(void) {
  over_grown(resized(take(2500 * KIB), 2500 * KIB, 3500 * KIB), 3500 * KIB);
}
static void case_huge_over_grown_units(void) {
  char *p = take(3 * MIB);
  over_grown(resized(p, 3 * MIB, 9 * MIB), 9 * MIB);
}
static char *moved(size_t from, size_t to) {
  char *p = take(from);
  /* In the way, if nothing is yet. */
  for (size_t at = in_pages(from); at <= from + 4 * MIB; at += page)
    (void)mmap(p + at, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  char *q = resized(p, from, to);
  if (q == p) give_up("the block did not move");
  return q;
}
static void case_huge_over_moved(void) { over_grown(moved(4 * MIB, 7 * MIB), 7 * MIB); }
static void case_huge_under_moved(void) { under(moved(3 * MIB, 7 * MIB)); }
static void case_huge_over_shrunk(void) {
  over(resized(take(3500 * KIB), 3500 * KIB, 2500 * KIB), 2500 * KIB);
}
static void case_huge_over_shrunk_units(void) {
  over_huge(resized(take(12 * MIB), 12 * MIB, 7 * MIB), 7 * MIB);
}
/* Units of the warm pool, which had guards elsewhere; and what was handed out of it in between is free of them. */
static char *warm(void) {
  static const size_t sizes[] = {1100, 3000, 2048, 5000, 4096, 1500};
  enum { SIZES = sizeof sizes / sizeof sizes[0], ROUNDS = 10 };
  for (int round = 0; round < ROUNDS; round++) {
    char *p[SIZES], *large[SIZES], *small[SIZES];
    for (int i = 0; i < SIZES; i++) p[i] = take(sizes[(i + round) % SIZES] * KIB);
    for (int i = 0; i < SIZES; i++) free(p[i]);
    for (int i = 0; i < SIZES; i++) large[i] = take(900 * KIB);
    for (int i = 0; i < SIZES; i++) small[i] = take(60 * KIB);
    for (int i = 0; i < SIZES; i++) free(large[i]);
    for (int i = 0; i < SIZES; i++) free(small[i]);
    malloc_trim(0);
  }
  return take(3 * MIB);
}
static void case_huge_over_warm(void) { over(warm(), 3 * MIB); }
static void case_huge_under_warm(void) { under(warm()); }
static void case_huge_over_aligned(void) { over(aligned(16 * MIB, 3 * MIB), 3 * MIB); }
static void case_huge_under_aligned(void) { under(aligned(16 * MIB, 3 * MIB)); }
static void case_huge_over_purged(void) { over(purged(2222 * KIB), 2222 * KIB); }
static void case_huge_over_child(void) { in_a_child(take(3 * MIB), 3 * MIB, over); }

/* --- slabs ------------------------------------------------------------------------------------------ */

/* Many blocks, all written to the end. Returns the one that lies furthest in its slice of 64 KiB. */
static char *fill_slabs(size_t size) {
  char *last = NULL;
  for (size_t i = 0; i < 4 * MIB / size; i++) {
    char *p = take(size);
    memset(p, 1, malloc_usable_size(p));
    if (last == NULL || (uintptr_t)p % (64 * KIB) > (uintptr_t)last % (64 * KIB)) last = p;
  }
  return last;
}

/* The last page of a slab of one slice. */
static void behind_slab(size_t size) {
  char *last = fill_slabs(size);
  touch(last, (char *)((uintptr_t)last | (64 * KIB - 1)) + 1 - page);
}

/* The next page that cannot be touched, however far: within two slabs of this size. */
static void behind_long_slab(size_t size) {
  char *p = fill_slabs(size);
  touch(p, p);
  for (char *q = p; outside && (uintptr_t)q / (2 * MIB) == (uintptr_t)p / (2 * MIB); q += page)
    *(volatile char *)q = 1;
}

static void case_slab_over(void) { behind_slab(1000); }
static void case_slab_over_mid(void) { behind_long_slab(40 * KIB); }
static void case_slab_over_reused(void) {
  enum { BLOCKS = 3000 };
  static char *p[BLOCKS];
  static const size_t sizes[] = {16, 20000, 1000, 64 * KIB, 300, 33000};
  for (size_t round = 0; round < sizeof sizes / sizeof sizes[0]; round++) {
    size_t size = sizes[round], blocks = 16 * MIB / size < BLOCKS ? 16 * MIB / size : BLOCKS;
    for (size_t i = 0; i < blocks; i++) p[i] = take(size);
    for (size_t i = 0; i < blocks; i++) free(p[i]);
    malloc_trim(0);
  }
  behind_slab(1000);
}

static const struct {
  const char *name;
  void (*run)(void);
} cases[] = {
#define CASE(name) {#name, case_##name},
#include "cases.def"
#undef CASE
};

int main(int argc, char **argv) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  page = (size_t)sysconf(_SC_PAGESIZE);
  if (argc != 3) give_up("usage: guard_pages CASE inside|outside");
  outside = strcmp(argv[2], "outside") == 0;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    if (strcmp(argv[1], cases[i].name) != 0) continue;
    cases[i].run();
    return 0;
  }
  give_up("no such case");
}
