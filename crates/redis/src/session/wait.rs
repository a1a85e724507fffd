//! `WAIT` and `WAITAOF`: whether replicas have what the client has written.
//!
//! A server counts what the asking connection wrote, and one that wrote nothing hears at once that
//! all replicas have it: from Redis 7.2 on and in Valkey the offset that it waits for moves only
//! with a command that is replicated. A client's writes rode lanes; so the question goes by a
//! connection of the client's own, behind a [`Mark`] there, once all that the client asked is
//! answered: what has the mark has all before it. Where a server refuses the mark, so is the
//! question.
//!
//! With a connection to the server that has ended since the client wrote, the server may have been
//! started again without what was written: then the question is refused, once.

use std::rc::Rc;

use flow::service::Request;
use wire::resp::put_command;

use super::replicas::Wrote;
use super::requests::Question;
use super::transaction::AtHand;
use super::{Asking, CommandResult, ListedCommand, Session, join};
use crate::servers::Servers;

/// The channel that is published to.
const CHANNEL: &str = "weir:wait";
/// What `FUNCTION DUMP` gives where there are no functions: the version of the RDB format of Redis
/// 7.0, which every later server reads, and the CRC-64 of that.
const NO_FUNCTIONS: &[u8] = b"\x0a\x00\x5d\x9b\x5c\x40\x0f\x7f\xa2\xda";
/// What the answer to `HELLO` has where a server is a Cluster's node, in RESP2 and RESP3.
const MODE_CLUSTER: &[u8] = b"$4\r\nmode\r\n$7\r\ncluster\r\n";

/// A command that goes to the replicas and changes no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// `SPUBLISH` on a channel that nobody is subscribed to: no pattern matches it. A Cluster's
    /// node does not replicate it (`pubsub.c`, `spublishCommand`), so `HELLO` asks before it
    /// whether the server is one.
    Message,
    /// `FUNCTION RESTORE` of no functions behind those that there are. It has no key, so any node
    /// takes it whatever its slots are, and is replicated always (`functions.c`,
    /// `functionRestoreCommand`).
    NoFunctions,
}

impl Mark {
    /// What is asked before the question.
    fn requests(self) -> Vec<Vec<u8>> {
        let command = |words: &[&[u8]]| {
            let mut out = Vec::new();
            put_command(&mut out, words.iter());
            out
        };
        match self {
            Self::Message => {
                vec![command(&[b"HELLO"]), command(&[b"SPUBLISH", CHANNEL.as_bytes(), b""])]
            }
            Self::NoFunctions => {
                vec![command(&[b"FUNCTION", b"RESTORE", NO_FUNCTIONS, b"APPEND"])]
            }
        }
    }

    /// Why its answers say that it was not replicated, if they do.
    fn refusal(self, answers: &[Vec<u8>]) -> Option<String> {
        let last = answers.last().map(Vec::as_slice).unwrap_or_default();
        let (name, is_done) = match self {
            Self::Message => ("SPUBLISH", last.starts_with(b":")),
            Self::NoFunctions => ("FUNCTION RESTORE", last.starts_with(b"+")),
        };
        if !is_done {
            let words = String::from_utf8_lossy(last);
            let words = words.trim_start_matches('-').trim_end();
            return Some(format!("takes no {name} before WAIT: {words}"));
        }
        let greeting = answers.first().map(Vec::as_slice).unwrap_or_default();
        let is_node = memchr::memmem::find(greeting, MODE_CLUSTER).is_some();
        (self == Self::Message && is_node).then(|| {
            "is a Cluster's node: WAIT needs distribution = \"cluster\" in its pool".to_owned()
        })
    }
}

/// The servers to which a client has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum WrittenServers {
    /// It has written to none.
    #[default]
    Nowhere,
    /// To this one, of which so many connections had broken before.
    On { server: usize, breaks: u64 },
    /// To more than one.
    OnSeveral,
    /// As another user: what became of those connections is not known any more.
    AsAnother,
}

impl WrittenServers {
    /// Something is written to a server.
    fn and(self, server: usize, breaks: impl FnOnce() -> u64) -> Self {
        match self {
            Self::Nowhere => Self::On { server, breaks: breaks() },
            Self::On { server: same, .. } if same == server => self,
            Self::On { .. } | Self::OnSeveral => Self::OnSeveral,
            Self::AsAnother => Self::AsAnother,
        }
    }

    /// The client is another user from now on.
    pub(super) fn as_another(self) -> Self {
        if self == Self::Nowhere { self } else { Self::AsAnother }
    }
}

impl Session {
    /// Something of the client is written to a server.
    #[inline]
    pub(super) fn writes(&self, server: usize) {
        let breaks = || self.front.fabric.breaks(self.at(server));
        self.written.set(self.written.get().and(server, breaks));
        self.wrote.set(Wrote::Something);
    }

