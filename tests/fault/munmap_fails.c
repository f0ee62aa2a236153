/* The kernel refuses to unmap (it does when a process has too many mappings): free() still succeeds
 * and keeps errno, the memory is not lost but used again or given back later. */
#include "kit.h"

#include "os/fault.h"

#include <stdio.h>

#define BYTES (6 * KIT_MB)
#define ROUNDS 300

static void round_trip(size_t alignment, uint64_t *refused) {
  os_fault_reset();
  void *memory = hak_aligned_alloc(alignment, BYTES);
  CHECK(memory, "aligned_alloc(%zu, %zu) failed without a fault", alignment, BYTES);
  kit_fill(memory, BYTES, (uintptr_t)memory);
  kit_verify(memory, BYTES, BYTES, (uintptr_t)memory);
  os_fault_fail_from(1); /* every system call that free and purge make */
  errno = 4711;
  hak_free(memory);
  CHECK(errno == 4711, "free changed errno");
  hak_purge();
  *refused += os_fault_injected();
}

int main(void) {
  kit_start();
  hak_free(hak_malloc(BYTES)); /* what the library needs for itself does not count below */
  static const size_t alignments[] = {16, 2 * KIT_MB, 64 * KIT_MB};
  for (size_t i = 0; i < sizeof alignments / sizeof *alignments; ++i) {
    size_t resident = kit_resident();
    size_t address_space = kit_address_space();
    uint64_t refused = 0;
    for (int round = 0; round < ROUNDS; ++round) round_trip(alignments[i], &refused);
    size_t resident_refused = kit_resident();
    size_t address_space_refused = kit_address_space();
    os_fault_reset();
    hak_purge();
    struct hak_stats stats = kit_stats();
    size_t resident_after = kit_resident();
    size_t address_space_after = kit_address_space();
    printf(
        "alignment %zu: %d blocks of %zu MB freed, %lu calls refused: resident %+ld MB, then %+ld; "
        "address space %+ld MB, then %+ld\n",
        alignments[i], ROUNDS, BYTES / KIT_MB, (unsigned long)refused,
        ((long)resident_refused - (long)resident) >> 20,
        ((long)resident_after - (long)resident) >> 20,
        ((long)address_space_refused - (long)address_space) >> 20,
        ((long)address_space_after - (long)address_space) >> 20);
    CHECK(refused > 0, "no call was refused: nothing was tested");
    CHECK(stats.huge_live == 0, "%lu huge blocks are left", (unsigned long)stats.huge_live);
    CHECK(KIT_SANITIZED || resident_after <= resident + 32 * KIT_MB, "memory is lost");
    CHECK(address_space_after <= address_space + 256 * KIT_MB, "address space is lost");
  }
  return 0;
}
