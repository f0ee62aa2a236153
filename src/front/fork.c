/* fork.c - pthread_atfork handlers.
 *
 * The forking thread takes every lock, in the order in which all code takes them (release batch,
 * heap list, heaps, SuperSlabs, units, metadata), so that no other thread is inside a slow path when memory is copied.
 * What other threads do on fast paths meanwhile needs no lock: each store of a fast path leaves the
 * lists whole, and the child sees a prefix of each thread's stores, because a thread that writes to
 * a page that is copied already is stopped at that store until the copy is done.
 *
 * Handlers that others registered before us run after ours in the parent's prepare phase and may
 * allocate: lock.h lets this one thread through.
 */
#include "front/fork.h"

#include <pthread.h>

#include "front/release.h"
#include "os/lock.h"
#include "superslab/superslab.h"

static void prepare(void) {
  release_fork_prepare();
  heap_fork_prepare();
  superslab_fork_prepare();
  atomic_store_explicit(&lock_forking_thread, lock_self(), memory_order_relaxed);
}

static void in_parent(void) {
  atomic_store_explicit(&lock_forking_thread, 0, memory_order_relaxed);
  superslab_fork_release(false);
  heap_fork_release(false);
  release_fork_release(false);
}

static void in_child(void) {
  atomic_store_explicit(&lock_forking_thread, 0, memory_order_relaxed);
  superslab_fork_release(true);
  heap_fork_release(true);
  release_fork_release(true);
}

static atomic_bool registered;

void fork_register_once(void) {
  if (!atomic_exchange_explicit(&registered, true, memory_order_relaxed))
    pthread_atfork(prepare, in_parent, in_child);
}

/* A thread may be inside the very first allocation, which takes long, while another one forks: with libcs that start
 * threads without allocating, or where the program uses ours by name. */
__attribute__((constructor)) static void register_early(void) { fork_register_once(); }
