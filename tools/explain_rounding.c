/* explain_rounding.c - see explain.h: which sizes of blocks hold more than was asked for, and who asks for them. */
#include <stdlib.h>

#include "explain.h"

/* What the program could have otherwise: not what is beside samples in their slots. */
static double own(const struct rounding *rounding) { return rounding->bytes - rounding->slots; }

static int by_bytes(const void *a, const void *b) {
  double left = own(&((const struct waste *)a)->rounding);
  double right = own(&((const struct waste *)b)->rounding);
  return left < right ? 1 : left > right ? -1 : 0;
}

bool explain_rounding(struct explanation *explanation, const struct sampled *sampled,
                      const struct remote *remote) {
  const struct snapshot *snapshot = explanation->snapshot;
  struct waste all[ROUNDING_LARGE + 1];
  size_t count = 0;
  bool done = true;
  explanation->sampled = sampled;
  for (unsigned c = 0; sampled != NULL && c <= ROUNDING_LARGE; c++) {
    const struct rounding *rounding = &sampled->classes[c];
    if (rounding->samples == 0 || own(rounding) < explain_worth(snapshot)) continue;
    struct holders_of of = {.size_class = c};
    if (c < ROUNDING_LARGE) of.rounded_to = snapshot->classes[c].size;
    else
      of = (struct holders_of){remote->layout.heap.classes, 0,
                               UINT64_C(1) << (remote->layout.map.unit_shift - 1)};
    all[count] = (struct waste){.size = of.rounded_to, .rounding = *rounding};
    done = explain_holders(&all[count++].holders, &of, explanation->profile) && done;
  }
  qsort(all, count, sizeof all[0], by_bytes);
  explanation->waste_count = count < WASTES_MOST ? (unsigned)count : WASTES_MOST;
  for (unsigned i = 0; i < explanation->waste_count; i++) explanation->wastes[i] = all[i];
  return done;
}
