//! `docs/configuration.md`: every key, from the settings' own comments.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::config::Settings;

/// A default of more bytes does not stand in the line of its key's kind.
const DEFAULT_MAX: usize = 90;

const HEAD: &str = "\
# Configuration

<!-- Made from the settings' doc comments by `make docs`. -->

One TOML file, `weir.toml`. Without it Weir keeps the points itself, on 127.0.0.1:8086. With this
one it hands them to two servers, and lets other machines in:

```toml
[influx]
listen = \"0.0.0.0:8086\"

[[influx.backend]]
name = \"a\"
url = \"http://10.0.0.1:8086\"

[[influx.backend]]
name = \"b\"
url = \"http://10.0.0.2:8086\"
```

    weir check --config weir.toml

`weir check` reads the file and says what `weir serve` would do with it; an unknown key is an error
that names the nearest known one. Durations are written `500ms` or `1m30s`, sizes `64MiB` or
`10GiB`. Secrets are better kept in files of their own, which the `*-file` keys name. A
`[postgres]` table turns the PostgreSQL gateway on; see [postgres.md](postgres.md). A `[redis]`
table turns the Redis gateway on; see [redis.md](redis.md).

SIGHUP (`systemctl reload weir`) reads the file again. `log.level`, certificates, the files with
backends' credentials, and in `[influx]` all but `listen`, `tls`, `udp`, `timeouts` and the
backends change at once (`stamp` for new connections and for datagrams);
[postgres.md](postgres.md) says it of `[postgres]`, and [redis.md](redis.md) of `[redis]`. The rest
needs a restart, and the log names what has changed and does, each time. A file that can't be used
changes nothing.
";

#[test]
fn every_key_is_in_the_reference() {
    let schema = schemars::schema_for!(Settings).to_value();
    let mut reference = Reference { root: &schema, text: HEAD.to_owned() };
    reference.table("", "At the top of the file", "", &schema);
    super::held_equal("configuration.md", &reference.text);
}

#[test]
fn every_key_has_a_comment() {
    let schema = schemars::schema_for!(Settings).to_value();
    let mut reference = Reference { root: &schema, text: String::new() };
    reference.table("", "", "", &schema);
    assert!(!reference.text.contains("UNDOCUMENTED"), "{}", reference.text);
}

struct Reference<'a> {
    root: &'a Value,
    text: String,
}

