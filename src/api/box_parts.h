/* box_parts.h - which memory a black box has (blackbox.c). */
#ifndef HAK_BOX_PARTS_H
#define HAK_BOX_PARTS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observe/box.h"

enum { BOX_SPECIAL = 3, BOX_HEADERS = 4096, BOX_TEXT = 16 * 1024 };

/* One that is being written. */
struct box {
  int file, pages, error; /* pages: of os_open_pages */
  uint64_t at;            /* bytes of the file so far */
  uint64_t planned, cut;  /* bytes of tables that are kept, and that have no room */
  size_t count;           /* of headers: BOX_SPECIAL ones, then pieces by address */
  Elf64_Phdr headers[BOX_HEADERS];
  struct box_facts facts;
  int maps;
  size_t text_at, text_end; /* what of the text is not read yet */
  _Alignas(8) char text[BOX_TEXT];
};

/* Tables get half of the room, but for the headers and the last piece of text. */
#define BOX_TABLES_MOST (BOX_BYTES_MOST / 2 - sizeof(struct box))

struct box_mapping {
  uintptr_t start, end;
  uint64_t offset, inode;
  bool readable;
};

/** What release/box.h calls box_write. */
int box_write_now(enum box_reason reason, size_t resident, size_t limit);

/** The address of the directory, and the machine as ELF counts them. */
uintptr_t box_directory(void);
uint16_t box_machine(void);

/** Keeps the allocator's tables, those that matter most first. */
void box_keep_tables(struct box *box);
/** Keeps the page there if it begins as an ELF file does. */
void box_keep_head(struct box *box, uintptr_t start);

/** The lines of /proc/self/maps. False: it cannot be read. */
bool box_maps_open(struct box *box);
void box_maps_close(struct box *box);
/** False: there are no more. */
bool box_next_mapping(struct box *box, struct box_mapping *mapping);

#endif
