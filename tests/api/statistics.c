/* statistics.c - mallinfo, mallinfo2, malloc_info, malloc_stats, malloc_trim, mallopt: they have to
 * tell about the heap that the program uses, not about an idle one beside it. */
#include "api_test.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

/* mallinfo is deprecated for mallinfo2, and part of the interface all the same. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

enum { AMOUNT = 32 * 1024 * 1024, SMALLEST = 64 };
static void *blocks[AMOUNT / SMALLEST];

/* glibc counts what it mapped by itself in hblkhd, the rest in uordblks. */
static size_t bytes_in_use(void) {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

static size_t take(size_t size) {
  size_t count = AMOUNT / size;
  for (size_t i = 0; i < count; i++) {
    blocks[i] = malloc(opaque_size(size));
    assert_non_null(blocks[i]);
    memset(blocks[i], 1, size);
  }
  return count * size;
}

static void give_back(size_t size) {
  for (size_t i = 0; i < AMOUNT / size; i++) free(blocks[i]);
}

/* Rounding to size classes and slabs may add an eighth, glibc's chunk header a quarter at 64 bytes. */
static void mallinfo2_follows_what_is_allocated(void **state) {
  (void)state;
  static const size_t sizes[] = {SMALLEST, 1000, 8 * KIB, 60 * KIB, 256 * KIB, MIB, 8 * MIB};
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    size_t before = bytes_in_use();
    size_t amount = take(sizes[s]);
    size_t during = bytes_in_use();
    assert_in_range(during - before, amount - amount / 16, amount + amount / 3 + 2 * MIB);
    give_back(sizes[s]);
    size_t after = bytes_in_use();
    assert_true(after <= before + amount / 4);
  }
}

static void mallinfo2_fields_agree(void **state) {
  (void)state;
  size_t amount = take(512);
  struct mallinfo2 info = mallinfo2();
  assert_true(info.uordblks >= amount);
  assert_true(info.arena + info.hblkhd >= info.uordblks);
  if (info.hblkhd == 0) assert_int_equal(info.hblks, 0);
  give_back(512);
}

static void mallinfo2_counts_freed_blocks_as_free(void **state) {
  (void)state;
  size_t amount = take(512);
  give_back(512);
  struct mallinfo2 info = mallinfo2();
  assert_true(info.fordblks <= info.arena + info.hblkhd);
  assert_true(info.uordblks < amount);
}

static void *take_in_a_thread(void *unused) {
  (void)unused;
  for (size_t i = 0; i < AMOUNT / 512; i++) blocks[i] = malloc(opaque_size(512));
  return NULL;
}

