//! What an InfluxQL query says, as a tree: the whole language of InfluxDB 1.8 (`influxql/ast.go`).
//!
//! Names are as written, unquoted. Nothing is resolved: whether `host` is a tag or a field is for
//! whoever knows the schema.

mod expression;

pub use expression::{Cast, Expr, Op, WildcardKind};

/// One statement of a query.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "fields are named as in the syntax above them")]
pub enum Statement {
    /// `SELECT ...`, also with `INTO`.
    Select(Box<Select>),
    /// `EXPLAIN [ANALYZE] SELECT ...`.
    Explain {
        /// Whether it is also run.
        analyze: bool,
        select: Box<Select>,
    },
    /// `SHOW ...`.
    Show(Show),
    /// `DELETE FROM ... WHERE ...`.
    Delete(Selection),
    /// `DROP SERIES FROM ... WHERE ...`.
    DropSeries(Selection),
    /// `DROP MEASUREMENT name`.
    DropMeasurement(String),
    /// `CREATE DATABASE`.
    CreateDatabase {
        name: String,
        /// Its first policy, where `WITH` says anything of it.
        policy: Option<PolicySpec>,
    },
    /// `DROP DATABASE`.
    DropDatabase(String),
    /// `CREATE RETENTION POLICY name ON db ...`.
    CreateRetentionPolicy {
        db: String,
        /// Name, duration and so on.
        policy: PolicySpec,
    },
    /// `ALTER RETENTION POLICY name ON db ...`.
    AlterRetentionPolicy {
        db: String,
        /// Name, and what changes.
        policy: PolicySpec,
    },
    /// `DROP RETENTION POLICY name ON db`.
    DropRetentionPolicy { db: String, name: String },
    /// `KILL QUERY id [ON "host"]`.
    KillQuery(u64),
    /// What parses and is not served by an embedded store: users, rights, continuous queries,
    /// subscriptions, shards. Holds the words it began with, as `CREATE CONTINUOUS QUERY`.
    Unserved(&'static str),
}

/// What is said of a retention policy; `None` where it is not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicySpec {
    /// The policy's name; `None` where `CREATE DATABASE ... WITH` gives none.
    pub name: Option<String>,
    /// Nanoseconds; 0 is for ever (`INF`).
    pub duration_ns: Option<i64>,
    /// `REPLICATION n`.
    pub replication: Option<u64>,
    /// `SHARD DURATION` in nanoseconds.
    pub shard_duration_ns: Option<i64>,
    /// `DEFAULT`.
    pub default: bool,
}

/// `FROM ... WHERE ...` of `DELETE` and `DROP SERIES`.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// The measurements; empty is all.
    pub sources: Vec<Source>,
    /// The expression of `WHERE`; `None` selects every point.
    pub condition: Option<Expr>,
}

/// The statements that begin with `SHOW`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "fields are named as in the syntax above them")]
pub enum Show {
    /// `SHOW DATABASES`.
    Databases,
    /// `SHOW RETENTION POLICIES [ON db]`.
    RetentionPolicies {
        /// The database; `None` is that of the request.
        db: Option<String>,
    },
    /// `SHOW MEASUREMENTS [ON db] [WITH MEASUREMENT = x | =~ /x/] ...`.
    Measurements(ShowClauses),
    /// `SHOW SERIES`.
    Series(ShowClauses),
    /// `SHOW TAG KEYS`.
    TagKeys(ShowClauses),
    /// `SHOW TAG VALUES ... WITH KEY ...`.
    TagValues(ShowClauses),
    /// `SHOW FIELD KEYS`.
    FieldKeys(ShowClauses),
    /// `SHOW <what> [EXACT] CARDINALITY`.
    Cardinality {
        what: Cardinality,
        /// Whether `EXACT` was said.
        exact: bool,
        clauses: ShowClauses,
        /// `GROUP BY`.
        dimensions: Vec<Dimension>,
    },
    /// `SHOW QUERIES`.
    Queries,
    /// `SHOW CONTINUOUS QUERIES`.
    ContinuousQueries,
    /// `SHOW USERS`.
    Users,
    /// `SHOW GRANTS FOR user`.
    Grants,
    /// `SHOW SUBSCRIPTIONS`.
    Subscriptions,
    /// `SHOW SHARDS`.
    Shards,
    /// `SHOW SHARD GROUPS`.
    ShardGroups,
    /// `SHOW STATS`.
    Stats,
    /// `SHOW DIAGNOSTICS`.
    Diagnostics,
}

