//! Addresses that wrong passwords came from, and how long the next one waits for its answer.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

/// Answers to wrong passwords are given at multiples of this time since their requests came: so it
/// does not show what was done meanwhile.
pub const STEP: Duration = Duration::from_millis(250);
/// The longest that an answer is kept back for what came from its address before, in steps.
const STEPS_MAX: u32 = 32;
/// After so long without a failure an address is as any other.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 4096;

/// What came from where.
#[derive(Debug, Default)]
pub struct Failures(Mutex<HashMap<IpAddr, Failed>>);

#[derive(Clone, Copy, Debug)]
struct Failed {
    times: u32,
    last: Instant,
}

impl Failures {
    fn all(&self) -> MutexGuard<'_, HashMap<IpAddr, Failed>> {
        self.0.lock()
    }

    /// Whether wrong passwords came from there lately.
    pub fn is_suspect(&self, address: IpAddr) -> bool {
        let last = self.all().get(&whole(address)).map(|failed| failed.last);
        last.is_some_and(|last| last.elapsed() < FORGOTTEN)
    }

    /// Notes a failure; gives after how many steps it is to be told: twice as many each time.
    pub fn note(&self, address: IpAddr) -> u32 {
        let now = Instant::now();
        let mut all = self.all();
        let recent = |failed: &Failed| now.duration_since(failed.last) < FORGOTTEN;
        if all.len() >= ADDRESSES_MAX {
            all.retain(|_, failed| recent(failed));
            if all.len() >= ADDRESSES_MAX {
                all.clear();
            }
        }
        let failed = all.entry(whole(address)).or_insert(Failed { times: 0, last: now });
        if !recent(failed) {
            failed.times = 0;
        }
        failed.times = failed.times.saturating_add(1);
        failed.last = now;
        1_u32.checked_shl(failed.times - 1).map_or(STEPS_MAX, |steps| steps.clamp(1, STEPS_MAX))
    }
}

/// An address of version 6 stands for its network: one client has all of it.
fn whole(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_from_an_address_is_told_later_and_others_are_not() {
        let failures = Failures::default();
        let [one, same, other] = ["2001:db8::1", "2001:db8::2:3", "10.0.0.1"]
            .map(|address| address.parse::<IpAddr>().unwrap());
        assert!(!failures.is_suspect(one));
        let steps: Vec<u32> = (0..8).map(|_| failures.note(one)).collect();
        assert_eq!(steps, [1, 2, 4, 8, 16, 32, 32, 32]);
        assert!(failures.is_suspect(same) && !failures.is_suspect(other));
        assert_eq!((failures.note(same), failures.note(other)), (32, 1));
        assert_eq!((0..100).map(|_| failures.note(one)).max(), Some(32));
    }

    #[test]
    fn so_many_addresses_are_remembered_and_no_more() {
        let failures = Failures::default();
        for number in 0..3 * ADDRESSES_MAX as u32 {
            failures.note(IpAddr::from(number.to_be_bytes()));
            assert!(failures.all().len() <= ADDRESSES_MAX);
        }
    }
}
