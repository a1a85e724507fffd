//! One server, asked and told over a connection that is opened again after an error.

use std::time::Duration;

use tokio::time::timeout;
use wire::resp::put_command;

use super::seen::{CONFIG, Seen};
use crate::server::{Connection, Server};

/// A connection to a server for the guard alone.
pub struct Asked {
    server: Server,
    connection: Option<Connection>,
    patience: Duration,
}

impl Asked {
    /// Nothing is asked yet; no answer may take longer than `patience`.
    pub fn new(server: Server, patience: Duration) -> Self {
        Self { server, connection: None, patience }
    }

    /// How the server is.
    ///
    /// # Errors
    /// Why that is not known, in words.
    pub async fn look(&mut self) -> Result<Seen, String> {
        let get = CONFIG.map(|key| vec!["CONFIG", "GET", key]);
        let commands: Vec<&[&str]> =
            [&["INFO"][..]].into_iter().chain(get.iter().map(Vec::as_slice)).collect();
        let replies = self.ask(&commands).await?;
        let Some((about, settings)) = replies.split_first() else {
            return Err("it does not answer".to_owned());
        };
        let refused = || match about.strip_prefix(b"-") {
            Some(error) => said(error),
            None => "its answer to INFO is none".to_owned(),
        };
        Seen::read(about, settings).ok_or_else(refused)
    }

    /// Sends commands, and gives what is answered to each.
    ///
    /// # Errors
    /// The server can't be reached, or does not answer in time.
    pub async fn ask(&mut self, commands: &[&[&str]]) -> Result<Vec<Vec<u8>>, String> {
        let mut out = Vec::new();
        commands.iter().for_each(|words| put_command(&mut out, words.iter()));
        let connection = self.connection.take();
        let asked = async {
            let mut connection = match connection {
                Some(connection) => connection,
                None => self.server.dial().await.map_err(|error| error.to_string())?,
            };
            let replies = connection.ask(&out, commands.len()).await;
            Ok((connection, replies.map_err(|error| error.to_string())?))
        };
        let late = |_| Err(format!("no answer within {:?}", self.patience));
        let (connection, replies) = timeout(self.patience, asked).await.unwrap_or_else(late)?;
        self.connection = Some(connection);
        Ok(replies)
    }

    /// Tells the server to do something, in one command.
    ///
    /// # Errors
    /// It refuses, or can't be reached.
    pub async fn tell(&mut self, command: &[&str]) -> Result<(), String> {
        let replies = self.ask(&[command]).await?;
        match replies.first().and_then(|reply| reply.strip_prefix(b"-")) {
            Some(error) => Err(format!("{}: {}", command.join(" "), said(error))),
            None => Ok(()),
        }
    }
}

/// An error in the server's words.
pub fn said(error: &[u8]) -> String {
    String::from_utf8_lossy(error).trim_end().to_owned()
}
