//! Checks of answers, and values that are taken from them.

#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use regex::bytes::Regex;
use serde_json::Value;

use super::RequestError;
use super::recorded_answer::RecordedAnswer;

/// What an answer has to be.
#[derive(Debug, Clone)]
pub struct Check {
    /// As it was written.
    text: String,
    /// It must not be so.
    is_not: bool,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    /// Its status is one of these.
    Status(Vec<RangeInclusive<u16>>),
    /// The body has these words in it.
    Words(Vec<u8>),
    /// A part of it is there, and is so.
    Part(AnswerPart, Test),
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AnswerPart {
    /// The lines of a header.
    Header(String),
    Body,
    /// A value of a body that is JSON, by its pointer (RFC 6901).
    Json(String),
}

#[derive(Debug, Clone)]
enum Test {
    IsThere,
    Is(Expected),
    Matches(Regex),
}

#[derive(Debug, Clone)]
struct Expected {
    text: String,
    /// The same as JSON, where it is some.
    json: Option<Value>,
}

/// A value that is taken from an answer for later steps.
#[derive(Debug, Clone)]
pub struct Take {
    /// What it is called.
    pub name: String,
    /// As it was written.
    text: String,
    part: AnswerPart,
    /// Its first group, or else all that it matches, is taken.
    regex: Option<Regex>,
}

/// An answer, as checks see it. Its JSON is parsed once, when the first of them asks.
pub struct CheckedAnswer<'a> {
    status: u16,
    kept: &'a RecordedAnswer,
    json: Option<Option<Value>>,
}

impl<'a> CheckedAnswer<'a> {
    pub fn new(status: u16, kept: &'a RecordedAnswer) -> Self {
        Self { status, kept, json: None }
    }

    /// The first value of a part that `wanted` takes.
    fn find<T>(&mut self, part: &AnswerPart, wanted: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        match part {
            AnswerPart::Header(name) => self.kept.headers(name).find_map(wanted),
            AnswerPart::Body => wanted(self.kept.body()?),
            AnswerPart::Json(pointer) => match self.json(pointer)? {
                Value::String(text) => wanted(text.as_bytes()),
                value => wanted(value.to_string().as_bytes()),
            },
        }
    }

    fn json(&mut self, pointer: &str) -> Option<&Value> {
        let kept = self.kept;
        let parsed = self.json.get_or_insert_with(|| serde_json::from_slice(kept.body()?).ok());
        parsed.as_ref()?.pointer(pointer)
    }
}

impl Check {
    /// Whether an answer is as it has to be.
    pub fn holds(&self, seen: &mut CheckedAnswer<'_>) -> bool {
        let found = match &self.what {
            What::Status(ranges) => ranges.iter().any(|range| range.contains(&seen.status)),
            What::Words(words) => {
                let found = |body: &[u8]| memchr::memmem::find(body, words).map(|_| ());
                seen.find(&AnswerPart::Body, found).is_some()
            }
            What::Part(part, test) => test.holds(part, seen),
        };
        // What can't be read is no proof that something is not in it.
        let is_read = !self.reads_body() || seen.kept.body().is_some();
        is_read && found != self.is_not
    }

    /// Whether it says which statuses are right.
    pub fn is_of_status(&self) -> bool {
        matches!(self.what, What::Status(_))
    }

