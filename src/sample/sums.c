/* sums.c - see sums.h. */
#include "sample/sums.h"

#include "sample/records.h"

static uint64_t blocks_of(const struct sample_record *record) {
  double blocks = (double)LOAD(record->weight) / (double)LOAD(record->size);
  return (uint64_t)(blocks * SAMPLE_BLOCK + 0.5);
}

static void add(struct sample_totals *totals, uint64_t count, uint64_t blocks, uint64_t bytes) {
  STORE(totals->samples, LOAD(totals->samples) + count);
  STORE(totals->blocks, LOAD(totals->blocks) + blocks);
  STORE(totals->bytes, LOAD(totals->bytes) + bytes);
}

/* NULL: nobody knows it. */
static struct sample_stack *stack_of(const struct sample_record *record) {
  return LOAD(record->stack) != 0 ? stack_at(LOAD(record->stack)) : NULL;
}

/* --- the peak ------------------------------------------------------------------------------------------------ */

/* Before the stack's figures change. */
static void save_for_peak(struct sample_stack *stack) {
  uint64_t number = LOAD(samples.peak.number);
  if (LOAD(stack->saved_for) == number) return;
  STORE(stack->at_peak.samples, LOAD(stack->allocated.samples) - LOAD(stack->freed.samples));
  STORE(stack->at_peak.blocks, LOAD(stack->allocated.blocks) - LOAD(stack->freed.blocks));
  STORE(stack->at_peak.bytes, LOAD(stack->allocated.bytes) - LOAD(stack->freed.bytes));
  /* release: a tool that sees the number sees what was saved for it */
  atomic_store_explicit(&stack->saved_for, number, memory_order_release);
}

/* How many samples the figures of all stacks stand for; under the samples' lock. Not samples.live: a block that grows elsewhere is out of the
 * records while it moves. */
static uint64_t counted;

static void begin_peak(uint64_t bytes, uint64_t now_ms) {
  STORE(samples.peak.bytes, bytes);
  STORE(samples.peak.samples, counted);
  STORE(samples.peak.since_ms, now_ms);
  STORE(samples.peak.number, LOAD(samples.peak.number) + 1);
}

/* Before the figures of a record's stack change with it. What is at a new peak need not be saved: it is in the figures. */
static void change_live(struct sample_stack *stack, uint64_t live, uint64_t now_ms) {
  STORE(samples.live_bytes, live);
  if (live > LOAD(samples.peak.bytes)) begin_peak(live, now_ms);
  else if (stack != NULL) save_for_peak(stack);
}

/* --- what happens to samples ----------------------------------------------------------------------------------- */

void sums_add(const struct sample_record *record) {
  struct sample_stack *stack = stack_of(record);
  uint64_t weight = LOAD(record->weight);
  counted++;
  change_live(stack, LOAD(samples.live_bytes) + weight, LOAD(record->since_ms));
  if (stack != NULL) add(&stack->allocated, 1, blocks_of(record), weight);
}

/* Neither total ever falls. */
void sums_grow(const struct sample_record *from, const struct sample_record *to) {
  struct sample_stack *stack = stack_of(to);
  uint64_t blocks = blocks_of(from) - blocks_of(to); /* it stands for fewer */
  uint64_t before = LOAD(from->weight), now = LOAD(to->weight);
  change_live(stack, LOAD(samples.live_bytes) - before + now, os_clock_ms());
  if (stack == NULL) return;
  add(&stack->allocated, 0, 0, now > before ? now - before : 0);
  add(&stack->freed, 0, blocks <= INT64_MAX ? blocks : 0, now < before ? before - now : 0);
  if (blocks > INT64_MAX) add(&stack->allocated, 0, 0 - blocks, 0);
}

void sums_free(const struct sample_record *record) {
  struct sample_stack *stack = stack_of(record);
  uint64_t weight = LOAD(record->weight);
  counted--;
  change_live(stack, LOAD(samples.live_bytes) - weight, 0);
  if (stack != NULL) add(&stack->freed, 1, blocks_of(record), weight);
}
