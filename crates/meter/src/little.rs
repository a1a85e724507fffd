//! Little's law on a closed loop: at any moment each connection waits for an answer, or is between
//! an answer and its next request. So the connections are rate times (latency + turnaround +
//! think). What is missing was lost to the measurement itself.

use std::time::Duration;

/// What connections did within the time that is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Nanoseconds from sends to answers, of all connections.
    pub answers: u128,
    /// Nanoseconds from answers to sends, think time apart.
    pub turnarounds: u128,
    /// Nanoseconds of think time.
    pub thinking: u128,
    /// Nanoseconds in which a connection was not open: it was being opened anew.
    pub reopening: u128,
    /// Nanoseconds in which a connection had nothing more to send.
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
