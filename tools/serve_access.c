/* serve_access.c - see serve.h: who may ask. The file is read at each request, so that a new token counts at once. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "serve.h"

enum { TOKEN_LEAST = 16, TOKEN_MOST = 1024 };

/* As PostgreSQL judges a key: root's may be for a group, as systemd and Kubernetes hand them over, all others for their owner alone. */
static bool others_may_read(int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0) return true;
  return (status.st_mode & (status.st_uid == 0 ? S_IRWXO : S_IRWXG | S_IRWXO)) != 0;
}

/* Its first line without blanks at its end; how long it is, or -1, with EPERM where others may read it. */
static int read_token(const char *path, char token[TOKEN_MOST + 2]) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return -1;
  bool open_to_others = others_may_read(fd);
  ssize_t got = open_to_others ? -1 : read(fd, token, TOKEN_MOST + 1);
  int error = open_to_others ? EPERM : errno;
  close(fd);
  errno = error;
  if (got < 0) return -1;
  token[got] = 0;
  size_t length = strcspn(token, "\r\n");
  while (length > 0 && token[length - 1] == ' ') length--;
  token[length] = 0;
  return (int)length;
}

static void complain_of_others(const char *path) {
  complain("--token-file=%s: others than its owner may read it: chmod 600", path);
}

bool access_check_file(const char *path) {
  char token[TOKEN_MOST + 2];
  int length = read_token(path, token);
  if (length >= TOKEN_LEAST && length <= TOKEN_MOST) return true;
  if (length < 0 && errno == EPERM) complain_of_others(path);
  else if (length < 0) complain("--token-file=%s: %s", path, strerror(errno));
  else
    complain("--token-file=%s: its first line has %d bytes; a token has %d to %d", path, length,
             TOKEN_LEAST, TOKEN_MOST);
  return false;
}

/* In a time that tells nothing of where they differ. */
static bool is_same(const char *a, const char *b, size_t length) {
  unsigned char differs = 0;
  for (size_t i = 0; i < length; i++) differs |= (unsigned char)(a[i] ^ b[i]);
  return differs == 0;
}

bool access_is_granted(const char *path, const char *authorization) {
  static const char scheme[] = "Bearer ";
  char token[TOKEN_MOST + 2];
  if (path == NULL) return true;
  if (authorization == NULL || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
    return false;
  const char *told = authorization + sizeof scheme - 1;
  told += strspn(told, " ");
  int length = read_token(path, token);
  static bool complained; /* once, not at each request */
  bool open_to_others = length < 0 && errno == EPERM;
  if (open_to_others && !complained) complain_of_others(path);
  complained = open_to_others;
  if (length < TOKEN_LEAST || length > TOKEN_MOST || strlen(told) != (size_t)length) return false;
  return is_same(told, token, (size_t)length);
}
