/* container.c - see container.h. */
#define _GNU_SOURCE
#include "container.h"

#include <stdio.h>
#include <string.h>

static const char digits[] = "0123456789abcdef";

/* ".../docker-ID.scope", ".../cri-containerd-ID.scope", ".../libpod-ID.scope", ".../docker/ID". */
static void read_id(struct container *container, const char *part, size_t length) {
  enum { DIGITS = sizeof container->id - 1 };
  for (size_t i = 0; i < length;) {
    size_t run = strspn(part + i, digits);
    if (run == DIGITS) memcpy(container->id, part + i, DIGITS);
    i += run + 1;
  }
}

/* "pod1234abcd-...", by systemd "kubepods-burstable-pod1234abcd_....slice". */
static void read_pod(struct container *container, const char *part, size_t length) {
  enum { LENGTH = sizeof container->pod - 1 };
  const char *at = memmem(part, length, "pod", 3);
  /* The first "pod" may be that of "kubepods". */
  for (; at != NULL; at = memmem(at, length - (size_t)(at - part), "pod", 3)) {
    at += 3;
    size_t run = strspn(at, "0123456789abcdef-_");
    if (run != LENGTH || at[8] != at[13]) continue;
    memcpy(container->pod, at, LENGTH);
    for (char *c = container->pod; *c != 0; c++)
      if (*c == '_') *c = '-';
  }
}

void container_read_line(struct container *container, const char *line) {
  while ((line = strchr(line, '/')) != NULL) {
    line++;
    size_t length = strcspn(line, "/\n");
    read_id(container, line, length);
    read_pod(container, line, length);
  }
}

void container_read(struct container *container, int pid) {
  enum { LINES_MOST = 64 };
  char path[64], line[4096];
  *container = (struct container){0};
  snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
  FILE *file = fopen(path, "re");
  if (file == NULL) return;
  for (int i = 0; i < LINES_MOST && fgets(line, sizeof line, file) != NULL; i++)
    container_read_line(container, line);
  fclose(file);
}

char *container_short(const struct container *container, char text[16]) {
  enum { KEPT = 12 };
  const char *name = container->id[0] != 0 ? container->id : container->pod;
  snprintf(text, 16, "%.*s", KEPT, name[0] != 0 ? name : "-");
  return text;
}
