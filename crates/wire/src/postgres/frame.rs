//! Messages as frames: a tag, a length that counts itself, a body ("Message Formats").

/// Bytes before a message's body: the tag and the length.
pub const HEADER_BYTES: usize = 5;

/// What a message's first five bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The byte that names the message's type.
    pub tag: u8,
    /// Bytes of the whole message, tag included.
    pub len: usize,
}

/// One complete message of either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The byte that names the message's type.
    pub tag: u8,
    /// What follows the length.
    pub body: &'a [u8],
    /// The message as it came, tag and length included.
    pub whole: &'a [u8],
}

/// The stream can't be cut into messages any more: the connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length doesn't even count itself.
    #[error("a message's length is below four")]
    TooShort,
    /// The message is longer than is taken.
    #[error("a message of {len} bytes is over the limit of {max}")]
    TooLong {
        /// Its bytes, tag included.
        len: usize,
        /// The limit, tag included.
        max: usize,
    },
}

/// The header at the head of `bytes`; `None`: more bytes are wanted.
///
/// # Errors
/// A length below four, or a message of more than `max` bytes, tag included.
#[inline]
pub fn header(bytes: &[u8], max: usize) -> Result<Option<Header>, FrameError> {
    let Some(&[tag, a, b, c, d]) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    // A negative length reads as one past 2 GiB, which is over any limit.
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if length < 4 {
        return Err(FrameError::TooShort);
    }
    let len = length + 1;
    if len > max {
        return Err(FrameError::TooLong { len, max });
    }
    Ok(Some(Header { tag, len }))
}

/// The message at the head of `bytes`; `None`: more bytes are wanted.
///
/// # Errors
/// As [`header`].
#[inline]
pub fn next(bytes: &[u8], max: usize) -> Result<Option<Frame<'_>>, FrameError> {
    let Some(Header { tag, len }) = header(bytes, max)? else { return Ok(None) };
    let Some(whole) = bytes.get(..len) else { return Ok(None) };
    Ok(Some(Frame { tag, body: &whole[HEADER_BYTES..], whole }))
}
