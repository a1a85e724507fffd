//! Where the RDB file that a master sends ends, and whether it is what was written.

use super::crc64;
use super::stream::decimal;

/// As long as the mark that ends a file whose length the master does not know.
const MARK_LEN: usize = 40;
/// The checksum at a file's end.
const SUM_LEN: usize = 8;
/// The magic word and the version at its beginning.
const MAGIC_LEN: usize = 9;
/// How much of the beginning is kept: what a server says of itself before the first key is less.
pub const HEAD_LEN: usize = 1 << 10;
/// What a server says of itself: a name and a value follow (`rdb.h`, `RDB_OPCODE_AUX`).
const AUX: u8 = 0xfa;
/// The file's end (`RDB_OPCODE_EOF`).
const EOF: u8 = 0xff;

/// What a master sends is not an RDB file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RdbError {
    /// Its head is none.
    #[error("the master announces its data set with no length that could be read")]
    Head,
    /// It is longer than allowed.
    #[error("the master's data set is larger than base-max, {0} bytes")]
    TooLarge(u64),
    /// It is not an RDB file.
    #[error("the master's data set does not begin as an RDB file")]
    NotRdb,
    /// Its content and its last eight bytes do not agree.
    #[error("the checksum of the master's data set is wrong: what came is not what it wrote")]
    Checksum,
}

/// Where the file ends within what a master sends.
#[derive(Debug)]
pub enum Framing {
    /// So many bytes are to come.
    Length(u64),
    /// It ends with a mark.
    Marked {
        /// The bytes that the master announced and puts behind the file.
        mark: [u8; MARK_LEN],
        /// What has come of what may be it.
        held: Vec<u8>,
        /// How many bytes may come still.
        left: u64,
        /// How many bytes may come in all.
        max: u64,
    },
}

impl Framing {
    /// Reads the line before the file: `$` and a length, or `$EOF:` and a mark.
    ///
    /// # Errors
    /// It says neither, or more than `max`.
    pub fn read(line: &[u8], max: u64) -> Result<Self, RdbError> {
        if let Some(mark) = line.strip_prefix(b"$EOF:") {
            let mark = mark.try_into().map_err(|_| RdbError::Head)?;
            return Ok(Self::Marked { mark, held: Vec::new(), left: max, max });
        }
        let length = line.strip_prefix(b"$").and_then(decimal).ok_or(RdbError::Head)?;
        if length > max {
            return Err(RdbError::TooLarge(max));
        }
        Ok(Self::Length(length))
    }

    /// Takes what came: puts what belongs to the file behind `out`, and gives how many bytes were
    /// taken where the file has ended.
    ///
    /// # Errors
    /// It is longer than allowed.
    pub fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>, RdbError> {
        match self {
            Self::Length(left) => {
                let len = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                out.extend_from_slice(bytes.get(..len).unwrap_or_default());
                *left -= len as u64;
                Ok((*left == 0).then_some(len))
            }
            Self::Marked { mark, held, left, max } => {
                let before = held.len();
                held.extend_from_slice(bytes);
                // As Redis does, the first time the mark is seen is the end: it is random.
                let end = memchr::memmem::find(held, mark);
                let sure = end.unwrap_or(held.len().saturating_sub(MARK_LEN - 1));
                *left = left.checked_sub(sure as u64).ok_or(RdbError::TooLarge(*max))?;
                out.extend(held.drain(..sure));
                Ok(end.map(|at| at + MARK_LEN - before))
            }
        }
    }
}

/// Checks a file that is never whole in memory.
#[derive(Debug, Default)]
pub struct Check {
    len: u64,
    head: Vec<u8>,
    crc: u64,
    /// The last bytes, which may be the checksum.
    last: Vec<u8>,
}

impl Check {
    /// Takes the file's next bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        let missing = HEAD_LEN.saturating_sub(self.head.len());
        self.head.extend(bytes.iter().take(missing));
        self.len += bytes.len() as u64;
        if bytes.len() >= SUM_LEN {
            let (sure, last) = bytes.split_at(bytes.len() - SUM_LEN);
            self.crc = crc64::append(crc64::append(self.crc, &self.last), sure);
            self.last = last.to_vec();
        } else {
            self.last.extend_from_slice(bytes);
            let sure = self.last.len().saturating_sub(SUM_LEN);
            let sure: Vec<u8> = self.last.drain(..sure).collect();
            self.crc = crc64::append(self.crc, &sure);
        }
    }

    /// How many bytes have come.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// CRC-64 of all but the last eight bytes.
    pub fn sum(&self) -> u64 {
        self.crc
    }

    fn is_rdb(&self) -> bool {
        self.head.starts_with(b"REDIS") || self.head.starts_with(b"VALKEY")
    }

    /// Whether the file has no key, as [`is_of_nothing`] says.
    pub fn is_of_nothing(&self) -> bool {
        is_of_nothing(&self.head)
    }

    /// Whether the file is whole: its beginning, and its checksum unless the server writes none.
    ///
    /// # Errors
    /// It is not.
    pub fn finish(&self) -> Result<(), RdbError> {
        let sum = self.last.as_slice().try_into().map(u64::from_le_bytes);
        match sum {
            _ if !self.is_rdb() => Err(RdbError::NotRdb),
            Err(_) => Err(RdbError::NotRdb),
            // `rdbchecksum no`: zero says that there is none.
            Ok(sum) if sum == 0 || sum == self.crc => Ok(()),
            Ok(_) => Err(RdbError::Checksum),
        }
    }
}

