//! Cutting what a client sends into rounds.
//!
//! A round is what one ReadyForQuery answers: a Query, a FunctionCall, or the messages of the
//! extended protocol up to a Sync. A round that is whole can be judged and sent as one; what needs
//! an answer before its Sync (Flush), or is too long to be held, needs a server of its own.
//! PostgreSQL documentation, "Message Flow".

use wire::postgres::frame::{self, Frame, Header};

/// The longest round that is held until it is whole; longer ones go out as they come.
pub const HELD_MAX: usize = 64 * 1024;

/// What stands at the start of a client's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// More bytes are wanted.
    More,
    /// A whole Query of this length.
    Query(usize),
    /// Whole messages of the extended protocol, the last of them a Sync.
    Extended(usize),
    /// A message that has to be dealt with as it comes, or the beginning of a round that can't be
    /// held.
    Stream,
    /// A Sync alone.
    Sync(usize),
    /// A message that says nothing here: a Flush, or what is left of a COPY that failed.
    Nothing(usize),
    /// The client says goodbye.
    Terminate,
    /// No message of the protocol, or a length that none has.
    Garbage,
}

/// What stands at the start of `bytes`; a message may have `message_max` bytes.
pub fn cut(bytes: &[u8], message_max: usize) -> Cut {
    let Header { tag, len } = match frame::header(bytes, message_max) {
        Ok(Some(header)) => header,
        Ok(None) => return Cut::More,
        Err(_) => return Cut::Garbage,
    };
    let whole = bytes.len() >= len;
    match tag {
        // One that is longer is looked into elsewhere, which takes its time.
        b'Q' if whole && len <= HELD_MAX => Cut::Query(len),
        b'Q' if len <= HELD_MAX => Cut::More,
        b'P' | b'B' | b'D' | b'E' | b'C' => extended(bytes, message_max),
        b'S' if whole => Cut::Sync(len),
        b'H' | b'c' | b'f' if whole => Cut::Nothing(len),
        b'S' | b'H' | b'c' | b'f' | b'd' if len <= HELD_MAX && !whole => Cut::More,
        b'd' if whole => Cut::Nothing(len),
        b'X' => Cut::Terminate,
        b'Q' | b'F' | b'd' => Cut::Stream,
        _ => Cut::Garbage,
    }
}

fn extended(bytes: &[u8], message_max: usize) -> Cut {
    let mut at = 0;
    loop {
        let Header { tag, len } = match frame::header(&bytes[at..], message_max) {
            Ok(Some(header)) => header,
            Ok(None) => break,
            // What comes before it is still to be answered.
            Err(_) => return if at == 0 { Cut::Garbage } else { Cut::Stream },
        };
        match tag {
            b'P' | b'B' | b'D' | b'E' | b'C' | b'S' => {}
            _ => return Cut::Stream,
        }
        at += len;
        if at > bytes.len() {
            return if at <= HELD_MAX { Cut::More } else { Cut::Stream };
        }
        if tag == b'S' {
            return Cut::Extended(at);
        }
    }
    if bytes.len() > HELD_MAX { Cut::Stream } else { Cut::More }
}

/// The whole messages at the start of `bytes`.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let frame = frame::next(rest, usize::MAX).ok()??;
        rest = &rest[frame.whole.len()..];
        Some(frame)
    })
}

/// Whether the last message in `bytes` has begun and is not whole.
pub fn ends_within(bytes: &[u8]) -> bool {
    let whole: usize = messages(bytes).map(|message| message.whole.len()).sum();
    whole < bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::postgres::message;

    fn of(parts: &[(u8, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (tag, body) in parts {
            message(&mut out, *tag, |out| out.extend_from_slice(body));
        }
        out
    }

    #[test]
    fn rounds_are_cut_where_the_server_answers() {
        let query = of(&[(b'Q', b"select 1\0"), (b'X', b"")]);
        assert_eq!(cut(&query, 1 << 20), Cut::Query(14));
        assert_eq!(cut(&query[..13], 1 << 20), Cut::More);
        assert_eq!(cut(&query[14..], 1 << 20), Cut::Terminate);
        let round = of(&[(b'P', b"\0select 1\0\0\0"), (b'B', b"\0\0"), (b'S', b"")]);
        assert_eq!(cut(&round, 1 << 20), Cut::Extended(round.len()));
        assert_eq!(cut(&round[..round.len() - 1], 1 << 20), Cut::More);
    }

    #[test]
    fn what_needs_an_answer_before_its_end_is_streamed() {
        let flushed = of(&[(b'P', b"\0select 1\0\0\0"), (b'H', b"")]);
        assert_eq!(cut(&flushed, 1 << 20), Cut::Stream);
        let long = of(&[(b'Q', &[b' '; HELD_MAX])]);
        assert_eq!(cut(&long[..100], 1 << 20), Cut::Stream);
        assert_eq!(cut(&long, 1 << 20), Cut::Stream);
        assert_eq!(cut(&long, HELD_MAX), Cut::Garbage);
    }

    #[test]
    fn the_last_message_is_whole_or_is_not() {
        let two = of(&[(b'P', b"\0select 1\0\0\0"), (b'S', b"")]);
        assert!(!ends_within(&[]) && !ends_within(&two));
        assert!((1..two.len()).filter(|len| !ends_within(&two[..*len])).eq([two.len() - 5]));
    }

    #[test]
    fn garbage_is_garbage() {
        assert_eq!(cut(b"GET / HTTP/1.1\r\n", 1 << 30), Cut::Garbage);
        assert_eq!(cut(&[b'Q', 0, 0, 0, 3], 1 << 20), Cut::Garbage);
        assert_eq!(cut(&[b'Q', 0, 0], 1 << 20), Cut::More);
        assert_eq!(cut(&[0xff; 9], 1 << 20), Cut::Garbage);
    }
}
