//! `weir hash-password`: the only form in which a password belongs into the configuration.

use std::io::{self, IsTerminal, Write};

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, SaltString};
use postgres::auth::{ScramVerifier, Secret};
use rustix::termios::{self, LocalModes, OptionalActions};

use crate::exit::{DONE, Failure};

/// The longest password, in bytes: what a sane client can put into a URL or a header.
const PASSWORD_BYTES_MAX: usize = 1024;
/// RFC 9106, section 3.1: 16 bytes of salt are recommended for password hashing.
const SALT_BYTES: usize = 16;

/// Reads one line from standard input and prints its Argon2id hash as a PHC string, or for
/// PostgreSQL its SCRAM verifier.
pub fn run(for_postgres: bool, out: &mut dyn Write) -> Result<u8, Failure> {
    let password =
        read().map_err(|error| Failure::other(format!("can't read the password: {error}")))?;
    let password = checked(password.trim_end_matches(['\r', '\n']))?;
    let hash = if for_postgres { verifier(password)? } else { hash(password)? };
    writeln!(out, "{hash}")?;
    Ok(DONE)
}

fn read() -> io::Result<String> {
    let stdin = io::stdin();
    let mut password = String::new();
    if !stdin.is_terminal() {
        stdin.read_line(&mut password)?;
        return Ok(password);
    }
    eprint!("Password: ");
    let shown = termios::tcgetattr(&stdin)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    termios::tcsetattr(&stdin, OptionalActions::Flush, &hidden)?;
    let read = stdin.read_line(&mut password);
    termios::tcsetattr(&stdin, OptionalActions::Flush, &shown)?;
    // The newline that was typed was not shown either.
    eprintln!();
    read.map(|_| password)
}

fn checked(password: &str) -> Result<&str, Failure> {
    if password.is_empty() {
        return Err(Failure::other("the password is empty; write one line to standard input"));
    }
    if password.len() > PASSWORD_BYTES_MAX {
        let words = format!("the password is longer than {PASSWORD_BYTES_MAX} bytes");
        return Err(Failure::other(words));
    }
    Ok(password)
}

/// As PostgreSQL keeps it in `pg_authid.rolpassword`.
fn verifier(password: &str) -> Result<String, Failure> {
    let made = ScramVerifier::make(&Secret::from(password));
    made.map(|verifier| verifier.to_string())
        .ok_or_else(|| Failure::other("the system gives no random bytes for a salt"))
}

fn hash(password: &str) -> Result<String, Failure> {
    let failed = |error| Failure::other(format!("can't hash the password: {error}"));
    let salt = SaltString::encode_b64(&rand::random::<[u8; SALT_BYTES]>()).map_err(failed)?;
    let hash = Argon2::default().hash_password(password.as_bytes(), &salt).map_err(failed)?;
    Ok(hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::{PASSWORD_BYTES_MAX, checked, hash, verifier};
    use argon2::Argon2;
    use argon2::password_hash::{PasswordHash, PasswordVerifier};

    #[test]
    fn the_hash_verifies_its_password_and_no_other() {
        let text = hash("correct horse").unwrap();
        let parsed = PasswordHash::new(&text).unwrap();
        assert!(text.starts_with("$argon2id$"), "{text}");
        Argon2::default().verify_password(b"correct horse", &parsed).unwrap();
        Argon2::default().verify_password(b"wrong horse", &parsed).unwrap_err();
        assert_ne!(text, hash("correct horse").unwrap(), "the salt is fresh each time");
    }

    #[test]
    fn what_is_no_password_is_refused() {
        checked("").unwrap_err();
        checked(&"x".repeat(PASSWORD_BYTES_MAX + 1)).unwrap_err();
    }

    #[test]
    fn postgresql_has_a_form_of_its_own() {
        let text = verifier("correct horse").unwrap();
        assert!(text.starts_with("SCRAM-SHA-256$4096:"), "{text}");
        assert!(postgres::auth::ScramVerifier::parse(&text).is_some(), "{text}");
    }
}
