"""A library that puts a function of its own in the place of each function of libc's that libhakmem.so calls. Each allocates, resizes and
frees, and then calls libc's. The list is read from the built library, so that no function can be forgotten. x86-64: the functions are
written in assembly, so that one text does for all of them, whatever their arguments are."""
import os
import re
import subprocess

# malloc's family is what the library is there for, and libc's own under other names (FORCE_LIBC_ALLOC). The rest is called by the compiler
# and the loader, and has no time to allocate in: the stack is broken, an exception is under way.
LEFT_OUT = re.compile(r"__libc_(malloc|calloc|realloc|memalign|free)|_?_?(ITM|gmon)_.*|__gmon_start__|_ZSt.*|__cxa_.*|__gxx_.*"
                      r"|__stack_chk_fail|hakmem_options|__tls_get_addr")

# Data; nm has no sign for what is undefined.
DATA = {"__environ", "_r_debug", "environ", "__libc_single_threaded", "__libc_stack_end", "__progname", "__progname_full", "__rseq_offset",
        "program_invocation_name", "program_invocation_short_name"}  # fmt: skip

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

const char *const shim_names[] = {@NAMES@};
enum { COUNT = sizeof shim_names / sizeof *shim_names };
void *shim_real[COUNT];
static _Atomic unsigned long calls[COUNT];
static __thread int inside __attribute__((tls_model("initial-exec")));

static void *(*real_dlsym)(void *, const char *);

static void use(void *block) { __asm__ volatile("" : : "r"(block) : "memory"); }

static void work(unsigned which) {
  unsigned long call = calls[which]++;
  /* The first calls of each function, then some: a program makes a million of some of them. */
  if (call >= 64 && call % 64 != 0) return;
  char *small = malloc(40);
  use(small);
  small = realloc(small, 3000);
  use(small);
  char *large = malloc(200000);
  use(large);
  large[0] = large[199999] = 1;
  large = realloc(large, 700000);
  use(large);
  free(small);
  char *zero = calloc(300, 7);
  use(zero);
  if (call % 4 == 0) {
    char *huge = malloc(3 << 20);
    use(huge);
    huge[0] = huge[(3 << 20) - 1] = 1;
    huge = realloc(huge, 9 << 20);
    use(huge);
    free(huge);
  }
  free(large);
  free(zero);
}

/* Before each call. The address of libc's function. */
void *shim_enter(unsigned which) {
  if (shim_real[which] == NULL) {
    if (real_dlsym == NULL)
      real_dlsym = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "@DLSYM@");
    shim_real[which] = real_dlsym(RTLD_NEXT, shim_names[which]);
  }
  if (inside == 0) {
    inside = 1;
    work(which);
    inside = 0;
  }
  return shim_real[which];
}

/* What was called, for the test to see that these functions were in its place at all. */
__attribute__((destructor)) static void tell(void) {
  const char *path = getenv("SHIM_CALLED");
  if (path == NULL) return;
  char text[4096];
  size_t length = 0;
  for (unsigned i = 0; i < COUNT; i++) {
    if (calls[i] == 0) continue;
    for (const char *at = shim_names[i]; *at != 0 && length < sizeof text - 1; at++) text[length++] = *at;
    text[length++] = '\n';
  }
  int file = open_for(path);
  if (file >= 0) (void)!write(file, text, length);
}
"""

STUB = r"""
  .globl {name}
  .type {name}, @function
{name}:
  push %rbp
  mov %rsp, %rbp
  and $-64, %rsp
  sub $256, %rsp
  mov %rdi, (%rsp)
  mov %rsi, 8(%rsp)
  mov %rdx, 16(%rsp)
  mov %rcx, 24(%rsp)
  mov %r8, 32(%rsp)
  mov %r9, 40(%rsp)
  mov %rax, 48(%rsp)
  movaps %xmm0, 64(%rsp)
  movaps %xmm1, 80(%rsp)
  movaps %xmm2, 96(%rsp)
  movaps %xmm3, 112(%rsp)
  movaps %xmm4, 128(%rsp)
  movaps %xmm5, 144(%rsp)
  movaps %xmm6, 160(%rsp)
  movaps %xmm7, 176(%rsp)
  mov ${index}, %edi
  call shim_enter
  mov %rax, %r11
  mov (%rsp), %rdi
  mov 8(%rsp), %rsi
  mov 16(%rsp), %rdx
  mov 24(%rsp), %rcx
  mov 32(%rsp), %r8
  mov 40(%rsp), %r9
  mov 48(%rsp), %rax
  movaps 64(%rsp), %xmm0
  movaps 80(%rsp), %xmm1
  movaps 96(%rsp), %xmm2
  movaps 112(%rsp), %xmm3
  movaps 128(%rsp), %xmm4
  movaps 144(%rsp), %xmm5
  movaps 160(%rsp), %xmm6
  movaps 176(%rsp), %xmm7
  leave
  jmp *%r11
  .size {name}, .-{name}
"""


def left_out(name):
    """`check`, which is not optimised as these are, calls some of libc's memory functions while it holds a lock (0039)."""
    checked = os.environ.get("HAK_TEST_VARIANT", "standard") not in ("standard", "hardened", "fast", "observe")
    return name in DATA or LEFT_OUT.fullmatch(name) or checked and re.fullmatch("mem(cpy|set|move|cmp)", name)


def functions_of(library):
    """Names of the functions that the library imports, each with the version that it asks for."""
    table = subprocess.run(["nm", "-D", "--undefined-only", library], check=True, capture_output=True, text=True).stdout
    names = {}
    for line in table.splitlines():
        name, _, version = line.split()[-1].partition("@")
        if not left_out(name):
            names[name] = version.lstrip("@")
    return names


def build(library, folder, compiler="cc"):
    """Writes and compiles the library; returns its path and the names of its functions."""
    names = functions_of(library)
    order = sorted(names)
    source = SOURCE.replace("@NAMES@", ", ".join(f'"{name}"' for name in order))
    source = source.replace("@DLSYM@", names["dlsym"])
    # open() may be one of those in the list: by the system call.
    source = source.replace("void *shim_enter", "#include <fcntl.h>\n#include <sys/syscall.h>\nstatic int open_for(const char *path) {\n"
                            "  return (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0644);\n}\n\nvoid *shim_enter",
                            1)  # fmt: skip
    stubs = ".text\n" + "".join(STUB.format(name=name, index=index) for index, name in enumerate(order))
    stubs += '.section .note.GNU-stack,"",@progbits\n'
    (folder / "shim.c").write_text(source)
    (folder / "stubs.S").write_text(stubs)
    shim = folder / "libshim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-fno-builtin", "-ftls-model=initial-exec", "-o", shim, folder / "shim.c",
                    folder / "stubs.S"], check=True)  # fmt: skip
    return shim, order
