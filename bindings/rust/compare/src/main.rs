//! Measures the programs of `benches`, which differ in their allocator alone, in turn, and compares them with libc's malloc.
//!
//! Usage: hakmem-compare [--rounds N] [--seconds S] [--only work|server]

mod machine;
mod programs;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use hakmem_compare::work;
use programs::{Program, Served};
use table::{median, ratio, Table};

const USAGE: &str = "usage: hakmem-compare [--rounds N] [--seconds S] [--only work|server]";
/// All others are compared with it.
const REFERENCE: &str = "system";

struct Settings {
    rounds: usize,
    time: Duration,
    work: bool,
    server: bool,
}

fn settings() -> Result<Settings, String> {
    let mut settings = Settings {
        rounds: 5,
        time: Duration::from_secs(3),
        work: true,
        server: true,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(USAGE)?;
        let number = value.parse::<u32>().ok().filter(|number| *number > 0);
        match (name.as_str(), number, value.as_str()) {
            ("--rounds", Some(number), _) => settings.rounds = number as usize,
            ("--seconds", Some(number), _) => settings.time = Duration::from_secs(number.into()),
            ("--only", _, "work") => settings.server = false,
            ("--only", _, "server") => settings.work = false,
            _ => return Err(USAGE.into()),
        }
    }
    Ok(settings)
}

/// Of each program, the rounds' figures.
type Rounds<T> = Vec<Vec<T>>;

/// Runs `measure` on every program in turn, so often; each round begins with another one.
fn in_turn<T>(
    programs: &[Program],
    rounds: usize,
    mut measure: impl FnMut(&Program) -> Result<T, String>,
) -> Result<Rounds<T>, String> {
    let mut figures: Rounds<T> = programs.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for step in 0..programs.len() {
            let index = (round + step) % programs.len();
            figures[index].push(measure(&programs[index])?);
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    Ok(figures)
}

fn headings(programs: &[Program], first: &str) -> Vec<String> {
    let mut headings = vec![first.to_owned()];
    headings.extend(programs.iter().map(|program| program.allocator.clone()));
    headings
}

/// A row of times: the reference's own, and of each other one its share of that, round by round.
fn row(name: &str, programs: &[Program], reference: usize, figures: &Rounds<f64>) -> Vec<String> {
    let mut row = vec![name.to_owned()];
    for index in 0..programs.len() {
        row.push(if index == reference {
            format!("{:.1}", median(&figures[index]))
        } else {
            ratio(&figures[index], &figures[reference])
        });
    }
    row
}

fn compare_work(settings: &Settings, programs: &[Program], reference: usize) -> Result<(), String> {
    let mut table = Table::new(headings(programs, "time, us"));
    for (name, _) in work::ALL {
        eprintln!("{name}");
        let seconds = settings.time.as_secs();
        let figures = in_turn(programs, settings.rounds, |program| {
            programs::time_work(program, name, seconds)
        })?;
        table.add(row(name, programs, reference, &figures));
    }
    println!("\nPieces of Rust: {REFERENCE} in microseconds, the others as a share of that (median, least to most of {} rounds); less is better\n\n{table}", settings.rounds);
    Ok(())
}

type Column = (&'static str, fn(&Served) -> f64);

const SERVER_ROWS: [Column; 5] = [
    ("processor us/request", |served| served.processor_us),
    ("wait, median us", |served| served.median_us),
    ("wait, p99 us", |served| served.p99_us),
    ("peak MiB", |served| served.peak_mib),
    ("MiB 3 s after CLEAR", |served| served.idle_mib),
];

fn compare_server(
    settings: &Settings,
    programs: &[Program],
    reference: usize,
) -> Result<(), String> {
    eprintln!("server");
    let served = in_turn(programs, settings.rounds, |program| {
        programs::time_server(program, settings.time)
    })?;
    let mut table = Table::new(headings(programs, ""));
    for (name, of) in SERVER_ROWS {
        let figures: Rounds<f64> = served
            .iter()
            .map(|rounds| rounds.iter().map(of).collect())
            .collect();
        table.add(row(name, programs, reference, &figures));
    }
    println!("\nA tokio server under load: {REFERENCE} in the row's unit, the others as a share of that; less is better\n\n{table}");
    Ok(())
}

fn compare() -> Result<(), String> {
    let settings = settings()?;
    let programs = programs::build()?;
    println!(
        "# Rust programs on hakmem and on other allocators\n\n{}",
        machine::described()
    );
    let reference = programs
        .iter()
        .position(|program| program.allocator == REFERENCE)
        .ok_or("cargo has built no program on the system's malloc")?;
    if settings.work {
        compare_work(&settings, &programs, reference)?;
    }
    if settings.server {
        compare_server(&settings, &programs, reference)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match compare() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
