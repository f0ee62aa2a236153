/* block_states.c - hardened: each block of a slab has a state of its own, and a free one is zeros from its third word to its end. */
#include "unit_test.h"

#include <string.h>

#include "slab/slab.h"
#include "superslab/map.h"
#include "superslab/unit.h"

WITHOUT_SAMPLES;

static int start(void **state) {
  (void)state;
  return heap_start() ? 0 : -1;
}

static struct slab *full_slab(unsigned size_class) {
  struct slab *slab = slab_new(size_class, NULL, PAGES_SMALL);
  assert_non_null(slab);
  void *list = NULL;
  unsigned count = slab_carve(slab, slab->capacity, 0, &list);
  assert_int_equal(count, slab->capacity);
  slab_put(slab, list, link_last(list, count), count);
  return slab;
}

static void drop(struct slab *slab) {
  slab_release(slab);
  superslab_settle();
}

/* Every address of a slab, of every class. */
static void only_where_a_block_starts_is_a_state(void **state) {
  (void)state;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    struct slab *slab = full_slab(c);
    const char *base = slab_base(slab);
    uint32_t bytes = (uint32_t)slab->slices << SLICE_SHIFT, size = class_size(c);
    for (uint32_t at = 0; at < bytes; at++) {
      bool starts = at % size == 0 && at / size < slab->capacity;
      if (link_state(base + at, c) != (starts ? STATE_FREE + c : STATE_NONE))
        fail_msg("class %u, offset %u", c, at);
    }
    drop(slab);
  }
}

/* One that is handed out changes no other. */
static void each_block_has_its_own(void **state) {
  (void)state;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    struct slab *slab = full_slab(c);
    const char *base = slab_base(slab);
    unsigned count = slab->capacity;
    for (unsigned i = 0; i < count; i += 3)
      link_set_state(base + (size_t)i * class_size(c), c, STATE_LIVE | c);
    for (unsigned i = 0; i < count; i++) {
      unsigned expected = i % 3 == 0 ? STATE_LIVE | c : STATE_FREE + c;
      assert_int_equal(link_state(base + (size_t)i * class_size(c), c), expected);
    }
    drop(slab);
  }
}

/* A forged link leads to another class's slab: no address there is a free or a live block of this one. */
static void no_block_is_of_another_class(void **state) {
  (void)state;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    struct slab *slab = full_slab(c);
    const char *base = slab_base(slab);
    uint32_t bytes = (uint32_t)slab->slices << SLICE_SHIFT;
    for (unsigned other = 0; other < CLASS_COUNT; other++)
      for (uint32_t at = 0; at < bytes && other != c; at += BLOCK_ALIGNMENT) {
        unsigned found = link_state(base + at, other);
        if (found == STATE_FREE + other || found == (STATE_LIVE | other))
          fail_msg("class %u, offset %u, for class %u", c, at, other);
      }
    drop(slab);
  }
}

static void slabs_that_go_leave_none(void **state) {
  (void)state;
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    struct slab *slab = full_slab(c);
    _Atomic uint8_t *first = map_states(slab_base(slab));
    size_t count = slab->slices * (class_size(c) < LINK_STEP_FAR ? STATES_DENSE : STATES_SPARSE);
    drop(slab);
    for (size_t i = 0; i < count; i++) assert_int_equal(first[i], STATE_NONE);
  }
}

enum { MARGIN = 64 };

static void all_of_a_block_is_cleared_and_no_more(void **state) {
  (void)state;
  static _Alignas(64) unsigned char memory[MARGIN + LINK_BY_CALL + MARGIN];
  for (unsigned c = 0; c < CLASS_COUNT && class_size(c) <= LINK_BY_CALL; c++) {
    memset(memory, 0xa5, sizeof memory);
    link_clear_near(&link_classes[c], memory + MARGIN);
    for (size_t i = 0; i < sizeof memory; i++) {
      bool inside = i >= MARGIN + LINK_WORDS_BYTES && i < MARGIN + class_size(c);
      bool word = i >= MARGIN && i < MARGIN + LINK_WORDS_BYTES; /* a link comes there */
      if (!word) assert_int_equal(memory[i], inside ? 0 : 0xa5);
    }
  }
}

static void each_byte_of_a_block_is_seen(void **state) {
  (void)state;
  static _Alignas(64) unsigned char memory[MARGIN + LINK_BY_CALL + MARGIN];
  for (unsigned c = 1; c < CLASS_COUNT && class_size(c) <= LINK_BY_CALL; c++)
    for (size_t i = 0; i < sizeof memory; i++) {
      memset(memory, 0, sizeof memory);
      memory[i] = 1;
      bool inside = i >= MARGIN + LINK_WORDS_BYTES && i < MARGIN + class_size(c);
      bool outside = i < MARGIN || i >= MARGIN + class_size(c);
      bool is_zero = link_is_zero_near(&link_classes[c], memory + MARGIN);
      if (inside || outside) assert_int_equal(is_zero, outside);
    }
}

static char *page_of_states(const struct slab *slab) {
  uintptr_t at = (uintptr_t)map_states(slab_base(slab));
  return (char *)(at & ~(uintptr_t)(os_page_size() - 1)); // NOLINT(performance-no-int-to-ptr)
}

/* A SuperSlab that comes out of the warm pool again finds the pages of its states. What is beyond the pool's units goes. */
static void states_stay_while_their_unit_may_come_back(void **state) {
  (void)state;
  enum { SLABS = 3 * SLICES_PER_UNIT };
  static struct slab *slabs[SLABS];
  static char *pages[SLABS];
  unsigned kept = 0, later = 0, units;
  unit_trim();
  for (int i = 0; i < SLABS; i++) slabs[i] = full_slab(CLASS_COUNT - 1);
  for (int i = 0; i < SLABS; i++) pages[i] = page_of_states(slabs[i]);
  for (int i = 0; i < SLABS; i++) drop(slabs[i]);
  units = (unsigned)(unit_warm_bytes() >> UNIT_SHIFT);
  assert_in_range(units, 1, SLABS);
  for (int i = 0; i < SLABS; i++) kept += is_resident(pages[i]);
  assert_true(kept > 0);
  unit_trim();
  assert_int_equal(unit_warm_bytes(), 0);
  for (int i = 0; i < SLABS; i++) later += is_resident(pages[i]);
  /* A page at each end of a descriptor's states is its neighbour's, too. */
  assert_true(later <= kept / 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_where_a_block_starts_is_a_state),
      cmocka_unit_test(each_block_has_its_own),
      cmocka_unit_test(no_block_is_of_another_class),
      cmocka_unit_test(slabs_that_go_leave_none),
      cmocka_unit_test(states_stay_while_their_unit_may_come_back),
      cmocka_unit_test(all_of_a_block_is_cleared_and_no_more),
      cmocka_unit_test(each_byte_of_a_block_is_seen),
  };
  return cmocka_run_group_tests_name("block states", tests, start, NULL);
}
