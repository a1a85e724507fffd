//! `docs/configuration.md` and `docs/configuration/`: every key, from the settings' own comments.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::config::Settings;

/// A default of more bytes does not stand in the line of its key's kind.
const DEFAULT_MAX: usize = 90;

const HEAD: &str = "\
# Configuration

<!-- Made from the settings' doc comments by `make docs`. -->

Weir reads one TOML file, `weir.toml`. Without a file it serves InfluxDB's protocol on
127.0.0.1:8086 and keeps the points in its own store. This file takes writes from other machines and
delivers them to two servers:

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

    weir check --config weir.toml     # what `weir serve` would do, and what is wrong with the file

- An unknown key is an error that names the nearest known one.
- Durations are written `500ms` or `1m30s`, sizes `64MiB` or `10GiB`.
- Keys that end in `-file` read a secret from the first line of a file of its own.
- A `[postgres]` table turns the PostgreSQL gateway on, a `[redis]` table the Redis gateway.
- SIGHUP (`systemctl reload weir`) reads the file again. [operating.md](operating.md#reload) says
  which keys change at once; the log names the changed keys that need a restart. A file that can't
  be used changes nothing.

| page | tables |
|---|---|
";

struct Page {
    /// Its file's name, in `docs/configuration/`.
    file: &'static str,
    title: &'static str,
    /// Where a reader begins who does not look a key up.
    about: &'static str,
    /// The tables it has, each with all tables below it that no other page has.
    tables: &'static [&'static str],
}

const PAGES: [Page; 8] = [
    Page {
        file: "general.md",
        title: "Workers, log and admin port",
        about: "These keys are for all gateways. Those outside of any table stand first in \
                the file.",
        tables: &["", "admin", "log"],
    },
    Page {
        file: "influxdb.md",
        title: "InfluxDB gateway",
        about: "[influxdb.md](../influxdb.md) begins with an example.",
        tables: &["influx"],
    },
    Page {
        file: "journal.md",
        title: "Journal",
        about: "The journal keeps InfluxDB's writes until every backend has them. \
                [operating.md](../operating.md#where-to-put-it) says how large it should be.",
        tables: &["journal"],
    },
    Page {
        file: "store.md",
        title: "Embedded store",
        about: "[influxql.md](../influxql.md) says what the store answers, \
                [operating.md](../operating.md#the-embedded-store) how to run it.",
        tables: &["store"],
    },
    Page {
        file: "postgres.md",
        title: "PostgreSQL gateway",
        about: "[postgres.md](../postgres.md) begins with an example; \
                [pgbouncer.md](../pgbouncer.md#every-key) has PgBouncer's key for each.",
        tables: &["postgres"],
    },
    Page {
        file: "redis.md",
        title: "Redis gateway",
        about: "[redis.md](../redis.md) begins with an example; \
                [twemproxy.md](../twemproxy.md#every-key) has twemproxy's key for each.",
        tables: &["redis"],
    },
    Page {
        file: "redis-aof.md",
        title: "Append-only files kept for Redis",
        about: "[redis-aof.md](../redis-aof.md) begins with an example.",
        tables: &["redis.aof"],
    },
    Page {
        file: "redis-guard.md",
        title: "Guard of how Redis persists",
        about: "[redis-aof.md](../redis-aof.md#the-guard) says what the guard finds.",
        tables: &["redis.guard"],
    },
];

impl Page {
    /// The page that has a table.
    fn of(path: &str) -> &'static Self {
        let is_in = |table: &&str| path == *table || path.starts_with(&format!("{table}."));
        let length = |page: &&Self| {
            page.tables.iter().filter(|table| is_in(table)).map(|table| table.len() + 1).max()
        };
        PAGES.iter().max_by_key(length).unwrap()
    }

    /// The page, of its tables.
    fn text(&self, sections: &[&Section]) -> String {
        let mut text = format!(
            "# Configuration: {}\n\n\
             <!-- Made from the settings' doc comments by `make docs`. -->\n\n{}\n\
             [configuration.md](../configuration.md) says how the file is written.\n\n\
             | table | keys |\n|---|---|\n",
            self.title, self.about
        );
        for section in sections {
            let keys: Vec<String> = section.keys.iter().map(|key| format!("`{key}`")).collect();
            writeln!(text, "| {} | {} |", section.link(""), keys.join(", ")).unwrap();
        }
        text.extend(sections.iter().map(|section| section.text.as_str()));
        text
    }
}

