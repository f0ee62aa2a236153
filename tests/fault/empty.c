/* A shared library with nothing in it: what preloading any library costs a program. */
extern const int hak_test_empty_library;
const int hak_test_empty_library = 1;
