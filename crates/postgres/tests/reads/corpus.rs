//! The statements of `reads.sql` and `traps.sql`.

/// What must be proven.
pub fn reads() -> impl Iterator<Item = String> {
    lines(include_str!("reads.sql"))
}

/// What must not be.
pub fn traps() -> impl Iterator<Item = String> {
    lines(include_str!("traps.sql"))
}

fn lines(text: &'static str) -> impl Iterator<Item = String> {
    let is_comment = |line: &&str| line.starts_with("--") && !line.contains('¶');
    text.lines()
        .skip(2)
        .filter(move |line| !line.is_empty() && !is_comment(line))
        .map(|line| line.replace('¶', "\n"))
}
