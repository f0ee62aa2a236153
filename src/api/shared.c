/* shared.c - writes the page of HAKMEM_SHM=1 (observe/shared.h).
 *
 * Nothing of it needs the handlers of fork: the page belongs to the process that made it, and whoever finds another number
 * in `maker` is a child, which leaves its parent's page alone and makes its own. So does the child of a bare clone().
 */
#include "observe/shared.h"

#include <errno.h>
#include <string.h>

#include "api/totals.h"
#include "hakmem.h"
#include "heap/shared_tick.h"
#include "observe/report.h"
#include "os/file.h"

enum { PATH_ROOM = 40 };

static struct shared_figures *page; /* of `maker`; under `writer` */
static _Atomic uint32_t maker;
/* The process of which a thread writes; 0: none. In the child of a fork that thread is not. */
static _Atomic uint32_t writer;
static _Atomic uint64_t due_ms;

static void put_path(char path[PATH_ROOM], uint32_t process) {
  struct report digits;
  report_start_bare(&digits);
  report_number(&digits, process);
  size_t length = sizeof SHARED_DIRECTORY SHARED_NAME - 1;
  memcpy(path, SHARED_DIRECTORY SHARED_NAME, length);
  memcpy(path + length, digits.text, digits.length);
  path[length + digits.length] = 0;
}

static void complain(int error) {
  static bool told; /* of its children, too: the reason is the same */
  struct report line;
  if (told) return;
  told = true;
  report_start(&line);
  report_text(&line, "HAKMEM_SHM: no page in " SHARED_DIRECTORY ": ");
  report_text(&line, os_error_text(error));
  report_text(&line, " (error ");
  report_number(&line, (uint64_t)error);
  report_text(&line, ")");
  report_end(&line);
}

static void make(uint32_t self) {
  char path[PATH_ROOM];
  int error;
  if (page != NULL) (void)os_unmap_unused(page, SHARED_BYTES); /* the parent's */
  put_path(path, self);
  page = os_file_share(path, SHARED_BYTES, &error);
  atomic_store_explicit(&maker, self, memory_order_relaxed);
  if (page == NULL) {
    complain(error);
    return;
  }
  page->version = SHARED_VERSION;
  page->bytes = sizeof *page;
  page->process = self;
  memcpy(page->release, HAKMEM_VERSION_STRING, sizeof HAKMEM_VERSION_STRING);
  memcpy(page->variant, HAK_VARIANT_NAME, sizeof HAK_VARIANT_NAME);
  memcpy(page->magic, SHARED_MAGIC, sizeof page->magic);
}

static void fill(const struct totals *totals) {
  const struct superslab_stats *s = &totals->superslab;
  const struct unit_stats *unit = &totals->unit;
  page->mapped = s->bytes_mapped;
  page->in_use = totals->in_use;
  page->in_bins = totals->in_bins;
  page->pinned = totals->pinned;
  page->cached = totals->cached;
  page->given = totals->given;
  page->metadata = totals->metadata_bytes;
  page->large = s->large_bytes;
  page->huge = s->huge_bytes;
  page->slabs = s->slab_bytes;
  page->huge_live = s->huge_live;
  page->superslabs = s->live;
  page->superslabs_peak = s->peak;
  page->units_warm = unit->units_warm;
  page->heaps_active = totals->heaps_active;
  page->heaps_parked = totals->heaps_parked;
  page->acquired = unit->acquired;
  page->released = unit->released;
  page->fallback_mmap = unit->fallback_mmap;
  page->huge_alloc = unit->huge_alloc;
  page->huge_fail = unit->huge_fail;
  page->decommit_disabled = unit->decommit_disabled;
  page->os_mmap = counters_read(&os_counts.mmap);
  page->os_munmap = counters_read(&os_counts.munmap);
  page->os_mprotect = counters_read(&os_counts.mprotect);
  page->os_madvise = counters_read(&os_counts.madvise);
  page->os_mremap = counters_read(&os_counts.mremap);
  page->os_failed = counters_read(&os_counts.failed);
}

static void write_page(void) {
  struct totals totals;
  if (!totals_try(&totals, true)) return; /* the next one tries again */
  uint32_t sequence = atomic_load_explicit(&page->sequence, memory_order_relaxed);
  atomic_store_explicit(&page->sequence, sequence + 1, memory_order_relaxed);
  os_order_stores(); /* odd before the first figure */
  fill(&totals);
  page->written_ms = os_clock_ms();
  atomic_store_explicit(&page->sequence, sequence + 2, memory_order_release);
}

static void write_if_due(bool may_make) {
  uint64_t now = os_clock_ms(), due = atomic_load_explicit(&due_ms, memory_order_relaxed);
  /* One of several threads that find it due. */
  if (now < due || !atomic_compare_exchange_strong_explicit(
                       &due_ms, &due, now + SHARED_MS, memory_order_relaxed, memory_order_relaxed))
    return;
  uint32_t self = (uint32_t)os_process();
  uint32_t other = atomic_load_explicit(&writer, memory_order_relaxed);
  /* acquire, with the release below: the page is seen as the last writer left it */
  if (other == self || !atomic_compare_exchange_strong_explicit(
                           &writer, &other, self, memory_order_acquire, memory_order_relaxed))
    return;
  bool mine = atomic_load_explicit(&maker, memory_order_relaxed) == self;
  if (!mine && may_make) make(self);
  if ((mine || may_make) && page != NULL) write_page();
  atomic_store_explicit(&writer, 0, memory_order_release);
}

__attribute__((constructor)) HAK_AT_LOAD static void at_load(void) { shared_write = write_if_due; }

static HAK_NOINLINE void remove_page(uint32_t self) {
  char path[PATH_ROOM];
  put_path(path, self);
  os_file_remove(path);
}

__attribute__((destructor)) HAK_AT_LOAD static void at_exit(void) {
  if (page == NULL) return; /* no system call in a program that has none */
  uint32_t self = (uint32_t)os_process();
  if (atomic_load_explicit(&maker, memory_order_relaxed) == self) remove_page(self);
}
