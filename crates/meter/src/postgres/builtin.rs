//! The scripts that are there without a file: what sysbench's `oltp_*` and pgbench's own scripts
//! send, with the variables by which they choose rows.

use super::Protocol;

const POINT: &str = "\\set id key(1, :table_size)\nSELECT c FROM sbtest1 WHERE id=:id;\n";
/// Point selects of a transaction.
const POINTS: usize = 10;
/// The queries over a range of 100 rows.
const RANGES: [&str; 4] = [
    "SELECT c FROM sbtest1 WHERE id BETWEEN :id AND :last;",
    "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN :id AND :last;",
    "SELECT c FROM sbtest1 WHERE id BETWEEN :id AND :last ORDER BY c;",
    "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN :id AND :last ORDER BY c;",
];
const RANGE: &str = "\\set id key(1, :table_size)\n\\set last :id + 99\n";
const UPDATE_INDEX: &str = "\\set id key(1, :table_size)\nUPDATE sbtest1 SET k=k+1 WHERE id=:id;\n";
const UPDATE_NON_INDEX: &str = "\\set c digit_groups(10)\n\\set id key(1, :table_size)\n\
    UPDATE sbtest1 SET c=:c WHERE id=:id;\n";
const DELETE: &str = "\\set id key(1, :table_size)\nDELETE FROM sbtest1 WHERE id=:id;\n";
const INSERT_AGAIN: &str = "\\set k key(1, :table_size)\n\\set c digit_groups(10)\n\
    \\set pad digit_groups(5)\n\
    INSERT INTO sbtest1 (id, k, c, pad) VALUES (:id, :k, :c, :pad);\n";
const INSERT: &str = "\\set k key(1, :table_size)\n\\set c digit_groups(10)\n\
    \\set pad digit_groups(5)\n\
    INSERT INTO sbtest1 (k, c, pad) VALUES (:k, :c, :pad);\n";

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

/// A script's text, and how its own tool sends it.
pub(super) fn script(name: &str) -> Option<(String, Protocol)> {
    let reads = || {
        let ranges = RANGES.iter().flat_map(|query| [RANGE, query, "\n"]);
        std::iter::repeat_n(POINT, POINTS).chain(ranges).collect::<String>()
    };
    let writes = [UPDATE_INDEX, UPDATE_NON_INDEX, DELETE, INSERT_AGAIN].concat();
    let within = |body: &str| format!("BEGIN;\n{body}COMMIT;\n");
    let (text, protocol) = match name {
        "oltp_point_select" => (POINT.to_owned(), Protocol::Prepared),
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
    Some((text, protocol))
}
