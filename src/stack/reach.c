/* reach.c - see reach.h. */
#include "stack/reach.h"

#include "os/os.h"

/* So many pages are asked for in one walk at most: 0.1 us each. */
enum { ASKED_MOST = 16 };

static uintptr_t page_end(uintptr_t address) {
  uintptr_t page = os_page_size();
  return (address / page + 1) * page;
}

/* The kernel keeps this distance between the main thread's stack and other mappings, however small its limit is. */
#define MAIN_STACK_GAP ((size_t)128 * MIB)
/* As far from its thread's control block, which glibc and musl put at its upper end, a stack is taken for the thread's own
 * once every page in between was seen to be readable: nobody's stack is so short. */
#define OWN_STACK_PART ((size_t)256 * KIB)

/* [own_low, control block) was seen to be readable. */
static _Thread_local uintptr_t own_low __attribute__((tls_model("initial-exec")));

static uintptr_t control_block(void) { return (uintptr_t)__builtin_thread_pointer(); }

static bool are_readable(uintptr_t from, uintptr_t end) {
  for (uintptr_t page = os_page_size(); from < end; from += page)
    if (!os_is_readable((const void *)from)) return false;
  return true;
}

/* The end of the thread's own stack; 0: this is another, or nobody knows. */
static uintptr_t own_end(uintptr_t address) {
  uintptr_t block = control_block(), top = os_stack_end();
  if (top != 0 && address < top && top - address < MAIN_STACK_GAP) return top;
  if (address >= block || block - address > OWN_STACK_PART) return 0;
  if (own_low == 0) own_low = block / os_page_size() * os_page_size();
  if (address >= own_low) return block;
  uintptr_t low = address / os_page_size() * os_page_size();
  if (!are_readable(low, own_low)) return 0;
  own_low = low;
  return block;
}

struct reach reach_of(uintptr_t address) {
  uintptr_t end = own_end(address);
  return (struct reach){.low = address, .high = end != 0 ? end : page_end(address)};
}

bool reach_extend(struct reach *reach, uintptr_t address) {
  while (address >= reach->high) {
    if (reach->asked++ == ASKED_MOST || address - reach->high > ASKED_MOST * os_page_size())
      return false;
    /* Rounded down: the end may be a control block's. */
    uintptr_t page = reach->high / os_page_size() * os_page_size();
    if (!os_is_readable((const void *)page)) return false;
    reach->high = page_end(page);
  }
  return true;
}
