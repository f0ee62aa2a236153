/* served.c - see serve.h: the processes that hakmem serve reads, in memory that its children share.
 *
 * Children take turns at looking for processes, which changes the table. The turn is a lock on a file, so the kernel takes it from a child that
 * dies. A child may be killed at any step: so a place is free or taken by one store.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli.h"
#include "processes.h"
#include "serve.h"

/* How soon it is looked again whether a process is on hakmem that was not: at first it may not have been loaded yet. */
enum { AGAIN_MS = 1000, AGAIN_MOST_MS = 64 * 1000, SHUNNED_MS = 60 * 1000 };

/* A process that is not served, by its number's last bits: of two that have these in common one is looked at each time. */
enum { STRANGERS = 65536 };

enum kind {
  OTHER,
  REFUSED,
  CLOSED,
  SHUNNED
}; /* not on hakmem; on it, but it makes no sense or may not be read;
                                                it may not be known; reading it hung */

struct stranger {
  int pid;
  enum kind kind;
  uint64_t key, next_ms;
  uint32_t wait_ms;
};

struct served_table {
  _Atomic int reads; /* the process that a child is in; 0: none */
  _Atomic uint64_t steps;
  size_t used; /* places that were ever taken */
  uint64_t round;
  struct stranger strangers[STRANGERS];
  struct served_process places[];
};

static size_t table_bytes(const struct served *served) {
  return sizeof *served->table + served->most * sizeof served->table->places[0];
}

bool served_open(struct served *served) {
  /* Pages that nobody touches take no memory. */
  void *table = mmap(NULL, table_bytes(served), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  served->turn = memfd_create("hakmem serve", MFD_CLOEXEC);
  if (table == MAP_FAILED || served->turn < 0) {
    complain("out of memory");
    if (table != MAP_FAILED) munmap(table, table_bytes(served));
    if (served->turn >= 0) close(served->turn);
    return false;
  }
  served->table = table;
  return true;
}

void served_close(struct served *served) {
  munmap(served->table, table_bytes(served));
  close(served->turn);
}

/* The lock is a process's: one of the open file would be shared by all children. */
static void set_turn(const struct served *served, short type) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
  while (fcntl(served->turn, F_SETLKW, &lock) != 0 && errno == EINTR) continue;
}

/* --- places ------------------------------------------------------------------------------------------------ */

struct served_process *served_next(const struct served *served,
                                   const struct served_process *before) {
  struct served_process *places = served->table->places;
  for (size_t i = before != NULL ? (size_t)(before - places) + 1 : 0; i < served->table->used; i++)
    if (atomic_load(&places[i].pid) != 0) return &places[i];
  return NULL;
}

size_t served_count(const struct served *served) {
  size_t count = 0;
  for (struct served_process *p = NULL; (p = served_next(served, p)) != NULL;) count++;
  return count;
}

struct served_process *served_find(const struct served *served, int pid) {
  struct served_process *process = NULL;
  while ((process = served_next(served, process)) != NULL)
    if (process->pid == pid) return process;
  return NULL;
}

void served_drop(struct served_process *process) { atomic_store(&process->pid, 0); }

/* NULL: they are as many as may be. */
static struct served_process *free_place(struct served_table *table, size_t most) {
  for (size_t i = 0; i < table->used; i++)
    if (atomic_load(&table->places[i].pid) == 0) return &table->places[i];
  return table->used < most ? &table->places[table->used++] : NULL;
}

/* --- children ---------------------------------------------------------------------------------------------- */

void served_reads(const struct served *served, int pid) {
  atomic_store(&served->table->reads, pid);
  atomic_fetch_add(&served->table->steps, 1);
}

uint64_t served_steps(const struct served *served, int *pid) {
  *pid = atomic_load(&served->table->reads);
  return atomic_load(&served->table->steps);
}

static void put_off(struct stranger *stranger, uint32_t least_ms, uint32_t most_ms) {
  stranger->wait_ms = stranger->wait_ms < least_ms       ? least_ms
                      : stranger->wait_ms >= most_ms / 2 ? most_ms
                                                         : stranger->wait_ms * 2;
  stranger->next_ms = now_ms() + stranger->wait_ms;
}

/* --- is it on hakmem? -------------------------------------------------------------------------------------- */

/* Differs after an exec, and for another process of this number; 0: there is none, or it is a thread of the kernel. Where a program
 * was put and its stack begins is told to those alone who may read it. */
static uint64_t read_key(int pid) {
  enum { FLAGS = 9, BIRTH = 22, CODE = 26, STACK = 28, PF_KTHREAD = 0x00200000 };
  char line[1024];
  const char *at = remote_stat_line(pid, line, sizeof line);
  if (at == NULL) return 0;
  uint64_t key = UINT64_C(14695981039346656037);
  for (const char *name = line; name < at; name++)
    key = (key ^ (unsigned char)*name) * 1099511628211;
  for (int field = 3; (at = strchr(at, ' ')) != NULL && field <= STACK; field++) {
    uint64_t number = strtoull(++at, NULL, 10);
    if (field == FLAGS && (number & PF_KTHREAD) != 0) return 0;
    if (field == BIRTH || field == CODE || field == STACK) key = (key ^ number) * 1099511628211;
  }
  return key | 1;
}

