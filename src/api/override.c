/* override.c - malloc and its family under their standard names.
 *
 * One file, so that a static link takes all of them together: half of one allocator and half of
 * another would be the end of the program.
 */
#include <stdio.h>

#include "api/api.h"
#include "api/statistics.h"
#include "observe/report.h"
#include "os/libc.h"
#include "policy/options.h"
#include "release/release.h"

/* Declared here, not by <stdlib.h> and <malloc.h>: musl's lack some, and glibc's carry attributes
 * that say things about libc's allocator. */
HAK_EXPORT HAK_AT_A_LINE void *malloc(size_t size);
HAK_EXPORT void *calloc(size_t count, size_t size);
HAK_EXPORT void *realloc(void *pointer, size_t size);
HAK_EXPORT HAK_AT_A_LINE void free(void *pointer);
HAK_EXPORT void *aligned_alloc(size_t alignment, size_t size);
HAK_EXPORT int posix_memalign(void **out, size_t alignment, size_t size);
HAK_EXPORT void *memalign(size_t alignment, size_t size);
HAK_EXPORT void *valloc(size_t size);
HAK_EXPORT void *pvalloc(size_t size);
HAK_OWN(memalign);
HAK_OWN(valloc);
HAK_OWN(pvalloc);

HAK_EXPORT size_t malloc_usable_size(void *pointer);
HAK_EXPORT int malloc_trim(size_t pad);
HAK_EXPORT int mallopt(int parameter, int value);
HAK_EXPORT int malloc_info(int options, FILE *stream);
HAK_EXPORT void malloc_stats(void);

HAK_EXPORT void *malloc(size_t size) { return api_malloc(size); }

HAK_EXPORT void *calloc(size_t count, size_t size) { return api_calloc(count, size); }

HAK_EXPORT void *realloc(void *pointer, size_t size) { return api_realloc(pointer, size); }

HAK_EXPORT void free(void *pointer) { api_free(pointer); }

/* Under a name that nobody replaces, for override_forms.c. */
HAK_OWN(realloc);
HAK_OWN(free);

HAK_EXPORT void *aligned_alloc(size_t alignment, size_t size) {
  return api_aligned_alloc(alignment, size);
}

HAK_EXPORT int posix_memalign(void **out, size_t alignment, size_t size) {
  return api_posix_memalign(out, alignment, size);
}

/* As glibc: an alignment that is not a power of two is rounded up to one. */
HAK_EXPORT void *memalign(size_t alignment, size_t size) {
  if (alignment > ALIGNMENT_MAX) {
    errno = alignment > SIZE_MAX / 2 + 1 ? EINVAL : ENOMEM;
    return NULL;
  }
  size_t power = BLOCK_ALIGNMENT;
  while (power < alignment) power <<= 1;
  return api_aligned_alloc(power, size);
}

HAK_EXPORT void *valloc(size_t size) { return api_aligned_alloc(os_page_size(), size); }

HAK_EXPORT void *pvalloc(size_t size) {
  size_t page = os_page_size();
  if (size > PTRDIFF_MAX) return api_calloc_overflow();
  size_t bytes = (size + page - 1) & ~(page - 1);
  return api_aligned_alloc(page, bytes == 0 ? page : bytes);
}

HAK_EXPORT size_t malloc_usable_size(void *pointer) { return api_usable_size(pointer); }

/* With HAKMEM_FORCE_LIBC_ALLOC=1 these too are libc's, about libc's heap. */
#define FORWARD(type, name, arguments)                                                             \
  if (heap_calls_libc()) {                                                                         \
    __typeof__((type)NULL) function = (type)libc_function(name);                                   \
    if (function != NULL) return function arguments;                                               \
  }

HAK_EXPORT int malloc_trim(size_t pad) {
  FORWARD(int (*)(size_t), "malloc_trim", (pad))
  return release_purge() > 0; /* what to keep is the profile's business */
}

/* glibc's parameters are accepted and have no effect: their values describe arenas, fast bins and
 * a break that are not there. */
HAK_EXPORT int mallopt(int parameter, int value) {
  FORWARD(int (*)(int, int), "mallopt", (parameter, value))
  return 1; /* as glibc, also of parameters that it does not know */
}

/* --- mallinfo, malloc_info, malloc_stats ----------------------------------------------------------- */

