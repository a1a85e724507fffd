//! HdrHistogram's interval log, version 1.3, as its own tools read and write it: a line for each
//! histogram of each window, `Tag=...,start,length,max,base64`. What is in base64 is a histogram in
//! its encoding V2, compressed (`AbstractHistogram.encodeIntoCompressedByteBuffer` of HdrHistogram
//! 2.1): big-endian heads, counts as ZigZag LEB128, and each run of empty ones as minus its length.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read, Write as _};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use crate::recorder::{DIGITS, LONGEST, Times};

/// Before a histogram, and before one that is compressed. The tens say that words are a byte.
const COOKIE: u32 = 0x1c84_9303 | 0x10;
const COOKIE_COMPRESSED: u32 = 0x1c84_9304 | 0x10;
/// The head of a histogram: cookie, length, normalising offset, digits, lowest, highest, ratio.
const HEAD: usize = 40;
/// A histogram with all counts at their largest is shorter.
const LEN_MAX: u64 = 1 << 20;
/// A line has a histogram in base64, its tag and its times.
const LINE_MAX: u64 = 2 * LEN_MAX;
/// What a comment begins with that is of a window.
const NOTE: &str = "#[Traffic: ";
/// The unit of the column that people read: milliseconds.
const MAX_UNIT: f64 = 1e6;

/// What stands before the first window. `comments` are shown and read by nobody.
pub fn head(from: SystemTime, comments: &[&str]) -> String {
    let since = from.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs_f64();
    let mut text = String::new();
    for comment in comments {
        text.extend(["#[", &comment.replace('\n', " "), "]\n"]);
    }
    let _ = writeln!(text, "#[Histogram log format version 1.3]");
    let _ = writeln!(text, "#[StartTime: {seconds:.3} (seconds since epoch)]");
    let _ = writeln!(text, "#[BaseTime: {seconds:.3} (seconds since epoch)]");
    text.push_str("\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",");
    text.push_str("\"Interval_Compressed_Histogram\"\n");
    text
}

/// Appends a histogram's line. Tags have neither blanks nor commas.
pub fn line(out: &mut String, tag: Option<&str>, start: Duration, length: Duration, times: &Times) {
    debug_assert!(tag.is_none_or(|tag| !tag.contains([',', ' ', '\n', '\r'])));
    if let Some(tag) = tag {
        out.extend(["Tag=", tag, ","]);
    }
    let max = times.max().as_nanos() as f64 / MAX_UNIT;
    let (start, length) = (start.as_secs_f64(), length.as_secs_f64());
    let _ = write!(out, "{start:.3},{length:.3},{max:.3},");
    BASE64.encode_string(encode(times), out);
    out.push('\n');
}

/// Appends a comment of the window that began then: other tools leave it out.
pub fn note(out: &mut String, start: Duration, text: &str) {
    let _ = writeln!(out, "{NOTE}{:.3} {text}]", start.as_secs_f64());
}

/// What a line of a log has that was read.
#[derive(Debug, Clone)]
pub enum LogLine {
    Histogram(Line),
    /// What [`note`] has written of the window that began then.
    Note(Duration, String),
}

impl LogLine {
    /// When its window began, since the log's begin.
    pub fn start(&self) -> Duration {
        match self {
            Self::Histogram(line) => line.start,
            Self::Note(start, _) => *start,
        }
    }
}

/// A histogram's line of a log.
#[derive(Debug, Clone)]
pub struct Line {
    /// Tells histograms of one window apart.
    pub tag: Option<String>,
    /// When its window began, since the log's begin.
    pub start: Duration,
    /// How long its window was.
    pub length: Duration,
    pub times: Times,
}

/// A log can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the interval log is damaged: {what}")]
pub struct LogError {
    line: usize,
    what: &'static str,
}

/// The histograms of a log, as [`read_all`] reads them.
pub fn read(log: impl BufRead) -> impl Iterator<Item = Result<Line, LogError>> {
    read_all(log).filter_map(|line| match line {
        Ok(LogLine::Histogram(line)) => Some(Ok(line)),
        Ok(LogLine::Note(..)) => None,
        Err(error) => Some(Err(error)),
    })
}

/// Reads a log line by line: a day of histograms does not fit in memory. A last line without an end
/// was cut off when its writer was killed, and is left out. Behind an error there is nothing more.
pub fn read_all(mut log: impl BufRead) -> impl Iterator<Item = Result<LogLine, LogError>> {
    let (mut text, mut number, mut is_over) = (Vec::new(), 0, false);
    std::iter::from_fn(move || {
        while !is_over {
            text.clear();
            number += 1;
            let got = log.by_ref().take(LINE_MAX).read_until(b'\n', &mut text);
            let found = match got {
                Ok(_) if text.ends_with(b"\n") => {
                    let text = text.trim_ascii_end();
                    let is_note = text.starts_with(NOTE.as_bytes());
                    let is_comment = text.starts_with(b"#") && !is_note;
                    if text.is_empty() || is_comment || text.starts_with(b"\"") {
                        continue;
                    }
                    let text = std::str::from_utf8(text).map_err(|_| "it is not text");
                    match is_note {
                        true => text.and_then(read_note),
                        false => text.and_then(read_line).map(LogLine::Histogram),
                    }
                }
                Ok(len) if (len as u64) < LINE_MAX => {
                    is_over = true;
                    continue;
                }
                Ok(_) => Err("it is longer than a histogram can be"),
                Err(_) => Err("it can't be read"),
            };
            is_over = found.is_err();
            return Some(found.map_err(|what| LogError { line: number, what }));
        }
        None
    })
}

fn read_note(text: &str) -> Result<LogLine, &'static str> {
    let inner = text.strip_prefix(NOTE).and_then(|text| text.strip_suffix(']'));
    let (start, text) = inner.and_then(|text| text.split_once(' ')).ok_or("its note is damaged")?;
    Ok(LogLine::Note(span(start)?, text.to_owned()))
}

