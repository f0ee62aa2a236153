/* options_own.c - what options.py's third program says of its allocator. */
extern const char *hakmem_options;
const char *hakmem_options = "HAKMEM_STATS=json, HAKMEM_PROFILE=speed\n# HAKMEM_NO=1,,HAKMEM_FOO=1";
