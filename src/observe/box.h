/* box.h - a black box: what a tool needs to know of a process' memory, in a file (api/blackbox.c writes it, tools/core_box.c reads it).
 *
 * It is an ELF core file, so that the readers of cores read it. Its PT_LOADs have the allocator's own tables, and the first page of each
 * file that was mapped, where its build-id is. Nothing of the program's blocks, stacks or variables is in it. Three program headers of types of our
 * own lead to what a core has no place for.
 *
 * Later versions only add at the end of a structure; `version` changes when a field means something else.
 */
#ifndef HAK_OBSERVE_BOX_H
#define HAK_OBSERVE_BOX_H

#include <stdint.h>

/* Types of program headers, in the range that ELF leaves to systems. */
#define BOX_FACTS 0x68616b01U /* struct box_facts */
#define BOX_MAPS 0x68616b02U  /* /proc/PID/maps, as the kernel wrote it */
#define BOX_PAGES 0x68616b03U /* struct box_pages, by address: memory that no file has */

#define BOX_NAME                                                                                   \
  "hakmem-" /* DIR/hakmem-PID-N.box, and while it is written DIR/hakmem-PID-XXXXXXXX.tmp */
#define BOX_ENDING ".box"
#define BOX_UNFINISHED ".tmp"

/* Of a process four files stay; of the directory 32, the last one of each process before others. */
enum { BOX_VERSION = 1, BOX_FILES = 4, BOX_FILES_ALL = 32, BOX_FACTS_AT = 64 };
/* The most that a file takes: about what the tables of 20 GiB of small blocks need. */
#define BOX_BYTES_MOST (32 * 1024 * 1024)

/* Why it was written. */
enum box_reason {
  BOX_NOTHING,
  BOX_AT,            /* HAKMEM_BLACKBOX_MB are resident */
  BOX_LIMIT,         /* nine tenths of the container's limit are used, or memory.high */
  BOX_ADDRESS_SPACE, /* nine tenths of RLIMIT_AS */
  BOX_FAILURE,       /* an allocation failed */
  BOX_MESSAGE,       /* a message ends the process */
  BOX_REASONS
};

struct box_facts {
  uint32_t version, bytes;
  uint32_t reason, process;
  uint64_t written_ns; /* since 1970 */
  uint64_t clock_ms;   /* of the clock that samples have */
  uint64_t resident;   /* bytes, of the whole process */
  uint64_t limit;      /* bytes, which was reached; 0: none */
  uint64_t cut;        /* bytes of tables that had no room */
  uint64_t directory;  /* observe/directory.h: its address */
  uint64_t program;    /* an address in the program's own file */
  char name[16], arguments[128];
  char said[256]; /* the last message; "": none */
};

enum { BOX_WORD = 64, BOX_PAGES_WORDS = 8, BOX_PAGES_EACH = BOX_WORD * BOX_PAGES_WORDS };
struct box_pages {
  uint64_t start;                    /* address of the first of BOX_PAGES_EACH pages */
  uint64_t present[BOX_PAGES_WORDS]; /* a bit for each page that is in memory, lowest first */
};

#endif
