/* purger.h - what heaps and the purger, which lies above them (release/release.h), tell each other.
 *
 * Nothing here calls the purger. A call into the heap room that finds it wanted notes so in cache->deferred; the slow half
 * of malloc or free that made the call answers when it has returned (release_answer). The end of the last thread, which no
 * slow half sees, rings the bell that the purger's helper thread sleeps on. The words and locks that a fork has to look
 * after are here as well, for the fork handlers belong to this room.
 */
#ifndef HAK_PURGER_H
#define HAK_PURGER_H

#include "heap/heap.h"

/* Free memory that is worth a call of the purger, shared out among the heaps: a RELEASE_SHARE-th of what is mapped, within these. The least is
 * also what one call of the program's own gives back at most: 60 us where the pages lie side by side, 300 us where they do not. More than
 * the most does not wait in an inbox for refills, if the home's own threads free it. */
#define RELEASE_LEAST (1 * MIB)
#define RELEASE_MOST (8 * MIB)
enum { RELEASE_SHARE = 64 };
/* Not worth another scan. */
#define RELEASE_LEFT_OVER (RELEASE_LEAST / 4)

/* A heap that gave memory back as it grew (release/growth.h) regrets it when so large a part is soon in use again. One in which nothing is left
 * to give tries again when it has grown by so large a part. */
enum { REGRET_SHARE = 4 };

/* Bits of cache->deferred. */
enum {
  DEFERRED_PURGE = 1,        /* enough is free: call the purger */
  DEFERRED_CHECK = 2,        /* slabs may have become slices: is enough free below the heaps? */
  DEFERRED_READY = 4,        /* memory grew: be ready for a call */
  DEFERRED_GROWTH_PURGE = 8, /* memory grew beyond what it ever was, and much of it is free */
  DEFERRED_COLLAPSE = 16     /* memory grew by a huge page: an older SuperSlab is to become one */
};

/* --- when enough memory waits in a heap -------------------------------------------------------------- */

/** Has the heap gathered enough free memory since it was last least? The caller holds arena->lock. */
bool purger_is_due(struct arena *arena);
/** Are so many bytes in the heap's inbox worth the purger? Its thread may sleep, or have ended, so the sender asks. */
bool purger_inbox_is_due(const struct arena *arena, int64_t bytes);
/** Is the heap larger than it ever was, while RELEASE_MOST and a RELEASE_SHARE-th of it are free? The caller holds arena->lock. */
bool purger_growth_is_due(const struct arena *arena);
/** A part of what was given back so is in use again. Of a REGRET_SHARE-th: no more growth purges before the heap is twice as large. Under
 * arena->lock. */
void purger_growth_recommitted(struct arena *arena);
/** May this process have a helper thread, as far as is known without a system call? */
bool purger_may_have_helper(void);
/** Free memory that is worth a call, of all heaps together. */
size_t purger_worth(void);
/* When the system last refused a helper thread, or the program had too few threads for one; 0: it did not. Relaxed: a hint. */
#define REFUSED_FOR_GOOD UINT64_MAX
extern _Atomic uint64_t purger_refused_ms HAK_HIDDEN;
/** Another thread was born: to be asked again. */
void purger_forget_refusal(void);
/** Were so many bytes more than before worth a call? */
bool purger_is_worth(size_t bytes);
/** Sets the mark from which purger_is_due counts; under arena->lock, or before the heap is known. */
void purger_set_mark(struct arena *arena);

/* --- the helper thread (release/background.c) -------------------------------------------------------- */

/* NONE -> RUNS by the thread that starts it, WAITS -> RUNS by the thread that calls it; RUNS -> WAITS, and both -> NONE, by itself. */
enum { HELPER_NONE, HELPER_RUNS, HELPER_WAITS };
extern _Atomic uint32_t purger_helper HAK_HIDDEN;
extern _Atomic uint32_t purger_bell HAK_HIDDEN; /* counts calls to purger_wake */
/* Somebody called while the helper was at work, perhaps for what it had looked at already. */
extern atomic_bool purger_called_again HAK_HIDDEN;

/* Memory waits, and there was no helper to hear of it: the next slow path of malloc starts one. Never a free, which libc may make
 * under locks that starting a thread takes. Relaxed: a hint. */
extern atomic_bool purger_unheard HAK_HIDDEN;
HAK_INLINE bool purger_is_unheard(void) {
  return atomic_load_explicit(&purger_unheard, memory_order_relaxed);
}

/* Where there is no helper: do the program's own calls do its work (release/beat.h)? REQUESTED: from the start of a scan. Relaxed: a hint; what it is about is
 * under purger_scan_lock. */
enum { BEATS_NONE, BEATS_REQUESTED, BEATS_GO_ON };
extern _Atomic uint8_t purger_beats HAK_HIDDEN;

/** Notes such a call, of a thread that saw HELPER_RUNS; returns what the helper is now. */
uint32_t purger_call_again(void);

/** With HAKMEM_BACKGROUND=1: notes which process this is, at start and in the child of a fork. */
void purger_note_process(void);
/** Is this perhaps the child of a vfork, which has the parent's memory and ends without a word? A helper would end with it, and the parent
 * would take it to be there for ever. */
bool purger_is_in_vfork(void);

/** Would the end of the last thread that a helper serves be reported by purger_wake? Of threads that have an arena, those beside the
 * main one; with HAKMEM_BACKGROUND=1 the main one as well. */
bool purger_end_is_reported(void);

/* Called at the end of a thread when RELEASE_MOST lie in the bins of ended threads, which nobody may come by, or a call was not heard.
 * NULL until memory grew. */
extern _Atomic(void (*)(void)) purger_when_parked HAK_HIDDEN;

/** Wakes a helper that waits; false: it does not. */
bool purger_call(void);
/** Makes the helper look at once whether it is still needed. */
void purger_wake(void);
/** The helper's thread, which stays there when it has ended. Written by the helper. */
extern _Atomic int purger_helper_thread HAK_HIDDEN;
/** For the last thread that has an arena, as it ends: returns when the helper's thread has gone, a second later at most. libc calls exit() in
 * the last thread of a process, and that must be the program's: the helper has no descriptors for what handlers and streams write. */
void purger_see_helper_end(void);

/* What others may change without a sign, limits and threads, is read again after this. */
enum { READ_AGAIN_MS = 1000 };

/* --- locks ------------------------------------------------------------------------------------------- */

/* One purger at a time; and: free blocks of some slabs are in its hands. release.h says more. */
extern struct lock purger_scan_lock HAK_HIDDEN, purger_batch_lock HAK_HIDDEN;

/* Near a memory limit (release/limit.h): one thread at a time looks, once so much was taken (unit_taken); 0: all is to be found anew.
 * Before purger_scan_lock in the order of locks. Relaxed: a hint. */
extern struct lock purger_limit_lock HAK_HIDDEN;
extern _Atomic size_t purger_limit_due HAK_HIDDEN;
/** Do calls of the program read files of the kernel now and then, those of its control group? A program whose filter kills for that has to set
 * options anyway (hakmem(5), System calls). False until 8 MiB were taken, and with HAKMEM_CONTAINER=0. */
HAK_INLINE bool purger_reads_files(void) {
  size_t due = atomic_load_explicit(&purger_limit_due, memory_order_relaxed);
  return due != RELEASE_MOST && due != SIZE_MAX;
}

/** Around fork (fork.c). */
void purger_each_lock(lock_visit *visit, void *argument);
void purger_fork_child(void);

#endif
