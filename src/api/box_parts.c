/* box_parts.c - see box_parts.h. */
#include "api/box_parts.h"

#include <string.h>

#include "api/totals.h"
#include "heap/absent.h"
#include "heap/named.h"
#include "heap/remote.h"
#include "observe/directory.h"
#include "observe/requests.h"
#include "os/file.h"
#include "policy/options.h"
#include "sample/guarded.h"
#include "sample/records.h"
#include "superslab/lists.h"
#include "superslab/warm.h"

#if !HAK_FAST

extern const char hakmem_directory[sizeof(struct directory)];
extern const struct directory_layout directory_layout HAK_HIDDEN;
extern struct requests requests HAK_HIDDEN;

uintptr_t box_directory(void) { return (uintptr_t)hakmem_directory; }

uint16_t box_machine(void) {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#elif defined(__riscv)
  return EM_RISCV;
#elif defined(__powerpc64__)
  return EM_PPC64;
#else
  return EM_NONE;
#endif
}

/* --- pieces ------------------------------------------------------------------------------------------------- */

/* The first piece that ends at `start` or behind it. */
static size_t first_behind(const struct box *box, uint64_t start) {
  size_t low = BOX_SPECIAL, high = box->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    const Elf64_Phdr *piece = &box->headers[middle];
    if (piece->p_vaddr + piece->p_memsz < start) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* Keeps [start, end), in one piece with those that it touches. */
static void keep(struct box *box, uint64_t start, uint64_t end) {
  size_t first = first_behind(box, start), behind = first;
  uint64_t had = 0;
  for (; behind < box->count && box->headers[behind].p_vaddr <= end; behind++) {
    const Elf64_Phdr *piece = &box->headers[behind];
    if (piece->p_vaddr < start) start = piece->p_vaddr;
    if (piece->p_vaddr + piece->p_memsz > end) end = piece->p_vaddr + piece->p_memsz;
    had += piece->p_memsz;
  }
  uint64_t more = end - start - had;
  bool full = first == behind && box->count == BOX_HEADERS;
  if (full || box->planned + more > BOX_TABLES_MOST) {
    box->cut += more;
    return;
  }
  box->planned += more;
  memmove(&box->headers[first + 1], &box->headers[behind],
          (box->count - behind) * sizeof box->headers[0]);
  box->count -= behind - first;
  box->count++;
  box->headers[first] =
      (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = start, .p_memsz = end - start};
}

/* Keeps the pages of it that are in memory. All of it where the system does not say which these are. */
static void keep_present(struct box *box, const void *address, size_t bytes) {
  uintptr_t page = os_page_size();
  uintptr_t start = (uintptr_t)address / page * page;
  uintptr_t end = ((uintptr_t)address + bytes + page - 1) / page * page;
  uint64_t bits[BOX_PAGES_WORDS];
  for (; start < end; start += BOX_PAGES_EACH * page) {
    size_t pages = (end - start) / page < BOX_PAGES_EACH ? (end - start) / page : BOX_PAGES_EACH;
    if (!os_pages_present(box->pages, start, pages, bits)) {
      keep(box, start, end);
      return;
    }
    for (size_t i = 0; i < pages; i++)
      if ((bits[i / BOX_WORD] >> i % BOX_WORD & 1) != 0)
        keep(box, start + i * page, start + (i + 1) * page);
  }
}

void box_keep_head(struct box *box, uintptr_t start) {
  char head[SELFMAG] = {0};
  /* The kernel reads it, since the file may be shorter by now. What is written here is written over. */
  if (os_file_put_at(box->file, (const void *)start, sizeof head, box->at) != 0 || // NOLINT
      !os_file_get_at(box->file, head, sizeof head, box->at))
    return;
  if (memcmp(head, ELFMAG, SELFMAG) == 0) keep(box, start, start + os_page_size());
}

/* --- the allocator's tables --------------------------------------------------------------------------------- */

#define KEEP(object) keep_present(box, &(object), sizeof(object))

static void keep_samples(struct box *box) {
  KEEP(samples);
  KEEP(requests);
  KEEP(guarded_pages);
  KEEP(guarded_slots);
  for (unsigned i = 0; i < SAMPLE_STACK_CHUNKS; i++) {
    const char *chunk = atomic_load_explicit(&samples.stack_chunks[i], memory_order_acquire);
    if (chunk != NULL) keep_present(box, chunk, SAMPLE_STACK_CHUNK_BYTES);
  }
  for (unsigned i = 0; i < SAMPLE_RECORD_CHUNKS; i++) {
    const struct sample_record *chunk =
        atomic_load_explicit(&samples.record_chunks[i], memory_order_acquire);
    if (chunk == NULL) break;
    keep_present(box, chunk, sizeof *chunk * SAMPLE_RECORDS_A_CHUNK);
  }
}

/* Pointers are meant. NOLINTBEGIN(bugprone-sizeof-expression) */
static void keep_figures(struct box *box) {
  KEEP(hakmem_directory);
  KEEP(directory_layout);
  KEEP(option_table);
  KEEP(option_values);
  KEEP(option_sources);
  KEEP(cache_none);
  KEEP(heap_started);
  KEEP(arena_all);
  KEEP(superslab_lists);
  KEEP(unit_counts);
  KEEP(unit_pool);
  KEEP(unit_stuck);
  KEEP(meta_chunks);
  KEEP(os_counts);
  KEEP(counters_shared);
  KEEP(counters_supplied);
  KEEP(absent_lost);
}
/* NOLINTEND(bugprone-sizeof-expression) */

/* Of the units of a leaf. Those of Huge blocks are shorter. */
static void keep_descriptors(struct box *box, const struct map_leaf *leaf) {
  for (size_t i = 0; i < LEAF_UNITS; i++) {
    /* relaxed: the kernel reads what it leads to */
    const struct superslab *superslab =
        atomic_load_explicit(&leaf->superslabs[i], memory_order_relaxed);
    if (superslab != NULL) keep_present(box, superslab, sizeof *superslab);
  }
}

/* Each leaf of the address map. Pages of the root that nobody has touched are not read: reading would make them. */
static void keep_map(struct box *box) {
  uint64_t bits[BOX_PAGES_WORDS];
  const size_t each = os_page_size() / sizeof map.root[0];
  _Static_assert(sizeof map.root < BOX_PAGES_EACH * 4 * KIB, "one look is enough");
  if (!os_pages_present(box->pages, (uintptr_t)map.root, sizeof map.root / os_page_size() + 1,
                        bits))
    memset(bits, -1, sizeof bits);
  KEEP(map.root);
  for (size_t i = 0; i < MAP_LEAVES; i++) {
    size_t page = i / each;
    if ((bits[page / BOX_WORD] >> page % BOX_WORD & 1) == 0) continue;
    int64_t distance = atomic_load_explicit(&map.root[i], memory_order_relaxed);
    if (distance == 0) continue;
    const char *leaf = (const char *)&map + distance * (int64_t)sizeof(void *);
    keep_present(box, leaf, sizeof(struct map_leaf));
    if (HAK_HARDENED) keep_descriptors(box, (const struct map_leaf *)(const void *)leaf);
  }
}

/* The list only grows at its front. */
static void keep_heaps(struct box *box) {
  /* Of a thread, or of the program. */
  enum { OF_THREAD = sizeof(struct heap) - offsetof(struct heap, arena) };
  size_t bytes = OF_THREAD > sizeof(struct hak_heap) ? OF_THREAD : sizeof(struct hak_heap);
  /* acquire, as all who follow the list */
  const struct arena *arena = atomic_load_explicit(&arena_all, memory_order_acquire);
  for (; arena != NULL; arena = arena->next) {
    keep_present(box, arena, bytes);
    if (arena->counters != NULL) keep_present(box, arena->counters, sizeof *arena->counters);
  }
}

/* Without the lock that guards the list: it only grows at its front, and a chunk that is not filled in yet reads as zeros. In the hardened
 * variant most of a chunk says which blocks live, 6% of all memory: that matters where a message tells addresses, and is asked of no
 * other box. What else is in it was kept before. */
__attribute__((no_sanitize("thread"))) static void keep_chunks(struct box *box) {
  bool is_whole = !HAK_HARDENED || box->facts.reason == BOX_MESSAGE;
  KEEP(meta_first_chunk);
  const volatile struct meta_chunk *chunk = *(struct meta_chunk *const volatile *)&meta_chunks;
  for (; chunk != NULL && chunk->bytes != 0; chunk = chunk->next)
    keep_present(box, (const void *)(uintptr_t)chunk, is_whole ? chunk->bytes : sizeof *chunk);
}

void box_keep_tables(struct box *box) {
  keep_figures(box);
  keep_samples(box);
  keep_map(box);
  keep_heaps(box);
  keep_chunks(box);
}

/* --- what is mapped ------------------------------------------------------------------------------------------- */

bool box_maps_open(struct box *box) {
  box->text_at = box->text_end = 0;
  box->maps = os_file_open("/proc/thread-self/maps", OS_FILE_READ);
  return box->maps >= 0;
}

void box_maps_close(struct box *box) { os_file_close(box->maps); }

/* Where the next line begins, which is there whole; NULL: there is none. Of one that is longer than the room, which no path makes, the rest is a line. */
static const char *next_line(struct box *box) {
  for (;;) {
    char *start = box->text + box->text_at;
    char *end = memchr(start, '\n', box->text_end - box->text_at);
    if (end != NULL) {
      *end = 0;
      box->text_at = (size_t)(end - box->text) + 1;
      return start;
    }
    box->text_end -= box->text_at;
    memmove(box->text, start, box->text_end);
    box->text_at = 0;
    if (box->text_end == sizeof box->text) box->text_end = 0;
    ptrdiff_t length =
        os_file_read(box->maps, box->text + box->text_end, sizeof box->text - box->text_end);
    if (length <= 0) return NULL;
    box->text_end += (size_t)length;
  }
}

static uint64_t take_number(const char **at, unsigned base) {
  uint64_t number = 0;
  for (;; ++*at) {
    unsigned digit = **at >= 'a' ? (unsigned)(**at - 'a') + 10 : (unsigned)(**at - '0');
    if (digit >= base) return number;
    number = number * base + digit;
  }
}

static void skip_word(const char **at) {
  while (**at != 0 && **at != ' ') ++*at;
  while (**at == ' ') ++*at;
}

/* "start-end rwxp offset device inode path" */
bool box_next_mapping(struct box *box, struct box_mapping *mapping) {
  enum { HEXADECIMAL = 16, DECIMAL = 10 };
  const char *at = next_line(box);
  if (at == NULL) return false;
  mapping->start = take_number(&at, HEXADECIMAL);
  at += *at == '-';
  mapping->end = take_number(&at, HEXADECIMAL);
  at += *at == ' ';
  mapping->readable = *at == 'r';
  skip_word(&at);
  mapping->offset = take_number(&at, HEXADECIMAL);
  skip_word(&at);
  skip_word(&at); /* the device */
  mapping->inode = take_number(&at, DECIMAL);
  return true;
}
#endif
