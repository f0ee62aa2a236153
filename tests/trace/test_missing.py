"""hakmem without libzstd: it works, and says what `hakmem trace` lacks."""

from common import *

MISSING = os.environ["HAKMEM_TEST_MISSING"]


class Missing(TestCase):
    def test_says_what_is_missing(self):
        result = hakmem("trace", "record", "-o", self.path("x"), "--", "true", tool=MISSING)
        self.assert_code(result, 2)
        self.assertEqual(result.out, "")
        self.assertRegex(result.err, r"^hakmem trace: .*libzstd.*libzstd-dev.*\n$")
        self.assertFalse(os.path.exists(self.path("x")))

    def test_the_rest_works(self):
        result = hakmem("run", "--library", LIBRARY, "--", "sh", "-c", "echo ran; exit 3", tool=MISSING)
        self.assert_code(result, 3)
        self.assertEqual((result.out, result.err), ("ran\n", ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
