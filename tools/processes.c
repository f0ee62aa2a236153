/* processes.c - see processes.h. */
#define _GNU_SOURCE
#include "processes.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "listed.h"
#include "mapped.h"

int take_words(int key, const struct argp_state *state, struct words *words) {
  if (key != ARGP_KEY_ARGS) return ARGP_ERR_UNKNOWN;
  words->all = state->argv + state->next;
  words->count = (size_t)(state->argc - state->next);
  return 0;
}

static bool is_number(const char *text) {
  size_t digits = strspn(text, "0123456789");
  return digits > 0 && text[digits] == 0;
}

static int by_number(const void *a, const void *b) {
  int left = *(const int *)a, right = *(const int *)b;
  return left < right ? -1 : left > right;
}

static bool add(struct processes *processes, int pid) {
  for (size_t i = 0; i < processes->count; i++)
    if (processes->all[i] == pid) return true; /* `pidof` of two names may tell it twice */
  int *more = reallocarray(processes->all, processes->count + 1, sizeof *more);
  if (more == NULL) return false;
  processes->all = more;
  more[processes->count++] = pid;
  return true;
}

void processes_free(struct processes *processes) {
  free(processes->all);
  *processes = (struct processes){0};
}

/* --- names --------------------------------------------------------------------------------------------------- */

bool process_has_name(const char *pid, const char *name) {
  enum { KEPT = 15 };
  char path[64], text[PATH_MAX] = "", clean[PATH_MAX];
  snprintf(path, sizeof path, "/proc/%.20s/comm", pid);
  FILE *file = fopen(path, "re");
  if (file == NULL) return false;
  bool same = fgets(text, sizeof text, file) != NULL;
  fclose(file);
  text[strcspn(text, "\n")] = 0;
  bool alike = same && strncmp(text, name, KEPT) == 0;
  if (alike && strlen(name) <= KEPT) return true;
  snprintf(path, sizeof path, "/proc/%.20s/exe", pid);
  ssize_t length = readlink(path, text, sizeof text - 1);
  if (length <= 0) return alike;
  text[length] = 0;
  const char *slash = strrchr(mapped_name(text, clean, sizeof clean), '/');
  if (slash == NULL) return alike;
  return strcmp(slash + 1, name) == 0 || (alike && strncmp(slash + 1, name, KEPT) != 0);
}

/* May anybody but its user know what it runs on? */
static bool is_closed(const char *pid) {
  char path[64], byte;
  snprintf(path, sizeof path, "/proc/%.20s/exe", pid);
  return readlink(path, &byte, 1) < 0 && (errno == EACCES || errno == EPERM);
}

/* Is it on hakmem, and may it be read? */
static bool can_be_opened(const char *pid, struct remote *remote, FILE *nowhere) {
  collect_complaints(nowhere);
  bool can = remote_open(remote, pid) == 0;
  collect_complaints(NULL);
  return can;
}

/* Those of a name, or with NULL all, also what is on hakmem but makes no sense or may not be read. */
static bool find(struct processes *processes, const char *name) {
  struct remote *remote = calloc(1, sizeof *remote);
  FILE *nowhere = fopen("/dev/null", "we");
  DIR *directory = opendir("/proc");
  bool ok = remote != NULL && nowhere != NULL && directory != NULL;
  for (struct dirent *entry; ok && (entry = readdir(directory)) != NULL;) {
    if (!is_number(entry->d_name) || strtol(entry->d_name, NULL, 10) == getpid()) continue;
    if (name != NULL && !process_has_name(entry->d_name, name)) continue;
    bool opened = can_be_opened(entry->d_name, remote, nowhere);
    if (opened || (name == NULL && remote_is_refused(remote))) ok = add(processes, remote->pid);
    else if (name == NULL && is_closed(entry->d_name)) processes->unread++;
  }
  if (processes->count > 0)
    qsort(processes->all, processes->count, sizeof *processes->all, by_number);
  if (directory != NULL) closedir(directory);
  if (nowhere != NULL) fclose(nowhere);
  free(remote);
  if (!ok) complain("out of memory, or /proc cannot be read");
  return ok;
}

bool processes_find_all(struct processes *processes) {
  *processes = (struct processes){0};
  return find(processes, NULL);
}

/* --- words ---------------------------------------------------------------------------------------------------- */

/* On stderr: what is wrong, and the processes that could have been named. */
static void complain_and_list(const char *wrong) {
  struct processes all;
  if (processes_find_all(&all)) {
    complain("%s; %s", wrong,
             all.count > 0 ? "these run on hakmem:" : "start one by: hakmem run -- PROGRAM");
    if (all.count > 0) list_processes(&all, stderr);
  }
  processes_free(&all);
}

/* 0, or an exit code after a complaint. */
static int find_named(struct processes *processes, const char *name) {
  char wrong[PATH_MAX];
  size_t before = processes->count;
  if (!find(processes, name)) return 1;
  if (processes->count > before) return 0;
  snprintf(wrong, sizeof wrong,
           "no process of the name '%s' runs on hakmem, or none that may be read", name);
  complain_and_list(wrong);
  return EXIT_NO_PROGRAM;
}

int processes_find(struct processes *processes, const struct words *words) {
  struct remote *remote = calloc(1, sizeof *remote);
  int code = remote != NULL ? 0 : 1;
  *processes = (struct processes){0};
  for (size_t i = 0; i < words->count && code == 0; i++) {
    if (!is_number(words->all[i])) code = find_named(processes, words->all[i]);
    else if ((code = remote_open(remote, words->all[i])) == 0) code = !add(processes, remote->pid);
  }
  processes->one_name = words->count == 1 && !is_number(words->all[0]);
  free(remote);
  return code;
}

static bool are_numbers(const struct words *words) {
  for (size_t i = 0; i < words->count; i++)
    if (!is_number(words->all[i])) return false;
  return true;
}

static int refuse_several(const struct processes *found) {
  complain(found->one_name ? "several processes of that name run on hakmem: name one by its number"
                           : "one process at a time: name one by its number");
  list_processes(found, stderr);
  return EXIT_USAGE;
}

int remote_open_words(struct remote *remote, const struct words *words) {
  struct processes found = {0};
  char number[16];
  int code = 0;
  if (words->count == 0) {
    complain_and_list("name a process, by its number or its program's name");
    return EXIT_USAGE;
  }
  if (!are_numbers(words)) code = processes_find(&found, words);
  else if (words->count == 1) return remote_open(remote, words->all[0]);
  /* Which of them can be opened, the list tells. */
  else
    for (size_t i = 0; i < words->count; i++) add(&found, (int)strtol(words->all[i], NULL, 10));
  if (code == 0 && found.count == 0) {
    complain("out of memory");
    code = 1;
  }
  if (code == 0 && words->count + found.count > 2) code = refuse_several(&found);
  else if (code == 0) {
    snprintf(number, sizeof number, "%d", found.all[0]);
    code = remote_open(remote, number);
  }
  processes_free(&found);
  return code;
}
