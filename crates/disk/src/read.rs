//! Reading a part of a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Reads up to `len` bytes at `offset`; fewer only at the end of the file.
///
/// # Errors
/// As the system says it.
pub fn read_at(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut out = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match file.read_at(&mut out[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    out.truncate(filled);
    Ok(out)
}
