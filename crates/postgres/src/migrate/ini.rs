//! The ini file, read as PgBouncer reads it (`cfparser.c` of libusual).

use std::path::{Path, PathBuf};

use super::{MigrateError, Read};

/// How deep files may include one another, as in PgBouncer.
const INCLUDES_MAX: usize = 10;

/// One `key = value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The section, without its brackets.
    pub section: String,
    /// The key without quotes.
    pub key: String,
    /// The value as it stands.
    pub value: String,
}

/// All entries, in their order.
#[derive(Debug, Default)]
pub struct Ini {
    /// The entries; a later one of the same key counts.
    pub entries: Vec<Entry>,
    /// The directory of the file, against which nothing is resolved by PgBouncer, but which helps
    /// when the migration is not run where PgBouncer runs.
    pub dir: PathBuf,
}

impl Ini {
    /// Reads `file` and what it includes.
    pub fn read(file: &Path, read: Read<'_>) -> Result<Self, MigrateError> {
        let dir = file.parent().unwrap_or(Path::new("")).to_owned();
        let mut ini = Self { entries: Vec::new(), dir };
        ini.include(file, read, 0, &mut String::new())?;
        Ok(ini)
    }

    /// The value of a key in `[pgbouncer]`; an empty one is there and empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        let ours = |entry: &&Entry| entry.section == "pgbouncer" && entry.key == key;
        self.entries.iter().rev().find(ours).map(|entry| entry.value.as_str())
    }

    /// The entries of a section, each key once, with its last value.
    pub fn section(&self, name: &str) -> Vec<(&str, &str)> {
        let mut found: Vec<(&str, &str)> = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.section == name) {
            match found.iter_mut().find(|(key, _)| *key == entry.key) {
                Some((_, value)) => *value = &entry.value,
                None => found.push((&entry.key, &entry.value)),
            }
        }
        found
    }

    fn include(
        &mut self,
        file: &Path,
        read: Read<'_>,
        depth: usize,
        section: &mut String,
    ) -> Result<(), MigrateError> {
        let text = read(file)
            .map_err(|source| MigrateError::Unreadable { file: file.to_owned(), source })?;
        for (index, line) in text.lines().enumerate() {
            let wrong = |what: &str| MigrateError::Syntax {
                file: file.to_owned(),
                line: index + 1,
                what: what.to_owned(),
            };
            let line = line.trim();
            if let Some(name) =
                line.strip_prefix("%include").filter(|rest| rest.starts_with([' ', '\t']))
            {
                if depth >= INCLUDES_MAX {
                    return Err(wrong("files include one another too deeply"));
                }
                let included = self.place(Path::new(name.trim()), read);
                // A section that an included file begins goes on behind it, as in PgBouncer.
                self.include(&included, read, depth + 1, section)?;
            } else if line.is_empty() || line.starts_with(['#', ';']) {
            } else if let Some(rest) = line.strip_prefix('[') {
                let (name, _) = rest.split_once(']').ok_or_else(|| wrong("] is missing"))?;
                name.clone_into(section);
            } else {
                let (key, value) = pair(line).ok_or_else(|| {
                    wrong("this is neither a section, key = value, a comment nor %include")
                })?;
                self.entries.push(Entry { section: section.clone(), key, value });
            }
        }
        Ok(())
    }

    /// A file as PgBouncer finds it, from where it was started; else beside the ini file.
    pub fn place(&self, file: &Path, read: Read<'_>) -> PathBuf {
        let beside = self.dir.join(file);
        if file.is_relative() && read(file).is_err() && read(&beside).is_ok() {
            beside
        } else {
            file.to_owned()
        }
    }
}

fn pair(line: &str) -> Option<(String, String)> {
    let (key, rest) = match line.chars().next()? {
        quote @ ('\'' | '"') => {
            let mut key = String::new();
            let mut rest = &line[1..];
            loop {
                let (before, after) = rest.split_once(quote)?;
                key.push_str(before);
                match after.strip_prefix(quote) {
                    Some(after) => {
                        key.push(quote);
                        rest = after;
                    }
                    None => break (key, after),
                }
            }
        }
        _ => {
            let named = |c: char| c.is_alphanumeric() || "_.-*".contains(c);
            let end = line.find(|c| !named(c)).unwrap_or(line.len());
            (line[..end].to_owned(), &line[end..])
        }
    };
    let value = rest.trim_start().strip_prefix('=')?;
    (!key.is_empty()).then(|| (key, value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io;
    use std::path::Path;

    use super::{Ini, pair};

    #[test]
    fn lines_are_read_as_by_pgbouncer() {
        let read = |line: &str| pair(line);
        let is = |key: &str, value: &str| Some((key.to_owned(), value.to_owned()));
        assert_eq!(read("a=b"), is("a", "b"));
        assert_eq!(read("a.b-c_* \t= x = y ; z"), is("a.b-c_*", "x = y ; z"));
        assert_eq!(read("a ="), is("a", ""));
        assert_eq!(read("\"a \"\"b\"\"\" = c"), is("a \"b\"", "c"));
        assert_eq!(read("'a b' = c"), is("a b", "c"));
        for line in ["a", "= b", "a b = c", "\"a = b", "\"\" = a"] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn files_include_files() {
        let files = BTreeMap::from([
            ("/etc/a.ini", "[pgbouncer]\n; no\n%include b.ini\nuser = x\n"),
            ("/etc/b.ini", "listen_port = 1\n[databases]\nd = \n[pgbouncer]\nlisten_port = 2"),
            ("/etc/loop.ini", "%include /etc/loop.ini"),
            ("/etc/bad.ini", "[pgbouncer]\n\nnothing"),
        ]);
        let read = |path: &Path| {
            let text = files.get(path.to_str().unwrap());
            text.map(|text| (*text).to_owned()).ok_or_else(|| io::ErrorKind::NotFound.into())
        };
        let ini = Ini::read(Path::new("/etc/a.ini"), &read).unwrap();
        assert_eq!((ini.get("listen_port"), ini.get("user")), (Some("2"), Some("x")));
        assert_eq!(ini.section("databases"), [("d", "")]);
        assert!(Ini::read(Path::new("/etc/loop.ini"), &read).is_err());
        let bad = Ini::read(Path::new("/etc/bad.ini"), &read).unwrap_err().to_string();
        assert!(bad.starts_with("/etc/bad.ini, line 3: "), "{bad}");
        assert!(Ini::read(Path::new("/etc/none.ini"), &read).is_err());
    }
}
