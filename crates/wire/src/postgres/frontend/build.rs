//! What Weir says to a server where it is the client.
#![expect(missing_docs, reason = "each function appends the message it is named after")]

use super::super::read::{message, put_text};
use super::{Target, tag};

pub fn put_query(out: &mut Vec<u8>, text: &[u8]) {
    message(out, tag::QUERY, |out| put_text(out, text));
}

/// Appends a Parse; `types` are the OIDs of the first parameters, 0 for what the server may guess.
pub fn put_parse(out: &mut Vec<u8>, name: &[u8], query: &[u8], types: &[u32]) {
    message(out, tag::PARSE, |out| {
        put_text(out, name);
        put_text(out, query);
        put_count(out, types.len());
        for oid in types {
            out.extend_from_slice(&oid.to_be_bytes());
        }
    });
}

/// Appends a Bind with parameters in text format and results in text format.
pub fn put_bind(out: &mut Vec<u8>, portal: &[u8], statement: &[u8], values: &[Option<&[u8]>]) {
    bind(out, portal, statement, |out| {
        put_count(out, values.len());
        for value in values {
            put_value(out, *value);
        }
    });
}

/// Appends a Bind of the unnamed portal to parameters in text format, which are written as
/// [`crate::sql::Lifted::values`] has them; results in text format.
pub fn put_bind_written(out: &mut Vec<u8>, statement: &[u8], count: u16, values: &[u8]) {
    bind(out, b"", statement, |out| {
        out.extend_from_slice(&count.to_be_bytes());
        out.extend_from_slice(values);
    });
}

/// A Bind, all of it text; `values` writes how many there are, and them.
fn bind(out: &mut Vec<u8>, portal: &[u8], statement: &[u8], values: impl FnOnce(&mut Vec<u8>)) {
    message(out, tag::BIND, |out| {
        put_text(out, portal);
        put_text(out, statement);
        put_count(out, 0);
        values(out);
        put_count(out, 0);
    });
}

pub fn put_describe(out: &mut Vec<u8>, target: Target<'_>) {
    put_target(out, tag::DESCRIBE, target);
}

pub fn put_close(out: &mut Vec<u8>, target: Target<'_>) {
    put_target(out, tag::CLOSE, target);
}

fn put_target(out: &mut Vec<u8>, tag: u8, target: Target<'_>) {
    let (kind, name) = match target {
        Target::Statement(name) => (b'S', name),
        Target::Portal(name) => (b'P', name),
    };
    message(out, tag, |out| {
        out.push(kind);
        put_text(out, name);
    });
}

/// Appends an Execute; `rows_max` 0: all of them.
pub fn put_execute(out: &mut Vec<u8>, portal: &[u8], rows_max: i32) {
    message(out, tag::EXECUTE, |out| {
        put_text(out, portal);
        out.extend_from_slice(&rows_max.to_be_bytes());
    });
}

pub fn put_sync(out: &mut Vec<u8>) {
    message(out, tag::SYNC, |_| {});
}

pub fn put_flush(out: &mut Vec<u8>) {
    message(out, tag::FLUSH, |_| {});
}

pub fn put_terminate(out: &mut Vec<u8>) {
    message(out, tag::TERMINATE, |_| {});
}

pub fn put_copy_fail(out: &mut Vec<u8>, reason: &[u8]) {
    message(out, tag::COPY_FAIL, |out| put_text(out, reason));
}

pub fn put_password(out: &mut Vec<u8>, password: &[u8]) {
    message(out, tag::PASSWORD, |out| put_text(out, password));
}

pub fn put_sasl_initial(out: &mut Vec<u8>, mechanism: &str, response: &[u8]) {
    message(out, tag::PASSWORD, |out| {
        put_text(out, mechanism.as_bytes());
        put_value(out, Some(response));
    });
}

pub fn put_sasl_response(out: &mut Vec<u8>, response: &[u8]) {
    message(out, tag::PASSWORD, |out| out.extend_from_slice(response));
}

/// Appends a length and bytes, or the length -1 for NULL.
fn put_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    let length = value.map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap_or(i32::MAX));
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value.unwrap_or_default());
}

/// Appends a count; Weir's own messages have a handful of fields.
fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes());
}
