// new_only.cpp - this program itself calls nothing but operator new, yet libc's blocks are hakmem's
// too.
#include "check.h"

#include <string>

extern "C" char *strdup(const char *);

int main() {
  std::string text(100, 'x');
  CHECK(hak_owns(text.data()));
  CHECK(hak_owns(strdup("never freed, so that free is not called here")));
  return 0;
}
