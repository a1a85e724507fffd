//! A session goes on whose settings no server accepts any more: what they name was dropped, or
//! another client has done on the connection what they have to come before.

use std::time::Duration;

use rig::late::Late;
use rig::postgres::{Cluster, MessageClient, Setup};
use wire::postgres::frontend::put_query;

use super::beside::{Beside, ONE};
use super::left_behind::until_known;
use super::scene::{asks, weir};

/// The messages of warnings among what is answered to a Query, and its first value.
fn warned(peer: &mut MessageClient, sql: &str) -> (Vec<String>, Option<String>) {
    let mut out = Vec::new();
    put_query(&mut out, sql.as_bytes());
    peer.send(&out).expect("it is taken");
    let (mut warnings, mut value) = (Vec::new(), None);
    for (tag, body) in peer.messages().expect("it is answered") {
        match tag {
            b'N' => warnings.push(String::from_utf8_lossy(&body).replace('\0', " ")),
            b'E' => panic!("{sql}: {}", String::from_utf8_lossy(&body).replace('\0', " ")),
            b'D' => value = Some(String::from_utf8_lossy(&body[6..]).into_owned()),
            _ => {}
        }
    }
    (warnings, value)
}

const CONTENTS: &str = "
    CREATE ROLE app LOGIN SUPERUSER;
    CREATE TEXT SEARCH CONFIGURATION mine (COPY = simple);
    CREATE FUNCTION quick() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
";

/// Ways in which a setting comes to be refused, and its name.
const GONE: [(&str, &str, &str); 4] = [
    ("default_tablespace", "SET default_tablespace = 'apart'", "DROP TABLESPACE apart"),
    (
        "default_text_search_config",
        "SET default_text_search_config = 'public.mine'",
        "DROP TEXT SEARCH CONFIGURATION mine",
    ),
    ("log_statement", "SET log_statement = 'none'", "ALTER ROLE app NOSUPERUSER"),
    // Its prefix belongs to a language by now that the server has loaded.
    ("plpgsql.unheard_of", "SET plpgsql.unheard_of = '1'", "SELECT 1"),
];

#[test]
fn a_value_that_nothing_stands_behind_any_more_is_dropped_with_a_warning() {
    for (name, set, drop) in GONE {
        for first in ["SELECT 1", "RESET ALL", "RESET work_mem", "DISCARD ALL", "BEGIN; COMMIT"] {
            // The server has it from its start: to have read its settings anew moves clients to
            // other connections.
            let cluster = Setup::new().setting("allow_in_place_tablespaces", "on").start();
            cluster.sql(CONTENTS);
            cluster.sql("CREATE TABLESPACE apart LOCATION ''");
            let beside = Beside { weir: weir(&[&cluster], ONE), cluster };
            until_known(&beside);
            let mut ann = beside.through_as("app", &[("client_encoding", "LATIN1")]);
            asks(&mut ann, set);
            asks(&mut ann, "SET work_mem = '7MB'");
            beside.cluster.sql(drop);
            // Somebody else has the connection meanwhile.
            let mut bob = beside.through_as("app", &[]);
            asks(&mut bob, "SELECT quick()");
            let before = warned(&mut bob, "SELECT pg_backend_pid()").1;
            let (warnings, _) = warned(&mut ann, first);
            let told = warnings.iter().any(|said| said.contains(name) && said.contains("WARNING"));
            assert!(told, "{name}, {first}: {warnings:?}");
            let (again, pid) = warned(&mut ann, "SELECT pg_backend_pid()");
            assert!(again.is_empty(), "{name}, {first}: {again:?}");
            // Who was changed, and who has discarded all, has another one in any case.
            let is_same = drop.starts_with("ALTER") || first == "DISCARD ALL" || pid == before;
            assert!(is_same, "{name}, {first}: another connection");
            // What nothing is wrong with holds.
            let wanted = if first == "SELECT 1" { "7MB" } else { "" };
            let (_, held) = warned(&mut ann, "SHOW work_mem");
            assert!(held.is_some_and(|held| held.contains(wanted)), "{name}, {first}");
            assert_eq!(ann.reported.get("client_encoding").map(String::as_str), Some("LATIN1"));
            assert_eq!(asks(&mut bob, "SELECT 1").value(), Some("1"), "{name}, {first}");
        }
    }
}

