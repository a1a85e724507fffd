//! Requests as a server reads them.

use std::collections::HashSet;
use std::io::Read as _;

use flate2::read::GzDecoder;

use super::{Options, Rows, WriteError, Writes};
use crate::workload::{Reader as _, Workload as _};

const START_NS: u64 = 1_700_000_000_000_000_000;

fn options() -> Options {
    Options {
        database: Some("load".to_owned()),
        rows: Rows::Report,
        batch: 30,
        series: 1,
        out_of_order: 0.0,
        gzip: false,
        start_ns: START_NS,
        seed: 1,
    }
}

/// The head and the body of a request.
fn sent(writes: &mut Writes, number: u64) -> (String, Vec<u8>) {
    let mut out = Vec::new();
    writes.request(number, &mut out);
    let end = out.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let body = out.split_off(end);
    (String::from_utf8(out).unwrap(), body)
}

fn writes(options: Options) -> Writes {
    Writes::new(&"http://h:8086".parse().unwrap(), &[], options).unwrap()
}

#[test]
fn a_request_says_how_long_its_body_is_and_where_it_goes() {
    let database = Some("my db".to_owned());
    let (head, body) = sent(&mut writes(Options { database, ..options() }), 0);
    assert!(head.starts_with("POST /write?db=my%20db&precision=ns HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    let url = "http://h/api/v2/write?bucket=b".parse().unwrap();
    let own = Options { database: None, ..options() };
    let (head, _) = sent(&mut Writes::new(&url, &[], own).unwrap(), 0);
    assert!(head.starts_with("POST /api/v2/write?bucket=b HTTP/1.1\r\n"), "{head}");
}

#[test]
fn every_kind_of_row_is_line_protocol_and_no_point_meets_another() {
    for rows in [Rows::Report, Rows::Jmeter, Rows::CpuOnly] {
        let options = Options { rows, series: 7, out_of_order: 0.3, ..options() };
        let (mut writes, mut seen, mut late) = (writes(options), HashSet::new(), 0);
        for number in 0..50 {
            let (_, body) = sent(&mut writes, number);
            for line in std::str::from_utf8(&body).unwrap().lines() {
                let (rest, time) = line.rsplit_once(' ').unwrap();
                let (series, fields) = rest.split_once(' ').unwrap();
                assert!(fields.contains('=') && !series.contains('"'), "{line}");
                let time: u64 = time.parse().unwrap();
                late += u64::from(time < START_NS);
                assert!(seen.insert((series.to_owned(), time)), "{line}");
            }
        }
        let series: HashSet<_> = seen.iter().map(|(series, _)| series).collect();
        assert_eq!((seen.len(), series.len()), (1500, 7), "{rows:?}");
        assert!((300..600).contains(&late), "{late}");
    }
}

#[test]
fn what_is_compressed_is_what_would_have_been_sent() {
    let (_, plain) = sent(&mut writes(options()), 9);
    let (head, packed) = sent(&mut writes(Options { gzip: true, ..options() }), 9);
    assert!(head.contains("Content-Encoding: gzip\r\n"), "{head}");
    let mut unpacked = Vec::new();
    GzDecoder::new(&*packed).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain);
}

#[test]
fn what_can_not_be_written_is_refused_with_the_reason() {
    let refused =
        |url: &str, options| Writes::new(&url.parse().unwrap(), &[], options).unwrap_err();
    let nowhere = Options { database: None, ..options() };
    assert_eq!(refused("http://h", nowhere), WriteError::Database);
    assert_eq!(refused("http://h/write?db=x", options()), WriteError::Path);
    for wrong in [
        Options { batch: 0, ..options() },
        Options { series: 0, ..options() },
        Options { out_of_order: 1.5, ..options() },
    ] {
        assert!(matches!(refused("http://h", wrong), WriteError::Limit(_)));
    }
}

#[test]
fn a_write_that_is_refused_is_told_in_the_servers_own_words() {
    let head = |more: &str, len| {
        format!("HTTP/1.1 400 Bad Request\r\n{more}Content-Length: {len}\r\n\r\n")
    };
    let mut reader = writes(options()).reader();
    for (more, body, words) in [
        ("", "{\"error\":\"partial write:\\n dropped=1\"}", "status 400: partial write: dropped=1"),
        ("", "{\"code\":\"invalid\",\"message\":\"no bucket\"}", "status 400: no bucket"),
        ("X-Influxdb-Error: timeout\r\n", "", "status 400: timeout"),
        ("Content-Encoding: gzip\r\nX-Influxdb-Error: packed\r\n", "x", "status 400: packed"),
        ("", "<html>", "status 400"),
        ("", "{\"error\": 7}", "status 400"),
    ] {
        reader.begin(0);
        let whole = head(more, body.len()) + body;
        let (first, rest) = whole.as_bytes().split_at(20);
        assert_eq!(reader.read(first).unwrap(), None);
        let answer = reader.read(rest).unwrap().unwrap();
        assert_eq!((&*reader.failure(&answer), answer.commands), (words, 30));
    }
}
