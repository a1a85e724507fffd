//! Messages that are not what they should be, and those behind them, through Weir as on a server.

use wire::postgres::frontend::{put_parse, put_query, put_sync};
use wire::postgres::message;

use super::beside::{Beside, prepare, put_bound, run};
use super::scene::asks;
use rig::postgres::{MessageClient, Reply};

fn says(peer: &mut MessageClient, bytes: &[u8], replies: usize) -> Vec<Reply> {
    peer.send(bytes).expect("it is taken");
    (0..replies).map(|_| peer.reply().expect("it is answered")).collect()
}

#[test]
fn a_malformed_message_is_an_error_behind_which_its_client_goes_on() {
    let beside = Beside::new("", "");
    for (tag, body) in [
        (b'P', &b"name"[..]),
        (b'P', b"\0SELECT 1"),
        (b'P', b"\0SELECT 1\0\0"),
        (b'B', b"\0"),
        (b'B', b"\0there\0\0\x01"),
        (b'D', b"X\0"),
        (b'C', b"X\0"),
        (b'E', b""),
    ] {
        for before in [None, Some("BEGIN")] {
            let say = |mut peer: MessageClient| {
                if let Some(before) = before {
                    asks(&mut peer, before);
                }
                let mut out = Vec::new();
                put_parse(&mut out, b"there", b"SELECT 5", &[]);
                message(&mut out, tag, |out| out.extend_from_slice(body));
                put_parse(&mut out, b"left_out", b"SELECT 6", &[]);
                put_sync(&mut out);
                let mut said = says(&mut peer, &out, 1);
                said.push(asks(&mut peer, "ROLLBACK"));
                said.extend([run(&mut peer, "there", &[]), run(&mut peer, "left_out", &[])]);
                said
            };
            let wanted = say(beside.directly());
            assert_eq!(wanted[0].error.as_deref(), Some("08P01"));
            assert_eq!(say(beside.through()), wanted, "{tag} {body:?} behind {before:?}");
        }
    }
}

#[test]
fn a_query_that_is_left_out_behind_an_error_leaves_the_unnamed_statement() {
    let beside = Beside::new("", "");
    let say = |mut peer: MessageClient| {
        let mut said = Vec::new();
        for (fails, in_tx) in [(true, false), (false, false), (true, true), (false, true)] {
            if in_tx {
                said.push(asks(&mut peer, "BEGIN"));
                said.push(asks(&mut peer, "SAVEPOINT s"));
            }
            prepare(&mut peer, "", "SELECT 5");
            let mut out = Vec::new();
            put_parse(&mut out, b"n", if fails { b"SELEC" } else { b"SELECT 1" }, &[]);
            put_query(&mut out, b"SELECT 2");
            put_sync(&mut out);
            // The Query has an answer of its own unless it is left out.
            said.extend(says(&mut peer, &out, if fails { 1 } else { 2 }));
            let mut later = Vec::new();
            if in_tx && fails {
                put_parse(&mut later, b"back", b"ROLLBACK TO s", &[]);
                put_bound(&mut later, "back", &[]);
                said.extend(says(&mut peer, &later, 1));
            }
            said.push(run(&mut peer, "", &[]));
            said.push(asks(&mut peer, "ROLLBACK"));
            said.push(asks(&mut peer, "DEALLOCATE ALL"));
        }
        said
    };
    let wanted = say(beside.directly());
    let found = say(beside.through());
    for (n, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
        assert_eq!(found, wanted, "reply {n}");
    }
}
