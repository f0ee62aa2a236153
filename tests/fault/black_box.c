/* black_box.c - a black box is written while each call of its writing is refused in turn, and while the process is killed before each of them.
 * Whatever happens, the last whole file stays as it was, and can be read.
 *
 * usage: black_box refused|killed */
#include "kit.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/box_parts.h"
#include "heap/named.h"
#include "os/fault.h"
#include "release/box.h"

static char folder[] = "/tmp/hakmem-boxes-XXXXXX";

/* Is all there that the headers of the file promise? Returns when it was written. */
static uint64_t check_file(const char *name) {
  char path[512];
  Elf64_Ehdr head;
  Elf64_Phdr part;
  struct box_facts facts;
  struct stat status;
  bool has_tables = false;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0 && fstat(file, &status) == 0, "a box cannot be opened");
  CHECK(pread(file, &head, sizeof head, 0) == sizeof head && head.e_type == ET_CORE &&
            memcmp(head.e_ident, ELFMAG, SELFMAG) == 0,
        "a box does not begin as one");
  CHECK(pread(file, &facts, sizeof facts, BOX_FACTS_AT) == sizeof facts &&
            facts.version == BOX_VERSION && facts.reason == BOX_AT,
        "a box without facts");
  for (unsigned i = 0; i < head.e_phnum; i++) {
    CHECK(pread(file, &part, sizeof part, (off_t)(head.e_phoff + i * sizeof part)) == sizeof part,
          "a box without headers");
    CHECK(part.p_offset + part.p_filesz <= (uint64_t)status.st_size, "a part is missing");
    has_tables |= part.p_type == PT_LOAD && part.p_filesz > 0;
  }
  CHECK(has_tables, "a box without tables");
  close(file);
  return facts.written_ns;
}

/* How many whole boxes there are, all of which are checked; and when the newest was written. */
static unsigned check_folder(uint64_t *newest, bool may_have_unfinished) {
  unsigned count = 0, unfinished = 0;
  DIR *directory = opendir(folder);
  CHECK(directory != NULL, "opendir");
  *newest = 0;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    unfinished += strstr(entry->d_name, BOX_UNFINISHED) != NULL;
    if (strstr(entry->d_name, BOX_ENDING) == NULL) continue;
    uint64_t written = check_file(entry->d_name);
    if (written > *newest) *newest = written;
    count++;
  }
  closedir(directory);
  CHECK(unfinished == 0 || may_have_unfinished, "a file that is not whole was left");
  return count;
}

/* Of files whose names have `ending`. */
static void empty_folder(const char *ending) {
  char path[512];
  DIR *directory = opendir(folder);
  CHECK(directory != NULL, "opendir");
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (strstr(entry->d_name, ending) != NULL) unlink(path);
  }
  closedir(directory);
}

static int write_box(void) { return box_write_now(BOX_AT, (size_t)100 << 20, 0); }

/* A heap that is lost in the child of a fork refuses, however much memory there is. */
static void lose_heap(void) {
  uint64_t newest;
  struct hak_heap *heap = hak_heap_create("lost", 0);
  CHECK(heap != NULL && hak_heap_malloc(heap, 100) != NULL, "hak_heap_malloc");
  heap->lost = true;
  CHECK(hak_heap_malloc(heap, 100) == NULL, "a lost heap gives blocks");
  CHECK(hak_heap_malloc(heap, MIB) == NULL, "a lost heap gives large blocks");
  CHECK(check_folder(&newest, false) == 0, "a box of no want of memory");
}

static atomic_bool ends;

/* With a moment between two, as the helper has. */
static void *write_all_the_time(void *unused) {
  while (!atomic_load(&ends)) {
    (void)write_box();
    usleep(1000);
  }
  return unused;
}

