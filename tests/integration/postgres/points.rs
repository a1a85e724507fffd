//! Point statements that come as text are answered as the server answers them, and the server is
//! asked to run prepared ones.

use rig::postgres::{Cluster, MessageClient, SUPERUSER};
use rig::wait;
use wire::postgres::frontend::put_query;

use super::scene::weir;

const TABLES: &str = "CREATE TABLE t (id int PRIMARY KEY, k bigint, c text, d date, n numeric, \
     u uuid, a int, b varchar(5), UNIQUE (a, b));
     CREATE TABLE later (id int PRIMARY KEY, t int REFERENCES t DEFERRABLE INITIALLY DEFERRED);
     CREATE TABLE ruled (id int PRIMARY KEY);
     CREATE RULE no AS ON INSERT TO ruled DO INSTEAD SELECT 1 AS one;
     CREATE TABLE parent (id int PRIMARY KEY);
     CREATE TABLE child () INHERITS (parent);
     CREATE DOMAIN fine AS text CHECK (value <> 'bad');
     CREATE TABLE checked (id int PRIMARY KEY, c fine);
     CREATE TABLE spans (id int PRIMARY KEY, span interval year);
     CREATE SCHEMA other;
     CREATE TABLE other.twice (id int);
     CREATE TABLE twice (id int PRIMARY KEY)";

/// One after the other, each a point statement, from empty tables to empty tables.
const POINTS: &[&str] = &[
    "INSERT INTO t (id, k, c, d, n, u, a, b) VALUES (1, -2, 'it''s', '2020-01-01', 1.50, \
     'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 3, 'x')",
    "INSERT INTO t VALUES (2, 9999999999, '\\', NULL, 1e3, NULL, 4, ''), \
     (3, 1, '', 'now', 0, NULL, 5, 'y')",
    "insert into t (id, k) values (3, 4) on conflict (id) \
     do update set k = excluded.k, c = 'again'",
    "INSERT INTO t (id) VALUES (1) ON CONFLICT DO NOTHING",
    "SELECT * FROM t WHERE id = 1",
    "SELECT k, c, n FROM public.t AS x WHERE x.id=2;",
    "SELECT b FROM t WHERE a = 3 AND b = 'x' LIMIT 1",
    "SELECT c FROM t WHERE id = 12345678901",
    "SELECT c FROM t WHERE id = -1 AND c IS NOT NULL",
    "SELECT u FROM t WHERE id = 1 AND d = '2020-01-01' AND n < 1.6",
    "UPDATE t SET k = k + 1, c = 'new', d = '2021-01-01', n = n * 2 - 0.5 WHERE id = 1",
    "SELECT k, c, d, n FROM t WHERE id = 1",
    // Those of a form that always fails are not prepared.
    "UPDATE t SET b = 'five5' WHERE id = 1",
    "UPDATE t SET b = 'longer than five' WHERE id = 1",
    "UPDATE t SET id = 1 WHERE id = 1",
    "UPDATE t SET id = 2 WHERE id = 1",
    "INSERT INTO t (id) VALUES (4)",
    "INSERT INTO t (id) VALUES (2)",
    "DELETE FROM t WHERE id = 4",
    "DELETE FROM t WHERE id = 1",
    "DELETE FROM t WHERE id = 2",
    "DELETE FROM t WHERE id = 3",
];

/// What is not a point statement, or none for this session, and is answered all the same.
const OTHERS: &[&str] = &[
    "INSERT INTO ruled VALUES (1)",
    "SELECT id FROM parent WHERE id = 1",
    "SELECT id FROM twice WHERE id = 1",
    "INSERT INTO t (id) VALUES (5) RETURNING id, c",
    "INSERT INTO t (id, k) VALUES (5, 1) ON CONFLICT (id) DO UPDATE SET k = excluded.k \
     RETURNING id, k",
    "DELETE FROM t WHERE id = 5 RETURNING *",
    "INSERT INTO spans VALUES (1, '1')",
    "SELECT span FROM spans WHERE id = 1",
    "DELETE FROM spans WHERE id = 1",
    "UPDATE checked SET c = 'bad' WHERE id = 1",
    "SELECT 1 FROM t WHERE id = 5",
    "SELECT c FROM t WHERE id = E'5'",
    "/* who */ SELECT c FROM t WHERE id = 5",
    "SELECT nothing FROM t WHERE id = 5",
];

