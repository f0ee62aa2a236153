/* fork() in a signal handler that has interrupted malloc or free, as POSIX allows. The child returns from the handler, ends
 * what was interrupted, and goes on allocating. Alone, or beside threads that allocate and fork, too.
 *
 * usage: fork_in_handler alone|beside [forks] */
#include "kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 2, SLOTS = 64 };

static atomic_bool stop;
static volatile sig_atomic_t is_child;
static atomic_ulong forks, most;
static pthread_t main_thread;

static void on_timer(int number) {
  (void)number;
  /* Signals go to any thread: the one that is to fork is told apart by its mask. */
  if (is_child || atomic_load(&forks) >= atomic_load(&most)) return;
  int saved = errno;
  pid_t child = fork();
  if (child == 0) {
    is_child = 1;
    alarm(30);
  } else {
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
        WEXITSTATUS(status) != 0) {
      static const char text[] = "a child did not end well\n";
      if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(3);
      _exit(2);
    }
    atomic_fetch_add(&forks, 1);
  }
  errno = saved;
}

/* Mostly in the slow paths: the bins of several classes run over and run empty. */
static void turns(struct kit_rng *rng, int count) {
  static _Thread_local void *blocks[SLOTS];
  for (int i = 0; i < count; i++) {
    size_t size = (size_t)kit_below(rng, 100) == 0 ? 300 * KIT_KB : 1000 + kit_below(rng, 9000);
    for (int j = 0; j < SLOTS; j++) {
      blocks[j] = mem_malloc(size);
      CHECK(blocks[j], "malloc failed");
      memset(blocks[j], j, 64);
    }
    for (int j = 0; j < SLOTS; j++) {
      CHECK(*(unsigned char *)blocks[j] == j, "a block was overwritten");
      mem_free(blocks[j]);
    }
  }
}

static void *hammer(void *argument) {
  struct kit_rng rng = kit_rng_make((uintptr_t)argument);
  while (!atomic_load(&stop)) turns(&rng, 1);
  return NULL;
}

int main(int argc, char **argv) {
  kit_start();
  kit_watchdog(120);
  bool beside = argc > 1 && strcmp(argv[1], "beside") == 0;
  atomic_store(&most, argc > 2 ? strtoull(argv[2], NULL, 10) : kit_rounds(beside ? 150 : 300));
  struct kit_rng rng = kit_rng_make(1);
  turns(&rng, 10);
  main_thread = pthread_self();
  sigset_t timer;
  sigemptyset(&timer);
  sigaddset(&timer, SIGVTALRM);
  pthread_t ids[THREADS];
  if (beside) {
    pthread_sigmask(SIG_BLOCK, &timer, NULL); /* the threads inherit it */
    for (uintptr_t i = 0; i < THREADS; i++)
      CHECK(pthread_create(&ids[i], NULL, hammer, (void *)(i + 10)) == 0, "cannot create thread");
    pthread_sigmask(SIG_UNBLOCK, &timer, NULL);
  }
  signal(SIGVTALRM, on_timer);
  struct itimerval often = {{0, 1300}, {0, 1300}};
  setitimer(ITIMER_VIRTUAL, &often, NULL);
  while (!is_child && atomic_load(&forks) < atomic_load(&most)) turns(&rng, 1);
  if (is_child) { /* in a child, which has ended what the signal interrupted */
    turns(&rng, 3);
    _exit(0);
  }
  struct itimerval none = {{0, 0}, {0, 0}};
  setitimer(ITIMER_VIRTUAL, &none, NULL);
  atomic_store(&stop, true);
  for (int i = 0; beside && i < THREADS; i++) pthread_join(ids[i], NULL);
  printf("%lu forks in a signal handler, %s\n", (unsigned long)forks,
         beside ? "beside other threads" : "alone");
  return 0;
}
