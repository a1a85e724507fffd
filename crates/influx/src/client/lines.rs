//! An answer as the lines that it comes in.

use bytes::BytesMut;
use memchr::memchr;

/// The bytes of an answer that were read and not taken yet; each byte is searched once.
#[derive(Debug, Default)]
pub struct AnswerLines {
    read: BytesMut,
    /// How much of what was read has no newline.
    searched: usize,
}

impl AnswerLines {
    /// Of these bytes at first.
    pub fn of(bytes: &[u8]) -> Self {
        Self { read: BytesMut::from(bytes), searched: 0 }
    }

    /// More of the answer has come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.read.extend_from_slice(bytes);
    }

    /// The next line that is whole and not empty.
    pub fn take_line(&mut self) -> Option<BytesMut> {
        loop {
            let unseen = self.read.get(self.searched..).unwrap_or_default();
            let Some(at) = memchr(b'\n', unseen) else {
                self.searched = self.read.len();
                return None;
            };
            let line = self.read.split_to(self.searched + at + 1);
            self.searched = 0;
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }

    /// What is left at the end of the answer, without a newline, unless that is empty.
    pub fn take_rest(&mut self) -> Option<BytesMut> {
        self.searched = 0;
        let rest = self.read.split();
        Some(rest).filter(|rest| !rest.trim_ascii().is_empty())
    }

    /// A line that was taken is the next one again.
    pub fn put_back(&mut self, mut line: BytesMut) {
        if line.last() != Some(&b'\n') {
            line.extend_from_slice(b"\n");
        }
        line.unsplit(std::mem::take(&mut self.read));
        (self.read, self.searched) = (line, 0);
    }

    /// How many bytes were read and not taken.
    pub fn bytes(&self) -> usize {
        self.read.len()
    }
}

#[cfg(test)]
mod tests {
    use super::AnswerLines;

    #[test]
    fn lines_are_the_same_wherever_an_answer_is_cut() {
        let text = b"one\n\n \r\ntwo\nthree";
        for cut in 0..=text.len() {
            let (mut lines, mut taken) = (AnswerLines::of(&text[..cut]), Vec::new());
            while let Some(line) = lines.take_line() {
                taken.push(line);
            }
            lines.push(&text[cut..]);
            while let Some(line) = lines.take_line() {
                taken.push(line);
            }
            assert_eq!(taken, [&b"one\n"[..], b"two\n"], "cut at {cut}");
            assert_eq!((lines.bytes(), lines.take_rest().unwrap()), (5, b"three"[..].into()));
            assert_eq!(lines.take_rest(), None);
        }
    }

    #[test]
    fn a_line_that_is_put_back_comes_again_in_front_of_the_others() {
        let mut lines = AnswerLines::of(b"one\ntwo");
        let one = lines.take_line().unwrap();
        assert_eq!(lines.take_line(), None);
        lines.put_back(one);
        assert_eq!(lines.take_line().unwrap(), b"one\n"[..]);
        let two = lines.take_rest().unwrap();
        lines.put_back(two);
        assert_eq!(lines.take_line().unwrap(), b"two\n"[..]);
    }
}
