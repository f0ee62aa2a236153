/* races.c - ordinary loads and stores: two of the same bytes by two threads, one of them a store, have to be ordered by
 * happens-before, whatever order the explorer runs them in.
 *
 * The compiler reports each (-fsanitize=thread makes the calls; ThreadSanitizer's own library is not linked). What is remembered
 * of eight bytes: who accessed which of them, when by its own clock, as ThreadSanitizer does (Serebryany and
 * Iskhodzhanov 2009). */
#include <stdatomic.h>
#include <string.h>

#include "explorer.h"

enum { CELLS = 8192, ACCESSES = 12, EXCUSED = 16 };

struct access {
  uint8_t bytes; /* bit i: byte i of the eight */
  uint8_t thread;
  bool write, atomic;
  uint32_t clock;
  unsigned step;
};

static struct cell {
  uintptr_t address; /* / 8 */
  unsigned run, count;
  struct access accesses[ACCESSES];
} cells[CELLS];
static unsigned run_number;

static struct { uintptr_t start, end; } excused[EXCUSED];
static unsigned excused_count;

void races_reset(void) {
  run_number++;
  excused_count = 0;
}

void schedule_excuse_races(const void *start, size_t bytes) {
  if (excused_count == EXCUSED) schedule_fail("races.c excuses %d ranges at most", EXCUSED);
  excused[excused_count].start = (uintptr_t)start;
  excused[excused_count++].end = (uintptr_t)start + bytes;
}

static bool is_excused(uintptr_t address) {
  for (unsigned i = 0; i < excused_count; i++)
    if (address - excused[i].start < excused[i].end - excused[i].start) return true;
  return false;
}

static struct cell *cell_of(uintptr_t address) {
  unsigned at = (unsigned)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 51);
  for (unsigned tries = 0; cells[at].run == run_number && cells[at].address != address; tries++) {
    if (tries == CELLS) schedule_fail("races.c has room for %d words", CELLS);
    at = (at + 1) % CELLS;
  }
  if (cells[at].run != run_number) {
    cells[at].address = address;
    cells[at].run = run_number;
    cells[at].count = 0;
  }
  return &cells[at];
}

static const char *name_of(const struct access *access) {
  if (access->atomic) return access->write ? "atomic store" : "atomic load";
  return access->write ? "store" : "load";
}

static void look(uintptr_t address, struct access now) {
  struct cell *cell = cell_of(address);
  struct access *same = NULL;
  for (unsigned i = 0; i < cell->count; i++) {
    struct access *before = &cell->accesses[i];
    if (before->thread == now.thread) {
      if (before->bytes == now.bytes && before->write == now.write && before->atomic == now.atomic)
        same = before;
      continue;
    }
    if ((before->bytes & now.bytes) == 0 || (!before->write && !now.write) ||
        (before->atomic && now.atomic))
      continue;
    if (before->clock > memory_clock(now.thread, before->thread))
      schedule_fail("race: %s of thread %u after step %u, %s of thread %u after step %u, at %#lx",
                    name_of(before), before->thread, before->step, name_of(&now), now.thread,
                    now.step, (unsigned long)(address * 8));
  }
  if (same == NULL)
    same = &cell->accesses[cell->count < ACCESSES ? cell->count++ : now.step % ACCESSES];
  *same = now;
}

void races_access(unsigned thread, uintptr_t address, size_t bytes, bool write, bool atomic) {
  struct access access = {.thread = (uint8_t)thread,
                          .write = write,
                          .atomic = atomic,
                          .clock = memory_clock(thread, thread),
                          .step = explore_step()};
  if (excused_count > 0 && is_excused(address)) return;
  for (uintptr_t end = address + bytes; address < end;) {
    uintptr_t next = (address / 8 + 1) * 8, stop = next < end ? next : end;
    access.bytes = (uint8_t)(((1U << (stop - address)) - 1) << address % 8);
    look(address / 8, access);
    address = stop;
  }
}

/* --- what the compiler calls ------------------------------------------------------------------------- */

static void plain(const void *address, size_t bytes, bool write) {
  if (running < 0 || thread_owns((uintptr_t)address)) return;
  races_access((unsigned)running, (uintptr_t)address, bytes, write, false);
}

void schedule_plain_read(const void *address, size_t bytes) { plain(address, bytes, false); }
void schedule_plain_write(const void *address, size_t bytes) { plain(address, bytes, true); }

#define ACCESS(size)                                                                               \
  void __tsan_read##size(void *address);                                                           \
  void __tsan_write##size(void *address);                                                          \
  void __tsan_unaligned_read##size(void *address);                                                 \
  void __tsan_unaligned_write##size(void *address);                                                \
  void __tsan_read##size(void *address) { plain(address, size, false); }                           \
  void __tsan_write##size(void *address) { plain(address, size, true); }                           \
  void __tsan_unaligned_read##size(void *address) { plain(address, size, false); }                 \
  void __tsan_unaligned_write##size(void *address) { plain(address, size, true); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

void __tsan_read_range(void *address, size_t bytes);
void __tsan_write_range(void *address, size_t bytes);
void __tsan_init(void);
void __tsan_func_entry(void *caller);
void __tsan_func_exit(void);
void __tsan_read_range(void *address, size_t bytes) { plain(address, bytes, false); }
void __tsan_write_range(void *address, size_t bytes) { plain(address, bytes, true); }
void __tsan_init(void) {}
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void) {}

/* clang's calls for what gcc leaves as calls of libc. */
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memset(void *to, int value, size_t bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
  plain(from, bytes, false);
  plain(to, bytes, true);
  return memcpy(to, from, bytes);
}
void *__tsan_memset(void *to, int value, size_t bytes) {
  plain(to, bytes, true);
  return memset(to, value, bytes);
}
