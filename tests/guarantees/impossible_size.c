/* More is asked for than there can be, also by products that do not fit: a short block would be an overflow. */
#include "guarantee.h"

static void expect_none(void *block) {
  if (block != NULL) harm("a block shorter than asked for");
}

void run(void) {
  /* Half of all addresses times two, and the same with something left over. */
  const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX - 4096, (size_t)PTRDIFF_MAX + 1};
  void *block = take(tier.size), *volatile sink;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && !twin; i++) {
    size_t size = (size_t)(uintptr_t)opaque((void *)sizes[i]);
    expect_none(sink = malloc(size));
    expect_none(sink = calloc(1, size));
    expect_none(sink = realloc(opaque(block), size));
    expect_none(sink = memalign(64, size));
    expect_none(sink = calloc(size / 2 + 2, 2 * tier.size));
    expect_none(sink = reallocarray(opaque(block), size / 2 + 2, 2 * tier.size));
    if (posix_memalign((void **)&sink, 64, size) == 0) harm("a block shorter than asked for");
  }
  opaque(sink);
  block = realloc(opaque(block), 2 * tier.size);
  if (block == NULL) harm("the block that was there is gone");
  end_if_all_differ(tier.size);
}
