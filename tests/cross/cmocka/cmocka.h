/* cmocka.h - as much of cmocka's interface as tests/unit uses, for targets that have no cmocka.
 *
 * Different in two ways: the first failure ends the program, and UNIT_TEST_SKIP=name,name leaves tests
 * out (where a target or a limit makes them impossible), which is printed.
 */
#ifndef CROSS_CMOCKA_H
#define CROSS_CMOCKA_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*CMUnitTestFunction)(void **state);
typedef int (*CMFixtureFunction)(void **state);

struct CMUnitTest {
  const char *name;
  CMUnitTestFunction test;
  CMFixtureFunction setup, teardown;
};

#define cmocka_unit_test(function)                                                                 \
  { #function, function, NULL, NULL }
#define cmocka_unit_test_setup(function, setup)                                                    \
  { #function, function, setup, NULL }
#define cmocka_unit_test_teardown(function, teardown)                                              \
  { #function, function, NULL, teardown }
#define cmocka_unit_test_setup_teardown(function, setup, teardown)                                 \
  { #function, function, setup, teardown }

/* To stdout: some tests catch what goes to stderr. */
static inline _Noreturn void cmocka_failed(const char *file, int line, const char *what,
                                           unsigned long long left, unsigned long long right) {
  printf("FAILED %s:%d: %s (%llu = 0x%llx, %llu = 0x%llx)\n", file, line, what, left, left, right,
         right);
  exit(1);
}

static inline _Noreturn void cmocka_failed_strings(const char *file, int line, const char *what,
                                                   const char *left, const char *right) {
  printf("FAILED %s:%d: %s\n  \"%s\"\n  \"%s\"\n", file, line, what, left, right);
  exit(1);
}

#define CMOCKA_COMPARE(a, relation, b)                                                             \
  do {                                                                                             \
    unsigned long long left_ = (unsigned long long)(a), right_ = (unsigned long long)(b);          \
    if (!(left_ relation right_))                                                                  \
      cmocka_failed(__FILE__, __LINE__, #a " " #relation " " #b, left_, right_);                   \
  } while (0)
#define CMOCKA_STRINGS(a, relation, b)                                                             \
  do {                                                                                             \
    const char *left_ = (a), *right_ = (b);                                                        \
    if (!(strcmp(left_, right_) relation 0))                                                       \
      cmocka_failed_strings(__FILE__, __LINE__, #a " " #relation " " #b, left_, right_);           \
  } while (0)

#define assert_true(condition) CMOCKA_COMPARE(!(condition), ==, 0)
#define assert_false(condition) CMOCKA_COMPARE(!(condition), !=, 0)
#define assert_null(pointer) CMOCKA_COMPARE((uintptr_t)(pointer), ==, 0)
#define assert_non_null(pointer) CMOCKA_COMPARE((uintptr_t)(pointer), !=, 0)
#define assert_ptr_equal(a, b) CMOCKA_COMPARE((uintptr_t)(a), ==, (uintptr_t)(b))
#define assert_ptr_not_equal(a, b) CMOCKA_COMPARE((uintptr_t)(a), !=, (uintptr_t)(b))
#define assert_int_equal(a, b) CMOCKA_COMPARE(a, ==, b)
#define assert_int_not_equal(a, b) CMOCKA_COMPARE(a, !=, b)
#define assert_in_range(value, low, high)                                                          \
  do {                                                                                             \
    CMOCKA_COMPARE(value, >=, low);                                                                \
    CMOCKA_COMPARE(value, <=, high);                                                               \
  } while (0)
#define assert_string_equal(a, b) CMOCKA_STRINGS(a, ==, b)
#define assert_string_not_equal(a, b) CMOCKA_STRINGS(a, !=, b)
#define assert_memory_equal(a, b, bytes) CMOCKA_COMPARE(memcmp(a, b, bytes), ==, 0)
#define fail() cmocka_failed(__FILE__, __LINE__, "fail()", 0, 0)
#define fail_msg(...)                                                                              \
  do {                                                                                             \
    printf(__VA_ARGS__);                                                                           \
    fail();                                                                                        \
  } while (0)

#define print_message printf
static jmp_buf cmocka_after_test;
#define skip() longjmp(cmocka_after_test, 1)

static inline void cmocka_run_one(const struct CMUnitTest *test, void **state) {
  if (setjmp(cmocka_after_test) == 0) test->test(state);
  else printf("skipped: %s\n", test->name);
}

static inline bool cmocka_is_skipped(const char *name) {
  const char *list = getenv("UNIT_TEST_SKIP");
  size_t length = strlen(name);
  for (; list != NULL && *list != 0; list += strcspn(list, ","), list += *list == ',')
    if (strcspn(list, ",") == length && strncmp(list, name, length) == 0) return true;
  return false;
}

static inline int cmocka_run(const char *group, const struct CMUnitTest *tests, size_t count,
                             CMFixtureFunction setup, CMFixtureFunction teardown) {
  void *group_state = NULL;
  if (setup != NULL && setup(&group_state) != 0) {
    printf("FAILED %s: setup\n", group);
    return 1;
  }
  for (size_t i = 0; i < count; i++) {
    void *state = group_state;
    if (cmocka_is_skipped(tests[i].name)) {
      printf("%s.%s: skipped by UNIT_TEST_SKIP\n", group, tests[i].name);
      continue;
    }
    printf("%s.%s\n", group, tests[i].name);
    fflush(stdout);
    if (tests[i].setup != NULL && tests[i].setup(&state) != 0) {
      printf("FAILED %s.%s: setup\n", group, tests[i].name);
      return 1;
    }
    cmocka_run_one(&tests[i], &state);
    if (tests[i].teardown != NULL && tests[i].teardown(&state) != 0) {
      printf("FAILED %s.%s: teardown\n", group, tests[i].name);
      return 1;
    }
  }
  if (teardown != NULL && teardown(&group_state) != 0) {
    printf("FAILED %s: teardown\n", group);
    return 1;
  }
  return 0;
}

#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                  \
  cmocka_run(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
  cmocka_run_group_tests_name(#tests, tests, setup, teardown)

#endif
