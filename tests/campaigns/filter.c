/* filter.c - see filter.h. */
#include "filter.h"

#include "kit.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif

static const struct call {
  const char *name;
  int number;
} calls[] = {
    {"madvise", SYS_madvise},       {"process_madvise", SYS_process_madvise},
    {"mremap", SYS_mremap},         {"clone", SYS_clone},
    {"clone3", SYS_clone3},         {"prctl", SYS_prctl},
    {"membarrier", SYS_membarrier},
};

static int call_of(const char *name) {
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    if (strcmp(calls[i].name, name) == 0) return calls[i].number;
  CHECK(false, "no such call: %s", name);
  return -1;
}

void filter_read(struct filter *filter) {
  const char *text = getenv("CAMPAIGN_FILTER");
  char copy[200], *rest = NULL;
  CHECK(text != NULL, "CAMPAIGN_FILTER is not set");
  snprintf(copy, sizeof copy, "%s", text);
  const char *error = strtok_r(copy, " ", &rest);
  CHECK(error != NULL && (strcmp(error, "EPERM") == 0 || strcmp(error, "ENOSYS") == 0),
        "EPERM or ENOSYS comes first");
  *filter = (struct filter){.error = strcmp(error, "EPERM") == 0 ? EPERM : ENOSYS};
  for (const char *name; (name = strtok_r(NULL, " ", &rest)) != NULL;) {
    CHECK(filter->count < FILTER_MOST, "too many calls");
    filter->numbers[filter->count++] = call_of(name);
  }
  CHECK(filter->count > 0, "no call to refuse");
}

bool filter_install(const struct filter *filter) {
  struct sock_filter code[FILTER_MOST * 2 + 2];
  unsigned short length = 0;
  code[length++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < filter->count; i++) {
    code[length++] =
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)filter->numbers[i], 0, 1);
    code[length++] = (struct sock_filter)BPF_STMT(
        BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)filter->error & SECCOMP_RET_DATA));
  }
  code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {length, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
    return false;
  for (size_t i = 0; i < filter->count; i++) {
    errno = 0;
    /* Arguments that no kernel takes: it would fail in another way without a filter. */
    long result = syscall(filter->numbers[i], -1L, -1L, -1L, -1L, -1L, -1L);
    CHECK(result == -1 && errno == filter->error, "call %d is not refused", filter->numbers[i]);
  }
  return true;
}
