/* written_links.c - a program writes over the first word of free blocks. The paths that walk lists end it with a message or go on: they do
 * not walk for ever, nor crash. Each case is a child of its own. */
#include "unit_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 20000, SECONDS = 60 };

static unsigned char *blocks[COUNT];

static void take_all(size_t size) {
  for (int i = 0; i < COUNT; i++) {
    blocks[i] = hak_malloc(size);
    if (blocks[i] == NULL) _exit(2);
  }
}

static void *volatile taken;

static void take(int count, size_t size) {
  for (int i = 0; i < count; i++) taken = hak_malloc(size);
}

static void write_link(int at, const void *link) { memcpy(blocks[at], &link, sizeof link); }

/* The lists of two slabs are joined when one of them alone has too little: three blocks each, of which the second links to itself. */
static void tied_to_itself(size_t size) {
  take_all(size);
  for (int i = 0; i < COUNT; i += 300)
    for (int j = 0; j < 3; j++) hak_free(blocks[i + j]);
  hak_purge();
  for (int i = 0; i < COUNT; i += 300) write_link(i + 1, blocks[i + 1]);
  take(3000, size);
}

static void tied_to_a_ring(size_t size) {
  take_all(size);
  for (int i = 0; i < COUNT; i += 300)
    for (int j = 0; j < 20; j++) hak_free(blocks[i + j]);
  hak_purge();
  for (int i = 0; i < COUNT; i += 300)
    for (int j = 0; j < 20; j++) write_link(i + j, blocks[i + (j + 1) % 20]);
  take(3000, size);
}

static void cut_off(size_t size) {
  take_all(size);
  for (int i = 0; i < COUNT; i++) {
    hak_free(blocks[i]);
    if (i % 100 == 99) write_link(i, NULL);
  }
}

/* Blocks of the sampler are taken one by one. */
static void led_out_of_a_samples_slab(size_t size) {
  for (int i = 0; i < 50; i++) blocks[i] = hak_malloc(size);
  for (int i = 0; i < 49; i++) hak_free(blocks[i]);
  write_link(48, (void *)0x10);
  take(1000, size);
}

static void *free_some(void *unused) {
  for (int i = 0; i < 1000; i++) hak_free(blocks[i]);
  return unused;
}

/* The first block of a batch that another thread has sent. */
static void led_out_of_a_batch(size_t size) {
  pthread_t thread;
  for (int i = 0; i < 1000; i++) blocks[i] = hak_malloc(size);
  if (pthread_create(&thread, NULL, free_some, NULL) != 0) _exit(2);
  pthread_join(thread, NULL);
  memset(blocks[999], 'A', sizeof(void *));
  take(3000, size);
}

#if HAK_HARDENED

/* Its second word leads to the batch that was sent before. One byte of it is another one. */
static void write_second_word(size_t size, int byte, unsigned char change) {
  pthread_t thread;
  for (int i = 0; i < 1000; i++) blocks[i] = hak_malloc(size);
  if (pthread_create(&thread, NULL, free_some, NULL) != 0) _exit(2);
  pthread_join(thread, NULL);
  blocks[999][sizeof(void *) + (size_t)byte] ^= change;
}

static void led_to_no_start_of_a_block(size_t size) {
  write_second_word(size, 0, 8);
  take(3000, size);
}

static void led_to_a_live_block(size_t size) {
  pthread_t thread;
  unsigned char *live = hak_malloc(size);
  for (int i = 0; i < 1000; i++) blocks[i] = hak_malloc(size);
  if (pthread_create(&thread, NULL, free_some, NULL) != 0) _exit(2);
  pthread_join(thread, NULL);
  uint64_t word;
  memcpy(&word, blocks[999] + sizeof word, sizeof word);
  word = word >> 48 << 48 | (uintptr_t)live;
  memcpy(blocks[999] + sizeof word, &word, sizeof word);
  take(3000, size);
}

static void led_out_of_our_memory(size_t size) {
  write_second_word(size, 5, 0x10);
  take(3000, size);
}

static void led_out_before_a_fork(size_t size) {
  write_second_word(size, 5, 0x10);
  if (fork() == 0) _exit(0);
  take(3000, size);
}

#endif

/* How the child ends: 0, or the signal. */
static int end_of(void (*misuse)(size_t), size_t size, const char *rate) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    setenv("HAKMEM_PROF_RATE", rate, 1);
    signal(SIGSEGV, SIG_DFL); /* cmocka's would go on with the tests */
    alarm(SECONDS);
    misuse(size);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static const size_t sizes[] = {16, 48, 400, 2000};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* Where one slab alone has enough, its list becomes a bin, which malloc itself follows. */
static void rings_end_with_a_message_or_go_on(void **state) {
  (void)state;
  int messages = 0;
  for (int i = 0; i < SIZES; i++) {
    int itself = end_of(tied_to_itself, sizes[i], "0"),
        ring = end_of(tied_to_a_ring, sizes[i], "0");
    assert_true(itself == 0 || itself == SIGABRT);
    assert_true(ring == 0 || ring == SIGABRT);
    messages += (itself != 0) + (ring != 0);
  }
  assert_true(messages > 0);
}

static void lists_that_were_cut_off_end_with_a_message(void **state) {
  (void)state;
  for (int i = 0; i < SIZES; i++) assert_int_equal(end_of(cut_off, sizes[i], "0"), SIGABRT);
}

static void links_of_samples_end_with_a_message(void **state) {
  (void)state;
  for (int i = 0; i < SIZES; i++) {
    int end = end_of(led_out_of_a_samples_slab, sizes[i], "1");
#if HAK_FAST
    (void)end; /* no samples: an ordinary bin, which malloc follows */
#else
    assert_int_equal(end, SIGABRT);
#endif
  }
}

__attribute__((unused)) static void links_of_batches_end_with_a_message(void **state) {
  (void)state;
  for (int i = 0; i < SIZES; i++)
    assert_int_equal(end_of(led_out_of_a_batch, sizes[i], "0"), SIGABRT);
}

#if HAK_HARDENED

__attribute__((unused)) static void second_words_of_batches_end_with_a_message(void **state) {
  (void)state;
  for (int i = 0; i < SIZES; i++) {
    assert_int_equal(end_of(led_to_no_start_of_a_block, sizes[i], "0"), SIGABRT);
    assert_int_equal(end_of(led_to_a_live_block, sizes[i], "0"), SIGABRT);
    assert_int_equal(end_of(led_out_of_our_memory, sizes[i], "0"), SIGABRT);
    assert_int_equal(end_of(led_out_before_a_fork, sizes[i], "0"), SIGABRT);
  }
}

#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(rings_end_with_a_message_or_go_on),
    cmocka_unit_test(lists_that_were_cut_off_end_with_a_message),
    cmocka_unit_test(links_of_samples_end_with_a_message),
#if !defined(UNIT_EMULATED) /* qemu-user cannot start a thread in a forked child */
    cmocka_unit_test(links_of_batches_end_with_a_message),
#if HAK_HARDENED
    cmocka_unit_test(second_words_of_batches_end_with_a_message),
#endif
#endif
  };
  return cmocka_run_group_tests_name("written links", tests, NULL, NULL);
}