impl<'a> Reference<'a> {
    /// The keys of one table, then the tables below it.
    fn table(&mut self, path: &str, title: &str, about: &str, schema: &'a Value) {
        let schema = self.resolve(schema);
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return;
        };
        writeln!(self.text, "\n## {title}").unwrap();
        if !about.is_empty() {
            writeln!(self.text, "{about}").unwrap();
        }
        let mut below = Vec::new();
        for (key, property) in properties {
            match self.shape(property) {
                Shape::Table(table) => below.push((format!("[{}]", join(path, key)), key, table)),
                Shape::Tables(table) => {
                    below.push((format!("[[{}]]", join(path, key)), key, table))
                }
                Shape::Value(words) => {
                    let required = required(schema, key);
                    self.key(key, property, &words, required);
                }
            }
        }
        for (title, key, schema) in below {
            let about = properties[key].get("description").and_then(Value::as_str);
            // The comment in the code begins with the table's name, which is the title here.
            let about = about.unwrap_or("UNDOCUMENTED");
            let about = about.split_once("]`: ").map_or(about, |(_, about)| about);
            self.table(&join(path, key), &format!("`{title}`"), about, schema);
        }
    }

    fn key(&mut self, key: &str, property: &'a Value, words: &str, required: bool) {
        let preset = property.get("default").map(toml_words).unwrap_or_default();
        let preset = match (required, preset.as_str()) {
            (true, _) => "required".to_owned(),
            (false, "") => "no default".to_owned(),
            // What does not fit on a line is a block, which may be as long as it is.
            (false, preset) if preset.len() > DEFAULT_MAX => format!("default\n\n    {preset}"),
            (false, preset) => format!("default `{preset}`"),
        };
        let about = property.get("description").and_then(Value::as_str);
        let about = about.unwrap_or("UNDOCUMENTED");
        writeln!(self.text, "\n### `{key}`\n{words}, {preset}\n\n{about}").unwrap();
        for (name, about) in self.choices(property) {
            writeln!(self.text, "- `{name}`: {}", about.replace('\n', "\n  ")).unwrap();
        }
    }

    fn shape(&self, property: &'a Value) -> Shape<'a> {
        let schema = self.resolve(property);
        if schema.get("properties").is_some() {
            return Shape::Table(schema);
        }
        if let Some(items) = schema.get("items")
            && self.resolve(items).get("properties").is_some()
        {
            return Shape::Tables(items);
        }
        Shape::Value(self.words(property))
    }

    /// What kind of value it is, for a person.
    fn words(&self, property: &Value) -> String {
        let reference = property.get("$ref").and_then(Value::as_str).unwrap_or_default();
        match reference.rsplit('/').next() {
            Some("Duration") => return "a duration".to_owned(),
            Some("Size") => return "a size".to_owned(),
            _ => {}
        }
        let schema = self.resolve(property);
        if !self.choices(property).is_empty() {
            return "one of the words below".to_owned();
        }
        if let Some(either) = schema.get("anyOf").and_then(Value::as_array) {
            let words: Vec<_> = either.iter().map(|one| self.words(one)).collect();
            let words: Vec<_> = words.iter().filter(|word| *word != "nothing").cloned().collect();
            return words.join(" or ");
        }
        let kinds = match schema.get("type") {
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            Some(kind) => kind.as_str().into_iter().collect(),
            None => Vec::new(),
        };
        match kinds.first() {
            Some(&"string") => "text".to_owned(),
            Some(&"integer") => "a number".to_owned(),
            Some(&"boolean") => "true or false".to_owned(),
            Some(&"object") => {
                let values = schema.get("additionalProperties").and_then(|of| of.get("type"));
                let lists = values.and_then(Value::as_str) == Some("array");
                let values = if lists { "lists of texts" } else { "texts" };
                format!("a table of your own keys and {values}")
            }
            Some(&"array") => {
                let element = schema.get("items").map_or("text".to_owned(), |of| self.words(of));
                format!("a list, each {element}")
            }
            _ => "nothing".to_owned(),
        }
    }

    /// The words a value may be, where it is one of a few.
    fn choices(&self, property: &'a Value) -> Vec<(&'a str, &'a str)> {
        let choices = self.resolve(property).get("oneOf").and_then(Value::as_array);
        let choice = |one: &'a Value| {
            let about = one.get("description").and_then(Value::as_str).unwrap_or("UNDOCUMENTED");
            Some((one.get("const")?.as_str()?, about))
        };
        choices.into_iter().flatten().filter_map(choice).collect()
    }

    /// Follows references, and what is optional to what it is when it is there.
    fn resolve(&self, schema: &'a Value) -> &'a Value {
        if let Some(pointer) = schema.get("$ref").and_then(Value::as_str) {
            return self.resolve(self.root.pointer(pointer.trim_start_matches('#')).unwrap());
        }
        let choices = schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
        let mut named = choices
            .map(|choice| self.resolve(choice))
            .filter(|choice| choice.get("properties").is_some() || choice.get("oneOf").is_some());
        named.next().unwrap_or(schema)
    }
}

enum Shape<'a> {
    Value(String),
    Table(&'a Value),
    Tables(&'a Value),
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn required(schema: &Value, key: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|keys| keys.iter().any(|name| name == key))
}

/// A default as it would be written in the file.
fn toml_words(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Array(of) => {
            format!("[{}]", of.iter().map(toml_words).collect::<Vec<_>>().join(", "))
        }
        Value::Object(of) => toml_table(of),
        value => value.to_string(),
    }
}

fn toml_table(of: &Map<String, Value>) -> String {
    let pairs = of.iter().map(|(key, value)| format!("{key} = {}", toml_words(value)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
}
