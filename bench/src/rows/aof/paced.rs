//! `SET` at fixed times, whatever is answered: what a client waits counts from when its command was
//! due, so that a server which stands still is charged for all that was due meanwhile.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rig::disk::{latencies, note};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::resp::put_command;

use crate::Outcome;

/// How long answers are waited for once everything is sent.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether everything is answered.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

#[derive(Debug, Clone)]
pub struct Paced {
    pub rate: f64,
    /// Connections, which take turns.
    pub clients: usize,
    /// Bytes of a value.
    pub value: usize,
    /// How many keys there are.
    pub keys: u64,
}

/// What came of it, in microseconds.
pub struct Report {
    /// From when a command was due to its answer.
    pub latency: Histogram<u64>,
    /// How late commands were sent.
    pub lag: Histogram<u64>,
    /// How long it took.
    pub took: Duration,
}

impl Report {
    /// Milliseconds at a quantile.
    pub fn ms_at(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1e3
    }

    /// The longest, in milliseconds.
    pub fn longest_ms(&self) -> f64 {
        self.latency.max() as f64 / 1e3
    }

    /// How many of 10,000 took longer than `limit`.
    pub fn beyond(&self, limit: Duration) -> f64 {
        let beyond = self.latency.len() - self.latency.count_between(0, limit.as_micros() as u64);
        beyond as f64 * 1e4 / self.latency.len().max(1) as f64
    }

    /// Commands a second that were answered.
    pub fn rate(&self) -> f64 {
        self.latency.len() as f64 / self.took.as_secs_f64()
    }

    /// How far the client itself was behind its schedule.
    pub fn behind(&self) -> String {
        format!("sent {:.2} ms late at p99", self.lag.value_at_quantile(0.99) as f64 / 1e3)
    }
}

impl Paced {
    /// Sends until `stop` says so, and waits for all answers.
    ///
    /// # Errors
    /// A connection fails, an answer is none, or is late beyond all patience.
    pub fn run(&self, address: SocketAddr, stop: impl Fn() -> bool + Sync) -> Outcome<Report> {
        let connect = |_| {
            let socket = TcpStream::connect(address)?;
            socket.set_nodelay(true)?;
            Ok::<_, io::Error>(socket)
        };
        let sockets = (0..self.clients).map(connect).collect::<io::Result<Vec<_>>>()?;
        let (sent, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let begun = Instant::now();
        thread::scope(|scope| {
            let hearing = scope.spawn(|| {
                let heard = self.hear(&sockets, begun, &sent, &is_over);
                heard.map_err(|error| error.to_string())
            });
            let lag = self.send(&sockets, begun, &sent, stop);
            is_over.store(true, Ordering::SeqCst);
            let heard = hearing.join().map_err(|_| "the thread that hears answers panicked")?;
            Ok(Report { latency: heard?, lag: lag?, took: begun.elapsed() })
        })
    }

    /// Sends for as long as something takes, whatever comes of that; gives both.
    ///
    /// # Errors
    /// As of [`Paced::run`], and as that has.
    pub fn beside<T>(
        &self,
        address: SocketAddr,
        done: impl FnOnce() -> Outcome<T>,
    ) -> Outcome<(Report, T)> {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let stopping = Stopping(&stop);
            let loading = scope.spawn(|| {
                let run = self.run(address, || stop.load(Ordering::Relaxed));
                run.map_err(|error| error.to_string())
            });
            let done = done();
            drop(stopping);
            let report = loading.join().map_err(|_| "the load panicked")??;
            Ok((report, done?))
        })
    }

    fn due(&self, number: u64) -> Duration {
        Duration::from_secs_f64(number as f64 / self.rate)
    }

    fn send(
        &self,
        sockets: &[TcpStream],
        begun: Instant,
        sent: &AtomicU64,
        stop: impl Fn() -> bool,
    ) -> Outcome<Histogram<u64>> {
        sched::set_slice(sched::Slice::Short);
        let (value, mut command) = ("x".repeat(self.value), Vec::new());
        let mut lag = latencies();
        for number in 0.. {
            let due = self.due(number);
            let mut now = begun.elapsed();
            if now < due {
                if stop() {
                    break;
                }
                // The schedule itself.
                thread::sleep(due - now);
                now = begun.elapsed();
            }
            note(&mut lag, now.saturating_sub(due));
            command.clear();
            let key = format!("key:{}", rand::random_range(0..self.keys));
            put_command(&mut command, ["SET", &key, &value].iter());
            let mut socket = &sockets[number as usize % sockets.len()];
            // Before it can be answered.
            sent.store(number + 1, Ordering::SeqCst);
            socket.write_all(&command)?;
        }
        Ok(lag)
    }

    /// Answers of a connection come in the order of its commands, so what each is to is counted.
    fn hear(
        &self,
        sockets: &[TcpStream],
        begun: Instant,
        sent: &AtomicU64,
        is_over: &AtomicBool,
    ) -> Outcome<Histogram<u64>> {
        sched::set_slice(sched::Slice::Short);
        let mut polled: Vec<_> =
            sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        let mut next: Vec<u64> = (0..sockets.len() as u64).collect();
        let (mut latency, mut piece) = (latencies(), vec![0; 64 << 10]);
        let mut over_at = None;
        loop {
            poll(&mut polled, Some(&LOOK_EVERY))?;
            for (client, of) in polled.iter_mut().enumerate() {
                if of.revents().is_empty() {
                    continue;
                }
                of.clear_revents();
                let read = (&sockets[client]).read(&mut piece)?;
                let bytes = &piece[..read];
                if read == 0 || bytes.contains(&b'-') {
                    let said = String::from_utf8_lossy(bytes);
                    return Err(format!("the server answered {said:?}").into());
                }
                let now = begun.elapsed();
                for _ in memchr::memchr_iter(b'\n', bytes) {
                    note(&mut latency, now.saturating_sub(self.due(next[client])));
                    next[client] += sockets.len() as u64;
                }
            }
            if is_over.load(Ordering::SeqCst) {
                if latency.len() == sent.load(Ordering::SeqCst) {
                    return Ok(latency);
                }
                if over_at.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                    return Err("answers are missing after a minute".into());
                }
            }
        }
    }
}

/// Ends the load when it goes, also where something fails.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
