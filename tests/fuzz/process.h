/* process.h - inputs in a process of their own. */
#ifndef HAK_FUZZ_PROCESS_H
#define HAK_FUZZ_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct header;

/** Called in the child after an input that found nothing; NULL: nobody. */
extern void (*process_at_end)(void);

/* What a process is to do. */
struct work {
  void (*here)(void *argument);
  void *argument;
  unsigned seconds; /* after which it hangs; on a machine with other work it may take long */
  /* How a program is called that does the same: for a library that has started with this one. */
  char *const *again;
};

/** Does it in a process of its own, from the library's very first call on, under these options. True unless there is a finding,
 * of which the child has said on stderr what it is. */
bool process_do(const struct header *options, const struct work *work);

/** At the end of a program that was called so, and found nothing: its calls are counted. */
void process_count(void);

/** An input in a process of its own, under the options that it chooses; `self` is this program. True unless there is a finding. */
bool process_run(const uint8_t *bytes, size_t length, const char *self);

/** Calls of the allocator that were judged in all these processes: of those that ended well. */
unsigned long process_calls(void);

/** In a program that process_run has started anew: the input, which lies in this descriptor. */
int process_run_here(int descriptor);

#endif
