/* elf_file.h - what the tool has to know about an ELF file: which machine it is for, and which dynamic
 * linker starts it. */
#ifndef HAKMEM_ELF_FILE_H
#define HAKMEM_ELF_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct elf_file {
  bool is_elf;
  bool is_ours; /* of the machine, word size and byte order that this tool was built for; only then
                     are the fields below set */
  bool damaged; /* headers point outside the file or make no sense */
  bool is_shared;             /* ET_DYN: a shared library or a position-independent program */
  char interpreter[PATH_MAX]; /* "": no dynamic linker asked for */
  bool needs_glibc;           /* libc.so.6 is among its libraries */
  bool needs_musl;            /* musl's libc.so is */
  bool is_go;                 /* has Go's note */
  char machine[48];           /* for messages, set for every ELF file: "AArch64, 64-bit" */
};

/** Reads the headers of the open file `fd`. A file that is not ELF is no error. */
void elf_file_read(int fd, struct elf_file *file);

/** The machine of this tool, for messages. */
const char *elf_file_own_machine(void);

#endif
