/* fork() with pthread_atfork handlers that allocate, in all three places. One set is registered
 * before the allocator can have registered its own, so that its prepare handler runs when the
 * allocator has already made itself ready for the fork; the other set after it.
 *
 * usage: fork_handlers [forks] */
#include "kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define HAMMERS 3
#define SLOTS 24

static _Atomic(kit_block) slots[SLOTS];
static atomic_bool stop;
static atomic_ulong handled;

static void turns(uint64_t stream, int count) {
  struct kit_rng rng = kit_rng_make(stream);
  for (int i = 0; i < count; ++i) {
    enum kit_tier tier = (enum kit_tier)kit_below(&rng, KIT_TIERS);
    kit_block block = kit_block_any(&rng, kit_tier_size(&rng, tier));
    CHECK(block, "malloc failed");
    block = kit_block_resize(block, kit_tier_size(&rng, tier), i);
    CHECK(block, "realloc failed");
    /* Through the slots, so that blocks of other threads are freed in the handler too. */
    kit_block_free(atomic_exchange(&slots[kit_below(&rng, SLOTS)], block));
  }
}

static void handler(void) { turns(atomic_fetch_add(&handled, 1), 6); }

static void register_handlers(void) { pthread_atfork(handler, handler, handler); }

#if KIT_SANITIZED
/* The sanitizer has to be up first. */
__attribute__((constructor(101))) static void register_early(void) { register_handlers(); }
#else
/* Runs before the constructors of the shared libraries, a preloaded one included. */
__attribute__((section(".preinit_array"),
               used)) static void (*register_early)(void) = register_handlers;
#endif

static void *hammer(void *argument) {
  for (uint64_t i = 0; !atomic_load(&stop); ++i) turns((uintptr_t)argument + i, 50);
  return NULL;
}

int main(int argc, char **argv) {
  kit_start();
  kit_watchdog(280);
  uint64_t forks = argc > 1 ? strtoull(argv[1], NULL, 10) : kit_rounds(100);
  turns(1, 100);
  register_handlers();
  pthread_t ids[HAMMERS];
  for (uintptr_t i = 0; i < HAMMERS; ++i)
    CHECK(pthread_create(&ids[i], NULL, hammer, (void *)(i * 100000)) == 0, "cannot create thread");
  for (uint64_t i = 0; i < forks; ++i) {
    pid_t pid = fork();
    if (pid == 0) {
      kit_watchdog(KIT_SANITIZED ? 120 : 30);
      turns(i, 12);
      _exit(0);
    }
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "fork or waitpid");
    CHECK(!WIFSIGNALED(status), "child %lu ended by signal %d%s", (unsigned long)i,
          WTERMSIG(status), WTERMSIG(status) == SIGALRM ? " (it hung)" : "");
    CHECK(WEXITSTATUS(status) == 0, "child %lu exited with %d", (unsigned long)i,
          WEXITSTATUS(status));
  }
  atomic_store(&stop, true);
  for (size_t i = 0; i < HAMMERS; ++i) pthread_join(ids[i], NULL);
  for (size_t i = 0; i < SLOTS; ++i) kit_block_free(slots[i]);
  printf("%lu forks, %lu handlers run in the parent\n", (unsigned long)forks,
         (unsigned long)handled);
  CHECK(handled == 4 * forks, "both sets of handlers should have run before and after each fork");
  return 0;
}
