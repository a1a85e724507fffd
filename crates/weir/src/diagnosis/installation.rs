//! Where this Weir has its files and its console, for commands that name them.

use std::net::SocketAddr;
use std::path::PathBuf;

/// What a command has to name and `/status` does not say.
#[derive(Debug, Clone, Default)]
pub struct Installation {
    /// Where the journal's segments are, as an absolute path.
    pub journal_dir: PathBuf,
    /// Where the embedded store's files are, as an absolute path.
    pub store_dir: PathBuf,
    /// Absent where nobody may enter the console of the PostgreSQL gateway.
    pub console: Option<ConsoleLogin>,
}

/// How the console of the PostgreSQL gateway is entered.
#[derive(Debug, Clone)]
pub struct ConsoleLogin {
    /// Where it listens, as this machine reaches it.
    pub address: SocketAddr,
    /// A user who may enter; one who may give every command, where there is one.
    pub user: String,
    /// Its name as a database.
    pub database: String,
}