#[test]
fn what_a_session_began_with_may_be_gone_when_it_resets_to_that() {
    for reset in ["RESET default_text_search_config", "RESET ALL"] {
        let beside = Beside::new(CONTENTS, ONE);
        let options = [("options", "-c default_text_search_config=public.mine")];
        let mut ann = beside.through_as("app", &options);
        asks(&mut ann, "SET default_text_search_config = 'simple'");
        beside.cluster.sql("DROP TEXT SEARCH CONFIGURATION mine");
        let (warnings, _) = warned(&mut ann, reset);
        let later = warned(&mut ann, "SELECT 1").0;
        assert!(warnings.iter().chain(&later).any(|said| said.contains("public.mine")), "{reset}");
        assert!(warned(&mut ann, "SELECT 1").0.is_empty(), "{reset}");
    }
}

/// A session that has begun with a configuration that is gone by now, and has another one.
fn began_with_what_is_gone(beside: &Beside) -> MessageClient {
    let options = "-c default_text_search_config=public.mine -c work_mem=7MB";
    let mut ann = beside.through_as("app", &[("options", options)]);
    asks(&mut ann, "SET default_text_search_config = 'german'");
    beside.cluster.sql("DROP TEXT SEARCH CONFIGURATION mine; CREATE TABLE t (id int)");
    ann
}

/// A ReadyForQuery, with its header.
const READY_BYTES: usize = 6;

/// What the server says comes in pieces: each error is heard before the end of its round.
#[test]
fn a_transaction_goes_on_that_resets_to_what_is_gone() {
    let show = "SHOW default_text_search_config";
    for reset in ["RESET default_text_search_config", "RESET ALL"] {
        for end in ["COMMIT", "ROLLBACK"] {
            let cluster = Cluster::start();
            cluster.sql(CONTENTS);
            let late = Late::in_two(cluster.address, READY_BYTES, Duration::from_millis(3));
            let beside = Beside::at(late.address, cluster, ONE);
            let mut ann = began_with_what_is_gone(&beside);
            let all = ["BEGIN", "INSERT INTO t VALUES (1)", reset, "INSERT INTO t VALUES (2)"];
            let all = told(&mut ann, &[&all[..], &["SHOW work_mem", end]].concat());
            let said: String = all.iter().map(|(said, _)| said.as_str()).collect();
            let is_told = said.matches("C01000").count() == 1 && said.contains("public.mine");
            assert!(is_told && all[4].1 == "7MB", "{reset}, {end}: {all:?}");
            // The next one has the connection without any of it.
            let mut bob = beside.through_as("app", &[]);
            let own = asks(&mut beside.directly_as("app", &[]), show);
            assert_eq!(asks(&mut bob, show), own, "{reset}, {end}");
            let held = asks(&mut ann, show);
            match end {
                "COMMIT" => assert_eq!(held, own, "{reset}"),
                _ => assert_eq!(held.value(), Some("pg_catalog.german"), "{reset}"),
            }
            let rows = asks(&mut bob, "SELECT count(*) FROM t");
            assert_eq!(rows.value(), Some(if end == "COMMIT" { "2" } else { "0" }), "{reset}");
        }
    }
}

#[test]
fn a_savepoint_is_its_clients_whatever_is_restored_behind_it() {
    let beside = Beside::new(CONTENTS, ONE);
    let mut ann = began_with_what_is_gone(&beside);
    let name = "SAVEPOINT weir_restores";
    told(&mut ann, &["BEGIN", "INSERT INTO t VALUES (1)", name, "INSERT INTO t VALUES (2)"]);
    told(&mut ann, &["RESET ALL", "INSERT INTO t VALUES (3)"]);
    assert_eq!(asks(&mut ann, &format!("ROLLBACK TO {name}")).error, None);
    assert_eq!(asks(&mut ann, &format!("RELEASE {name}")).status, 'T');
    told(&mut ann, &["RESET ALL", "COMMIT"]);
    assert_eq!(asks(&mut ann, "SELECT string_agg(id::text, ',') FROM t").value(), Some("1"));
}

