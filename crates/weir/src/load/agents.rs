//! Several injectors that one coordinator starts and watches: `weir load agent` on each machine,
//! and `weir load run FILE --agents a,b,c`.
//!
//! A coordinator sends each agent the run file, its files, and which part of the schedule is its
//! own. All begin at one moment, in their own monotonic clocks; windows come back as they end and
//! are added up. An agent that hears nothing of its coordinator stops sending.

// Layers, from the top down.
//   fleet, service
//   progress, injection
//   ledgers, link
//   limits
//   handshake
//   message, secret

mod fleet;
mod handshake;
mod injection;
mod ledgers;
mod limits;
mod link;
mod message;
mod progress;
mod secret;
mod service;

use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Deserializer};

pub use fleet::Fleet;
use message::PORT;
pub use service::{AgentCommand, serve};

use super::values;
use crate::exit::Failure;

/// The most agents of a run.
const AGENTS_MAX: usize = 100;

/// Which agents send a run.
#[derive(Debug, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AgentOptions {
    /// Agents that send the run in place of this process, each a part of it, as
    /// 10.0.0.5,10.0.0.6:8094: `weir load agent` runs there
    #[arg(long, value_name = "HOST[:PORT],...", value_delimiter = ',')]
    #[arg(value_parser = agent_address)]
    #[arg(requires = "agent_secret_file", conflicts_with_all = ["part", "start_at"])]
    #[serde(deserialize_with = "addresses")]
    pub agents: Vec<String>,
    /// A file whose first line is the secret that the agents know
    #[arg(long, value_name = "FILE", requires = "agents")]
    agent_secret_file: Option<PathBuf>,
}

impl AgentOptions {
    /// Whether agents send the run.
    pub fn are_asked(&self) -> bool {
        !self.agents.is_empty()
    }

    /// Where their secret is; nothing where none are asked.
    pub fn secret(&self) -> Result<Option<&Path>, Failure> {
        if self.agents.len() > AGENTS_MAX {
            return Err(Failure::other(format!("a run has up to {AGENTS_MAX} agents")));
        }
        let names = self.agents.iter().enumerate();
        let twice = { names }.find(|(at, name)| self.agents[..*at].contains(name));
        if let Some((_, twice)) = twice {
            return Err(Failure::other(format!("agent {twice} is named twice")));
        }
        Ok(self.agent_secret_file.as_deref().filter(|_| self.are_asked()))
    }
}

fn addresses<'de, D: Deserializer<'de>>(field: D) -> Result<Vec<String>, D::Error> {
    values::each(field, agent_address)
}

/// The address of an agent, with its port.
fn agent_address(text: &str) -> Result<String, String> {
    let (host, port) = flow::dial::host_and_port(text, PORT)?;
    let port = port.map(str::parse::<u16>).transpose();
    let port = port.map_err(|_| format!("{text:?} has no port that there is"))?.unwrap_or(PORT);
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    Ok(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::agent_address as agent;

    #[test]
    fn an_agent_has_the_usual_port_where_none_is_named() {
        assert_eq!(agent("10.0.0.5").unwrap(), "10.0.0.5:8094");
        assert_eq!(agent("host:99").unwrap(), "host:99");
        assert_eq!(agent("[::1]").unwrap(), "[::1]:8094");
        for wrong in ["", ":5", "host:port", "host:70000", "::1"] {
            assert!(agent(wrong).is_err(), "{wrong}");
        }
    }
}
