//! A session's settings: what it asked for at its start and what it has set since.
//!
//! Server connections are opened bare and take on a session's settings before they serve it. Two
//! sessions may share a lane only where that takes the same statements, which is why those are the
//! key.

mod date_style;

use std::collections::BTreeMap;
use std::rc::Rc;

use wire::sql::Strings;

use crate::plan::{self, Scope};

/// The settings that a server has reported, by name.
pub type Reported = Vec<(Box<str>, Box<str>)>;

/// The statements that give a bare server connection a session's settings; empty for none.
pub type Applied = Rc<str>;

/// Settings that are carried between server connections, and the longest value of one.
const SETTINGS_MAX: usize = 256;
const VALUE_BYTES_MAX: usize = 16 * 1024;

/// How a setting is set.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    /// As in a startup packet: the text that `set_config` takes.
    Text(String),
    /// As after `SET name =`, by SQL's rules (`a, b` is a list).
    Sql(String),
}

impl Value {
    fn text(&self) -> &str {
        let (Self::Text(text) | Self::Sql(text)) = self;
        text
    }
}

/// The settings of one session.
#[derive(Debug, Clone, Default)]
pub struct SessionSettings {
    startup: BTreeMap<String, Value>,
    now: BTreeMap<String, Value>,
    /// There are more than are followed.
    is_over: bool,
    applied: Option<Applied>,
}

/// A setting, and the statement that gives it a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name, in lower case, as the server has it.
    pub name: String,
    /// The statement that sets it, with its semicolon.
    pub sql: String,
}

impl Setting {
    fn new((name, value): (&String, &Value)) -> Self {
        Self { name: name.clone(), sql: statement(name, value) }
    }
}

/// A change of a setting, as statements make it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// `SET name = value`: the name in lower case, and the value as SQL has it.
    Set(String, String),
    /// `RESET name`.
    Reset(String),
    /// `RESET ALL`.
    ResetAll,
}

impl SessionSettings {
    /// Those of a startup packet.
    pub fn new<'a>(parameters: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut startup = BTreeMap::new();
        for (name, value) in parameters {
            startup.insert(name.to_ascii_lowercase(), Value::Text(value.to_owned()));
        }
        Self { now: startup.clone(), startup, is_over: false, applied: None }
    }

    /// The statements that apply them to a connection that has none.
    pub fn applied(&mut self) -> Applied {
        if let Some(applied) = &self.applied {
            return applied.clone();
        }
        let applied: Applied = statements(&self.now).into();
        self.applied = Some(applied.clone());
        applied
    }

    /// What applies them one by one.
    pub fn one_by_one(&self) -> Vec<Setting> {
        one_by_one(&self.now)
    }

    /// A server does not accept the value of this one any more, nor will it: the session goes on
    /// with what it began with, if that is another value, and else with the server's own. What
    /// applies the former is returned.
    pub fn refused(&mut self, name: &str) -> Option<String> {
        self.applied = None;
        let refused = self.now.remove(name);
        if self.startup.get(name) == refused.as_ref() {
            self.startup.remove(name);
        }
        let begun = self.startup.get(name)?;
        self.now.insert(name.to_owned(), begun.clone());
        Some(statement(name, begun))
    }

    /// A server has refused, within a transaction, the value of this one that the session began
    /// with: it has none from now on. What it is now the transaction's end tells.
    pub fn not_begun_with(&mut self, name: &str) {
        self.startup.remove(name);
    }

    /// What brings back what the session began with, after a change that has a server opened bare
    /// forget it.
    pub fn begun_with(&self, change: &Change) -> Vec<Setting> {
        match change {
            Change::Set(..) => Vec::new(),
            Change::Reset(name) => {
                let begun = self.startup.get_key_value(&name.to_ascii_lowercase());
                begun.into_iter().map(Setting::new).collect()
            }
            Change::ResetAll => one_by_one(&self.startup),
        }
    }

    /// What a setting is set to here, without the quotes that SQL has; `None` where the server's
    /// own value holds.
    pub fn value(&self, name: &str) -> Option<&str> {
        match self.now.get(name)? {
            Value::Text(text) => Some(text),
            Value::Sql(value) => Some(value.trim_matches('\'')),
        }
    }

    /// Whether they say how transactions are to be.
    pub fn says_of_transactions(&self) -> bool {
        let says = |name: &str| {
            name.starts_with("transaction_") || name.starts_with("default_transaction_")
        };
        self.now.keys().any(|name| says(name))
    }

    /// Whether all are as they were at the start.
    pub fn is_as_begun(&self) -> bool {
        !self.is_over && self.now == self.startup
    }

    /// Whether one of them, or their number, binds the session to its server connection.
    pub fn pins(&self) -> bool {
        self.is_over
            || self.now.iter().any(|(name, value)| plan::pins(name, value.text()).is_some())
    }

    /// Whether the session's text is in UTF-8; `reported` are the settings it began with.
    pub fn is_utf8(&self, reported: &Reported) -> bool {
        let known = || reported.iter().find(|(name, _)| &**name == "client_encoding");
        let encoding = self.value("client_encoding").or_else(|| known().map(|(_, value)| &**value));
        let plain = encoding.unwrap_or_default().replace(['-', '_'], "");
        plain.eq_ignore_ascii_case("utf8") || plain.eq_ignore_ascii_case("unicode")
    }

    /// How servers read this session's text; `reported` are the settings it began with.
    pub fn scope(&self, reported: &Reported) -> Scope {
        let value = |name: &str| {
            let known = || reported.iter().find(|(known, _)| &**known == name);
            self.value(name).or_else(|| known().map(|(_, value)| &**value))
        };
        let strings = strings(value("standard_conforming_strings"));
        let encoding = value("client_encoding").unwrap_or_default().to_ascii_uppercase();
        let plain: String = encoding.chars().filter(char::is_ascii_alphanumeric).collect();
        let unsure = ["SJIS", "BIG5", "GBK", "UHC", "GB18030", "JOHAB", "MSKANJI", "SHIFT", "WIN9"];
        let unsure_encoding = unsure.iter().any(|name| plain.contains(name));
        Scope { strings, unsure_encoding }
    }

    /// Takes note of a change.
    pub fn change(&mut self, change: Change) {
        self.applied = None;
        match change {
            Change::Set(name, value) => {
                let name = name.to_ascii_lowercase();
                let before = self.now.get(&name).filter(|_| name == "datestyle");
                let joined = before.and_then(|before| date_style::joined(before.text(), &value));
                let value = joined.unwrap_or(value);
                // Only of those that clients invent there is no end.
                let is_one_more = name.contains('.') && !self.now.contains_key(&name);
                if value.len() > VALUE_BYTES_MAX || (is_one_more && self.now.len() >= SETTINGS_MAX)
                {
                    self.is_over = true;
                } else {
                    self.now.insert(name, Value::Sql(value));
                }
            }
            Change::Reset(name) => {
                let name = name.to_ascii_lowercase();
                match self.startup.get(&name) {
                    Some(value) => self.now.insert(name, value.clone()),
                    None => self.now.remove(&name),
                };
            }
            Change::ResetAll => {
                self.now = self.startup.clone();
                self.is_over = false;
            }
        }
    }
}

