/* fork.c - pthread_atfork handlers.
 *
 * The forking thread takes every lock, in the order in which all code takes them (release batch,
 * heap list, heaps, SuperSlabs, units, metadata), so that nothing that a lock guards is half done when memory is copied.
 * What other threads do to their own part of their heaps needs no lock: each of these stores leaves the
 * lists whole, and the child sees a prefix of each thread's stores, because a thread that writes to
 * a page that is copied already is stopped at that store until the copy is done. Counts may be off in the child,
 * where another thread goes on with the heap.
 *
 * Handlers that others registered before us run after ours in the parent's prepare phase and may
 * allocate: lock.h lets this one thread through.
 */
#include "front/fork.h"

#include <pthread.h>

#include "front/release.h"
#include "os/lock.h"
#include "superslab/superslab.h"

/* Registered twice (below), they run twice around a fork: the second run finds everything done. */
static bool is_forking(void) {
  return atomic_load_explicit(&lock_forking_thread, memory_order_relaxed) == lock_self();
}

static void prepare(void) {
  if (is_forking()) return;
  release_fork_prepare();
  heap_fork_prepare();
  superslab_fork_prepare();
  atomic_store_explicit(&lock_forking_thread, lock_self(), memory_order_relaxed);
}

static void in_parent(void) {
  if (!is_forking()) return;
  atomic_store_explicit(&lock_forking_thread, 0, memory_order_relaxed);
  superslab_fork_release(false);
  heap_fork_release(false);
  release_fork_release(false);
}

static void in_child(void) {
  if (!is_forking()) return;
  atomic_store_explicit(&lock_forking_thread, 0, memory_order_relaxed);
  superslab_fork_release(true);
  heap_fork_release(true);
  release_fork_release(true);
}

void fork_register(void) {
  static atomic_bool registered;
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
