use proptest::prelude::*;

use super::*;
use crate::hessian2::{Encoder, Limits, Map, Value};

const CALL: RequestBody<'_> = RequestBody {
    path: "com.acme.Orders",
    service_version: "0.0.0",
    method: "find",
    descriptor: "Ljava/lang/String;I",
    arguments: Arguments::Values(&[]),
    attachments: &[("path", "com.acme.Orders"), ("timeout", "1000")],
};

fn request(body: &RequestBody<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    put_request(&mut out, &mut Encoder::default(), 7, true, body);
    out
}

/// The one frame of these bytes.
fn message(bytes: &[u8]) -> Result<Message, MessageError> {
    let (mut reader, mut piece) = (FrameReader::new(BODY_BYTES_DEFAULT_MAX), bytes);
    let frame = reader.read(&mut piece).expect("a frame").expect("a whole frame");
    assert!(piece.is_empty());
    Message::decode(&frame.header, frame.body, Limits::default())
}

fn frames(bytes: &[u8], length: usize, max: u32) -> (Vec<(Header, Vec<u8>)>, Option<FrameError>) {
    let (mut reader, mut frames) = (FrameReader::new(max), Vec::new());
    for mut piece in bytes.chunks(length) {
        loop {
            match reader.read(&mut piece) {
                Ok(Some(frame)) => frames.push((frame.header, frame.body.to_vec())),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
        assert!(piece.is_empty() && reader.wanted() > 0);
    }
    (frames, None)
}

#[test]
fn a_call_has_the_bytes_that_dubbo_writes() {
    let arguments = [Value::from("a"), Value::Int(1)];
    let bytes = request(&RequestBody { arguments: Arguments::Values(&arguments), ..CALL });
    let body = b"\x052.0.2\x0fcom.acme.Orders\x050.0.0\x04find\x13Ljava/lang/String;I\x01a\x91\
        H\x04path\x0fcom.acme.Orders\x07timeout\x041000Z";
    let length = u8::try_from(body.len()).unwrap();
    let header = [0xda, 0xbb, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, length];
    assert_eq!(bytes, [&header[..], &body[..]].concat());
    assert_eq!(
        request(&RequestBody { arguments: Arguments::Encoded(b"\x01a\x91"), ..CALL }),
        bytes
    );
    let Ok(Message::Request(read)) = message(&bytes) else { panic!("a request") };
    assert_eq!((read.path.as_str(), read.method.as_str()), ("com.acme.Orders", "find"));
    assert_eq!(
        (read.service_version.as_deref(), read.arguments),
        (Some("0.0.0"), arguments.into())
    );
    assert_eq!(read.attachments.get("timeout"), Some(&Value::from("1000")));
}

#[test]
fn a_generic_call_names_the_method_and_its_types() {
    let (mut encoder, mut arguments) = (Encoder::default(), Vec::new());
    let bean = Value::Map(Map {
        type_name: None,
        entries: vec![("class".into(), "com.acme.Order".into()), ("id".into(), Value::Long(1))],
    });
    let types = ["com.acme.Order"];
    put_generic_arguments(
        &mut arguments,
        &mut encoder,
        "save",
        &types,
        std::slice::from_ref(&bean),
    );
    assert!(arguments.starts_with(b"\x04save\x71\x07[string\x0ecom.acme.Order\x71\x07[objectH"));
    let bytes = request(&RequestBody {
        method: GENERIC_METHOD,
        descriptor: GENERIC_DESCRIPTOR,
        arguments: Arguments::Encoded(&arguments),
        attachments: &[("generic", "true")],
        ..CALL
    });
    let Ok(Message::Request(read)) = message(&bytes) else { panic!("a request") };
    let [Value::String(method), Value::List(_), Value::List(values)] = &read.arguments[..] else {
        panic!("{:?}", read.arguments)
    };
    assert_eq!((method.as_str(), &values.elements), ("save", &vec![bean]));
    assert_eq!(read.attachments.get("generic"), Some(&"true".into()));
}

#[test]
fn each_kind_of_response_is_read_as_it_was_written() {
    let value = || Value::from("x");
    let attachments = Value::Map(Map { entries: vec![(value(), value())], ..Map::default() });
    let bodies =
        [ResponseBody::Exception(value()), ResponseBody::Value(value()), ResponseBody::Null];
    for attachments in [None, Some(attachments)] {
        for (kind, body) in (0..).zip(bodies.clone()) {
            let response = Response { body, attachments: attachments.clone() };
            let mut out = Vec::new();
            put_response(&mut out, &mut Encoder::default(), 9, &response);
            let shift = if attachments.is_some() { 3 } else { 0 };
            assert_eq!((out[2], out[3], out[16]), (2, 20, 0x90 + kind + shift));
            assert_eq!(message(&out), Ok(Message::Response(response)));
        }
    }
    for byte in 0..=u8::MAX {
        let status = Status::from_byte(byte);
        assert_eq!(status.byte(), byte);
        if status != Status::Ok {
            let mut out = Vec::new();
            put_failure(&mut out, 9, status, "no thread");
            let message = message(&out);
            assert_eq!(message, Ok(Message::Failure { status, message: "no thread".to_owned() }));
        }
    }
    assert_eq!(Status::from_byte(100).name(), "SERVER_THREADPOOL_EXHAUSTED_ERROR");
}

#[test]
fn heartbeats_and_other_events_go_both_ways() {
    let (asks, answers) =
        (Kind::Request { is_two_way: true }, Kind::Response { status: Status::Ok });
    let mut out = Vec::new();
    put_event(&mut out, asks, 1, &Event::Heartbeat);
    assert_eq!(out, b"\xda\xbb\xe2\x00\0\0\0\0\0\0\0\x01\0\0\0\x01N");
    out.clear();
    put_event(&mut out, answers, 1, &Event::Heartbeat);
    assert_eq!(out, b"\xda\xbb\x22\x14\0\0\0\0\0\0\0\x01\0\0\0\x01N");
    for kind in [asks, Kind::Request { is_two_way: false }, answers] {
        let other = Event::Other(Value::Int(1));
        for event in [Event::Heartbeat, Event::ReadOnly, Event::Writeable, other] {
            out.clear();
            put_event(&mut out, kind, 1, &event);
            assert_eq!(message(&out), Ok(Message::Event(event)));
        }
    }
    assert_eq!(
        message(b"\xda\xbb\x22\x14\0\0\0\0\0\0\0\x01\0\0\0\0"),
        Ok(Message::Event(Event::Heartbeat))
    );
}

#[test]
fn a_stream_that_is_none_of_frames_is_refused() {
    let refused = |bytes: &[u8]| frames(bytes, bytes.len(), 100).1.map(|error| error.to_string());
    let magic = "dubbo: a frame begins with 0x47 0x45 instead of 0xda 0xbb";
    assert_eq!(refused(b"GET / HTTP/1.1").as_deref(), Some(magic));
    assert!(refused(b"\xda\x00").is_some() && refused(b"\xda").is_none());
    let header = |length: u32| {
        let mut bytes = b"\xda\xbb\xc2\x00\0\0\0\0\0\0\0\x01".to_vec();
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes
    };
    let over = "dubbo: a body of 101 bytes is over the limit of 100";
    assert_eq!(refused(&header(101)).as_deref(), Some(over));
    assert_eq!((refused(&header(100)), refused(&header(u32::MAX)).is_some()), (None, true));
}

#[test]
fn a_body_that_is_not_as_its_header_says_is_refused() {
    let read = |flags: u8, body: &[u8]| {
        let length = u8::try_from(body.len()).unwrap();
        let header = [0xda, 0xbb, flags, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, length];
        message(&[&header[..], body].concat()).expect_err("no message").to_string()
    };
    let cases: [(u8, &[u8], &str); 8] = [
        (0xc6, b"N", "serialization 6 is not supported, only hessian2 (2)"),
        (0x02, b"\x96", "there is no response of kind 6"),
        (0x02, b"\x8f", "there is no response of kind -1"),
        (0x02, b"\x95\x90", "attachments are not a map"),
        (
            0x02,
            b"",
            "cannot read the kind of a response: hessian2: the bytes end within a value at byte 0",
        ),
        (0xc2, b"\x052.0.2N", "the path is null"),
        (0xc2, b"\x00\x00N\x00\x01V", "\"V\" is not a descriptor of parameters"),
        (0xc2, b"\x00\x00N\x00\x01IN\x90", "attachments are not a map"),
    ];
    for (flags, body, wanted) in cases {
        assert_eq!(read(flags, body), format!("dubbo: {wanted}"), "{}", body.escape_ascii());
    }
}

#[test]
fn parameters_are_counted() {
    let cases = [
        ("", Some(0)),
        ("I", Some(1)),
        ("ZBCSIJFD", Some(8)),
        ("[[I[Ljava/lang/String;J", Some(3)),
        (GENERIC_DESCRIPTOR, Some(3)),
        ("V", None),
        ("[", None),
        ("L;", None),
        ("Ljava", None),
        ("\u{1f600}", None),
    ];
    for (descriptor, count) in cases {
        assert_eq!(parameters(descriptor), count, "{descriptor}");
    }
}

#[test]
fn a_descriptor_is_made_of_java_types() {
    let generic = ["java.lang.String", "java.lang.String[]", "java.lang.Object[]"];
    assert_eq!(descriptor_of(generic), GENERIC_DESCRIPTOR);
    let list = ["java.util.List<java.util.Set<int>>", "java.util.List<int>[]", "boolean[][]"];
    assert_eq!(descriptor_of(list), "Ljava/util/List;[Ljava/util/List;[[Z");
    let primitive = ["boolean", "byte", "char", "short", "int", "long", "float", "double"];
    assert_eq!(descriptor_of(primitive), "ZBCSIJFD");
}

#[test]
fn a_buffer_that_is_used_again_need_not_grow() {
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    put_request(&mut out, &mut encoder, 1, true, &CALL);
    let (first, capacity) = (out.clone(), out.capacity());
    out.clear();
    put_request(&mut out, &mut encoder, 1, true, &CALL);
    assert_eq!((out, capacity), (first.clone(), capacity));
}

proptest! {
    #[test]
    fn headers_are_read_as_they_were_written(
        flags in any::<(bool, bool, bool)>(), serialization in 0..32_u8, status in any::<u8>(),
        id in any::<i64>(), body_length in 0..=BODY_BYTES_DEFAULT_MAX,
    ) {
        let (is_request, is_two_way, is_event) = flags;
        let kind = match is_request {
            true => Kind::Request { is_two_way },
            false => Kind::Response { status: Status::from_byte(status) },
        };
        let header = Header { kind, is_event, serialization, id, body_length };
        let mut bytes = Vec::new();
        header.put(&mut bytes);
        prop_assert_eq!(bytes.len(), HEADER_BYTES);
        prop_assert_eq!(Header::parse(&bytes, BODY_BYTES_DEFAULT_MAX), Ok(Some(header)));
    }

    #[test]
    fn a_stream_gives_the_same_frames_however_it_is_cut(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..8),
        end in prop::collection::vec(any::<u8>(), 0..20), cut in 1..70_usize,
    ) {
        let mut bytes = Vec::new();
        for (id, body) in (0..).zip(&bodies) {
            let begin = begin_frame(&mut bytes, Kind::Request { is_two_way: true }, false, id);
            bytes.extend_from_slice(body);
            end_frame(&mut bytes, begin);
        }
        let whole = frames(&bytes, bytes.len().max(1), 60);
        prop_assert_eq!(&whole, &frames(&bytes, cut, 60));
        let read: Vec<_> = whole.0.into_iter().map(|(_, body)| body).collect();
        prop_assert_eq!((read, whole.1), (bodies, None));
        bytes.extend_from_slice(&end);
        let of = |(frames, error): (Vec<_>, Option<FrameError>)| (frames, error.is_some());
        prop_assert_eq!(of(frames(&bytes, bytes.len().max(1), 60)), of(frames(&bytes, cut, 60)));
    }

    #[test]
    fn any_body_is_read_or_refused(
        flags in any::<u8>(), body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = vec![0xda, 0xbb, flags & 0xe0 | HESSIAN2, 20];
        bytes.extend_from_slice(&[0; 11]);
        bytes.push(u8::try_from(body.len()).unwrap());
        bytes.extend_from_slice(&body);
        let _ = message(&bytes);
    }
}
