/* trace_missing.c - hakmem trace in a build without libzstd. */
#include "cli.h"

int command_trace(int argc, char **argv) {
  (void)argc;
  (void)argv;
  complain("not in this build of hakmem, which was made without libzstd (Debian: libzstd-dev)");
  return EXIT_USAGE;
}
