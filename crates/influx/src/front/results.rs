//! The document that `/query` answers where Weir itself puts the results together.

use serde_json::{Value, json};

/// The results of several statements, each with its number.
#[derive(Debug, Default)]
pub struct Results(Vec<Value>);

impl Results {
    /// How many statements have a result.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds the result of the next statement.
    ///
    /// Returns whether it went well: InfluxDB executes nothing past the first error.
    pub fn push(&mut self, result: Value) -> bool {
        let good = result.get("error").is_none();
        let mut numbered = json!({ "statement_id": self.0.len() });
        if let (Value::Object(numbered), Value::Object(result)) = (&mut numbered, result) {
            let rest = result.into_iter().filter(|(name, _)| name != "statement_id");
            numbered.extend(rest);
        }
        self.0.push(numbered);
        good
    }

    /// Adds an error as the next statement's result.
    pub fn push_error(&mut self, message: &str) {
        self.push(json!({ "error": message }));
    }

    /// The document, with a newline, as InfluxDB ends it.
    pub fn render(self, pretty: bool) -> Vec<u8> {
        let document = json!({ "results": self.0 });
        let mut out = Vec::new();
        let written = if pretty {
            let four_spaces = serde_json::ser::PrettyFormatter::with_indent(b"    ");
            let mut writer = serde_json::Serializer::with_formatter(&mut out, four_spaces);
            serde::Serialize::serialize(&document, &mut writer)
        } else {
            serde_json::to_writer(&mut out, &document)
        };
        debug_assert!(written.is_ok(), "a JSON value can be written to memory");
        out.push(b'\n');
        out
    }
}

/// Adds a message to a result.
pub fn add_message(result: &mut Value, level: &str, text: &str) {
    let message = json!({ "level": level, "text": text });
    match result.get_mut("messages").and_then(Value::as_array_mut) {
        Some(messages) => messages.push(message),
        None => result["messages"] = json!([message]),
    }
}

/// A result without the row that begins with `name`.
pub fn without_row(mut result: Value, name: &str) -> Value {
    let rows = result.pointer_mut("/series/0/values").and_then(Value::as_array_mut);
    if let Some(rows) = rows {
        rows.retain(|row| row.get(0).and_then(Value::as_str) != Some(name));
    }
    result
}

/// The result of the only statement of a backend's document, or the error it answered with.
pub fn single(document: &[u8]) -> Value {
    let Ok(mut document) = serde_json::from_slice::<Value>(document) else {
        return json!({ "error": "the backend's answer is not JSON" });
    };
    if let Some(result) = document.get_mut("results").and_then(|r| r.get_mut(0)) {
        return result.take();
    }
    match document.get_mut("error") {
        Some(error) => json!({ "error": error.take() }),
        None => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_numbered_in_order() {
        let mut results = Results::default();
        assert!(results.push(single(br#"{"results":[{"statement_id":7,"series":[]}]}"#)));
        assert!(!results.push(single(br#"{"error":"no"}"#)));
        let text = String::from_utf8(results.render(false)).unwrap();
        let expected =
            r#"{"results":[{"statement_id":0,"series":[]},{"statement_id":1,"error":"no"}]}"#;
        assert_eq!(text.trim_end(), expected);
    }

    #[test]
    fn messages_are_added_to_what_is_there() {
        let mut result = json!({});
        add_message(&mut result, "info", "a");
        add_message(&mut result, "warning", "b");
        assert_eq!(result["messages"].as_array().unwrap().len(), 2);
        assert!(single(b"garbage").get("error").is_some());
    }
}
