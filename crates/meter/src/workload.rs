//! What an engine sends, and how it reads what comes back.

use std::sync::Arc;

use crate::discovery::Discovery;
use crate::recorder::Kind;

/// Makes requests. Each thread has its own.
pub trait Workload {
    /// Reads answers; each connection has its own.
    type Reader: Reader;

    /// Appends the bytes of request `number`; gives which operation it is. Where its data are not
    /// fit for one it appends nothing: such a request is not sent, by a fault of the injector's.
    fn request(&mut self, number: u64, out: &mut Vec<u8>) -> usize;

    /// A reader for a new connection.
    fn reader(&self) -> Self::Reader;

    /// Which operation request `number` is, for one that is never sent.
    fn operation(&self, _number: u64) -> usize {
        0
    }

    /// What its operations are called, by the numbers that requests give.
    fn operations(&self) -> Vec<String> {
        vec!["request".to_owned()]
    }

    /// How many requests it has something to send for; most have no end. Those of a closed loop end
    /// there, and a schedule that has more is refused.
    fn requests_max(&self) -> Option<u64> {
        None
    }

    /// Hears what came of request `number`: its answer, or nothing where there was none. Of what
    /// was never sent it hears nothing; of the further steps of a user by the number of the first.
    fn heard(&mut self, _number: u64, _answer: Option<&Answer>) {}

    /// The connections that requests share, where the protocol lets many be under way on one; of
    /// most each has one for itself.
    fn channels(&self) -> Option<Channels> {
        None
    }

    /// What a new connection begins with, before it counts as open; most have nothing.
    fn greeting(&self) -> Option<Box<dyn Greeting>> {
        None
    }
}

/// Connections that are shared by requests.
#[derive(Debug, Clone)]
pub struct Channels {
    /// How many of all threads to each server; each thread has one at least.
    pub count: usize,
    /// Makes the protocol's part of a new one.
    pub protocol: fn() -> Box<dyn Multiplexing>,
    /// Finds the servers; nothing where they are those of the URL.
    pub discovery: Option<Arc<dyn Discovery>>,
}

/// The protocol of a connection on which many requests are under way. Each has a number there,
/// which its answer repeats; answers come in any order.
pub trait Multiplexing {
    /// Puts the number that a request has on this connection in place of the one that it has;
    /// gives that.
    fn stamp(&self, request: &mut [u8], id: u64) -> u64;

    /// Takes in what has come; appends what is to be said to it at once. Each answer that somebody
    /// waits for goes to him, with the number that his request had.
    ///
    /// # Errors
    /// It is not of the protocol: the connection ends.
    fn read(
        &mut self,
        bytes: &[u8],
        callers: &mut dyn Callers,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed>;

    /// Whether the server takes further requests on this connection.
    fn takes_requests(&self) -> bool;

    /// Appends what is said on a connection on which nothing has happened for a while.
    fn heartbeat(&self, id: u64, out: &mut Vec<u8>);
}

/// Who waits for answers on a shared connection.
pub trait Callers {
    /// The request with that number on the connection is answered: the number that it had, and
    /// where its answer goes. Nothing where nobody waits, as for what comes late, or twice.
    fn answered(&mut self, id: u64) -> Option<(u64, &mut Vec<u8>)>;
}

/// What is said on a new connection before its first request: a login.
pub trait Greeting {
    /// What is sent in the clear, where TLS is wanted and the protocol asks the server for it
    /// first. The server agrees with the one byte `S`.
    fn tls_request(&self) -> Option<Vec<u8>> {
        None
    }

    /// Takes in what has come, at first nothing; appends what is to be sent. Whether all is said
    /// and heard.
    ///
    /// # Errors
    /// The server does not let us in, or does not speak the protocol.
    fn step(&mut self, came: &[u8], out: &mut Vec<u8>) -> Result<bool, Refused>;
}

/// The server does not let us in, in its words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// Finds where answers end, from bytes that come in any pieces.
pub trait Reader {
    /// The next request is that number; what follows on its answer is of the same number.
    fn number(&mut self, _number: u64) {}

    /// A request of that operation has been sent.
    fn begin(&mut self, operation: usize);

    /// Up to where a request may be sent now, of which `sent` bytes were. A conversation waits here
    /// for an answer before it says more, and may put other words in place of what is not sent yet.
    fn go_on(&mut self, request: &mut Vec<u8>, _sent: usize) -> usize {
        request.len()
    }

    /// Takes in what has come.
    ///
    /// # Errors
    /// It is not an answer, or goes on behind one.
    fn read(&mut self, bytes: &[u8]) -> Result<Option<Answer>, Malformed>;

    /// The server has closed the connection; the answer, if that ends it.
    fn ended(&mut self) -> Option<Answer>;

    /// What has come of an answer that is not whole, in words and without numbers, so that errors
    /// of a kind are counted together; nothing where the reader can't tell.
    fn begun(&self) -> Option<String> {
        None
    }

    /// Appends the request that the same user sends on the last answer; gives which operation it
    /// is, or nothing where the user is done.
    fn follow(&mut self, _out: &mut Vec<u8>) -> Option<usize> {
        None
    }

    /// The connection was opened anew; `fresh` has read nothing of it. What is known of a user
    /// stays.
    fn renew(&mut self, fresh: Self)
    where
        Self: Sized,
    {
        *self = fresh;
    }

    /// What the last answer says in words, if it is not a success.
    fn failure(&self, answer: &Answer) -> String {
        format!("status {}", answer.code)
    }
}

/// A whole answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Whether it is a success: [`Kind::Succeeded`], [`Kind::Server`] or [`Kind::Check`].
    pub kind: Kind,
    /// What the protocol calls it.
    pub code: u16,
    /// How many commands or statements it answers; of most requests that is 1.
    pub commands: u32,
    /// Whether the connection takes another request.
    pub reusable: bool,
}

/// What came is not an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);
