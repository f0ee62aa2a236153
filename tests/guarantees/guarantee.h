/* guarantee.h - for a program that makes one mistake with memory, and tells what came of it.
 *
 * Usage: PROGRAM [tiny|mid|large|huge] [twin]
 * A program defines run(), which makes its mistake unless `twin` is set, does the rest alike, and ends with
 * survived() or harm(). On stdout: "due FUNCTION POINTER" before what may be stopped ("-" where it is open);
 * "access" and "accessed" round what a guard page may stop; then "well", "survived" or "harm: WHAT". Exit: 0
 * well or survived, 1 harm, 2 it could not be tried, 3 a twin that came to harm. Neither stdout nor anything else
 * here allocates: the lists are as the program left them.
 */
#ifndef GUARANTEE_H
#define GUARANTEE_H

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tier {
  const char *name;
  size_t size;   /* a request that leaves some of its block unused in every allocator here */
  size_t full;   /* one that fills a block of hakmem's to the last byte */
  unsigned many; /* so many blocks show what an allocator hands out next */
};

enum { CROWD_MAX = 4096 };

/* Blocks of one size that live, each full of its own pattern. */
struct crowd {
  unsigned char *block[CROWD_MAX];
  unsigned count;
  size_t size;
};

extern struct tier tier;
extern bool twin;
/* Large, so not on the stack of a thread; a program needs two at most. */
extern struct crowd crowd, crowd_of_others;

#ifdef __cplusplus
extern "C" {
#endif

/** Of each program. */
void run(void);

/** What a twin and a survivor end with. */
__attribute__((noreturn)) void survived(void);
__attribute__((noreturn)) void harm(const char *what);
__attribute__((noreturn)) void give_up(const char *why);

/** A call of `function` about `pointer` may be stopped from here on. NULL: whatever they are. */
void announce(const char *function, const void *pointer);
/** Round a read or write that is the mistake: a SIGSEGV between them is where it should be. */
void access_begins(void);
void access_ends(void);
/** Writes another value than is there: the same one would be no mistake, and by chance it is a canary's. */
void change_byte(unsigned char *at);
/** malloc; the first and the last byte are written. */
unsigned char *take(size_t size);
/** Announced, unless this is the twin, which does not do it. */
void free_badly(void *pointer);
void *in_a_thread(void *(*function)(void *), void *argument);

void crowd_take(struct crowd *blocks, size_t size, unsigned count);
/** The same without writing to them: what an allocator keeps in its free blocks stays as it is. */
void crowd_take_untouched(struct crowd *blocks, size_t size, unsigned count);
void crowd_free(const struct crowd *blocks);
/** Does any of them lie in these bytes, in part? */
bool crowd_touches(const struct crowd *blocks, const void *start, size_t length);
bool crowd_overlaps(const struct crowd *blocks);
/** Does the block still hold its pattern, at both of its ends? */
bool crowd_is_intact(const struct crowd *blocks, unsigned number);
/** The two blocks that lie closest to each other, lower one first. Returns how far apart. */
uintptr_t crowd_nearest(const struct crowd *blocks, unsigned *low, unsigned *high);
/** The same where they lie within 64 MiB; the program is skipped where none do. */
void crowd_neighbours(const struct crowd *blocks, unsigned *low, unsigned *high);

/** Takes many blocks: harm if two of them overlap. */
void end_if_all_differ(size_t size);
/** The same by calloc: harm if one is not zero. */
void end_if_all_are_zero(void);
/** Takes many blocks: harm of this kind if one touches these bytes. */
void end_if_untouched(const void *start, size_t length, const char *what);
/** Takes and gives back blocks of the size until this one is handed out, or so many that it will not be. */
bool comes_back(const void *block, size_t size);
/** Writes bytes one after the other, upwards or downwards. */
void write_upwards(unsigned char *from, const unsigned char *end);
void write_downwards(unsigned char *from, const unsigned char *end);
/** Is this word anywhere in the bytes? */
bool holds_word(const unsigned char *bytes, size_t length, uint64_t word);
void fill_with_word(unsigned char *bytes, size_t length, uint64_t word);

#ifdef __cplusplus
}
#endif

#define SECRET UINT64_C(0x5ec2e75ec2e75ec2)
#define HANDED_OUT_TWICE "a block is handed out twice"
#define HANDED_OUT_TARGET "malloc hands out an address of the attacker's choice"
#define OVERWRITTEN "another block's data overwritten"
#define SECRET_READ "a secret is read"

/* Keeps the compiler from seeing through the mistake, which it would warn of or remove. */
static inline unsigned char *opaque(void *pointer) {
  __asm__ volatile("" : "+r"(pointer) : : "memory");
  return (unsigned char *)pointer;
}

#endif
