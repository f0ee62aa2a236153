/* points.c - what the sources call in place of atomic operations: a request, and the wait for one's turn. Outside of a run they are
 * done at once. A mutant's fault is put in here. */
#include <stdatomic.h>
#include <string.h>

#include "explorer.h"

static struct request *ask(struct request request) {
  threads[running].request = request;
  struct request *mine = &threads[running].request;
  thread_wait();
  return mine;
}

static uint64_t peek(uintptr_t address, size_t size) {
  uint64_t value = 0;
  memcpy(&value, (const void *)address, size);
  return value;
}

static void poke(uintptr_t address, size_t size, uint64_t value) {
  memcpy((void *)address, &value, size);
}

static uint64_t plain_load(uintptr_t address, size_t size, struct schedule_site *site) {
  return ask((struct request){.what = DO_LOAD,
                              .address = address,
                              .size = (uint8_t)size,
                              .order = memory_order_relaxed,
                              .site = site})
      ->result;
}

static void plain_store(uintptr_t address, size_t size, uint64_t value, int order,
                        struct schedule_site *site) {
  ask((struct request){.what = DO_STORE,
                       .address = address,
                       .size = (uint8_t)size,
                       .value = value,
                       .order = order,
                       .site = site});
}

uint64_t schedule_load(uintptr_t address, size_t size, int order, struct schedule_site *site) {
  if (running < 0) return peek(address, size);
  if (explore_fault(site, "load", order) == FAULT_RELAXED) order = memory_order_relaxed;
  return ask((struct request){.what = DO_LOAD,
                              .address = address,
                              .size = (uint8_t)size,
                              .order = order,
                              .site = site})
      ->result;
}

void schedule_store(uintptr_t address, size_t size, uint64_t value, int order,
                    struct schedule_site *site) {
  if (running < 0) {
    poke(address, size, value);
    return;
  }
  enum schedule_fault fault = explore_fault(site, "store", order);
  if (fault == FAULT_DROPPED) return;
  if (fault == FAULT_RELAXED) order = memory_order_relaxed;
  plain_store(address, size, value, order, site);
}

static uint64_t changed(uint64_t was, uint64_t value, enum schedule_change how) {
  switch (how) {
  case SCHEDULE_ADD:
    return was + value;
  case SCHEDULE_SUB:
    return was - value;
  case SCHEDULE_AND:
    return was & value;
  case SCHEDULE_OR:
    return was | value;
  case SCHEDULE_XOR:
    return was ^ value;
  default:
    return value;
  }
}

static uint64_t low_bytes(uint64_t value, size_t size) {
  return size == 8 ? value : value & ((UINT64_C(1) << size * 8) - 1);
}

uint64_t schedule_change(uintptr_t address, size_t size, uint64_t value, enum schedule_change how,
                         int order, struct schedule_site *site) {
  static const char *const names[] = {"exchange", "add", "sub", "and", "or", "xor"};
  uint64_t was;
  if (running < 0) {
    was = peek(address, size);
    poke(address, size, changed(was, value, how));
    return was;
  }
  switch (explore_fault(site, names[how], order)) {
  case FAULT_DROPPED:
    return peek(address, size);
  case FAULT_TORN:
    was = plain_load(address, size, site);
    plain_store(address, size, low_bytes(changed(was, value, how), size), order, site);
    return was;
  case FAULT_RELAXED:
    order = memory_order_relaxed;
    break;
  default:
    break;
  }
  return ask((struct request){.what = DO_CHANGE,
                              .address = address,
                              .size = (uint8_t)size,
                              .value = value,
                              .how = how,
                              .order = order,
                              .site = site})
      ->result;
}

static _Bool torn_swap(uintptr_t address, size_t size, uint64_t *expected, uint64_t value,
                       int order, bool compares, struct schedule_site *site) {
  uint64_t was = plain_load(address, size, site);
  if (compares && was != *expected) {
    *expected = was;
    return false;
  }
  plain_store(address, size, value, order, site);
  return true;
}

_Bool schedule_swap(uintptr_t address, size_t size, uint64_t *expected, uint64_t value, int success,
                    int failure, _Bool weak, struct schedule_site *site) {
  if (running < 0) {
    uint64_t was = peek(address, size);
    bool equal = was == *expected;
    if (equal) poke(address, size, value);
    else *expected = was;
    return equal;
  }
  switch (explore_fault(site, "compare", success)) {
  case FAULT_DROPPED:
    return true;
  case FAULT_TORN:
    return torn_swap(address, size, expected, value, success, true, site);
  case FAULT_UNCOMPARED:
    return torn_swap(address, size, expected, value, success, false, site);
  case FAULT_RELAXED:
    success = failure = memory_order_relaxed;
    break;
  default:
    break;
  }
  struct request *request = ask((struct request){.what = DO_SWAP,
                                                 .address = address,
                                                 .size = (uint8_t)size,
                                                 .weak = weak,
                                                 .expected = *expected,
                                                 .value = value,
                                                 .order = success,
                                                 .failure = failure,
                                                 .site = site});
  *expected = request->result;
  return request->done;
}

void schedule_fence(int order, struct schedule_site *site) {
  if (running < 0) return;
  enum schedule_fault fault = explore_fault(site, "fence", order);
  if (fault == FAULT_DROPPED || fault == FAULT_RELAXED) return;
  ask((struct request){.what = DO_FENCE, .order = order, .site = site});
}

enum schedule_sleep schedule_sleep(uintptr_t word, uint32_t value, _Bool timed,
                                   struct schedule_site *site) {
  if (running < 0) schedule_fail("sleeps outside of a run");
  if (explore_fault(site, "sleep", memory_order_relaxed) == FAULT_DROPPED) return SCHEDULE_WOKEN;
  return ask((struct request){.what = DO_SLEEP,
                              .address = word,
                              .size = sizeof value,
                              .value = value,
                              .timed = timed,
                              .site = site})
      ->slept;
}

_Bool schedule_wake(uintptr_t word, int most, struct schedule_site *site) {
  if (running < 0) return false;
  if (explore_fault(site, "wake", memory_order_relaxed) == FAULT_DROPPED) return true;
  return ask((struct request){.what = DO_WAKE,
                              .address = word,
                              .size = sizeof(uint32_t),
                              .all = most > 1,
                              .site = site})
      ->done;
}

void schedule_yield(void) {
  static struct schedule_site site = {.file = "", .function = "yield", .object = ""};
  if (running < 0) return;
  ask((struct request){.what = DO_YIELD, .site = &site});
}
