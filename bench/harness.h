/* harness.h - what the benchmark programs share: arguments, random numbers, clocks, threads, report.
 *
 * Everything is static inline: a program is one source file, this header and allocator.c. Tables of
 * slots are mapped, so that they are no business of the allocator under test, and nothing is printed
 * before the run is over: stdio allocates too.
 *
 * Each program's last line is "Throughput = N ops/s"; its header comment says what an operation is.
 * Where "checksum=" is printed, it depends on the arguments alone: what the program wrote into its
 * blocks, read back before they were freed.
 */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "allocator.h"

#define BENCH_MAX_THREADS 1024
#define BENCH_MAX_OPERATIONS (UINT64_C(1) << 50)
#define BENCH_MAX_SIZE (UINT64_C(1) << 30)
#define BENCH_PAGE 4096

#define BENCH_BAD_INPUT 2 /* exit code of a wrong argument or variable */
#define BENCH_FAILED 1    /* exit code of a run that failed: out of memory, damaged block */

static const char *bench_program = "bench";

/* --- mistakes ---------------------------------------------------------------------------------- */

static inline _Noreturn __attribute__((format(printf, 2, 3), cold)) void
bench_fail(int code, const char *format, ...) {
  va_list values;
  va_start(values, format);
  fprintf(stderr, "%s: ", bench_program);
  vfprintf(stderr, format, values);
  fputc('\n', stderr);
  va_end(values);
  exit(code);
}

/** Stops the program when `block`, asked for with `size` bytes, is NULL. */
static inline void *bench_check(void *block, size_t size) {
  if (__builtin_expect(block == NULL, 0))
    bench_fail(BENCH_FAILED, "out of memory: no block of %zu bytes", size);
  return block;
}

static inline void *bench_malloc(size_t size) { return bench_check(malloc(size), size); }

/** Zeroed memory past the allocator, for the tables of a program. */
static inline void *bench_map(size_t bytes) {
  void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (table == MAP_FAILED)
    bench_fail(BENCH_FAILED, "no memory for a table of %zu bytes: %s", bytes, strerror(errno));
  return table;
}

/** Gives the pages of a mapped table back that lie behind its first `used` bytes: a table that has
 * become shorter is not to count as memory that the allocator keeps. */
static inline void bench_unmap_rest(void *table, size_t used, size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t kept = (used + page - 1) / page * page;
  if (kept < bytes) madvise((char *)table + kept, bytes - kept, MADV_DONTNEED);
}

/* --- random numbers ---------------------------------------------------------------------------- */

/** Spreads a seed over all bits (splitmix64), so that seeds 1 and 2 give unrelated runs. Never 0,
 * where the generator below would stay for ever. */
