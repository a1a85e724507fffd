//! Who reads what a load prints. One that goes away, as `head` does, ends no run and keeps no file
//! from being finished: what is printed behind it is lost, and nothing else.

use std::io::{self, ErrorKind, Write};

/// Standard output, whose reader may go away.
pub struct Reader<'a>(&'a mut dyn Write);

impl<'a> Reader<'a> {
    /// Takes what is written to `out`.
    pub fn new(out: &'a mut dyn Write) -> Self {
        Self(out)
    }
}

impl Write for Reader<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind, Write};

    use super::Reader;

    struct FailingOutput(ErrorKind);

    impl Write for FailingOutput {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn a_reader_that_is_gone_is_no_error_and_a_full_disk_is() {
        let mut gone = FailingOutput(ErrorKind::BrokenPipe);
        let mut out = Reader::new(&mut gone);
        assert!(out.write_all(b"VALID").is_ok() && out.flush().is_ok());
        let mut full = FailingOutput(ErrorKind::StorageFull);
        assert!(Reader::new(&mut full).write_all(b"VALID").is_err());
    }
}