/// What `SHOW ... CARDINALITY` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each says what it is")]
pub enum Cardinality {
    Series,
    Measurement,
    TagKey,
    TagValues,
    FieldKey,
}

/// The clauses of a `SHOW` of the schema; each statement has some of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShowClauses {
    /// `ON db`.
    pub db: Option<String>,
    /// `FROM`, or `WITH MEASUREMENT`.
    pub sources: Vec<Source>,
    /// `WITH KEY`, of tag values.
    pub key: Option<KeyMatch>,
    /// `WHERE`.
    pub condition: Option<Expr>,
    /// `ORDER BY`: whether descending.
    pub descending: bool,
    /// `LIMIT`; 0 is without.
    pub limit: u64,
    /// `OFFSET`.
    pub offset: u64,
    /// `SLIMIT`; 0 is without.
    pub series_limit: u64,
    /// `SOFFSET`.
    pub series_offset: u64,
}

/// `WITH KEY ...`.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyMatch {
    /// `= key`.
    Equal(String),
    /// `!= key`.
    NotEqual(String),
    /// `=~ /regex/`.
    Regex(Regex),
    /// `!~ /regex/`.
    NotRegex(Regex),
    /// `IN (a, b)`.
    In(Vec<String>),
}

/// A regular expression in Go's syntax, as between the slashes with `\/` undone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Regex(pub String);

/// `SELECT`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Select {
    /// The list between `SELECT` and `FROM`.
    pub fields: Vec<Field>,
    /// `INTO`.
    pub target: Option<Measurement>,
    /// `FROM`.
    pub sources: Vec<Source>,
    /// `WHERE`.
    pub condition: Option<Expr>,
    /// `GROUP BY`.
    pub dimensions: Vec<Dimension>,
    /// `fill()`.
    pub fill: Fill,
    /// `ORDER BY time DESC`.
    pub descending: bool,
    /// Whether there is an `ORDER BY`, be it the order that is meant without.
    pub ordered: bool,
    /// `LIMIT`; 0 is without.
    pub limit: u64,
    /// `OFFSET`.
    pub offset: u64,
    /// `SLIMIT`; 0 is without.
    pub series_limit: u64,
    /// `SOFFSET`.
    pub series_offset: u64,
    /// `tz('...')`: the time zone's name as written.
    pub timezone: Option<String>,
}

/// One of what is selected.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// An expression over fields and tags, or a wildcard.
    pub expr: Expr,
    /// `AS`.
    pub alias: Option<String>,
}

/// `fill()`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Fill {
    /// `fill(null)`, also where nothing is said.
    #[default]
    Null,
    /// `fill(none)`.
    None,
    /// `fill(previous)`.
    Previous,
    /// `fill(linear)`.
    Linear,
    /// `fill(1)`: whole numbers stay whole.
    Integer(i64),
    /// `fill(1.5)`.
    Number(f64),
}

/// One of `GROUP BY`.
#[derive(Clone, Debug, PartialEq)]
pub enum Dimension {
    /// A tag key, as written without quotes.
    Tag(String),
    /// All tags whose keys match.
    Regex(Regex),
    /// `*`, `*::tag` or `*::field`: all tags, whatever is said.
    Wildcard(Option<WildcardKind>),
    /// `time(interval [, offset])`.
    Time {
        /// The window's length in nanoseconds, positive.
        interval_ns: i64,
        /// Where the windows begin.
        offset: TimeOffset,
    },
    /// Anything else, `time()` of a form other than the above included: mostly an error, for
    /// whoever runs the query to word.
    Other(Expr),
}

/// The second argument of `time()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeOffset {
    /// A duration of either sign, nanoseconds; 0 where nothing is said.
    Duration(i64),
    /// A time, nanoseconds since 1970: windows begin there and before and after it.
    Time(i64),
    /// `now()`.
    Now,
}

/// One entry of a `FROM` clause.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A measurement, by name or regular expression.
    Measurement(Measurement),
    /// `(SELECT ...)`.
    Subquery(Box<Select>),
}

/// `[[db.]policy.]measurement`.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The database; `None` is that of the request.
    pub db: Option<String>,
    /// The policy; `None` is the default.
    pub policy: Option<String>,
    /// The measurement's name, or a pattern for it.
    pub name: MeasurementName,
}

/// A measurement by name or regular expression.
#[derive(Clone, Debug, PartialEq)]
pub enum MeasurementName {
    /// The measurement with exactly this name.
    Name(String),
    /// All whose names match.
    Regex(Regex),
    /// `:MEASUREMENT`, of `INTO`: the name of each source.
    Same,
}
