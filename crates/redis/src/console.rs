//! The console: what `WEIR` can be told, and the tables that it shows, over RESP.
//!
//! Pure: it reads a command and writes tables of what the workers have given. Whoever asks has been
//! found to be an administrator before.

pub mod rows;
pub mod tables;

use watch::table::{Table, Value};
use wire::resp::{
    Command, Version, put_array, put_bulk, put_integer, put_map, put_null, put_simple,
};

/// What can be told to the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// `WEIR HELP`: what commands there are.
    Help,
    /// `WEIR SHOW` of this table.
    Show(Show),
    /// Hold back what clients ask.
    Pause,
    /// Let them go on.
    Resume,
    /// Close a client, by its number in the process.
    Kill(u64),
}

/// What can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    Backends,
    /// Lanes, and connections that clients have to themselves.
    Lanes,
    Clients,
    /// What commands take, by server.
    Stats,
    /// Commands that were slow.
    Slow,
    /// Keys that are asked for often.
    Hot,
    /// Keys whose values are big.
    Big,
    /// Append-only files that Weir keeps.
    Aof,
}

impl Show {
    /// All tables, by their names.
    pub const ALL: [(&'static str, Self); 8] = [
        ("BACKENDS", Self::Backends),
        ("LANES", Self::Lanes),
        ("CLIENTS", Self::Clients),
        ("STATS", Self::Stats),
        ("SLOW", Self::Slow),
        ("HOT", Self::Hot),
        ("BIG", Self::Big),
        ("AOF", Self::Aof),
    ];
}

const HELP: [&str; 16] = [
    "WEIR <subcommand>. Subcommands are:",
    "SHOW BACKENDS",
    "    The servers of this pool, with what they take.",
    "SHOW LANES | CLIENTS",
    "    Shared connections to servers; who is connected.",
    "SHOW STATS | SLOW",
    "    What commands take, by server; those that were slow.",
    "SHOW HOT | BIG",
    "    Keys that are asked for often, or whose values are big, sampled from what passes.",
    "SHOW AOF",
    "    The append-only files that Weir keeps.",
    "PAUSE",
    "    Hold back what clients ask; says so once nothing is under way on lanes.",
    "RESUME",
    "KILL <client-id>",
    "    Close a client of this pool.",
];

/// Reads what is behind `WEIR`.
///
/// # Errors
/// It is nothing that the console knows.
pub fn read(command: &Command<'_>) -> Result<Order, String> {
    let word =
        |at: usize| String::from_utf8_lossy(command.get(at).unwrap_or_default()).to_uppercase();
    let shown = |name: &str| Show::ALL.iter().find(|(of, _)| *of == name).map(|(_, show)| *show);
    let order = match (&*word(1), command.len()) {
        ("HELP", 2) => Some(Order::Help),
        ("SHOW", 3) => shown(&word(2)).map(Order::Show),
        ("PAUSE", 2) => Some(Order::Pause),
        ("RESUME", 2) => Some(Order::Resume),
        ("KILL", 3) => word(2).parse().ok().map(Order::Kill),
        _ => None,
    };
    order
        .ok_or_else(|| "ERR weir: unknown to the console; WEIR HELP shows what it knows".to_owned())
}

/// Appends lines of help, as servers do.
pub fn put_help(out: &mut Vec<u8>, lines: &[&str]) {
    put_array(out, lines.len());
    lines.iter().for_each(|line| put_simple(out, line.as_bytes()));
}

/// Appends what there is.
pub fn put_own_help(out: &mut Vec<u8>) {
    put_help(out, &HELP);
}

/// Appends a table: an array of its rows, each a map of its cells by their columns.
pub fn put_table(out: &mut Vec<u8>, table: &Table, version: Version) {
    put_array(out, table.rows().len());
    for row in table.rows() {
        put_map(out, row.len(), version);
        for (name, cell) in table.names().zip(row) {
            put_bulk(out, name.as_bytes());
            match cell {
                Value::Text(text) => put_bulk(out, text.as_bytes()),
                Value::Count(count) => put_integer(out, i64::try_from(*count).unwrap_or(i64::MAX)),
                Value::Null => put_null(out, version),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::resp::{CommandFrame, Commands, Limits};

    use super::*;

    fn order(line: &str) -> Result<Order, String> {
        let (mut commands, line) = (Commands::default(), format!("{line}\r\n"));
        let cut = commands.cut(line.as_bytes(), &Limits::default());
        assert!(matches!(cut, Ok(CommandFrame::Command(_))));
        read(&commands.command(line.as_bytes()))
    }

    #[test]
    fn orders_are_read_in_capitals_or_not() {
        assert_eq!(order("weir show hot"), Ok(Order::Show(Show::Hot)));
        assert_eq!(order("WEIR KILL 7"), Ok(Order::Kill(7)));
        assert_eq!(order("WEIR pause"), Ok(Order::Pause));
        for line in ["WEIR", "WEIR SHOW", "WEIR SHOW x", "WEIR KILL x", "WEIR PAUSE 5", "WEIR x"] {
            assert!(order(line).unwrap_err().contains("WEIR HELP"), "{line}");
        }
        for (name, show) in Show::ALL {
            assert_eq!(order(&format!("WEIR SHOW {name}")), Ok(Order::Show(show)));
            assert!(HELP.iter().any(|line| line.contains(name)), "{name}");
        }
    }

    #[test]
    fn a_table_is_an_array_of_maps() {
        let mut table =
            Table::new(&[("a", watch::table::Kind::Text), ("b", watch::table::Kind::Int)]);
        table.push(vec!["x".into(), Value::Null]);
        let (mut two, mut three) = (Vec::new(), Vec::new());
        put_table(&mut two, &table, Version::Two);
        put_table(&mut three, &table, Version::Three);
        assert_eq!(two, b"*1\r\n*4\r\n$1\r\na\r\n$1\r\nx\r\n$1\r\nb\r\n$-1\r\n");
        assert_eq!(three, b"*1\r\n%2\r\n$1\r\na\r\n$1\r\nx\r\n$1\r\nb\r\n_\r\n");
    }
}
