/* probe.c - what the emulator can do at all, tried with libc's own malloc: where this program fails, a
 * test that needs the same says nothing about the allocator. Exit status 0: it can.
 *
 * usage: probe thread-in-child     a thread in the child of a process that forked with threads
 *        probe main-ends-first     the main thread ends before the others */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_bool stop;

static void *until_stopped(void *argument) {
  while (!atomic_load(&stop)) usleep(100);
  return argument;
}

static void *at_once(void *argument) { return argument; }

static int child(void) {
  alarm(5);
  pthread_t thread;
  return pthread_create(&thread, NULL, at_once, NULL) != 0 || pthread_join(thread, NULL) != 0;
}

static int thread_in_child(void) {
  pthread_t threads[3];
  for (int i = 0; i < 3; i++)
    if (pthread_create(&threads[i], NULL, until_stopped, NULL) != 0) return 1;
  int failed = 0;
  for (int i = 0; i < 10 && !failed; i++) {
    pid_t pid = fork();
    if (pid == 0) _exit(child());
    int status = 0;
    failed = pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
  }
  atomic_store(&stop, true);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  return failed;
}

static pthread_t main_thread;

static void *wait_for_main(void *argument) {
  (void)argument;
  exit(pthread_join(main_thread, NULL) != 0);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  alarm(20); /* it may hang rather than fail */
  if (strcmp(argv[1], "thread-in-child") == 0) return thread_in_child();
  if (strcmp(argv[1], "main-ends-first") != 0) return 2;
  alarm(5);
  main_thread = pthread_self();
  pthread_t thread;
  if (pthread_create(&thread, NULL, wait_for_main, NULL) != 0) return 1;
  pthread_exit(NULL);
}
