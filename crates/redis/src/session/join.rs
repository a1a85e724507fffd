//! One answer of those of several servers.

use rand::Rng as _;
use wire::resp::{Elements, Value, put_array, put_bulk, put_error, put_integer, value};

/// The answers of the parts, each read; or the error that one of them is, which names its server.
pub(super) fn read<'a>(
    parts: &'a [Vec<u8>],
    servers: &[String],
) -> Result<Vec<Value<'a>>, Vec<u8>> {
    let mut values = Vec::with_capacity(parts.len());
    for (part, server) in parts.iter().zip(servers) {
        match value(part) {
            Ok((Value::Error(_), _)) | Err(_) => return Err(refused(part, server)),
            Ok((value, _)) => values.push(value),
        }
    }
    Ok(values)
}

/// What a client hears where a server's answer can't be a part of its own.
fn refused(part: &[u8], server: &str) -> Vec<u8> {
    match value(part) {
        Ok((Value::Error(text), _)) => {
            let text = String::from_utf8_lossy(text);
            let (word, rest) = code(&text);
            error(&format!("{word} weir: {server}: {rest}"))
        }
        _ => unexpected(server),
    }
}

/// The first word of an error, by which drivers know what it is, and the rest. Of a part alone
/// `TRYAGAIN` would say that nothing has run.
fn code(text: &str) -> (&str, &str) {
    let is_code = |word: &str| {
        !["", "TRYAGAIN"].contains(&word)
            && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    text.split_once(' ').filter(|(word, _)| is_code(word)).unwrap_or(("ERR", text))
}

pub(super) fn error(words: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_error(&mut out, words);
    out
}

fn unexpected(server: &str) -> Vec<u8> {
    error(&format!("ERR weir: {server} answers what was not expected"))
}

/// The sum of numbers.
pub(super) fn sum(parts: &[Vec<u8>], servers: &[String]) -> Vec<u8> {
    let values = match read(parts, servers) {
        Ok(values) => values,
        Err(error) => return error,
    };
    let mut sum = 0_i64;
    for (value, server) in values.iter().zip(servers) {
        let Value::Integer(number) = value else { return unexpected(server) };
        sum = sum.saturating_add(*number);
    }
    let mut out = Vec::new();
    put_integer(&mut out, sum);
    out
}

/// The first answer, where none is an error.
pub(super) fn first(parts: &[Vec<u8>], servers: &[String]) -> Vec<u8> {
    match read(parts, servers) {
        Ok(_) => parts.first().cloned().unwrap_or_default(),
        Err(error) => error,
    }
}

/// One of the keys that servers name, where any has some: each server is as likely as another.
pub(super) fn any_key(parts: &[Vec<u8>], servers: &[String]) -> Vec<u8> {
    let values = match read(parts, servers) {
        Ok(values) => values,
        Err(error) => return error,
    };
    let named: Vec<_> = values.iter().zip(parts).filter(|(of, _)| **of != Value::Null).collect();
    let one = rand::rng().random_range(0..named.len().max(1));
    let none = parts.first();
    named.get(one).map(|(_, part)| *part).or(none).cloned().unwrap_or_default()
}

/// What the server says on which a function runs, or else the first.
pub(super) fn running(parts: &[Vec<u8>], servers: &[String]) -> Vec<u8> {
    let values = match read(parts, servers) {
        Ok(values) => values,
        Err(error) => return error,
    };
    let runs = |of: &Value<'_>| match of {
        // The name and the value of what runs come first.
        Value::Array(all) => all.get(1).is_some_and(|of| *of != Value::Null),
        Value::Map(pairs) => pairs.first().is_some_and(|(_, of)| *of != Value::Null),
        _ => false,
    };
    let at = values.iter().position(runs).unwrap_or(0);
    parts.get(at).cloned().unwrap_or_default()
}

/// One array of the elements of all, each once.
pub(super) fn distinct(parts: &[Vec<u8>], servers: &[String]) -> Vec<u8> {
    elements(parts, servers).map_or_else(
        |error| error,
        |mut all| {
            all.sort_unstable();
            all.dedup();
            array(&all)
        },
    )
}

