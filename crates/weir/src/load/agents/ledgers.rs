//! The ledgers that agents keep of their parts, on their way to the coordinator.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use meter::directory::{LEDGER, LEDGER_BITS};

use super::message::Report;

/// Bytes of a file that are sent at once.
const PIECE: u64 = 64 << 10;
/// Bytes of an agent's ledger: bits of four billion requests.
const BYTES_MAX: u64 = 1 << 30;

/// Cuts the ledger in a directory into reports.
///
/// # Errors
/// A file of it can't be read, or `tell` is over.
pub fn send(directory: &Path, mut tell: impl FnMut(Report) -> io::Result<()>) -> io::Result<()> {
    let mut names = vec![LEDGER.to_owned()];
    for file in fs::read_dir(directory.join(LEDGER_BITS))? {
        names.push(format!("{LEDGER_BITS}/{}", file?.file_name().to_string_lossy()));
    }
    let sizes = names.iter().map(|name| Ok(fs::metadata(directory.join(name))?.len()));
    if sizes.sum::<io::Result<u64>>()? > BYTES_MAX {
        // Nobody takes it; it stays where it is.
        return Ok(());
    }
    for name in names {
        let mut file = File::open(directory.join(&name))?;
        loop {
            let mut piece = Vec::new();
            (&mut file).take(PIECE).read_to_end(&mut piece)?;
            if piece.is_empty() {
                break;
            }
            tell(Report::Ledger { name: name.clone(), bytes: BASE64.encode(piece) })?;
        }
    }
    Ok(())
}

/// A ledger that comes in pieces.
pub struct ReceivedLedger {
    directory: PathBuf,
    bytes: u64,
}

impl ReceivedLedger {
    /// In a new directory.
    ///
    /// # Errors
    /// It can't be made.
    pub fn new(directory: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(directory.join(LEDGER_BITS))?;
        Ok(Self { directory, bytes: 0 })
    }

    /// The directory that it is in.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Appends the next bytes of a file.
    ///
    /// # Errors
    /// It is no file of a ledger, or too long; the disk refuses.
    pub fn add(&mut self, name: &str, bytes: &str) -> io::Result<()> {
        let in_bits = name.strip_prefix(LEDGER_BITS).and_then(|rest| rest.strip_prefix('/'));
        let is_plain = |name: &str| {
            let is_usual = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            !name.is_empty() && !name.starts_with('.') && name.chars().all(is_usual)
        };
        if name != LEDGER && !in_bits.is_some_and(is_plain) {
            return Err(io::Error::other(format!("{name:?} is not a file of a ledger")));
        }
        let bytes = BASE64.decode(bytes).map_err(io::Error::other)?;
        self.bytes += bytes.len() as u64;
        if self.bytes > BYTES_MAX {
            return Err(io::Error::other("the ledger of an agent has 1 GiB at most"));
        }
        let path = self.directory.join(name);
        OpenOptions::new().create(true).append(true).open(path)?.write_all(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_is_there_as_it_was_and_no_other_file() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let bits: Vec<u8> = (0..2_500_000u32).map(|number| number as u8).collect();
        fs::create_dir(from.path().join(LEDGER_BITS)).unwrap();
        fs::write(from.path().join(LEDGER), "{}").unwrap();
        fs::write(from.path().join(LEDGER_BITS).join("0-1.bits"), &bits).unwrap();
        let mut received = ReceivedLedger::new(to.path().join("a")).unwrap();
        let mut pieces = 0;
        send(from.path(), |report| {
            pieces += 1;
            let Report::Ledger { name, bytes } = report else { panic!("{report:?}") };
            received.add(&name, &bytes)
        })
        .unwrap();
        assert_eq!(pieces, 1 + 39);
        assert_eq!(fs::read(received.directory().join("ledger/0-1.bits")).unwrap(), bits);
        assert_eq!(fs::read(received.directory().join(LEDGER)).unwrap(), b"{}");
        for name in ["x", "../x", "ledger/../x", "ledger/", "ledger/.x", "ledger/a/b", "/etc/x"] {
            assert!(received.add(name, "").is_err(), "{name}");
        }
    }
}
