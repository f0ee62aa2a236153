/* thread_storage_module.c - a library with much storage for each thread, which libc allocates when a thread first touches it, and frees, by
 * the program's free, while it holds the lock of its cache of stacks. */
enum { BYTES = 400 * 1000 };

static _Thread_local char storage[BYTES];

char *thread_storage(void);
char *thread_storage(void) {
  for (int i = 0; i < BYTES; i += 1000) storage[i] = 1;
  return storage;
}
