//! Appends frames to a buffer.

use std::sync::Arc;

use super::{Event, HEADER_BYTES, HESSIAN2, Header, Kind, Response, ResponseBody, Status};
use crate::hessian2::{self, Encoder, Value};

/// The version of the protocol that a request names. From it a server knows that the client
/// understands attachments of a response.
pub const PROTOCOL_VERSION: &str = "2.0.2";

/// The method that calls any other by its name (`GenericService`).
pub const GENERIC_METHOD: &str = "$invoke";

/// The parameters of [`GENERIC_METHOD`]: the method, the names of its types, its arguments.
pub const GENERIC_DESCRIPTOR: &str = "Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;";

/// A call, as it is sent.
#[derive(Debug, Clone, Copy)]
pub struct RequestBody<'a> {
    /// The name of the interface, or another path at which the service is exported.
    pub path: &'a str,
    /// `0.0.0` where a service has no version.
    pub service_version: &'a str,
    /// The name of the method.
    pub method: &'a str,
    /// The types of the parameters, as the JVM writes them.
    pub descriptor: &'a str,
    /// One for each parameter.
    pub arguments: Arguments<'a>,
    /// As `path`, `interface`, `version`, `group` and `timeout`; `generic` is `true` for a generic
    /// call.
    pub attachments: &'a [(&'a str, &'a str)],
}

/// The arguments of a call.
#[derive(Debug, Clone, Copy)]
pub enum Arguments<'a> {
    /// Values that are written for this call.
    Values(&'a [Value]),
    /// All of them one after another, as an encoder has written them that began with the first.
    Encoded(&'a [u8]),
}

/// Appends the header of a frame. Whatever is appended next is the body, until [`end_frame`] is
/// called with the number that this gives.
pub fn begin_frame(out: &mut Vec<u8>, kind: Kind, is_event: bool, id: i64) -> usize {
    let at = out.len();
    Header { kind, is_event, serialization: HESSIAN2, id, body_length: 0 }.put(out);
    at
}

/// Writes the length of the body into the header at `begin`. Gives the length; whether the other
/// side takes as much is for the caller to say.
pub fn end_frame(out: &mut [u8], begin: usize) -> u32 {
    let body = out.len().saturating_sub(begin.saturating_add(HEADER_BYTES));
    let length = u32::try_from(body).unwrap_or(u32::MAX);
    if let Some(bytes) = out.get_mut(begin + 12..begin + HEADER_BYTES) {
        bytes.copy_from_slice(&length.to_be_bytes());
    }
    length
}

/// Appends a call; the encoder is reset first. Gives the bytes of the body.
pub fn put_request(
    out: &mut Vec<u8>,
    encoder: &mut Encoder,
    id: i64,
    is_two_way: bool,
    body: &RequestBody<'_>,
) -> u32 {
    let begin = begin_frame(out, Kind::Request { is_two_way }, false, id);
    encoder.reset();
    for text in [PROTOCOL_VERSION, body.path, body.service_version, body.method, body.descriptor] {
        hessian2::put_string(out, text);
    }
    match body.arguments {
        Arguments::Values(values) => values.iter().for_each(|value| encoder.value(out, value)),
        Arguments::Encoded(bytes) => out.extend_from_slice(bytes),
    }
    encoder.begin_map(out, None);
    for (name, value) in body.attachments {
        hessian2::put_string(out, name);
        hessian2::put_string(out, value);
    }
    encoder.end_map(out);
    end_frame(out, begin)
}

/// Appends the three arguments of [`GENERIC_METHOD`]: the method, the Java names of its parameter
/// types, and the arguments, in which a bean is a map with its name under `class`. They are for
/// [`Arguments::Encoded`]; the encoder must be new or reset. References in the arguments count two
/// lists before the first argument: the list of types is 0, the one of arguments 1.
pub fn put_generic_arguments(
    out: &mut Vec<u8>,
    encoder: &mut Encoder,
    method: &str,
    types: &[&str],
    arguments: &[Value],
) {
    let (strings, objects) = (Arc::from("[string"), Arc::from("[object"));
    hessian2::put_string(out, method);
    encoder.begin_list(out, Some(&strings), types.len());
    types.iter().for_each(|name| hessian2::put_string(out, name));
    encoder.begin_list(out, Some(&objects), arguments.len());
    arguments.iter().for_each(|argument| encoder.value(out, argument));
}

/// Appends a heartbeat or another event, or the answer to one. Gives the bytes of the body.
pub fn put_event(out: &mut Vec<u8>, kind: Kind, id: i64, event: &Event) -> u32 {
    let begin = begin_frame(out, kind, true, id);
    match event {
        Event::Heartbeat => hessian2::put_null(out),
        Event::ReadOnly => hessian2::put_string(out, "R"),
        Event::Writeable => hessian2::put_string(out, "W"),
        Event::Other(value) => Encoder::default().value(out, value),
    }
    end_frame(out, begin)
}

/// Appends the answer to a call; the encoder is reset first. Gives the bytes of the body.
pub fn put_response(out: &mut Vec<u8>, encoder: &mut Encoder, id: i64, response: &Response) -> u32 {
    let begin = begin_frame(out, Kind::Response { status: Status::Ok }, false, id);
    encoder.reset();
    let (kind, value) = match &response.body {
        ResponseBody::Exception(value) => (0, Some(value)),
        ResponseBody::Value(value) => (1, Some(value)),
        ResponseBody::Null => (2, None),
    };
    let with_attachments = if response.attachments.is_some() { 3 } else { 0 };
    hessian2::put_int(out, kind + with_attachments);
    for value in value.into_iter().chain(&response.attachments) {
        encoder.value(out, value);
    }
    end_frame(out, begin)
}

/// Appends an answer that is not a result: any status but [`Status::Ok`], and why. Gives the bytes
/// of the body.
pub fn put_failure(out: &mut Vec<u8>, id: i64, status: Status, message: &str) -> u32 {
    let begin = begin_frame(out, Kind::Response { status }, false, id);
    hessian2::put_string(out, message);
    end_frame(out, begin)
}
