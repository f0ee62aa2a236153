//! Empty: only the static library that tikv-jemalloc-sys builds is used.
