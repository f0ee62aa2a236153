/* replay.c - runs inputs of the fuzzers with any build, and random ones.
 *
 * usage: replay [--print] FILE|FOLDER...          each input, in a process of its own; --print says what it does
 *        replay [--print] --random SEED COUNT     so many inputs drawn from the seed; a finding is printed as SEED and number,
 *                                                 and written to finding-SEED-NUMBER in the current folder
 *        replay [--print] --only SEED NUMBER      that one again
 *        replay --series SEED CALLS FOLDER        long inputs made of those in the folder, many in a process, until so many calls
 *                                                 were judged
 *        replay [--print] --series-of SEED NUMBER FOLDER    one process of them again
 * Exit status 1: a finding; what it is stands on stderr. */
#include "actions.h"
#include "model.h"
#include "process.h"
#include "random.h"
#include "series.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LONGEST = 1 << 14, PATH_LENGTH = 4096, ENOUGH = 10 };

static const char *self;
static unsigned long inputs, findings;

static size_t read_whole(const char *path, uint8_t *bytes, size_t room) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    exit(2);
  }
  size_t length = fread(bytes, 1, room, file);
  fclose(file);
  return length;
}

static void add_to_series(const char *path) {
  static uint8_t bytes[LONGEST];
  series_add(bytes, read_whole(path, bytes, sizeof bytes));
}

static void one_file(const char *path) {
  static uint8_t bytes[LONGEST];
  size_t length = read_whole(path, bytes, sizeof bytes);
  inputs++;
  if (process_run(bytes, length, self)) return;
  findings++;
  fprintf(stderr, "FAILED: %s\n", path);
}

static void each_of_folder(const char *path, void (*visit)(const char *path)) {
  struct dirent **entries;
  int count = scandir(path, &entries, NULL, alphasort);
  if (count < 0) {
    perror(path);
    exit(2);
  }
  for (int i = 0; i < count; i++) {
    char name[PATH_LENGTH];
    snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
    if (entries[i]->d_name[0] != '.') visit(name);
    free(entries[i]);
  }
  free(entries);
}

/* --- random inputs ---------------------------------------------------------------------------------------- */

static uint64_t state;

static uint64_t draw(void) { return random_draw(&state); }

static void one_random(uint64_t seed, uint64_t number) {
  static uint8_t bytes[LONGEST];
  state = seed << 32 ^ number;
  size_t length = 3 + draw() % (draw() % 8 == 0 ? 4000 : 400);
  for (size_t i = 0; i < length; i++) bytes[i] = (uint8_t)draw();
  inputs++;
  if (process_run(bytes, length, self)) return;
  findings++;
  char name[64];
  snprintf(name, sizeof name, "finding-%llu-%llu", (unsigned long long)seed,
           (unsigned long long)number);
  FILE *file = fopen(name, "wb");
  if (file != NULL) {
    fwrite(bytes, 1, length, file);
    fclose(file);
  }
  fprintf(stderr, "FAILED: --only %llu %llu, the input is in %s\n", (unsigned long long)seed,
          (unsigned long long)number, name);
}

/* --- long ones, many in a process --------------------------------------------------------------------------- */

static void one_of_series(const char *seed, uint64_t number, const char *folder) {
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)number);
  const char *again[] = {
      self, fuzz_verbose ? "--print" : "--quiet", "--series-here", seed, text, folder, NULL};
  if (series_run(strtoull(seed, NULL, 10), number, (char *const *)again)) return;
  findings++;
  fprintf(stderr, "FAILED: --series-of %s %s %s\n", seed, text, folder);
}

static int series(const char *mode, const char *seed, const char *limit, const char *folder) {
  uint64_t bound = strtoull(limit, NULL, 10), number = 0;
  each_of_folder(folder, add_to_series);
  if (!series_has_enough()) {
    fprintf(stderr, "%s: too little to make inputs of\n", folder);
    exit(2);
  }
  if (strcmp(mode, "--series-here") == 0) {
    series_run_here(strtoull(seed, NULL, 10), bound);
    process_count();
    return 0;
  }
  if (strcmp(mode, "--series-of") == 0) one_of_series(seed, bound, folder);
  else
    while (process_calls() < bound && findings < ENOUGH) one_of_series(seed, number++, folder);
  printf("seed %s: %llu processes with %lu calls of the allocator, %lu findings\n", seed,
         (unsigned long long)number, process_calls(), findings);
  return findings != 0;
}

int main(int argc, char **argv) {
  self = argv[0];
  actions_start();
  int next = 1;
  if (argc > next && (strcmp(argv[next], "--print") == 0 || strcmp(argv[next], "--quiet") == 0))
    fuzz_verbose = strcmp(argv[next++], "--print") == 0;
  const char *mode = argc > next ? argv[next] : "";
  if (strcmp(mode, "--descriptor") == 0 && argc == next + 2)
    return process_run_here(atoi(argv[next + 1]));
  if (strncmp(mode, "--series", strlen("--series")) == 0 && argc == next + 4)
    return series(mode, argv[next + 1], argv[next + 2], argv[next + 3]);
  if (argc == next + 3 && (strcmp(mode, "--random") == 0 || strcmp(mode, "--only") == 0)) {
    uint64_t seed = strtoull(argv[next + 1], NULL, 10), count = strtoull(argv[next + 2], NULL, 10);
    for (uint64_t number = mode[2] == 'o' ? count : 0; number < count + (mode[2] == 'o'); number++)
      one_random(seed, number);
  } else {
    for (; next < argc; next++) {
      struct stat status;
      if (stat(argv[next], &status) == 0 && S_ISDIR(status.st_mode))
        each_of_folder(argv[next], one_file);
      else one_file(argv[next]);
    }
  }
  printf("%lu inputs", inputs);
  if (process_calls() != 0) printf(" with %lu calls of the allocator", process_calls());
  printf(", %lu findings\n", findings);
  return findings != 0 || inputs == 0;
}
