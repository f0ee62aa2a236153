/* operator delete is told twice the size of the block, as where an object is deleted by a pointer to a class that it
 * is not of. */
#include "wrong_size.h"

#include <new>

static void delete_sized(void *block, size_t size) { ::operator delete(block, size); }

void run() { free_with_size(delete_sized, twin ? tier.full : 2 * tier.full); }
