//! A master that is never the limit: what a real one sent was recorded, and is sent again, as often
//! as is wanted and as fast as it is taken.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rig::redis::Redis;
use rig::wait;
use wire::resp::{CommandFrame, Commands, Limits};

use super::super::redis::client::Load;
use super::super::turns::ClientRoute;
use super::info;
use crate::Outcome;

const ID: &str = "0123456789012345678901234567890123456789";
/// How it asks what is durable: an offset in an answer is behind this, too.
const GETACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";
/// How often it asks, and looks whether there is something to do.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Bytes of a value that is recorded.
const VALUE: usize = 100;
const KEYS: u64 = 1_000_000;

/// What a master sent: its data set, which is empty, and then commands.
pub struct Recording {
    rdb: Vec<u8>,
    stream: Vec<u8>,
}

impl Recording {
    /// Joins a real master, and has clients write about so many bytes.
    ///
    /// # Errors
    /// It sends something else.
    pub fn make(bytes: u64) -> Outcome<Self> {
        let master = Redis::start_with(&["--repl-diskless-sync-delay", "0"]);
        let mut socket = TcpStream::connect(master.address)?;
        socket.set_read_timeout(Some(wait::LONG))?;
        socket.write_all(b"PSYNC ? -1\r\n")?;
        let mut reader = BufReader::new(socket);
        let mut line = || -> io::Result<String> {
            let mut line = String::new();
            // Empty lines are its signs of life.
            while line.trim().is_empty() {
                line.clear();
                if reader.read_line(&mut line)? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Ok(line.trim().to_owned())
        };
        let (head, len) = (line()?, line()?);
        let offset: u64 = head.rsplit(' ').next().ok_or("it sends no offset")?.parse()?;
        let len = len.strip_prefix('$').ok_or("it sends no data set")?.parse()?;
        let mut rdb = vec![0; len];
        reader.read_exact(&mut rdb)?;
        let reading = thread::spawn(move || {
            let mut stream = Vec::new();
            // Its end is the master's.
            let _ = reader.read_to_end(&mut stream);
            stream
        });
        let words = format!("SET key:__rand_int__ {}", "x".repeat(VALUE));
        let load = Load { pipeline: 32, numbers: KEYS, ..Load::new(16, Duration::ZERO, &words) };
        let (name, address) = ("a master", master.address);
        let way = ClientRoute { name, address, pid: None, optional: false };
        load.so_many(way, bytes / (VALUE as u64 + 50))?;
        // Nothing more is written, so that it ends between two commands.
        let sent = info(&mut master.client(), "replication", "master_repl_offset")?;
        let sent = sent.parse::<u64>()?.saturating_sub(offset) as usize;
        let mut client = master.client();
        wait::until("the master has sent all", wait::LONG, || {
            let line = info(&mut client, "replication", "slave0").unwrap_or_default();
            !line.is_empty()
        });
        // What the master has sent last is still on its way to who records it.
        thread::sleep(Duration::from_millis(500));
        drop(master);
        let mut stream = reading.join().map_err(|_| "the thread that records panicked")?;
        if stream.len() < sent {
            return Err(format!("{} of {sent} bytes were recorded", stream.len()).into());
        }
        stream.truncate(sent);
        Ok(Self { rdb, stream })
    }
}

/// The master that sends it.
pub struct Origin {
    pub address: SocketAddr,
    shared: Arc<OriginState>,
}

struct OriginState {
    recording: Recording,
    /// How often the recording is to be sent.
    times: AtomicU64,
    /// The highest offset that was acknowledged.
    acknowledged: AtomicU64,
    /// When a replica last went on where it was.
    continued: Mutex<Option<Instant>>,
}

impl Origin {
    /// Listens.
    ///
    /// # Errors
    /// No port can be had.
    pub fn start(recording: Recording) -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(OriginState {
            recording,
            times: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            continued: Mutex::default(),
        });
        let all = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&all);
                // Whoever was here is gone.
                thread::spawn(move || drop(shared.serve(&client)));
            }
        });
        Ok(Self { address, shared })
    }

    /// As a master's `url`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Begins a history of its own: what was sent and acknowledged before is forgotten.
    pub fn begin(&self) {
        self.shared.times.store(0, Ordering::SeqCst);
        self.shared.acknowledged.store(0, Ordering::SeqCst);
    }

    /// How often the recording gives about so many bytes.
    pub fn times(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.len()).max(1)
    }

    fn len(&self) -> u64 {
        self.shared.recording.stream.len() as u64
    }

    /// Sends the recording so often, and waits until all is acknowledged; gives how many MB that
    /// were, and how long it took.
    pub fn send(&self, times: u64) -> (f64, Duration) {
        let (begun, bytes) = (Instant::now(), times * self.len());
        self.shared.times.store(times, Ordering::SeqCst);
        wait::until("all is acknowledged", super::LONG, || self.acknowledged() >= bytes);
        (bytes as f64 / 1e6, begun.elapsed())
    }

    fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::SeqCst)
    }

    /// When a replica last went on where it was, once one has since `begun`.
    pub fn continued(&self, begun: Instant) -> Instant {
        wait::value("it goes on", super::LONG, || {
            let at = *self.shared.continued.lock().unwrap_or_else(PoisonError::into_inner);
            at.filter(|at| *at >= begun)
        })
    }

    /// MB a second that are taken by somebody who does nothing with them.
    ///
    /// # Errors
    /// As of the socket.
    pub fn mb_per_second(&self, times: u64) -> Outcome<f64> {
        self.begin();
        self.shared.times.store(times, Ordering::SeqCst);
        let mut socket = TcpStream::connect(self.address)?;
        socket.write_all(b"PSYNC ? -1\r\n")?;
        let (bytes, mut piece) = (times * self.len(), vec![0; 1 << 20]);
        let (begun, mut taken) = (Instant::now(), 0);
        while taken < bytes {
            taken += socket.read(&mut piece)? as u64;
        }
        Ok(bytes as f64 / 1e6 / begun.elapsed().as_secs_f64())
    }
}

