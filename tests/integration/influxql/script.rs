//! How a file of queries is written: a query a line, `#` before a comment, and lines that begin
//! with `--` for all else.
//!
//! | line | meaning |
//! |---|---|
//! | `-- index: inmem` | in the first line: InfluxDB's index, else `tsi1` |
//! | `-- load: file` | writes a file of `influxql/data/` |
//! | `-- write: precision=s` | writes the lines up to the next empty one, with these parameters |
//! | `-- db: name` | the database of what follows |
//! | `-- with: epoch=ms&chunked=true` | parameters of the queries that follow |
//! | `-- accept: application/csv` | that header for the queries that follow |
//! | `-- method: GET` | the method of the queries that follow, else `POST` |
//! | `-- difference: reason` | Weir answers the next query differently, on purpose |
//! | `-- unordered: reason` | the series of the next query's answer may come in any order |
//! | `-- shape: reason` | of the next query's answer only the shape is determined |

/// The database a file begins with; it exists.
pub const DATABASE: &str = "db";

/// InfluxDB's index: `tsi1` has one for each shard, as Weir's knows of each partition what is in
/// it; of two tags and of their order it takes another meaning from a condition than `inmem`.
pub const INDEX: &str = "tsi1";
const INDEX_IN_MEMORY: &str = "inmem";

/// The index with which a file is played.
///
/// # Panics
/// When there is none of that name.
pub fn index(text: &str) -> &'static str {
    match text.lines().find_map(|line| line.strip_prefix("-- index: ")) {
        None => INDEX,
        Some(INDEX_IN_MEMORY) => INDEX_IN_MEMORY,
        Some(other) => panic!("no such index: {other:?}"),
    }
}

#[derive(Debug, Clone)]
pub enum Action {
    /// Line protocol, with the parameters of the write.
    Write {
        lines: String,
        parameters: String,
    },
    Query(String),
}

/// What the answers have to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    Same,
    /// The same but for the order of the series.
    Unordered,
    /// Of the same shape.
    Shape,
    /// Different, for this reason.
    Different(String),
}

#[derive(Debug, Clone)]
pub struct Step {
    /// The line of the file.
    pub line: usize,
    /// The `db` parameter; none when empty.
    pub db: String,
    /// Parameters of a query, as `a=1&b=2`.
    pub with: String,
    /// The `Accept` header; none when empty.
    pub accept: String,
    /// The method of a query.
    pub method: String,
    pub action: Action,
    /// What the answers have to be.
    pub expected: Expected,
}

impl Step {
    /// A query to the first database.
    pub fn query(text: &str) -> Self {
        Self {
            line: 0,
            db: DATABASE.to_owned(),
            with: String::new(),
            accept: String::new(),
            method: "POST".to_owned(),
            action: Action::Query(text.to_owned()),
            expected: Expected::Same,
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        match name {
            "db" => value.clone_into(&mut self.db),
            "with" => value.clone_into(&mut self.with),
            "accept" => value.clone_into(&mut self.accept),
            "method" => value.clone_into(&mut self.method),
            "difference" => self.expected = Expected::Different(value.to_owned()),
            "unordered" => self.expected = Expected::Unordered,
            "shape" => self.expected = Expected::Shape,
            "index" => {}
            _ => panic!("line {}: no such word: {name:?}", self.line),
        }
    }

    fn act(&mut self, action: Action) -> Self {
        let step = Self { action, ..self.clone() };
        self.expected = Expected::Same;
        step
    }
}

/// The requests of a file; `load` gives the text of a file of data.
///
/// # Panics
/// When a line can't be understood.
pub fn parse(text: &str, load: impl Fn(&str) -> String) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut next = Step::query("");
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        next.line = number + 1;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some(said) = line.strip_prefix("-- ") else {
            steps.push(next.act(Action::Query(line.to_owned())));
            continue;
        };
        let (name, value) = said.split_once(':').unwrap_or((said, ""));
        let value = value.trim();
        let action = match name {
            "load" => Action::Write { lines: load(value), parameters: String::new() },
            "write" => {
                let lines = lines.by_ref().map(|(_, line)| line).take_while(|l| !l.is_empty());
                let lines = lines.map(|line| format!("{line}\n")).collect();
                Action::Write { lines, parameters: value.to_owned() }
            }
            _ => {
                next.set(name, value);
                continue;
            }
        };
        steps.push(next.act(action));
    }
    steps
}

#[test]
fn a_file_is_read() {
    let text = "# data\n-- load: a.lp\n-- write: precision=s\nm v=1 1\nm v=2 2\n\n\
                -- with: epoch=s\nSELECT v FROM m\n-- difference: why not\nSHOW QUERIES\n\
                SELECT 1\n";
    let steps = parse(text, |name| format!("from {name}"));
    let shown: Vec<String> = steps
        .iter()
        .map(|step| format!("{} {:?} {:?} {:?}", step.line, step.with, step.action, step.expected))
        .collect();
    assert_eq!(
        shown,
        [
            r#"2 "" Write { lines: "from a.lp", parameters: "" } Same"#,
            r#"3 "" Write { lines: "m v=1 1\nm v=2 2\n", parameters: "precision=s" } Same"#,
            r#"8 "epoch=s" Query("SELECT v FROM m") Same"#,
            r#"10 "epoch=s" Query("SHOW QUERIES") Different("why not")"#,
            r#"11 "epoch=s" Query("SELECT 1") Same"#,
        ]
    );
}
