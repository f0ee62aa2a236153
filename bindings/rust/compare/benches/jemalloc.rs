//! On jemalloc, from the crate tikv-jemallocator.

#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    hakmem_compare::run("jemalloc");
}
