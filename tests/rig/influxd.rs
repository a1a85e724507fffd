//! A real InfluxDB 1.x server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::http::{self, Message, Request};
use crate::places;
use crate::process::Process;

/// The directories of its disk.
const PARTS: [&str; 3] = ["meta", "data", "wal"];

/// A real server on loopback with a directory of its own; it can be killed and started again.
#[derive(Debug)]
pub struct Influxd {
    program: PathBuf,
    process: Option<Process>,
    dir: TempDir,
    pub address: SocketAddr,
    settings: Vec<(&'static str, &'static str)>,
    credentials: Option<(&'static str, &'static str)>,
}

impl Influxd {
    /// A new, empty server.
    ///
    /// # Panics
    /// When it is missing or does not start.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with settings, as the environment names them.
    ///
    /// # Panics
    /// When it is missing or does not start.
    pub fn start_with(settings: &[(&'static str, &'static str)]) -> Self {
        Self::started(places::need("influxd"), settings)
    }

    /// A new, empty server of another version.
    ///
    /// # Panics
    /// When it does not start.
    pub fn of(program: &Path) -> Self {
        Self::started(program.to_owned(), &[])
    }

    fn started(program: PathBuf, settings: &[(&'static str, &'static str)]) -> Self {
        let mut server = Self {
            program,
            process: None,
            dir: places::directory(),
            address: places::free_address(),
            settings: settings.to_vec(),
            credentials: None,
        };
        server.start_again();
        server
    }

    /// A server that asks for credentials, with one administrator.
    ///
    /// # Panics
    /// When it is missing or does not start.
    pub fn with_user(name: &'static str, password: &'static str) -> Self {
        let mut server = Self::start_with(&[("INFLUXDB_HTTP_AUTH_ENABLED", "true")]);
        let create = format!("CREATE USER {name} WITH PASSWORD '{password}' WITH ALL PRIVILEGES");
        server.ask(&create, &[]);
        server.credentials = Some((name, password));
        server
    }

    /// Starts it where it is not running, with its data and address as before.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&mut self) {
        let dir = self.dir.path();
        let mut command = Command::new(&self.program);
        command.args(["run", "-config", "/dev/null"]);
        command.env("INFLUXDB_REPORTING_DISABLED", "true");
        command.env("INFLUXDB_BIND_ADDRESS", "127.0.0.1:0");
        command.env("INFLUXDB_HTTP_BIND_ADDRESS", self.address.to_string());
        command.env("INFLUXDB_HTTP_LOG_ENABLED", "false");
        command.env("INFLUXDB_META_DIR", dir.join("meta"));
        command.env("INFLUXDB_DATA_DIR", dir.join("data"));
        command.env("INFLUXDB_DATA_WAL_DIR", dir.join("wal"));
        command.env("INFLUXDB_MONITOR_STORE_ENABLED", "false");
        command.envs(self.settings.iter().copied());
        let mut process = Process::start("influxd", &mut command, &dir.join("log"));
        let ping = Request::get("/ping");
        let address = self.address;
        process.wait_ready(|| http::send(address, &ping).is_ok_and(|a| a.status() == 204));
        self.process = Some(process);
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Kills it and starts it again with an empty disk.
    ///
    /// # Panics
    /// When it does not start.
    pub fn lose_disk(&mut self) {
        self.kill();
        for part in PARTS {
            let gone = std::fs::remove_dir_all(self.dir.path().join(part));
            gone.expect("a server that has begun has its directories");
        }
        self.start_again();
    }

    /// What it has on its disk while it does not run.
    ///
    /// # Panics
    /// When that can't be copied.
    pub fn snapshot(&self) -> TempDir {
        let copy = places::directory();
        for part in PARTS {
            places::copy_directory(&self.dir.path().join(part), &copy.path().join(part));
        }
        copy
    }

    /// Puts a disk of before in the place of the one it has, while it does not run.
    ///
    /// # Panics
    /// When that can't be copied.
    pub fn put_back(&self, snapshot: &TempDir) {
        for part in PARTS {
            let at = self.dir.path().join(part);
            std::fs::remove_dir_all(&at).expect("a server that has begun has its directories");
            places::copy_directory(&snapshot.path().join(part), &at);
        }
    }

    /// Its id while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Where its data is.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// As a backend's `url`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends a request.
    ///
    /// # Panics
    /// When there is no answer.
    pub fn send(&self, request: &Request) -> Message {
        http::send(self.address, request).expect("influxd answers")
    }

    /// Runs a statement and gives the answer's document.
    ///
    /// # Panics
    /// When there is no answer.
    pub fn ask(&self, q: &str, pairs: &[(&str, &str)]) -> Value {
        let mut pairs = pairs.to_vec();
        if let Some((name, password)) = self.credentials {
            pairs.extend([("u", name), ("p", password)]);
        }
        self.send(&Request::query(q, &pairs)).json()
    }

    /// Creates a database.
    ///
    /// # Panics
    /// When that fails.
    pub fn create(&self, db: &str) {
        let answer = self.ask(&format!("CREATE DATABASE \"{db}\""), &[]);
        assert!(answer["results"][0]["error"].is_null(), "{answer}");
    }

    /// The names of its databases.
    pub fn databases(&self) -> Vec<String> {
        let answer = self.ask("SHOW DATABASES", &[]);
        let rows = answer["results"][0]["series"][0]["values"].as_array().cloned();
        let name = |row: &Value| row[0].as_str().map(str::to_owned);
        rows.unwrap_or_default().iter().filter_map(name).collect()
    }

    /// How many points the measurement's field has; 0 where there is none.
    pub fn count(&self, db: &str, measurement: &str, field: &str) -> u64 {
        let q = format!("SELECT count(\"{field}\") FROM \"{measurement}\"");
        let answer = self.ask(&q, &[("db", db)]);
        answer["results"][0]["series"][0]["values"][0][1].as_u64().unwrap_or(0)
    }
}
