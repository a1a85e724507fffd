//! Where a server listens, as operators write it.

use std::path::{Path, PathBuf};

use flow::dial::{Address, host_and_port};

/// The port where none is given.
const PORT: u16 = 5432;
/// A Unix socket's path takes this many bytes at most (`sun_path`, without its end).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// What was written is not a server's address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("url {url:?}: {what}")]
pub struct AddressError {
    url: String,
    what: String,
}

/// Reads where a server listens, as operators write it.
///
/// # Errors
/// It is not a URL of a server, or says more than where.
pub fn read_address(url: &str) -> Result<Address, AddressError> {
    let wrong = |what: &str| AddressError { url: url.to_owned(), what: what.to_owned() };
    if url.starts_with('/') {
        return unix(url).map_err(wrong);
    }
    let rest = ["postgresql://", "postgres://"].iter().find_map(|s| url.strip_prefix(s));
    let rest =
        rest.ok_or_else(|| wrong("write postgresql://host:port, or a Unix socket's directory"))?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.starts_with('/') {
        return unix(rest).map_err(wrong);
    }
    if rest.contains('@') {
        return Err(wrong("user and password have keys of their own"));
    }
    if rest.contains(['/', '?', '#']) {
        return Err(wrong("nothing may follow the port; a database has a key of its own"));
    }
    if rest.contains(',') {
        return Err(wrong("one host only; each server is a [[postgres.backend]]"));
    }
    tcp(rest).map_err(|what| wrong(&what))
}

fn tcp(text: &str) -> Result<Address, String> {
    let (host, port) = host_and_port(text, PORT)?;
    Ok(Address::Tcp { host: host.to_owned(), port: number(port)? })
}

/// A directory, with or without a port behind it, or the socket's own path.
fn unix(text: &str) -> Result<Address, &'static str> {
    let is_port = |port: &&str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let (directory, port) = match text.rsplit_once(':') {
        Some((directory, port)) if is_port(&port) => (directory, Some(port)),
        _ => (text, None),
    };
    let path = if text.rsplit('/').next().is_some_and(|name| name.starts_with(".s.PGSQL.")) {
        PathBuf::from(text)
    } else {
        Path::new(directory).join(format!(".s.PGSQL.{}", number(port)?))
    };
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return Err("the path is too long for a Unix socket, which takes 107 bytes");
    }
    Ok(Address::Unix(path))
}

fn number(port: Option<&str>) -> Result<u16, &'static str> {
    let port =
        port.map_or(Ok(PORT), str::parse).map_err(|_| "its port is not a number up to 65535")?;
    if port == 0 { Err("port 0 is not a server's") } else { Ok(port) }
}

#[cfg(test)]
mod tests {
    fn read(url: &str) -> String {
        super::read_address(url)
            .map_or_else(|error| error.to_string(), |address| address.to_string())
    }

    #[test]
    fn addresses_are_read_as_operators_write_them() {
        for (url, address) in [
            ("postgresql://10.0.0.1:5433", "10.0.0.1:5433"),
            ("postgres://db.example", "db.example:5432"),
            ("postgresql://db.example/", "db.example:5432"),
            ("postgresql://[::1]:7", "[::1]:7"),
            ("postgresql://[::1]", "[::1]:5432"),
            ("/var/run/postgresql", "/var/run/postgresql/.s.PGSQL.5432"),
            ("/var/run/postgresql:5433", "/var/run/postgresql/.s.PGSQL.5433"),
            ("postgresql:///run/pg:7", "/run/pg/.s.PGSQL.7"),
            ("/run/pg/.s.PGSQL.9", "/run/pg/.s.PGSQL.9"),
        ] {
            assert_eq!(read(url), address, "{url}");
        }
    }

    #[test]
    fn what_is_none_is_told_what_to_write() {
        for (url, word) in [
            ("10.0.0.1:5432", "postgresql://"),
            ("http://a", "postgresql://"),
            ("postgresql://me:secret@a", "keys of their own"),
            ("postgresql://a/db", "key of its own"),
            ("postgresql://a?sslmode=require", "key of its own"),
            ("postgresql://a,b", "[[postgres.backend]]"),
            ("postgresql://::1:5432", "brackets"),
            ("postgresql://a:0", "port 0"),
            ("postgresql://a:70000", "up to 65535"),
            ("postgresql://:5432", "missing"),
            ("", "postgresql://"),
            (&format!("/{}", "x".repeat(120)), "107"),
        ] {
            assert!(read(url).contains(word), "{url}: {}", read(url));
        }
    }
}
