/* node.h - memory nodes (NUMA): whose memory is reused where.
 *
 * Untouched memory lies on the node of the thread that touches it first; that is the kernel's rule, and nothing is asked of it.
 * This allocator adds that memory goes back to threads of the node on which it was in use: units of the warm pool,
 * SuperSlabs with free slices, heaps that own slabs, and Large blocks in a thread's cache. Memory of another
 * node is taken where the system gives none (docs/decisions/0033).
 *
 * With one node, and with HAKMEM_NUMA=0, every number here is the same.
 */
#ifndef HAK_NODE_H
#define HAK_NODE_H

#include "os/os.h"

/* Nodes with higher numbers share those below. */
enum { NODES = 16 };
/* In place of a node: any of them. */
enum { NODE_ANY = NODES };

/** The node of the calling thread, below NODES. */
unsigned node_now(void);

/* A bit for each node that node_now() has said; they only come, and one that is not seen yet does no harm: relaxed. */
extern _Atomic uint32_t node_seen HAK_HIDDEN;

/** One more than the highest node that was seen. */
HAK_INLINE unsigned node_end(void) {
  uint32_t seen = atomic_load_explicit(&node_seen, memory_order_relaxed);
  return seen == 0 ? 1 : 32 - (unsigned)__builtin_clz(seen);
}

/** How many were seen, at least one. */
unsigned node_count(void);

/** Were there several? */
HAK_INLINE bool node_are_many(void) {
  uint32_t seen = atomic_load_explicit(&node_seen, memory_order_relaxed);
  return HAK_UNLIKELY((seen & (seen - 1)) != 0);
}

#endif
