/* search_run.c - a trial in a forked child, which looks after each step at what became of its memory.
 *
 * A misuse writes where it should not; what it has written itself is no impact. So the child notes the contents of everything
 * anew after each misuse, and what changes later was changed by the allocator.
 */
#include "search.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TARGET_WORDS = 64, LOOKED_AT = 1024, SECONDS = 10, EXIT_IMPACT = 100, EXIT_UNAPPLIED = 99 };

/* The compiler shall know nothing of them: it reasons about what a right program does. */
static void *(*volatile do_malloc)(size_t) = malloc;
static void *(*volatile do_realloc)(void *, size_t) = realloc;
static void (*volatile do_free)(void *) = free;
static size_t (*volatile do_usable)(void *) = malloc_usable_size;

static struct place {
  unsigned char *start; /* stays when the block is freed: the program's dangling pointer */
  size_t size;
  bool live;
  uint64_t sum;
} places[SEARCH_SLOTS];

static _Alignas(64) uint64_t in_data[TARGET_WORDS];
static uint64_t *targets[3]; /* .data, stack, a mapping: by enum value */
static uint64_t target_word;

/* --- what is to be seen ---------------------------------------------------------------------------------- */

__attribute__((noreturn)) static void impact(enum outcome outcome) {
  _exit(EXIT_IMPACT + (int)outcome);
}

static uint64_t sum_of(const unsigned char *start, size_t size) {
  uint64_t sum = UINT64_C(0xcbf29ce484222325);
  size_t head = size < LOOKED_AT ? size : LOOKED_AT;
  for (size_t i = 0; i < head; i++) sum = (sum ^ start[i]) * UINT64_C(0x100000001b3);
  for (size_t i = size - (size - head < 64 ? size - head : 64); i < size; i++)
    sum = (sum ^ start[i]) * UINT64_C(0x100000001b3);
  return sum;
}

static void note_contents(void) {
  for (unsigned i = 0; i < SEARCH_SLOTS; i++)
    if (places[i].live) places[i].sum = sum_of(places[i].start, places[i].size);
}

static void look_around(void) {
  for (unsigned i = 0; i < 3; i++)
    for (unsigned word = 0; word < TARGET_WORDS; word++)
      if (targets[i][word] != target_word) impact(OUTCOME_CHANGED);
  for (unsigned i = 0; i < SEARCH_SLOTS; i++)
    if (places[i].live && sum_of(places[i].start, places[i].size) != places[i].sum)
      impact(OUTCOME_CHANGED);
}

static bool meet(const void *a, size_t a_size, const void *b, size_t b_size) {
  return (uintptr_t)a < (uintptr_t)b + b_size && (uintptr_t)b < (uintptr_t)a + a_size;
}

extern char __executable_start[], _end[]; /* by the linker: the program's own image */

static void look_at_new(const unsigned char *start, size_t size) {
  for (unsigned i = 0; i < 3; i++)
    if (meet(start, size, targets[i], TARGET_WORDS * sizeof(uint64_t))) impact(OUTCOME_TARGET);
  size_t image = (size_t)(_end - __executable_start);
  if (meet(start, size, __executable_start, image)) impact(OUTCOME_TARGET);
  char *stack = (char *)targets[VALUE_STACK] - 4096;
  if (meet(start, size, stack, 8192)) impact(OUTCOME_TARGET);
  for (unsigned i = 0; i < SEARCH_SLOTS; i++)
    if (places[i].live && meet(start, size, places[i].start, places[i].size))
      impact(OUTCOME_OVERLAP);
}

/* --- steps -------------------------------------------------------------------------------------------------- */

static void take(struct place *place, void *memory, size_t size) {
  if (memory == NULL) {
    place->start = NULL;
    return;
  }
  look_at_new(memory, size);
  *place = (struct place){memory, size, true, 0};
  memset(memory, 0x20 + (int)(place - places), size);
  place->sum = sum_of(memory, size);
}

/* The number of a live block that has this address, or -1. */
static int live_at(const unsigned char *address) {
  for (int i = 0; i < SEARCH_SLOTS; i++)
    if (places[i].live && meet(address, 1, places[i].start, places[i].size)) return i;
  return -1;
}

static void write_word(const struct step *step, unsigned char *at) {
  uint64_t word;
  memcpy(&word, at, sizeof word);
  if (step->value <= VALUE_MAPPING) word = (uint64_t)(uintptr_t)targets[step->value];
  else if (step->value == VALUE_BLOCK) word = (uint64_t)(uintptr_t)places[step->other].start;
  else if (step->value == VALUE_ZERO) word = 0;
  else if (step->value == VALUE_ONES) word = UINT64_MAX;
  else if (step->value == VALUE_SIZE) word = target_word;
  else word ^= UINT64_C(1) << step->other % 64;
  memcpy(at, &word, sizeof word);
}

