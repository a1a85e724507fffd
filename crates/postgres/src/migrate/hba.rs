//! The HBA file: one rule a line. `auth::hba` reads them; here a line that it can't read becomes a
//! rule that rejects whom the line was about, since what follows could let them in.

use std::net::IpAddr;

use crate::auth::hba::{self, Maps};
use crate::settings::{AuthRule, Cidr, From, Method};

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// The line as it stands.
    pub line: String,
    pub rule: AuthRule,
    /// What about the line can't be carried over; the rule then rejects.
    pub lost: Option<String>,
}

/// The rules of a file, and the lines that are none.
pub fn rules(text: &str, maps: &Maps) -> (Vec<Rule>, Vec<String>) {
    let (mut rules, mut broken) = (Vec::new(), Vec::new());
    for line in text.lines().map(str::trim) {
        match hba::read(line, maps) {
            Ok(read) => {
                let carried = |rule| Rule { line: line.to_owned(), rule, lost: None };
                rules.extend(read.into_iter().map(carried));
            }
            Err(error) => match rejecting(&words(line)) {
                Some(rule) => {
                    rules.push(Rule { line: line.to_owned(), rule, lost: Some(error.why) });
                }
                None => broken.push(line.to_owned()),
            },
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

/// Rejects whom a line is about, and more where that can't be told: names that stand for others
/// are everyone's. `None` is not a rule to PgBouncer either.
fn rejecting(words: &[String]) -> Option<AuthRule> {
    let [kind, databases, users, rest @ ..] = words else {
        return None;
    };
    let from = match kind.as_str() {
        "local" => From::Local,
        "host" => From::Host,
        "hostssl" => From::Hostssl,
        "hostnossl" => From::Hostnossl,
        _ => return None,
    };
    let (address, rest) = if from == From::Local { (Vec::new(), rest) } else { addresses(rest)? };
    if rest.is_empty() {
        return None;
    }
    let names = |list: &str| {
        let names: Vec<String> = list.split(',').map(str::to_owned).collect();
        let stands = |name: &String| {
            name.starts_with(['@', '+', '/'])
                || matches!(name.as_str(), "samerole" | "samegroup" | "replication")
        };
        if names.iter().any(stands) { vec!["all".to_owned()] } else { names }
    };
    let (database, user) = (names(databases), names(users));
    Some(AuthRule { from, database, user, address, ..AuthRule::everyone(Method::Reject) })
}

/// The network at the head of `words`, and what follows it.
fn addresses(words: &[String]) -> Option<(Vec<Cidr>, &[String])> {
    let (first, rest) = words.split_first()?;
    if matches!(first.as_str(), "all" | "samehost" | "samenet") {
        return Some((Vec::new(), rest));
    }
    if first.contains('/') {
        return Some((vec![first.parse().ok()?], rest));
    }
    let (mask, rest) = rest.split_first()?;
    let bits = match mask.parse::<IpAddr>().ok()? {
        IpAddr::V4(mask) => mask.to_bits().leading_ones(),
        IpAddr::V6(mask) => mask.to_bits().leading_ones(),
    };
    Some((vec![format!("{first}/{bits}").parse().ok()?], rest))
}

#[cfg(test)]
mod tests {
    use super::{From, Method, hba, rules};

    #[test]
    fn a_line_that_cannot_be_read_rejects_whom_it_was_about() {
        let text = "# TYPE DATABASE USER ADDRESS METHOD\n\
            local all all trust # why\n\
            host  a,\"b c\" ann 10.0.0.0/8 scram-sha-256\n\
            hostssl all all 192.168.0.0 255.255.0.0 md5\n\
            hostnossl all all all reject\n\
            host all all ::1/128 peer\n\
            host all +admins,bob 10.0.0.0 255.0.0.0 md5\n\
            host a ann all cert map=m\n\
            local all all peer map=known\n\
            host replication all all md5\n\
            hostgss all all all gss\n\
            host all all nowhere md5\n";
        let (maps, lost) = hba::read_maps("known root app\nknown /^x$ app\n# none\n");
        assert_eq!(lost, ["known /^x$ app"]);
        let (rules, broken) = rules(text, &maps);
        assert_eq!(broken.len(), 2, "{broken:?}");
        let seen: Vec<_> = rules.iter().map(|rule| (rule.rule.from, rule.rule.method)).collect();
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
                (From::Local, Method::Peer),
            ]
        );
        assert!(rules[7].rule.may_be("root", "app") && !rules[7].rule.may_be("app", "app"));
        assert_eq!(rules[1].rule.database, ["a", "b c"]);
        assert_eq!(rules[2].rule.address[0].to_string(), "192.168.0.0/16");
        assert!(rules[..4].iter().all(|rule| rule.lost.is_none()));
        assert!(rules[4..7].iter().all(|rule| rule.lost.is_some()));
        assert_eq!(rules[5].rule.user, ["all"]);
        assert_eq!(rules[5].rule.address[0].to_string(), "10.0.0.0/8");
        assert_eq!(rules[6].rule.user, ["ann"]);
    }
}
