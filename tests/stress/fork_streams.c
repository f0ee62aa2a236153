/* Threads that fork while others are in libc's streams: in getline, which allocates while it holds its stream, and in
 * fflush(NULL), which holds libc's list of streams while it waits for each of them. fork() takes that list's lock after it
 * has run the handlers: if a handler holds what an allocation waits for, nobody goes on. Each child allocates and frees.
 *
 * A fork may wait for long where the list of streams is wanted all the time, so this runs for some seconds; then all threads
 * have to come to their ends.
 *
 * usage: fork_streams [seconds] */
#include "kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READERS = 6, FORKERS = 4, LINE = 80000 };

static atomic_bool stop;
static atomic_ulong lines_read, forks;
static char path[64];

/* One long line: getline reads it, and grows its buffer, in many steps while it holds the stream. */
static void write_line(void) {
  static char line[LINE];
  int file = memfd_create("line", MFD_CLOEXEC);
  CHECK(file >= 0, "memfd_create");
  memset(line, 'a', sizeof line - 1);
  line[sizeof line - 1] = '\n';
  CHECK(write(file, line, sizeof line) == (ssize_t)sizeof line, "write");
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
}

static void *read_lines(void *unused) {
  FILE *stream = fopen(path, "r");
  CHECK(stream, "fopen");
  while (!atomic_load(&stop)) {
    char *line = NULL;
    size_t room = 0;
    rewind(stream);
    CHECK(getline(&line, &room, stream) == LINE, "getline");
    free(line);
    atomic_fetch_add(&lines_read, 1);
  }
  fclose(stream);
  return unused;
}

static void *flush_all(void *unused) {
  while (!atomic_load(&stop)) fflush(NULL);
  return unused;
}

static void in_child(uint64_t number) {
  kit_watchdog(30);
  struct kit_rng rng = kit_rng_make(number);
  for (int i = 0; i < 20; i++) {
    kit_block block = kit_block_any(&rng, kit_any_size(&rng));
    CHECK(block, "malloc failed");
    kit_block_free(block);
  }
  _exit(0);
}

static void *fork_often(void *argument) {
  for (uint64_t i = 0; i == 0 || !atomic_load(&stop); i++) {
    pid_t child = fork();
    if (child == 0) in_child(i);
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child, "fork or waitpid");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %lu ended with %#x%s",
          (unsigned long)i, (unsigned)status,
          WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? " (it hung)" : "");
    atomic_fetch_add(&forks, 1);
  }
  return argument;
}

static pthread_t start(void *(*body)(void *)) {
  pthread_t id;
  CHECK(pthread_create(&id, NULL, body, NULL) == 0, "cannot create thread");
  return id;
}

int main(int argc, char **argv) {
  kit_start();
  kit_watchdog(60);
  unsigned seconds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 3;
  write_line();
  pthread_t others[READERS + 1], forkers[FORKERS];
  for (int i = 0; i < READERS; i++) others[i] = start(read_lines);
  others[READERS] = start(flush_all);
  for (int i = 0; i < FORKERS; i++) forkers[i] = start(fork_often);
  sleep(seconds);
  atomic_store(&stop, true);
  for (int i = 0; i < FORKERS; i++) pthread_join(forkers[i], NULL);
  for (int i = 0; i <= READERS; i++) pthread_join(others[i], NULL);
  printf("%lu forks beside %lu lines\n", (unsigned long)forks, (unsigned long)lines_read);
  CHECK(lines_read > 0, "nobody read");
  return 0;
}
