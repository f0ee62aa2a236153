/* os.h - the only door to the operating system.
 *
 * Every wrapper keeps errno: a failure is told by the return value alone, and the api room decides
 * what errno its caller sees. Every memory call is counted (os_counts) and can be made to fail by
 * the tests (fault.h). All functions are thread-safe and none allocates.
 */
#ifndef HAK_OS_H
#define HAK_OS_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/variant.h"

#define HAK_LIKELY(x) __builtin_expect(!!(x), 1)
#define HAK_UNLIKELY(x) __builtin_expect(!!(x), 0)
/* Keeps a value out of the register of the function's result, which saves a move at its end; GCC does not
 * see that far. Elsewhere nothing. */
#if defined(__x86_64__)
#define HAK_NOT_IN_RESULT(value) __asm__("" : "+d"(value))
#else
#define HAK_NOT_IN_RESULT(value) ((void)(value))
#endif
/* The compiler does not know that the pointer is what it was: what it has added to it so far it adds once more. */
#define HAK_ADDED_ANEW(pointer) __asm__("" : "+r"(pointer))
#define HAK_INLINE static inline __attribute__((always_inline))
#define HAK_NOINLINE __attribute__((noinline))
/* For data of ours that is used in other files: without it the compiler goes through the table of
 * global addresses, one more instruction on each fast path. */
#define HAK_HIDDEN __attribute__((visibility("hidden")))
#define HAK_COLD __attribute__((noinline, cold))

/* For variables of some bytes to 2 KiB that each program writes at its start. Together they lie in one or two pages, among the
 * large tables in .bss each would take one for itself. */
#define HAK_START_DATA __attribute__((section(".data.start")))

/* For functions that run when the library is loaded and when it ends, whether or not the program allocates. They lie beside each other at
 * the start of the code, in a segment of their own where the linker can do that (cmake/layout.ld.in). The kernel maps 64 KiB around a page
 * that is touched, so a program that does not allocate gets no more of the library than that, or that segment. */
#define HAK_AT_LOAD __attribute__((section(".text.startup")))

#define KIB ((size_t)1024)
#define MIB ((size_t)1024 * 1024)
#define GIB ((size_t)1024 * 1024 * 1024)

/** Calls made so far, by kind; read relaxed, each figure exact by itself. */
struct os_counts {
  _Atomic uint64_t mmap, munmap, mprotect, madvise, mremap, failed;
};
extern struct os_counts os_counts;

/** Maps `bytes` of zeroed private memory, no swap reserved. NULL on failure. */
void *os_map(size_t bytes);

/** The same between two pages that cannot be touched, as far as the kernel grants them. */
void *os_map_guarded(size_t bytes);
/** Removes such a mapping. */
bool os_unmap_guarded(void *address, size_t bytes);

/** From now on the pages cannot be touched; what was in them is lost. False: they can. */
bool os_guard(void *address, size_t bytes);
/** Pages of which some were guarded, and that hold nothing any more: all can be touched again, and what was guarded reads as zeros.
 * False: perhaps not all.
 * Hardened variant only, as the next four. */
bool os_unguard(void *address, size_t bytes);
/** Fresh pages take the place of those that are guarded and of those that hold nothing. The kernel's tables for them go as well: only so can
 * they become huge pages. False: perhaps nothing is mapped there any more. */
bool os_map_afresh(void *address, size_t bytes);
/** From now on the pages cannot be touched, and keep what is in them; a mapping of its own. os_open and os_unguard undo it, which a limit of data that
 * has come down meanwhile may refuse: what is closed does not count there. False: some may be closed. */
bool os_close(void *address, size_t bytes);
bool os_open(void *address, size_t bytes);
/** Is each guard a mapping of its own, of which the kernel allows 65,530? False as well while nobody has asked for any. */
bool os_guards_cut(void);

/** The same at exactly `address`, never over an existing mapping. NULL when it is taken or refused. */
void *os_map_at(void *address, size_t bytes);

/** The same from the kernel's pool of huge pages of `page_bytes`. NULL when none are free. */
void *os_map_huge_pages(size_t bytes, size_t page_bytes);

/** Removes a mapping; false when the kernel refuses (too many mappings): it is then still there. Whoever listens learns of it (call.h). */
bool os_unmap(void *address, size_t bytes);
/** The same of memory that nobody has had yet: nobody is told. */
bool os_unmap_unused(void *address, size_t bytes);

