//! From lines to records.

use super::fast::{Plain, TagKeys, plain};
use super::fault::{Fault, Faults, KEY_BYTES_MAX, TIME_MAX_NS, TIME_MIN_NS};
use super::frame::{line_end, skip_blanks};
use super::marks::Marking;
use super::point::{self, KEY_SEPARATOR_BYTES, Point};
use super::{Options, Outcome, Precision, StampTag, tags};

/// Digits and sign of an int64.
const INTEGER_BYTES_MAX: usize = 20;

/// What is known while the lines of one body go by.
pub(super) struct Normaliser<'a, M> {
    body: &'a [u8],
    options: &'a Options<'a>,
    out: &'a mut Vec<u8>,
    marking: M,
    /// Start of the lines that wait to be copied as they are, all at once.
    run: usize,
    /// What a point without a timestamp gets.
    default_ns: i64,
    /// Bytes that the stamp may add to a key.
    stamp_bytes: usize,
    points: u32,
    faults: Faults,
    dropped: u32,
    reason: Option<String>,
}

impl<'a, M: Marking> Normaliser<'a, M> {
    pub(super) fn new(
        body: &'a [u8],
        options: &'a Options<'a>,
        out: &'a mut Vec<u8>,
        marking: M,
    ) -> Self {
        let unit = options.precision.nanoseconds();
        let now_ns = options.now_ns.clamp(TIME_MIN_NS, TIME_MAX_NS);
        // Cutting may leave the range only at its lower end, in 1677.
        let default_ns = now_ns.checked_sub(now_ns.rem_euclid(unit)).unwrap_or(now_ns);
        Self {
            body,
            options,
            out,
            marking,
            run: 0,
            default_ns: default_ns.max(TIME_MIN_NS),
            stamp_bytes: options.stamp.iter().map(|tag| tag.encoded().len()).sum(),
            points: 0,
            faults: Faults::default(),
            dropped: 0,
            reason: None,
        }
    }

    pub(super) fn run(mut self) -> Outcome {
        self.out.reserve(self.body.len() + 1);
        let mut keys = TagKeys::new();
        let mut at = 0;
        while at < self.body.len() {
            let mut form = self.marking.form();
            at = match plain(self.body, at, &mut keys, &mut form) {
                Some(line) if self.take_plain(at, line, &keys, form) => line.end + 1,
                _ => self.take_odd(at),
            };
        }
        self.flush(self.body.len());
        Outcome {
            points: self.points,
            bad: self.faults.count,
            error: self.faults.into_text(),
            dropped: self.dropped,
            reason: self.reason,
        }
    }

    /// Copies the run of lines that end before `to`.
    #[inline]
    fn flush(&mut self, to: usize) {
        if let Some(lines) = self.body.get(self.run..to) {
            self.out.extend_from_slice(lines);
        }
    }

    /// False when the line is not so plain after all.
    #[inline]
    fn take_plain(&mut self, start: usize, line: Plain, keys: &TagKeys, form: M::Form) -> bool {
        let body = self.body;
        let stamped = self.options.stamp.iter().any(|tag| !keys.contains(body, tag.encoded_key()));
        let as_it_is = self.options.precision == Precision::Nanosecond
            && line.has_time
            && line.end < body.len();
        let units = || parse_units(&body[line.fields_end + 1..line.end]);
        if as_it_is && !stamped {
            if M::IS_ON {
                let Some(time_ns) = units() else { return false };
                // Where it will be, once the run that it is of is copied.
                let end = self.out.len() + line.end + 1 - self.run;
                self.marking.note(form, time_ns, end);
            }
            self.points += 1;
            return true;
        }
        let time_ns = match line.has_time {
            false => Some(self.default_ns),
            true => units().and_then(|units| point::scale(units, self.options.precision)),
        };
        let Some(time_ns) = time_ns else { return false };
        if line.end - start + KEY_SEPARATOR_BYTES + self.stamp_bytes > KEY_BYTES_MAX {
            return false;
        }
        self.flush(start);
        self.out.extend_from_slice(&body[start..line.key_end]);
        if stamped {
            let missing = |tag: &&StampTag| !keys.contains(body, tag.encoded_key());
            for tag in self.options.stamp.iter().filter(missing) {
                self.out.extend_from_slice(tag.encoded());
            }
        }
        self.out.extend_from_slice(&body[line.key_end..line.fields_end]);
        push_time(self.out, time_ns);
        self.marking.note(form, time_ns, self.out.len());
        self.points += 1;
        self.run = line.end + 1;
        true
    }

