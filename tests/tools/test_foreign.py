"""What needs compilers, C libraries and allocators that a build does not."""

from common import *

# Says whether malloc's block is hakmem's, and takes one by a name of the other allocator.
BENEATH = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void *%(take)s;
int main(void) {
  bool (*owns)(const void *) = NULL;
  *(void **)&owns = dlsym(RTLD_DEFAULT, "hak_owns");
  void *block = malloc(100);
  char *text = strdup("libc allocates too");
  printf("malloc %%d strdup %%d other %%d\\n", owns != NULL && owns(block), owns != NULL && owns(text),
         owns != NULL && owns(%(call)s));
  free(text);
  free(block);
  return 0;
}
"""

OTHERS = {
    "libjemalloc.so.2": ("mallocx(size_t, int)", "mallocx(100, 0)"),
    "libmimalloc.so.2": ("mi_malloc(size_t)", "mi_malloc(100)"),
    "libtcmalloc_minimal.so.4": ("tc_malloc(size_t)", "tc_malloc(100)"),
}


class Programs(TestCase):
    def test_real_cross_built_program(self):
        compilers = [name for name in ("aarch64-linux-gnu-gcc", "x86_64-linux-gnu-gcc")
                     if shutil.which(name) and os.uname().machine not in name.replace("_", "-")
                     and os.uname().machine.replace("_", "-") not in name.replace("_", "-")]  # fmt: skip
        if not compilers:
            self.skipTest("no cross compiler")
        source = os.path.join(SOURCE, "tests/tools/static.c")
        self.assert_code(execute([compilers[0], "-o", self.path("cross"), source]), 0)
        self.assert_refused(hakmem("run", self.path("cross")), 126, "64-bit; the library is for")

    def test_other_libc(self):
        if not shutil.which("musl-gcc"):
            self.skipTest("musl-gcc is not installed")
        source = os.path.join(SOURCE, "tests/tools/static.c")
        self.assert_code(execute(["musl-gcc", "-o", self.path("musl"), source]), 0)
        self.assert_refused(hakmem("run", self.path("musl")), 126, "runs on musl")

    def test_a_real_go_program(self):
        go = shutil.which("gofmt")
        if go is None:
            self.skipTest("Go is not installed")
        result = hakmem("run", go)
        self.assertIn("Go", result.err)


class Allocators(TestCase):
    def test_another_allocator(self):
        found = [path for path in map(library_path, OTHERS) if path]
        for path in found:
            self.assert_no_hakmem(path, "is another allocator, not hakmem")
        if not found:
            self.skipTest("no other allocator is installed")

    def test_linked_with_another_allocator(self):
        """A preloaded malloc comes first; what is called by other names is the other's."""
        tried = 0
        for name, (take, call) in OTHERS.items():
            path = library_path(name)
            if path is None:
                continue
            program = self.build("beneath", BENEATH % {"take": take, "call": call}, path)
            self.assertEqual(execute([program]).out, "malloc 0 strdup 0 other 0\n", name)
            result = hakmem("run", program)
            self.assertEqual((result.code, result.out, result.err), (0, "malloc 1 strdup 1 other 0\n", ""))
            doctor = hakmem("doctor", program)
            self.assert_code(doctor, 0)
            self.assertRegex(doctor.out, f"note  /.*/{name} defines malloc, too")
            self.assertIn("malloc comes from the library in all", doctor.out)
            tried += 1
        if tried == 0:
            self.skipTest("no other allocator is installed")


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
