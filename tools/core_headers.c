/* core_headers.c - see core.h: which memory a core has. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core.h"

/* 65,535 of them or more are counted elsewhere: in the first section's header. */
static bool count_headers(const struct core *core, const Elf64_Ehdr *header, uint64_t *count) {
  Elf64_Shdr section;
  *count = header->e_phnum;
  if (header->e_phnum != PN_XNUM) return true;
  if (!core_read_file(core, header->e_shoff, &section, sizeof section)) return false;
  *count = section.sh_info;
  return true;
}

static int by_start(const void *a, const void *b) {
  const struct core_segment *left = a, *right = b;
  return left->start < right->start ? -1 : left->start > right->start;
}

static void add_segment(struct core *core, const Elf64_Phdr *header) {
  uint64_t bytes = header->p_memsz, promised = header->p_filesz;
  if (bytes == 0 || header->p_vaddr > UINT64_MAX - bytes || header->p_vaddr % core->page != 0)
    return;
  if (promised > bytes) promised = bytes;
  uint64_t there = header->p_offset < core->size ? core->size - header->p_offset : 0;
  core->segments[core->segment_count++] = (struct core_segment){
      .start = header->p_vaddr,
      .end = header->p_vaddr + bytes,
      .offset = header->p_offset,
      .promised = promised,
      .filed = promised < there ? promised : there,
      .rights = header->p_flags,
  };
}

/* By address. Of two that lie over each other the first counts; and they have no more bytes together than the file, so that nobody
 * can name the same ones again and again. */
static void settle(struct core *core) {
  uint64_t end = 0, filed = 0, pages = 0;
  size_t used = 0;
  if (core->segment_count > 0)
    qsort(core->segments, core->segment_count, sizeof *core->segments, by_start);
  for (size_t i = 0; i < core->segment_count; i++) {
    struct core_segment segment = core->segments[i];
    if (segment.start < end) continue;
    end = segment.end;
    if (segment.filed > core->size - filed) segment.filed = 0;
    filed += segment.filed;
    core->missing += segment.promised - segment.filed;
    segment.first_page = pages;
    pages += (segment.filed + core->page - 1) / core->page;
    core->segments[used++] = segment;
  }
  core->segment_count = used;
}

int core_read_headers(struct core *core, struct core_span notes[CORE_NOTES_MOST],
                      size_t *note_count) {
  Elf64_Ehdr header;
  Elf64_Phdr segment;
  uint64_t count = 0;
  bool whole = core_read_file(core, 0, &header, sizeof header) &&
               header.e_phentsize == sizeof segment && count_headers(core, &header, &count) &&
               header.e_phoff <= core->size && count > 0 &&
               count <= (core->size - header.e_phoff) / sizeof segment;
  if (!whole) {
    complain("%s: is cut within its headers, or damaged: nothing can be read of it", core->path);
    return EXIT_CANNOT_RUN;
  }
  core->segments = calloc(count, sizeof *core->segments);
  if (core->segments == NULL) {
    complain("out of memory");
    return 1;
  }
  for (uint64_t i = 0; i < count; i++) {
    if (!core_read_file(core, header.e_phoff + i * sizeof segment, &segment, sizeof segment)) break;
    if (segment.p_type == PT_LOAD) add_segment(core, &segment);
    core_note_box(core, &segment);
    if (segment.p_type == PT_NOTE && *note_count < CORE_NOTES_MOST)
      notes[(*note_count)++] = (struct core_span){segment.p_offset, segment.p_filesz};
  }
  settle(core);
  return 0;
}
