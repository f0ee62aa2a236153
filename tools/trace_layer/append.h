/* append.h - how an event gets into the thread's chunk: the part that runs for each malloc and free.
 *
 * While a thread writes, its chunk is in its hand: `trace_thread.chunk` is a stand-in that is always full. A signal
 * handler that allocates just then finds no room, comes to the slow path, and that knows the stand-in.
 */
#ifndef HAKMEM_TRACE_APPEND_H
#define HAKMEM_TRACE_APPEND_H

#include "os/os.h"
#include "shared.h"

struct trace_thread {
  struct trace_chunk *chunk;  /* its own, or one of the stand-ins below */
  struct trace_event *events; /* of that chunk */
  uint32_t thread, number;    /* its number, and that of its next chunk */
  uint32_t process;           /* value of trace_process that these hold for */
  uint8_t rounds;             /* of destructors at its end */
  bool begun, ended;
  bool calls_out; /* the layer itself calls functions that may allocate */
};

extern _Thread_local struct trace_thread trace_thread HAK_HIDDEN
    __attribute__((tls_model("initial-exec")));
extern struct trace_chunk trace_no_chunk HAK_HIDDEN; /* stand-in: the thread has none */
extern struct trace_chunk trace_in_hand HAK_HIDDEN;  /* stand-in: it is writing to its own */

/* In a page that the child of a fork finds zeroed: it must not write to what is the parent's. */
struct trace_guard {
  _Atomic bool recording; /* relaxed: written by a thread that finds the recorder gone */
};
extern struct trace_guard *trace_guard HAK_HIDDEN;

extern enum trace_clock trace_clock HAK_HIDDEN;

struct trace_room {
  struct trace_chunk *chunk;
  struct trace_event *events; /* NULL: not to be recorded */
};

struct trace_room trace_take_slow(unsigned count) HAK_HIDDEN;
void trace_leave(struct trace_room room) HAK_HIDDEN;

HAK_INLINE bool trace_is_on(void) {
  return atomic_load_explicit(&trace_guard->recording, memory_order_relaxed);
}

/** Room for `count` events in a row. The chunk is in the thread's hand until trace_publish. */
HAK_INLINE struct trace_room trace_take(unsigned count) {
  struct trace_chunk *chunk = trace_thread.chunk;
  uint32_t used = atomic_load_explicit(&chunk->count, memory_order_relaxed);
  if (HAK_UNLIKELY(used + count > TRACE_EVENTS)) return trace_take_slow(count);
  trace_thread.chunk = &trace_in_hand;
  atomic_signal_fence(memory_order_seq_cst);
  return (struct trace_room){chunk, &trace_thread.events[used]};
}

HAK_INLINE void trace_publish(struct trace_room room, unsigned count) {
  uint32_t used = atomic_load_explicit(&room.chunk->count, memory_order_relaxed);
  /* release: who sees the count sees the events, also after the process was killed */
  atomic_store_explicit(&room.chunk->count, used + count, memory_order_release);
  atomic_signal_fence(memory_order_seq_cst);
  if (HAK_UNLIKELY(trace_thread.ended)) trace_leave(room);
  else trace_thread.chunk = room.chunk;
}

/** Ends a turn in which nothing is recorded after all. */
HAK_INLINE void trace_put_back(struct trace_room room) { trace_publish(room, 0); }

HAK_INLINE void trace_write(struct trace_event *event, uint64_t stamp, const void *address,
                            uint64_t size, uint32_t what) {
  event->stamp = stamp;
  /* Masked: a wrong pointer, which ends the program, must not become a wrong operation. */
  event->address_and_what = ((uintptr_t)address & TRACE_ADDRESS_MASK) | (uint64_t)what
                                                                            << TRACE_WHAT_SHIFT;
  event->size = size;
}

uint64_t trace_clock_monotonic(void) HAK_HIDDEN;

/** The time at about this place among the thread's instructions: right where no other thread is concerned. */
HAK_INLINE uint64_t trace_now(void) {
  if (HAK_UNLIKELY(trace_clock != TRACE_CLOCK_COUNTER)) return trace_clock_monotonic();
#if defined(__x86_64__)
  uint32_t low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
  return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
  uint64_t count;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count)::"memory");
  return count;
#else
  return trace_clock_monotonic();
#endif
}

/** The time after everything that this thread has seen so far. The processor may read its clock long before an
 * earlier load has its value, for example the pointer that another thread handed over: a free would then seem to come
 * before its malloc. Costs as much again as the clock (10 ns). */
HAK_INLINE uint64_t trace_now_in_order(void) {
#if defined(__x86_64__)
  __asm__ volatile("lfence" ::: "memory");
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");
#endif
  return trace_now();
}

/** Ticks of the clock in a second. */
extern uint64_t trace_ticks_per_second HAK_HIDDEN;

#endif
