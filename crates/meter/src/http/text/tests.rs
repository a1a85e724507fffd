use proptest::prelude::{any, prop_assert, proptest};

use super::{Filling, Names, RequestPart, Text};
use crate::chance::Chance;
use crate::http::data::{Data, RowOrder};

fn data() -> Vec<Data> {
    let csv = b"name,the path\nann,/a b\n\"b\"\"\\\n\xff\",\"x?y=1&z\"\n";
    vec![Data::new(csv, RowOrder::Sequence, 1).unwrap()]
}

fn filled(text: &str, place: RequestPart, number: u64) -> String {
    let (data, taken) = (data(), ["token".to_owned()]);
    let names = Names { data: &data, taken: &taken, literal: false };
    let text = Text::new(text.as_bytes(), names).unwrap();
    let taken = [b"t\r\nX: 1".to_vec()];
    let chance = Chance::of(1, number);
    let mut filling = Filling { number, seed: 1, chance, data: &data, taken: &taken };
    let mut out = Vec::new();
    text.fill(place, &mut filling, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn gaps_are_filled_as_their_place_has_it() {
    assert_eq!(filled("/u/{{name}}?{{ seq }}", RequestPart::Target, 0), "/u/ann?0");
    assert_eq!(filled("{{the path}}", RequestPart::Target, 0), "/a%20b");
    assert_eq!(filled("{{url the path}}", RequestPart::Target, 1), "x%3Fy%3D1%26z");
    assert_eq!(filled("{{name}}", RequestPart::Target, 1), "b%22%5C%0A%FF");
    assert_eq!(filled("A: {{token}}\r\n", RequestPart::Header, 0), "A: t  X: 1\r\n");
    assert_eq!(filled("{{token}}", RequestPart::Body, 0), "t\r\nX: 1");
    assert_eq!(
        filled("{\"n\": \"{{json name}}\"}", RequestPart::Body, 1),
        "{\"n\": \"b\\\"\\\\\\n\u{fffd}\"}"
    );
    assert_eq!(filled("{{seq}} {{seq 100}} }}{", RequestPart::Body, 7), "7 107 }}{");
}

#[test]
fn what_is_drawn_is_within_its_bounds_and_the_same_for_the_same_number() {
    let mut seen = std::collections::BTreeSet::new();
    for number in 0..200 {
        let text = filled("{{random -1 3}}", RequestPart::Target, number);
        assert_eq!(text, filled("{{random -1 3}}", RequestPart::Target, number));
        seen.insert(text.parse::<i64>().unwrap());
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [-1, 0, 1, 2, 3]);
    let all = format!("{{{{random {} {}}}}}", i64::MIN, i64::MAX);
    assert!(filled(&all, RequestPart::Body, 1).parse::<i64>().is_ok());
    // Two of one request are two draws.
    let two =
        (0..50).map(|number| filled("{{random 1 9}} {{random 1 9}}", RequestPart::Body, number));
    assert!({ two }.any(|text| text.split_once(' ').is_some_and(|(one, other)| one != other)));
}

#[test]
fn a_gap_of_nothing_says_what_there_is() {
    let data = data();
    let names = Names { data: &data, taken: &[], literal: false };
    for (text, part) in [
        ("{{nme}}", "there are name, the path, seq, random 1 9"),
        ("{{token}}", "nor a value that an earlier step takes"),
        ("a {{name", "has no end"),
        ("{{}}", "is neither a column"),
        ("{{random 9 1}}", "two whole numbers"),
        ("{{random 1}}", "is neither a column"),
        ("{{seq x}}", "no whole number"),
        ("{{html name}}", "is neither a column"),
    ] {
        let error = Text::new(text.as_bytes(), names).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    assert!(Text::new(b"{{\xff}}", names).unwrap_err().to_string().contains("not text"));
    // A body from a file that is no text is not printed, and there is a way to send it.
    for bytes in [&b"\x1f\x8b{{\x1b[2J\x07\xff\xfe"[..], b"{{\x1b]0;x}}", b"{{ab\xff\xff}}"] {
        let error = Text::new(bytes, names).unwrap_err().to_string();
        assert!(!error.contains(char::is_control) && error.contains("{{"), "{error:?}");
        assert!(error.contains("--literal") || error.contains("not text"), "{error}");
    }
    let literal = Text::new(b"{{nme}}", Names { literal: true, ..names }).unwrap();
    assert!(literal.is_plain());
}

proptest! {
    #[test]
    fn no_text_panics_and_none_without_gaps_changes(
        bytes in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let data = data();
        let names = Names { data: &data, taken: &[], literal: false };
        if let Ok(text) = Text::new(&bytes, names) {
            let chance = Chance::of(1, 1);
            let mut filling = Filling { number: 1, seed: 1, chance, data: &data, taken: &[] };
            let mut out = Vec::new();
            text.fill(RequestPart::Body, &mut filling, &mut out);
            prop_assert!(!text.is_plain() || out == bytes);
        }
    }
}
