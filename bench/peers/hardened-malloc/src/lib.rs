//! Empty: only the static library that hardened-malloc-sys builds is used.
