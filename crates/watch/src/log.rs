//! Logs: human lines on a terminal, JSON otherwise, on standard error.
//!
//! The level is checked before anything is formatted. A warning or error that repeats is written
//! once and then counted. Lines are written by a thread of their own, so that a stalled terminal
//! or disk never stalls a worker; when it can not keep up, lines are dropped and counted.

mod repeats;
mod writer;

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry as Subscriber, fmt, reload};

use crate::metrics::Registry;

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// The least level that is written: `error`, `warn`, `info`, `debug` or `trace`; parts of the
    /// program may have their own, as `info,influx=debug`.
    pub level: String,
    /// How lines look.
    pub format: Format,
}

impl Default for Settings {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: Format::Auto }
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// `human` when standard error is a terminal, else `json`.
    #[default]
    Auto,
    /// Lines for people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Why logging could not be set up or changed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The level can not be read.
    #[error(
        "log level {level:?} is not known: write error, warn, info, debug or trace, \
             or levels for parts as \"info,influx=debug\" ({reason})"
    )]
    Level {
        /// What was written.
        level: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Something else logs in this process already.
    #[error("logging is set up already")]
    Twice,
    /// The writing thread did not start.
    #[error("the log's thread did not start: {0}")]
    Thread(#[source] std::io::Error),
}

/// Changes the level while the program runs, and flushes. Clones are the same handle.
#[derive(Clone)]
pub struct Handle {
    level: reload::Handle<Targets, Subscriber>,
    writer: writer::Writer,
    repeats: Arc<repeats::Repeats>,
}

impl Handle {
    /// Makes `level` the least level that is written, as in [`Settings::level`].
    ///
    /// # Errors
    /// The level can not be read; the former one stays.
    pub fn set_level(&self, level: &str) -> Result<(), LogError> {
        let targets = targets(level)?;
        let failed = |error: reload::Error| LogError::Level {
            level: level.to_owned(),
            reason: error.to_string(),
        };
        self.level.reload(targets).map_err(failed)
    }

    /// Writes what was counted but not yet summed up, and waits until all lines so far are
    /// written, at most for `timeout`. To be called before the process ends.
    pub fn flush(&self, timeout: Duration) {
        self.repeats.summarise();
        self.writer.flush(timeout);
    }

    /// Shows how many lines were counted instead of written, and how many were dropped.
    pub fn register(&self, registry: &Registry) {
        let (repeats, writer) = (Arc::clone(&self.repeats), self.writer.clone());
        registry.collect(move |encoder| {
            encoder.counter(
                "weir_log_repeats_suppressed_total",
                "Warnings and errors that repeated and were counted instead of written.",
                &[],
                repeats.suppressed(),
            );
            encoder.counter(
                "weir_log_lines_dropped_total",
                "Log lines dropped because standard error did not take them.",
                &[],
                writer.dropped(),
            );
        });
    }
}

/// Starts logging to standard error for the whole process.
///
/// # Errors
/// The level can not be read, or logging was set up before.
pub fn init(settings: &Settings) -> Result<Handle, LogError> {
    let targets = targets(&settings.level)?;
    let terminal = std::io::stderr().is_terminal();
    let human = match settings.format {
        Format::Auto => terminal,
        Format::Human => true,
        Format::Json => false,
    };
    let repeats = Arc::new(repeats::Repeats::default());
    let writer =
        writer::Writer::start(std::io::stderr(), Arc::clone(&repeats)).map_err(LogError::Thread)?;
    let (filter, level) = reload::Layer::new(targets);
    let lines = fmt::layer().with_writer(writer.clone());
    let lines = if human {
        lines.with_ansi(terminal).boxed()
    } else {
        lines.json().flatten_event(true).boxed()
    };
    let handle = Handle { level, writer, repeats: Arc::clone(&repeats) };
    tracing_subscriber::registry()
        .with(filter)
        .with(repeats::Layer(repeats))
        .with(lines)
        .try_init()
        .map_err(|_| LogError::Twice)?;
    Ok(handle)
}

fn targets(level: &str) -> Result<Targets, LogError> {
    level.parse().map_err(|error: tracing_subscriber::filter::ParseError| LogError::Level {
        level: level.to_owned(),
        reason: error.to_string(),
    })
}
