/* guarded.c - see guarded.h. */
#include "sample/guarded.h"

#include <string.h>

#include "heap/samples.h"
#include "observe/report.h"
#include "os/fault_handler.h"
#include "policy/options.h"
#include "sample/chance.h"
#include "stack/stack.h"

enum { PATTERN = 0xd5 };

/* Memory that the blocks take at most; the table of places has 28 KiB more. */
#define DATA_BYTES ((size_t)GUARDED_SLOTS_MOST * 4 * KIB)

struct guarded_slot guarded_slots[GUARDED_SLOTS_MOST];
_Static_assert(DATA_BYTES + sizeof guarded_slots <= 512 * KIB, "the bound of the manual");
static unsigned slot_count; /* 0: not made yet */
static bool refused;        /* there was no memory for the places */
static uint64_t order, taken;
struct guarded_pages guarded_pages;
/* Written under the lock; relaxed: statistics read it any time. */
static _Atomic uint64_t live_bytes;

uint64_t guarded_live_bytes(void) {
  return atomic_load_explicit(&live_bytes, memory_order_relaxed);
}

/* --- chance ------------------------------------------------------------------------------------------------ */

/* One process in HAKMEM_GUARD_PROCESSES has any. Drawn once; a fork's child is as its parent. */
static bool process_has_any(uint64_t *random) {
  enum { UNKNOWN, NO, YES };
  static _Atomic uint8_t drawn; /* relaxed: one of the threads that draw decides for all */
  uint8_t now = atomic_load_explicit(&drawn, memory_order_relaxed);
  if (now == UNKNOWN) {
    uint64_t of = (uint64_t)option_value(GUARD_PROCESSES);
    uint8_t mine = chance_next(random) % of == 0 ? YES : NO;
    if (atomic_compare_exchange_strong_explicit(&drawn, &now, mine, memory_order_relaxed,
                                                memory_order_relaxed))
      now = mine;
  }
  return now == YES;
}

bool guarded_is_due(size_t size, size_t alignment, uint64_t *random) {
  uint64_t one_in = (uint64_t)option_value(GUARD_SAMPLE);
  if (HAK_LIKELY(one_in == 0)) return false;
  return size <= os_page_size() && alignment <= os_page_size() &&
         chance_next(random) % one_in == 0 && process_has_any(random);
}

/* --- places ------------------------------------------------------------------------------------------------- */

/* Of page number 2 * i + 1; those between cannot be touched. */
static char *page_of(const struct guarded_slot *slot) {
  uintptr_t base = atomic_load_explicit(&guarded_pages.base, memory_order_relaxed);
  return (char *)base + (2 * (size_t)(slot - guarded_slots) + 1) * os_page_size();
}

static bool on_fault(void *address, bool knows_write, bool is_write);

static bool make_places(void) {
  if (slot_count > 0 || refused) return slot_count > 0;
  size_t page = os_page_size(), count = DATA_BYTES / page;
  if (count > GUARDED_SLOTS_MOST) count = GUARDED_SLOTS_MOST;
  size_t bytes = (2 * count + 1) * page;
  char *base = os_map(bytes);
  refused = base == NULL || !os_protect(base, bytes, false);
  if (refused) return false;
  atomic_store_explicit(&guarded_pages.base, (uintptr_t)base, memory_order_relaxed);
  atomic_store_explicit(&guarded_pages.bytes, bytes, memory_order_relaxed);
  os_catch_faults(on_fault);
  slot_count = (unsigned)count;
  return true;
}

static struct guarded_slot *next_slot(void) {
  struct guarded_slot *next = NULL;
  for (unsigned i = 0; i < slot_count; i++)
    if (guarded_slots[i].state != SLOT_LIVE && !guarded_slots[i].busy && !guarded_slots[i].told &&
        (next == NULL || guarded_slots[i].order < next->order))
      next = &guarded_slots[i];
  return next;
}

static void note(struct guarded_event *event, struct guarded_call call) {
  event->thread = os_thread();
  event->depth = call.depth < GUARDED_DEPTH ? call.depth : GUARDED_DEPTH;
  memcpy(event->addresses, call.addresses, event->depth * sizeof event->addresses[0]);
}

/* A handler may have interrupted who holds it. */
static bool acquire(void) {
  bool mine = lock_holder(&heap_samples.lock) == LOCK_MINE;
  if (!mine) lock_acquire(&heap_samples.lock);
  return !mine;
}

static void release(bool acquired) {
  if (acquired) lock_release(&heap_samples.lock);
}

static struct guarded_slot *claim(bool *at_end) {
  lock_acquire(&heap_samples.lock);
  struct guarded_slot *slot = make_places() ? next_slot() : NULL;
  if (slot != NULL) slot->busy = true;
  *at_end = taken++ % 2 == 0;
  lock_release(&heap_samples.lock);
  return slot;
}

