/* actions.c - the actions with blocks, and the course of an input. */
#include "actions.h"

#include "model.h"
#include "workers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SENTINEL 4711 /* an errno that no call sets */
#define MOST_BYTES                                                                                 \
  ((size_t)192 << 20) /* live at a time: far below what the fuzzers allow a process */
#define MANY_BYTES ((size_t)2 << 20) /* of one action: its time shall be short */
#define NO_PROCESS_HAS ((size_t)1 << 47)

struct run run;

/* --- what a call may do ----------------------------------------------------------------------------- */

struct call call_begin(const char *name) {
  struct call call = {name, run.calls->fault_injected != NULL ? run.calls->fault_injected() : 0};
  atomic_fetch_add_explicit(&run.done, 1, memory_order_relaxed);
  errno = SENTINEL;
  return call;
}

void call_kept_errno(const struct call *call) {
  if (errno != SENTINEL) fuzz_fail("%s changed errno to %d", call->name, errno);
}

void call_refused(const struct call *call, int error, size_t size) {
  fuzz_say("  NULL, error %d", error);
  if (error != ENOMEM) fuzz_fail("%s(%zu) gave NULL with error %d", call->name, size, error);
  if (size >= NO_PROCESS_HAS) return;
  if (run.calls->fault_injected == NULL || run.calls->fault_injected() == call->injected)
    fuzz_fail("%s(%zu) gave NULL though no system call failed in it", call->name, size);
}

static const struct family *family_of(const struct action *action) {
  return &run.calls->families[action->family];
}

/* Sizes that would go beyond what is allowed become small ones; impossible ones stay. */
size_t action_size(size_t size) {
  return size < NO_PROCESS_HAS && size + model_live_bytes() > MOST_BYTES ? size % 4096 : size;
}

void action_keep(const struct action *action, const struct call *call, void *memory, size_t size,
                 size_t alignment, unsigned heap) {
  if (memory == NULL) {
    call_refused(call, errno, size);
    return;
  }
  if (size >= NO_PROCESS_HAS) fuzz_fail("%s(%zu) gave %p", call->name, size, memory);
  size_t usable = family_of(action)->usable_size(memory);
  fuzz_say("  slot %u: %s(%zu), aligned to %zu: %p, %zu usable", action->slot, call->name, size,
           alignment, memory, usable);
  model_add(action->slot, (struct block){memory, size, usable, alignment, 0, 0, heap}, call->name);
}

static void keep(const struct action *action, const struct call *call, void *memory, size_t size,
                 size_t alignment) {
  action_keep(action, call, memory, size, alignment, 0);
}

/* --- free ----------------------------------------------------------------------------------------------- */

static void free_block(const struct action *action, unsigned slot) {
  struct block block = model_take(slot, "before free");
  const struct family *family = family_of(action);
  struct call call = call_begin("free");
  fuzz_say("  slot %u: free %p", slot, (void *)block.start);
  if (action->kind != ACTION_FREE_SIZED || block.start == NULL) family->free(block.start);
  else if (block.alignment == 0) family->free_sized(block.start, block.size);
  else family->free_aligned_sized(block.start, block.alignment, block.size);
  call_kept_errno(&call);
}

void action_clear_slot(const struct action *action) {
  if (model_look(action->slot).start != NULL) free_block(action, action->slot);
}

/* --- allocate --------------------------------------------------------------------------------------------- */

static void do_malloc(const struct action *action) {
  size_t size = action_size(action->size);
  struct call call = call_begin("malloc");
  keep(action, &call, family_of(action)->malloc(size), size, 0);
}

static void do_calloc(const struct action *action) {
  size_t count = action->number % 9, each = action_size(action->size);
  if (each < NO_PROCESS_HAS && count > 0) each = each / count;
  struct call call = call_begin("calloc");
  void *memory = family_of(action)->calloc(count, each);
  size_t size;
  if (__builtin_mul_overflow(count, each, &size)) size = SIZE_MAX;
  if (memory != NULL && size < NO_PROCESS_HAS) model_check_zero(memory, size, "calloc");
  keep(action, &call, memory, size, 0);
}

