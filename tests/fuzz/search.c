/* search.c - looks for what misuse of a heap can do, by chance: sequences of malloc, free and realloc with one kind of fault in
 * them, each in a process of its own, and then: do two live blocks share memory, did malloc return what is not its own, did the
 * allocator write to memory of the program? It knows nothing of the allocator, so it runs under any that is preloaded, and
 * compares them. After the idea of ArcHeap (Yun, Kapil, Kim: Automatic Techniques to Systematically Discover New Heap
 * Exploitation Primitives, 2020).
 *
 * usage: search [--seed N] [--trials N] [--only PRIMITIVE] [--promise PRIMITIVE:OUTCOME]...
 *   --trials   of each primitive (default 300)
 *   --promise  the exit status is 1 where this outcome was found for this primitive; `all` stands for every primitive, or for
 *              every impact (overlap, target, changed)
 * The first trial of each impact is made shorter while it has the same impact, and printed as C. */
#include "search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *const primitive_names[PRIMITIVE_COUNT] = {
#define PRIMITIVE_NAME(id, name) name,
    PRIMITIVES(PRIMITIVE_NAME)
#undef PRIMITIVE_NAME
};
static const char *const outcome_names[OUTCOME_COUNT] = {
#define OUTCOME_NAME(id, name) name,
    OUTCOMES(OUTCOME_NAME)
#undef OUTCOME_NAME
};

static unsigned long seed = 1, trials = 300;
static bool promised[PRIMITIVE_COUNT][OUTCOME_COUNT];

/* --- a trial by chance ------------------------------------------------------------------------------------ */

static uint64_t state;

static unsigned below(unsigned bound) {
  uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (unsigned)((x ^ (x >> 31)) >> 16) % bound;
}

static void draw_misuse(struct step *step) {
  step->kind = STEP_MISUSE;
  /* Links and sizes stand at the start of blocks and around them. */
  step->offset = below(3) ? below(8) * 8 : below(2) ? below(64) * 16 : below(2000);
  step->value = (enum value)below(VALUE_COUNT);
  step->other = step->value == VALUE_BLOCK ? below(SEARCH_SLOTS) : below(64);
}

/* A few sizes in a trial and few slots, so that freed memory is handed out again. */
static void draw_trial(struct trial *trial, enum primitive primitive, unsigned long number) {
  static const size_t all[] = {8,   16,  24,   40,   56,   64,   100,   120,   200,
                               256, 400, 1000, 1040, 2000, 4000, 20000, 70000, 300000};
  state = (uint64_t)seed << 40 ^ (uint64_t)primitive << 32 ^ number;
  memset(trial, 0, sizeof *trial);
  trial->primitive = primitive;
  trial->count = 10 + below(SEARCH_STEPS - 10);
  /* Small sizes in two thirds of the trials. */
  unsigned range = below(3) ? 9 : (unsigned)(sizeof all / sizeof *all);
  size_t sizes[3];
  for (unsigned i = 0; i < 3; i++) sizes[i] = all[below(range)];
  unsigned slots = 3 + below(SEARCH_SLOTS - 3), first = trial->count / 3;
  for (unsigned i = 0; i < trial->count; i++) {
    struct step *step = &trial->steps[i];
    step->slot = below(slots);
    step->size = sizes[below(3)];
    unsigned what = below(100);
    /* First blocks are made, then anything happens, at last blocks are made again. */
    unsigned of_malloc = i < first ? 75 : i > 2 * first ? 65 : 30;
    if (what < of_malloc || i == 0) step->kind = STEP_MALLOC;
    else if (what < of_malloc + 25) step->kind = STEP_FREE;
    else if (what < of_malloc + 28) step->kind = STEP_REALLOC;
    else if (primitive != PRIMITIVE_NONE && i >= 2) draw_misuse(step);
  }
}

/* Without each step that is not needed for this outcome. The first stays: the targets' contents come of its size. */
static void shorten(struct trial *trial, enum outcome outcome) {
  bool shorter = true, applied;
  while (shorter) {
    shorter = false;
    for (unsigned i = trial->count; i-- > 1;) {
      struct trial without = *trial;
      without.count--;
      memmove(&without.steps[i], &without.steps[i + 1],
              (without.count - i) * sizeof *without.steps);
      if (trial_run(&without, &applied) != outcome) continue;
      *trial = without;
      shorter = true;
    }
  }
}

/* --- all of one primitive ------------------------------------------------------------------------------------ */

