//! DER, read value by value.

pub(super) const OID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// Values one behind the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The content of the next value, if it has that tag; else nothing is taken.
    pub(super) fn read(&mut self, wanted: u8) -> Option<Self> {
        let (_, rest) = self.0.split_first().filter(|(tag, _)| **tag == wanted)?;
        let (first, mut rest) = rest.split_first()?;
        let mut length = usize::from(*first);
        if length > 0x7f {
            // A certificate is below 16 MiB, so three bytes of length will do.
            let (bytes, behind) =
                rest.split_at_checked(length & 0x7f).filter(|(b, _)| b.len() <= 3)?;
            length = bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            rest = behind;
        }
        let (content, behind) = rest.split_at_checked(length)?;
        self.0 = behind;
        Some(Self(content))
    }
}
