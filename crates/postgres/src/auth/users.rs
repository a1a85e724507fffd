//! The users that Weir knows by itself.

use std::collections::HashMap;
use std::time::SystemTime;

use super::{Derivation, Mock, Secret, Verifier};

/// Names and what their passwords are checked against.
#[derive(Debug, Default)]
pub struct Users {
    by_name: HashMap<String, User>,
}

#[derive(Debug)]
struct User {
    verifier: Option<Verifier>,
    valid_until: Option<SystemTime>,
}

impl Users {
    /// Adds a user, in the place of one of the same name. `stored`: a password or a verifier;
    /// without one, the user comes in by certificate and the like only. From `valid_until` on, the
    /// password is no good.
    pub fn insert(&mut self, name: &str, stored: Option<&Secret>, valid_until: Option<SystemTime>) {
        let stored = stored.map(|secret| String::from_utf8_lossy(secret.expose()));
        let verifier = stored.map(|stored| Verifier::parse(&stored));
        self.by_name.insert(name.to_owned(), User { verifier, valid_until });
    }

    /// Whether there is such a user at all; not to be told to clients.
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// What to check a user's password against now; `None` for whoever has none, for
    /// [`super::Ask::verifier`].
    pub fn verifier(&self, name: &str, now: SystemTime) -> Option<&Verifier> {
        let user = self.by_name.get(name)?;
        let expired = user.valid_until.is_some_and(|until| now >= until);
        user.verifier.as_ref().filter(|_| !expired)
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// What unknown users are asked by, made to look like these; `secret` as for [`Mock::new`].
    pub fn mock(&self, secret: &[u8]) -> Mock {
        let verifiers = self.by_name.values().filter_map(|user| user.verifier.as_ref());
        Mock::new(secret).like(verifiers.map(Verifier::kind))
    }

    /// What SCRAM needs of the passwords that are known as they are, to be computed before their
    /// users come: else their first logins would take longer than those of unknown users.
    pub fn derivations(&self, mock: &Mock) -> Vec<Derivation> {
        let of = |(name, user): (&String, &User)| match &user.verifier {
            Some(Verifier::Plain(plain)) => Some(plain.derivation(&mock.salt(name))),
            _ => None,
        };
        self.by_name.iter().filter_map(of).collect()
    }
}

/// A line of a user list that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the user list: {why}")]
pub struct UserListError {
    /// The number of the line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: &'static str,
}

/// Reads PgBouncer's `userlist.txt`: `"name" "password or verifier"` in each line, a quote within
/// written twice, `;` before remarks. What follows the two is left to whoever it is for.
///
/// # Errors
/// The first line that is not so.
pub fn read_user_list(text: &str) -> Result<Vec<(String, Secret)>, UserListError> {
    let mut users = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(';') || line.starts_with('#') {
            continue;
        }
        let pair = quoted(line).and_then(|(name, rest)| {
            let (password, _) = quoted(rest.trim_start())?;
            Some((name, Secret::from(password.as_str())))
        });
        match pair {
            Some((name, _)) if name.is_empty() => {
                return Err(UserListError { line: at + 1, why: "the name is empty" });
            }
            Some(pair) => users.push(pair),
            None => {
                let why = "it is to be \"name\" \"password\", in double quotes";
                return Err(UserListError { line: at + 1, why });
            }
        }
    }
    Ok(users)
}

/// A quoted string at the head of `text`, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('"')?;
    let mut found = String::new();
    loop {
        let (part, behind) = rest.split_once('"')?;
        found.push_str(part);
        match behind.strip_prefix('"') {
            Some(more) => {
                found.push('"');
                rest = more;
            }
            None => return Some((found, behind)),
        }
    }
}
