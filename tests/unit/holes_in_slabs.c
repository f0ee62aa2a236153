/* holes_in_slabs.c - pages given back inside slabs that are partly in use, for every size class. */
#include "unit_test.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "policy/options.h"
#include "release/release.h"
#include "slab/holes.h"

WITHOUT_SAMPLES;

enum { BLOCKS_MOST = 20000, TOTAL_BYTES = 2 * 1024 * 1024 };

static unsigned char *blocks[BLOCKS_MOST];

static int start(void **state) {
  (void)state;
  options_at_start();
  SET_OPTION(WARM_POOL_DECAY_MS, VERY_LONG_MS);
  SET_OPTION(BACKGROUND, BACKGROUND_NEVER); /* no helper in between */
  return cache_of_thread() != NULL ? 0 : -1;
}

static unsigned char mark_of(size_t i) { return (unsigned char)(i * 37 + 11); }

static size_t fill(uint32_t size) {
  size_t count = TOTAL_BYTES / size;
  if (count > BLOCKS_MOST) count = BLOCKS_MOST;
  for (size_t i = 0; i < count; i++) {
    assert_non_null(blocks[i] = hak_malloc(size));
    memset(blocks[i], mark_of(i), size);
  }
  return count;
}

static void check_live(size_t count, uint32_t size) {
  for (size_t i = 0; i < count; i++) {
    if (blocks[i] == NULL) continue;
    for (uint32_t at = 0; at < size; at += 61) assert_int_equal(blocks[i][at], mark_of(i));
    assert_int_equal(blocks[i][size - 1], mark_of(i));
  }
}

/* What every slab of a list promises about its holes; returns the bytes of free blocks that are in none. */
static size_t check_list(struct slab *slab, enum slab_list list, uint32_t size,
                         size_t *in_holes_bytes) {
  size_t page = os_page_size(), listed_bytes = 0;
  for (; slab != NULL; slab = slab->next) {
    assert_int_equal(slab->listed, list);
    assert_int_equal(list == LIST_DECOMMITTED, slab_is_decommitted(slab));
    char *base = slab_base(slab);
    unsigned in_list = 0, in_holes = 0;
    assert_false(slab->purging);
    for (char *block = slab->free_list; block != NULL; block = link_next(block)) {
      in_list++;
      for (uintptr_t at = (uintptr_t)block / page * page; at < (uintptr_t)block + size;
           at += page) {
        size_t p = (at - (uintptr_t)base) / page, per_slice = SLICE_BYTES / page;
        assert_int_equal(slab[p / per_slice].holes >> p % per_slice & 1, 0);
      }
    }
    for (unsigned i = 0; i < slab_carved(slab); i++) {
      size_t first = (size_t)i * size / page, last = ((size_t)i * size + size - 1) / page;
      bool in_hole = false;
      for (size_t p = first; p <= last; p++) {
        size_t per_slice = SLICE_BYTES / page;
        in_hole |= slab[p / per_slice].holes >> p % per_slice & 1;
      }
      in_holes += in_hole;
    }
    assert_int_equal(in_list, slab_free_count(slab));
    assert_int_equal(in_holes, slab_hole_count(slab));
    assert_true(in_list + in_holes <= slab_carved(slab));
    listed_bytes += (size_t)in_list * size;
    *in_holes_bytes += (size_t)in_holes * size;
  }
  return listed_bytes;
}

static void check_slabs(unsigned size_class) {
  struct thread_cache *heap = cache_of_thread();
  const struct arena_class *slabs = &heap->arena->classes[size_class];
  uint32_t size = class_size(size_class);
  size_t in_holes = 0, listed = check_list(slabs->first, LIST_PARTIAL, size, &in_holes);
  assert_int_equal(check_list(slabs->decommitted, LIST_DECOMMITTED, size, &in_holes), 0);
  assert_true(listed <= heap->arena->free_bytes);
  assert_true(in_holes <= heap->arena->decommitted_bytes);
}

static size_t free_but(size_t count, uint64_t *seed, unsigned live_percent) {
  size_t live = 0;
  for (size_t i = 0; i < count; i++) {
    if (random_below(seed, 100) < live_percent) {
      live++;
      continue;
    }
    hak_free(blocks[i]);
    blocks[i] = NULL;
  }
  return live;
}

static void one_class(unsigned size_class, uint64_t seed) {
  uint32_t size = class_size(size_class);
  size_t count = fill(size);
  for (int round = 0; round < 3; round++) {
    free_but(count, &seed, round == 0 ? 5 : 50);
    hak_purge();
    check_live(count, size);
    check_slabs(size_class);
    /* Comes back: fewer blocks first, so that holes are opened bit by bit. */
    for (size_t i = 0; i < count; i++) {
      if (blocks[i] != NULL || (round < 2 && i % 3 == 0)) continue;
      assert_non_null(blocks[i] = hak_malloc(size));
      memset(blocks[i], mark_of(i), size);
    }
    check_live(count, size);
    check_slabs(size_class);
  }
  for (size_t i = 0; i < count; i++) {
    hak_free(blocks[i]);
    blocks[i] = NULL;
  }
}

static void every_class_keeps_its_live_blocks(void **state) {
  (void)state;
  for (unsigned c = 0; c < CLASS_COUNT; c++) one_class(c, c + 1);
}

