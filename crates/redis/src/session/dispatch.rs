//! What a command is, beside its name.

mod parts;

pub(super) use parts::{Managing, managing, refused, sub_command, unserved};

/// A client's own words, as far as they are repeated to it.
pub(super) fn shortened(text: &str) -> String {
    text.chars().filter(|of| !of.is_control()).take(128).collect()
}

/// What a client hears whose command has another number of words than it must.
pub(super) fn arity(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}
