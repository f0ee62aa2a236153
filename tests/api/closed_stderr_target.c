/* closed_stderr_target.c - does with its stderr what programs do, and then ends. closed_stderr.py looks what was
 * written where.
 *
 * usage: closed_stderr_target exit|abort [close] [closeall] [open FILE] [move] [redirect FILE] [over100 FILE] ... */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define CHECK(condition) ((condition) ? (void)0 : _exit(9))

void *early_block(void);

/* A record of the program's, in a file that may have got any number. */
static int open_data(const char *path) {
  int file = open(path, O_RDWR | O_CREAT | O_APPEND, 0600);
  CHECK(file >= 0 && write(file, "data\n", 5) == 5);
  return file;
}

static void closed(int from) {
  for (int file = from; file < 1024; file++) close(file);
}

int main(int argc, char **argv) {
  char *volatile block = early_block();
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  for (int i = 2; i < argc; i++) {
    const char *what = argv[i];
    if (strcmp(what, "close") == 0) {
      close(STDERR_FILENO);
    } else if (strcmp(what, "closeall") == 0) {
      closed(STDERR_FILENO);
    } else if (strcmp(what, "open") == 0) {
      CHECK(open_data(argv[++i]) == STDERR_FILENO);
    } else if (strcmp(what, "redirect") == 0) {
      CHECK(dup2(open_data(argv[++i]), STDERR_FILENO) == STDERR_FILENO);
    } else if (strcmp(what, "over100") == 0) {
      int file = open_data(argv[++i]);
      for (int number = 100; number < 110; number++) CHECK(dup2(file, number) == number);
    } else if (strcmp(what, "move") == 0) { /* away and back: the same file by another way */
      int file = dup(STDERR_FILENO);
      CHECK(file >= 0 && close(STDERR_FILENO) == 0 && dup2(file, STDERR_FILENO) == STDERR_FILENO);
    } else {
      _exit(9);
    }
  }
  static char foreign[64];
  char *volatile wrong = foreign + 16;
  if (argc > 1 && strcmp(argv[1], "abort") == 0) free(wrong);
  free(block);
  return 0;
}