fn connect(address: std::net::SocketAddr) -> MessageClient {
    MessageClient::connect(address, &[("user", SUPERUSER), ("database", SUPERUSER)])
        .expect("it connects")
}

/// What is answered, message by message.
fn ask(peer: &mut MessageClient, sql: &str) -> Vec<(u8, Vec<u8>)> {
    let mut query = Vec::new();
    put_query(&mut query, sql.as_bytes());
    peer.send(&query).expect("it is taken");
    let messages = peer.messages().expect("it is answered");
    // Where in the server's source an error is from differs, and lines move.
    messages
        .into_iter()
        .map(|(tag, body)| (tag, if tag == b'E' { told(&body) } else { body }))
        .collect()
}

/// The fields of an error that clients act upon.
fn told(body: &[u8]) -> Vec<u8> {
    let fields = body
        .split(|byte| *byte == 0)
        .filter(|field| !b"FLR".contains(field.first().unwrap_or(&b'F')));
    fields.collect::<Vec<_>>().join(&b'\n')
}

fn points(weir: &rig::weir::Weir) -> f64 {
    weir.metrics().sum("weir_postgres_points_total", &[])
}

#[test]
fn a_point_statement_is_answered_as_by_the_server() {
    let cluster = Cluster::start();
    cluster.sql(TABLES);
    let weir = weir(&[&cluster], "");
    let (mut direct, mut through) = (connect(cluster.address), connect(weir.postgres));
    let once =
        |peer: &mut MessageClient| -> Vec<_> { POINTS.iter().map(|sql| ask(peer, sql)).collect() };
    let wanted = once(&mut direct);
    wait::until("they are prepared", wait::LONG, || {
        let before = points(&weir);
        for (sql, wanted) in POINTS.iter().zip(&wanted) {
            assert_eq!(&ask(&mut through, sql), wanted, "{sql}");
        }
        points(&weir) - before == POINTS.len() as f64
    });
    let before = points(&weir);
    for _ in 0..3 {
        let [wanted, told] = [&mut direct, &mut through]
            .map(|peer| OTHERS.iter().map(|sql| (sql, ask(peer, sql))).collect::<Vec<_>>());
        assert_eq!(told, wanted);
    }
    assert_eq!(points(&weir), before, "one of the others was taken for a point statement");
}

#[test]
fn within_a_transaction_too_and_what_a_commit_refuses_is_told() {
    let cluster = Cluster::start();
    cluster.sql(TABLES);
    let weir = weir(&[&cluster], "");
    let (mut direct, mut through) = (connect(cluster.address), connect(weir.postgres));
    let script = [
        "BEGIN",
        "INSERT INTO t (id, c) VALUES (1, 'a')",
        "UPDATE t SET c = 'b' WHERE id = 1",
        "SELECT c FROM t WHERE id = 1",
        "INSERT INTO t (id, c) VALUES (1, 'a')",
        "UPDATE t SET c = 'c' WHERE id = 1",
        "ROLLBACK",
        "BEGIN",
        "INSERT INTO later VALUES (1, 5)",
        "COMMIT",
        // Refused when its own transaction ends.
        "INSERT INTO later VALUES (2, 6)",
        "SELECT t FROM later WHERE id = 2",
    ];
    let once = |peer: &mut MessageClient| -> Vec<_> {
        script.map(|sql| ask(peer, sql)).into_iter().collect()
    };
    let wanted = once(&mut direct);
    wait::until("they are prepared", wait::LONG, || {
        let before = points(&weir);
        let told = once(&mut through);
        for ((sql, wanted), told) in script.iter().zip(&wanted).zip(told) {
            // The server completes a prepared statement before it commits.
            let told: Vec<_> = match *sql {
                "INSERT INTO later VALUES (2, 6)" => {
                    told.into_iter().filter(|of| of.0 != b'C').collect()
                }
                _ => told,
            };
            assert_eq!(&told, wanted, "{sql}");
        }
        points(&weir) - before >= 6.0
    });
}

