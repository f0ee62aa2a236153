/* fault.h - makes chosen system calls of the os room fail, for the exhaustion tests.
 *
 * Present only in libraries built with HAK_FAULT_INJECTION (the `check`, `asan` and `tsan`
 * variants); elsewhere the hook folds to nothing. Counts every mmap, munmap, mprotect, madvise and
 * mremap, and the calls of file.h but for close. An injected failure makes no call. All functions
 * are thread-safe; the settings are process-wide.
 */
#ifndef HAK_OS_FAULT_H
#define HAK_OS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "os/variant.h"

#if HAK_FAULT_INJECTION

/** No call fails any more; the two counters below start again at 0. */
__attribute__((visibility("default"))) void os_fault_reset(void);

/** The n-th call from now on fails (1: the next), and only that one. */
__attribute__((visibility("default"))) void os_fault_fail_nth(uint64_t n);

/** The n-th call from now on and all that follow fail, until os_fault_reset. */
__attribute__((visibility("default"))) void os_fault_fail_from(uint64_t n);

/** Each call fails with a probability of `chance` / 1000, from a generator started at `seed`. */
__attribute__((visibility("default"))) void os_fault_random(uint32_t seed, uint32_t chance);

/** Calls asked for (made or failed) since the last reset. */
__attribute__((visibility("default"))) uint64_t os_fault_calls(void);

/** Of these, failed by injection. */
__attribute__((visibility("default"))) uint64_t os_fault_injected(void);

/** The hook: true when this call has to fail. Called by the os room only. */
bool os_fault_now(void);

#else
static inline bool os_fault_now(void) { return false; }
#endif

#endif
