/* The random_mixed loop (400 slots, 16 to 1024 bytes, 20,000,000 iterations): a process that runs it
 * stays small, and once warm asks the system for nothing. `budget steady` counts what the whole
 * process costs, so this program does nothing else.
 *
 * usage: steady_state [iterations] */
#include "kit.h"

#include <stdio.h>

#define SLOTS 400
#define LOW 16
#define HIGH 1024

static unsigned char *slots[SLOTS];

static uint64_t os_calls(void) {
  struct hak_stats stats = kit_stats();
  return stats.os_mmap + stats.os_munmap + stats.os_madvise;
}

static void run(uint64_t iterations, uint64_t *state) {
  for (uint64_t i = 0; i < iterations; ++i) {
    /* xorshift64 (Marsaglia 2003): next to nothing beside the allocator. */
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    unsigned char **slot = &slots[*state % SLOTS];
    if (*slot) {
      free(*slot);
      *slot = NULL;
    } else {
      size_t size = LOW + (*state >> 32) % (HIGH - LOW + 1);
      *slot = malloc(size);
      CHECK(*slot, "malloc failed");
      (*slot)[0] = 1;
      (*slot)[size - 1] = 2;
    }
  }
}

int main(int argc, char **argv) {
  kit_start();
  uint64_t iterations = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000000;
  uint64_t state = 88172645463325252u;
  run(iterations / 10, &state);
  uint64_t warm = os_calls();
  run(iterations - iterations / 10, &state);
  uint64_t calls = os_calls() - warm;
  printf("%lu iterations: %lu system calls for memory, %lu of them after the first tenth\n",
         (unsigned long)iterations, (unsigned long)(warm + calls), (unsigned long)calls);
  /* A class may see its first wave of blocks late; more than that is not a steady state. */
  CHECK(calls <= 2, "a process in steady state asks the system for memory");
  return 0;
}
