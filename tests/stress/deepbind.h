/* deepbind.h - what deepbind_module.c offers. */
#ifndef HAK_TEST_DEEPBIND_H
#define HAK_TEST_DEEPBIND_H

#include <stddef.h>

/** The program has a function of this name, too, which returns 1; the module's returns 2. */
int deepbind_answer(void);

struct deepbind_module {
  int (*answer)(void); /* as the module's own code finds it */
  void *(*allocate)(size_t);
  void *(*resize)(void *, size_t);
  char *(*copy)(const char *); /* libc's strdup */
  void (*release)(void *);
};

#endif
