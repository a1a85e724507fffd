//! Append-only files that Weir keeps for a master: what they cost, and what the master's clients
//! notice of a disk that stands still.
//!
//! `paced` sends `SET` at fixed times, `origin` is a master that is never the limit, `fuse` is a
//! directory that stands still.

pub mod base;
pub mod beside;
mod fuse;
pub mod master;
pub mod memory;
mod origin;
mod paced;
pub mod restart;
pub mod stall;
pub mod stream;
mod ways;

use std::path::Path;
use std::time::{Duration, Instant};

use rig::places;
use rig::redis::{Redis, RedisClient};
use rig::wait;
use rig::weir::{Setup, Weir};
use serde_json::Value;
use tempfile::TempDir;

use crate::Outcome;

/// How long a large data set may take to be sent and synced.
const LONG: Duration = Duration::from_secs(900);

/// Weir that follows a master, with one worker and nothing else to do.
pub struct Following {
    pub weir: Weir,
    files: std::path::PathBuf,
    _dir: Option<TempDir>,
}

impl Following {
    /// Follows the server at this `url`, with more lines in `[[redis.aof.master]]`; its files lie
    /// on the disk of the build.
    pub fn of(url: &str, of_master: &str) -> Self {
        let dir = places::directory();
        let following = Self::in_dir(dir.path(), url, of_master);
        Self { _dir: Some(dir), ..following }
    }

    /// The same with its files in a directory.
    pub fn in_dir(dir: &Path, url: &str, of_master: &str) -> Self {
        let table = format!(
            "[redis.guard]\nmode = \"off\"\n[redis.aof]\ndir = \"{}\"\n[[redis.aof.master]]\n\
             name = \"m\"\nurl = \"{url}\"\n{of_master}",
            dir.display()
        );
        let weir = Setup::new().top("workers = 1").table(&table).start();
        Self { weir, files: dir.join("m"), _dir: None }
    }

    /// What the status says of the master.
    pub fn status(&self) -> Value {
        self.weir.ask_admin("/status").json()["redis.aof"][0].clone()
    }

    /// Waits until a base is in force and its stream is followed.
    pub fn wait_following(&self) {
        wait::until("a base is in force", LONG, || {
            let status = self.status();
            status["generations"].as_u64() > Some(0) && status["link"] == "following"
        });
    }

    /// Has a new base taken beside the stream, and waits until it is in force.
    ///
    /// # Errors
    /// It was not taken.
    pub fn rewrite(&self) -> Outcome<Duration> {
        let (begun, asked) = (Instant::now(), self.files.join("weir.rewrite"));
        std::fs::write(&asked, "")?;
        wait::until("the new base is in force", LONG, || {
            let is_over = !asked.exists();
            let status = self.status();
            let failed = status["rewrite"].as_str().is_some_and(|of| of.contains("no new base"));
            is_over || failed
        });
        match asked.exists() {
            true => Err(self.status()["rewrite"].to_string().into()),
            false => Ok(begun.elapsed()),
        }
    }
}

/// A master whose clients and replica are measured, and not its limits for either.
pub fn master(args: &[&str]) -> Redis {
    let usual = [
        "--enable-debug-command",
        "yes",
        "--repl-diskless-sync-delay",
        "0",
        "--repl-backlog-size",
        "256mb",
        "--client-output-buffer-limit",
        "replica",
        "0",
        "0",
        "0",
    ];
    Redis::start_with(&[&usual, args].concat())
}

/// A replica of it, once it follows.
pub fn replica(of: &Redis, args: &[&str]) -> Redis {
    let port = of.address.port().to_string();
    let replica = master(&[args, &["--replicaof", "127.0.0.1", &port]].concat());
    wait::until("the replica follows", LONG, || {
        let link = info(&mut replica.client(), "replication", "master_link_status");
        link.is_ok_and(|link| link == "up")
    });
    replica
}

/// Fills a server with so many MiB in values of 1 KiB.
///
/// # Errors
/// It refuses.
pub fn populate(client: &mut RedisClient, mib: u64) -> Outcome<()> {
    client.patience(LONG);
    let count = (mib << 10).to_string();
    let said = client.try_ask(&["DEBUG", "POPULATE", &count, "key", "1024"])?;
    match said.as_slice() {
        b"+OK\r\n" => Ok(()),
        said => Err(String::from_utf8_lossy(said).into_owned().into()),
    }
}

/// A field of a section of `INFO`.
///
/// # Errors
/// There is none.
pub fn info(client: &mut RedisClient, section: &str, field: &str) -> Outcome<String> {
    let said = client.try_ask(&["INFO", section])?;
    let text = String::from_utf8_lossy(&said).into_owned();
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    Ok(value.ok_or_else(|| format!("INFO has no {field}"))?.trim().to_owned())
}
