//! What an engine sends, and how it reads what comes back.

use crate::recorder::Kind;

/// Makes requests. Each thread has its own.
pub trait Workload {
    /// Reads answers; each connection has its own.
    type Reader: Reader;

    /// Appends the bytes of request `number`; gives which operation it is.
    fn request(&mut self, number: u64, out: &mut Vec<u8>) -> usize;

    /// A reader for a new connection.
    fn reader(&self) -> Self::Reader;
}

/// Finds where answers end, from bytes that come in any pieces.
pub trait Reader {
    /// A request of that operation has been sent.
    fn begin(&mut self, operation: usize);

    /// Takes in what has come.
    ///
    /// # Errors
    /// It is no answer, or goes on behind one.
    fn read(&mut self, bytes: &[u8]) -> Result<Option<Answer>, Malformed>;

    /// The server has closed the connection; the answer, if that ends it.
    fn ended(&mut self) -> Option<Answer>;
}

/// A whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Whether it is a success: [`Kind::Succeeded`] or [`Kind::Server`].
    pub kind: Kind,
    /// What the protocol calls it.
    pub code: u16,
    /// Whether the connection takes another request.
    pub reusable: bool,
}

/// What came is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);
