use proptest::prelude::*;

use crate::postgres::backend::{self, Negotiate};
use crate::postgres::frame;
use crate::postgres::startup::{
    First, PACKET_BYTES_MAX, Start, StartupError, is_direct_tls, options, parse, put_cancel,
    put_gss_request, put_start, put_tls_request,
};

fn parsed(bytes: &[u8]) -> Result<Option<(First<'_>, usize)>, StartupError> {
    parse(bytes, PACKET_BYTES_MAX)
}

fn packet(minor: u16, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    put_start(&mut out, minor, parameters.iter().copied());
    out
}

fn started(bytes: &[u8]) -> Start<'_> {
    match parsed(bytes) {
        Ok(Some((First::Start(start), len))) if len == bytes.len() => start,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_says_who_and_where() {
    let bytes = packet(0, &[("user", "ann"), ("database", "shop"), ("search_path", "a, b")]);
    let start = started(&bytes);
    assert_eq!((start.major, start.minor, start.user(), start.database()), (3, 0, "ann", "shop"));
    assert_eq!(start.get("search_path"), Some("a, b"));
    assert_eq!(start.parameters().count(), 3);
    assert!(!start.must_negotiate());
    assert_eq!(started(&packet(0, &[("user", "ann")])).database(), "ann");
    assert_eq!(started(&packet(0, &[("user", "ann"), ("database", "")])).database(), "ann");
    // The last one counts, as in PostgreSQL.
    assert_eq!(started(&packet(0, &[("user", "ann"), ("user", "bob")])).user(), "bob");
    let empty = packet(0, &[("options", ""), ("user", "ann"), ("x", "")]);
    assert_eq!(started(&empty).parameters().last(), Some(("x", "")));
}

#[test]
fn a_newer_minor_and_extensions_are_negotiated() {
    let bytes = packet(9, &[("user", "ann"), ("_pq_.a", "1"), ("_pq_.b", "")]);
    let start = started(&bytes);
    assert!(start.must_negotiate());
    assert_eq!(start.agreed_minor(), 2);
    let mut out = Vec::new();
    backend::put_negotiate_protocol_version(&mut out, start.agreed_minor(), start.extensions());
    let frame = frame::next(&out, 1000).unwrap().unwrap();
    let negotiate = Negotiate::read(frame.body).unwrap();
    assert_eq!((negotiate.minor, negotiate.unknown), (2, 2));
    assert!(negotiate.names().eq([b"_pq_.a".as_slice(), b"_pq_.b"]));
    assert!(!started(&packet(2, &[("user", "ann")])).must_negotiate());
    assert!(started(&packet(0, &[("user", "ann"), ("_pq_.a", "")])).must_negotiate());
}

#[test]
fn requests_without_a_session() {
    let mut out = Vec::new();
    put_tls_request(&mut out);
    assert_eq!(parsed(&out), Ok(Some((First::Tls, 8))));
    out.clear();
    put_gss_request(&mut out);
    assert_eq!(parsed(&out), Ok(Some((First::Gss, 8))));
    for length in [4, 32, 256] {
        let secret = vec![7; length];
        out.clear();
        put_cancel(&mut out, -5, &secret);
        let cancel = First::Cancel { process_id: -5, secret: &secret };
        assert_eq!(parsed(&out), Ok(Some((cancel, out.len()))));
    }
    for length in [0, 3, 257] {
        out.clear();
        put_cancel(&mut out, 5, &vec![7; length]);
        assert_eq!(parsed(&out), Err(StartupError::Length), "{length}");
    }
    assert!(is_direct_tls(0x16));
    assert!(!is_direct_tls(0));
}

#[test]
fn what_is_refused() {
    assert_eq!(parsed(&[0, 0, 0, 7]), Err(StartupError::Length));
    assert_eq!(parsed(&[0, 0, 0x27, 0x11]), Err(StartupError::Length));
    assert_eq!(parsed(&[0x80, 0, 0, 8]), Err(StartupError::Length));
    assert_eq!(parsed(b"GET / HTTP/1.1\r\n"), Err(StartupError::Length));
    let two = [0, 0, 0, 9, 0, 2, 0, 0, 0];
    assert_eq!(parsed(&two), Err(StartupError::Version { major: 2, minor: 0 }));
    assert_eq!(parsed(&packet(0, &[("database", "d")])), Err(StartupError::NoUser));
    assert_eq!(parsed(&packet(0, &[("user", "")])), Err(StartupError::NoUser));
    let layouts: [&[u8]; 5] =
        [b"", b"user\0ann\0", b"user\0\0\0\0", b"user\0ann\0\0x", b"user\0ann\0data\0\0"];
    for body in layouts {
        let mut bytes = (8 + body.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(&[0, 3, 0, 0]);
        bytes.extend_from_slice(body);
        assert_eq!(parsed(&bytes), Err(StartupError::Layout), "{body:?}");
    }
    let mut latin = packet(0, &[("user", "ann"), ("database", "x")]);
    let at = latin.iter().rposition(|byte| *byte == b'x').unwrap();
    latin[at] = 0xe9;
    assert_eq!(parsed(&latin), Err(StartupError::NotUtf8));
    assert_eq!(StartupError::Length.refusal(), None);
    assert_eq!(StartupError::NoUser.refusal().unwrap().code, "28000");
}

#[test]
fn options_are_split_as_postgresql_splits_them() {
    let split = |text: &str| options(text).unwrap();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(split(""), []);
    assert_eq!(split("  \t"), []);
    assert_eq!(split("-c geqo=off"), [pair("geqo", "off")]);
    assert_eq!(split("-cgeqo=off --work-mem=4MB"), [pair("geqo", "off"), pair("work_mem", "4MB")]);
    assert_eq!(split(r"-c search_path=a,\ b"), [pair("search_path", "a, b")]);
    assert_eq!(split(r"-c x=a\\b\"), [pair("x", r"a\b")]);
    assert_eq!(split("-c x=1=2"), [pair("x", "1=2")]);
    assert_eq!(split("-c x="), [pair("x", "")]);
    for wrong in ["-c", "-c x", "--x", "-d 5", "x=1", "-c =1", "--=1"] {
        assert!(options(wrong).is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn parameters_come_back(
        minor in 0u16..5,
        mut pairs in proptest::collection::vec(("[^\0]{1,12}", "[^\0]{0,20}"), 0..12),
    ) {
        pairs.push(("user".to_owned(), "ann".to_owned()));
        let mut bytes = Vec::new();
        let given: Vec<_> = pairs.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        put_start(&mut bytes, minor, given.iter().copied());
        for cut in 0..bytes.len() {
            prop_assert_eq!(parsed(&bytes[..cut]), Ok(None));
        }
        let start = started(&bytes);
        prop_assert!(start.parameters().eq(given.iter().copied()));
        prop_assert_eq!(start.minor, minor);
    }

    #[test]
    fn any_bytes_are_taken_calmly(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parsed(&bytes);
        let mut framed = (bytes.len() as u32 + 8).to_be_bytes().to_vec();
        framed.extend_from_slice(&[0, 3, 0, 0]);
        framed.extend_from_slice(&bytes);
        if let Ok(Some((First::Start(start), len))) = parsed(&framed) {
            prop_assert_eq!(len, framed.len());
            prop_assert!(!start.user().is_empty());
            let _ = start.options().map(options);
        }
    }
}
