//! A disk whose syncs take longer: a library in C, preloaded into a server, that sleeps before each
//! `fdatasync`.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rig::places;
use rig::postgres::{Cluster, Setup, directory};
use tempfile::TempDir;

use crate::Outcome;
use crate::report::median;

/// What the library does.
const SOURCE: &str = include_str!("slow_sync.c");
/// The variable in which it is told how much longer a sync takes.
const MORE_US: &str = "WEIR_BENCH_SYNC_MORE_US";
/// Commits one after the other whose median tells how long a sync takes.
const COMMITS: usize = 50;

/// The library, compiled into a directory that servers can read.
pub struct SlowSync {
    library: PathBuf,
    _dir: TempDir,
}

impl SlowSync {
    /// Compiles the library; `None` where there is no C compiler.
    ///
    /// # Errors
    /// The compiler fails, or files can't be written.
    pub fn build() -> Outcome<Option<Self>> {
        let Some(compiler) = places::find("cc") else { return Ok(None) };
        let dir = directory();
        let (source, library) = (dir.path().join("slow_sync.c"), dir.path().join("slow_sync.so"));
        std::fs::write(&source, SOURCE)?;
        let mut command = Command::new(compiler);
        command.args(["-O2", "-Wall", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
        let done = command.arg("-ldl").output()?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(format!("cc: {}: {said}", done.status).into());
        }
        Ok(Some(Self { library, _dir: dir }))
    }

    /// A server each of whose syncs takes so much longer, not started yet.
    pub fn slow(&self, server: Setup, more: Duration) -> Setup {
        server
            .setting("wal_sync_method", "fdatasync")
            .env("LD_PRELOAD", &self.library.display().to_string())
            .env(MORE_US, &more.as_micros().to_string())
    }
}

/// How long a commit takes where nobody else commits.
///
/// # Errors
/// It takes less than the syncs of this server are to take longer: the library is not in use.
pub fn lone_commit(cluster: &Cluster, more: Duration) -> Outcome<Duration> {
    let commit = |_| {
        let begun = Instant::now();
        cluster.sql("SELECT pg_logical_emit_message(true, 'weir-bench', '')");
        begun.elapsed().as_secs_f64()
    };
    let seconds: Vec<f64> = (0..COMMITS).map(commit).collect();
    let lone = Duration::from_secs_f64(median(&seconds));
    match lone >= more {
        true => Ok(lone),
        false => Err(format!("a commit takes {lone:?}, but its sync {more:?}").into()),
    }
}
