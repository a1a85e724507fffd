//! Where a server listens, as operators write it.

use std::path::PathBuf;

use flow::dial::{Address, host_and_port};

/// The port where none is given.
const PORT: u16 = 6379;

/// What was written is not a server's address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("url {url:?}: {what}")]
pub struct AddressError {
    url: String,
    what: String,
}

/// Where a server listens, and whether TLS is begun there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// Where it takes connections.
    pub address: Address,
    /// It was written `rediss://`.
    pub tls: bool,
}

/// Reads `redis://host:port`, `rediss://host:port` for TLS, or a Unix socket's path.
///
/// # Errors
/// It is not a URL of a server, or says more than where.
pub fn read_address(url: &str) -> Result<Reached, AddressError> {
    let wrong = |what: &str| AddressError { url: url.to_owned(), what: what.to_owned() };
    if let Some(path) = url.strip_prefix("unix://").or_else(|| url.starts_with('/').then_some(url))
    {
        let is_path = path.starts_with('/') && path.len() < 108;
        let path = is_path.then(|| PathBuf::from(path));
        let address =
            path.map(Address::Unix).ok_or_else(|| wrong("a socket's path is too long"))?;
        return Ok(Reached { address, tls: false });
    }
    let (rest, tls) = match (url.strip_prefix("redis://"), url.strip_prefix("rediss://")) {
        (Some(rest), _) => (rest, false),
        (_, Some(rest)) => (rest, true),
        _ => return Err(wrong("write redis://host:port, rediss://host:port, or a socket's path")),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains('@') {
        return Err(wrong("user and password have keys of their own"));
    }
    if rest.contains(['/', '?', '#', ',']) {
        return Err(wrong("nothing may follow the port; each server is a [[redis.backend]]"));
    }
    let address = tcp(rest).map_err(|what| wrong(&what))?;
    Ok(Reached { address, tls })
}

fn tcp(text: &str) -> Result<Address, String> {
    let (host, port) = host_and_port(text, PORT)?;
    let port = port.map_or(Ok(PORT), str::parse).ok().filter(|port| *port > 0);
    Ok(Address::Tcp { host: host.to_owned(), port: port.ok_or("the port is none")? })
}
