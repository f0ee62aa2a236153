/* records.c - the sampler's tables, and a tool that reads them: src/sample/records.c under all schedules.
 *
 * The sampler writes under a lock; a tool reads beside it, without one, from another process. Whatever the order: a record that the
 * tool takes for whole (an even version, the same before and after) has the fields of one sample; a chunk that it sees is
 * there; a stack that lies before the end is whole.
 */
#include <string.h>

#include "sample/records.h"
#include "world.h"

enum { SAMPLES = 2 };

extern uint32_t first_free; /* the source's own */

/* Numbers of a sample tell which one it is. */
static uint64_t address_of(unsigned sample) { return 0x1000 * (uint64_t)(sample + 1); }

static void add(unsigned sample) {
  struct sample_record as = {0};
  uint64_t number = sample + 1;
  STORE(as.size, number * 10);
  STORE(as.weight, number * 100);
  STORE(as.heap, number * 1000);
  STORE(as.stack, (uint32_t)number);
  SCHEDULE_CHECK(record_add(address_of(sample), &as));
}

static void remove_sample(unsigned sample) {
  struct sample_record copy;
  SCHEDULE_CHECK(record_remove(address_of(sample), &copy));
  SCHEDULE_CHECK(LOAD(copy.size) == (sample + 1) * 10);
}

/* --- the sampler ------------------------------------------------------------------------------------------- */

static void add_one(void) { add(0); }

static void add_after_another(void) {
  remove_sample(0);
  add(1);
}

static void resize(void) {
  struct sample_record as = {0};
  STORE(as.size, 20);
  STORE(as.weight, 200);
  record_resize(record_find(address_of(0)), &as);
}

static void enter_stack(void) {
  uintptr_t addresses[2] = {0x71, 0x72};
  SCHEDULE_CHECK(stack_enter(addresses, 2) != 0);
}

/* --- the tool ---------------------------------------------------------------------------------------------- */

static struct sample_record *first_record(void) {
  uint32_t records = atomic_load_explicit(&samples.records, memory_order_acquire);
  struct sample_record *chunk =
      atomic_load_explicit(&samples.record_chunks[0], memory_order_relaxed);
  SCHEDULE_CHECK(records == 0 || chunk != NULL);
  return chunk;
}

/* tools/profile.c reads a record twice, and takes it for whole by the version in both. Between two words that it reads the processor
 * keeps the order, as these loads do. */
static bool read_record(struct sample_record *record, uint64_t *address, uint64_t *size,
                        uint64_t *weight) {
  uint32_t version = atomic_load_explicit(&record->version, memory_order_acquire);
  *address = atomic_load_explicit(&record->address, memory_order_acquire);
  *size = atomic_load_explicit(&record->size, memory_order_acquire);
  *weight = atomic_load_explicit(&record->weight, memory_order_acquire);
  uint32_t after = atomic_load_explicit(&record->version, memory_order_relaxed);
  return version % 2 == 0 && version == after;
}

static void read_beside(void) {
  uint64_t address, size, weight;
  struct sample_record *record = first_record();
  if (record == NULL || !read_record(record, &address, &size, &weight) || address == 0) return;
  SCHEDULE_CHECK(weight == size * 10);
  SCHEDULE_CHECK(address == size / 10 * 0x1000);
}

static void read_resized(void) {
  uint64_t address, size, weight;
  struct sample_record *record = first_record();
  if (record == NULL || !read_record(record, &address, &size, &weight)) return;
  SCHEDULE_CHECK(weight == size * 10);
}

static void read_stack(void) {
  uint32_t end = atomic_load_explicit(&samples.stacks_end, memory_order_acquire);
  if (end == 0) return;
  struct sample_stack *stack = stack_at(1);
  SCHEDULE_CHECK(stack->depth == 2 && stack->hash != 0);
  SCHEDULE_CHECK(stack->addresses[0] == 0x71 && stack->addresses[1] == 0x72);
}

/* --- before and after --------------------------------------------------------------------------------------- */

static void start(void) {
  world_reset_metadata();
  memset((void *)&samples, 0, offsetof(struct samples, stack_chunks));
  atomic_store_explicit(&samples.stack_chunks[0], NULL, memory_order_relaxed);
  atomic_store_explicit(&samples.record_chunks[0], NULL, memory_order_relaxed);
  first_free = 0;
}

static void start_with_one(void) {
  start();
  add(0);
}

static void end(void) {
  SCHEDULE_CHECK(LOAD(samples.live) <= 1);
  unsigned found = 0;
  for (unsigned i = 0; i < SAMPLES; i++) found += record_find(address_of(i)) != NULL;
  SCHEDULE_CHECK(found == LOAD(samples.live));
}

static const struct schedule_case cases[] = {{.name = "first_record",
                                              .start = start,
                                              .body = {add_one, read_beside},
                                              .end = end,
                                              .stale = 5},
                                             {.name = "read_beside",
                                              .start = start_with_one,
                                              .body = {add_after_another, read_beside},
                                              .end = end,
                                              .stale = 3},
                                             {.name = "read_resized",
                                              .start = start_with_one,
                                              .body = {resize, read_resized},
                                              .end = end,
                                              .stale = 5},
                                             {.name = "first_stack",
                                              .start = start,
                                              .body = {enter_stack, read_stack},
                                              .end = end,
                                              .stale = 5},
                                             {.name = NULL}};

static const struct schedule_mutant mutants[] = {
    {"first_record", "free_record", "store", FAULT_RELAXED, "not so: records == 0"},
    {"read_beside", "os_order_stores", "fence", FAULT_DROPPED, "not so"},
    {"read_resized", "os_order_stores", "fence", FAULT_DROPPED, "not so"},
    {"read_beside", "end_write", "store", FAULT_RELAXED, "not so"},
    {"read_resized", "end_write", "store", FAULT_RELAXED, "not so"},
    {"read_resized", "begin_write", "store", FAULT_DROPPED, "not so"},
    {"first_stack", "stack_enter", "store", FAULT_RELAXED, "race"},
    {.in_case = NULL}};

int main(int count, char **arguments) { return schedule_main(count, arguments, cases, mutants); }