/// One array of the elements of all.
pub(super) fn concatenated(parts: &[Vec<u8>], servers: &[String]) -> Vec<u8> {
    elements(parts, servers).map_or_else(|error| error, |all| array(&all))
}

/// The elements of all arrays; or the error that one of them is.
fn elements<'a>(parts: &'a [Vec<u8>], servers: &[String]) -> Result<Vec<&'a [u8]>, Vec<u8>> {
    let mut all = Vec::new();
    for (value, server) in read(parts, servers)?.into_iter().zip(servers) {
        let Value::Array(elements) = value else { return Err(unexpected(server)) };
        for element in elements {
            let Value::Bulk(bytes) = element else { return Err(unexpected(server)) };
            all.push(bytes);
        }
    }
    Ok(all)
}

fn array(elements: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    put_array(&mut out, elements.len());
    elements.iter().for_each(|bytes| put_bulk(&mut out, bytes));
    out
}

/// Numbers that are 1 where they are 1 in all.
pub(super) fn in_all(parts: &[Vec<u8>], servers: &[String]) -> Vec<u8> {
    let values = match read(parts, servers) {
        Ok(values) => values,
        Err(error) => return error,
    };
    let mut all: Option<Vec<i64>> = None;
    for (value, server) in values.iter().zip(servers) {
        let Value::Array(elements) = value else { return unexpected(server) };
        let number =
            |of: &Value<'_>| if let Value::Integer(number) = of { Some(*number) } else { None };
        let Some(numbers) = elements.iter().map(number).collect::<Option<Vec<i64>>>() else {
            return unexpected(server);
        };
        all = Some(match all {
            None => numbers,
            Some(before) => before.iter().zip(&numbers).map(|(a, b)| *a.min(b)).collect(),
        });
    }
    let all = all.unwrap_or_default();
    let mut out = Vec::new();
    put_array(&mut out, all.len());
    all.iter().for_each(|number| put_integer(&mut out, *number));
    out
}

/// Values in the order of their keys: `order` has for each key the part that it is in. A part has
/// its values in the same order.
pub(super) fn ordered(parts: &[Vec<u8>], servers: &[String], order: &[usize]) -> Vec<u8> {
    let mut values = Vec::with_capacity(parts.len());
    for (part, server) in parts.iter().zip(servers) {
        match Elements::of(part) {
            Ok(elements) => values.push((elements, server)),
            Err(_) => return refused(part, server),
        }
    }
    let mut out = Vec::with_capacity(parts.iter().map(Vec::len).sum());
    put_array(&mut out, order.len());
    for part in order {
        let Some((elements, server)) = values.get_mut(*part) else { return unexpected("a server") };
        match elements.take() {
            Ok((Value::Bulk(_) | Value::Null, bytes)) => out.extend_from_slice(bytes),
            _ => return unexpected(server),
        }
    }
    out
}

/// The answer to `SCAN` of one of several servers, with a cursor that says which comes next.
pub(super) fn scanned(
    part: &[u8],
    server: &str,
    (at, count): (usize, usize),
    is_last: bool,
) -> Vec<u8> {
    let (cursor, keys) = match value(part) {
        Ok((Value::Error(_), _)) => return refused(part, server),
        Ok((Value::Array(elements), _)) => match <[Value<'_>; 2]>::try_from(elements) {
            Ok([Value::Bulk(cursor), Value::Array(keys)]) => (cursor, keys),
            _ => return unexpected(server),
        },
        _ => return unexpected(server),
    };
    let cursor = std::str::from_utf8(cursor).ok().and_then(|text| text.parse::<u64>().ok());
    let Some(next) = cursor.and_then(|cursor| next_cursor(cursor, (at, count), is_last)) else {
        return error(&format!("ERR weir: {server} has a cursor that is too large"));
    };
    let mut out = Vec::with_capacity(part.len() + 16);
    put_array(&mut out, 2);
    put_bulk(&mut out, next.to_string().as_bytes());
    put_array(&mut out, keys.len());
    for key in &keys {
        let Value::Bulk(key) = key else { return unexpected(server) };
        put_bulk(&mut out, key);
    }
    out
}

