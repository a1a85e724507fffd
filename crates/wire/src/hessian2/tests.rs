use std::sync::Arc;

use proptest::prelude::*;

use super::*;

fn encode(values: &[Value]) -> Vec<u8> {
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    values.iter().for_each(|value| encoder.value(&mut out, value));
    out
}

fn decode(bytes: &[u8]) -> Result<Value, DecodeError> {
    Decoder::new(bytes, Limits::default()).value()
}

fn fails(bytes: &[u8]) -> (usize, DecodeErrorKind) {
    let error = decode(bytes).expect_err("not a value");
    (error.offset, error.kind)
}

/// A class of so many fields, `f0` and on.
fn class(name: &str, fields: usize) -> Arc<Class> {
    let fields = (0..fields).map(|at| format!("f{at}")).collect();
    Arc::new(Class { name: name.to_owned(), fields })
}

fn list(type_name: Option<&str>, elements: Vec<Value>) -> Value {
    Value::List(List { type_name: type_name.map(Arc::from), elements })
}

fn map(type_name: Option<&str>, entries: Vec<(Value, Value)>) -> Value {
    Value::Map(Map { type_name: type_name.map(Arc::from), entries })
}

#[test]
fn each_value_has_its_shortest_form() {
    let cases: Vec<(Value, &[u8])> = vec![
        (Value::Null, b"N"),
        (Value::Bool(true), b"T"),
        (Value::Bool(false), b"F"),
        (Value::Int(0), b"\x90"),
        (Value::Int(-16), b"\x80"),
        (Value::Int(47), b"\xbf"),
        (Value::Int(48), b"\xc8\x30"),
        (Value::Int(-2048), b"\xc0\x00"),
        (Value::Int(2047), b"\xcf\xff"),
        (Value::Int(-262_144), b"\xd0\x00\x00"),
        (Value::Int(262_143), b"\xd7\xff\xff"),
        (Value::Int(262_144), b"I\x00\x04\x00\x00"),
        (Value::Long(0), b"\xe0"),
        (Value::Long(-8), b"\xd8"),
        (Value::Long(15), b"\xef"),
        (Value::Long(-2048), b"\xf0\x00"),
        (Value::Long(2047), b"\xff\xff"),
        (Value::Long(-262_144), b"\x38\x00\x00"),
        (Value::Long(262_143), b"\x3f\xff\xff"),
        (Value::Long(-262_145), b"Y\xff\xfb\xff\xff"),
        (Value::Long(1 << 31), b"L\x00\x00\x00\x00\x80\x00\x00\x00"),
        (Value::Double(0.0), b"\x5b"),
        (Value::Double(-0.0), b"D\x80\x00\x00\x00\x00\x00\x00\x00"),
        (Value::Double(1.0), b"\x5c"),
        (Value::Double(-128.0), b"\x5d\x80"),
        (Value::Double(128.0), b"\x5e\x00\x80"),
        (Value::Double(12.25), b"\x5f\x00\x00\x2f\xda"),
        (Value::Double(f64::INFINITY), b"D\x7f\xf0\x00\x00\x00\x00\x00\x00"),
        (Value::Date(894_621_091_000), b"\x4a\x00\x00\x00\xd0\x4b\x92\x84\xb8"),
        (Value::Date(894_621_060_000), b"\x4b\x00\xe3\x83\x8f"),
        (Value::from("hello"), b"\x05hello"),
        (Value::from("\u{c3}"), b"\x01\xc3\x83"),
        (Value::from("\u{1f600}"), b"\x02\xed\xa0\xbd\xed\xb8\x80"),
        (Value::Binary(vec![1, 2, 3]), b"\x23\x01\x02\x03"),
        (list(None, vec![]), b"\x78"),
        (list(Some("[int"), vec![Value::Int(0), Value::Int(1)]), b"\x72\x04[int\x90\x91"),
        (map(None, vec![(Value::Int(1), Value::from("fee"))]), b"H\x91\x03feeZ"),
        (map(Some("a.B"), vec![]), b"M\x03a.BZ"),
    ];
    for (value, bytes) in cases {
        assert_eq!(encode(std::slice::from_ref(&value)), bytes, "{value:?}");
        assert_eq!(decode(bytes).unwrap(), value);
    }
}

#[test]
fn long_texts_and_binaries_come_in_chunks() {
    let text = "a".repeat(0x7fff) + "\u{1f600}" + &"b".repeat(0x8001);
    let bytes = encode(&[Value::from(text.as_str())]);
    // A chunk never ends within a pair.
    assert_eq!(bytes[..3], [b'R', 0x7f, 0xff]);
    assert_eq!(bytes[3 + 0x7fff..][..3], [b'R', 0x80, 0x00]);
    assert_eq!(decode(&bytes).unwrap(), Value::from(text.as_str()));
    for length in [15, 16, 1023, 1024, 0x8000, 0x8001, 0x2_0000] {
        for value in [Value::Binary(vec![7; length]), Value::String("x".repeat(length))] {
            assert_eq!(decode(&encode(std::slice::from_ref(&value))).unwrap(), value, "{length}");
        }
    }
    let pair = b"R\x00\x01\xed\xa0\xbd\x01\xed\xb8\x80";
    assert_eq!(decode(pair).unwrap(), Value::from("\u{1f600}"), "a pair over two chunks");
    assert_eq!(decode(b"R\x00\x01a\x00").unwrap(), Value::from("a"));
    assert_eq!(decode(b"A\x00\x01a\x21b").unwrap(), Value::Binary(b"ab".to_vec()));
}

