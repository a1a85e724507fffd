//! From influxdb-relay: its TOML becomes an `[influx]` table.
//!
//! It writes what means the same, names in comments what has no equivalent and why, and says what
//! is to be done by hand. It opens no file and resolves no name.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::Path;

use toml::{Table, Value};
use units::draft::{Conversion, Draft, Section, text, texts};
use units::{Duration, Size};

/// The longest name of a backend.
const NAME_BYTES_MAX: usize = 64;
/// The keys of the relay as InfluxData left it, by table.
const HTTP: [&str; 5] =
    ["name", "bind-addr", "ssl-combined-pem", "default-retention-policy", "output"];
const OUTPUT: [&str; 7] = [
    "name",
    "location",
    "timeout",
    "buffer-size-mb",
    "max-batch-kb",
    "max-delay-interval",
    "skip-tls-verification",
];
const UDP: [&str; 5] = ["name", "bind-addr", "precision", "read-buffer", "output"];

/// Why a file of influxdb-relay can't be carried over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelayError {
    /// The file cannot be read as TOML.
    #[error("it is not TOML: {0}")]
    Syntax(String),
    /// It is another program's.
    #[error("it has neither [[http]] nor [[udp]], so it is not a file of influxdb-relay")]
    Other,
    /// A key holds something else than the relay takes.
    #[error("{at}: {key} is not {wanted}")]
    Type {
        /// The table that has the key.
        at: String,
        key: &'static str,
        /// What the relay takes.
        wanted: &'static str,
    },
}

/// A table of the file, with the name by which it is spoken of.
struct Entry<'a> {
    at: String,
    table: &'a Table,
}

impl<'a> Entry<'a> {
    fn wrong(&self, key: &'static str, wanted: &'static str) -> RelayError {
        RelayError::Type { at: self.at.clone(), key, wanted }
    }

    /// A text that is not empty.
    fn text(&self, key: &'static str) -> Result<Option<&'a str>, RelayError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| self.wrong(key, "a text in quotes"))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    fn number(&self, key: &'static str) -> Result<Option<u64>, RelayError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
        number.map(Some).ok_or_else(|| self.wrong(key, "a number"))
    }

    fn is_on(&self, key: &'static str) -> Result<bool, RelayError> {
        let Some(value) = self.table.get(key) else { return Ok(false) };
        value.as_bool().ok_or_else(|| self.wrong(key, "true or false"))
    }

    fn tables(&self, key: &'static str) -> Result<Vec<Entry<'a>>, RelayError> {
        let Some(value) = self.table.get(key) else { return Ok(Vec::new()) };
        let wrong = || self.wrong(key, "a list of tables");
        let list = value.as_array().ok_or_else(wrong)?;
        let named = |(number, value): (usize, &'a Value)| {
            let table = value.as_table().ok_or_else(wrong)?;
            let name = table.get("name").and_then(Value::as_str);
            let name = name.map_or_else(|| format!("number {}", number + 1), str::to_owned);
            let of = if self.at.is_empty() { "" } else { &format!(" of {}", self.at) };
            Ok(Entry { at: format!("[[{key}]] {name}{of}"), table })
        };
        list.iter().enumerate().map(named).collect()
    }

    /// Names the keys that the relay does not have.
    fn leave_unknown(&self, known: &[&str], draft: &mut Draft) {
        for (key, value) in self.table.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            draft.leave(format!(
                "{key} = {value} in {}: influxdb-relay has no such key; docs/\
                 replacing-influxdb-relay.md has those of its forks",
                self.at
            ));
        }
    }
}

