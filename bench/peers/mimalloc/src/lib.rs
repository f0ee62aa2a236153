//! Empty: only the static library that libmimalloc-sys builds is used.