/** Does a library listen for pages that go? Then no pages are moved, since it would not hear of that. A hint. */
bool os_is_heard(void);

/** Moves the mapping [from, from + from_bytes) over the reservation at `to` and makes it `to_bytes`
 * long; the pages move, nothing is copied. False: both are as they were. */
bool os_move(void *from, size_t from_bytes, void *to, size_t to_bytes);

/** Makes a mapping longer, moved with its pages to a place of the kernel's choice. A limit of the address space has to have room for what is
 * new alone. Returns where it is then; NULL: it is as it was, perhaps because it is more than one mapping. */
void *os_resize(void *address, size_t bytes, size_t new_bytes);

/** May the pages be read and written, or not touched at all? False when the kernel refuses. */
bool os_protect(void *address, size_t bytes, bool accessible);

/** The pages read as zero afterwards and are no longer resident. Whoever listens learns of it (call.h). */
bool os_decommit(void *address, size_t bytes);
/** The same of memory of which that was told already: nobody is told. */
bool os_decommit_again(void *address, size_t bytes);

/** The kernel may take the pages when it needs them; contents are undefined afterwards. Whoever listens learns of it (call.h). */
bool os_decommit_lazily(void *address, size_t bytes);

/** Bytes of the range's pages that are in memory, or swapped. False: the system does not say. Opens a file for a moment. */
bool os_resident_part(const void *address, size_t bytes, size_t *resident);

/** The same, and in `own` those that are in memory and this process' alone: not those that a fork left to both sides, nor the kernel's page of zeros. */
bool os_resident_parts(const void *address, size_t bytes, size_t *resident, size_t *own);

/** A bit for each page from `address` on that is in memory, lowest first, of `pages` pages; the bits behind them in the last word are 0. `source` is of os_open_pages.
 * False: the system does not say. */
bool os_pages_present(int source, uintptr_t address, size_t pages, uint64_t *bits);
enum { OS_PAGES_BY_CALL = INT_MAX };
/** The process' pagemap, open, or OS_PAGES_BY_CALL, where that is refused but mincore(2) may be called. Below 0 otherwise. */
int os_open_pages(void);
void os_close_pages(int source);

struct os_range {
  void *address;
  size_t bytes;
};
/** Pages of files leave this process' memory, if nobody here has changed them: the next touch brings them back as they were. All others stay.
 * Each range has 64 KiB at most. Opens a file for a moment, and does nothing where that is refused. Keeps errno. */
void os_drop_file_pages(const struct os_range *ranges, size_t count);

/** True when something is mapped at the page, which can be read. */
bool os_is_mapped(const void *page);
/** What was stored before is seen before what is stored after it, by whoever reads our memory from outside. ThreadSanitizer,
 * which knows of no such reader, has no fences. */
HAK_INLINE void os_order_stores(void) {
#if !defined(__SANITIZE_THREAD__)
  atomic_thread_fence(memory_order_release);
#endif
}

/** Can the word there be read? Asks the kernel, keeps errno. */
bool os_is_readable(const void *address);
/** Where the main thread's stack begins, its highest address; 0: libc does not say. */
uintptr_t os_stack_end(void);
/** Where the program's headers are mapped, as the kernel told it; 0: it did not. */
uintptr_t os_program_headers(void);
/** Asks for transparent huge pages in the range. */
bool os_advise_huge(void *address, size_t bytes);

/** No transparent huge pages in the range, nor any that the kernel makes out of small ones later. */
bool os_advise_small(void *address, size_t bytes);

/** Makes small pages of the huge page that begins there (Linux 5.4 and later). The kernel does so itself when a part is given back, but only
 * once memory is short; till then its group is charged for all of it. */
bool os_split(void *huge_page);

/** Makes huge pages of the small ones of the range, now, also where they are not advised, and fills what is missing (Linux 6.1 and later;
 * false where the kernel does not). Readers and writers of the range wait. */
bool os_collapse(void *address, size_t bytes);
/** False: the system's administrator has turned transparent huge pages off, or it cannot be known. os_collapse would make them in spite of
 * that. Opens a file for a moment. */
bool os_huge_pages_are_allowed(void);

/** Faults the whole range in by one call (900 ns a page against 1450 by touch,
 * docs/decisions/0004); false where the kernel does not know how: the pages then come by touch. */
bool os_populate(void *address, size_t bytes);