#[test]
fn temporary_buffers_are_to_be_had_behind_the_temporary_table_of_another_client() {
    let beside = Beside::new("", ONE);
    let uses = |sql: &str| {
        let mut bob = beside.through();
        asks(&mut bob, "CREATE TEMP TABLE t AS SELECT 1");
        asks(&mut bob, sql);
    };
    let mut ann = beside.through();
    let set = "SET temp_buffers = '16MB'";
    let cases: [(&str, &[&str]); 4] = [
        ("DISCARD ALL", &[set]),
        ("DISCARD ALL", &["BEGIN", set, "COMMIT"]),
        ("SELECT 1", &[set]),
        ("SELECT 1", &["BEGIN", set, "COMMIT"]),
    ];
    for (end, all) in cases {
        asks(&mut ann, "RESET temp_buffers");
        uses(end);
        for sql in all {
            assert_eq!(asks(&mut ann, sql).error, None, "{sql} behind {end}");
        }
        for _ in 0..2 {
            uses(end);
            assert_eq!(asks(&mut ann, "SHOW temp_buffers").value(), Some("16MB"), "{end}");
        }
    }
}

/// Of each answer to these Queries, sent at once: its errors and warnings, and its first value.
fn told(peer: &mut MessageClient, queries: &[&str]) -> Vec<(String, String)> {
    let mut out = Vec::new();
    queries.iter().for_each(|sql| put_query(&mut out, sql.as_bytes()));
    peer.send(&out).expect("it is taken");
    let told = queries.iter().map(|sql| {
        let (mut said, mut value) = (String::new(), String::new());
        for (tag, body) in peer.messages().expect(sql) {
            match tag {
                b'N' | b'E' => said += &String::from_utf8_lossy(&body),
                b'D' => value = String::from_utf8_lossy(&body[6..]).into_owned(),
                _ => {}
            }
        }
        (said, value)
    });
    told.collect()
}

#[test]
fn what_else_a_session_began_with_holds_for_all_that_was_sent_behind_its_reset() {
    for (binds, reset) in [
        ("SELECT 1", "RESET ALL"),
        ("SELECT 1", "DISCARD ALL"),
        ("SELECT pg_advisory_lock(1)", "RESET ALL"),
        ("SELECT pg_advisory_lock(1)", "RESET default_text_search_config"),
    ] {
        let beside = Beside::new(CONTENTS, ONE);
        let options = "-c default_text_search_config=public.mine -c work_mem=7MB";
        let mut ann = beside.through_as("app", &[("options", options)]);
        asks(&mut ann, "SET default_text_search_config = 'simple'");
        asks(&mut ann, binds);
        beside.cluster.sql("DROP TEXT SEARCH CONFIGURATION mine");
        let all = told(&mut ann, &[reset, "SHOW work_mem", "SHOW work_mem", "SELECT 1"]);
        let warnings = all.iter().filter(|(said, _)| said.contains("public.mine")).count();
        assert_eq!(warnings, 1, "{binds}, {reset}: {all:?}");
        assert!(all[1].1 == "7MB" && all[2].1 == "7MB", "{binds}, {reset}: {all:?}");
        assert_eq!(asks(&mut ann, "SHOW work_mem").value(), Some("7MB"), "{binds}, {reset}");
        // Nor has the connection kept less than the next session counts on.
        drop(ann);
        let mut bob = beside.through_as("app", &[("options", "-c work_mem=7MB")]);
        assert_eq!(asks(&mut bob, "SHOW work_mem").value(), Some("7MB"), "{binds}, {reset}");
    }
}
