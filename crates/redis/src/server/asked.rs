//! One server, asked and told over a connection that is opened again after an error.

use std::time::Duration;

use tokio::time::timeout;
use wire::resp::put_command;

use super::{Connection, Server};
use crate::info;

/// A server that is asked, over a connection for that alone.
#[derive(Debug)]
pub struct ControlConnection {
    server: Server,
    connection: Option<Connection>,
    patience: Duration,
}

impl ControlConnection {
    /// Nothing is asked yet; no answer may take longer than `patience`.
    pub fn new(server: Server, patience: Duration) -> Self {
        Self { server, connection: None, patience }
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

    /// Another server, asked as this one is.
    ///
    /// # Errors
    /// It can't be reached as this one is: its certificate can't be checked, or the password would
    /// leave this machine in the clear.
    pub fn at(&self, host: &str, port: u16) -> Result<Self, String> {
        let own = self.server.host().unwrap_or_default();
        if !self.server.tells_password(own) && self.server.tells_password(host) {
            return Err(format!("at {host}:{port} the password would travel in the clear"));
        }
        Ok(Self::new(self.server.at(host, port)?, self.patience))
    }

    /// What the server's settings know it by.
    pub fn known_as(&self) -> String {
        self.server.known_as()
    }

    /// The host that the server is on; none of a Unix socket.
    pub fn host(&self) -> Option<&str> {
        self.server.host()
    }

    /// Where the server's master is.
    ///
    /// # Errors
    /// It has none, or does not say so.
    pub async fn master(&mut self) -> Result<(String, u16), String> {
        let replies = self.ask(&[&["INFO", "replication"]]).await?;
        let reply = replies.first().map(Vec::as_slice).unwrap_or_default();
        let host = info::field(reply, "master_host").map(str::to_owned);
        let port = info::field(reply, "master_port").and_then(|port| port.parse().ok());
        host.zip(port).ok_or_else(|| "it does not say who its master is".to_owned())
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
