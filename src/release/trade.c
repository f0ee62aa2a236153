/* trade.c - see trade.h. */
#include "release/trade.h"

#include "heap/engine.h"
#include "release/background.h"
#include "release/look.h"

/* Smaller blocks leave hardly a page free as long as one in ten is in use. */
enum { TRADED_BLOCK_LEAST = 1 * KIB, TRADE_BATCHES = 16 };
#define TRADE_GIVEN (2 * TRADE_GROWN)

/* All classes were looked at: what is free now is in pages with blocks that are in use. */
static void end_round(struct heap *heap) {
  lock_acquire(&heap->lock);
  heap->trade_from = heap->free_bytes + heap->free_bytes / 4;
  lock_release(&heap->lock);
  heap->trade_class = 0;
}

void release_trade(struct heap *heap) {
  unsigned least = class_for(TRADED_BLOCK_LEAST);
  if (!release_is_on() || !lock_try(&engine_pass_lock)) return;
  struct pass pass = {.looks = LOOKS, .at_once = true};
  for (unsigned i = 0; i < TRADE_BATCHES && pass.given < TRADE_GIVEN;) {
    /* Large ones first: they leave the most pages for a look. */
    unsigned size_class = CLASS_COUNT - 1 - heap->trade_class;
    if (look_on(heap, size_class, &pass)) {
      i++;
    } else if (size_class > least) {
      heap->trade_class++;
    } else {
      end_round(heap);
      break;
    }
  }
  lock_release(&engine_pass_lock);
}
