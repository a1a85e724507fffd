//! A directory that stands still now and then, as a busy disk does: a file system in user space
//! which hands everything on to a directory below it, and holds writes and syncs meanwhile.
//!
//! It speaks the kernel's protocol for that (`linux/fuse.h`, version 7.31) as far as servers with
//! an append-only file need it, and caches nothing. It needs root and `/dev/fuse`.

mod protocol;
mod tree;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rig::places;
use tempfile::TempDir;

use crate::Outcome;
use protocol::{Body, Request, opcode};
use tree::Tree;

/// How often it stands still.
pub const EVERY: Duration = Duration::from_secs(20);
/// For how long it holds writes then.
pub const WRITES: Duration = Duration::from_millis(2_500);
/// For how long it holds syncs then.
pub const SYNCS: Duration = Duration::from_millis(4_500);
/// The largest write: 256 pages.
const WRITE_BYTES_MAX: u32 = 1 << 20;
/// Requests that are held keep a thread each.
const THREADS: usize = 16;

/// A directory that stands still, until it is dropped.
pub struct StallingDirectory {
    pub path: PathBuf,
    shared: Arc<FuseState>,
    _dir: TempDir,
}

struct FuseState {
    device: File,
    tree: Mutex<Tree>,
    /// When it stands still for the first time.
    from: Mutex<Option<Instant>>,
}

impl StallingDirectory {
    /// Mounts one.
    ///
    /// # Errors
    /// What is in the way, as where this is not root.
    pub fn mount() -> Outcome<Self> {
        let dir = places::directory();
        let [path, below] = ["mounted", "below"].map(|name| dir.path().join(name));
        [&path, &below].into_iter().try_for_each(fs::create_dir)?;
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let device = device.map_err(|error| format!("/dev/fuse can't be opened: {error}"))?;
        // The number is that of mount's own standard input, which is this device.
        let mounted = Command::new("mount")
            .args(["-i", "-t", "fuse", "-o", "fd=0,rootmode=40000,user_id=0,group_id=0"])
            .arg("standing")
            .arg(&path)
            .stdin(Stdio::from(device.try_clone()?))
            .output()?;
        if !mounted.status.success() {
            let said = String::from_utf8_lossy(&mounted.stderr).trim().to_owned();
            return Err(format!("it can't be mounted: {said}").into());
        }
        let tree = Mutex::new(Tree::new(below));
        let shared = Arc::new(FuseState { device, tree, from: Mutex::default() });
        for _ in 0..THREADS {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.serve());
        }
        Ok(Self { path, shared, _dir: dir })
    }

    /// Stands still in a second for the first time, and then again and again.
    pub fn begin(&self) {
        *self.shared.from() = Some(Instant::now() + Duration::from_secs(1));
    }

    /// Does so no more.
    pub fn end(&self) {
        *self.shared.from() = None;
    }
}

