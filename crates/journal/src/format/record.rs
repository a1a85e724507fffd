//! One record as bytes: a header with two checksums, then the payload.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | length of the payload |
//! | 1 | kind, the caller's |
//! | 1 | flags: 1 = control |
//! | 2 | check of the header, so that a length can be trusted when the payload is damaged |
//! | 4 | items |
//! | 4 | CRC-32C over salt, header and payload |
//!
//! Integers are little-endian. The salt is the journal's own random number: bytes of a client
//! that look like a record can never be taken for one.

/// The length of a record's header in bytes.
pub(crate) const HEADER_LEN: usize = 16;

const CONTROL: u8 = 1;

/// What stands before a record's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub len: u32,
    pub kind: u8,
    pub control: bool,
    pub items: u32,
    pub checksum: u32,
    /// The checksum over salt and header, which the payload's continues.
    seed: u32,
}

impl Head {
    /// The length of the record, header and payload.
    pub fn record_len(&self) -> usize {
        HEADER_LEN + self.len as usize
    }

    /// Whether the payload is what was written.
    pub fn matches(&self, payload: &[u8]) -> bool {
        crc32c::crc32c_append(self.seed, payload) == self.checksum
    }
}

/// The fields the checksums cover, before the payload.
fn fields(len: u32, kind: u8, flags: u8, items: u32) -> [u8; 10] {
    let mut out = [0; 10];
    out[..4].copy_from_slice(&len.to_le_bytes());
    out[4] = kind;
    out[5] = flags;
    out[6..].copy_from_slice(&items.to_le_bytes());
    out
}

fn fold(seed: u32) -> u16 {
    (seed ^ (seed >> 16)) as u16
}

/// What `put` needs to know of a record but its payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Label {
    pub kind: u8,
    pub items: u32,
    pub control: bool,
}

/// Appends a record to `out`; `len` is the sum of the parts. Gives the record's checksum.
pub(crate) fn put(out: &mut Vec<u8>, salt: u32, label: Label, len: u32, parts: &[&[u8]]) -> u32 {
    let flags = if label.control { CONTROL } else { 0 };
    let fields = fields(len, label.kind, flags, label.items);
    let seed = crc32c::crc32c_append(salt, &fields);
    let checksum = parts.iter().fold(seed, |crc, part| crc32c::crc32c_append(crc, part));
    out.reserve(HEADER_LEN + len as usize);
    out.extend_from_slice(&fields[..6]);
    out.extend_from_slice(&fold(seed).to_le_bytes());
    out.extend_from_slice(&fields[6..]);
    out.extend_from_slice(&checksum.to_le_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
    checksum
}

/// Reads the header at the beginning of `bytes`, if its check holds.
pub(crate) fn head(salt: u32, bytes: &[u8]) -> Option<Head> {
    let header: &[u8; HEADER_LEN] = bytes.first_chunk()?;
    let [l0, l1, l2, l3, kind, flags, c0, c1, i0, i1, i2, i3, s0, s1, s2, s3] = *header;
    let len = u32::from_le_bytes([l0, l1, l2, l3]);
    let items = u32::from_le_bytes([i0, i1, i2, i3]);
    let seed = crc32c::crc32c_append(salt, &fields(len, kind, flags, items));
    (fold(seed) == u16::from_le_bytes([c0, c1])).then_some(Head {
        len,
        kind,
        control: flags & CONTROL != 0,
        items,
        checksum: u32::from_le_bytes([s0, s1, s2, s3]),
        seed,
    })
}

/// A record found whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IntactRecord<'a> {
    /// Where it begins in the bytes.
    pub at: usize,
    pub head: Head,
    pub payload: &'a [u8],
}

/// The record at `at`, if it is there whole and undamaged.
pub(crate) fn intact(salt: u32, bytes: &[u8], at: usize) -> Option<IntactRecord<'_>> {
    let rest = bytes.get(at..)?;
    let head = head(salt, rest)?;
    let payload = rest.get(HEADER_LEN..head.record_len())?;
    head.matches(payload).then_some(IntactRecord { at, head, payload })
}

