//! Logins that fail are slowed, by the address that they come from.
//!
//! What a client sends is checked at once, so whoever knows the password never waits here for the
//! failures of others; it is the refusal that comes late. The first few of an address come at
//! once, since people mistype; those after it are told one after the other. Going away does not
//! shorten that. While too many refusals of an address are still to be told, whoever comes from
//! there waits before it is asked, the last one first; but for users who have logged in from
//! there, each of whom is counted by itself.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use watch::metrics::Counter;

use super::turns::WaitList;

/// Refusals that come at once.
const AT_ONCE: u32 = 5;
/// After so long one more does.
const FORGIVEN: Duration = Duration::from_secs(10);
/// How late one comes that does not.
const LATE: Duration = Duration::from_secs(1);
/// The time between two of them, however many connections there are.
const APART: Duration = Duration::from_millis(50);
/// A refusal comes no later than this, since a login has a time limit of its own.
const LATE_MAX: Duration = Duration::from_secs(20);
/// While so many are to be told, whoever comes waits.
const UNTOLD_MAX: usize = 64;
/// Addresses that are kept.
const PLACES_MAX: usize = 4096;
/// Users who have logged in from an address that are kept.
const FRIENDS_MAX: usize = 10_000;

/// Where clients come from. Whoever has one address of IPv6 mostly has all of its /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Network {
    /// Clients of a Unix socket.
    Local,
    Address(IpAddr),
    /// Those for which there is no room.
    Others,
}

/// Whose failures are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoginSource {
    network: Network,
    /// One who has logged in from there; `None`: all who have not.
    friend: Option<Arc<str>>,
}

/// What has failed, and where.
#[derive(Debug, Default)]
pub struct Slowing(Mutex<LoginRecords>);

#[derive(Debug, Default)]
struct LoginRecords {
    places: HashMap<LoginSource, Failures>,
    friends: HashSet<LoginSource>,
    /// The same, oldest first.
    order: VecDeque<LoginSource>,
}

#[derive(Debug, Default)]
struct Failures {
    count: u32,
    /// From when on one of them is forgiven after another.
    since: Option<Instant>,
    /// When the last refusal is told.
    told: Option<Instant>,
    untold: usize,
    waiting: WaitList<()>,
}

impl Failures {
    fn is_over(&self, now: Instant) -> bool {
        let forgiven = |since| now.duration_since(since) >= FORGIVEN * self.count;
        self.untold == 0 && self.waiting.is_empty() && self.since.is_none_or(forgiven)
    }

    /// One more: how late its refusal is to be.
    fn add(&mut self, now: Instant) -> Duration {
        let since = *self.since.get_or_insert(now);
        let forgiven = now.duration_since(since).as_secs() / FORGIVEN.as_secs();
        let forgiven = u32::try_from(forgiven).unwrap_or(u32::MAX);
        self.since = Some(since + FORGIVEN * forgiven.min(self.count));
        self.count = self.count.saturating_sub(forgiven);
        if self.count == 0 {
            self.since = Some(now);
        }
        self.count = (self.count + 1).min(2 * AT_ONCE);
        if self.count <= AT_ONCE {
            return Duration::ZERO;
        }
        let next = self.told.map_or(now, |told| told + APART);
        let told = next.clamp(now + LATE, now + LATE_MAX);
        self.told = Some(told);
        told.duration_since(now)
    }
}

impl Slowing {
    /// Waits until somebody from there may be asked.
    pub async fn enter(&self, from: Option<IpAddr>, user: &str) -> LoginSource {
        let (place, waiting) = self.entering(from, user);
        if let Some(waiting) = waiting {
            // It ends as well when the place is forgotten.
            let _ = waiting.await;
        }
        place
    }

    fn entering(
        &self,
        from: Option<IpAddr>,
        user: &str,
    ) -> (LoginSource, Option<oneshot::Receiver<()>>) {
        let network = Network::of(from);
        let mut known = self.0.lock();
        let friend = LoginSource { network, friend: Some(user.into()) };
        let place = match known.friends.contains(&friend) {
            true => friend,
            false => LoginSource { network, friend: None },
        };
        let failures = known.places.get_mut(&place);
        let crowded = failures.filter(|failures| failures.untold >= UNTOLD_MAX);
        let waiting = crowded.map(|failures| failures.waiting.join());
        (place, waiting)
    }

    /// Waits until a client may be told that its login has failed, and counts in `slowed` whether
    /// that is late. The time counts for those who go away as well. Needs a tokio runtime.
    pub async fn wait_to_refuse(self: &Arc<Self>, mut place: LoginSource, slowed: &Counter) {
        let late = self.failed(&mut place, Instant::now());
        if late.is_zero() {
            return;
        }
        slowed.inc();
        let slowing = Arc::clone(self);
        let over = tokio::spawn(async move {
            tokio::time::sleep(late).await;
            slowing.told(&place);
        });
        let _ = over.await;
    }

    /// A login has failed: how late it is to be told. [`told`](Self::told) is called then, whether
    /// or not the client is still there.
    fn failed(&self, place: &mut LoginSource, now: Instant) -> Duration {
        let mut known = self.0.lock();
        if !known.places.contains_key(place) && known.places.len() >= PLACES_MAX {
            known.places.retain(|_, failures| !failures.is_over(now));
            if known.places.len() >= PLACES_MAX {
                *place = LoginSource { network: Network::Others, friend: None };
            }
        }
        let failures = known.places.entry(place.clone()).or_default();
        let late = failures.add(now);
        if !late.is_zero() {
            failures.untold += 1;
        }
        late
    }

