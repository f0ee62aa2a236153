/* search.h - what a program does to a heap, step by step, and what may come of it. */
#ifndef HAK_FUZZ_SEARCH_H
#define HAK_FUZZ_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a program misuses a heap. PRIMITIVE(id, name) */
#define PRIMITIVES(PRIMITIVE)                                                                      \
  PRIMITIVE(NONE, "none")                   /* a program without a fault, to compare with */       \
  PRIMITIVE(DOUBLE_FREE, "double-free")     /* of a block that is free still */                    \
  PRIMITIVE(STALE_FREE, "stale-free")       /* of one whose memory another block has by now */     \
  PRIMITIVE(INTERIOR_FREE, "interior-free") /* free(p + n) of a live block */                      \
  PRIMITIVE(OVERFLOW, "overflow")           /* words behind the usable bytes */                    \
  PRIMITIVE(UNDERFLOW, "underflow")         /* words in front of a block */                        \
  PRIMITIVE(WRITE_AFTER_FREE, "write-after-free") /* a word into a free block */                   \
  PRIMITIVE(BYTE_AFTER_FREE, "byte-after-free")   /* a byte into a free block */                   \
  PRIMITIVE(OFF_BY_ONE, "off-by-one-nul")         /* one zero byte behind the usable bytes */

enum primitive {
#define PRIMITIVE_ID(id, name) PRIMITIVE_##id,
  PRIMITIVES(PRIMITIVE_ID)
#undef PRIMITIVE_ID
      PRIMITIVE_COUNT
};

/* What came of it. Above SURVIVED: what an attacker wants. IMPACT(id, name) */
#define OUTCOMES(OUTCOME)                                                                          \
  OUTCOME(STOPPED, "stopped") /* by the allocator, with a message */                               \
  OUTCOME(CRASHED, "crashed") /* by a signal, without one */                                       \
  OUTCOME(HUNG, "hung")                                                                            \
  OUTCOME(SURVIVED, "survived") /* nothing was to be seen */                                       \
  OUTCOME(OVERLAP, "overlap")   /* two live blocks share memory */                                 \
  OUTCOME(TARGET, "target")     /* malloc returned memory of the program: stack, .data, mapping */ \
  OUTCOME(CHANGED, "changed")   /* the allocator wrote to such memory, or to a live block */

enum outcome {
#define OUTCOME_ID(id, name) OUTCOME_##id,
  OUTCOMES(OUTCOME_ID)
#undef OUTCOME_ID
      OUTCOME_COUNT
};

enum step_kind { STEP_MALLOC, STEP_FREE, STEP_REALLOC, STEP_MISUSE };

/* Which word a misuse writes. */
enum value {
  VALUE_DATA,
  VALUE_STACK,
  VALUE_MAPPING,
  VALUE_BLOCK,
  VALUE_ZERO,
  VALUE_ONES,
  VALUE_SIZE,
  VALUE_FLIP,
  VALUE_COUNT
};

struct step {
  enum step_kind kind;
  unsigned slot;
  size_t size;     /* malloc, realloc */
  unsigned offset; /* misuse: into the block, or how many bytes */
  enum value value;
  unsigned other; /* VALUE_BLOCK: the slot; VALUE_FLIP: the bit */
};

#define SEARCH_SLOTS 16
#define SEARCH_STEPS 48

struct trial {
  enum primitive primitive;
  unsigned count;
  struct step steps[SEARCH_STEPS];
};

/** Runs it in a forked child. `applied`: was there a place for the misuse? stderr is a file of which it is seen whether somebody
 * has said something. */
enum outcome trial_run(const struct trial *trial, bool *applied);

/** Prints it as lines of C. */
void trial_print(const struct trial *trial);

#endif