static void mallinfo2_counts_the_blocks_of_other_threads(void **state) {
  (void)state;
  pthread_t thread;
  size_t before = bytes_in_use();
  assert_int_equal(pthread_create(&thread, NULL, take_in_a_thread, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_true(bytes_in_use() - before >= AMOUNT - AMOUNT / 16);
  give_back(512);
  assert_true(bytes_in_use() <= before + AMOUNT / 4);
}

static void mallinfo_is_mallinfo2_in_ints(void **state) {
  (void)state;
  int before = mallinfo().uordblks;
  size_t amount = take(512);
  struct mallinfo narrow = mallinfo();
  struct mallinfo2 wide = mallinfo2();
  assert_in_range(narrow.uordblks - before, amount - amount / 16, amount + amount / 3 + 2 * MIB);
  assert_true((size_t)narrow.uordblks <= wide.uordblks + MIB);
  assert_true((size_t)narrow.uordblks + MIB >= wide.uordblks);
  give_back(512);
}

static void malloc_info_refuses_options(void **state) {
  (void)state;
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  assert_non_null(out);
  assert_int_not_equal(malloc_info(1, out), 0);
  assert_int_equal(malloc_info(0, out), 0);
  fclose(out);
  assert_true(length > 0);
  assert_int_equal(text[0], '<');
  free(text);
}

static char *info_text(void) {
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  assert_non_null(out);
  assert_int_equal(malloc_info(0, out), 0);
  fclose(out);
  return text;
}

static void malloc_info_changes_with_the_heap(void **state) {
  (void)state;
  char *before = info_text();
  take(512);
  char *during = info_text();
  assert_string_not_equal(before, during);
  give_back(512);
  free(before);
  free(during);
}

static void malloc_stats_writes_to_stderr(void **state) {
  (void)state;
  char text[1 << 16];
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  int saved = dup(STDERR_FILENO);
  assert_true(saved >= 0);
  assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
  close(ends[1]);
  malloc_stats();
  fflush(stderr);
  assert_true(dup2(saved, STDERR_FILENO) >= 0);
  close(saved);
  ssize_t length = read(ends[0], text, sizeof text);
  close(ends[0]);
  assert_true(length > 20);
  assert_int_equal(text[length - 1], '\n');
}

static void malloc_trim_gives_memory_back(void **state) {
  (void)state;
  static const size_t sizes[] = {SMALLEST, 1000, 20 * KIB, 300 * KIB};
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    size_t before = resident_bytes();
    take(sizes[s]);
    give_back(sizes[s]);
    int released = malloc_trim(0);
    assert_true(released == 0 || released == 1);
    assert_true(resident_bytes() <= before + AMOUNT / 4);
  }
}

/* In each MiB a block stays, so no SuperSlab is empty: what goes back are slabs and pages of slabs. */
static void malloc_trim_says_that_pages_went(void **state) {
  (void)state;
  enum { SIZE = 1000, STEP = 1024 };
  size_t count = take(SIZE) / SIZE, before = resident_bytes();
  for (size_t i = 0; i < count; i++)
    if (i % STEP != 0) free(blocks[i]);
  assert_int_equal(malloc_trim(0), 1);
  assert_true(resident_bytes() <= before - AMOUNT / 2);
  for (size_t i = 0; i < count; i += STEP) free(blocks[i]);
}

static void malloc_trim_keeps_live_blocks(void **state) {
  (void)state;
  enum { STEP = 7 };
  size_t count = AMOUNT / 200;
  for (size_t i = 0; i < count; i++) {
    blocks[i] = malloc(200);
    assert_non_null(blocks[i]);
    fill_block(blocks[i], 200, i);
  }
  for (size_t i = 0; i < count; i++)
    if (i % STEP != 0) free(blocks[i]);
  errno = 1234;
  malloc_trim(0);
  malloc_trim(SIZE_MAX);
  for (size_t i = 0; i < count; i += STEP) {
    assert_true(block_is_filled(blocks[i], 200, i));
    free(blocks[i]);
  }
}

/* Programs that tune glibc's malloc treat 0 as a failure. */
static void mallopt_accepts_all_parameters(void **state) {
  (void)state;
  assert_int_equal(mallopt(M_MMAP_THRESHOLD, 128 * 1024), 1);
  assert_int_equal(mallopt(M_TRIM_THRESHOLD, 128 * 1024), 1);
  assert_int_equal(mallopt(M_TOP_PAD, 64 * 1024), 1);
  assert_int_equal(mallopt(M_MMAP_MAX, 65536), 1);
  assert_int_equal(mallopt(M_ARENA_MAX, 2), 1);
  assert_int_equal(mallopt(M_ARENA_TEST, 2), 1);
  assert_int_equal(mallopt(-9999, 1), 1);
  void *p = malloc(1000);
  assert_non_null(p);
  free(p);
}

int main(void) {
  require_expected_allocator();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mallinfo2_follows_what_is_allocated),
      cmocka_unit_test(mallinfo2_fields_agree),
      cmocka_unit_test(mallinfo2_counts_freed_blocks_as_free),
      cmocka_unit_test(mallinfo2_counts_the_blocks_of_other_threads),
      cmocka_unit_test(mallinfo_is_mallinfo2_in_ints),
      cmocka_unit_test(malloc_info_refuses_options),
      cmocka_unit_test(malloc_info_changes_with_the_heap),
      cmocka_unit_test(malloc_stats_writes_to_stderr),
      cmocka_unit_test(malloc_trim_gives_memory_back),
      cmocka_unit_test(malloc_trim_says_that_pages_went),
      cmocka_unit_test(malloc_trim_keeps_live_blocks),
      cmocka_unit_test(mallopt_accepts_all_parameters),
  };
  return cmocka_run_group_tests_name("statistics", tests, NULL, NULL);
}