static bool is_closed(int pid) {
  char path[64], byte;
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  return readlink(path, &byte, 1) < 0 && (errno == EACCES || errno == EPERM);
}

/* Puts it into its place. Who it was found as is kept: another may be read under its number later. */
static int fill(const struct served *served, struct served_process *process, const char *text,
                uint64_t late_ms) {
  int code = remote_open_by(&process->remote, text, late_ms);
  int pid = process->remote.pid;
  /* Twice the same, or the number of one of its threads: two samples of a name would be an error to the reader. */
  if (code != 0 || served_find(served, pid) != NULL) return code;
  container_read(&process->container, pid);
  limits_find(&process->limit, pid);
  process->key = read_key(pid);
  process->round = served->table->round;
  process->tried_ms = 0;
  process->late = false;
  atomic_store(&process->pid, pid);
  return 0;
}

int served_add(struct served *served, const char *text) {
  struct served_process *place = free_place(served->table, served->most);
  if (place != NULL) return fill(served, place, text, 0);
  complain("no more than %zu processes are served: --most", served->most);
  return EXIT_USAGE;
}

/* --- all, or those of a name ------------------------------------------------------------------------------- */

static void count(struct left_out *left_out, enum kind kind) {
  if (kind == SHUNNED) left_out->late++;
  else if (kind != OTHER) left_out->unreadable++;
}

static void look_at(struct served *served, struct stranger *stranger, const char *text,
                    struct left_out *left_out) {
  struct served_process *place = free_place(served->table, served->most);
  if (place == NULL) {
    left_out->number++; /* on hakmem or not */
    return;
  }
  served_reads(served, stranger->pid);
  int code = fill(served, place, text, now_ms() + served->each_ms);
  served_reads(served, 0);
  if (code == 0) return;
  stranger->kind = remote_is_refused(&place->remote) ? REFUSED
                   : is_closed(stranger->pid)        ? CLOSED
                                                     : OTHER;
  count(left_out, stranger->kind);
  put_off(stranger, AGAIN_MS, AGAIN_MOST_MS);
}

static void meet(struct served *served, const char *text, struct left_out *left_out) {
  int pid = (int)strtol(text, NULL, 10);
  struct stranger *stranger = &served->table->strangers[(unsigned)pid % STRANGERS];
  if (pid == getpid() || (served->name != NULL && !process_has_name(text, served->name))) return;
  uint64_t key = read_key(pid);
  if (key == 0) return;
  struct served_process *known = served_find(served, pid);
  if (known != NULL && known->key == key) {
    known->round = served->table->round;
    return;
  }
  if (known != NULL) served_drop(known);
  if (stranger->pid != pid || stranger->key != key)
    *stranger = (struct stranger){.pid = pid, .key = key};
  /* Of a name, a complaint is wanted each time. */
  if (now_ms() >= stranger->next_ms || (served->name != NULL && stranger->kind != SHUNNED))
    look_at(served, stranger, text, left_out);
  else count(left_out, stranger->kind);
}

static void find_all(struct served *served, struct left_out *left_out, uint64_t late_ms) {
  DIR *directory = opendir("/proc");
  bool whole = directory != NULL;
  served->table->round++;
  for (struct dirent *entry; whole && (entry = readdir(directory)) != NULL;) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    if (now_ms() > late_ms) whole = false;
    else meet(served, entry->d_name, left_out);
  }
  if (directory != NULL) closedir(directory);
  struct served_process *process = NULL;
  while (whole && (process = served_next(served, process)) != NULL)
    if (process->round != served->table->round) served_drop(process);
}

void served_shun(struct served *served, int pid) {
  struct stranger *stranger = &served->table->strangers[(unsigned)pid % STRANGERS];
  struct served_process *process = served_find(served, pid);
  uint64_t key = read_key(pid);
  if (process != NULL) served_drop(process);
  if (stranger->pid != pid || stranger->key != key)
    *stranger = (struct stranger){.pid = pid, .key = key};
  stranger->kind = SHUNNED;
  put_off(stranger, SHUNNED_MS, 64 * SHUNNED_MS);
}

/* --- those of numbers -------------------------------------------------------------------------------------- */

/* It runs another program by now, which may be on hakmem, too. If it is not, nothing changes. */
static void open_again(struct served_process *process) {
  char text[16];
  struct remote *again = calloc(1, sizeof *again);
  snprintf(text, sizeof text, "%d", process->remote.pid);
  if (again != NULL && remote_open(again, text) == 0) process->remote = *again;
  free(again);
}

void served_refresh(struct served *served, struct left_out *left_out, uint64_t late_ms) {
  struct served_process *process = NULL;
  if (served->name != NULL || served->all) {
    let_complain(!served->all); /* of all, most are on another allocator: that is no news */
    set_turn(served, F_WRLCK);
    find_all(served, left_out, late_ms);
    set_turn(served, F_UNLCK);
    let_complain(true);
    return;
  }
  while ((process = served_next(served, process)) != NULL)
    if (remote_look_on(&process->remote) == REMOTE_OTHER) open_again(process);
}
