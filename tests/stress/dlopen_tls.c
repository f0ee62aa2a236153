/* Libraries with thread-local storage are opened, some 60 of them, the last beside another thread. With one number or another dlopen then
 * allocates while its list is too short for them, and a thread that is started there ends the program: so the helper is not.
 *
 * Blocks are chosen so that dlopen's next ones come from slabs that are full: its mallocs are the ones that may start the helper.
 *
 * usage: dlopen_tls LIBRARY */
#include "kit.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* glibc's list has a piece for what is there at the start and 62 more. */
enum { LEAST = 56, LIBRARIES = 66, SLAB = 65536 };
#define GROWTH (16 * KIT_MB)
#define BEGINNING "/tmp/hakmem-dlopen-"
#define LONG_NAME 180

static char directory[256];
static char library[1 << 20];
static ssize_t library_bytes;

static const char *path_of(int number) {
  static char path[300];
  snprintf(path, sizeof path, "%s/lib%d.so", directory, number);
  return path;
}

static void copy_to(const char *path) {
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
  CHECK(file >= 0 && write(file, library, (size_t)library_bytes) == library_bytes,
        "cannot write %s", path);
  close(file);
}

static void copy_library(const char *from) {
  int file = open(from, O_RDONLY | O_CLOEXEC);
  library_bytes = read(file, library, sizeof library);
  CHECK(library_bytes > 0 && library_bytes < (ssize_t)sizeof library, "cannot read %s", from);
  close(file);
  /* So long that none of its copies is of a size that is used up below. */
  memset(directory, '_', LONG_NAME);
  memcpy(directory, BEGINNING, sizeof BEGINNING - 1);
  memcpy(directory + LONG_NAME - 6, "XXXXXX", 7);
  CHECK(mkdtemp(directory), "mkdtemp");
  for (int i = 0; i < LIBRARIES; i++) copy_to(path_of(i));
}

static void *rest(void *argument) {
  sleep(60);
  return argument;
}

/* The next block of such a size is the first of a slab. */
static void use_slab_up(size_t size) {
  for (uintptr_t at = 0; at % SLAB + 2 * size <= SLAB || at == 0;) {
    void *block = mem_malloc(size);
    CHECK(block, "malloc failed");
    at = mem_usable_size(block) == size ? (uintptr_t)block : 0;
  }
}

/* The last of them with a thread that is new, and no helper yet. */
static void open_libraries(int count) {
  void *grown = mem_malloc(GROWTH);
  CHECK(grown, "malloc failed");
  memset(grown, 1, GROWTH);
  for (int i = 0; i < count; i++) {
    static const size_t sizes[] = {96, 80, 64, 48};
    pthread_t id;
    for (size_t k = 0; i == count - 1 && k < sizeof sizes / sizeof *sizes; k++)
      use_slab_up(sizes[k]);
    if (i == count - 1) CHECK(pthread_create(&id, NULL, rest, NULL) == 0, "cannot create a thread");
    CHECK(dlopen(path_of(i), RTLD_NOW | RTLD_LOCAL), "%s", dlerror());
  }
  _exit(0);
}

static void run_with(const char *program, const char *files, int count) {
  char number[16];
  snprintf(number, sizeof number, "%d", count);
  pid_t child = fork();
  if (child == 0) {
    execl(program, program, files, number, (char *)NULL);
    _exit(127);
  }
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child, "fork or waitpid");
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "with %d libraries it ended with %#x", count,
        (unsigned)status);
}

int main(int argc, char **argv) {
  kit_start();
  kit_watchdog(60);
  CHECK(argc == 2 || argc == 3, "usage: dlopen_tls LIBRARY");
  if (argc == 3) {
    snprintf(directory, sizeof directory, "%s", argv[1]);
    open_libraries(atoi(argv[2]));
  }
  copy_library(argv[1]);
  for (int count = LEAST; count <= LIBRARIES; count++) run_with("/proc/self/exe", directory, count);
  for (int i = 0; i < LIBRARIES; i++) unlink(path_of(i));
  rmdir(directory);
  printf("%d to %d libraries\n", LEAST, LIBRARIES);
  return 0;
}