/** Most bytes of address space that the process may have (RLIMIT_AS); SIZE_MAX without a limit. */
size_t os_address_space_limit(void);

/** Has the process a limit of its address space, or of its data (RLIMIT_DATA)? */
bool os_memory_is_limited(void);

/** No mapping is longer: the part of the address space that is the program's, or RLIMIT_AS. */
size_t os_longest_mapping(void);

/** Would the kernel map `bytes` now? Maps and unmaps them. True also where it maps nothing at all any more, be it
 * ever so little: the number of mappings is limited, too. */
bool os_would_map(size_t bytes);
/** Is whatever may be mapped from now on refused, however much is given back? So it is where all memory is to be locked (MCL_FUTURE), and
 * nothing may be (RLIMIT_MEMLOCK of 0). For after a refusal: it asks the system. */
bool os_refuses_all(void);

/** Bytes of a page (4, 16 or 64 KiB), read once. */
size_t os_page_size(void);

/** Has libc perhaps called what is running in order to free a thread's storage, for dl_iterate_phdr, or in dlopen? It does so under a lock
 * that pthread_create takes, or that somebody waits for who has one of pthread_create's: no thread may be started. Looks at the nearest part
 * of the stack, so that it makes no difference whose functions lie between; an old value there may say yes without a reason. False in
 * static programs, where process_vm_readv is refused, and with musl, which has no such calls. 64 system calls: for who is about to start a
 * thread. Any stack, keeps errno. */
bool os_is_in_loader(void);

/** Two numbers that nobody can guess: the kernel's, else those that it gave the process at its start. errno stays. */
void os_random(uint64_t numbers[2]);

/** Milliseconds of a monotonic clock that costs a few ns and is right to about 4 ms. A program that shows its threads another time does
 * not change it. */
uint64_t os_clock_ms(void);

struct timespec;
/** The time of a clock of clock_gettime(2). */
void os_time(int clock, struct timespec *now);

/** What the kernel told the process at its start (getauxval); 0: nothing. Keeps errno. `type`: one of those in clock.c. */
unsigned long os_told_at_start(unsigned long type);
/** Asks libc for all of that now: its function may be another's, which allocates, and is called while no lock is held. */
void os_ask_at_start(void);
/** A function that the kernel maps into each process (the vDSO); NULL: there is none of that name. */
void *os_kernel_function(const char *name);

/** Has the process had no thread but its first one so far? False where libc does not say: musl, and glibc before 2.32. */
bool os_has_one_thread_for_sure(void);

enum os_welcome { OS_THREAD_WELCOME, OS_THREAD_NOT_NOW, OS_THREAD_NEVER };
/** Does the kernel say that the process has two threads now, and that no seccomp filter is on, which might kill the
 * process for starting one, and stays for good? NOT_NOW as well where it says nothing. 30 us; one caller at a time. */
enum os_welcome os_thread_is_welcome(void);

/** How many threads the process has, as the kernel counts them; 0: it does not say. Keeps errno. */
unsigned long os_process_threads(void);

/** On how many processors the calling thread may run, 1 at least. Keeps errno. */
unsigned os_processors(void);

/** Starts a detached thread that runs `body`, all signals blocked, with a small stack. It takes the scheduling class
 * SCHED_OTHER, and the nice value and the processors of the process' main thread; its capabilities are those of
 * os_thread_follow_process. Allocates. False: it could not be had. */
bool os_thread_start(void (*body)(void));

/** For that thread: gives up every capability but CAP_SETUID and CAP_SETGID, and these when the main thread has done
 * so. Not under a filter of system calls. */
void os_thread_follow_process(void);

/** The most of a limit that the process has now (getrlimit), SIZE_MAX for none. Keeps errno. */
size_t os_limit(int resource);

/** Number of the process. */
int os_process(void);
/** Number of the calling thread, as the kernel and debuggers call it. */
int os_thread(void);
/** Has the process a thread of that number? Keeps errno. */
bool os_thread_exists(int thread);

/** Number of the memory node (NUMA) that the calling thread runs on at this moment, without a system call. 0 where that is not
 * known: with musl, and on aarch64 and riscv64 with a kernel before 6.3 or a glibc before 2.35. */
unsigned os_node(void);

