//! The HBA file: one rule a line, in the form of `pg_hba.conf`.

use std::net::IpAddr;

use crate::settings::{Cidr, From, Method};

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// The line as it stands.
    pub line: String,
    /// By which way clients come.
    pub from: From,
    /// The databases' names.
    pub databases: Vec<String>,
    /// The users' names.
    pub users: Vec<String>,
    /// The network; none is every one.
    pub network: Option<Cidr>,
    /// What they have to prove.
    pub method: Method,
    /// What about the line can't be carried over; it then rejects.
    pub lost: Option<String>,
}

/// The rules of a file, and the lines that are none.
pub fn rules(text: &str) -> (Vec<Rule>, Vec<String>) {
    let (mut rules, mut broken) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let words = words(line);
        if words.is_empty() {
            continue;
        }
        match rule(line.trim(), &words) {
            Some(rule) => rules.push(rule),
            None => broken.push(line.trim().to_owned()),
        }
    }
    (rules, broken)
}

/// Words, or texts in quotes, up to a comment. A list is one word.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => break,
            c if c.is_whitespace() && !quoted => {
                if !word.is_empty() && !word.ends_with(',') {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

fn rule(line: &str, words: &[String]) -> Option<Rule> {
    let (kind, rest) = words.split_first()?;
    let from = match kind.as_str() {
        "local" => From::Local,
        "host" => From::Host,
        "hostssl" => From::Hostssl,
        "hostnossl" => From::Hostnossl,
        _ => return None,
    };
    let (databases, rest) = rest.split_first()?;
    let (users, rest) = rest.split_first()?;
    let (network, rest) = if from == From::Local { (None, rest) } else { network(rest)? };
    let (method, options) = rest.split_first()?;
    let names = |list: &str| list.split(',').map(str::to_owned).collect::<Vec<_>>();
    let (databases, users) = (names(databases), names(users));
    let mut lost = None;
    let method = match method.as_str() {
        "trust" => Method::Trust,
        "reject" => Method::Reject,
        "md5" => Method::Md5,
        "password" => Method::Password,
        "scram-sha-256" => Method::ScramSha256,
        "cert" => Method::Cert,
        other => {
            lost = Some(format!("there is no method {other} here"));
            Method::Reject
        }
    };
    let mut foreign = databases.iter().chain(&users);
    let group = |name: &&String| {
        name.starts_with(['@', '+']) || matches!(name.as_str(), "samerole" | "samegroup")
    };
    if let Some(name) = foreign.find(group) {
        lost = Some(format!("{name} stands for names that Weir does not look up"));
    } else if !options.is_empty() && method != Method::Reject {
        lost = Some(format!("{} is not known here", options.join(" ")));
    }
    let method = if lost.is_some() { Method::Reject } else { method };
    Some(Rule { line: line.to_owned(), from, databases, users, network, method, lost })
}

/// The network at the head of `words`, and what follows it.
fn network(words: &[String]) -> Option<(Option<Cidr>, &[String])> {
    let (first, rest) = words.split_first()?;
    if first == "all" {
        return Some((None, rest));
    }
    if first.contains('/') {
        return Some((Some(first.parse().ok()?), rest));
    }
    let (mask, rest) = rest.split_first()?;
    let bits = match mask.parse::<IpAddr>().ok()? {
        IpAddr::V4(mask) => mask.to_bits().leading_ones(),
        IpAddr::V6(mask) => mask.to_bits().leading_ones(),
    };
    Some((Some(format!("{first}/{bits}").parse().ok()?), rest))
}

#[cfg(test)]
mod tests {
    use super::{From, Method, rules};

    #[test]
    fn lines_are_those_of_pg_hba() {
        let text = "# TYPE DATABASE USER ADDRESS METHOD\n\
            local all all trust # why\n\
            host  a,\"b c\" ann 10.0.0.0/8 scram-sha-256\n\
            hostssl all all 192.168.0.0 255.255.0.0 md5\n\
            hostnossl all all all reject\n\
            host all all ::1/128 peer\n\
            host all +admins all md5\n\
            host all all all cert map=m\n\
            hostgss all all all gss\n\
            host all all nowhere md5\n";
        let (rules, broken) = rules(text);
        assert_eq!(broken.len(), 2, "{broken:?}");
        let seen: Vec<_> = rules.iter().map(|rule| (rule.from, rule.method)).collect();
        assert_eq!(
            seen,
            [
                (From::Local, Method::Trust),
                (From::Host, Method::ScramSha256),
                (From::Hostssl, Method::Md5),
                (From::Hostnossl, Method::Reject),
                (From::Host, Method::Reject),
                (From::Host, Method::Reject),
                (From::Host, Method::Reject),
            ]
        );
        assert_eq!(rules[1].databases, ["a", "b c"]);
        assert_eq!(rules[2].network.unwrap().to_string(), "192.168.0.0/16");
        assert!(rules[..4].iter().all(|rule| rule.lost.is_none()));
        assert!(rules[4..].iter().all(|rule| rule.lost.is_some()));
    }
}
