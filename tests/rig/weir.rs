//! Weir itself, as an operator starts it: a configuration file and a process.

mod setup;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::faults::{self, DiskOrder, HOLD_SYNCS};
use crate::http::{self, Message, Request};
use crate::metrics::Scrape;
use crate::places;
use crate::process::Process;
use crate::status::{self, Account};
use crate::wait;

pub use setup::Setup;

/// Weir, running or not; dropping it kills it.
#[derive(Debug)]
pub struct Weir {
    process: Option<Process>,
    dir: TempDir,
    /// The InfluxDB front end.
    pub http: SocketAddr,
    pub admin: SocketAddr,
    /// A free address for a test's `[[influx.udp]]`, `{udp}` in its tables.
    pub udp: SocketAddr,
    /// A free address for a test's `[postgres]`, `{postgres}` in its tables.
    pub postgres: SocketAddr,
    /// A free address for a test's `[redis]`, `{redis}` in its tables.
    pub redis: SocketAddr,
    setup: Setup,
}

impl Weir {
    /// Changes the configuration file; it holds from the next start or reload.
    ///
    /// # Panics
    /// When it can't be written.
    pub fn configure(&mut self, change: impl FnOnce(Setup) -> Setup) {
        self.setup = change(self.setup.clone());
        self.write_config();
    }

    fn write_config(&self) {
        let text = self.setup.text(self);
        std::fs::write(self.config(), text).expect("the configuration can be written");
    }

    pub fn config(&self) -> PathBuf {
        self.dir.path().join("weir.toml")
    }

