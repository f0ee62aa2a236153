/* One misuse of a pointer, chosen by name.
 * Usage: bad_pointer CASE [tiny|mid|large|huge [INTO] | ADDRESS]
 * Exit: 0 when it lived on, 2 when the misuse could not be tried. */
#include "bad_pointer.h"

size_t block_size;
const char *double_free_of_tier;
size_t into;
uintptr_t garbage;

static const struct {
  const char *name;
  size_t block_size;
  const char *double_free;
} tiers[] = {
    {"tiny", 100, DOUBLE_FREE},
    {"mid", 20480, DOUBLE_FREE},
    /* The address space of these may have left the allocator altogether. */
    {"large", 307200, DOUBLE_FREE "|" FOREIGN},
    {"huge", 5242880, DOUBLE_FREE "|" FOREIGN},
};

static const struct {
  const char *name;
  void (*run)(void);
} cases[] = {
#define CASE(name) {#name, case_##name},
#include "cases.def"
#undef CASE
};

/* A SuperSlab that is there from the start: otherwise what the C library allocates in between (for a new
 * thread, say) could make one at the very address that was just freed. */
__attribute__((constructor)) static void warm_up(void) { free(opaque(malloc(700))); }

static void choose_tier(const char *name) {
  for (size_t i = 0; i < sizeof tiers / sizeof tiers[0]; i++) {
    if (strcmp(name, tiers[i].name) != 0) continue;
    block_size = tiers[i].block_size;
    double_free_of_tier = tiers[i].double_free;
    return;
  }
  garbage = strtoull(name, NULL, 0);
  if (garbage == 0) give_up("no such tier, and no address\n");
}

int main(int argc, char **argv) {
  if (argc > 2) choose_tier(argv[2]);
  if (argc > 3) into = strtoull(argv[3], NULL, 10);
  for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof cases[0]; i++) {
    if (strcmp(argv[1], cases[i].name) != 0) continue;
    cases[i].run();
    return 0;
  }
  give_up("no such case\n");
}
