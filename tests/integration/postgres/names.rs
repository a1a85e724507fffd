//! Names of prepared statements, through Weir as on a server.

use rig::postgres::{Cluster, MessageClient, Reply, SUPERUSER};
use wire::postgres::frontend::{
    Target, put_bind, put_close, put_describe, put_execute, put_parse, put_query, put_sync,
};

use super::beside::{Beside, prepare};
use super::scene::{client, peer, said, until_known, weir};

/// What a client sends at once, and how many answers come.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    replies: usize,
}

impl Batch {
    fn parse(mut self, name: &str, sql: &str) -> Self {
        put_parse(&mut self.bytes, name.as_bytes(), sql.as_bytes(), &[]);
        self
    }

    fn run(mut self, name: &str) -> Self {
        put_bind(&mut self.bytes, b"", name.as_bytes(), &[]);
        put_execute(&mut self.bytes, b"", 0);
        self
    }

    fn describe(mut self, name: &str) -> Self {
        put_describe(&mut self.bytes, Target::Statement(name.as_bytes()));
        self
    }

    fn close(mut self, name: &str) -> Self {
        put_close(&mut self.bytes, Target::Statement(name.as_bytes()));
        self
    }

    fn sync(mut self) -> Self {
        put_sync(&mut self.bytes);
        self.replies += 1;
        self
    }

    fn query(mut self, sql: &str) -> Self {
        put_query(&mut self.bytes, sql.as_bytes());
        self.replies += 1;
        self
    }

    fn shows(self, name: &str) -> Self {
        self.run(name).sync()
    }
}

fn batch() -> Batch {
    Batch::default()
}

/// Each of them begins and ends without a transaction.
fn without_state() -> Vec<Batch> {
    vec![
        batch().parse("s1", "SELECT 1").sync(),
        batch().parse("s1", "SELECT 2").sync().shows("s1"),
        batch()
            .parse("", "SELECT 'a'")
            .parse("s1", "SELECT 2")
            .parse("s2", "SELECT 3")
            .close("s1")
            .sync()
            .shows("s2")
            .shows("s1")
            .shows(""),
        batch().close("s1").parse("s1", "SELECT 4").shows("s1"),
        batch().run("nobody").parse("s3", "SELECT 5").sync().describe("s3").sync(),
        batch().parse("s1", "SELEC").sync().shows("s1"),
        batch().parse("s2", "SELECT 1/0").run("s2").parse("s3", "SELECT 1").close("s1").sync(),
        batch().shows("s2").shows("s3").shows("s1"),
        batch().query("BEGIN").shows("s1").parse("s1", "SELECT 2").sync().shows("s1"),
        batch().parse("later", "SELECT 1").sync().query("ROLLBACK").shows("s1").shows("later"),
        batch().query("BEGIN").query("DEALLOCATE s1").shows("s1").query("ROLLBACK"),
        batch().parse("s1", "SELECT 6").sync(),
        batch().query("BEGIN").parse("", "DEALLOCATE s1").shows("").parse("s1", "SELECT 7").sync(),
        batch().shows("s1").query("COMMIT").shows("s1"),
        batch().parse("", "DEALLOCATE s1").shows("").shows("s1"),
        batch().query("DEALLOCATE nothing").parse("", "DEALLOCATE s1").shows(""),
        batch().query("BEGIN").query("SELECT 1/0").query("DEALLOCATE s2").query("ROLLBACK"),
        batch().query("DEALLOCATE ALL").parse("s1", "SELECT 8").shows("s1").shows("s2"),
        batch().parse("", "SELECT 9").sync().query("SELECT 10").shows(""),
        batch().parse("", "SELECT 9").sync().parse("", "SELEC").sync().shows(""),
        batch().parse("", "SELECT 9").sync().run("nobody").parse("", "SELECT 10").sync().shows(""),
        batch().parse("b1", "BEGIN").run("b1").sync().parse("b1", "BEGIN").sync(),
        batch().query("ROLLBACK").close("b1").run("b1").sync().parse("b1", "SELECT 1").shows("b1"),
        batch().parse("s1", "SELECT 1").parse("s1", "SELECT 2").sync().close("nobody").sync(),
        batch().query("BEGIN").shows("s1").parse("", "DEALLOCATE ALL").run("").parse("s1", "TABLE"),
        batch().parse("skipped", "SELECT 1").sync().query("ROLLBACK").shows("s1").shows("skipped"),
    ]
}