void *guarded_take(size_t size, size_t alignment, struct guarded_call by) {
  bool at_end;
  struct guarded_slot *slot = claim(&at_end);
  if (slot == NULL) return NULL;
  char *page = page_of(slot);
  size_t bytes = os_page_size(), before = at_end ? (bytes - size) & ~(alignment - 1) : 0;
  bool opened = os_protect(page, bytes, true);
  if (opened) {
    memset(page, PATTERN, before);
    memset(page + before + size, PATTERN, bytes - before - size);
  }
  lock_acquire(&heap_samples.lock);
  slot->busy = false;
  if (opened) {
    slot->block = (uintptr_t)page + before;
    slot->size = (uint32_t)size;
    slot->state = SLOT_LIVE;
    atomic_fetch_add_explicit(&live_bytes, size, memory_order_relaxed);
    note(&slot->allocated, by);
  }
  lock_release(&heap_samples.lock);
  return opened ? page + before : NULL;
}

/* The slot whose page it is, or beside whose block it lies most likely. */
static struct guarded_slot *slot_near(const void *pointer) {
  size_t page = os_page_size();
  size_t offset =
      (uintptr_t)pointer - atomic_load_explicit(&guarded_pages.base, memory_order_relaxed);
  size_t number = offset / page;
  if (number % 2 == 1) return &guarded_slots[number / 2];
  size_t after = number / 2 < slot_count ? number / 2 : slot_count - 1;
  size_t before = number > 0 ? number / 2 - 1 : 0;
  bool is_overflow = guarded_slots[before].state != SLOT_NEW && offset % page < page / 2;
  return &guarded_slots[is_overflow || guarded_slots[after].state == SLOT_NEW ? before : after];
}

const char *guarded_judge(const void *pointer, size_t *size) {
  const struct guarded_slot *slot = slot_near(pointer);
  *size = slot->size;
  if (slot->state == SLOT_NEW || (uintptr_t)pointer - slot->block > slot->size)
    return REPORT_FOREIGN;
  if ((uintptr_t)pointer != slot->block) return REPORT_INTERIOR;
  return slot->state == SLOT_LIVE ? NULL : REPORT_DOUBLE_FREE;
}

const void *guarded_start(const void *pointer, size_t *size) {
  const struct guarded_slot *slot = slot_near(pointer);
  *size = slot->size;
  bool inside = slot->state == SLOT_LIVE && (uintptr_t)pointer - slot->block < slot->size;
  return inside ? (const void *)slot->block : NULL;
}

bool guarded_is_live(const void *pointer) {
  size_t size;
  return guarded_start(pointer, &size) != NULL;
}

/* --- reports ------------------------------------------------------------------------------------------------ */

static void tell_stack(const char *what, const struct guarded_event *event) {
  struct report line;
  report_start(&line);
  report_text(&line, "  thread ");
  report_number(&line, (uint64_t)event->thread);
  report_text(&line, what);
  if (event->depth == 0) report_text(&line, " (stack unknown)");
  report_end(&line);
  for (unsigned i = 0; i < event->depth; i++) {
    const char *file;
    uintptr_t offset = event->addresses[i];
    bool known = stack_object(event->addresses[i], &file, &offset);
    report_start(&line);
    report_text(&line, "    ");
    if (known) report_foreign_text(&line, file, strlen(file));
    report_text(&line, known ? "+" : "");
    report_pointer(&line, (const void *)(offset - 1)); /* in the call, not behind it */
    report_end(&line);
  }
}

/* "24 bytes into", "1 byte behind". */
static void tell_place(struct report *line, const struct guarded_slot *slot, uintptr_t address) {
  uintptr_t end = slot->block + slot->size;
  const char *side = "into";
  uint64_t distance = address - slot->block;
  if (address < slot->block) {
    side = "before";
    distance = slot->block - address;
  } else if (address >= end) {
    side = "behind the end of";
    distance = address - end;
  }
  report_number(line, distance);
  report_text(line, distance == 1 ? " byte " : " bytes ");
  report_text(line, side);
}

/* A page is closed while nothing lives there. */
static const char *kind_of(const struct guarded_slot *slot, uintptr_t page, uintptr_t address) {
  uintptr_t own = slot->block & ~(uintptr_t)(os_page_size() - 1);
  if (slot->state == SLOT_FREED || page == own) return "use after free";
  return address < slot->block ? "underflow" : "overflow";
}

/* The first thread that tells of a mistake ends the program; others wait, since their end would cut it off. relaxed: no other memory is
 * handed over. */
