/* option_values.c - the options' parser: every option's defaults under every profile, every way to
 * write a value well or badly. */
#include "unit_test.h"

#include <signal.h>
#include <unistd.h>

#include "policy/options.h"

#if HAK_FAST

int main(void) {
  printf("skipped: the fast variant has its options fixed at compile time\n");
  return 77;
}

#else

enum type { BOOL, CHOICE, NUMBER, BYTES, KBYTES, MBYTES, PATH, DIRECTORY, SIGNAL };

struct expected {
  const char *name;
  enum type type;
  int32_t defaults[3];
  int32_t low, high;
  const char *accepted;
};

static const struct expected table[OPTION_COUNT] = {
#define HAK_OPTION(id, name, type, speed, balanced, lean, low, high, accepted, help)               \
  [OPTION_##id] = {name, type, {speed, balanced, lean}, low, high, accepted},
#include "policy/options.def"
#undef HAK_OPTION
};

static bool is_number(int id) { return table[id].type >= NUMBER && table[id].type <= MBYTES; }

static void read_now(void *unused) {
  (void)unused;
  options_read();
}

/* Reads the options and gives what was said on stderr. */
static const char *read_options(void) {
  static char said[16384];
  capture_stderr(read_now, NULL, said, sizeof said);
  return said;
}

static int clear(void **state) {
  (void)state;
  for (int id = 0; id < OPTION_COUNT; id++) unsetenv(table[id].name);
  unsetenv("HAKMEM_UNKNOWN");
  unsetenv("HAKMEM_PROFIL");
  return 0;
}

/* Options that other options set as well, or that may say something, are looked at on their own below. */
static bool is_plain(int id) {
  return id != OPTION_PROFILE && id != OPTION_SS_HUGEPAGE && id != OPTION_GUARD &&
         id != OPTION_LEARN;
}

static void the_table_is_sound(void **state) {
  (void)state;
  for (int id = 0; id < OPTION_COUNT; id++) {
    assert_int_equal(strncmp(table[id].name, "HAKMEM_", 7), 0);
    assert_true(table[id].low <= table[id].high);
    for (int profile = 0; profile < 3; profile++)
      assert_in_range(table[id].defaults[profile], table[id].low, table[id].high);
    for (int other = 0; other < id; other++)
      assert_string_not_equal(table[id].name, table[other].name);
    int words = 1;
    for (const char *c = table[id].accepted; *c != 0; c++) words += *c == '|';
    if (table[id].type < NUMBER) assert_int_equal(words, table[id].high + 1);
  }
}

static void profiles_set_the_defaults(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int profile;
  } names[] = {{"speed", 0},
               {"balanced", 1},
               {"lean", 2},
               {"MIXED_TINYV3_C7_SAFE", 0},
               {"MIXED_TINYV3_C7_BALANCED", 1},
               {NULL, 1}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    clear(NULL);
    if (names[i].name != NULL) setenv("HAKMEM_PROFILE", names[i].name, 1);
    assert_string_equal(read_options(), "");
    for (int id = 0; id < OPTION_COUNT; id++)
      if (id != OPTION_PROFILE)
        assert_int_equal(option_values[id], table[id].defaults[names[i].profile]);
    assert_int_equal(option_value(PROFILE), names[i].profile);
  }
}

static void a_variable_wins_over_the_profile(void **state) {
  (void)state;
  for (int id = 0; id < OPTION_COUNT; id++) {
    if (!is_plain(id) || !is_number(id)) continue;
    for (int profile = 0; profile < 3; profile++) {
      static const char *const names[] = {"speed", "balanced", "lean"};
      char text[16];
      int32_t value = table[id].defaults[profile] == 7 ? 8 : 7;
      snprintf(text, sizeof text, "%d", value);
      clear(NULL);
      setenv("HAKMEM_PROFILE", names[profile], 1);
      setenv(table[id].name, text, 1);
      assert_string_equal(read_options(), "");
      assert_int_equal(option_values[id], value);
      for (int other = 0; other < OPTION_COUNT; other++)
        if (other != id && other != OPTION_PROFILE)
          assert_int_equal(option_values[other], table[other].defaults[profile]);
    }
  }
}

