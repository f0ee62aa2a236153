/* api_test.h - what the interface tests share beside blocks.h: the newer names, and the check
 * that the allocator under test is really the one in use.
 *
 * The same sources run preloaded, linked with the shared library, linked with the archive, and with
 * the calls routed to libc. API_TEST_EXPECT says whose blocks malloc has to give: "hakmem", "libc",
 * or unset for a run without the library.
 */
#ifndef API_TEST_H
#define API_TEST_H

#include "blocks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Weak: absent from glibc before C23 support and from a run without the library. */
extern void free_sized(void *ptr, size_t size) __attribute__((weak));
extern void free_aligned_sized(void *ptr, size_t alignment, size_t size) __attribute__((weak));
extern bool hak_owns(const void *ptr) __attribute__((weak));
extern const char *hak_variant(void) __attribute__((weak));

#ifdef __cplusplus
}
#endif

static inline bool expects(const char *allocator) {
  const char *expected = getenv("API_TEST_EXPECT");
  return expected != NULL && strcmp(expected, allocator) == 0;
}

/* Ends the test when malloc's blocks are not those of the allocator that the run is about: a test of
 * the wrong allocator would pass in silence. */
static inline void require_expected_allocator(void) {
  if (!expects("hakmem") && !expects("libc")) return;
  if (hak_owns == NULL) {
    fprintf(stderr, "hakmem is not loaded\n");
    exit(1);
  }
  for (int i = 0; i < TIER_COUNT; i++) {
    void *p = opaque(malloc(tier_sizes[i]));
    if (hak_owns(p) != expects("hakmem")) {
      fprintf(stderr, "a %s block of malloc is %s block of hakmem\n", tier_names[i],
              hak_owns(p) ? "a" : "no");
      exit(1);
    }
    free(p);
  }
}

#endif