    /// A directory for a test's own files, gone with Weir.
    pub fn dir(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// Where the journal is.
    pub fn journal_dir(&self) -> PathBuf {
        self.setup.journal_dir.clone().unwrap_or_else(|| self.dir.path().join("journal"))
    }

    /// Where the store is.
    pub fn store_dir(&self) -> PathBuf {
        self.setup.store_dir.clone().unwrap_or_else(|| self.dir.path().join("store"))
    }

    /// Has the store's disk do as an order says, or as disks do where it is empty. Needs
    /// [`Setup::with_faults`].
    ///
    /// # Panics
    /// When the file can't be changed.
    pub fn store_faults(&self, order: &str) {
        faults::order(&self.store_dir(), order);
    }

    /// Makes every sync of the journal wait from now on. Needs [`Setup::with_faults`].
    ///
    /// # Panics
    /// When the file can't be made.
    pub fn hold_syncs(&self) -> DiskOrder {
        DiskOrder::give(&self.journal_dir(), HOLD_SYNCS)
    }

    /// Says that the front end speaks TLS, so that readiness is asked at the admin port only.
    pub fn with_tls(mut self) -> Self {
        self.setup.tls = true;
        self
    }

    fn spawn(&self) -> Process {
        let program = self.setup.program.clone().unwrap_or_else(places::weir);
        let mut command = match self.setup.open_files {
            None => Command::new(program),
            Some(soft) => {
                let script = format!("ulimit -Sn {soft}; exec \"$0\" \"$@\"");
                let mut command = Command::new("sh");
                command.args(["-c", &script]).arg(program);
                command
            }
        };
        command.arg("serve").arg("--config").arg(self.config());
        if self.setup.has_faults {
            command.env("WEIR_FAULTS", "switched by files");
        }
        Process::start("weir", &mut command, &self.dir.path().join("log"))
    }

    /// Starts it and waits until it takes writes.
    ///
    /// # Panics
    /// When it does not.
    pub fn start_again(&mut self) {
        let mut process = self.spawn();
        let (admin, http) = (self.admin, self.http);
        let is_asked = self.setup.uses_influx() && !self.setup.tls;
        let answers = |address, target: &str, status| {
            http::send(address, &Request::get(target)).is_ok_and(|a| a.status() == status)
        };
        process.wait_ready(|| {
            answers(admin, "/ready", 200) && (!is_asked || answers(http, "/ping", 204))
        });
        self.process = Some(process);
    }

    /// Starts it, expecting that it ends by itself; gives its exit code and log.
    ///
    /// # Panics
    /// When it runs on.
    pub fn start_in_vain(&self) -> (Option<i32>, String) {
        let mut process = self.spawn();
        let status = wait::value("weir ends", wait::LONG, || process.ended());
        (status.code(), process.log())
    }

    /// Starts it without waiting for anything.
    pub fn start_unready(&mut self) {
        self.process = Some(self.spawn());
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// SIGTERM, and how it ended.
    ///
    /// # Panics
    /// When it is not running or does not end.
    pub fn terminate(&mut self) -> ExitStatus {
        let status = self.running().terminate(wait::LONG);
        self.process = None;
        status
    }

    /// SIGHUP.
    ///
    /// # Panics
    /// When it is not running.
    pub fn reload(&mut self) {
        self.running().signal(Signal::HUP);
    }

    /// The running process.
    ///
    /// # Panics
    /// When it is not running.
    pub fn running(&mut self) -> &mut Process {
        self.process.as_mut().expect("weir was started")
    }

    /// All it has logged since the first start.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Waits until these words are in the log, which a thread of its own writes.
    ///
    /// # Panics
    /// When they are not there within a minute.
    #[track_caller]
    pub fn wait_log(&self, words: &str) {
        wait::until(&format!("the log says {words:?}"), wait::LONG, || self.log().contains(words));
    }

    /// Sends a request to the front end.
    ///
    /// # Panics
    /// When there is no answer.
    pub fn send(&self, request: &Request) -> Message {
        http::send(self.http, request).expect("weir answers")
    }

    /// Writes lines.
    ///
    /// # Panics
    /// When there is no answer.
    pub fn write(&self, db: &str, lines: &str) -> Message {
        self.send(&Request::post(&format!("/write?db={}", http::escape(db)), lines))
    }

    /// Writes lines that must be taken.
    ///
    /// # Panics
    /// When they are not.
    #[track_caller]
    pub fn must_write(&self, db: &str, lines: &str) {
        let answer = self.write(db, lines);
        assert_eq!(answer.status(), 204, "{}", answer.text());
    }

    /// Waits until it knows which databases there are, and writes nothing.
    ///
    /// # Panics
    /// When it does not find out.
    #[track_caller]
    pub fn wait_catalogue(&self) {
        wait::until("the catalogue is known", wait::LONG, || {
            self.write("nowhere", "").status() == 404
        });
    }

    /// Runs a statement.
    ///
    /// # Panics
    /// When there is no answer.
    pub fn query(&self, q: &str, pairs: &[(&str, &str)]) -> Message {
        self.send(&Request::query(q, pairs))
    }

    /// Asks the admin port.
    ///
    /// # Panics
    /// When there is no answer.
    pub fn ask_admin(&self, target: &str) -> Message {
        http::send(self.admin, &Request::get(target)).expect("the admin port answers")
    }

    pub fn metrics(&self) -> Scrape {
        Scrape::parse(&self.ask_admin("/metrics").text())
    }

    /// Pieces of work that have kept a worker for more than 10 ms of its CPU time.
    pub fn held(&self) -> f64 {
        // The watchdog has looked once more.
        std::thread::sleep(Duration::from_millis(600));
        self.metrics().sum("weir_worker_held_total", &[])
    }

    /// The accounts of all backends, of one moment.
    pub fn accounts(&self) -> Vec<Account> {
        status::accounts(&self.ask_admin("/status").json())
    }

    /// The account of one backend.
    ///
    /// # Panics
    /// When there is none of that name.
    pub fn account(&self, backend: &str) -> Account {
        let accounts = self.accounts();
        let found = accounts.into_iter().find(|account| account.name == backend);
        found.unwrap_or_else(|| panic!("no backend {backend:?} in the status"))
    }

    /// Waits until nothing waits for any backend.
    ///
    /// # Panics
    /// When something still waits after a minute.
    #[track_caller]
    pub fn wait_delivered(&self) {
        wait::until("every backend has everything", wait::LONG, || {
            self.accounts().iter().all(|a| a.waiting == 0 && a.waiting_statements == 0)
        });
    }

    /// Runs another command of the program, with `WEIR_CONFIG` set.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn command(&self, args: &[&str]) -> Output {
        let mut command = Command::new(places::weir());
        command.args(args).env("WEIR_CONFIG", self.config());
        command.output().expect("weir can be started")
    }

    /// The same, which must end well; gives what it printed.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn must_run(&self, args: &[&str]) -> String {
        let output = self.command(args);
        let (out, err) = (&output.stdout, &output.stderr);
        let text = String::from_utf8_lossy(out).into_owned();
        assert!(
            output.status.success(),
            "weir {args:?}: {}\n{text}{}",
            output.status,
            String::from_utf8_lossy(err)
        );
        text
    }
}