/// How a server reads strings that reports this.
pub fn strings_of(reported: &Reported) -> Strings {
    let known = reported.iter().find(|(name, _)| &**name == "standard_conforming_strings");
    strings(known.map(|(_, value)| &**value))
}

/// How a server reads strings with this value of `standard_conforming_strings`.
fn strings(value: Option<&str>) -> Strings {
    let off = ["off", "of", "false", "no", "n", "f", "0"];
    match value {
        Some(value) if off.iter().any(|off| value.eq_ignore_ascii_case(off)) => Strings::Backslash,
        _ => Strings::Standard,
    }
}

/// Whether a session can not go on without this setting: it would do so with other rights.
pub fn gives_rights(name: &str) -> bool {
    matches!(name, "role" | "session_authorization")
}

/// Whether a server connection that has taken these on may be another user's.
pub fn changes_user(applied: &Applied) -> bool {
    ["E'role'", "\"role\"", "session_authorization"].iter().any(|name| applied.contains(name))
}

/// What applies these settings one by one; the encoding comes last, since it says how the others
/// are read.
fn one_by_one(settings: &BTreeMap<String, Value>) -> Vec<Setting> {
    let (encoding, others): (Vec<_>, Vec<_>) =
        settings.iter().partition(|(name, _)| *name == "client_encoding");
    others.into_iter().chain(encoding).map(Setting::new).collect()
}

/// What applies these settings.
fn statements(settings: &BTreeMap<String, Value>) -> String {
    settings.iter().map(|(name, value)| statement(name, value)).collect()
}

/// What applies one of them.
fn statement(name: &str, value: &Value) -> String {
    let mut sql = String::new();
    match value {
        Value::Text(text) => {
            sql.push_str("SELECT pg_catalog.set_config(");
            literal(name, &mut sql);
            sql.push_str(", ");
            literal(text, &mut sql);
            sql.push_str(", false);");
        }
        Value::Sql(value) => {
            sql.push_str("SET ");
            identifier(name, &mut sql);
            sql.push_str(" = ");
            sql.push_str(value);
            sql.push(';');
        }
    }
    sql
}

/// A setting's name as SQL: its parts in quotes.
fn identifier(name: &str, out: &mut String) {
    for (n, part) in name.split('.').enumerate() {
        out.push_str(if n > 0 { ".\"" } else { "\"" });
        out.push_str(&part.replace('"', "\"\""));
        out.push('"');
    }
}

