/* box_files.c - see box_files.h. */
#include "api/box_files.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "observe/report.h"
#include "observe/sheet.h"
#include "os/file.h"
#include "os/os.h"
#include "os/text.h"
#include "policy/options.h"

#if !HAK_FAST

enum { CHANCE_DIGITS = 8 };

/* --- of this process -------------------------------------------------------------------------------------------- */

static void put_path(char path[BOX_PATH_ROOM], const char *behind, size_t length,
                     const char *ending) {
  struct sheet sheet = {.text = path, .room = BOX_PATH_ROOM};
  struct report name;
  report_start_bare(&name);
  report_text(&name, "/" BOX_NAME);
  report_number(&name, (uint64_t)os_process());
  report_text(&name, "-");
  report_bytes(&name, behind, length);
  report_text(&name, ending);
  sheet_put(&sheet, option_blackbox(), text_length(option_blackbox()));
  sheet_put(&sheet, name.text, name.length);
  path[sheet.length] = 0;
}

static void put_numbered(char path[BOX_PATH_ROOM], int number) {
  char digit = (char)('0' + number);
  put_path(path, &digit, 1, BOX_ENDING);
}

/* Containers that share a directory have processes of one number, which would write into each other's file. */
int box_make_unfinished(char path[BOX_PATH_ROOM]) {
  static const char digits[] = "0123456789abcdef";
  char chance[CHANCE_DIGITS];
  uint64_t numbers[2] = {0};
  os_random(numbers);
  for (unsigned i = 0; i < CHANCE_DIGITS; i++) chance[i] = digits[numbers[0] >> 4 * i & 15];
  put_path(path, chance, CHANCE_DIGITS, BOX_UNFINISHED);
  return os_file_make(path);
}

/* When the box of that number was written; 0: there is none. Also where a process of the same number has written it, as each first one of a
 * container has: what the last one left is overwritten last. UINT64_MAX: the name is a link's, a directory's or a pipe's, which stays. */
static uint64_t written_when(const char *path) {
  struct box_facts facts = {0};
  uint64_t changed;
  if (os_file_changed(OS_FILE_HERE, path, &changed) == OS_FILE_OTHER) return UINT64_MAX;
  int file = os_file_open(path, OS_FILE_READ);
  if (file < 0) return 0;
  if (!os_file_get_at(file, &facts, sizeof facts, BOX_FACTS_AT)) facts.written_ns = 0;
  os_file_close(file);
  return facts.written_ns;
}

/* The number that was written first, of those that were not `tried`; below 0: none is left. */
static int oldest(unsigned tried) {
  char path[BOX_PATH_ROOM];
  uint64_t least = UINT64_MAX;
  int found = -1;
  for (int i = 0; i < BOX_FILES && least > 0; i++) {
    if ((tried >> i & 1) != 0) continue;
    put_numbered(path, i);
    uint64_t when = written_when(path);
    if (when >= least) continue;
    least = when;
    found = i;
  }
  return found;
}

/* Where a name may not be taken, as another user's where the directory is sticky, the next one is. */
int box_finish(const char *unfinished) {
  char path[BOX_PATH_ROOM];
  int error = EEXIST, number;
  for (unsigned tried = 0; (number = oldest(tried)) >= 0; tried |= 1U << number) {
    put_numbered(path, number);
    error = os_file_rename(unfinished, path);
    if (error == 0) return 0;
  }
  return error;
}

/* --- of all ------------------------------------------------------------------------------------------------------- */

enum { NAME_ROOM = 32 };

struct kept {
  char name[NAME_ROOM];
  uint64_t process, changed_ns;
};

/* Reads a name that a process gives its files. False: it is another's. */
static bool take_name(struct kept *file, const char *name, bool *is_whole) {
  enum { DECIMAL = 10, DIGITS_MOST = 10 };
  if (!text_begins(name, BOX_NAME, sizeof BOX_NAME - 1)) return false;
  const char *at = name + sizeof BOX_NAME - 1;
  size_t digits = strspn(at, "0123456789");
  if (digits == 0 || digits > DIGITS_MOST || at[digits] != '-') return false;
  for (file->process = 0; *at != '-'; at++)
    file->process = file->process * DECIMAL + (uint64_t)(*at - '0');
  size_t length = strspn(++at, "0123456789abcdef");
  *is_whole = length == 1 && *at < '0' + BOX_FILES;
  if (!*is_whole && length != CHANCE_DIGITS) return false;
  at += length;
  if (!text_begins(at, *is_whole ? BOX_ENDING : BOX_UNFINISHED, SIZE_MAX)) return false;
  memcpy(file->name, name, (size_t)(at - name) + sizeof BOX_ENDING);
  return true;
}

static bool has_newer(const struct kept *files, size_t count, const struct kept *file) {
  for (size_t i = 0; i < count; i++)
    if (files[i].process == file->process && files[i].changed_ns > file->changed_ns) return true;
  return false;
}

/* The oldest of those that are not the last of their process; if each is, the oldest. */
static size_t least_useful(const struct kept *files, size_t count) {
  size_t least = 0;
  bool least_has_newer = has_newer(files, count, &files[0]);
  for (size_t i = 1; i < count; i++) {
    bool newer = has_newer(files, count, &files[i]);
    if (newer < least_has_newer) continue;
    if (newer == least_has_newer && files[i].changed_ns >= files[least].changed_ns) continue;
    least = i;
    least_has_newer = newer;
  }
  return least;
}

/* A process was killed while it wrote: nobody has written to the file for so long. Clocks of a network's file systems differ by less. A file from
 * the future is from before the clock was set back. */
static bool is_abandoned(const struct kept *file) {
  const uint64_t second = 1000000000, patience = 60;
  struct timespec now = {0};
  os_time(CLOCK_REALTIME, &now);
  uint64_t changed = file->changed_ns / second, seconds = (uint64_t)now.tv_sec;
  return changed + patience < seconds || seconds + patience < changed;
}

/* Keeps at most BOX_FILES_ALL of those that have come: however many there are, few are remembered. */
static void take(int directory, const char *name, struct kept files[BOX_FILES_ALL + 1],
                 size_t *count) {
  struct kept *file = &files[*count];
  bool is_whole;
  if (!take_name(file, name, &is_whole) ||
      os_file_changed(directory, file->name, &file->changed_ns) != OS_FILE_ORDINARY)
    return;
  if (!is_whole) {
    if (is_abandoned(file)) os_file_remove_from(directory, file->name);
    return;
  }
  if (++*count <= BOX_FILES_ALL) return;
  size_t least = least_useful(files, *count);
  os_file_remove_from(directory, files[least].name);
  files[least] = files[--*count];
}

void box_bound(char *buffer, size_t bytes) {
  struct kept files[BOX_FILES_ALL + 1];
  size_t count = 0;
  ptrdiff_t length;
  int directory = os_file_open(option_blackbox(), OS_FILE_READ);
  if (directory < 0) return;
  while ((length = os_file_entries(directory, buffer, bytes)) > 0)
    for (ptrdiff_t at = 0; at < length;) {
      const struct os_file_entry *entry = (const struct os_file_entry *)(void *)(buffer + at);
      take(directory, entry->name, files, &count);
      at += entry->bytes;
    }
  os_file_close(directory);
}

#endif
