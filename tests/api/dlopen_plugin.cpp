// dlopen_plugin.cpp - blocks of a library loaded at run time: its own stages, blocks that outlive it,
// blocks it takes over, threads that use its thread-local objects.
//
// Usage: dlopen_plugin <plugin>
#include "api_test.h"

#include <dlfcn.h>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Plugin {
  void *handle;
  void *(*make)(size_t);
  void (*release)(void *);
  std::string *(*string)();
  size_t (*use_thread_local)();
};

template <typename Function> void find(void *handle, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr) {
    fprintf(stderr, "%s: %s\n", name, dlerror());
    exit(1);
  }
}

Plugin open_plugin(const char *path, int flags) {
  Plugin plugin;
  plugin.handle = dlopen(path, flags);
  if (plugin.handle == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  find(plugin.handle, "plugin_make", plugin.make);
  find(plugin.handle, "plugin_release", plugin.release);
  find(plugin.handle, "plugin_string", plugin.string);
  find(plugin.handle, "plugin_thread_local", plugin.use_thread_local);
  return plugin;
}

void require(bool condition, const char *what) {
  if (!condition) {
    fprintf(stderr, "dlopen_plugin: %s\n", what);
    exit(1);
  }
}

bool is_made(const void *p, size_t size) {
  const unsigned char *bytes = static_cast<const unsigned char *>(p);
  return bytes[0] == 0x5a && memcmp(bytes, bytes + 1, size - 1) == 0;
}

} // namespace

int main(int argc, char **argv) {
  require_expected_allocator();
  require(argc == 2, "usage: dlopen_plugin <plugin>");
  size_t space = 0;
  for (int round = 0; round < 60; round++) {
    if (round == 10) space = address_space_used();
    Plugin plugin = open_plugin(argv[1], round % 2 == 0 ? RTLD_NOW : RTLD_LAZY | RTLD_GLOBAL);
    std::vector<void *> blocks;
    for (size_t size : tier_sizes) {
      blocks.push_back(plugin.make(size));
      require(blocks.back() != nullptr, "the plugin got no memory");
      require(!expects("hakmem") || hak_owns(blocks.back()), "the plugin's malloc is another one");
      plugin.release(malloc(size));
    }
    std::string *text = plugin.string();
    require(*text == std::string(200, 'v'), "the plugin's own table is damaged");
    std::thread([&] {
      require(plugin.use_thread_local() == 1000, "thread local is damaged");
    }).join();
    require(dlclose(plugin.handle) == 0, "dlclose failed");
    for (int i = 0; i < TIER_COUNT; i++) {
      require(is_made(blocks[size_t(i)], tier_sizes[i]), "a block did not outlive its library");
      free(blocks[size_t(i)]);
    }
    delete text;
  }
  require(address_space_used() <= space + 40 * MIB, "loading and unloading leaks");

  // A thread that outlives dlclose, with a destructor of the library's still to run.
  Plugin plugin = open_plugin(argv[1], RTLD_NOW);
  std::thread last([&] {
    plugin.use_thread_local();
    require(dlclose(plugin.handle) == 0, "dlclose failed");
  });
  last.join();
  return 0;
}
