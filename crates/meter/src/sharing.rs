//! A run that several injectors share: who sent which part, and what speaks against the sum.

mod clock;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::network::{Network, NetworkPath};
use crate::part::RunPart;
use crate::verdict::Doubt;
pub use clock::{ClockOffset, ClockSample, OFFSET_ERROR_MAX};

/// The injectors of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharing {
    /// How many parts the run has.
    pub parts: u64,
    /// Those that are there, by their parts.
    pub injectors: Vec<PartInjector>,
}

/// The injector of one part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartInjector {
    pub part: RunPart,
    /// What its machine is called.
    pub host: String,
    /// The shortest round trip to each address, where the kernel told one.
    pub round_trips: Vec<(String, Duration)>,
    /// How long it sent, of what counts.
    pub measured: Duration,
    /// What speaks against its part.
    pub doubts: Vec<Doubt>,
    /// How far its clock was from that of whoever started it; nothing where nobody did.
    #[serde(default)]
    pub clock: Option<ClockOffset>,
    /// How it was lost amid the run, where it was.
    #[serde(default)]
    pub lost: Option<LostInjector>,
}

/// An injector that was lost amid a run: what it had sent by then counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostInjector {
    /// The first second of which there is nothing from it.
    pub second: u64,
    pub why: String,
}

/// By how much round trips of two injectors to one address may differ: by more than this factor,
/// and by more than this time.
const ROUND_TRIPS_FACTOR: u32 = 2;
const ROUND_TRIPS_MIN: Duration = Duration::from_micros(200);

/// By how much the ends of parts may differ: whoever ends them early tells one after the other.
const ENDS_APART_MAX: Duration = Duration::from_millis(200);

impl PartInjector {
    /// That of a part which has sent for so long, has seen this of the network, and can't be
    /// believed for these reasons.
    pub fn new(
        part: RunPart,
        host: String,
        network: &Network,
        measured: Duration,
        doubts: Vec<Doubt>,
    ) -> Self {
        let told = |way: &NetworkPath| Some((way.address.clone(), way.round_trip?));
        let round_trips = network.ways().into_iter().filter_map(told).collect();
        Self { part, host, round_trips, measured, doubts, clock: None, lost: None }
    }

    fn lost(&self) -> Option<Doubt> {
        let LostInjector { second, why } = self.lost.as_ref()?;
        Some(Doubt {
            cause: format!(
                "part {} ({}) was lost at second {second}, and its requests were not sent from \
                 there on: {why}",
                self.part, self.host
            ),
            remedy: "run it again; what was measured before is right".to_owned(),
        })
    }

    fn unknown_clock(&self) -> Option<Doubt> {
        let clock = self.clock.filter(|clock| clock.error > OFFSET_ERROR_MAX)?;
        Some(Doubt {
            cause: format!(
                "the clock of part {} ({}) is known to \u{b1}{:.1?} only, and \
                 {OFFSET_ERROR_MAX:?} is the most: its windows are not those of the others",
                self.part, self.host, clock.error
            ),
            remedy: "bring the injectors nearer to whoever starts them, or leave their machines \
                     more CPU"
                .to_owned(),
        })
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hosts: Vec<_> = self.injectors.iter().map(|of| &*of.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        write!(f, "{} of {} parts, from {}", self.injectors.len(), self.parts, hosts.join(", "))?;
        let mut before = "; clocks: ";
        for injector in &self.injectors {
            let Some(clock) = injector.clock else { continue };
            write!(f, "{before}{} {clock}", injector.host)?;
            before = ", ";
        }
        Ok(())
    }
}

impl Sharing {
    /// Why the sum of the parts can't be believed; nothing where it can.
    pub fn doubts(&self) -> Vec<Doubt> {
        let missing = (1..=self.parts).filter(|number| {
            self.injectors.iter().all(|injector| injector.part.number() != *number)
        });
        let missing: Vec<_> = missing.map(|number| number.to_string()).collect();
        let mut doubts = Vec::new();
        if !missing.is_empty() {
            doubts.push(Doubt {
                cause: format!("of {} parts there is no part {}", self.parts, missing.join(", ")),
                remedy: "its requests were not sent, or its results are elsewhere: run all parts \
                         again, or merge its directory, too"
                    .to_owned(),
            });
        }
        doubts.extend(self.injectors.iter().filter_map(PartInjector::lost));
        doubts.extend(self.injectors.iter().filter_map(PartInjector::unknown_clock));
        doubts.extend(self.unlike_ends());
        doubts.extend(self.unlike_ways());
        // What is a small share of the sum may be all of a part.
        doubts.extend(self.injectors.iter().flat_map(|injector| {
            let of_part = |doubt: &Doubt| Doubt {
                cause: format!("of part {} ({}) {}", injector.part, injector.host, doubt.cause),
                remedy: doubt.remedy.clone(),
            };
            injector.doubts.iter().map(of_part)
        }));
        doubts
    }

    /// Where a part has ended before another, a rate of the sum is of no time.
    fn unlike_ends(&self) -> Option<Doubt> {
        let ended = || self.injectors.iter().filter(|injector| injector.lost.is_none());
        let first = ended().min_by_key(|injector| injector.measured)?;
        let last = ended().max_by_key(|injector| injector.measured)?;
        (first.measured + ENDS_APART_MAX < last.measured).then(|| Doubt {
            cause: format!(
                "part {} ended after {:.1?}, and part {} after {:.1?}",
                first.part, first.measured, last.part, last.measured
            ),
            remedy:
                "run all parts to one end: the sum has the requests of the longer one, and the \
                     time of the shorter"
                    .to_owned(),
        })
    }