fn span(text: &str) -> Result<Duration, &'static str> {
    let seconds: f64 = text.trim().parse().map_err(|_| "a time is not a number")?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "a time is out of range")
}

fn read_line(text: &str) -> Result<Line, &'static str> {
    let (tag, rest) = match text.strip_prefix("Tag=") {
        None => (None, text),
        Some(rest) => {
            let (tag, rest) = rest.split_once(',').ok_or("it ends behind its tag")?;
            (Some(tag.to_owned()), rest)
        }
    };
    let mut fields = rest.splitn(4, ',');
    let mut next = || fields.next().ok_or("it has too few fields");
    let (start, length, _max) = (span(next()?)?, span(next()?)?, next()?);
    let bytes = BASE64.decode(next()?.trim()).map_err(|_| "its histogram is not base64")?;
    Ok(Line { tag, start, length, times: decode(&bytes)? })
}

/// A histogram in encoding V2, compressed.
fn encode(times: &Times) -> Vec<u8> {
    let mut counts = Vec::new();
    let mut empty = 0_i64;
    for count in times.counts() {
        if count == 0 {
            empty += 1;
            continue;
        }
        if empty > 0 {
            put(&mut counts, -empty);
            empty = 0;
        }
        put(&mut counts, i64::try_from(count).unwrap_or(i64::MAX));
    }
    let mut whole = Vec::with_capacity(HEAD + counts.len());
    whole.extend(COOKIE.to_be_bytes());
    whole.extend((counts.len() as u32).to_be_bytes());
    whole.extend(0_u32.to_be_bytes());
    whole.extend(u32::from(DIGITS).to_be_bytes());
    whole.extend(1_u64.to_be_bytes());
    whole.extend(LONGEST.to_be_bytes());
    whole.extend(1_f64.to_be_bytes());
    whole.extend(counts);
    let compressed = compress(&whole).unwrap_or_default();
    let len = compressed.len() as u32;
    [&COOKIE_COMPRESSED.to_be_bytes()[..], &len.to_be_bytes(), &compressed].concat()
}

/// Memory takes all that is written to it.
fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn decode(bytes: &[u8]) -> Result<Times, &'static str> {
    let word = |bytes: &[u8], at: usize| -> Option<u32> {
        bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
    };
    if word(bytes, 0) != Some(COOKIE_COMPRESSED) {
        return Err("its histogram is not of encoding V2, compressed");
    }
    let mut whole = Vec::new();
    let unpacked = ZlibDecoder::new(bytes.get(8..).unwrap_or_default()).take(LEN_MAX);
    { unpacked }.read_to_end(&mut whole).map_err(|_| "its histogram can't be unpacked")?;
    let highest = whole.get(24..32).and_then(|eight| eight.try_into().ok()).map(u64::from_be_bytes);
    let ours = (Some(COOKIE), Some(0), Some(u32::from(DIGITS)), Some(LONGEST));
    if (word(&whole, 0), word(&whole, 8), word(&whole, 12), highest) != ours {
        return Err("its histogram has other bounds than this program's");
    }
    let mut rest = whole.get(HEAD..).unwrap_or_default();
    let (mut times, mut at) = (Times::new(), 0_usize);
    while !rest.is_empty() {
        let count = take(&mut rest).ok_or("a count of its histogram is cut off")?;
        if count < 0 {
            at = at.saturating_add(usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX));
        } else {
            let fits = times.note_at(at, count.unsigned_abs());
            if !fits {
                return Err("its histogram has more counts than there can be");
            }
            at += 1;
        }
    }
    Ok(times)
}

