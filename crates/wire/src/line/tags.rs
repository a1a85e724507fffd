//! Splits the measurement and the tags of a line.

use super::fault::Fault;

/// Tags up to which duplicates are looked for pair by pair; more are sorted first.
const PAIRWISE_MAX: usize = 32;

/// Where measurement and tags of `line` end (`models/points.go`, `scanKey`, without its sorting:
/// the order of tags means nothing).
pub(super) fn key_end(line: &[u8]) -> Result<usize, Fault<'_>> {
    let (mut i, has_tags) = measurement_end(line)?;
    if !has_tags {
        return Ok(i);
    }
    loop {
        i = tag_key_end(line, i + 1)?;
        i = tag_value_end(line, i + 1)?;
        if line[i] == b' ' {
            break;
        }
    }
    check_duplicates(&line[..i])?;
    Ok(i)
}

/// Where the measurement ends, and whether tags follow. The first byte is never an escape's
/// target, and a backslash escapes whatever follows, another backslash too.
fn measurement_end(line: &[u8]) -> Result<(usize, bool), Fault<'static>> {
    if matches!(line.first(), None | Some(b',')) {
        return Err(Fault::MissingMeasurement);
    }
    for (i, pair) in line.windows(2).enumerate() {
        match *pair {
            [b'\\', _] => {}
            [_, b','] => return Ok((i + 1, true)),
            [_, b' '] => return Ok((i + 1, false)),
            _ => {}
        }
    }
    Err(Fault::MissingFields)
}

/// Where the equals sign is that ends the tag key starting at `start`.
fn tag_key_end(line: &[u8], start: usize) -> Result<usize, Fault<'static>> {
    if matches!(line.get(start), None | Some(b' ' | b',' | b'=')) {
        return Err(Fault::MissingTagKey);
    }
    for i in start + 1..line.len() {
        match line[i] {
            _ if line[i - 1] == b'\\' => {}
            b' ' | b',' => return Err(Fault::MissingTagValue),
            b'=' => return Ok(i),
            _ => {}
        }
    }
    Err(Fault::MissingTagValue)
}

/// Where the comma or space is that ends the tag value starting at `start`.
fn tag_value_end(line: &[u8], start: usize) -> Result<usize, Fault<'static>> {
    if matches!(line.get(start), None | Some(b',' | b' ')) {
        return Err(Fault::MissingTagValue);
    }
    for i in start + 1..line.len() {
        match line[i] {
            _ if line[i - 1] == b'\\' => {}
            b'=' => return Err(Fault::InvalidTagFormat),
            b',' | b' ' => return Ok(i),
            _ => {}
        }
    }
    Err(Fault::MissingFields)
}

/// The escaped tag keys of `key`, a measurement with its tags that has been found well-formed.
pub(super) fn tag_keys(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    tags(key).map(|(key, _)| key)
}

/// The escaped tags of `key`, likewise.
pub(super) fn tags(key: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut at = measurement_end_in(key);
    std::iter::from_fn(move || {
        let start = at + 1;
        if start >= key.len() {
            return None;
        }
        let end = find_unescaped(key, start, b'=');
        let value = (end + 1).min(key.len());
        at = find_unescaped(key, value, b',');
        Some((&key[start..end], &key[value..at]))
    })
}

/// Where the measurement of `key` ends.
pub(super) fn measurement_end_in(key: &[u8]) -> usize {
    find_unescaped(key, 0, b',')
}

/// `models/points.go`, `scanTo`: a backslash escapes whatever follows, another backslash too.
fn find_unescaped(text: &[u8], from: usize, stop: u8) -> usize {
    (from..text.len())
        .find(|&i| text[i] == stop && (i == 0 || text[i - 1] != b'\\'))
        .unwrap_or(text.len())
}

/// Compares as spelled: two spellings of one key don't occur, since only what must be escaped
/// is unescaped.
fn check_duplicates(key: &[u8]) -> Result<(), Fault<'static>> {
    let repeated = if tag_keys(key).nth(PAIRWISE_MAX).is_none() {
        tag_keys(key).enumerate().any(|(n, a)| tag_keys(key).skip(n + 1).any(|b| a == b))
    } else {
        // Allocates: a line of so many tags is rare, and comparing pairs would take a body of
        // one line for hours.
        let mut keys: Vec<&[u8]> = tag_keys(key).collect();
        keys.sort_unstable();
        keys.windows(2).any(|pair| pair[0] == pair[1])
    };
    if repeated { Err(Fault::DuplicateTags) } else { Ok(()) }
}

/// The measurement of `key`, unescaped as InfluxDB does for its messages (`pkg/escape`).
pub(super) fn measurement_name(key: &[u8]) -> String {
    let raw = &key[..measurement_end_in(key)];
    let mut name = Vec::with_capacity(raw.len());
    let mut i = 0;
    while let Some(&byte) = raw.get(i) {
        if byte == b'\\' && matches!(raw.get(i + 1), Some(b',' | b'"' | b' ' | b'=')) {
            i += 1;
        }
        name.push(raw[i]);
        i += 1;
    }
    String::from_utf8_lossy(&name).into_owned()
}
