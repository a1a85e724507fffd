use proptest::prelude::{any, prop_assert_eq, proptest};

use super::{Data, RowOrder};

fn rows(bytes: &[u8]) -> Vec<Vec<String>> {
    let data = Data::new(bytes, RowOrder::Sequence, 1).unwrap();
    let row = |number| {
        let value = |column| data.value(number, 1, column).to_vec();
        (0..data.columns().len()).map(|at| String::from_utf8(value(at)).unwrap()).collect()
    };
    (0..data.rows() as u64).map(row).collect()
}

#[test]
fn csv_is_read_as_spreadsheets_write_it() {
    let text = b"\xef\xbb\xbfid, name\r\n1,\"a, \"\"b\"\"\r\nc\"\r\n\r\n2,\n3,last";
    assert_eq!(rows(text), [["1", "a, \"b\"\r\nc"], ["2", ""], ["3", "last"]]);
    assert_eq!(Data::new(text, RowOrder::Once, 1).unwrap().columns(), ["id", "name"]);
}

#[test]
fn json_lines_have_the_columns_of_the_first() {
    let text =
        b"{\"id\": 1, \"name\": \"a\\nb\"}\n\n {\"name\": null, \"id\": [2.5, true], \"x\": 0}\n";
    assert_eq!(rows(text), [["1", "a\nb"], ["[2.5,true]", ""]]);
}

#[test]
fn rows_come_in_the_order_that_was_asked_for() {
    let of = |order, salt| Data::new(b"n\n0\n1\n2\n3\n4\n5\n6\n7\n", order, salt).unwrap();
    let drawn =
        |data: &Data| (0..800).map(|number| data.value(number, 1, 0)[0]).collect::<Vec<_>>();
    let (sequence, once) = (of(RowOrder::Sequence, 1), of(RowOrder::Once, 1));
    assert_eq!((sequence.requests_max(), once.requests_max()), (None, Some(8)));
    assert_eq!(&drawn(&sequence)[..10], b"0123456701");
    let random = of(RowOrder::Random, 1);
    let first = drawn(&random);
    assert!(first != drawn(&sequence) && first == drawn(&random));
    for row in b'0'..b'8' {
        assert!((60..140).contains(&first.iter().filter(|value| **value == row).count()));
    }
    // Two sets of one load do not go side by side, and another seed draws something else.
    assert_ne!(first, drawn(&of(RowOrder::Random, 2)));
    assert!((0..20).any(|number| random.value(number, 1, 0) != random.value(number, 2, 0)));
    assert!("once".parse() == Ok(RowOrder::Once) && "twice".parse::<RowOrder>().is_err());
}

#[test]
fn what_is_no_data_is_told_with_its_line() {
    for (text, part) in [
        (&b""[..], "no rows"),
        (b"\n\n", "no rows"),
        (b"id,name\n", "no rows"),
        (b"id,name\n1,a\n2\n", "line 3: it has 1 values, and there are 2 columns"),
        (b"id\n\"a", "line 2: a quoted value has no end"),
        (b"id\n\"a\"b\n", "line 2: something stands behind"),
        (b"id,\n1,2\n", "no name"),
        (b"id,id\n1,2\n", "two columns \"id\""),
        (b"seq\n1\n", "can't be called"),
        (b"{\"id\": 1}\n{\"id\": \n", "line 2: it is not a JSON object"),
        (b"{\"id\": 1}\n{\"name\": 1}\n", "line 2: it has no \"id\""),
        (b"{}\n", "line 1: its object is empty"),
        (b"\xff\n1\n", "not UTF-8"),
    ] {
        let error = Data::new(text, RowOrder::Sequence, 1).unwrap_err().to_string();
        assert!(error.contains(part), "{error} for {part}");
    }
    let many =
        format!("{}\n{}\n", (0..1001).map(|n| n.to_string()).collect::<Vec<_>>().join(","), 1);
    assert!(
        Data::new(many.as_bytes(), RowOrder::Once, 1).unwrap_err().to_string().contains("1000")
    );
}

proptest! {
    #[test]
    fn what_is_quoted_is_read_again(values in proptest::collection::vec(".{0,8}", 1..20)) {
        let line = |value: &String| format!("\"{}\"\n", value.replace('"', "\"\""));
        let text = format!("v\n{}", values.iter().map(line).collect::<String>());
        let read: Vec<String> = rows(text.as_bytes()).into_iter().flatten().collect();
        prop_assert_eq!(read, values);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = Data::new(&bytes, RowOrder::Random, 1);
        let _ = Data::new(&[b"{\"a\":", &bytes[..]].concat(), RowOrder::Random, 1);
    }
}
