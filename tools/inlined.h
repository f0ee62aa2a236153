/* inlined.h - calls that the compiler has made inline: whose code an address is besides the function's own (libdw). */
#ifndef HAKMEM_INLINED_H
#define HAKMEM_INLINED_H

#include <elfutils/libdw.h>

#include "demangle.h"

/* Of more calls than that in each other the innermost are left out. */
enum { INLINED_MOST = 64 };

struct inlined_call {
  const char *function, *linkage; /* as the source and the linker have it; NULL: not known */
  const char *source;             /* the file that the function begins in; NULL: not known */
  const char *file;               /* of the call; NULL: not known */
  int line;                       /* of the call; 0: not known */
};

/* What has been read so far. */
struct inlined;

struct inlined *inlined_new(void);
/** The inlined calls that the address lies in, the outermost first; how many. `die` is that of the compilation unit, and `address`
 * counts as it does. The texts stay until inlined_free. */
unsigned inlined_find(struct inlined *inlined, const Dwarf_Die *die, Dwarf_Addr address,
                      struct demangler *demangler, struct inlined_call calls[INLINED_MOST]);
void inlined_free(struct inlined *inlined);

#endif
