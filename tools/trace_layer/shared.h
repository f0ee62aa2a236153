/* shared.h - the memory between a program that is being recorded and its recorder (`hakmem trace record`).
 *
 * Threads of the program write events into chunks, each into its own; the recorder takes full chunks, and at the
 * end those that are not full, writes them to the file and gives them back. Since the memory belongs to no process,
 * what was written before a program was killed is not lost.
 *
 *   header | what all processes share | a head for each chunk | the chunks' events
 *
 * Processes that the program starts are only counted: they map the second part alone. With --follow they are recorded as well:
 * the memory has TRACE_SEATS such regions then, one for each process that is recorded just now. What all share
 * is that of the first region, the first process's; the others leave that part empty.
 *
 * Who writes what: a chunk is the recorder's while it is free or full and its thread's while it is owned.
 */
#ifndef HAKMEM_TRACE_SHARED_H
#define HAKMEM_TRACE_SHARED_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/** Environment variable: descriptor of the memory and pid of the process to record, "900 1234". Processes that the
 * program starts inherit it and see that it is not for them; a program that the same process executes in its place
 * sees that it is. With --follow it is for all of them, "900 1234 1200": the recorder's pid behind it, in which the memory has the
 * same descriptor. */
#define TRACE_VARIABLE "HAKMEM_LAB_TRACE"

#define TRACE_MAGIC UINT64_C(0x3330454341525448) /* of this layout */

/** Operations, as in the file (docs/trace-format.md). */
enum trace_operation {
  TRACE_MALLOC = 1,
  TRACE_CALLOC,
  TRACE_ALIGNED,
  TRACE_FREE,
  TRACE_REALLOC_OF,
  TRACE_REALLOC_TO,
  TRACE_FAILED,
  TRACE_TOUCHED,
  TRACE_THREAD_END,
};

struct trace_event {
  uint64_t stamp;
  uint64_t
      address_and_what; /* address + (operation + alignment * 256) << 48: programs have addresses of 47
                                bits, on aarch64 48, unless they ask for higher ones */
  uint64_t size;
};

enum { TRACE_WHAT_SHIFT = 48 };
#define TRACE_ADDRESS_MASK ((UINT64_C(1) << TRACE_WHAT_SHIFT) - 1)

static inline uint64_t trace_address(const struct trace_event *event) {
  return event->address_and_what & TRACE_ADDRESS_MASK;
}

static inline uint64_t trace_what(const struct trace_event *event) {
  return event->address_and_what >> TRACE_WHAT_SHIFT;
}

enum {
  TRACE_EVENTS =
      2048, /* of a chunk: 48 KiB, which stay in a processor's cache between the two sides */
  TRACE_CHUNKS =
      4096, /* so many threads at once; memory is taken only by those that were ever used */
  TRACE_FULL_MOST = 128, /* full chunks that may wait for the recorder: 6 MiB */
};

enum trace_state { TRACE_FREE_CHUNK, TRACE_OWNED, TRACE_FULL };

/* A cache line each: `count` changes with each event. */
struct trace_chunk {
  _Alignas(64) _Atomic uint32_t
      count;              /* events written; release by the thread, acquire by the recorder */
  _Atomic uint32_t state; /* enum trace_state */
  uint32_t thread;        /* number of the thread, */
  uint32_t number; /* and of the chunk among those of the thread, from 0: the recorder's order */
};

enum trace_clock { TRACE_CLOCK_MONOTONIC, TRACE_CLOCK_COUNTER };

struct trace_header {
  uint64_t magic; /* of the first region only; once, by the recorder */

  /* The program writes, the recorder too where it says so. */
  _Alignas(64) _Atomic uint32_t
      threads;            /* numbers given out; the recorder sets it back for a new image */
  _Atomic uint32_t used;  /* chunks that were ever taken are below this */
  _Atomic uint32_t image; /* programs that this process executed so far */
  _Atomic uint64_t lost;  /* events that could not be recorded */

  /* Both: sleeping and waking. */
  _Alignas(64) _Atomic uint32_t full; /* full chunks */
  _Atomic uint32_t given; /* futex: the recorder gave chunks back, or accepted an image, or ended */
  _Atomic uint32_t
      waiting; /* set by threads that sleep on `given`, cleared with each change of it */

