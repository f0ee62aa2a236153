// plugin.cpp - a library that dlopen_plugin.cpp loads: it allocates in its own constructor, in its
// thread-local objects and in its destructor.
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

namespace {

std::map<std::string, std::string> table;
void *from_constructor;

// After `table`, so that it is constructed after and destroyed before it.
struct Lifetime {
  Lifetime() {
    from_constructor = malloc(100000);
    memset(from_constructor, 1, 100000);
    for (int i = 0; i < 500; i++) table["key " + std::to_string(i)] = std::string(200, 'v');
  }
  ~Lifetime() {
    free(from_constructor);
    free(calloc(3, 5000));
  }
} lifetime;

} // namespace

extern "C" {

__attribute__((visibility("default"))) void *plugin_make(size_t size) {
  void *p = malloc(size);
  if (p != nullptr) memset(p, 0x5a, size);
  return p;
}

__attribute__((visibility("default"))) void plugin_release(void *p) { free(p); }

__attribute__((visibility("default"))) std::string *plugin_string() {
  return new std::string(table["key 7"]);
}

__attribute__((visibility("default"))) size_t plugin_thread_local() {
  thread_local std::string text;
  text += std::string(1000, 'x');
  return text.size();
}
}