#[test]
fn a_changed_table_is_no_error_to_what_was_prepared() {
    let cluster = Cluster::start();
    cluster.sql(TABLES);
    cluster.sql("INSERT INTO t (id, c) VALUES (1, 'a')");
    let weir = weir(&[&cluster], "");
    let mut peer = connect(weir.postgres);
    let columns = |peer: &mut MessageClient| {
        let told = ask(peer, "SELECT * FROM t WHERE id = 1");
        assert_eq!(told[0].0, b'T', "{told:?}");
        u16::from_be_bytes([told[0].1[0], told[0].1[1]])
    };
    wait::until("it is prepared", wait::LONG, || {
        let before = points(&weir);
        assert_eq!(columns(&mut peer), 8);
        points(&weir) > before
    });
    // Past Weir, which knows nothing of it for a while.
    cluster.sql("ALTER TABLE t ADD COLUMN more int");
    assert_eq!(columns(&mut peer), 9);
    // And through it.
    ask(&mut peer, "ALTER TABLE t DROP COLUMN more");
    assert_eq!(columns(&mut peer), 8);
    wait::until("it is prepared again", wait::LONG, || {
        let before = points(&weir);
        assert_eq!(columns(&mut peer), 8);
        points(&weir) > before
    });
}

#[test]
fn the_position_of_a_reads_error_counts_in_the_text_that_its_client_has_sent() {
    let cluster = Cluster::start();
    cluster.sql(TABLES);
    let weir = weir(&[&cluster], "");
    let (mut peer, mut direct) = (connect(weir.postgres), connect(cluster.address));
    let sql = "SELECT id FROM t WHERE id = 1234567890 AND c IS NOT NULL";
    wait::until("it is prepared", wait::LONG, || {
        let before = points(&weir);
        ask(&mut peer, sql);
        points(&weir) > before
    });
    // Past Weir, which knows nothing of it for a while.
    cluster.sql("ALTER TABLE t RENAME c TO renamed");
    let told = ask(&mut direct, sql);
    assert_eq!(told[0].0, b'E');
    for _ in 0..3 {
        assert_eq!(ask(&mut peer, sql), told);
    }
}

#[test]
fn the_position_of_a_writes_error_counts_in_the_text_that_its_client_has_sent() {
    let cluster = Cluster::start();
    cluster.sql("CREATE TABLE w (id int PRIMARY KEY, k bigint, c text)");
    let weir = weir(&[&cluster], "");
    let (mut peer, mut direct) = (connect(weir.postgres), connect(cluster.address));
    let sql = [
        "INSERT INTO w (id, k, c) VALUES (1234567890, 1, 'x')",
        "UPDATE w SET k = 1234567890, c = 'x' WHERE id = 1234567890",
        "DELETE FROM w WHERE id = 1234567890 AND c IS NULL",
    ];
    let mut made = 1_000_000_000;
    let batched = || weir.metrics().sum("weir_postgres_rounds_total", &[("way", "batch")]);
    for sql in sql {
        wait::until("it is prepared, in a batch", wait::LONG, || {
            let before = (points(&weir), batched());
            made += 1;
            ask(&mut peer, &sql.replace("1234567890", &made.to_string()));
            points(&weir) > before.0 && batched() > before.1
        });
    }
    let compare = |peer: &mut MessageClient, direct: &mut MessageClient, sql: &str| {
        let told = ask(direct, sql);
        assert_eq!(told[0].0, b'E', "{sql}");
        for _ in 0..3 {
            assert_eq!(ask(peer, sql), told, "{sql}");
        }
    };
    // A constant that its column does not take, of the forms that are prepared.
    for (from, to) in [("1, 'x'", "'one', 'x'"), ("k = 1234567890", "k = 'one'")] {
        for sql in sql.iter().filter(|sql| sql.contains(from)) {
            compare(&mut peer, &mut direct, &sql.replace(from, to));
        }
    }
    // Past Weir, which knows nothing of it for a while.
    cluster.sql("ALTER TABLE w RENAME c TO renamed");
    for sql in sql {
        compare(&mut peer, &mut direct, sql);
    }
}