/// Above this a client that takes numbers for floating point would lose digits.
const CURSOR_MAX: u64 = 1 << 53;

/// The cursor that a client gets for that of the server `at`.
pub(super) fn next_cursor(cursor: u64, (at, count): (usize, usize), is_last: bool) -> Option<u64> {
    let (at, count) = (at as u64, count as u64);
    let next = match cursor {
        0 if is_last => 0,
        0 => at + 1,
        _ => cursor.checked_mul(count)?.checked_add(at)?,
    };
    (next < CURSOR_MAX).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_goes_from_server_to_server_and_ends() {
        assert_eq!(next_cursor(0, (0, 1), true), Some(0));
        assert_eq!(next_cursor(7, (0, 1), true), Some(7));
        assert_eq!(next_cursor(0, (2, 1024), true), Some(0));
        let (mut cursor, mut seen) = (0, Vec::new());
        // Each of three servers has two pages; the second one's cursor is 5.
        loop {
            let (at, own) = ((cursor % 3) as usize, cursor / 3);
            seen.push((at, own));
            cursor = next_cursor(if own == 0 { 5 } else { 0 }, (at, 3), at == 2).unwrap();
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen, [(0, 0), (0, 5), (1, 0), (1, 5), (2, 0), (2, 5)]);
        assert_eq!(next_cursor(u64::MAX, (1, 4), false), None);
        assert_eq!(next_cursor(1 << 52, (1, 4), false), None);
    }

    #[test]
    fn answers_are_joined_and_an_error_names_its_server() {
        let servers = ["a".to_owned(), "b".to_owned()];
        let parts = |a: &str, b: &str| [a.as_bytes().to_vec(), b.as_bytes().to_vec()];
        assert_eq!(sum(&parts(":2\r\n", ":3\r\n"), &servers), b":5\r\n");
        assert_eq!(sum(&parts(":2\r\n", "-ERR x\r\n"), &servers), b"-ERR weir: b: x\r\n");
        assert_eq!(first(&parts("+OK\r\n", "+OK\r\n"), &servers), b"+OK\r\n");
        assert_eq!(
            concatenated(&parts("*1\r\n$1\r\nx\r\n", "*0\r\n"), &servers),
            b"*1\r\n$1\r\nx\r\n"
        );
        assert_eq!(
            in_all(&parts("*2\r\n:1\r\n:1\r\n", "*2\r\n:0\r\n:1\r\n"), &servers),
            b"*2\r\n:0\r\n:1\r\n"
        );
        let mixed = parts("*2\r\n$1\r\nx\r\n$-1\r\n", "*1\r\n$1\r\ny\r\n");
        let order = [0, 1, 0];
        assert_eq!(ordered(&mixed, &servers, &order), b"*3\r\n$1\r\nx\r\n$1\r\ny\r\n$-1\r\n");
        let refused = parts("*2\r\n$1\r\nx\r\n_\r\n", "-ERR x\r\n");
        assert_eq!(ordered(&refused, &servers, &order), b"-ERR weir: b: x\r\n");
        let said = |text: &str| first(&parts("+OK\r\n", text), &servers);
        assert_eq!(said("-OOM command\r\n"), b"-OOM weir: b: command\r\n");
        assert_eq!(said("-TRYAGAIN x\r\n"), b"-ERR weir: b: TRYAGAIN x\r\n");
        assert_eq!(said("-busy now\r\n"), b"-ERR weir: b: busy now\r\n");
        assert_eq!(said("- x\r\n"), b"-ERR weir: b:  x\r\n");
        assert_eq!(said("-OOM\r\n"), b"-ERR weir: b: OOM\r\n");
        let short = parts("*1\r\n$1\r\nx\r\n", "*1\r\n_\r\n");
        assert_eq!(ordered(&short, &servers, &order), unexpected("a"));
        for odd in ["", "*1\r\n", "$-2\r\n", ":1\r\n", "*1\r\n:1\r\n", "+x\r\n"] {
            let mixed = parts(odd, odd);
            concatenated(&mixed, &servers);
            ordered(&mixed, &servers, &order);
            scanned(odd.as_bytes(), "a", (0, 2), false);
        }
    }
}
