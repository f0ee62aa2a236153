//! What the programs of `benches` have in common, which differ in their allocator alone: pieces of Rust for criterion, and a
//! server. `main.rs` runs them in turn and compares.

pub mod load;
pub mod serve;
pub mod work;

/// The program on one allocator: with `serve` as its argument the server, else criterion with its own arguments.
#[cfg(feature = "criterion")]
pub fn run(allocator: &str) {
    use criterion::Criterion;
    use std::time::Duration;

    if std::env::args().nth(1).as_deref() == Some("serve") {
        serve::run();
    }
    let mut criterion = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for (name, work) in work::ALL {
        criterion
            .benchmark_group(*name)
            .bench_function(allocator, |bencher| bencher.iter(work));
    }
    criterion.final_summary();
}
