// lifetime.cpp - allocation at every stage of a process's life, from .preinit_array to the last
// destructor; the stages are in lifetime.h.
#include "lifetime.h"

#include "api_test.h"

#include <memory>
#include <pthread.h>
#include <string>
#include <thread>
#include <vector>

namespace {

pthread_key_t first_key, second_key;

extern "C" void preinit(int, char **, char **) {
  // Keys made before the allocator can have made one: their destructors run before its own, and where it
  // comes after the 32nd, glibc has to allocate for its value.
  for (int i = 0; i < 40; i++) {
    pthread_key_t unused;
    if (pthread_key_create(&unused, nullptr) != 0) abort();
  }
  if (pthread_key_create(&first_key, [](void *value) {
        uintptr_t round = reinterpret_cast<uintptr_t>(value);
        lifetime_pass(stage(STAGE_KEY_DESTRUCTOR_1 + int(round) - 1));
        if (round < 4) pthread_setspecific(first_key, reinterpret_cast<void *>(round + 1));
      }) != 0)
    abort();
  lifetime_pass(STAGE_PREINIT);
}

#ifndef __SANITIZE_THREAD__
__attribute__((section(".preinit_array"), used)) void (*const preinit_entry)(int, char **,
                                                                             char **) = preinit;
#endif

__attribute__((constructor(101))) void early_constructor() {
  lifetime_pass(STAGE_EARLY_CONSTRUCTOR);
}
__attribute__((constructor)) void constructor() { lifetime_pass(STAGE_CONSTRUCTOR); }
__attribute__((destructor(101))) void late_destructor() { lifetime_pass(STAGE_LATE_DESTRUCTOR); }

struct Static {
  std::vector<std::string> strings;
  Static() : strings(1000, std::string(100, 's')) { lifetime_pass(STAGE_STATIC_INIT); }
  ~Static() {
    strings.push_back(strings[999]);
    strings.clear();
    lifetime_pass(STAGE_STATIC_DESTRUCTOR);
  }
} static_object;

struct ThreadLocal {
  stage on_destruction;
  std::unique_ptr<std::string> text;
  explicit ThreadLocal(stage s) : on_destruction(s), text(new std::string(300, 't')) {}
  ~ThreadLocal() {
    text->append(5000, 'u');
    lifetime_pass(on_destruction);
  }
};

void run_thread() {
  thread_local ThreadLocal object(STAGE_THREAD_LOCAL_DESTRUCTOR);
  object.text->append("used");
  lifetime_pass(STAGE_THREAD);
  pthread_setspecific(first_key, reinterpret_cast<void *>(uintptr_t(1)));
  // A plain block as the value, freed by free itself.
  pthread_setspecific(second_key, malloc(5000));
}

} // namespace

int main() {
  require_expected_allocator();
  thread_local ThreadLocal object(STAGE_MAIN_THREAD_LOCAL_DESTRUCTOR);
  object.text->append("used");
  if (pthread_key_create(&second_key, free) != 0) return 1;
  if (atexit([] { lifetime_pass(STAGE_ATEXIT); }) != 0) return 1;
  lifetime_pass(STAGE_MAIN);
  std::thread(run_thread).join();
  // One more, which finds a heap that went through all of the above.
  std::thread([] { std::vector<std::string> more(1000, std::string(500, 'm')); }).join();
  return 3;
}
