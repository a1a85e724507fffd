//! Statements made at random that name rows by a key or bring a table rows, with constants in every
//! place and of every form.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// A table and its columns, the key's first.
type Table = (&'static str, &'static [&'static str]);

const KEYED: &[&str] = &["id", "v", "t", "vc"];

const TABLES: &[Table] = &[
    (
        "wide",
        &[
            "id", "i2", "i4", "i8", "n", "n2", "n0", "f4", "f8", "m", "o", "rc", "b", "t", "vc",
            "c", "ch", "nm", "ct", "bp", "d", "tm", "tmz", "ts", "ts0", "tz", "iv", "iv0", "u",
            "j", "jb", "x", "by", "inet", "ci", "mac", "bit3", "vb", "mood", "pair", "ia", "ta",
            "va", "ma", "ir", "tr", "pt", "tv", "lsn",
        ],
    ),
    ("made", &["id", "i4", "t", "twice", "vc", "n2", "wide"]),
];

const KEYED_TABLES: &[&str] = &[
    "k_i2", "k_i8", "k_n", "k_n2", "k_f4", "k_f8", "k_t", "k_vc", "k_c", "k_nm", "k_b", "k_d",
    "k_tz", "k_iv", "k_u", "k_by", "k_in", "k_mo", "k_jb", "k_ia", "k_o", "k_bit", "k_pair",
    "k_two",
];

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "5",
    "007",
    "42",
    "100",
    "32767",
    "32768",
    "65536",
    "2147483647",
    "2147483648",
    "2147483649",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "99999999999999999999",
    "0.0",
    "1.0",
    "1.5",
    ".5",
    "5.",
    "0.10",
    "2.345",
    "1e3",
    "1E-2",
    "1e40",
    "1e400",
    "123456789.12",
    "99.995",
    "3.4e38",
    "-0",
    "-1",
    "-5",
    "-1.5",
    "-32768",
    "-32769",
    "- 2",
    "-2147483648",
    "-2147483649",
    "-9223372036854775808",
    "-9223372036854775809",
    "-.5",
    "-1e3",
];

/// Of any type, or of none.
const STRINGS: &[&str] = &[
    "",
    " ",
    "a",
    "b",
    "bad",
    "abc",
    "abcd ",
    "toolong",
    "short ",
    "it''s",
    "''",
    "\\",
    "a\\b",
    "\\n",
    "\\x6162",
    "\\xZZ",
    "%",
    "$1",
    "é",
    "日本語",
    "null",
    "NULL",
    "default",
    "x  ",
    "(1,b)",
    "(,)",
    "{1,2}",
    "{a,b}",
    "{abc}",
    "{}",
    "{",
    "[1,5)",
    "empty",
    "1",
    "2",
    " 3 ",
    "-1",
    "1.50",
    "007",
    "1e3",
    "0x1f",
    "1_000",
    "NaN",
    "Infinity",
    "-inf",
    "32768",
    "2147483648",
    "1e400",
    "12345678901",
    "t",
    "yes",
    "off",
    "2",
    "2020-01-01",
    "2020-02-30",
    "01/02/2020",
    "infinity",
    "epoch",
    "today",
    "2020-01-01 10:11:12.3456",
    "2020-01-01 10:00+05",
    "10:11",
    "24:00",
    "10:11:12.5-03",
    "1 day",
    "P1Y",
    "1:30",
    "1 year 2 mons",
    "1.5 seconds",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "A0EEBC999C0B4EF8BB6D6BB9BD380A11",
    "{\"a\": 1}",
    "{\"a\":}",
    "[1, 2]",
    "\"s\"",
    "<a/>",
    "<a>",
    "10.0.0.1",
    "10.0.0.0/8",
    "10.0.0.1/8",
    "::1",
    "08:00:2b:01:02:03",
    "101",
    "11",
    "1012",
    "x1f",
    "sad",
    "happy",
    "Happy",
    "wide",
    "pg_class",
    "nothing",
    "$12.50",
    "12,3",
    "(1,2)",
    "fat cat",
    "16/B374D848",
];

/// What fits into a column, so that most statements do something. That of a key is named as its
/// table.
fn fitting(column: &str) -> &'static [&'static str] {
    match column {
        "id" | "v" | "i2" | "i4" | "i8" | "wide" | "o" | "k_i2" | "k_i8" | "k_o" | "k_two" => {
            &["0", "1", "2", "3", "007", "'1'", "' 2 '", "'-3'", "32767", "-5", "'32767'"]
        }
        "n" | "n2" | "n0" | "f4" | "f8" | "m" | "k_n" | "k_n2" | "k_f4" | "k_f8" => {
            &["0", "1.5", "-1.5", "'1.50'", "1e1", ".5", "99.995", "-0.0", "'3'", "5.", "'1e1'"]
        }
        "rc" => &["'wide'", "'pg_class'", "1259", "'made'", "'-'"],
        "b" | "k_b" => &["'t'", "'yes'", "'off'", "TRUE", "false", "'0'"],
        "c" | "k_c" | "vc" | "k_vc" | "va" | "ch" => {
            &["'a'", "''", "' '", "'abc'", "'short '", "'it''s'", "'日本'", "'\\'", "1", "-1.5"]
        }
        "t" | "nm" | "ct" | "bp" | "k_t" | "k_nm" => &[
            "'a'",
            "''",
            "'it''s'",
            "'x  '",
            "'日本語'",
            "'\\n'",
            "'$1'",
            "007",
            "-1.50",
            "1e3",
            "'null'",
            "''''",
        ],
        "d" | "ts" | "ts0" | "tz" | "k_d" | "k_tz" => &[
            "'2020-01-01'",
            "'2020-01-01 10:11:12.5678'",
            "'2020-01-01 10:00+05'",
            "'infinity'",
            "'epoch'",
            "'01/02/2020'",
            "'2020-07-01 00:00 America/New_York'",
        ],
        "tm" | "tmz" => &["'10:11'", "'24:00'", "'10:11:12.5-03'", "'allballs'"],
        "iv" | "iv0" | "k_iv" => {
            &["'1 day'", "'P1Y'", "'1:30'", "'1'", "'1.5 seconds'", "'-1 mon'"]
        }
        "u" | "k_u" => {
            &["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'A0EEBC999C0B4EF8BB6D6BB9BD380A11'"]
        }
        "j" | "jb" | "k_jb" => &["'{\"a\": 1}'", "'[1, 2]'", "'\"s\"'", "'1.50'", "'null'"],
        "x" => &["'<a/>'", "'text'", "''"],
        "by" | "k_by" => &["'\\x6162'", "'a'", "'a\\\\b'", "''"],
        "inet" | "ci" | "k_in" => &["'10.0.0.1'", "'10.0.0.0/8'", "'::1'"],
        "mac" => &["'08:00:2b:01:02:03'"],
        "bit3" | "vb" | "k_bit" => &["'101'", "'11'", "'x1'", "'000'"],
        "mood" | "k_mo" => &["'sad'", "'ok'", "'happy'"],
        "pair" => &["'(1,b)'", "'(,)'"],
        "ia" | "k_ia" => &["'{1,2}'", "'{}'", "'{{1},{2}}'"],
        "ta" | "ma" => &["'{}'", "'{sad}'", "'{ok,NULL}'"],
        "ir" => &["'[1,5)'", "'empty'", "'(,3]'"],
        "tr" => &["'[2020-01-01,2021-01-01)'", "'empty'"],
        "pt" => &["'(1,2)'", "'3,4'"],
        "tv" => &["'fat cat'", "'a:1'"],
        "lsn" => &["'16/B374D848'", "'0/0'"],
        _ => &["DEFAULT"],
    }
}

