/* remote_process.c - see remote.h: which process it is, whether it may be read, and whether it still is the same. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "elf_file.h"
#include "remote.h"

struct status {
  bool found, kernel, ended;
  int process; /* `text` may name a thread */
  unsigned user;
};

const char *remote_stat_line(int pid, char *line, size_t room) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *file = fopen(path, "re");
  if (file == NULL) return NULL;
  size_t length = fread(line, 1, room - 1, file);
  fclose(file);
  line[length] = 0;
  return strrchr(line, ')');
}

uint64_t remote_stat(int pid, int field) {
  enum { NAME = 2 };
  char line[1024];
  const char *at = remote_stat_line(pid, line, sizeof line);
  for (int i = NAME; i < field && at != NULL; i++) at = strchr(at + 1, ' ');
  return at != NULL ? strtoull(at, NULL, 10) : 0;
}

static bool is_thread_of_kernel(int pid) {
  enum { FLAGS = 9, PF_KTHREAD = 0x00200000 };
  return (remote_stat(pid, FLAGS) & PF_KTHREAD) != 0;
}

static struct status read_status(int pid) {
  struct status status = {0};
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  FILE *file = fopen(path, "re");
  if (file == NULL) return status;
  bool has_memory = false;
  while (fgets(line, sizeof line, file) != NULL) {
    status.found = true;
    if (strncmp(line, "State:", 6) == 0)
      status.ended = strchr(line, 'Z') != NULL || strchr(line, 'X') != NULL;
    if (strncmp(line, "Tgid:", 5) == 0) status.process = (int)strtol(line + 5, NULL, 10);
    if (strncmp(line, "Uid:", 4) == 0) { /* the second one: the effective */
      char *end;
      strtoul(line + 4, &end, 10);
      status.user = (unsigned)strtoul(end, NULL, 10);
    }
    if (strncmp(line, "VmSize:", 7) == 0) has_memory = true;
  }
  fclose(file);
  /* A process that ends gives its memory back first, which takes a while if there is much. */
  if (status.found && !has_memory && !status.ended) {
    status.kernel = is_thread_of_kernel(pid);
    status.ended = !status.kernel;
  }
  return status;
}

/* When it began, in ticks since the machine did: with the number it tells a process from all others. 0: there is none. */
static uint64_t read_birth(int pid) {
  enum { BIRTH = 22 };
  return remote_stat(pid, BIRTH);
}

/* One of its threads that has not ended; 0: there is none. */
static int find_task(int process) {
  char path[64];
  int task = 0;
  snprintf(path, sizeof path, "/proc/%d/task", process);
  DIR *directory = opendir(path);
  if (directory == NULL) return 0;
  for (struct dirent *entry; task == 0 && (entry = readdir(directory)) != NULL;) {
    int number = (int)strtol(entry->d_name, NULL, 10);
    struct status status = read_status(number);
    if (number > 0 && status.found && !status.ended) task = number;
  }
  closedir(directory);
  return task;
}

static int yama(void) {
  int scope = 0;
  FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
  if (file == NULL) return 0;
  if (fscanf(file, "%d", &scope) != 1) scope = 0;
  fclose(file);
  return scope;
}

int remote_refuse(const struct remote *remote) {
  int pid = remote->pid;
  struct status status = read_status(pid);
  if (!status.found || status.ended) {
    complain("process %d has ended meanwhile", pid);
    return 1;
  }
  if (status.user != geteuid() && geteuid() != 0)
    complain("process %d belongs to user %u: call hakmem as that user, or as root", pid,
             status.user);
  else if (yama() == 3)
    complain("process %d cannot be read: kernel.yama.ptrace_scope is 3, which lasts until a reboot",
             pid);
  else if (yama() > 0 && geteuid() != 0)
    complain(
        "process %d cannot be read: kernel.yama.ptrace_scope is %d; call hakmem as root, allow "
        "it by: sysctl kernel.yama.ptrace_scope=0, or start it with HAKMEM_SHM=1, for hakmem stats "
        "and top",
        pid, yama());
  else
    complain(
        "process %d cannot be read: it has privileges or is protected (prctl PR_SET_DUMPABLE), "
        "or this container lacks CAP_SYS_PTRACE; call hakmem as root outside of it, "
        "or start the process with HAKMEM_SHM=1, for hakmem stats and top",
        pid);
  return EXIT_CANNOT_RUN;
}

