//! Requests and replies as the kernel has them (`linux/fuse.h`): little structures of numbers in
//! the machine's own order.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;

/// No such request is known.
pub const ENOSYS: i32 = 38;
const EINVAL: i32 = 22;
const EIO: i32 = 5;

/// Bytes before each request, and before each reply.
const REQUEST_HEAD: usize = 40;
const REPLY_HEAD: usize = 16;
/// For so many seconds the kernel need not ask again: nobody else changes anything.
const VALID_SECONDS: u64 = 1;

/// Request codes of FUSE (`linux/fuse.h`).
pub mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const RENAME2: u32 = 45;
}

/// What the kernel asks.
pub struct Request<'a> {
    pub opcode: u32,
    /// The file or directory that it is about.
    pub node: u64,
    unique: u64,
    body: &'a [u8],
}

fn short() -> io::Error {
    io::Error::from_raw_os_error(EINVAL)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> io::Result<[u8; N]> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or_else(short)
}

impl<'a> Request<'a> {
    /// Reads one.
    ///
    /// # Errors
    /// It is too short.
    pub fn read(bytes: &'a [u8]) -> io::Result<Self> {
        Ok(Self {
            opcode: u32::from_ne_bytes(field(bytes, 4)?),
            unique: u64::from_ne_bytes(field(bytes, 8)?),
            node: u64::from_ne_bytes(field(bytes, 16)?),
            body: bytes.get(REQUEST_HEAD..).ok_or_else(short)?,
        })
    }

    /// Whether the kernel waits for a reply.
    pub fn is_answered(&self) -> bool {
        !matches!(self.opcode, opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT)
    }

    /// A number of 32 bits.
    ///
    /// # Errors
    /// The request is too short, as of all of these.
    pub fn u32(&self, at: usize) -> io::Result<u32> {
        Ok(u32::from_ne_bytes(field(self.body, at)?))
    }

    /// A number of 64 bits.
    ///
    /// # Errors
    /// As of [`u32`](Self::u32).
    pub fn u64(&self, at: usize) -> io::Result<u64> {
        Ok(u64::from_ne_bytes(field(self.body, at)?))
    }

    /// A name, which ends with a zero.
    ///
    /// # Errors
    /// As of [`u32`](Self::u32).
    pub fn name(&self, at: usize) -> io::Result<&'a str> {
        let rest = self.body.get(at..).ok_or_else(short)?;
        let end = rest.iter().position(|byte| *byte == 0).ok_or_else(short)?;
        std::str::from_utf8(&rest[..end]).map_err(|_| short())
    }

    /// So many bytes.
    ///
    /// # Errors
    /// As of [`u32`](Self::u32).
    pub fn rest(&self, at: usize, len: usize) -> io::Result<&'a [u8]> {
        self.body.get(at..at + len).ok_or_else(short)
    }

    /// The whole reply to it.
    pub fn reply(&self, answer: io::Result<Body>) -> Vec<u8> {
        let (error, body) = match answer {
            Ok(body) => (0, body),
            Err(error) => (-error.raw_os_error().unwrap_or(EIO), Body::default()),
        };
        let len = (REPLY_HEAD + body.0.len()) as u32;
        let mut reply = len.to_ne_bytes().to_vec();
        reply.extend_from_slice(&error.to_ne_bytes());
        reply.extend_from_slice(&self.unique.to_ne_bytes());
        reply.extend_from_slice(&body.0);
        reply
    }
}

/// What is answered, without its head.
#[derive(Default)]
pub struct Body(Vec<u8>);

impl Body {
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Adds a number of 16 bits.
    #[must_use]
    pub fn u16(self, number: u16) -> Self {
        self.bytes(&number.to_ne_bytes())
    }

    /// Adds a number of 32 bits.
    #[must_use]
    pub fn u32(self, number: u32) -> Self {
        self.bytes(&number.to_ne_bytes())
    }

    /// Adds a number of 64 bits.
    #[must_use]
    pub fn u64(self, number: u64) -> Self {
        self.bytes(&number.to_ne_bytes())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The node of an entry.
    pub fn node(&self) -> u64 {
        field(&self.0, 0).map_or(0, u64::from_ne_bytes)
    }

    /// The answer to `INIT`: writes of more than a page.
    pub fn init(write_bytes_max: u32) -> Self {
        const BIG_WRITES: u32 = 1 << 5;
        const MAX_PAGES: u32 = 1 << 22;
        let head = Self::default().u32(7).u32(31).u32(1 << 17).u32(BIG_WRITES | MAX_PAGES);
        let head = head.u16(16).u16(12).u32(write_bytes_max).u32(1);
        let pages = u16::try_from(write_bytes_max >> 12).unwrap_or(u16::MAX);
        head.u16(pages).u16(0).bytes(&[0; 32])
    }

    /// The answer to `STATFS`: much room.
    pub fn statfs() -> Self {
        let blocks = Self::default().u64(1 << 30).u64(1 << 30).u64(1 << 30);
        blocks.u64(1 << 20).u64(1 << 20).u32(4096).u32(255).u32(4096).bytes(&[0; 28])
    }

    /// A node and what it is.
    pub fn entry(node: u64, of: &Metadata) -> Self {
        let head = Self::default().u64(node).u64(0).u64(VALID_SECONDS).u64(VALID_SECONDS);
        head.u64(0).attributes(node, of)
    }

    /// What a node is.
    pub fn of_node(node: u64, of: &Metadata) -> Self {
        Self::default().u64(VALID_SECONDS).u64(0).attributes(node, of)
    }

    fn attributes(self, node: u64, of: &Metadata) -> Self {
        let time = |seconds: i64| seconds.unsigned_abs();
        self.u64(node)
            .u64(of.len())
            .u64(of.blocks())
            .u64(time(of.atime()))
            .u64(time(of.mtime()))
            .u64(time(of.ctime()))
            .u64(0)
            .u32(0)
            .u32(of.mode())
            .u32(u32::try_from(of.nlink()).unwrap_or(u32::MAX))
            .u64(0)
            .u32(0)
            .u32(4096)
            .u32(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Body, Request};

    #[test]
    fn replies_are_as_long_as_the_kernel_wants_them() {
        let of = std::fs::metadata(".").unwrap();
        assert_eq!(Body::init(1 << 20).as_bytes().len(), 64);
        assert_eq!(Body::statfs().as_bytes().len(), 80);
        assert_eq!(Body::entry(1, &of).as_bytes().len(), 128);
        assert_eq!(Body::of_node(1, &of).as_bytes().len(), 104);
    }

    #[test]
    fn a_request_is_read_and_a_short_one_is_refused() {
        let mut bytes = vec![0; 40];
        bytes[4] = 12;
        bytes[16] = 7;
        bytes.extend_from_slice(b"\x09\0\0\0\0\0\0\0from\0to\0");
        let request = Request::read(&bytes).unwrap();
        assert_eq!((request.opcode, request.node, request.u64(0).unwrap()), (12, 7, 9));
        assert_eq!((request.name(8).unwrap(), request.name(13).unwrap()), ("from", "to"));
        assert!(
            request.name(16).is_err() && request.u32(14).is_err() && request.rest(0, 99).is_err()
        );
        assert!(Request::read(&bytes[..39]).is_err());
    }
}
