//! On snmalloc, from the crate snmalloc-rs.

#[global_allocator]
static GLOBAL: snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc;

fn main() {
    hakmem_compare::run("snmalloc");
}