/* A thread whose allocation fails while the helper is writing has its turn after it: the process may end at once. */
static void write_beside_another(void) {
  enum { TIMES = 50 };
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, write_all_the_time, NULL) == 0, "pthread_create");
  for (int i = 0; i < TIMES; i++) {
    int error = box_write_now(BOX_FAILURE, (size_t)100 << 20, 0);
    CHECK(error == 0, "box %d of a failure: %d", i, error);
  }
  atomic_store(&ends, true);
  pthread_join(thread, NULL);
  empty_folder(".box");
}

/* --- refused ---------------------------------------------------------------------------------------------------- */

static void refuse_each(void) {
  uint64_t before, after;
  unsigned written = 0;
  os_fault_reset();
  CHECK(write_box() == 0, "a box is not written");
  uint64_t calls = os_fault_calls();
  for (uint64_t n = 1; n <= calls; n++) {
    (void)check_folder(&before, false);
    errno = n % 2 == 0 ? 0 : EDOM;
    os_fault_fail_nth(n);
    int error = write_box();
    CHECK(errno == (n % 2 == 0 ? 0 : EDOM), "errno was changed");
    os_fault_reset();
    unsigned count = check_folder(&after, false);
    CHECK(count >= 1 && count <= BOX_FILES, "so many files are not kept");
    CHECK(error == 0 ? after > before : after == before, "the newest file is another");
    written += error == 0;
  }
  for (uint64_t n = 1; n <= calls; n++) {
    (void)check_folder(&before, false);
    os_fault_fail_from(n);
    int error = write_box();
    os_fault_reset();
    (void)check_folder(&after, false);
    CHECK(error == 0 ? after > before : after == before, "the newest file is another");
  }
  printf("%llu calls, each refused once: %u boxes written\n", (unsigned long long)calls, written);
}

/* --- killed ----------------------------------------------------------------------------------------------------- */

/* In a child that is killed before its n-th system call, at its start or its end. False: it made fewer. */
static bool kill_before(unsigned n) {
  int status;
  pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(KIT_SKIP);
    raise(SIGSTOP);
    _exit(write_box());
  }
  CHECK(waitpid(child, &status, 0) == child, "waitpid");
  if (WIFEXITED(status) && WEXITSTATUS(status) == KIT_SKIP) {
    puts("skipped: a program may not be traced here");
    exit(KIT_SKIP);
  }
  for (unsigned i = 0; i < n; i++) {
    CHECK(ptrace(PTRACE_SYSCALL, child, NULL, NULL) == 0, "ptrace");
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    if (WIFEXITED(status)) {
      CHECK(WEXITSTATUS(status) == 0, "the child wrote no box");
      return false;
    }
  }
  kill(child, SIGKILL);
  CHECK(waitpid(child, &status, 0) == child, "waitpid");
  return true;
}

static void kill_at_each_step(void) {
  uint64_t before, after;
  unsigned steps = 0;
  CHECK(write_box() == 0, "a box is not written");
  (void)check_folder(&before, false);
  while (kill_before(steps)) {
    (void)check_folder(&after, true);
    CHECK(after >= before, "the newest file has gone");
    before = after;
    empty_folder(BOX_UNFINISHED); /* of each child one, at which each next one would look */
    steps++;
  }
  CHECK(write_box() == 0, "a box is not written");
  unsigned left = check_folder(&after, true);
  printf("killed at %u steps, %u boxes are left\n", steps, left);
  CHECK(after >= before && left <= BOX_FILES_ALL, "nothing bounds the boxes of all children");
  CHECK(steps > 20, "hardly any step");
}

int main(int argc, char **argv) {
  kit_watchdog(240);
  CHECK(mkdtemp(folder) != NULL, "mkdtemp");
  CHECK(setenv("HAKMEM_BLACKBOX", folder, 1) == 0, "setenv");
  void *volatile block = hak_malloc(100); /* reads options */
  CHECK(block != NULL && box_is_on(), "the option does not count");
  lose_heap();
  write_beside_another();
  if (argc == 2 && strcmp(argv[1], "killed") == 0) kill_at_each_step();
  else refuse_each();
  hak_free(block);
  empty_folder("");
  CHECK(rmdir(folder) == 0, "rmdir");
  return 0;
}
