//! On mimalloc, from the crate of that name.

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    hakmem_compare::run("mimalloc");
}
