//! One line of rules.

use super::super::Method;
use super::network::Network;
use super::{Certificate, Name, Rule, Way};

/// A line that can't be read, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the rules: {why}")]
pub struct RuleError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

/// A word, and whether any of it was quoted: then it is a name, whatever it says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    text: String,
    quoted: bool,
}

/// The rule in a line; `None` where there is none.
pub(super) fn rule(line: usize, text: &str) -> Result<Option<Rule>, RuleError> {
    parse(line, text).map_err(|why| RuleError { line, why })
}

fn parse(line: usize, text: &str) -> Result<Option<Rule>, String> {
    let fields = fields(text)?;
    let mut fields = fields.iter();
    let Some(way) = fields.next() else { return Ok(None) };
    let way = match one(way)? {
        "local" => Way::Local,
        "host" => Way::Host,
        "hostssl" => Way::HostTls,
        "hostnossl" => Way::HostClear,
        other => return Err(format!("no connection type is called {other:?}")),
    };
    let databases = names(fields.next().ok_or("the database is missing")?, true)?;
    let users = names(fields.next().ok_or("the user is missing")?, false)?;
    let mut networks = Vec::new();
    if way != Way::Local {
        let address = one(fields.next().ok_or("the address is missing")?)?;
        networks = match address {
            "all" => Network::all(),
            "samehost" | "samenet" => return Err(format!("{address} is not supported here")),
            _ if address.contains('/') => vec![network(address, Network::parse(address))?],
            _ => {
                let mask = one(fields.next().ok_or("the address's mask is missing")?)?;
                vec![network(address, Network::masked(address, mask))?]
            }
        };
    }
    let method = method(one(fields.next().ok_or("the method is missing")?)?)?;
    let mut certificate = Certificate::None;
    for option in fields {
        certificate = match one(option)? {
            "clientcert=verify-ca" => Certificate::Verified,
            "clientcert=verify-full" => Certificate::Named,
            other => return Err(format!("the option {other:?} is not supported here")),
        };
    }
    let rule = Rule { line, way, databases, users, networks, method, certificate };
    consistent(&rule)?;
    Ok(Some(rule))
}

fn network(address: &str, network: Option<Network>) -> Result<Network, String> {
    network.ok_or_else(|| format!("{address:?} is no network (names of hosts are not looked up)"))
}

fn method(name: &str) -> Result<Method, String> {
    Ok(match name {
        "trust" => Method::Trust,
        "reject" => Method::Reject,
        "scram-sha-256" => Method::Scram,
        "md5" => Method::Md5,
        "password" => Method::Password,
        "cert" => Method::Certificate,
        "peer" => Method::Peer,
        other => return Err(format!("the method {other:?} is not supported here")),
    })
}

/// What can't be meant.
fn consistent(rule: &Rule) -> Result<(), &'static str> {
    let needs_tls = rule.method == Method::Certificate || rule.certificate != Certificate::None;
    if needs_tls && rule.way != Way::HostTls {
        return Err("certificates need hostssl");
    }
    if rule.method == Method::Peer && rule.way != Way::Local {
        return Err("peer needs local");
    }
    let beyond = rule.networks.iter().any(|network| !network.is_loopback());
    // With a certificate that names the user, it is the certificate that is trusted.
    if rule.method == Method::Trust && beyond && rule.certificate != Certificate::Named {
        return Err("trust is for this machine only: 127.0.0.0/8, ::1/128 or local");
    }
    Ok(())
}

/// Names of databases or users, parted by commas.
fn names(words: &[Word], of_databases: bool) -> Result<Vec<Name>, String> {
    let name = |word: &Word| match word.text.as_str() {
        text if word.quoted => Ok(Name::Is(text.to_owned())),
        "all" => Ok(Name::All),
        "sameuser" if of_databases => Ok(Name::SameUser),
        "replication" if of_databases => Ok(Name::Replication),
        "samerole" | "samegroup" if of_databases => {
            Err("membership in roles is not known here".to_owned())
        }
        text if text.starts_with('+') => Err("membership in roles is not known here".to_owned()),
        text if text.starts_with('@') => Err("names in files are not supported here".to_owned()),
        text if text.starts_with('/') => Err("patterns are not supported here".to_owned()),
        text => Ok(Name::Is(text.to_owned())),
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
