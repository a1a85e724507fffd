//! A running server, Weir or any that speaks as InfluxDB 1.x does, asked over HTTP.

mod answer;
mod client;

use std::fs;
use std::path::PathBuf;

use clap::Args;

pub use answer::{Answer, Series};
pub use client::{Client, Documents, whole};

use crate::exit::Failure;

/// Which server, and as whom.
#[derive(Debug, Clone, Args)]
pub struct Server {
    /// The server: Weir, or another that speaks as InfluxDB 1.x does
    #[arg(
        long,
        visible_alias = "host",
        value_name = "URL",
        env = "WEIR_URL",
        hide_env_values = true,
        default_value = "http://127.0.0.1:8086"
    )]
    pub url: String,
    /// The user, where the server asks for one
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// A file whose first line is the user's password
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// A file of certificate authorities to trust instead of this machine's
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

impl Server {
    /// The URL with a scheme and without a slash at its end.
    fn base(&self) -> String {
        let url = self.url.trim_end_matches('/');
        if url.contains("://") { url.to_owned() } else { format!("http://{url}") }
    }

    fn password(&self) -> Result<String, Failure> {
        let Some(path) = &self.password_file else { return Ok(String::new()) };
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::other(format!("can't read the password in {}: {error}", path.display()))
        })?;
        Ok(text.lines().next().unwrap_or_default().trim_end().to_owned())
    }
}

/// Runs `task` to its end on this thread.
///
/// # Errors
/// Those of the task.
pub fn run<T>(task: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::other(format!("can't begin: {error}")))?;
    runtime.block_on(task)
}