impl OriginState {
    fn serve(&self, client: &TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let (mut commands, mut bytes) = (Commands::default(), Vec::new());
        let mut piece = vec![0; 16 << 10];
        loop {
            while let Ok(CommandFrame::Command(len)) = commands.cut(&bytes, &Limits::default()) {
                let command = commands.command(&bytes);
                let name = command.name().to_ascii_uppercase();
                let goes_on = command.get(1).is_some_and(|id| id != b"?");
                bytes.drain(..len);
                match name.as_slice() {
                    b"PSYNC" => return self.send_all(client, goes_on),
                    b"REPLCONF" | b"AUTH" => (&*client).write_all(b"+OK\r\n")?,
                    b"PING" => (&*client).write_all(b"+PONG\r\n")?,
                    b"ROLE" => (&*client).write_all(b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n")?,
                    _ => (&*client).write_all(b"-ERR it only replicates\r\n")?,
                }
            }
            let mut client = client;
            match client.read(&mut piece)? {
                0 => return Ok(()),
                read => bytes.extend_from_slice(&piece[..read]),
            }
        }
    }

    /// Sends what is wanted of the stream, or nothing more of it to a replica that goes on, and
    /// asks again and again what is durable, until the replica goes.
    fn send_all(&self, mut client: &TcpStream, goes_on: bool) -> io::Result<()> {
        let hearing = client.try_clone()?;
        thread::scope(|scope| {
            scope.spawn(|| self.hear(hearing));
            if goes_on {
                client.write_all(b"+CONTINUE\r\n")?;
                let mut continued = self.continued.lock().unwrap_or_else(PoisonError::into_inner);
                *continued = Some(Instant::now());
            } else {
                let Recording { rdb, stream } = &self.recording;
                let head = format!("+FULLRESYNC {ID} 0\r\n${}\r\n", rdb.len());
                client.write_all(head.as_bytes())?;
                client.write_all(rdb)?;
                while self.times.load(Ordering::SeqCst) == 0 {
                    // This thread has nothing else to do.
                    thread::sleep(LOOK_EVERY);
                }
                for _ in 0..self.times.load(Ordering::SeqCst) {
                    client.write_all(stream)?;
                }
            }
            loop {
                client.write_all(GETACK)?;
                // As often, and no more often, is it asked.
                thread::sleep(LOOK_EVERY);
            }
        })
    }

    fn hear(&self, mut client: TcpStream) {
        let (mut commands, mut bytes) = (Commands::default(), Vec::new());
        let mut piece = vec![0; 16 << 10];
        while let Ok(read) = client.read(&mut piece) {
            if read == 0 {
                return;
            }
            bytes.extend_from_slice(&piece[..read]);
            loop {
                match commands.cut(&bytes, &Limits::default()) {
                    Ok(CommandFrame::Command(len)) => {
                        let offset = commands.command(&bytes).get(2).and_then(number);
                        self.acknowledged.fetch_max(offset.unwrap_or(0), Ordering::SeqCst);
                        bytes.drain(..len);
                    }
                    Ok(CommandFrame::Nothing(len)) => drop(bytes.drain(..len)),
                    _ => break,
                }
            }
        }
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}
