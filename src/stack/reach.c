/* reach.c - see reach.h. */
#include "stack/reach.h"

#include "os/os.h"
#include "stack/registers.h"

#if STACK_HAS_TABLES

/* So many pages are asked for in one walk at most: 0.1 us each. */
enum { ASKED_MOST = 16 };

static uintptr_t page_end(uintptr_t address) {
  uintptr_t page = os_page_size();
  return (address / page + 1) * page;
}

/* So far from its upper end a stack is taken for the thread's own once every page in between was seen to be readable:
 * nobody's stack is so short. The end is what libc says of the main thread's, and the control block of others, which glibc and
 * musl put there. */
#define OWN_STACK_PART ((size_t)256 * KIB)

/* [own_low, end) was seen to be readable, of the thread's own stack. */
static _Thread_local uintptr_t own_low __attribute__((tls_model("initial-exec")));

static uintptr_t page_start(uintptr_t address) { return address / os_page_size() * os_page_size(); }

static bool are_readable(uintptr_t from, uintptr_t end) {
  for (uintptr_t page = os_page_size(); from < end; from += page)
    if (!os_is_readable((const void *)from)) return false;
  return true;
}

/* Where the thread's control block is. */
static uintptr_t thread_block(void) {
#if defined(__powerpc64__)
  enum { BEHIND = 0x7000 };
#else
  enum { BEHIND = 0 };
#endif
  return os_thread_pointer() - BEHIND;
}

/* The main thread's is on no stack: what ends there may be a coroutine's, which goes. */
static uintptr_t main_block;

__attribute__((constructor)) HAK_AT_LOAD static void note_main_block(void) {
  main_block = thread_block();
}

/* The end of the thread's own stack; 0: this is another, or too far from it. */
static uintptr_t own_end(uintptr_t address) {
  uintptr_t end = os_stack_end(), block = thread_block();
  if (address >= end || end - address > OWN_STACK_PART) end = block != main_block ? block : 0;
  if (address >= end || end - address > OWN_STACK_PART) return 0;
  uintptr_t low = page_start(address);
  if (own_low == 0 || own_low > end || end - own_low > OWN_STACK_PART) own_low = page_start(end);
  if (low >= own_low) return end;
  if (!are_readable(low, own_low)) return 0;
  own_low = low;
  return end;
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

#endif
