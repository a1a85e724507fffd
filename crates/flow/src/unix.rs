//! Unix sockets to listen on, as [`tcp`](crate::tcp) for clients of the same machine.
//!
//! All workers listen on one socket, since the kernel spreads no Unix connections: who is free
//! first takes the next client.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use socket2::{Domain, SockAddr, Socket as RawSocket, Type};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// Why a socket could not be had.
#[derive(Debug, thiserror::Error)]
#[error("listening on {} failed: {source}{}", path.display(), hint(.source))]
pub struct BindError {
    /// The path of the socket's file.
    pub path: PathBuf,
    /// What the kernel said.
    #[source]
    pub source: io::Error,
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another program listens there, or another Weir",
        io::ErrorKind::AlreadyExists => "; a file that is not a socket is in the way",
        io::ErrorKind::NotFound => "; its directory does not exist",
        io::ErrorKind::InvalidInput => "; a socket's path has at most 107 bytes",
        _ => "",
    }
}

/// The mode of a socket's file, as octal digits say it.
pub fn mode(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777)
}

/// A worker's share of a listening Unix socket.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    file: Arc<SocketFile>,
}

impl Listener {
    /// The path of the socket's file, at which clients connect.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    pub(crate) fn into_parts(self) -> io::Result<(tokio::net::UnixListener, Arc<SocketFile>)> {
        Ok((tokio::net::UnixListener::from_std(self.socket)?, self.file))
    }
}

/// The socket's file, which is removed with the last listener if it is still the same.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|now| now == self.identity) {
            // Left over, it is removed at the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

/// Opens `count` listeners on the socket `path`, one for each worker. `mode` says who may connect:
/// that takes the right to write, as in `0o777` for everybody. A socket that nobody listens on any
/// more is replaced.
///
/// # Errors
/// The socket can not be listened on, also when another process already does.
pub fn bind(path: &Path, mode: u32, count: usize) -> Result<Vec<Listener>, BindError> {
    let failed = |source| BindError { path: path.to_owned(), source };
    remove_stale(path).map_err(failed)?;
    let (socket, identity) = listen(path, mode).map_err(failed)?;
    let file = Arc::new(SocketFile { path: path.to_owned(), identity });
    let mut listeners = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = socket.try_clone().map_err(failed)?;
        listeners.push(Listener { socket, file: Arc::clone(&file) });
    }
    Ok(listeners)
}

/// Removes the file of a process that ended without doing so.
fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
    }
}

fn listen(path: &Path, mode: u32) -> io::Result<(UnixListener, (u64, u64))> {
    let socket = RawSocket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    // Before it listens, so that nobody comes in who may not.
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    socket.listen(BACKLOG)?;
    Ok((UnixListener::from(socket), identity(path)?))
}