int remote_refused(struct remote *remote) {
  struct shared_figures figures;
  uint64_t resident;
  remote->shared = remote_read_shared(remote, &figures, &resident);
  if (!remote->shared) return remote_refuse(remote);
  memcpy(remote->layout.release, figures.release, sizeof figures.release);
  memcpy(remote->layout.variant, figures.variant, sizeof figures.variant);
  return 0;
}

void make_printable(char *text, size_t room) {
  text[room - 1] = 0;
  for (; *text != 0; text++)
    for (unsigned control = control_bytes(text); control > 0; control--) text[control - 1] = '?';
}

static void read_program(struct remote *remote) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/comm", remote->pid);
  FILE *file = fopen(path, "re");
  if (file == NULL) return;
  if (fgets(remote->program, sizeof remote->program, file) != NULL)
    remote->program[strcspn(remote->program, "\n")] = 0;
  make_printable(remote->program, sizeof remote->program);
  fclose(file);
}

int remote_check_process(struct remote *remote, const char *text) {
  char *end;
  errno = 0;
  long number = strtol(text, &end, 10);
  if (errno != 0 || *end != 0 || end == text || number <= 0 || number > INT_MAX) {
    complain("'%s' is not the number of a process", text);
    return EXIT_USAGE;
  }
  struct status status = read_status((int)number);
  if (!status.found) {
    complain("there is no process %ld", number);
    return EXIT_NO_PROGRAM;
  }
  remote->pid = status.process;
  /* The one that was named, where it lives: another may be about to end, and have no memory any more. */
  remote->task = status.ended ? find_task(remote->pid) : (int)number;
  remote->birth = read_birth(remote->pid);
  read_program(remote);
  if (remote->task == 0) {
    complain("process %ld (%s) has ended; its parent has not asked for its exit code yet", number,
             remote->program);
    return EXIT_NO_PROGRAM;
  }
  if (status.kernel) {
    complain("%ld (%s) is a thread of the kernel, which has no malloc", number, remote->program);
    return EXIT_CANNOT_RUN;
  }
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/exe", remote->task);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return remote_refused(remote);
  struct elf_file elf;
  elf_file_read(fd, &elf);
  close(fd);
  if (elf.is_elf && !elf.is_ours) {
    complain("process %d (%s) is a program for %s; this hakmem reads those for %s", remote->pid,
             remote->program, elf.machine, elf_file_own_machine());
    return EXIT_CANNOT_RUN;
  }
  return 0;
}

/* --- whether it still is -------------------------------------------------------------------------------- */

bool remote_has_ended(const struct remote *remote) {
  struct status status = read_status(remote->task);
  if (status.found && !status.ended && status.process == remote->pid)
    return read_birth(remote->pid) != remote->birth;
  return find_task(remote->pid) == 0 || read_birth(remote->pid) != remote->birth;
}

enum remote_state remote_look(const struct remote *remote) {
  if (remote->core != NULL) return REMOTE_THERE;
  if (remote_has_ended(remote)) return REMOTE_ENDED;
  struct shared_figures figures;
  uint64_t resident;
  if (remote->shared ? remote_read_shared(remote, &figures, &resident)
                     : remote_has_directory(remote))
    return REMOTE_THERE;
  /* Between the two it may have ended. */
  struct status status = read_status(remote->task);
  if (!status.found || status.ended || status.kernel) return REMOTE_ENDED;
  return REMOTE_OTHER;
}

bool remote_follow(struct remote *remote) {
  if (remote->core != NULL) return false;
  struct status status = read_status(remote->task);
  /* The number of a thread that has ended may be another process's by now. */
  if (status.found && !status.ended && status.process == remote->pid) return false;
  int task = read_birth(remote->pid) == remote->birth ? find_task(remote->pid) : 0;
  if (task != 0) remote->task = task;
  return task != 0;
}

enum remote_state remote_look_on(struct remote *remote) {
  enum remote_state state = remote_look(remote);
  while (state != REMOTE_THERE && remote_follow(remote)) state = remote_look(remote);
  return state;
}

int remote_report(const struct remote *remote, enum remote_state state) {
  struct remote now = {.pid = remote->pid};
  switch (state) {
  case REMOTE_THERE:
    return 0;
  case REMOTE_ENDED:
    complain("process %d (%s) has ended meanwhile", remote->pid, remote->program);
    break;
  case REMOTE_OTHER:
    read_program(&now);
    complain("process %d (%s) runs another program meanwhile (%s), or may no longer be read: call "
             "hakmem again",
             remote->pid, remote->program, now.program);
    break;
  case REMOTE_UNREADABLE:
    complain("process %d (%s) cannot be read: out of memory, or not permitted", remote->pid,
             remote->program);
    break;
  }
  return 1;
}
