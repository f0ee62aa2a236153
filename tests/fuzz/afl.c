/* afl.c - AFL++ over the interpreter of actions, in its persistent mode: a process runs many inputs, one after the other.
 *
 * What libfuzzer.c cannot reach is reached here: a library that has been in use for a while. Options are those of the
 * environment, and an input's own are passed over. So that a finding can be had again, the inputs of the process are written to
 * the folder FUZZ_RECORDS, each with its length. The record of a process that ended well is removed.
 *
 * usage: afl                 under afl-fuzz
 *        afl --kept RECORD   the inputs of a record again, in one process */
#include "actions.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __AFL_FUZZ_TESTCASE_LEN
__AFL_FUZZ_INIT();
#else
#error "to be compiled by afl-clang-fast"
#endif

enum { INPUTS = 1000 }; /* of a process */

static char record_path[4096];
static int record = -1;

static void record_start(void) {
  const char *folder = getenv("FUZZ_RECORDS");
  if (folder == NULL) return;
  snprintf(record_path, sizeof record_path, "%s/%d", folder, (int)getpid());
  record = open(record_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

static void record_input(const uint8_t *bytes, uint32_t length) {
  if (record < 0) return;
  if (write(record, &length, sizeof length) < 0 || write(record, bytes, length) < 0) abort();
}

/* For the report of a session: calls of the allocator, a line a process. */
static void add_to_calls(void) {
  char path[4200];
  snprintf(path, sizeof path, "%s.calls", getenv("FUZZ_RECORDS"));
  FILE *file = fopen(path, "a");
  if (file == NULL) return;
  fprintf(file, "%lu\n", atomic_load(&run.done));
  fclose(file);
}

static void run_again(const char *path) {
  static uint8_t bytes[1 << 20];
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    exit(2);
  }
  for (uint32_t length; fread(&length, sizeof length, 1, file) == 1 && length <= sizeof bytes;)
    if (fread(bytes, 1, length, file) == length) actions_run(bytes, length);
  fclose(file);
}

int main(int argc, char **argv) {
  actions_start();
  if (argc == 3 && strcmp(argv[1], "--kept") == 0) {
    run_again(argv[2]);
    return 0;
  }
  __AFL_INIT(); /* the fork server forks here: before the library's first call */
  const uint8_t *bytes = __AFL_FUZZ_TESTCASE_BUF;
  record_start();
  while (__AFL_LOOP(INPUTS)) {
    size_t length = (size_t)__AFL_FUZZ_TESTCASE_LEN;
    record_input(bytes, (uint32_t)length);
    actions_run(bytes, length);
  }
  if (record >= 0) {
    unlink(record_path);
    add_to_calls();
  }
  return 0;
}
