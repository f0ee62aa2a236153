/* functions.c - calls each function that libhakmem-copies.so checks, rightly or with one mistake. Built without it and without hakmem; both
 * are preloaded (test_copies.py).
 *
 * Usage: functions                     the names
 *        functions NAME                right uses; prints "well"
 *        functions NAME writes|reads   one byte (or wide character) behind the end of a block, after "due ADDRESS"
 *        functions object              __memcpy_chk, with more bytes than the compiler's object has
 *        functions on-own-memory       mistakes that nobody can see: on the stack and in static memory
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define OBJECT SIZE_MAX

void *__mempcpy(void *, const void *, size_t);
char *__stpcpy(char *, const char *);
char *__stpncpy(char *, const char *, size_t);
void *__memcpy_chk(void *, const void *, size_t, size_t);
void *__memmove_chk(void *, const void *, size_t, size_t);
void *__mempcpy_chk(void *, const void *, size_t, size_t);
void *__memset_chk(void *, int, size_t, size_t);
void __explicit_bzero_chk(void *, size_t, size_t);
char *__strcpy_chk(char *, const char *, size_t);
char *__stpcpy_chk(char *, const char *, size_t);
char *__strncpy_chk(char *, const char *, size_t, size_t);
char *__stpncpy_chk(char *, const char *, size_t, size_t);
char *__strcat_chk(char *, const char *, size_t);
char *__strncat_chk(char *, const char *, size_t, size_t);
wchar_t *__wmemcpy_chk(wchar_t *, const wchar_t *, size_t, size_t);
wchar_t *__wmemmove_chk(wchar_t *, const wchar_t *, size_t, size_t);
wchar_t *__wmempcpy_chk(wchar_t *, const wchar_t *, size_t, size_t);
wchar_t *__wmemset_chk(wchar_t *, wchar_t, size_t, size_t);

/* Of strings the last byte is 0; what is appended to is empty. */
enum kind { BYTES, STRING, APPENDED, SET };

/* Each copies `n` bytes, or fills them with 'A', and returns what the function returned. */
typedef void *use(char *to, const char *from, size_t n);
enum { WIDE = sizeof(wchar_t) };
#define W(p) ((wchar_t *)(void *)(p))
#define CW(p) ((const wchar_t *)(const void *)(p))
#define USE(name, call)                                                                            \
  static void *use_##name(char *to, const char *from, size_t n) {                                  \
    (void)from;                                                                                    \
    (void)n;                                                                                       \
    return call;                                                                                   \
  }

USE(memcpy, memcpy(to, from, n))
USE(memmove, memmove(to, from, n))
USE(mempcpy, mempcpy(to, from, n))
USE(memset, memset(to, 'A', n))
USE(memccpy, memccpy(to, from, from[n - 1], n))
USE(bcopy, (bcopy(from, to, n), NULL))
USE(bzero, (bzero(to, n), NULL))
USE(explicit_bzero, (explicit_bzero(to, n), NULL))
USE(strcpy, strcpy(to, from))
USE(stpcpy, stpcpy(to, from))
USE(strncpy, strncpy(to, from, n))
USE(stpncpy, stpncpy(to, from, n))
USE(strcat, strcat(to, from))
USE(strncat, strncat(to, from, n))
USE(wmemcpy, wmemcpy(W(to), CW(from), n / WIDE))
USE(wmemmove, wmemmove(W(to), CW(from), n / WIDE))
USE(wmempcpy, wmempcpy(W(to), CW(from), n / WIDE))
USE(wmemset, wmemset(W(to), 0x41414141, n / WIDE))
USE(__mempcpy, __mempcpy(to, from, n))
USE(__stpcpy, __stpcpy(to, from))
USE(__stpncpy, __stpncpy(to, from, n))
USE(__memcpy_chk, __memcpy_chk(to, from, n, OBJECT))
USE(__memmove_chk, __memmove_chk(to, from, n, OBJECT))
USE(__mempcpy_chk, __mempcpy_chk(to, from, n, OBJECT))
USE(__memset_chk, __memset_chk(to, 'A', n, OBJECT))
USE(__explicit_bzero_chk, (__explicit_bzero_chk(to, n, OBJECT), NULL))
USE(__strcpy_chk, __strcpy_chk(to, from, OBJECT))
USE(__stpcpy_chk, __stpcpy_chk(to, from, OBJECT))
USE(__strncpy_chk, __strncpy_chk(to, from, n, OBJECT))
USE(__stpncpy_chk, __stpncpy_chk(to, from, n, OBJECT))
USE(__strcat_chk, __strcat_chk(to, from, OBJECT))
USE(__strncat_chk, __strncat_chk(to, from, n, OBJECT))
USE(__wmemcpy_chk, __wmemcpy_chk(W(to), CW(from), n / WIDE, OBJECT))
USE(__wmemmove_chk, __wmemmove_chk(W(to), CW(from), n / WIDE, OBJECT))
USE(__wmempcpy_chk, __wmempcpy_chk(W(to), CW(from), n / WIDE, OBJECT))
USE(__wmemset_chk, __wmemset_chk(W(to), 0x41414141, n / WIDE, OBJECT))

