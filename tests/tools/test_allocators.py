"""Other allocators: as the library to preload, in a program, and beneath it."""

from common import *

OWN_MALLOC = """
#include <stddef.h>
static char memory[1 << 20];
static size_t used;
%(visibility)s void *malloc(size_t size) {
  used += (size + 31) & ~(size_t)15;
  return memory + used - ((size + 15) & ~(size_t)15);
}
%(visibility)s void *calloc(size_t n, size_t size) { return malloc(n * size); }
%(visibility)s void *realloc(void *p, size_t size) { (void)p; return malloc(size); }
%(visibility)s void free(void *p) { (void)p; }
#include <stdio.h>
int main(void) { return puts(malloc(1) == NULL ? "failed" : "ran") < 0; }
"""

class AsTheLibrary(TestCase):
    """--library that would leave the program without hakmem."""

    def test_a_library_without_malloc(self):
        for name in ("libz.so.1", "libm.so.6"):
            path = library_path(name) or execute([CC, "-print-file-name=" + name]).out.strip()
            if os.path.isabs(path):
                self.assert_no_hakmem(path, "is not hakmem: it has no malloc")

    def test_the_library_for_programs_that_call_it(self):
        self.assert_no_hakmem(API_LIBRARY, "has no malloc: it is hakmem for programs that call")

    def test_a_library_that_only_calls_hakmem(self):
        source = "const char *hak_version(void); void *malloc(unsigned long); void *f(void); " \
                 "void *f(void) { return hak_version() ? malloc(1) : 0; }"  # fmt: skip
        library = self.build("calls.so", source, "-shared", "-fPIC", LIBRARY)
        self.assert_no_hakmem(library, "is not hakmem: it has no malloc")

    def test_damaged_tables(self):
        """Whatever the section headers say: a refusal or a run, no crash."""
        with open(LIBRARY, "rb") as file:
            content = file.read()
        start = int.from_bytes(content[40:48], "little")
        for offset in [40, 58, 60, *range(start, min(len(content), start + 64 * 12), 8)]:
            damaged = content[:offset] + b"\xff\x7f" + content[offset + 2 :]
            result = hakmem("doctor", "--library", self.write("damaged.so", damaged))
            self.assertIn(result.code, (0, 1, 2), (offset, result))


class InTheProgram(TestCase):
    def test_own_malloc_for_everybody(self):
        program = self.build("own", OWN_MALLOC % {"visibility": ""}, "-rdynamic")
        self.assertEqual(execute([program]).out, "ran\n")
        self.assert_refused(hakmem("run", program), 126, program, "brings its own malloc")
        doctor = hakmem("doctor", program)
        self.assert_code(doctor, 1)
        self.assertIn(f"FAIL  {program} brings its own malloc", doctor.out)

    def test_without_being_asked_to_export_it(self):
        """The linker exports what the C library has too; so it does in a program at a fixed address."""
        for flags in (["-pie", "-fPIE"], ["-no-pie", "-fno-pie"], ["-s"]):
            program = self.build("own", OWN_MALLOC % {"visibility": ""}, *flags)
            self.assert_refused(hakmem("run", program), 126, "brings its own malloc")

    def test_own_malloc_for_its_own_calls(self):
        hidden = '__attribute__((visibility("hidden")))'
        program = self.build("hidden", OWN_MALLOC % {"visibility": hidden})
        result = hakmem("run", program)
        self.assert_code(result, 0)
        self.assertEqual(result.out, "ran\n")
        self.assertIn(f"note: {program} brings its own malloc for its own calls", result.err)
        doctor = hakmem("doctor", program)
        self.assert_code(doctor, 1)
        self.assertIn(f"FAIL  {program} brings its own malloc for its own calls", doctor.out)

    def test_through_a_script_and_env(self):
        program = self.build("own", OWN_MALLOC % {"visibility": ""})
        script = self.write("script", f"#!{program}\n")
        self.assert_refused(hakmem("run", script), 126, program, "brings its own malloc")
        self.assert_refused(hakmem("run", "env", "A=1", program), 126, program, "brings its own malloc")

    def test_programs_that_have_none(self):
        """Importing malloc, taking its address, functions of similar names: all run."""
        source = """
            #include <stdio.h>
            #include <stdlib.h>
            void *(*volatile allocate)(size_t);
            void *my_malloc(size_t size) { return malloc(size); }
            int malloc_count = 1;
            int main(void) { allocate = malloc; free(allocate(1)); return puts("ran") < 0; }
            """
        for flags in (["-fno-pie", "-no-pie"], ["-rdynamic"], ["-s"]):
            result = hakmem("run", self.build("none", source, *flags))
            self.assertEqual((result.code, result.out, result.err), (0, "ran\n", ""))

    def test_hakmem_linked_in(self):
        archive = os.path.join(os.path.dirname(LIBRARY), "libhakmem.a")
        source = '#include <stdio.h>\n#include <stdlib.h>\n' \
                 'int main(void) { free(malloc(1)); return puts("ran") < 0; }'  # fmt: skip
        program = self.build("linked", source, archive, "-pthread")
        result = hakmem("run", program)
        self.assertEqual((result.code, result.out, result.err), (0, "ran\n", ""))
        doctor = hakmem("doctor", program)
        self.assert_code(doctor, 0)
        self.assertIn("has a hakmem of its own linked in", doctor.out)
        whole = self.build("whole", source, "-static", "-Wl,-u,malloc", archive, "-pthread")
        self.assert_refused(hakmem("run", whole), 126, "statically linked, with hakmem in it: start it as it is")
        doctor = hakmem("doctor", whole)
        self.assert_code(doctor, 126)
        self.assertIn("with hakmem in it: start it as it is", doctor.err)


