//! tokio-postgres through Weir, over a Unix socket since it has no TLS of its own; ends with a
//! panic where something is not as it should be.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{join_all, poll_fn, try_join_all};
use futures_util::{SinkExt, StreamExt, TryStreamExt};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, Config, Error, NoTls, SimpleQueryMessage};

fn given(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is set"))
}

fn config() -> Config {
    let mut config = Config::new();
    config.host(given("WEIR_DIR")).port(given("WEIR_PG_PORT").parse().expect("a port"));
    config.user(given("WEIR_PG_USER")).password(given("WEIR_PG_PASSWORD"));
    config.dbname(given("WEIR_PG_DATABASE"));
    config
}

/// A client, what it is notified of, and the task of its connection.
async fn connect() -> (Client, Receiver<String>, JoinHandle<()>) {
    let (client, mut connection) = config().connect(NoTls).await.expect("it is let in");
    let (tell, heard) = channel(100);
    let task = tokio::spawn(async move {
        while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(said) = message.expect("the connection stays") {
                tell.send(said.payload().to_owned()).await.expect("somebody listens");
            }
        }
    });
    (client, heard, task)
}

#[track_caller]
fn fails<T>(result: Result<T, Error>, expected: &SqlState) {
    let error = result.err().expect("an error");
    assert_eq!(error.code(), Some(expected), "{error:?}");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    for wrong in [config().password("wrong"), config().user("nobody")] {
        fails(wrong.connect(NoTls).await, &SqlState::INVALID_PASSWORD);
    }
    let (mut client, mut heard, task) = connect().await;
    let create = "DROP TABLE IF EXISTS rust_client; \
                  CREATE TABLE rust_client (n int4 PRIMARY KEY, t text)";
    client.batch_execute(create).await.expect("a table");
    in_flight(&client).await;
    transactions(&mut client).await;
    portals(&mut client).await;
    copies(&client).await;
    cancels(&client).await;
    notifications(&client, &mut heard).await;
    join_all((0..20).map(own_connection)).await;
    client.batch_execute("DROP TABLE rust_client").await.expect("it goes");
    drop(client);
    task.await.expect("the connection ends");
}

/// Each has a Sync of its own, so an error is the business of one alone.
async fn in_flight(client: &Client) {
    let insert = client.prepare("INSERT INTO rust_client VALUES ($1, $2)").await.expect("prepared");
    let inserts = (0..200).map(|n: i32| {
        let insert = &insert;
        async move { client.execute(insert, &[&n, &format!("ü{n}")]).await }
    });
    assert!(join_all(inserts).await.into_iter().all(|done| done.expect("inserted") == 1));
    let read = client.prepare("SELECT 100 / $1, t FROM rust_client WHERE n = $1").await;
    let read = read.expect("prepared");
    let reads = (0..200).map(|n: i32| {
        let read = &read;
        async move { client.query_one(read, &[&n]).await }
    });
    for (n, row) in (0..).zip(join_all(reads).await) {
        match n {
            0 => fails(row, &SqlState::DIVISION_BY_ZERO),
            n => assert_eq!(row.expect("a row").get::<_, String>(1), format!("ü{n}")),
        }
    }
    fails(client.execute(&insert, &[&1, &"again"]).await, &SqlState::UNIQUE_VIOLATION);
    let several = client.simple_query("SELECT 1; SELECT n FROM rust_client WHERE n < 3").await;
    let is_row = |message: &&SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(_));
    assert_eq!(several.expect("rows").iter().filter(is_row).count(), 4);
}

async fn transactions(client: &mut Client) {
    let change = client.prepare("UPDATE rust_client SET t = $2 WHERE n = $1").await;
    let change = change.expect("prepared");
    for n in 0..20 {
        let mut transaction = client.transaction().await.expect("a transaction");
        assert_eq!(transaction.execute(&change, &[&n, &"changed"]).await.expect("changed"), 1);
        let inner = transaction.savepoint("inside").await.expect("a savepoint");
        fails(inner.query("SELECT 1 / 0", &[]).await, &SqlState::DIVISION_BY_ZERO);
        fails(inner.query("SELECT 1", &[]).await, &SqlState::IN_FAILED_SQL_TRANSACTION);
        inner.rollback().await.expect("back to it");
        match n % 2 {
            0 => transaction.commit().await.expect("committed"),
            _ => transaction.rollback().await.expect("undone"),
        }
    }
    let changed = "SELECT count(*) FROM rust_client WHERE t = 'changed'";
    let changed: i64 = client.query_one(changed, &[]).await.expect("a count").get(0);
    assert_eq!(changed, 10);
}

