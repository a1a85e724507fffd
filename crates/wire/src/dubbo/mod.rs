//! Dubbo 2's protocol with Hessian 2.0 in its bodies, as pure functions over bytes.
//!
//! [`FrameReader`] cuts frames out of what a connection reads; [`Message::decode`] reads one.
//! [`put_request`], [`put_response`] and [`put_event`] append a whole frame to a buffer, and
//! allocate nothing where the buffer and the encoder have been used for one as large before.
//! Names are those of Dubbo's `ExchangeCodec`, `DubboCodec` and `Response`.

mod descriptor;
mod frame;
mod message;
mod put;
mod reader;
mod status;
#[cfg(test)]
mod tests;

pub use descriptor::{descriptor_of, parameters};
pub use frame::{BODY_BYTES_DEFAULT_MAX, FrameError, HEADER_BYTES, HESSIAN2, Header, Kind};
pub use message::{Event, Message, MessageError, Request, Response, ResponseBody};
pub use put::{
    Arguments, GENERIC_DESCRIPTOR, GENERIC_METHOD, PROTOCOL_VERSION, RequestBody, begin_frame,
    end_frame, put_event, put_failure, put_generic_arguments, put_request, put_response,
};
pub use reader::{Frame, FrameReader};
pub use status::Status;
