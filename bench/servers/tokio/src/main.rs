//! `tokio-server PORT WORKERS`: memcached's get, set and delete on tokio. Every request is a task of its own, so much of
//! what one worker allocates another one frees. It answers until SIGTERM.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

const SHARDS: usize = 32;
/// Of a value: a number that a client has written must not make us allocate whatever it says.
const MOST_BYTES: usize = 16 << 20;

type Shard = Mutex<HashMap<String, Arc<[u8]>>>;

#[derive(Default)]
struct Store {
    shards: [Shard; SHARDS],
}

enum Request {
    Set(String, Vec<u8>),
    Get(String),
    Delete(String),
}

impl Store {
    fn shard(&self, key: &str) -> MutexGuard<'_, HashMap<String, Arc<[u8]>>> {
        let sum = key.bytes().fold(7usize, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte.into())
        });
        self.shards[sum % SHARDS]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: Request) -> Vec<u8> {
        match request {
            Request::Set(key, value) => {
                self.shard(&key).insert(key, value.into());
                b"STORED\r\n".to_vec()
            }
            Request::Delete(key) => match self.shard(&key).remove(&key) {
                Some(_) => b"DELETED\r\n".to_vec(),
                None => b"NOT_FOUND\r\n".to_vec(),
            },
            Request::Get(key) => {
                let found = self.shard(&key).get(&key).cloned();
                let mut answer = Vec::new();
                if let Some(value) = found {
                    answer.extend(format!("VALUE {key} 0 {}\r\n", value.len()).into_bytes());
                    answer.extend_from_slice(&value);
                    answer.extend_from_slice(b"\r\n");
                }
                answer.extend_from_slice(b"END\r\n");
                answer
            }
        }
    }
}

fn refused(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no request: {line:?}"))
}

/// The next request of a connection; `None` at its end.
async fn read(from: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if from.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    Ok(Some(match *words.as_slice() {
        ["get", key] => Request::Get(key.to_owned()),
        ["delete", key] => Request::Delete(key.to_owned()),
        ["set", key, _, _, bytes] => {
            let bytes = bytes.parse::<usize>().ok();
            let bytes = bytes.filter(|bytes| *bytes <= MOST_BYTES);
            let mut value = vec![0; bytes.ok_or_else(|| refused(&line))? + 2];
            from.read_exact(&mut value).await?;
            value.truncate(value.len() - 2);
            Request::Set(key.to_owned(), value)
        }
        _ => return Err(refused(&line)),
    }))
}

async fn talk(mut stream: TcpStream, store: Arc<Store>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (from, mut to) = stream.split();
    let mut from = BufReader::new(from);
    while let Some(request) = read(&mut from).await? {
        let store = Arc::clone(&store);
        let answer = tokio::spawn(async move { store.answer(request) }).await?;
        to.write_all(&answer).await?;
    }
    Ok(())
}

async fn listen(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let store = Arc::new(Store::default());
    loop {
        let (stream, _) = listener.accept().await?;
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            if let Err(error) = talk(stream, store).await {
                eprintln!("a connection ends: {error}");
            }
        });
    }
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let numbers = words.get(1).zip(words.get(2));
    let parsed = numbers.and_then(|(port, workers)| port.parse().ok().zip(workers.parse().ok()));
    let Some((port, workers)) = parsed else {
        eprintln!("usage: tokio-server PORT WORKERS");
        std::process::exit(2);
    };
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()?
        .block_on(listen(port))
}