static inline uint64_t bench_spread(uint64_t seed) {
  seed += UINT64_C(0x9e3779b97f4a7c15);
  seed = (seed ^ (seed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  seed = (seed ^ (seed >> 27)) * UINT64_C(0x94d049bb133111eb);
  seed ^= seed >> 31;
  return seed != 0 ? seed : 1;
}

/** The next 64 random bits: a shift register, six instructions. */
static inline uint64_t bench_draw(uint64_t *state) {
  uint64_t bits = *state;
  bits ^= bits << 13;
  bits ^= bits >> 7;
  bits ^= bits << 17;
  return *state = bits;
}

/** Maps 32 random bits onto 0..count-1 by a multiplication instead of a division; count <= 2^32. */
static inline uint64_t bench_below(uint32_t bits, uint64_t count) { return bits * count >> 32; }

/** Low and high half of a draw are independent enough to give two numbers. */
static inline uint32_t bench_low(uint64_t draw) { return (uint32_t)draw; }
static inline uint32_t bench_high(uint64_t draw) { return (uint32_t)(draw >> 32); }

/* --- what is done to blocks -------------------------------------------------------------------- */

/** Writes one byte in each page of a block, and its last byte. */
static inline void bench_touch(char *block, size_t size, char value) {
  if (size == 0) return;
  for (size_t i = 0; i < size; i += BENCH_PAGE) block[i] = value;
  block[size - 1] = value;
}

/* A block's stamp: its first four bytes, written when it is allocated and added to the checksum
 * when it is freed. So a block is read again at the end of its life, as programs do. */
#define BENCH_STAMPED 8 /* smallest block with a stamp and a last byte beside it */

static inline void bench_stamp(void *block, uint32_t stamp) { *(uint32_t *)block = stamp; }
static inline uint32_t bench_stamp_of(const void *block) { return *(const uint32_t *)block; }

/** Frees the `count` stamped blocks of `slots`, none of them NULL, in their order; what they add to the
 * checksum. For what is left after the run: it counts no operations. */
static inline uint64_t bench_free_stamped(char **slots, uint64_t count) {
  uint64_t checksum = 0;
  for (uint64_t i = 0; i < count; i++) {
    checksum += bench_stamp_of(slots[i]);
    free(slots[i]);
  }
  return checksum;
}

/* --- threads and clocks ------------------------------------------------------------------------ */

static inline double bench_clock(clockid_t id) {
  struct timespec time;
  clock_gettime(id, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/** Sleeps until CLOCK_MONOTONIC has come to `time`, in seconds. */
static inline void bench_sleep_until(double time) {
  struct timespec until = {.tv_sec = (time_t)time};
  until.tv_nsec = (long)((time - (double)until.tv_sec) * 1e9);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) continue;
}

struct bench_worker;

/** What a worker does. True: it hands over, that is, a new thread goes on with the same worker. */
typedef bool bench_work(struct bench_worker *worker);

struct bench_worker {
  _Alignas(128) uint64_t index; /* two lines: neighbours are fetched in pairs */
  uint64_t random;              /* state for bench_draw */
  uint64_t operations;          /* counted by the work */
  uint64_t checksum;            /* added to by the work */
  void *shared;                 /* the same for all workers */

  /* The harness's own. */
  bench_work *work;
  pthread_barrier_t *start;
  sem_t *ended;
  pthread_t thread; /* the last one that ended, not joined yet */
  bool succeeds;    /* another thread of this worker ran before */
  double begin, end, cpu_begin, cpu_end;
};

struct bench_result {
  uint64_t operations, checksum;
  double seconds; /* from the first worker's start to the last one's end */
  double cpu;     /* processor seconds of the process in that time */
};

static inline void bench_begin(struct bench_worker *worker) {
  worker->cpu_begin = bench_clock(CLOCK_PROCESS_CPUTIME_ID);
  worker->begin = bench_clock(CLOCK_MONOTONIC);
}

static inline void bench_end(struct bench_worker *worker) {
  worker->end = bench_clock(CLOCK_MONOTONIC);
  worker->cpu_end = bench_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static inline void *bench_thread(void *argument) {
  struct bench_worker *worker = argument;
  bool succeeds = worker->succeeds;
  pthread_t previous = worker->thread;
  if (!succeeds) {
    pthread_barrier_wait(worker->start);
    bench_begin(worker);
  }
  bool more = worker->work(worker);
  /* The thread before this one has had its time to end: not waited for, only cleared away. */
  if (succeeds) pthread_join(previous, NULL);
  worker->thread = pthread_self();
  if (!more) {
    bench_end(worker);
    sem_post(worker->ended);
    return NULL;
  }
  worker->succeeds = true;
  pthread_t next;
  int error = pthread_create(&next, NULL, bench_thread, worker);
  if (error != 0) bench_fail(BENCH_FAILED, "cannot start a thread: %s", strerror(error));
  return NULL;
}

static inline struct bench_worker *bench_worker_at(uint64_t index) {
  static struct bench_worker workers[BENCH_MAX_THREADS];
  return &workers[index];
}

static inline struct bench_result bench_run_on(bool threads, uint64_t count, bench_work *work,
                                               void *shared, uint64_t seed) {
  for (uint64_t i = 0; i < count; i++)
    *bench_worker_at(i) = (struct bench_worker){
        .index = i,
        .random = bench_spread(seed + i * UINT64_C(0x100000001)),
        .shared = shared,
        .work = work,
    };
  if (!threads) {
    struct bench_worker *worker = bench_worker_at(0);
    bench_begin(worker);
    work(worker);
    bench_end(worker);
  } else {
    pthread_barrier_t start;
    sem_t ended;
    pthread_barrier_init(&start, NULL, (unsigned)count);
    sem_init(&ended, 0, 0);
    for (uint64_t i = 0; i < count; i++) {
      struct bench_worker *worker = bench_worker_at(i);
      worker->start = &start;
      worker->ended = &ended;
      pthread_t thread;
      int error = pthread_create(&thread, NULL, bench_thread, worker);
      if (error != 0) bench_fail(BENCH_FAILED, "cannot start a thread: %s", strerror(error));
    }
    for (uint64_t i = 0; i < count; i++)
      while (sem_wait(&ended) != 0) continue;
    for (uint64_t i = 0; i < count; i++) pthread_join(bench_worker_at(i)->thread, NULL);
    sem_destroy(&ended);
    pthread_barrier_destroy(&start);
  }
  struct bench_worker total = *bench_worker_at(0);
  for (uint64_t i = 1; i < count; i++) {
    const struct bench_worker *worker = bench_worker_at(i);
    total.operations += worker->operations;
    total.checksum += worker->checksum;
    if (worker->begin < total.begin) total.begin = worker->begin;
    if (worker->end > total.end) total.end = worker->end;
    if (worker->cpu_begin < total.cpu_begin) total.cpu_begin = worker->cpu_begin;
    if (worker->cpu_end > total.cpu_end) total.cpu_end = worker->cpu_end;
  }
  return (struct bench_result){total.operations, total.checksum, total.end - total.begin,
                               total.cpu_end - total.cpu_begin};
}

/** Runs `work` on `count` workers, started together. A single one runs on the main thread: the
 * process then has one thread only, which allocators make use of. */
static inline struct bench_result bench_run(uint64_t count, bench_work *work, void *shared,
                                            uint64_t seed) {
  return bench_run_on(count > 1, count, work, shared, seed);
}

/** The same with a thread of its own for a single worker too, so that it can hand over. */
static inline struct bench_result bench_run_threads(uint64_t count, bench_work *work, void *shared,
                                                    uint64_t seed) {
  return bench_run_on(true, count, work, shared, seed);
}

/** Worker `index`'s part of `total` things: parts differ by one at most and add up to `total`. */
static inline uint64_t bench_share(uint64_t total, uint64_t count, uint64_t index) {
  return total / count + (index < total % count ? 1 : 0);
}

/* --- arguments --------------------------------------------------------------------------------- */

struct bench_argument {
  const char *name;
  const char *help;      /* what it is, with its unit */
  uint64_t low, high;    /* accepted numbers */
  const char *words;     /* instead of a number "one|two|three": the value is 0, 1, 2 */
  const char *otherwise; /* when it is left out; NULL: it has to be there */
};

#define BENCH_THREADS                                                                              \
  { "THREADS", "threads", 1, BENCH_MAX_THREADS, NULL, NULL }
#define BENCH_SEED                                                                                 \
  { "SEED", "start of the random sequence", 0, UINT64_MAX, NULL, "1" }

static inline uint64_t bench_number(const char *what, const char *text, uint64_t low,
                                    uint64_t high) {
  char *end;
  errno = 0;
  uint64_t value = strtoull(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != 0)
    bench_fail(BENCH_BAD_INPUT, "%s: not a number: '%s'; accepted: %" PRIu64 "..%" PRIu64, what,
               text, low, high);
  if (errno != 0 || value < low || value > high)
    bench_fail(BENCH_BAD_INPUT, "%s: out of range: %s; accepted: %" PRIu64 "..%" PRIu64, what, text,
               low, high);
  return value;
}

static inline uint64_t bench_word(const char *what, const char *text, const char *words) {
  size_t length = strlen(text);
  uint64_t value = 0;
  for (const char *word = words; length != 0; value++) {
    size_t end = strcspn(word, "|");
    if (end == length && memcmp(word, text, length) == 0) return value;
    if (word[end] == 0) break;
    word += end + 1;
  }
  bench_fail(BENCH_BAD_INPUT, "%s: unknown: '%s'; accepted: %s", what, text, words);
}

/** Answers `--version` and ends the program, if that is all it was asked. */
static inline void bench_answer_version(int argc, char **argv) {
  if (argc != 2 || strcmp(argv[1], "--version") != 0) return;
  char allocator[256];
  bench_allocator(allocator, sizeof allocator);
  printf("allocator: %s\n", allocator);
  exit(0);
}

static inline bool bench_asks_for_help(int argc, char **argv) {
  return argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
}

/** A line of the usage, the name in a column of `width`. */
static inline void bench_describe(FILE *out, const struct bench_argument *argument, int width) {
  fprintf(out, "  %-*s  %s: ", width, argument->name, argument->help);
  if (argument->words != NULL) fputs(argument->words, out);
  else fprintf(out, "%" PRIu64 "..%" PRIu64, argument->low, argument->high);
  if (argument->otherwise != NULL) fprintf(out, "; default %s", argument->otherwise);
  fputc('\n', out);
}

static inline void bench_usage(FILE *out, const char *idea, const struct bench_argument *arguments,
                               size_t count) {
  fprintf(out, "usage: %s", bench_program);
  for (size_t i = 0; i < count; i++)
    fprintf(out, arguments[i].otherwise != NULL ? " [%s]" : " %s", arguments[i].name);
  fprintf(out, "\n%s\n", idea);
  for (size_t i = 0; i < count; i++) bench_describe(out, &arguments[i], 10);
  fputs("  --version   says which allocator this is\n", out);
}

/** Reads the command line into `values`, one for each argument, or ends the program. `idea` is one
 * line or more for the usage. */
static inline void bench_arguments(int argc, char **argv, const char *idea,
                                   const struct bench_argument *arguments, size_t count,
                                   uint64_t *values) {
  if (argc > 0) {
    const char *slash = strrchr(argv[0], '/');
    bench_program = slash != NULL ? slash + 1 : argv[0];
  }
  bench_answer_version(argc, argv);
  if (bench_asks_for_help(argc, argv)) {
    bench_usage(stdout, idea, arguments, count);
    exit(0);
  }
  size_t given = argc > 0 ? (size_t)argc - 1 : 0;
  size_t needed = 0;
  while (needed < count && arguments[needed].otherwise == NULL) needed++;
  if (given < needed || given > count) {
    fprintf(stderr, "%s: %zu arguments given, %zu to %zu accepted\n", bench_program, given, needed,
            count);
    bench_usage(stderr, idea, arguments, count);
    exit(BENCH_BAD_INPUT);
  }
  for (size_t i = 0; i < count; i++) {
    const struct bench_argument *argument = &arguments[i];
    const char *text = i < given ? argv[i + 1] : argument->otherwise;
    values[i] = argument->words != NULL
                    ? bench_word(argument->name, text, argument->words)
                    : bench_number(argument->name, text, argument->low, argument->high);
  }
}

/** Ends the program when the first of two arguments is above the second. */
static inline void bench_ordered(const char *low_name, uint64_t low, const char *high_name,
                                 uint64_t high) {
  if (low > high)
    bench_fail(BENCH_BAD_INPUT, "%s is above %s: %" PRIu64 " > %" PRIu64, low_name, high_name, low,
               high);
}

/* --- report ------------------------------------------------------------------------------------ */

/** Resident memory in KiB, by its name in /proc/self/status: "VmRSS", or "VmHWM" for the most there
 * was (getrusage also counts what the process was before it executed this program: a copy of the
 * shell or script that started it). -1: not known. Allocates nothing: it is called during runs. */
static inline long bench_resident(const char *name) {
  char text[4096];
  int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  text[length > 0 ? length : 0] = 0;
  const char *line = strstr(text, name);
  return line != NULL ? strtol(line + strlen(name) + 1, NULL, 10) : -1;
}

/** Resident memory in KiB now, -1: not known. Two system calls and no more memory than a page of
 * stack, for what is read again and again. Before Linux 6.17 it may be off by 128 KiB for each CPU. */
static inline long bench_resident_now(void) {
  static int file = -1; /* kept open; two threads at once would only open it twice */
  char text[128];
  if (file < 0) file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  ssize_t length = file >= 0 ? pread(file, text, sizeof text - 1, 0) : -1;
  if (length <= 0) return -1;
  text[length] = 0;
  const char *pages = strchr(text, ' '); /* the first number is the address space */
  return pages != NULL ? strtol(pages, NULL, 10) * (sysconf(_SC_PAGESIZE) / 1024) : -1;
}

/** Writes a line at once, past stdio's buffer: a run of hours that is stopped has said what it knew. */
static inline __attribute__((format(printf, 1, 2))) void bench_line(const char *format, ...) {
  char text[256];
  va_list values;
  va_start(values, format);
  int length = vsnprintf(text, sizeof text, format, values);
  va_end(values);
  for (int done = 0; done < length;) {
    ssize_t written = write(STDOUT_FILENO, text + done, (size_t)(length - done));
    if (written < 0 && errno != EINTR) bench_fail(BENCH_FAILED, "stdout: %s", strerror(errno));
    if (written > 0) done += (int)written;
  }
}

/** After lines of CSV: what else there is to say goes to stderr, so that the CSV stands alone. */
static inline void bench_report_apart(void) {
  if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
    bench_fail(BENCH_FAILED, "stderr: %s", strerror(errno));
}

/** Prints the report's common lines. A checksum of 0 stands for none. */
static inline void bench_report(const struct bench_result *result) {
  long peak_kib = bench_resident("VmHWM");
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  char allocator[256];
  bench_allocator(allocator, sizeof allocator);
  printf("allocator: %s\n", allocator);
  if (result->checksum != 0) printf("checksum=%016" PRIx64 "\n", result->checksum);
  printf("peak_rss_kb=%ld minor_faults=%ld operations=%" PRIu64 "\n", peak_kib, usage.ru_minflt,
         (uint64_t)result->operations);
  double operations = result->operations != 0 ? (double)result->operations : 1;
  double seconds = result->seconds > 1e-9 ? result->seconds : 1e-9;
  printf("cpu_ns_per_op=%.3f\n", result->cpu * 1e9 / operations);
  printf("Throughput = %.0f ops/s\n", (double)result->operations / seconds);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    perror(bench_program);
    exit(BENCH_FAILED);
  }
}

#endif