static void every_word_and_bound_is_taken(void **state) {
  (void)state;
  for (int id = 0; id < OPTION_COUNT; id++) {
    if (!is_plain(id) || table[id].type >= PATH) continue;
    for (int32_t value = table[id].low; value <= table[id].high;
         value = is_number(id) && value < table[id].high ? table[id].high : value + 1) {
      char text[64] = "";
      if (is_number(id)) {
        snprintf(text, sizeof text, "%d", value);
      } else {
        const char *word = table[id].accepted;
        for (int32_t i = 0; i < value; i++) word = strchr(word, '|') + 1;
        snprintf(text, sizeof text, "%.*s", (int)strcspn(word, "|"), word);
      }
      clear(NULL);
      setenv(table[id].name, text, 1);
      assert_string_equal(read_options(), "");
      assert_int_equal(option_values[id], value);
    }
  }
}

static void a_bad_value_leaves_the_default_and_says_so(void **state) {
  (void)state;
  static const char *const bad[] = {"",    " ",   "bogus",      "-1",
                                    "+1",  "1 ",  " 1",         "1x",
                                    "0x1", "1.5", "4294967296", "18446744073709551616"};
  for (int id = 0; id < OPTION_COUNT; id++)
    for (size_t i = 0;
         i < sizeof bad / sizeof bad[0] && table[id].type != PATH && table[id].type != DIRECTORY;
         i++) {
      char start[256];
      clear(NULL);
      setenv(table[id].name, bad[i], 1);
      const char *said = read_options();
      assert_int_equal(option_values[id], table[id].defaults[PROFILE_BALANCED]);
      snprintf(start, sizeof start,
               "hakmem: %s=%s: not understood; accepted: %s (using the default, ", table[id].name,
               bad[i], table[id].accepted);
      assert_int_equal(strncmp(said, start, strlen(start)), 0);
      assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
      assert_string_equal(said + strlen(said) - 2, ")\n");
    }
}

static void sizes_may_have_a_letter(void **state) {
  (void)state;
  static const struct {
    int id;
    const char *text;
    int32_t value; /* -1: not understood */
  } tries[] = {
      {OPTION_WARM_POOL_MB, "64M", 64},
      {OPTION_WARM_POOL_MB, "2g", 2048},
      {OPTION_WARM_POOL_MB, "2048k", 2},
      {OPTION_WARM_POOL_MB, "1000K", -1},
      {OPTION_WARM_POOL_MB, "1024G", 1048576},
      {OPTION_WARM_POOL_MB, "1025G", -1},
      {OPTION_WARM_POOL_MB, "64MB", -1},
      {OPTION_WARM_POOL_MB, "M", -1},
      {OPTION_WARM_POOL_MB, "6 M", -1},
      {OPTION_WARM_POOL_MB, "64T", -1},
      {OPTION_BINS_KB, "64K", 64},
      {OPTION_BINS_KB, "1M", 1024},
      {OPTION_PROF_RATE, "64K", 65536},
      {OPTION_PROF_RATE, "1G", 1 << 30},
      {OPTION_PROF_RATE, "2G", -1},
      {OPTION_PROF_RATE, "2147483647G", -1},
      {OPTION_PROF_MOST, "1K", -1},
      {OPTION_WARM_POOL_DECAY_MS, "1K", -1},
  };
  for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
    int id = tries[i].id;
    clear(NULL);
    setenv(table[id].name, tries[i].text, 1);
    const char *said = read_options();
    if (tries[i].value >= 0) {
      assert_string_equal(said, "");
      assert_int_equal(option_values[id], tries[i].value);
    } else {
      assert_non_null(strstr(said, ": not understood; accepted: "));
      assert_int_equal(option_values[id], table[id].defaults[PROFILE_BALANCED]);
    }
  }
}

static void the_file_of_statistics_is_kept_as_it_was(void **state) {
  (void)state;
  static const char *const good[] = {"/a", "/a.%p", "/%p%%p%p", "/%%"};
  char expected[8192], folder[4096], text[1200];
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    clear(NULL);
    setenv("HAKMEM_STATS_FILE", good[i], 1);
    assert_string_equal(read_options(), "");
    unsetenv("HAKMEM_STATS_FILE");
    assert_string_equal(option_stats_file(), good[i]);
    assert_int_equal(option_value(STATS), STATS_JSON);
  }
  /* From where the program started. */
  assert_non_null(getcwd(folder, sizeof folder));
  setenv("HAKMEM_STATS_FILE", "b.%p", 1);
  setenv("HAKMEM_SS_OS_STATS", "1", 1);
  assert_string_equal(read_options(), "");
  snprintf(expected, sizeof expected, "%s/b.%%p", folder);
  assert_string_equal(option_stats_file(), expected);
  assert_int_equal(option_value(STATS), STATS_OFF); /* it is the line alone that was asked for */
  memset(text, 'x', sizeof text - 1);
  text[0] = '/';
  text[sizeof text - 1] = 0;
  const char *const bad[] = {"", "/a%", "/a%d", "/a%%%", "/%P", text};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    clear(NULL);
    setenv("HAKMEM_STATS_FILE", bad[i], 1);
    const char *said = read_options();
    assert_int_equal(option_value(STATS_FILE), 0);
    assert_int_equal(option_value(STATS), STATS_OFF);
    assert_non_null(strstr(said, ": not understood; accepted: PATH, where %p stands for "));
    assert_non_null(strstr(said, "(using the default, none)\n"));
  }
}