  /* The recorder writes. */
  _Atomic uint32_t accepted; /* the image that is being recorded */
  _Atomic uint32_t ended;    /* nothing is recorded any more */
};

/* A process that is followed, and its region. The process takes the seat, the recorder sets it free. */
enum { TRACE_SEATS = 64 }; /* recorded at once; 193 MiB of addresses of the recorder each */
struct trace_seat {
  _Atomic int32_t pid;   /* 0: free */
  _Atomic uint32_t asks; /* release by the process, when the rest is written */
  int32_t parent;
  uint32_t forked; /* it goes on with its parent's program */
  uint64_t start;  /* trace_process_start of it: pids are used again */
};

/* All processes, those that the recorded one has started and those that they have, and the recorder.
 *
 * A process that was forked was counted by its parent, which is sure to be there still; one that was started past fork
 * (vfork, posix_spawn) counts itself when it executes a program that loads the library. `known` keeps the first
 * from counting themselves again. */
enum { TRACE_PIDS = 1 << 22, TRACE_PIDS_OF_A_WORD = 32 }; /* the most that Linux has */
struct trace_common {
  /* Once, by the recorder. */
  uint32_t clock; /* enum trace_clock */
  int32_t recorder;
  uint64_t recorder_start; /* trace_process_start of it */
  uint64_t ticks_per_second;
  uint64_t pid_namespace; /* of the recorder; 0: not known */

  /* Any process. */
  _Alignas(64) _Atomic uint32_t started; /* processes */
  _Atomic uint32_t wake;    /* futex: something happened that the recorder has to see */
  _Atomic uint32_t refused; /* processes that found no seat */
  _Atomic uint32_t wanting; /* processes that wait for a seat */

  /* The recorder. */
  _Alignas(64) _Atomic uint32_t recorder_sleeps;
  _Atomic uint32_t looked; /* futex: how often it has looked for processes that have ended */
  _Atomic uint32_t ended;  /* no process is recorded any more */

  struct trace_seat seats[TRACE_SEATS];
  _Atomic uint32_t known[TRACE_PIDS / TRACE_PIDS_OF_A_WORD]; /* a bit for each pid */
};

/* Parts that are mapped by themselves begin where a page of any size does. */
#define TRACE_COMMON_AT ((size_t)64 << 10)
#define TRACE_HEADS_AT ((size_t)640 << 10)
#define TRACE_EVENTS_AT (TRACE_HEADS_AT + TRACE_CHUNKS * sizeof(struct trace_chunk))
#define TRACE_CHUNK_BYTES (TRACE_EVENTS * sizeof(struct trace_event))
#define TRACE_BYTES(chunks) (TRACE_EVENTS_AT + (size_t)(chunks)*TRACE_CHUNK_BYTES)

/** Where the region of a seat begins in the memory. */
#define TRACE_REGION_AT(seat) ((size_t)(seat)*TRACE_BYTES(TRACE_CHUNKS))

_Static_assert(TRACE_BYTES(TRACE_CHUNKS) % TRACE_COMMON_AT == 0, "regions begin at pages");
_Static_assert(sizeof(struct trace_event) == 24, "three stores");
_Static_assert(sizeof(struct trace_header) <= TRACE_COMMON_AT, "the header has a page");
_Static_assert(sizeof(struct trace_common) <= TRACE_HEADS_AT - TRACE_COMMON_AT, "has its part");
_Static_assert(sizeof(struct trace_chunk) == 64, "a line");

static inline struct trace_common *trace_common(struct trace_header *header) {
  return (struct trace_common *)(void *)((char *)header + TRACE_COMMON_AT);
}

static inline struct trace_chunk *trace_chunks(struct trace_header *header) {
  return (struct trace_chunk *)(void *)((char *)header + TRACE_HEADS_AT);
}

static inline struct trace_event *trace_events(struct trace_header *header, uint32_t chunk) {
  return (struct trace_event *)(void *)((char *)header + TRACE_EVENTS_AT +
                                        chunk * TRACE_CHUNK_BYTES);
}

/* Between processes, so not FUTEX_PRIVATE. */
static inline void trace_sleep(_Atomic uint32_t *word, uint32_t value,
                               const struct timespec *most) {
  syscall(SYS_futex, word, FUTEX_WAIT, value, most, NULL, 0);
}

static inline void trace_wake_all(_Atomic uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

#endif
