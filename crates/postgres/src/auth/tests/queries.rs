use wire::postgres::backend::{self, Status};
use wire::postgres::{Refusal, sqlstate};

use super::*;
use crate::auth::auth_query::{Lookup, Outcome};

type Rows<'a> = &'a [(&'a str, Option<&'a str>)];

/// A server's reply to both statements.
fn reply(stored: Rows<'_>, role: Rows<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for rows in [stored, role] {
        backend::put_parse_complete(&mut out);
        backend::put_bind_complete(&mut out);
        for (name, value) in rows {
            let row = [Some(name.as_bytes()), value.map(str::as_bytes)];
            backend::put_data_row(&mut out, row);
        }
        backend::put_command_complete(&mut out, "SELECT 1");
    }
    backend::put_ready_for_query(&mut out, Status::Idle);
    out
}

fn judged(reply: &[u8]) -> Outcome {
    let mut lookup = Lookup::begin("ann", "SELECT $1", &mut Vec::new());
    let mut rest = reply;
    while let Some(frame) = frame::next(rest, MAX).unwrap() {
        rest = &rest[frame.whole.len()..];
        if let Some(outcome) = lookup.on(frame.tag, frame.body) {
            assert!(rest.is_empty());
            return outcome;
        }
    }
    panic!("no outcome")
}

const MD5: Option<&str> = Some("md50123456789abcdef0123456789abcdef");

#[test]
fn a_row_is_the_users_verifier() {
    let known = judged(&reply(&[("ann", MD5)], &[("ann", Some("t"))]));
    assert!(matches!(known.verifier(), Some(Verifier::Md5(_))));
    // A name that is not a role's, from a table of the operator's own.
    for role in [&[][..], &[("ann", Some("none"))]] {
        let known = judged(&reply(&[("ann", Some("secret"))], role));
        assert!(matches!(known.verifier(), Some(Verifier::Plain(_))));
    }
}

#[test]
fn an_unknown_user_looks_like_new_users_of_the_server() {
    let there = |encryption: &str, iterations: Option<&str>| {
        let mut out = Vec::new();
        for row in [None, Some([Some("ann"), Some("none"), Some(encryption), iterations])] {
            backend::put_parse_complete(&mut out);
            if let Some(row) = row {
                backend::put_data_row(&mut out, row.map(|value| value.map(str::as_bytes)));
            }
            backend::put_command_complete(&mut out, "SELECT 1");
        }
        backend::put_ready_for_query(&mut out, Status::Idle);
        let Outcome::Unknown { there, .. } = judged(&out) else { panic!() };
        there
    };
    assert_eq!(there("md5", None), Some(Kind::Md5));
    assert_eq!(there("scram-sha-256", None), Some(Kind::scram()));
    let more = Kind::scram_of(10_000.try_into().unwrap());
    assert_eq!(there("scram-sha-256", Some("10000")), Some(more));
    assert_eq!(there("another", None), None);
}

#[test]
fn an_expired_password_and_no_login_are_honoured_whatever_the_query_says() {
    let expired = judged(&reply(&[("ann", MD5)], &[("ann", Some("f"))]));
    assert!(matches!(expired, Outcome::Unknown { .. }));
    let unknown = [
        reply(&[], &[("ann", Some("t"))]),
        reply(&[("ann", None)], &[("ann", Some("t"))]),
        reply(&[("ann", Some(""))], &[("ann", Some("t"))]),
        reply(&[("ann", MD5)], &[("ann", None)]),
    ];
    for reply in unknown {
        assert!(matches!(judged(&reply), Outcome::Unknown { .. }));
    }
}

#[test]
fn a_reply_that_is_not_clear_lets_nobody_in() {
    let mut out = Vec::new();
    backend::put_parse_complete(&mut out);
    Refusal::error(sqlstate::INSUFFICIENT_PRIVILEGE, "permission denied").encode(&mut out);
    backend::put_ready_for_query(&mut out, Status::Idle);
    assert!(matches!(judged(&out), Outcome::Failed(why) if why == "permission denied"));
    let mut in_transaction = reply(&[("ann", MD5)], &[("ann", Some("t"))]);
    *in_transaction.last_mut().unwrap() = b'T';
    let mut one_column = Vec::new();
    backend::put_data_row(&mut one_column, [Some(&b"ann"[..])]);
    one_column.extend(reply(&[], &[]));
    let mut nothing = Vec::new();
    backend::put_ready_for_query(&mut nothing, Status::Idle);
    let unclear = [
        reply(&[("ann", MD5), ("ann", MD5)], &[("ann", Some("t"))]),
        reply(&[("bob", MD5)], &[("ann", Some("t"))]),
        reply(&[("ann", MD5)], &[("bob", Some("t"))]),
        in_transaction,
        one_column,
        nothing,
    ];
    for reply in unclear {
        assert!(matches!(judged(&reply), Outcome::Failed(_)));
    }
}