/// The TOML that means what a file of influxdb-relay means.
///
/// # Errors
/// It is not one.
pub fn relay(file: &Path, content: &str) -> Result<Conversion, RelayError> {
    let table: Table =
        content.parse().map_err(|error: toml::de::Error| RelayError::Syntax(error.to_string()))?;
    let whole = Entry { at: String::new(), table: &table };
    let (http, udp) = (whole.tables("http")?, whole.tables("udp")?);
    if http.is_empty() && udp.is_empty() {
        return Err(RelayError::Other);
    }
    let from = format!("From {} of influxdb-relay.", file.display());
    let words = "What is not said is Weir's default; docs/replacing-influxdb-relay.md has every \
                 key of both.";
    let mut draft = Draft::new("influx", &[from, words.to_owned()]);
    for (key, _) in table.iter().filter(|(key, _)| !["http", "udp"].contains(&key.as_str())) {
        draft.leave(format!("{key}: influxdb-relay has no such table"));
    }
    let mut hosts = BTreeSet::new();
    listeners(&http, &mut hosts, &mut draft)?;
    for entry in &udp {
        datagrams(entry, &mut hosts, &mut draft)?;
    }
    draft.leave(
        "credentials: the relay passed those of clients on. Weir lets clients in by \
         [[influx.user]], and logs in by user and password-file of each [[influx.backend]]",
    );
    Ok(draft.finish())
}

