//! Text with gaps that are filled for each request: `{{column}}`, `{{seq}}`, `{{random 1 9}}`.

#[cfg(test)]
mod tests;

use std::io::Write as _;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_encode};

use super::RequestError;
use super::data::Data;
use crate::chance::Chance;

/// Letters of a gap that an error shows.
const SHOWN_MAX: usize = 40;
/// What can't stand in the target of a request.
const NOT_IN_TARGETS: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'{');
/// What a value in a URL is encoded by: RFC 3986 leaves these as they are.
const NOT_IN_VALUES: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Text whose gaps are filled anew for each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(Vec<TextPiece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum TextPiece {
    Plain(Vec<u8>),
    Gap(Gap, Form),
}

/// What a gap is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gap {
    /// A column of a data set.
    Column { set: usize, column: usize },
    /// The number of the request, or user, from this one on.
    Seq(u64),
    /// A number from the first to the last.
    Random(i64, i64),
    /// A value that was taken from an answer.
    Taken(usize),
}

/// In which form a value is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    /// As a part of a URL's path or query: `{{url column}}`.
    Url,
    /// As what stands between the quotes of a JSON string: `{{json column}}`.
    Json,
}

/// Where a text stands, which decides what a value can't have in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPart {
    /// In the target: what can't be there is percent-encoded.
    Target,
    /// In header lines: bytes that would end one become blanks.
    Header,
    /// In the body: anything.
    Body,
}

/// The names that gaps may have.
#[derive(Debug, Clone, Copy, Default)]
pub struct Names<'a> {
    pub data: &'a [Data],
    /// Values that earlier steps take from their answers.
    pub taken: &'a [String],
    /// Nothing is a gap.
    pub literal: bool,
}

/// What gaps are filled with, of one request.
#[derive(Debug)]
pub struct Filling<'a> {
    /// The number of the request, or user.
    pub number: u64,
    /// What chance begins with.
    pub seed: u64,
    /// Draws of this request.
    pub chance: Chance,
    pub data: &'a [Data],
    /// Values that earlier steps have taken from answers.
    pub taken: &'a [Vec<u8>],
}

impl Text {
    /// Reads a text.
    ///
    /// # Errors
    /// A gap does not end, or is of nothing that there is.
    pub fn new(text: &[u8], names: Names<'_>) -> Result<Self, RequestError> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some(begin) = find(rest, b"{{").filter(|_| !names.literal) {
            let inner = &rest[begin + 2..];
            let end = find(inner, b"}}").ok_or_else(|| RequestError::Gap {
                gap: format!("{{{{{}", shown(inner)),
                what: "has no end (--literal sends it as it is)".to_owned(),
            })?;
            let (gap, form) = gap(&inner[..end], names)?;
            parts.extend((begin > 0).then(|| TextPiece::Plain(rest[..begin].to_vec())));
            parts.push(TextPiece::Gap(gap, form));
            rest = &inner[end + 2..];
        }
        parts.extend((!rest.is_empty()).then(|| TextPiece::Plain(rest.to_vec())));
        Ok(Self(parts))
    }

    /// The same within JSON: a value of a gap can't end the text that it stands in.
    #[must_use]
    pub fn within_json(mut self) -> Self {
        for part in &mut self.0 {
            if let TextPiece::Gap(_, form @ Form::Plain) = part {
                *form = Form::Json;
            }
        }
        self
    }

    /// Whether it is the same each time.
    pub fn is_plain(&self) -> bool {
        self.0.iter().all(|part| matches!(part, TextPiece::Plain(_)))
    }

    /// Whether all bytes outside of gaps are so.
    pub fn plain_is(&self, is_so: impl Fn(u8) -> bool) -> bool {
        self.0.iter().all(|part| match part {
            TextPiece::Plain(text) => text.iter().all(|byte| is_so(*byte)),
            TextPiece::Gap(..) => true,
        })
    }

    /// How many bytes it has outside of gaps.
    pub fn len(&self) -> usize {
        let plain =
            |part: &TextPiece| if let TextPiece::Plain(text) = part { text.len() } else { 0 };
        self.0.iter().map(plain).sum()
    }

    /// Appends it with its gaps filled.
    pub fn fill(&self, place: RequestPart, filling: &mut Filling<'_>, out: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                TextPiece::Plain(text) => out.extend_from_slice(text),
                TextPiece::Gap(gap, form) => filling.put(*gap, *form, place, out),
            }
        }
    }
}

