//! What was measured: a second for ten minutes, a minute for a day, in a bounded memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write};

/// Seconds, and minutes, that are kept.
const SECONDS: usize = 600;
const MINUTES: usize = 1440;
/// Lines that are kept: with 8,160 bytes each, and their names, 8 MiB at the most.
pub const LINES_MAX: usize = 900;
/// The longest name of a line.
const NAME_BYTES_MAX: usize = 200;
/// A line without a value for so many seconds gives its place to a new one.
const FORGOTTEN_SECONDS: u64 = 600;
/// Lines of each kind that an answer has: those of the worst servers.
const SHOWN_MAX: usize = 8;

/// Numbers at places that follow each other, the newest `LEN` of them.
#[derive(Debug)]
struct Ring<const LEN: usize>(Box<[f32]>);

impl<const LEN: usize> Ring<LEN> {
    fn new() -> Self {
        Self(vec![f32::NAN; LEN].into())
    }

    fn put(&mut self, place: u64, value: f32) {
        let at = (place % LEN as u64) as usize;
        if let Some(slot) = self.0.get_mut(at) {
            *slot = value;
        }
    }

    fn get(&self, place: u64) -> f32 {
        self.0.get((place % LEN as u64) as usize).copied().unwrap_or(f32::NAN)
    }

    /// The numbers up to `newest`, oldest first, from the first that is there.
    fn until(&self, newest: u64) -> Vec<f32> {
        let oldest = (newest + 1).saturating_sub(LEN as u64);
        (oldest..=newest).map(|place| self.get(place)).skip_while(|value| value.is_nan()).collect()
    }
}

/// One line of a chart.
#[derive(Debug)]
struct Line {
    seconds: Ring<SECONDS>,
    minutes: Ring<MINUTES>,
    /// Of the minute under way.
    minute: Minute,
    /// The second of the newest value.
    seen: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Minute {
    sum: f64,
    most: f64,
    count: u32,
}

impl Minute {
    fn add(&mut self, value: f64) {
        self.most = if self.count == 0 { value } else { self.most.max(value) };
        self.sum += value;
        self.count += 1;
    }

    /// Of rates the mean, of all else the worst.
    fn value(self, name: &str) -> f32 {
        match self.count {
            0 => f32::NAN,
            count if is_rate(name) => (self.sum / f64::from(count)) as f32,
            _ => self.most as f32,
        }
    }
}

impl Line {
    fn new() -> Self {
        Self { seconds: Ring::new(), minutes: Ring::new(), minute: Minute::default(), seen: 0 }
    }
}

/// Whether a line is of so many a second, rather than of a time or of a number that waits.
fn is_rate(name: &str) -> bool {
    let kind = kind_of(name);
    const RATES: [&str; 10] = [
        "points",
        "requests",
        "errors",
        "bytes",
        "sent",
        "groups",
        "rate",
        "statements",
        "commands",
        "cpu",
    ];
    RATES.iter().any(|rate| kind.ends_with(rate))
}

/// What a line measures: its name without that of the server.
fn kind_of(name: &str) -> &str {
    name.split_once('|').map_or(name, |(kind, _)| kind)
}

/// The lines of all charts.
#[derive(Debug, Default)]
pub struct History {
    lines: BTreeMap<String, Line>,
    /// The newest second, since 1970; 0 before the first.
    second: u64,
}

/// A whole minute: the minute since 1970, and the value of each line.
pub type WholeMinute = (u64, BTreeMap<String, f32>);

impl History {
    /// Notes what was measured at a second; gives the minute that has ended by it.
    pub fn put(&mut self, second: u64, values: &BTreeMap<String, f64>) -> Option<WholeMinute> {
        if second + (SECONDS as u64) < self.second {
            // The clock was set back.
            self.lines.values_mut().for_each(|line| *line = Line::new());
        } else if second <= self.second {
            return None;
        }
        let (ended, minute) = (self.second / 60, second / 60);
        let whole = (minute != ended && self.second > 0).then(|| (ended, self.end(ended)));
        // Where the machine slept, what was there a round ago is not of now.
        let seconds = second.saturating_sub(self.second).min(SECONDS as u64);
        let minutes = minute.saturating_sub(ended).min(MINUTES as u64);
        if self.second > 0 {
            for line in self.lines.values_mut() {
                (second + 1 - seconds..=second).for_each(|at| line.seconds.put(at, f32::NAN));
                (minute + 1 - minutes..=minute).for_each(|at| line.minutes.put(at, f32::NAN));
            }
        }
        self.second = second;
        for (name, value) in values.iter().filter(|(_, value)| value.is_finite()) {
            if let Some(line) = self.line(name) {
                line.seconds.put(second, *value as f32);
                line.minute.add(*value);
                line.seen = second;
            }
        }
        whole.filter(|(_, values)| !values.is_empty())
    }

