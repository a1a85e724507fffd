use proptest::prelude::*;

use super::fast::{TagKeys, plain};
use super::*;

const NOW_NS: i64 = 1_700_000_000_123_456_789;
const ODD_LINES: &str = include_str!("../../corpus/odd_lines.txt");

fn options(precision: Precision) -> Options<'static> {
    Options { precision, now_ns: NOW_NS, stamp: &[], unsigned: false }
}

fn normalised(body: &[u8], options: &Options<'_>) -> (String, Outcome) {
    let mut out = Vec::new();
    let outcome = normalise(body, options, &mut out);
    assert_eq!(points(&out).count(), outcome.points as usize);
    (String::from_utf8_lossy(&out).into_owned(), outcome)
}

fn ns(body: &str) -> String {
    normalised(body.as_bytes(), &options(Precision::Nanosecond)).0
}

/// Undoes the escapes that the head of the corpus explains.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next().unwrap() {
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'0' => out.push(0),
            b'\\' => out.push(b'\\'),
            b'x' => {
                let hex: String = bytes.by_ref().take(2).map(char::from).collect();
                out.push(u8::from_str_radix(&hex, 16).unwrap());
            }
            b'{' => {
                let digits: String =
                    bytes.by_ref().take_while(|&byte| byte != b'}').map(char::from).collect();
                let byte = bytes.next().unwrap();
                out.extend(std::iter::repeat_n(byte, digits.parse().unwrap()));
            }
            other => panic!("unknown escape {other}"),
        }
    }
    out
}

fn odd_lines() -> impl Iterator<Item = (Precision, Vec<u8>, u32, Option<String>)> {
    ODD_LINES.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let precision = Precision::parse_v1(columns[0]).unwrap();
        let answer = match columns[3] {
            "-" => None,
            text => Some(String::from_utf8_lossy(&unescape(text)).into_owned()),
        };
        (precision, unescape(columns[1]), columns[2].parse().unwrap(), answer)
    })
}

#[test]
fn odd_lines_are_answered_as_influxdb_answers_them() {
    let mut cases = 0;
    for (precision, body, points, answer) in odd_lines() {
        let (out, outcome) = normalised(&body, &options(precision));
        let shown = String::from_utf8_lossy(&body);
        assert_eq!(outcome.points, points, "{shown}");
        assert_eq!(outcome.refusal(), answer, "{shown}");
        let again = normalised(out.as_bytes(), &options(Precision::Nanosecond));
        if std::str::from_utf8(&body).is_ok() {
            assert_eq!(again.0, out, "{shown}");
        }
        cases += 1;
    }
    assert!(cases > 400, "the corpus has been cut to {cases} cases");
}

#[test]
fn what_is_whole_is_copied_as_it_is() {
    let body = "m f=1 1\ncpu,host=a\\ b,region=eu v=1.5,s=\"x,\\\"y\\\" =\nz\",i=-3i,b=t -5\n";
    assert_eq!(ns(body), body);
}

#[test]
fn what_is_missing_is_added() {
    assert_eq!(ns("m f=1"), format!("m f=1 {NOW_NS}\n"));
    assert_eq!(ns("m f=1\nm f=2 2"), format!("m f=1 {NOW_NS}\nm f=2 2\n"));
    assert_eq!(ns("m f=1 5\nm f=1\n\n# c\n \tm f=2 2 \n"), {
        format!("m f=1 5\nm f=1 {NOW_NS}\nm f=2 2\n")
    });
    let cases = [
        (Precision::Microsecond, "1700000000123456000", "7000"),
        (Precision::Millisecond, "1700000000123000000", "7000000"),
        (Precision::Second, "1700000000000000000", "7000000000"),
        (Precision::Minute, "1699999980000000000", "420000000000"),
        (Precision::Hour, "1699999200000000000", "25200000000000"),
    ];
    for (precision, now, seven) in cases {
        let (out, _) = normalised(b"m f=1\nm f=1 7\nm f=1 -7\nm f=1 007 \n", &options(precision));
        let expected = format!("m f=1 {now}\nm f=1 {seven}\nm f=1 -{seven}\nm f=1 {seven}\n");
        assert_eq!(out, expected);
    }
    let before_1970 = Options { now_ns: -1, ..options(Precision::Second) };
    assert_eq!(normalised(b"m f=1", &before_1970).0, "m f=1 -1000000000\n");
    for now_ns in [i64::MIN, i64::MAX] {
        for precision in [Precision::Nanosecond, Precision::Hour] {
            let (_, outcome) = normalised(b"m f=1", &Options { now_ns, ..options(precision) });
            assert_eq!(outcome.points, 1);
        }
    }
}

