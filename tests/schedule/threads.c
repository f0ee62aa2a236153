/* threads.c - threads as coroutines. A switch takes some 20 ns instead of the 5 us of a real one.
 *
 * The sources use thread-local variables, and a lock names its holder by the address of one. So each coroutine gets those of a
 * real thread, which sleeps for ever and lends them: with the stack the register changes by which they are found. x86-64 only.
 */
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "explorer.h"

enum { STACK_BYTES = 128 * 1024 };

struct thread threads[SCHEDULE_THREADS];
unsigned thread_count;
int running = -1;

static _Alignas(64) char stacks[SCHEDULE_THREADS][STACK_BYTES];
static void *explorer_stack;
static uintptr_t explorer_pointer;
static void (*bodies[SCHEDULE_THREADS])(void);

/* --- thread-local variables ------------------------------------------------------------------------ */

static const void *image; /* of the program's own: as a new thread has them */
static size_t image_bytes, local_bytes, local_alignment;
static bool has_instruction;

static int find_image(struct dl_phdr_info *info, size_t size, void *argument) {
  (void)size, (void)argument;
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type != PT_TLS) continue;
    image = (const void *)(info->dlpi_addr + header->p_vaddr);
    image_bytes = header->p_filesz;
    local_bytes = header->p_memsz;
    local_alignment = header->p_align;
  }
  return 1; /* the first one is the program */
}

static uintptr_t thread_pointer(void) {
  uintptr_t pointer;
  __asm__ volatile("movq %%fs:0, %0" : "=r"(pointer));
  return pointer;
}

static void set_thread_pointer(uintptr_t pointer) {
  enum { SET_FS = 0x1002 };
  if (has_instruction) __asm__ volatile("wrfsbase %0" : : "r"(pointer) : "memory");
  else syscall(SYS_arch_prctl, SET_FS, pointer);
}

/* The program's come right below the thread pointer (ELF Handling For Thread-Local Storage, variant II). */
static void reset_locals(uintptr_t pointer) {
  if (local_bytes == 0) return;
  size_t below = (local_bytes + local_alignment - 1) & ~(local_alignment - 1);
  char *locals = (char *)pointer - below;
  memcpy(locals, image, image_bytes);
  memset(locals + image_bytes, 0, local_bytes - image_bytes);
}

static pthread_barrier_t lent;

static void *lend(void *thread) {
  ((struct thread *)thread)->pointer = thread_pointer();
  pthread_barrier_wait(&lent);
  for (;;) pause();
  return NULL;
}

void threads_prepare(void) {
  enum { INSTRUCTION_BIT = 2 }; /* HWCAP2_FSGSBASE */
  has_instruction = (getauxval(AT_HWCAP2) & INSTRUCTION_BIT) != 0;
  dl_iterate_phdr(find_image, NULL);
  explorer_pointer = thread_pointer();
  for (unsigned i = 0; i < SCHEDULE_THREADS; i++) {
    pthread_t thread;
    pthread_barrier_init(&lent, NULL, 2);
    if (pthread_create(&thread, NULL, lend, &threads[i]) != 0) abort();
    pthread_barrier_wait(&lent);
  }
}

/* --- switches -------------------------------------------------------------------------------------- */

void thread_switch(void **from, void *to);
__asm__(".text\n"
        ".type thread_switch, @function\n"
        "thread_switch:\n\t"
        "pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
        "movq %rsp, (%rdi)\n\t"
        "movq %rsi, %rsp\n\t"
        "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\t"
        "ret\n"
        ".size thread_switch, . - thread_switch\n");

void thread_go_on(unsigned thread) {
  running = (int)thread;
  set_thread_pointer(threads[thread].pointer);
  thread_switch(&explorer_stack, threads[thread].stack_pointer);
}

static void leave_thread(void) {
  struct thread *self = &threads[running];
  running = -1;
  set_thread_pointer(explorer_pointer);
  thread_switch(&self->stack_pointer, explorer_stack);
}

void thread_wait(void) { leave_thread(); }

void threads_leave(void) {
  running = -1;
  set_thread_pointer(explorer_pointer);
}

static void run_body(void) {
  bodies[running]();
  threads[running].ended = true;
  leave_thread();
  abort();
}

bool thread_owns(uintptr_t address) { return address - (uintptr_t)stacks[running] < STACK_BYTES; }

int schedule_thread(void) { return running; }

void threads_start(const struct schedule_case *from) {
  enum { SAVED = 6 };
  thread_count = 0;
  for (unsigned i = 0; i < SCHEDULE_THREADS && from->body[i] != NULL; i++) {
    uintptr_t pointer = threads[i].pointer;
    void **top = (void **)(void *)(stacks[i] + STACK_BYTES - 64);
    *top = (void *)run_body;
    memset(&top[-SAVED], 0, SAVED * sizeof *top);
    threads[i] = (struct thread){.stack_pointer = &top[-SAVED],
                                 .pointer = pointer,
                                 .stale = from->stale,
                                 .spurious = from->spurious,
                                 .timeouts = from->timeouts,
                                 .signals = from->signals};
    bodies[i] = from->body[i];
    reset_locals(pointer);
    thread_count++;
  }
}
