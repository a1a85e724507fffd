//! In which order keys come: those of Redis, or rows of a table.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use crate::chance::{Chance, Zipf, special};

/// The largest exponent of Zipf's distribution.
const EXPONENT_MAX: f64 = 5.0;
/// What YCSB and others take.
const EXPONENT: f64 = 0.99;

/// An order of keys is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an order of keys: it is uniform, sequence, special, zipf or zipf:1.2")]
pub struct OrderError(String);

/// In which order keys come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Order {
    /// Each as often as any other.
    Uniform,
    /// Few come often, with this exponent.
    Zipf(f64),
    /// Most of them are of the middle, as sysbench has it.
    Special,
    /// One after the other, and again from the first.
    Sequence,
}

impl Display for Order {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            Self::Special => f.write_str("special"),
            Self::Sequence => f.write_str("sequence"),
        }
    }
}

impl FromStr for Order {
    type Err = OrderError;

    fn from_str(text: &str) -> Result<Self, OrderError> {
        let wrong = || OrderError(text.to_owned());
        match text.split_once(':').unwrap_or((text, "")) {
            ("uniform", "") => Ok(Self::Uniform),
            ("sequence", "") => Ok(Self::Sequence),
            ("special", "") => Ok(Self::Special),
            ("zipf", "") => Ok(Self::Zipf(EXPONENT)),
            ("zipf", exponent) => match exponent.parse() {
                Ok(exponent) if exponent > 0.0 && exponent <= EXPONENT_MAX => {
                    Ok(Self::Zipf(exponent))
                }
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}

/// So many keys in an order.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    count: u64,
    order: Drawn,
}

/// An order with what is worked out once.
#[derive(Debug, Clone, Copy)]
enum Drawn {
    Uniform,
    Zipf(Zipf),
    Special,
    Sequence,
}

impl Keys {
    /// Those from 0 to below `count`, which is at least 1.
    pub fn new(count: u64, order: Order) -> Self {
        let count = count.max(1);
        let order = match order {
            Order::Uniform => Drawn::Uniform,
            Order::Zipf(exponent) => Drawn::Zipf(Zipf::new(count, exponent)),
            Order::Special => Drawn::Special,
            Order::Sequence => Drawn::Sequence,
        };
        Self { count, order }
    }

    /// A key; `in_sequence` is how many were drawn before it.
    pub fn draw(&self, in_sequence: u64, chance: &mut Chance) -> u64 {
        match self.order {
            Drawn::Uniform => chance.below(self.count),
            Drawn::Zipf(zipf) => zipf.draw(chance),
            Drawn::Special => special(self.count, chance),
            Drawn::Sequence => in_sequence % self.count,
        }
    }
}
