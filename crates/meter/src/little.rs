//! Little's law on a closed loop: at any moment each connection waits for an answer, or is between
//! an answer and its next request. So the connections are rate times (latency + turnaround +
//! think). What is missing was lost to the measurement itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What connections did within the time that is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Nanoseconds from sends to answers, of all connections.
    #[serde(with = "text")]
    pub answers: u128,
    /// Nanoseconds from answers to sends, think time apart.
    #[serde(with = "text")]
    pub turnarounds: u128,
    /// Nanoseconds of think time.
    #[serde(with = "text")]
    pub thinking: u128,
    /// Nanoseconds in which a connection was not open: it was being opened anew.
    #[serde(with = "text")]
    pub reopening: u128,
    /// Nanoseconds in which a connection had nothing more to send.
    #[serde(with = "text")]
    pub idle: u128,
}

impl Occupancy {
    /// Adds what another thread saw.
    pub fn add(&mut self, other: &Self) {
        self.answers += other.answers;
        self.turnarounds += other.turnarounds;
        self.thinking += other.thinking;
        self.reopening += other.reopening;
        self.idle += other.idle;
    }

    /// How many connections that makes over so long.
    pub fn connections(&self, measured: Duration) -> f64 {
        let busy = self.answers + self.turnarounds + self.thinking + self.reopening + self.idle;
        busy as f64 / measured.as_nanos().max(1) as f64
    }
}

/// Numbers of more digits than JSON's readers take.
mod text {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(number: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Occupancy;

    #[test]
    fn what_connections_did_adds_up_to_their_number() {
        let mut occupancy = Occupancy { answers: 3_000_000_000, ..Occupancy::default() };
        occupancy.add(&Occupancy { turnarounds: 1_000_000_000, ..Occupancy::default() });
        assert!((occupancy.connections(Duration::from_secs(1)) - 4.0).abs() < 1e-9);
    }
}
