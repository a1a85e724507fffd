//! Logs: human lines on a terminal, JSON otherwise, on standard error.
//!
//! The level is checked before anything is formatted. A warning or error that repeats is written
//! once and then counted. Lines are written by a thread of their own, so that a stalled terminal
//! or disk never stalls a worker; when it can not keep up, lines are dropped and counted.

mod repeats;
mod writer;

use std::io::{IsTerminal as _, Write};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing_subscriber::filter::{LevelFilter, Targets};
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
    /// Whether lines are for people or for programs.
    pub format: Format,
}

impl Default for Settings {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: Format::Auto }
    }
}

impl Settings {
    /// Whether they can be used, without using them.
    ///
    /// # Errors
    /// The level can not be read.
    pub fn validate(&self) -> Result<(), LogError> {
        targets(&self.level).map(drop)
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// `human` when standard error is a terminal, else `json`.
    #[default]
    Auto,
    /// Lines for people, in colours on a terminal.
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
         or levels for parts as \"info,influx=debug\""
    )]
    Level {
        /// What stood in the configuration.
        level: String,
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
        // Reloading fails only once the subscriber is gone, and with it all that is logged.
        let _ = self.level.reload(targets(level)?);
        Ok(())
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
    let terminal = std::io::stderr().is_terminal();
    let (subscriber, handle) = build(settings, std::io::stderr(), terminal)?;
    subscriber.try_init().map_err(|_| LogError::Twice)?;
    Ok(handle)
}

/// What [`init`] sets up, writing to `out`.
fn build(
    settings: &Settings,
    out: impl Write + Send + 'static,
    terminal: bool,
) -> Result<(impl tracing::Subscriber + Send + Sync, Handle), LogError> {
    let targets = targets(&settings.level)?;
    let human = match settings.format {
        Format::Auto => terminal,
        Format::Human => true,
        Format::Json => false,
    };
    let repeats = Arc::new(repeats::Repeats::default());
    let writer = writer::Writer::start(out, Arc::clone(&repeats)).map_err(LogError::Thread)?;
    let (filter, level) = reload::Layer::new(targets);
    let lines = fmt::layer().with_writer(writer.clone());
    let lines = if human {
        lines.with_ansi(terminal).boxed()
    } else {
        lines.json().flatten_event(true).boxed()
    };
    let handle = Handle { level, writer, repeats: Arc::clone(&repeats) };
    let subscriber =
        tracing_subscriber::registry().with(filter).with(repeats::Layer(repeats)).with(lines);
    Ok((subscriber, handle))
}