/// ZigZag LEB128, whose ninth byte has eight bits.
fn put(out: &mut Vec<u8>, value: i64) {
    let mut value = ((value << 1) ^ (value >> 63)).cast_unsigned();
    for _ in 0..8 {
        if value < 0x80 {
            out.push(value as u8);
            return;
        }
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0_u64;
    for at in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = if at < 8 { byte & 0x7f } else { *byte };
        value |= u64::from(bits) << (7 * at);
        if at == 8 || byte & 0x80 == 0 {
            break;
        }
    }
    Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
}

/// A histogram as it is in a log, by itself.
pub fn text(times: &Times) -> String {
    BASE64.encode(encode(times))
}

/// The histogram that [`text`] gave.
///
/// # Errors
/// What is wrong with it.
pub fn times(text: &str) -> Result<Times, &'static str> {
    decode(&BASE64.decode(text).map_err(|_| "it is not base64")?)
}

/// Histograms within other documents, as they are in a log.
pub mod within {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Times;

    /// Writes a histogram as text.
    ///
    /// # Errors
    /// As the serializer's.
    pub fn serialize<S: Serializer>(times: &Times, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::text(times))
    }

    /// Reads a histogram from its text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Times, D::Error> {
        super::times(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

    use super::{Line, LogError, head, line, put, take};
    use crate::recorder::Times;

    fn read(text: &str) -> Result<Vec<Line>, LogError> {
        super::read(text.as_bytes()).collect()
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn times(values: &[u64]) -> Times {
        let mut times = Times::new();
        values.iter().for_each(|value| times.note(*value));
        times
    }

    #[test]
    fn a_log_is_laid_out_as_other_tools_expect_it() {
        let from = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
        let mut log = head(from, &["of a\ntest"]);
        line(&mut log, None, SECOND, SECOND, &times(&[1_000_000, 2_000_000]));
        line(&mut log, Some("http.latency"), 2 * SECOND, SECOND, &times(&[]));
        let lines: Vec<_> = log.lines().collect();
        assert_eq!(lines[0], "#[of a test]");
        assert_eq!(lines[1], "#[Histogram log format version 1.3]");
        assert_eq!(lines[2], "#[StartTime: 1700000000.250 (seconds since epoch)]");
        assert!(lines[5].starts_with("1.000,1.000,2.001,HISTFAAAA"), "{}", lines[5]);
        assert!(lines[6].starts_with("Tag=http.latency,2.000,1.000,0.000,HISTFAAAA"));
        let found = read(&log).unwrap();
        assert_eq!((found.len(), found[0].times.count(), found[1].times.count()), (2, 2, 0));
        assert_eq!((found[1].tag.as_deref(), found[1].start), (Some("http.latency"), 2 * SECOND));
    }

    #[test]
    fn a_line_that_was_cut_off_by_a_kill_is_left_out_and_a_damaged_one_is_told() {
        let mut log = head(SystemTime::UNIX_EPOCH, &[]);
        line(&mut log, None, SECOND, SECOND, &times(&[5]));
        let whole = log.len();
        line(&mut log, None, 2 * SECOND, SECOND, &times(&[5, 6]));
        for end in whole..log.len() {
            assert_eq!(read(&log[..end]).unwrap().len(), 1);
        }
        for (from, to) in [("HIST", "XIST"), ("2.000,", ""), ("1.000,0.000", "x,0.000")] {
            let damaged = log.replacen(from, to, 9);
            assert!(read(&damaged).unwrap_err().to_string().starts_with("line "), "{from}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn what_is_written_is_read(
            values in proptest::collection::vec(0..4_000_000_000_000_u64, 0..200),
        ) {
            let mut log = String::new();
            line(&mut log, None, SECOND, SECOND, &times(&values));
            let found: Vec<_> = read(&log).unwrap()[0].times.counts().collect();
            prop_assert_eq!(found, times(&values).counts().collect::<Vec<_>>());
        }
    }

    proptest! {
        #[test]
        fn any_count_is_read_as_it_was_put(value in any::<i64>()) {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            prop_assert_eq!(take(&mut &bytes[..]), Some(value));
        }

        #[test]
        fn no_text_panics(text in "(Tag=a,)?[0-9.,]{0,12}[A-Za-z0-9+/]{0,40}\n?") {
            let _ = read(&text);
        }

        #[test]
        fn no_bytes_of_a_histogram_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut whole = super::COOKIE.to_be_bytes().to_vec();
            whole.extend([0; 8]);
            whole.extend(3_u32.to_be_bytes());
            whole.extend(1_u64.to_be_bytes());
            whole.extend(crate::recorder::LONGEST.to_be_bytes());
            whole.extend(1_f64.to_be_bytes());
            whole.extend(bytes);
            let packed = super::compress(&whole).unwrap();
            let head = super::COOKIE_COMPRESSED.to_be_bytes();
            let _ = super::decode(&[&head[..], &[0; 4], &packed].concat());
        }
    }
}