/// The session keeps its server connection from here on, until it discards all.
fn with_state() -> Vec<Batch> {
    vec![
        batch().parse("s1", "SELECT 1").sync().query("CREATE TEMPORARY TABLE mine (n int)"),
        batch().parse("s1", "SELECT 2").sync().shows("s1").query("DEALLOCATE s1").shows("s1"),
        batch().parse("s1", "SELECT 3").sync().parse("", "DEALLOCATE s1").shows("").shows("s1"),
        batch().parse("", "DEALLOCATE ALL").run("").parse("s1", "SELECT 4").shows("s1"),
        batch().query("PREPARE p AS SELECT 5").query("EXECUTE p").shows("p").close("p").sync(),
        batch().query("EXECUTE p").query("PREPARE p AS SELECT 5").query("DEALLOCATE p").shows("p"),
        batch().query("DISCARD ALL").parse("s1", "SELECT 6").shows("s1").query("DEALLOCATE s1"),
        batch().shows("s1").query("SELECT count(*) FROM mine"),
    ]
}

fn says(peer: &mut MessageClient, batches: &[Batch], at_once: bool) -> Vec<Reply> {
    let mut told = Vec::new();
    for batches in batches.chunks(if at_once { batches.len() } else { 1 }) {
        let bytes: Vec<u8> = batches.iter().flat_map(|batch| batch.bytes.clone()).collect();
        peer.send(&bytes).expect("it is taken");
        for reply in 0..batches.iter().map(|batch| batch.replies).sum() {
            told.push(peer.reply().unwrap_or_else(|e| panic!("reply {reply}: {e}")));
        }
    }
    told
}

#[test]
fn prepared_statements_have_the_names_that_they_have_on_a_server() {
    let cluster = Cluster::start();
    let parameters = [("user", SUPERUSER), ("database", SUPERUSER)];
    // A connection keeps two, so that what clients have is always somewhere else.
    for few in ["", "prepared-statements = 2"] {
        let weir = weir(&[&cluster], few);
        for (at_once, state) in [(false, false), (true, false), (false, true), (true, true)] {
            let batches = if state { with_state() } else { without_state() };
            let mut server =
                MessageClient::connect(cluster.address, &parameters).expect("a server");
            let wanted = says(&mut server, &batches, at_once);
            // Again and again: by lanes once it is known how long statements take.
            for time in 0..4 {
                let mut peer = MessageClient::connect(weir.postgres, &parameters).expect("Weir");
                let told = says(&mut peer, &batches, at_once);
                for (n, (told, wanted)) in told.iter().zip(&wanted).enumerate() {
                    let which = format!("reply {n}, {few:?}, {at_once}, {state}, {time}");
                    assert_eq!(told, wanted, "{which}");
                }
            }
        }
    }
}