    /// For each address the nearest and the farthest injector, where that is another world.
    fn unlike_ways(&self) -> impl Iterator<Item = Doubt> {
        let each = self.injectors.iter().flat_map(|injector| {
            injector.round_trips.iter().map(move |(address, trip)| (address, *trip, injector))
        });
        let mut ways: Vec<_> = each.collect();
        ways.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
        let by_address = ways.chunk_by(|a, b| a.0 == b.0);
        let doubts: Vec<_> = by_address
            .filter_map(|ways| {
                let (address, least, near) = ways.first()?;
                let (_, most, far) = ways.last()?;
                is_unlike(*least, *most).then(|| Doubt {
                    cause: format!(
                        "the least round trip to {address} is {least:.1?} from part {} ({}) and \
                         {most:.1?} from part {} ({})",
                        near.part, near.host, far.part, far.host
                    ),
                    remedy:
                        "run all injectors at one distance from the server: the percentiles of \
                             their sum are those of two networks"
                            .to_owned(),
                })
            })
            .collect();
        doubts.into_iter()
    }
}

/// Whether two round trips are those of two networks.
fn is_unlike(least: Duration, most: Duration) -> bool {
    most > least * ROUND_TRIPS_FACTOR && most - least > ROUND_TRIPS_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    fn sharing(parts: u64, injectors: &[(u64, &[(&str, u32)])]) -> Sharing {
        let injector = |(number, ways): &(u64, &[(&str, u32)])| PartInjector {
            part: RunPart::new(*number, parts).unwrap(),
            host: format!("host{number}"),
            round_trips: ways.iter().map(|(at, us)| ((*at).to_owned(), US * *us)).collect(),
            measured: Duration::from_secs(10),
            doubts: Vec::new(),
            clock: None,
            lost: None,
        };
        Sharing { parts, injectors: injectors.iter().map(injector).collect() }
    }

    #[test]
    fn a_part_that_is_missing_speaks_against_the_run() {
        let whole = sharing(2, &[(1, &[]), (2, &[])]);
        assert_eq!(whole.doubts(), []);
        assert_eq!(whole.to_string(), "2 of 2 parts, from host1, host2");
        let doubts = sharing(4, &[(1, &[]), (3, &[])]).doubts();
        assert_eq!(doubts[0].cause, "of 4 parts there is no part 2, 4");
    }

    #[test]
    fn what_speaks_against_a_part_speaks_against_the_run() {
        let mut whole = sharing(2, &[(1, &[]), (2, &[])]);
        let (cause, remedy) = ("it was late".to_owned(), "more threads".to_owned());
        whole.injectors[1].doubts.push(Doubt { cause, remedy });
        assert_eq!(whole.doubts()[0].cause, "of part 2/2 (host2) it was late");
        whole.injectors[1].doubts.clear();
        whole.injectors[1].measured /= 2;
        assert_eq!(whole.doubts()[0].cause, "part 2/2 ended after 5.0s, and part 1/2 after 10.0s");
    }

    #[test]
    fn an_injector_that_was_lost_or_has_an_unknown_clock_speaks_against_the_run() {
        let mut whole = sharing(2, &[(1, &[]), (2, &[])]);
        let clock = |millis| {
            Some(ClockOffset { ahead_ns: 3_000_000_000, error: Duration::from_millis(millis) })
        };
        whole.injectors[0].clock = clock(5);
        assert_eq!(whole.doubts(), []);
        let shown = "2 of 2 parts, from host1, host2; clocks: host1 +3.0s \u{b1}5.0ms";
        assert_eq!(whole.to_string(), shown);
        whole.injectors[0].clock = clock(6);
        assert!(whole.doubts()[0].cause.contains("(host1) is known to \u{b1}6.0ms only"));
        whole.injectors[0].clock = None;
        let lost = &mut whole.injectors[1];
        lost.lost = Some(LostInjector { second: 3, why: "it hung up".to_owned() });
        lost.measured = Duration::from_secs(3);
        let doubts = whole.doubts();
        assert_eq!(doubts.len(), 1, "its end is no second reason: {doubts:?}");
        assert!(doubts[0].cause.starts_with("part 2/2 (host2) was lost at second 3"));
    }

    #[test]
    fn injectors_at_two_distances_speak_against_the_run() {
        let ways = |first, second| {
            sharing(2, &[(1, &[("a", first), ("b", 100)]), (2, &[("a", second)])]).doubts()
        };
        for (first, second, unlike) in [
            (100, 150, false),
            (100, 250, false),
            (100, 300, false),
            (100, 301, true),
            (900, 1_200, false),
            (900, 1_801, true),
            (2_100, 100, true),
        ] {
            assert_eq!(ways(first, second).len(), usize::from(unlike), "{first} {second}");
        }
        let cause = &ways(2_100, 100)[0].cause;
        assert!(cause.contains("100.0\u{b5}s from part 2/2 (host2)"), "{cause}");
    }
}
