//! How serde reads the options of a run file: each value is what stands behind an option, so that
//! `rate = 5` and `rate = "5"` are the same, and a list with one text is that text.

use std::fmt::Display;
use std::str::FromStr;

use clap::ValueEnum;
use serde::de::value::SeqDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

/// What an option has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionValue {
    /// It has no value: it is there, or it is not.
    Flag(bool),
    /// It is given once.
    One(String),
    /// It may be given several times.
    Each(Vec<String>),
}

/// What is wrong with a value, and what is right.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(String);

impl Error for ValueError {
    fn custom<T: Display>(words: T) -> Self {
        Self(words.to_string())
    }
}

/// An option with its name, and where it is from.
pub struct OptionField {
    /// The long name of the option.
    pub key: String,
    /// What an error begins with.
    pub at: String,
    pub value: OptionValue,
}

/// Options as the fields of a struct.
pub struct Fields {
    rest: std::vec::IntoIter<OptionField>,
    next: Option<OptionField>,
}

impl Fields {
    /// The fields of one struct.
    pub fn new(fields: Vec<OptionField>) -> Self {
        Self { rest: fields.into_iter(), next: None }
    }
}

impl<'de> MapAccess<'de> for Fields {
    type Error = ValueError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ValueError> {
        self.next = self.rest.next();
        let key = self.next.as_ref().map(|field| field.key.as_str());
        key.map(|key| seed.deserialize(key.into_deserializer())).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, ValueError> {
        let field = self.next.take().ok_or_else(|| ValueError::custom("a key has no value"))?;
        let read = seed.deserialize(field.value);
        read.map_err(|error| ValueError(format!("{}: {error}", field.at)))
    }
}

impl OptionValue {
    /// Whether it says anything: a flag that is false does not.
    pub fn is_given(&self) -> bool {
        *self != Self::Flag(false)
    }

    fn number<T: FromStr>(&self, what: &str) -> Result<T, ValueError> {
        let Self::One(text) = self else { return Err(ValueError(format!("it is {what}"))) };
        text.parse().map_err(|_| ValueError(format!("{text:?} is not {what}")))
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $what:literal)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
            visitor.$visit(self.number($what)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for OptionValue {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self {
            Self::Flag(is_there) => visitor.visit_bool(is_there),
            Self::One(text) => visitor.visit_string(text),
            Self::Each(texts) => visitor.visit_seq(SeqDeserializer::new(texts.into_iter())),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_some(self)
    }

    numbers! {
        deserialize_u32 visit_u32 "a whole number of 0 or more"
        deserialize_u64 visit_u64 "a whole number of 0 or more"
        deserialize_f64 visit_f64 "a number"
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 f32 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl IntoDeserializer<'_, ValueError> for OptionValue {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Reads a field of a type that has its own form as text.
pub fn text<'de, D, T>(field: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    one(field, str::parse)
}

/// The same of a field that may be absent.
pub fn text_if_any<'de, D, T>(field: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    text(field).map(Some)
}

/// The same of a field that has any number of them.
pub fn texts<'de, D, T>(field: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    each(field, str::parse)
}

/// Reads a field that has one of several names, or is absent.
pub fn name_if_any<'de, D, T>(field: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: ValueEnum,
{
    let named = |text: &str| {
        let of = |value: &T| value.to_possible_value().map(|value| value.get_name().to_owned());
        let all: Vec<_> = T::value_variants().iter().filter_map(of).collect();
        T::from_str(text, false)
            .map_err(|_| format!("there is no {text:?}; write {}", all.join(" or ")))
    };
    one(field, named).map(Some)
}

/// Reads a field by a function of its text.
pub fn one<'de, D, T, E>(field: D, read: impl Fn(&str) -> Result<T, E>) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    E: Display,
{
    read(&String::deserialize(field)?).map_err(D::Error::custom)
}

/// The same of a field that has any number of texts.
pub fn each<'de, D, T, E>(field: D, read: impl Fn(&str) -> Result<T, E>) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    E: Display,
{
    let texts = Vec::<String>::deserialize(field)?;
    texts.iter().map(|text| read(text).map_err(D::Error::custom)).collect()
}
