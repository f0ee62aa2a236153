/* places_notes.c - see places.h: languages whose functions are not in the stacks.
 *
 * A stack has calls in machine code. Of a program that is interpreted these are the interpreter's, unless that makes code for each
 * function and says where (perf_map.h).
 */
#include <string.h>

#include "places.h"

struct language {
  const char *loop; /* how the linker's name of the function begins that runs its functions */
  const char *name;
  const char *what_to_do; /* NULL: nothing would tell them */
};

static const struct language languages[] = {
    {"_PyEval_EvalFrameDefault", "Python", "run it as python3 -X perf (3.12 or later)"},
    {"Builtins_", "JavaScript",
     "run it as node --perf-basic-prof --interpreted-frames-native-stack"},
    {"_ZN9JavaCalls", "Java",
     "run it with -XX:+PreserveFramePointer, and ask jcmd PID Compiler.perfmap before this"},
    {"rb_vm_exec", "Ruby", NULL},
    {"vm_exec", "Ruby", NULL},
    {"execute_ex", "PHP", NULL},
    {"Perl_runops_standard", "Perl", NULL},
    {"luaV_execute", "Lua", NULL},
};

static bool runs(const struct places *places, const struct language *language) {
  for (size_t i = 0; i < places->frame_count; i++) {
    const char *linkage = places->frames[i].linkage;
    if (linkage != NULL && strncmp(linkage, language->loop, strlen(language->loop)) == 0)
      return true;
  }
  return false;
}

void places_note_languages(struct places *places) {
  for (size_t i = 0; i < places->frame_count; i++)
    if (places->frames[i].made) return;
  for (size_t i = 0; i < sizeof languages / sizeof languages[0]; i++) {
    const struct language *language = &languages[i];
    if (!runs(places, language)) continue;
    places_note(places, "%s's functions are not in the stacks, only its interpreter's%s%s",
                language->name, language->what_to_do != NULL ? ": " : "",
                language->what_to_do != NULL ? language->what_to_do : "");
    return;
  }
}
