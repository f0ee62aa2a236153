/* memory.c - words and what was stored in them, and what a thread may still see of it.
 *
 * Each word keeps all stores of a run. A thread has a view: of each word the oldest store that it may still read, and how far it
 * knows of what the others did (a vector clock). A store carries a view, which who reads it with acquire takes over:
 * the writer's own with release, else what its last release fence had. So a load gets any store from its view on, which is
 * what C11's coherence and happens-before allow for stores that are in one order. After the view machines of Kang and others,
 * "A Promising Semantics for Relaxed-Memory Concurrency" (2017), without the promises; loom and relacy do the same with a history.
 */
#include <stdatomic.h>
#include <string.h>

#include "explorer.h"

enum { WORDS = 192, WORD_TABLE = 1024, HISTORY = 96, STORES = 2048 };

struct view {
  uint16_t seen[WORDS];
  uint32_t clock[SCHEDULE_THREADS];
};

struct store {
  uint64_t value;
  struct view view;
};

struct word {
  uintptr_t address;
  uint8_t size;
  uint16_t last; /* index of the newest store */
  struct store *stores[HISTORY];
};

static struct word words[WORDS];
static unsigned word_count;
static struct {
  uintptr_t address;
  unsigned run, word;
} word_table[WORD_TABLE];
static struct store stores[STORES];
static unsigned store_count;
static unsigned run_number;

static struct {
  struct view now, fenced /* by a release fence */,
      heard /* by relaxed loads, for an acquire fence */;
} views[SCHEDULE_THREADS];
static struct view in_sequence; /* what all seq_cst operations but loads have seen so far */

static void clear(struct view *view) {
  memset(view->seen, 0, word_count * sizeof view->seen[0]);
  memset(view->clock, 0, sizeof view->clock);
}

static void join_seen(struct view *to, const struct view *from) {
  for (unsigned i = 0; i < word_count; i++)
    if (from->seen[i] > to->seen[i]) to->seen[i] = from->seen[i];
}

static void join(struct view *to, const struct view *from) {
  join_seen(to, from);
  for (unsigned i = 0; i < SCHEDULE_THREADS; i++)
    if (from->clock[i] > to->clock[i]) to->clock[i] = from->clock[i];
}

void memory_reset(void) {
  for (unsigned i = 0; i < SCHEDULE_THREADS; i++) {
    clear(&views[i].now);
    clear(&views[i].fenced);
    clear(&views[i].heard);
    views[i].now.clock[i] = 1;
  }
  clear(&in_sequence);
  for (unsigned i = 0; i < store_count; i++) clear(&stores[i].view);
  word_count = store_count = 0;
  run_number++;
}

uint32_t memory_clock(unsigned thread, unsigned of) { return views[thread].now.clock[of]; }

/* --- words ----------------------------------------------------------------------------------------- */

static uint64_t read_memory(uintptr_t address, size_t size) {
  uint64_t value = 0;
  memcpy(&value, (const void *)address, size);
  return value;
}

static void write_memory(uintptr_t address, size_t size, uint64_t value) {
  memcpy((void *)address, &value, size);
}

static struct store *new_store(struct word *word, uint64_t value) {
  if (store_count == STORES || word->last + 1 == HISTORY)
    schedule_fail("the run has more stores than memory.c has room for: it may never end");
  struct store *store = &stores[store_count++];
  store->value = value;
  word->stores[word->last] = store;
  return store;
}

static struct word *word_at(uintptr_t address, uint8_t size) {
  unsigned at = (unsigned)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 54);
  while (word_table[at].run == run_number && word_table[at].address != address)
    at = (at + 1) % WORD_TABLE;
  if (word_table[at].run == run_number) {
    struct word *word = &words[word_table[at].word];
    uint64_t value = read_memory(address, size);
    if (value == word->stores[word->last]->value) return word;
    /* By an ordinary store, which races.c looks at: ordered before this. */
    word->last++;
    new_store(word, value);
    for (unsigned i = 0; i < SCHEDULE_THREADS; i++) views[i].now.seen[word - words] = word->last;
    return word;
  }
  if (word_count == WORDS) schedule_fail("memory.c has room for %d words", WORDS);
  word_table[at].address = address;
  word_table[at].run = run_number;
  word_table[at].word = word_count;
  struct word *word = &words[word_count++];
  word->address = address;
  word->size = size;
  word->last = 0;
  new_store(word, read_memory(address, size)); /* from before the first step: all know it */
  return word;
}

static struct store *last_store(const struct word *word) { return word->stores[word->last]; }

