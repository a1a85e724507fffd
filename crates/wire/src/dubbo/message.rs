//! What is in a frame's body (`DubboCodec`).

use super::{HESSIAN2, Header, Kind, Status, parameters};
use crate::hessian2::{DecodeError, Decoder, Limits, Map, Value};

/// A frame that has been read.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// A heartbeat or another event of the connection, or the answer to one.
    Event(Event),
    /// A call of a method.
    Request(Request),
    /// The result of a call.
    Response(Response),
    /// An answer without a result.
    Failure {
        /// Any status but [`Status::Ok`].
        status: Status,
        /// What the server says about it; empty where it says nothing.
        message: String,
    },
}

/// What the two sides of a connection tell each other apart from calls.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The connection is alive; one that is two-way is to be answered with another one.
    Heartbeat,
    /// The server is about to stop and wants no further calls.
    ReadOnly,
    /// The server takes calls again; of Dubbo 3.
    Writeable,
    /// A value of any other meaning.
    Other(Value),
}

/// A call, as a server reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// `2.0.2`, or an older or newer one.
    pub protocol_version: String,
    /// The name of the interface, or another path at which the service is exported.
    pub path: String,
    /// `None` where the client sends none.
    pub service_version: Option<String>,
    /// The name of the method.
    pub method: String,
    /// The types of the parameters, as the JVM writes them.
    pub descriptor: String,
    /// As many as the descriptor says.
    pub arguments: Vec<Value>,
    /// Empty where the client sends none.
    pub attachments: Map,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// What the method has returned or thrown.
    pub body: ResponseBody,
    /// A map, for clients that name protocol version 2.0.2 or newer.
    pub attachments: Option<Value>,
}

/// What a method has returned or thrown.
#[derive(Debug, Clone, PartialEq)]
pub enum ResponseBody {
    /// An exception, mostly an object.
    Exception(Value),
    /// A value that is not null.
    Value(Value),
    /// Null, or nothing of a method without a result.
    Null,
}

/// Why a body cannot be read. Frames behind it can.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Another serialization than Hessian 2.0.
    #[error("dubbo: serialization {0} is not supported, only hessian2 (2)")]
    Serialization(u8),
    /// A value of the body cannot be read.
    #[error("dubbo: cannot read {part}: {source}")]
    Value {
        /// What was read, as `the method`.
        part: &'static str,
        /// Its offset counts from the first byte of the body.
        source: DecodeError,
    },
    /// Null stands where something must be.
    #[error("dubbo: {0} is null")]
    Missing(&'static str),
    /// Types of parameters that are none.
    #[error("dubbo: {0:?} is not a descriptor of parameters")]
    Descriptor(String),
    /// Neither a map nor null.
    #[error("dubbo: attachments are not a map")]
    Attachments,
    /// A kind of response beyond 5, or below 0.
    #[error("dubbo: there is no response of kind {0}")]
    ResponseKind(i32),
}

impl Message {
    /// Reads the body of a frame. Bytes behind what was expected are not looked at, as Dubbo does.
    ///
    /// # Errors
    /// The body is not what the header says, or beyond the limits.
    pub fn decode(header: &Header, body: &[u8], limits: Limits) -> Result<Self, MessageError> {
        if header.serialization != HESSIAN2 {
            return Err(MessageError::Serialization(header.serialization));
        }
        let mut decoder = Decoder::new(body, limits);
        match header.kind {
            Kind::Response { status } if status != Status::Ok => {
                let message = decoder.string().map_err(of("the message of a failure"))?;
                Ok(Self::Failure { status, message: message.unwrap_or_default() })
            }
            _ if header.is_event => event(&mut decoder).map(Self::Event),
            Kind::Request { .. } => request(&mut decoder).map(Self::Request),
            Kind::Response { .. } => response(&mut decoder).map(Self::Response),
        }
    }
}

fn of(part: &'static str) -> impl Fn(DecodeError) -> MessageError {
    move |source| MessageError::Value { part, source }
}

/// Some versions answer a heartbeat with an empty body.
fn event(decoder: &mut Decoder<'_>) -> Result<Event, MessageError> {
    if decoder.rest().is_empty() {
        return Ok(Event::Heartbeat);
    }
    let value = decoder.value().map_err(of("an event"))?;
    Ok(match (&value, value.as_str()) {
        (Value::Null, _) => Event::Heartbeat,
        (_, Some("R")) => Event::ReadOnly,
        (_, Some("W")) => Event::Writeable,
        _ => Event::Other(value),
    })
}

fn request(decoder: &mut Decoder<'_>) -> Result<Request, MessageError> {
    let protocol_version = text(decoder, "the protocol version")?;
    let path = text(decoder, "the path")?;
    let service_version = decoder.string().map_err(of("the service version"))?;
    let method = text(decoder, "the method")?;
    let descriptor = text(decoder, "the descriptor")?;
    let Some(count) = parameters(&descriptor) else {
        return Err(MessageError::Descriptor(descriptor));
    };
    // Each of them has at least one byte.
    let mut arguments = Vec::with_capacity(count.min(decoder.rest().len()));
    for _ in 0..count {
        arguments.push(decoder.value().map_err(of("an argument"))?);
    }
    let attachments = match decoder.value().map_err(of("the attachments"))? {
        Value::Map(map) => map,
        Value::Null => Map::default(),
        _ => return Err(MessageError::Attachments),
    };
    Ok(Request {
        protocol_version,
        path,
        service_version,
        method,
        descriptor,
        arguments,
        attachments,
    })
}

fn text(decoder: &mut Decoder<'_>, part: &'static str) -> Result<String, MessageError> {
    decoder.string().map_err(of(part))?.ok_or(MessageError::Missing(part))
}

fn response(decoder: &mut Decoder<'_>) -> Result<Response, MessageError> {
    let kind = decoder.int().map_err(of("the kind of a response"))?;
    let body = match kind {
        0 | 3 => ResponseBody::Exception(decoder.value().map_err(of("an exception"))?),
        1 | 4 => ResponseBody::Value(decoder.value().map_err(of("a result"))?),
        2 | 5 => ResponseBody::Null,
        _ => return Err(MessageError::ResponseKind(kind)),
    };
    let attachments = match kind {
        3.. => Some(decoder.value().map_err(of("the attachments"))?),
        _ => None,
    };
    match attachments {
        None | Some(Value::Map(_) | Value::Null) => Ok(Response { body, attachments }),
        Some(_) => Err(MessageError::Attachments),
    }
}
