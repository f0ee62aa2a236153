/* Compiled when the build is configured: is this a machine that hakmem is made for? */
#include "os/machine.h"
int main(void) { return 0; }