impl Filling<'_> {
    fn put(&mut self, gap: Gap, form: Form, place: RequestPart, out: &mut Vec<u8>) {
        let value = match gap {
            Gap::Column { set, column } => self.data[set].value(self.number, self.seed, column),
            Gap::Taken(at) => self.taken.get(at).map_or(&[][..], |value| value),
            // Writing to a vector does not fail; digits are the same in each form and place.
            Gap::Seq(first) => {
                let _ = write!(out, "{}", first.wrapping_add(self.number));
                return;
            }
            Gap::Random(first, last) => {
                let span = last.wrapping_sub(first).cast_unsigned();
                let drawn = match span.checked_add(1) {
                    Some(count) => self.chance.below(count),
                    None => self.chance.bits(),
                };
                let _ = write!(out, "{}", first.wrapping_add(drawn.cast_signed()));
                return;
            }
        };
        match form {
            Form::Url => out.extend(encoded(value, NOT_IN_VALUES)),
            Form::Json => value.iter().for_each(|byte| put_json(*byte, place, out)),
            Form::Plain => match place {
                RequestPart::Target => out.extend(encoded(value, NOT_IN_TARGETS)),
                RequestPart::Header => out.extend(value.iter().map(|byte| in_header(*byte))),
                RequestPart::Body => out.extend_from_slice(value),
            },
        }
    }
}

fn encoded<'a>(value: &'a [u8], set: &'static AsciiSet) -> impl Iterator<Item = u8> + 'a {
    percent_encode(value, set).flat_map(str::bytes)
}

/// A byte that would end a header's line is a blank there.
fn in_header(byte: u8) -> u8 {
    if byte.is_ascii_control() && byte != b'\t' { b' ' } else { byte }
}

fn put_json(byte: u8, place: RequestPart, out: &mut Vec<u8>) {
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        byte if byte < b' ' => drop(write!(out, "\\u{byte:04x}")),
        byte if place == RequestPart::Target => out.extend(encoded(&[byte], NOT_IN_TARGETS)),
        byte => out.push(byte),
    }
}

fn gap(inner: &[u8], names: Names<'_>) -> Result<(Gap, Form), RequestError> {
    let text = std::str::from_utf8(inner).map_err(|_| wrong(inner, "is not text"))?.trim();
    if let Some(gap) = named(text, names) {
        return Ok((gap, Form::Plain));
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    match *words {
        ["seq"] => Ok((Gap::Seq(0), Form::Plain)),
        ["seq", first] => {
            let first = first.parse().map_err(|_| wrong(inner, "begins with no whole number"))?;
            Ok((Gap::Seq(first), Form::Plain))
        }
        ["random", first, last] => match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok((Gap::Random(first, last), Form::Plain)),
            _ => Err(wrong(inner, "is written with two whole numbers, as {{random 1 9}}")),
        },
        _ => {
            let (form, name) = match text.split_once(char::is_whitespace) {
                Some(("url", name)) => (Form::Url, name.trim()),
                Some(("json", name)) => (Form::Json, name.trim()),
                _ => (Form::Plain, text),
            };
            let gap = named(name, names).ok_or_else(|| unknown(inner, names))?;
            Ok((gap, form))
        }
    }
}

fn named(name: &str, names: Names<'_>) -> Option<Gap> {
    // What a step has taken hides a column of that name.
    if let Some(at) = names.taken.iter().rposition(|taken| taken == name) {
        return Some(Gap::Taken(at));
    }
    names.data.iter().enumerate().find_map(|(set, data)| {
        let column = data.columns().iter().position(|column| column == name)?;
        Some(Gap::Column { set, column })
    })
}

fn wrong(inner: &[u8], what: &str) -> RequestError {
    RequestError::Gap { gap: format!("{{{{{}}}}}", shown(inner)), what: what.to_owned() }
}

/// The begin of a gap for an error: a terminal is not sent the bytes of a file that is not text.
fn shown(inner: &[u8]) -> String {
    let chunk = inner.utf8_chunks().next();
    let text = chunk.map_or("", |chunk| chunk.valid());
    let is_cut = text.len() < inner.len() || text.chars().count() > SHOWN_MAX;
    let plain: String =
        text.chars().take(SHOWN_MAX).take_while(|letter| !letter.is_control()).collect();
    if is_cut || plain.len() < text.len() { format!("{plain}...") } else { plain }
}

fn unknown(inner: &[u8], names: Names<'_>) -> RequestError {
    let columns = names.data.iter().flat_map(|data| data.columns());
    let mut known: Vec<&str> = columns.chain(names.taken).map(String::as_str).collect();
    known.extend(["seq", "random 1 9"]);
    let what = format!(
        "is neither a column of --data nor a value that an earlier step takes; there are {} \
         (--literal sends it as it is)",
        known.join(", ")
    );
    wrong(inner, &what)
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, what)
}
