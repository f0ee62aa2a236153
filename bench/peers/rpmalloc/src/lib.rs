//! Empty: only the static library that rpmalloc-sys builds is used.
