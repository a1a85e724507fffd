//! Appends RESP messages to a buffer.

use super::Version;

fn head(out: &mut Vec<u8>, kind: u8, number: impl itoa::Integer) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// A command of these words.
pub fn put_command<W: AsRef<[u8]>>(out: &mut Vec<u8>, words: impl ExactSizeIterator<Item = W>) {
    head(out, b'*', words.len());
    words.for_each(|word| put_bulk(out, word.as_ref()));
}

/// A text of any bytes.
pub fn put_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    head(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// A short word of the server's, as `OK`.
pub fn put_simple(out: &mut Vec<u8>, word: &[u8]) {
    line(out, b'+', word);
}

/// An error: a word in capitals, and what is wrong. Line breaks become spaces.
pub fn put_error(out: &mut Vec<u8>, words: &str) {
    line(out, b'-', words.as_bytes());
}

fn line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.push(kind);
    out.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
    out.extend_from_slice(b"\r\n");
}

/// Appends an integer (`:`).
pub fn put_integer(out: &mut Vec<u8>, number: i64) {
    head(out, b':', number);
}

/// The head of an array; so many messages follow.
pub fn put_array(out: &mut Vec<u8>, length: usize) {
    head(out, b'*', length);
}

/// The head of what a server says by itself, of RESP3; so many messages follow.
pub fn put_push(out: &mut Vec<u8>, length: usize) {
    head(out, b'>', length);
}

/// The head of a map; so many pairs of messages follow.
pub fn put_map(out: &mut Vec<u8>, length: usize, version: Version) {
    match version {
        Version::Two => head(out, b'*', length.saturating_mul(2)),
        Version::Three => head(out, b'%', length),
    }
}

/// The head of a set; so many messages follow.
pub fn put_set(out: &mut Vec<u8>, length: usize, version: Version) {
    head(out, if version == Version::Three { b'~' } else { b'*' }, length);
}

/// A text of many lines for a person.
pub fn put_verbatim(out: &mut Vec<u8>, text: &str, version: Version) {
    if version == Version::Two {
        return put_bulk(out, text.as_bytes());
    }
    head(out, b'=', text.len() + 4);
    out.extend_from_slice(b"txt:");
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Nothing, where a text could be.
pub fn put_null(out: &mut Vec<u8>, version: Version) {
    out.extend_from_slice(if version == Version::Three { b"_\r\n" } else { b"$-1\r\n" });
}
