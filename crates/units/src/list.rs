//! Lists of which an operator may write just one: `listen = "127.0.0.1:6432"`.

use std::fmt;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, IntoDeserializer as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The shape of such a value, for the schema.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "a shape, of which no value is made")]
pub enum OneOrMany<T> {
    /// One, written without brackets.
    One(T),
    /// A list in brackets.
    Many(Vec<T>),
}

/// Reads one or many, and says of one that it can't read why.
struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one value or a list of them, each in quotes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        T::deserialize(text.into_deserializer()).map(|one| vec![one])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list))
    }
}

/// Reads one or many, for `#[serde(deserialize_with)]`.
///
/// # Errors
/// It is neither, or one of them is not what is wanted.
pub fn one_or_many<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    from.deserialize_any(ListVisitor(PhantomData))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::one_or_many;

    #[test]
    fn one_needs_no_brackets() {
        for (text, read) in
            [("\"a\"", vec!["a"]), ("[\"a\",\"b\"]", vec!["a", "b"]), ("[]", vec![])]
        {
            let mut from = serde_json::Deserializer::from_str(text);
            assert_eq!(one_or_many::<String, _>(&mut from).unwrap(), read);
        }
        let mut from = serde_json::Deserializer::from_str("{}");
        assert!(one_or_many::<String, _>(&mut from).is_err());
    }

    #[test]
    fn one_that_is_in_quotes_is_not_told_to_be_in_quotes() {
        let said = |text: &str| {
            let mut from = serde_json::Deserializer::from_str(text);
            one_or_many::<SocketAddr, _>(&mut from).unwrap_err().to_string()
        };
        for wrong in ["\"8086\"", "[\"127.0.0.1:1\", \"8086\"]"] {
            let said = said(wrong);
            assert!(said.contains("invalid socket address"), "{wrong}: {said}");
        }
        assert!(said("8086").contains("each in quotes"));
    }
}
