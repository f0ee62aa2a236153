/* container.h - which container a process is in, by the paths of its cgroups. */
#ifndef HAKMEM_CONTAINER_H
#define HAKMEM_CONTAINER_H

/* Empty: none is known. */
struct container {
  char id[65];  /* as Docker, containerd, CRI-O and Podman give it: 64 digits */
  char pod[37]; /* the uid of Kubernetes, with dashes */
};

/** Adds what a line of /proc/PID/cgroup names. The innermost container counts. */
void container_read_line(struct container *container, const char *line);
/** All lines of a process; none where they cannot be read. Seen from inside of a container, paths begin there and name none. */
void container_read(struct container *container, int pid);
/** At most 12 characters, as `docker ps` has them: of the container, else of the pod, else "-". Returns `text`. */
char *container_short(const struct container *container, char text[16]);

#endif
