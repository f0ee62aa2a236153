/* snapshot_threads.c - see snapshot.h: which thread each heap belongs to.
 *
 * The heap has the address of a thread-local variable. On x86-64 such variables lie right below what libc knows of the thread,
 * which begins with its own address and has the thread's number in it, at a place that has been the same in all releases of
 * glibc and musl for this machine so far. What is found is believed only if the process has a thread of that number. Elsewhere
 * nothing is found.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core.h"
#include "snapshot.h"

#if defined(__x86_64__)

enum { ALIGNMENT = 64, SEARCH = 16 * 1024, PIECE = 4096, GLIBC_TID = 0x2d0, MUSL_TID = 0x30 };

static bool is_thread(const struct remote *remote, int thread, char name[20]) {
  char path[64];
  name[0] = 0;
  if (remote->core != NULL) return core_thread(remote->core, thread) != NULL;
  snprintf(path, sizeof path, "/proc/%d/task/%d/comm", remote->pid, thread);
  FILE *file = thread > 0 ? fopen(path, "re") : NULL;
  if (file == NULL) return false;
  if (fgets(name, 20, file) != NULL) name[strcspn(name, "\n")] = 0;
  make_printable(name, 20);
  fclose(file);
  return true;
}

static int number_at(const struct remote *remote, uint64_t address) {
  int32_t number = 0;
  return remote_read(remote, address, &number, sizeof number) ? number : 0;
}

static void find(struct heap_figures *heap, const struct remote *remote) {
  char piece[PIECE];
  uint64_t first = (heap->mark + ALIGNMENT - 1) & -(uint64_t)ALIGNMENT;
  for (uint64_t at = first; at < first + SEARCH;) {
    uint64_t end = (at / PIECE + 1) * PIECE;
    if (!remote_read(remote, at, piece, end - at)) return;
    for (uint64_t start = at; at < end; at += ALIGNMENT) {
      uint64_t word;
      memcpy(&word, piece + (at - start), sizeof word);
      if (word != at) continue;
      static const int places[] = {GLIBC_TID, MUSL_TID};
      for (int i = 0; i < 2; i++) {
        int thread = number_at(remote, at + (uint64_t)places[i]);
        if (!is_thread(remote, thread, heap->name)) continue;
        heap->thread = thread;
        return;
      }
    }
  }
}

void snapshot_threads(struct snapshot *snapshot, const struct remote *remote) {
  for (size_t i = 0; i < snapshot->heap_count; i++)
    if (!snapshot->heaps[i].parked && snapshot->heaps[i].mark != 0)
      find(&snapshot->heaps[i], remote);
}

#else

void snapshot_threads(struct snapshot *snapshot, const struct remote *remote) {
  (void)snapshot;
  (void)remote;
}

#endif
