//! Where a server listens, as operators write it.

use std::path::PathBuf;

use flow::dial::Address;

/// The port where none is given.
const PORT: u16 = 6379;

/// What was written is no server's address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("url {url:?}: {what}")]
pub struct AddressError {
    url: String,
    what: &'static str,
}

/// Where a server listens, and whether TLS is begun there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// Where.
    pub address: Address,
    /// It was written `rediss://`.
    pub tls: bool,
}

/// Reads `redis://host:port`, `rediss://host:port` for TLS, or a Unix socket's path.
///
/// # Errors
/// It is no URL of a server, or says more than where.
pub fn read_address(url: &str) -> Result<Reached, AddressError> {
    let wrong = |what| AddressError { url: url.to_owned(), what };
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
    let address = tcp(rest).map_err(wrong)?;
    Ok(Reached { address, tls })
}

fn tcp(text: &str) -> Result<Address, &'static str> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("an IPv6 address ends with ]")?;
            (host, port.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("an IPv6 address is written in brackets, as [::1]:6379");
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err("the host is missing");
    }
    let port = port.map_or(Ok(PORT), str::parse).ok().filter(|port| *port > 0);
    Ok(Address::Tcp { host: host.to_owned(), port: port.ok_or("the port is none")? })
}
