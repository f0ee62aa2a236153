/* fallen.c - a program that leaks, and ends badly, for tests of core files.
 *
 * Usage: fallen wait|segv|abort|use|free|twice. Prints "ready PID BYTES ADDRESS NEIGHBOUR": bytes that it has leaked, a block that it has freed
 * and one beside it that lives. `wait` ends when its standard input does, all others by a signal.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

enum { LEAKED = 3000, LEAK = 20000, SESSIONS = 20000, BESIDE = 1000 };

struct session {
  char name[40];
  struct session *next;
};

static struct session *sessions[SESSIONS];
static char *volatile kept;
static volatile int sink;

static NOINLINE void forget_to_free(void) {
  kept = memset(malloc(LEAK), 1, LEAK);
  sink++; /* no tail call: it has a frame of its own */
}

static NOINLINE struct session *log_in(void) {
  struct session *session = malloc(sizeof *session);
  memset(session, 1, sizeof *session);
  sink++;
  return session;
}

static NOINLINE void log_out(struct session *session) {
  free(session);
  sink++;
}

static NOINLINE void serve(struct session *volatile session) { session->next->name[0] = 'x'; }

static void *work(void *unused) {
  char *blocks[BESIDE];
  for (int i = 0; i < BESIDE; i++) blocks[i] = memset(malloc(300), 1, 300);
  kept = blocks[BESIDE / 2];
  sink++;
  pause();
  return unused;
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "wait";
  pthread_t thread;
  for (int i = 0; i < LEAKED; i++) forget_to_free();
  for (int i = 0; i < SESSIONS; i++) sessions[i] = log_in();
  if (pthread_create(&thread, NULL, work, NULL) != 0) return 1;
  while (sink < LEAKED + SESSIONS + 1) usleep(1000);
  struct session *volatile freed = sessions[SESSIONS / 2];
  log_out(freed);
  printf("ready %d %d %p %p\n", (int)getpid(), LEAKED * LEAK, (void *)freed,
         (void *)sessions[SESSIONS / 2 + 2]);
  fflush(stdout);
  if (strcmp(how, "wait") == 0) return (int)read(0, argv[0], 1);
  if (strcmp(how, "segv") == 0)
    *(volatile int *)16 = 1; /* NOLINT(clang-analyzer-core.FixedAddressDereference) */
  if (strcmp(how, "use") == 0) {
    freed->next = (struct session *)0x1000;
    serve(freed);
  }
  if (strcmp(how, "twice") == 0) free(freed); /* NOLINT(clang-analyzer-unix.Malloc) */
  abort();
}
