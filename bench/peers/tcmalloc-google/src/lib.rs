//! Empty: only the static library that libtcmalloc-sys builds is used.
