/* kit.h - what the stress and fault programs share: the allocator they call, blocks that know their
 * own contents, random numbers, and how a program says that it failed.
 *
 * A program is built once or twice from the same source: on hak_* with the allocator linked in
 * (every variant, sanitizers too), and with HAK_TEST_PRELOAD=1 on malloc and its family, to be run
 * with the shared library preloaded.
 *
 * Environment: HAK_TEST_SCALE=x multiplies the number of rounds (default 1); HAK_TEST_SEED=n starts
 * the random numbers elsewhere; HAK_TEST_HOLD=1 makes a process that fails, crashes or
 * hangs wait for a debugger instead of ending; HAK_TEST_ANY_MALLOC=1 lets a preload program run on another allocator, for comparison.
 */
#ifndef HAK_TEST_KIT_H
#define HAK_TEST_KIT_H

#include "hakmem.h"

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#if HAK_TEST_PRELOAD
#define mem_malloc malloc
#define mem_calloc calloc
#define mem_realloc realloc
#define mem_free free
#define mem_aligned_alloc aligned_alloc
#define mem_posix_memalign posix_memalign
#define mem_usable_size(p) malloc_usable_size((void *)(p))
#else
#define mem_malloc hak_malloc
#define mem_calloc hak_calloc
#define mem_realloc hak_realloc
#define mem_free hak_free
#define mem_aligned_alloc hak_aligned_alloc
#define mem_posix_memalign hak_posix_memalign
#define mem_usable_size hak_usable_size
#endif

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define KIT_SANITIZED 1
#else
#define KIT_SANITIZED 0
#endif
#ifdef KIT_EMULATED /* by a compiler for another machine */
#define KIT_SLOW 1
#else
#define KIT_SLOW KIT_SANITIZED
#endif
#ifdef __SANITIZE_ADDRESS__
#define KIT_ASAN 1
#else
#define KIT_ASAN 0
#endif
#ifdef __SANITIZE_THREAD__
#define KIT_TSAN 1
#else
#define KIT_TSAN 0
#endif

#define KIT_KB ((size_t)1 << 10)
#define KIT_MB ((size_t)1 << 20)
#define KIT_SKIP 77 /* exit status: skipped, the reason is on stdout */

#ifdef __cplusplus
extern "C" {
#endif

/* --- failure and time ----------------------------------------------------------------------- */

/** Ends the program with abort() and a line on stderr unless `condition` holds. */
#define CHECK(condition, ...)                                                                      \
  ((condition) ? (void)0 : kit_fail(__FILE__, __LINE__, #condition, __VA_ARGS__))

__attribute__((noreturn, format(printf, 4, 5))) void
kit_fail(const char *file, int line, const char *condition, const char *format, ...);

/** First call of every main(): checks that the allocator under test is really the one in use. */
void kit_start(void);

/** Ends this process by SIGALRM when it is still running after `seconds`: a deadlock becomes a
 * failure. A forked child has to set its own. Under HAK_TEST_HOLD it waits for a debugger instead,
 * as it does from then on when it crashes. */
void kit_watchdog(unsigned seconds);

/** `rounds` times HAK_TEST_SCALE, a tenth of that under a sanitizer, at least 1. */
uint64_t kit_rounds(uint64_t rounds);

/* --- random numbers -------------------------------------------------------------------------- */

struct kit_rng {
  uint64_t state;
};

/** A generator for thread or round number `stream`. */
struct kit_rng kit_rng_make(uint64_t stream);
uint64_t kit_random(struct kit_rng *rng);
/** Uniform in [0, bound). */
uint64_t kit_below(struct kit_rng *rng, uint64_t bound);

enum kit_tier { KIT_TINY, KIT_MID, KIT_LARGE, KIT_HUGE, KIT_TIERS };

/** A size of that tier, small ones more often. Huge ones stay below 4 MiB. */
size_t kit_tier_size(struct kit_rng *rng, enum kit_tier tier);
/** A size of any tier, the large ones rarely, so that most time goes to the allocator. */
size_t kit_any_size(struct kit_rng *rng);

/* --- contents -------------------------------------------------------------------------------- */

/** Writes a pattern drawn from `tag`: each byte up to 2 KiB, from there a word in each KiB and the
 * last bytes, so that no page goes unmarked. */
void kit_fill(void *memory, size_t size, uint64_t tag);
/** Checks what kit_fill(memory, size, tag) wrote, below offset `limit` only. */
void kit_verify(const void *memory, size_t size, size_t limit, uint64_t tag);
/** Checks that fresh memory of calloc is zero. */
void kit_verify_zero(const void *memory, size_t size);

/* --- blocks that know themselves ------------------------------------------------------------- *
 * One word, so that threads can pass blocks on through a single atomic: the address, with sizes
 * below 16 in its low bits. Larger blocks hold their size and tag in front of the pattern. */

typedef uintptr_t kit_block;

/** A filled block from malloc; 0 when malloc returned NULL. `size` is at least 1. */
kit_block kit_block_malloc(size_t size, uint64_t tag);
/** The same from malloc, calloc, realloc(NULL), aligned_alloc or posix_memalign, drawn at random; 0 with errno set. */
kit_block kit_block_any(struct kit_rng *rng, size_t size);
/** The same from aligned_alloc or posix_memalign. */
kit_block kit_block_aligned(size_t alignment, size_t size, uint64_t tag);
size_t kit_block_size(kit_block block);
/** Checks the contents, and that so many bytes are usable. */
void kit_block_check(kit_block block);
/** realloc, with the contents checked before and after; 0 when it failed (the block lives on). */
kit_block kit_block_resize(kit_block block, size_t size, uint64_t tag);
/** Checks the contents and frees; 0 is allowed. */
void kit_block_free(kit_block block);

/* --- what the allocator and the kernel say ---------------------------------------------------- */

/** hak_stats_get, also when the library is only preloaded. */
struct hak_stats kit_stats(void);
struct hak_memory_stats kit_memory_stats(void); /* all 0 of another allocator */
size_t kit_purge(void);
/** The figure behind a name ("VmHWM:") in /proc/self/status, kB; 0 where the kernel does not tell it. */
size_t kit_status_kb(const char *name);
/** Resident bytes of this process, from the page tables (the quick counters lag with threads). */
size_t kit_resident(void);

/** Threads of this process, by /proc: a sanitizer's own, too. */
int kit_tasks(void);
/** Address space of this process in bytes. */
size_t kit_address_space(void);

#ifdef __cplusplus
}
#endif

#endif
