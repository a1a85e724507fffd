//! A part of a run that several injectors share: each sends the requests whose numbers it has, at
//! the times of the whole schedule, so that all parts together are the run of one injector.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The most parts of a run.
pub const PARTS_MAX: u64 = 1000;

/// One of the parts of a run; a run that is not shared has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunPart {
    /// Which it is, from 0 on.
    index: u64,
    of: u64,
}

impl RunPart {
    /// All of a run.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// The part `number`, from 1 on, of so many; nothing where there is no such part.
    pub fn new(number: u64, of: u64) -> Option<Self> {
        let is_one = (1..=of).contains(&number) && of <= PARTS_MAX;
        is_one.then_some(Self { index: number.wrapping_sub(1), of })
    }

    /// Which part it is, from 1 on.
    pub fn number(self) -> u64 {
        self.index + 1
    }

    /// Which part it is, from 0 on: requests whose numbers leave this rest are its own.
    pub fn index(self) -> u64 {
        self.index
    }

    /// How many parts the run has.
    pub fn of(self) -> u64 {
        self.of
    }

    /// Thread `thread` of `threads` among those of all parts, and how many these are.
    pub fn thread(self, thread: usize, threads: usize) -> (u64, u64) {
        (thread as u64 * self.of + self.index, threads as u64 * self.of)
    }

    /// Its share of what the whole run has so many of.
    pub fn share(self, count: usize) -> usize {
        let (count, of) = (count as u64, self.of);
        let share = count / of + u64::from(self.index < count % of);
        usize::try_from(share).unwrap_or(usize::MAX)
    }
}

impl Default for RunPart {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl fmt::Display for RunPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number(), self.of)
    }
}

impl TryFrom<String> for RunPart {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<RunPart> for String {
    fn from(part: RunPart) -> Self {
        part.to_string()
    }
}

impl FromStr for RunPart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').map(|(number, of)| (number.parse(), of.parse()));
        let part = match numbers {
            Some((Ok(number), Ok(of))) => Self::new(number, of),
            _ => None,
        };
        part.ok_or_else(|| {
            format!("{text:?} is not a part: write it as 2/4, of at most {PARTS_MAX}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::RunPart;

    #[test]
    fn parts_have_numbers_from_one_on() {
        let part: RunPart = "2/4".parse().unwrap();
        assert_eq!((part.number(), part.index(), part.of()), (2, 1, 4));
        assert_eq!(part.to_string(), "2/4");
        for wrong in ["", "2", "0/4", "5/4", "1/0", "1/1001", "-1/4", "a/b", "1/2/3"] {
            assert!(wrong.parse::<RunPart>().is_err(), "{wrong}");
        }
        assert_eq!(RunPart::default().to_string(), "1/1");
    }

    #[test]
    fn threads_and_connections_of_all_parts_are_those_of_the_run() {
        for of in 1..5 {
            let parts = || (1..=of).map(move |number| RunPart::new(number, of).unwrap());
            let shares: usize = parts().map(|part| part.share(10)).sum();
            assert_eq!(shares, 10);
            assert!(parts().all(|part| part.share(10).abs_diff(10 / of as usize) <= 1));
            let mut threads: Vec<_> =
                parts().flat_map(|part| (0..3).map(move |thread| part.thread(thread, 3))).collect();
            threads.sort_unstable();
            let all: Vec<_> = (0..3 * of).map(|thread| (thread, 3 * of)).collect();
            assert_eq!(threads, all);
        }
    }
}
