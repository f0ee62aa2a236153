/* Guarded samples: each misuse of one is stopped with its kind, place and stacks, or is survived; what is no misuse is let alone.
 *
 * Every block that has room on a page is guarded here (HAKMEM_PROF_RATE=1 HAKMEM_GUARD_SAMPLE=1).
 *
 * usage: guard_sample stop|recover|chance */
#include "kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 100, TEXT = 16384 };

static volatile char sink;

/* Not into one another, and known by name to whoever reads the stacks. */
#define APART __attribute__((noinline))

static APART char *allocate_here(size_t size) {
  char *block = mem_malloc(size);
  CHECK(block, "malloc failed");
  memset(block, 7, size);
  return block;
}

static APART void free_here(void *block) { mem_free(block); }

static void *free_in_thread(void *block) {
  free_here(block);
  return NULL;
}

/* Of two blocks in a row one lies at the start of its page, the other at the end. */
static char *at_end(size_t size) {
  char *blocks[2];
  for (;;) {
    for (int i = 0; i < 2; i++) blocks[i] = allocate_here(size);
    for (int i = 0; i < 2; i++)
      if (((uintptr_t)blocks[i] & 4095) != 0) return blocks[i];
  }
}

static char *at_start(size_t size) {
  for (;;) {
    char *block = allocate_here(size);
    if (((uintptr_t)block & 4095) == 0) return block;
  }
}

/* --- what is wrong ------------------------------------------------------------------------------------------------ */

static void read_after_free(void) {
  char *block = allocate_here(SIZE);
  free_here(block);
  sink = block[24];
}

static void write_after_free(void) {
  char *block = allocate_here(SIZE);
  free_here(block);
  block[24] = 1;
}

static void read_after_free_elsewhere(void) {
  char *block = allocate_here(SIZE);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, free_in_thread, block) == 0, "cannot create thread");
  pthread_join(thread, NULL);
  sink = block[0];
}

static void write_behind(void) { at_end(SIZE - SIZE % 16)[SIZE - SIZE % 16] = 1; }

static void read_far_behind(void) { sink = at_end(SIZE - SIZE % 16)[SIZE - SIZE % 16 + 1000]; }

static void read_before(void) { sink = at_start(SIZE)[-1]; }

static void free_after_write_behind(void) {
  char *block = at_start(SIZE);
  block[SIZE] = 1;
  free_here(block);
}

static void free_after_write_before(void) {
  char *block = at_end(SIZE);
  block[-1] = 1;
  free_here(block);
}

static void free_twice(void) {
  char *block = allocate_here(SIZE);
  free_here(block);
  free_here(block);
}

static void free_inside(void) { free_here(allocate_here(SIZE) + 16); }

static void resize_after_free(void) {
  char *block = allocate_here(SIZE);
  free_here(block);
  CHECK(mem_realloc(block, 2 * SIZE) == NULL, "realloc of a freed block");
}

/* --- what is not -------------------------------------------------------------------------------------------------- */

static void use_all(void) {
  for (size_t size = 0; size < 5000; size += 61) {
    char *block = allocate_here(size);
    CHECK(mem_usable_size(block) >= size, "malloc_usable_size");
    for (size_t i = 0; i < size; i++) CHECK(block[i] == 7, "contents");
    free_here(block);
  }
}

static void resize(void) {
  char *block = allocate_here(10);
  for (size_t size = 10; size < 9000; size += 37) {
    block = mem_realloc(block, size + 37);
    CHECK(block, "realloc");
    for (size_t i = 0; i < size; i++) CHECK(block[i] == 7, "contents at %zu of %zu", i, size);
    memset(block, 7, size + 37);
  }
  free_here(mem_realloc(block, 5));
}

static void be_zero_and_aligned(void) {
  for (int i = 0; i < 300; i++) {
    char *zeros = mem_calloc(1, 300);
    for (int j = 0; j < 300; j++) CHECK(zeros[j] == 0, "calloc");
    memset(zeros, 1, 300);
    void *aligned = NULL;
    CHECK(mem_posix_memalign(&aligned, 1024, 200) == 0 && (uintptr_t)aligned % 1024 == 0,
          "aligned");
    mem_free(zeros);
    mem_free(aligned);
  }
}

static void *churn(void *seed) {
  struct kit_rng rng = kit_rng_make((uintptr_t)seed);
  void *blocks[50] = {0};
  for (int i = 0; i < 5000; i++) {
    size_t at = kit_below(&rng, 50);
    mem_free(blocks[at]);
    blocks[at] = allocate_here(1 + kit_below(&rng, 6000));
  }
  for (int i = 0; i < 50; i++) mem_free(blocks[i]);
  return NULL;
}

static void use_in_threads(void) {
  pthread_t ids[4];
  for (uintptr_t i = 0; i < 4; i++)
    CHECK(pthread_create(&ids[i], NULL, churn, (void *)(i + 1)) == 0, "cannot create thread");
  for (int i = 0; i < 4; i++) pthread_join(ids[i], NULL);
}

/* Not a block's: as without us. */
static void touch_nothing(void) {
  volatile uintptr_t address = 16;
  *(volatile char *)address = 1;
}

/* --- the runs ------------------------------------------------------------------------------------------------------ */

