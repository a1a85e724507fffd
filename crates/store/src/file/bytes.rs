//! Numbers as bytes: varints, zigzag differences. Reading never panics, whatever the bytes are.

/// Writes numbers and texts to a buffer.
#[derive(Debug, Default)]
pub(crate) struct Encoder(Vec<u8>);

impl Encoder {
    /// Seven bits a byte, the lowest first.
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// `to - from`, small for either sign.
    pub fn difference(&mut self, from: i64, to: i64) {
        let difference = to.wrapping_sub(from);
        self.number(((difference << 1) ^ (difference >> 63)) as u64);
    }

    /// A word as four bytes, little-endian.
    pub fn fixed(&mut self, word: u32) {
        self.0.extend_from_slice(&word.to_le_bytes());
    }

    /// A length and so many bytes.
    pub fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// How many bytes there are so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The bytes that were written.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads what an [`Encoder`] wrote.
#[derive(Debug)]
pub(crate) struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    /// Reads from the first byte on.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// A number that [`Encoder::number`] wrote; `None` where there is none.
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// A number that fits 32 bits.
    pub fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    /// The `to` that [`Encoder::difference`] was given with this `from`.
    pub fn difference(&mut self, from: i64) -> Option<i64> {
        let zigzag = self.number()?;
        Some(from.wrapping_add((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)))
    }

    /// A word that [`Encoder::fixed`] wrote.
    pub fn fixed(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }

    /// A text that [`Encoder::text`] wrote; `None` where it is cut short or not UTF-8.
    pub fn text(&mut self) -> Option<&'a str> {
        let len = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(a: u64, b: i64, c: i64, d: u32, e: String) {
            let mut encoder = Encoder::default();
            encoder.number(a);
            encoder.difference(b, c);
            encoder.fixed(d);
            encoder.text(&e);
            let bytes = encoder.finish();
            let mut decoder = Decoder::new(&bytes);
            prop_assert_eq!(decoder.number(), Some(a));
            prop_assert_eq!(decoder.difference(b), Some(c));
            prop_assert_eq!(decoder.fixed(), Some(d));
            prop_assert_eq!(decoder.text(), Some(&*e));
            prop_assert!(decoder.is_empty());
        }

        #[test]
        fn any_bytes_are_no_panic(bytes: Vec<u8>) {
            let mut decoder = Decoder::new(&bytes);
            while decoder.number().is_some() && decoder.text().is_some() {}
        }
    }
}
