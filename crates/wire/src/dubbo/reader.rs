//! Cuts frames out of a stream.

use super::{FrameError, HEADER_BYTES, Header};

/// A larger buffer is not kept for the next frame.
const RETAINED_BYTES_MAX: usize = 1 << 20;

/// A frame with its whole body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What its first 16 bytes say.
    pub header: Header,
    /// As many bytes as the header says.
    pub body: &'a [u8],
}

/// Cuts frames out of the pieces in which a stream comes. A frame that lies in one piece is not
/// copied; of others each byte is copied once.
#[derive(Debug)]
pub struct FrameReader {
    body_bytes_max: u32,
    /// The front of a frame of which more is to come, or a frame that has been given out.
    partial: Vec<u8>,
    /// The header of the partial frame, once there is one.
    header: Option<Header>,
    /// What is in `partial` has been given out.
    is_given: bool,
}

impl FrameReader {
    /// Begins at the front of a stream; bodies of more bytes are refused.
    pub fn new(body_bytes_max: u32) -> Self {
        Self { body_bytes_max, partial: Vec::new(), header: None, is_given: false }
    }

    /// Takes the next frame from the front of a piece; `None`: the piece has been taken whole, and
    /// the frame goes on.
    ///
    /// # Errors
    /// What comes is not a frame, or one beyond the limit. The stream cannot be read any further.
    pub fn read<'a, 'p: 'a>(
        &'a mut self,
        piece: &mut &'p [u8],
    ) -> Result<Option<Frame<'a>>, FrameError> {
        if self.is_given {
            self.forget();
        }
        if self.partial.is_empty() {
            let Some(header) = Header::parse(piece, self.body_bytes_max)? else {
                self.take(piece, piece.len());
                return Ok(None);
            };
            if let Some((frame, rest)) = piece.split_at_checked(header.frame_length()) {
                *piece = rest;
                return Ok(Some(frame_of(header, frame)));
            }
            self.header = Some(header);
        }
        if self.header.is_none() {
            self.take(piece, HEADER_BYTES - self.partial.len());
            self.header = Header::parse(&self.partial, self.body_bytes_max)?;
        }
        let Some(header) = self.header else { return Ok(None) };
        self.take(piece, self.wanted());
        if self.wanted() > 0 {
            return Ok(None);
        }
        self.is_given = true;
        Ok(Some(frame_of(header, &self.partial)))
    }

    /// How many bytes are certainly wanted before there is a frame: those that its header or its
    /// body lacks.
    pub fn wanted(&self) -> usize {
        if self.is_given {
            return HEADER_BYTES;
        }
        let whole = self.header.map_or(HEADER_BYTES, |header| header.frame_length());
        whole.saturating_sub(self.partial.len())
    }

    /// Whether a frame has begun and goes on: a stream that ends here was cut off.
    pub fn is_within_a_frame(&self) -> bool {
        !self.is_given && !self.partial.is_empty()
    }

    /// Moves so many bytes from the piece, or as many as there are.
    fn take(&mut self, piece: &mut &[u8], length: usize) {
        let (taken, rest) = piece.split_at(length.min(piece.len()));
        self.partial.extend_from_slice(taken);
        *piece = rest;
    }

    fn forget(&mut self) {
        if self.partial.capacity() > RETAINED_BYTES_MAX {
            self.partial = Vec::new();
        }
        self.partial.clear();
        self.header = None;
        self.is_given = false;
    }
}

fn frame_of(header: Header, frame: &[u8]) -> Frame<'_> {
    Frame { header, body: frame.get(HEADER_BYTES..).unwrap_or_default() }
}
