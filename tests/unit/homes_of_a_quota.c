/* homes_of_a_quota.c - on a machine of many processors as many heaps own slabs as the control groups' quota lets run, eight at least. */
#include "unit_test.h"

#include "front/front.h"
#include "heap/homes.h"
#include "policy/container.h"

WITHOUT_SAMPLES;

enum { OF_MACHINE = 16, QUOTA = 12, HEAPS = 24 };

static unsigned asked; /* for the quota */

unsigned __wrap_os_processors(void); /* the linker calls them so */
unsigned __wrap_os_processors(void) { return OF_MACHINE; }
unsigned __wrap_container_processors(struct container *container);
unsigned __wrap_container_processors(struct container *container) {
  assert_non_null(container);
  asked++;
  return QUOTA;
}

static void as_many_as_the_quota_lets_run(void **state) {
  (void)state;
  struct thread_cache *heaps[HEAPS];
  unsigned guests = 0;
  hak_free(hak_malloc(1));
  for (unsigned i = 0; i < HEAPS; i++) {
    if (i < 7) assert_int_equal(asked, 0); /* eight there are on every machine */
    heaps[i] = cache_borrow();
    assert_non_null(heaps[i]);
    guests += cache_is_guest(heaps[i]);
  }
  assert_int_equal(asked, 1);
  assert_int_equal(homes_count(), QUOTA);
  assert_int_equal(guests, HEAPS + 1 - QUOTA); /* and this thread's own */
  for (unsigned i = 0; i < HEAPS; i++) cache_return(heaps[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_many_as_the_quota_lets_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