/* True if nothing was found that is promised not to be. */
static bool search(enum primitive primitive, unsigned long counts[OUTCOME_COUNT],
                   unsigned long *applied_count) {
  bool good = true;
  for (unsigned long number = 0; number < trials; number++) {
    struct trial trial;
    bool applied;
    draw_trial(&trial, primitive, number);
    enum outcome outcome = trial_run(&trial, &applied);
    if (!applied) continue;
    ++*applied_count;
    bool broken = promised[primitive][outcome];
    /* A program without a fault has to live. */
    if (primitive == PRIMITIVE_NONE && outcome != OUTCOME_SURVIVED) broken = true;
    if (broken) good = false;
    if (counts[outcome]++ == 0 && (outcome > OUTCOME_SURVIVED || broken)) {
      shorten(&trial, outcome);
      printf("%s: %s%s (seed %lu, trial %lu):\n", primitive_names[primitive],
             outcome_names[outcome], broken ? ", WHICH IS PROMISED NOT TO BE" : "", seed, number);
      trial_print(&trial);
    }
  }
  return good;
}

static void print_table(unsigned long counts[][OUTCOME_COUNT], const unsigned long *applied,
                        int only) {
  printf("%-18s%9s%9s", "", "trials", "applied");
  for (unsigned i = 0; i < OUTCOME_COUNT; i++) printf("%10s", outcome_names[i]);
  printf("\n");
  for (int primitive = 0; primitive < PRIMITIVE_COUNT; primitive++) {
    if (only >= 0 && primitive != only) continue;
    printf("%-18s%9lu%9lu", primitive_names[primitive], trials, applied[primitive]);
    for (unsigned i = 0; i < OUTCOME_COUNT; i++)
      printf("%9lu%c", counts[primitive][i], promised[primitive][i] ? '!' : ' ');
    printf("\n");
  }
  printf("!: this allocator is expected to let none through\n");
}

/* --- arguments ------------------------------------------------------------------------------------------------ */

static int find(const char *const *names, int count, const char *name, size_t length) {
  for (int i = 0; i < count; i++)
    if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0) return i;
  printf("search: unknown: %s\n", name);
  exit(2);
}

static void promise(const char *pair) {
  const char *colon = strchr(pair, ':');
  size_t length = colon != NULL ? (size_t)(colon - pair) : strlen(pair);
  const char *name = colon != NULL ? colon + 1 : "all";
  bool every = length == 3 && strncmp(pair, "all", 3) == 0, any = strcmp(name, "all") == 0;
  int chosen = every ? 0 : find(primitive_names, PRIMITIVE_COUNT, pair, length);
  int outcome = any ? 0 : find(outcome_names, OUTCOME_COUNT, name, strlen(name));
  for (int i = 0; i < PRIMITIVE_COUNT; i++)
    for (int k = 0; k < OUTCOME_COUNT; k++)
      if ((every || i == chosen) && (any ? k > OUTCOME_SURVIVED : k == outcome))
        promised[i][k] = true;
}

/* Starts this program again, with a file of its own as stderr: allocators may write to the stderr that a program was started with,
 * and no other. */
static void catch_messages(char **argv) {
  if (getenv("FUZZ_SEARCH_STARTED") != NULL) return;
  int messages = memfd_create("messages", 0);
  setenv("FUZZ_SEARCH_STARTED", "1", 1);
  if (messages < 0 || dup2(messages, STDERR_FILENO) < 0) abort();
  execv("/proc/self/exe", argv);
  abort();
}

int main(int argc, char **argv) {
  catch_messages(argv);
  int only = -1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seed") == 0) seed = strtoul(argv[i + 1], NULL, 10);
    else if (strcmp(argv[i], "--trials") == 0) trials = strtoul(argv[i + 1], NULL, 10);
    else if (strcmp(argv[i], "--promise") == 0) promise(argv[i + 1]);
    else if (strcmp(argv[i], "--only") == 0)
      only = find(primitive_names, PRIMITIVE_COUNT, argv[i + 1], strlen(argv[i + 1]));
    else find(primitive_names, 0, argv[i], 0);
  }
  static unsigned long counts[PRIMITIVE_COUNT][OUTCOME_COUNT], applied[PRIMITIVE_COUNT];
  bool good = true;
  for (int i = 0; i < PRIMITIVE_COUNT; i++)
    if (only < 0 || i == only) good &= search((enum primitive)i, counts[i], &applied[i]);
  print_table(counts, applied, only);
  return good ? 0 : 1;
}