    pub(super) fn wait(&mut self, of: &ListedCommand<'_>, client: &Asking) -> CommandResult {
        let name = of.spec.name;
        if let Some(only) = of.standing.pool.only {
            self.writes(only);
        }
        let (server, breaks) = match self.written.get() {
            WrittenServers::On { server, breaks } => (server, breaks),
            WrittenServers::Nowhere => {
                return Err(format!("ERR weir: {name}: this client has written nothing"));
            }
            WrittenServers::AsAnother => {
                // What it writes from now on is counted.
                self.written.set(WrittenServers::Nowhere);
                return Err(format!("ERR weir: {name}: this client has written as another user"));
            }
            WrittenServers::OnSeveral => {
                return Err(format!(
                    "ERR weir: {name}: this client has written to several servers"
                ));
            }
        };
        let place = self.at(server);
        of.standing.allows_waiting(place)?;
        let fabric = Rc::clone(&self.front.fabric);
        let server_name = fabric.service().name(place);
        if fabric.breaks(place) != breaks {
            // What it writes from now on is counted.
            self.written.set(WrittenServers::Nowhere);
            return Err(broken(&server_name));
        }
        let is_cluster = of.standing.pool.is_cluster;
        if is_cluster && !self.front.holders().contains(&server) {
            return Err(format!("ERR weir: {name}: {server_name} has no slots"));
        }
        let mark = if is_cluster { Mark::NoFunctions } else { Mark::Message };
        let own = |bytes: &[u8]| self.request_at(place, bytes);
        let joined = move |answers: &[Vec<u8>]| match Servers::breaks(&fabric, place) == breaks {
            true => answered(mark, answers, &server_name),
            false => join::error(&broken(&server_name)),
        };
        let mut parts: Vec<Request> = mark.requests().iter().map(|bytes| own(bytes)).collect();
        parts.push(own(of.command.bytes()));
        let what = Question::Parts(parts, Rc::new(joined));
        self.drive(AtHand::Question(what), client, |machine, out| {
            machine.wait(place, out);
            Ok::<(), &str>(())
        })
    }
}

/// What a client wrote may be gone with the connection, and nobody can tell.
fn broken(server: &str) -> String {
    format!(
        "ERR weir: a connection to {server} has ended since this client wrote there, or keys have \
         left it"
    )
}

/// The answer to the question, unless the mark before it was refused.
fn answered(mark: Mark, answers: &[Vec<u8>], server: &str) -> Vec<u8> {
    let Some((answer, of_mark)) = answers.split_last() else { return Vec::new() };
    match mark.refusal(of_mark) {
        Some(why) => join::error(&format!("ERR weir: {server} {why}")),
        None => answer.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::crc64;

    #[test]
    fn servers_that_were_written_to_are_told_apart() {
        let one = WrittenServers::default().and(3, || 7);
        let known = || unreachable!("it is asked once");
        assert_eq!(one, WrittenServers::On { server: 3, breaks: 7 });
        assert_eq!(one.and(3, known), one);
        assert_eq!(one.and(4, known), WrittenServers::OnSeveral);
        assert_eq!(one.and(4, known).and(3, known), WrittenServers::OnSeveral);
        assert_eq!(one.as_another().and(3, known), WrittenServers::AsAnother);
        assert_eq!(WrittenServers::Nowhere.as_another(), WrittenServers::Nowhere);
    }

    #[test]
    fn where_the_mark_is_refused_nothing_is_counted() {
        let said = |mark, of_mark: &[&str]| {
            let answers = of_mark.iter().chain(&[":5\r\n"]).map(|of| of.as_bytes().to_vec());
            answered(mark, &answers.collect::<Vec<_>>(), "a")
        };
        let message =
            |write| said(Mark::Message, &["*2\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n", write]);
        assert_eq!(message(":0\r\n"), b":5\r\n");
        let refused = b"-ERR weir: a takes no SPUBLISH before WAIT: NOPERM this\r\n";
        assert_eq!(message("-NOPERM this\r\n"), refused);
        assert!(message("").starts_with(b"-ERR weir: a takes no SPUBLISH"));
        assert_eq!(said(Mark::NoFunctions, &["+OK\r\n"]), b":5\r\n");
        let refused = said(Mark::NoFunctions, &["-OOM command not allowed\r\n"]);
        assert!(refused.starts_with(b"-ERR weir: a takes no FUNCTION RESTORE before WAIT: OOM"));
    }

    #[test]
    fn a_message_that_a_clusters_node_does_not_replicate_is_no_mark() {
        for map in ["*14", "%7"] {
            let greeting = format!("{map}\r\n$4\r\nmode\r\n$7\r\ncluster\r\n$4\r\nrole\r\n");
            let answers = [greeting.into_bytes(), b":0\r\n".to_vec(), b":1\r\n".to_vec()];
            let said = answered(Mark::Message, &answers, "a");
            assert!(said.starts_with(b"-ERR weir: a is a Cluster's node"), "{map}");
        }
    }

    #[test]
    fn no_functions_are_what_a_server_dumps_where_it_has_none() {
        let (version, sum) = NO_FUNCTIONS.split_at(2);
        assert_eq!(sum, crc64::append(0, version).to_le_bytes());
    }
}
