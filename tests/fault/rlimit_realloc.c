/* A block that grows under a limit needs address space for what it grows by, not for itself twice: what glibc, which moves such a
 * block by one mremap, can do with 24 MB to spare.
 *
 * usage: rlimit_realloc as|data */
#include "kit.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, OTHERS = 16 };
#define SPARE (24 * KIT_MB)
/* What starts under the limit gets so much, and the block may become so long: that twice has no room. */
#define ROOM (400 * KIT_MB)
#define LONG_MB 300

static int resource = RLIMIT_AS;

static size_t bytes_of_process(void) {
  const char *name = resource == RLIMIT_AS ? "VmSize:" : "VmData:";
  FILE *status = fopen("/proc/self/status", "r");
  char line[256];
  size_t kilobytes = 0;
  CHECK(status, "/proc/self/status");
  while (kilobytes == 0 && fgets(line, sizeof line, status) != NULL)
    if (strncmp(line, name, strlen(name)) == 0) kilobytes = strtoull(line + strlen(name), NULL, 10);
  fclose(status);
  CHECK(kilobytes > 0, "no %s", name);
  return kilobytes * KIT_KB;
}

static void limit_to_more(size_t bytes) {
  struct rlimit limit = {.rlim_cur = bytes_of_process() + bytes};
  limit.rlim_max = limit.rlim_cur;
  CHECK(setrlimit(resource, &limit) == 0, "setrlimit: %s", strerror(errno));
}

static char *write_to(char *block, size_t from, size_t to) {
  for (size_t at = from; at < to; at += PAGE) block[at] = (char)(at / PAGE % 251 + 1);
  return block;
}

static char *made(size_t bytes) {
  char *block = malloc(bytes);
  CHECK(block, "%zu bytes without a limit", bytes);
  return write_to(block, 0, bytes);
}

/* Of a block whose bytes up to `kept` are known. */
static char *grown(char *block, size_t kept, size_t bytes) {
  char *longer = realloc(block, bytes);
  CHECK(longer, "realloc from %zu to %zu bytes", kept, bytes);
  for (size_t at = 0; at < kept; at += PAGE)
    CHECK(longer[at] == (char)(at / PAGE % 251 + 1), "byte %zu of %zu", at, kept);
  return write_to(longer, kept / PAGE * PAGE, bytes);
}

static void by_a_megabyte(size_t bytes) {
  char *block = made(bytes);
  limit_to_more(SPARE);
  free(grown(block, bytes, bytes + KIT_MB));
}

static void by_a_tenth(size_t bytes) {
  char *block = made(bytes);
  limit_to_more(bytes / 10 + SPARE);
  free(grown(block, bytes, bytes + bytes / 10));
}

static void to_twice(size_t bytes) {
  char *block = made(bytes);
  limit_to_more(bytes + SPARE);
  free(grown(block, bytes, 2 * bytes));
}

static void after_it_shrank(size_t bytes) {
  char *block = made(bytes);
  limit_to_more(SPARE);
  block = realloc(block, bytes / 2);
  CHECK(block, "a block shrinks");
  free(grown(block, bytes / 2, bytes + KIT_MB));
}

static void between_others(size_t bytes) {
  char *others[OTHERS], *block = NULL;
  for (int i = 0; i < OTHERS; i++) {
    others[i] = made(3 * KIT_MB);
    if (i == OTHERS / 2) block = made(bytes);
  }
  limit_to_more(SPARE);
  free(grown(block, bytes, bytes + KIT_MB));
  for (int i = 0; i < OTHERS; i++) free(others[i]);
}

static void again_and_again(size_t bytes) {
  enum { STEPS = 20 };
  char *block = made(bytes), *other = made(bytes);
  limit_to_more(STEPS * KIT_MB + SPARE);
  for (size_t i = 0; i < STEPS; i += 2) {
    block = grown(block, bytes + i / 2 * KIT_MB, bytes + (i / 2 + 1) * KIT_MB);
    other = grown(other, bytes + i / 2 * KIT_MB, bytes + (i / 2 + 1) * KIT_MB);
  }
  free(block);
  free(other);
}

/* In a child, which is limited for good. */
static void in_child(const char *name, void (*body)(size_t), size_t bytes) {
  fflush(stdout);
  pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    body(bytes);
    fflush(stdout);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child, "waitpid");
  CHECK(status == 0, "%s, %zu bytes: status %#x", name, bytes, (unsigned)status);
}

/* A vector that is limited from its first byte on, beside blocks that come and go. */
static void from_the_start(size_t step_percent) {
  char *others[OTHERS] = {NULL}, *block = NULL;
  size_t bytes = 0, steps = 0;
  limit_to_more(ROOM);
  for (size_t wanted = KIT_MB; wanted <= LONG_MB * KIT_MB; steps++) {
    block = grown(block, bytes, wanted);
    bytes = wanted;
    wanted += wanted * step_percent / 100;
    free(others[steps % OTHERS]);
    others[steps % OTHERS] = steps % 3 == 0 ? NULL : malloc(KIT_MB + KIT_MB / 2);
  }
  CHECK(2 * bytes > ROOM && steps > 8, "%zu bytes in %zu steps tell nothing", bytes, steps);
  printf("%zu MB in %zu steps\n", bytes / KIT_MB, steps);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*body)(size_t);
  } cases[] = {{"by 1 MB", by_a_megabyte},
               {"by a tenth", by_a_tenth},
               {"to twice", to_twice},
               {"after it shrank", after_it_shrank},
               {"between others", between_others},
               {"again and again", again_and_again}};
  static const size_t sizes_kb[] = {2000, 5000, 20000, 64 * KIT_KB, 200000, 195312, 400000};
  kit_start();
  CHECK(argc == 2, "as or data");
  if (strcmp(argv[1], "data") == 0) resource = RLIMIT_DATA;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (size_t j = 0; j < sizeof sizes_kb / sizeof *sizes_kb; j++)
      in_child(cases[i].name, cases[i].body, sizes_kb[j] * KIT_KB);
  static const size_t percents[] = {10, 25};
  for (size_t i = 0; i < sizeof percents / sizeof *percents; i++)
    in_child("from the start", from_the_start, percents[i]);
  return 0;
}
