/* named_walk.c - the live blocks of a named arena; see named.h. */
#include "heap/named.h"
#include "heap/purger.h"
#include "heap/slabs.h"
#include "slab/holes.h"

static size_t usable_of_span(const struct slab *descriptor) {
  const struct superslab *superslab = superslab_of(descriptor);
  return superslab->huge_units != 0 ? superslab->huge_usable : span_usable(descriptor);
}

static void *start_of_span(const struct slab *descriptor) {
  const struct superslab *superslab = superslab_of(descriptor);
  return superslab->huge_units != 0 ? superslab->base : slab_base(descriptor);
}

/* Which blocks of a slab are free, or were never made. */
struct free_map {
  uint64_t words[SLICE_BYTES / BLOCK_ALIGNMENT / 64];
};

static void mark(struct free_map *is_free, const struct slab *slab, const void *block) {
  uint32_t number = (uint32_t)((const char *)block - slab_base(slab)) / slab_block_size(slab);
  is_free->words[number / 64] |= UINT64_C(1) << number % 64;
}

/* In a walk within a walk: what the outer one's visitor has freed. No more than the heap has room for: the program may have tied
 * the list to a ring. */
static void find_walked(const struct hak_heap *named, const struct slab *slab,
                        struct free_map *is_free) {
  size_t left = slabs_owned(&named->arena) / slab_block_size(slab);
  for (void *block = named->walked_free[slab->size_class]; block != NULL && left-- > 0;
       block = link_follow(block))
    if (slab_head(map_slab(block)) == slab) mark(is_free, slab, block);
}

/* Under the lock. In the bin are blocks that were freed and are in no slab's list yet. */
static void find_free(const struct hak_heap *named, const struct slab *slab,
                      struct free_map *is_free) {
  const struct bin *bin = &named->bins[slab->size_class];
  unsigned left = slab_free_count(slab), held = (unsigned)((int32_t)bin->capacity - bin->room);
  /* So many: a list that the program tied to a ring has no end. */
  for (void *block = slab->free_list; block != NULL && left-- > 0; block = link_follow(block))
    mark(is_free, slab, block);
  for (void *block = bin->head; block != NULL && held-- > 0; block = link_follow(block))
    if (slab_head(map_slab(block)) == slab) mark(is_free, slab, block);
  if (named->walked == NULL) find_walked(named, slab, is_free);
  for (unsigned i = 0; i < slab_carved(slab); i++)
    if (hole_has(slab, i)) is_free->words[i / 64] |= UINT64_C(1) << i % 64;
}

struct walk {
  struct hak_heap *named;
  named_visit *visit;
  void *argument;
  bool nests;
};

/* What the visitor frees goes into a list beside the bin: the slab stays where it is, and the bin stays short. */
static bool walk_slab(const struct walk *walk, const struct slab *slab) {
  struct free_map is_free = {{0}};
  uint32_t size = slab_block_size(slab);
  named_lock(walk->named);
  unsigned carved = slab_carved(slab);
  if (!walk->nests) walk->named->walked = slab;
  find_free(walk->named, slab, &is_free);
  lock_release(&walk->named->arena.lock);
  for (unsigned i = 0; i < carved; i++)
    if ((is_free.words[i / 64] >> i % 64 & 1) == 0 &&
        !walk->visit(slab_base(slab) + (size_t)i * size, size, walk->argument))
      return false;
  return true;
}

static bool walk_list(const struct walk *walk, const struct slab *slab, const struct slab *end) {
  for (; slab != end; slab = slab->next)
    if (!walk_slab(walk, slab)) return false;
  return true;
}

static bool walk_all(const struct walk *walk) {
  struct hak_heap *named = walk->named;
  const struct arena *arena = &named->arena;
  for (unsigned c = 0; c < CLASS_COUNT; c++)
    if (!walk_list(walk, arena->classes[c].first, NULL) ||
        !walk_list(walk, arena->classes[c].decommitted, NULL))
      return false;
  if (!walk_list(walk, named->full.next, &named->full)) return false;
  for (struct slab *span = named->blocks.next, *next; span != &named->blocks; span = next) {
    next = span->next; /* the visitor may free it */
    if (!walk->visit(start_of_span(span), usable_of_span(span), walk->argument)) return false;
  }
  return true;
}

/* The blocks that the visitor has freed, into their slabs: some in one hold of the lock. */
static void put_walked(struct hak_heap *named, unsigned size_class) {
  void *rest;
  do {
    named_lock(named);
    if (named->lost || named->walker != 0) { /* within a walk no slab moves */
      lock_release(&named->arena.lock);
      return;
    }
    void *first = named->walked_free[size_class], *last = first;
    for (int i = 1; i < BLOCKS_A_HOLD && last != NULL; i++) {
      void *next = link_follow(last);
      if (next == NULL) break;
      last = next;
    }
    rest = last != NULL ? link_follow(last) : NULL;
    named->walked_free[size_class] = rest;
    if (rest != NULL) link_set(last, NULL);
    if (first != NULL) slabs_put_list(&named->arena, size_class, first, true);
    lock_release(&named->arena.lock);
    if (first != NULL) superslab_settle();
  } while (rest != NULL);
}

static bool any_walked(const struct hak_heap *named) {
  for (unsigned c = 0; c < CLASS_COUNT; c++)
    if (named->walked_free[c] != NULL) return true;
  return false;
}

static void put_all_walked(struct hak_heap *named) {
  for (unsigned c = 0; c < CLASS_COUNT; c++) put_walked(named, c);
}

/* With both locks held. What an earlier walk's visitor freed is in slabs again: that walk's thread may be about it still, or not be
 * in this child of a fork. */
static void lock_for_walk(struct hak_heap *named) {
  for (;;) {
    named_lock_beside_purger(named); /* later the purger passes the heap by */
    if (named->lost || named->walker != 0 || !any_walked(named)) return;
    lock_release(&named->arena.lock);
    lock_release(&purger_batch_lock);
    put_all_walked(named);
  }
}

bool named_walk(struct hak_heap *named, named_visit *visit, void *argument) {
  lock_for_walk(named);
  uint32_t before = named->walker; /* a visitor's own walk */
  const struct slab *outer = named->walked;
  bool walks = !named->lost;
  if (walks) named->walker = lock_self();
  named->walked = NULL;
  lock_release(&named->arena.lock);
  lock_release(&purger_batch_lock);
  if (!walks) return true;
  bool all = walk_all(&(struct walk){named, visit, argument, before != 0});
  lock_acquire(&named->arena.lock);
  named->walker = before;
  named->walked = outer;
  lock_release(&named->arena.lock);
  put_all_walked(named);
  return all;
}