/* --- orders ---------------------------------------------------------------------------------------- */

static bool acquires(int order) {
  return order == memory_order_acquire || order == memory_order_consume ||
         order == memory_order_acq_rel || order == memory_order_seq_cst;
}

static bool releases(int order) {
  return order == memory_order_release || order == memory_order_acq_rel ||
         order == memory_order_seq_cst;
}

static void read_from(unsigned thread, struct word *word, unsigned store, int order) {
  uint16_t *seen = &views[thread].now.seen[word - words];
  if (store > *seen) *seen = (uint16_t)store;
  join(acquires(order) ? &views[thread].now : &views[thread].heard, &word->stores[store]->view);
}

/* `changes`: it is part of a read-modify-write, and so belongs to the release sequence of what it replaces. */
static void write_to(unsigned thread, struct word *word, uint64_t value, int order, bool changes) {
  const struct store *before = last_store(word);
  word->last++;
  struct store *store = new_store(word, value);
  views[thread].now.seen[word - words] = word->last;
  join(&store->view, releases(order) ? &views[thread].now : &views[thread].fenced);
  store->view.seen[word - words] = word->last;
  if (changes) join(&store->view, &before->view);
  write_memory(word->address, word->size, value);
}

/* --- operations ------------------------------------------------------------------------------------ */

/* Which store a load gets: the newest first. */
static unsigned pick(unsigned thread, const struct word *word) {
  unsigned oldest = views[thread].now.seen[word - words];
  if (threads[thread].stale == 0 || oldest == word->last) return word->last;
  unsigned back = explore_choose(word->last - oldest + 1);
  if (back > 0) threads[thread].stale--;
  return word->last - back;
}

static void do_load(unsigned thread, struct request *request, struct word *word) {
  unsigned store = pick(thread, word);
  read_from(thread, word, store, request->order);
  request->result = word->stores[store]->value;
  explore_note(thread, "load", request->order, request->site, "%#llx%s",
               (unsigned long long)request->result, store == word->last ? "" : " (an older one)");
}

static uint64_t changed(uint64_t was, uint64_t value, enum schedule_change how) {
  switch (how) {
  case SCHEDULE_ADD:
    return was + value;
  case SCHEDULE_SUB:
    return was - value;
  case SCHEDULE_AND:
    return was & value;
  case SCHEDULE_OR:
    return was | value;
  case SCHEDULE_XOR:
    return was ^ value;
  default:
    return value;
  }
}

static uint64_t low_bytes(uint64_t value, size_t size) {
  return size == 8 ? value : value & ((UINT64_C(1) << size * 8) - 1);
}

static void do_change(unsigned thread, struct request *request, struct word *word) {
  static const char *const names[] = {"exchange", "add", "sub", "and", "or", "xor"};
  uint64_t was = last_store(word)->value,
           now = low_bytes(changed(was, request->value, request->how), request->size);
  read_from(thread, word, word->last, request->order);
  write_to(thread, word, now, request->order, true);
  request->result = was;
  explore_note(thread, names[request->how], request->order, request->site, "%#llx -> %#llx",
               (unsigned long long)was, (unsigned long long)now);
}

/* It fails with the value of any store that is not as expected; and a weak one without cause. */
static void do_swap(unsigned thread, struct request *request, struct word *word) {
  unsigned oldest = views[thread].now.seen[word - words], found[HISTORY], count = 0;
  bool equal = last_store(word)->value == request->expected;
  found[count++] = word->last;
  for (unsigned i = word->last; threads[thread].stale > 0 && i-- > oldest;)
    if (word->stores[i]->value != request->expected) found[count++] = i;
  bool may_fail = request->weak && equal && threads[thread].spurious > 0;
  unsigned which = explore_choose(count + may_fail);
  bool for_nothing = which == count;
  unsigned store = for_nothing ? word->last : found[which];
  if (for_nothing) threads[thread].spurious--;
  else if (which > 0) threads[thread].stale--;
  request->done = equal && which == 0;
  read_from(thread, word, store, request->done ? request->order : request->failure);
  request->result = word->stores[store]->value;
  if (request->done) write_to(thread, word, request->value, request->order, true);
  explore_note(thread, "compare", request->order, request->site, "%#llx -> %#llx: %s%#llx",
               (unsigned long long)request->expected, (unsigned long long)request->value,
               request->done ? "done, "
               : for_nothing ? "fails without cause, "
                             : "fails, ",
               (unsigned long long)request->result);
}

