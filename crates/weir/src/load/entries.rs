//! The keys of a run file, each with its value and where it stands, from which the structs of a
//! load take what is theirs. Which keys those are, what they have where nobody says it, and which
//! of them exclude one another, clap's definition of the struct says.

use std::borrow::Cow;
use std::collections::BTreeMap;

use clap::builder::ArgAction;
use clap::{Arg, Args};
use serde::de::DeserializeOwned;
use serde::de::value::MapAccessDeserializer;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::values::{Fields, OptionField, OptionValue};
use crate::config::line_of;

/// Where a key was given: an error names it as it is written there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// In this line of the file, from one.
    Line(usize),
    /// Behind the file, as an option of the command line.
    CommandLine,
}

/// The value of a key, with what an error needs to point at it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The value, as TOML has it.
    pub value: Value,
    origin: Origin,
    /// Where the keys stand of each table that the value is, or has in its list.
    tables: Vec<KeyPlaces>,
}

/// Keys with what they have.
#[derive(Debug, Clone, Default)]
pub struct Entries(BTreeMap<String, Entry>);

/// Where the keys of a table stand.
type KeyPlaces = BTreeMap<String, KeyPlace>;

/// Where a key stands, and those of its tables.
#[derive(Debug, Clone)]
struct KeyPlace {
    line: usize,
    tables: Vec<KeyPlaces>,
}

/// The keys of a file's text.
///
/// # Errors
/// It is no TOML.
pub fn parse(text: &str) -> Result<Entries, String> {
    let document = DeTable::parse(text).map_err(|error| error.to_string())?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    Ok(Entries::of(&table, &places(document.get_ref(), text)))
}

fn places(table: &DeTable<'_>, text: &str) -> KeyPlaces {
    let place = |(key, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        let tables = match value.get_ref() {
            DeValue::Table(table) => vec![places(table, text)],
            DeValue::Array(elements) => {
                let tables = elements.iter().filter_map(|element| element.get_ref().as_table());
                tables.map(|table| places(table, text)).collect()
            }
            _ => Vec::new(),
        };
        let line = line_of(text, key.span().start);
        (key.get_ref().to_string(), KeyPlace { line, tables })
    };
    table.iter().map(place).collect()
}

impl Entry {
    /// The table that the value is, or those of which it is a list; nothing where it is anything
    /// else.
    pub fn tables(&self) -> Option<Vec<Entries>> {
        let tables: Vec<&Table> = match &self.value {
            Value::Table(table) => vec![table],
            Value::Array(all) => all.iter().map(Value::as_table).collect::<Option<_>>()?,
            _ => return None,
        };
        let tables = tables.into_iter().zip(&self.tables);
        Some(tables.map(|(table, places)| Entries::of(table, places)).collect())
    }
}

impl Entries {
    fn of(table: &Table, places: &KeyPlaces) -> Self {
        let entry = |(key, value): (&String, &Value)| {
            let place = places.get(key);
            let origin = Origin::Line(place.map_or(1, |place| place.line));
            let tables = place.map(|place| place.tables.clone()).unwrap_or_default();
            (key.clone(), Entry { value: value.clone(), origin, tables })
        };
        Self(table.iter().map(entry).collect())
    }

    /// Those of a command line.
    pub fn of_options(table: Table) -> Self {
        let entry = |value| Entry { value, origin: Origin::CommandLine, tables: Vec::new() };
        Self(table.into_iter().map(|(key, value)| (key, entry(value))).collect())
    }

    /// Has others stand in place of those of the same name.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Takes the entry of a key out.
    pub fn remove(&mut self, key: &str) -> Option<Entry> {
        self.0.remove(key)
    }

    /// Whether there is one of this name.
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// The value of one.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.0.get(key).map(|entry| &entry.value)
    }

    /// The names of all keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The name of a key as it is written where it stands.
    pub fn name(&self, key: &str) -> String {
        match self.0.get(key).map(|entry| entry.origin) {
            Some(Origin::CommandLine) => format!("--{key}"),
            Some(Origin::Line(_)) | None => key.to_owned(),
        }
    }

    /// What an error of a key begins with: where it stands, and its name as it is written there.
    pub fn at(&self, key: &str) -> String {
        format!("{}{}", self.line(key), self.name(key))
    }

    /// The line of a key, for an error that names it in its own way.
    pub fn line(&self, key: &str) -> String {
        match self.0.get(key).map(|entry| entry.origin) {
            Some(Origin::Line(line)) => format!("line {line}: "),
            Some(Origin::CommandLine) | None => String::new(),
        }
    }

    /// Takes the options of a struct out, and reads it.
    ///
    /// # Errors
    /// One of them has no such value; its name and line stand before what is right.
    pub fn take<T: Args + DeserializeOwned>(&mut self) -> Result<T, String> {
        let definition = T::augment_args(clap::Command::new("load"));
        let mut fields = Vec::new();
        for arg in definition.get_arguments() {
            let Some(key) = arg.get_long() else { continue };
            let at = self.at(key);
            let given = self.option(arg)?;
            drop(self.remove(key));
            if let Some(value) = given.or_else(|| usual(arg)) {
                fields.push(OptionField { key: key.to_owned(), at, value });
            }
        }
        T::deserialize(MapAccessDeserializer::new(Fields::new(fields)))
            .map_err(|error| error.to_string())
    }

    /// What an option has; nothing where it is not given, as by an empty list.
    ///
    /// # Errors
    /// It is of a type that none of its values has.
    pub fn option(&self, arg: &Arg) -> Result<Option<OptionValue>, String> {
        let key = arg.get_long().unwrap_or_default();
        let Some(value) = self.value(key) else { return Ok(None) };
        let wrong = |words: &str| format!("{} {words}", self.at(key));
        let text = |value: &Value| text_of(value).ok_or_else(|| wrong(TEXTS));
        let all = || match value {
            Value::Array(values) => values.iter().map(text).collect::<Result<Vec<_>, _>>(),
            value => Ok(vec![text(value)?]),
        };
        Ok(match arg.get_action() {
            ArgAction::SetTrue => {
                Some(OptionValue::Flag(value.as_bool().ok_or_else(|| wrong("is true or false"))?))
            }
            ArgAction::Append => {
                let parts = |text: String| match arg.get_value_delimiter() {
                    Some(delimiter) => text.split(delimiter).map(str::to_owned).collect(),
                    None => vec![text],
                };
                let texts: Vec<String> = all()?.into_iter().flat_map(parts).collect();
                (!texts.is_empty()).then_some(OptionValue::Each(texts))
            }
            _ => {
                let mut texts = all()?;
                if texts.len() > 1 {
                    return Err(wrong("has one value, and this is a list of several"));
                }
                texts.pop().map(OptionValue::One)
            }
        })
    }
}

/// What else than a flag may have.
const TEXTS: &str = "is a text, a number, or a list of them";

/// The text of a value, where it may stand behind an option.
pub fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

/// What an option has that is not given.
fn usual(arg: &Arg) -> Option<OptionValue> {
    let texts = arg.get_default_values().iter();
    let mut texts: Vec<_> = texts.map(|text| text.to_string_lossy().into_owned()).collect();
    match arg.get_action() {
        ArgAction::SetTrue => Some(OptionValue::Flag(false)),
        ArgAction::Append => Some(OptionValue::Each(texts)),
        _ => texts.pop().map(OptionValue::One),
    }
}
