//! The secret that a coordinator and its agents share.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::exit::Failure;

/// Bytes of a secret: one that is shorter could be guessed from a proof.
const LEN_MIN: usize = 16;
const LEN_MAX: usize = 1024;

/// Reads the first line of the file.
///
/// # Errors
/// It can't be read, others may read it, or it is too short.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let wrong = |words: &dyn std::fmt::Display| {
        Failure::other(format!("the agents' secret in {}: {words}", path.display()))
    };
    let mode = fs::metadata(path).map_err(|error| wrong(&error))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(wrong(&"others may read it: chmod 600 it"));
    }
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let secret = text.lines().next().unwrap_or_default().trim();
    if !(LEN_MIN..=LEN_MAX).contains(&secret.len()) {
        let words = format!(
            "its first line has {LEN_MIN} to {LEN_MAX} characters, as `openssl rand -hex 32` \
             makes them"
        );
        return Err(wrong(&words));
    }
    Ok(secret.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_secret_is_long_and_nobody_elses() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("secret");
        let read = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            super::read(&path).map_err(|failure| failure.to_string())
        };
        assert_eq!(read("0123456789abcdef\nmore", 0o600).unwrap(), b"0123456789abcdef");
        assert!(read("0123456789abcdef", 0o640).unwrap_err().contains("chmod 600"));
        let short = read("0123456789\n", 0o600).unwrap_err();
        assert!(short.contains("16 to 1024") && !short.contains("0123"), "{short}");
        fs::remove_file(&path).unwrap();
        assert!(super::read(&path).is_err());
    }
}
