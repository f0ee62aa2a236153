/* A limit of the address space, or of data, that comes when memory is in use: what was free before in other sizes has to be there for what comes.
 *
 * usage: limit_lowered as|data <MB>      a program with 100 MB of blocks has them in turn as small, mid, large and huge ones. Then its limit is set
 *                                        to 100 and so many MB. It does the same again, and has to get nine tenths each time.
 *        limit_lowered had <bytes> <MB>  under a limit of 60 MiB: so many MB at least can be had in blocks of so many bytes */
#include "kit.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { PHASES = 4, SLOTS = 60000, OPERATIONS = 200000, REFUSED_MOST = 500 };
#define LIVE_MOST (100 * KIT_MB)
#define LIVE_LEAST (90 * KIT_MB)

static struct {
  char *block;
  size_t bytes;
} slots[SLOTS];
static size_t live;

static void limit_to(int resource, size_t bytes) {
  struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
  CHECK(setrlimit(resource, &limit) == 0, "setrlimit: %s", strerror(errno));
}

static size_t next_size(struct kit_rng *random, int phase) {
  static const size_t least[PHASES] = {16, 4000, 65000, 1100000};
  static const size_t more[PHASES] = {4000, 60000, 300000, 2000000};
  return least[phase] + kit_below(random, more[phase]);
}

static void drop(size_t i) {
  live -= slots[i].bytes;
  free(slots[i].block);
  slots[i].block = NULL;
  slots[i].bytes = 0;
}

/* Returns the most that lived at once. All is free again at the end. */
static size_t replace(struct kit_rng *random, int phase) {
  size_t most = 0;
  int refused = 0;
  for (int i = 0; i < OPERATIONS && refused < REFUSED_MOST; i++) {
    size_t at = kit_below(random, SLOTS), bytes = next_size(random, phase);
    drop(at);
    /* The last bytes are filled by smaller blocks alone, which is no task. */
    if (live + bytes > LIVE_MOST) continue;
    char *block = malloc(bytes);
    if (block == NULL) {
      CHECK(errno == ENOMEM, "errno %d", errno);
      refused++;
      continue;
    }
    block[0] = block[bytes - 1] = 1;
    slots[at].block = block;
    slots[at].bytes = bytes;
    live += bytes;
    if (live > most) most = live;
  }
  for (size_t i = 0; i < SLOTS; i++) drop(i);
  return most;
}

static void lowered(int resource, size_t slack) {
  struct kit_rng random = kit_rng_make(1);
  for (int phase = 0; phase < PHASES; phase++) replace(&random, phase);
  limit_to(resource, LIVE_MOST + slack);
  static const char *const names[PHASES] = {"small", "mid", "large", "huge"};
  size_t had[PHASES];
  for (int phase = 0; phase < PHASES; phase++) had[phase] = replace(&random, phase);
  for (int phase = 0; phase < PHASES; phase++) {
    printf("%s: %zu MB\n", names[phase], had[phase] / KIT_MB);
    CHECK(had[phase] >= LIVE_LEAST, "%s: %zu of %zu MB", names[phase], had[phase] / KIT_MB,
          LIVE_MOST / KIT_MB);
  }
}

static void had(size_t bytes, size_t least) {
  limit_to(RLIMIT_AS, 60 * KIT_MB);
  size_t sum = 0;
  for (char *block; (block = malloc(bytes)) != NULL; sum += bytes) block[0] = block[bytes - 1] = 1;
  limit_to(RLIMIT_AS, RLIM_INFINITY);
  printf("%zu MB in blocks of %zu bytes\n", sum / KIT_MB, bytes);
  CHECK(sum >= least, "%zu MB, %zu wanted", sum / KIT_MB, least / KIT_MB);
}

int main(int argc, char **argv) {
  kit_start();
  CHECK(argc >= 3, "see the source");
  if (strcmp(argv[1], "had") == 0)
    had(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10) * KIT_MB);
  else
    lowered(strcmp(argv[1], "data") == 0 ? RLIMIT_DATA : RLIMIT_AS,
            strtoul(argv[2], NULL, 10) * KIT_MB);
  return 0;
}
