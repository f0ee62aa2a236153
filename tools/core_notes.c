/* core_notes.c - see core.h: what the notes of a core say of the process, its threads and its files. */
#define _GNU_SOURCE
#include <elf.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>

#include "core.h"
#include "remote.h"

enum { NOTES_BYTES_MOST = 1 << 28, THREADS_MOST = 1 << 15 };

/* A note's content. */
struct content {
  const char *bytes;
  size_t size;
};

static uint64_t word_at(struct content content, size_t index) {
  uint64_t word = 0;
  if (index < content.size / sizeof word)
    memcpy(&word, content.bytes + index * sizeof word, sizeof word);
  return word;
}

/* --- threads ------------------------------------------------------------------------------------------------ */

/* Places of the program counter and the stack pointer among the registers. */
#if defined(__x86_64__)
enum { PC = 16, STACK = 19 };
static const char *const register_names[CORE_REGISTERS] = {"r15", "r14", "r13", "r12", "rbp",
                                                           "rbx", "r11", "r10", "r9",  "r8",
                                                           "rax", "rcx", "rdx", "rsi", "rdi"};
#elif defined(__aarch64__)
enum { PC = 32, STACK = 31 };
static const char *const register_names[CORE_REGISTERS] = {
    "x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",  "x8",  "x9",  "x10",
    "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21",
    "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30"};
#else
enum { PC = -1, STACK = -1 };
static const char *const register_names[CORE_REGISTERS];
#endif

const char *core_register_name(unsigned number) {
  return number < CORE_REGISTERS ? register_names[number] : NULL;
}

static uint64_t get_register(const struct elf_prstatus *status, int index) {
  uint64_t word = 0;
  if (index >= 0 && (size_t)(index + 1) * sizeof word <= sizeof status->pr_reg)
    memcpy(&word, (const char *)&status->pr_reg + (size_t)index * sizeof word, sizeof word);
  return word;
}

static bool add_thread(struct core *core, struct content content) {
  struct elf_prstatus status;
  if (content.size < sizeof status || core->thread_count == THREADS_MOST) return true;
  memcpy(&status, content.bytes, sizeof status);
  /* As many places as the next power of two. */
  if ((core->thread_count & (core->thread_count - 1)) == 0) {
    size_t room = core->thread_count == 0 ? 1 : 2 * core->thread_count;
    struct core_thread *more = reallocarray(core->threads, room, sizeof *more);
    if (more == NULL) return false;
    core->threads = more;
  }
  if (core->thread_count == 0) {
    core->signal = status.pr_cursig;
    for (int i = 0; i < CORE_REGISTERS; i++) core->registers[i] = get_register(&status, i);
  }
  core->threads[core->thread_count++] = (struct core_thread){
      .number = status.pr_pid,
      .signal = status.pr_cursig,
      .pc = get_register(&status, PC),
      .stack = get_register(&status, STACK),
  };
  return true;
}

/* The kernel writes one for the process, gdb one for each thread: the first is of the thread that ended it. */
static void take_signal(struct core *core, struct content content) {
  siginfo_t info;
  if (content.size < sizeof info || core->has_info) return;
  memcpy(&info, content.bytes, sizeof info);
  core->has_info = true;
  core->code = info.si_code;
  if (core->signal == 0) core->signal = info.si_signo;
  bool of_processor = info.si_signo == SIGSEGV || info.si_signo == SIGBUS ||
                      info.si_signo == SIGILL || info.si_signo == SIGFPE ||
                      info.si_signo == SIGTRAP;
  if (of_processor && info.si_code > 0) core->address = (uintptr_t)info.si_addr;
  else if (info.si_code <= 0) core->sender = info.si_pid;
}

static void take_process(struct core *core, struct content content) {
  struct elf_prpsinfo process;
  if (content.size < sizeof process || core->program[0] != 0) return;
  memcpy(&process, content.bytes, sizeof process);
  core->pid = process.pr_pid;
  memcpy(core->program, process.pr_fname, sizeof process.pr_fname);
  memcpy(core->arguments, process.pr_psargs, sizeof process.pr_psargs);
  make_printable(core->program, sizeof core->program);
  make_printable(core->arguments, sizeof core->arguments);
}

static void take_vector(struct core *core, struct content content) {
  for (size_t i = 0; i + 1 < content.size / sizeof(uint64_t); i += 2) {
    uint64_t type = word_at(content, i), value = word_at(content, i + 1);
    if (type == AT_NULL) break;
    if (type == AT_ENTRY) core->entry = value;
    if (type == AT_SYSINFO_EHDR) core->vdso = value;
  }
}

