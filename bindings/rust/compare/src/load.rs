//! Load for the server: connections that ask, wait for the answer, look whether it is right, and ask again.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::work::Draw;

const KEYS: u64 = 50_000;
const CONNECTIONS: u64 = 32;

/// What a run of load came to.
#[derive(Default)]
pub struct Measured {
    pub requests: u64,
    pub seconds: f64,
    /// Of each request, in microseconds, sorted.
    pub waits: Vec<u32>,
}

impl Measured {
    /// The wait, in microseconds, that `share` of all requests stay below.
    pub fn wait_below(&self, share: f64) -> u32 {
        let place = (self.waits.len() as f64 * share) as usize;
        self.waits
            .get(place.min(self.waits.len().saturating_sub(1)))
            .copied()
            .unwrap_or(0)
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the answer is wrong: {what}"),
    )
}

/// What every byte of a key's values is.
fn mark(number: u64) -> u8 {
    (number * 7 + 3) as u8
}

/// Many small ones, few large: 64 bytes to 128 KiB, each doubling half as often.
fn value_size(draw: &mut Draw) -> usize {
    let doublings = draw.word().trailing_ones().min(10);
    (64 << doublings) + draw.below(64 << doublings) as usize
}

struct Client {
    stream: BufReader<TcpStream>,
    draw: Draw,
    head: String,
    content: Vec<u8>,
}

impl Client {
    async fn connect(to: SocketAddr, seed: u64) -> io::Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
            draw: Draw(seed * 0x9e37_79b9 + 1),
            head: String::new(),
            content: Vec::new(),
        })
    }

    /// The content of the answer, in `content`; false: there is none.
    async fn ask(&mut self, request: &[u8]) -> io::Result<bool> {
        self.stream.write_all(request).await?;
        self.head.clear();
        self.content.clear();
        self.stream.read_line(&mut self.head).await?;
        if self.head == "-\n" {
            return Ok(false);
        }
        let bytes = self.head.trim_end().parse::<usize>();
        let bytes = bytes.map_err(|_| wrong(&self.head))?;
        self.content.resize(bytes, 0);
        self.stream.read_exact(&mut self.content).await?;
        Ok(true)
    }

    async fn one(&mut self) -> io::Result<()> {
        let number = self.draw.below(KEYS);
        let key = format!("key:{:02}:{number}", number % 100);
        match self.draw.below(100) {
            0..25 => {
                let size = value_size(&mut self.draw);
                let mut request = format!("PUT {key} {size}\n").into_bytes();
                request.resize(request.len() + size, mark(number));
                self.ask(&request).await?;
            }
            25..35 => drop(self.ask(format!("DEL {key}\n").as_bytes()).await?),
            35..36 => {
                let prefix = &key[..6];
                self.ask(format!("LIST {prefix}\n").as_bytes()).await?;
                let text = std::str::from_utf8(&self.content).map_err(|_| wrong("no text"))?;
                if !text.lines().all(|line| line.starts_with(prefix)) {
                    return Err(wrong(text));
                }
            }
            _ => {
                self.ask(format!("GET {key}\n").as_bytes()).await?;
                if self.content.iter().any(|byte| *byte != mark(number)) {
                    return Err(wrong(&key));
                }
            }
        }
        Ok(())
    }

    async fn work(mut self, end: Instant) -> io::Result<Vec<u32>> {
        let mut waits = Vec::new();
        let mut now = Instant::now();
        while now < end {
            self.one().await?;
            let after = Instant::now();
            waits.push((after - now).as_micros() as u32);
            now = after;
        }
        Ok(waits)
    }
}

/// Asks from many connections for so long.
pub async fn run(to: SocketAddr, time: Duration) -> io::Result<Measured> {
    let mut clients = Vec::new();
    for seed in 0..CONNECTIONS {
        clients.push(Client::connect(to, seed + 1).await?);
    }
    let start = Instant::now();
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|client| tokio::spawn(client.work(start + time)))
        .collect();
    let mut measured = Measured::default();
    for task in tasks {
        measured.waits.extend(task.await??);
    }
    measured.seconds = start.elapsed().as_secs_f64();
    measured.requests = measured.waits.len() as u64;
    measured.waits.sort_unstable();
    Ok(measured)
}

/// Has the server forget all.
pub async fn clear(at: SocketAddr) -> io::Result<()> {
    Client::connect(at, 1).await?.ask(b"CLEAR\n").await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve;
    use tokio::net::TcpListener;

    fn with_server(test: impl AsyncFnOnce(SocketAddr)) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(serve::accept(listener));
            test(address).await;
        });
    }

    async fn asked(client: &mut Client, request: &str) -> Option<String> {
        let there = client.ask(request.as_bytes()).await.unwrap();
        there.then(|| String::from_utf8(client.content.clone()).unwrap())
    }

    #[test]
    fn every_request_has_its_answer() {
        with_server(async |address| {
            let mut client = Client::connect(address, 1).await.unwrap();
            let some = |text: &str| Some(text.to_owned());
            assert_eq!(asked(&mut client, "GET a\n").await, None);
            assert_eq!(asked(&mut client, "PUT a 5\nhello").await, some(""));
            assert_eq!(asked(&mut client, "GET a\n").await, some("hello"));
            assert_eq!(asked(&mut client, "PUT ab 0\n").await, some(""));
            assert_eq!(asked(&mut client, "GET ab\n").await, some(""));
            assert_eq!(asked(&mut client, "LIST a\n").await, some("a\nab"));
            assert_eq!(asked(&mut client, "DEL a\n").await, some(""));
            assert_eq!(asked(&mut client, "DEL a\n").await, None);
            assert_eq!(asked(&mut client, "CLEAR\n").await, some(""));
            assert_eq!(asked(&mut client, "LIST a\n").await, some(""));
            for bad in ["WHAT\n", "PUT a\n", "PUT a 99999999999\n"] {
                let mut client = Client::connect(address, 1).await.unwrap();
                assert!(client.ask(bad.as_bytes()).await.is_err(), "{bad}");
            }
        });
    }

    #[test]
    fn load_is_answered_and_measured() {
        with_server(async |address| {
            let measured = run(address, Duration::from_millis(300)).await.unwrap();
            assert!(measured.requests > 100, "{}", measured.requests);
            assert_eq!(measured.waits.len() as u64, measured.requests);
            assert!(measured.wait_below(0.5) <= measured.wait_below(0.99));
            clear(address).await.unwrap();
        });
    }

    #[test]
    fn a_wrong_answer_is_an_error() {
        with_server(async |address| {
            let mut client = Client::connect(address, 1).await.unwrap();
            for number in 0..KEYS / 10 {
                let key = format!("key:{:02}:{number}", number % 100);
                let value = mark(number).wrapping_add(1);
                let mut request = format!("PUT {key} 1\n").into_bytes();
                request.push(value);
                client.ask(&request).await.unwrap();
            }
            assert!(run(address, Duration::from_secs(20)).await.is_err());
        });
    }
}
