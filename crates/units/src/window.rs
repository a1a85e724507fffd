//! A span of each day in the configuration, as `02:00-05:30`, in UTC.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const MINUTE_SECS: u64 = 60;
const DAY_MINUTES: u64 = 24 * 60;

/// What was written is not a span of a day.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a span of a day; write \"02:00-05:00\", in UTC, or \"00:00-24:00\" for always"
)]
pub struct WindowError(String);

/// A span of each day, in UTC. One that ends before it begins goes on past midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// In minutes after midnight, as `to` is.
    from: u64,
    to: u64,
}

impl Window {
    /// From one hour of the day to another.
    pub const fn of_hours(from: u64, to: u64) -> Self {
        Self { from: from * 60, to: to * 60 }
    }

    /// When the window that is open at `now` began; `None` where none is.
    pub fn opened(self, now: SystemTime) -> Option<SystemTime> {
        let seconds = now.duration_since(UNIX_EPOCH).ok()?.as_secs();
        let minute = seconds / MINUTE_SECS % DAY_MINUTES;
        let length = match self.to > self.from {
            true => self.to - self.from,
            false => self.to + DAY_MINUTES - self.from,
        };
        let since = (minute + DAY_MINUTES - self.from) % DAY_MINUTES;
        let into = since * MINUTE_SECS + seconds % MINUTE_SECS;
        (since < length).then(|| UNIX_EPOCH + Duration::from_secs(seconds.saturating_sub(into)))
    }
}

impl FromStr for Window {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Self, WindowError> {
        let wrong = || WindowError(text.to_owned());
        let (from, to) = text.split_once('-').ok_or_else(wrong)?;
        let minutes = |text: &str| {
            let (hours, minutes) = text.trim().split_once(':')?;
            let number = |text: &str| {
                let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
                is_number.then(|| text.parse::<u64>().ok()).flatten()
            };
            let (hours, minutes) = (number(hours)?, number(minutes)?);
            let all = hours * 60 + minutes;
            (minutes < 60 && all <= DAY_MINUTES).then_some(all)
        };
        let (from, to) = (minutes(from).ok_or_else(wrong)?, minutes(to).ok_or_else(wrong)?);
        match from < DAY_MINUTES && from != to {
            true => Ok(Self { from, to }),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [from, to] = [self.from, self.to].map(|at| (at / 60, at % 60));
        write!(f, "{:02}:{:02}-{:02}:{:02}", from.0, from.1, to.0, to.1)
    }
}

impl Serialize for Window {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Window {
    fn schema_name() -> Cow<'static, str> {
        "Window".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[0-9]{2}:[0-9]{2} ?- ?[0-9]{2}:[0-9]{2}$",
            "description": "A span of each day in UTC, as \"02:00-05:00\".",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{DAY_MINUTES, Window};

    fn at(minute: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs((3 * DAY_MINUTES + minute) * 60 + 7)
    }

    #[test]
    fn a_window_is_read_and_shown_again() {
        for text in ["02:00-05:00", "23:30-00:15", "00:00-24:00"] {
            assert_eq!(text.parse::<Window>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "02:00",
            "2:00-5:00",
            "02:60-03:00",
            "24:00-01:00",
            "02:00-02:00",
            "25:00-26:00",
            "+2:00-03:00",
        ] {
            assert!(text.parse::<Window>().is_err(), "{text}");
        }
    }

    #[test]
    fn it_is_open_within_its_span_and_knows_since_when() {
        let night = "23:30-00:15".parse::<Window>().unwrap();
        assert_eq!(night.opened(at(23 * 60 + 29)), None);
        assert_eq!(night.opened(at(15)), None);
        let began = night.opened(at(23 * 60 + 30)).unwrap();
        assert_eq!(at(23 * 60 + 30).duration_since(began).unwrap().as_secs(), 7);
        let after_midnight = night.opened(at(DAY_MINUTES + 14)).unwrap();
        assert_eq!(after_midnight, began, "it is one window, over midnight");
        assert!("00:00-24:00".parse::<Window>().unwrap().opened(at(700)).is_some());
    }

    proptest! {
        #[test]
        fn it_is_open_for_as_long_as_it_says(from in 0..DAY_MINUTES, length in 1..DAY_MINUTES) {
            let window = Window { from, to: (from + length) % DAY_MINUTES };
            let open = (0..DAY_MINUTES).filter(|minute| window.opened(at(*minute)).is_some());
            prop_assert_eq!(open.count() as u64, length);
        }

        #[test]
        fn no_time_and_no_text_make_it_panic(seconds in any::<u32>(), text in ".{0,12}") {
            let now = UNIX_EPOCH + Duration::from_secs(seconds.into());
            let _ = Window::of_hours(2, 5).opened(now);
            let _ = text.parse::<Window>();
        }
    }
}
