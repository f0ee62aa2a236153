/* explain_trim.c - see explain.h: hakmem explain --trim.
 *
 * Nothing in the process waits for requests. So its threads are stopped for a moment, and the count of bytes by which each finds
 * its samples is set to a number that takes its next malloc out of the fast path (observe/requests.h). While they stand, the
 * count is not being changed, and its thread cannot end.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "explain.h"
#include "observe/requests.h"
#include "stopped.h"

enum { POLL_MS = 10, ASK_AGAIN_MS = 500, CACHES_MS = 1000 };

static uint64_t field_of(const struct remote *remote, uint64_t address,
                         struct directory_field field) {
  uint64_t value = 0; /* little-endian machines, as everywhere in this tool */
  if (field.bytes > sizeof value || !remote_read(remote, address + field.at, &value, field.bytes))
    return 0;
  return value;
}

/* The address of the count of the heap's thread; 0: it has none. */
static uint64_t count_of(const struct remote *remote, uint64_t heap) {
  const struct directory_layout *layout = &remote->layout;
  uint64_t state = field_of(remote, heap, layout->heap.state);
  uint64_t thread = field_of(remote, heap, layout->heap.thread);
  if (state == layout->heap.parked || state == layout->heap.samples || thread == 0) return 0;
  uint64_t its = field_of(remote, thread, layout->thread.heap);
  uint64_t cache = heap + layout->heap.bins.at;
  return its == cache || its == remote->heap_none ? thread + layout->thread.sample_left.at : 0;
}

/* How many threads were asked; -1: they cannot be stopped. */
static int ask_threads(const struct remote *remote) {
  const int64_t asked = SAMPLE_LEFT_REQUESTED;
  struct stopped stopped;
  int count = 0;
  if (!stopped_begin(&stopped, remote->pid)) return -1;
  uint64_t heap = remote_word(remote, remote->heaps);
  for (int i = 0; heap != 0 && i < HEAPS_MOST; i++) {
    uint64_t at = count_of(remote, heap);
    if (at != 0 && remote_write(remote, at, &asked, sizeof asked)) count++;
    heap = field_of(remote, heap, remote->layout.heap.next);
  }
  stopped_end(&stopped);
  return count;
}

static struct requests read_requests(const struct remote *remote) {
  struct requests requests = {0};
  (void)remote_read(remote, remote->requests, &requests, sizeof requests);
  return requests;
}

/* A question, and whether it was answered. */
struct question {
  size_t place; /* of its number in struct requests */
  uint32_t number, emptied_before;
};

static bool is_answered(const struct question *question, const struct trim *trim,
                        const struct requests *now) {
  if (question->place == offsetof(struct requests, trim))
    return (int32_t)(now->done - question->number) >= 0; /* another tool may ask, too */
  return now->emptied - question->emptied_before >= trim->threads;
}

/* Until it is answered or the time is over. 0, or an exit code after a complaint. */
static int ask(struct trim *trim, const struct remote *remote, const struct question *question,
               uint64_t most_ms, bool *answered) {
  const struct timespec pause = {.tv_nsec = POLL_MS * 1000000};
  uint64_t start = now_ms(), again = start;
  if (!remote_write(remote, remote->requests + question->place, &question->number,
                    sizeof question->number)) {
    complain("process %d (%s): may not be written to: try as its user, or as root", remote->pid,
             remote->program);
    return EXIT_CANNOT_RUN;
  }
  for (*answered = false; !*answered && now_ms() - start < most_ms;) {
    if (now_ms() >= again) {
      int count = ask_threads(remote);
      if (count < 0) {
        complain("process %d (%s): its threads cannot be stopped for the request (%s)%s",
                 remote->pid, remote->program, strerror(errno),
                 errno == EPERM ? ": is a debugger or strace attached, or Yama in the way?" : "");
        return EXIT_CANNOT_RUN;
      }
      trim->threads = (unsigned)count;
      again = now_ms() + ASK_AGAIN_MS;
    }
    nanosleep(&pause, NULL);
    int code = remote_report(remote, remote_look(remote));
    if (code != 0) return code;
    struct requests now = read_requests(remote);
    *answered = is_answered(question, trim, &now);
  }
  return 0;
}

int explain_trim(struct trim *trim, const struct remote *remote, unsigned seconds) {
  if (remote->requests == 0 || remote->layout.thread.sample_left.bytes == 0) {
    complain("process %d (%s): its hakmem (%s, %s) takes no requests; its program may call "
             "malloc_trim(0)",
             remote->pid, remote->program, remote->layout.release, remote->layout.variant);
    return EXIT_CANNOT_RUN;
  }
  struct requests before = read_requests(remote);
  bool answered;
  trim->seconds = seconds;
  struct question caches = {offsetof(struct requests, caches), before.caches + 1, before.emptied};
  uint64_t most_ms = (uint64_t)seconds * 1000;
  int code = ask(trim, remote, &caches, most_ms < CACHES_MS ? most_ms : CACHES_MS, &answered);
  trim->emptied = read_requests(remote).emptied - before.emptied;
  if (trim->emptied > trim->threads) trim->emptied = trim->threads;
  struct question all = {offsetof(struct requests, trim), before.begun + 1, 0};
  if (code == 0) code = ask(trim, remote, &all, most_ms, &trim->done);
  return code;
}
