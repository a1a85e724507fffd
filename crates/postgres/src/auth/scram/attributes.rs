//! A message's attributes: a letter, `=`, a value, parted by commas (RFC 5802, section 5.1).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{MESSAGE_BYTES_MAX, Malformed, NONCE_MAX};

/// What is left of a message.
pub(super) struct Attributes<'a> {
    rest: Option<&'a str>,
}

/// A message as text, if it is UTF-8 and within the limit on its length.
pub(super) fn text(message: &[u8]) -> Result<&str, Malformed> {
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(Malformed("message is too long"));
    }
    if message.contains(&0) {
        return Err(Malformed("message length does not match input length"));
    }
    str::from_utf8(message).map_err(|_| Malformed("message is not in UTF-8"))
}

impl<'a> Attributes<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self { rest: Some(text) }
    }

    /// The next attribute, which must be that one.
    pub(super) fn expect(&mut self, letter: char) -> Result<&'a str, Malformed> {
        match self.next()? {
            Some((found, value)) if found == letter => Ok(value),
            Some(('m', _)) => Err(Malformed("mandatory extensions are not supported")),
            _ => Err(Malformed("an expected attribute is missing")),
        }
    }

    /// The next attribute, whatever it is.
    pub(super) fn next(&mut self) -> Result<Option<(char, &'a str)>, Malformed> {
        let Some(rest) = self.rest else { return Ok(None) };
        let attribute = match rest.split_once(',') {
            Some((attribute, rest)) => {
                self.rest = Some(rest);
                attribute
            }
            None => self.rest.take().unwrap_or_default(),
        };
        let (letter, value) = attribute.split_once('=').ok_or(Malformed("\"=\" is missing"))?;
        match letter.as_bytes() {
            [byte] if byte.is_ascii_alphabetic() => Ok(Some((char::from(*byte), value))),
            _ => Err(Malformed("attribute expected")),
        }
    }

    /// All that follow must be attributes, whatever they are for.
    pub(super) fn skip(&mut self) -> Result<(), Malformed> {
        while self.next()?.is_some() {}
        Ok(())
    }
}

/// A nonce: printable ASCII, not too long.
pub(super) fn nonce(value: &str) -> Result<&str, Malformed> {
    if value.is_empty() || !value.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) {
        return Err(Malformed("non-printable characters in nonce"));
    }
    if value.len() > NONCE_MAX {
        return Err(Malformed("nonce is too long"));
    }
    Ok(value)
}

/// The bytes of an attribute's value in base64.
pub(super) fn decode(value: &str) -> Result<Vec<u8>, Malformed> {
    STANDARD.decode(value).map_err(|_| Malformed("an attribute is not in base64"))
}