static bool is_power_of_two(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

static void refused_alignment(const struct call *call, const void *memory, int error,
                              size_t alignment) {
  if (memory != NULL) fuzz_fail("%s aligned to %zu gave %p", call->name, alignment, memory);
  /* A power of two above the limit is as good as one that no memory has. */
  if (error != EINVAL && !(error == ENOMEM && is_power_of_two(alignment)))
    fuzz_fail("%s aligned to %zu: error %d", call->name, alignment, error);
}

#define LARGEST_ALIGNMENT ((size_t)1 << 34)

static void do_aligned_alloc(const struct action *action) {
  size_t alignment = action->alignment, size = action_size(action->size);
  struct call call = call_begin("aligned_alloc");
  void *memory = family_of(action)->aligned_alloc(alignment, size);
  if (!is_power_of_two(alignment) || alignment > LARGEST_ALIGNMENT)
    refused_alignment(&call, memory, errno, alignment);
  else keep(action, &call, memory, size, alignment);
}

static void do_posix_memalign(const struct action *action) {
  size_t alignment = action->alignment, size = action_size(action->size);
  void *untouched = &alignment, *memory = untouched;
  struct call call = call_begin("posix_memalign");
  int error = family_of(action)->posix_memalign(&memory, alignment, size);
  if (errno != (error == ENOMEM ? ENOMEM : SENTINEL))
    fuzz_fail("posix_memalign gave %d and left errno %d", error, errno);
  if (error != 0) {
    if (memory != untouched) fuzz_fail("posix_memalign failed and wrote its result");
    memory = NULL;
  }
  errno = error;
  if (!is_power_of_two(alignment) || alignment < sizeof(void *) || alignment > LARGEST_ALIGNMENT)
    refused_alignment(&call, memory, error, alignment);
  else keep(action, &call, memory, size, alignment);
}

/* What is no power of two is rounded up to one, as with glibc; a block has at least that alignment. */
static void do_memalign(const struct action *action) {
  size_t alignment = action->alignment, size = action_size(action->size);
  struct call call = call_begin("memalign");
  void *memory = run.calls->memalign(alignment, size);
  size_t power = 16;
  while (power < alignment && power <= LARGEST_ALIGNMENT) power *= 2;
  if (alignment > LARGEST_ALIGNMENT) refused_alignment(&call, memory, errno, power);
  else keep(action, &call, memory, size, power);
}

static void do_valloc(const struct action *action) {
  size_t size = action_size(action->size);
  struct call call = call_begin("valloc");
  keep(action, &call, run.calls->valloc(size), size, 4096);
}

static void do_pvalloc(const struct action *action) {
  size_t size = action_size(action->size);
  struct call call = call_begin("pvalloc");
  void *memory = run.calls->pvalloc(size);
  size_t whole = size < NO_PROCESS_HAS ? (size + 4095) & ~(size_t)4095 : size;
  keep(action, &call, memory, whole == 0 ? 4096 : whole, 4096);
}

/* --- resize ----------------------------------------------------------------------------------------------- */

static void resized(const struct action *action, const struct call *call, struct block old,
                    void *memory, size_t size) {
  if (memory == NULL && size == 0 && old.start != NULL) {
    fuzz_say("  slot %u: %s(%p, 0)", action->slot, call->name, (void *)old.start);
    return;
  }
  if (memory == NULL && old.start != NULL) {
    if (size <= old.size)
      fuzz_fail("%s refused to shrink from %zu to %zu", call->name, old.size, size);
    call_refused(call, errno, size);
    model_check_contents(&old, old.filled, "after a refused realloc");
    model_add(action->slot, old, call->name); /* it lives on */
    return;
  }
  if (memory != NULL && old.start != NULL) {
    struct block moved = old;
    moved.start = memory;
    model_check_contents(&moved, old.size < size ? old.size : size, call->name);
  }
  action_keep(action, call, memory, size, 0, old.start != NULL ? old.heap : 0);
}

static void do_realloc(const struct action *action) {
  struct block old = model_take(action->slot, "before realloc");
  size_t size = action_size(action->size);
  struct call call = call_begin("realloc");
  resized(action, &call, old, family_of(action)->realloc(old.start, size), size);
}

static void do_reallocarray(const struct action *action) {
  struct block old = model_take(action->slot, "before reallocarray");
  size_t count = action->number % 9, each = action_size(action->size);
  if (each < NO_PROCESS_HAS && count > 0) each = each / count;
  size_t size;
  if (__builtin_mul_overflow(count, each, &size)) size = SIZE_MAX;
  struct call call = call_begin("reallocarray");
  resized(action, &call, old, family_of(action)->reallocarray(old.start, count, each), size);
}

/* --- many blocks at once: bins overflow, slabs are filled and emptied ------------------------------------------ */

static void do_many(const struct action *action) {
  struct action each = *action;
  unsigned want = (action->number + 1u) * 8;
  size_t size = action_size(action->size);
  if (size > MANY_BYTES / 8) size %= 1024;
  while (want > 8 && want * size > MANY_BYTES) want /= 2;
  each.size = size;
  for (unsigned i = 0; i < want; i++) {
    each.slot = (action->slot + i) % SLOTS;
    if (model_look(each.slot).start == NULL) do_malloc(&each);
  }
}

/* Every so-many-th, from the front or the back. */
static void do_free_many(const struct action *action) {
  unsigned step = 1 + (action->number & 7), range = ((action->number >> 3 & 15) + 1u) * 128;
  bool backwards = action->number >> 7;
  for (unsigned i = 0; i < range; i += step) {
    unsigned slot = (action->slot + (backwards ? range - 1 - i : i)) % SLOTS;
    if (model_look(slot).start != NULL) free_block(action, slot);
  }
}

/* --- the rest ------------------------------------------------------------------------------------------------- */

static void do_usable_size(const struct action *action) {
  struct block block = model_look(action->slot);
  struct call call = call_begin("malloc_usable_size");
  size_t usable = family_of(action)->usable_size(block.start);
  call_kept_errno(&call);
  if (usable != (block.start != NULL ? block.usable : 0))
    fuzz_fail("block %p of %zu bytes had %zu usable ones and now has %zu", (void *)block.start,
              block.size, block.usable, usable);
}

/* As a program with active defragmentation does it. */
static void do_move(const struct action *action) {
  if (run.calls->should_move == NULL) return;
  struct block block = model_look(action->slot);
  bool worth = run.calls->should_move(block.start);
  if (block.start == NULL) {
    if (worth) fuzz_fail("hak_should_move(NULL) is true");
    return;
  }
  block = model_take(action->slot, "before moving");
  struct call call = call_begin("malloc");
  void *memory = family_of(action)->malloc(block.size);
  if (memory == NULL) {
    call_refused(&call, errno, block.size);
    model_add(action->slot, block, "moving");
    return;
  }
  memcpy(memory, block.start, block.size);
  call = call_begin("hak_free_moved");
  run.calls->free_moved(block.start);
  call_kept_errno(&call);
  block.start = memory;
  model_check_contents(&block, block.size, "moving");
  keep(action, &call, memory, block.size, 0);
}

/* The block's first, last and another byte are ours; none of the program's own. */
static void do_owns(const struct action *action) {
  static char on_data;
  if (run.calls->owns == NULL) return;
  if (run.calls->owns(&action) || run.calls->owns(&on_data) || run.calls->owns(NULL))
    fuzz_fail("hak_owns is true for what is not hakmem's");
  struct block block = model_look(action->slot);
  if (block.start == NULL || block.size == 0) return;
  size_t offset = block.size * action->number / 256;
  if (!run.calls->owns(block.start) || !run.calls->owns(block.start + offset) ||
      !run.calls->owns(block.start + block.size - 1))
    fuzz_fail("hak_owns is false for live block %p of %zu bytes", (void *)block.start, block.size);
}

typedef void action_body(const struct action *action);

static action_body *const allocates[ACTION_KINDS] = {
    [ACTION_MALLOC] = do_malloc,
    [ACTION_CALLOC] = do_calloc,
    [ACTION_ALIGNED_ALLOC] = do_aligned_alloc,
    [ACTION_POSIX_MEMALIGN] = do_posix_memalign,
    [ACTION_MEMALIGN] = do_memalign,
    [ACTION_VALLOC] = do_valloc,
    [ACTION_PVALLOC] = do_pvalloc,
};

void action_do(const struct action *action) {
  if (allocates[action->kind] != NULL) {
    action_clear_slot(action);
    allocates[action->kind](action);
    return;
  }
  switch (action->kind) {
  case ACTION_FREE:
  case ACTION_FREE_SIZED:
    free_block(action, action->slot);
    break;
  case ACTION_REALLOC:
    do_realloc(action);
    break;
  case ACTION_REALLOCARRAY:
    do_reallocarray(action);
    break;
  case ACTION_MANY:
    do_many(action);
    break;
  case ACTION_FREE_MANY:
    do_free_many(action);
    break;
  case ACTION_USABLE_SIZE:
    do_usable_size(action);
    break;
  case ACTION_REFILL:
    model_refill(action->slot);
    break;
  case ACTION_MOVE:
    do_move(action);
    break;
  case ACTION_OWNS:
    do_owns(action);
    break;
  case ACTION_HEAP_MALLOC:
    heap_allocate(action);
    break;
  case ACTION_HEAP_END:
    heap_end(action->number);
    break;
  default:
    aside_do(action);
  }
}

/* --- an input ---------------------------------------------------------------------------------------------------- */

void actions_start(void) {
  run.calls = fuzz_calls();
  run.sink = fopen("/dev/null", "w");
  if (run.sink == NULL) fuzz_fail("cannot open /dev/null");
}

void plan_failures(enum plan_kind kind, unsigned number) {
  if (run.calls->fault_reset == NULL) return;
  run.calls->fault_fail_nth(kind == PLAN_NTH ? number + 1u : 0);
  run.calls->fault_fail_from(kind == PLAN_FROM ? number + 1u : 0);
  run.calls->fault_random(number, kind == PLAN_OFTEN ? 200 : kind == PLAN_RARELY ? 20 : 0);
}

/* After all that: the library works as if nothing had been. */
static void finish(void) {
  workers_wait_all(true);
  plan_failures(PLAN_NONE, 0);
  model_check_all("at the end");
  static const size_t sizes[] = {1, 1000, 30000, 100000, 3000000};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
    action_do(&(struct action){ACTION_MALLOC, 0, i % 2, i, sizes[i], 0, 0});
  heaps_end();
  for (unsigned i = 0; i < SLOTS; i++)
    if (model_look(i).start != NULL) free_block(&(struct action){.kind = ACTION_FREE_SIZED}, i);
  if (run.calls->purge == NULL) return;
  run.calls->purge();
  struct hak_stats stats = {.size = sizeof stats};
  if (run.calls->stats_get(&stats) != 0) fuzz_fail("hak_stats_get failed");
  if (stats.huge_live != 0 && run.calls->starts_late)
    fuzz_fail("%llu huge blocks are left", (unsigned long long)stats.huge_live);
}

unsigned long actions_run(const uint8_t *bytes, size_t length) {
  struct input input = {bytes, length};
  run.header = input_header(&input);
  run.forks = run.waits = 0;
  model_start(run.header.fill_usable);
  if (run.calls->fault_reset != NULL) run.calls->fault_reset();
  plan_failures(run.header.plan, run.header.number);
  unsigned long done = 0;
  for (struct action action; input_action(&input, &run.header, &action); done++) {
    fuzz_say("%lu: %s by thread %u", done, input_action_name(action.kind), action.thread);
    /* These are about all threads. */
    if (action.kind == ACTION_THREAD_END) workers_wait(action.thread, true);
    else if (action.kind == ACTION_MALLOC_STATS || action.kind == ACTION_HEAP_END)
      workers_wait_all(false);
    workers_do(&action, run.header.at_once && action.kind != ACTION_HEAP_END);
  }
  finish();
  return done;
}
