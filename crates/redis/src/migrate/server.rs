//! Where pools listen and where their servers are.

use std::path::PathBuf;

use crate::placement::default_name;

/// Where clients of a pool connect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Listen {
    /// `host:port`.
    Tcp {
        /// A name or an address.
        host: String,
        /// The port, which is not 0.
        port: u16,
    },
    /// `/path`, or `/path 0600`.
    Unix {
        /// The path of the socket.
        path: PathBuf,
        /// The permissions of its file, where given.
        mode: Option<u32>,
    },
}

impl Listen {
    pub(super) fn read(text: &str) -> Result<Self, &'static str> {
        if !text.starts_with('/') {
            let (host, port) = host_and_port(text)?;
            return Ok(Self::Tcp { host: host.to_owned(), port });
        }
        let Some((path, mode)) = text.rsplit_once(' ') else {
            return Ok(Self::Unix { path: text.into(), mode: None });
        };
        match u32::from_str_radix(mode, 8) {
            Ok(mode) if mode <= 0o777 => Ok(Self::Unix { path: path.into(), mode: Some(mode) }),
            _ => Err("has permissions that are not octal from 0 to 0777"),
        }
    }
}

/// A server of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// `host:port`, or a Unix socket's path, as it was written.
    pub address: String,
    /// Its part of the keys, beside the others'; above 0.
    pub weight: u32,
    /// Its name, where it has one.
    pub name: Option<String>,
}

impl Server {
    /// What stands for the server where it is hashed and sorted.
    pub fn placed_as(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => default_name(&self.address).into_owned(),
        }
    }

    /// Reads `host:port:weight [name]` or `/path:weight [name]`, from its end.
    pub(super) fn read(text: &str) -> Result<Self, &'static str> {
        let (place, name) = match text.rsplit_once(' ') {
            Some((_, "")) => return Err("has an empty name"),
            Some((place, name)) => (place, Some(name.to_owned())),
            None => (text, None),
        };
        let (address, weight) = place
            .rsplit_once(':')
            .ok_or("is neither \"host:port:weight [name]\" nor \"/path:weight [name]\"")?;
        if !address.starts_with('/') {
            host_and_port(address)?;
        } else if address.contains(':') {
            return Err("has a path with a colon in it");
        }
        match number(weight) {
            None => Err("has a weight that is not a number"),
            Some(0) => Err("has a weight of 0"),
            Some(weight) => Ok(Self { address: address.to_owned(), weight, name }),
        }
    }
}

fn host_and_port(text: &str) -> Result<(&str, u16), &'static str> {
    let (host, port) = text.rsplit_once(':').ok_or("has no port: \"host:port\"")?;
    if host.is_empty() {
        return Err("has no host: \"host:port\"");
    }
    match number(port).map(u16::try_from) {
        Some(Ok(port)) if port > 0 => Ok((host, port)),
        _ => Err("has a port that is not from 1 to 65535"),
    }
}

/// Decimal digits alone, as far as an `int` of C goes.
pub fn number(text: &str) -> Option<u32> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|number| i32::try_from(*number).is_ok())
}
