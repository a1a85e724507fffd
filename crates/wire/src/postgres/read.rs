//! Reading a message's body field by field.

/// A message's body is not as its format says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {0} message")]
pub struct Malformed(
    /// The message's name in the manual.
    pub &'static str,
);

/// What is left of a body, and the name of its message for errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    message: &'static str,
}

impl<'a> Reader<'a> {
    pub(super) fn new(body: &'a [u8], message: &'static str) -> Self {
        Self { rest: body, message }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn malformed(&self) -> Malformed {
        Malformed(self.message)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(self.malformed())?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(self.malformed())?;
        self.rest = rest;
        Ok(*head)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// Up to the next zero byte, which is left behind.
    pub(super) fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let end = memchr::memchr(0, self.rest).ok_or(self.malformed())?;
        let (text, rest) = (&self.rest[..end], &self.rest[end + 1..]);
        self.rest = rest;
        Ok(text)
    }

    /// Nothing may be left.
    pub(super) fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.malformed()) }
    }
}

/// Appends a message: its tag, its length, and the body that `body` appends.
pub fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    untagged(out, body);
}

/// Writes a length and the body that `body` appends.
pub(super) fn untagged(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    // Bodies are bounded by their makers far below this; a longer one could not be sent anyway.
    let length = i32::try_from(out.len() - at).unwrap_or(i32::MAX);
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends `text` up to its first zero byte, which could not be inside, and the zero that ends it.
pub(super) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    let end = memchr::memchr(0, text).unwrap_or(text.len());
    out.extend_from_slice(&text[..end]);
    out.push(0);
}