/* Every second page's worth of 1 KiB blocks is freed: exactly those pages go. */
static void free_pages_go_and_others_stay(void **state) {
  (void)state;
  size_t page = os_page_size(), resident = 0, freed_pages = 0;
  uint32_t size = 1024;
  size_t count = fill(size);
  for (size_t i = 0; i < count; i++)
    if ((uintptr_t)blocks[i] / page % 2 == 0) {
      hak_free(blocks[i]);
      blocks[i] = (unsigned char *)((uintptr_t)blocks[i] | 1); /* remembered, not used */
    }
  hak_purge();
  for (size_t i = 0; i < count; i++) {
    bool is_free = (uintptr_t)blocks[i] & 1;
    if (!is_free) {
      assert_true(is_resident((void *)((uintptr_t)blocks[i] / page * page)));
      assert_int_equal(blocks[i][0], mark_of(i));
    } else if ((uintptr_t)blocks[i] % page == 1) {
      freed_pages++;
      resident += is_resident((void *)((uintptr_t)blocks[i] - 1));
    }
  }
  assert_true(freed_pages > count * size / page / 3);
  assert_int_equal(resident, 0);
  for (size_t i = 0; i < count; i++) {
    if (((uintptr_t)blocks[i] & 1) == 0) hak_free(blocks[i]);
    blocks[i] = NULL;
  }
}

/* A look that finds nothing new gives nothing back; the second of two purges has nothing to do. */
static void a_clean_slab_is_left_alone(void **state) {
  (void)state;
  uint64_t seed = 5;
  size_t count = fill(512);
  free_but(count, &seed, 10);
  hak_purge();
  uint64_t before = atomic_load(&os_counts.madvise);
  hak_purge();
  assert_int_equal(atomic_load(&os_counts.madvise), before);
  check_live(count, 512);
  for (size_t i = 0; i < count; i++) {
    hak_free(blocks[i]);
    blocks[i] = NULL;
  }
}

/* Cached Large blocks lose their pages, and come back with zeros that may be written. */
static void cached_spans_lose_their_pages(void **state) {
  (void)state;
  struct thread_cache *heap = cache_of_thread();
  size_t unexpired = 0;
  char *block = hak_malloc(300 * 1024);
  assert_non_null(block);
  memset(block, 7, 300 * 1024);
  hak_free(block);
  struct slab *spans[8];
  assert_int_equal(span_cache_claim_old(&heap->spans, 3, spans, &unexpired), 0);
  assert_true(unexpired > 0);
  assert_int_equal(span_cache_claim_old(&heap->spans, 0, spans, &unexpired), 1);
  assert_ptr_equal(slab_base(spans[0]), block);
  /* While it is claimed nobody gets it. */
  char *other = hak_malloc(300 * 1024);
  assert_non_null(other);
  assert_ptr_not_equal(other, block);
  span_cache_decommitted(spans[0]);
  char *again = hak_malloc(300 * 1024);
  assert_ptr_equal(again, block);
  memset(again, 9, 300 * 1024);
  hak_free(again);
  hak_free(other);
}

enum { LINKED = 64, LINKED_SIZE = 1024, LIVE_EACH = 4 };

/* A freed block of the first one's slab, in a page with a live one: pages without have gone, with their links, and hardened's blocks lie
 * in any order. 0, which lives: there is none. */
static size_t freed_beside_live(void) {
  for (size_t freed = 1; freed < LINKED; freed++)
    for (size_t live = 0; live < LINKED && freed % LIVE_EACH != 0; live += LIVE_EACH)
      if ((uintptr_t)blocks[freed] / os_page_size() == (uintptr_t)blocks[live] / os_page_size() &&
          map_slab(blocks[freed]) == map_slab(blocks[0]))
        return freed;
  return 0;
}

/* Free blocks whose links lie in pages that are in use, and one of these links overwritten. */
static void purge_with_a_wrong_link(void *unused) {
  (void)unused;
  pid_t child = fork();
  if (child == 0) {
    for (size_t i = 0; i < LINKED; i++) blocks[i] = memset(hak_malloc(LINKED_SIZE), 0, LINKED_SIZE);
    for (size_t i = 0; i < LINKED; i++)
      if (i % LIVE_EACH != 0) hak_free(blocks[i]);
    hak_purge(); /* into their slabs */
    size_t freed = freed_beside_live();
    unsigned char *inside = blocks[freed] + 64;
    memcpy(blocks[freed], &inside, sizeof inside);
    hak_free(blocks[0]); /* a reason to look at the slab again */
    hak_purge();
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void an_overwritten_link_is_told_and_not_used(void **state) {
  (void)state;
  char text[4096];
  capture_stderr(purge_with_a_wrong_link, NULL, text, sizeof text);
  assert_non_null(strstr(text, "block was written to after it was freed"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_class_keeps_its_live_blocks),
      cmocka_unit_test(free_pages_go_and_others_stay),
      cmocka_unit_test(a_clean_slab_is_left_alone),
      cmocka_unit_test(cached_spans_lose_their_pages),
      cmocka_unit_test(an_overwritten_link_is_told_and_not_used),
  };
  return cmocka_run_group_tests_name("holes in slabs", tests, start, NULL);
}