/** What the machine's register for it points to in each thread. */
HAK_INLINE uintptr_t os_thread_pointer(void) {
#if defined(__powerpc64__) /* clang and later gcc alone know the function there */
  uintptr_t pointer;
  __asm__("mr %0, 13" : "=r"(pointer));
  return pointer;
#else
  return (uintptr_t)__builtin_thread_pointer();
#endif
}

/** Every other thread of the process passes a full memory barrier: what it has stored before is seen by the caller afterwards, and what the
 * caller has stored before is seen by what the thread loads later. False: the kernel has no such call, or a filter refuses it. Keeps
 * errno. */
bool os_fence_threads(void);
/** Was it never refused so far? */
bool os_fences_threads(void);

/** Lets other threads run. */
void os_yield(void);

/** Sleeps for `ms` milliseconds (OS_NO_TIMEOUT: for ever), or until *word is no longer `value` and os_wake was
 * called. */
void os_sleep_on(_Atomic uint32_t *word, uint32_t value, uint32_t ms);
#define OS_NO_TIMEOUT UINT32_MAX
void os_wake(_Atomic uint32_t *word);

/** os_decommit for several ranges: by one system call where the kernel can (Linux 6.13 and later: 231 ns a page
 * instead of 1,101), else one by one. False when one of them was refused. */
bool os_decommit_all(const struct os_range *ranges, size_t count);

/** Value of an environment variable, also before libc has set `environ`; NULL when it is not set. */
const char *os_env(const char *name);

/** The environment as main would get it, NULL when it cannot be found yet. */
char **os_environment(void);

/** True in a program with raised privileges: options are not read there. */
bool os_is_secure(void);

/** Keeps a second descriptor of stderr, for programs that close theirs before they end. */
void os_keep_stderr(void);

/** Takes the file that descriptor 2 is now for the stderr of start-up. The library does so when it is loaded. */
void os_note_stderr(void);

/** Writes to the stderr of start-up by the system call, past stdio: to descriptor 2 as long as that is the same file
 * (device and inode), else to the descriptor that was kept, else nowhere. */
void os_write_error(const char *text, size_t length);

/** The same to descriptor 2 whatever it is: for what the program itself asks for at this moment. */
void os_write_error_here(const char *text, size_t length);

/** Ends the program by SIGABRT, whose handler may allocate. */
_Noreturn void os_abort(void);
/** os_abort calls these first, in the thread that ends the program: the first takes leave, the second writes down what is known. Either may be NULL. */
extern _Atomic(void (*)(void)) os_when_dying HAK_HIDDEN;
extern _Atomic(void (*)(void)) os_last_words HAK_HIDDEN;
/** Is the calling thread there? Then locks that it holds let it in again, and keep others out to the end. */
extern _Thread_local bool os_dying HAK_HIDDEN __attribute__((tls_model("initial-exec")));

/* A library that is told of pages that go may allocate meanwhile. os_beside_program is called before and after: in between
 * the thread has no heap of its own, and borrows one, as at its end. */
struct os_beside {
  void *heap, *heap_of_malloc;
  bool ended, begun;
};
typedef void os_beside_function(struct os_beside *beside, bool begins);
extern _Atomic(os_beside_function *) os_beside_program HAK_HIDDEN;

/** The program's name without its path, cut to `room` - 1 bytes; "" where it is not known. */
void os_program_name(char *name, size_t room);

/** What an errno of a file that cannot be written says, in a few words. */
const char *os_error_text(int error);

/** Absolute path of the working directory; returns its length, 0 when it cannot be had. */
size_t os_working_directory(char *path, size_t room);

/** Number of the signal that `text` names: its number, or one of a few names, with or without SIG, in any case. 0: none, or
 * one that cannot be caught or means that the program has crashed. */
int os_signal_number(const char *text);

/** From now on the signal calls what os_on_signal() was told, and the program goes on. False: the program has a handler for it
 * already, or the system refuses. */
bool os_catch_signal(int number);
void os_on_signal(void (*what)(void));

/** Bytes resident now (VmRSS), 0 when it cannot be read. */
size_t os_resident_bytes(void);
/** The same, and the bytes that are mapped (VmSize). */
size_t os_memory_bytes(size_t *mapped);

/** The most that were resident since the program was executed (VmHWM), 0 when it cannot be read. `scratch` is for the kernel's text: it
 * stands behind the groups, which are some hundred bytes at most, so 2 KiB will do. */
size_t os_peak_resident_bytes(char *scratch, size_t room);

#endif