    /// Whether it looks into the body.
    pub fn reads_body(&self) -> bool {
        match &self.what {
            What::Status(_) => false,
            What::Words(_) => true,
            What::Part(part, _) => part.is_body(),
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Test {
    fn holds(&self, part: &AnswerPart, seen: &mut CheckedAnswer<'_>) -> bool {
        match self {
            Self::IsThere => seen.find(part, |_| Some(())).is_some(),
            Self::Matches(regex) => {
                seen.find(part, |value| regex.is_match(value).then_some(())).is_some()
            }
            Self::Is(Expected { text, json }) => {
                if let (AnswerPart::Json(pointer), Some(json)) = (part, json)
                    && seen.json(pointer).is_some_and(|found| same(found, json))
                {
                    return true;
                }
                seen.find(part, |value| (value == text.as_bytes()).then_some(())).is_some()
            }
        }
    }
}

/// Whether two values are the same; 1 and 1.0 are.
fn same(found: &Value, wanted: &Value) -> bool {
    match (found.as_f64(), wanted.as_f64()) {
        (Some(found), Some(wanted)) => found.total_cmp(&wanted).is_eq(),
        _ => found == wanted,
    }
}

impl AnswerPart {
    fn is_body(&self) -> bool {
        matches!(self, Self::Body | Self::Json(_))
    }
}

impl Take {
    /// The value, if the answer has it.
    pub fn value(&self, seen: &mut CheckedAnswer<'_>) -> Option<Vec<u8>> {
        seen.find(&self.part, |value| match &self.regex {
            None => Some(value.to_vec()),
            Some(regex) => {
                let found = regex.captures(value)?;
                let group = found.get(1).or_else(|| found.get(0))?;
                Some(group.as_bytes().to_vec())
            }
        })
    }

    /// Whether it looks into the body.
    pub fn reads_body(&self) -> bool {
        self.part.is_body()
    }
}

impl fmt::Display for Take {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Check {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        let text = text.trim();
        let wrong = |what: &str| RequestError::check(text, what);
        let (is_not, rest) = match text.strip_prefix("not ") {
            Some(rest) => (true, rest.trim_start()),
            None => (false, text),
        };
        let (kind, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let rest = rest.trim();
        let what = match kind {
            "status" => What::Status(statuses(rest).ok_or_else(|| {
                wrong("statuses are numbers from 200 to 999, as 200, 200,304 or 200-299")
            })?),
            "text" => match test(rest).map_err(|what| wrong(&what))? {
                _ if rest.is_empty() => return Err(wrong("it says no text")),
                ("", test @ Test::Matches(_)) => What::Part(AnswerPart::Body, test),
                _ => What::Words(rest.as_bytes().to_vec()),
            },
            "header" => header(rest).map_err(|what| wrong(&what))?,
            "json" => {
                let (pointer, test) = test(rest).map_err(|what| wrong(&what))?;
                What::Part(json(pointer).map_err(wrong)?, test)
            }
            _ => return Err(wrong("it begins with status, header, text or json")),
        };
        Ok(Self { text: text.to_owned(), is_not, what })
    }
}

impl FromStr for Take {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        let wrong = |what: &str| RequestError::take(text, what);
        let (name, rest) = text.split_once('=').ok_or_else(|| wrong("it has no ="))?;
        let (name, rest) = (name.trim(), rest.trim());
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_name) || name == "seq" {
            return Err(wrong("a name has letters, digits, _, - and . only, and is not seq"));
        }
        let (kind, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let (before, test) = test(rest.trim()).map_err(|what| wrong(&what))?;
        let part = match kind {
            "header" if is_token(before) => AnswerPart::Header(before.to_owned()),
            "header" => return Err(wrong("it names no header")),
            "json" => json(before).map_err(wrong)?,
            "text" if before.is_empty() => AnswerPart::Body,
            "text" => {
                return Err(wrong("of text a regular expression is taken, as text ~ id=(.*)"));
            }
            _ => return Err(wrong("it is taken from json, header or text")),
        };
        let regex = match test {
            Test::IsThere => None,
            Test::Matches(regex) => Some(regex),
            Test::Is(_) => return Err(wrong("what is known already is not taken")),
        };
        let (name, text) = (name.to_owned(), text.trim().to_owned());
        Ok(Self { name, text, part, regex })
    }
}

/// What stands before a test, and the test: `= VALUE` or `~ REGEX`.
fn test(text: &str) -> Result<(&str, Test), String> {
    let spaced = |sign: char| {
        let mut at = text.match_indices(sign).map(|(at, _)| at);
        at.find(|at| {
            let before = text[..*at].chars().next_back();
            before.is_none_or(char::is_whitespace) && text[at + 1..].starts_with(' ')
        })
    };
    let first = [spaced('='), spaced('~')].into_iter().flatten().min();
    let Some(at) = first else { return Ok((text, Test::IsThere)) };
    let (before, value) = (text[..at].trim_end(), text[at + 1..].trim());
    if text.as_bytes()[at] == b'~' {
        let regex = Regex::new(value).map_err(|error| {
            let words = error.to_string();
            let last = words.lines().next_back().unwrap_or_default();
            format!("{value:?} is not a regular expression: {last}")
        })?;
        return Ok((before, Test::Matches(regex)));
    }
    let json = serde_json::from_str(value).ok();
    Ok((before, Test::Is(Expected { text: value.to_owned(), json })))
}

fn statuses(text: &str) -> Option<Vec<RangeInclusive<u16>>> {
    let status = |text: &str| text.trim().parse().ok().filter(|code| (200..=999).contains(code));
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (status(first)?, status(last)?);
        (first <= last).then_some(first..=last)
    };
    text.split(',').map(range).collect()
}

/// `Name`, `Name: value` or `Name ~ REGEX`.
fn header(text: &str) -> Result<What, String> {
    if let Some((name, value)) = text.split_once(':').filter(|(name, _)| is_token(name.trim())) {
        let test = Test::Is(Expected { text: value.trim().to_owned(), json: None });
        return Ok(What::Part(AnswerPart::Header(name.trim().to_owned()), test));
    }
    let (name, test) = test(text)?;
    if !is_token(name) || matches!(test, Test::Is(_)) {
        return Err(
            "it is written as header Name, header Name: value or header Name ~ REGEX".into()
        );
    }
    Ok(What::Part(AnswerPart::Header(name.to_owned()), test))
}

fn json(pointer: &str) -> Result<AnswerPart, &'static str> {
    match pointer.starts_with('/') {
        true => Ok(AnswerPart::Json(pointer.to_owned())),
        false => Err("a JSON pointer begins with /, as /items/0/id"),
    }
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(super::is_token_byte)
}
