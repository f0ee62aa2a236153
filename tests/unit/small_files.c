/* small_files.c - small files, and waiting for what they tell, from a thread of the library's own. */
#include "unit_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "os/fault.h"
#include "os/file.h"

static char path[] = "/tmp/hakmem-file-XXXXXX";

static int make_file(void **state) {
  (void)state;
  int file = mkstemp(path);
  return file < 0 || close(file) != 0;
}

static int remove_file(void **state) {
  (void)state;
  return unlink(path);
}

/* The lowest number that is free, which the program's next open() gets. */
static int lowest_free(void) {
  int file = dup(STDIN_FILENO);
  assert_true(file >= 0);
  close(file);
  return file;
}

/* For how many files the kernel's table of this process has room. */
static int table_room(void) {
  int room = 0;
  char line[256];
  FILE *status = fopen("/proc/self/status", "r");
  assert_non_null(status);
  while (room == 0 && fgets(line, sizeof line, status) != NULL) sscanf(line, "FDSize: %d", &room);
  fclose(status);
  assert_true(room > 0);
  return room;
}

/* Not beyond the table: in a process with threads the kernel takes 10 to 20 ms to make a larger one. */
static void files_take_high_numbers_of_the_table(void **state) {
  (void)state;
  int next = lowest_free(), room = table_room();
  int file = os_file_open(path, OS_FILE_READ);
  assert_true(file >= 48);
  assert_int_equal(lowest_free(), next);
  assert_int_equal(table_room(), room);
  /* The low numbers in use: then there is no lower one to give back. */
  int others[64];
  for (int i = 0; i < 64; i++) others[i] = dup(STDIN_FILENO);
  int above = lowest_free();
  int second = os_file_open(path, OS_FILE_READ);
  assert_int_equal(second, above);
  for (int i = 0; i < 64; i++) close(others[i]);
  os_file_close(second);
  os_file_close(file);
}

static void files_take_the_highest_numbers_that_a_limit_allows(void **state) {
  (void)state;
  struct rlimit before, few;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  few = (struct rlimit){40, before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  int next = lowest_free();
  int file = os_file_open(path, OS_FILE_READ);
  assert_true(file >= 24 && file < 40);
  assert_int_equal(lowest_free(), next);
  os_file_close(file);
  /* So few that only low ones are left: then one of these. */
  few.rlim_cur = (rlim_t)next + 1;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  file = os_file_open(path, OS_FILE_READ);
  assert_int_equal(file, next);
  os_file_close(file);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void files_are_written_and_read(void **state) {
  (void)state;
  char text[16] = "";
  errno = 1234;
  int file = os_file_open(path, OS_FILE_READ_WRITE);
  assert_true(file >= 0);
  assert_int_equal(fcntl(file, F_GETFD), FD_CLOEXEC);
  assert_true(os_file_write(file, "twelve bytes", 12));
  os_file_close(file);
  assert_int_equal(fcntl(file, F_GETFD), -1);
  errno = 1234;
  file = os_file_open(path, OS_FILE_READ);
  assert_int_equal(os_file_read(file, text, 7), 7);
  assert_int_equal(os_file_read(file, text + 7, sizeof text - 7), 5);
  assert_int_equal(os_file_read(file, text, sizeof text), 0);
  assert_string_equal(text, "twelve bytes");
  assert_false(os_file_write(file, "x", 1)); /* opened for reading */
  os_file_close(file);
  assert_int_equal(os_file_read(file, text, 1), -1);
  assert_false(os_file_write(file, "x", 1));
  assert_int_equal(os_file_open("/nowhere/at/all", OS_FILE_READ), -ENOENT);
  os_file_close(-1);
  assert_int_equal(errno, 1234);
}

static void what_does_not_take_everything_has_failed(void **state) {
  (void)state;
  int file = os_file_open("/dev/full", OS_FILE_READ_WRITE);
  assert_true(file >= 0);
  assert_false(os_file_write(file, "x", 1));
  os_file_close(file);
  int ends[2];
  static char much[2 * MIB]; /* more than a pipe holds */
  assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
  assert_false(os_file_write(ends[1], much, sizeof much));
  close(ends[0]);
  close(ends[1]);
}

/* Opening one for reading waits for a writer, unless told otherwise. */
static void a_pipe_in_a_files_place_holds_nobody(void **state) {
  (void)state;
  char name[64], byte;
  snprintf(name, sizeof name, "%s.fifo", path);
  assert_int_equal(mkfifo(name, 0600), 0);
  int file = os_file_open(name, OS_FILE_READ);
  assert_true(file >= 0);
  assert_int_equal(os_file_read(file, &byte, 1), 0);
  os_file_close(file);
  assert_int_equal(unlink(name), 0);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void nothing_comes(void **state) {
  (void)state;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  errno = 1234;
  assert_int_equal(os_file_wait(ends[0], 0), OS_FILE_TIMEOUT);
  assert_int_equal(os_file_wait(ends[0], 20), OS_FILE_TIMEOUT);
  assert_int_equal(write(ends[1], "x", 1), 1);
  assert_int_equal(os_file_wait(ends[0], 0), OS_FILE_TIMEOUT); /* data is not what is waited for */
  close(ends[0]);
  assert_int_equal(os_file_wait(ends[1], -1), OS_FILE_GONE); /* POLLERR */
  close(ends[1]);
  assert_int_equal(os_file_wait(ends[1], -1), OS_FILE_GONE); /* POLLNVAL */
  assert_int_equal(errno, 1234);
}

/* POLLPRI of a socket is its urgent byte. */
static void news_come(void **state) {
  (void)state;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM, 0), near_end = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, (struct sockaddr *)&address, &length) != 0 ||
      connect(near_end, (struct sockaddr *)&address, length) != 0) {
    print_message("no loopback network here\n");
    close(listener);
    close(near_end);
    skip();
  }
  int far_end = accept(listener, NULL, NULL);
  assert_true(far_end >= 0);
  assert_int_equal(os_file_wait(far_end, 0), OS_FILE_TIMEOUT);
  assert_int_equal(send(near_end, "!", 1, MSG_OOB), 1);
  assert_int_equal(os_file_wait(far_end, -1), OS_FILE_NEWS);
  close(listener);
  close(near_end);
  close(far_end);
}

