//! Which points of a refused part the backend's words mean. A guess that is proved by sending the
//! suspects alone, see [`super::halving`]; it spares a mixed batch from being halved to the last
//! point.

use crate::client::answer::Refusal;

/// The points of `lines` that `refusal` means, by their place; empty when its words do not tell,
/// or when they would be more than were dropped.
pub fn suspects(refusal: &Refusal, lines: &[&[u8]]) -> Vec<u32> {
    if !refusal.lines.is_empty() {
        return refusal.lines.clone();
    }
    let Some(dropped) = refusal.dropped.filter(|dropped| *dropped > 0) else {
        return Vec::new();
    };
    let found = match conflict(&refusal.words) {
        Some(conflict) => conflict.in_lines(lines),
        None if refusal.words.contains("points beyond retention policy") => oldest(lines, dropped),
        None => return Vec::new(),
    };
    // Fewer are right, too: the words name one conflict, and the next answer will name the next.
    if found.len() as u64 <= dropped { found } else { Vec::new() }
}

/// `field type conflict: input field "f" on measurement "m" is type float, already exists as type
/// integer` (InfluxDB 1.8, `tsdb/field_validator.go`).
#[derive(Debug, PartialEq, Eq)]
struct Conflict<'a> {
    field: &'a str,
    measurement: &'a str,
    /// The type the field has already; every other conflicts with it, not only the one named.
    existing: &'a str,
}

fn conflict(words: &str) -> Option<Conflict<'_>> {
    let (_, rest) = words.split_once("input field \"")?;
    let (field, rest) = rest.split_once("\" on measurement \"")?;
    let (measurement, rest) = rest.split_once("\" is type ")?;
    let (_, rest) = rest.split_once(", already exists as type ")?;
    let existing = rest.split(' ').next()?;
    Some(Conflict { field, measurement, existing })
}

impl Conflict<'_> {
    fn in_lines(&self, lines: &[&[u8]]) -> Vec<u32> {
        let measurement = escaped(self.measurement, b", ");
        let mut field = escaped(self.field, b", =");
        field.push(b'=');
        let meant = |line: &[u8]| {
            let series = wire::line::series(line);
            let rest = series.strip_prefix(measurement.as_slice());
            if !rest.is_some_and(|rest| matches!(rest.first(), None | Some(b','))) {
                return false;
            }
            let fields = line.get(series.len() + 1..).unwrap_or_default();
            has_other_type(fields, &field, self.existing)
        };
        let places = (0_u32..).zip(lines).filter(|(_, line)| meant(line));
        places.map(|(place, _)| place).collect()
    }
}

fn escaped(name: &str, special: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for byte in name.bytes() {
        if special.contains(&byte) {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out
}

/// Whether `fields` has `key=` with a value of another type than InfluxDB calls `existing`.
fn has_other_type(fields: &[u8], key: &[u8], existing: &str) -> bool {
    let starts = memchr::memmem::find_iter(fields, key);
    let mut begun = starts.filter(|at| *at == 0 || fields[at - 1] == b',');
    begun.any(|at| type_of(&fields[at + key.len()..]) != existing)
}

fn type_of(value: &[u8]) -> &'static str {
    let end = value.iter().position(|byte| matches!(byte, b',' | b' ')).unwrap_or(value.len());
    match (value.first(), value[..end].last()) {
        (Some(b'"'), _) => "string",
        (Some(b't' | b'T' | b'f' | b'F'), _) => "boolean",
        (_, Some(b'i')) => "integer",
        (_, Some(b'u')) => "unsigned",
        _ => "float",
    }
}

/// The `count` points with the smallest timestamps: a retention policy drops whatever is too old.
fn oldest(lines: &[&[u8]], count: u64) -> Vec<u32> {
    let time = |line: &[u8]| -> Option<i64> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let at = memchr::memrchr(b' ', line)?;
        std::str::from_utf8(&line[at + 1..]).ok()?.parse().ok()
    };
    let mut times: Vec<(i64, u32)> = Vec::with_capacity(lines.len());
    for (place, line) in (0_u32..).zip(lines) {
        let Some(time) = time(line) else { return Vec::new() };
        times.push((time, place));
    }
    times.sort_unstable();
    times.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    let mut places: Vec<u32> = times.into_iter().map(|(_, place)| place).collect();
    places.sort_unstable();
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::{any, proptest};

    fn refusal(words: &str, dropped: u64) -> Refusal {
        Refusal { words: words.into(), dropped: Some(dropped), lines: Vec::new() }
    }

    const CONFLICT: &str = "partial write: field type conflict: input field \"v w\" on measurement \
                            \"m,n\" is type float, already exists as type integer dropped=2";

    #[test]
    fn a_type_conflict_means_the_points_with_that_field_and_another_type() {
        let lines: [&[u8]; 7] = [
            b"m\\,n,t=1 v\\ w=1 1\n",
            b"m\\,n,t=1 v\\ w=1i 1\n",
            b"m\\,n a=1i,v\\ w=-2.5 1\n",
            b"m\\,nx v\\ w=1 1\n",
            b"m\\,n xv\\ w=1 1\n",
            b"m\\,n v\\ w=\"1\" 1\n",
            b"m\\,n,v\\ w=1 z=1 1\n",
        ];
        assert_eq!(suspects(&refusal(CONFLICT, 3), &lines), [0, 2, 5]);
        assert_eq!(suspects(&refusal(CONFLICT, 4), &lines), [0, 2, 5]);
        assert!(suspects(&refusal(CONFLICT, 2), &lines).is_empty());
    }

    #[test]
    fn points_beyond_the_policy_are_the_oldest() {
        let words = "partial write: points beyond retention policy dropped=2";
        let lines: [&[u8]; 4] = [b"m v=1 50\n", b"m v=1 -7\n", b"m v=1 90\n", b"m v=1 8\n"];
        assert_eq!(suspects(&refusal(words, 2), &lines), [1, 3]);
        assert!(suspects(&refusal("partial write: other dropped=2", 2), &lines).is_empty());
    }

    proptest! {
        #[test]
        fn no_words_and_no_lines_panic(words in ".{0,80}", dropped in any::<u64>(),
                lines in vec(vec(any::<u8>(), 0..40), 0..5)) {
            let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
            suspects(&refusal(&words, dropped), &lines);
            suspects(&refusal(CONFLICT, dropped), &lines);
        }
    }
}
