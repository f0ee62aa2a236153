/* The main thread leaves by pthread_exit, and the process ends with the last of its threads: libc calls exit() there. What handlers and
 * streams still write has to arrive, also while a helper thread is at work.
 *
 * usage: exit_last_thread [processes] */
#include "kit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 2
#define BLOCKS 2000
#define BLOCK 20000

static const char expected[] = "of a stream\nof a handler\n";

static void say(void) {
  void *block = mem_malloc(BLOCK);
  CHECK(block, "malloc failed");
  mem_free(block);
  fputs("of a handler\n", stdout);
}

/* Enough for the helper to start. Some threads end at once, while it works, and some when it has nothing to do any more. */
static void *work(void *argument) {
  static const unsigned pauses[] = {0, 1000, 20000, 1200000};
  char **blocks = mem_malloc(BLOCKS * sizeof *blocks);
  CHECK(blocks, "malloc failed");
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = mem_malloc(BLOCK);
    CHECK(blocks[i], "malloc failed");
    memset(blocks[i], 1, BLOCK);
  }
  for (int i = 0; i < BLOCKS; i++) mem_free(blocks[i]);
  mem_free(blocks);
  usleep(pauses[(uintptr_t)argument % 4]);
  return NULL;
}

static void process(unsigned number) {
  kit_watchdog(60);
  atexit(say);
  fputs("of a stream\n", stdout);
  for (uintptr_t i = 0; i < THREADS; ++i) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, work, (void *)(i * (number / 4) + number)) == 0,
          "cannot create thread");
    pthread_detach(id);
  }
  pthread_exit(NULL);
}

/* In a program of its own: musl 1.2.3, see exit_detached.c. */
static void start(unsigned number, char *program, int output) {
  char text[16];
  snprintf(text, sizeof text, "%u", number);
  char mode[] = "process", *arguments[] = {program, mode, text, NULL};
  CHECK(dup2(output, STDOUT_FILENO) >= 0, "dup2");
  execv("/proc/self/exe", arguments);
  CHECK(false, "execv");
}

int main(int argc, char **argv) {
  kit_start();
  if (argc > 2) process((unsigned)strtoul(argv[2], NULL, 10));
  unsigned processes = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : (unsigned)kit_rounds(16);
  for (unsigned i = 0; i < processes; ++i) {
    int ends[2], status;
    char text[200];
    size_t length = 0;
    CHECK(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) start(i, argv[0], ends[1]);
    close(ends[1]);
    ssize_t got;
    while ((got = read(ends[0], text + length, sizeof text - 1 - length)) > 0)
      length += (size_t)got;
    text[length] = 0;
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    CHECK(status == 0, "process %u ended with status %x", i, (unsigned)status);
    CHECK(strcmp(text, expected) == 0, "process %u has written: '%s'", i, text);
  }
  printf("%u processes ended with their last thread, and wrote everything\n", processes);
  return 0;
}
