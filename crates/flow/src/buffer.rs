//! Bytes that wait to be written: added behind, taken in front.

/// A queue of bytes in one piece, so that all of it goes out with one write.
#[derive(Debug, Clone, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// What is before this has been taken.
    taken: usize,
}

impl Buffer {
    /// The bytes that nobody has taken yet.
    #[inline]
    pub(crate) fn waiting(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    /// Where more is to be appended. What was taken is cut off once it is half of all: so each
    /// byte is moved at most once on average.
    #[inline]
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        if self.taken > self.bytes.len() / 2 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        &mut self.bytes
    }

    /// Takes `n` bytes in front. Of an empty buffer's memory at most `keep` bytes are kept.
    #[inline]
    pub(crate) fn take(&mut self, n: usize, keep: usize) {
        debug_assert!(n <= self.len(), "more was written than there was");
        self.taken = (self.taken + n).min(self.bytes.len());
        if self.is_empty() {
            self.bytes.clear();
            self.taken = 0;
            if self.bytes.capacity() > keep {
                self.bytes.shrink_to(keep);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Buffer;

    #[test]
    fn bytes_leave_in_the_order_they_came() {
        let mut buffer = Buffer::default();
        let (mut came, mut left) = (0_u32, Vec::new());
        for turn in 0..1000_u32 {
            for _ in 0..turn % 7 {
                buffer.end().extend_from_slice(&came.to_be_bytes());
                came += 1;
            }
            let n = buffer.len() * 2 / 3;
            left.extend_from_slice(&buffer.waiting()[..n]);
            buffer.take(n, 64);
        }
        left.extend_from_slice(buffer.waiting());
        buffer.take(buffer.len(), 64);
        let all: Vec<u8> = (0..came).flat_map(u32::to_be_bytes).collect();
        assert_eq!(left, all);
        assert!(buffer.is_empty() && buffer.bytes.capacity() <= 64);
    }
}
