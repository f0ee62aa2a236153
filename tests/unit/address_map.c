/* address_map.c - the address map: every byte of memory of ours leads to its unit and bin, and none of others; and
 * the metadata that it and the descriptors lie in. */
#include "unit_test.h"

#include <string.h>
#include <sys/mman.h>

#include "superslab/map.h"

WITHOUT_SAMPLES;

/* --- map ------------------------------------------------------------------------------------------ */

static char *reserve_unit(void) {
  char *p =
      mmap(NULL, 3 * UNIT_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_ptr_not_equal(p, MAP_FAILED);
  return (char *)(((uintptr_t)p + UNIT_BYTES - 1) & ~(UNIT_BYTES - 1));
}

static void map_finds_a_unit_by_any_of_its_bytes(void **state) {
  (void)state;
  char *base = reserve_unit();
  struct superslab *superslab = meta_allocate(sizeof *superslab, 64);
  assert_non_null(superslab);
  assert_null(map_superslab(base));
  assert_true(map_set(base, 1, superslab));
  for (size_t offset = 0; offset < UNIT_BYTES; offset += 4095) {
    assert_ptr_equal(map_superslab(base + offset), superslab);
    assert_ptr_equal(map_slab(base + offset), &superslab->slabs[offset >> SLICE_SHIFT]);
    assert_null(map_inbox(base + offset));
  }
  assert_ptr_equal(map_superslab(base + UNIT_BYTES - 1), superslab);
  assert_null(map_superslab(base - 1));
  assert_null(map_superslab(base + UNIT_BYTES));
  /* A bin for three slices, seen from each of their bytes and from no other. */
  struct inbox *bin = (struct inbox *)(void *)superslab;
  for (unsigned first = 0; first < SLICES_PER_UNIT; first += SLICES_PER_UNIT - 3) {
    char *start = base + ((size_t)first << SLICE_SHIFT);
    map_set_inbox(start, 3, bin);
    for (size_t offset = 0; offset < UNIT_BYTES; offset += 4095) {
      bool inside = base + offset >= start && base + offset < start + 3 * SLICE_BYTES;
      assert_ptr_equal(map_inbox(base + offset), inside ? bin : NULL);
    }
    assert_null(map_inbox(base - 1));
    assert_null(map_inbox(base + UNIT_BYTES));
    map_set_inbox(start, 3, NULL);
  }
  map_clear(base, 1);
  assert_null(map_superslab(base));
  assert_null(map_superslab(base + UNIT_BYTES - 1));
}

/* What is not ours has no bin, or no entry: free() relies on it. */
static void map_has_no_bin_for_foreign_addresses(void **state) {
  (void)state;
  int on_stack;
  const uintptr_t foreign[] = {0,
                               1,
                               0xfff,
                               0x1fffff,
                               0x200000,
                               0x3fffffff,
                               0x40000000,
                               0xdeadbeef,
                               (uintptr_t)&on_stack,
                               (uintptr_t)map_has_no_bin_for_foreign_addresses,
                               0x7fffffffffff,
                               0x800000000000,
                               0xdeadbeefdeadbeef,
                               0xffff800000000000,
                               UINTPTR_MAX};
  for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
    for (size_t slice = 0; slice < SLICES_PER_UNIT; slice++) {
      uintptr_t address = (foreign[i] & ~(UNIT_BYTES - 1)) | slice << SLICE_SHIFT;
      assert_null(map_superslab((const void *)address));
      if (map_has_entry((const void *)address)) assert_null(map_inbox((const void *)address));
      else assert_true(address >> MAP_ADDRESS_BITS != 0);
    }
}

static const char *unit_address(uintptr_t unit) { return (const char *)(unit << UNIT_SHIFT); }

static void map_enters_nothing_beyond_its_root(void **state) {
  (void)state;
  const uintptr_t units = (uintptr_t)1 << (MAP_ADDRESS_BITS - UNIT_SHIFT);
  struct superslab *superslab = meta_allocate(sizeof *superslab, 64);
  assert_true(map_set(unit_address(units - 1), 1, superslab));
  assert_ptr_equal(map_superslab(unit_address(units - 1)), superslab);
  map_clear(unit_address(units - 1), 1);
  assert_false(map_set(unit_address(units - 1), 2, superslab));
  assert_null(map_superslab(unit_address(units - 1)));
  assert_false(map_set(unit_address(units), 1, superslab));
}

/* Leaves stand for 4 GiB each. */
static void units_on_both_sides_of_a_leafs_end_are_entered(void **state) {
  (void)state;
  const uintptr_t end = (uintptr_t)5 << 32; /* nothing is mapped so low */
  struct superslab *superslab = meta_allocate(sizeof *superslab, 64);
  const char *base = (const char *)(end - 2 * UNIT_BYTES);
  size_t units = 4 + LEAF_UNITS;
  assert_null(map_superslab(base));
  assert_null(map_inbox(base));
  assert_true(map_set(base, units, superslab));
  for (size_t i = 0; i < units; i++)
    assert_ptr_equal(map_superslab(base + (i << UNIT_SHIFT)), superslab);
  assert_null(map_superslab(base - 1));
  assert_null(map_superslab(base + (units << UNIT_SHIFT)));
  struct inbox *bin = (struct inbox *)(void *)superslab;
  const char *slices = (const char *)(end - 3 * SLICE_BYTES);
  map_set_inbox(slices, 6, bin);
  for (size_t i = 0; i < 6; i++) assert_ptr_equal(map_inbox(slices + i * SLICE_BYTES), bin);
  assert_null(map_inbox(slices - 1));
  assert_null(map_inbox(slices + 6 * SLICE_BYTES));
  map_set_inbox(slices, 6, NULL);
  assert_true(map_claim(base, superslab));
  assert_false(map_claim(base, superslab));
  map_clear(base, units);
  for (size_t i = 0; i < units; i++) assert_null(map_superslab(base + (i << UNIT_SHIFT)));
}

/* --- metadata ------------------------------------------------------------------------------------- */

static void metadata_is_zeroed_aligned_and_apart(void **state) {
  (void)state;
  unsigned char *before = NULL;
  size_t bytes_before = 0;
  uint64_t used = meta_bytes_used();
  uint64_t random = 5, total = 0;
  for (int i = 0; i < 2000; i++) {
    size_t alignment = (size_t)8 << random_below(&random, 11);
    size_t bytes = 1 + random_below(&random, i % 100 == 0 ? 600000 : 3000);
    unsigned char *p = meta_allocate(bytes, alignment);
    assert_non_null(p);
    assert_true(is_aligned(p, alignment));
    assert_true(block_is_zero(p, bytes));
    memset(p, 0xee, bytes);
    assert_true(before == NULL || p >= before + bytes_before || p + bytes <= before);
    before = p;
    bytes_before = bytes;
    total += bytes;
  }
  assert_int_equal(meta_bytes_used() - used, total);
}

/* What the kernel says of a page beside memory: is nobody let in? */
static bool is_guarded(const char *page) {
  int pipe_ends[2];
  assert_int_equal(pipe(pipe_ends), 0);
  bool refused = write(pipe_ends[1], page, 1) < 0;
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  return refused;
}

static void metadata_lies_between_guard_pages(void **state) {
  (void)state;
  size_t page = os_page_size();
  char *memory = os_map_guarded(5 * page);
  assert_non_null(memory);
  assert_true(block_is_zero(memory, 5 * page));
  memset(memory, 1, 5 * page);
  assert_true(is_guarded(memory - 1) && is_guarded(memory + 5 * page));
  assert_false(is_guarded(memory) || is_guarded(memory + 5 * page - 1));
  assert_true(os_unmap_guarded(memory, 5 * page));
  /* The leaf of a unit, and chunks of descriptors. */
  char *base = hak_malloc(100);
  _Atomic(struct inbox *) *entry =
      map_inbox_entry((char *)((uintptr_t)base >> LEAF_SHIFT << LEAF_SHIFT));
  assert_true(is_guarded((char *)entry - 1));
  assert_true(is_guarded((char *)entry + sizeof(struct map_leaf)) ||
              is_guarded((char *)entry + sizeof(struct map_leaf) + page - 1));
  hak_free(base);
  char *descriptor = meta_allocate(600 * KIB, 64); /* a chunk of its own */
  char *next = meta_allocate(600 * KIB, 64);
  assert_true(descriptor != NULL && next != NULL);
  assert_true(is_guarded((char *)((uintptr_t)descriptor & ~(page - 1)) - 1));
  assert_true(is_guarded((char *)((uintptr_t)next & ~(page - 1)) - 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(map_finds_a_unit_by_any_of_its_bytes),
      cmocka_unit_test(map_has_no_bin_for_foreign_addresses),
      cmocka_unit_test(map_enters_nothing_beyond_its_root),
      cmocka_unit_test(units_on_both_sides_of_a_leafs_end_are_entered),
      cmocka_unit_test(metadata_is_zeroed_aligned_and_apart),
      cmocka_unit_test(metadata_lies_between_guard_pages),
  };
  return cmocka_run_group_tests_name("address map", tests, NULL, NULL);
}
