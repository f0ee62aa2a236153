/* smaps.h - what the kernel says of this process' mappings in /proc/self/smaps. */
#ifndef SMAPS_H
#define SMAPS_H

#include "unit_test.h"

#include <inttypes.h>
#include <string.h>

struct smaps_entry {
  uintptr_t from, to;
  size_t huge_bytes; /* in transparent huge pages */
  char flags[1024];  /* " hg": huge pages are asked for, " nh": none are wanted */
};

/** The next one; false: there are no more. */
static inline bool smaps_next(FILE *smaps, struct smaps_entry *entry) {
  uintptr_t from, to;
  size_t kb;
  char line[1024];
  while (fgets(line, sizeof line, smaps) != NULL) {
    if (strncmp(line, "VmFlags:", 8) == 0) { /* the last line of each */
      strcpy(entry->flags, line);
      return true;
    }
    if (sscanf(line, "AnonHugePages: %zu kB", &kb) == 1) entry->huge_bytes = kb * KIB;
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
      *entry = (struct smaps_entry){.from = from, .to = to};
  }
  return false;
}

/** Has the mapping of the address this flag? */
static inline bool mapping_has_flag(const char *address, const char *flag) {
  struct smaps_entry entry = {0};
  bool found = false;
  FILE *smaps = fopen("/proc/self/smaps", "re");
  assert_non_null(smaps);
  while (smaps_next(smaps, &entry))
    if ((uintptr_t)address >= entry.from && (uintptr_t)address < entry.to)
      found = strstr(entry.flags, flag) != NULL;
  fclose(smaps);
  return found;
}

#endif
