//! Words of PostgreSQL's grammar, where a list of them is needed.

/// The first number that an object of a user's can have (`FirstNormalObjectId`).
pub(super) const FIRST_USER_OID: u32 = 16_384;

/// Longest identifier; the server cuts longer ones off (`NAMEDATALEN` less one), in bytes.
pub(super) const NAME_BYTES_MAX: usize = 63;

/// Keywords that can be no function's name without quotes, reserved ones and names of columns only
/// (`kwlist.h`), and that may stand before a parenthesis.
const NEVER_FUNCTIONS: [&str; 60] = [
    "all",
    "and",
    "any",
    "array",
    "as",
    "asymmetric",
    "between",
    "bit",
    "case",
    "cast",
    "char",
    "character",
    "coalesce",
    "dec",
    "decimal",
    "distinct",
    "else",
    "except",
    "exists",
    "extract",
    "float",
    "from",
    "greatest",
    "group",
    "grouping",
    "having",
    "in",
    "intersect",
    "interval",
    "lateral",
    "least",
    "limit",
    "nchar",
    "not",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "precision",
    "row",
    "select",
    "some",
    "symmetric",
    "then",
    "time",
    "timestamp",
    "to",
    "trim",
    "union",
    "using",
    "values",
    "varchar",
    "when",
    "where",
    "xmlelement",
    "xmlforest",
    "xmlconcat",
];

/// Words that may stand before a parenthesis without calling a function, but that a user could give
/// to one: they are syntax only if no function has the name.
const BEFORE_PARENTHESIS: [&str; 42] = [
    "by",
    "collation",
    "columns",
    "cube",
    "escape",
    "explain",
    "filter",
    "first",
    "ilike",
    "is",
    "join",
    "json",
    "json_array",
    "json_arrayagg",
    "json_exists",
    "json_object",
    "json_objectagg",
    "json_query",
    "json_scalar",
    "json_serialize",
    "json_table",
    "json_value",
    "like",
    "materialized",
    "next",
    "normalize",
    "operator",
    "over",
    "overlaps",
    "overlay",
    "partition",
    "position",
    "rollup",
    "second",
    "sets",
    "similar",
    "substring",
    "varying",
    "xmlattributes",
    "xmlexists",
    "xmltable",
    "zone",
];

/// Names of types that are keywords and so in no catalogue by this spelling.
const TYPE_KEYWORDS: [&str; 20] = [
    "bigint",
    "bit",
    "boolean",
    "char",
    "character",
    "dec",
    "decimal",
    "double",
    "float",
    "int",
    "integer",
    "interval",
    "national",
    "nchar",
    "numeric",
    "real",
    "smallint",
    "time",
    "timestamp",
    "varchar",
];

/// Words that are the time of the transaction.
const TIMES: [&str; 5] =
    ["current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"];

/// Types whose input takes no text for a time (`datetime.c`: 'now', 'today'), in whatever words.
const TIMELESS_TYPES: [&str; 33] = [
    "bigint",
    "bit",
    "bool",
    "boolean",
    "bpchar",
    "bytea",
    "char",
    "character",
    "cidr",
    "dec",
    "decimal",
    "double",
    "float",
    "float4",
    "float8",
    "inet",
    "int",
    "int2",
    "int4",
    "int8",
    "integer",
    "interval",
    "json",
    "jsonb",
    "name",
    "numeric",
    "oid",
    "real",
    "regclass",
    "smallint",
    "text",
    "uuid",
    "varchar",
];

fn has(list: &[&str], word: &[u8]) -> bool {
    list.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

/// Whether it is a keyword that can't be called.
pub(super) fn is_no_function(word: &[u8]) -> bool {
    has(&NEVER_FUNCTIONS, word)
}

/// Whether it may stand before a parenthesis without being called, if no function has the name.
pub(super) fn is_syntax_before_parenthesis(word: &[u8]) -> bool {
    has(&BEFORE_PARENTHESIS, word)
}

/// Whether it is the time of the transaction.
pub(super) fn is_time(word: &[u8]) -> bool {
    has(&TIMES, word)
}

/// Whether it begins the name of a type that never takes a text for a time.
pub(super) fn is_timeless_type(word: &[u8]) -> bool {
    has(&TIMELESS_TYPES, word)
}

/// Whether it may stand before a parenthesis in which values are turned into types that are named.
pub(super) fn converts(word: &[u8]) -> bool {
    word == b"xmltable" || word.starts_with(b"json")
}

/// Whether it begins the name of a type that is that is a keyword.
pub(super) fn is_type_keyword(word: &[u8]) -> bool {
    has(&TYPE_KEYWORDS, word)
}
