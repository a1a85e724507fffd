//! Parts of a line as it is written, with their escapes (`models/points.go`, `EscapeMeasurement`,
//! `escapeTag`, `EscapeStringField`).

/// Appends a measurement's name.
pub fn push_measurement(out: &mut Vec<u8>, name: &str) {
    push_escaped(out, name, b", ");
}

/// Appends a tag: `,key=value`.
pub fn push_tag(out: &mut Vec<u8>, key: &str, value: &str) {
    out.push(b',');
    push_name(out, key);
    out.push(b'=');
    push_name(out, value);
}

/// Appends the key of a tag or a field, or a tag's value.
pub fn push_name(out: &mut Vec<u8>, name: &str) {
    push_escaped(out, name, b",= ");
}

/// Appends the value of a string field, in quotes. A newline in it stays as it is.
pub fn push_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    push_text(out, text);
    out.push(b'"');
}

/// Appends a text as the value of a string field has it between its quotes.
pub fn push_text(out: &mut Vec<u8>, text: &str) {
    push_escaped(out, text, b"\"\\");
}

fn push_escaped(out: &mut Vec<u8>, text: &str, marks: &[u8]) {
    for &byte in text.as_bytes() {
        if marks.contains(&byte) {
            out.push(b'\\');
        }
        out.push(byte);
    }
}
