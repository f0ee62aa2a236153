//! Empty: only the C++ sources that come with snmalloc-sys are used.
