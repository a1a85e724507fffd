//! Rules as they stand in a `pg_hba.conf` (PgBouncer's `auth_hba_file`), read into those of
//! `[[postgres.auth]]`.
//!
//! What can't be said there is an error of that line, never skipped: a rule that is not understood
//! could be the one that keeps somebody out. Rules that are about physical replication alone are
//! left out, since none of it goes through Weir.

use std::collections::BTreeMap;

use crate::settings::{AuthRule, Cidr, ClientCertificate, From, Method};

/// Who may be whom, by the name of the map.
pub type Maps = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// Reads maps as they stand in a `pg_ident.conf` (PgBouncer's `auth_ident_file`): the map's name,
/// the system's user or the certificate's common name, and a user that it may be. A line that says
/// something else lets nobody in; such lines are given as well.
pub fn read_maps(text: &str) -> (Maps, Vec<String>) {
    let (mut maps, mut lost) = (Maps::new(), Vec::new());
    for line in text.lines() {
        let fields = fields(line).unwrap_or_else(|_| vec![Vec::new()]);
        match &fields[..] {
            [] => {}
            [map, name, user] => match (one(map), one(name), one(user)) {
                // A pattern.
                (_, Ok(name), _) if name.starts_with('/') => lost.push(line.to_owned()),
                (Ok(map), Ok(name), Ok(user)) if !user.starts_with(['+', '/']) => {
                    let names = maps.entry(map.to_owned()).or_default();
                    names.entry(name.to_owned()).or_default().push(user.to_owned());
                }
                _ => lost.push(line.to_owned()),
            },
            _ => lost.push(line.to_owned()),
        }
    }
    (maps, lost)
}

/// A line that can't be read, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct RuleError {
    /// The number of the line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

/// Reads rules, one a line, in their order.
///
/// # Errors
/// The first line that can't be read.
pub fn read(text: &str, maps: &Maps) -> Result<Vec<AuthRule>, RuleError> {
    let lines = text.lines().enumerate();
    let rules = lines.filter_map(|(at, text)| {
        rule(text, maps).map_err(|why| RuleError { line: at + 1, why }).transpose()
    });
    rules.collect()
}

fn rule(text: &str, maps: &Maps) -> Result<Option<AuthRule>, String> {
    let fields = fields(text)?;
    let mut fields = fields.iter();
    let Some(from) = fields.next() else { return Ok(None) };
    let from = match one(from)? {
        "local" => From::Local,
        "host" => From::Host,
        "hostssl" => From::Hostssl,
        "hostnossl" => From::Hostnossl,
        other => return Err(format!("no connection type is called {other:?}")),
    };
    let mut database = names(fields.next().ok_or("the database is missing")?)?;
    let user = names(fields.next().ok_or("the user is missing")?)?;
    let address = match from {
        From::Local => Vec::new(),
        _ => addresses(&mut fields)?,
    };
    let method = method(one(fields.next().ok_or("the method is missing")?)?)?;
    let mut rule = AuthRule { from, address, ..AuthRule::everyone(method) };
    for field in fields {
        option(&mut rule, one(field)?, maps)?;
    }
    if method == Method::Peer && from != From::Local {
        return Err("peer is for Unix sockets".to_owned());
    }
    if !rule.map.is_empty() && !rule.is_by_name() {
        return Err("the method takes no map".to_owned());
    }
    database.retain(|name| name != "replication");
    if database.is_empty() {
        return Ok(None);
    }
    Ok(Some(AuthRule { database, user, ..rule }))
}

fn option(rule: &mut AuthRule, text: &str, maps: &Maps) -> Result<(), String> {
    match text.split_once('=') {
        Some(("map", name)) => {
            rule.map =
                maps.get(name).cloned().ok_or_else(|| format!("there is no map {name:?}"))?;
        }
        // PostgreSQL's `cert` implies it.
        Some(("clientcert", _)) if rule.method == Method::Cert => {}
        Some(("clientcert", "verify-ca" | "1")) if rule.from == From::Hostssl => {
            rule.client_certificate = Some(ClientCertificate::VerifyCa);
        }
        Some(("clientcert", "verify-full")) if rule.from == From::Hostssl => {
            rule.client_certificate = Some(ClientCertificate::VerifyFull);
        }
        _ => return Err(format!("the option {text:?} is not supported here")),
    }
    Ok(())
}

