//! A master, and Weir that follows it.

use std::fs;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rig::redis::{Redis, RedisClient};
use rig::wait;
use rig::weir::{Setup, Weir};
use tempfile::TempDir;

use crate::disk_faults::Mount;

/// A master without a file of its own, whose digest can be asked.
pub fn master(args: &[&str]) -> Redis {
    Redis::start_with(&[&["--enable-debug-command", "yes"], args].concat())
}

/// Weir that follows a server.
pub struct Scene {
    pub weir: Weir,
    /// Where all masters' directories are.
    pub files: PathBuf,
    _mount: Option<Mount>,
    _dir: TempDir,
}

impl Scene {
    /// Weir before a master, with more lines in `[redis.aof]` and in `[[redis.aof.master]]`.
    pub fn new(url: &str, lines: &str, of_master: &str) -> Self {
        Self::start(Setup::new(), None, &table(url, lines, of_master))
    }

    /// The same with a disk that can be made to fail.
    pub fn with_faults(url: &str, lines: &str) -> Self {
        Self::start(Setup::new().with_faults(), None, &table(url, lines, ""))
    }

    /// The same, with a whole table and on a file system of its own, of this size. It needs root.
    pub fn with_faults_on(size: &str, table: &str) -> Self {
        Self::start(Setup::new().with_faults(), Some(size), table)
    }

    /// The same on a file system of its own, of this size. It needs root.
    pub fn on_small_disk(url: &str, lines: &str, size: &str) -> Self {
        Self::start(Setup::new(), Some(size), &table(url, lines, ""))
    }

    fn start(setup: Setup, size: Option<&str>, table: &str) -> Self {
        let dir = rig::places::directory();
        let files = dir.path().join("files");
        fs::create_dir(&files).unwrap();
        let mount = size.map(|size| Mount::tmpfs(&files, size));
        let table = table.replace("DIR", files.to_str().unwrap());
        Self { weir: setup.table(&table).start(), files, _mount: mount, _dir: dir }
    }

    pub fn dir(&self) -> PathBuf {
        self.files.join("m")
    }

    pub fn append_dir(&self) -> PathBuf {
        self.dir().join("appendonlydir")
    }

    /// What the status says of the master.
    pub fn status(&self) -> serde_json::Value {
        self.weir.ask_admin("/status").json()["redis.aof"][0].clone()
    }

    /// Waits until the stream is followed and all that the master has sent is durable.
    pub fn wait_caught_up(&self, master: &Redis) {
        let mut client = master.client();
        wait::until("weir has all", wait::LONG, || {
            let (status, offset) = (self.status(), offset(&mut client));
            let has_base = status["generations"].as_u64() > Some(0);
            let is_following = status["link"] == "following" && has_base;
            is_following && status["durable"].as_u64() >= Some(offset)
        });
    }

    /// Waits until so many more bytes of what the master sends are durable. A disk may stand still:
    /// what both sides say by then is shown where the test fails.
    pub fn wait_more_durable(&self, master: &Redis, bytes: u64) {
        let before = self.status()["durable"].as_u64().unwrap();
        let is_there = || self.status()["durable"].as_u64() > Some(before + bytes);
        let begun = Instant::now();
        while !is_there() && begun.elapsed() < wait::LONG {
            thread::sleep(Duration::from_millis(10));
        }
        if begun.elapsed() >= wait::LONG {
            let mut client = master.client();
            let theirs = ["INFO replication", "CLIENT LIST"].map(|line| client.line(line));
            println!("no {bytes} more than {before} yet: {} {theirs:#?}", self.status());
            wait::until("more is durable", 2 * wait::LONG, is_there);
            println!("it took {:?}", begun.elapsed());
        }
    }

    /// Waits until a base of this server is in force, and all that it has sent is durable.
    pub fn wait_link_to(&self, master: &Redis) {
        let mut client = master.client();
        wait::until("its base is in force", wait::LONG, || {
            // It has another id from its first replica on.
            let id = info(&mut client, "replication", "master_replid");
            let line = format!("#WEIR begin {id}");
            let file = self.last_increment_now().and_then(|path| fs::read(path).ok());
            file.is_some_and(|file| file.starts_with(line.as_bytes()))
        });
        self.wait_caught_up(master);
    }

