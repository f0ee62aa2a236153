//! Pieces of Rust programs that allocate. Each returns a number that depends on all it did, and is always the same.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::mpsc;
use std::thread;

use serde_json::{json, Value};

type Work = fn() -> u64;

/// By name, in the order of the report.
pub const ALL: &[(&str, Work)] = &[
    ("slots", slots),
    ("strings", strings),
    ("tree", tree),
    ("growing", growing),
    ("json", json),
    ("handoff", handoff),
    ("aligned", aligned),
];

/// Marsaglia's xorshift of 64 bits.
pub struct Draw(pub u64);

impl Draw {
    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(end)) >> 64) as u64
    }
}

/// Blocks of 16 to 1024 bytes, freed at random.
fn slots() -> u64 {
    let mut draw = Draw(1);
    let mut slots: Vec<Option<Vec<u8>>> = vec![None; 400];
    let mut sum = 0;
    for _ in 0..20_000 {
        let slot = &mut slots[draw.below(400) as usize];
        *slot = match slot.take() {
            Some(block) => {
                sum += u64::from(block[0]);
                None
            }
            None => {
                let mut block = Vec::with_capacity(16 + draw.below(1009) as usize);
                block.push(draw.word() as u8);
                Some(block)
            }
        };
    }
    sum
}

/// Words of a text, counted.
fn strings() -> u64 {
    let mut draw = Draw(2);
    let mut counts: HashMap<String, Vec<usize>> = HashMap::new();
    for at in 0..10_000 {
        let word = format!(
            "word{}{}",
            draw.below(40),
            "e".repeat(draw.below(30) as usize)
        );
        counts.entry(word).or_default().push(at);
    }
    counts
        .iter()
        .map(|(word, places)| (word.len() * places.len() + places[0]) as u64)
        .sum()
}

/// A sorted map with owned values, of which half go.
fn tree() -> u64 {
    let mut draw = Draw(3);
    let mut map = BTreeMap::new();
    for at in 0..10_000u64 {
        map.insert(draw.word(), Box::new([at; 6]));
        if at % 2 == 1 {
            map.pop_first();
        }
    }
    map.values().map(|value| value[5]).sum()
}

/// Vectors and a string that grow without having been told how far.
fn growing() -> u64 {
    let mut numbers = Vec::new();
    let mut text = String::new();
    let mut lists: Vec<Vec<u32>> = vec![Vec::new(); 100];
    for at in 0..200_000u32 {
        numbers.push(u64::from(at));
        lists[(at % 100) as usize].push(at);
        if at % 10 == 0 {
            text.push_str("more of it");
        }
    }
    let listed: usize = lists.iter().map(Vec::len).sum();
    black_box(&numbers)[199_999] + (text.len() + listed) as u64
}

/// A document of 300 records, written, read and changed.
fn json() -> u64 {
    let records: Vec<Value> = (0..300)
        .map(|n| {
            json!({"id": n, "name": format!("record {n}"), "tags": ["a", "bc", "def"],
                   "place": {"x": n * 3, "y": n * 5}})
        })
        .collect();
    let text = Value::from(records).to_string();
    let mut read: Value = serde_json::from_str(&text).expect("as it was written");
    let list = read.as_array_mut().expect("a list");
    list.retain(|record| record["id"].as_u64().is_some_and(|id| id % 3 == 0));
    let sum: u64 = list
        .iter()
        .filter_map(|one| one["place"]["y"].as_u64())
        .sum();
    sum + text.len() as u64
}

/// One thread allocates, two free.
fn handoff() -> u64 {
    thread::scope(|scope| {
        let receivers: Vec<_> = (0..2)
            .map(|_| {
                let (sender, receiver) = mpsc::sync_channel::<Vec<u8>>(256);
                let sum = move || receiver.iter().map(|block| block.len() as u64).sum::<u64>();
                (sender, scope.spawn(sum))
            })
            .collect();
        let mut draw = Draw(4);
        for at in 0..5_000 {
            let block = vec![at as u8; 16 + draw.below(2000) as usize];
            receivers[at % 2].0.send(block).expect("it listens");
        }
        receivers
            .into_iter()
            .map(|(sender, thread)| {
                drop(sender);
                thread.join().expect("it ended well")
            })
            .sum()
    })
}

/// Values on cache lines of their own.
fn aligned() -> u64 {
    #[repr(align(64))]
    struct Line([u64; 3]);
    let mut kept: Vec<Box<Line>> = Vec::new();
    let mut sum = 0;
    for at in 0..10_000u64 {
        kept.push(Box::new(Line([at, at + 1, at + 2])));
        if at % 3 == 0 {
            let line = kept.swap_remove(kept.len() / 2);
            sum += line.0[2] + u64::from(std::ptr::from_ref(&*line).is_aligned());
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_does_the_same_again() {
        for (name, work) in ALL {
            let first = work();
            assert_ne!(first, 0, "{name}");
            assert_eq!(first, work(), "{name}");
        }
    }

    #[test]
    fn draws_are_spread() {
        let mut draw = Draw(9);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[draw.below(10) as usize] += 1;
        }
        assert!(
            seen.iter().all(|&count| (850..1150).contains(&count)),
            "{seen:?}"
        );
    }
}
