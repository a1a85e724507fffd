//! From PgBouncer: its `pgbouncer.ini`, `userlist.txt` and HBA file become a `[postgres]` table.
//!
//! It writes what means the same, names in comments what has no equivalent and why, and never lets
//! in by silence whom PgBouncer kept out: a rule that can't be carried over becomes one that
//! rejects. It reads no file itself.
//!
//! The one path: `ini` reads the file and what it includes, `keys` knows what each setting becomes,
//! `gateway`, `login`, `databases` and `users` fill a `draft`, and that is written as TOML.

mod connection;
mod databases;
mod gateway;
mod hba;
mod ini;
mod keys;
mod login;
#[cfg(test)]
mod tests;
mod users;

use std::io;
use std::path::{Path, PathBuf};

use ini::Ini;
use units::draft::{Conversion, Draft};

/// Why a configuration of PgBouncer can't be carried over.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// A file can't be read.
    #[error("{} can't be read: {source}", file.display())]
    Unreadable {
        /// The path of the file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line is none of PgBouncer's.
    #[error("{}, line {line}: {what}", file.display())]
    Syntax {
        /// The path of the file.
        file: PathBuf,
        /// The line, from one.
        line: usize,
        /// What is wrong there.
        what: String,
    },
}

/// How files are read.
pub type Read<'r> = &'r dyn Fn(&Path) -> io::Result<String>;

/// Nothing of `file` yet.
fn draft(file: &Path) -> Draft {
    let from = format!("From {} of PgBouncer.", file.display());
    let words = "It holds what userlist.txt held: chmod 640. What is not said is Weir's default; \
                 docs/pgbouncer.md has every key of both.";
    Draft::new("postgres", &[from, words.to_owned()])
}

/// The TOML that means what `file`, a `pgbouncer.ini`, means.
///
/// # Errors
/// The file, or one that it includes, can't be read or understood. A user list or HBA file that
/// can't be read is something to do instead.
pub fn pgbouncer(file: &Path, read: Read<'_>) -> Result<Conversion, MigrateError> {
    let ini = Ini::read(file, read)?;
    let mut draft = draft(file);
    gateway::fill(&ini, &mut draft);
    login::fill(&ini, read, &mut draft);
    users::fill(&ini, read, &mut draft);
    databases::fill(&ini, read, &mut draft);
    Ok(draft.finish())
}
