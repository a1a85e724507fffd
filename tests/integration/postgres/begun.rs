//! Transactions whose first reads ride lanes: what is asked behind those is answered as on a server
//! that has had the whole transaction.

use rig::wait;
use wire::postgres::frontend::{
    Target, put_bind, put_describe, put_execute, put_parse, put_query, put_sync,
};

use super::beside::Beside;
use super::scene::{client, until_known};
use rig::postgres::{MessageClient, Reply};

const CONTENTS: &str = "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 10)";
const READ: &str = "SELECT v FROM t WHERE id = 1";

/// What a client sends at once, to the end of one round.
struct Round(Vec<u8>);

fn query(sql: &str) -> Round {
    let mut out = Vec::new();
    put_query(&mut out, sql.as_bytes());
    Round(out)
}

/// Messages of the extended protocol, each by its letter; `P` prepares this text.
fn extended(sql: &str, messages: &str) -> Round {
    let mut out = Vec::new();
    for message in messages.bytes() {
        match message {
            b'P' => put_parse(&mut out, b"", sql.as_bytes(), &[]),
            b'B' => put_bind(&mut out, b"", b"", &[]),
            b'D' => put_describe(&mut out, Target::Portal(b"")),
            _ => put_execute(&mut out, b"", 0),
        }
    }
    put_sync(&mut out);
    Round(out)
}

fn says(peer: &mut MessageClient, rounds: &[Round]) -> Vec<Reply> {
    let say = |round: &Round| {
        peer.send(&round.0).expect("it is taken");
        peer.reply().expect("it is answered")
    };
    rounds.iter().map(say).collect()
}

/// Holds what a client through Weir hears against what one without hears, once reads ride.
fn alike(cases: impl Fn() -> Vec<(String, Vec<Round>)>) {
    let beside = Beside::new(CONTENTS, "");
    until_known(&beside.weir, &mut client(&beside.weir).expect("let in"));
    let (mut through, mut directly) = (beside.through(), beside.directly());
    let mut rides = vec![query("BEGIN"), query(READ)];
    rides.extend([extended(READ, "PBE"), query("COMMIT")]);
    let ridden = || beside.weir.metrics().sum("weir_postgres_rounds_total", &[("way", "lane")]);
    let before = ridden();
    // Not at once: what a statement reads is known after some rounds, and late on a busy machine.
    wait::until("reads of a transaction ride", wait::LONG, || {
        says(&mut through, &rides);
        ridden() > before
    });
    for (name, rounds) in cases() {
        let wanted = says(&mut directly, &rounds);
        assert_eq!(says(&mut through, &rounds), wanted, "{name}");
    }
}

#[test]
fn an_unnamed_portal_is_there_in_the_next_round() {
    alike(|| {
        let mut cases = Vec::new();
        for first in ["PB", "PBD", "PBEB", "PBBD"] {
            for behind in ["E", "D", "DE"] {
                let rounds = vec![
                    query("BEGIN"),
                    extended(READ, "PBE"),
                    extended(READ, first),
                    extended("", behind),
                    query(READ),
                    query("COMMIT"),
                ];
                cases.push((format!("{first} S, {behind} S"), rounds));
            }
        }
        // Without a transaction it ends with its round.
        cases.push((String::new(), vec![extended(READ, "PB"), extended("", "E"), query(READ)]));
        cases
    });
}

#[test]
fn what_has_to_come_before_any_query_is_refused_behind_one() {
    alike(|| {
        let mut cases = Vec::new();
        for sql in [
            "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
            "SET TRANSACTION READ ONLY",
            "SET TRANSACTION READ WRITE",
            "SET TRANSACTION DEFERRABLE",
            "SET TRANSACTION SNAPSHOT '00000003-0000001B-1'",
            "SET LOCAL transaction_isolation = 'serializable'",
            "SET transaction_isolation = 'serializable'",
            "SELECT set_config('transaction_isolation', 'serializable', true)",
            "SAVEPOINT s",
            "DO $$ BEGIN SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; END $$",
        ] {
            for (by_text, reads) in [(true, true), (false, true), (true, false), (false, false)] {
                let say = |sql: &str| if by_text { query(sql) } else { extended(sql, "PBE") };
                let mut rounds = vec![say("BEGIN"), say(sql)];
                if reads {
                    rounds.insert(1, say(READ));
                }
                rounds.extend([
                    say("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
                    say("SHOW transaction_isolation"),
                    say("COMMIT"),
                    query(READ),
                ]);
                cases.push((format!("{sql}, by text {by_text}, behind a read {reads}"), rounds));
            }
        }
        cases
    });
}
