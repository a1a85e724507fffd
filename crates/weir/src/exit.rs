//! What the process says and answers when it ends.

use std::io::{self, ErrorKind, IsTerminal, Write as _};
use std::process::ExitCode;

use crate::config::ConfigError;

/// The command did what it was asked.
pub const DONE: u8 = 0;
/// The command was right but could not be carried out.
pub const FAILED: u8 = 1;
/// The command was carried out and what it found is bad: damage in a journal, a gateway that is
/// not ready, a load that missed what was required.
pub const BAD_NEWS: u8 = 3;
/// A load's numbers can't be believed.
pub const INVALID: u8 = 4;
/// The configuration is wrong: `EX_CONFIG` of sysexits(3), so that a service manager can be told
/// not to start again what cannot start.
pub const CONFIGURATION: u8 = 78;

/// Why a command ended without doing what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The configuration can't be used.
    #[error("{0}")]
    Configuration(#[from] ConfigError),
    /// Standard output or input is gone.
    #[error("can't write the answer: {0}")]
    Output(#[from] io::Error),
    /// Anything else, in words for the operator: what was done, to whom, and what to do now.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// A failure in words that name the remedy.
    pub fn other(words: impl std::fmt::Display) -> Self {
        Self::Other(words.to_string())
    }

    fn code(&self) -> u8 {
        match self {
            Self::Configuration(_) => CONFIGURATION,
            Self::Output(_) | Self::Other(_) => FAILED,
        }
    }
}

/// Says something on standard error that is no reason to end.
pub fn note(words: impl std::fmt::Display) {
    // Over a progress line, if there is one.
    let over = if io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
    // Whoever reads it may be gone, or its disk full, which ends nothing.
    let _ = writeln!(io::stderr(), "{over}weir: {words}");
}

/// Prints what went wrong on standard error and turns the outcome into the exit code.
pub fn report(outcome: Result<u8, Failure>) -> ExitCode {
    match outcome {
        Ok(code) => ExitCode::from(code),
        // `weir status | head -1` is not a failure.
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("weir: {failure}");
            ExitCode::from(failure.code())
        }
    }
}
