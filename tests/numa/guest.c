/* guest.c - the only process of a machine that is started for a test: prepares the little that programs need, runs the lines of
 * /commands one after the other, and ends the machine.
 *
 * A line is `NAME=VALUE... PROGRAM ARGUMENT...`, with single spaces. What it prints goes to the serial line, where the test
 * reads it; behind it comes `[guest] exit STATUS`.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 32, LINE = 1024 };

static void prepare(void) {
  static const char *const places[][2] = {
      {"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    mkdir(places[i][1], 0755);
    if (mount(places[i][0], places[i][1], places[i][0], 0, NULL) != 0) perror(places[i][1]);
  }
}

static void show(const char *path) {
  char text[LINE];
  FILE *file = fopen(path, "r");
  if (file != NULL && fgets(text, sizeof text, file) != NULL) printf("[guest] %s %s", path, text);
  if (file != NULL) fclose(file);
}

static void execute(char *line) {
  char *words[WORDS + 1] = {0};
  int count = 0, first = 0;
  for (char *word = strtok(line, " \n"); word != NULL && count < WORDS; word = strtok(NULL, " \n"))
    words[count++] = word;
  while (first < count && strchr(words[first], '=') != NULL) putenv(words[first++]);
  execv(words[first], &words[first]);
  perror(words[first]);
  _exit(127);
}

static void run(char *line) {
  int status = -1;
  printf("[guest] run %s", line);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) execute(line);
  while (waitpid(-1, &status, 0) != child) continue;
  printf("[guest] exit %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  fflush(stdout);
}

int main(void) {
  char line[LINE];
  prepare();
  show("/proc/version");
  show("/sys/devices/system/node/online");
  FILE *commands = fopen("/commands", "r");
  while (commands != NULL && fgets(line, sizeof line, commands) != NULL) run(line);
  printf("[guest] end\n");
  fflush(stdout);
  sync();
  reboot(RB_POWER_OFF);
  reboot(RB_AUTOBOOT); /* where there is no power to be switched off; the emulator ends as well */
  return 1;
}
