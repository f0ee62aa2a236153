/* Exhaustion of the address space by RLIMIT_AS, block size by block size: malloc gives NULL with
 * ENOMEM and goes on, what is freed can be had again, in the same size and in every other.
 *
 * usage: rlimit_as <MB>       limit to that many MB and start again, so that the library itself
 *                             starts under the limit
 *        rlimit_as +<MB>      limit to so many MB above what is in use in main */
#include "kit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Freed memory is in the block itself: no list that would need memory too. */
struct link {
  struct link *next;
  uint64_t tag;
};

struct chain {
  struct link *first;
  size_t count;
};

static uint64_t tag_of(const void *memory, size_t size) {
  return ((uintptr_t)memory + size) * 0x9e3779b97f4a7c15u;
}

static bool add(struct chain *chain, void *memory, size_t size) {
  if (!memory) {
    CHECK(errno == ENOMEM, "NULL for %zu bytes with errno %d", size, errno);
    return false;
  }
  struct link *link = memory;
  *link = (struct link){chain->first, tag_of(memory, size)};
  chain->first = link;
  ++chain->count;
  return true;
}

static void fill_up(struct chain *chain, size_t size) {
  do errno = 0;
  while (add(chain, malloc(size), size));
}

static struct link *checked(struct link *link, size_t size) {
  CHECK(link->tag == tag_of(link, size), "block %p of %zu bytes was overwritten", (void *)link,
        size);
  return link;
}

/* Frees every `step`-th; returns how many. */
static size_t free_some(struct chain *chain, size_t size, size_t step) {
  size_t freed = 0;
  size_t position = 0;
  for (struct link **at = &chain->first; *at; ++position) {
    struct link *link = checked(*at, size);
    if (position % step == 0) {
      *at = link->next;
      free(link);
      ++freed;
    } else {
      at = &link->next;
    }
  }
  chain->count -= freed;
  return freed;
}

/* Every other function says the same when there is nothing left. */
static void others_fail(struct chain *chain, size_t size) {
  /* More than can be left in slabs of the size. */
  size_t more = size < KIT_MB ? 4 * KIT_MB : 4 * size;
  void *memory = NULL;
  errno = 0;
  CHECK(!calloc(4, more) && errno == ENOMEM, "calloc in exhaustion: errno %d", errno);
  errno = 0;
  CHECK(!aligned_alloc(64, 4 * more) && errno == ENOMEM, "aligned_alloc: errno %d", errno);
  CHECK(posix_memalign(&memory, 4096, 4 * more) == ENOMEM && !memory, "posix_memalign");
  if (chain->first) {
    struct link old = *checked(chain->first, size);
    errno = 0;
    CHECK(!realloc(chain->first, 16 * more) && errno == ENOMEM, "realloc: errno %d", errno);
    CHECK(memcmp(&old, chain->first, sizeof old) == 0, "a failed realloc changed its block");
  }
}

static void *in_thread(void *argument) {
  size_t size = *(const size_t *)argument;
  void *memory = malloc(size);
  CHECK(memory, "a new thread finds nothing of what was freed");
  free(memory);
  return NULL;
}

static void exhaust(size_t size, size_t room) {
  struct chain chain = {NULL, 0};
  fill_up(&chain, size);
  size_t first_count = chain.count;
  others_fail(&chain, size);
  size_t freed = free_some(&chain, size, 2);
  fill_up(&chain, size);
  size_t again = chain.count - (first_count - freed);
  free_some(&chain, size, 1);
  CHECK(chain.first == NULL && chain.count == 0, "the list of blocks is broken");
  struct chain second = {NULL, 0};
  fill_up(&second, size);
  size_t second_count = second.count;
  free_some(&second, size, 1);
  printf("%9zu B: %zu blocks = %zu of %zu MB; of %zu freed %zu had again; second time %zu\n", size,
         first_count, first_count * size / KIT_MB, room / KIT_MB, freed, again, second_count);
  /* Half of the room, headers and rounding of the size aside, is little to ask for. */
  if (room >= 8 * size && room >= 32 * KIT_MB)
    CHECK(first_count * size >= room / 2, "exhausted too early: memory freed before is not used");
  CHECK(again >= freed - freed / 10, "freed blocks cannot be had again");
  CHECK(second_count >= first_count - first_count / 10, "less can be had than the first time");
}

int main(int argc, char **argv) {
  kit_start();
  CHECK(argc == 2, "one argument, a limit in MB");
  bool above_use = argv[1][0] == '+';
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_AS, &limit) == 0, "getrlimit");
  size_t bytes = strtoull(argv[1] + above_use, NULL, 10) * KIT_MB;
  if (above_use || limit.rlim_cur != bytes) {
    if (above_use) bytes += kit_address_space();
    limit.rlim_cur = bytes;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    if (!above_use) {
      execv("/proc/self/exe", argv);
      CHECK(false, "exec");
    }
  }
  size_t used = kit_address_space();
  size_t room = bytes > used ? bytes - used : 0;
  printf("limit %zu MB, in use %zu MB\n", bytes / KIT_MB, used / KIT_MB);
  /* From small to large and back: what one size had must serve the next. Small ones
   * take too long in a large room. */
  static const size_t sizes[] = {16,          64,          256,          1000,         4 * KIT_KB,
                                 16 * KIT_KB, 60 * KIT_KB, 64 * KIT_KB,  256 * KIT_KB, KIT_MB,
                                 4 * KIT_MB,  64 * KIT_MB, 300 * KIT_KB, 32 * KIT_KB,  500,
                                 16 * KIT_MB, 128};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
    if (room / sizes[i] <= 4000000) exhaust(sizes[i], room);
  if (room >= 32 * KIT_MB) {
    kit_purge(); /* a stack does not come from malloc */
    static const size_t thread_sizes[] = {100, 10000, 300000, 3000000};
    for (size_t i = 0; i < sizeof thread_sizes / sizeof *thread_sizes; ++i) {
      pthread_t id;
      pthread_attr_t attributes;
      pthread_attr_init(&attributes);
      pthread_attr_setstacksize(&attributes, 128 * KIT_KB);
      CHECK(pthread_create(&id, &attributes, in_thread, (void *)(uintptr_t)&thread_sizes[i]) == 0,
            "cannot create a thread after all was freed");
      pthread_join(id, NULL);
      pthread_attr_destroy(&attributes);
    }
  }
  return 0;
}
