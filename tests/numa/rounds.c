/* rounds.c - on which memory node lies what a thread uses? Rounds of threads on all nodes allocate, write, look and free; the kernel
 * says where the pages are. From round to round threads start in another order, so that memory that is used again without a
 * thought comes to another node.
 *
 * Usage: rounds ROUNDS THREADS MIB [KIND]: threads on each node, MiB that each allocates; all kinds, or one. For each kind of blocks
 * one line:
 *   kind=NAME pages=N local=N share=0.000
 * and last peak=N faults=N: most KiB that were resident at once, and page faults.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NODES = 8, PAGE = 4096, AT_ONCE = 1024 };

static const struct kind {
  const char *name;
  size_t low, high; /* bytes of a block */
  enum {
    APART,  /* threads of a round are on all nodes */
    HANDED, /* the same, and blocks are freed by a thread of another node */
    MOVED   /* threads of a round are on one node, those of the next on another */
  } way;
} kinds[] = {{"small", 64, 1024, APART},
             {"medium", 8192, 49152, APART},
             {"large", 98304, 786432, APART},
             {"huge", 2500000, 3500000, APART},
             {"handed_small", 64, 1024, HANDED},
             {"handed_medium", 8192, 49152, HANDED},
             {"handed_large", 98304, 786432, HANDED},
             {"moved_small", 64, 1024, MOVED},
             {"moved_huge", 2500000, 3500000, MOVED}};

struct block {
  struct block *next;
  size_t bytes;
};

struct worker {
  pthread_t thread;
  const struct kind *kind;
  unsigned node;
  uint64_t random;
  size_t bytes;
  size_t pages, local;
  struct block *blocks;
  struct worker *other; /* whose blocks it frees */
};

static cpu_set_t processors[NODES];
static unsigned nodes;
static pthread_barrier_t all_have_looked;

static void die(const char *what) {
  perror(what);
  exit(2);
}

static void find_nodes(void) {
  for (; nodes < NODES; nodes++) {
    char path[64];
    unsigned first, last;
    snprintf(path, sizeof path, "/sys/devices/system/node/node%u/cpulist", nodes);
    FILE *file = fopen(path, "r");
    if (file == NULL) break;
    int read = fscanf(file, "%u-%u", &first, &last);
    if (read < 1) die(path);
    if (read == 1) last = first;
    for (unsigned i = first; i <= last; i++) CPU_SET(i, &processors[nodes]);
    fclose(file);
  }
}

static uint64_t draw(uint64_t *state) {
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  return z ^ z >> 31;
}

static void fill(struct worker *worker) {
  for (size_t got = 0; got < worker->bytes;) {
    size_t bytes =
        worker->kind->low + draw(&worker->random) % (worker->kind->high - worker->kind->low);
    struct block *block = malloc(bytes);
    if (block == NULL) die("malloc");
    for (size_t at = 0; at < bytes; at += PAGE) ((volatile char *)block)[at] = 1;
    ((volatile char *)block)[bytes - 1] = 1;
    *block = (struct block){worker->blocks, bytes};
    worker->blocks = block;
    got += bytes;
  }
}

static void ask(struct worker *worker, void **pages, size_t count) {
  int status[AT_ONCE];
  if (syscall(SYS_move_pages, 0, count, pages, NULL, status, 0) != 0) die("move_pages");
  for (size_t i = 0; i < count; i++) {
    worker->pages++;
    worker->local += status[i] == (int)worker->node;
  }
}

/* A page of several blocks in a row is counted once. */
static void look(struct worker *worker) {
  void *pages[AT_ONCE];
  size_t count = 0;
  uintptr_t last = 0;
  for (struct block *block = worker->blocks; block != NULL; block = block->next) {
    uintptr_t page = (uintptr_t)block & ~(uintptr_t)(PAGE - 1);
    for (; page < (uintptr_t)block + block->bytes; page += PAGE) {
      if (page == last) continue;
      last = page;
      pages[count++] = (void *)page;
      if (count == AT_ONCE) {
        ask(worker, pages, count);
        count = 0;
      }
    }
  }
  if (count > 0) ask(worker, pages, count);
}

static void free_all(struct worker *worker) {
  for (struct block *block = worker->blocks, *next; block != NULL; block = next) {
    next = block->next;
    free(block);
  }
  worker->blocks = NULL;
}

static void *work(void *argument) {
  struct worker *worker = argument;
  fill(worker);
  look(worker);
  pthread_barrier_wait(&all_have_looked);
  if (worker->kind->way == HANDED) {
    /* What it got from the other it may use again at once. */
    free_all(worker->other);
    pthread_barrier_wait(&all_have_looked);
    fill(worker);
    look(worker);
  }
  free_all(worker);
  return NULL;
}

static void start(struct worker *worker) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) die("pthread_attr_init");
  pthread_attr_setaffinity_np(&attributes, sizeof(cpu_set_t), &processors[worker->node]);
  if (pthread_create(&worker->thread, &attributes, work, worker) != 0) die("pthread_create");
  pthread_attr_destroy(&attributes);
}

static void play(const struct kind *kind, unsigned rounds, unsigned threads, size_t bytes) {
  size_t pages = 0, local = 0;
  unsigned count = nodes * threads;
  struct worker *workers = calloc(count, sizeof *workers);
  if (workers == NULL) die("calloc");
  pthread_barrier_init(&all_have_looked, NULL, count);
  uint64_t random = 7;
  for (unsigned round = 0; round < rounds; round++) {
    for (unsigned i = 0; i < count; i++)
      workers[i] = (struct worker){.kind = kind,
                                   .node = (kind->way == MOVED ? round : i + round) % nodes,
                                   .random = draw(&random),
                                   .bytes = bytes,
                                   .other = &workers[(i + 1) % count]};
    for (unsigned i = 0; i < count; i++) start(&workers[i]);
    for (unsigned i = 0; i < count; i++) {
      pthread_join(workers[i].thread, NULL);
      if (round == 0) continue; /* nothing was used before */
      pages += workers[i].pages;
      local += workers[i].local;
    }
  }
  pthread_barrier_destroy(&all_have_looked);
  free(workers);
  printf("kind=%s pages=%zu local=%zu share=%.3f\n", kind->name, pages, local,
         pages > 0 ? (double)local / (double)pages : 0.0);
  fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc != 4 && argc != 5) {
    fprintf(stderr, "usage: rounds ROUNDS THREADS MIB [KIND]\n");
    return 2;
  }
  find_nodes();
  printf("nodes=%u\n", nodes);
  if (nodes == 0) return 2;
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    if (argc == 4 || strcmp(argv[4], kinds[i].name) == 0)
      play(&kinds[i], (unsigned)atoi(argv[1]), (unsigned)atoi(argv[2]),
           (size_t)atoi(argv[3]) << 20);
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0) die("getrusage");
  printf("peak=%ld faults=%ld\n", usage.ru_maxrss, usage.ru_minflt);
  return 0;
}