    /// A refusal that was to be late has been told.
    fn told(&self, place: &LoginSource) {
        let mut known = self.0.lock();
        let Some(failures) = known.places.get_mut(place) else { return };
        failures.untold = failures.untold.saturating_sub(1);
        let few = failures.untold < UNTOLD_MAX / 2;
        while failures.waiting.give(()).is_none() && few {}
    }

    /// A user has logged in from there.
    pub fn succeeded(&self, place: LoginSource, user: &str) {
        if place.friend.is_some() {
            return;
        }
        let friend = LoginSource { friend: Some(user.into()), ..place };
        let mut known = self.0.lock();
        if known.friends.insert(friend.clone()) {
            known.order.push_back(friend);
        }
        if known.order.len() > FRIENDS_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            known.friends.remove(&oldest);
        }
    }
}

impl Network {
    fn of(from: Option<IpAddr>) -> Self {
        match from.map(|address| address.to_canonical()) {
            None => Self::Local,
            Some(IpAddr::V6(address)) if !address.is_loopback() => {
                let network = address.to_bits() & (u128::MAX << 64);
                Self::Address(Ipv6Addr::from_bits(network).into())
            }
            Some(address) => Self::Address(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(address: &str) -> Option<IpAddr> {
        Some(address.parse().unwrap())
    }

    fn fail(slowing: &Slowing, address: &str, user: &str, now: Instant) -> Duration {
        let (mut place, waiting) = slowing.entering(from(address), user);
        assert!(waiting.is_none());
        slowing.failed(&mut place, now)
    }

    #[test]
    fn the_first_refusals_come_at_once_and_the_others_one_after_the_other() {
        let (slowing, now) = (Slowing::default(), Instant::now());
        let late: Vec<Duration> =
            (0..8).map(|n| fail(&slowing, "10.0.0.1", &n.to_string(), now)).collect();
        assert_eq!(late[..5], [Duration::ZERO; 5]);
        assert_eq!(late[5..], [LATE, LATE + APART, LATE + 2 * APART]);
        assert_eq!(fail(&slowing, "10.0.0.2", "ann", now), Duration::ZERO);
        // A while later some are forgiven.
        let later = now + 6 * FORGIVEN;
        assert_eq!(fail(&slowing, "10.0.0.1", "ann", later), Duration::ZERO);
        // No login is kept waiting beyond its own limit.
        let crowd = Slowing::default();
        let mut place = crowd.entering(from("10.0.0.3"), "ann").0;
        let latest = (0..10_000).map(|_| crowd.failed(&mut place, now)).max();
        assert_eq!(latest, Some(LATE_MAX));
    }

    #[test]
    fn one_house_is_one_address_and_a_neighbour_is_not() {
        let (slowing, now) = (Slowing::default(), Instant::now());
        for last in 1..=5 {
            let address = format!("2001:db8::{last}");
            assert_eq!(fail(&slowing, &address, "ann", now), Duration::ZERO);
        }
        assert!(!fail(&slowing, "2001:db8::6", "ann", now).is_zero());
        assert!(fail(&slowing, "2001:db8:0:1::6", "ann", now).is_zero());
        assert_eq!(Network::of(from("::ffff:10.0.0.1")), Network::of(from("10.0.0.1")));
    }

    #[test]
    fn who_has_logged_in_from_there_does_not_wait_behind_strangers() {
        let (slowing, now) = (Slowing::default(), Instant::now());
        let (place, _) = slowing.entering(from("10.0.0.1"), "ann");
        slowing.succeeded(place.clone(), "ann");
        let mut strangers = place;
        for _ in 0..UNTOLD_MAX + 5 {
            slowing.failed(&mut strangers, now);
        }
        let (ann, waiting) = slowing.entering(from("10.0.0.1"), "ann");
        assert!(waiting.is_none());
        let (_, early) = slowing.entering(from("10.0.0.1"), "bob");
        let (_, late) = slowing.entering(from("10.0.0.1"), "eve");
        let (mut early, mut late) = (early.unwrap(), late.unwrap());
        slowing.told(&strangers);
        assert!(late.try_recv().is_ok() && early.try_recv().is_err(), "the last one first");
        for _ in 0..UNTOLD_MAX / 2 {
            slowing.told(&strangers);
        }
        assert!(early.try_recv().is_ok(), "nobody waits for nothing");
        // Whoever guesses her password is slowed as well.
        let mut hers = ann;
        let late = (0..6).map(|_| slowing.failed(&mut hers, now)).max();
        assert_eq!(late, Some(LATE));
    }

    #[test]
    fn addresses_without_number_take_no_memory_without_end() {
        let (slowing, now) = (Slowing::default(), Instant::now());
        for n in 0..3 * PLACES_MAX as u32 {
            let mut place = slowing.entering(Some(IpAddr::from(n.to_be_bytes())), "ann").0;
            slowing.failed(&mut place, now);
        }
        assert!(slowing.0.lock().places.len() <= PLACES_MAX + 1);
        for n in 0..2 * FRIENDS_MAX {
            let place = slowing.entering(from("10.0.0.1"), "x").0;
            slowing.succeeded(place, &n.to_string());
        }
        assert_eq!(slowing.0.lock().friends.len(), FRIENDS_MAX);
    }
}