/* The layouts are part of glibc's ABI; own tags, since musl has no such types. */
struct mallinfo_int {
  int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo_size {
  size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

HAK_EXPORT struct mallinfo_size mallinfo2(void);
HAK_EXPORT struct mallinfo_int mallinfo(void);

HAK_EXPORT struct mallinfo_size mallinfo2(void) {
  FORWARD(struct mallinfo_size(*)(void), "mallinfo2", ())
  struct totals totals;
  totals_get(&totals, true);
  struct mallinfo_size info = {0};
  info.arena = (size_t)(totals.unit.bytes_mapped - totals.superslab.huge_bytes);
  info.hblks = (size_t)totals.superslab.huge_live;
  info.hblkhd = (size_t)totals.superslab.huge_bytes;
  info.ordblks = (size_t)totals.superslab.live;
  info.uordblks = (size_t)(totals.in_use - totals.superslab.huge_bytes);
  info.fordblks = info.arena > info.uordblks ? info.arena - info.uordblks : 0;
  info.keepcost = (size_t)totals.unit.units_warm << UNIT_SHIFT;
  return info;
}

static int clamp(size_t value) { return value > INT32_MAX ? INT32_MAX : (int)value; }

HAK_EXPORT struct mallinfo_int mallinfo(void) {
  FORWARD(struct mallinfo_int(*)(void), "mallinfo", ())
  struct mallinfo_size info = mallinfo2();
  return (struct mallinfo_int){
      clamp(info.arena),    clamp(info.ordblks),  clamp(info.smblks),  clamp(info.hblks),
      clamp(info.hblkhd),   clamp(info.usmblks),  clamp(info.fsmblks), clamp(info.uordblks),
      clamp(info.fordblks), clamp(info.keepcost),
  };
}

/* Classes of which something is known; the counts are there if the program counts. Printing may allocate, so
 * figures of classes that follow may include that. */
static void print_classes(FILE *stream) {
  for (unsigned c = 0; c < COUNTED_CLASSES; c++) {
    struct class_totals totals;
    struct figure figures[FIGURES_MOST];
    totals_of_class(c, &totals);
    unsigned count = statistics_warm_pool(&totals, figures);
    if (totals.alloc + totals.free == 0 && !statistics_any(figures, count)) continue;
    if (c == COUNTED_LARGE) fputs("<class tier=\"large\"", stream);
    else if (c == COUNTED_HUGE) fputs("<class tier=\"huge\"", stream);
    else fprintf(stream, "<class number=\"%u\" size=\"%u\"", c, (unsigned)totals.size);
    if (option_counting()) {
      count += statistics_front(&totals, figures + count);
      if (c < COUNTED_LARGE) count += statistics_heap(&totals, figures + count);
    }
    for (unsigned i = 0; i < count; i++)
      fprintf(stream, " %s=\"%llu\"", figures[i].name, (unsigned long long)figures[i].value);
    fputs("/>\n", stream);
  }
}

HAK_EXPORT int malloc_info(int options, FILE *stream) {
  FORWARD(int (*)(int, FILE *), "malloc_info", (options, stream))
  if (options != 0 || stream == NULL) {
    errno = EINVAL;
    return -1;
  }
  struct totals totals;
  totals_get(&totals, true);
  fprintf(stream,
          "<malloc version=\"hakmem-1\">\n"
          "<heaps active=\"%llu\" parked=\"%llu\"/>\n"
          "<superslabs live=\"%llu\" peak=\"%llu\" warm=\"%llu\" size=\"%llu\"/>\n"
          "<huge count=\"%llu\" size=\"%llu\"/>\n"
          "<system type=\"current\" size=\"%llu\"/>\n"
          "<blocks type=\"in_use\" size=\"%llu\"/>\n"
          "<blocks type=\"in_bins\" size=\"%llu\"/>\n"
          "<metadata size=\"%llu\"/>\n",
          (unsigned long long)totals.heaps_active, (unsigned long long)totals.heaps_parked,
          (unsigned long long)totals.superslab.live, (unsigned long long)totals.superslab.peak,
          (unsigned long long)totals.unit.units_warm,
          (unsigned long long)totals.superslab.slab_bytes,
          (unsigned long long)totals.superslab.huge_live,
          (unsigned long long)totals.superslab.huge_bytes,
          (unsigned long long)totals.unit.bytes_mapped, (unsigned long long)totals.in_use,
          (unsigned long long)totals.in_bins, (unsigned long long)totals.metadata_bytes);
  print_classes(stream);
  return fputs("</malloc>\n", stream) < 0 || ferror(stream) ? -1 : 0;
}

static void stat_line(const char *name, uint64_t value) {
  struct report line;
  report_start(&line);
  report_text(&line, name);
  report_text(&line, " = ");
  report_number(&line, value);
  report_end_here(&line);
}

HAK_EXPORT void malloc_stats(void) {
  if (heap_calls_libc()) {
    void (*function)(void) = (void (*)(void))libc_function("malloc_stats");
    if (function != NULL) function();
    return;
  }
  struct totals totals;
  totals_get(&totals, true);
  stat_line("system bytes", totals.unit.bytes_mapped);
  stat_line("in use bytes", totals.in_use);
  stat_line("bytes in thread bins", totals.in_bins);
  stat_line("metadata bytes", totals.metadata_bytes);
  stat_line("SuperSlabs live", totals.superslab.live);
  stat_line("SuperSlabs warm", totals.unit.units_warm);
  stat_line("huge blocks", totals.superslab.huge_live);
  stat_line("huge bytes", totals.superslab.huge_bytes);
  stat_line("thread heaps active", totals.heaps_active);
  stat_line("thread heaps parked", totals.heaps_parked);
}
