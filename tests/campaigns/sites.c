/* sites.c - linked with tests/fault/each_call.c: which places of the library make a system call, and how many of their calls were
 * refused. A place is where a function of the os room is called from, and from where that one.
 *
 * The linker turns calls of os_fault_now() into calls of the function below. The table is shared with the processes that
 * each_call starts. In the end a line for each place goes to stdout; campaigns.py adds those of several runs up.
 *
 * It needs frame pointers, which the checked variants have. */
#include "kit.h"

#include "os/fault.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SITES = 4096, FRAMES = 2 };

struct site {
  _Atomic uintptr_t place[FRAMES];
  atomic_ulong calls, refused;
};

extern const char __executable_start; /* of the linker */

static struct site *sites;
static pid_t first_process;

bool __real_os_fault_now(void);
bool __wrap_os_fault_now(void);

/* The return addresses above the caller. A frame is not trusted unless it lies on this stack, above the last one. */
static void callers(uintptr_t *frame, uintptr_t place[FRAMES]) {
  for (int i = 0; i < FRAMES; i++) {
    place[i] = frame[1];
    uintptr_t *next = (uintptr_t *)frame[0];
    bool is_above = next > frame && (char *)next - (char *)frame < 1 << 16;
    if (!is_above || (uintptr_t)next % sizeof(void *) != 0) return;
    frame = next;
  }
}

static struct site *site_of(const uintptr_t place[FRAMES]) {
  size_t at = (place[0] * 31 + place[1]) * UINT64_C(0x9e3779b97f4a7c15) >> 52;
  for (size_t tries = 0; tries < SITES; tries++, at = (at + 1) % SITES) {
    struct site *site = &sites[at % SITES];
    uintptr_t none = 0;
    if (atomic_compare_exchange_strong(&site->place[0], &none, place[0])) {
      atomic_store(&site->place[1], place[1]);
      return site;
    }
    for (int wait = 0; atomic_load(&site->place[1]) == 0 && wait < 1000; wait++) continue;
    if (site->place[0] == place[0] && site->place[1] == place[1]) return site;
  }
  return NULL;
}

__attribute__((noinline)) bool __wrap_os_fault_now(void) {
  bool now = __real_os_fault_now();
  if (sites == NULL) return now;
  uintptr_t *frame = __builtin_frame_address(0);
  uintptr_t place[FRAMES] = {1, 1};
  /* Our own frame leads to the wrapper in the os room; its frame to who called that. */
  callers((uintptr_t *)frame[0], place);
  struct site *site = site_of(place);
  CHECK(site != NULL, "too many places");
  atomic_fetch_add(&site->calls, 1);
  if (now) atomic_fetch_add(&site->refused, 1);
  return now;
}

static unsigned long distance(uintptr_t address) {
  return (unsigned long)(address - (uintptr_t)&__executable_start);
}

static void print_sites(void) {
  if (getpid() != first_process) return;
  for (size_t i = 0; i < SITES; i++)
    if (sites[i].place[0] != 0)
      printf("SITE %#lx %#lx calls=%lu refused=%lu\n", distance(sites[i].place[0]),
             distance(sites[i].place[1]), (unsigned long)sites[i].calls,
             (unsigned long)sites[i].refused);
}

__attribute__((constructor)) static void start(void) {
  first_process = getpid();
  void *memory =
      mmap(NULL, SITES * sizeof *sites, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED, "mmap");
  sites = memory;
  atexit(print_sites);
}
