//! What can be chosen, and its limits.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use super::{DIGITS, Mix, OWN};
use crate::chance::Chance;
use crate::keys::Order;

/// The most keys, which is what the digits of one can say.
const KEYS_MAX: u64 = 10_u64.pow(DIGITS as u32);
/// The most commands of a pipeline.
const PIPELINE_MAX: u32 = 10_000;
/// The most bytes of all values of a request; a server takes 512 MiB of one by default.
const REQUEST_BYTES_MAX: usize = 256 << 20;
/// The options of a load are wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RedisError {
    /// A part of a mix.
    #[error("{0:?} can't be in a mix: write it as get=9,set=1, with names out of: {names}",
            names = super::names().collect::<Vec<_>>().join(", "))]
    Mix(String),
    /// A command is there twice.
    #[error("{0} is in the mix twice")]
    Twice(&'static str),
    /// The path of the URL.
    #[error("{0:?} is not a database: write the URL as redis://host:port/0")]
    Database(String),
    #[error("{0:?} is not a size of values: write it as 100, or as 10-1000")]
    Sizes(String),
    /// A ledger can't be kept beside it.
    #[error("{0} changes what a ledger is kept of: beside --ledger a mix has set, rpush and reads")]
    Unkept(&'static str),
    /// There is nothing to keep a ledger of.
    #[error("--ledger is kept of set and rpush, and the mix has neither")]
    NothingKept,
    /// A limit is exceeded.
    #[error("{0}")]
    Limit(String),
}

/// How long values are, in bytes: from the least to the most, each as often as any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    least: usize,
    most: usize,
}

impl Sizes {
    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn draw(&self, chance: &mut Chance) -> usize {
        match self.most - self.least {
            0 => self.least,
            more => self.least + chance.below(more as u64 + 1) as usize,
        }
    }
}

impl Display for Sizes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.least, self.most)
    }
}

impl FromStr for Sizes {
    type Err = RedisError;

    fn from_str(text: &str) -> Result<Self, RedisError> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        match (least.trim().parse(), most.trim().parse()) {
            (Ok(least), Ok(most)) if least <= most => Ok(Self { least, most }),
            _ => Err(RedisError::Sizes(text.to_owned())),
        }
    }
}

/// Everything but the commands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// How many keys of each type there are.
    pub keys: u64,
    /// In which order they come.
    pub order: Order,
    /// How long values are.
    pub sizes: Sizes,
    /// How many commands a request has.
    pub pipeline: u32,
    /// What chance begins with.
    pub seed: u64,
    /// The run that a ledger is kept of: what it writes nobody else does.
    pub run: Option<u64>,
}

impl Options {
    /// Refuses what is beyond a limit.
    pub(super) fn check(&self, mix: &Mix) -> Result<(), RedisError> {
        let limit = |words: String| Err(RedisError::Limit(words));
        if self.keys == 0 || self.keys > KEYS_MAX {
            return limit(format!("there are 1 to {KEYS_MAX} keys"));
        }
        if self.pipeline == 0 || self.pipeline > PIPELINE_MAX {
            return limit(format!("a pipeline has 1 to {PIPELINE_MAX} commands"));
        }
        if self.run.is_some() && self.sizes.least < OWN {
            return limit(format!(
                "a value that a ledger is kept of has {OWN} bytes at least: it has a number"
            ));
        }
        let values = mix.values().saturating_mul(self.pipeline as usize);
        // The values' bytes are cut from a block that is as long as the longest of them.
        if values.max(1).saturating_mul(self.sizes.most) > REQUEST_BYTES_MAX {
            return limit(format!(
                "the values of a request have {REQUEST_BYTES_MAX} bytes at most"
            ));
        }
        Ok(())
    }
}
