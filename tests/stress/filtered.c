/* A service whose filter kills for every system call that it does not list. This one lists all but those that systemd 252 leaves out of
 * SystemCallFilter=@system-service, and what services take away from it (~@resources), as far as an allocator might think
 * of them. glibc's malloc makes none of these calls.
 *
 * usage: filtered first|later|refused     the filter comes before the first block, or once memory has been used; refused: as first, and
 *                                         no file can be opened any more, which is tried once where it is of use at all: who
 *                                         watches services writes down each try */
#include "kit.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static const int forbidden[] = {
    SYS_mincore,        SYS_move_pages,         SYS_migrate_pages,    SYS_mbind,
    SYS_set_mempolicy,  SYS_perf_event_open,    SYS_process_vm_readv, SYS_sched_setaffinity,
    SYS_sched_setparam, SYS_sched_setscheduler, SYS_setpriority,
};
enum { FORBIDDEN = sizeof forbidden / sizeof *forbidden };

static void add(struct sock_filter *code, unsigned short *length, int call, uint32_t action) {
  code[(*length)++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1);
  code[(*length)++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
}

/* Refused by a signal handler that counts, where it is known which registers a call uses. */
#ifdef __x86_64__
#define REFUSE_FILES SECCOMP_RET_TRAP
#else
#define REFUSE_FILES (SECCOMP_RET_ERRNO | EACCES)
#endif

static volatile sig_atomic_t refused_files, refused_pagemap;

static void refuse(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
#ifdef __x86_64__
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  const char *path = (const char *)registers[REG_RSI];
  refused_files++;
  if (strcmp(path, "/proc/thread-self/pagemap") == 0) refused_pagemap++;
  registers[REG_RAX] = -EACCES;
#endif
}

static bool install(bool refuses_files) {
  struct sock_filter code[2 * FORBIDDEN + 4];
  unsigned short length = 0;
  code[length++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < FORBIDDEN; i++) add(code, &length, forbidden[i], SECCOMP_RET_KILL_PROCESS);
  if (refuses_files) add(code, &length, SYS_openat, REFUSE_FILES);
  code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {length, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* 64 MiB of blocks of one size, written whole; every second is freed and allocated again, then all go. */
static void use(size_t size) {
  enum { MOST = 70000 };
  static void *blocks[MOST];
  size_t count = 64 * KIT_KB * KIT_KB / size;
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < count; i += 1 + (size_t)round) {
      mem_free(blocks[i]);
      CHECK((blocks[i] = mem_malloc(size)) != NULL, "malloc failed");
      memset(blocks[i], 1, size);
    }
  }
  for (size_t i = 0; i < count; i++) {
    mem_free(blocks[i]);
    blocks[i] = NULL;
  }
}

static void use_all(void) {
  static const size_t sizes[] = {1000, 30000, 70000, 300000, 900000, 3000000, 7000000, 20000000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) use(sizes[i]);
  void *grown = NULL;
  for (size_t size = 1000; size < 100000000; size += size / 2) {
    CHECK((grown = mem_realloc(grown, size)) != NULL, "realloc failed");
    memset((char *)grown + size - 900, 1, 900);
  }
  mem_free(grown);
}

int main(int argc, char **argv) {
  const char *mode = argc == 2 ? argv[1] : "";
  bool later = strcmp(mode, "later") == 0, refused = strcmp(mode, "refused") == 0;
  CHECK(later || refused || strcmp(mode, "first") == 0, "usage: filtered first|later|refused");
  kit_start();
  if (later) use_all();
  struct sigaction action = {.sa_sigaction = refuse, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGSYS, &action, NULL) == 0, "sigaction");
  if (!install(refused)) {
    printf("no seccomp filters here\n");
    return KIT_SKIP;
  }
  CHECK(!refused || open("/proc/self/status", O_RDONLY) == -1, "files can be opened");
  refused_files = 0;
  use_all();
  use_all();
  printf("%d files were refused, /proc/thread-self/pagemap %d times\n", (int)refused_files,
         (int)refused_pagemap);
  CHECK(refused_pagemap <= 1, "/proc/thread-self/pagemap was asked for %d times",
        (int)refused_pagemap);
  return 0;
}
