//! The scripts that are there without a file: what sysbench's `oltp_*` and pgbench's own scripts
//! send, with the variables by which they choose rows.

use super::Protocol;

/// Stands for the table that was drawn. Where there are several, a script has a statement for each.
pub(super) const TABLE: &str = "sbtestN";
/// Where a table is drawn: sysbench does so once for each kind of statement of a transaction.
const DRAW: &str = "\\set table\n";
const POINT: &str = "\\set id key(1, :table_size)\nSELECT c FROM sbtestN WHERE id=:id;\n";
/// Point selects of a transaction.
const POINTS: usize = 10;
/// The queries over a range of 100 rows.
const RANGES: [&str; 4] = [
    "SELECT c FROM sbtestN WHERE id BETWEEN :id AND :last;",
    "SELECT SUM(k) FROM sbtestN WHERE id BETWEEN :id AND :last;",
    "SELECT c FROM sbtestN WHERE id BETWEEN :id AND :last ORDER BY c;",
    "SELECT DISTINCT c FROM sbtestN WHERE id BETWEEN :id AND :last ORDER BY c;",
];
const RANGE: &str = "\\set id key(1, :table_size)\n\\set last :id + 99\n";
const UPDATE_INDEX: &str = "\\set table\n\\set id key(1, :table_size)\n\
    UPDATE sbtestN SET k=k+1 WHERE id=:id;\n";
const UPDATE_NON_INDEX: &str = "\\set table\n\\set c digit_groups(10)\n\
    \\set id key(1, :table_size)\n\
    UPDATE sbtestN SET c=:c WHERE id=:id;\n";
const DELETE: &str = "\\set table\n\\set id key(1, :table_size)\n\
    DELETE FROM sbtestN WHERE id=:id;\n";
const INSERT_AGAIN: &str = "\\set k key(1, :table_size)\n\\set c digit_groups(10)\n\
    \\set pad digit_groups(5)\n\
    INSERT INTO sbtestN (id, k, c, pad) VALUES (:id, :k, :c, :pad);\n";
const INSERT: &str = "\\set table\n\\set k key(1, :table_size)\n\\set c digit_groups(10)\n\
    \\set pad digit_groups(5)\n\
    INSERT INTO sbtestN (k, c, pad) VALUES (:k, :c, :pad);\n";

const ACCOUNT: &str = "\\set aid key(1, 100000 * :scale)\n";
const BANK: &str = "\\set aid key(1, 100000 * :scale)\n\\set bid random(1, 1 * :scale)\n\
    \\set tid random(1, 10 * :scale)\n\\set delta random(-5000, 5000)\nBEGIN;\n\
    UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n\
    SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n";
const TELLER_AND_BRANCH: &str = "\
    UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;\n\
    UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;\n";
const HISTORY: &str = "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) \
    VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);\nEND;\n";

/// The table that `--ledger` is kept of.
pub const LEDGER: &str = "weir_ledger";
const KEPT: &str =
    "INSERT INTO weir_ledger (run, number, content) VALUES (:run, :number, :content);\n";

const NAMES: [&str; 12] = [
    "oltp_point_select",
    "oltp_read_only",
    "oltp_write_only",
    "oltp_read_write",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_insert",
    "oltp_delete",
    "select-only",
    "simple-update",
    "tpcb-like",
    "ledger",
];

/// What scripts there are.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter()
}

/// A script's text with [`TABLE`] in it where there are several tables, and how its own tool sends
/// it.
pub(super) fn script(name: &str, tables: u64) -> Option<(String, Protocol)> {
    let reads = || {
        let ranges = RANGES.iter().flat_map(|query| [DRAW, RANGE, query, "\n"]);
        let points = std::iter::once(DRAW).chain(std::iter::repeat_n(POINT, POINTS));
        points.chain(ranges).collect::<String>()
    };
    let writes = [UPDATE_INDEX, UPDATE_NON_INDEX, DELETE, INSERT_AGAIN].concat();
    let within = |body: &str| format!("BEGIN;\n{body}COMMIT;\n");
    let (text, protocol) = match name {
        "oltp_point_select" => ([DRAW, POINT].concat(), Protocol::Prepared),
        "oltp_read_only" => (within(&reads()), Protocol::Prepared),
        "oltp_write_only" => (within(&writes), Protocol::Prepared),
        "oltp_read_write" => (within(&(reads() + &writes)), Protocol::Prepared),
        "oltp_update_index" => (UPDATE_INDEX.to_owned(), Protocol::Prepared),
        "oltp_update_non_index" => (UPDATE_NON_INDEX.to_owned(), Protocol::Prepared),
        // This one is never prepared by sysbench.
        "oltp_insert" => (INSERT.to_owned(), Protocol::Simple),
        "oltp_delete" => (DELETE.to_owned(), Protocol::Prepared),
        "select-only" => {
            let select = "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n";
            ([ACCOUNT, select].concat(), Protocol::Simple)
        }
        "simple-update" => ([BANK, HISTORY].concat(), Protocol::Simple),
        "tpcb-like" => ([BANK, TELLER_AND_BRANCH, HISTORY].concat(), Protocol::Simple),
        "ledger" => (KEPT.to_owned(), Protocol::Prepared),
        _ => return None,
    };
    let text = match tables {
        1 => text.replace(DRAW, "").replace(TABLE, &table(1)),
        _ => text.replace(DRAW, &format!("\\set table random(1, {tables})\n")),
    };
    Some((text, protocol))
}

/// The name of a table of sysbench's, from 1 on.
pub(super) fn table(number: u64) -> String {
    format!("sbtest{number}")
}