class BeneathTheProgram(TestCase):
    def test_ordinary_program_has_none_beneath(self):
        self.assertNotIn("malloc, too", hakmem("doctor", SUBJECT).out)
        self.assertNotIn("malloc, too", hakmem("doctor", sys.executable).out)

    def test_a_library_that_is_missing(self):
        library = self.build("libgone.so", "int gone(void); int gone(void) { return 1; }", "-shared")
        program = self.build("needs", "int gone(void); int main(void) { return gone(); }", library)
        os.remove(library)
        doctor = hakmem("doctor", program)
        self.assert_code(doctor, 1)
        self.assertRegex(doctor.out, "FAIL  .*libgone.so: the library is not found")

    def test_libraries_beside_the_program(self):
        """$ORIGIN in the program's own search path."""
        os.makedirs(self.path("lib"))
        library = self.build("lib/libmine.so", OWN_MALLOC.replace("main", "mine") % {"visibility": ""},
                             "-shared", "-fPIC", "-Wl,-soname,libmine.so")  # fmt: skip
        program = self.build("uses", "int mine(void); int main(void) { return mine(); }", library,
                             "-Wl,-rpath,$ORIGIN/lib")  # fmt: skip
        os.makedirs(self.path("bin"))
        os.symlink("../uses", self.path("bin/link"))
        for name in ("uses", "bin/link"):
            doctor = hakmem("doctor", self.path(name))
            self.assertIn(f"note  {library} defines malloc, too", doctor.out, doctor)
            self.assertNotIn("not found", doctor.out)


class Sanitizer(TestCase):
    def test_a_program_with_a_sanitizer(self):
        text = self.write("asan.c", "#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }")
        built = execute([CC, "-fsanitize=address", "-o", self.path("asan"), text])
        if built.code != 0 or execute([self.path("asan")]).code != 0:
            self.skipTest("no AddressSanitizer here")
        self.assert_code(hakmem("doctor", self.path("asan")), 1)


class Go(TestCase):
    NOTE = """
        __attribute__((section(".note.go.buildid"), used, aligned(4)))
        static const struct { unsigned name, text, type; char owner[4]; char id[4]; } note =
            {4, 4, 4, "Go", "abc"};
        int main(void) { return 0; }
        """

    def test_statically_linked(self):
        program = self.build("go", self.NOTE, "-static")
        self.assert_refused(hakmem("run", program), 126, "statically linked Go program", "itself")

    def test_dynamically_linked(self):
        program = self.build("go", self.NOTE)
        self.assert_code(hakmem("run", program), 0)
        self.assertIn("is a Go program", hakmem("doctor", program).out)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
