/* served.c - see serve.h: the processes that hakmem serve reads. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "processes.h"
#include "serve.h"

void served_drop(struct served *served, size_t i) {
  free(served->remotes[i]);
  served->count--;
  for (; i < served->count; i++) served->remotes[i] = served->remotes[i + 1];
}

void served_free(struct served *served) {
  while (served->count > 0) served_drop(served, served->count - 1);
  free(served->remotes);
  served->remotes = NULL;
}

static bool is_served(const struct served *served, int pid) {
  for (size_t i = 0; i < served->count; i++)
    if (served->remotes[i]->pid == pid) return true;
  return false;
}

int served_add(struct served *served, const char *text) {
  struct remote *remote = calloc(1, sizeof *remote);
  struct remote **more = reallocarray(served->remotes, served->count + 1, sizeof(struct remote *));
  if (more != NULL) served->remotes = more;
  if (remote == NULL || more == NULL) {
    free(remote);
    complain("out of memory");
    return 1;
  }
  int code = remote_open(remote, text);
  /* Twice the same, or the number of one of its threads: two samples of a name would be an error to the reader. */
  if (code != 0 || is_served(served, remote->pid)) free(remote);
  else served->remotes[served->count++] = remote;
  return code;
}

static void find_named(struct served *served) {
  DIR *directory = opendir("/proc");
  if (directory == NULL) return;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
        !is_served(served, (int)strtol(entry->d_name, NULL, 10)) &&
        process_has_name(entry->d_name, served->name))
      served_add(served, entry->d_name);
  closedir(directory);
}

/* It runs another program by now, which may be on hakmem, too. If it is not, nothing changes. */
static void open_again(struct remote *remote) {
  char text[16];
  struct remote *again = calloc(1, sizeof *again);
  snprintf(text, sizeof text, "%d", remote->pid);
  if (again != NULL && remote_open(again, text) == 0) *remote = *again;
  free(again);
}

void served_refresh(struct served *served) {
  for (size_t i = served->count; i-- > 0;) {
    enum remote_state state = remote_look_on(served->remotes[i]);
    if (served->name == NULL && state == REMOTE_OTHER) open_again(served->remotes[i]);
    if (served->name != NULL && state != REMOTE_THERE) served_drop(served, i);
  }
  if (served->name != NULL) find_named(served);
}
