//! What Weir says to a client where it is the server.
#![expect(missing_docs, reason = "each function appends the message it is named after")]

use super::super::read::{message, put_text};
use super::{Status, tag};

/// OID of the type `text`.
pub const TEXT_OID: u32 = 25;
/// OID of the type `int8`.
pub const INT8_OID: u32 = 20;

pub fn put_authentication_ok(out: &mut Vec<u8>) {
    authentication(out, 0, &[]);
}

pub fn put_authentication_cleartext(out: &mut Vec<u8>) {
    authentication(out, 3, &[]);
}

pub fn put_authentication_md5(out: &mut Vec<u8>, salt: [u8; 4]) {
    authentication(out, 5, &salt);
}

/// Appends an AuthenticationSASL with its mechanisms, the preferred one first.
pub fn put_authentication_sasl<'m>(
    out: &mut Vec<u8>,
    mechanisms: impl IntoIterator<Item = &'m str>,
) {
    message(out, tag::AUTHENTICATION, |out| {
        out.extend_from_slice(&10i32.to_be_bytes());
        for mechanism in mechanisms {
            put_text(out, mechanism.as_bytes());
        }
        out.push(0);
    });
}

pub fn put_authentication_sasl_continue(out: &mut Vec<u8>, data: &[u8]) {
    authentication(out, 11, data);
}

pub fn put_authentication_sasl_final(out: &mut Vec<u8>, data: &[u8]) {
    authentication(out, 12, data);
}

fn authentication(out: &mut Vec<u8>, kind: i32, data: &[u8]) {
    message(out, tag::AUTHENTICATION, |out| {
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(data);
    });
}

/// Appends a NegotiateProtocolVersion: protocol 3.`minor` it is, without the extensions `unknown`.
pub fn put_negotiate_protocol_version<'n>(
    out: &mut Vec<u8>,
    minor: u16,
    unknown: impl IntoIterator<Item = &'n str>,
) {
    message(out, tag::NEGOTIATE_PROTOCOL_VERSION, |out| {
        out.extend_from_slice(&(3 << 16 | u32::from(minor)).to_be_bytes());
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        let mut count = 0u32;
        for name in unknown {
            put_text(out, name.as_bytes());
            count += 1;
        }
        out[at..at + 4].copy_from_slice(&count.to_be_bytes());
    });
}

pub fn put_parameter_status(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    message(out, tag::PARAMETER_STATUS, |out| {
        put_text(out, name);
        put_text(out, value);
    });
}

/// Appends a BackendKeyData; `secret` as long as one of [`super::super::SECRET_BYTES`], 4 in
/// protocol 3.0.
pub fn put_backend_key_data(out: &mut Vec<u8>, process_id: i32, secret: &[u8]) {
    message(out, tag::BACKEND_KEY_DATA, |out| {
        out.extend_from_slice(&process_id.to_be_bytes());
        out.extend_from_slice(secret);
    });
}

pub fn put_ready_for_query(out: &mut Vec<u8>, status: Status) {
    out.extend_from_slice(&[tag::READY_FOR_QUERY, 0, 0, 0, 5, status.byte()]);
}

pub fn put_command_complete(out: &mut Vec<u8>, command: &str) {
    message(out, tag::COMMAND_COMPLETE, |out| put_text(out, command.as_bytes()));
}

pub fn put_empty_query_response(out: &mut Vec<u8>) {
    message(out, tag::EMPTY_QUERY_RESPONSE, |_| {});
}

pub fn put_parse_complete(out: &mut Vec<u8>) {
    message(out, tag::PARSE_COMPLETE, |_| {});
}

pub fn put_bind_complete(out: &mut Vec<u8>) {
    message(out, tag::BIND_COMPLETE, |_| {});
}

pub fn put_close_complete(out: &mut Vec<u8>) {
    message(out, tag::CLOSE_COMPLETE, |_| {});
}

pub fn put_no_data(out: &mut Vec<u8>) {
    message(out, tag::NO_DATA, |_| {});
}

pub fn put_parameter_description(out: &mut Vec<u8>, types: &[u32]) {
    message(out, tag::PARAMETER_DESCRIPTION, |out| {
        put_count(out, types.len());
        for oid in types {
            out.extend_from_slice(&oid.to_be_bytes());
        }
    });
}

/// Appends a RowDescription of columns in text format: name and type's OID ([`TEXT_OID`],
/// [`INT8_OID`]).
pub fn put_row_description(out: &mut Vec<u8>, columns: &[(&str, u32)]) {
    message(out, tag::ROW_DESCRIPTION, |out| {
        put_count(out, columns.len());
        for (name, type_oid) in columns {
            put_text(out, name.as_bytes());
            // Of no table.
            out.extend_from_slice(&[0; 6]);
            out.extend_from_slice(&type_oid.to_be_bytes());
            let size: i16 = if *type_oid == INT8_OID { 8 } else { -1 };
            out.extend_from_slice(&size.to_be_bytes());
            // No type modifier, text format.
            out.extend_from_slice(&(-1i32).to_be_bytes());
            out.extend_from_slice(&[0; 2]);
        }
    });
}

/// Appends a DataRow; `None` is NULL.
pub fn put_data_row<'v>(
    out: &mut Vec<u8>,
    values: impl IntoIterator<Item = Option<&'v [u8]>, IntoIter: ExactSizeIterator>,
) {
    let values = values.into_iter();
    message(out, tag::DATA_ROW, |out| {
        put_count(out, values.len());
        for value in values {
            let length = value.map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap_or(i32::MAX));
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(value.unwrap_or_default());
        }
    });
}

pub fn put_notification(out: &mut Vec<u8>, process_id: i32, channel: &[u8], payload: &[u8]) {
    message(out, tag::NOTIFICATION_RESPONSE, |out| {
        out.extend_from_slice(&process_id.to_be_bytes());
        put_text(out, channel);
        put_text(out, payload);
    });
}

/// Appends a count; Weir's own rows have a handful of columns.
fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes());
}
