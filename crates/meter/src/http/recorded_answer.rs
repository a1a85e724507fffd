//! What is kept of an answer for those who look into it: its head, and its body up to a limit.

/// The most bytes of a body that are kept.
pub const BODY_MAX: usize = 4 << 20;
/// Buffers are given back beyond that.
const ROOM_MAX: usize = 64 * 1024;

/// An answer as it came.
#[derive(Debug, Clone, Default)]
pub struct RecordedAnswer {
    /// Its head, as far as its empty line.
    head: Vec<u8>,
    body: Vec<u8>,
    /// More of the body came than is kept.
    is_cut: bool,
}

impl RecordedAnswer {
    /// Forgets the answer before.
    pub fn clear(&mut self) {
        self.head.clear();
        self.body.clear();
        // One large answer does not hold its memory for as long as its connection lasts.
        self.body.shrink_to(ROOM_MAX);
        self.is_cut = false;
    }

    /// Takes the head of the answer itself.
    pub fn take_head(&mut self, head: &[u8]) {
        self.head.extend_from_slice(head);
    }

    /// Takes a part of the body.
    pub fn take_body(&mut self, bytes: &[u8]) {
        let len = bytes.len().min(BODY_MAX - self.body.len());
        self.body.extend_from_slice(&bytes[..len]);
        self.is_cut |= len < bytes.len();
    }

    /// The body; nothing where no text can be found in it.
    pub fn body(&self) -> Option<&[u8]> {
        self.unreadable().is_none().then_some(&*self.body)
    }

    /// Why the body can't be looked into.
    pub fn unreadable(&self) -> Option<&'static str> {
        if self.is_cut {
            Some("the body is over 4 MiB")
        } else if self.is_encoded() {
            Some("the body has a Content-Encoding")
        } else {
            None
        }
    }

    /// The values of the header lines of that name, in their order.
    pub fn headers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let lines = self.head.split(|byte| *byte == b'\n').skip(1);
        lines.filter_map(move |line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (own, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
            own.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
        })
    }

    fn is_encoded(&self) -> bool {
        self.headers("content-encoding").any(|value| !value.eq_ignore_ascii_case(b"identity"))
    }
}
