// Allocations and frees in thread_local destructors, and in destructors of static objects after
// main. An object made before the thread's first allocation is destroyed after those made later.
//
// usage: exit_tls [threads]
#include "kit.h"

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t slot_count = 64;
std::atomic<kit_block> slots[slot_count];
std::atomic<unsigned long> destroyed;

kit_block take(kit_rng &rng) {
  kit_block block = kit_block_any(&rng, kit_any_size(&rng));
  CHECK(block, "malloc failed");
  return block;
}

struct Holder {
  kit_rng rng{};
  kit_block blocks[8] = {};
  ~Holder();
};

// Made by the destructor of another: destroyed after it, on the same thread.
Holder &made_late() {
  thread_local Holder holder;
  return holder;
}

Holder::~Holder() {
  unsigned long count = destroyed.fetch_add(1);
  rng = kit_rng_make(count);
  for (kit_block &block : blocks) {
    kit_block_free(block);
    block = 0;
  }
  kit_block_free(slots[kit_below(&rng, slot_count)].exchange(take(rng)));
  kit_block_free(take(rng));
}

struct First : Holder {
  ~First() { made_late().blocks[0] = take(rng); }
};

void work(unsigned number) {
  thread_local First first; // before any allocation of this thread
  first.rng = kit_rng_make(number);
  if (number % 3 != 0) first.blocks[1] = take(first.rng);
  thread_local Holder second;
  second.blocks[2] = take(first.rng);
}

// Destroyed after main, when the thread-local objects of the main thread are gone.
struct AtExit {
  kit_block block = 0;
  ~AtExit() {
    kit_rng rng = kit_rng_make(7);
    kit_block_free(block);
    for (int i = 0; i < 1000; ++i) kit_block_free(take(rng));
    std::thread([&rng] { kit_block_free(take(rng)); }).join();
  }
} at_exit;

} // namespace

int main(int argc, char **argv) {
  kit_start();
  unsigned threads = argc > 1 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10))
                              : static_cast<unsigned>(kit_rounds(2000));
  constexpr unsigned wave = 4;
  for (unsigned first = 0; first < threads; first += wave) {
    std::vector<std::thread> running;
    for (unsigned i = 0; i < wave; ++i) running.emplace_back(work, first + i);
    for (std::thread &thread : running) thread.join();
  }
  for (std::atomic<kit_block> &slot : slots) kit_block_free(slot.exchange(0));
  kit_purge();
  hak_stats stats = kit_stats();
  std::printf(
      "%u threads, %lu destructors: left %lu superslabs, %lu huge, heaps %lu active + %lu parked\n",
      threads, destroyed.load(), static_cast<unsigned long>(stats.superslabs_live),
      static_cast<unsigned long>(stats.huge_live), static_cast<unsigned long>(stats.heaps_active),
      static_cast<unsigned long>(stats.heaps_parked));
  CHECK(destroyed >= 2 * threads, "the destructors did not run");
  CHECK(stats.huge_live == 0, "huge blocks are left");
  CHECK(stats.superslabs_live <= 4, "superslabs of ended threads are left");
  CHECK(stats.heaps_active == 1,
        "a heap was taken after the thread's clean-up and never given back");
  CHECK(stats.heaps_active + stats.heaps_parked <= wave + 1, "more heaps than threads at a time");
  kit_rng rng = kit_rng_make(1);
  at_exit.block = take(rng);
  work(1);
  return 0;
}
