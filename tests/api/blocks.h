/* blocks.h - what the api and the unit tests share: the sizes worth trying, block patterns, and what
 * the process uses of memory.
 */
#ifndef TEST_BLOCKS_H
#define TEST_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB ((size_t)1024)
#define MIB ((size_t)1024 * 1024)
#define GIB ((size_t)1024 * 1024 * 1024)

/* Both sides of every tier's edge (1 KiB, 64 KiB, 1 MiB), of the slab and SuperSlab sizes, and the
 * odd sizes between. */
static const size_t test_sizes[] = {
    1,
    7,
    8,
    9,
    15,
    16,
    17,
    24,
    31,
    32,
    33,
    48,
    63,
    64,
    65,
    100,
    127,
    128,
    129,
    200,
    255,
    256,
    257,
    511,
    512,
    513,
    1000,
    1008,
    KIB - 1,
    KIB,
    KIB + 1,
    1040,
    1536,
    2 * KIB - 1,
    2 * KIB,
    2 * KIB + 1,
    4 * KIB - 1,
    4 * KIB,
    4 * KIB + 1,
    10000,
    16 * KIB,
    32 * KIB - 1,
    32 * KIB,
    32 * KIB + 1,
    64 * KIB - 1,
    64 * KIB,
    64 * KIB + 1,
    100000,
    128 * KIB - 1,
    128 * KIB,
    128 * KIB + 1,
    300000,
    512 * KIB,
    MIB - 1,
    MIB,
    MIB + 1,
    1500000,
    2 * MIB - 64 * KIB,
    2 * MIB - 1,
    2 * MIB,
    2 * MIB + 1,
    4 * MIB,
    5 * MIB + 123,
};
enum { TEST_SIZE_COUNT = (int)(sizeof test_sizes / sizeof test_sizes[0]) };

/* One size of each tier: Tiny, Mid, Large, Huge. */
static const size_t tier_sizes[] = {100, 20 * KIB, 300 * KIB, 5 * MIB};
static const char *const tier_names[] = {"tiny", "mid", "large", "huge"};
enum { TIER_COUNT = 4 };

/* Sizes no allocator can give. The last ones wrap to something small when rounded up carelessly. */
static const size_t impossible_sizes[] = {
    (size_t)PTRDIFF_MAX + 1, SIZE_MAX / 2 + 4096, SIZE_MAX - 2 * MIB, SIZE_MAX - 64 * KIB,
    SIZE_MAX - 4096,         SIZE_MAX - 4095,     SIZE_MAX - 64,      SIZE_MAX - 16,
    SIZE_MAX - 15,           SIZE_MAX - 8,        SIZE_MAX - 1,       SIZE_MAX,
};
enum { IMPOSSIBLE_COUNT = (int)(sizeof impossible_sizes / sizeof impossible_sizes[0]) };

/* Keeps the compiler from reasoning about where a pointer or size came from. */
static inline void *opaque(void *p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return p;
}
static inline size_t opaque_size(size_t n) {
  __asm__ volatile("" : "+r"(n));
  return n;
}

static inline bool is_aligned(const void *p, size_t alignment) {
  return ((uintptr_t)p & (alignment - 1)) == 0;
}

/* At any address. Not by memcpy and memcmp: tests that are compiled without builtins would call them for each word. */
typedef uint64_t word_anywhere __attribute__((aligned(1), may_alias));

/* The word at `index` of a block filled under `seed`. */
static inline uint64_t pattern_word(uint64_t seed, size_t index) {
  return (seed + 1) * 0x9e3779b97f4a7c15u + index * 0x100000001b3u;
}

static inline void fill_block(void *p, size_t size, uint64_t seed) {
  word_anywhere *to = (word_anywhere *)p;
  size_t words = size / 8;
  for (size_t i = 0; i < words; i++) to[i] = pattern_word(seed, i);
  uint64_t last = pattern_word(seed, words);
  memcpy(to + words, &last, size % 8);
}

/* True when the first `size` bytes are still as fill_block left them. */
static inline bool block_is_filled(const void *p, size_t size, uint64_t seed) {
  const word_anywhere *from = (const word_anywhere *)p;
  size_t words = size / 8;
  for (size_t i = 0; i < words; i++)
    if (from[i] != pattern_word(seed, i)) return false;
  uint64_t last = pattern_word(seed, words);
  return memcmp(from + words, &last, size % 8) == 0;
}

static inline bool block_is_zero(const void *p, size_t size) {
  const unsigned char *bytes = (const unsigned char *)p;
  return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* Bytes of address space of the process. */
static inline size_t address_space_used(void) {
  unsigned long pages = 0;
  FILE *statm = fopen("/proc/self/statm", "re");
  if (statm == NULL || fscanf(statm, "%lu", &pages) != 1) abort();
  fclose(statm);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Resident bytes of the process. */
static inline size_t resident_bytes(void) {
  unsigned long pages = 0;
  FILE *statm = fopen("/proc/self/statm", "re");
  if (statm == NULL || fscanf(statm, "%*u %lu", &pages) != 1) abort();
  fclose(statm);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

#endif