    /// Takes the line at `start` the careful way, and returns where the next one starts.
    #[cold]
    fn take_odd(&mut self, start: usize) -> usize {
        self.flush(start);
        let end = line_end(self.body, start);
        self.run = end + 1;
        let line = &self.body[skip_blanks(self.body, start).min(end)..end];
        if matches!(line.first(), None | Some(b'#')) {
            return end + 1;
        }
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let parsed = point::parse(line, self.options.precision, self.options.unsigned);
        match parsed.and_then(|point| self.push_odd(line, point)) {
            Ok(()) => {}
            Err(fault) => self.faults.add(line, fault),
        }
        end + 1
    }

    fn push_odd(&mut self, line: &'a [u8], point: Point) -> Result<(), Fault<'a>> {
        let key = &line[..point.key_end];
        let fields = &line[point.fields_start..point.fields_end];
        if let Some(reason) = why_dropped(key, fields) {
            self.dropped = self.dropped.saturating_add(1);
            self.reason.get_or_insert(reason);
            return Ok(());
        }
        let record = self.out.len();
        self.out.extend_from_slice(key);
        for tag in self.options.stamp {
            if tags::tag_keys(key).all(|key| key != tag.encoded_key()) {
                self.out.extend_from_slice(tag.encoded());
            }
        }
        let key_len = self.out.len() - record;
        self.out.extend_from_slice(&line[point.key_end..point.fields_end]);
        let time_ns = point.time_ns.unwrap_or(self.default_ns);
        push_time(self.out, time_ns);
        if let Err(fault) = check_record(&self.out[record..], key_len, fields, time_ns) {
            self.out.truncate(record);
            return Err(fault);
        }
        self.marking.note_record(&self.out[record..], self.out.len());
        self.points += 1;
        Ok(())
    }
}

/// What InfluxDB parses and then refuses whatever is stored (`tsdb/shard.go`,
/// `validateSeriesAndFields`).
fn why_dropped(key: &[u8], fields: &[u8]) -> Option<String> {
    let what = if tags::tag_keys(key).any(|tag| tag == b"time") {
        "tag key: input tag"
    } else if point::has_only_time_fields(fields) {
        "field name: input field"
    } else {
        return None;
    };
    let measurement = tags::measurement_name(key);
    Some(format!("invalid {what} \"time\" on measurement \"{measurement}\" is invalid"))
}

/// Reads an odd record back: in any company it must end where it ends and mean what it means.
///
/// A backslash at the end of the fields would escape the space before an added timestamp, and
/// InfluxDB's splitter and parser disagree on some quotes and backslashes.
fn check_record<'a>(
    record: &[u8],
    key_len: usize,
    fields: &[u8],
    time_ns: i64,
) -> Result<(), Fault<'a>> {
    let newline = record.len() - 1;
    if line_end(record, 0) != newline {
        return Err(Fault::AmbiguousEnd);
    }
    match point::parse(&record[..newline], Precision::Nanosecond, true) {
        Ok(read) => {
            let same = read.key_end == key_len
                && record[read.fields_start..read.fields_end] == *fields
                && read.time_ns == Some(time_ns);
            if same { Ok(()) } else { Err(Fault::AmbiguousEnd) }
        }
        Err(Fault::KeyTooLong(bytes)) => Err(Fault::KeyTooLong(bytes)),
        Err(_) => Err(Fault::AmbiguousEnd),
    }
}

/// The integer that a sign and at most 19 digits spell.
fn parse_units(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let units = digits
        .iter()
        .fold(0u64, |units, digit| units.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
    let units = i64::try_from(units).ok()?;
    Some(if negative { -units } else { units })
}

/// Appends a space, the timestamp and the newline that ends a record.
fn push_time(out: &mut Vec<u8>, time_ns: i64) {
    let mut text = [b'0'; INTEGER_BYTES_MAX];
    let mut start = text.len();
    let mut rest = time_ns.unsigned_abs();
    loop {
        start -= 1;
        // A remainder of ten is a digit.
        text[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.push(b' ');
    if time_ns < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&text[start..]);
    out.push(b'\n');
}
