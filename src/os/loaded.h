/* loaded.h - libraries as they lie in memory, read without the loader: its functions take locks, which the caller of malloc may hold, or
 * may be kept waiting for by somebody who holds one that this thread has.
 *
 * With glibc alone; nothing here allocates.
 */
#ifndef HAK_OS_LOADED_H
#define HAK_OS_LOADED_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GLIBC__)
struct loaded {
  ElfW(Addr) base;
  ElfW(Sym) * symbols;
  const char *strings;
  const uint32_t *hash; /* DT_GNU_HASH */
};

/** The tables of a library that lies at `base`; false: it has not all of them. */
bool loaded_at(ElfW(Addr) base, const ElfW(Dyn) * dynamic, struct loaded *library);
/** Those of libc, which no dlclose unloads. False in a static program. */
bool loaded_libc(struct loaded *library);
/** The symbols of that name which the library defines, one for each version. Returns how many there are, `most` at most. */
size_t loaded_find(const struct loaded *library, const char *name, ElfW(Sym) * *found, size_t most);
#endif

#endif