#[test]
fn stamped_tags_come_last_and_never_twice() {
    let stamp =
        [StampTag::new("instance", "10.0.0.1:5").unwrap(), StampTag::new("a b", "x,=y").unwrap()];
    let stamped = |body: &str| {
        let options = Options { stamp: &stamp, ..options(Precision::Nanosecond) };
        normalised(body.as_bytes(), &options).0
    };
    let both = ",instance=10.0.0.1:5,a\\ b=x\\,\\=y";
    assert_eq!(stamped("m f=1 1"), format!("m{both} f=1 1\n"));
    assert_eq!(stamped("m,z=1 f=1 1\n"), format!("m,z=1{both} f=1 1\n"));
    assert_eq!(stamped(" m,z=\\ 1 f=1 1\n"), format!("m,z=\\ 1{both} f=1 1\n"));
    assert_eq!(stamped("m,instance=x f=1 1\n"), "m,instance=x,a\\ b=x\\,\\=y f=1 1\n");
    assert_eq!(stamped("m,a\\ b=x f=1 1\n"), "m,a\\ b=x,instance=10.0.0.1:5 f=1 1\n");
    let has_both = "m,instance=x,a\\ b=y f=1 1\n";
    assert_eq!(stamped(has_both), has_both);
    let long = "m".repeat(65_500);
    let options = Options { stamp: &stamp, ..options(Precision::Nanosecond) };
    let (_, outcome) = normalised(format!("{long} f=1 1\n").as_bytes(), &options);
    let too_long = format!("max key length exceeded: {} > 65535", long.len() + both.len() + 5);
    assert!(outcome.refusal().unwrap().ends_with(&too_long));
}

#[test]
fn what_can_not_be_stamped() {
    for (key, value) in [("", "x"), ("time", "x"), ("a", ""), ("a\\", "x"), ("a", "x\n")] {
        assert!(StampTag::new(key, value).is_err(), "{key:?}={value:?}");
    }
    assert!(StampTag::new(&"k".repeat(1024), "v").is_err());
}

#[test]
fn unsigned_integers_are_taken_where_the_server_takes_them() {
    let body = b"m f=1u 1\nm f=18446744073709551616u 2\nm f=-1u 3\n";
    let (out, outcome) =
        normalised(body, &Options { unsigned: true, ..options(Precision::Nanosecond) });
    assert_eq!(out, "m f=1u 1\n");
    assert_eq!(
        outcome.error.unwrap(),
        "unable to parse 'm f=18446744073709551616u 2': unable to parse unsigned \
         18446744073709551616: strconv.ParseUint: parsing \"18446744073709551616\": value out of \
         range\nunable to parse 'm f=-1u 3': invalid number"
    );
}

#[test]
fn errors_are_bounded() {
    let body = "é\n".repeat(1 << 20);
    let (_, outcome) = normalised(body.as_bytes(), &options(Precision::Nanosecond));
    let error = outcome.error.unwrap();
    assert_eq!(outcome.bad, 1 << 20);
    assert!(error.len() <= ERROR_BYTES_MAX + 3 && error.ends_with("..."));
    let body = "é".repeat(1 << 20);
    let (_, outcome) = normalised(body.as_bytes(), &options(Precision::Nanosecond));
    assert!(outcome.error.unwrap().ends_with("...': missing fields"));
}

