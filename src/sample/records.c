/* records.c - see records.h. Both tables chain their entries in buckets, which are four times as many whenever the entries are
 * twice as many. */
#include "sample/records.h"

#include <string.h>

#include "superslab/superslab.h"

/* What a program with few samples uses of it lies in one page. */
_Alignas(4096) struct samples samples;

/* --- buckets ------------------------------------------------------------------------------------------------ */

enum { BUCKETS_MOST = 1 << 20, GROWTH = 4, FULL = 2 };

struct table {
  uint32_t *buckets;
  uint32_t count; /* a power of two */
};

static struct table by_address = {samples.buckets[0], SAMPLE_FIRST_BUCKETS};
static struct table by_stack = {samples.buckets[1], SAMPLE_FIRST_BUCKETS};

static uint32_t *bucket_of(const struct table *table, uint64_t hash) {
  return &table->buckets[hash & (table->count - 1)];
}

/* Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4): the upper bits are mixed best. */
static uint64_t hash_of_address(uint64_t address) {
  return (address * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
}

/* Room for four times as many; false: it stays as it is. The old ones are left to themselves: a third of the new. */
static bool more_buckets(struct table *table, uint64_t entries, struct table *old) {
  if (HAK_LIKELY(entries < (uint64_t)FULL * table->count) || table->count >= BUCKETS_MOST)
    return false;
  uint32_t *buckets = meta_allocate((size_t)table->count * GROWTH * sizeof *buckets, 64);
  if (buckets == NULL) return false;
  *old = *table;
  *table = (struct table){buckets, table->count * GROWTH};
  return true;
}

/* --- records ------------------------------------------------------------------------------------------------- */

static uint32_t first_free; /* number + 1 */

static struct sample_record *record_at(uint32_t number) {
  return &LOAD(
      samples.record_chunks[number / SAMPLE_RECORDS_A_CHUNK])[number % SAMPLE_RECORDS_A_CHUNK];
}

/* Number + 1 of a record without a block; 0: no memory. */
static uint32_t free_record(void) {
  uint32_t number = LOAD(samples.records);
  if (first_free != 0) {
    uint32_t found = first_free;
    first_free = record_at(found - 1)->next;
    return found;
  }
  if (number == (uint32_t)SAMPLE_RECORD_CHUNKS * SAMPLE_RECORDS_A_CHUNK) return 0;
  if (number % SAMPLE_RECORDS_A_CHUNK == 0) {
    struct sample_record *chunk = meta_allocate(sizeof *chunk * SAMPLE_RECORDS_A_CHUNK, 64);
    if (chunk == NULL) return 0;
    chunk->exposure = 1; /* written before it is read, a page takes one fault */
    /* release: a tool that sees the chunk finds zeros */
    atomic_store_explicit(&samples.record_chunks[number / SAMPLE_RECORDS_A_CHUNK], chunk,
                          memory_order_release);
  }
  atomic_store_explicit(&samples.records, number + 1, memory_order_release);
  return number + 1;
}

/* Odd while the fields change. A reader that sees an even version sees the fields that were stored before it, one
 * that sees a new field sees the odd version or a later one. */
static void begin_write(struct sample_record *record) {
  STORE(record->version, LOAD(record->version) + 1);
  os_order_stores();
}

static void end_write(struct sample_record *record) {
  atomic_store_explicit(&record->version, LOAD(record->version) + 1, memory_order_release);
}

static void spread_records(const struct table *old) {
  for (uint32_t i = 0; i < old->count; i++)
    for (uint32_t at = old->buckets[i], next; at != 0; at = next) {
      struct sample_record *record = record_at(at - 1);
      uint32_t *bucket = bucket_of(&by_address, hash_of_address(LOAD(record->address)));
      next = record->next;
      record->next = *bucket;
      *bucket = at;
    }
}

bool record_add(uint64_t address, const struct sample_record *as) {
  struct table old;
  uint32_t number = free_record();
  if (number == 0) return false;
  uint64_t live = LOAD(samples.live);
  if (more_buckets(&by_address, live, &old)) spread_records(&old);
  struct sample_record *record = record_at(number - 1);
  begin_write(record);
  STORE(record->address, address);
  STORE(record->size, LOAD(as->size));
  STORE(record->weight, LOAD(as->weight));
  STORE(record->since_ms, LOAD(as->since_ms));
  STORE(record->heap, LOAD(as->heap));
  STORE(record->stack, LOAD(as->stack));
  STORE(record->size_class, LOAD(as->size_class));
  record->exposure = as->exposure;
  end_write(record);
  uint32_t *bucket = bucket_of(&by_address, hash_of_address(address));
  record->next = *bucket;
  *bucket = number;
  STORE(samples.live, live + 1);
  return true;
}

/* The link that leads to the record; what it holds is 0 without one. */
static uint32_t *link_to(uint64_t address) {
  uint32_t *link = bucket_of(&by_address, hash_of_address(address));
  while (*link != 0 && LOAD(record_at(*link - 1)->address) != address)
    link = &record_at(*link - 1)->next;
  return link;
}

struct sample_record *record_find(uint64_t address) {
  uint32_t *link = link_to(address);
  return *link != 0 ? record_at(*link - 1) : NULL;
}

void record_resize(struct sample_record *record, const struct sample_record *as) {
  begin_write(record);
  STORE(record->size, LOAD(as->size));
  STORE(record->weight, LOAD(as->weight));
  end_write(record);
  record->exposure = as->exposure;
}

bool record_remove(uint64_t address, struct sample_record *copy) {
  uint32_t *link = link_to(address), number = *link;
  if (number == 0) return false;
  struct sample_record *record = record_at(number - 1);
  memcpy((void *)copy, (const void *)record, sizeof *copy);
  *link = record->next;
  begin_write(record);
  STORE(record->address, 0);
  /* Until the record is used again a tool can say who allocated what was there, and when it was freed. */
  STORE(record->heap, address);
  STORE(record->since_ms, os_clock_ms());
  end_write(record);
  record->next = first_free;
  first_free = number;
  STORE(samples.live, LOAD(samples.live) - 1);
  return true;
}

/* --- stacks -------------------------------------------------------------------------------------------------- */

enum { WORDS_A_CHUNK = SAMPLE_STACK_CHUNK_BYTES / 8 };

struct sample_stack *stack_at(uint32_t place) {
  char *chunk = LOAD(samples.stack_chunks[place / WORDS_A_CHUNK]);
  return (struct sample_stack *)(void *)(chunk + (size_t)(place % WORDS_A_CHUNK) * 8);
}

static void spread_stacks(const struct table *old) {
  for (uint32_t i = 0; i < old->count; i++)
    for (uint32_t at = old->buckets[i], next; at != 0; at = next) {
      struct sample_stack *stack = stack_at(at);
      uint32_t *bucket = bucket_of(&by_stack, stack->hash >> 1);
      next = stack->next;
      stack->next = *bucket;
      *bucket = at;
    }
}

/* Never 0. The finish of SplitMix64 (Steele, Lea and Flood 2014) over each address. */
static uint64_t hash_of_stack(const uintptr_t *addresses, unsigned depth) {
  uint64_t hash = depth;
  for (unsigned i = 0; i < depth; i++) {
    hash = (hash ^ addresses[i]) * UINT64_C(0xbf58476d1ce4e5b9);
    hash ^= hash >> 29;
  }
  return hash | 1;
}

/* A place of `words`; 0: there is none. */
static uint32_t new_place(uint32_t words) {
  uint32_t place = LOAD(samples.stacks_end);
  if (place == 0) place = 1; /* 0 stands for no stack */
  if (place % WORDS_A_CHUNK + words > WORDS_A_CHUNK)
    place = (place / WORDS_A_CHUNK + 1) * WORDS_A_CHUNK;
  uint32_t chunk = place / WORDS_A_CHUNK;
  if (chunk == SAMPLE_STACK_CHUNKS) return 0;
  if (LOAD(samples.stack_chunks[chunk]) == NULL) {
    char *memory = meta_allocate(SAMPLE_STACK_CHUNK_BYTES, 64);
    if (memory == NULL) return 0;
    *memory = 0; /* as above */
    /* release: as for records */
    atomic_store_explicit(&samples.stack_chunks[chunk], memory, memory_order_release);
  }
  return place;
}

static bool is_same(const struct sample_stack *stack, uint64_t hash, const uintptr_t *addresses,
                    unsigned depth) {
  if (stack->hash != hash || stack->depth != depth) return false;
  for (unsigned i = 0; i < depth; i++)
    if (stack->addresses[i] != addresses[i]) return false;
  return true;
}

uint32_t stack_enter(const uintptr_t *addresses, unsigned depth) {
  struct table old;
  uint64_t hash = hash_of_stack(addresses, depth);
  for (uint32_t at = *bucket_of(&by_stack, hash >> 1); at != 0; at = stack_at(at)->next)
    if (is_same(stack_at(at), hash, addresses, depth)) return at;
  uint64_t count = LOAD(samples.stack_count);
  if (more_buckets(&by_stack, count, &old)) spread_stacks(&old);
  uint32_t words = (uint32_t)(sizeof(struct sample_stack) / 8) + depth, place = new_place(words);
  if (place == 0) return 0;
  struct sample_stack *stack = stack_at(place);
  stack->depth = depth;
  for (unsigned i = 0; i < depth; i++) stack->addresses[i] = addresses[i];
  stack->hash = hash;
  uint32_t *bucket = bucket_of(&by_stack, hash >> 1);
  stack->next = *bucket;
  *bucket = place;
  STORE(samples.stack_count, count + 1);
  /* release: what lies before the end is whole */
  atomic_store_explicit(&samples.stacks_end, place + words, memory_order_release);
  return place;
}
