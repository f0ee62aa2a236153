/* model.h - the shadow model: what blocks the program has, and what each of them has to hold.
 *
 * A block enters the model after the call that returned it and leaves it before the call that frees it, so whatever is in it
 * lives, also while several threads run. The model's lock is never held during a call of the allocator.
 */
#ifndef HAK_FUZZ_MODEL_H
#define HAK_FUZZ_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLOTS 4096 /* a slab of the smallest blocks has so many: it can be filled and emptied */

struct block {
  unsigned char *start; /* NULL: the slot is empty */
  size_t size;          /* as asked for */
  size_t usable;
  size_t alignment; /* as asked for; 0: by a function without one */
  size_t filled;    /* bytes with a pattern: size, or usable */
  uint64_t tag;     /* which pattern */
  unsigned heap;    /* of the program's own, 0: none */
};

/* Ends the process with a line on stderr. Async-signal-safe but for what printf does with the format. */
__attribute__((noreturn, format(printf, 1, 2))) void fuzz_fail(const char *format, ...);

/* Prints what is done, a line an action. */
extern bool fuzz_verbose;
__attribute__((format(printf, 1, 2))) void fuzz_say(const char *format, ...);

/** Starts with no block. Patterns fill all usable bytes if `fill_usable`. */
void model_start(bool fill_usable);

/** Slot's block is now this one: fills it with a pattern; fails unless it is aligned and apart from all others. */
void model_add(unsigned slot, struct block block, const char *who);

/** The slot is empty from now on. Its block, whose pattern was looked at; `start` NULL if there was none. */
struct block model_take(unsigned slot, const char *who);

/** Fills a block of the model with another pattern. */
void model_refill(unsigned slot);

/** The block of a slot, still in the model. */
struct block model_look(unsigned slot);

/** Looks at the pattern below offset `limit`. */
void model_check_contents(const struct block *block, size_t limit, const char *who);

/** The pattern of every block. */
void model_check_all(const char *who);

/** Fails unless these bytes are zero; of a large block, at places close to each other. */
void model_check_zero(const unsigned char *start, size_t size, const char *who);

/** Bytes asked for by all blocks, and their number. */
size_t model_live_bytes(void);
size_t model_live_blocks(void);

/** Around a fork, so that the child's copy is whole. */
void model_lock(void);
void model_unlock(void);

#endif