static void wait_for_who_tells(void) {
  enum { PATIENCE_MS = 2000 };
  static _Atomic uint32_t teller;
  uint32_t self = (uint32_t)os_thread(), other = 0;
  if (option_value(GUARD_RECOVER) ||
      atomic_compare_exchange_strong_explicit(&teller, &other, self, memory_order_relaxed,
                                              memory_order_relaxed) ||
      other == self)
    return;
  uint64_t end = os_clock_ms() + PATIENCE_MS, now;
  while ((now = os_clock_ms()) < end) os_sleep_on(&teller, other, (uint32_t)(end - now));
}

/* The first error of a block alone. Written without the lock: stderr may be slow. `what`: NULL: the processor found it. */
static void tell(const char *what, struct guarded_slot *of, uintptr_t address,
                 const struct guarded_event *event, const char *happened) {
  struct report line;
  wait_for_who_tells();
  bool acquired = acquire();
  struct guarded_slot copy = *of, *slot = &copy;
  of->told = true;
  release(acquired);
  if (slot->told || slot->state == SLOT_NEW) return;
  uintptr_t page = address & ~(uintptr_t)(os_page_size() - 1);
  report_start(&line);
  report_text(&line, what != NULL ? what : kind_of(slot, page, address));
  report_text(&line, ": ");
  report_pointer(&line, (const void *)address);
  report_text(&line, ", ");
  tell_place(&line, slot, address);
  report_text(&line, slot->state == SLOT_LIVE ? " a block of " : " a freed block of ");
  report_number(&line, slot->size);
  report_text(&line, " bytes at ");
  report_pointer(&line, (const void *)slot->block);
  report_end(&line);
  tell_stack(happened, event);
  if (slot->state == SLOT_FREED) tell_stack(" had freed it here:", &slot->freed);
  tell_stack(" had allocated it here:", &slot->allocated);
  if (!option_value(GUARD_RECOVER)) return;
  report_start(&line);
  report_text(&line, "  the program goes on (HAKMEM_GUARD_RECOVER=1)");
  report_end(&line);
}

static struct guarded_event event_here(void) {
  uintptr_t addresses[GUARDED_DEPTH];
  struct guarded_event event;
  note(&event, (struct guarded_call){addresses, stack_take(addresses, GUARDED_DEPTH, false)});
  return event;
}

void guarded_explain(const char *function, const void *pointer, const char *wrong) {
  struct guarded_event event = event_here();
  struct report what;
  report_start_bare(&what);
  report_text(&what, function);
  report_text(&what, "(): ");
  report_text(&what, wrong);
  what.text[what.length] = 0;
  tell(what.text, slot_near(pointer), (uintptr_t)pointer, &event, " called it here:");
}

/* --- what the processor finds --------------------------------------------------------------------------------- */

/* True: the program goes on, and finds the page open. */
static bool on_fault(void *address, bool knows_write, bool is_write) {
  if (!guarded_has(address)) return false;
  struct guarded_event event = event_here();
  if (event.depth > 0) /* where the kernel called the handler from */
    memmove(event.addresses, event.addresses + 1, --event.depth * sizeof event.addresses[0]);
  if (event.depth > 0) event.addresses[0]++; /* the very instruction, no return address */
  tell(NULL, slot_near(address), (uintptr_t)address, &event,
       !knows_write ? " touched it here:"
       : is_write   ? " wrote to it here:"
                    : " read it here:");
  char *page = (char *)((uintptr_t)address & ~(uintptr_t)(os_page_size() - 1));
  if (!option_value(GUARD_RECOVER) || !os_protect(page, os_page_size(), true)) os_abort();
  return true;
}

/* The first byte beside the block that is not as it was; NULL: all are. */
static const char *written_beside(const struct guarded_slot *slot) {
  const char *page = page_of(slot), *block = (const char *)slot->block;
  for (const char *at = page; at < page + os_page_size(); at++)
    if ((at < block || at >= block + slot->size) && *at != (char)PATTERN) return at;
  return NULL;
}

void guarded_put(void *block, struct guarded_call by) {
  struct guarded_slot *slot = slot_near(block);
  const char *written = written_beside(slot);
  struct guarded_event event;
  note(&event, by);
  if (written != NULL) {
    tell("written beside a block", slot, (uintptr_t)written, &event, " found it in free, here:");
    if (!option_value(GUARD_RECOVER)) os_abort();
  }
  lock_acquire(&heap_samples.lock);
  slot->freed = event;
  if (slot->state == SLOT_LIVE)
    atomic_fetch_sub_explicit(&live_bytes, slot->size, memory_order_relaxed);
  slot->state = SLOT_FREED;
  slot->busy = true;
  slot->order = ++order; /* behind those that were never used */
  lock_release(&heap_samples.lock);
  (void)os_decommit(page_of(slot), os_page_size());
  (void)os_protect(page_of(slot), os_page_size(), false);
  lock_acquire(&heap_samples.lock);
  slot->busy = false;
  lock_release(&heap_samples.lock);
}