enum result { START, END, LAST, NOTHING }; /* of what was written; LAST: its zero */

static const struct function {
  const char *name;
  use *use;
  enum kind kind;
  enum result result;
  unsigned step; /* bytes of one of the things that it copies */
} functions[] = {
#define FUNCTION(name, kind, result, step)                                                         \
  { #name, use_##name, kind, result, step }
    FUNCTION(memcpy, BYTES, START, 1),
    FUNCTION(memmove, BYTES, START, 1),
    FUNCTION(mempcpy, BYTES, END, 1),
    FUNCTION(memset, SET, START, 1),
    FUNCTION(memccpy, STRING, END, 1),
    FUNCTION(bcopy, BYTES, NOTHING, 1),
    FUNCTION(bzero, SET, NOTHING, 1),
    FUNCTION(explicit_bzero, SET, NOTHING, 1),
    FUNCTION(strcpy, STRING, START, 1),
    FUNCTION(stpcpy, STRING, LAST, 1),
    FUNCTION(strncpy, STRING, START, 1),
    FUNCTION(stpncpy, STRING, LAST, 1),
    FUNCTION(strcat, APPENDED, START, 1),
    FUNCTION(strncat, APPENDED, START, 1),
    FUNCTION(wmemcpy, BYTES, START, WIDE),
    FUNCTION(wmemmove, BYTES, START, WIDE),
    FUNCTION(wmempcpy, BYTES, END, WIDE),
    FUNCTION(wmemset, SET, START, WIDE),
    FUNCTION(__mempcpy, BYTES, END, 1),
    FUNCTION(__stpcpy, STRING, LAST, 1),
    FUNCTION(__stpncpy, STRING, LAST, 1),
    FUNCTION(__memcpy_chk, BYTES, START, 1),
    FUNCTION(__memmove_chk, BYTES, START, 1),
    FUNCTION(__mempcpy_chk, BYTES, END, 1),
    FUNCTION(__memset_chk, SET, START, 1),
    FUNCTION(__explicit_bzero_chk, SET, NOTHING, 1),
    FUNCTION(__strcpy_chk, STRING, START, 1),
    FUNCTION(__stpcpy_chk, STRING, LAST, 1),
    FUNCTION(__strncpy_chk, STRING, START, 1),
    FUNCTION(__stpncpy_chk, STRING, LAST, 1),
    FUNCTION(__strcat_chk, APPENDED, START, 1),
    FUNCTION(__strncat_chk, APPENDED, START, 1),
    FUNCTION(__wmemcpy_chk, BYTES, START, WIDE),
    FUNCTION(__wmemmove_chk, BYTES, START, WIDE),
    FUNCTION(__wmempcpy_chk, BYTES, END, WIDE),
    FUNCTION(__wmemset_chk, SET, START, WIDE),
};
enum { COUNT = sizeof functions / sizeof functions[0], ROOM = 320 };

static bool is_string(const struct function *function) {
  return function->kind == STRING || function->kind == APPENDED;
}

/* --- right uses ---------------------------------------------------------------------------------------------- */

static char right_to[ROOM], right_from[ROOM]; /* static: this runs before any constructor, too */

/* By loops of this program's own. */
static bool is_right(const struct function *function, const char *to, const char *from, size_t n,
                     const void *result) {
  bool zeroes = strstr(function->name, "zero") != NULL;
  for (size_t i = 0; i < n; i++)
    if (to[i] != (function->kind != SET ? from[i] : zeroes ? 0 : 'A')) return false;
  const char *wanted[] = {[START] = to, [END] = to + n, [LAST] = to + n - 1, [NOTHING] = NULL};
  return result == wanted[function->result] && to[n] == '#';
}

static bool use_rightly(const struct function *function, char *to, char *from, size_t n) {
  for (size_t i = 0; i < n; i++) from[i] = (char)('a' + i % 26);
  if (is_string(function) && n > 0) from[n - 1] = 0;
  for (size_t i = 0; i <= n; i++) to[i] = '#';
  if (function->kind == APPENDED) to[0] = 0;
  return is_right(function, to, from, n, function->use(to, from, n));
}

static const struct function *wrong_early;

/* Before the constructors of the libraries: their plain loops do the work. */
static void early(void) {
  for (size_t f = 0; f < COUNT; f++)
    if (!use_rightly(&functions[f], right_to, right_from, 40)) wrong_early = &functions[f];
}

__attribute__((section(".preinit_array"), used)) static void (*const run_early)(void) = early;

static void fail(const char *what, const char *name) {
  printf("%s: %s\n", name, what);
  exit(1);
}

static void check_rightly(const struct function *function) {
  size_t step = function->step;
  for (size_t n = is_string(function) ? 1 : 0; n < 260; n += step) {
    /* In blocks that are as long as what is written, but for the '#'. */
    char *to = malloc(n + 1), *from = malloc(n > 0 ? n : 1);
    if (to == NULL || from == NULL) fail("no memory", function->name);
    if (!use_rightly(function, to, from, n)) fail("wrong in blocks", function->name);
    free(to);
    free(from);
    size_t shift = n % 16 / step * step;
    if (!use_rightly(function, right_to + shift, right_from, n))
      fail("wrong in static memory", function->name);
  }
}

/* What memmove and its like are for. */
static void check_overlaps(void) {
  char *block = malloc(200);
  if (block == NULL) fail("no memory", "memmove");
  for (int way = 0; way < 2; way++) {
    for (int i = 0; i < 200; i++) block[i] = (char)i;
    int from = way == 0 ? 0 : 50, to = 50 - from;
    memmove(block + to, block + from, 150);
    for (int i = 0; i < 150; i++)
      if (block[to + i] != (char)(from + i)) fail("wrong where both overlap", "memmove");
  }
  free(block);
}

/* Shorter strings than there is room for, and parts of longer ones that have no end. */
static void check_parts(void) {
  char *block = malloc(16), *without_end = malloc(16);
  if (block == NULL || without_end == NULL) fail("no memory", "strncpy");
  memset(without_end, 'x', 16);
  strncpy(block, "abc", 16);
  if (memcmp(block, "abc\0\0\0\0\0\0\0\0\0\0\0\0\0", 16) != 0) fail("does not fill", "strncpy");
  if (stpncpy(block, "abc", 16) != block + 3) fail("wrong result", "stpncpy");
  if (stpncpy(block, without_end, 16) != block + 16) fail("wrong result at the end", "stpncpy");
  strcpy(block, "ab");
  strncat(block, without_end, 4);
  if (strcmp(block, "abxxxx") != 0) fail("wrong part", "strncat");
  if (memccpy(block, without_end, 'y', 16) != NULL) fail("finds what is not there", "memccpy");
  if (memccpy(block, "abcdef", 'c', 6) != block + 3 || block[3] != 'x')
    fail("copies past the byte", "memccpy");
  free(block);
  free(without_end);
}

/* --- mistakes ------------------------------------------------------------------------------------------------ */

enum { LENGTH = 112 }; /* of a block that is full with it, in each mode */

static void *opaque(void *pointer) {
  __asm__ volatile("" : "+r"(pointer) : : "memory");
  return pointer;
}

/* From a block's middle on. */
static void use_wrongly(const struct function *function, bool writes) {
  char *block = opaque(malloc(LENGTH)), *other = opaque(malloc((size_t)2 * LENGTH));
  if (block == NULL || other == NULL) fail("no memory", function->name);
  size_t half = LENGTH / 2, n = half + function->step;
  char *middle = block + half;
  for (size_t i = 0; i < half; i++) middle[i] = 'b';
  for (size_t i = 0; i < (size_t)2 * LENGTH; i++) other[i] = 'o';
  if (writes && is_string(function)) other[n - 1] = 0;
  /* A string without an end is read until one is found. */
  char *to = writes ? middle : other;
  if (function->kind == APPENDED) *to = 0;
  printf("due %p\n", (void *)middle);
  fflush(stdout);
  (void)function->use(opaque(to), opaque(writes ? other : middle), n);
  opaque(to);
}

static void mistakes_on_own_memory(void) {
  struct {
    char array[16], behind[16];
  } on_stack;
  static struct { char array[16], behind[16]; } in_data;
  memset(opaque(on_stack.array), 'x', 20);
  memset(opaque(in_data.array), 'x', 20);
  opaque(&on_stack);
}

static const struct function *find(const char *name) {
  for (size_t f = 0; f < COUNT; f++)
    if (strcmp(functions[f].name, name) == 0) return &functions[f];
  return NULL;
}

int main(int argc, char **argv) {
  if (argc == 1)
    for (size_t f = 0; f < COUNT; f++)
      printf("%s%s\n", functions[f].name, functions[f].kind == SET ? " sets" : "");
  if (argc == 1) return 0;
  if (wrong_early != NULL) fail("wrong before the constructors", wrong_early->name);
  const struct function *function = find(argv[1]);
  if (strcmp(argv[1], "object") == 0) {
    char small[8] = {0};
    __memcpy_chk(opaque(small), "nine bytes", 9, 8);
  } else if (strcmp(argv[1], "on-own-memory") == 0) {
    mistakes_on_own_memory();
  } else if (function == NULL) {
    fail("no such function", argv[1]);
  } else if (argc == 2) {
    check_rightly(function);
    check_overlaps();
    check_parts();
  } else {
    use_wrongly(function, strcmp(argv[2], "writes") == 0);
  }
  puts("well");
  return 0;
}