/* True if there was a place for it. */
static bool misuse(enum primitive primitive, const struct step *step) {
  struct place *place = &places[step->slot];
  if (place->start == NULL) return false;
  bool free_still = !place->live && live_at(place->start) < 0;
  size_t usable = place->live ? do_usable(place->start) : 0;
  switch (primitive) {
  case PRIMITIVE_DOUBLE_FREE:
    if (free_still) do_free(place->start);
    return free_still;
  case PRIMITIVE_STALE_FREE: {
    int other = place->live ? -1 : live_at(place->start);
    if (other < 0 || places[other].start != place->start) return false;
    do_free(place->start);
    return true;
  }
  case PRIMITIVE_INTERIOR_FREE:
    if (!place->live || step->offset == 0 || step->offset >= place->size) return false;
    do_free(place->start + step->offset);
    return true;
  case PRIMITIVE_OVERFLOW:
    for (unsigned i = 0; place->live && i < 1 + step->offset / 16; i++)
      write_word(step, place->start + usable + (size_t)i * 8);
    return place->live;
  case PRIMITIVE_UNDERFLOW:
    for (unsigned i = 0; place->live && i < 1 + step->offset / 16; i++)
      write_word(step, place->start - 8 - (size_t)i * 8);
    return place->live;
  case PRIMITIVE_WRITE_AFTER_FREE:
    if (place->live || step->offset + 8 > place->size) return false;
    write_word(step, place->start + step->offset);
    return true;
  case PRIMITIVE_BYTE_AFTER_FREE:
    if (place->live || step->offset >= place->size) return false;
    place->start[step->offset] ^= (unsigned char)(1u << step->other % 8);
    return true;
  case PRIMITIVE_OFF_BY_ONE:
    if (place->live) place->start[usable] = 0;
    return place->live;
  default:
    return false;
  }
}

static bool one_step(const struct trial *trial, const struct step *step) {
  struct place *place = &places[step->slot];
  bool applied = false;
  switch (step->kind) {
  case STEP_MALLOC:
    if (!place->live) take(place, do_malloc(step->size), step->size);
    break;
  case STEP_FREE:
    if (!place->live) break;
    place->live = false;
    do_free(place->start);
    break;
  case STEP_REALLOC: {
    if (!place->live) break;
    place->live = false;
    void *memory = do_realloc(place->start, step->size);
    if (memory != NULL) take(place, memory, step->size);
    else place->live = true;
    break;
  }
  default:
    applied = misuse(trial->primitive, step);
    if (applied) note_contents();
  }
  if (!applied) look_around();
  return applied;
}

__attribute__((noreturn, noinline)) static void child(const struct trial *trial) {
  uint64_t on_stack[TARGET_WORDS];
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  alarm(SECONDS);
  /* As the size in front of a block of some allocators, so that a target looks like one. */
  target_word = ((trial->steps[0].size + 23) & ~(size_t)15) | 1;
  targets[VALUE_DATA] = in_data;
  targets[VALUE_STACK] = on_stack;
  targets[VALUE_MAPPING] =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (targets[VALUE_MAPPING] == MAP_FAILED) abort();
  for (unsigned i = 0; i < 3; i++)
    for (unsigned word = 0; word < TARGET_WORDS; word++) targets[i][word] = target_word;
  unsigned applied = 0;
  for (unsigned i = 0; i < trial->count; i++) applied += one_step(trial, &trial->steps[i]);
  _exit(applied != 0 || trial->primitive == PRIMITIVE_NONE ? 0 : EXIT_UNAPPLIED);
}

enum outcome trial_run(const struct trial *trial, bool *applied) {
  if (ftruncate(STDERR_FILENO, 0) != 0 || lseek(STDERR_FILENO, 0, SEEK_SET) != 0) abort();
  fflush(NULL);
  pid_t process = fork();
  if (process == 0) child(trial);
  int status;
  if (process < 0 || waitpid(process, &status, 0) != process) {
    printf("search: no child: %s\n", strerror(errno));
    exit(2);
  }
  *applied = true;
  if (WIFSIGNALED(status)) {
    if (WTERMSIG(status) == SIGALRM) return OUTCOME_HUNG;
    return lseek(STDERR_FILENO, 0, SEEK_END) > 0 ? OUTCOME_STOPPED : OUTCOME_CRASHED;
  }
  int code = WEXITSTATUS(status);
  if (code >= EXIT_IMPACT) return (enum outcome)(code - EXIT_IMPACT);
  *applied = code != EXIT_UNAPPLIED;
  return OUTCOME_SURVIVED;
}
