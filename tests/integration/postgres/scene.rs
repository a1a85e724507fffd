//! Weir in front of clusters, clients through it, and its console.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use pg::{Client, Config, NoTls, SimpleQueryMessage};
use rig::postgres::{Cluster, MessageClient, Reply, SUPERUSER};
use rig::weir::{Setup, Weir};
use wire::postgres::frontend::put_query;

/// Weir in front of clusters that trust everyone, with more lines in `[postgres]`.
pub fn weir(clusters: &[&Cluster], lines: &str) -> Weir {
    Setup::new().table(&table(clusters, lines)).start()
}

pub fn table(clusters: &[&Cluster], lines: &str) -> String {
    let mut table = format!(
        "[postgres]\nlisten = \"{{postgres}}\"\npoll-interval = \"200ms\"\n\
         poll-timeout = \"20s\"\n{lines}\n\
         [postgres.console]\nadmin-users = [\"{SUPERUSER}\"]\n\
         [[postgres.auth]]\naddress = [\"127.0.0.1\"]\nmethod = \"trust\"\n"
    );
    for (name, cluster) in ["a", "b", "c"].iter().zip(clusters) {
        let url = cluster.url();
        let _ = writeln!(table, "[[postgres.backend]]\nname = \"{name}\"\nurl = \"{url}\"");
    }
    table
}

/// Has Weir take on other lines in `[postgres]`, which hold for clients that connect from then on.
pub fn reload(weir: &mut Weir, clusters: &[&Cluster], lines: &str) {
    let table = table(clusters, lines);
    weir.configure(|_| Setup::new().table(&table));
    console(weir).simple_query("RELOAD").expect("it is taken");
}

/// How a client is to connect.
pub fn config(address: SocketAddr, user: &str, database: &str) -> Config {
    let mut config = Config::new();
    config.host(&address.ip().to_string()).port(address.port());
    config.user(user).dbname(database).connect_timeout(Duration::from_secs(30));
    config
}

/// A client through Weir.
pub fn client(weir: &Weir) -> Result<Client, pg::Error> {
    config(weir.postgres, SUPERUSER, SUPERUSER).connect(NoTls)
}

/// A client through Weir, message by message.
pub fn peer(weir: &Weir) -> MessageClient {
    let parameters = [("user", SUPERUSER), ("database", SUPERUSER)];
    MessageClient::connect(weir.postgres, &parameters).expect("it takes clients")
}

/// What it is answered to a Query.
pub fn asks(peer: &mut MessageClient, sql: &str) -> Reply {
    let mut out = Vec::new();
    put_query(&mut out, sql.as_bytes());
    peer.send(&out).expect("it is taken");
    peer.reply().expect("it is answered")
}

/// Waits until the catalogue is known; before that nothing is proven, and server connections are
/// not kept.
pub fn until_known(weir: &Weir, client: &mut Client) {
    rig::wait::until("the catalogue is known", rig::wait::LONG, || {
        value(client, "SELECT count(*) FROM pg_class").expect("it is run");
        weir.metrics().sum("weir_postgres_rounds_total", &[("way", "lane")]) > 0.0
    });
}

/// An operator at Weir's console.
pub fn console(weir: &Weir) -> Client {
    config(weir.postgres, SUPERUSER, "weir").connect(NoTls).expect("an operator is let in")
}

/// What the server or Weir says to a statement, as an error's code and message.
pub fn said(error: &pg::Error) -> String {
    error
        .as_db_error()
        .map_or(error.to_string(), |error| format!("{} {}", error.code().code(), error.message()))
}

/// One value of a statement's first row.
///
/// # Errors
/// What was said.
pub fn value(client: &mut Client, sql: &str) -> Result<String, String> {
    let answer = client.simple_query(sql).map_err(|error| said(&error))?;
    let value = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    Ok(value.unwrap_or_default())
}

/// A row by its columns.
pub type Row = BTreeMap<String, String>;

/// The rows of a table of the console.
pub fn rows(console: &mut Client, show: &str) -> Vec<Row> {
    let answer = console.simple_query(show).expect("it is shown");
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some(
            row.columns()
                .iter()
                .enumerate()
                .map(|(at, column)| {
                    (column.name().to_owned(), row.get(at).unwrap_or_default().to_owned())
                })
                .collect(),
        ),
        _ => None,
    };
    answer.iter().filter_map(row).collect()
}

/// The row in which a column says this.
pub fn row(console: &mut Client, show: &str, column: &str, value: &str) -> Row {
    let rows = rows(console, show);
    let found = rows.iter().find(|row| row.get(column).is_some_and(|is| is == value));
    found.unwrap_or_else(|| panic!("{show}: no {column} is {value:?} in {rows:?}")).clone()
}

/// A number of a row.
pub fn number(row: &Row, column: &str) -> u64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} is not a number in {row:?}"))
}
