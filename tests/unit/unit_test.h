/* unit_test.h - what the unit tests share. They link the allocator without its malloc, so cmocka and
 * the tests' own bookkeeping stay on libc. */
#ifndef UNIT_TEST_H
#define UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

#include "blocks.h"
#include "hakmem.h"
#include "heap/heap.h"
#include "os/os.h"
#include "os/variant.h"
#include "policy/options.h"
#include "sample/records.h"

#include <cmocka.h>

/* splitmix64: small, and the same everywhere for the same seed. */
static inline uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static inline uint64_t random_below(uint64_t *state, uint64_t limit) {
  return next_random(state) % limit;
}

/* Has the page memory of its own? It must be mapped. */
static inline bool is_resident(const void *page) {
  unsigned char resident = 0;
  assert_int_equal(mincore((void *)(uintptr_t)page, 1, &resident), 0);
  return resident & 1;
}

/* What is resident cannot be asked for then. It has been said. */
static inline bool pages_are_the_hosts(void) {
#if defined(UNIT_EMULATED)
  if (os_page_size() != 4096) {
    puts("skipped: emulators of larger pages count those of the host");
    return true;
  }
#endif
  return false;
}

/* For tests of what lies where, to the block: samples have slabs of their own. */
#define WITHOUT_SAMPLES                                                                            \
  __attribute__((constructor)) static void without_samples(void) {                                 \
    atomic_store(&samples.rate, -1);                                                               \
  }                                                                                                \
  _Static_assert(1, "")

/* For a test that sets an option by itself: without an effect in the fast variant, where they are constants. */
#if HAK_FAST
#define SET_OPTION(id, value) ((void)(value))
#else
#define SET_OPTION(id, value) ((void)(option_values[OPTION_##id] = (value)))
#endif

/* All as it is where nothing is set. The library reads its options at the first allocation, over what a test has set before. */
static inline void options_at_start(void) {
  (void)heap_start();
  options_read();
}

/* Of how often threads and forks meet. What is rare is found where all is ten times faster than under an emulator. */
#if defined(UNIT_EMULATED)
enum { MEETINGS = 1 };
#else
enum { MEETINGS = 4 };
#endif

#define VERY_LONG_MS 86400000 /* a time for things that are not to age while a test runs */

/* What `body` writes to stderr, at most `room` - 1 bytes. */
static inline size_t capture_stderr(void (*body)(void *), void *argument, char *text, size_t room) {
  FILE *file = tmpfile();
  if (file == NULL) abort();
  fflush(stderr);
  int saved = dup(STDERR_FILENO);
  if (saved < 0 || dup2(fileno(file), STDERR_FILENO) < 0) abort();
  os_note_stderr();
  body(argument);
  fflush(stderr);
  if (dup2(saved, STDERR_FILENO) < 0) abort();
  os_note_stderr();
  close(saved);
  rewind(file);
  size_t length = fread(text, 1, room - 1, file);
  text[length] = 0;
  fclose(file);
  return length;
}

#endif
