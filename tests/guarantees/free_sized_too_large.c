/* free_sized is told twice the size of the block. */
#include "wrong_size.h"

void run(void) {
  free_sized_function *function = (free_sized_function *)function_named("free_sized");
  free_with_size(function, twin ? tier.full : 2 * tier.full);
}