/// Rows by sevens, with other statements in between.
async fn portals(client: &mut Client) {
    let transaction = client.transaction().await.expect("a transaction");
    let portal = transaction.bind("SELECT n FROM rust_client ORDER BY n", &[]).await;
    let portal = portal.expect("a portal");
    let mut seen = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 7).await.expect("rows");
        let other = transaction.query_one("SELECT $1::int4 + 1", &[&1]).await.expect("a row");
        assert_eq!(other.get::<_, i32>(0), 2);
        if rows.is_empty() {
            break;
        }
        seen.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
    }
    assert_eq!(seen, (0..200).collect::<Vec<_>>());
    transaction.commit().await.expect("committed");
    // Not read to its end: the rest goes by before the next answer.
    let rows = client.query_raw("SELECT generate_series(1, 100000)", &[] as &[&str]).await;
    assert!(pin!(rows.expect("rows")).next().await.is_some());
}

async fn copies(client: &Client) {
    let copy = "COPY rust_client FROM STDIN";
    let rows = (1000..2000).map(|n| Ok(format!("{n}\tcopied\n").into_bytes().into()));
    let sink = client.copy_in::<_, bytes::Bytes>(copy).await.expect("it takes data");
    let mut sink = pin!(sink);
    let mut rows = futures_util::stream::iter(rows);
    sink.send_all(&mut rows).await.expect("it is taken");
    assert_eq!(sink.finish().await.expect("all is in"), 1000);
    {
        let sink = client.copy_in::<_, bytes::Bytes>(copy).await.expect("it takes data");
        pin!(sink).send("3000\tgiven up\n".into()).await.expect("it is taken");
    }
    let out = "COPY (SELECT n FROM rust_client WHERE n >= 1000 ORDER BY n) TO STDOUT";
    let out = client.copy_out(out).await.expect("it gives data");
    let lines: Vec<_> = out.try_collect().await.expect("all of it");
    assert_eq!((lines.len(), &lines[0][..]), (1000, &b"1000\n"[..]));
}

async fn cancels(client: &Client) {
    for _ in 0..3 {
        let token = client.cancel_token();
        let slow = client.query("SELECT pg_sleep(60)", &[]);
        let cancel = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            token.cancel_query(NoTls).await.expect("it arrives");
        };
        let (slow, ()) = futures_util::future::join(slow, cancel).await;
        fails(slow, &SqlState::QUERY_CANCELED);
        client.query_one("SELECT 1", &[]).await.expect("it goes on");
    }
}

async fn notifications(client: &Client, heard: &mut Receiver<String>) {
    client.batch_execute("LISTEN rust").await.expect("it listens");
    let (other, _heard, _task) = connect().await;
    other.batch_execute("NOTIFY rust, 'hello'").await.expect("it is sent");
    let said = tokio::time::timeout(Duration::from_secs(20), heard.recv()).await;
    assert_eq!(said.expect("in time").as_deref(), Some("hello"));
    client.batch_execute("UNLISTEN *").await.expect("it does not");
}

async fn own_connection(number: i32) {
    let (client, _heard, _task) = connect().await;
    let read = client.prepare("SELECT $1::int4 + $2, n FROM rust_client WHERE n = $2").await;
    let read = read.expect("prepared");
    let read = &read;
    let client = &client;
    let reads = (0..50).map(|n: i32| async move { client.query_one(read, &[&number, &n]).await });
    for (n, row) in (0..).zip(try_join_all(reads).await.expect("rows")) {
        assert_eq!(row.get::<_, i32>(0), number + n);
    }
}