    /// A minute has ended; gives its values.
    fn end(&mut self, minute: u64) -> BTreeMap<String, f32> {
        let mut values = BTreeMap::new();
        for (name, line) in &mut self.lines {
            let value = std::mem::take(&mut line.minute).value(name);
            line.minutes.put(minute, value);
            if !value.is_nan() {
                values.insert(name.clone(), value);
            }
        }
        values
    }

    /// The minute under way, as far as it has come.
    pub fn so_far(&self) -> WholeMinute {
        let values = self.lines.iter().map(|(name, line)| (name.clone(), line.minute.value(name)));
        (self.second / 60, values.filter(|(_, value)| !value.is_nan()).collect())
    }

    /// Puts a minute back that was kept, which is of the last day.
    pub fn restore(&mut self, minute: u64, values: impl Iterator<Item = (String, f32)>) {
        for (name, value) in values {
            if let Some(line) = self.line(&name) {
                line.minutes.put(minute, value);
            }
        }
    }

    /// The line of that name; where there is no room, that of one long without a value.
    fn line(&mut self, name: &str) -> Option<&mut Line> {
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        if !self.lines.contains_key(name) && self.lines.len() >= LINES_MAX {
            let second = self.second;
            let stale = self.lines.iter().filter(|(_, of)| of.seen + FORGOTTEN_SECONDS < second);
            let oldest = stale.min_by_key(|(_, line)| line.seen).map(|(name, _)| name.clone())?;
            self.lines.remove(&oldest);
        }
        Some(self.lines.entry(name.to_owned()).or_insert_with(Line::new))
    }

    /// Writes both resolutions for a viewer, as JSON without its closing brace: the lines of the
    /// process, those of the worst servers, and those of one that is named. Each line ends at `to`,
    /// and has a number a `step`.
    ///
    /// # Errors
    /// Only those of `out`.
    pub fn write(&self, named: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
        let names = self.worst(named);
        let minute = (self.second / 60).saturating_sub(1);
        let mut part = |opening: &str, to: u64, step: u64, of: &dyn Fn(&Line) -> Vec<f32>| {
            write!(out, "{opening}:{{\"to\":{to},\"step\":{step},\"lines\":{{")?;
            let lines = names.iter().filter_map(|name| Some((name, self.lines.get(*name)?)));
            for (at, (name, line)) in lines.enumerate() {
                let comma = if at == 0 { "" } else { "," };
                write!(out, "{comma}{}:[", serde_json::Value::from(*name))?;
                for (at, value) in of(line).into_iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(out, "{comma}{}", Digits(value))?;
                }
                write!(out, "]")?;
            }
            write!(out, "}}}}")
        };
        part("{\"second\"", self.second, 1, &|line| line.seconds.until(self.second))?;
        part(",\"minute\"", minute * 60, 60, &|line| line.minutes.until(minute))
    }

    /// The names of lines that are shown.
    fn worst(&self, named: Option<&str>) -> Vec<&str> {
        let servers: BTreeMap<&str, f32> =
            self.lines.iter().fold(BTreeMap::new(), |mut all, (name, line)| {
                if let Some((kind, server)) = name.split_once('|') {
                    let is_chief = ["waiting", "lag", "late"].iter().any(|of| kind.ends_with(of));
                    let most = line.seconds.0.iter().copied().fold(0.0, f32::max);
                    let worst = all.entry(server).or_insert(0.0_f32);
                    *worst = worst.max(if is_chief { most } else { 0.0 });
                }
                all
            });
        let mut order: Vec<(&str, f32)> = servers.into_iter().collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        let shown: BTreeSet<&str> =
            order.iter().take(SHOWN_MAX).map(|(name, _)| *name).chain(named).collect();
        let is_shown = |name: &&str| match name.split_once('|') {
            Some((_, server)) => shown.contains(server),
            None => true,
        };
        self.lines.keys().map(String::as_str).filter(is_shown).collect()
    }
}

/// A number with as many digits as a chart shows, as JSON.
struct Digits(f32);

