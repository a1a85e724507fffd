//! Bound parameters: what `$name` in a query stands for (`influxql/params.go`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::influxql::duration;
use crate::influxql::token::TokenKind;

/// What a request binds to the names that its query writes as `$name`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params(BTreeMap<String, Param>);

/// What one name stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum Param {
    /// A tag, field, measurement or whatever else has a name.
    Identifier(String),
    /// The text of a string literal.
    String(String),
    /// A regular expression in Go's syntax, without slashes.
    Regex(String),
    /// A number with a point.
    Number(f64),
    /// An integer that fits into int64.
    Integer(i64),
    /// A boolean, `true` or `false`.
    Boolean(bool),
    /// A duration as a query writes it.
    Duration(String),
    /// Nothing that can be bound; says why, to whoever uses it.
    Invalid(String),
}

/// Parameters that are no JSON object; displays as InfluxDB begins its message.
#[derive(Debug, thiserror::Error)]
#[error("error parsing query parameters: {0}")]
pub struct ParamsError(#[from] serde_json::Error);

impl Params {
    /// Reads the `params` of a request. Empty text binds nothing.
    ///
    /// A value that can't be bound is an error only where the query uses it.
    ///
    /// # Errors
    /// When the text is not a JSON object.
    pub fn from_json(text: &str) -> Result<Self, ParamsError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let values: Map<String, Value> = serde_json::from_str(text)?;
        let bound = values.into_iter().map(|(name, value)| (name, Param::bind(value)));
        Ok(Self(bound.collect()))
    }

    /// Binds `name`, which is given without its `$`, in place of an earlier value.
    pub fn insert(&mut self, name: &str, param: Param) {
        self.0.insert(name.to_owned(), param);
    }

    pub(super) fn get(&self, name: &str) -> Option<&Param> {
        self.0.get(name)
    }

    /// Bytes of the texts that are bound.
    pub(super) fn bytes(&self) -> usize {
        self.0.values().map(Param::bytes).sum()
    }
}

impl Param {
    fn bind(value: Value) -> Self {
        match value {
            Value::String(text) => Self::String(text),
            Value::Bool(value) => Self::Boolean(value),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(value), _) => Self::Integer(value),
                (None, Some(value)) if number.is_f64() => Self::Number(value),
                _ => Self::Invalid(format!(
                    "strconv.ParseInt: parsing \"{number}\": value out of range"
                )),
            },
            Value::Object(object) => Self::bind_object(object),
            Value::Null => Self::Invalid("unable to bind parameter with type <nil>".to_owned()),
            Value::Array(_) => {
                Self::Invalid("unable to bind parameter with type []interface {}".to_owned())
            }
        }
    }

    /// `{"duration": "1h"}`: a value and what it is.
    fn bind_object(object: Map<String, Value>) -> Self {
        let mut entries = object.into_iter();
        let (Some((kind, value)), None) = (entries.next(), entries.next()) else {
            let why = "bound object parameter value must have exactly one entry";
            return Self::Invalid(why.to_owned());
        };
        let bound = match kind.as_str() {
            "ident" | "identifier" => text(&value).map(Self::Identifier),
            "regex" => text(&value).map(Self::Regex),
            "string" => text(&value).map(Self::String),
            "float" | "number" => value.as_f64().map(Self::Number),
            "int" | "integer" => value.as_i64().map(Self::Integer),
            "duration" => {
                let written = value.as_i64().map(duration::format);
                written.or_else(|| text(&value)).map(Self::Duration)
            }
            _ => return Self::Invalid(format!("unknown bind object type: {kind}")),
        };
        let wanted = match kind.as_str() {
            "ident" | "identifier" => "identifier must be a string value",
            "regex" => "regex literal must be a string value",
            "string" => "string literal must be a string value",
            "float" | "number" => "number literal must be a float value",
            "int" | "integer" => "integer literal must be an integer value",
            _duration => "duration literal must be a string or integer value",
        };
        bound.unwrap_or_else(|| Self::Invalid(wanted.to_owned()))
    }

    /// Bytes of its text; each use makes a copy.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Identifier(text)
            | Self::String(text)
            | Self::Regex(text)
            | Self::Duration(text) => text.len(),
            Self::Number(_) | Self::Integer(_) | Self::Boolean(_) | Self::Invalid(_) => 0,
        }
    }

    /// The token it takes the place of; `None` where it can't be bound.
    pub(super) fn token(&self) -> Option<(TokenKind, Cow<'_, str>)> {
        Some(match self {
            Self::Identifier(name) => (TokenKind::Ident, Cow::Borrowed(name)),
            Self::String(text) => (TokenKind::Text, Cow::Borrowed(text)),
            Self::Regex(regex) => (TokenKind::Regex, Cow::Borrowed(regex)),
            Self::Number(value) => (TokenKind::Number, Cow::Owned(value.to_string())),
            Self::Integer(value) => (TokenKind::Integer, Cow::Owned(value.to_string())),
            Self::Boolean(true) => (TokenKind::Keyword("TRUE"), Cow::Borrowed("")),
            Self::Boolean(false) => (TokenKind::Keyword("FALSE"), Cow::Borrowed("")),
            Self::Duration(text) => (TokenKind::Duration, Cow::Borrowed(text)),
            Self::Invalid(_) => return None,
        })
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}
