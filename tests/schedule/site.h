/* site.h - what an atomic operation of the sources calls instead (shim/stdatomic.h). Values are the low bytes of 64 bits. */
#ifndef SCHEDULE_SITE_H
#define SCHEDULE_SITE_H

#include <stddef.h>
#include <stdint.h>

/* A place in the source with an atomic operation. */
struct schedule_site {
  const char *file, *function, *object;
  int line;
  /* The explorer's own: which mutant `fault` belongs to, and the list of all places that were come by. */
  unsigned of_mutant;
  int fault;
  int order;
  const char *operation;
  struct schedule_site *next;
};

enum schedule_change {
  SCHEDULE_EXCHANGE,
  SCHEDULE_ADD,
  SCHEDULE_SUB,
  SCHEDULE_AND,
  SCHEDULE_OR,
  SCHEDULE_XOR
};

uint64_t schedule_load(uintptr_t address, size_t size, int order, struct schedule_site *site);
void schedule_store(uintptr_t address, size_t size, uint64_t value, int order,
                    struct schedule_site *site);
uint64_t schedule_change(uintptr_t address, size_t size, uint64_t value, enum schedule_change how,
                         int order, struct schedule_site *site);
_Bool schedule_swap(uintptr_t address, size_t size, uint64_t *expected, uint64_t value, int success,
                    int failure, _Bool weak, struct schedule_site *site);
void schedule_fence(int order, struct schedule_site *site);

enum schedule_sleep { SCHEDULE_WOKEN, SCHEDULE_TIME_OVER, SCHEDULE_NO_SLEEP };
enum schedule_sleep schedule_sleep(uintptr_t word, uint32_t value, _Bool timed,
                                   struct schedule_site *site);
_Bool schedule_wake(uintptr_t word, int most, struct schedule_site *site);

#endif