#[test]
fn every_key_is_in_the_reference() {
    let sections = sections();
    let mut start = HEAD.to_owned();
    for page in &PAGES {
        let of_page = |section: &&Section| Page::of(&section.path).file == page.file;
        let sections: Vec<&Section> = sections.iter().filter(of_page).collect();
        let file = format!("configuration/{}", page.file);
        let links: Vec<String> = sections.iter().map(|section| section.link(&file)).collect();
        writeln!(start, "| [{}]({file}) | {} |", page.title, links.join(", ")).unwrap();
        super::held_equal(&file, &page.text(&sections));
    }
    super::held_equal("configuration.md", &start);
}

#[test]
fn every_key_has_a_comment() {
    let text: String = sections().into_iter().map(|section| section.text).collect();
    assert!(!text.contains("UNDOCUMENTED"), "{text}");
}

#[test]
fn a_table_is_on_the_page_of_the_nearest_table_above_it() {
    let of = |path| Page::of(path).file;
    assert_eq!(of("redis.pool.user"), "redis.md");
    assert_eq!(of("redis.aof.port"), "redis-aof.md");
    assert_eq!(of("influx.udp"), "influxdb.md");
    assert_eq!(of(""), "general.md");
}

/// All tables, each with its keys.
fn sections() -> Vec<Section> {
    let schema = schemars::schema_for!(Settings).to_value();
    let mut reference = Reference { root: &schema, sections: Vec::new() };
    reference.table("", "At the top of the file", "", &schema);
    reference.sections
}

/// The part of a page that has the keys of one table.
struct Section {
    /// Its name with those of the tables it is in.
    path: String,
    title: String,
    keys: Vec<String>,
    text: String,
}

impl Section {
    /// A link to it, on a page.
    fn link(&self, page: &str) -> String {
        let is_of_anchor = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        let anchor: String = self.title.to_lowercase().chars().filter(is_of_anchor).collect();
        format!("[{}]({page}#{})", self.title, anchor.replace(' ', "-"))
    }
}

struct Reference<'a> {
    root: &'a Value,
    sections: Vec<Section>,
}

impl<'a> Reference<'a> {
    /// The keys of one table, then the tables below it.
    fn table(&mut self, path: &str, title: &str, about: &str, schema: &'a Value) {
        let schema = self.resolve(schema);
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return;
        };
        let mut text = format!("\n## {title}\n");
        if !about.is_empty() {
            writeln!(text, "{about}").unwrap();
        }
        let mut keys = Vec::new();
        let mut below = Vec::new();
        for (key, property) in properties {
            match self.shape(property) {
                Shape::Table(table) => below.push((format!("[{}]", join(path, key)), key, table)),
                Shape::Tables(table) => {
                    below.push((format!("[[{}]]", join(path, key)), key, table))
                }
                Shape::Value(words) => {
                    let required = required(schema, key);
                    text.push_str(&self.key(key, property, &words, required));
                    keys.push(key.clone());
                }
            }
        }
        let section = Section { path: path.to_owned(), title: title.to_owned(), keys, text };
        self.sections.push(section);
        for (title, key, schema) in below {
            let about = properties[key].get("description").and_then(Value::as_str);
            // The comment in the code begins with the table's name, which is the title here.
            let about = about.unwrap_or("UNDOCUMENTED");
            let about = about.split_once("]`: ").map_or(about, |(_, about)| about);
            self.table(&join(path, key), &format!("`{title}`"), about, schema);
        }
    }

    /// The entry of one key.
    fn key(&self, key: &str, property: &'a Value, words: &str, required: bool) -> String {
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
        let mut text = format!("\n### `{key}`\n{words}, {preset}\n\n{about}\n");
        for (name, about) in self.choices(property) {
            writeln!(text, "- `{name}`: {}", about.replace('\n', "\n  ")).unwrap();
        }
        text
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
