//! What a load takes from outside its options: files, libpq's login, and the time at which its
//! points begin. Whoever sends a load for somebody else has all of it from there, and reads nothing
//! of its own machine.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use meter::postgres::Options;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::postgres::PgLogin;

/// Bytes of all files that are sent to another injector.
pub const SENT_BYTES_MAX: usize = 64 << 20;

/// What a load takes from outside.
#[derive(Debug)]
pub struct Inputs {
    files: Files,
    login: PgLogin,
    /// Whether a load has taken the login.
    has_login: Cell<bool>,
    /// When the points of writes begin, in nanoseconds since 1970.
    pub begin_ns: u64,
    /// SHA-256 of each file that was read, by its name.
    digests: RefCell<BTreeMap<String, [u8; 32]>>,
}

/// Where files are read.
#[derive(Debug)]
enum Files {
    /// Anywhere on this machine.
    OfMachine,
    /// Below a folder only; what was read is kept.
    Below { folder: PathBuf, read: RefCell<BTreeMap<String, Vec<u8>>> },
    /// Nowhere: they have come with the load. What has to be a file is put into a directory.
    Sent { files: BTreeMap<String, Vec<u8>>, scratch: OnceCell<TempDir> },
}

/// What a load takes from outside, on its way to another injector.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SentInputs {
    /// In base64, by the names that the options have.
    files: BTreeMap<String, String>,
    login: PgLogin,
    begin_ns: u64,
}

impl Inputs {
    /// Those of this machine, for points that begin at that time.
    pub fn of_machine(begin: SystemTime) -> Self {
        Self::new(Files::OfMachine, begin)
    }

    /// Those of a load that is sent elsewhere: its files are below `folder`.
    pub fn below(folder: PathBuf, begin: SystemTime) -> Self {
        Self::new(Files::Below { folder, read: RefCell::default() }, begin)
    }

    fn new(files: Files, begin: SystemTime) -> Self {
        let since = begin.duration_since(UNIX_EPOCH).unwrap_or_default();
        let begin_ns = u64::try_from(since.as_nanos()).unwrap_or_default();
        let (login, has_login) = (PgLogin::of_environment(), Cell::new(false));
        Self { files, login, has_login, begin_ns, digests: RefCell::default() }
    }

    /// What was taken so far, to be sent.
    pub fn to_send(&self) -> SentInputs {
        let files = match &self.files {
            Files::Below { read, .. } => {
                let read = read.borrow();
                read.iter().map(|(name, bytes)| (name.clone(), BASE64.encode(bytes))).collect()
            }
            Files::OfMachine | Files::Sent { .. } => BTreeMap::new(),
        };
        let login = if self.has_login.get() { self.login.clone() } else { PgLogin::default() };
        SentInputs { files, login, begin_ns: self.begin_ns }
    }

    /// Those that were sent with a load.
    ///
    /// # Errors
    /// A file is not as it was encoded.
    pub fn of_sent(sent: SentInputs) -> io::Result<Self> {
        let decode = |(name, text): (String, String)| match BASE64.decode(text) {
            Ok(bytes) => Ok((name, bytes)),
            Err(error) => Err(io::Error::other(format!("{name} is not as it was sent: {error}"))),
        };
        let files = sent.files.into_iter().map(decode).collect::<io::Result<_>>()?;
        let files = Files::Sent { files, scratch: OnceCell::new() };
        let (login, has_login, begin_ns) = (sent.login, Cell::new(true), sent.begin_ns);
        Ok(Self { files, login, has_login, begin_ns, digests: RefCell::default() })
    }

    /// Reads a file of at most so many bytes.
    ///
    /// # Errors
    /// It can't be read, is longer, or is none of those that may be read.
    pub fn read(&self, name: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
        let bytes = self.read_from_files(name, bytes_max)?;
        self.digests.borrow_mut().insert(name.to_owned(), Sha256::digest(&bytes).into());
        Ok(bytes)
    }

    /// SHA-256 of each file that was read so far, in the order of their names.
    pub fn digests(&self) -> Vec<(String, [u8; 32])> {
        let digests = self.digests.borrow();
        digests.iter().map(|(name, digest)| (name.clone(), *digest)).collect()
    }

