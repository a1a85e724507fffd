//! The configuration: one TOML file, read, held against its schema, and checked as a whole.

pub mod admin;
#[cfg(test)]
mod tests;
mod unknown;
mod validate;

use std::fmt;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use clap::Args;
use influx::settings::BackendTable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::de::DeTable;
use units::Duration;

/// Where the configuration is looked for when the command line names none.
const PLACES: [&str; 2] = ["weir.toml", "/etc/weir/weir.toml"];

/// What the standard library says of an address that is none.
const NO_ADDRESS: &str = "invalid socket address";

/// The backend there is where the configuration names none: the store within Weir.
pub const EMBEDDED: &str = "store";

/// Where the configuration is.
#[derive(Debug, Clone, Args)]
pub struct ConfigFile {
    /// The configuration; without it ./weir.toml, else /etc/weir/weir.toml
    #[arg(long, short, value_name = "FILE", env = "WEIR_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
}

/// The configuration file. Durations are written `500ms` or `1m30s`, sizes `64MiB` or `10GiB`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// Worker threads: each has its own connections and its own listening sockets. One per core
    /// when absent. Needs a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<NonZeroU16>,
    /// How long a stop waits for requests that were begun before it. Needs a restart.
    pub drain_timeout: Duration,
    /// A worker whose loop stands still for longer is reported with what it was doing, and
    /// counted in `weir_worker_stalls_total`. Needs a restart.
    pub stall_limit: Duration,
    /// How long a server, of any gateway, may owe an acknowledgement and be silent before its
    /// connection ends, as where a network drops what is sent: a read is asked again, of what
    /// else was under way the client hears that the outcome is unknown. A server that says
    /// nothing but acknowledges, busy or with a closed window, is never ended by it. A connection
    /// on which nothing is owed is asked for a sign of life, so that it ends after the same time.
    /// `"0s"` leaves both to the kernel: a quarter of an hour, and a minute. A reload puts it in
    /// force; at connections that are open, for what is owed.
    pub tcp_user_timeout: Duration,
    /// `[journal]`: where writes are kept until every backend has them. Needs a restart.
    pub journal: journal::Settings,
    /// `[store]`: the time-series store within Weir, which the backend with `embedded = true`
    /// is. With this table, and points in its directory, there must be such a backend. Needs a
    /// restart.
    pub store: store::Settings,
    /// `[influx]`: the InfluxDB gateway. It is off, and with it journal and store, where the file
    /// has a `[postgres]` or a `[redis]` table and none of `[influx]`, `[journal]` and `[store]`.
    pub influx: influx::settings::Settings,
    /// `[postgres]`: the PostgreSQL gateway. It is off where the file has no such table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub postgres: Option<postgres::settings::Settings>,
    /// `[redis]`: the Redis gateway. It is off where the file has no such table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis: Option<redis::settings::Settings>,
    /// `[admin]`: the port an operator and a load balancer ask. Needs a restart, but for its
    /// certificate.
    pub admin: admin::Settings,
    /// `[log]`: what is written to standard error.
    pub log: watch::log::Settings,
    /// Whether the file is about other front ends than InfluxDB's alone.
    #[serde(skip)]
    influx_off: bool,
    /// Whether the file has a `[store]` table, and so says which store it is about.
    #[serde(skip)]
    store_named: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: None,
            drain_timeout: Duration::from_secs(30),
            stall_limit: Duration::from_millis(500),
            tcp_user_timeout: Duration::from_secs(60),
            journal: journal::Settings::default(),
            store: store::Settings::default(),
            influx: influx::settings::Settings::default(),
            postgres: None,
            redis: None,
            admin: admin::Settings::default(),
            log: watch::log::Settings::default(),
            influx_off: false,
            store_named: false,
        }
    }
}

impl Settings {
    /// The number of workers: what is set, else one per core this process may run on.
    pub fn worker_count(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.workers.map_or_else(cores, |count| usize::from(count.get()))
    }

    /// Whether the InfluxDB gateway runs, and with it the journal.
    pub fn has_influx(&self) -> bool {
        !self.influx_off
    }

    /// Whether points are kept within Weir.
    pub fn has_store(&self) -> bool {
        self.has_influx() && self.influx.backend.iter().any(|backend| backend.embedded)
    }

    /// What holds where nothing is said: without a backend the store within Weir, and without a
    /// file at all databases that make themselves.
    fn complete(mut self, file: Option<&Path>) -> Self {
        if self.influx.backend.is_empty() {
            self.influx.backend.push(BackendTable::embedded(EMBEDDED));
        }
        self.influx.auto_create_database |= file.is_none();
        self
    }

    /// Where the operator's page keeps events and history; `None` where only in memory.
    pub fn page_dir(&self) -> Option<PathBuf> {
        let state = || Some(PathBuf::from(std::env::var_os("STATE_DIRECTORY")?));
        let above = || match self.has_influx() {
            true => Some(self.journal.dir.clone()),
            false => state(),
        };
        self.admin.dir.clone().or_else(|| Some(above()?.join("admin")))
    }

    /// Where catalogue and dead letters are kept: below the journal, so that one directory holds
    /// all that must survive.
    pub fn influx_dir(&self) -> PathBuf {
        self.journal.dir.join("influx")
    }
}

/// A configuration that can be used.
#[derive(Debug)]
pub struct LoadedConfig {
    /// The file it came from; `None` when there was none and the defaults hold.
    pub file: Option<PathBuf>,
    /// What the file says.
    pub settings: Settings,
    /// What is allowed and still worth a word, each naming its remedy.
    pub warnings: Vec<String>,
}

