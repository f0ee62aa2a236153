/* trace_procfs.c - see trace_procfs.h. A process may end at any time, and then its files are empty or gone. */
#define _GNU_SOURCE
#include "trace_procfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"

enum { MOST_READ = 8 << 20 };

/* A whole file, or half of MOST_READ and more of it, and a 0 behind it; free() it. */
static char *read_all(const char *path, size_t *size) {
  char *text = NULL;
  size_t length = 0, room = 0;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return NULL;
  for (;;) {
    if (length + 1 >= room) {
      room = room == 0 ? 4096 : room * 2;
      char *larger = room <= MOST_READ ? realloc(text, room) : NULL;
      if (larger == NULL) break;
      text = larger;
    }
    ssize_t got = read(file, text + length, room - length - 1);
    if (got <= 0) break;
    length += (size_t)got;
  }
  close(file);
  if (text != NULL) text[length] = 0;
  *size = length;
  return text;
}

char **procfs_command(pid_t pid) {
  char path[64];
  size_t size = 0, count = 0;
  snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
  char *text = read_all(path, &size);
  for (size_t i = 0; i < size; i++) count += text[i] == 0;
  if (size != 0 && text[size - 1] != 0) count++; /* a program that has written over its arguments */
  char **command = count != 0 ? malloc((count + 1) * sizeof *command + size + 1) : NULL;
  if (command != NULL) {
    char *at = (char *)(command + count + 1);
    memcpy(at, text, size + 1);
    for (size_t i = 0; i < count; i++, at += strlen(at) + 1) command[i] = at;
    command[count] = NULL;
  }
  free(text);
  return command;
}

void procfs_each_child(pid_t pid, void (*see)(pid_t child, pid_t parent, void *argument),
                       void *argument) {
  char path[320];
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR *threads = opendir(path);
  if (threads == NULL) return;
  for (struct dirent *thread; (thread = readdir(threads)) != NULL;) {
    if (thread->d_name[0] == '.') continue;
    size_t size;
    snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)pid, thread->d_name);
    char *text = read_all(path, &size), *next;
    for (char *at = text; at != NULL; at = next) {
      pid_t child = (pid_t)strtol(at, &next, 10);
      if (next == at) break;
      see(child, pid, argument);
    }
    free(text);
  }
  closedir(threads);
}

enum procfs_answer procfs_has_mapped(pid_t pid, const char *name) {
  char path[64];
  size_t size = 0;
  snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
  char *text = read_all(path, &size);
  enum procfs_answer answer = PROCFS_UNKNOWN;
  if (text != NULL && strstr(text, name) != NULL) answer = PROCFS_YES;
  else if (size != 0 && size < MOST_READ / 2) answer = PROCFS_NO;
  free(text);
  return answer;
}

const char *procfs_obstacle(pid_t pid, char path[static PATH_MAX]) {
  char link[64];
  snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  int error = errno;
  path[length > 0 ? length : 0] = 0;
  if (length < 0 && error == EACCES) {
    char **command = procfs_command(pid);
    if (command != NULL) snprintf(path, PATH_MAX, "%s", command[0]);
    free(command);
    return "it has privileges of its own";
  }
  /* Through the link: the process may have another root. */
  return length > 0 ? program_obstacle(link) : NULL;
}