static void a_signal_is_a_number_or_a_name(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int number;
  } good[] = {{"USR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}, {"sigwinch", SIGWINCH},
              {"usr2", SIGUSR2}, {"23", 23},           {"hup", SIGHUP},
              {"40", 40}};
  static const char *const bad[] = {"SIG", "KILL", "9",  "19", "SEGV", "11",  "0",
                                    "32",  "33",   "65", "x",  "1x",   "1e1", "99999999999"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    clear(NULL);
    signal(good[i].number, SIG_DFL);
    setenv("HAKMEM_STATS_SIGNAL", good[i].text, 1);
    assert_string_equal(read_options(), "");
    assert_int_equal(option_value(STATS_SIGNAL), good[i].number);
    assert_int_equal(option_value(STATS), STATS_JSON);
    assert_ptr_not_equal(signal(good[i].number, SIG_DFL), SIG_DFL);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    clear(NULL);
    setenv("HAKMEM_STATS_SIGNAL", bad[i], 1);
    assert_non_null(strstr(read_options(), ": not understood; accepted: USR1|USR2|NAME|NUMBER "));
    assert_int_equal(option_value(STATS_SIGNAL), 0);
    assert_int_equal(option_value(STATS), STATS_OFF);
  }
}

static void on_signal(int number) { (void)number; }

/* A program's own handler is not replaced; one that ignores the signal, as its parent may have left it, is none. */
static void a_handler_of_the_programs_stays(void **state) {
  (void)state;
  setenv("HAKMEM_STATS_SIGNAL", "USR1", 1);
  signal(SIGUSR1, on_signal);
  assert_non_null(strstr(read_options(), "hakmem: HAKMEM_STATS_SIGNAL: the program has a handler"));
  assert_ptr_equal(signal(SIGUSR1, SIG_IGN), on_signal);
  assert_string_equal(read_options(), "");
  assert_ptr_not_equal(signal(SIGUSR1, SIG_DFL), SIG_IGN);
}

/* The default that is named is the profile's, and a bad profile means balanced. */
static void the_default_named_is_the_one_used(void **state) {
  (void)state;
  setenv("HAKMEM_PROFILE", "lean", 1);
  setenv("HAKMEM_WARM_POOL_MB", "many", 1);
  char expected[256];
  snprintf(expected, sizeof expected,
           "hakmem: HAKMEM_WARM_POOL_MB=many: not understood; accepted: %s "
           "(using the default, %d)\n",
           table[OPTION_WARM_POOL_MB].accepted, table[OPTION_WARM_POOL_MB].defaults[PROFILE_LEAN]);
  assert_string_equal(read_options(), expected);
  assert_int_equal(option_value(WARM_POOL_MB), table[OPTION_WARM_POOL_MB].defaults[PROFILE_LEAN]);
  clear(NULL);
  setenv("HAKMEM_PROFILE", "faster", 1);
  assert_string_equal(read_options(), "hakmem: HAKMEM_PROFILE=faster: not understood; accepted: "
                                      "speed|balanced|lean "
                                      "(using the default, balanced)\n");
  assert_int_equal(option_value(PROFILE), PROFILE_BALANCED);
}

