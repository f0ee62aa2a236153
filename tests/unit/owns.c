/* owns.c - hak_owns tells own memory from all other, and never reads through what it is given. */
#include "unit_test.h"

#include <pthread.h>
#include <sys/mman.h>

static void knows_every_block_from_end_to_end(void **state) {
  (void)state;
  for (int i = 0; i < TEST_SIZE_COUNT; i++) {
    char *p = hak_malloc(test_sizes[i]);
    assert_non_null(p);
    assert_true(hak_owns(p));
    assert_true(hak_owns(p + test_sizes[i] / 2));
    assert_true(hak_owns(p + test_sizes[i] - 1));
    assert_true(hak_owns(p + hak_usable_size(p) - 1));
    hak_free(p);
  }
}

static void knows_every_unit_of_a_huge_block(void **state) {
  (void)state;
  size_t size = 20 * MIB;
  char *p = hak_malloc(size);
  assert_non_null(p);
  for (size_t offset = 0; offset < size; offset += 100001) assert_true(hak_owns(p + offset));
  p = hak_realloc(p, 5 * MIB);
  assert_non_null(p);
  for (size_t offset = 0; offset < 5 * MIB; offset += 100001) assert_true(hak_owns(p + offset));
  hak_free(p);
  assert_false(hak_owns(p));
}

static void knows_aligned_blocks(void **state) {
  (void)state;
  for (int shift = 3; shift <= 30; shift++) {
    char *p = hak_aligned_alloc((size_t)1 << shift, 1000);
    assert_non_null(p);
    assert_true(hak_owns(p));
    assert_true(hak_owns(p + 999));
    hak_free(p);
  }
}

static char in_data[100] = {1};
static char in_bss[100];
static const char in_text[] = "read-only";

static void does_not_claim_others_memory(void **state) {
  (void)state;
  char on_stack[100];
  assert_false(hak_owns(NULL));
  assert_false(hak_owns(on_stack));
  assert_false(hak_owns(in_data));
  assert_false(hak_owns(in_bss));
  assert_false(hak_owns(in_text));
  assert_false(hak_owns((const void *)(uintptr_t)does_not_claim_others_memory));
  static const size_t sizes[] = {1, 100, 10000, 200000, 5000000};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    char *p = malloc(sizes[i]);
    assert_non_null(p);
    assert_false(hak_owns(p));
    assert_false(hak_owns(p + sizes[i] - 1));
    free(p);
  }
}

static void survives_garbage(void **state) {
  (void)state;
  static const uintptr_t garbage[] = {
      0x1,
      0x10,
      0xfff,
      0x1fffff,
      0x200000,
      0x3fffffff,
      0xdeadbeef,
      0x7fffffffffff,
      0x800000000000,
      0xffffffffffff,
      0x1000000000000,
      0xdeadbeefdeadbeef,
      0x8000000000000000,
      0xffff800000000000,
      0xffffffff80000000,
      UINTPTR_MAX - 4095,
      UINTPTR_MAX - 1,
      UINTPTR_MAX,
  };
  void *p = hak_malloc(100);
  for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++)
    assert_false(hak_owns((const void *)garbage[i]));
  /* Every power of two and its neighbours, with any block's tag bits. */
  for (int shift = 0; shift < 64; shift++) {
    (void)hak_owns((const void *)((uintptr_t)1 << shift));
    (void)hak_owns((const void *)(((uintptr_t)1 << shift) - 1));
    if (shift >= 48) assert_false(hak_owns((const void *)((uintptr_t)p | (uintptr_t)1 << shift)));
  }
  hak_free(p);
}

static void does_not_read_unreadable_memory(void **state) {
  (void)state;
  size_t bytes = 16 * MIB;
  char *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_ptr_not_equal(p, MAP_FAILED);
  for (size_t offset = 0; offset < bytes; offset += 65536) assert_false(hak_owns(p + offset));
  munmap(p, bytes);
}

static void *ask(void *block) { return (void *)(uintptr_t)(hak_owns(block) && !hak_owns(in_data)); }

/* A thread without a heap asks about another's block. */
static void works_in_any_thread(void **state) {
  (void)state;
  pthread_t thread;
  void *answer = NULL;
  void *block = hak_malloc(100);
  assert_int_equal(pthread_create(&thread, NULL, ask, block), 0);
  assert_int_equal(pthread_join(thread, &answer), 0);
  assert_non_null(answer);
  hak_free(block);
}

/* In a process of its own, before anything was allocated. */
static void works_before_the_first_allocation(void) {
  char on_stack[16];
  if (hak_owns(NULL) || hak_owns(on_stack) || hak_owns((const void *)(uintptr_t)0x7f0000000000) ||
      hak_owns((const void *)UINTPTR_MAX) || hak_usable_size(NULL) != 0) {
    fprintf(stderr, "hak_owns is wrong before the first allocation\n");
    exit(1);
  }
  hak_free(NULL);
}

int main(void) {
  works_before_the_first_allocation();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(knows_every_block_from_end_to_end),
      cmocka_unit_test(knows_every_unit_of_a_huge_block),
      cmocka_unit_test(knows_aligned_blocks),
      cmocka_unit_test(does_not_claim_others_memory),
      cmocka_unit_test(survives_garbage),
      cmocka_unit_test(does_not_read_unreadable_memory),
      cmocka_unit_test(works_in_any_thread),
  };
  return cmocka_run_group_tests_name("owns", tests, NULL, NULL);
}