/// Walks over records that are known to be intact, from memory or checked before; it only
/// follows the lengths and ends at the first place that cannot be a record.
#[derive(Debug, Clone)]
pub(crate) struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Walk { bytes, at: 0 }
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = IntactRecord<'a>;

    fn next(&mut self) -> Option<IntactRecord<'a>> {
        let rest = self.bytes.get(self.at..)?;
        let header: &[u8; HEADER_LEN] = rest.first_chunk()?;
        let [l0, l1, l2, l3, kind, flags, _, _, i0, i1, i2, i3, s0, s1, s2, s3] = *header;
        let head = Head {
            len: u32::from_le_bytes([l0, l1, l2, l3]),
            kind,
            control: flags & CONTROL != 0,
            items: u32::from_le_bytes([i0, i1, i2, i3]),
            checksum: u32::from_le_bytes([s0, s1, s2, s3]),
            seed: 0,
        };
        let payload = rest.get(HEADER_LEN..head.record_len())?;
        let at = self.at;
        self.at += head.record_len();
        Some(IntactRecord { at, head, payload })
    }
}

/// Every record of a damaged stretch that is still whole, in order. After a damaged record whose
/// length can be trusted the next one follows; otherwise each byte is tried as a beginning.
#[derive(Debug)]
pub(crate) struct Salvage<'a> {
    salt: u32,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Salvage<'a> {
    pub fn new(salt: u32, bytes: &'a [u8]) -> Self {
        Salvage { salt, bytes, at: 0 }
    }
}

impl<'a> Iterator for Salvage<'a> {
    type Item = IntactRecord<'a>;

    fn next(&mut self) -> Option<IntactRecord<'a>> {
        while self.at + HEADER_LEN <= self.bytes.len() {
            if let Some(found) = intact(self.salt, self.bytes, self.at) {
                self.at += found.head.record_len();
                return Some(found);
            }
            self.at += self.stride();
        }
        None
    }
}

impl Salvage<'_> {
    /// How far the next place to try is from a damaged one. A header that passes its check by
    /// chance (1 in 65,536) is seen through by what follows it.
    fn stride(&self) -> usize {
        let Some(head) = self.bytes.get(self.at..).and_then(|b| head(self.salt, b)) else {
            return 1;
        };
        let next = self.at.saturating_add(head.record_len());
        let follows = next == self.bytes.len()
            || self.bytes.get(next..).and_then(|b| self::head(self.salt, b)).is_some();
        if follows { head.record_len() } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::{HEADER_LEN, Label, Salvage, Walk, head, intact, put};
    use proptest::prelude::*;

    const SALT: u32 = 0x5eed;

    fn label(items: u32) -> Label {
        Label { kind: 3, items, control: items == 0 }
    }

    fn written(payloads: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        for (i, payload) in payloads.iter().enumerate() {
            let (a, b) = payload.split_at(payload.len() / 2);
            put(&mut out, SALT, label(i as u32), payload.len() as u32, &[a, b]);
        }
        out
    }

    #[test]
    fn a_record_of_another_journal_is_not_one_here() {
        let bytes = written(&[b"abc".to_vec()]);
        assert!(intact(SALT, &bytes, 0).is_some());
        assert_eq!(intact(SALT + 1, &bytes, 0), None);
    }

    #[test]
    fn a_damaged_payload_costs_one_record_and_a_damaged_length_no_more() {
        let payloads: Vec<Vec<u8>> = (0..5).map(|i| vec![i; 40]).collect();
        for byte in 0..HEADER_LEN + 40 {
            let mut bytes = written(&payloads);
            bytes[2 * (HEADER_LEN + 40) + byte] ^= 0x10;
            let kept: Vec<u32> = Salvage::new(SALT, &bytes).map(|r| r.head.items).collect();
            assert_eq!(kept, [0, 1, 3, 4], "byte {byte}");
        }
    }

    proptest! {
        #[test]
        fn what_is_put_is_found(payloads in prop::collection::vec(
            prop::collection::vec(any::<u8>(), 0..200), 0..20)) {
            let bytes = written(&payloads);
            let walked: Vec<Vec<u8>> = Walk::new(&bytes).map(|r| r.payload.to_vec()).collect();
            prop_assert_eq!(&walked, &payloads);
            let salvaged: Vec<Vec<u8>> =
                Salvage::new(SALT, &bytes).map(|r| r.payload.to_vec()).collect();
            prop_assert_eq!(&salvaged, &payloads);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = head(SALT, &bytes);
            let _ = Walk::new(&bytes).count();
            prop_assert_eq!(Salvage::new(SALT, &bytes).count(), 0);
        }
    }
}