/// The networks of a rule; none for every one.
fn addresses<'f>(fields: &mut impl Iterator<Item = &'f Vec<Word>>) -> Result<Vec<Cidr>, String> {
    let address = one(fields.next().ok_or("the address is missing")?)?;
    match address {
        "all" => Ok(Vec::new()),
        "samehost" | "samenet" => Err(format!("{address} is not supported here")),
        _ => {
            let text = match address.contains('/') {
                true => address.to_owned(),
                false => {
                    let mask = one(fields.next().ok_or("the address's mask is missing")?)?;
                    let bits = bits(mask).ok_or_else(|| format!("{mask:?} is not a mask"))?;
                    format!("{address}/{bits}")
                }
            };
            // Names of hosts are not looked up, here as in PgBouncer.
            text.parse().map(|network| vec![network]).map_err(|error| format!("{error}"))
        }
    }
}

/// How many leading bits a mask has, if it has no others.
fn bits(mask: &str) -> Option<u32> {
    let mask = match mask.parse().ok()? {
        std::net::IpAddr::V4(mask) => u128::from(mask.to_bits()) << 96,
        std::net::IpAddr::V6(mask) => mask.to_bits(),
    };
    (mask.count_ones() == mask.leading_ones()).then(|| mask.leading_ones())
}

fn method(name: &str) -> Result<Method, String> {
    Ok(match name {
        "trust" => Method::Trust,
        "reject" => Method::Reject,
        "scram-sha-256" => Method::ScramSha256,
        "md5" => Method::Md5,
        "password" => Method::Password,
        "cert" => Method::Cert,
        "peer" => Method::Peer,
        other => return Err(format!("the method {other:?} is not supported here")),
    })
}

/// A word, and whether any of it was quoted: then it is a name, whatever it says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    text: String,
    quoted: bool,
}

/// Names of databases or users.
fn names(words: &[Word]) -> Result<Vec<String>, String> {
    let name = |word: &Word| match word.text.as_str() {
        text @ ("all" | "sameuser" | "replication") if word.quoted => {
            Err(format!("a name can't be {text:?} here, where it has a meaning"))
        }
        "samerole" | "samegroup" if !word.quoted => {
            Err("membership in roles is not known here".to_owned())
        }
        text if text.starts_with('+') && !word.quoted => {
            Err("membership in roles is not known here".to_owned())
        }
        text if text.starts_with(['@', '/']) && !word.quoted => {
            Err("names in files and patterns are not supported here".to_owned())
        }
        text => Ok(text.to_owned()),
    };
    words.iter().map(name).collect()
}
/// The only word of a field.
fn one(words: &[Word]) -> Result<&str, String> {
    match words {
        [word] => Ok(&word.text),
        _ => Err("a list where one word is meant".to_owned()),
    }
}

/// Fields parted by blanks, each a list of words parted by commas, as `next_token` of PostgreSQL's
/// `hba.c` reads them.
fn fields(text: &str) -> Result<Vec<Vec<Word>>, String> {
    let mut fields = Vec::new();
    let mut letters = text.chars().peekable();
    let is_blank = |c: &char| c.is_ascii_whitespace();
    loop {
        while letters.next_if(is_blank).is_some() {}
        let mut field = Vec::new();
        loop {
            let mut word = Word { text: String::new(), quoted: false };
            let mut within = false;
            while let Some(letter) =
                letters.next_if(|c| within || !(is_blank(c) || matches!(c, ',' | '#')))
            {
                match letter {
                    '"' if within && letters.next_if_eq(&'"').is_some() => word.text.push('"'),
                    '"' => {
                        within = !within;
                        word.quoted = true;
                    }
                    other => word.text.push(other),
                }
            }
            if within {
                return Err("a quote is not closed".to_owned());
            }
            if !word.text.is_empty() || word.quoted {
                field.push(word);
            }
            // A comma goes on with the list, with or without blanks behind it.
            if letters.next_if_eq(&',').is_none() {
                break;
            }
            while letters.next_if(is_blank).is_some() {}
        }
        if !field.is_empty() {
            fields.push(field);
        } else if letters.peek().is_none_or(|c| *c == '#') {
            return Ok(fields);
        }
    }
}
