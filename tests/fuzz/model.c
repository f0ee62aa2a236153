/* model.c - see model.h. */
#include "model.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  WHOLE = 512, /* patterns up to so many bytes are written in full */
  EDGE = 128,  /* of larger ones, so many at both ends, */
  WORDS =
      64 /* and about so many words between: an input shall not take longer than some milliseconds */
};

bool fuzz_verbose;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block blocks[SLOTS];
static unsigned short
    by_address[SLOTS]; /* numbers of the slots in use, by their blocks' addresses */
static size_t count, live_bytes;
static bool fill_usable;
static atomic_ulong tags;

/* --- failure --------------------------------------------------------------------------------------- */

static void write_line(const char *start, const char *format, va_list arguments) {
  char text[400];
  int used = snprintf(text, sizeof text, "%s", start);
  used += vsnprintf(text + used, sizeof text - (size_t)used - 1, format, arguments);
  if (used > (int)sizeof text - 2) used = (int)sizeof text - 2;
  text[used] = '\n';
  if (write(STDERR_FILENO, text, (size_t)used + 1) < 0) abort();
}

void fuzz_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_line("FINDING: ", format, arguments);
  va_end(arguments);
  abort();
}

void fuzz_say(const char *format, ...) {
  if (!fuzz_verbose) return;
  va_list arguments;
  va_start(arguments, format);
  write_line("  ", format, arguments);
  va_end(arguments);
}

/* --- patterns -------------------------------------------------------------------------------------- */

static uint64_t word_at(uint64_t tag, size_t offset) {
  uint64_t x = tag * UINT64_C(0x9e3779b97f4a7c15) + offset / 8;
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  return x ^ (x >> 27);
}

/* The next place of a pattern of `size` bytes, from an offset that is a multiple of 8. */
static size_t next_place(size_t size, size_t offset) {
  size_t next = offset + 8;
  if (size <= WHOLE || next < EDGE) return next;
  size_t tail = (size - EDGE) & ~(size_t)7;
  if (next >= tail) return next;
  size_t far = (offset + (size / WORDS & ~(size_t)7) + 8);
  return far < tail ? far : tail;
}

static void fill(const struct block *block) {
  for (size_t offset = 0; offset < block->filled; offset = next_place(block->filled, offset)) {
    uint64_t word = word_at(block->tag, offset);
    size_t rest = block->filled - offset;
    memcpy(block->start + offset, &word, rest < 8 ? rest : 8);
  }
}

void model_check_contents(const struct block *block, size_t limit, const char *who) {
  size_t end = limit < block->filled ? limit : block->filled;
  for (size_t offset = 0; offset < end; offset = next_place(block->filled, offset)) {
    uint64_t word = word_at(block->tag, offset);
    size_t rest = end - offset;
    if (memcmp(block->start + offset, &word, rest < 8 ? rest : 8) == 0) continue;
    uint64_t found = 0;
    memcpy(&found, block->start + offset, rest < 8 ? rest : 8);
    fuzz_fail("%s: block %p of %zu bytes (%zu usable) has changed at offset %zu: %016llx", who,
              (void *)block->start, block->size, block->usable, offset, (unsigned long long)found);
  }
}

void model_check_zero(const unsigned char *start, size_t size, const char *who) {
  /* Of large ones every page, of huge ones every few: each is a page fault. */
  size_t step = size <= (size_t)64 << 10 ? 8 : size <= (size_t)1 << 20 ? 1000 : 20008;
  for (size_t offset = 0; offset < size; offset += step) {
    uint64_t word = 0;
    size_t rest = size - offset;
    memcpy(&word, start + offset, rest < 8 ? rest : 8);
    if (word != 0)
      fuzz_fail("%s: %p of %zu bytes is not zero at offset %zu: %016llx", who, (const void *)start,
                size, offset, (unsigned long long)word);
  }
}

/* --- blocks by address ------------------------------------------------------------------------------- */

/* How many blocks begin below this address. */
static size_t rank(const unsigned char *start) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (blocks[by_address[middle]].start < start) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* A block of no bytes has an address of its own all the same. */
static unsigned char *end_of(const struct block *block) {
  return block->start + (block->usable != 0 ? block->usable : 1);
}

static void check_apart(const struct block *block, const struct block *other, const char *who) {
  if (end_of(block) > other->start && end_of(other) > block->start)
    fuzz_fail("%s: block %p of %zu bytes lies over live block %p of %zu bytes", who,
              (void *)block->start, block->usable, (void *)other->start, other->usable);
}

void model_start(bool usable) {
  if (count != 0)
    fuzz_fail(
        "blocks of another input are left"); /* no memset: it would take longer than most inputs */
  fill_usable = usable;
  atomic_store(&tags, 1);
}

void model_add(unsigned slot, struct block block, const char *who) {
  size_t alignment = block.alignment > 16 ? block.alignment : 16;
  if (((uintptr_t)block.start & (alignment - 1)) != 0)
    fuzz_fail("%s: block %p of %zu bytes is not aligned to %zu", who, (void *)block.start,
              block.size, alignment);
  if (block.usable < block.size)
    fuzz_fail("%s: block %p of %zu bytes has %zu usable ones", who, (void *)block.start, block.size,
              block.usable);
  block.filled = fill_usable ? block.usable : block.size;
  block.tag = atomic_fetch_add(&tags, 1);
  fill(&block);
  model_lock();
  size_t place = rank(block.start);
  if (place > 0) check_apart(&block, &blocks[by_address[place - 1]], who);
  if (place < count) check_apart(&block, &blocks[by_address[place]], who);
  memmove(by_address + place + 1, by_address + place, (count - place) * sizeof *by_address);
  by_address[place] = (unsigned short)slot;
  blocks[slot] = block;
  count++;
  live_bytes += block.size;
  model_unlock();
}

struct block model_take(unsigned slot, const char *who) {
  struct block block = model_look(slot);
  if (block.start == NULL) return block;
  model_check_contents(&block, block.filled, who);
  model_lock();
  size_t place = rank(block.start);
  count--;
  memmove(by_address + place, by_address + place + 1, (count - place) * sizeof *by_address);
  blocks[slot].start = NULL;
  live_bytes -= block.size;
  model_unlock();
  return block;
}

void model_refill(unsigned slot) {
  model_lock(); /* a fork's child must not see it half done */
  struct block *block = &blocks[slot];
  if (block->start != NULL) {
    block->tag = atomic_fetch_add(&tags, 1);
    fill(block);
  }
  model_unlock();
}

struct block model_look(unsigned slot) {
  model_lock();
  struct block block = blocks[slot];
  model_unlock();
  return block;
}

void model_check_all(const char *who) {
  model_lock();
  for (size_t i = 0; i < count; i++) {
    const struct block *block = &blocks[by_address[i]];
    model_check_contents(block, block->filled, who);
  }
  model_unlock();
}

size_t model_live_bytes(void) {
  model_lock();
  size_t bytes = live_bytes;
  model_unlock();
  return bytes;
}

size_t model_live_blocks(void) {
  model_lock();
  size_t number = count;
  model_unlock();
  return number;
}

void model_lock(void) { pthread_mutex_lock(&lock); }

void model_unlock(void) { pthread_mutex_unlock(&lock); }
