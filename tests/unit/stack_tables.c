/* stack_tables.c - tables made by hand, for the reader of call frame information: long ones, and ones that lead to where nothing can
 * be read; and how the reader of stacks asks what can. */
#include "unit_test.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stack/cfi.h"
#include "stack/segment.h"

#if __has_include(<linux/seccomp.h>) /* musl-gcc has no headers of the kernel */
#define HAS_FILTERS 1
#include <linux/filter.h>
#include <linux/seccomp.h>
#else
#define HAS_FILTERS 0
#endif

#if STACK_HAS_TABLES

/* --- an object ------------------------------------------------------------------------------------ */

enum { SEGMENT_PAGES = 16, HOLE_PAGES = 1, PAGES = SEGMENT_PAGES + HOLE_PAGES + 1 };
enum { TABLE_AT = 1024, CIE_AT = 2048, FDE_AT = 3072, CODE_AT = 1 << 20, CODE_BYTES = 1 << 20 };

static char *object;
static size_t page;

static char *put(char *at, uint64_t value, size_t bytes) {
  memcpy(at, &value, bytes);
  return at + bytes;
}

/* Readable pages, a hole, a readable page: as the loader maps two segments that are far from each other. */
static int make_object(void **state) {
  (void)state;
  page = os_page_size();
  object = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (object == MAP_FAILED) return -1;
  Elf64_Ehdr *file = (Elf64_Ehdr *)(void *)object;
  memcpy(file->e_ident, ELFMAG, SELFMAG);
  file->e_phoff = sizeof *file;
  file->e_phentsize = sizeof(Elf64_Phdr);
  file->e_phnum = 2;
  Elf64_Phdr *headers = (Elf64_Phdr *)(file + 1);
  headers[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_memsz = SEGMENT_PAGES * page};
  headers[1] = (Elf64_Phdr){.p_type = PT_LOAD, .p_offset = SEGMENT_PAGES * page, .p_memsz = page};
  headers[1].p_vaddr = (SEGMENT_PAGES + HOLE_PAGES) * page;
  return mprotect(object + SEGMENT_PAGES * page, HOLE_PAGES * page, PROT_NONE);
}

static int drop_object(void **state) {
  (void)state;
  return munmap(object, PAGES * page);
}

static struct cfi_object whole_object(void) {
  return (struct cfi_object){(uintptr_t)object, (uintptr_t)object + PAGES * page,
                             (const uint8_t *)object + TABLE_AT, NULL};
}

/* One entry, for the code; its description lies `at` bytes from the object's start. */
static void put_table(size_t at) {
  char *end = put(object + TABLE_AT, 0x3b031b01, 4); /* version 1; pcrel, 4 bytes; 4 bytes; pairs */
  end = put(end, 0, 4);
  end = put(end, 1, 4);
  end = put(end, CODE_AT - TABLE_AT, 4);
  put(end, at - TABLE_AT, 4);
}

enum { DEF_CFA = 0x0c, DEF_CFA_OFFSET = 0x0e, ADVANCE_1 = 0x41, OFFSET_EXTENDED = 0x05, NOP = 0 };
#if defined(__x86_64__)
enum { DWARF_RETURN = 16, DWARF_STACK = 7 };
#elif defined(__riscv)
enum { DWARF_RETURN = 1, DWARF_STACK = 2 };
#elif defined(__powerpc64__)
enum { DWARF_RETURN = 65, DWARF_STACK = 1 };
#else
enum { DWARF_RETURN = 30, DWARF_STACK = 31 };
#endif

static void put_cie(void) {
  char *start = object + CIE_AT, *end = put(start + 4, 0, 4);
  end = put(end, 1, 1);
  end = put(end, 'z' | 'R' << 8, 3);
  end = put(end, 1, 1);    /* code */
  end = put(end, 0x78, 1); /* data: -8 */
  end = put(end, DWARF_RETURN, 1);
  end = put(end, 1, 1);
  end = put(end, 0x1b, 1); /* pcrel, 4 bytes */
  end = put(end, DEF_CFA | DWARF_STACK << 8 | 8 << 16, 3);
  end = put(end, OFFSET_EXTENDED | DWARF_RETURN << 8 | 1 << 16, 3);
  while ((end - start) % 8 != 4) *end++ = NOP;
  put(start, (uint64_t)(end - start - 4), 4);
}

/* Each byte of the code has a CFA of its own, up to `steps`. */
static void put_fde(size_t steps) {
  char *start = object + FDE_AT, *end = put(start + 4, FDE_AT + 4 - CIE_AT, 4);
  end = put(end, CODE_AT - (uint64_t)(end - object), 4);
  end = put(end, CODE_BYTES, 4);
  end = put(end, 0, 1);
  for (size_t i = 0; i < steps; i++) {
    end = put(end, ADVANCE_1, 1);
    end = put(end, DEF_CFA_OFFSET, 1);
    end = put(end, i % 2 ? 16 : 32, 1);
  }
  put(start, (uint64_t)(end - start - 4), 4);
}

