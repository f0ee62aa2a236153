/* A library that is opened with RTLD_DEEPBIND has its malloc and free from where the program has them, and everything else
 * as the flag says. And dlopen is libc's in all that a program sees of it: whose folders are searched, what went wrong.
 *
 * Usage: deepbind          the library allocates as the program does
 *        deepbind left     it allocates from libc (HAKMEM_DEEPBIND=0)
 *        deepbind libc     both do (HAKMEM_FORCE_LIBC_ALLOC=1)
 *        deepbind first    it is opened before the program's first malloc
 */
#include "kit.h"

#include "deepbind.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 4 };

int deepbind_answer(void) { return 1; }

static bool (*owns)(const void *);
static pthread_barrier_t together;

/* Is some part of libc's first segment, in which its symbols lie, writable? */
static bool is_open(void) {
  Dl_info info;
  CHECK(dladdr(dlsym(RTLD_DEFAULT, "strdup"), &info) != 0, "no strdup");
  const ElfW(Ehdr) *header = info.dli_fbase;
  const ElfW(Phdr) *segment = (const ElfW(Phdr) *)((uintptr_t)header + header->e_phoff);
  while (segment->p_type != PT_LOAD) segment++;
  uintptr_t low = (uintptr_t)header, high = low + segment->p_memsz;
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps != NULL, "no /proc/self/maps");
  unsigned long from, to;
  char rights[5], line[512];
  bool found = false;
  while (fgets(line, sizeof line, maps) != NULL)
    if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) == 3 && from < high && to > low)
      found = found || rights[1] == 'w';
  fclose(maps);
  return found;
}

static const struct deepbind_module *open_module(int mode) {
  /* By its name: found in the folder that this program's file names. */
  void *handle = dlopen("libdeepbind_module.so", mode);
  CHECK(handle != NULL, "dlopen: %s", dlerror());
  const struct deepbind_module *module = dlsym(handle, "deepbind_module");
  CHECK(module != NULL, "no deepbind_module");
  return module;
}

static void *open_at_once(void *unused) {
  pthread_barrier_wait(&together);
  open_module(RTLD_NOW | RTLD_DEEPBIND);
  return unused;
}

static void hand_over(const struct deepbind_module *module) {
  for (size_t size = 1; size < 4000000; size = size * 3 + 1) {
    char *text = malloc(size);
    CHECK(text != NULL, "malloc");
    memset(text, 'x', size);
    text = module->resize(text, size * 2);
    CHECK(text != NULL && text[size - 1] == 'x', "resized");
    free(text);
    module->release(malloc(size));
    text = module->allocate(size);
    CHECK(text != NULL && malloc_usable_size(text) >= size, "allocated");
    text[size - 1] = 1;
    free(realloc(text, size + 1));
  }
  char *text = module->copy("text");
  module->release(text);
  free(module->copy("text"));
}

/* What it frees in its constructor the program has allocated. */
static int open_first(void) {
  const struct deepbind_module *module = open_module(RTLD_NOW | RTLD_DEEPBIND);
  kit_start();
  owns = (bool (*)(const void *))dlsym(RTLD_DEFAULT, "hak_owns");
  void *block = module->allocate(100);
  CHECK(owns != NULL && owns(block), "the block is libc's");
  module->release(block);
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "first") == 0) return open_first();
  kit_start();
  bool left = argc > 1 && strcmp(argv[1], "left") == 0,
       libc = argc > 1 && strcmp(argv[1], "libc") == 0;
  owns = (bool (*)(const void *))dlsym(RTLD_DEFAULT, "hak_owns");
  CHECK(owns != NULL, "no hak_owns");

  CHECK(dlopen("no-such-library.so", RTLD_NOW | RTLD_DEEPBIND) == NULL, "opened what is not there");
  const char *said = dlerror();
  CHECK(said != NULL && strstr(said, "no-such-library.so") != NULL, "dlerror: %s",
        said != NULL ? said : "nothing");
  CHECK(dlerror() == NULL, "a second error");
  CHECK(dlopen("libdeepbind_module.so", RTLD_NOW | RTLD_NOLOAD) == NULL, "there already");

  if (!left) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
      CHECK(pthread_create(&threads[i], NULL, open_at_once, NULL) == 0, "cannot create thread");
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  }

  /* With the flag off, the module's constructor would free what libc allocated from us, and end the program. */
  const struct deepbind_module *module = NULL;
  if (!left) {
    module = open_module(RTLD_NOW | RTLD_DEEPBIND);
    hand_over(module);
    CHECK(module->answer() == 2, "RTLD_DEEPBIND does not find the module's own function");
  }
  void *of_libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD | (left ? RTLD_DEEPBIND : 0));
  CHECK(of_libc != NULL, "no libc.so.6");
  void *(*found)(size_t) = (void *(*)(size_t))dlsym(of_libc, "malloc");
  CHECK((found == malloc) == !(left || libc),
        "libc's table is written to or not, and should not or should");
  void *block = module != NULL ? module->allocate(100) : found(100);
  CHECK(owns(block) == !(left || libc), "the block is %s", owns(block) ? "hakmem's" : "libc's");
  if (module != NULL) module->release(block);
  CHECK(!is_open(), "libc's pages can be written to");
  return 0;
}