#[test]
fn a_line_of_a_million_tags_takes_no_hours() {
    let tags: String = (0..200_000).map(|tag| format!(",t{tag}=v")).collect();
    let (_, outcome) =
        normalised(format!("m{tags} f=1 1").as_bytes(), &options(Precision::Nanosecond));
    assert!(outcome.error.unwrap().contains("max key length exceeded"));
}

#[test]
fn records_are_found_again_whatever_their_strings_hold() {
    let records = ["m f=1 1\n", "m f=\"a\nb\\\"\n\" 2\n", "m\\\nx,a=\"\\ b f=\"\" 3\n"];
    let body = records.concat();
    assert_eq!(ns(&body), body);
    let found: Vec<&[u8]> = points(body.as_bytes()).collect();
    assert_eq!(found, records.map(str::as_bytes));
    let series: Vec<&[u8]> = found.into_iter().map(series).collect();
    assert_eq!(series, [b"m".as_slice(), b"m", b"m\\\nx,a=\"\\ b"]);
}

#[test]
fn precisions_of_both_apis() {
    assert_eq!(Precision::parse_v1(""), Some(Precision::Nanosecond));
    assert_eq!(Precision::parse_v1("h"), Some(Precision::Hour));
    assert_eq!(Precision::parse_v1("us"), None);
    assert_eq!(Precision::parse_v2("us"), Some(Precision::Microsecond));
    assert_eq!(Precision::parse_v2("h"), None);
}

fn precision() -> impl Strategy<Value = Precision> {
    prop_oneof![
        4 => Just(Precision::Nanosecond),
        1 => Just(Precision::Millisecond),
        1 => Just(Precision::Hour),
    ]
}

/// Bodies that come near to being good, and often are.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => "(m|,a=b|,c=d\\\\ e|\\\\=|\\\\,| f=1| g=\"x y\"| 5\n|\n|,h=2i)",
        4 => "[m,= \\\\\"\n\t10.ietf#-]",
        1 => "\\PC",
        4 => Just("m,a=b f=1,s=\"q\\\"\" 7\n".to_owned()),
        2 => Just("m f=1\n".to_owned()),
    ];
    prop_oneof![
        9 => proptest::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat().into()),
        1 => proptest::collection::vec(any::<u8>(), 0..64),
    ]
}

/// Shares of points that a sample may have.
fn share() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(0.5), Just(1.0)]
}

#[test]
fn a_sample_is_a_share_of_the_times_and_a_smaller_one_is_part_of_it() {
    let (all, half) = (Sampler::new(3, 1.0), Sampler::new(3, 0.5));
    let (tenth, none) = (Sampler::new(3, 0.1), Sampler::new(3, 0.0));
    let times = |step: i64| (0..100_000).map(move |n| 1_700_000_000_000_000_000 + n * step);
    for step in [1, 1_000, 1_000_000, 1_000_000_000] {
        let chosen = |sampler: Sampler| times(step).filter(|time| sampler.chooses(*time)).count();
        assert_eq!(chosen(all), 100_000);
        assert!((48_000..52_000).contains(&chosen(half)), "{step}: {}", chosen(half));
        assert!((9_000..11_000).contains(&chosen(tenth)), "{step}: {}", chosen(tenth));
        assert!(chosen(none) <= 1);
        assert!(times(step).all(|time| half.chooses(time) || !tenth.chooses(time)));
    }
    assert!(times(1).any(|time| half.chooses(time) != Sampler::new(4, 0.5).chooses(time)));
}