/// Whether a data set, of whose file this is the beginning, has neither a key nor a function, as of
/// a server that has lost it.
pub fn is_of_nothing(head: &[u8]) -> bool {
    let mut rest = head.get(MAGIC_LEN..).unwrap_or_default();
    while let Some((AUX, behind)) = rest.split_first().map(|(code, behind)| (*code, behind)) {
        let Some(behind) = behind_text(behind).and_then(behind_text) else { return false };
        rest = behind;
    }
    rest.first() == Some(&EOF)
}

/// What lies behind a text at the front, in an RDB file's encoding (`rdb.c`, `rdbLoadLenByRef`).
fn behind_text(bytes: &[u8]) -> Option<&[u8]> {
    let (first, rest) = bytes.split_first()?;
    let len = usize::from(first & 0x3f);
    match first >> 6 {
        0 => rest.get(len..),
        1 => rest.get(1 + (len << 8 | usize::from(*rest.first()?))..),
        // Whole numbers of 1, 2 and 4 bytes; nothing longer is said before the first key.
        3 if len <= 2 => rest.get(1 << len..),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::crc64;
    use super::{Check, Framing, RdbError};

    fn taken(framing: &mut Framing, pieces: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
        let (mut out, mut behind, mut ended) = (Vec::new(), Vec::new(), false);
        for piece in pieces {
            match ended {
                true => behind.extend_from_slice(piece),
                false => {
                    if let Some(len) = framing.take(piece, &mut out).unwrap() {
                        ended = true;
                        behind.extend_from_slice(&piece[len..]);
                    }
                }
            }
        }
        (out, behind)
    }

    #[test]
    fn a_data_set_of_nothing_is_told_apart() {
        let head = b"REDIS0010\xfa\x09redis-ver\x067.0.15\xfa\x0aredis-bits\xc0\x40";
        let of = |rest: &[u8]| {
            let mut check = Check::default();
            check.take(&[head, rest].concat());
            check.is_of_nothing()
        };
        assert!(of(b"\xfa\x05ctime\xc2abcd\xfa\x08used-mem\xc2abcd\xffchecksum"));
        assert!(of(b"\xff"));
        for rest in [b"\xfe\x00\xfb\x01\x00".as_slice(), b"\xf5\x03abc", b"", b"\xfa", b"\xfa\x0a"]
        {
            assert!(!of(rest), "{rest:?}");
        }
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        for line in ["", "$", "$-1", "$x", "$99999999999999999999", "$EOF:short", "*1"] {
            assert_eq!(Framing::read(line.as_bytes(), 100).unwrap_err(), RdbError::Head);
        }
        assert_eq!(Framing::read(b"$101", 100).unwrap_err(), RdbError::TooLarge(100));
        // A length that is not told beforehand is counted.
        let mut framing = Framing::read(&[b"$EOF:".as_slice(), &[b'm'; 40]].concat(), 100).unwrap();
        let mut out = Vec::new();
        assert_eq!(framing.take(&[0; 139], &mut out), Ok(None));
        assert_eq!(framing.take(&[0; 1], &mut out), Err(RdbError::TooLarge(100)));
        assert_eq!(out.len(), 100);
    }

    proptest! {
        #[test]
        fn the_end_is_found_however_it_comes(body: Vec<u8>, cut: u16, again: u16) {
            let mark = [b'm'; 40];
            let all = [&body[..], &mark, b"behind"].concat();
            let (cut, again) = (cut as usize % (all.len() + 1), again as usize % (all.len() + 1));
            let (cut, again) = (cut.min(again), cut.max(again));
            let pieces = [&all[..cut], &all[cut..again], &all[again..]];
            let head = [b"$EOF:".as_slice(), &mark].concat();
            let max = body.len() as u64;
            let mut framing = Framing::read(&head, max).unwrap();
            // A body that ends as the mark begins moves the first place where it is seen.
            prop_assume!(body.last() != Some(&b'm'));
            prop_assert_eq!(taken(&mut framing, &pieces), (body.clone(), b"behind".to_vec()));
            let all = [&body[..], b"behind"].concat();
            let mut framing = Framing::Length(body.len() as u64);
            let cut = cut.min(all.len());
            prop_assume!(!body.is_empty());
            let found = taken(&mut framing, &[&all[..cut], &all[cut..]]);
            prop_assert_eq!(found, (body, b"behind".to_vec()));
        }

        #[test]
        fn a_checksum_is_checked_however_it_comes(body: Vec<u8>, step in 1..20_usize) {
            let mut file = [b"REDIS0010".as_slice(), &body].concat();
            let sum = crc64::append(0, &file);
            file.extend(sum.to_le_bytes());
            let check = |file: &[u8]| {
                let mut check = Check::default();
                file.chunks(step).for_each(|piece| check.take(piece));
                check.finish()
            };
            prop_assert_eq!(check(&file), Ok(()));
            file[7] ^= 1;
            prop_assert_eq!(check(&file), Err(RdbError::Checksum));
        }
    }
}
