/* trace_describe.c - see trace_describe.h. */
#define _GNU_SOURCE
#include "trace_describe.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "cli.h"
#include "hakmem.h"

/* --- the clock ----------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)

static uint64_t counter(void) { return __builtin_ia32_rdtsc(); }

/* Where the kernel has found that it does not run alike on all processors, it is not among these. */
static bool kernel_knows_it(void) {
  char names[256] = "tsc";
  FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/available_clocksource", "re");
  if (file == NULL) return true;
  if (fgets(names, sizeof names, file) == NULL) names[0] = 0;
  fclose(file);
  return strstr(names, "tsc") != NULL;
}

static bool counter_is_clock(void) {
  enum { POWER_LEAF = 0x80000007, INVARIANT = 1 << 8 };
  unsigned a, b, c, d;
  return __get_cpuid(POWER_LEAF, &a, &b, &c, &d) != 0 && (d & INVARIANT) != 0 && kernel_knows_it();
}

#elif defined(__aarch64__)

static uint64_t counter(void) {
  uint64_t count;
  __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(count)::"memory");
  return count;
}

static bool counter_is_clock(void) { return true; }

#else

static uint64_t counter(void) { return 0; }
static bool counter_is_clock(void) { return false; }

#endif

static double monotonic(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void measure(struct trace_times *times) {
  double now = monotonic();
  times->seconds = now - times->process_began;
  if (times->clock == TRACE_CLOCK_COUNTER)
    times->ticks_per_second =
        (uint64_t)((double)(counter() - times->began_ticks) / (now - times->began));
}

enum trace_clock trace_times_start(struct trace_times *times) {
  static const struct timespec while_measuring = {.tv_nsec = 10000000};
  *times = (struct trace_times){.clock = TRACE_CLOCK_MONOTONIC, .ticks_per_second = 1000000000};
  if (counter_is_clock()) times->clock = TRACE_CLOCK_COUNTER;
  clock_gettime(CLOCK_REALTIME, &times->started);
  times->began = times->process_began = monotonic();
  times->began_ticks = counter();
  if (times->clock == TRACE_CLOCK_COUNTER) nanosleep(&while_measuring, NULL);
  measure(times);
  return times->clock;
}

void trace_times_start_later(struct trace_times *times) {
  clock_gettime(CLOCK_REALTIME, &times->started);
  times->process_began = monotonic();
}

void trace_times_end(struct trace_times *times) { measure(times); }

/* --- JSON ------------------------------------------------------------------------------------------------------ */

/* Bytes of the UTF-8 character at `text`, 0 when there is none. */
static int character(const unsigned char *text) {
  int bytes = text[0] < 0x80                      ? 1
              : text[0] >= 0xC2 && text[0] < 0xE0 ? 2
              : text[0] >= 0xE0 && text[0] < 0xF0 ? 3
              : text[0] >= 0xF0 && text[0] < 0xF5 ? 4
                                                  : 0;
  for (int i = 1; i < bytes; i++)
    if ((text[i] & 0xC0) != 0x80) return 0;
  bool overlong = (text[0] == 0xE0 && text[1] < 0xA0) || (text[0] == 0xF0 && text[1] < 0x90);
  bool beyond = (text[0] == 0xED && text[1] > 0x9F) || (text[0] == 0xF4 && text[1] > 0x8F);
  return overlong || beyond ? 0 : bytes;
}

/* Bytes that are not UTF-8 become the characters by which Python knows them (surrogateescape). */
static void put_text(FILE *out, const char *string) {
  const unsigned char *text = (const unsigned char *)string;
  fputc('"', out);
  while (*text != 0) {
    int bytes = character(text);
    if (bytes == 0) fprintf(out, "\\udc%02x", *text);
    else if (*text < ' ' || *text == 0x7F) fprintf(out, "\\u%04x", *text);
    else if (*text == '"' || *text == '\\') fprintf(out, "\\%c", *text);
    else fwrite(text, 1, (size_t)bytes, out);
    text += bytes == 0 ? 1 : bytes;
  }
  fputc('"', out);
}

/* "model name	: AMD EPYC"; empty where the kernel does not say it so. */
static void processor_model(char *model, size_t size) {
  char line[256];
  model[0] = 0;
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (file == NULL) return;
  while (model[0] == 0 && fgets(line, sizeof line, file) != NULL) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
    colon[strcspn(colon, "\n")] = 0;
    snprintf(model, size, "%s, ", colon + 1 + strspn(colon + 1, " "));
  }
  fclose(file);
}

static void put_machine(FILE *out) {
  struct utsname names = {0};
  char text[1024], model[256];
  processor_model(model, sizeof model);
  uname(&names);
  snprintf(text, sizeof text, "%s%ld processors, %s, %s %s", model, sysconf(_SC_NPROCESSORS_ONLN),
           names.machine, names.sysname, names.release);
  put_text(out, text);
}

static char *finish(FILE *out, char **text) {
  bool whole = fclose(out) == 0;
  if (whole) return *text;
  free(*text);
  complain("%s", strerror(ENOMEM));
  return NULL;
}

char *trace_describe_start(const struct trace_times *times, char **command, pid_t pid,
                           const struct trace_descent *descent) {
  char *text = NULL, date[32] = "";
  size_t size;
  struct tm day;
  FILE *out = open_memstream(&text, &size);
  if (out == NULL) {
    complain("%s", strerror(errno));
    return NULL;
  }
  if (gmtime_r(&times->started.tv_sec, &day) != NULL)
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &day);
  fputs("{\"command\": [", out);
  for (int i = 0; command[i] != NULL; i++) {
    if (i > 0) fputs(", ", out);
    put_text(out, command[i]);
  }
  fputs("], ", out);
  if (descent != NULL)
    fprintf(out, "\"parent\": %d, \"forked\": %s, ", (int)descent->parent,
            descent->forked ? "true" : "false");
  fprintf(out, "\"pid\": %d, \"started\": \"%s\", \"page_size\": %ld, ", (int)pid, date,
          sysconf(_SC_PAGESIZE));
  fprintf(out, "\"ticks_per_second\": %llu, \"hakmem_version\": \"%s\", \"machine\": ",
          (unsigned long long)times->ticks_per_second, HAKMEM_VERSION_STRING);
  put_machine(out);
  fputs("}", out);
  return finish(out, &text);
}

char *trace_describe_end(const struct trace_times *times, const struct trace_totals *totals) {
  char *text = NULL, status[32] = "", started[48] = "";
  if (totals->status >= 0) snprintf(status, sizeof status, "\"status\": %d, ", totals->status);
  if (totals->started >= 0)
    snprintf(started, sizeof started, ", \"processes_started\": %lld", (long long)totals->started);
  if (asprintf(&text,
               "{\"events\": %llu, \"threads\": %u, %s\"seconds\": %.6f, "
               "\"ticks_per_second\": %llu, \"lost\": %llu%s}",
               (unsigned long long)totals->events, totals->threads, status, times->seconds,
               (unsigned long long)times->ticks_per_second, (unsigned long long)totals->lost,
               started) >= 0)
    return text;
  complain("%s", strerror(ENOMEM));
  return NULL;
}
