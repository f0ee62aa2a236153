/* trade.c - see trade.h. */
#include "release/trade.h"

#include "heap/engine.h"
#include "release/background.h"
#include "release/look.h"

/* Smaller blocks leave hardly a page free as long as one in ten is in use. */
enum { TRADED_BLOCK_LEAST = 1 * KIB };

/* A piece of a class, from where the last one ended. */
static bool look_on(struct heap *home, unsigned size_class, struct pass *pass) {
  struct class_slabs *slabs = &home->classes[size_class];
  lock_acquire(&home->lock);
  bool is_in_it = slabs->next_look != NULL;
  lock_release(&home->lock);
  if (!is_in_it && !look_start(home, size_class)) return false;
  return look_at_slabs(home, slabs, pass);
}

/* All classes were looked at: what is free now is in pages with blocks that are in use, until the heap is a quarter larger. */
static void end_round(struct heap *home) {
  lock_acquire(&home->lock);
  size_t from = home->most_bytes + home->most_bytes / REGRET_SHARE;
  if (home->trade_most < from) home->trade_most = from;
  lock_release(&home->lock);
  home->trade_class = 0;
}

void release_trade(struct heap *heap) {
  unsigned least = class_for(TRADED_BLOCK_LEAST);
  if (!release_is_on() || !lock_try(&engine_pass_lock)) return;
  struct heap *home = heap->home;
  struct pass pass = {.looks = LOOKS, .at_once = true};
  for (unsigned i = 0; i < PIECES_AT_ONCE && pass.given < GIVEN_AT_ONCE;) {
    /* Large ones first: they leave the most pages for a look. */
    unsigned size_class = CLASS_COUNT - 1 - home->trade_class;
    if (look_on(home, size_class, &pass)) {
      i++;
    } else if (size_class > least) {
      home->trade_class++;
    } else {
      end_round(home);
      break;
    }
  }
  lock_release(&engine_pass_lock);
}
