//! What clients send in tests: rounds, and parts of rounds.

use wire::postgres::message;

/// A round of a client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRound {
    Query(&'static str),
    /// A statement in the unnamed one, prepared and run.
    Runs(&'static str),
    /// A statement is given a name, and run by that.
    Names(&'static str),
    /// The statement with the name is run.
    RunsNamed,
    /// A COPY, its data and their end.
    Copies,
    /// A statement is given the name, and the answer wanted before the round's end.
    Prepares(&'static str),
    /// The statement with the name is run so.
    Binds,
    /// The end of a round.
    Syncs,
}

use ClientRound::{Binds, Copies, Names, Prepares, Query, Runs, RunsNamed, Syncs};

pub const SELECT: &str = "SELECT 1";
pub const INSERT: &str = "INSERT INTO t VALUES (1)";
pub const SET_LOCAL: &str = "SET LOCAL search_path = a";
pub const SET: &str = "SET search_path = b";
pub const FAILS: &str = "SELECT 1/0";
pub const LISTEN: &str = "LISTEN a";

pub const ALL: [ClientRound; 12] = [
    Query(SELECT),
    Query(INSERT),
    Query("BEGIN"),
    Query("COMMIT"),
    Query(SET_LOCAL),
    Runs(SELECT),
    Runs(SET),
    Runs(FAILS),
    Names(SELECT),
    RunsNamed,
    Copies,
    Runs(LISTEN),
];

/// Parts of rounds, of which the last may stay open, and what may come amid or behind them.
pub const PARTS: [ClientRound; 9] = [
    Prepares(SELECT),
    Prepares(INSERT),
    Binds,
    Syncs,
    Query(SELECT),
    Query("BEGIN"),
    Query("COMMIT"),
    Runs(FAILS),
    Copies,
];

/// Kinds beside those, which the soak adds.
pub const MORE: [ClientRound; 5] =
    [Query("ROLLBACK"), Query(SET), Query(FAILS), Runs(INSERT), Query("DEALLOCATE ALL")];

impl ClientRound {
    pub fn bytes(self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |tag: u8, parts: &[&[u8]]| {
            message(&mut out, tag, |out| out.extend_from_slice(&parts.concat()));
        };
        match self {
            Query(sql) => put(b'Q', &[sql.as_bytes(), b"\0"]),
            Copies => {
                put(b'Q', &[b"COPY t FROM STDIN\0"]);
                put(b'd', &[b"1\n"]);
                put(b'c', &[]);
            }
            Prepares(sql) => {
                put(b'P', &[b"s\0", sql.as_bytes(), b"\0\0\0"]);
                put(b'H', &[]);
            }
            Binds => {
                put(b'B', &[b"\0s\0\0\0\0\0\0\0"]);
                put(b'E', &[b"\0\0\0\0\0"]);
                put(b'H', &[]);
            }
            Syncs => put(b'S', &[]),
            Runs(_) | Names(_) | RunsNamed => {
                let name: &[u8] = if matches!(self, Runs(_)) { b"" } else { b"s" };
                if let Runs(sql) | Names(sql) = self {
                    put(b'P', &[name, b"\0", sql.as_bytes(), b"\0\0\0"]);
                }
                put(b'B', &[b"\0", name, b"\0\0\0\0\0\0\0"]);
                put(b'E', &[b"\0\0\0\0\0"]);
                put(b'S', &[]);
            }
        }
        out
    }
}
