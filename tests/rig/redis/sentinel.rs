//! Starts real Redis Sentinels.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use super::Redis;
use crate::places;
use crate::wait;

/// Sentinels that watch one master, which they call `it`. Most of them decide.
#[derive(Debug)]
pub struct Sentinels {
    pub all: Vec<Redis>,
    _dirs: Vec<TempDir>,
}

impl Sentinels {
    /// So many of them, once they know each other and so many replicas of the master.
    ///
    /// # Panics
    /// When they do not come to be.
    pub fn start(master: &Redis, count: usize, replicas: usize) -> Self {
        let port = master.address.port();
        let quorum = count / 2 + 1;
        let text = format!(
            "sentinel monitor it 127.0.0.1 {port} {quorum}\n\
             sentinel down-after-milliseconds it 1000\nsentinel failover-timeout it 10000\n"
        );
        let (all, dirs): (Vec<Redis>, Vec<TempDir>) = (0..count).map(|_| start(&text)).unzip();
        wait::until("the Sentinels know all", wait::LONG, || {
            all.iter().all(|of| {
                let known = of.client().line("SENTINEL MASTER it");
                let has =
                    |field: &str, count: usize| known.contains(&format!("{field} $1 {count}"));
                has("num-other-sentinels", count - 1) && has("num-slaves", replicas)
            })
        });
        Self { all, _dirs: dirs }
    }

    /// As `sentinel` of a server that is found by them.
    pub fn setting(&self) -> String {
        let mut urls = String::new();
        for sentinel in &self.all {
            let _ = write!(urls, "\"{}\", ", sentinel.url());
        }
        format!("sentinel = {{ urls = [{urls}], master = \"it\" }}")
    }

    /// Waits until all of them say that the master is there.
    ///
    /// # Panics
    /// When it does not come to be.
    pub fn wait_for(&self, master: &Redis) {
        let port = master.address.port().to_string();
        wait::until("all Sentinels know the new master", wait::LONG, || {
            self.all
                .iter()
                .all(|of| of.client().line("SENTINEL GET-MASTER-ADDR-BY-NAME it").ends_with(&port))
        });
    }
}

fn start(text: &str) -> (Redis, TempDir) {
    let dir = places::directory();
    let (file, program) = (dir.path().join("sentinel.conf"), dir.path().join("program"));
    fs::write(&file, text).expect("a file can be written");
    let real = places::need("redis-server").display().to_string();
    // What a server takes for its files, a Sentinel does not know.
    let script = format!(
        "#!/bin/sh\nexec {real} {} --sentinel --port \"$2\" --bind 127.0.0.1\n",
        file.display()
    );
    fs::write(&program, script).expect("a file can be written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a file has a mode");
    (Redis::start_as(&program, &[]), dir)
}