impl fmt::Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = f64::from(self.0);
        if !value.is_finite() {
            return f.write_str("null");
        }
        if value == value.trunc() {
            return write!(f, "{value:.0}");
        }
        let scale = 10_f64.powi(3 - value.abs().log10().floor() as i32);
        let rounded = (value * scale).round() / scale;
        if rounded.is_finite() { write!(f, "{rounded}") } else { f.write_str("0") }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    impl History {
        /// What a viewer reads of it, whole.
        pub fn shown(&self, named: Option<&str>) -> Value {
            let mut text = Vec::new();
            self.write(named, &mut text).unwrap();
            text.push(b'}');
            serde_json::from_slice(&text).unwrap()
        }
    }

    fn values(of: &[(&str, f64)]) -> BTreeMap<String, f64> {
        of.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    fn seconds(history: &History, name: &str) -> Value {
        history.shown(None)["second"]["lines"][name].clone()
    }

    #[test]
    fn seconds_that_were_missed_have_no_value_and_ten_minutes_are_kept() {
        let mut history = History::default();
        history.put(6000, &values(&[("influx.points", 1.0)]));
        history.put(6003, &values(&[("influx.points", 2.5)]));
        assert_eq!(seconds(&history, "influx.points"), json!([1, null, null, 2.5]));
        history.put(6003, &values(&[("influx.points", 9.0)]));
        assert_eq!(seconds(&history, "influx.points"), json!([1, null, null, 2.5]), "only once");
        (6004..7000).for_each(|at| drop(history.put(at, &values(&[("influx.points", 3.0)]))));
        assert_eq!(seconds(&history, "influx.points").as_array().unwrap().len(), SECONDS);
        history.put(100, &values(&[("influx.points", 4.0)]));
        assert_eq!(seconds(&history, "influx.points"), json!([4]), "the clock was set");
    }

    #[test]
    fn a_minute_is_the_mean_of_rates_and_the_worst_of_all_else() {
        let mut history = History::default();
        let mut whole = None;
        for at in 600..=660 {
            let value = f64::from(u32::try_from(at).unwrap() % 2);
            let now = values(&[("influx.points", value), ("backend.waiting|a", value)]);
            whole = history.put(at, &now).or(whole);
        }
        let (minute, values) = whole.unwrap();
        assert_eq!((minute, values["influx.points"]), (10, 0.5));
        assert_eq!(values["backend.waiting|a"], 1.0);
        let mut again = History::default();
        again.restore(minute, values.into_iter());
        again.put(661, &BTreeMap::new());
        assert_eq!(again.shown(None)["minute"]["lines"]["influx.points"], json!([0.5]));
        assert_eq!(again.shown(None)["minute"]["to"], 600);
    }

    #[test]
    fn any_number_of_names_has_so_much_room_and_no_more() {
        let mut history = History::default();
        for at in (0..1000_u64).step_by(20) {
            let names: Vec<String> = (0..1000).map(|n| format!("backend.rate|{at}-{n}")).collect();
            let many = names.iter().map(|name| (name.clone(), 1.0)).collect();
            history.put(10_000 + at, &many);
            assert!(history.lines.len() <= LINES_MAX);
        }
        let newest = history.lines.values().map(|line| line.seen).max();
        assert!(newest > Some(10_600), "names that are gone make room: {newest:?}");
        history.put(12_000, &values(&[(&"x".repeat(201), 1.0)]));
        assert!(history.lines.keys().all(|name| name.len() <= NAME_BYTES_MAX));
    }

    #[test]
    fn of_many_servers_the_worst_are_drawn_and_one_that_is_named() {
        let mut history = History::default();
        let all: BTreeMap<String, f64> = (0..200)
            .flat_map(|n| {
                let (waiting, rate) =
                    (format!("backend.waiting|b{n}"), format!("backend.rate|b{n}"));
                [(waiting, f64::from(n)), (rate, f64::from(1000 - n))]
            })
            .collect();
        history.put(6000, &all);
        let shown = history.shown(Some("b3"));
        let lines = shown["second"]["lines"].as_object().unwrap();
        assert_eq!(lines.len(), 2 * (SHOWN_MAX + 1));
        assert!(lines.contains_key("backend.rate|b199") && lines.contains_key("backend.rate|b3"));
        assert!(!lines.contains_key("backend.rate|b100"));
    }

    #[test]
    fn numbers_have_four_digits() {
        let text = |value: f32| Digits(value).to_string();
        assert_eq!(text(0.123_456), "0.1235");
        assert_eq!(text(1234.567), "1235");
        assert_eq!(text(2_100_000.0), "2100000");
        let odd = [f32::NAN, 0.0, -1.5, 1e-40].map(text);
        assert_eq!(odd[..3], ["null", "0", "-1.5"]);
        assert!(odd[3].parse::<f64>().is_ok(), "{}", odd[3]);
    }
}