/* --- files --------------------------------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b) {
  const struct core_mapping *left = a, *right = b;
  return left->start < right->start ? -1 : left->start > right->start;
}

/* The number of a path, which the mappings of a file name one after the other. False: out of memory. */
static bool number_file(struct core *core, const char *path, uint32_t *number) {
  enum { LAST = 16 }; /* of more files than these a name may stand twice, which does no harm */
  for (size_t i = core->file_count; i > 0 && core->file_count - i < LAST; i--) {
    if (strcmp(core->files[i - 1].path, path) != 0) continue;
    *number = (uint32_t)(i - 1);
    return true;
  }
  char *copy = strdup(path);
  if (copy == NULL) return false;
  *number = (uint32_t)core->file_count;
  core->files[core->file_count++] = (struct core_file){.path = copy, .fd = -1};
  return true;
}

void core_settle_mappings(struct core *core) {
  uint64_t end = 0;
  size_t used = 0;
  if (core->mapping_count > 0)
    qsort(core->mappings, core->mapping_count, sizeof *core->mappings, by_start);
  for (size_t i = 0; i < core->mapping_count; i++) {
    if (core->mappings[i].start < end) continue;
    end = core->mappings[i].end;
    core->mappings[used++] = core->mappings[i];
  }
  core->mapping_count = used;
}

bool core_add_mapping(struct core *core, const char *path, struct core_mapping mapping) {
  if (!number_file(core, path, &mapping.file)) return false;
  core->mappings[core->mapping_count++] = mapping;
  if (mapping.offset == 0 && core->files[mapping.file].base == 0)
    core->files[mapping.file].base = mapping.start;
  return true;
}

/* Their number and the size of a page; of each start, end and place in the file, in pages; then their names. */
static bool take_files(struct core *core, struct content content) {
  enum { HEAD = 2, WORDS = 3, FILES_MOST = 1 << 16, PATH_LONGEST = PATH_MAX };
  uint64_t count = word_at(content, 0), page = word_at(content, 1);
  if (core->mapping_count > 0 || page == 0 || page > 1 << 24 ||
      count > content.size / (WORDS * sizeof(uint64_t)))
    return true;
  size_t names = (HEAD + WORDS * count) * sizeof(uint64_t);
  if (names > content.size) return true;
  core->mappings = calloc(count + 1, sizeof *core->mappings);
  core->files = calloc(count + 1 < FILES_MOST ? count + 1 : FILES_MOST, sizeof *core->files);
  if (core->mappings == NULL || core->files == NULL) return false;
  const char *name = content.bytes + names, *end = content.bytes + content.size;
  for (uint64_t i = 0; i < count && core->file_count < FILES_MOST; i++) {
    struct core_mapping mapping = {.start = word_at(content, HEAD + WORDS * i),
                                   .end = word_at(content, HEAD + WORDS * i + 1),
                                   .offset = word_at(content, HEAD + WORDS * i + 2)};
    size_t length = strnlen(name, (size_t)(end - name));
    if (name + length == end || length >= PATH_LONGEST) break;
    bool sound = mapping.start < mapping.end && mapping.offset < INT64_MAX / page;
    mapping.offset *= sound ? page : 1;
    if (sound && !core_add_mapping(core, name, mapping)) return false;
    name += length + 1;
  }
  core_settle_mappings(core);
  return true;
}

/* --- all ------------------------------------------------------------------------------------------------------ */

static bool take(struct core *core, uint32_t type, struct content content) {
  switch (type) {
  case NT_PRSTATUS:
    return add_thread(core, content);
  case NT_FILE:
    return take_files(core, content);
  case NT_SIGINFO:
    take_signal(core, content);
    return true;
  case NT_PRPSINFO:
    take_process(core, content);
    return true;
  case NT_AUXV:
    take_vector(core, content);
    return true;
  default:
    return true;
  }
}

static bool take_all(struct core *core, const char *bytes, size_t size) {
  static const char owner[] = "CORE";
  size_t at = 0;
  while (size - at >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    memcpy(&note, bytes + at, sizeof note);
    at += sizeof note;
    uint64_t name = ((uint64_t)note.n_namesz + 3) / 4 * 4;
    uint64_t content = ((uint64_t)note.n_descsz + 3) / 4 * 4;
    if (name > size - at || note.n_descsz > size - at - name) return true;
    bool ours = note.n_namesz == sizeof owner && memcmp(bytes + at, owner, sizeof owner) == 0;
    at += name;
    if (ours && !take(core, note.n_type, (struct content){bytes + at, note.n_descsz})) return false;
    at += content < size - at ? content : size - at;
  }
  return true;
}

bool core_read_notes(struct core *core, struct core_span notes) {
  if (notes.offset >= core->size) return true;
  uint64_t there = core->size - notes.offset;
  if (notes.bytes > there) notes.bytes = there;
  if (notes.bytes > NOTES_BYTES_MOST) notes.bytes = NOTES_BYTES_MOST;
  char *bytes = malloc(notes.bytes + 1);
  if (bytes == NULL) return false;
  bool ok =
      !core_read_file(core, notes.offset, bytes, notes.bytes) || take_all(core, bytes, notes.bytes);
  free(bytes);
  return ok;
}
