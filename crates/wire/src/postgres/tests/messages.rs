use proptest::collection::vec;
use proptest::prelude::*;

use crate::postgres::backend::{
    self, Authentication, BackendKey, Columns, Fields, Notification, Row, Status,
};
use crate::postgres::frame::{self, Frame, FrameError, Header};
use crate::postgres::frontend::{self, Bind, Execute, Parse, SaslInitial, Target};
use crate::postgres::{Refusal, sqlstate};

const MAX: usize = 1 << 20;

/// A message without a body: what writes it, and its tag.
type Empty = (fn(&mut Vec<u8>), u8);

/// The one message in `bytes`.
fn only(bytes: &[u8]) -> Frame<'_> {
    let frame = frame::next(bytes, MAX).unwrap().unwrap();
    assert_eq!(frame.whole, bytes);
    frame
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

#[test]
fn frames_have_a_length_that_counts_itself() {
    assert_eq!(frame::header(b"Z\0\0\0", 10), Ok(None));
    assert_eq!(frame::header(b"Z\0\0\0\x05", 10), Ok(Some(Header { tag: b'Z', len: 6 })));
    assert_eq!(frame::next(b"Z\0\0\0\x05", 10), Ok(None));
    assert_eq!(frame::header(b"Z\0\0\0\x03", 10), Err(FrameError::TooShort));
    assert_eq!(frame::header(b"Z\0\0\0\x0a", 10), Err(FrameError::TooLong { len: 11, max: 10 }));
    assert!(frame::header(b"Z\x80\0\0\0", MAX).is_err());
    let frame = frame::next(b"S\0\0\0\x04more", 10).unwrap().unwrap();
    assert_eq!((frame.tag, frame.body, frame.whole.len()), (b'S', b"".as_slice(), 5));
}

#[test]
fn refusals_have_a_sqlstate() {
    let refusal = Refusal::fatal(sqlstate::TOO_MANY_CONNECTIONS, "no room")
        .detail("100 of 100 clients")
        .hint("raise max-clients");
    let bytes = written(|out| refusal.encode(out));
    let frame = only(&bytes);
    let fields = Fields::read(frame.body).unwrap();
    assert_eq!(
        (frame.tag, fields.code(), fields.severity()),
        (b'E', b"53300".as_slice(), b"FATAL".as_slice())
    );
    assert_eq!(fields.message(), b"no room");
    assert_eq!(fields.detail(), Some(b"100 of 100 clients".as_slice()));
    assert_eq!(fields.hint(), Some(b"raise max-clients".as_slice()));
    assert!(fields.is_fatal());
    let bytes = written(|out| refusal.encode_as_warning(out));
    let fields = Fields::read(only(&bytes).body).unwrap();
    assert!(!fields.is_fatal());
    // What somebody else's bytes brought into a message doesn't end it.
    let bytes = written(|out| Refusal::error("XX000", "a\0b").encode(out));
    assert_eq!(Fields::read(only(&bytes).body).unwrap().message(), b"a");
}