static volatile sig_atomic_t signals;
static void count_signal(int number) { signals += number == SIGALRM; }

static void signals_do_not_end_it(void **state) {
  (void)state;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  struct sigaction action = {.sa_handler = count_signal}, before;
  struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
  sigaction(SIGALRM, &action, &before);
  setitimer(ITIMER_REAL, &often, NULL);
  signals = 0;
  while (signals < 3) /* one round nearly always: the signals come in while it waits */
    assert_int_equal(os_file_wait(ends[0], 50), OS_FILE_TIMEOUT);
  setitimer(ITIMER_REAL, &never, NULL);
  sigaction(SIGALRM, &before, NULL);
  close(ends[0]);
  close(ends[1]);
}

/* --- descriptors of its own ------------------------------------------------------------------- */

struct helper {
  pthread_barrier_t step;
  bool own;
  int first, second;
};

static void *own_files(void *argument) {
  struct helper *helper = argument;
  errno = 1234;
  helper->own = os_files_of_own();
  if (errno != 1234) helper->own = false;
  if (helper->own) {
    helper->first = os_file_open(path, OS_FILE_READ);
    helper->second = os_file_open(path, OS_FILE_READ);
  }
  pthread_barrier_wait(&helper->step); /* the files are open */
  pthread_barrier_wait(&helper->step); /* and were looked for */
  return NULL;
}

static int next_free_descriptor(void) {
  int file = dup(STDERR_FILENO);
  close(file);
  return file;
}

static void a_thread_with_own_files_is_not_noticed(void **state) {
  (void)state;
  struct helper helper = {.first = -1, .second = -1};
  int ends[2];
  char byte;
  assert_int_equal(pipe(ends), 0);
  int next = next_free_descriptor();
  pthread_t thread;
  pthread_barrier_init(&helper.step, NULL, 2);
  assert_int_equal(pthread_create(&thread, NULL, own_files, &helper), 0);
  pthread_barrier_wait(&helper.step);
  if (helper.own) {
    assert_int_equal(helper.first, 0); /* nothing of ours is open there */
    assert_int_equal(helper.second, 1);
    assert_int_equal(next_free_descriptor(), next);
    close(ends[1]); /* was the only one: the pipe has come to its end, nobody holds it open */
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    assert_int_equal(poll(&end, 1, 0), 1);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    pid_t child = fork();
    if (child == 0) _exit(next_free_descriptor() == ends[1] ? 0 : 1);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    /* Numbers of the thread mean nothing here. */
    assert_int_equal(fcntl(STDERR_FILENO, F_GETFD) != -1, 1);
  }
  pthread_barrier_wait(&helper.step);
  pthread_join(thread, NULL);
  pthread_barrier_destroy(&helper.step);
  assert_int_equal(next_free_descriptor(), helper.own ? ends[1] : next);
  close(ends[0]);
  if (!helper.own) {
    close(ends[1]);
    print_message("this kernel has no close_range with CLOSE_RANGE_UNSHARE\n");
    skip();
  }
}

/* --- fault injection -------------------------------------------------------------------------- */

static void every_call_can_fail(void **state) {
  (void)state;
  char byte;
  int file = os_file_open(path, OS_FILE_READ_WRITE);
  assert_true(file >= 0);
  os_fault_reset();
  os_fault_fail_from(1);
  errno = 1234;
  assert_false(os_files_of_own());
  assert_int_equal(os_file_open(path, OS_FILE_READ), -EIO);
  assert_int_equal(os_file_read(file, &byte, 1), -1);
  assert_false(os_file_write(file, "x", 1));
  assert_int_equal(os_file_wait(file, -1), OS_FILE_GONE);
  assert_int_equal(errno, 1234);
  assert_int_equal(os_fault_injected(), 5);
  os_file_close(file);
  assert_int_equal(os_fault_injected(), 5);
  assert_int_equal(fcntl(file, F_GETFD), -1);
  os_fault_reset();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_take_high_numbers_of_the_table),
      cmocka_unit_test(files_take_the_highest_numbers_that_a_limit_allows),
      cmocka_unit_test(files_are_written_and_read),
      cmocka_unit_test(what_does_not_take_everything_has_failed),
      cmocka_unit_test(a_pipe_in_a_files_place_holds_nobody),
      cmocka_unit_test(nothing_comes),
      cmocka_unit_test(news_come),
      cmocka_unit_test(signals_do_not_end_it),
      cmocka_unit_test(a_thread_with_own_files_is_not_noticed),
      cmocka_unit_test(every_call_can_fail),
  };
  return cmocka_run_group_tests_name("small files", tests, make_file, remove_file);
}