    fn read_from_files(&self, name: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
        match &self.files {
            Files::OfMachine => read(Path::new(name), bytes_max),
            Files::Below { folder, read: known } => {
                if let Some(bytes) = known.borrow().get(name) {
                    return Ok(bytes.clone());
                }
                let bytes = read(&below(folder, name)?, bytes_max)?;
                let sum = known.borrow().values().map(Vec::len).sum::<usize>();
                if sum + bytes.len() > SENT_BYTES_MAX {
                    let most = SENT_BYTES_MAX >> 20;
                    let words = format!("the files of a load for agents have {most} MiB at most");
                    return Err(io::Error::other(words));
                }
                known.borrow_mut().insert(name.to_owned(), bytes.clone());
                Ok(bytes)
            }
            Files::Sent { files, .. } => {
                let bytes = files.get(name).ok_or_else(|| {
                    io::Error::new(io::ErrorKind::NotFound, "it was not sent with the load")
                })?;
                limited(bytes.clone(), bytes_max)
            }
        }
    }

    /// The path of a file, for whoever reads it there.
    ///
    /// # Errors
    /// As for [`Inputs::read`].
    pub fn path(&self, file: &Path) -> io::Result<PathBuf> {
        let name = file.to_string_lossy();
        match &self.files {
            Files::OfMachine | Files::Below { .. } => {
                self.read(&name, SENT_BYTES_MAX).map(|_| file.to_owned())
            }
            Files::Sent { files, scratch } => {
                let bytes = self.read(&name, SENT_BYTES_MAX)?;
                let number = files.keys().position(|known| *known == name).unwrap_or_default();
                if scratch.get().is_none() {
                    let _ = scratch.set(TempDir::with_prefix("weir-load-")?);
                }
                let scratch = scratch.get().ok_or(io::ErrorKind::NotFound)?;
                let path = scratch.path().join(number.to_string());
                std::fs::write(&path, bytes)?;
                Ok(path)
            }
        }
    }

    /// Who logs in to PostgreSQL, and with what; nothing is run.
    pub fn login(&self) -> Options {
        self.has_login.set(true);
        self.login.options()
    }
}

/// The path of a file, where it is below the folder, whatever links lead there.
fn below(folder: &Path, name: &str) -> io::Result<PathBuf> {
    let path = std::fs::canonicalize(name)?;
    if path.starts_with(std::fs::canonicalize(folder)?) {
        return Ok(path);
    }
    let folder = folder.display();
    let words = format!("a load for agents has files below {folder} only, its run file's folder");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, words))
}

fn read(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let len = std::fs::metadata(path)?.len();
    if len > bytes_max as u64 {
        return Err(too_long(bytes_max));
    }
    limited(std::fs::read(path)?, bytes_max)
}

fn limited(bytes: Vec<u8>, bytes_max: usize) -> io::Result<Vec<u8>> {
    if bytes.len() > bytes_max { Err(too_long(bytes_max)) } else { Ok(bytes) }
}

fn too_long(bytes_max: usize) -> io::Error {
    io::Error::other(format!("it has over {} MiB, which is the most", bytes_max >> 20))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_load_for_others_reads_below_its_folder_and_takes_along_what_it_has_read() {
        let place = tempfile::tempdir().unwrap();
        let (folder, beside) = (place.path().join("load"), place.path().join("secret"));
        fs::create_dir(&folder).unwrap();
        fs::write(&beside, "s").unwrap();
        fs::write(folder.join("rows.csv"), "a\n1\n").unwrap();
        std::os::unix::fs::symlink(&beside, folder.join("link")).unwrap();
        let inputs = Inputs::below(folder.clone(), SystemTime::now());
        let name = |file: &str| folder.join(file).to_str().unwrap().to_owned();
        assert_eq!(inputs.read(&name("rows.csv"), 9).unwrap(), b"a\n1\n");
        assert!(inputs.read(&name("rows.csv"), 9).is_ok());
        for other in ["link", "../secret", "nothing"] {
            assert!(inputs.read(&name(other), 9).is_err(), "{other}");
        }
        let text = serde_json::to_string(&inputs.to_send()).unwrap();
        let sent = Inputs::of_sent(serde_json::from_str(&text).unwrap()).unwrap();
        fs::remove_file(folder.join("rows.csv")).unwrap();
        assert_eq!(sent.read(&name("rows.csv"), 9).unwrap(), b"a\n1\n");
        assert!(sent.read(&name("rows.csv"), 3).is_err(), "it is too long");
        let path = sent.path(&folder.join("rows.csv")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"a\n1\n");
        assert_ne!(path, folder.join("rows.csv"));
        // Of this machine it reads nothing.
        assert!(sent.read(beside.to_str().unwrap(), 9).is_err());
        assert!(sent.path(&beside).is_err());
        assert_eq!(sent.begin_ns, inputs.begin_ns);
    }
}
