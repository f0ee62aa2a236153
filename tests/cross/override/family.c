/* family.c - the malloc family under its own names: the calls of the program and those that libc makes
 * for it come from the library, in one thread, in many, and in the child of a fork.
 *
 * usage: family [rounds]
 *
 * OVERRIDE_NO_THREAD_IN_CHILD=1: for emulators that cannot start a thread in the child of a fork. */
#include "override.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long rounds = 2000;

/* --- the functions --------------------------------------------------------------------------------- */

static void each_function(size_t size) {
  void *block = taken(malloc(size), size);
  CHECK(malloc_usable_size(block) >= size);
  block = opaque(realloc(block, size * 2));
  CHECK(block != NULL && owns(block));
  still_holds(block, size, size);
  block = opaque(realloc(block, size / 2 + 1));
  still_holds(block, size, size / 2 + 1);
  free(block);

  unsigned char *zeros = (unsigned char *)opaque(calloc(size, 3));
  CHECK(zeros != NULL && owns(zeros));
  for (size_t i = 0; i < size * 3; i++) CHECK(zeros[i] == 0);
  free(zeros);

  free(taken(reallocarray(NULL, size, 2), size * 2));
  for (size_t alignment = 16; alignment <= 65536; alignment *= 4) {
    void *aligned = taken(aligned_alloc(alignment, size), size);
    CHECK((uintptr_t)aligned % alignment == 0);
    free(aligned);
    CHECK(posix_memalign(&aligned, alignment, size) == 0);
    CHECK((uintptr_t)taken(aligned, size) % alignment == 0);
    free(aligned);
    aligned = taken(memalign(alignment, size), size);
    CHECK((uintptr_t)aligned % alignment == 0);
    free(aligned);
  }
  void *page = taken(valloc(size), size);
  CHECK((uintptr_t)page % (size_t)sysconf(_SC_PAGESIZE) == 0);
  free(page);
}

static void what_cannot_be_had(void) {
  volatile size_t too_much = PTRDIFF_MAX; /* volatile: the compiler would complain */
  errno = 0;
  CHECK(opaque(malloc(too_much)) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(opaque(calloc(too_much, 3)) == NULL && errno == ENOMEM);
  void *block = taken(malloc(100), 100);
  CHECK(opaque(realloc(block, too_much)) == NULL);
  still_holds(block, 100, 100);
  errno = 4711;
  free(block);
  free(opaque(NULL));
  CHECK(errno == 4711);
}

/* What libc allocates is ours too, and free() takes it. */
static void calls_by_libc(void) {
  char *copy = strdup("a string of some length");
  CHECK(owns(copy));
  free(copy);
  char *text = NULL;
  CHECK(asprintf(&text, "%s %d", "printed", 7) == 9);
  CHECK(owns(text));
  free(text);
  FILE *file = tmpfile();
  CHECK(file != NULL);
  fprintf(file, "a line\n");
  rewind(file);
  size_t room = 0;
  text = NULL;
  CHECK(getline(&text, &room, file) == 7);
  CHECK(owns(text));
  free(text);
  fclose(file);
  CHECK(setenv("OVERRIDE_TEST_VALUE", "x", 1) == 0);
}

static void others_memory(void) {
  static char in_bss[16];
  char on_stack[16];
  CHECK(!owns(in_bss) && !owns(opaque(on_stack)) && !owns(NULL));
}

/* A pointer that is not ours ends the program. (With a line on the stderr that it was started with: tests/api/bad_pointer.) */
static void bad_pointer(void) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    free(opaque((void *)(uintptr_t)0x7f0012345670));
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* --- threads --------------------------------------------------------------------------------------- */

enum { THREADS = 4, SLOTS = 64 };

/* First word: its size; the rest: as taken() left it. */
static _Atomic(size_t *) slots[SLOTS];

static void let_go(size_t *block) {
  if (block == NULL) return;
  size_t size = *block;
  still_holds(block + 1, size, size - sizeof(size_t));
  free(block);
}

static void *exchange(void *number) {
  uint64_t random = (uintptr_t)number + 1;
  for (unsigned long i = 0; i < rounds; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    size_t size = 16 + (random >> 33) % (random >> 60 == 0 ? 200000 : 2000);
    size_t *block = (size_t *)taken(malloc(size), size);
    *block = size;
    let_go(atomic_exchange(&slots[(random >> 20) % SLOTS], block));
  }
  return NULL;
}

static void run_threads(unsigned count) {
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < count; i++)
    CHECK(pthread_create(&threads[i], NULL, exchange, (void *)i) == 0);
  for (unsigned i = 0; i < count; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void short_lived_threads(void) {
  unsigned long all = rounds;
  rounds = 5;
  for (int i = 0; i < 50; i++) run_threads(THREADS);
  rounds = all;
}

/* --- fork ------------------------------------------------------------------------------------------ */

static atomic_bool stop;
static bool no_thread_in_child;

static void *until_stopped(void *number) {
  while (!atomic_load(&stop)) {
    size_t size = sizes[(uintptr_t)number % SIZES];
    free(taken(malloc(size), size));
  }
  return NULL;
}

static void fork_among_threads(void) {
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, until_stopped, (void *)(i + 2)) == 0);
  void *block = taken(malloc(3000), 3000);
  for (int i = 0; i < 10; i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(60); /* a deadlock becomes a failure */
      still_holds(block, 3000, 3000);
      free(block);
      for (int size = 0; size < SIZES; size++) free(taken(malloc(sizes[size]), sizes[size]));
      if (!no_thread_in_child) run_threads(2);
      _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  free(block);
  atomic_store(&stop, true);
  for (unsigned i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv) {
  if (argc > 1) rounds = strtoul(argv[1], NULL, 10);
  no_thread_in_child = getenv("OVERRIDE_NO_THREAD_IN_CHILD") != NULL;
  find_library();
  for (int i = 0; i < SIZES; i++) each_function(sizes[i]);
  what_cannot_be_had();
  calls_by_libc();
  others_memory();
  bad_pointer();
  run_threads(THREADS);
  short_lived_threads();
  fork_among_threads();
  for (int i = 0; i < SLOTS; i++) let_go(atomic_exchange(&slots[i], NULL));
  printf("family: fine, pages of %ld bytes%s\n", sysconf(_SC_PAGESIZE),
         no_thread_in_child ? ", no thread in forked children" : "");
  return 0;
}