#[test]
fn a_form_is_of_measurement_names_and_types() {
    let key = MarkKey::default();
    let form = |line: &str| Marks::of(key.clone(), line.as_bytes()).iter().next().unwrap().form;
    let known = form("m,a=b f=1,g=t 1\n");
    assert_eq!(form("m f=2.5,g=false 7\n"), known);
    assert_eq!(form("m f=2.5,time=1,g=false 7\n"), known);
    for other in [
        "n f=1,g=t 1\n",
        "m f=1i,g=t 1\n",
        "m f=1,g=1 1\n",
        "m g=t,f=1 1\n",
        "m f=1 1\n",
        "m f=1,g=t,h=1 1\n",
        "m f=\"1\",g=t 1\n",
        "m f=1u,g=t 1\n",
        "mf f=1,g=t 1\n",
        "m fg=1,t=t 1\n",
    ] {
        assert_ne!(form(other), known, "{other}");
    }
    assert_ne!(Marks::of(MarkKey::default(), b"m f=1,g=t 1\n").iter().next().unwrap().form, known);
}

#[test]
fn records_are_read_back() {
    let record = b"m\\ x,b=\\,y,a=1 f\\ 1=-1.25,i=-7i,u=9u,t=T,time=3,s=\"a\\\"\\\\b,\" -5\n";
    let point = read(record).unwrap();
    assert_eq!(point.time_ns, -5);
    assert_eq!(&*unescape_name(measurement(point.series)), b"m x");
    let tags: Vec<_> =
        tag_pairs(point.series).map(|(k, v)| (k.to_vec(), unescape_tag(v).into_owned())).collect();
    assert_eq!(tags, [(b"b".to_vec(), b",y".to_vec()), (b"a".to_vec(), b"1".to_vec())]);
    let fields: Vec<Field<'_>> = point.fields.collect();
    assert_eq!(&*unescape_name(fields[0].name), b"f 1");
    let Value::String(text) = fields[4].value else { panic!("{fields:?}") };
    assert_eq!(&*unescape_string(text), b"a\"\\b,");
    let values: Vec<Value<'_>> = fields[..4].iter().map(|field| field.value).collect();
    assert_eq!(
        values,
        [Value::Float(-1.25), Value::Integer(-7), Value::Unsigned(9), Value::Boolean(true)]
    );
    for (text, value) in [("1e3", 1e3), ("0.1", 0.1), (".5", 0.5), ("3.", 3.0), ("-0", -0.0)] {
        let record = format!("m f={text} 1\n");
        let field = read(record.as_bytes()).unwrap().fields.next().unwrap();
        assert_eq!(field.value, Value::Float(value), "{text}");
    }
    for long in ["123456789012345678.5", "0.12345678901234567", "9007199254740993"] {
        let record = format!("m f={long} 1\n");
        let field = read(record.as_bytes()).unwrap().fields.next().unwrap();
        assert_eq!(field.value, Value::Float(long.parse().unwrap()), "{long}");
    }
    assert!(read(b"m f=1").is_none() && read(b"").is_none() && read(b"m f=1 x\n").is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Every record is read, all its fields with it, and floats as the standard library reads them.
    #[test]
    fn what_is_normalised_is_read(body in body()) {
        let mut out = Vec::new();
        normalise(&body, &Options { unsigned: true, ..options(Precision::Nanosecond) }, &mut out);
        for record in points(&out) {
            let point = read(record).unwrap();
            prop_assert_eq!(point.series, series(record));
            let time = String::from_utf8_lossy(record);
            let time = time.trim_end().rsplit(' ').next().unwrap().to_owned();
            prop_assert_eq!(point.time_ns.to_string(), time);
            prop_assert!(point.fields.count() > 0);
        }
    }

    #[test]
    fn floats_are_read_as_they_are(value in -1e15f64..1e15, digits in 0usize..8) {
        let record = format!("m f={value:.digits$} 1\n");
        let text: f64 = format!("{value:.digits$}").parse().unwrap();
        let field = read(record.as_bytes()).unwrap().fields.next().unwrap();
        prop_assert_eq!(field.value, Value::Float(text));
    }

    #[test]
    fn reading_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Some(point) = read(&bytes) {
            point.fields.count();
            tag_pairs(point.series).count();
        }
    }

    #[test]
    fn normalising_again_changes_nothing(body in body(), precision in precision()) {
        let mut once = Vec::new();
        let outcome = normalise(&body, &options(precision), &mut once);
        prop_assert_eq!(points(&once).count(), outcome.points as usize);
        let mut twice = Vec::new();
        let again = normalise(&once, &options(Precision::Nanosecond), &mut twice);
        prop_assert_eq!(again.error, None);
        prop_assert_eq!(again.points, outcome.points);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn records_mean_the_same_in_any_company(a in body(), b in body()) {
        let (mut first, mut second, mut both) = (Vec::new(), Vec::new(), Vec::new());
        normalise(&a, &options(Precision::Nanosecond), &mut first);
        normalise(&b, &options(Precision::Nanosecond), &mut second);
        normalise(&a, &options(Precision::Nanosecond), &mut both);
        normalise(&b, &options(Precision::Nanosecond), &mut both);
        let apart: Vec<&[u8]> = points(&first).chain(points(&second)).collect();
        prop_assert_eq!(points(&both).collect::<Vec<_>>(), apart);
        let mut again = Vec::new();
        let outcome = normalise(&both, &options(Precision::Nanosecond), &mut again);
        prop_assert_eq!(outcome.bad, 0);
        prop_assert_eq!(again, both);
    }

    /// The fast way takes nothing that the careful way reads otherwise.
    #[test]
    fn both_ways_agree(body in body()) {
        if let Some(line) = plain(&body, 0, &mut TagKeys::new(), &mut ()) {
            prop_assert_eq!(frame::line_end(&body, 0), line.end);
            let point = point::parse(&body[..line.end], Precision::Nanosecond, false).unwrap();
            prop_assert_eq!(point.key_end, line.key_end);
            prop_assert_eq!(point.fields_end, line.fields_end);
            prop_assert_eq!(point.time_ns.is_some(), line.has_time);
        }
    }

    #[test]
    fn a_stamp_is_added_once(body in body(), precision in precision()) {
        let stamp = [StampTag::new("a", "z").unwrap(), StampTag::new("peer", "x y").unwrap()];
        let mut once = Vec::new();
        let stamped = Options { stamp: &stamp, ..options(precision) };
        let outcome = normalise(&body, &stamped, &mut once);
        for point in points(&once) {
            let keys: Vec<&[u8]> = tags::tag_keys(series(point)).collect();
            for tag in &stamp {
                let times = keys.iter().filter(|key| **key == tag.key().as_bytes()).count();
                prop_assert_eq!(times, 1);
            }
        }
        let mut twice = Vec::new();
        let again = Options { stamp: &stamp, ..options(Precision::Nanosecond) };
        prop_assert_eq!(normalise(&once, &again, &mut twice).points, outcome.points);
        prop_assert_eq!(once, twice);
    }

    /// The notes of the one pass are those of a walk over its records, whichever are wanted.
    #[test]
    fn notes_tell_what_a_walk_tells(
        a in body(), b in body(), precision in precision(), stamped: bool, share in share(),
        marked: bool, timed: bool, sampled: bool,
    ) {
        let stamp = [StampTag::new("a", "z").unwrap(), StampTag::new("peer", "x y").unwrap()];
        let stamp: &[StampTag] = if stamped { &stamp } else { &[] };
        let options = Options { stamp, unsigned: true, ..options(precision) };
        let (key, sampler) = (MarkKey::default(), Sampler::new(7, share));
        let (mut plain, mut lines) = (Vec::new(), Vec::new());
        let mut notes = Notes {
            marks: marked.then(|| Marks::new(key.clone())),
            newest: timed.then(NewestTime::default),
            sample: sampled.then(|| Sample::new(sampler)),
        };
        for body in [&a, &b] {
            let outcome = normalise(body, &options, &mut plain);
            prop_assert_eq!(notes.normalise(body, &options, &mut lines), outcome);
        }
        prop_assert_eq!(&lines, &plain);
        if let Some(marks) = &notes.marks {
            let walked = Marks::of(key, &lines);
            prop_assert_eq!(marks.iter().collect::<Vec<_>>(), walked.iter().collect::<Vec<_>>());
            for (mark, record) in marks.iter().zip(points(&lines)) {
                prop_assert_eq!(mark.time_ns, read(record).unwrap().time_ns);
            }
        }
        let newest = points(&lines).map(|record| read(record).unwrap().time_ns).max();
        let noted = (timed && !marked).then_some(newest.unwrap_or(i64::MIN));
        prop_assert_eq!(notes.newest_ns(), noted);
        if sampled {
            let walked = Sample::of(sampler, &lines);
            prop_assert_eq!(notes.sampled(), walked.points());
            let is_chosen = |point: &&[u8]| sampler.chooses(read(point).unwrap().time_ns);
            let chosen = points(&lines).filter(is_chosen);
            let sampled = notes.sampled().iter().map(|point| &lines[point.range.clone()]);
            prop_assert_eq!(sampled.collect::<Vec<_>>(), chosen.collect::<Vec<_>>());
        }
    }

    #[test]
    fn records_are_taken_out_with_their_notes(
        body in body(), out in proptest::collection::vec(any::<bool>(), 8), share in share(),
    ) {
        let (key, sampler) = (MarkKey::default(), Sampler::new(7, share));
        let mut lines = Vec::new();
        let mut notes = Notes {
            marks: Some(Marks::new(key.clone())),
            newest: None,
            sample: Some(Sample::new(sampler)),
        };
        notes.normalise(&body, &options(Precision::Nanosecond), &mut lines);
        let is_out = |number: usize| out.get(number).is_some_and(|out| *out);
        let kept: Vec<_> = points(&lines).enumerate().filter(|(n, _)| !is_out(*n)).collect();
        let kept: Vec<u8> = kept.into_iter().flat_map(|(_, record)| record.to_vec()).collect();
        let marks = notes.marks.as_ref().unwrap();
        let numbers: Vec<usize> = (0..marks.len()).filter(|n| is_out(*n)).collect();
        let removal = Removal::from(&mut lines, marks, &numbers);
        notes.take_out(&removal);
        prop_assert_eq!(&lines, &kept);
        let (walked, marks) = (Marks::of(key, &lines), notes.marks.as_ref().unwrap());
        prop_assert_eq!(marks.iter().collect::<Vec<_>>(), walked.iter().collect::<Vec<_>>());
        let walked = Sample::of(sampler, &lines);
        prop_assert_eq!(notes.sampled(), walked.points());
    }

    #[test]
    fn notes_end_where_the_lines_are_cut(a in body(), b in body(), share in share()) {
        let (key, sampler) = (MarkKey::default(), Sampler::new(7, share));
        let options = options(Precision::Nanosecond);
        let new = || Notes {
            marks: Some(Marks::new(key.clone())),
            newest: None,
            sample: Some(Sample::new(sampler)),
        };
        let (mut lines, mut notes, mut alone) = (Vec::new(), new(), new());
        alone.normalise(&a, &options, &mut Vec::new());
        notes.normalise(&a, &options, &mut lines);
        let len = lines.len();
        notes.normalise(&b, &options, &mut lines);
        notes.truncate(len);
        let of = |notes: &Notes| -> Vec<_> {
            notes.marks.iter().flat_map(Marks::iter).copied().collect()
        };
        prop_assert_eq!(of(&notes), of(&alone));
        prop_assert_eq!(notes.sampled(), alone.sampled());
    }

    #[test]
    fn splitting_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let joined: Vec<u8> = points(&bytes).flatten().copied().collect();
        prop_assert_eq!(&joined, &bytes);
        series(&bytes);
    }
}
