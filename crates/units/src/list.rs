//! Lists of which an operator may write just one: `listen = "127.0.0.1:6432"`.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

/// The shape of such a value, for the schema.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "one value or a list of them, each in quotes")]
pub enum OneOrMany<T> {
    /// One, written without brackets.
    One(T),
    /// A list in brackets.
    Many(Vec<T>),
}

/// Reads one or many, for `#[serde(deserialize_with)]`.
///
/// # Errors
/// It is neither.
pub fn one_or_many<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    Ok(match OneOrMany::deserialize(from)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}

#[cfg(test)]
mod tests {
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
}
