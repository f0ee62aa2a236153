//! On libc's malloc.

#[global_allocator]
static GLOBAL: std::alloc::System = std::alloc::System;

fn main() {
    hakmem_compare::run("system");
}
