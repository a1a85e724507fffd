//! A client that reads what a provider answers, which `weir load` only counts.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rig::wait;
use wire::dubbo::{
    Arguments, BODY_BYTES_DEFAULT_MAX, FrameReader, Kind, Message, RequestBody, ResponseBody,
    descriptor_of, put_request,
};
use wire::hessian2::{Class, Encoder, Limits, Object, Value};

/// A connection on which one call is made after the other.
pub struct DirectClient {
    stream: TcpStream,
    service: &'static str,
    frames: FrameReader,
    encoder: Encoder,
}

impl DirectClient {
    pub fn connect(address: SocketAddr, service: &'static str) -> Self {
        let stream = TcpStream::connect(address).expect("the provider listens");
        stream.set_read_timeout(Some(wait::LONG)).expect("a timeout that is not 0");
        let frames = FrameReader::new(BODY_BYTES_DEFAULT_MAX);
        Self { stream, service, frames, encoder: Encoder::default() }
    }

    /// The value that a method returns, where its arguments are these in the provider's words.
    #[track_caller]
    pub fn value(
        &mut self,
        method: &str,
        types: &[&str],
        arguments: &[Value],
        expected: Option<&str>,
    ) -> Value {
        match self.call(method, types, arguments, expected) {
            ResponseBody::Value(value) => value,
            ResponseBody::Null => Value::Null,
            ResponseBody::Exception(thrown) => panic!("{method} has thrown {thrown:?}"),
        }
    }

    /// What a method throws.
    #[track_caller]
    pub fn exception(&mut self, method: &str, types: &[&str], arguments: &[Value]) -> Object {
        match self.call(method, types, arguments, None) {
            ResponseBody::Exception(Value::Object(thrown)) => thrown,
            other => panic!("{method} has returned {other:?}"),
        }
    }

    #[track_caller]
    fn call(
        &mut self,
        method: &str,
        types: &[&str],
        arguments: &[Value],
        expected: Option<&str>,
    ) -> ResponseBody {
        const ID: i64 = 7;
        let mut attachments = vec![("path", self.service), ("interface", self.service)];
        attachments.extend(expected.map(|words| ("expected", words)));
        let body = RequestBody {
            path: self.service,
            service_version: "0.0.0",
            method,
            descriptor: &descriptor_of(types.iter().copied()),
            arguments: Arguments::Values(arguments),
            attachments: &attachments,
        };
        let mut out = Vec::new();
        put_request(&mut out, &mut self.encoder, ID, true, &body);
        self.stream.write_all(&out).expect("the provider reads");
        let mut chunk = vec![0; 64 << 10];
        loop {
            let length = self.stream.read(&mut chunk).expect("an answer");
            assert!(length > 0, "{method}: the provider has closed the connection");
            let mut piece = &chunk[..length];
            while let Some(frame) = self.frames.read(&mut piece).expect("a frame") {
                let header = frame.header;
                if header.is_event || !matches!(header.kind, Kind::Response { .. }) {
                    continue;
                }
                assert_eq!(header.id, ID, "{method}");
                match Message::decode(&header, frame.body, Limits::default()) {
                    Ok(Message::Response(response)) => return response.body,
                    other => panic!("{method}: {other:?}"),
                }
            }
        }
    }
}

/// An object of this class with these fields.
pub fn object<'a>(class: &str, fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let (fields, values) = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).unzip();
    Value::Object(Object { class: Arc::new(Class { name: class.to_owned(), fields }), values })
}

/// A field that is a text.
#[track_caller]
pub fn text_of<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).expect("a text")
}

/// A field that is a date, in milliseconds since 1970.
#[track_caller]
pub fn date_of(object: &Object, field: &str) -> i64 {
    match object.get(field) {
        Some(Value::Date(millis)) => *millis,
        other => panic!("{field} is {other:?}"),
    }
}
