//! Dubbo's part of a connection that calls share (`HeaderExchangeChannel`): calls have numbers, and
//! heartbeats and read-only events are of the connection.

use wire::dubbo::{
    BODY_BYTES_DEFAULT_MAX, Event, Frame, FrameReader, Header, Kind as FrameKind, Message, Status,
    put_event,
};
use wire::hessian2::Limits;

use super::reader::{ID, malformed};
use crate::workload::{Callers, Malformed, Multiplexing};

/// Answers to heartbeats that wait to be sent; a provider that asks for more is not heard.
const OUT_BYTES_MAX: usize = 8 << 20;

/// The calls and events of one connection.
#[derive(Debug)]
pub struct CallChannel {
    frames: FrameReader,
    /// The provider wants no further calls.
    is_read_only: bool,
}

impl CallChannel {
    /// Of a connection on which nothing has come.
    pub fn boxed() -> Box<dyn Multiplexing> {
        let frames = FrameReader::new(BODY_BYTES_DEFAULT_MAX);
        Box::new(Self { frames, is_read_only: false })
    }
}

impl Multiplexing for CallChannel {
    fn stamp(&self, request: &mut [u8], id: u64) -> u64 {
        let Some(Ok(bytes)) = request.get_mut(ID).map(<&mut [u8; 8]>::try_from) else { return 0 };
        let number = u64::from_be_bytes(*bytes);
        *bytes = id.to_be_bytes();
        number
    }

    fn read(
        &mut self,
        bytes: &[u8],
        callers: &mut dyn Callers,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let mut rest = bytes;
        while let Some(frame) = self.frames.read(&mut rest).map_err(malformed)? {
            match frame.header.kind {
                _ if frame.header.is_event => {
                    self.is_read_only = event(&frame, out)?.unwrap_or(self.is_read_only);
                }
                FrameKind::Request { .. } => {
                    return Err(Malformed("the provider called a method of ours"));
                }
                FrameKind::Response { .. } => {
                    let id = frame.header.id.cast_unsigned();
                    if let Some((number, inbox)) = callers.answered(id) {
                        Header { id: number.cast_signed(), ..frame.header }.put(inbox);
                        inbox.extend_from_slice(frame.body);
                    }
                }
            }
        }
        Ok(())
    }

    fn takes_requests(&self) -> bool {
        !self.is_read_only
    }

    fn heartbeat(&self, id: u64, out: &mut Vec<u8>) {
        put_event(
            out,
            FrameKind::Request { is_two_way: true },
            id.cast_signed(),
            &Event::Heartbeat,
        );
    }
}

/// Answers an event that is to be answered; gives whether the connection is read-only now, where
/// the event says it.
fn event(frame: &Frame<'_>, out: &mut Vec<u8>) -> Result<Option<bool>, Malformed> {
    let message = Message::decode(&frame.header, frame.body, Limits::default());
    let message = message.map_err(|_| Malformed("an event of the connection can't be read"))?;
    let is_asked = matches!(frame.header.kind, FrameKind::Request { is_two_way: true });
    if is_asked && out.len() < OUT_BYTES_MAX {
        let kind = FrameKind::Response { status: Status::Ok };
        put_event(out, kind, frame.header.id, &Event::Heartbeat);
    }
    Ok(match message {
        Message::Event(Event::ReadOnly) => Some(true),
        Message::Event(Event::Writeable) => Some(false),
        _ => None,
    })
}
