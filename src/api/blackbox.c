/* blackbox.c - writes a black box: an ELF core file with the allocator's own tables (observe/box.h).
 *
 * The helper writes it, which allocates nothing; a thread whose allocation failed; or one that a message ends. What it has lies in one
 * static structure: no stack is asked for much, and a process that never writes one touches none of it. Other threads go on meanwhile and
 * change what is being written. A reader takes it as it takes the memory of a process that lives.
 */
#include "observe/box.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "api/box_files.h"
#include "api/box_parts.h"
#include "hakmem.h"
#include "heap/heap.h"
#include "observe/report.h"
#include "os/file.h"
#include "policy/options.h"
#include "release/box.h"

#if !HAK_FAST

static struct box box;
/* The process of which a thread writes; 0: none. In the child of a fork that thread is not. */
static _Atomic uint32_t writer;

/* --- what is written ------------------------------------------------------------------------------------------ */

/* What memory does not have any more is left out: the file has a shorter piece. */
static size_t put(const void *from, size_t bytes) {
  size_t written = 0;
  if (box.error == 0) box.error = os_file_put(box.file, from, bytes, &written);
  box.at += written;
  return written;
}

static void put_known(const void *from, size_t bytes) { (void)put(from, bytes); }

static void begin_part(unsigned number, uint32_t type) {
  box.headers[number] = (Elf64_Phdr){.p_type = type, .p_offset = box.at};
}

static void end_part(unsigned number) {
  box.headers[number].p_filesz = box.at - box.headers[number].p_offset;
}

static void put_facts(enum box_reason reason, size_t resident, size_t limit) {
  const uint64_t second = 1000000000;
  struct timespec now = {0};
  struct box_facts *facts = &box.facts;
  os_time(CLOCK_REALTIME, &now);
  *facts = (struct box_facts){
      .version = BOX_VERSION,
      .bytes = sizeof *facts,
      .reason = reason,
      .process = (uint32_t)os_process(),
      .written_ns = (uint64_t)now.tv_sec * second + (uint64_t)now.tv_nsec,
      .clock_ms = os_clock_ms(),
      .resident = resident,
      .limit = limit,
      .directory = box_directory(),
      .program = os_program_headers(),
  };
  os_program_name(facts->name, sizeof facts->name);
  int file = os_file_open("/proc/thread-self/cmdline", OS_FILE_READ);
  if (file >= 0) {
    ptrdiff_t length = os_file_read(file, facts->arguments, sizeof facts->arguments - 1);
    for (ptrdiff_t i = 0; i + 1 < length; i++)
      if (facts->arguments[i] == 0) facts->arguments[i] = ' ';
    os_file_close(file);
  }
  report_last(facts->said, sizeof facts->said);
  begin_part(0, BOX_FACTS);
  put_known(facts, sizeof *facts);
  end_part(0);
}

static void put_maps(void) {
  begin_part(1, BOX_MAPS);
  if (box_maps_open(&box)) {
    ptrdiff_t length = 1;
    while (length > 0 && box.error == 0 && box.at < BOX_BYTES_MOST / 2) {
      length = os_file_read(box.maps, box.text, sizeof box.text);
      if (length > 0) put_known(box.text, (size_t)length);
    }
    box_maps_close(&box);
  }
  end_part(1);
}

static void put_pages_of(uintptr_t start, uintptr_t end) {
  struct box_pages pages;
  uintptr_t page = os_page_size();
  for (; start < end && box.at < BOX_BYTES_MOST / 2; start += BOX_PAGES_EACH * page) {
    uint64_t any = 0;
    size_t count = (end - start) / page < BOX_PAGES_EACH ? (end - start) / page : BOX_PAGES_EACH;
    pages = (struct box_pages){.start = start};
    if (!os_pages_present(box.pages, start, count, pages.present)) return;
    for (unsigned i = 0; i < BOX_PAGES_WORDS; i++) any |= pages.present[i];
    if (any != 0) put_known(&pages, sizeof pages);
  }
}

/* Pages of what no file has; and the first page of each file is kept. */
static void put_pages(void) {
  struct box_mapping mapping;
  uint64_t last = 0;
  /* Address space that is hardly in memory is left out: sanitizers map terabytes. */
  enum { WINDOWS_LEAST = 1 << 15, SHARE = 4 };
  size_t window = BOX_PAGES_EACH * os_page_size();
  uint64_t left = WINDOWS_LEAST + SHARE * box.facts.resident / window;
  begin_part(2, BOX_PAGES);
  if (box_maps_open(&box)) {
    while (box.error == 0 && box_next_mapping(&box, &mapping)) {
      uint64_t windows = (mapping.end - mapping.start) / window + 1;
      if (mapping.inode == 0 && mapping.readable && windows <= left) {
        left -= windows;
        put_pages_of(mapping.start, mapping.end);
      }
      if (mapping.inode != 0 && mapping.inode != last && mapping.readable && mapping.offset == 0)
        box_keep_head(&box, mapping.start);
      last = mapping.inode;
    }
    box_maps_close(&box);
  }
  end_part(2);
}

