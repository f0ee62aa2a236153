/* actions.h - runs an input: the calls that it stands for, each judged by the shadow model. */
#ifndef HAK_FUZZ_ACTIONS_H
#define HAK_FUZZ_ACTIONS_H

#include "calls.h"
#include "input.h"

#include <stdatomic.h>

/** The options of this header, into the environment. Before the library's first call. The words, for a message. */
const char *options_set(const struct header *header);

/** All actions of an input, then: every block is looked at and freed, the threads end, no system call fails any more, and
 * memory can be had. A finding ends the process by abort(). Returns the number of actions done. */
unsigned long actions_run(const uint8_t *bytes, size_t length);

/** Once, before the first input. */
void actions_start(void);

/* --- of one input, for the files that do the actions ------------------------------------------------------- */

struct run {
  const struct calls *calls;
  struct header header;
  FILE *sink;            /* where malloc_info writes to */
  unsigned forks, waits; /* of which there are few in an input: they take time */
  atomic_ulong done; /* calls of the allocator that were judged, by all inputs of this process */
};
extern struct run run;

/** One action, on the calling thread. */
void action_do(const struct action *action);

/** A system call that fails at once, later, or with a chance; PLAN_NONE: none fails any more. */
void plan_failures(enum plan_kind kind, unsigned number);

/** The actions without a block: statistics, options, threads. */
void aside_do(const struct action *action);

/* A call of the allocator: what was so before it. */
struct call {
  const char *name;
  uint64_t injected;
};
struct call call_begin(const char *name);
/** After a call that keeps errno. */
void call_kept_errno(const struct call *call);
/** After NULL with this error for so many bytes (SIZE_MAX: no such number): was it right to say so? */
void call_refused(const struct call *call, int error, size_t size);

/** A block in a heap of the program's own, which is made if it is not there; the end of such a heap, when no other thread is at
 * work; the end of all. */
void heap_allocate(const struct action *action);
void heap_end(unsigned number);
void heaps_end(void);

/** What a size becomes when it would go beyond what an input may have. */
size_t action_size(size_t size);
/** Empties the slot of the action. */
void action_clear_slot(const struct action *action);
/** Enters what a call gave, NULL or a block, judged. */
void action_keep(const struct action *action, const struct call *call, void *memory, size_t size,
                 size_t alignment, unsigned heap);

#endif