#[test]
fn types_and_classes_are_written_once() {
    let list = |n| list(Some("[int"), vec![Value::Int(n)]);
    assert_eq!(encode(&[list(0), list(1)]), b"\x71\x04[int\x90\x71\x90\x91");
    let object =
        |class: &Arc<Class>, values| Value::Object(Object { class: class.clone(), values });
    let (first, second) = (class("A", 1), class("A", 1));
    let values = [object(&first, vec![Value::Null]), object(&second, vec![Value::Int(1)])];
    let bytes = encode(&values);
    assert_eq!(bytes, b"C\x01A\x91\x02f0\x60N\x60\x91");
    let mut decoder = Decoder::new(&bytes, Limits::default());
    assert_eq!([decoder.value().unwrap(), decoder.value().unwrap()], values);
    assert!(decoder.rest().is_empty());
    let many: Vec<_> = (0..20).map(|n| object(&class(&format!("C{n}"), 0), vec![])).collect();
    let bytes = encode(&[many.clone(), many.clone()].concat());
    let mut decoder = Decoder::new(&bytes, Limits::default());
    for value in many.iter().chain(&many) {
        assert_eq!(decoder.value().unwrap(), *value);
    }
    let missing = object(&first, vec![]);
    assert_eq!(encode(&[missing]), encode(&[object(&first, vec![Value::Null])]));
}

#[test]
fn cycles_are_held_as_references() {
    let cycle = list(None, vec![map(None, vec![]), Value::Reference(0), Value::Reference(1)]);
    let bytes = encode(std::slice::from_ref(&cycle));
    assert_eq!(bytes, b"\x7bHZ\x51\x90\x51\x91");
    assert_eq!(decode(&bytes).unwrap(), cycle);
    assert_eq!(fails(b"\x79\x51\x91"), (2, DecodeErrorKind::UndefinedReference(1)));
    assert_eq!(fails(b"\x51\x90"), (1, DecodeErrorKind::UndefinedReference(0)));
}

#[test]
fn lists_of_unknown_length_are_read() {
    let read = list(Some("a"), vec![Value::Int(1), Value::Int(2)]);
    assert_eq!(decode(b"U\x01a\x91\x92Z").unwrap(), read);
    assert_eq!(decode(b"WZ").unwrap(), list(None, vec![]));
    assert_eq!(decode(b"X\x91\x91").unwrap(), list(None, vec![Value::Int(1)]));
}

#[test]
fn what_is_no_value_says_what_and_where() {
    use DecodeErrorKind::*;
    let cases: [(&[u8], usize, DecodeErrorKind); 16] = [
        (b"", 0, UnexpectedEnd),
        (b"Z", 0, UnknownTag(b'Z')),
        (b"\x40", 0, UnknownTag(0x40)),
        (b"H\x91", 2, UnexpectedEnd),
        (b"\x79Q\x80", 2, UndefinedReference(-16)),
        (b"\x60", 0, UndefinedClass(0)),
        (b"O\x95", 0, UndefinedClass(5)),
        (b"\x70\x90", 1, UndefinedType(0)),
        (b"XI\xff\xff\xff\xff", 1, NegativeLength(-1)),
        (b"XI\x7f\xff\xff\xff", 6, UnexpectedEnd),
        (b"C\x01AN", 3, UnexpectedTag { expected: "an int", tag: b'N' }),
        (b"C\x01A\x91N", 4, UnexpectedTag { expected: "a string", tag: b'N' }),
        (b"\x01\xed\xa0\xbd", 4, UnpairedSurrogate(0xd83d)),
        (b"\x01\xed\xb8\x80", 1, UnpairedSurrogate(0xde00)),
        (b"\x01\xf0\x9f\x98\x80", 1, InvalidCharacter),
        (b"\x02\xed\xa0\xbda", 4, UnpairedSurrogate(0xd83d)),
    ];
    for (bytes, offset, kind) in cases {
        assert_eq!(fails(bytes), (offset, kind), "{}", bytes.escape_ascii());
    }
    let text = decode(b"\x60").expect_err("no class").to_string();
    assert_eq!(text, "hessian2: class 0 is not defined at byte 0");
}

