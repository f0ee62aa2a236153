/* check.h - one line and exit 1 when a block does not come from where it should. */
#ifndef CHECK_H
#define CHECK_H

#include <hakmem.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                    \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

#endif
