/* shared_page_target.c - what HAKMEM_SHM=1 has to get right, in one process: prints a line for each state that the test is to
 * look at, and goes on when it gets one.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile kept;

/* The page is due again, and the next slow path writes it. */
static void work(size_t bytes) {
  usleep(150000);
  kept = malloc(bytes);
  if (kept == NULL) abort();
  memset(kept, 1, bytes);
  usleep(150000);
  free(malloc(300000));
}

static void say(const char *what) {
  char line[64];
  int length = snprintf(line, sizeof line, "%s %d\n", what, (int)getpid());
  if (write(1, line, (size_t)length) != length) _exit(2);
  do
    if (read(0, line, 1) != 1) _exit(3);
  while (line[0] != '\n');
}

static void *forks(void *unused) {
  pid_t child = fork();
  if (child == 0) {
    say("child-before"); /* it has no page yet, and has left its parent's alone */
    work(40 << 20);
    say("child");
    exit(0);
  }
  int status = 1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) abort();
  return unused;
}

int main(int argc, char **argv) {
  pthread_t thread;
  work(10 << 20);
  say("parent");
  if (pthread_create(&thread, NULL, forks, NULL) != 0) abort();
  pthread_join(thread, NULL);
  work(1 << 20);
  say("parent-after");
  if (argc > 1) execl(argv[1], argv[1], (char *)NULL);
  return 0;
}
