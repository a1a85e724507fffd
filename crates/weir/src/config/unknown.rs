//! Keys that no setting answers to, each with its place and the nearest key that exists.
//!
//! A misspelt key that is passed over in silence is a setting the operator believes in and does
//! not have. So the file is held against the schema of the settings before it is read, and all
//! unknown keys are named at once.

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Problem, line_of};

/// How alike two keys must be (0 to 3) for one to be offered in place of the other.
const ALIKE_MIN: f64 = 1.5;
/// How many keys are listed where none is alike.
const LISTED_MAX: usize = 40;

/// Every key of `document` that `schema` does not know. `text` is what `document` was parsed from.
pub fn keys(document: &DeTable<'_>, schema: &Value, text: &str) -> Vec<Problem> {
    let mut walk = Walk { root: schema, text, problems: Vec::new() };
    walk.table(document, schema, &TablePath::default());
    walk.problems.sort_by_key(|problem| problem.line);
    walk.problems
}

/// Where in the document a table is, as the operator wrote it.
#[derive(Clone, Default)]
struct TablePath {
    path: String,
    /// The number of the element, from one, where the table is one of an array.
    element: Option<usize>,
}

impl TablePath {
    fn below(&self, key: &str, element: Option<usize>) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { path: format!("{}{dot}{key}", self.path), element }
    }
}

impl std::fmt::Display for TablePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.element {
            _ if self.path.is_empty() => write!(f, "the top of the file"),
            Some(number) => write!(f, "[[{}]] number {number}", self.path),
            None => write!(f, "[{}]", self.path),
        }
    }
}

struct Walk<'a> {
    root: &'a Value,
    text: &'a str,
    problems: Vec<Problem>,
}

impl<'a> Walk<'a> {
    fn table(&mut self, table: &DeTable<'_>, schema: &'a Value, place: &TablePath) {
        let Some(known) = self.properties(schema) else {
            return;
        };
        for (key, value) in table {
            match known.get(key.get_ref().as_ref()) {
                Some(below) => self.value(value, below, key.get_ref(), place),
                None => {
                    let what = unknown(key.get_ref(), place, known);
                    let line = line_of(self.text, key.span().start);
                    self.problems.push(Problem { line: Some(line), what });
                }
            }
        }
    }

    fn value(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        schema: &'a Value,
        key: &str,
        above: &TablePath,
    ) {
        match value.get_ref() {
            DeValue::Table(table) => self.table(table, schema, &above.below(key, None)),
            DeValue::Array(elements) => {
                let Some(schema) = self.resolve(schema).get("items") else {
                    return;
                };
                for (index, element) in elements.iter().enumerate() {
                    if let DeValue::Table(table) = element.get_ref() {
                        self.table(table, schema, &above.below(key, Some(index + 1)));
                    }
                }
            }
            _ => {}
        }
    }

    /// The keys a table may have; `None` where any key is right, as in `stamp`.
    fn properties(&self, schema: &'a Value) -> Option<&'a Map<String, Value>> {
        self.resolve(schema).get("properties")?.as_object()
    }

    /// Follows references, and an optional table to the table.
    fn resolve(&self, schema: &'a Value) -> &'a Value {
        if let Some(pointer) = schema.get("$ref").and_then(Value::as_str) {
            let below = self.root.pointer(pointer.trim_start_matches('#'));
            return below.map_or(schema, |below| self.resolve(below));
        }
        for choice in ["anyOf", "oneOf", "allOf"] {
            let choices = schema.get(choice).and_then(Value::as_array);
            for candidate in choices.into_iter().flatten() {
                let resolved = self.resolve(candidate);
                if resolved.get("properties").is_some() || resolved.get("items").is_some() {
                    return resolved;
                }
            }
        }
        schema
    }
}

fn unknown(key: &str, place: &TablePath, known: &Map<String, Value>) -> String {
    // The first finds beginnings and forgotten letters (`cert`), the second swapped ones (`ulr`).
    let likeness = |candidate: &str| {
        strsim::jaro_winkler(key, candidate)
            + 2.0 * strsim::normalized_damerau_levenshtein(key, candidate)
    };
    let nearest = known
        .keys()
        .map(|candidate| (likeness(candidate), candidate))
        .max_by(|left, right| left.0.total_cmp(&right.0));
    match nearest {
        Some((alike, candidate)) if alike >= ALIKE_MIN => {
            format!("{place} has no key \"{key}\"; did you mean \"{candidate}\"?")
        }
        _ => {
            let listed: Vec<&str> = known.keys().take(LISTED_MAX).map(String::as_str).collect();
            format!("{place} has no key \"{key}\"; it has {}", listed.join(", "))
        }
    }
}
