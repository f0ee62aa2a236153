/* serve_missing.c - hakmem serve in a build without libmicrohttpd. */
#include "cli.h"

int command_serve(int argc, char **argv) {
  (void)argc;
  (void)argv;
  complain("not in this build of hakmem, which was made without libmicrohttpd (Debian: "
           "libmicrohttpd-dev); hakmem stats --format openmetrics PID prints the same once");
  return EXIT_USAGE;
}