#[test]
fn a_statement_whose_result_has_changed_says_so_wherever_it_is_prepared() {
    let cluster = Cluster::start();
    cluster.sql("CREATE TABLE changed (a int); INSERT INTO changed VALUES (1)");
    let weir = weir(&[&cluster], "");
    let (mut one, mut other) = (client(&weir).expect("let in"), client(&weir).expect("let in"));
    for known in [false, true] {
        if known {
            until_known(&weir, &mut other);
        }
        let select = one.prepare("SELECT * FROM changed").expect("it is prepared");
        let kept = one.prepare("SELECT a FROM changed").expect("it is prepared");
        for _ in 0..10 {
            one.query(&select, &[]).expect("it is run");
            one.query(&kept, &[]).expect("it is run");
        }
        other.batch_execute("ALTER TABLE changed ADD COLUMN b text").expect("it is changed");
        for _ in 0..10 {
            let changed = one.query(&select, &[]).map(|_| ()).map_err(|error| said(&error));
            let what = "0A000 cached plan must not change result type";
            assert_eq!(changed, Err(what.to_owned()), "{known}");
            assert_eq!(one.query(&kept, &[]).map_err(|error| said(&error)).unwrap().len(), 1);
        }
        let again = one.prepare("SELECT * FROM changed").expect("it is prepared");
        assert_eq!(one.query(&again, &[]).expect("it is run")[0].len(), again.columns().len());
        other.batch_execute("ALTER TABLE changed DROP COLUMN b").expect("it is changed");
    }
}

#[test]
fn so_does_one_that_its_own_client_has_changed() {
    let cluster = Cluster::start();
    let weir = weir(&[&cluster], "");
    let mut one = peer(&weir);
    let tell = |peer: &mut MessageClient, batch: Batch| {
        peer.send(&batch.bytes).expect("it is taken");
        let replies = (0..batch.replies).map(|_| peer.reply().expect("it is answered"));
        replies.collect::<Vec<Reply>>()
    };
    for known in [false, true] {
        if known {
            until_known(&weir, &mut client(&weir).expect("let in"));
        }
        for sql in
            ["DROP TABLE IF EXISTS own", "CREATE TABLE own (a int)", "INSERT INTO own VALUES (1)"]
        {
            tell(&mut one, batch().query(sql));
        }
        let select = "SELECT * FROM own";
        for _ in 0..4 {
            tell(&mut one, batch().parse("", select).shows(""));
        }
        let name = if known { "S_2" } else { "S_1" };
        tell(&mut one, batch().parse(name, select).shows(name));
        for _ in 0..5 {
            assert_eq!(tell(&mut one, batch().shows(name))[0].value(), Some("1"));
        }
        tell(&mut one, batch().parse("", "ALTER TABLE own ADD COLUMN b text").shows(""));
        for _ in 0..10 {
            let changed = tell(&mut one, batch().shows(name));
            assert_eq!(changed[0].error.as_deref(), Some("0A000"), "{known}");
        }
    }
}

/// A Parse of a text that is prepared already is answered here, unless the server might refuse it.
#[test]
fn a_parse_behind_what_may_fail_in_a_transaction_is_refused_where_the_server_refuses_it() {
    let beside = Beside::new("", "pool.size = 3");
    // Without facts of the catalogue everything is prepared again.
    until_known(&beside.weir, &mut client(&beside.weir).expect("let in"));
    let run = |out: &mut Vec<u8>, sql: &str| {
        put_parse(out, b"", sql.as_bytes(), &[]);
        put_bind(out, b"", b"", &[]);
        put_execute(out, b"", 0);
        put_sync(out);
    };
    for fails in ["FETCH 2 FROM c0", "SELECT 1 / 0", "SELECT 1"] {
        let [found, wanted] = [beside.through(), beside.directly()].map(|mut peer| {
            for sql in ["SELECT 2", "SELECT 3"] {
                prepare(&mut peer, "", sql);
            }
            let mut out = Vec::new();
            run(&mut out, "BEGIN");
            run(&mut out, fails);
            for sql in ["SELECT 2", "BEGIN", "ROLLBACK", "SELECT 3"] {
                put_parse(&mut out, b"", sql.as_bytes(), &[]);
                put_sync(&mut out);
            }
            run(&mut out, "ROLLBACK");
            peer.send(&out).expect("it is taken");
            let replies: Vec<_> = (0..7).map(|_| peer.reply().expect("it is answered")).collect();
            replies.into_iter().map(|reply| (reply.error, reply.status)).collect::<Vec<_>>()
        });
        assert_eq!(found, wanted, "{fails}");
    }
}
