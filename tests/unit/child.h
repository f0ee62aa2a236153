/* child.h - how a child of the test ends. */
#ifndef CHILD_H
#define CHILD_H

#include "unit_test.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/** Waits for it; it has to end with 0. */
static inline void child_ends_well(pid_t child) {
  int status = -1;
  assert_true(child > 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

/** `wrong` has to end a child by SIGABRT, with the message on its stderr. */
static inline void child_ends_with(void (*wrong)(void), const char *message) {
  int pipes[2], status;
  char text[512] = "";
  assert_int_equal(pipe(pipes), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(pipes[1], 2);
    os_note_stderr();
    wrong();
    _exit(0);
  }
  close(pipes[1]);
  assert_true(read(pipes[0], text, sizeof text - 1) >= 0);
  close(pipes[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  if (strstr(text, message) == NULL) fprintf(stderr, "%s\n", text);
  assert_non_null(strstr(text, message));
}

#endif