static void the_experiment_is_another_name_of_explicit(void **state) {
  (void)state;
  setenv("HAKMEM_SS_HUGEPAGE", "off", 1);
  assert_string_equal(read_options(), "");
  assert_int_equal(option_value(SS_HUGEPAGE), HUGEPAGE_OFF);
  setenv("HAKMEM_SS_HUGEPAGE_EXPERIMENT", "1", 1);
  assert_string_equal(read_options(), "");
  assert_int_equal(option_value(SS_HUGEPAGE), HUGEPAGE_EXPLICIT);
  setenv("HAKMEM_SS_HUGEPAGE_EXPERIMENT", "0", 1);
  assert_string_equal(read_options(), "");
  assert_int_equal(option_value(SS_HUGEPAGE), HUGEPAGE_OFF);
}

static void guards_are_in_the_hardened_library_alone(void **state) {
  (void)state;
  static const char *const words[] = {"off", "light", "full"};
  const char *none =
      "hakmem: HAKMEM_GUARD: only the hardened library has such checks; none are made\n";
  assert_string_equal(read_options(), "");
  assert_int_equal(option_guard(), HAK_HARDENED ? GUARD_LIGHT : GUARD_OFF);
  for (int i = 0; i < 3; i++) {
    setenv("HAKMEM_GUARD", words[i], 1);
    assert_string_equal(read_options(), HAK_HARDENED || i == GUARD_OFF ? "" : none);
    assert_int_equal(option_guard(), HAK_HARDENED ? i : GUARD_OFF);
  }
}

static void the_learner_is_no_more(void **state) {
  (void)state;
  setenv("HAKMEM_LEARN", "0", 1);
  assert_string_equal(read_options(), "");
  setenv("HAKMEM_LEARN", "1", 1);
  assert_string_equal(read_options(), "hakmem: HAKMEM_LEARN: does nothing any more\n");
  assert_int_equal(option_value(LEARN), 0);
}

/* A program's own, of which 1,024 bytes are read. */
extern const char *hakmem_options;
const char *hakmem_options;

static void half_a_value_of_the_programs_is_none(void **state) {
  (void)state;
  static char text[1100];
  static const char first[] = "HAKMEM_BINS_KB=77,", last[] = "HAKMEM_WARM_POOL_MB=1234";
  for (size_t end = 1000; end < sizeof text; end++) {
    memset(text, '#', sizeof text);
    memcpy(text, first, sizeof first - 1);
    text[end - sizeof last] = ',';
    memcpy(text + end - (sizeof last - 1), last, sizeof last);
    hakmem_options = text;
    clear(NULL);
    (void)read_options();
    assert_int_equal(option_value(BINS_KB), 77);
    assert_int_equal(option_value(WARM_POOL_MB),
                     end <= 1024 ? 1234 : table[OPTION_WARM_POOL_MB].defaults[PROFILE_BALANCED]);
  }
  hakmem_options = NULL;
}

static void unknown_names_are_told(void **state) {
  (void)state;
  setenv("HAKMEM_UNKNOWN", "1", 1);
  setenv("HAKMEM_PROFIL", "lean", 1);
  const char *said = read_options();
  assert_non_null(strstr(said, "hakmem: HAKMEM_UNKNOWN: unknown option (see 'hakmem options')\n"));
  assert_non_null(strstr(said, "hakmem: HAKMEM_PROFIL: unknown option (see 'hakmem options')\n"));
  assert_int_equal(option_value(PROFILE), PROFILE_BALANCED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(the_table_is_sound, clear),
      cmocka_unit_test_setup(profiles_set_the_defaults, clear),
      cmocka_unit_test_setup(a_variable_wins_over_the_profile, clear),
      cmocka_unit_test_setup(every_word_and_bound_is_taken, clear),
      cmocka_unit_test_setup(a_bad_value_leaves_the_default_and_says_so, clear),
      cmocka_unit_test_setup(sizes_may_have_a_letter, clear),
      cmocka_unit_test_setup(the_file_of_statistics_is_kept_as_it_was, clear),
      cmocka_unit_test_setup(a_signal_is_a_number_or_a_name, clear),
      cmocka_unit_test_setup(a_handler_of_the_programs_stays, clear),
      cmocka_unit_test_setup(the_default_named_is_the_one_used, clear),
      cmocka_unit_test_setup(the_experiment_is_another_name_of_explicit, clear),
      cmocka_unit_test_setup(the_learner_is_no_more, clear),
      cmocka_unit_test_setup(guards_are_in_the_hardened_library_alone, clear),
      cmocka_unit_test_setup(half_a_value_of_the_programs_is_none, clear),
      cmocka_unit_test_setup(unknown_names_are_told, clear),
  };
  return cmocka_run_group_tests_name("option values", tests, NULL, NULL);
}

#endif
