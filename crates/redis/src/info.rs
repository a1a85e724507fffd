//! What a server says of itself in `INFO`.

/// A field of it.
pub fn field<'a>(reply: &'a [u8], name: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(reply).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}
