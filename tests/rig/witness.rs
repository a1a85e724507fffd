//! A server of HTTP that answers when it is told to, and keeps a log of its own of when it did:
//! what a load meter says is held against that.

use std::cell::Cell;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::places;

/// What ends a request: none has a body.
const END: &[u8] = b"\r\n\r\n";
/// What it answers, where the connection goes on.
pub const ANSWER: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
const LAST_ANSWER: &[u8] = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";

/// How a server answers.
#[derive(Debug, Clone, Default)]
pub struct Manner {
    /// Times in which it answers nothing.
    pub stalls: Option<Stalls>,
    /// How long it takes for each request, in turn; at once where there are none.
    pub delays: Vec<Duration>,
    /// It takes one request on each connection, and leaves it to the client to close that.
    pub closes: bool,
}

/// Times in which a server answers nothing, again and again.
#[derive(Debug, Clone, Copy)]
pub struct Stalls {
    /// From the first request to the first of them.
    pub first: Duration,
    /// How long each is.
    pub length: Duration,
    /// From the begin of one to that of the next.
    pub every: Duration,
}

impl Stalls {
    /// How long it is silent for what comes so long after the first request.
    fn left(&self, since: Duration) -> Duration {
        let Some(since) = since.checked_sub(self.first) else { return Duration::ZERO };
        let nanos = since.as_nanos() % self.every.as_nanos().max(1);
        let within = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.length.saturating_sub(within)
    }
}

/// A running server; it ends with the value.
#[derive(Debug)]
pub struct Witness {
    pub address: SocketAddr,
    log: Arc<Mutex<Vec<u64>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Witness {
    /// Starts one on a thread of its own.
    ///
    /// # Panics
    /// When no port or thread can be had.
    pub fn start(manner: Manner) -> Self {
        Self::start_at(places::free_address(), manner)
    }

    /// The same at an address.
    ///
    /// # Panics
    /// When it is taken, or no thread can be had.
    pub fn start_at(address: SocketAddr, manner: Manner) -> Self {
        places::raise_open_files();
        let listener = listen(address);
        let log = Arc::<Mutex<Vec<u64>>>::default();
        let (stop, stopped) = oneshot::channel();
        let noted = Arc::clone(&log);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime can be had");
            LocalSet::new().block_on(&runtime, async {
                let shared = WitnessState { manner, log: noted, begun: Cell::default() };
                tokio::select! {
                    () = accept(listener, Rc::new(shared)) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, log, stop: Some(stop), thread: Some(thread) }
    }

    /// As a load's URL.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// When it answered each request, in nanoseconds of the wall clock.
    pub fn answered(&self) -> Vec<u64> {
        let mut log = locked(&self.log).clone();
        log.sort_unstable();
        log
    }

    /// By its log and a schedule of so many requests a second that began then: how long each
    /// request waited from when it was due, in nanoseconds, the shortest first. Whoever is due
    /// first is answered first.
    pub fn waits(&self, began: SystemTime, rate: f64) -> Vec<u64> {
        let began = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let answered = self.answered().into_iter().enumerate();
        let wait = answered.map(|(number, at)| {
            let due = began + Duration::from_secs_f64(number as f64 / rate);
            at.saturating_sub(u64::try_from(due.as_nanos()).unwrap_or(u64::MAX))
        });
        let mut waits: Vec<u64> = wait.collect();
        waits.sort_unstable();
        waits
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn locked(log: &Mutex<Vec<u64>>) -> MutexGuard<'_, Vec<u64>> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(address: SocketAddr) -> TcpListener {
    let listener = places::listen(address);
    listener.set_nonblocking(true).expect("a listener need not block");
    listener
}

/// What the connections share.
struct WitnessState {
    manner: Manner,
    log: Arc<Mutex<Vec<u64>>>,
    /// The first request, and how many have come.
    begun: Cell<Option<(Instant, usize)>>,
}

impl WitnessState {
    /// Waits until a request that has just come is to be answered.
    async fn wait(&self) {
        let now = Instant::now();
        let (first, number) = self.begun.get().unwrap_or((now, 0));
        self.begun.set(Some((first, number + 1)));
        let delays = &self.manner.delays;
        if let Some(delay) = delays.get(number % delays.len().max(1)) {
            tokio::time::sleep(*delay).await;
        }
        if let Some(stalls) = &self.manner.stalls {
            let left = stalls.left(first.elapsed());
            if !left.is_zero() {
                tokio::time::sleep(left).await;
            }
        }
    }

    fn note(&self) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        locked(&self.log).push(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
    }
}

async fn accept(listener: TcpListener, shared: Rc<WitnessState>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("it is a listener");
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Rc::clone(&shared);
        tokio::task::spawn_local(async move {
            // A connection that breaks is its client's affair.
            let _ = serve(stream, &shared).await;
        });
    }
}

async fn serve(mut stream: TcpStream, shared: &WitnessState) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut piece, mut seen) = ([0; 4096], 0);
    loop {
        let len = stream.read(&mut piece).await?;
        if len == 0 {
            return Ok(());
        }
        for byte in &piece[..len] {
            seen = match *byte {
                byte if byte == END[seen] => seen + 1,
                b'\r' => 1,
                _ => 0,
            };
            if seen == END.len() {
                seen = 0;
                shared.wait().await;
                let last = shared.manner.closes;
                stream.write_all(if last { LAST_ANSWER } else { ANSWER }).await?;
                shared.note();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Stalls;

    #[test]
    fn a_stall_comes_again_and_again() {
        let ms = Duration::from_millis;
        let stalls = Stalls { first: ms(4_500), length: ms(1_000), every: ms(10_000) };
        for (since, left) in [
            (0, 0),
            (4_499, 0),
            (4_500, 1_000),
            (5_400, 100),
            (5_500, 0),
            (14_499, 0),
            (14_600, 900),
            (25_499, 1),
        ] {
            assert_eq!(stalls.left(ms(since)), ms(left), "{since}");
        }
    }
}
