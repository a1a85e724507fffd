//! The 16 bytes before each body (`ExchangeCodec`).

use super::Status;

/// Bytes of a header: magic, flags, status, the request's number, and the body's length.
pub const HEADER_BYTES: usize = 16;

/// Dubbo's own limit of a body (`payload`, 8 MiB), where nothing else is set.
pub const BODY_BYTES_DEFAULT_MAX: u32 = 8 << 20;

/// The number of Hessian 2.0 among Dubbo's serializations.
pub const HESSIAN2: u8 = 2;

const MAGIC: [u8; 2] = [0xda, 0xbb];
const REQUEST: u8 = 0x80;
const TWO_WAY: u8 = 0x40;
const EVENT: u8 = 0x20;
const SERIALIZATION: u8 = 0x1f;

/// Which way a frame goes, and what only that way has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A call, or an event of either side.
    Request {
        /// A response is wanted.
        is_two_way: bool,
    },
    /// The answer to a request with the same number.
    Response {
        /// Whether the body is a result.
        status: Status,
    },
}

/// What stands before a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Request or response, and what only one of them has.
    pub kind: Kind,
    /// A heartbeat or another event of the connection, rather than a call.
    pub is_event: bool,
    /// How the body is written: [`HESSIAN2`] or another number up to 31.
    pub serialization: u8,
    /// The number of the request, which its response repeats.
    pub id: i64,
    /// Bytes of the body.
    pub body_length: u32,
}

/// Why a stream cannot be cut into frames any more: the connection is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The two bytes with which each frame begins.
    #[error("dubbo: a frame begins with {0:#04x} {1:#04x} instead of 0xda 0xbb")]
    BadMagic(u8, u8),
    /// The body is longer than is taken.
    #[error("dubbo: a body of {length} bytes is over the limit of {max}")]
    BodyTooLong {
        /// Bytes of the body; a negative length reads as one past 2 GiB.
        length: u32,
        /// The limit in bytes.
        max: u32,
    },
}

impl Header {
    /// Reads the header at the front; `None`: more bytes are wanted.
    ///
    /// # Errors
    /// A frame begins otherwise, which the first byte may tell, or its body is over the limit.
    pub fn parse(bytes: &[u8], body_bytes_max: u32) -> Result<Option<Self>, FrameError> {
        let begins = bytes.iter().zip(MAGIC).all(|(byte, magic)| *byte == magic);
        if !begins {
            let at = |at: usize| bytes.get(at).copied().unwrap_or(0);
            return Err(FrameError::BadMagic(at(0), at(1)));
        }
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let [_, _, flags, status, rest @ ..] = *header;
        let [a, b, c, d, e, f, g, h, i, j, k, l] = rest;
        let body_length = u32::from_be_bytes([i, j, k, l]);
        if body_length > body_bytes_max.min(i32::MAX.cast_unsigned()) {
            return Err(FrameError::BodyTooLong { length: body_length, max: body_bytes_max });
        }
        let kind = match flags & REQUEST {
            0 => Kind::Response { status: Status::from_byte(status) },
            _ => Kind::Request { is_two_way: flags & TWO_WAY != 0 },
        };
        Ok(Some(Self {
            kind,
            is_event: flags & EVENT != 0,
            serialization: flags & SERIALIZATION,
            id: i64::from_be_bytes([a, b, c, d, e, f, g, h]),
            body_length,
        }))
    }

    /// Appends the header's bytes.
    pub fn put(&self, out: &mut Vec<u8>) {
        let (mut flags, status) = match self.kind {
            Kind::Request { is_two_way: true } => (REQUEST | TWO_WAY, 0),
            Kind::Request { is_two_way: false } => (REQUEST, 0),
            Kind::Response { status } => (0, status.byte()),
        };
        if self.is_event {
            flags |= EVENT;
        }
        flags |= self.serialization & SERIALIZATION;
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[flags, status]);
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(&self.body_length.to_be_bytes());
    }

    /// Bytes of the frame, header and body.
    pub fn frame_length(&self) -> usize {
        HEADER_BYTES.saturating_add(usize::try_from(self.body_length).unwrap_or(usize::MAX))
    }
}
