/* node.c - see node.h. */
#include "superslab/node.h"

#include "policy/options.h"

_Atomic uint32_t node_seen HAK_START_DATA;

unsigned node_now(void) {
  if (!option_value(NUMA)) return 0;
  unsigned node = os_node() % NODES;
  uint32_t bit = UINT32_C(1) << node;
  if (HAK_UNLIKELY((atomic_load_explicit(&node_seen, memory_order_relaxed) & bit) == 0))
    atomic_fetch_or_explicit(&node_seen, bit, memory_order_relaxed);
  return node;
}

unsigned node_count(void) {
  uint32_t seen = atomic_load_explicit(&node_seen, memory_order_relaxed);
  return seen == 0 ? 1 : (unsigned)__builtin_popcount(seen);
}
