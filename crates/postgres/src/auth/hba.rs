//! Which way a client has to show who it is: rules as in PostgreSQL's `pg_hba.conf`, the first that
//! fits counts.
//!
//! Taken are `local`, `host`, `hostssl` and `hostnossl`; `all`, `sameuser` and names; networks; the
//! methods `trust`, `reject`, `scram-sha-256`, `md5`, `password`, `cert` and `peer`, and the option
//! `clientcert`. What is not known here is an error of that line, never skipped: a rule that is not
//! understood could be the one that keeps somebody out.

mod line;
mod network;

use std::net::IpAddr;

use super::Method;
pub use line::RuleError;
use network::Network;

/// Rules, in the order in which they are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

/// What a rule says of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How the client shows who it is.
    pub method: Method,
    /// What it must show besides.
    pub certificate: Certificate,
    /// The rule's line, counted from 1.
    pub line: usize,
}

/// The option `clientcert`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Certificate {
    /// None is asked for.
    #[default]
    None,
    /// One that TLS has verified (`verify-ca`).
    Verified,
    /// One that TLS has verified and that names the user (`verify-full`).
    Named,
}

/// A client that wants in.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The user's name.
    pub user: &'a str,
    /// The database's name.
    pub database: &'a str,
    /// Where from; `None`: a Unix socket.
    pub address: Option<IpAddr>,
    /// Whether by TLS.
    pub tls: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    line: usize,
    way: Way,
    databases: Vec<Name>,
    users: Vec<Name>,
    networks: Vec<Network>,
    method: Method,
    certificate: Certificate,
}

/// How a client comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Local,
    Host,
    HostTls,
    HostClear,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    All,
    SameUser,
    /// Physical replication, which Weir does not do: fits nothing.
    Replication,
    Is(String),
}

impl Rules {
    /// Reads rules, one a line, in the format of `pg_hba.conf`.
    ///
    /// # Errors
    /// The first line that can't be read, or that trusts more than this machine.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let lines = text.lines().enumerate();
        let rules = lines.filter_map(|(at, text)| line::rule(at + 1, text).transpose());
        rules.collect::<Result<_, _>>().map(Self)
    }

    /// What the first rule says that fits; `None`: no rule does, and the client is to be refused
    /// as by [`Method::Reject`].
    pub fn verdict(&self, attempt: &Attempt<'_>) -> Option<Verdict> {
        let rule = self.0.iter().find(|rule| rule.fits(attempt))?;
        let Rule { method, certificate, line, .. } = *rule;
        Some(Verdict { method, certificate, line })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Rule {
    fn fits(&self, attempt: &Attempt<'_>) -> bool {
        let way = match (self.way, attempt.address) {
            (Way::Local, None) => true,
            (Way::Local, Some(_)) | (_, None) => false,
            (Way::Host, Some(_)) => true,
            (Way::HostTls, Some(_)) => attempt.tls,
            (Way::HostClear, Some(_)) => !attempt.tls,
        };
        let from = attempt
            .address
            .is_none_or(|address| self.networks.iter().any(|network| network.contains(address)));
        let named = |names: &[Name], name: &str| {
            names.iter().any(|wanted| match wanted {
                Name::All => true,
                Name::SameUser => name == attempt.user,
                Name::Replication => false,
                Name::Is(wanted) => wanted == name,
            })
        };
        way && from && named(&self.databases, attempt.database) && named(&self.users, attempt.user)
    }
}