/* What the body of this name wrote to stderr, and how it ended. */
static int run(const char *name, char *text) {
  int ends[2], status = -1;
  CHECK(pipe(ends) == 0, "pipe");
  pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    execl("/proc/self/exe", "guard_sample", "body", name, (char *)NULL);
    _exit(99);
  }
  close(ends[1]);
  size_t length = 0;
  ssize_t got;
  while ((got = read(ends[0], text + length, TEXT - 1 - length)) > 0) length += (size_t)got;
  text[length] = 0;
  close(ends[0]);
  CHECK(waitpid(child, &status, 0) == child, "waitpid");
  return status;
}

static const struct misuse {
  const char *name;
  void (*body)(void);
  const char *words[6];
} misuses[] = {
    {"read_after_free",
     read_after_free,
     {"use after free: 0x", "24 bytes into a freed block of 100 bytes",
      "had freed it here:", "had allocated it here:"}},
    {"write_after_free", write_after_free, {"use after free: 0x", "24 bytes into a freed block"}},
    {"read_after_free_elsewhere",
     read_after_free_elsewhere,
     {"use after free: 0x", "0 bytes into"}},
    {"write_behind",
     write_behind,
     {"overflow: 0x", "0 bytes behind the end of a block of 96 bytes", "had allocated it here:"}},
    {"read_far_behind", read_far_behind, {"overflow: 0x", "1000 bytes behind the end of"}},
    {"read_before", read_before, {"underflow: 0x", "1 byte before a block of 100 bytes"}},
    {"free_after_write_behind",
     free_after_write_behind,
     {"written beside a block: 0x", "0 bytes behind the end of", "found it in free, here:"}},
    {"free_after_write_before",
     free_after_write_before,
     {"written beside a block: 0x", "1 byte before"}},
    {"free_twice",
     free_twice,
     {"free(): double free", "0 bytes into a freed block",
      "had freed it here:", "had allocated it here:"}},
    {"free_inside",
     free_inside,
     {"free(): pointer into the middle of a block", "16 bytes into a block of 100 bytes"}},
    {"resize_after_free", resize_after_free, {"realloc(): double free", "a freed block"}},
};

static const struct fine {
  const char *name;
  void (*body)(void);
} fines[] = {{"use_all", use_all},
             {"resize", resize},
             {"be_zero_and_aligned", be_zero_and_aligned},
             {"use_in_threads", use_in_threads}};

enum { MISUSES = sizeof misuses / sizeof misuses[0], FINES = sizeof fines / sizeof fines[0] };

static int body_of(const char *name) {
  if (strcmp(name, "touch_nothing") == 0) touch_nothing();
  for (int i = 0; i < MISUSES; i++)
    if (strcmp(name, misuses[i].name) == 0) misuses[i].body();
  for (int i = 0; i < FINES; i++)
    if (strcmp(name, fines[i].name) == 0) fines[i].body();
  return 0;
}

static unsigned count_of(const char *text, const char *word) {
  unsigned count = 0;
  for (const char *at = text; (at = strstr(at, word)) != NULL; at++) count++;
  return count;
}

static void see_misuse(const struct misuse *misuse, bool recovers) {
  char text[TEXT];
  int status = run(misuse->name, text);
  bool stopped = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  CHECK(recovers ? ended : stopped, "%s: status %x\n%s", misuse->name, status, text);
  for (int i = 0; misuse->words[i] != NULL; i++)
    CHECK(strstr(text, misuse->words[i]), "%s: no '%s' in\n%s", misuse->name, misuse->words[i],
          text);
  CHECK(count_of(text, "had allocated it here:") == 1, "%s: told %u times\n%s", misuse->name,
        count_of(text, "had allocated it here:"), text);
#if defined(__GLIBC__) && defined(__x86_64__)
  CHECK(count_of(text, "guard_sample+0x") >= 4, "%s: no stacks\n%s", misuse->name, text);
#endif
  CHECK(!recovers || strstr(text, "the program goes on"), "%s:\n%s", misuse->name, text);
}

/* One process in two has guarded blocks. */
static void see_chance(void) {
  enum { RUNS = 200, LEAST = 60, MOST = 140 }; /* 5.6 standard deviations */
  char text[TEXT];
  int guarded = 0;
  for (int i = 0; i < RUNS; i++) guarded += WIFSIGNALED(run("read_after_free", text));
  printf("%d of %d processes\n", guarded, RUNS);
  CHECK(guarded >= LEAST && guarded <= MOST, "%d of %d processes", guarded, RUNS);
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "body") == 0) return body_of(argv[2]);
  kit_start();
  const char *mode = argc == 2 ? argv[1] : "";
  if (strcmp(mode, "chance") == 0) {
    see_chance();
    return 0;
  }
  for (int i = 0; i < MISUSES; i++) see_misuse(&misuses[i], strcmp(mode, "recover") == 0);
  char text[TEXT];
  for (int i = 0; i < FINES; i++) {
    int status = run(fines[i].name, text);
    CHECK(status == 0 && text[0] == 0, "%s: status %x\n%s", fines[i].name, status, text);
  }
  int status = run("touch_nothing", text);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV && text[0] == 0, "status %x\n%s", status,
        text);
  return 0;
}
