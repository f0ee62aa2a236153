/* input.h - what the bytes of an input mean.
 *
 *   byte 0       which options the library starts with (options.c)
 *   byte 1       bits 0 and 1: threads; bit 2: do they run at the same time, or one after the other; bit 3: are all usable
 *                bytes of a block written, or those asked for; bits 4 to 6: which system calls fail at first
 *   byte 2       the number for that
 *   then         actions: a byte for what, and by which thread and name it is done; then what it needs of a slot, a size, a
 *                number
 *
 * Every string of bytes is an input. A change of one byte changes one action in most places, so that mutations by a fuzzer do not
 * turn all that follows into something else.
 */
#ifndef HAK_FUZZ_INPUT_H
#define HAK_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define THREADS 3

enum plan_kind { PLAN_NONE, PLAN_NTH, PLAN_FROM, PLAN_OFTEN, PLAN_RARELY };

struct header {
  unsigned options;
  unsigned threads;
  bool at_once;
  bool fill_usable;
  enum plan_kind plan;
  unsigned number;
};

/* ACTION(name, needs): s a slot, z a size, n a number, a an alignment. */
#define ACTIONS(ACTION)                                                                            \
  ACTION(MALLOC, "sz")                                                                             \
  ACTION(FREE, "s")                                                                                \
  ACTION(CALLOC, "szn")                                                                            \
  ACTION(REALLOC, "sz")                                                                            \
  ACTION(REALLOCARRAY, "szn")                                                                      \
  ACTION(FREE_SIZED, "s")                                                                          \
  ACTION(ALIGNED_ALLOC, "sza")                                                                     \
  ACTION(POSIX_MEMALIGN, "sza")                                                                    \
  ACTION(MEMALIGN, "sza")                                                                          \
  ACTION(VALLOC, "sz")                                                                             \
  ACTION(PVALLOC, "sz")                                                                            \
  ACTION(MANY, "szn")                                                                              \
  ACTION(FREE_MANY, "sn")                                                                          \
  ACTION(USABLE_SIZE, "s")                                                                         \
  ACTION(REFILL, "s")                                                                              \
  ACTION(MOVE, "s")                                                                                \
  ACTION(OWNS, "sn")                                                                               \
  ACTION(PURGE, "")                                                                                \
  ACTION(TRIM, "n")                                                                                \
  ACTION(STATISTICS, "n")                                                                          \
  ACTION(MALLINFO, "")                                                                             \
  ACTION(MALLOC_INFO, "n")                                                                         \
  ACTION(MALLOC_STATS, "")                                                                         \
  ACTION(MALLOPT, "n")                                                                             \
  ACTION(FAIL, "n")                                                                                \
  ACTION(THREAD_END, "")                                                                           \
  ACTION(FORK, "n")                                                                                \
  ACTION(WAIT, "n")                                                                                \
  ACTION(CHECK, "")                                                                                \
  ACTION(HEAP_MALLOC, "szn")                                                                       \
  ACTION(HEAP_END, "n")

enum action_kind {
#define ACTION_NAME(name, needs) ACTION_##name,
  ACTIONS(ACTION_NAME)
#undef ACTION_NAME
      ACTION_KINDS
};

struct action {
  enum action_kind kind;
  unsigned thread;
  unsigned family; /* 0: malloc, 1: hak_malloc, and so on */
  unsigned slot;
  size_t size;
  unsigned number;
  size_t alignment;
};

struct input {
  const uint8_t *bytes;
  size_t left;
};

/** Reads the header; a short input has zeros for what is missing. */
struct header input_header(struct input *input);

const char *input_action_name(enum action_kind kind);

/** The next action; false at the end. */
bool input_action(struct input *input, const struct header *header, struct action *action);

#endif