/// The `[[http]]` tables whose writes go to the servers of the first one.
fn listeners(
    http: &[Entry<'_>],
    hosts: &mut BTreeSet<String>,
    draft: &mut Draft,
) -> Result<(), RelayError> {
    let mut listen = Vec::new();
    let mut first: Option<(BTreeSet<String>, Option<&str>, Option<&str>)> = None;
    for entry in http {
        entry.leave_unknown(&HTTP, draft);
        let outputs = entry.tables("output")?;
        let mut locations = BTreeSet::new();
        for output in &outputs {
            locations.extend(output.text("location")?.map(str::to_owned));
        }
        let own =
            (locations, entry.text("ssl-combined-pem")?, entry.text("default-retention-policy")?);
        match &first {
            None => {
                servers(&outputs, hosts, draft)?;
                if let Some(file) = own.1 {
                    let tls = draft.table("tls");
                    tls.set("certificate", text(file));
                    tls.set("key", text(file));
                }
                if let Some(policy) = own.2 {
                    draft.table("").set("default-retention-policy", text(policy));
                }
                first = Some(own);
            }
            Some(first) if *first == own => {}
            Some(_) => {
                draft.demand(format!(
                    "{} has other servers, another certificate or another policy than {}: every \
                     write of a Weir goes to all of its servers, so give it a Weir of its own, \
                     with its own journal.dir, influx.listen and admin.listen",
                    entry.at, http[0].at
                ));
                continue;
            }
        }
        match entry.text("bind-addr")?.map(address) {
            Some(Ok(address)) => listen.push(address.to_string()),
            Some(Err(written)) => draft.demand(format!(
                "bind-addr = {written:?} of {}: write its address into listen; names are not \
                 resolved here",
                entry.at
            )),
            None => draft.demand(format!("{} has no bind-addr: write listen", entry.at)),
        }
    }
    if !listen.is_empty() {
        draft.table("").set("listen", texts(&listen));
    }
    Ok(())
}

/// An address as Go reads it: without a host it is every one.
fn address(written: &str) -> Result<SocketAddr, &str> {
    let every = |port: &str| port.parse().ok().map(|port| (Ipv6Addr::UNSPECIFIED, port).into());
    let found = match written.rsplit_once(':') {
        Some(("", port)) => every(port),
        Some(("localhost", port)) => format!("127.0.0.1:{port}").parse().ok(),
        _ => written.parse().ok(),
    };
    found.ok_or(written)
}

fn servers(
    outputs: &[Entry<'_>],
    hosts: &mut BTreeSet<String>,
    draft: &mut Draft,
) -> Result<(), RelayError> {
    let mut names = BTreeSet::new();
    for output in outputs {
        output.leave_unknown(&OUTPUT, draft);
        let Some(location) = output.text("location")? else {
            draft.demand(format!("{} has no location: write its url", output.at));
            continue;
        };
        let (path, query) = location.split_once('?').unwrap_or((location, ""));
        let path = path.trim_end_matches('/');
        let url = path.strip_suffix("/write");
        if url.is_none() || !query.is_empty() {
            draft.demand(format!(
                "location = {location:?} of {} is not a server's /write: write into url what \
                 stands before /write and /query, and kind where it is not InfluxDB 1.x",
                output.at
            ));
        }
        let url = url.unwrap_or(path);
        hosts.insert(host_of(url).to_owned());
        let name = backend_name(output.text("name")?.unwrap_or(host_of(url)), &mut names);
        let element = draft.element("backend");
        element.set("name", text(&name));
        element.set("url", text(url));
        if output.is_on("skip-tls-verification")? {
            element.set("insecure-skip-verify", true);
        }
        let left = limits(output, element)?;
        left.into_iter().for_each(|words| draft.leave(words));
    }
    Ok(())
}

/// Sets what a server's limits become; gives what becomes nothing.
fn limits(output: &Entry<'_>, element: &mut Section) -> Result<Vec<String>, RelayError> {
    let mut left = Vec::new();
    let at = &output.at;
    if let Some(timeout) = output.text("timeout")? {
        match timeout.parse::<Duration>() {
            Ok(timeout) => element.set("timeout", text(&timeout.to_string())),
            Err(error) => left.push(format!("timeout of {at}: {error}")),
        }
    }
    if let Some(size) = output.number("buffer-size-mb")?.filter(|size| *size > 0) {
        left.push(format!(
            "buffer-size-mb = {size} of {at}: what a server has not had yet is kept on disk, for \
             all servers together, up to max-size of [journal]"
        ));
    }
    if let Some(size) = output.number("max-batch-kb")? {
        left.push(format!(
            "max-batch-kb = {size} of {at}: writes always go out in batches, of up to batch-points \
             and batch-bytes"
        ));
    }
    if let Some(span) = output.text("max-delay-interval")? {
        left.push(format!(
            "max-delay-interval = {span} of {at}: waits between attempts have a limit of their own"
        ));
    }
    Ok(left)
}

/// The host of a URL, or of an address.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

/// A name that a backend may have, and none has yet.
fn backend_name(written: &str, names: &mut BTreeSet<String>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let plain: String = written.chars().map(|c| if plain(c) { c } else { '-' }).collect();
    // Room for a number.
    let plain = &plain[..plain.len().min(NAME_BYTES_MAX - 4)];
    let plain = if plain.is_empty() { "server" } else { plain };
    let numbered = (2..).map(|number| format!("{plain}-{number}"));
    let mut all = std::iter::once(plain.to_owned()).chain(numbered);
    let name = all.find(|name| !names.contains(name)).unwrap_or_default();
    names.insert(name.clone());
    name
}

/// A `[[udp]]` table. Its points go to every server over HTTP.
fn datagrams(
    entry: &Entry<'_>,
    hosts: &mut BTreeSet<String>,
    draft: &mut Draft,
) -> Result<(), RelayError> {
    entry.leave_unknown(&UDP, draft);
    let at = &entry.at;
    for output in entry.tables("output")? {
        let location = output.text("location")?.unwrap_or_default();
        let host = host_of(location);
        if hosts.insert(host.to_owned()) {
            draft.demand(format!(
                "{} goes to {location} by UDP: Weir writes to servers over HTTP, at url of their \
                 [[influx.backend]]; put its port in place of 8086, or leave the server out",
                output.at
            ));
            let name = backend_name(&format!("udp-{host}"), &mut BTreeSet::new());
            let element = draft.element("backend");
            element.set("name", text(&name));
            element.set("url", text(&format!("http://{host}:8086")));
        }
    }
    let listen = match entry.text("bind-addr")?.map(address) {
        Some(Ok(address)) => address,
        Some(Err(written)) => {
            let what = "write its address, names are not resolved here";
            draft.demand(format!("bind-addr = {written:?} of {at}: {what}"));
            return Ok(());
        }
        None => {
            draft.demand(format!("{at} has no bind-addr: write [[influx.udp]]"));
            return Ok(());
        }
    };
    draft.demand(format!(
        "{at}: write the database of its points; it was that of the UDP listener of each InfluxDB"
    ));
    let element = draft.element("udp");
    element.set("listen", text(&listen.to_string()));
    element.set("database", text("udp"));
    let precision = entry.text("precision")?;
    let read_buffer = entry.number("read-buffer")?.filter(|bytes| *bytes > 0);
    if let Some(precision) = precision {
        element.set("precision", text(if precision == "ns" { "n" } else { precision }));
    }
    if let Some(bytes) = read_buffer {
        element.set("receive-buffer", text(&Size::from_bytes(bytes).to_string()));
    }
    Ok(())
}