#[test]
fn limits_hold() {
    let within = |bytes: &[u8], limits| Decoder::new(bytes, limits).value().map(drop);
    let small = Limits { depth: 2, bytes: 3, values: 5, classes: 1 };
    for bytes in [&b"\x79\x79N"[..], b"\x03abc", b"\x23abc", b"\x7cNNNN", b"\x71\x01a\x70\x90"] {
        if !bytes.starts_with(b"\x71") {
            assert_eq!(within(bytes, small), Ok(()), "{}", bytes.escape_ascii());
        }
    }
    let beyond: [(&[u8], &str, usize); 7] = [
        (b"\x79\x79\x79N", "levels", 2),
        (b"\x04abcd", "bytes of a string", 3),
        (b"\x02\xc3\x83\xc3\x83", "bytes of a string", 3),
        (b"A\x00\x02ab\x22cd", "bytes of a binary", 3),
        (b"\x7dNNNNN", "values", 5),
        (b"C\x01A\x90C\x01B\x90\x60", "classes", 1),
        (b"\x71\x01a\x70\x01b", "types", 1),
    ];
    for (bytes, what, max) in beyond {
        let kind = within(bytes, small).expect_err(what).kind;
        assert_eq!(kind, DecodeErrorKind::LimitExceeded { what, max }, "{}", bytes.escape_ascii());
    }
    let deep = [0x79].repeat(1 << 20);
    assert!(matches!(fails(&deep).1, DecodeErrorKind::LimitExceeded { what: "levels", .. }));
}

#[test]
fn an_encoder_that_is_reset_begins_a_message() {
    let value = list(Some("[int"), vec![list(Some("[int"), vec![]), Value::Reference(0)]);
    let (mut encoder, mut first, mut second) = (Encoder::default(), Vec::new(), Vec::new());
    encoder.value(&mut first, &value);
    encoder.reset();
    encoder.value(&mut second, &value);
    assert_eq!(first, second);
}

/// Any value whose references name something that began before.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(Value::Int),
        (any::<i32>(), 0..32_u32).prop_map(|(n, by)| Value::Int(n >> by)),
        (any::<i64>(), 0..64_u32).prop_map(|(n, by)| Value::Long(n >> by)),
        any::<f64>().prop_map(Value::Double),
        any::<i32>().prop_map(|n| Value::Double(f64::from(n) * 0.001)),
        any::<i16>().prop_map(|n| Value::Double(f64::from(n))),
        any::<i64>().prop_map(Value::Date),
        any::<i32>().prop_map(|n| Value::Date(i64::from(n) * 60_000)),
        any::<String>().prop_map(Value::String),
        (0..0x8004_usize).prop_map(|n| Value::String("a".repeat(n) + "\u{1f600}b")),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Binary),
        (0..0x8004_usize).prop_map(|n| Value::Binary(vec![1; n])),
        // The outermost value is a list.
        Just(Value::Reference(0)),
    ];
    let tree = leaf.prop_recursive(6, 60, 12, |inner| {
        let name = || prop::option::of("[a-c\u{1f600}]{0,2}");
        prop_oneof![
            (name(), prop::collection::vec(inner.clone(), 0..12))
                .prop_map(|(name, elements)| list(name.as_deref(), elements)),
            (name(), prop::collection::vec((inner.clone(), inner.clone()), 0..6))
                .prop_map(|(name, entries)| map(name.as_deref(), entries)),
            ("[A-Z]", prop::collection::vec(inner, 0..4)).prop_map(|(name, values)| {
                Value::Object(Object { class: class(&name, values.len()), values })
            }),
        ]
    });
    prop::collection::vec(tree, 0..4).prop_map(|elements| list(None, elements))
}

proptest! {
    #[test]
    fn any_value_encodes_and_decodes_to_itself(value in any_value()) {
        let bytes = encode(std::slice::from_ref(&value));
        let mut decoder = Decoder::new(&bytes, Limits::default());
        let read = decoder.value().unwrap();
        prop_assert!(decoder.rest().is_empty());
        prop_assert_eq!(encode(std::slice::from_ref(&read)), bytes);
        // Doubles that are not numbers differ from themselves.
        let (read, value) = (format!("{read:?}"), format!("{value:?}"));
        prop_assert!(read == value);
    }

    #[test]
    fn a_value_that_is_cut_off_is_an_error(
        value in any_value(), at in any::<prop::sample::Index>(),
    ) {
        let bytes = encode(std::slice::from_ref(&value));
        let at = at.index(bytes.len());
        prop_assert_eq!(fails(&bytes[..at]).1, DecodeErrorKind::UnexpectedEnd);
    }

    #[test]
    fn any_bytes_are_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_again(&bytes);
    }

    #[test]
    fn bytes_like_values_are_a_value_or_an_error(
        bytes in prop::collection::vec(prop::sample::select(
            b"\x00\x01\x02AbCHMNOQRSTUVWXZ\x60\x61\x70\x71\x72\x78\x79\x7a\x90\x91\x92".to_vec()
        ), 0..60),
    ) {
        read_again(&bytes);
    }
}

/// What can be read encodes to what reads the same.
fn read_again(bytes: &[u8]) {
    let limits = Limits { depth: 8, bytes: 20, values: 30, classes: 4 };
    let mut decoder = Decoder::new(bytes, limits);
    match decoder.value() {
        Ok(value) => {
            assert!(decoder.offset() <= bytes.len());
            let again = encode(std::slice::from_ref(&value));
            let value = Decoder::new(&again, limits).value().unwrap();
            assert_eq!(encode(&[value]), again);
        }
        Err(error) => assert!(error.offset <= bytes.len()),
    }
}
