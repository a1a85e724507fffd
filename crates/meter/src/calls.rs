//! How many requests each of several servers had, and how many of them failed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Servers that are counted apart; all further ones are one.
const SERVERS_MAX: usize = 1000;
const OTHERS: &str = "others";

/// What became of the requests that went to one server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerCalls {
    /// Requests that went to it.
    pub requests: u64,
    /// Those of them that are no successes.
    pub failed: u64,
}

/// The requests of all servers, where a registry says which there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallsByServer {
    /// Each server, by its address.
    pub servers: BTreeMap<String, ServerCalls>,
    /// Servers that got none, with why.
    pub left_out: BTreeMap<String, String>,
}

impl CallsByServer {
    /// Counts a request of a server.
    pub fn note(&mut self, server: &str, has_failed: bool) {
        self.add_calls(server, ServerCalls { requests: 1, failed: has_failed.into() });
    }

    fn add_calls(&mut self, server: &str, calls: ServerCalls) {
        let known = match self.servers.contains_key(server) {
            false if self.servers.len() >= SERVERS_MAX => OTHERS,
            _ => server,
        };
        let sum = match self.servers.get_mut(known) {
            Some(sum) => sum,
            None => self.servers.entry(known.to_owned()).or_default(),
        };
        sum.requests += calls.requests;
        sum.failed += calls.failed;
    }

    /// Takes note of servers that get no requests.
    pub fn leave_out<'a>(&mut self, left_out: impl Iterator<Item = &'a (String, String)>) {
        for (server, why) in left_out.take(SERVERS_MAX) {
            self.left_out.entry(server.clone()).or_insert_with(|| why.clone());
        }
    }

    /// Adds what others have counted.
    pub fn add(&mut self, other: &Self) {
        other.servers.iter().for_each(|(server, calls)| self.add_calls(server, *calls));
        for (server, why) in &other.left_out {
            self.left_out.entry(server.clone()).or_insert_with(|| why.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CallsByServer, SERVERS_MAX, ServerCalls};

    #[test]
    fn requests_are_counted_by_server_up_to_a_limit() {
        let mut calls = CallsByServer::default();
        calls.note("a:1", false);
        calls.note("a:1", true);
        calls.add(&calls.clone());
        assert_eq!(calls.servers["a:1"], ServerCalls { requests: 4, failed: 2 });
        (0..SERVERS_MAX + 9).for_each(|port| calls.note(&format!("b:{port}"), false));
        assert_eq!(calls.servers.len(), SERVERS_MAX + 1);
        assert_eq!(calls.servers["others"].requests, 10);
        calls.leave_out([("c:1".to_owned(), "it is disabled".to_owned())].iter());
        assert_eq!(calls.left_out["c:1"], "it is disabled");
    }
}
