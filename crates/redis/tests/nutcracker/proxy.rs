//! A nutcracker of our own, with a pool for each combination that is tried.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redis::placement::{Distribution, Hash};

use crate::fake::Answer;
use crate::{LIMIT, NAMES};

/// A pool of `nutcracker.yml`.
#[derive(Debug)]
pub struct Pool {
    pub hash: Hash,
    pub distribution: Distribution,
    /// Whether the servers have names of their own.
    pub named: bool,
    pub tag: Option<[u8; 2]>,
    pub weights: [u32; 5],
    /// Whether servers that fail once are ejected for longer than the test takes.
    pub ejects: bool,
}

/// Where nutcracker is; says so where it is not.
pub fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let found = places.map(|place| place.join("nutcracker")).find(|file| file.is_file());
    if found.is_none() {
        eprintln!("SKIPPED: nutcracker is not installed, so no key was compared with its own");
    }
    found
}

/// A running nutcracker. Dropping it kills it.
pub struct Nutcracker {
    child: Child,
    directory: PathBuf,
}

impl Nutcracker {
    /// Starts one and waits until its pools can be reached.
    pub fn start(program: &Path, directory: &Path, pools: &[Pool], addresses: &[String]) -> Self {
        let directory = directory.join("nutcracker");
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).expect("a directory");
        let file = directory.join("nutcracker.yml");
        std::fs::write(&file, configuration(&directory, pools, addresses)).expect("a file");
        let deadline = Instant::now() + LIMIT;
        loop {
            let child = spawn(program, &directory, &file);
            let mut nutcracker = Self { child, directory: directory.clone() };
            if nutcracker.is_up(pools.len(), deadline) {
                return nutcracker;
            }
            // Somebody else may have taken the port of its statistics.
            let log = std::fs::read_to_string(directory.join("log"));
            assert!(Instant::now() < deadline, "nutcracker does not start: {log:?}");
        }
    }

    /// Whether all pools can be reached; `false` once it has ended.
    fn is_up(&mut self, pools: usize, deadline: Instant) -> bool {
        while Instant::now() < deadline {
            if (0..pools).all(|place| UnixStream::connect(self.socket(place)).is_ok()) {
                return true;
            }
            if self.child.try_wait().expect("a child").is_some() {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        false
    }

    fn socket(&self, place: usize) -> PathBuf {
        self.directory.join(format!("{place}.sock"))
    }

    /// A client of a pool.
    pub fn client(&self, place: usize) -> Client {
        let socket = UnixStream::connect(self.socket(place)).expect("nutcracker listens");
        socket.set_read_timeout(Some(LIMIT)).expect("a timeout");
        let reads = BufReader::with_capacity(64 << 10, socket.try_clone().expect("a descriptor"));
        Client { sends: socket, reads }
    }
}

impl Drop for Nutcracker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(program: &Path, directory: &Path, file: &Path) -> Child {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    Command::new(program)
        .args(["-a", "127.0.0.1", "-s", &port.to_string(), "-v", "4"])
        .arg("-c")
        .arg(file)
        .arg("-o")
        .arg(directory.join("log"))
        .arg("-p")
        .arg(directory.join("pid"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nutcracker starts")
}

fn configuration(directory: &Path, pools: &[Pool], addresses: &[String]) -> String {
    let mut text = String::new();
    for (place, pool) in pools.iter().enumerate() {
        let socket = directory.join(format!("{place}.sock"));
        let (hash, distribution) = (pool.hash.name(), pool.distribution.name());
        write!(
            text,
            "pool{place}:\n  listen: {} 0600\n  hash: {hash}\n  distribution: {distribution}\n  \
             redis: true\n  auto_eject_hosts: {}\n  server_failure_limit: 1\n  \
             server_retry_timeout: 3600000\n",
            socket.display(),
            pool.ejects
        )
        .unwrap();
        if let Some([open, close]) = pool.tag {
            writeln!(text, "  hash_tag: \"{}{}\"", open as char, close as char).unwrap();
        }
        text.push_str("  servers:\n");
        for (server, address) in addresses.iter().enumerate() {
            let name = if pool.named { format!(" {}", NAMES[server]) } else { String::new() };
            writeln!(text, "   - {address}:{}{name}", pool.weights[server]).unwrap();
        }
    }
    text
}

/// A connection to a pool.
pub struct Client {
    sends: UnixStream,
    reads: BufReader<UnixStream>,
}

impl Client {
    /// Asks for all keys at once: who had each of them.
    pub fn ask(&mut self, keys: &[Vec<u8>]) -> Vec<Answer> {
        let mut commands = Vec::new();
        for key in keys {
            write!(commands, "*2\r\n$3\r\nGET\r\n${}\r\n", key.len()).unwrap();
            commands.extend_from_slice(key);
            commands.extend_from_slice(b"\r\n");
        }
        let mut sends = &self.sends;
        let reads = &mut self.reads;
        thread::scope(|scope| {
            scope.spawn(move || sends.write_all(&commands).expect("nutcracker reads"));
            keys.iter().map(|_| answer(reads)).collect()
        })
    }
}

fn answer(reads: &mut impl BufRead) -> Answer {
    let mut line = String::new();
    reads.read_line(&mut line).expect("an answer");
    match line.trim_end() {
        "$1" => {
            let mut number = [0; 3];
            reads.read_exact(&mut number).expect("a number");
            Answer::Server(usize::from(number[0] - b'0'))
        }
        other => Answer::Refused(other.to_owned()),
    }
}
