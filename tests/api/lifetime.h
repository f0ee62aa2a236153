/* lifetime.h - the stages of a process at which memory is asked for, and the record of them. The
 * record lives in the library that is initialised first and finished last (lifetime_first.c). */
#ifndef LIFETIME_H
#define LIFETIME_H

#ifdef __cplusplus
extern "C" {
#endif

enum stage {
  STAGE_LIBRARY_CONSTRUCTOR,
  STAGE_PREINIT,
  STAGE_EARLY_CONSTRUCTOR, /* priority 101, the first a program may ask for */
  STAGE_CONSTRUCTOR,
  STAGE_STATIC_INIT,
  STAGE_MAIN,
  STAGE_THREAD,
  STAGE_THREAD_LOCAL_DESTRUCTOR,
  STAGE_KEY_DESTRUCTOR_1, /* POSIX: at least four rounds, as long as keys have values */
  STAGE_KEY_DESTRUCTOR_2,
  STAGE_KEY_DESTRUCTOR_3,
  STAGE_KEY_DESTRUCTOR_4,
  STAGE_MAIN_THREAD_LOCAL_DESTRUCTOR,
  STAGE_ATEXIT,
  STAGE_STATIC_DESTRUCTOR,
  STAGE_LATE_DESTRUCTOR, /* priority 101, the last of the program */
  STAGE_LIBRARY_DESTRUCTOR,
  STAGE_COUNT
};

/* Allocates, checks, resizes and frees blocks of every tier, and keeps some until the very end, which
 * other stages check. Ends the process with a message when something is wrong. */
void lifetime_pass(enum stage stage);

#ifdef __cplusplus
}
#endif

#endif