/// What has no constant in it.
const WORDS: &[&str] =
    &["NULL", "null", "TRUE", "false", "DEFAULT", "current_user", "pi()", "upper(current_user)"];

/// Endless, the same for a seed.
pub struct Statements {
    random: StdRng,
}

impl Statements {
    pub fn new(seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed) }
    }

    fn of<'l>(&mut self, list: &'l [&'l str]) -> &'l str {
        list.choose(&mut self.random).unwrap()
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.random.random_ratio(1, n)
    }

    /// A table and its columns.
    pub fn table(&mut self) -> Table {
        match self.random.random_range(0..4) {
            0 | 1 => TABLES[0],
            2 => TABLES[1],
            _ => (self.of(KEYED_TABLES), KEYED),
        }
    }

    fn constant(&mut self) -> String {
        if self.random.random() {
            self.of(NUMBERS).to_owned()
        } else {
            format!("'{}'", self.of(STRINGS))
        }
    }

    /// A constant, one that fits into the column more often than not.
    fn constant_of(&mut self, table: &str, column: &str) -> String {
        let column = if column == "id" && table.starts_with("k_") { table } else { column };
        if self.one_in(6) { self.constant() } else { self.of(fitting(column)).to_owned() }
    }

    fn value(&mut self, table: &str, column: &str, columns: &[&str]) -> String {
        match self.random.random_range(0..16) {
            0 => self.of(WORDS).to_owned(),
            1 => {
                let other = if self.one_in(2) { column } else { self.of(columns) };
                let sign = self.of(&["+", "-", "*", "/"]);
                format!("{other} {sign} {}", self.constant_of(table, column))
            }
            2 => {
                let sign = self.of(&["+", "-"]);
                let one = self.constant_of(table, column);
                format!("{one} {sign} {}", self.constant_of(table, column))
            }
            _ => self.constant_of(table, column),
        }
    }

    fn key(&mut self, table: &str) -> String {
        let value = self.constant_of(table, "id");
        match table {
            "k_two" => format!("id = {value} AND v = {}", self.constant_of(table, "vc")),
            _ => format!("id = {value}"),
        }
    }

    fn conditions(&mut self, (table, columns): Table) -> String {
        let key = self.key(table);
        match self.random.random_range(0..5) {
            0 => {
                let symbol = self.of(&["=", "<", ">", "<=", ">=", "<>", "!="]);
                let column = self.of(columns);
                format!("{key} AND {column} {symbol} {}", self.constant_of(table, column))
            }
            1 => format!("{} IS NOT NULL AND {key}", self.of(columns)),
            _ => key,
        }
    }

    fn assignments(&mut self, table: &str, columns: &[&str]) -> String {
        let count = self.random.random_range(1..3);
        let one = |this: &mut Self| {
            let column = this.of(columns);
            format!("{column} = {}", this.value(table, column, columns))
        };
        (0..count).map(|_| one(self)).collect::<Vec<_>>().join(", ")
    }

    fn insert(&mut self, (table, columns): Table) -> String {
        let more: Vec<&str> = columns[1..]
            .iter()
            .copied()
            .filter(|_| self.one_in(columns.len() as u32 / 2))
            .collect();
        let with_id = table != "made" || self.one_in(2);
        let names: Vec<&str> = with_id.then_some("id").into_iter().chain(more).collect();
        if names.is_empty() {
            return format!("INSERT INTO {table} VALUES ({})", self.constant());
        }
        let rows = if self.one_in(4) { 2 } else { 1 };
        let row = |this: &mut Self| {
            let values: Vec<String> =
                names.iter().map(|name| this.value(table, name, &["pi()"])).collect();
            format!("({})", values.join(", "))
        };
        let rows: Vec<String> = (0..rows).map(|_| row(self)).collect();
        let tail = match self.random.random_range(0..6) {
            0 => " ON CONFLICT DO NOTHING".to_owned(),
            1 if table != "k_two" => {
                format!(
                    " ON CONFLICT (id) DO UPDATE SET {}",
                    self.assignments(table, &columns[1..])
                )
            }
            _ => String::new(),
        };
        format!("INSERT INTO {table} ({}) VALUES {}{tail}", names.join(", "), rows.join(", "))
    }
}

impl Iterator for Statements {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let table @ (name, columns) = self.table();
        Some(match self.random.random_range(0..10) {
            0..3 => self.insert(table),
            3..7 => {
                let sets = self.assignments(name, &columns[1..]);
                format!("UPDATE {name} SET {sets} WHERE {}", self.conditions(table))
            }
            7 => format!("DELETE FROM {name} WHERE {}", self.conditions(table)),
            _ => {
                let what = if self.one_in(2) { "*" } else { self.of(columns) };
                let limit = if self.one_in(6) {
                    format!(" LIMIT {}", self.constant())
                } else {
                    String::new()
                };
                format!("SELECT {what} FROM {name} WHERE {}{limit}", self.conditions(table))
            }
        })
    }
}
