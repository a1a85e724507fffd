//! Words of PostgreSQL's grammar, where a list of them is needed.

/// The first number that an object of a user's can have (`FirstNormalObjectId`).
pub(super) const FIRST_USER_OID: u32 = 16_384;

/// Longest identifier; the server cuts longer ones off (`NAMEDATALEN` less one), in bytes.
pub(super) const NAME_BYTES_MAX: usize = 63;

/// Words that may stand before a parenthesis without calling a function. Those that a user could
/// give to a function are looked up first: only if no function has the name are they syntax.
const BEFORE_PARENTHESIS: [&str; 82] = [
    "all",
    "and",
    "any",
    "array",
    "as",
    "asymmetric",
    "between",
    "bit",
    "by",
    "case",
    "cast",
    "char",
    "character",
    "coalesce",
    "cube",
    "dec",
    "decimal",
    "distinct",
    "else",
    "escape",
    "except",
    "exists",
    "explain",
    "extract",
    "filter",
    "first",
    "float",
    "from",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "intersect",
    "interval",
    "is",
    "join",
    "json_table",
    "lateral",
    "least",
    "like",
    "limit",
    "materialized",
    "nchar",
    "next",
    "not",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "operator",
    "or",
    "order",
    "over",
    "overlaps",
    "overlay",
    "partition",
    "position",
    "precision",
    "rollup",
    "row",
    "select",
    "sets",
    "similar",
    "some",
    "substring",
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
    "varying",
    "when",
    "where",
    "zone",
];

/// More of them: functions of the grammar itself, which compute and nothing else.
const GRAMMAR_FUNCTIONS: [&str; 20] = [
    "collation",
    "json",
    "json_array",
    "json_arrayagg",
    "json_exists",
    "json_object",
    "json_objectagg",
    "json_query",
    "json_scalar",
    "json_serialize",
    "json_value",
    "normalize",
    "second",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmltable",
    "columns",
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

fn has(list: &[&str], word: &[u8]) -> bool {
    list.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

/// Whether it may stand before a parenthesis without being called.
pub(super) fn is_syntax_before_parenthesis(word: &[u8]) -> bool {
    has(&BEFORE_PARENTHESIS, word) || has(&GRAMMAR_FUNCTIONS, word)
}

/// Whether it begins the name of a type that is a keyword.
pub(super) fn is_type_keyword(word: &[u8]) -> bool {
    has(&TYPE_KEYWORDS, word)
}
