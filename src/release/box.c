/* box.c - see box.h. */
#include "release/box.h"

#include <errno.h>
#include <sys/resource.h>

#include "observe/report.h"
#include "os/text.h"
#include "release/background.h"
#include "superslab/unit_os.h"

int (*box_write)(enum box_reason reason, size_t resident, size_t limit) HAK_START_DATA;

/* A new box shows a fifth more than the last one. */
enum { GROWTH_SHARE = 5 };

/* Bytes that were resident when the last box was written for each reason; 0: none was. Of `process`: a child has boxes of its own. Relaxed: figures. */
static _Atomic size_t last[BOX_REASONS];
static _Atomic int process;
/* What the helper has to write: the reason, and the limit that was reached. Relaxed: the call of the helper orders them. */
static _Atomic uint32_t asked;
static _Atomic size_t asked_limit;
/* Why a box could not be written, an errno or one of these, which nobody has been told of. The helper has no stderr. */
enum { NO_HELPER = -1, NO_FIGURES = -2 };
static _Atomic int failed;

static void notice_process(void) {
  int now = os_process();
  if (atomic_exchange_explicit(&process, now, memory_order_relaxed) == now) return;
  for (int i = 0; i < BOX_REASONS; i++) atomic_store_explicit(&last[i], 0, memory_order_relaxed);
  atomic_store_explicit(&asked, BOX_NOTHING, memory_order_relaxed);
}

static size_t rest(size_t whole, size_t part) { return whole > part ? whole - part : 0; }

/* Bytes until a box is due for that reason, which comes when `left` more are taken. */
static size_t left_for(enum box_reason reason, size_t left, size_t resident) {
  size_t before = atomic_load_explicit(&last[reason], memory_order_relaxed);
  size_t growth = before == 0 ? 0 : rest(before + before / GROWTH_SHARE, resident);
  return left > growth ? left : growth;
}

struct due {
  size_t left; /* 0: now */
  enum box_reason reason;
  size_t limit, resident;
};

static void add(struct due *due, enum box_reason reason, size_t left, size_t limit,
                size_t resident) {
  left = left == SIZE_MAX ? left : left_for(reason, left, resident);
  if (left < due->left) *due = (struct due){left, reason, limit, resident};
}

static struct due look(struct container *container) {
  size_t mapped, resident = os_memory_bytes(&mapped);
  struct due due = {.left = SIZE_MAX};
  size_t at = (size_t)option_value(BLACKBOX_MB) * MIB, space = os_address_space_limit();
  struct container_room room = container_room(container, 0);
  uint64_t limit = container->limit_bytes != 0 ? container->limit_bytes : container->high_bytes;
  if (resident == 0) {
    atomic_store_explicit(&failed, NO_FIGURES, memory_order_relaxed);
    return due;
  }
  if (at > 0) add(&due, BOX_AT, rest(at, resident), at, resident);
  if (space != SIZE_MAX)
    add(&due, BOX_ADDRESS_SPACE, rest(space - space / 10, mapped), space, resident);
  if (room.tight != UINT64_MAX) add(&due, BOX_LIMIT, room.tight, limit, resident);
  return due;
}

/* Not one that is still to come, at 8 MiB. */
static bool has_no_helper(void) {
  return atomic_load_explicit(&purger_helper, memory_order_relaxed) == HELPER_NONE &&
         (!purger_may_have_helper() ||
          atomic_load_explicit(&purger_refused_ms, memory_order_relaxed) != 0);
}

/* A program at full speed would be killed before the helper has written: the thread waits, with all that come to look. */
static void wait_for_helper(uint32_t reason) {
  enum { PATIENCE_MS = 250, STEP_MS = 10 };
  uint64_t until = os_clock_ms() + PATIENCE_MS;
  while (atomic_load_explicit(&asked, memory_order_relaxed) == reason && os_clock_ms() < until &&
         atomic_load_explicit(&purger_helper, memory_order_relaxed) != HELPER_NONE)
    os_sleep_on(&asked, reason, STEP_MS);
}

size_t box_look(struct container *container) {
  notice_process();
  struct due due = look(container);
  if (due.left == 0) {
    /* Here, so that the next look does not ask for it again while the helper writes it. */
    atomic_store_explicit(&last[due.reason], due.resident, memory_order_relaxed);
    atomic_store_explicit(&asked_limit, due.limit, memory_order_relaxed);
    atomic_store_explicit(&asked, due.reason, memory_order_relaxed);
    release_call();
    wait_for_helper(due.reason);
    if (has_no_helper()) atomic_store_explicit(&failed, NO_HELPER, memory_order_relaxed);
  }
  box_complain();
  return due.left;
}

/* For `last`. Not 0, which says that none was written: so many bytes are resident where /proc cannot be read. */
static size_t figure(size_t resident) { return resident > 0 ? resident : 1; }

/* What could not be written is not tried again before the next growth. */
static void write_one(enum box_reason reason, size_t limit, size_t resident) {
  /* Again: it may have grown since it was asked for. */
  atomic_store_explicit(&last[reason], figure(resident), memory_order_relaxed);
  int error = box_write(reason, resident, limit);
  if (error != 0 && error != EBUSY) atomic_store_explicit(&failed, error, memory_order_relaxed);
}

void box_serve(void) {
  uint32_t reason = atomic_load_explicit(&asked, memory_order_relaxed);
  if (reason == BOX_NOTHING) return;
  size_t limit = atomic_load_explicit(&asked_limit, memory_order_relaxed);
  write_one((enum box_reason)reason, limit, os_resident_bytes());
  /* What was asked for meanwhile is written next. */
  (void)atomic_compare_exchange_strong_explicit(&asked, &reason, BOX_NOTHING, memory_order_relaxed,
                                                memory_order_relaxed);
  os_wake(&asked);
}

void box_write_failure(void) {
  if (!box_is_on()) return;
  notice_process();
  size_t resident = os_resident_bytes();
  size_t before = atomic_load_explicit(&last[BOX_FAILURE], memory_order_relaxed);
  /* Of the threads whose allocations fail at the same time one writes. */
  if (left_for(BOX_FAILURE, 0, resident) > 0 ||
      !atomic_compare_exchange_strong_explicit(&last[BOX_FAILURE], &before, figure(resident),
                                               memory_order_relaxed, memory_order_relaxed))
    return;
  write_one(BOX_FAILURE, 0, resident);
  box_complain();
}

void box_write_last(void) {
  if (!box_is_on()) return;
  write_one(BOX_MESSAGE, 0, os_resident_bytes());
  box_complain();
}

static const char *reason_of(int error) {
  if (error == NO_HELPER) return "there is no helper thread";
  return error == NO_FIGURES ? "/proc/thread-self/statm cannot be read" : os_error_text(error);
}

void box_complain(void) {
  static atomic_bool told; /* relaxed: once is enough; of its children, too */
  int error = atomic_exchange_explicit(&failed, 0, memory_order_relaxed);
  if (error == 0 || atomic_exchange_explicit(&told, true, memory_order_relaxed)) return;
  struct report line;
  report_start(&line);
  report_text(&line, "HAKMEM_BLACKBOX: nothing was written to ");
  report_foreign_text(&line, option_blackbox(), text_length(option_blackbox()));
  report_text(&line, ": ");
  report_text(&line, reason_of(error));
  if (error > 0) {
    report_text(&line, " (error ");
    report_number(&line, (uint64_t)error);
    report_text(&line, ")");
  }
  report_end(&line);
}
