/* fault.c - see fault.h. One atomic countdown and one generator: any thread may be the one to fail. */
#include "os/fault.h"

#if HAK_FAULT_INJECTION

#include <stdatomic.h>

static _Atomic uint64_t calls, injected;
static _Atomic uint64_t fail_at;    /* value of `calls` that fails; 0: none */
static _Atomic uint64_t fail_since; /* all calls from this one on fail; 0: none */
static _Atomic uint32_t permille;
static _Atomic uint64_t random_state;

void os_fault_reset(void) {
  atomic_store(&fail_at, 0);
  atomic_store(&fail_since, 0);
  atomic_store(&permille, 0);
  atomic_store(&calls, 0);
  atomic_store(&injected, 0);
}

void os_fault_fail_nth(uint64_t n) { atomic_store(&fail_at, n == 0 ? 0 : atomic_load(&calls) + n); }

void os_fault_fail_from(uint64_t n) {
  atomic_store(&fail_since, n == 0 ? 0 : atomic_load(&calls) + n);
}

void os_fault_random(uint32_t seed, uint32_t chance) {
  atomic_store(&random_state, seed * UINT64_C(0x9e3779b97f4a7c15) + 1);
  atomic_store(&permille, chance);
}

uint64_t os_fault_calls(void) { return atomic_load(&calls); }

uint64_t os_fault_injected(void) { return atomic_load(&injected); }

/* splitmix64 (Steele, Lea, Flood 2014): one atomic add a draw, so threads share it without a lock. */
static uint32_t draw(void) {
  uint64_t z = atomic_fetch_add(&random_state, UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)(z >> 32);
}

bool os_fault_now(void) {
  uint64_t number = atomic_fetch_add(&calls, 1) + 1;
  uint64_t since = atomic_load(&fail_since);
  uint32_t chance = atomic_load(&permille);
  bool fail = number == atomic_load(&fail_at) || (since != 0 && number >= since) ||
              (chance != 0 && draw() % 1000 < chance);
  if (fail) atomic_fetch_add(&injected, 1);
  return fail;
}

#endif

typedef int os_fault_translation_unit_is_not_empty;