static void put_tables(void) {
  for (size_t i = BOX_SPECIAL; i < box.count && box.error == 0; i++) {
    Elf64_Phdr *header = &box.headers[i];
    header->p_offset = box.at;
    header->p_filesz = put((const void *)(uintptr_t)header->p_vaddr, header->p_memsz); // NOLINT
    if (box.error == EFAULT) box.error = 0; /* it was unmapped meanwhile */
  }
}

static void put_headers(void) {
  Elf64_Ehdr head = {
      .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
      .e_type = ET_CORE,
      .e_machine = box_machine(),
      .e_version = EV_CURRENT,
      .e_phoff = box.at,
      .e_ehsize = sizeof head,
      .e_phentsize = sizeof box.headers[0],
      .e_phnum = (uint16_t)box.count};
  _Static_assert(sizeof head == BOX_FACTS_AT, "facts come behind it");
  put_known(box.headers, box.count * sizeof box.headers[0]);
  box.facts.cut = box.cut;
  if (box.error == 0)
    box.error = os_file_put_at(box.file, &box.facts, sizeof box.facts, BOX_FACTS_AT);
  if (box.error == 0) box.error = os_file_put_at(box.file, &head, sizeof head, 0);
}

/* --- the file --------------------------------------------------------------------------------------------------- */

static int write_once(enum box_reason reason, size_t resident, size_t limit) {
  static const char zeros[BOX_FACTS_AT];
  char unfinished[BOX_PATH_ROOM];
  if (os_limit(RLIMIT_FSIZE) < BOX_BYTES_MOST) return EFBIG; /* it would be a signal */
  box.file = box_make_unfinished(unfinished);
  if (box.file < 0) return -box.file;
  box.at = box.planned = box.cut = 0;
  box.count = BOX_SPECIAL;
  box.error = 0;
  box.pages = os_open_pages();
  put_known(zeros, sizeof zeros);
  put_facts(reason, resident, limit);
  box_keep_tables(&box); /* before the maps are read, which have all of them then */
  put_maps();
  put_pages();
  put_tables();
  put_headers();
  os_close_pages(box.pages);
  int error = os_file_finish(box.file);
  if (box.error != 0) error = box.error;
  if (error == 0) error = box_finish(unfinished);
  if (error != 0) os_file_remove(unfinished);
  return error;
}

/* What processes left that were killed while they wrote may be what has filled the disk. */
static int write_file(enum box_reason reason, size_t resident, size_t limit) {
  int error = write_once(reason, resident, limit);
  box_bound(box.text, sizeof box.text);
  return error == ENOSPC || error == EDQUOT ? write_once(reason, resident, limit) : error;
}

/* Waits for a thread that is writing, and has its turn then: the process may end with what this one is about. */
static bool claim(void) {
  enum { PATIENCE_MS = 1000 };
  uint32_t self = (uint32_t)os_process();
  for (int i = 0; i < PATIENCE_MS; i++) {
    uint32_t other = atomic_load_explicit(&writer, memory_order_relaxed);
    /* acquire, with the release below: the structure is seen as the last writer left it */
    if (other != self && atomic_compare_exchange_strong_explicit(
                             &writer, &other, self, memory_order_acquire, memory_order_relaxed))
      return true;
    os_sleep_on(&writer, self, 1);
  }
  return false;
}

int box_write_now(enum box_reason reason, size_t resident, size_t limit) {
  int saved = errno;
  if (!claim()) return EBUSY;
  int error = write_file(reason, resident, limit);
  atomic_store_explicit(&writer, 0, memory_order_release);
  errno = saved;
  return error;
}

/* Is it "HAKMEM_BLACKBOX=" with a relative directory? The name is in the code: programs that never allocate would map 64 KB of the library for a
 * constant, or for os_env. */
static inline bool is_relative_directory(const char *entry) {
  enum { HALF = 8, BITS = 8 };
  const uint64_t first = UINT64_C(0x425f4d454d4b4148), second = UINT64_C(0x3d584f424b43414c);
  for (unsigned i = 0; i < 2 * HALF; i++)
    if ((unsigned char)entry[i] != (unsigned char)((i < HALF ? first : second) >> i % HALF * BITS))
      return false;
  return entry[2 * HALF] != '/' && entry[2 * HALF] != 0;
}

/* A directory is made absolute when options are read, at the first block: a daemon without one may have left for / by then. */
HAK_AT_LOAD static void note_relative_directory(void) {
  extern char **environ;
  for (char **entry = environ; entry != NULL && *entry != NULL; entry++)
    if (is_relative_directory(*entry)) (void)heap_start();
}

__attribute__((constructor)) HAK_AT_LOAD static void at_load(void) {
  box_write = box_write_now;
  atomic_store_explicit(&os_last_words, box_write_last,
                        memory_order_relaxed); /* a function, and no data */
  note_relative_directory();
}

#endif
