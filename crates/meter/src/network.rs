//! The network's part of what requests take, by the address that connections lead to: how long they
//! took to open, and the shortest round trip that the kernel has seen (`tcpi_min_rtt`), read when
//! each was open. The kernel's usual round trip, `tcpi_rtt`, is none of it: acknowledgements ride
//! on answers, so that it grows by what the server takes.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hlog;
use crate::recorder::{Times, nanoseconds};

/// The way to an address.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NetworkPath {
    pub address: String,
    /// How long connections took to open, by the kernel's handshake.
    #[serde(with = "hlog::within")]
    pub connects: Times,
    /// The shortest round trip; nothing where the kernel does not tell.
    pub round_trip: Option<Duration>,
}

/// The ways to all addresses.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Network {
    ways: Vec<NetworkPath>,
    /// Addresses of the server's name that were not used, each with why.
    pub left_out: Vec<(SocketAddr, String)>,
    /// The longest that a round trip should take.
    pub expected: Option<Duration>,
}

impl Network {
    /// Notes a connection that was opened.
    pub fn note(&mut self, address: &str, took: Duration, round_trip: Option<Duration>) {
        let way = self.way(address);
        way.connects.note(nanoseconds(took));
        way.round_trip = least(way.round_trip, round_trip);
    }

    /// Notes an address of the server's name that takes no connection.
    pub fn leave_out(&mut self, address: SocketAddr, why: &str) {
        if self.left_out.iter().all(|(known, _)| *known != address) {
            self.left_out.push((address, why.to_owned()));
        }
    }

    fn way(&mut self, address: &str) -> &mut NetworkPath {
        let known = self.ways.iter().position(|way| way.address == address);
        let at = known.unwrap_or_else(|| {
            let (address, connects) = (address.to_owned(), Times::new());
            self.ways.push(NetworkPath { address, connects, round_trip: None });
            self.ways.len() - 1
        });
        &mut self.ways[at]
    }

    /// Adds what another thread has opened.
    pub fn add(&mut self, other: &Self) {
        for theirs in &other.ways {
            let way = self.way(&theirs.address);
            way.connects.add(&theirs.connects);
            way.round_trip = least(way.round_trip, theirs.round_trip);
        }
    }

    /// Each way, in the order of addresses.
    pub fn ways(&self) -> Vec<&NetworkPath> {
        let mut ways: Vec<_> = self.ways.iter().collect();
        ways.sort_by(|a, b| a.address.cmp(&b.address));
        ways
    }

    /// How long all connections took to open.
    pub fn connects(&self) -> Times {
        let mut all = Times::new();
        self.ways.iter().for_each(|way| all.add(&way.connects));
        all
    }

    /// The shortest way: its round trip, else the time in which a connection opened.
    pub fn shortest(&self) -> Duration {
        let told = self.ways.iter().filter_map(|way| way.round_trip).min();
        told.unwrap_or_else(|| self.connects().quantile(0.0))
    }

    /// The ways that take longer than is expected, each with its round trip.
    pub fn too_long(&self) -> Vec<(&str, Duration)> {
        let over = self.ways().into_iter().filter_map(|way| {
            let took = way.round_trip.unwrap_or_else(|| way.connects.quantile(0.0));
            let is_over = self.expected.is_some_and(|expected| took > expected);
            is_over.then_some((&*way.address, took))
        });
        over.collect()
    }
}

fn least(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    [a, b].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Network;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn each_address_has_its_way_and_the_longest_is_held_against_what_is_expected() {
        let mut network = Network::default();
        network.note("b:1", 500 * US, Some(300 * US));
        let mut other = Network::default();
        other.note("a:1", 90 * US, Some(40 * US));
        other.note("b:1", 400 * US, Some(350 * US));
        other.note("c:1", 4000 * US, None);
        network.add(&other);
        let ways: Vec<_> =
            network.ways().iter().map(|way| (&*way.address, way.round_trip)).collect();
        assert_eq!(ways, [("a:1", Some(40 * US)), ("b:1", Some(300 * US)), ("c:1", None)]);
        assert_eq!((network.shortest(), network.connects().count()), (40 * US, 4));
        assert!(network.too_long().is_empty());
        network.expected = Some(200 * US);
        let over: Vec<_> = network.too_long().iter().map(|(address, _)| *address).collect();
        // Where the kernel does not tell, the time in which a connection opened does.
        assert_eq!(over, ["b:1", "c:1"]);
    }
}
