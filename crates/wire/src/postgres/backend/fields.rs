//! The fields of an ErrorResponse or a NoticeResponse.

use super::super::read::Malformed;

/// Fields by letter ("Error and Notice Message Fields").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields<'a> {
    body: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// A field doesn't end, or something is left over. A server's error may have any fields, none
    /// too: what lacks a SQLSTATE is still an error.
    pub fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let fields = Self { body };
        let bytes: usize = fields.iter().map(|(_, text)| text.len() + 2).sum();
        match body.get(bytes..) {
            Some([0]) => Ok(fields),
            _ => Err(Malformed("ErrorResponse")),
        }
    }

    /// Letters and texts in their order.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let mut rest = self.body;
        std::iter::from_fn(move || {
            let (letter, text) = rest.split_first().filter(|(letter, _)| **letter != 0)?;
            let end = memchr::memchr(0, text)?;
            rest = &text[end + 1..];
            Some((*letter, &text[..end]))
        })
    }

    /// The first field of that letter.
    pub fn get(&self, letter: u8) -> Option<&'a [u8]> {
        self.iter().find(|(found, _)| *found == letter).map(|(_, text)| text)
    }

    /// `ERROR`, `FATAL`, `PANIC`, `WARNING` ...; never translated where the server is of 9.6 on.
    pub fn severity(&self) -> &'a [u8] {
        self.get(b'V').or_else(|| self.get(b'S')).unwrap_or_default()
    }

    /// The SQLSTATE; empty where the server gave none.
    pub fn code(&self) -> &'a [u8] {
        self.get(b'C').unwrap_or_default()
    }

    /// The primary message (field `M`); empty where the server gave none.
    pub fn message(&self) -> &'a [u8] {
        self.get(b'M').unwrap_or_default()
    }

    /// More of what happened.
    pub fn detail(&self) -> Option<&'a [u8]> {
        self.get(b'D')
    }

    /// What can be done about it.
    pub fn hint(&self) -> Option<&'a [u8]> {
        self.get(b'H')
    }

    /// Whether the server closes the connection after it.
    pub fn is_fatal(&self) -> bool {
        matches!(self.severity(), b"FATAL" | b"PANIC")
    }
}
