/* control.c - see control.h.
 *
 * Two steps, since what a thread has in its caches can only be emptied by itself, and is given back by whoever trims after it. All
 * loads and stores are relaxed but for `done`: the tool has written its numbers before it let the thread go on, and the
 * kernel orders that.
 */
#include "front/control.h"

#include "observe/requests.h"
#include "os/os.h"
#include "release/release.h"

extern struct requests requests HAK_HIDDEN;
struct requests requests;

static _Thread_local uint32_t caches_seen __attribute__((tls_model("initial-exec")));

static void empty_caches(void) {
  uint32_t requested = atomic_load_explicit(&requests.caches, memory_order_relaxed);
  if (requested == caches_seen) return;
  caches_seen = requested;
  release_own_caches();
  atomic_fetch_add_explicit(&requests.emptied, 1, memory_order_relaxed);
}

static void trim(void) {
  uint32_t requested = atomic_load_explicit(&requests.trim, memory_order_relaxed);
  uint32_t begun = atomic_load_explicit(&requests.begun, memory_order_relaxed);
  /* One of those that see it. */
  if (requested == begun ||
      !atomic_compare_exchange_strong_explicit(&requests.begun, &begun, requested,
                                               memory_order_relaxed, memory_order_relaxed))
    return;
  release_purge();
  /* release: who reads it finds what was given back not there any more */
  atomic_store_explicit(&requests.done, requested, memory_order_release);
}

void control_answer(void) {
  empty_caches();
  trim();
}
