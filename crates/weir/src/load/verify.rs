//! `weir load verify`: what servers have of a run's writes, held against its ledger.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use meter::directory::{self, LEDGER, LEDGER_BITS, VERIFIED};
use meter::engine::Conversation;
use meter::http::header;
use meter::influx::Writes;
use meter::ledger::{Book, LedgerLocation};
use meter::postgres::LedgerRows;
use meter::redis::Redis;
use meter::url::Url;
use meter::verify::{self, Findings, VerifyError};
use serde_json::{Value, json};
use units::Duration;
use watch::words::count;

use super::ledger::counts;
use super::postgres::PgLogin;
use crate::exit::{BAD_NEWS, DONE, Failure};

/// Which run, and where to read.
#[derive(Debug, Args)]
pub struct Command {
    /// The directory of a run with --ledger
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Where to read, with a password where one is needed; without it where the run wrote. Of a run
    /// of several loads one for each, in their order
    #[arg(long, value_name = "URL")]
    url: Vec<Url>,
    /// A header for InfluxDB, as 'Authorization: Token ...'; may be given several times
    #[arg(long, short = 'H', value_name = "HEADER", value_parser = header)]
    header: Vec<(String, String)>,
    /// How long an answer may take
    #[arg(long, value_name = "TIME", default_value_t = Duration::from_secs(60))]
    timeout: Duration,
    /// A PEM file of certificate authorities to trust instead of this machine's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Whoever answers under TLS may be the server: its certificate is not checked
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
}

/// Says what is lost, altered and doubled.
pub fn run(command: &Command, out: &mut dyn Write) -> Result<u8, Failure> {
    let path = command.directory.join(LEDGER);
    let text = fs::read_to_string(&path).map_err(|error| {
        let path = path.display();
        Failure::other(format!("can't read {path}: {error}; only a run with --ledger has one"))
    })?;
    let damaged = || Failure::other(format!("{} is damaged", path.display()));
    let document: Value = serde_json::from_str(&text).map_err(|_| damaged())?;
    let loads =
        document["loads"].as_array().filter(|loads| !loads.is_empty()).ok_or_else(damaged)?;
    if !command.url.is_empty() && command.url.len() != loads.len() {
        let (loads, urls) = (loads.len(), command.url.len());
        return Err(Failure::other(format!(
            "the run has {loads} loads, and there are {urls} URLs"
        )));
    }
    let (mut all, mut is_right) = (Vec::new(), true);
    for (number, load) in loads.iter().enumerate() {
        let name = load["name"].as_str().unwrap_or_default();
        let own = || load["url"].as_str()?.parse().ok();
        let url = command.url.get(number).cloned().or_else(own).ok_or_else(damaged)?;
        let place = LedgerLocation { directory: command.directory.join(LEDGER_BITS), load: number };
        let book = Book::read(&place, load["threads"].as_u64().unwrap_or_default());
        let book = book.map_err(|(path, error)| {
            Failure::other(format!("can't read {}: {error}", path.display()))
        })?;
        let (findings, now) = one(command, &url, load, &book)?.ok_or_else(damaged)?;
        if loads.len() > 1 {
            writeln!(out, "{name}  {}", url.without_secrets())?;
        }
        write!(out, "{findings}")?;
        let counted = counted(load, &now);
        for line in counted.iter() {
            writeln!(out, "{line}")?;
        }
        is_right &= findings.is_right();
        let mut told = findings.json();
        told["name"] = name.into();
        told["server_counted"] = json!(counted);
        all.push(told);
    }
    let file = command.directory.join(VERIFIED);
    match directory::replace(&file, &format!("{:#}\n", json!({ "right": is_right, "loads": all })))
    {
        Ok(()) => writeln!(out, "report: {}", file.display())?,
        Err(error) => writeln!(out, "report: none, {error}")?,
    }
    Ok(if is_right { DONE } else { BAD_NEWS })
}

/// What one server has, and what it counts by itself now; nothing where the ledger says nothing
/// that is understood.
fn one(
    command: &Command,
    url: &Url,
    load: &Value,
    book: &Book,
) -> Result<Option<(Findings, Value)>, Failure> {
    let target =
        super::target(url, command.ca.as_deref(), command.insecure, command.timeout.get())?;
    let (kept, options) = (&load["kept"], PgLogin::of_environment().options());
    let failed = |error: VerifyError| Failure::other(error);
    let mut server = Conversation::new(&target, command.timeout.get()).map_err(Failure::other)?;
    let mut found = Findings::default();
    if let Some(redis) = Redis::of_kept(url, kept).map_err(Failure::other)? {
        verify::redis(&redis, book, &mut server, &mut found).map_err(failed)?;
    } else if let Some(rows) = LedgerRows::read(url, kept, &options).map_err(Failure::other)? {
        verify::postgres(&rows, book, &mut server, &mut found).map_err(failed)?;
    } else if let Some(mut writes) = Writes::of_kept(url, kept).map_err(Failure::other)? {
        let place = (url, &command.header[..]);
        verify::influx(&mut writes, place, book, &mut server, &mut found).map_err(failed)?;
    } else {
        return Ok(None);
    }
    let now = counts(&mut server, url, kept, &options).ok().flatten().unwrap_or_default();
    let now = now.into_iter().map(|(name, count)| (name, Value::from(count)));
    Ok(Some((found, Value::Object(now.collect()))))
}

/// What a server has counted since the run began, in lines: until its end, or until now where it
/// was killed.
fn counted(load: &Value, now: &Value) -> Vec<String> {
    let Some(before) = load["before"].as_object() else { return Vec::new() };
    let (after, until) = match load["after"].is_object() {
        true => (&load["after"], "while it ran"),
        false => (now, "since it began, for it was killed"),
    };
    let lines = before.iter().filter_map(|(name, before)| {
        let more = after[name].as_u64()?.checked_sub(before.as_u64()?)?;
        Some(format!("server   counted {} {name} {until}, of whomever", count(more)))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::counted;

    #[test]
    fn what_a_server_has_counted_is_told_until_the_end_or_until_now() {
        let load = json!({ "before": { "set": 10 }, "after": { "set": 17 } });
        let told = counted(&load, &json!({ "set": 99 }));
        assert_eq!(told, ["server   counted 7 set while it ran, of whomever"]);
        let killed = json!({ "before": { "set": 10, "rpush": 5 }, "after": null });
        let told = counted(&killed, &json!({ "set": 99, "rpush": 4 }));
        // A server that was started anew has counted less than before.
        assert_eq!(
            told,
            ["server   counted 89 set since it began, for it was killed, of whomever"]
        );
        assert!(counted(&json!({ "before": null }), &json!({})).is_empty());
    }
}
