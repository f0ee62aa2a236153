/* serve_listen.c - see serve.h: sockets that listen. */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli.h"
#include "serve.h"

enum { WAITING = 64 }; /* connections that the kernel keeps until they are accepted */

static int open_at(const struct addrinfo *at) {
  int yes = 1, fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, WAITING) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

/* Is it one that this machine alone reaches? */
static bool is_loopback(const struct addrinfo *at) {
  if (at->ai_family == AF_INET)
    return ntohl(((const struct sockaddr_in *)at->ai_addr)->sin_addr.s_addr) >> 24 == 127;
  return at->ai_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)at->ai_addr)->sin6_addr);
}

int listen_at(const char *host, const char *port, bool remote) {
  struct addrinfo *found = NULL, wanted = {.ai_family = AF_UNSPEC,
                                           .ai_socktype = SOCK_STREAM,
                                           .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
  int error = getaddrinfo(host, port, &wanted, &found);
  if (error != 0) {
    complain("--host=%s: %s", host, gai_strerror(error));
    return -1;
  }
  int fd = -1;
  bool refused = false;
  for (struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next) {
    refused = !remote && !is_loopback(at);
    fd = refused ? -1 : open_at(at);
  }
  if (refused && fd < 0)
    complain("--host=%s: other machines may reach it: --allow-remote, with --token-file", host);
  else if (fd < 0) complain("cannot listen at %s, port %s: %s", host, port, strerror(errno));
  freeaddrinfo(found);
  return refused && fd < 0 ? -EXIT_USAGE : fd;
}

/* One that a server left behind which was killed. */
static void remove_left_over(const struct sockaddr_un *address) {
  struct stat status;
  if (lstat(address->sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 && errno == ECONNREFUSED)
    unlink(address->sun_path);
  close(fd);
}

int listen_at_path(const char *path, int mode) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct addrinfo at = {
      .ai_family = AF_UNIX, .ai_addr = (struct sockaddr *)&address, .ai_addrlen = sizeof address};
  if (path[0] == 0 || strlen(path) >= sizeof address.sun_path) {
    complain("--socket=%s: a path of 1 to %zu bytes", path, sizeof address.sun_path - 1);
    return -EXIT_USAGE;
  }
  strcpy(address.sun_path, path);
  remove_left_over(&address);
  /* It has its permissions from its first moment on. */
  mode_t before = umask(0777 & ~(mode_t)mode);
  int fd = open_at(&at);
  umask(before);
  if (fd < 0) complain("cannot listen at %s: %s", path, strerror(errno));
  return fd;
}

char *listen_address(int fd, char *text, size_t room) {
  struct sockaddr_storage address;
  socklen_t length = sizeof address;
  char host[64] = "?", port[16] = "?";
  memset(&address, 0, sizeof address);
  getsockname(fd, (struct sockaddr *)&address, &length);
  if (address.ss_family == AF_UNIX) {
    snprintf(text, room, "unix:%s", ((struct sockaddr_un *)&address)->sun_path);
    return text;
  }
  getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
              NI_NUMERICHOST | NI_NUMERICSERV);
  snprintf(text, room,
           strchr(host, ':') != NULL ? "http://[%s]:%s/metrics" : "http://%s:%s/metrics", host,
           port);
  return text;
}