static void do_fence(unsigned thread, struct request *request) {
  if (acquires(request->order)) join(&views[thread].now, &views[thread].heard);
  if (releases(request->order)) {
    views[thread].fenced = views[thread].now;
  }
  explore_note(thread, "fence", request->order, request->site, "%s", "");
}

static void do_sleep(unsigned thread, struct request *request, struct word *word) {
  struct thread *self = &threads[thread];
  read_from(thread, word, word->last, memory_order_relaxed); /* the kernel compares what is there */
  self->sleeps = last_store(word)->value == request->value;
  request->slept = SCHEDULE_NO_SLEEP;
  explore_note(thread, "sleep", memory_order_relaxed, request->site, "%#llx: %s",
               (unsigned long long)request->value, self->sleeps ? "sleeps" : "has changed");
}

/* A sleeper is chosen to go on, whom nobody woke. */
static void end_sleep(unsigned thread, bool alone) {
  struct thread *self = &threads[thread];
  bool time = self->request.timed && (alone || self->timeouts > 0), signal = self->signals > 0;
  bool by_signal = signal && (!time || explore_choose(2) == 1);
  self->sleeps = false;
  self->request.slept = by_signal ? SCHEDULE_NO_SLEEP : SCHEDULE_TIME_OVER;
  if (by_signal) self->signals--;
  else if (!alone) self->timeouts--;
  explore_note(thread, "awake", memory_order_relaxed, self->request.site, "%s",
               by_signal ? "by a signal" : "time is over");
}

static void do_wake(unsigned thread, struct request *request) {
  unsigned sleepers[SCHEDULE_THREADS], count = 0;
  for (unsigned i = 0; i < thread_count; i++)
    if (threads[i].sleeps && threads[i].request.address == request->address) sleepers[count++] = i;
  request->done = count > 0;
  unsigned first = request->all ? 0 : explore_choose(count > 0 ? count : 1);
  unsigned end = request->all ? count : count > 0 ? first + 1 : 0;
  explore_note(thread, "wake", memory_order_relaxed, request->site, "%s",
               count == 0 ? "nobody sleeps" : "");
  for (unsigned i = first; i < end; i++) {
    struct thread *woken = &threads[sleepers[i]];
    woken->sleeps = false;
    woken->request.slept = SCHEDULE_WOKEN;
    explore_note(sleepers[i], "awake", memory_order_relaxed, woken->request.site, "woken");
    thread_go_on(sleepers[i]);
  }
}

void memory_do(unsigned thread, bool alone) {
  struct request *request = &threads[thread].request;
  bool in_order = request->order == memory_order_seq_cst && request->what <= DO_FENCE;
  if (threads[thread].sleeps) {
    end_sleep(thread, alone);
    return;
  }
  struct word *word = NULL;
  if (request->address != 0 && request->what != DO_WAKE)
    word = word_at(request->address, request->size);
  if (in_order) join_seen(&views[thread].now, &in_sequence);
  if (word != NULL) {
    bool writes = request->what != DO_LOAD && request->what != DO_SLEEP;
    races_access(thread, request->address, request->size, writes, true);
  }
  switch (request->what) {
  case DO_LOAD:
    do_load(thread, request, word);
    break;
  case DO_STORE:
    write_to(thread, word, request->value, request->order, false);
    explore_note(thread, "store", request->order, request->site, "%#llx",
                 (unsigned long long)request->value);
    break;
  case DO_CHANGE:
    do_change(thread, request, word);
    break;
  case DO_SWAP:
    do_swap(thread, request, word);
    break;
  case DO_FENCE:
    do_fence(thread, request);
    break;
  case DO_SLEEP:
    do_sleep(thread, request, word);
    break;
  case DO_WAKE:
    do_wake(thread, request);
    break;
  case DO_YIELD:
    threads[thread].yielded = true;
    break;
  }
  if (in_order && request->what != DO_LOAD) join_seen(&in_sequence, &views[thread].now);
  views[thread].now.clock[thread]++;
}

static bool is_in_sequence(const struct request *request) {
  return request->what <= DO_FENCE && request->order == memory_order_seq_cst;
}

bool memory_is_independent(const struct request *one, const struct request *other) {
  if (one->what == DO_YIELD || other->what == DO_YIELD) return false;
  bool loads = one->what == DO_LOAD && other->what == DO_LOAD;
  if (is_in_sequence(one) && is_in_sequence(other) && !loads) return false;
  if (one->address == 0 || other->address == 0) return true;
  bool apart =
      one->address + one->size <= other->address || other->address + other->size <= one->address;
  return apart || loads;
}
