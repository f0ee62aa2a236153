/* follow.c - programs that start others in more ways than lives.c. Sizes tell the test which events are whose. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "program.h"

static char *own_path;

static void allocate(size_t size, int count) {
  for (int i = 0; i < count; i++) free(malloc(size));
}

static void wait_for_line(void) {
  char line;
  if (read(STDIN_FILENO, &line, 1) != 1) _exit(96);
}

static void wait_for_all(void) {
  int status, wrong = 0;
  while (wait(&status) > 0) wrong |= status;
  if (wrong != 0) _exit(98);
}

static pid_t fork_or_end(void) {
  pid_t pid = fork();
  if (pid < 0) _exit(95);
  return pid;
}

/* A child that says its pid before its first call. */
static void tells(void) {
  allocate(3000, 1);
  if (fork_or_end() == 0) {
    say("%d\n", (int)getpid());
    wait_for_line();
    allocate(3001, 1);
    _exit(0);
  }
  wait_for_all();
}

/* A child that allocates before it executes a program. */
static void executes(void) {
  allocate(3000, 1);
  char *arguments[] = {own_path, (char[]){"after"}, NULL};
  if (fork_or_end() == 0) {
    allocate(3001, 1);
    execv(own_path, arguments);
    _exit(97);
  }
  wait_for_all();
}

/* So many processes at once: each says what it is when it has allocated. */
static void at_once(int count) {
  allocate(3000, 1);
  for (int i = 0; i < count; i++)
    if (fork_or_end() == 0) {
      allocate(3001, 1);
      say("ready\n");
      wait_for_line();
      allocate(3002, 1);
      _exit(0);
    }
  wait_for_all();
}

/* The same, one after the other. */
static void in_turn(int count) {
  allocate(3000, 1);
  for (int i = 0; i < count; i++) {
    if (fork_or_end() == 0) {
      allocate(3001, 1);
      _exit(0);
    }
    wait_for_all();
  }
}

static _Atomic int stop;

static void *allocate_on(void *unused) {
  while (!stop) {
    void *block = malloc(70000);
    allocate(200, 100);
    free(block);
  }
  return unused;
}

static void *allocate_in_child(void *unused) {
  allocate(3002, 1000);
  return unused;
}

/* Forks beside threads that allocate; the children have a second thread of their own. */
static void beside_threads(int count) {
  pthread_t threads[3], thread;
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, allocate_on, NULL);
  for (int i = 0; i < count; i++)
    if (fork_or_end() == 0) {
      allocate(3001, 3000);
      allocate(100000, 10);
      if (pthread_create(&thread, NULL, allocate_in_child, NULL) != 0) _exit(94);
      pthread_join(thread, NULL);
      _exit(0);
    }
  wait_for_all();
  stop = 1;
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}

/* A daemon that stays: its starter ends at once. */
static void background(void) {
  allocate(3000, 1);
  if (fork_or_end() != 0) _exit(0);
  setsid();
  allocate(3001, 5);
  say("%d\n", (int)getpid());
  wait_for_line();
  allocate(3002, 200000);
  say("done\n");
}

/* A child of a child, since the recorder is the parent of the first process. */
static void grandchild(void) {
  allocate(3000, 1);
  if (fork_or_end() == 0) background();
  wait_for_all();
}

static _Atomic int forked;

static void fork_in_handler(int number) {
  (void)number;
  if (forked < 20 && fork() == 0) {
    stop = 2;
    forked = 20;
  } else if (forked < 20) {
    forked++;
  }
}

/* A handler that forks in the middle of whatever the process does; the child goes on with that. */
static void forks_in_handlers(void) {
  struct itimerval each = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
  signal(SIGALRM, fork_in_handler);
  setitimer(ITIMER_REAL, &each, NULL);
  while (forked < 20) allocate(3001, 100);
  setitimer(ITIMER_REAL, &never, NULL);
  if (stop == 2) {
    allocate(3002, 10000);
    _exit(0);
  }
  wait_for_all();
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  const char *what = argv[1];
  int count = argc > 2 ? atoi(argv[2]) : 0;
  own_path = argv[0];
  if (strcmp(what, "tells") == 0) tells();
  else if (strcmp(what, "executes") == 0) executes();
  else if (strcmp(what, "after") == 0) allocate(3005, 3);
  else if (strcmp(what, "at_once") == 0) at_once(count);
  else if (strcmp(what, "in_turn") == 0) in_turn(count);
  else if (strcmp(what, "beside_threads") == 0) beside_threads(count);
  else if (strcmp(what, "background") == 0) background();
  else if (strcmp(what, "grandchild") == 0) grandchild();
  else if (strcmp(what, "forks_in_handlers") == 0) forks_in_handlers();
  else return 2;
  return 0;
}
