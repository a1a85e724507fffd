//! What goes into `weir.toml`, and how the program is started with it.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::Weir;
use crate::places;

/// A disk that many tests share may take its time for a sync.
const ACK_TIMEOUT: &str = "60s";

/// A segment is zeroed before Weir is ready, and those of the default size take a disk that many
/// tests share long. A write must fit into one: 4 MiB.
const SMALL_SEGMENTS: &str = "segment-size = \"4MiB\"";

/// What goes into `weir.toml`.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    pub(super) top: String,
    pub(super) journal: String,
    pub(super) ack_timeout: Option<String>,
    pub(super) influx: String,
    pub(super) backends: String,
    pub(super) rest: String,
    pub(super) journal_dir: Option<PathBuf>,
    pub(super) store_dir: Option<PathBuf>,
    pub(super) tls: bool,
    pub(super) program: Option<PathBuf>,
    pub(super) has_faults: bool,
    pub(super) has_default_segments: bool,
    pub(super) open_files: Option<u32>,
    pub(super) store: String,
    pub(super) admin: String,
}

impl Setup {
    /// One worker, the log in full, no backend yet.
    pub fn new() -> Self {
        Self { top: "workers = 1\n".to_owned(), ..Self::default() }
    }

    /// Replaces the lines before the first table.
    #[must_use]
    pub fn top(mut self, lines: &str) -> Self {
        self.top = format!("{lines}\n");
        self
    }

    /// Adds lines to `[journal]`.
    #[must_use]
    pub fn journal(mut self, lines: &str) -> Self {
        let _ = writeln!(self.journal, "{lines}");
        self
    }

    /// How long a write waits for the disk, instead of longer than any test.
    #[must_use]
    pub fn ack_timeout(mut self, timeout: &str) -> Self {
        self.ack_timeout = Some(timeout.to_owned());
        self
    }

    /// Puts the journal elsewhere than below Weir's own directory.
    #[must_use]
    pub fn journal_dir(mut self, dir: PathBuf) -> Self {
        self.journal_dir = Some(dir);
        self
    }

    /// Uses a Weir whose disks do as a [`DiskOrder`](crate::faults::DiskOrder) says.
    #[must_use]
    pub fn with_faults(mut self) -> Self {
        self.has_faults = true;
        self
    }

    /// Uses journal segments of the default size, which take writes of more than 4 MiB.
    #[must_use]
    pub fn default_segments(mut self) -> Self {
        self.has_default_segments = true;
        self
    }

    /// Starts this Weir instead of the one that is tested.
    #[must_use]
    pub fn program(mut self, program: PathBuf) -> Self {
        self.program = Some(program);
        self
    }

    /// Starts Weir with this soft limit on open files.
    #[must_use]
    pub fn open_files(mut self, soft: u32) -> Self {
        self.open_files = Some(soft);
        self
    }

    /// Adds lines to `[admin]`.
    #[must_use]
    pub fn admin(mut self, lines: &str) -> Self {
        let _ = writeln!(self.admin, "{lines}");
        self
    }

    /// Adds lines to `[influx]`.
    #[must_use]
    pub fn influx(mut self, lines: &str) -> Self {
        let _ = writeln!(self.influx, "{lines}");
        self
    }

    /// Adds whole tables at the end.
    #[must_use]
    pub fn table(mut self, lines: &str) -> Self {
        let _ = writeln!(self.rest, "{lines}");
        self
    }

    #[must_use]
    pub fn backend(self, name: &str, url: &str) -> Self {
        self.backend_with(name, url, "")
    }

    /// Adds a backend with more lines.
    #[must_use]
    pub fn backend_with(mut self, name: &str, url: &str, lines: &str) -> Self {
        let _ = writeln!(
            self.backends,
            "[[influx.backend]]\nname = \"{name}\"\nurl = \"{url}\"\n{lines}"
        );
        self
    }

    /// Adds the embedded store as a backend, below Weir's own directory.
    #[must_use]
    pub fn embedded(self) -> Self {
        self.embedded_with("")
    }

    /// The same with more lines.
    #[must_use]
    pub fn embedded_with(mut self, lines: &str) -> Self {
        let backend = "[[influx.backend]]\nname = \"store\"\nembedded = true";
        let _ = writeln!(self.backends, "{backend}\n{lines}");
        self
    }

    /// Puts the store elsewhere than below Weir's own directory.
    #[must_use]
    pub fn store_dir(mut self, dir: PathBuf) -> Self {
        self.store_dir = Some(dir);
        self
    }

    /// Adds lines to `[store]`.
    #[must_use]
    pub fn store(mut self, lines: &str) -> Self {
        let _ = writeln!(self.store, "{lines}");
        self
    }

    /// Starts Weir and waits until it takes writes.
    ///
    /// # Panics
    /// When it does not.
    pub fn start(self) -> Weir {
        let mut weir = self.prepare();
        weir.start_again();
        weir
    }

    /// Whether the file has anything of the InfluxDB gateway, which the journal and the store
    /// belong to.
    pub(super) fn uses_influx(&self) -> bool {
        let lines = [&self.influx, &self.backends, &self.journal, &self.store];
        lines.iter().any(|lines| !lines.is_empty()) || self.rest.contains("[influx")
    }

    /// What is in the file of this Weir.
    pub(super) fn text(&self, weir: &Weir) -> String {
        let influx = if self.uses_influx() { self.influx_tables(weir) } else { String::new() };
        let Self { top, rest, admin, .. } = self;
        let text = format!(
            "{top}\n[admin]\nlisten = \"{}\"\n{admin}\n[log]\nformat = \"json\"\n\n\
             {influx}\n{rest}\n",
            weir.admin
        );
        let text = text.replace("{udp}", &weir.udp.to_string());
        let text = text.replace("{postgres}", &weir.postgres.to_string());
        text.replace("{redis}", &weir.redis.to_string())
    }

    fn influx_tables(&self, weir: &Weir) -> String {
        let Self { journal, influx, backends, store, .. } = self;
        let ack_timeout = self.ack_timeout.as_deref().unwrap_or(ACK_TIMEOUT);
        let is_small = !self.has_default_segments && !journal.contains("segment-size");
        format!(
            "[journal]\ndir = {:?}\nack-timeout = {ack_timeout:?}\n{}\n{journal}\n\
             [store]\ndir = {:?}\n{store}\n\
             [influx]\nlisten = \"{}\"\n{influx}\n{backends}\n",
            weir.journal_dir(),
            if is_small { SMALL_SEGMENTS } else { "" },
            weir.store_dir(),
            weir.http
        )
    }

    /// Writes the configuration and starts nothing.
    ///
    /// # Panics
    /// When it can't be written.
    pub fn prepare(self) -> Weir {
        let weir = Weir {
            process: None,
            dir: places::directory(),
            http: places::free_address(),
            admin: places::free_address(),
            udp: places::free_address(),
            postgres: places::free_address(),
            redis: places::free_address(),
            setup: self,
        };
        weir.write_config();
        weir
    }
}