/// One thing that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line of the file, from one, where it is known.
    pub line: Option<usize>,
    /// What is wrong there and what to write instead.
    pub what: String,
}

impl From<String> for Problem {
    fn from(what: String) -> Self {
        Self { line: None, what }
    }
}

/// Why a configuration can't be used.
#[derive(Debug)]
pub enum ConfigError {
    /// The file can't be read.
    Unreadable {
        /// The file that was named or found.
        file: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },
    /// The file says something that can't be done.
    Wrong {
        /// The file; `None` when there was none.
        file: Option<PathBuf>,
        /// Everything that is wrong.
        problems: Vec<Problem>,
    },
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            Self::Wrong { .. } => None,
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { file, source } => {
                let file = file.display();
                write!(
                    f,
                    "can't read the configuration {file}: {source}; name another with --config"
                )
            }
            Self::Wrong { file, problems } => {
                match file {
                    Some(file) => write!(f, "{} can't be used:", file.display())?,
                    None => {
                        let [here, there] = PLACES;
                        write!(f, "no configuration ({here} and {there} are absent):")?;
                    }
                }
                for Problem { line, what } in problems {
                    match line {
                        Some(line) => write!(f, "\n  line {line}: {what}")?,
                        None => write!(f, "\n  {what}")?,
                    }
                }
                Ok(())
            }
        }
    }
}

/// Reads and checks the configuration the command line names.
///
/// # Errors
/// The file can't be read, or says something that can't be done; everything found is named.
pub fn load(wanted: &ConfigFile) -> Result<LoadedConfig, ConfigError> {
    let file = place(wanted);
    let wrong = |problems| ConfigError::Wrong { file: file.clone(), problems };
    let text = match &file {
        Some(path) => read(path)?,
        None => String::new(),
    };
    let settings = parse(&text).map_err(wrong)?.complete(file.as_deref());
    let mut found = validate::validate(&settings);
    if !found.problems.is_empty() {
        return Err(wrong(found.problems));
    }
    if let Some(path) = &file {
        found.warnings.extend(validate::readable_by_others(path, &settings));
        found.warnings.extend(says_nothing(&text).then(|| {
            let path = path.display();
            format!("{path} sets nothing: everything has its default; is it the file you mean?")
        }));
    }
    Ok(LoadedConfig { file, settings, warnings: found.warnings })
}

/// Reads the configuration as [`load`] does, without asking whether a gateway could run with it:
/// for commands that only need to know where the journal or the admin port is.
///
/// # Errors
/// The file can't be read or isn't a configuration.
pub fn load_places(wanted: &ConfigFile) -> Result<Settings, ConfigError> {
    let file = place(wanted);
    let text = match &file {
        Some(path) => read(path)?,
        None => String::new(),
    };
    match parse(&text) {
        Ok(settings) => Ok(settings.complete(file.as_deref())),
        Err(problems) => Err(ConfigError::Wrong { file, problems }),
    }
}

/// What keeps `text` from being a configuration that can be used, in words.
pub fn problems(text: &str) -> Vec<String> {
    let problems = match parse(text) {
        Ok(settings) => validate::validate(&settings.complete(None)).problems,
        Err(problems) => problems,
    };
    problems.into_iter().map(|problem| problem.what).collect()
}

/// Whether a file has no key, as one that was cut off or has comments alone.
fn says_nothing(text: &str) -> bool {
    DeTable::parse(text).is_ok_and(|document| document.get_ref().is_empty())
}

fn place(wanted: &ConfigFile) -> Option<PathBuf> {
    let usual = || PLACES.iter().map(PathBuf::from).find(|path| path.exists());
    wanted.config.clone().or_else(usual)
}

fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Unreadable { file: path.to_owned(), source })
}

/// The settings `text` means, or everything that keeps it from meaning any.
pub fn parse(text: &str) -> Result<Settings, Vec<Problem>> {
    let document = DeTable::parse(text).map_err(|error| vec![described(&error, text)])?;
    let schema = schemars::schema_for!(Settings).to_value();
    let unknown = unknown::keys(document.get_ref(), &schema, text);
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let mut settings: Settings =
        toml::from_str(text).map_err(|error| vec![described(&error, text)])?;
    let has = |key: &str| document.get_ref().contains_key(key);
    settings.influx_off = ["postgres", "redis"].into_iter().any(has)
        && !["influx", "journal", "store"].into_iter().any(has);
    settings.store_named = has("store");
    Ok(settings)
}

/// The parser's words with the line and the key they are about, and never a secret's value.
fn described(error: &toml::de::Error, text: &str) -> Problem {
    let said = error.message().lines().collect::<Vec<_>>().join(", ");
    let Some(span) = error.span() else {
        return Problem { line: None, what: said };
    };
    let line = line_of(text, span.start);
    let written = text.lines().nth(line - 1).unwrap_or_default().trim();
    let subject = written.split('=').next().unwrap_or_default().trim();
    let secret = ["password", "token", "secret"].iter().any(|word| subject.contains(word));
    let said = match said.contains(NO_ADDRESS) {
        true => "this is not an address with its port; write \"127.0.0.1:8086\"".to_owned(),
        false => said,
    };
    let what = match (subject, secret) {
        ("", _) => said,
        (_, true) => format!("{subject}: can't be read; write text in quotes"),
        (_, false) => format!("{subject}: {said}"),
    };
    Problem { line: Some(line), what }
}

/// The line, from one, of the byte at `offset`.
pub fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}