#[test]
fn an_error_without_sqlstate_is_an_error() {
    let fields = Fields::read(b"SERROR\0Mbad\0\0").unwrap();
    assert_eq!((fields.code(), fields.message()), (b"".as_slice(), b"bad".as_slice()));
    assert_eq!(Fields::read(b"\0").unwrap().iter().count(), 0);
    for wrong in [b"".as_slice(), b"SERROR\0", b"SERROR", b"\0\0", b"S\0\0x"] {
        assert!(Fields::read(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn authentication_requests() {
    use Authentication as A;
    let read = |bytes: &[u8]| A::read(only(bytes).body).map(|a| format!("{a:?}")).unwrap();
    let expect = |a: A<'_>| format!("{a:?}");
    assert_eq!(read(&written(backend::put_authentication_ok)), expect(A::Ok));
    let bytes = written(backend::put_authentication_cleartext);
    assert_eq!(read(&bytes), expect(A::CleartextPassword));
    let salt = [1, 2, 3, 4];
    let bytes = written(|out| backend::put_authentication_md5(out, salt));
    assert_eq!(read(&bytes), expect(A::Md5Password { salt }));
    let bytes = written(|out| backend::put_authentication_sasl(out, ["A", "B"]));
    let A::Sasl(list) = A::read(only(&bytes).body).unwrap() else { panic!() };
    assert!(backend::mechanisms(list).eq([b"A".as_slice(), b"B"]));
    let bytes = written(|out| backend::put_authentication_sasl_continue(out, b"r=1"));
    assert_eq!(read(&bytes), expect(A::SaslContinue(b"r=1")));
    let bytes = written(|out| backend::put_authentication_sasl_final(out, b"v=1"));
    assert_eq!(read(&bytes), expect(A::SaslFinal(b"v=1")));
    assert_eq!(A::read(&[0, 0, 0, 7]), Ok(A::Other(7)));
    for wrong in [&[0, 0, 0][..], &[0, 0, 0, 0, 1], &[0, 0, 0, 5, 1], &[0, 0, 0, 10, b'A']] {
        assert!(A::read(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn small_messages_of_a_server() {
    for status in [Status::Idle, Status::InTransaction, Status::Failed] {
        let bytes = written(|out| backend::put_ready_for_query(out, status));
        assert_eq!(backend::ready_for_query(only(&bytes).body), Ok(status));
    }
    assert!(backend::ready_for_query(b"X").is_err());
    assert!(backend::ready_for_query(b"").is_err());
    let bytes = written(|out| backend::put_command_complete(out, "INSERT 0 12"));
    let tag = backend::command_complete(only(&bytes).body).unwrap();
    assert_eq!((tag, backend::command_rows(tag)), (b"INSERT 0 12".as_slice(), Some(12)));
    assert_eq!(backend::command_rows(b"BEGIN"), None);
    assert_eq!(backend::command_rows(b""), None);
    for secret in [4, 32, 256] {
        let secret = vec![9; secret];
        let bytes = written(|out| backend::put_backend_key_data(out, 77, &secret));
        let key = BackendKey::read(only(&bytes).body).unwrap();
        assert_eq!((key.process_id, key.secret), (77, secret.as_slice()));
    }
    assert!(BackendKey::read(&[0; 7]).is_err());
    assert!(BackendKey::read(&[0; 261]).is_err());
    let empty: [Empty; 5] = [
        (backend::put_parse_complete, b'1'),
        (backend::put_bind_complete, b'2'),
        (backend::put_close_complete, b'3'),
        (backend::put_no_data, b'n'),
        (backend::put_empty_query_response, b'I'),
    ];
    for (put, tag) in empty {
        assert_eq!(written(put), [tag, 0, 0, 0, 4]);
    }
}

#[test]
fn small_messages_of_a_client() {
    let empty: [Empty; 3] =
        [(frontend::put_sync, b'S'), (frontend::put_flush, b'H'), (frontend::put_terminate, b'X')];
    for (put, tag) in empty {
        assert_eq!(written(put), [tag, 0, 0, 0, 4]);
        assert!(frontend::tag::is_known(tag));
    }
    assert!(b"BCDEFHPQSXcdfp".iter().all(|tag| frontend::tag::is_known(*tag)));
    assert_eq!((0..=255).filter(|tag| frontend::tag::is_known(*tag)).count(), 14);
    assert_eq!(frontend::query(b"select 1\0"), Ok(b"select 1".as_slice()));
    for wrong in [b"".as_slice(), b"x", b"x\0y", b"x\0\0"] {
        assert!(frontend::query(wrong).is_err());
    }
    assert_eq!(frontend::function_call(&[0, 0, 0, 5, 0, 0]), Ok(5));
    let none = [b"M\0".as_slice(), &[0xff; 4]].concat();
    assert_eq!(SaslInitial::read(&none).unwrap().response, None);
    for wrong in [[b"M\0".as_slice(), &[0xff, 0xff, 0xff, 0xfe]].concat(), b"M\0\0\0\0\x02a".into()]
    {
        assert!(SaslInitial::read(&wrong).is_err());
    }
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    vec(1u8..=255, 0..20)
}

proptest! {
    #[test]
    fn statements_keep_all_but_their_name(
        name in text(), query in text(), other in text(), portal in text(),
        types in vec(any::<u32>(), 0..5),
        values in vec(proptest::option::of(vec(any::<u8>(), 0..9)), 0..5),
    ) {
        let bytes = written(|out| frontend::put_parse(out, &name, &query, &types));
        let parse = Parse::read(only(&bytes).body).unwrap();
        prop_assert_eq!((parse.name, parse.query), (name.as_slice(), query.as_slice()));
        let oids: Vec<u8> = types.iter().flat_map(|oid| oid.to_be_bytes()).collect();
        prop_assert_eq!(parse.types, &oids);
        let renamed = written(|out| parse.put_as(out, &other));
        prop_assert_eq!(renamed, written(|out| frontend::put_parse(out, &other, &query, &types)));

        let values: Vec<_> = values.iter().map(|v| v.as_deref()).collect();
        let bytes = written(|out| frontend::put_bind(out, &portal, &name, &values));
        let bind = Bind::read(only(&bytes).body).unwrap();
        prop_assert_eq!((bind.portal, bind.statement), (portal.as_slice(), name.as_slice()));
        let renamed = written(|out| bind.put_as(out, &other));
        let expected = written(|out| frontend::put_bind(out, &portal, &other, &values));
        prop_assert_eq!(renamed, expected);
    }

    #[test]
    fn the_rest_of_a_clients_messages(name in text(), rows_max in any::<i32>()) {
        for target in [Target::Statement(&name), Target::Portal(&name)] {
            let bytes = written(|out| frontend::put_describe(out, target));
            prop_assert_eq!(Target::of_describe(only(&bytes).body), Ok(target));
            let bytes = written(|out| frontend::put_close(out, target));
            prop_assert_eq!(Target::of_close(only(&bytes).body), Ok(target));
        }
        let bytes = written(|out| frontend::put_execute(out, &name, rows_max));
        let execute = Execute { portal: &name, rows_max };
        prop_assert_eq!(Execute::read(only(&bytes).body), Ok(execute));
        let bytes = written(|out| frontend::put_copy_fail(out, &name));
        prop_assert_eq!(frontend::copy_fail(only(&bytes).body), Ok(name.as_slice()));
        let bytes = written(|out| frontend::put_password(out, &name));
        prop_assert_eq!(frontend::password(only(&bytes).body), Ok(name.as_slice()));
        let bytes = written(|out| frontend::put_query(out, &name));
        prop_assert_eq!(frontend::query(only(&bytes).body), Ok(name.as_slice()));
        let bytes = written(|out| frontend::put_sasl_initial(out, "SCRAM-SHA-256", &name));
        let initial = SaslInitial { mechanism: b"SCRAM-SHA-256", response: Some(&name) };
        prop_assert_eq!(SaslInitial::read(only(&bytes).body), Ok(initial));
        let bytes = written(|out| frontend::put_sasl_response(out, &name));
        prop_assert_eq!(only(&bytes).body, &name);
    }

    #[test]
    fn rows_and_news_of_a_server(
        name in text(), value in text(), process_id in any::<i32>(),
        values in vec(proptest::option::of(vec(any::<u8>(), 0..9)), 0..5),
    ) {
        let bytes = written(|out| backend::put_parameter_status(out, &name, &value));
        let pair = (name.as_slice(), value.as_slice());
        prop_assert_eq!(backend::parameter_status(only(&bytes).body), Ok(pair));
        let bytes = written(|out| backend::put_notification(out, process_id, &name, &value));
        let notification = Notification { process_id, channel: &name, payload: &value };
        prop_assert_eq!(Notification::read(only(&bytes).body), Ok(notification));
        let values: Vec<_> = values.iter().map(|v| v.as_deref()).collect();
        let bytes = written(|out| backend::put_data_row(out, values.iter().copied()));
        let row = Row::read(only(&bytes).body).unwrap();
        prop_assert!(row.values().eq(values.iter().copied()));
        prop_assert_eq!(row.array::<2>().is_ok(), values.len() == 2);
    }

    #[test]
    fn any_body_is_taken_calmly(body in vec(any::<u8>(), 0..80)) {
        let _ = (Parse::read(&body), Bind::read(&body), Execute::read(&body));
        let _ = (Target::of_describe(&body), Target::of_close(&body), SaslInitial::read(&body));
        let _ = (frontend::query(&body), frontend::function_call(&body));
        let _ = Fields::read(&body).map(|fields| fields.iter().count());
        let _ = (Authentication::read(&body), BackendKey::read(&body), Notification::read(&body));
        let _ = backend::Negotiate::read(&body).map(|negotiate| negotiate.names().count());
        let _ = Columns::read(&body).map(|columns| columns.iter().count());
        if let Ok(row) = Row::read(&body) {
            prop_assert_eq!(row.values().count(), row.count);
        }
        let _ = (backend::command_rows(&body), backend::ready_for_query(&body));
        let _ = frame::next(&body, MAX);
    }
}

#[test]
fn columns_of_rows_of_our_own() {
    let columns = [("name", backend::TEXT_OID), ("clients", backend::INT8_OID)];
    let bytes = written(|out| backend::put_row_description(out, &columns));
    let read = Columns::read(only(&bytes).body).unwrap();
    let named: Vec<_> = read.iter().map(|c| (c.name, c.type_oid, c.binary)).collect();
    assert_eq!(named, [(b"name".as_slice(), 25, false), (b"clients".as_slice(), 20, false)]);
    let bytes = written(|out| backend::put_parameter_description(out, &[25]));
    assert_eq!(bytes, [b't', 0, 0, 0, 10, 0, 1, 0, 0, 0, 25]);
}
