/* elf_file.c - see elf_file.h. Everything read from the file is checked against its size. */
#define _GNU_SOURCE
#include "elf_file.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#elif defined(__riscv)
#define OWN_MACHINE EM_RISCV
#elif defined(__powerpc64__)
#define OWN_MACHINE EM_PPC64
#elif defined(__s390x__)
#define OWN_MACHINE EM_S390
#elif defined(__loongarch__)
#define OWN_MACHINE 258 /* EM_LOONGARCH; older headers lack it */
#else
#error "name this machine's e_machine here"
#endif

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define OWN_DATA ELFDATA2LSB
#else
#define OWN_DATA ELFDATA2MSB
#endif

/* More than any real program has; a bound on what a damaged header can make us read. */
#define MAX_HEADERS 512
#define MAX_DYNAMIC 4096
#define MAX_NOTES 64

static const char *machine_name(unsigned machine) {
  switch (machine) {
  case EM_386:
    return "x86";
  case EM_X86_64:
    return "x86-64";
  case EM_ARM:
    return "ARM";
  case EM_AARCH64:
    return "AArch64";
  case EM_RISCV:
    return "RISC-V";
  case EM_PPC:
    return "PowerPC";
  case EM_PPC64:
    return "PowerPC64";
  case EM_S390:
    return "s390";
  case EM_MIPS:
    return "MIPS";
  case 258:
    return "LoongArch";
  default:
    return NULL;
  }
}

static void describe_machine(char *text, size_t size, unsigned machine, unsigned char class,
                             unsigned char data) {
  const char *bits = class == ELFCLASS32 ? "32-bit" : "64-bit";
  const char *order = data == OWN_DATA ? "" : ", other byte order";
  if (machine_name(machine) != NULL)
    snprintf(text, size, "%s, %s%s", machine_name(machine), bits, order);
  else snprintf(text, size, "machine %u, %s%s", machine, bits, order);
}

const char *elf_file_own_machine(void) {
  static char text[48];
  describe_machine(text, sizeof text, OWN_MACHINE, ELFCLASS64, OWN_DATA);
  return text;
}

/* Reads exactly `size` bytes at `offset`. */
static bool read_at(int fd, void *out, size_t size, uint64_t offset) {
  if (offset > INT64_MAX) return false;
  return pread(fd, out, size, (off_t)offset) == (ssize_t)size;
}

/* Offset in the file of a virtual address, or 0. */
static uint64_t file_offset(const Elf64_Phdr *headers, unsigned count, uint64_t address) {
  for (unsigned i = 0; i < count; i++)
    if (headers[i].p_type == PT_LOAD && address >= headers[i].p_vaddr &&
        address - headers[i].p_vaddr < headers[i].p_filesz)
      return headers[i].p_offset + (address - headers[i].p_vaddr);
  return 0;
}

static void read_needed(int fd, struct elf_file *file, const Elf64_Phdr *headers, unsigned count,
                        const Elf64_Phdr *dynamic) {
  uint64_t strings = 0;
  /* Twice: the string table's address may stand after the names that lie in it. */
  for (int pass = 0; pass < 2; pass++) {
    for (unsigned i = 0; i < MAX_DYNAMIC && (i + 1) * sizeof(Elf64_Dyn) <= dynamic->p_filesz; i++) {
      Elf64_Dyn entry;
      if (!read_at(fd, &entry, sizeof entry, dynamic->p_offset + i * sizeof entry)) {
        file->damaged = true;
        return;
      }
      if (entry.d_tag == DT_NULL) break;
      if (pass == 0 && entry.d_tag == DT_STRTAB)
        strings = file_offset(headers, count, entry.d_un.d_ptr);
      if (pass == 1 && entry.d_tag == DT_NEEDED && strings != 0) {
        char name[32] = "";
        ssize_t got = pread(fd, name, sizeof name - 1, (off_t)(strings + entry.d_un.d_val));
        if (got < 0) continue;
        if (strcmp(name, "libc.so.6") == 0) file->needs_glibc = true;
        if (strcmp(name, "libc.so") == 0 || strncmp(name, "libc.musl-", 10) == 0)
          file->needs_musl = true;
      }
    }
  }
}

/* Go's linker writes a note of the owner "Go" into every program. */
static bool has_go_note(int fd, const Elf64_Phdr *notes) {
  static const char owner[4] = "Go";
  uint64_t offset = notes->p_offset;
  uint64_t end = offset + notes->p_filesz;
  for (int i = 0; i < MAX_NOTES && end > offset && end - offset >= sizeof(Elf64_Nhdr); i++) {
    struct {
      Elf64_Nhdr header;
      char owner[sizeof owner];
    } note;
    if (!read_at(fd, &note, sizeof note, offset)) return false;
    if (note.header.n_namesz == sizeof owner && memcmp(note.owner, owner, sizeof owner) == 0)
      return true;
    offset += sizeof note.header + ((uint64_t)note.header.n_namesz + 3) / 4 * 4 +
              ((uint64_t)note.header.n_descsz + 3) / 4 * 4;
  }
  return false;
}

static void read_program_headers(int fd, struct elf_file *file, const Elf64_Ehdr *header) {
  static Elf64_Phdr headers[MAX_HEADERS];
  unsigned count = header->e_phnum;
  if (count == 0 || count > MAX_HEADERS || header->e_phentsize != sizeof(Elf64_Phdr) ||
      !read_at(fd, headers, count * sizeof(Elf64_Phdr), header->e_phoff)) {
    file->damaged = true;
    return;
  }
  for (unsigned i = 0; i < count; i++) {
    if (headers[i].p_type == PT_INTERP) {
      uint64_t length = headers[i].p_filesz;
      if (length < 2 || length > sizeof file->interpreter ||
          !read_at(fd, file->interpreter, length, headers[i].p_offset) ||
          file->interpreter[length - 1] != 0) {
        file->interpreter[0] = 0;
        file->damaged = true;
        return;
      }
    }
    if (headers[i].p_type == PT_NOTE && has_go_note(fd, &headers[i])) file->is_go = true;
    if (headers[i].p_type == PT_DYNAMIC) read_needed(fd, file, headers, count, &headers[i]);
  }
}

void elf_file_read(int fd, struct elf_file *file) {
  memset(file, 0, sizeof *file);
  Elf64_Ehdr header;
  memset(&header, 0, sizeof header);
  ssize_t got = pread(fd, &header, sizeof header, 0);
  if (got < SELFMAG || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return;
  file->is_elf = true;
  if (got < EI_NIDENT + 4) {
    file->damaged = true;
    return;
  }
  /* e_machine lies at the same place in 32-bit files. */
  unsigned machine = header.e_machine;
  if (header.e_ident[EI_DATA] != OWN_DATA) machine = __builtin_bswap16((uint16_t)machine);
  describe_machine(file->machine, sizeof file->machine, machine, header.e_ident[EI_CLASS],
                   header.e_ident[EI_DATA]);
  file->is_ours = machine == OWN_MACHINE && header.e_ident[EI_CLASS] == ELFCLASS64 &&
                  header.e_ident[EI_DATA] == OWN_DATA;
  if (!file->is_ours) return;
  if (got < (ssize_t)sizeof header || (header.e_type != ET_DYN && header.e_type != ET_EXEC)) {
    file->damaged = true;
    return;
  }
  file->is_shared = header.e_type == ET_DYN;
  read_program_headers(fd, file, &header);
}
