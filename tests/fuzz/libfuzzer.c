/* libfuzzer.c - libFuzzer over the interpreter of actions.
 *
 * Each input has a process of its own (process.c), whose counters of coverage would be lost with it. So the child copies them to
 * shared memory when it has found nothing, and the parent adds them to its own, where libFuzzer looks. Only the library's
 * sources have counters.
 */
#include "actions.h"
#include "process.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* The linker makes them of the section's name. */
extern uint8_t __start___sancov_cntrs[], __stop___sancov_cntrs[];

static uint8_t *shared;

static size_t counters(void) { return (size_t)(__stop___sancov_cntrs - __start___sancov_cntrs); }

static void copy_counters(void) { memcpy(shared, __start___sancov_cntrs, counters()); }

static void say_calls(void) { fprintf(stderr, "calls of the allocator: %lu\n", process_calls()); }

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  actions_start();
  shared = mmap(NULL, counters(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) abort();
  process_at_end = copy_counters;
  atexit(say_calls);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  if (!process_run(bytes, length, "")) abort(); /* libFuzzer keeps the input */
  memcpy(__start___sancov_cntrs, shared, counters());
  return 0;
}
