/* many_mappings.h - as many mappings as there may be (superslab/mappings.h), without mapping anything. */
#ifndef MANY_MAPPINGS_H
#define MANY_MAPPINGS_H

#include "unit_test.h"

#include "superslab/mappings.h"

/* Units at addresses where nothing is mapped, of which only the leaves of the address map are made. */
enum { MANY_UNITS = 2 * 16384 + 200 };
_Static_assert(MANY_UNITS > 2 * MAPPINGS_MOST, "every second one");
#define MANY_FROM ((uintptr_t)8 << 40)

static inline char *many_unit(size_t number) {
  return (char *)(MANY_FROM +
                  (number << UNIT_SHIFT)); // NOLINT(performance-no-int-to-ptr): nothing is there
}

/* Every second unit, until one more is refused. */
static inline void many_fill_up(void) {
  size_t unit = 0;
  assert_true(map_prepare(many_unit(0) - UNIT_BYTES, MANY_UNITS + 1));
  while (mappings_change(many_unit(unit), 1, MAPPING_PLAIN)) unit += 2;
  assert_true(unit < MANY_UNITS);
  assert_int_equal(mappings_count(), MAPPINGS_MOST);
}

static inline void many_empty(void) {
  mappings_set(many_unit(0), MANY_UNITS, MAPPING_NONE);
  assert_true(mappings_count() < 100);
}

#endif