/// A string as SQL, right whatever `standard_conforming_strings` says.
pub fn literal(text: &str, out: &mut String) {
    out.push_str("E'");
    for c in text.chars() {
        if matches!(c, '\'' | '\\') {
            out.push(c);
        }
        out.push(c);
    }
    out.push('\'');
}

/// The settings in a startup packet's `options`: `-c name=value` and `--name=value`, separated by
/// white space that a backslash takes the meaning from (PostgreSQL documentation, libpq,
/// "options").
///
/// # Errors
/// What is neither of the two; it is returned.
pub fn options(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut words = words(text).into_iter();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--") {
            Some(setting) => setting.to_owned(),
            None if word == "-c" => words.next().ok_or(word)?,
            None => word.strip_prefix("-c").map(str::to_owned).ok_or_else(|| word.clone())?,
        };
        let (name, value) = setting.split_once('=').ok_or_else(|| setting.clone())?;
        found.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(found)
}

fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c if c.is_ascii_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_last_is_applied_and_reset_returns_to_the_start() {
        let mut settings = SessionSettings::new([("TimeZone", "UTC")].into_iter());
        let start = settings.applied();
        assert_eq!(&*start, "SELECT pg_catalog.set_config(E'timezone', E'UTC', false);");
        settings.change(Change::Set("TimeZone".into(), "'CET'".into()));
        assert_eq!(&*settings.applied(), "SET \"timezone\" = 'CET';");
        settings.change(Change::Reset("timezone".into()));
        assert_eq!(settings.applied(), start);
        settings.change(Change::Set("search_path".into(), "'a', 'b'".into()));
        settings.change(Change::ResetAll);
        assert_eq!(settings.applied(), start);
    }

    #[test]
    fn a_value_that_a_server_refuses_gives_way_to_what_the_session_began_with() {
        let begun = [("default_tablespace", "fast"), ("client_encoding", "LATIN1")];
        let mut settings = SessionSettings::new(begun.into_iter());
        settings.change(Change::Set("default_tablespace".into(), "'gone'".into()));
        let names = settings.one_by_one().into_iter().map(|setting| setting.name);
        assert!(names.eq(["default_tablespace", "client_encoding"]));
        assert_eq!(settings.begun_with(&Change::ResetAll)[0].name, "default_tablespace");
        let fast = settings.refused("default_tablespace").unwrap();
        assert!(fast.contains("E'fast'") && settings.applied().contains(&fast));
        assert_eq!(settings.refused("default_tablespace"), None);
        assert!(!settings.applied().contains("tablespace"));
        let reset = Change::Reset("default_tablespace".into());
        assert_eq!(settings.begun_with(&reset), []);
    }

    #[test]
    fn a_date_style_is_set_by_halves() {
        let mut settings = SessionSettings::new([("DateStyle", "SQL, MDY")].into_iter());
        settings.change(Change::Set("DateStyle".into(), "dmy".into()));
        assert_eq!(&*settings.applied(), "SET \"datestyle\" = 'SQL, DMY';");
        settings.change(Change::Set("datestyle".into(), "'ISO'".into()));
        assert_eq!(&*settings.applied(), "SET \"datestyle\" = 'ISO, DMY';");
    }

    #[test]
    fn more_settings_than_are_carried_bind_the_session_until_it_resets_all() {
        let mut settings = SessionSettings::default();
        for n in 0..SETTINGS_MAX {
            settings.change(Change::Set(format!("app.s{n}"), "1".into()));
        }
        assert!(!settings.pins());
        settings.change(Change::Set("app.s0".into(), "2".into()));
        settings.change(Change::Set("timezone".into(), "2".into()));
        assert!(!settings.pins());
        settings.change(Change::Set("app.another".into(), "2".into()));
        assert!(settings.pins());
        settings.change(Change::ResetAll);
        settings.change(Change::Set("timezone".into(), "x".repeat(VALUE_BYTES_MAX + 1)));
        assert!(settings.pins() && settings.value("timezone").is_none());
    }

    #[test]
    fn settings_that_change_the_user_are_known() {
        let of = |name| changes_user(&SessionSettings::new([(name, "x")].into_iter()).applied());
        assert!(of("Role") && of("session_authorization") && !of("search_path"));
        let mut settings = SessionSettings::default();
        settings.change(Change::Set("role".into(), "'x'".into()));
        assert!(changes_user(&settings.applied()));
    }

    #[test]
    fn options_are_split_as_the_server_does() {
        let found = options(r"-c geqo=off --work-mem=1MB -csearch_path=a,\ b").unwrap();
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(found, [of("geqo", "off"), of("work_mem", "1MB"), of("search_path", "a, b")]);
        assert_eq!(options("-d 5"), Err("-d".to_owned()));
    }

    #[test]
    fn a_literal_can_not_be_left() {
        let mut sql = String::new();
        literal(r"it's \' here", &mut sql);
        assert_eq!(sql, r"E'it''s \\'' here'");
    }
}