    /// A copy of the files as they are.
    pub fn copy(&self) -> TempDir {
        let manifest = self.append_dir().join("appendonly.aof.manifest");
        wait::value("the files stay as they are for a moment", wait::LONG, || {
            let copy = rig::places::directory();
            let before = fs::read(&manifest).ok()?;
            copy_all(&self.append_dir(), &copy.path().join("appendonlydir")).ok()?;
            (fs::read(&manifest).ok()? == before).then_some(copy)
        })
    }

    /// A server started from a copy of the files as they are.
    pub fn restored(&self) -> (Redis, TempDir) {
        let copy = self.copy();
        let dir = copy.path().to_str().unwrap();
        let server = master(&["--appendonly", "yes", "--dir", dir]);
        wait_loaded(&server);
        (server, copy)
    }

    /// The last increment's file.
    pub fn last_increment(&self) -> PathBuf {
        self.last_increment_now().expect("there is a generation")
    }

    /// The same, where there is a generation yet.
    pub fn last_increment_now(&self) -> Option<PathBuf> {
        let manifest = fs::read_to_string(self.append_dir().join("appendonly.aof.manifest"));
        let manifest = manifest.ok()?;
        let name = manifest.lines().last()?.split(' ').nth(1)?;
        Some(self.append_dir().join(name))
    }

    /// The name of the current base, where there is one.
    pub fn last_base(&self) -> Option<String> {
        let manifest = fs::read_to_string(self.append_dir().join("appendonly.aof.manifest"));
        let manifest = manifest.ok()?;
        let base = manifest.lines().find(|line| line.ends_with("type b"))?;
        base.split(' ').nth(1).map(str::to_owned)
    }

    /// `weir redis verify`: its exit code and what it says.
    pub fn verify(&self) -> (Option<i32>, String) {
        let dir = self.dir();
        let output = self.weir.command(&["redis", "verify", dir.to_str().unwrap()]);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The configuration, with more lines in `[redis.aof]` and in `[[redis.aof.master]]`; `DIR` is
/// where the files are.
pub fn table(url: &str, lines: &str, of_master: &str) -> String {
    format!(
        "[redis.aof]\ndir = \"DIR\"\n{lines}\n[[redis.aof.master]]\nname = \"m\"\n\
         url = \"{url}\"\n{of_master}"
    )
}

/// Waits until a server has loaded its files.
pub fn wait_loaded(server: &Redis) {
    let mut client = server.client();
    wait::until("the files are loaded", wait::LONG, || client.line("PING") == "+PONG");
}

/// The master's replication offset.
pub fn offset(client: &mut RedisClient) -> u64 {
    info(client, "replication", "master_repl_offset").parse().unwrap()
}

/// A field of a section of `INFO`.
pub fn info(client: &mut RedisClient, section: &str, field: &str) -> String {
    let info = client.try_ask(&["INFO", section]).unwrap();
    let info = String::from_utf8_lossy(&info).into_owned();
    let found = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    found.unwrap_or_else(|| panic!("no {field} in {info}")).to_owned()
}

/// The digest of all databases.
pub fn digest(server: &Redis) -> String {
    server.client().line("DEBUG DIGEST")
}

/// Copies the files of a directory.
pub fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)?.flatten() {
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// A relay whose connections a test cuts.
pub struct Relay {
    pub address: SocketAddr,
    server: Arc<Mutex<SocketAddr>>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    /// Relays to a server.
    pub fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (open, server) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(server)));
        let (all, target) = (Arc::clone(&open), Arc::clone(&server));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = *target.lock().unwrap();
                let Ok(server) = TcpStream::connect(server) else { continue };
                let streams = [client, server];
                for (from, to) in [(0, 1), (1, 0)] {
                    let mut from = streams[from].try_clone().unwrap();
                    let mut to = streams[to].try_clone().unwrap();
                    std::thread::spawn(move || {
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                all.lock().unwrap().extend(streams);
            }
        });
        Self { address, server, open }
    }

    /// Relays to another server from now on, and cuts what is open.
    pub fn turn_to(&self, server: SocketAddr) {
        *self.server.lock().unwrap() = server;
        self.cut();
    }

    pub fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