impl Drop for StallingDirectory {
    fn drop(&mut self) {
        self.end();
        // The threads end when the device says that nothing is mounted any more.
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

impl FuseState {
    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn from(&self) -> MutexGuard<'_, Option<Instant>> {
        self.from.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while it stands still, for as long as that holds what is asked.
    fn hold(&self, limit: Duration) {
        let from = *self.from();
        let Some(since) = from.and_then(|from| Instant::now().checked_duration_since(from)) else {
            return;
        };
        let into = Duration::from_nanos((since.as_nanos() % EVERY.as_nanos()) as u64);
        // This is the disk that does not answer.
        thread::sleep(limit.saturating_sub(into));
    }

    fn serve(&self) {
        let mut bytes = vec![0; WRITE_BYTES_MAX as usize + (64 << 10)];
        loop {
            match (&self.device).read(&mut bytes) {
                Ok(len) => {
                    let Ok(request) = Request::read(&bytes[..len]) else { continue };
                    if request.is_answered() {
                        // Whoever asked may have been killed meanwhile.
                        let _ = (&self.device).write(&request.reply(self.done(&request)));
                    }
                }
                // One was taken back before it was read.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => return,
            }
        }
    }

    /// Does what is asked.
    fn done(&self, request: &Request<'_>) -> io::Result<Body> {
        let node = request.node;
        match request.opcode {
            opcode::INIT => Ok(Body::init(WRITE_BYTES_MAX)),
            opcode::LOOKUP => self.tree().entry(node, request.name(0)?),
            opcode::GETATTR => self.tree().attributes(node),
            opcode::SETATTR => self.set_attributes(request),
            opcode::MKDIR => {
                let path = self.tree().below(node, request.name(8)?)?;
                fs::create_dir(path)?;
                self.tree().entry(node, request.name(8)?)
            }
            opcode::UNLINK => self.tree().remove(node, request.name(0)?, |of| fs::remove_file(of)),
            opcode::RMDIR => self.tree().remove(node, request.name(0)?, |of| fs::remove_dir(of)),
            opcode::RENAME => self.rename(request, 8),
            opcode::RENAME2 => self.rename(request, 16),
            opcode::LINK => {
                let from = self.tree().path(request.u64(0)?)?;
                let to = self.tree().below(node, request.name(8)?)?;
                fs::hard_link(from, to)?;
                self.tree().entry(node, request.name(8)?)
            }
            opcode::OPEN => self.tree().open(node),
            opcode::CREATE => self.create(request),
            opcode::READ => {
                let mut piece = vec![0; request.u32(16)? as usize];
                let file = self.tree().file(request.u64(0)?)?;
                let read = file.read_at(&mut piece, request.u64(8)?)?;
                Ok(Body::default().bytes(&piece[..read]))
            }
            opcode::WRITE => {
                self.hold(WRITES);
                let file = self.tree().file(request.u64(0)?)?;
                let len = request.u32(16)?;
                file.write_all_at(request.rest(40, len as usize)?, request.u64(8)?)?;
                Ok(Body::default().u32(len).u32(0))
            }
            opcode::FSYNC => {
                self.hold(SYNCS);
                let file = self.tree().file(request.u64(0)?)?;
                file.sync_data().map(|()| Body::default())
            }
            opcode::FSYNCDIR => {
                self.hold(SYNCS);
                let path = self.tree().path(node)?;
                File::open(path)?.sync_all().map(|()| Body::default())
            }
            opcode::STATFS => Ok(Body::statfs()),
            opcode::RELEASE => self.tree().close(request.u64(0)?),
            opcode::OPENDIR => Ok(Body::default().u64(0).u64(0)),
            opcode::READDIR => self.tree().list(node, request.u64(8)?, request.u32(16)? as usize),
            opcode::RELEASEDIR | opcode::DESTROY => Ok(Body::default()),
            _ => Err(io::Error::from_raw_os_error(protocol::ENOSYS)),
        }
    }

    /// Makes a file longer or shorter; what else may be set is not.
    fn set_attributes(&self, request: &Request<'_>) -> io::Result<Body> {
        const SIZE: u32 = 1 << 3;
        if request.u32(0)? & SIZE != 0 {
            let path = self.tree().path(request.node)?;
            OpenOptions::new().write(true).open(path)?.set_len(request.u64(16)?)?;
        }
        self.tree().attributes(request.node)
    }

    fn rename(&self, request: &Request<'_>, names_at: usize) -> io::Result<Body> {
        let from = request.name(names_at)?;
        let to = request.name(names_at + from.len() + 1)?;
        self.tree().rename((request.node, from), (request.u64(0)?, to))
    }

    fn create(&self, request: &Request<'_>) -> io::Result<Body> {
        const EXCL: u32 = 0o200;
        let mut tree = self.tree();
        let path = tree.below(request.node, request.name(16)?)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.create_new(request.u32(0)? & EXCL != 0).open(path)?;
        let entry = tree.entry(request.node, request.name(16)?)?;
        let opened = tree.open(entry.node())?;
        Ok(entry.bytes(opened.as_bytes()))
    }
}
