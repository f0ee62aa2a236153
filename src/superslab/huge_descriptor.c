/* huge_descriptor.c - descriptors of Huge blocks, in groups of which those that are empty lose their pages.
 *
 * A descriptor is the header and the first slice's: a Huge block has no more, and one of 2 MiB would take 2 KiB for nothing otherwise. In a group a
 * whole descriptor can be read from each one's start on, so a stale pointer, as of a second free, reads memory of ours. What it reads is
 * one of two: a `huge_units` that is not 0, so that it is not taken for a SuperSlab's; or, in a group without pages, zeros for all slices, which is
 * KIND_FREE.
 */
#include "superslab/descriptor.h"

#include <string.h>

#define DESCRIPTOR_BYTES (offsetof(struct superslab, slabs) + sizeof(struct slab))
#define FIRST_GROUP_BYTES (4 * KIB)
#define GROUP_BYTES (32 * KIB)
#define GROUP_ALIGNMENT (4 * KIB)
#define CAPACITY(bytes) ((unsigned)(((bytes) - sizeof(struct superslab)) / DESCRIPTOR_BYTES + 1))

/* So many empty groups keep their pages: 960 blocks can come and go. */
enum { EMPTY_MOST = 4 };

/* Under superslab_lock. */
struct huge_group {
  struct huge_group *next,
      *previous; /* in one of the lists below; `previous` in `with_room` alone */
  char *memory;
  struct superslab *unused;
  unsigned capacity, made, used;
  unsigned era;
  bool bare; /* has no pages */
};
static struct huge_group *with_room HAK_START_DATA, *empty HAK_START_DATA, *bare HAK_START_DATA;
static _Atomic unsigned count_empty HAK_START_DATA;
static unsigned era HAK_START_DATA; /* of groups; of another: their free descriptors are lost */
static bool any_group HAK_START_DATA;

static void list(struct huge_group *group) {
  group->previous = NULL;
  group->next = with_room;
  if (with_room != NULL) with_room->previous = group;
  with_room = group;
}

static void unlist(struct huge_group *group) {
  if (group->previous != NULL) group->previous->next = group->next;
  else with_room = group->next;
  if (group->next != NULL) group->next->previous = group->previous;
}

static void push(struct huge_group **first, struct huge_group *group) {
  group->next = *first;
  *first = group;
}

static struct huge_group *pop(struct huge_group **first) {
  struct huge_group *group = *first;
  if (group != NULL) *first = group->next;
  return group;
}

/* relaxed: read without the lock as a hint */
static void count_more(unsigned more) {
  unsigned all = atomic_load_explicit(&count_empty, memory_order_relaxed);
  atomic_store_explicit(&count_empty, all + more, memory_order_relaxed);
}

static struct superslab *descriptor_at(const struct huge_group *group, unsigned i) {
  return (struct superslab *)(void *)(group->memory + i * DESCRIPTOR_BYTES);
}

/* Before any of its descriptors is in use. */
static void open_bare(struct huge_group *group) {
  for (unsigned i = 0; i < group->capacity; i++) descriptor_at(group, i)->huge_units = 1;
  group->bare = false;
  group->unused = NULL;
  group->made = 0;
}

/* Makes room where there is none; false: a new group is needed. */
static bool find_room(void) {
  if (with_room != NULL) return true;
  struct huge_group *group = pop(&empty);
  if (group != NULL) count_more(-1u);
  else group = pop(&bare);
  if (group == NULL) return false;
  if (group->bare) open_bare(group);
  list(group);
  return true;
}

static void clear(struct superslab *superslab) {
  memset(superslab, 0, offsetof(struct superslab, huge_units));
  char *behind = (char *)&superslab->huge_units + sizeof superslab->huge_units;
  memset(behind, 0, DESCRIPTOR_BYTES - (size_t)(behind - (char *)superslab));
}

/* NULL: a new group is needed. */
static struct superslab *take(void) {
  if (!find_room()) return NULL;
  struct huge_group *group = with_room;
  struct superslab *superslab = group->unused;
  if (superslab != NULL) group->unused = superslab->next;
  else superslab = descriptor_at(group, group->made++);
  clear(superslab);
  superslab->group = group;
  if (++group->used == group->capacity) unlist(group);
  return superslab;
}

static struct huge_group *new_group(size_t bytes) {
  struct huge_group *group = meta_allocate(sizeof *group, sizeof(void *));
  char *memory = group != NULL ? meta_allocate(bytes, GROUP_ALIGNMENT) : NULL;
  if (memory == NULL) return NULL;
  *group = (struct huge_group){.memory = memory, .capacity = CAPACITY(bytes)};
  return group;
}

struct superslab *descriptor_new_huge(void) {
  lock_acquire(&superslab_lock);
  struct superslab *superslab = take();
  size_t bytes = any_group ? GROUP_BYTES : FIRST_GROUP_BYTES;
  lock_release(&superslab_lock);
  if (superslab != NULL) return superslab;
  struct huge_group *group = new_group(bytes);
  if (group == NULL) return NULL;
  lock_acquire(&superslab_lock);
  group->era = era;
  any_group = true;
  list(group);
  superslab = take();
  lock_release(&superslab_lock);
  return superslab;
}

void descriptor_free_huge(struct superslab *superslab) {
  struct huge_group *group = superslab->group;
  if (HAK_UNLIKELY(group->era != era)) return;
  superslab->next = group->unused;
  group->unused = superslab;
  if (group->used-- == group->capacity) list(group);
  if (group->used > 0 || group->capacity != CAPACITY(GROUP_BYTES)) return;
  unlist(group);
  push(&empty, group);
  count_more(1);
}

void huge_descriptors_settle(void) {
  if (HAK_LIKELY(atomic_load_explicit(&count_empty, memory_order_relaxed) <= EMPTY_MOST)) return;
  if (os_page_size() > GROUP_ALIGNMENT) return;
  lock_acquire(&superslab_lock);
  struct huge_group *group = pop(&empty);
  if (group != NULL) count_more(-1u);
  lock_release(&superslab_lock);
  if (group == NULL) return;
  group->bare = os_decommit(group->memory, GROUP_BYTES);
  lock_acquire(&superslab_lock);
  if (group->era == era) push(&bare, group);
  lock_release(&superslab_lock);
}

void huge_descriptors_forget(void) {
  with_room = empty = bare = NULL;
  any_group = false;
  atomic_store_explicit(&count_empty, 0, memory_order_relaxed); /* no other thread is there */
  era++;
}
