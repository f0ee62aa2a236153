/* core.h - a core file: what was in the memory of a process when it ended, or when gcore was called.
 *
 * Its program headers name pieces of memory, of which the file has all, the beginning, or nothing. Notes tell which files were
 * mapped where, what the threads were doing and what ended the process. What is left out because a file has it is read from that
 * file, if it is still the same one: its build-id is compared with the one that the core has in memory.
 *
 * The file may be damaged, cut, or made up by somebody: every number in it is checked before it is used, and what is kept of
 * it grows with the size of the file, not with what it says.
 */
#ifndef HAKMEM_CORE_H
#define HAKMEM_CORE_H

#include <elf.h>
#include <limits.h>

#include "observe/box.h"
#include "target.h"

/* Memory that a program header names. */
struct core_segment {
  uint64_t start, end;    /* addresses */
  uint64_t offset, filed; /* where the file has its beginning, and how many bytes of it */
  uint64_t
      promised; /* bytes that the headers say the file has: more than `filed` where it was cut */
  uint64_t first_page; /* of it in `present` */
  uint32_t rights;     /* PF_R, PF_W, PF_X */
};

/* A file that was mapped. */
struct core_file {
  char *path;    /* as it was */
  uint64_t base; /* where it was mapped from its beginning on; 0: nowhere */
  int fd;        /* -1: not opened */
  bool tried;
  char *found;     /* where it was found */
  const char *why; /* it cannot be used: why not; NULL: it can, or nobody has tried */
  bool checked;    /* it has the build-id of what was mapped */
};

struct core_mapping {
  uint64_t start, end, offset;
  uint32_t file; /* number in `files` */
};

enum { CORE_REGISTERS = 34 };

struct core_thread {
  int number, signal;
  uint64_t pc, stack; /* 0: not known on this machine */
};

/* What the user says beside the file. */
struct core_places {
  const char *root;      /* files are looked for below it; NULL: below ours */
  const char *debug_dir; /* also here, by build-id; NULL: nowhere */
};

/* A part of the file. */
struct core_span {
  uint64_t offset, bytes;
};

enum { CORE_BOX_PARTS = 3 };

struct core {
  const char *path;
  struct core_places places;
  int fd;
  uint64_t size;    /* of the file */
  int64_t written;  /* when, in seconds since 1970 */
  uint64_t missing; /* bytes that the headers promise beyond its end */
  size_t page;
  struct core_segment *segments; /* by address, none over another */
  size_t segment_count;
  struct core_mapping *mappings; /* by address, none over another */
  size_t mapping_count;
  struct core_file *files;
  size_t file_count;
  struct core_thread *threads; /* the one that ended it is the first */
  size_t thread_count;
  int pid;
  char program[20], arguments[84];
  int signal; /* perhaps a debugger's */
  bool has_info;
  int code;                           /* si_code */
  uint64_t address;                   /* si_addr: of signals of the processor */
  int sender;                         /* si_pid: of others */
  uint64_t entry, vdso;               /* of NT_AUXV; 0: not known */
  uint64_t registers[CORE_REGISTERS]; /* of the first thread, as core_register_name counts them */
  char *maps;
  size_t maps_length;
  struct core_span box_parts[CORE_BOX_PARTS];
  bool is_box; /* the library wrote it: it has the allocator's tables alone */
  struct box_facts box;
  struct box_pages
      *pages; /* of a box, by address: which pages of what no file has were in memory */
  size_t page_count;
  uint64_t *
      present; /* a bit for each page that the file has and that is not zeros; NULL: nobody has asked */
};

/** Opens it; 0, or an exit code after a complaint. Then core_close. */
int core_open(struct core **core, const char *path, const struct core_places *places);
void core_close(struct core *core);

/** Does the file begin as a core, or as a compressed one? */
bool core_is_file(const char *path);

bool core_read(struct core *core, uint64_t address, void *to, size_t bytes);
bool core_read_kept(const struct core *core, uint64_t address, void *to, size_t bytes);
FILE *core_maps(const struct core *core);

/** The segment that an address lies in; NULL: none. */
const struct core_segment *core_segment_at(const struct core *core, uint64_t address);
/** The mapping of a file that an address lies in; NULL: none. */
const struct core_mapping *core_mapping_at(const struct core *core, uint64_t address);
/** The file of a mapping, open; -1: it is not to be had, and its `why` says why. The descriptor is the core's. */
int core_file_open(struct core *core, struct core_file *file);
/** The file that was mapped from this address on; NULL: none was. */
struct core_file *core_file_at(struct core *core, uint64_t start);
/** The program's own path; "": not known. */
const char *core_program_path(const struct core *core);
/** The thread of this number; NULL: there was none. */
const struct core_thread *core_thread(const struct core *core, int number);

/** The name of a register that may hold an address; NULL: it holds none, or is none. */
const char *core_register_name(unsigned number);

/** Is the page at `address` one that the file has, and not all zeros? False also where there is no memory for the answer. */
bool core_has_page(struct core *core, uint64_t address);

/** How many such pages lie from `start` to `end`. */
uint64_t core_pages(struct core *core, uint64_t start, uint64_t end);

/* --- the parts of core_open ------------------------------------------------------------------------------- */

/** A file to be read in place of a compressed one, which `fd` is; -1 after a complaint. */
int core_unpack(int fd, const char *path);
/** Program headers. 0, or an exit code after a complaint. `notes` is where the notes lie. */
enum { CORE_NOTES_MOST = 64 };
int core_read_headers(struct core *core, struct core_span notes[CORE_NOTES_MOST],
                      size_t *note_count);
/** What notes say; what makes no sense is left out. False: out of memory. */
bool core_read_notes(struct core *core, struct core_span notes);
/** Adds a mapping, of which `file` is not set yet, to `mappings`, which has room for it, as has `files`. False: out of memory. */
bool core_add_mapping(struct core *core, const char *path, struct core_mapping mapping);
/** By address; of two that lie over each other the first counts. */
void core_settle_mappings(struct core *core);
/** A program header of a type that boxes alone have, perhaps. */
void core_note_box(struct core *core, const Elf64_Phdr *header);
/** What a box has beside pieces of memory. False: out of memory. */
bool core_read_box(struct core *core);
/** Facts as a box has them; false: they make no sense. */
bool box_take_facts(struct box_facts *facts, const void *bytes, size_t count);
/** Why a box was written, in a few words; in `text`. */
enum { BOX_WHY_ROOM = 300 };
const char *box_why(const struct box_facts *facts, char text[BOX_WHY_ROOM]);
bool core_box_has_page(const struct core *core, uint64_t address);
uint64_t core_box_pages(const struct core *core, uint64_t start, uint64_t end);
/** Writes the lines of `maps`; false: out of memory. */
bool core_make_maps(struct core *core);

/** Copies bytes of the file; false where it has not as many. */
bool core_read_file(const struct core *core, uint64_t offset, void *to, size_t bytes);

#endif
