/* fork.c - pthread_atfork handlers.
 *
 * The forking thread takes every lock, in the order in which all code takes them (start, release batch,
 * heap list, heaps, SuperSlabs, units, metadata), so that nothing that a lock guards is half done when memory is
 * copied. It holds them for the fork: os/lock.h says who may take one away, and that the child sees it.
 *
 * In the child
 *   - what a lock guards is whole if this thread holds the lock. Else it is left out: a heap is no more in any list, the
 *     SuperSlabs, the pool or the metadata start anew. The memory stays where it is, lost to the child.
 *   - bins and outgoing batches of threads that are not in the child were in use without a lock. The child takes over those that
 *     nobody touched meanwhile, and looks at each list before it uses it (absent.h). The others are emptied; their blocks are lost to the
 *     child, which counts them.
 *   - what was sent to a heap before the fork was moved to its drained list, under its lock. What was sent meanwhile is lost to the child.
 *   - this thread's own are as it left them.
 *
 * Nothing is deduced from the order of another thread's stores to the program's pages. A child would not see a prefix of them: pages
 * that a device may write to (buffers registered with io_uring, RDMA) are copied at once, and a thread that writes to them does
 * not wait for the rest.
 *
 * A signal handler may fork, too, when it has interrupted the allocator. The locks that its thread holds then stay
 * held, in the parent and in the child: in both it goes on where it was interrupted. For others it waits only a while,
 * since their holders may wait for one of these.
 *
 * Handlers that others registered before us run after ours in the parent's prepare phase and may
 * allocate: lock.h lets this one thread through.
 */
#include "heap/fork.h"

#include <pthread.h>

#include "heap/purger.h"
#include "heap/start.h"
#include "os/lock.h"
#include "superslab/superslab.h"

/* Handlers registered twice (below) run twice around a fork, and a signal handler may fork between prepare and the end of
 * a fork: the outermost one does the work. */
static _Thread_local unsigned depth;
static _Thread_local bool settled; /* the child's part of it is done */
static _Thread_local int parent;   /* its process */

static void each_lock_in_use(lock_visit *visit, void *argument) {
  start_each_lock(visit, argument);
  purger_each_lock(visit, argument);
  heap_each_lock_in_use(visit, argument);
  superslab_each_lock(visit, argument);
}

static void each_lock(lock_visit *visit, void *argument) {
  start_each_lock(visit, argument);
  purger_each_lock(visit, argument);
  heap_each_lock(visit, argument);
  superslab_each_lock(visit, argument);
}

static void see_interrupted(struct lock *lock, void *argument) {
  if (lock_holder(lock) == LOCK_MINE) *(bool *)argument = true;
}

struct patience {
  uint32_t ms;
  bool may_give_up;
};

static void take(struct lock *lock, void *argument) {
  struct patience *patience = argument;
  lock_acquire_for_fork(lock, &patience->ms, patience->may_give_up);
}

static void give(struct lock *lock, void *argument) {
  (void)argument;
  lock_release_after_fork(lock);
}

static void settle_child(void) {
  if (settled) return;
  settled = true;
  superslab_fork_child();
  heap_fork_child();
  purger_fork_child();
  start_fork_child();
}

/* Before our own handler runs the process tells parent and child apart. They may have one number, each in a namespace of its
 * own: then the child's locks are as they were copied until that handler. */
static void settle_if_child(void) {
  if (os_process() != parent) settle_child();
}

static void prepare(void) {
  struct patience patience = {.ms = LOCK_PATIENCE_MS};
  if (depth++ > 0) return;
  settled = false;
  parent = os_process();
  atomic_store_explicit(&lock_settle_child, settle_if_child, memory_order_relaxed);
  lock_pass_wake_on();
  each_lock(see_interrupted, &patience.may_give_up);
  each_lock_in_use(take, &patience);
  heap_fork_prepare();
  atomic_store_explicit(&lock_forking_thread, lock_self(), memory_order_relaxed);
}

static void end(void) {
  if (depth > 0 && --depth == 0)
    atomic_store_explicit(&lock_forking_thread, 0, memory_order_relaxed);
}

static void in_parent(void) {
  end();
  if (depth == 0) each_lock(give, NULL);
}

static void in_child(void) {
  settle_child();
  in_parent();
}

void fork_register(void) {
  static atomic_bool registered HAK_START_DATA;
  static _Thread_local bool registering; /* pthread_atfork may allocate, under a lock of its own */
  if (registering || atomic_load_explicit(&registered, memory_order_relaxed)) return;
  registering = true;
  /* Two threads may both come here. Neither waits for the other, who might not be in the child of a fork. */
  pthread_atfork(prepare, in_parent, in_child);
  atomic_store_explicit(&registered, true, memory_order_relaxed);
  registering = false;
}

#ifndef __GLIBC__
/* musl's fork() looks without a lock whether there are handlers, and runs none when there are none yet: beside the first
 * allocation it could copy a lock that a thread has just taken. Here, before main, nobody else can be forking. glibc
 * holds its lock meanwhile, and is spared the start-up cost. */
__attribute__((constructor)) static void register_before_main(void) { fork_register(); }
#endif