/// Reads `info` or `info,influx=debug`. Not by `Targets`' own reader, to which any word without a
/// level is a target, so that a misspelt level would silence everything.
fn targets(text: &str) -> Result<Targets, LogError> {
    let unknown = || LogError::Level { level: text.to_owned() };
    let level = |text: &str| match text.trim() {
        // Which would otherwise be `error`.
        "" => Err(unknown()),
        text => text.parse::<LevelFilter>().map_err(|_| unknown()),
    };
    let mut targets = Targets::new();
    for part in text.split(',') {
        targets = match part.split_once('=') {
            Some((target, text)) => targets.with_target(target.trim(), level(text)?),
            None => targets.with_default(level(part)?),
        };
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::{Format, Handle, LogError, Settings, build};
    use crate::metrics::Registry;
    use parking_lot::Mutex;
    use std::io::{self, Write};
    use std::sync::Arc;
    use std::time::Duration;
    use tracing::{debug, error, info, subscriber, warn};

    const LONG: Duration = Duration::from_secs(60);

    /// Keeps what is written; stands still while `stuck` is locked.
    #[derive(Clone, Default)]
    struct Paper {
        written: Arc<Mutex<Vec<u8>>>,
        stuck: Arc<Mutex<()>>,
    }

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            drop(self.stuck.lock());
            self.written.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(level: &str, format: Format, work: impl FnOnce(&Handle, &Paper)) -> Vec<String> {
        let settings = Settings { level: level.to_owned(), format };
        let paper = Paper::default();
        let (subscriber, handle) = build(&settings, paper.clone(), false).unwrap();
        subscriber::with_default(subscriber, || {
            work(&handle, &paper);
            handle.flush(LONG);
        });
        let written = paper.written.lock().clone();
        let text = String::from_utf8(written).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn json_where_no_terminal_is() {
        let lines = logged("info", Format::Auto, |_, _| info!(points = 3, "accepted"));
        let line: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(line["message"], "accepted");
        assert_eq!(line["points"], 3);
        assert_eq!(line["level"], "INFO");
        assert_eq!(lines.len(), 1);
    }

    #[test]
    fn levels_are_checked_first_and_change_at_run_time() {
        struct Never;
        impl std::fmt::Debug for Never {
            fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                panic!("formatted although it is not written");
            }
        }
        let lines = logged("warn,watch=info", Format::Human, |handle, _| {
            debug!(value = ?Never, "too low");
            info!("one");
            handle.set_level("debug").unwrap();
            debug!("two");
            assert!(matches!(handle.set_level("loud"), Err(LogError::Level { .. })));
            debug!("three");
        });
        let seen = ["one", "two", "three"].map(|word| lines.iter().any(|l| l.contains(word)));
        assert_eq!((seen, lines.len()), ([true; 3], 3), "{lines:?}");
    }

    #[test]
    fn a_misspelt_level_is_an_error() {
        for level in ["loud", "", "info,influx", "influx=loud", "info;warn"] {
            let settings = Settings { level: level.to_owned(), format: Format::Auto };
            assert!(settings.validate().is_err(), "{level}");
        }
        for level in ["off", "WARN", " info , influx = debug", "influx=debug"] {
            assert!(super::targets(level).is_ok(), "{level}");
        }
    }

    #[test]
    fn a_repeated_error_is_written_once_and_then_counted() {
        let registry = Registry::new();
        let lines = logged("info", Format::Json, |handle, _| {
            handle.register(&registry);
            for _ in 0..100 {
                error!(backend = "one", "refused");
                warn!(backend = "two", "slow");
                info!("not counted");
            }
            error!(backend = "three", "refused");
        });
        let errors: Vec<_> = lines.iter().filter(|l| l.contains("ERROR")).collect();
        assert_eq!(errors.len(), 3, "{errors:#?}");
        let all = lines.join("\n");
        assert!(all.contains("again: refused backend=\\\"one\\\""), "{all}");
        assert_eq!(all.matches("\"repeated\":99").count(), 2, "{all}");
        assert_eq!(all.matches("not counted").count(), 100);
        assert!(registry.render().contains("weir_log_repeats_suppressed_total 198"));
    }

    #[test]
    fn lines_that_differ_by_an_address_only_are_counted_too() {
        let lines = logged("info", Format::Json, |_, _| {
            for port in 0..1000 {
                warn!(peer = %format_args!("192.0.2.1:{port}"), "bad request");
            }
        });
        assert!(lines.len() < 30, "{} lines", lines.len());
        assert!(lines.iter().any(|l| l.contains("\"repeated\":980")), "{lines:#?}");
    }

    #[test]
    fn a_stalled_terminal_stalls_nobody() {
        let registry = Registry::new();
        let lines = logged("info", Format::Human, |handle, paper| {
            handle.register(&registry);
            let stuck = paper.stuck.lock();
            for n in 0..3000 {
                info!(n, "line");
            }
            handle.flush(Duration::from_millis(20));
            drop(stuck);
        });
        assert!((1000..1100).contains(&lines.len()), "{} lines", lines.len());
        let text = registry.render();
        let dropped = text.lines().find_map(|l| l.strip_prefix("weir_log_lines_dropped_total "));
        assert_eq!(dropped.unwrap().parse::<usize>().unwrap() + lines.len(), 3000);
    }
}
