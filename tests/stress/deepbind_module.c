/* A library for deepbind.c. Its constructor frees what libc allocated, as PHP's modules do. */
#include "deepbind.h"

#include <stdlib.h>
#include <string.h>

int deepbind_answer(void) { return 2; }

extern struct deepbind_module deepbind_module;
/* Pointers: each is bound by the dynamic loader, whatever the compiler may put in place. */
struct deepbind_module deepbind_module = {deepbind_answer, malloc, realloc, strdup, free};

__attribute__((constructor)) static void start(void) {
  for (size_t i = 1; i < 100; i++) {
    char *text = deepbind_module.copy("some text that lies on the heap");
    void *block = deepbind_module.resize(text, i * 100);
    deepbind_module.release(block);
  }
}
