//! Where a chunked body ends (RFC 9112, section 7.1).

use crate::workload::Malformed;

/// Bytes of chunk extensions, or of trailers, that a body may have in all.
const BESIDE_MAX: u32 = 64 * 1024;
/// Digits of a chunk's size.
const DIGITS_MAX: u8 = 15;

/// Where in a chunked body the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    place: ChunkState,
    /// Bytes so far that are neither sizes nor data.
    beside: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    /// In a size, after so many digits.
    Size { size: u64, digits: u8 },
    /// Behind a size, until the end of its line.
    Extension { size: u64 },
    /// So many bytes of the chunk are to come.
    Data(u64),
    /// Behind a chunk's data, before the end of its line.
    DataEnd,
    /// In the trailers; whether the line so far is empty.
    Trailer { is_empty: bool },
}

impl Default for Chunks {
    fn default() -> Self {
        Self { place: ChunkState::Size { size: 0, digits: 0 }, beside: 0 }
    }
}

impl Chunks {
    /// Takes in what has come, and hands on its data; how many bytes of it are the body's, once
    /// that is whole.
    pub fn read(
        &mut self,
        bytes: &[u8],
        mut data: impl FnMut(&[u8]),
    ) -> Result<Option<usize>, Malformed> {
        let mut at = 0;
        while at < bytes.len() {
            if let ChunkState::Data(left) = &mut self.place {
                let len = (*left).min((bytes.len() - at) as u64);
                *left -= len;
                data(&bytes[at..at + len as usize]);
                at += len as usize;
                if *left == 0 {
                    self.place = ChunkState::DataEnd;
                }
                continue;
            }
            let ended = self.step(bytes[at])?;
            at += 1;
            if ended {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Takes a byte that is not a data; whether it ends the body.
    fn step(&mut self, byte: u8) -> Result<bool, Malformed> {
        self.place = match (self.place, byte) {
            (ChunkState::Size { size, digits }, _) => match char::from(byte).to_digit(16) {
                Some(digit) if digits < DIGITS_MAX => {
                    ChunkState::Size { size: size * 16 + u64::from(digit), digits: digits + 1 }
                }
                None if digits > 0 && b"\r\n; \t".contains(&byte) => line_end(size, byte),
                _ => return Err(Malformed("the size of a chunk is not a number")),
            },
            (ChunkState::Extension { size }, _) => {
                self.count()?;
                line_end(size, byte)
            }
            (ChunkState::DataEnd, b'\r') => ChunkState::DataEnd,
            (ChunkState::DataEnd, b'\n') => ChunkState::Size { size: 0, digits: 0 },
            (ChunkState::DataEnd, _) => return Err(Malformed("a chunk is longer than it says")),
            (ChunkState::Trailer { is_empty: true }, b'\n') => return Ok(true),
            (ChunkState::Trailer { .. }, b'\n') => ChunkState::Trailer { is_empty: true },
            (ChunkState::Trailer { is_empty }, _) => {
                self.count()?;
                ChunkState::Trailer { is_empty: is_empty && byte == b'\r' }
            }
            (ChunkState::Data(left), _) => ChunkState::Data(left),
        };
        Ok(false)
    }

    fn count(&mut self) -> Result<(), Malformed> {
        self.beside += 1;
        if self.beside > BESIDE_MAX {
            return Err(Malformed("chunk extensions or trailers are over 64 KiB"));
        }
        Ok(())
    }
}

fn line_end(size: u64, byte: u8) -> ChunkState {
    match (byte, size) {
        (b'\n', 0) => ChunkState::Trailer { is_empty: true },
        (b'\n', _) => ChunkState::Data(size),
        _ => ChunkState::Extension { size },
    }
}
