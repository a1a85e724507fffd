//! Texts as Java counts and writes them: lengths are UTF-16 code units, and each unit is one to
//! three bytes, those of a surrogate pair too.

use super::DecodeErrorKind;

/// Cuts as many code units from the front as may stand in one chunk: never half a pair.
/// Gives the chunk, its code units, and what is left.
pub fn chunk(text: &str, units_max: usize) -> (&str, usize, &str) {
    if text.len() <= units_max && text.is_ascii() {
        return (text, text.len(), "");
    }
    let mut units = 0;
    for (at, character) in text.char_indices() {
        let further = units + character.len_utf16();
        if further > units_max {
            let (front, rest) = text.split_at(at);
            return (front, units, rest);
        }
        units = further;
    }
    (text, units, "")
}

/// Appends a text in Java's encoding.
pub fn put(out: &mut Vec<u8>, text: &str) {
    let mut rest = text;
    // Only characters of four bytes differ from UTF-8.
    while let Some(at) = memchr_four(rest.as_bytes()) {
        let (front, from) = rest.split_at(at);
        out.extend_from_slice(front.as_bytes());
        let mut characters = from.chars();
        if let Some(character) = characters.next() {
            for unit in character.encode_utf16(&mut [0; 2]) {
                put_unit(out, *unit);
            }
        }
        rest = characters.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
}

fn memchr_four(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte >= 0xf0)
}

fn put_unit(out: &mut Vec<u8>, unit: u16) {
    let part = |shift: u32| 0x80 | (unit >> shift & 0x3f) as u8;
    out.extend_from_slice(&[0xe0 | (unit >> 12) as u8, part(6), part(0)]);
}

/// A text that is read chunk by chunk.
#[derive(Default)]
pub struct TextReader {
    text: String,
    /// The first half of a pair, whose second half may stand in the next chunk.
    high: Option<u16>,
}

impl TextReader {
    /// Reads so many code units from the front of the bytes. Gives how many bytes they have; an
    /// error comes with how many bytes stand before it.
    pub fn read(&mut self, bytes: &[u8], units: usize) -> Result<usize, (usize, DecodeErrorKind)> {
        if let Some(ascii) = bytes.get(..units).filter(|bytes| bytes.is_ascii())
            && let Ok(ascii) = std::str::from_utf8(ascii)
            && (self.high.is_none() || ascii.is_empty())
        {
            self.text.push_str(ascii);
            return Ok(units);
        }
        let mut at = 0;
        for _ in 0..units {
            let (unit, len) = unit(bytes.get(at..).unwrap_or_default()).map_err(|e| (at, e))?;
            self.push(unit).map_err(|error| (at, error))?;
            at += len;
        }
        Ok(at)
    }

    /// How long the text is by now, in bytes of UTF-8.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// The whole text, once its last chunk has been read.
    pub fn finish(self) -> Result<String, DecodeErrorKind> {
        match self.high {
            Some(high) => Err(DecodeErrorKind::UnpairedSurrogate(high)),
            None => Ok(self.text),
        }
    }

    fn push(&mut self, unit: u16) -> Result<(), DecodeErrorKind> {
        let character = match (self.high.take(), unit) {
            (Some(high), 0xdc00..=0xdfff) => {
                let pair = (u32::from(high) - 0xd800) << 10 | (u32::from(unit) - 0xdc00);
                char::from_u32(0x1_0000 + pair)
            }
            (Some(high), _) => return Err(DecodeErrorKind::UnpairedSurrogate(high)),
            (None, 0xd800..=0xdbff) => {
                self.high = Some(unit);
                return Ok(());
            }
            (None, _) => char::from_u32(u32::from(unit)),
        };
        self.text.push(character.ok_or(DecodeErrorKind::UnpairedSurrogate(unit))?);
        Ok(())
    }
}

/// The code unit at the front and its bytes. Longer forms than needed are read, as Java does.
fn unit(bytes: &[u8]) -> Result<(u16, usize), DecodeErrorKind> {
    let next = |at: usize| match bytes.get(at) {
        Some(byte @ 0x80..=0xbf) => Ok(u16::from(byte & 0x3f)),
        Some(_) => Err(DecodeErrorKind::InvalidCharacter),
        None => Err(DecodeErrorKind::UnexpectedEnd),
    };
    match bytes.first() {
        Some(byte @ ..=0x7f) => Ok((u16::from(*byte), 1)),
        Some(byte @ 0xc0..=0xdf) => Ok((u16::from(byte & 0x1f) << 6 | next(1)?, 2)),
        Some(byte @ 0xe0..=0xef) => {
            Ok((u16::from(byte & 0x0f) << 12 | next(1)? << 6 | next(2)?, 3))
        }
        Some(_) => Err(DecodeErrorKind::InvalidCharacter),
        None => Err(DecodeErrorKind::UnexpectedEnd),
    }
}