#[test]
fn the_position_counts_in_the_clients_text_where_a_write_goes_by_itself() {
    let cluster = Cluster::start();
    cluster.sql(
        "CREATE TABLE w (id int PRIMARY KEY, k bigint, c text, \"größe\" numeric, d date);
         CREATE FUNCTION passes() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
         CREATE TRIGGER passes BEFORE INSERT OR UPDATE ON w FOR EACH ROW EXECUTE FUNCTION passes()",
    );
    let weir = weir(&[&cluster], "");
    let (mut peer, mut direct) = (connect(weir.postgres), connect(cluster.address));
    let sql = [
        "INSERT INTO  w (id, \"größe\", k, c) VALUES (1234567890,  '1.5', '7', 'é')",
        "UPDATE w SET c = 'é',  \"größe\"='1.5',k = '7', d = '2020-01-01' WHERE id = 1234567890",
    ];
    let mut made = 1_000_000_000;
    let mut is_sent_as_a_point = |peer: &mut MessageClient, sql: &str| {
        let before = points(&weir);
        made += 1;
        ask(peer, &sql.replace("1234567890", &made.to_string()));
        points(&weir) > before
    };
    for sql in sql {
        wait::until("it is prepared", wait::LONG, || is_sent_as_a_point(&mut peer, sql));
    }
    let compare = |peer: &mut MessageClient, direct: &mut MessageClient, sql: &str| {
        for within in [&[sql][..], &["BEGIN", sql, "ROLLBACK"]] {
            for sql in within {
                assert_eq!(ask(peer, sql), ask(direct, sql), "{sql}");
            }
        }
    };
    for (from, to) in [
        ("1234567890", "'one'"),
        ("1234567890", "99999999999"),
        ("'7'", "'seven'"),
        ("'1.5'", "'groß'"),
        ("'2020-01-01'", "'2020-02-30'"),
        ("'2020-01-01'", "'a\nunnamed portal parameter $1'"),
    ] {
        for sql in sql.iter().filter(|sql| sql.contains(from)) {
            // Others of its form go well in between.
            is_sent_as_a_point(&mut peer, sql);
            let before = points(&weir);
            compare(&mut peer, &mut direct, &sql.replace(from, to));
            // One constant for another of its kind is of the same form.
            let is_of_the_form = from.starts_with('\'');
            assert!(!is_of_the_form || points(&weir) >= before + 2.0, "{to} in {sql}");
        }
    }
    // Past Weir, which knows nothing of it for a while.
    cluster.sql("ALTER TABLE w RENAME k TO renamed");
    for sql in sql {
        compare(&mut peer, &mut direct, sql);
    }
}

#[test]
fn a_transaction_under_another_search_path_is_sent_as_text() {
    let cluster = Cluster::start();
    cluster.sql(
        "CREATE SCHEMA one; CREATE SCHEMA other;
         CREATE TABLE one.same (id int PRIMARY KEY, c int);
         CREATE TABLE other.same (id int PRIMARY KEY, c text);
         INSERT INTO one.same VALUES (1); INSERT INTO other.same VALUES (1);
         ALTER ROLE postgres SET search_path = one",
    );
    let weir = weir(&[&cluster], "");
    let mut peer = connect(weir.postgres);
    let update = "UPDATE same SET c = '007' WHERE id = 1";
    wait::until("it is prepared", wait::LONG, || {
        let before = points(&weir);
        ask(&mut peer, update);
        points(&weir) > before
    });
    for change in [
        "SET LOCAL search_path = other",
        "SELECT set_config('search_path', 'other', true)",
        "DO 'BEGIN SET LOCAL search_path = other; END'",
    ] {
        cluster.sql("UPDATE other.same SET c = NULL");
        let before = points(&weir);
        for sql in ["BEGIN", change, update, "COMMIT"] {
            let told = ask(&mut peer, sql);
            assert!(told.iter().all(|message| message.0 != b'E'), "{sql}: {told:?}");
        }
        assert_eq!(cluster.value("SELECT c FROM other.same"), "007", "{change}");
        assert_eq!(points(&weir), before, "{change}");
    }
}

#[test]
fn a_session_of_its_own_and_a_setting_leave_them_as_text() {
    let cluster = Cluster::start();
    cluster.sql(TABLES);
    for lines in ["prepare-points = false", "mode = \"session\""] {
        let weir = weir(&[&cluster], lines);
        let mut peer = connect(weir.postgres);
        for _ in 0..20 {
            ask(&mut peer, "SELECT * FROM t WHERE id = 1");
            ask(&mut peer, "DELETE FROM t WHERE id = 1");
        }
        assert_eq!(points(&weir), 0.0, "{lines}");
    }
}
