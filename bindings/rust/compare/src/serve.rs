//! A small server of keys and values on tokio. Requests are lines:
//!
//! ```text
//! PUT key bytes    and then so many bytes; the answer is 0
//! GET key          the answer is the number of bytes, and these; - where there is no such key
//! DEL key          0, or -
//! LIST prefix      up to 50 keys that begin so, sorted, a line each
//! CLEAR            forgets all
//! ```
//!
//! Every request is answered by a task of its own, so much of what one thread allocates another one frees.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

const SHARDS: usize = 32;
/// Of a value. A number that a client has written must not make us allocate whatever it says.
const MOST_BYTES: usize = 16 << 20;

type Shard = Mutex<HashMap<String, Arc<[u8]>>>;

/// All that is kept.
#[derive(Default)]
pub struct Store {
    shards: [Shard; SHARDS],
}

enum Request {
    Put(String, Vec<u8>),
    Get(String),
    Delete(String),
    List(String),
    Clear,
}

fn locked(shard: &Shard) -> MutexGuard<'_, HashMap<String, Arc<[u8]>>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    fn shard(&self, key: &str) -> MutexGuard<'_, HashMap<String, Arc<[u8]>>> {
        let sum = key.bytes().fold(7usize, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte.into())
        });
        locked(&self.shards[sum % SHARDS])
    }

    fn list(&self, prefix: &str) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for shard in &self.shards {
            let found = locked(shard);
            let fitting = found.keys().filter(|key| key.starts_with(prefix));
            keys.extend(fitting.take(50).cloned());
        }
        keys.sort_unstable();
        keys.truncate(50);
        keys
    }

    fn answer(&self, request: Request) -> Vec<u8> {
        let done = |done: bool| {
            if done {
                b"0\n".to_vec()
            } else {
                b"-\n".to_vec()
            }
        };
        let with_length = |content: &[u8]| {
            let mut answer = format!("{}\n", content.len()).into_bytes();
            answer.extend_from_slice(content);
            answer
        };
        match request {
            Request::Put(key, value) => {
                self.shard(&key).insert(key, value.into());
                done(true)
            }
            Request::Get(key) => {
                let value = self.shard(&key).get(&key).cloned();
                value.map_or_else(|| done(false), |value| with_length(&value))
            }
            Request::Delete(key) => done(self.shard(&key).remove(&key).is_some()),
            Request::List(prefix) => with_length(self.list(&prefix).join("\n").as_bytes()),
            Request::Clear => {
                for shard in &self.shards {
                    *locked(shard) = HashMap::new();
                }
                done(true)
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
    let mut words = line.split_whitespace();
    let word = words.next().unwrap_or("");
    let mut next = || words.next().ok_or_else(|| refused(&line));
    Ok(Some(match word {
        "PUT" => {
            let (key, bytes) = (next()?.to_owned(), next()?.parse::<usize>());
            let bytes = bytes.ok().filter(|bytes| *bytes <= MOST_BYTES);
            let mut value = vec![0; bytes.ok_or_else(|| refused(&line))?];
            from.read_exact(&mut value).await?;
            Request::Put(key, value)
        }
        "GET" => Request::Get(next()?.to_owned()),
        "DEL" => Request::Delete(next()?.to_owned()),
        "LIST" => Request::List(next()?.to_owned()),
        "CLEAR" => Request::Clear,
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

/// Answers all who connect, for ever.
pub async fn accept(listener: TcpListener) -> io::Result<()> {
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

async fn listen() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    io::stdout().flush()?;
    accept(listener).await
}

/// The server as a program: says at which address it listens, and ends when it is killed.
pub fn run() -> ! {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let error = runtime.and_then(|runtime| runtime.block_on(listen()));
    eprintln!("the server ends: {error:?}");
    std::process::exit(1);
}
