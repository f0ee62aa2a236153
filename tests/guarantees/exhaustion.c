/* All the memory that the process may have is taken: malloc says so, and works again when some was freed. */
#include "guarantee.h"

#include <sys/resource.h>

static size_t address_space(void) {
  unsigned long pages = 0;
  char text[64] = {0};
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fgets(text, sizeof text, file) == NULL) give_up("no /proc/self/statm");
  fclose(file);
  pages = strtoul(text, NULL, 10);
  return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

struct link {
  struct link *next;
};

void run(void) {
  size_t room = (size_t)64 << 20;
  struct rlimit limit = {address_space() + room, address_space() + room};
  if (!twin && setrlimit(RLIMIT_AS, &limit) != 0) give_up("setrlimit failed");
  struct link *all = NULL;
  size_t taken = 0;
  while (taken < (twin ? room / 4 : 4 * room)) {
    struct link *block = malloc(tier.size);
    if (block == NULL) break;
    block->next = all;
    all = block;
    taken += tier.size;
  }
  while (all != NULL) {
    struct link *next = all->next;
    free(all);
    all = next;
  }
  void *again = malloc(tier.size);
  if (again == NULL) harm("freed memory cannot be used again");
  survived();
}
