//! The first line of a reply, before its client hears anything of it.

use std::borrow::Cow;

/// A longer line is passed on as it comes: what says that a request is to be asked again is short.
const LINE_BYTES_MAX: usize = 4096;

/// Looks for the first line of a reply, behind lines that answer what went out before it.
#[derive(Debug)]
pub(super) struct Sift {
    /// Lines that reach nobody.
    unheard: u32,
    /// What came of the line that is looked for.
    held: Vec<u8>,
}

/// The beginning of a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReplyBeginning<'b> {
    /// What came of the reply.
    pub(super) reply: Cow<'b, [u8]>,
    line: usize,
}

impl ReplyBeginning<'_> {
    /// Its first line with its end, or what came of one that is too long.
    pub(super) fn line(&self) -> &[u8] {
        self.reply.get(..self.line).unwrap_or_default()
    }
}

impl Sift {
    /// So many lines are before the reply that is heard.
    pub(super) fn new(unheard: u32) -> Self {
        Self { unheard, held: Vec::new() }
    }

    /// A piece has come; `None` where more is wanted, and never if it is the last one. Not called
    /// again once the line was seen.
    pub(super) fn see<'b>(
        &mut self,
        mut bytes: &'b [u8],
        is_last: bool,
    ) -> Option<ReplyBeginning<'b>> {
        while self.unheard > 0 {
            let Some(line) = line_len(bytes) else {
                let nothing = ReplyBeginning { reply: Cow::Borrowed(&[]), line: 0 };
                return is_last.then_some(nothing);
            };
            self.unheard -= 1;
            bytes = bytes.get(line..).unwrap_or_default();
        }
        let before = self.held.len();
        let line = line_len(bytes).map(|line| before + line);
        let is_enough = is_last || before + bytes.len() >= LINE_BYTES_MAX;
        if line.is_none() && !is_enough {
            self.held.extend_from_slice(bytes);
            return None;
        }
        let reply = match before {
            0 => Cow::Borrowed(bytes),
            _ => {
                let mut all = std::mem::take(&mut self.held);
                all.extend_from_slice(bytes);
                Cow::Owned(all)
            }
        };
        Some(ReplyBeginning { line: line.unwrap_or(reply.len()), reply })
    }
}

fn line_len(bytes: &[u8]) -> Option<usize> {
    let among = bytes.get(..LINE_BYTES_MAX).unwrap_or(bytes);
    among.iter().position(|byte| *byte == b'\n').map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(unheard: u32, pieces: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
        let (mut sift, mut line, mut all) = (Some(Sift::new(unheard)), Vec::new(), Vec::new());
        for (at, piece) in pieces.iter().enumerate() {
            match &mut sift {
                Some(looking) => {
                    let Some(seen) = looking.see(piece, at + 1 == pieces.len()) else { continue };
                    line = seen.line().to_vec();
                    all.extend_from_slice(&seen.reply);
                    sift = None;
                }
                None => all.extend_from_slice(piece),
            }
        }
        assert!(sift.is_none(), "it was seen in the end");
        (line, all)
    }

    #[test]
    fn the_first_line_is_seen_wherever_its_bytes_are_cut() {
        let whole = b"+OK\r\n$5\r\nhello\r\n";
        for a in 0..=whole.len() {
            for b in a..=whole.len() {
                let cut = [&whole[..a], &whole[a..b], &whole[b..]];
                let pieces: Vec<&[u8]> =
                    cut.into_iter().filter(|piece| !piece.is_empty()).collect();
                assert_eq!(heard(0, &pieces), (b"+OK\r\n".to_vec(), whole.to_vec()));
                assert_eq!(heard(1, &pieces), (b"$5\r\n".to_vec(), whole[5..].to_vec()));
                assert_eq!(heard(2, &pieces), (b"hello\r\n".to_vec(), whole[9..].to_vec()));
            }
        }
    }

    #[test]
    fn a_line_without_an_end_is_passed_on_before_it_is_large() {
        let mut sift = Sift::new(0);
        assert_eq!(sift.see(&[b'x'; 4000], false), None);
        let seen = sift.see(&[b'y'; 100], false).unwrap();
        assert_eq!((seen.line().len(), seen.reply.len()), (4100, 4100));
        assert_eq!(heard(1, &[b"no line"]), (Vec::new(), Vec::new()));
    }
}
