/* toggled.c - threads allocate, check and free, while the process forks; for a test that turns the sampler on and off meanwhile.
 *
 * Usage: toggled
 * Prints "ready PID". At a line on its standard input the threads end, all is freed, and it prints "freed" and the numbers of its
 * children; at the next one, or without any more, it ends: with 1 if a block was not as it was written, or a child failed.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, SLOTS = 300, IN_CHILD = 500, CHILDREN_MOST = 100000, BURST = 1000 };

static _Atomic(unsigned char *) slots[SLOTS];
static atomic_bool stop, failed;
static pid_t children[CHILDREN_MOST];
static unsigned forks;

static unsigned draw(uint64_t *seed, unsigned below) {
  *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (unsigned)(*seed >> 33) % below;
}

/* A block says its size, and ends with the lowest byte of it. */
static unsigned char *made(size_t size) {
  unsigned char *block = malloc(size);
  if (block == NULL) return NULL;
  memcpy(block, &size, sizeof size);
  block[size - 1] = (unsigned char)size;
  return block;
}

static void check_and_free(unsigned char *block) {
  size_t size;
  if (block == NULL) return;
  memcpy(&size, block, sizeof size);
  if (block[size - 1] != (unsigned char)size) atomic_store(&failed, true);
  free(block);
}

static unsigned char *resized(unsigned char *block, size_t size) {
  unsigned char *now = realloc(block, size);
  if (now == NULL) return block;
  memcpy(now, &size, sizeof size);
  now[size - 1] = (unsigned char)size;
  return now;
}

/* Sizes of all tiers. The last byte lies behind the size. */
static size_t any_size(uint64_t *seed) {
  return sizeof(size_t) + 1 + draw(seed, 16u << draw(seed, draw(seed, 40) == 0 ? 18 : 9));
}

static void turn(uint64_t *seed) {
  unsigned char *block = made(any_size(seed));
  if (block != NULL && draw(seed, 10) == 0) block = resized(block, any_size(seed));
  check_and_free(atomic_exchange(&slots[draw(seed, SLOTS)], block));
}

/* In the pauses between bursts the tool gets a processor. */
static void *work(void *argument) {
  uint64_t seed = (uintptr_t)argument;
  while (!atomic_load(&stop)) {
    for (int i = 0; i < BURST; i++) turn(&seed);
    usleep(500);
  }
  return NULL;
}

static void free_all(void) {
  for (size_t i = 0; i < SLOTS; i++) check_and_free(atomic_exchange(&slots[i], NULL));
}

static int fork_and_wait(void) {
  uint64_t seed = forks;
  int status;
  pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    alarm(60);
    for (int i = 0; i < IN_CHILD; i++) turn(&seed);
    free_all();
    _exit(atomic_load(&failed));
  }
  children[forks++] = child;
  return waitpid(child, &status, 0) == child ? status : -1;
}

static void *fork_on(void *unused) {
  while (!atomic_load(&stop) && forks < CHILDREN_MOST) {
    if (fork_and_wait() != 0) atomic_store(&failed, true);
    usleep(5000);
  }
  return unused;
}

int main(void) {
  pthread_t threads[THREADS + 1];
  int byte;
  for (uintptr_t i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, work, (void *)(i + 1)) != 0) return 1;
  if (pthread_create(&threads[THREADS], NULL, fork_on, NULL) != 0) return 1;
  printf("ready %d\n", (int)getpid());
  fflush(stdout);
  while ((byte = getchar()) != '\n' && byte != EOF) continue;
  atomic_store(&stop, true);
  for (size_t i = 0; i <= THREADS; i++) pthread_join(threads[i], NULL);
  free_all();
  printf("freed");
  for (unsigned i = 0; i < forks; i++) printf(" %d", (int)children[i]);
  printf("\n");
  fflush(stdout);
  while ((byte = getchar()) != '\n' && byte != EOF) continue;
  return atomic_load(&failed);
}