/* --- what is asserted ------------------------------------------------------------------------------- */

static void long_functions_have_rules(void **state) {
  (void)state;
  struct cfi_object narrow = whole_object();
  struct frame_rules rules;
  size_t steps = 10000;
  put_table(FDE_AT);
  put_cie();
  put_fde(steps);
  assert_true(segment_of_table(&narrow));
  assert_true(cfi_find(&narrow, (uintptr_t)object + CODE_AT, &rules));
  assert_int_equal(rules.cfa.offset, 8);
  assert_true(cfi_find(&narrow, (uintptr_t)object + CODE_AT + 1, &rules));
  assert_int_equal(rules.cfa.offset, 32);
  assert_true(cfi_find(&narrow, (uintptr_t)object + CODE_AT + steps, &rules));
  assert_int_equal(rules.cfa.offset, 16);
}

static void tables_end_with_their_segment(void **state) {
  (void)state;
  struct cfi_object narrow = whole_object();
  struct frame_rules rules;
  uintptr_t code = (uintptr_t)object + CODE_AT;
  size_t end = SEGMENT_PAGES * page;
  assert_true(segment_of_table(&narrow));
  assert_int_equal(narrow.start, (uintptr_t)object);
  assert_int_equal(narrow.end, (uintptr_t)object + end);
  put_table(end); /* into the hole */
  assert_false(cfi_find(&narrow, code, &rules));
  put_table(end + page); /* behind it */
  assert_false(cfi_find(&narrow, code, &rules));
  put_table(FDE_AT);
  put_fde(1);
  put(object + FDE_AT + 4, FDE_AT + 4 - end, 4); /* its CIE is in the hole */
  assert_false(cfi_find(&narrow, code, &rules));
  put_fde(1);
  put(object + FDE_AT, end, 4); /* it goes on into the hole */
  assert_false(cfi_find(&narrow, code, &rules));
  put_table(FDE_AT);
  put(object + TABLE_AT + 8, end / 8, 4); /* more entries than there is room for */
  assert_false(cfi_find(&narrow, code, &rules));
}

static void objects_without_headers_have_no_tables(void **state) {
  (void)state;
  struct cfi_object narrow = whole_object();
  Elf64_Ehdr *file = (Elf64_Ehdr *)(void *)object;
  narrow.table = (const uint8_t *)object + SEGMENT_PAGES * page;
  assert_false(segment_of_table(&narrow)); /* in no segment */
  narrow = whole_object();
  file->e_phoff = SEGMENT_PAGES * page;
  assert_false(segment_of_table(&narrow));
  file->e_phoff = sizeof *file;
  file->e_phnum = UINT16_MAX;
  assert_false(segment_of_table(&narrow));
  file->e_phnum = 2;
  assert_true(segment_of_table(&narrow));
  narrow = whole_object();
  file->e_ident[0] = 0;
  assert_false(segment_of_table(&narrow));
  memcpy(file->e_ident, ELFMAG, SELFMAG);
}

#endif

/* --- what can be read -------------------------------------------------------------------------------- */

/* Where there are filters: kills for what no program asks, a mask of signals that is changed in a way that the kernel does not
 * know. */
static void forbid_unknown_masks(void) {
#if HAS_FILTERS
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, SIG_SETMASK, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof code[0], code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
    (void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
#endif
}

static void sandboxes_let_the_question_pass(void **state) {
  (void)state;
  int status;
  size_t bytes = os_page_size();
  char *memory = mmap(NULL, 2 * bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(memory, MAP_FAILED);
  assert_int_equal(mprotect(memory + bytes, bytes, PROT_NONE), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    forbid_unknown_masks();
    errno = 7;
    bool right = os_is_readable(memory) && os_is_readable(memory + bytes - 1) &&
                 !os_is_readable(memory + bytes) && !os_is_readable(NULL) && errno == 7;
    _exit(right ? 0 : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  munmap(memory, 2 * bytes);
  assert_int_equal(status, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#if STACK_HAS_TABLES
    cmocka_unit_test_setup_teardown(long_functions_have_rules, make_object, drop_object),
    cmocka_unit_test_setup_teardown(tables_end_with_their_segment, make_object, drop_object),
    cmocka_unit_test_setup_teardown(objects_without_headers_have_no_tables, make_object,
                                    drop_object),
#endif
    cmocka_unit_test(sandboxes_let_the_question_pass),
  };
  return cmocka_run_group_tests_name("stack_tables", tests, NULL, NULL);
}
